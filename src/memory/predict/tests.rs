//! What a predictor promises.

use super::*;
use rand::RngExt;
use search::space::Value;
use search::study::rng;

const MIB: u64 = 1 << 20;

/// A training with two tables and a batch: 500 MiB, and 3 MiB a row, twice as many for `large`.
fn config(model: &str, batch: i64) -> Params {
    Params::from([
        ("model.name".to_owned(), model.into()),
        ("train.batch_size".to_owned(), batch.into()),
        ("optim.lr".to_owned(), Value::Float(1e-4)),
    ])
}

fn peak(config: &Params) -> u64 {
    let batch = config["train.batch_size"].as_i64().unwrap() as u64;
    let factor = if config["model.name"] == "large".into() {
        2
    } else {
        1
    };
    factor * (500 + 30 * batch) * MIB
}

fn observation(config: &Params, peak: u64, censored: bool) -> Observation {
    Observation {
        config: config.clone(),
        peak,
        censored,
    }
}

/// Batches of 1 to 64 of both models, measured with a noise of 1 %.
fn measured(count: u64) -> Vec<Observation> {
    let mut rng = rng(7, 0, "measured");
    let one = |_| {
        let model = if rng.random_bool(0.5) {
            "small"
        } else {
            "large"
        };
        let config = config(model, 1 << rng.random_range(0..7));
        let noise = 0.99 + 0.02 * rng.random::<f64>();
        observation(&config, (peak(&config) as f64 * noise) as u64, false)
    };
    (0..count).map(one).collect()
}

fn learned(observations: Vec<Observation>) -> Predictor {
    let mut predictor = Predictor::new(Space::default(), None);
    observations.into_iter().for_each(|o| predictor.learn(o));
    predictor
}

/// A floor of four fifths of what is used.
fn most(config: &Params) -> Option<u64> {
    Some(peak(config) / 5 * 4)
}

#[test]
fn without_floor_and_measurement_nothing_is_known() {
    let predictor = Predictor::new(Space::default(), None);
    assert_eq!(predictor.estimate(&config("small", 8)), None);
    assert_eq!(predictor.known(), 0);
}

#[test]
fn a_floor_alone_gives_a_wide_interval_above_it() {
    let predictor = Predictor::new(Space::default(), Some(Arc::new(most)));
    let config = config("large", 32);
    let estimate = predictor.estimate(&config).unwrap();
    assert!(estimate.lower.abs_diff(peak(&config) / 5 * 4) < 64);
    assert!(estimate.lower < estimate.expected && estimate.expected < estimate.upper);
    assert!(estimate.upper > 2 * estimate.lower);
}

#[test]
fn one_measurement_without_a_floor_says_little_and_fifty_say_much() {
    let target = config("large", 16);
    let width = |n| {
        let estimate = learned(measured(n)).estimate(&target).unwrap();
        assert!(estimate.lower <= estimate.expected && estimate.expected <= estimate.upper);
        estimate.upper as f64 / estimate.lower as f64
    };
    assert!(width(1) > 3.0, "{}", width(1));
    assert!(width(50) < 1.15, "{}", width(50));
    let estimate = learned(measured(50)).estimate(&target).unwrap();
    let true_peak = peak(&target);
    assert!(
        estimate.lower < true_peak && true_peak < estimate.upper,
        "{estimate:?} {true_peak}"
    );
}

#[test]
fn an_estimate_depends_on_what_was_learned_and_not_on_when_it_was_asked_for() {
    let target = config("small", 64);
    let mut asked = Predictor::new(Space::default(), Some(Arc::new(most)));
    for (n, observation) in measured(130).into_iter().enumerate() {
        asked.learn(observation);
        let mut fresh = Predictor::new(Space::default(), Some(Arc::new(most)));
        let estimate = asked.estimate(&target);
        if n % 13 == 0 {
            measured(n as u64 + 1)
                .into_iter()
                .for_each(|o| fresh.learn(o));
            assert_eq!(fresh.estimate(&target), estimate);
        }
    }
}

#[test]
fn what_ran_out_of_memory_is_expected_to_need_more_than_it_had() {
    let config = config("large", 64);
    for known in [1, 10, 40, 200] {
        let mut predictor = learned(measured(known));
        let before = predictor.estimate(&config).unwrap();
        let seen = 2 * peak(&config);
        predictor.learn(observation(&config, seen, true));
        let after = predictor.estimate(&config).unwrap();
        assert!(after.expected > seen, "{known}: {after:?} {seen}");
        assert!(after.expected > before.expected && after.upper > before.upper);
        // A bound far below what is known anyway changes nothing.
        let mut predictor = learned(measured(known));
        predictor.learn(observation(&config, peak(&config) / 8, true));
        let after = predictor.estimate(&config).unwrap();
        let same = after.expected as f64 / before.expected as f64;
        assert!(
            (0.97..1.03).contains(&same) || known < 24,
            "{known}: {same}"
        );
        assert!(same > 0.9, "{known}: {same}");
    }
}

#[test]
fn absurd_measurements_change_little() {
    let target = config("large", 16);
    let mut observations = measured(60);
    let before = learned(observations.clone()).estimate(&target).unwrap();
    observations.insert(20, observation(&target, 0, false));
    observations.insert(30, observation(&target, u64::MAX, false));
    let predictor = learned(observations.clone());
    assert_eq!(predictor.known(), 60);
    assert_eq!(predictor.estimate(&target), Some(before));
    observations.insert(
        40,
        observation(&config("large", 8), 4000 * 1024 * MIB, false),
    );
    observations.insert(45, observation(&config("small", 8), 1, false));
    let after = learned(observations).estimate(&target).unwrap();
    let factor = after.expected as f64 / before.expected as f64;
    assert!((0.9..1.1).contains(&factor), "{factor}");
    assert!(after.upper < 2 * before.upper, "{after:?} {before:?}");
}

#[test]
fn a_value_that_was_never_seen_widens_the_interval() {
    let predictor = learned(measured(100));
    let width = |model: &str| {
        let estimate = predictor.estimate(&config(model, 16)).unwrap();
        estimate.upper as f64 / estimate.expected as f64
    };
    assert!(width("huge") > 2.0 * width("large"));
}

#[test]
fn one_configuration_measured_again_and_again_is_known_with_its_noise() {
    let config = config("small", 8);
    let mut noise = rng(3, 0, "noise");
    let mut one = || (1e9 * (0.97 + 0.06 * noise.random::<f64>())) as u64;
    let observations: Vec<Observation> = (0..40)
        .map(|_| observation(&config, one(), false))
        .collect();
    let estimate = learned(observations).estimate(&config).unwrap();
    assert!((980_000_000..1_020_000_000).contains(&estimate.expected));
    assert!(
        (1_020_000_000..1_150_000_000).contains(&estimate.upper),
        "{estimate:?}"
    );
}

#[test]
fn measurements_of_a_study_with_other_keys_neither_break_nor_decide_it() {
    let foreign = |i: i64| {
        let config = Params::from([
            ("width".to_owned(), Value::Int(i)),
            ("kind".to_owned(), if i % 2 == 0 { "a" } else { "b" }.into()),
        ]);
        observation(&config, (40 + i as u64) * MIB, false)
    };
    let mut observations: Vec<Observation> = (1..60).map(foreign).collect();
    let target = config("large", 16);
    assert!(learned(observations.clone()).estimate(&target).is_some());
    observations.extend(measured(60));
    let estimate = learned(observations).estimate(&target).unwrap();
    let factor = estimate.expected as f64 / peak(&target) as f64;
    assert!((0.9..1.1).contains(&factor), "{factor}");
}

#[test]
fn what_is_learned_at_once_is_learned_alike() {
    let observations = measured(WINDOW as u64 + 40);
    let mut at_once = Predictor::new(Space::default(), None);
    at_once.learn_all(observations.clone());
    let one_by_one = learned(observations);
    assert_eq!(at_once.account, one_by_one.account);
    let target = config("large", 16);
    assert_eq!(at_once.estimate(&target), one_by_one.estimate(&target));
}

#[test]
fn a_bound_is_forgotten_once_the_same_training_is_measured() {
    let alike: Vec<Observation> = (0..8)
        .map(|batch| observation(&config("small", 1 << batch), 500 * MIB, false))
        .collect();
    let unlucky = config("small", 3);
    let with = |more: &[&Observation]| {
        learned(alike.iter().chain(more.iter().copied()).cloned().collect())
    };
    let out_of_memory = observation(&unlucky, 90_000 * MIB, true);
    let believed = with(&[&out_of_memory]).estimate(&unlucky).unwrap();
    assert!(believed.expected > 90_000 * MIB, "it is believed at first");
    let again = observation(&unlucky, 500 * MIB, false);
    let low = observation(&unlucky, 300 * MIB, true);
    for bound in [&out_of_memory, &low] {
        let after = with(&[bound, &again]);
        assert_eq!(after.known(), 9);
        let expected = |p: &Predictor| p.estimate(&config("small", 48)).unwrap().expected;
        assert_eq!(expected(&after), expected(&with(&[&again])));
    }
}

/// One large training among small ones, for a reason that nobody knows, makes the others no larger: as many as fit
/// go on running together.
#[test]
fn who_ran_out_of_memory_speaks_for_others_only_where_nobody_did_with_less() {
    let alike = measured(12);
    let other = config("small", 16);
    let before = learned(alike.clone()).estimate(&other).unwrap();
    // Five times what its kind takes.
    let odd = Params::from([("odd".to_owned(), 1.into())]);
    let odd: Params = config("small", 16).into_iter().chain(odd).collect();
    let out_of_memory = observation(&odd, 5 * peak(&odd), true);
    let with = |more: Vec<Observation>| {
        let all = alike.iter().cloned().chain(more).collect();
        learned(all).estimate(&other).unwrap()
    };
    let after = with(vec![out_of_memory.clone()]);
    assert!(after.expected < 2 * before.expected, "{before:?} {after:?}");
    let later = with(
        [
            vec![out_of_memory],
            vec![observation(&other, peak(&other), false); 6],
        ]
        .concat(),
    );
    assert!(later.upper < 2 * peak(&other), "{later:?}");
}

#[test]
fn without_a_floor_few_measurements_bound_nothing_from_below() {
    let small = observation(&config("small", 1), 30 * MIB, false);
    let out_of_memory = observation(&config("small", 64), 400 * MIB, true);
    let untried = config("large", 1);
    let few = learned(vec![small.clone(), out_of_memory.clone()]);
    assert_eq!(few.estimate(&untried).unwrap().lower, 0);
    let mut more = vec![small; LITTLE - 1];
    more.push(out_of_memory);
    assert!(learned(more).estimate(&untried).unwrap().lower > 0);
}
