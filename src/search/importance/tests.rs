//! What is said to matter, of studies of which it is known.

use super::*;

fn uniform(rng: &mut ChaCha8Rng) -> f64 {
    rng.random()
}

/// Points of so many parameters between 0 and 1, called `p00`, `p01` and so on.
fn points(trials: usize, parameters: usize, rng: &mut ChaCha8Rng) -> Vec<Params> {
    (0..trials)
        .map(|_| {
            (0..parameters)
                .map(|j| (format!("p{j:02}"), Value::Float(uniform(rng))))
                .collect()
        })
        .collect()
}

fn number(params: &Params, j: usize) -> f64 {
    params[&format!("p{j:02}")].as_f64().unwrap()
}

fn tested(points: &[Params], values: &[f64]) -> BTreeMap<String, Effect> {
    let trials: Vec<(&Params, f64)> = points.iter().zip(values.iter().copied()).collect();
    effects(&trials, 0)
}

fn names(effects: &BTreeMap<String, Effect>) -> Vec<&str> {
    let shows = |e: &Effect| matches!(e, Effect::Shows { .. });
    effects
        .iter()
        .filter(|(_, e)| shows(e))
        .map(|(n, _)| n.as_str())
        .collect()
}

#[test]
fn of_35_parameters_the_11_that_matter_are_found() {
    let mut mistakes = 0;
    for seed in 0..10 {
        let mut rng = study::rng(seed, 0, "test");
        let points = points(452, 35, &mut rng);
        // Rising, with the best in the middle, and a step, beside some noise.
        let values: Vec<f64> = points
            .iter()
            .map(|p| {
                let part = |j| match j % 3 {
                    0 => number(p, j) * 1.2,
                    1 => 5.0 * (number(p, j) - 0.5).powi(2),
                    _ => f64::from(u8::from(number(p, j) > 0.6)) * 0.8,
                };
                (0..11).map(part).sum::<f64>() + 0.5 * uniform(&mut rng)
            })
            .collect();
        let effects = tested(&points, &values);
        let found = names(&effects);
        let live = found.iter().filter(|n| **n < "p11").count();
        assert!(live >= 10, "{found:?}");
        mistakes += found.len() - live;
    }
    // One in twenty of what is said to matter.
    assert!(mistakes <= 8, "{mistakes}");
}

#[test]
fn a_best_value_in_the_middle_of_a_range_is_seen_in_few_trials() {
    let seen = (0..20).filter(|&seed| {
        let mut rng = study::rng(seed, 0, "middle");
        let points = points(25, 2, &mut rng);
        let value =
            |p: &Params| 1.0 / (1.0 + (8.0 * number(p, 0) - 4.0).powi(2)) + 0.1 * number(p, 1);
        let values: Vec<f64> = points.iter().map(value).collect();
        names(&tested(&points, &values)).contains(&"p00")
    });
    assert!(seen.count() >= 18);
}

#[test]
fn noise_shows_nothing_in_nineteen_of_twenty_studies() {
    let studies = (0..60).filter(|&seed| {
        let mut rng = study::rng(seed, 0, "noise");
        let points = points(80, 12, &mut rng);
        let values: Vec<f64> = (0..80).map(|_| uniform(&mut rng)).collect();
        !names(&tested(&points, &values)).is_empty()
    });
    assert!(studies.count() <= 6);
}

#[test]
fn a_dead_parameter_that_drifts_while_the_values_improve_is_not_taken_for_live() {
    let mut rng = study::rng(3, 0, "drift");
    let mut points = points(300, 2, &mut rng);
    let mut values = Vec::new();
    for (i, p) in points.iter_mut().enumerate() {
        let done = i as f64 / 300.0;
        let drifted = done + 0.2 * uniform(&mut rng);
        p.insert("p00".into(), Value::Float(drifted));
        values.push(done + 0.5 * number(p, 1) + 0.1 * uniform(&mut rng));
    }
    assert_eq!(names(&tested(&points, &values)), ["p01"]);
}

#[test]
fn dead_parameters_that_good_trials_have_in_common_are_not_taken_for_live() {
    let mut mistakes = 0;
    for seed in 0..20 {
        let mut rng = study::rng(seed, 0, "settled");
        let mut points = points(100, 7, &mut rng);
        // All but the first few are near the best, each fourth excepted.
        for (i, p) in points
            .iter_mut()
            .enumerate()
            .filter(|(i, _)| *i > 10 && i % 4 > 0)
        {
            for j in 0..7 {
                let place = if j == 0 { 0.3 } else { 0.95 } + 0.04 * uniform(&mut rng);
                p.insert(format!("p{j:02}"), Value::Float(place + 0.001 * i as f64));
            }
        }
        let values: Vec<f64> = points.iter().map(|p| (number(p, 0) - 0.35).abs()).collect();
        let effects = tested(&points, &values);
        let found = names(&effects);
        assert!(found.contains(&"p00"), "{found:?}");
        mistakes += found.len() - 1;
    }
    assert!(mistakes <= 4, "{mistakes}");
}

#[test]
fn a_live_parameter_is_found_beside_dead_ones_that_few_trials_have() {
    for seed in 0..10 {
        let mut rng = study::rng(seed, 0, "rare");
        let mut points = points(300, 1, &mut rng);
        for (i, p) in points.iter_mut().enumerate().filter(|(i, _)| i % 12 < 8) {
            p.insert(format!("rare{}", i % 12), Value::Float(uniform(&mut rng)));
        }
        let value = |p: &Params| number(p, 0);
        let values: Vec<f64> = points
            .iter()
            .map(value)
            .map(|v| v + 2.0 * uniform(&mut rng))
            .collect();
        let effects = tested(&points, &values);
        assert!(names(&effects).contains(&"p00"), "{effects:?}");
    }
}

#[test]
fn choices_and_parameters_that_only_some_trials_have_are_judged_too() {
    let mut rng = study::rng(4, 0, "mixed");
    let mut points = points(120, 1, &mut rng);
    let mut values = Vec::new();
    for (i, p) in points.iter_mut().enumerate() {
        let sgd = i % 2 == 0;
        p.insert("name".into(), if sgd { "sgd" } else { "adam" }.into());
        p.insert("fixed".into(), Value::Null);
        let mut value = f64::from(u8::from(sgd)) * 0.4 + 0.3 * uniform(&mut rng);
        if sgd {
            let momentum = uniform(&mut rng);
            p.insert("momentum".into(), Value::Float(momentum));
            value += momentum;
        }
        if i < FEWEST - 1 {
            p.insert("rare".into(), Value::Int(i as i64));
        }
        values.push(value);
    }
    let effects = tested(&points, &values);
    assert_eq!(names(&effects), ["momentum", "name"]);
    assert_eq!(effects["fixed"], Effect::Constant);
    assert_eq!(effects["rare"], Effect::TooFew);
}

#[test]
fn equal_values_and_infinite_ones_are_no_trouble() {
    let mut rng = study::rng(5, 0, "equal");
    let points = points(60, 3, &mut rng);
    assert!(names(&tested(&points, &[0.442; 60])).is_empty());
    let diverged: Vec<f64> = points
        .iter()
        .map(|p| {
            if number(p, 0) > 0.5 {
                f64::INFINITY
            } else {
                number(p, 0)
            }
        })
        .collect();
    assert_eq!(names(&tested(&points, &diverged)), ["p00"]);
    assert!(tested(&[], &[]).is_empty());
}
