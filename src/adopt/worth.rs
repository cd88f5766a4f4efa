//! What the values of a study from elsewhere are worth.

use std::collections::BTreeMap;

use serde::Serialize;

use config::Baseline;
use search::space::Params;
use search::study::{Direction, FrozenTrial, TrialState};

/// The best value that can be believed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BestValue {
    /// Trial number.
    pub number: u64,
    /// Value.
    pub value: f64,
}

/// The trivial answer beside the values.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AgainstBaseline {
    /// The trivial answer.
    #[serde(flatten)]
    pub baseline: Baseline,
    /// COMPLETE trials with a better value.
    pub beaten_by: usize,
}

/// The most frequent value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct FrequentValue {
    /// Value.
    pub value: f64,
    /// COMPLETE trials that have it.
    pub trials: usize,
}

/// Points that were tried more than once.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RepeatedPoints {
    /// Points.
    pub points: usize,
    /// Trials at these points.
    pub trials: usize,
    /// The noise: the pooled standard deviation of the values of equal points.
    pub deviation: f64,
}

/// What the values of COMPLETE trials say. Those that can be believed are possible values of trials
/// that are not infeasible.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Values {
    /// COMPLETE trials that have a value.
    pub scored: usize,
    /// Those of them that can be believed.
    #[serde(skip)]
    pub believed: usize,
    /// Least of the values that can be believed.
    pub least: Option<f64>,
    /// Greatest of them.
    pub greatest: Option<f64>,
    /// The best of them.
    pub best: Option<BestValue>,
    /// The trivial answer, where the task has one.
    #[serde(rename = "baseline")]
    pub against: Option<AgainstBaseline>,
    /// Trials whose value the metric cannot have: beyond its range, or infinite.
    pub impossible: Vec<u64>,
    /// Trials that have reported NaN.
    pub reported_nan: Vec<u64>,
    /// Whether all of several values are the same.
    pub constant: bool,
    /// The most frequent value, where it is that of more than one trial in five and of more than
    /// four trials.
    pub frequent: Option<FrequentValue>,
    /// Points that were tried more than once; parameters that are seeds do not tell them apart.
    pub repeats: Option<RepeatedPoints>,
}

impl Values {
    /// Whether the trivial answer is as good as the best trial.
    pub fn trivial(&self) -> bool {
        self.against.as_ref().is_some_and(|a| a.beaten_by == 0)
    }
}

/// Whether a metric with this range can have this value.
pub fn possible(range: Option<(f64, f64)>, value: f64) -> bool {
    let (least, most) = range.unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
    // Means over batches may be off by rounding.
    value.is_finite() && value >= least - 1e-6 && value <= most + 1e-6
}

/// Whether a parameter is a seed, by its name.
pub fn is_seed(name: &str) -> bool {
    name.to_lowercase().contains("seed")
}

/// Looks at the values of all trials.
pub fn values(
    trials: &[&FrozenTrial],
    range: Option<(f64, f64)>,
    direction: Direction,
    baseline: Option<&Baseline>,
) -> Values {
    let scored: Vec<(&FrozenTrial, f64)> = trials
        .iter()
        .copied()
        .filter(|t| t.state == TrialState::Complete)
        .filter_map(|t| Some((t, t.value()?)))
        .collect();
    let (good, bad): (Vec<&(&FrozenTrial, f64)>, Vec<_>) = scored
        .iter()
        .partition(|(_, value)| possible(range, *value));
    // What a constraint rules out may have any value: a penalty, say.
    let good: Vec<_> = good
        .into_iter()
        .filter(|(t, _)| t.feasible())
        .copied()
        .collect();
    let best = direction
        .best(good.iter().copied())
        .map(|(t, value)| BestValue {
            number: t.number,
            value,
        });
    let least = good.iter().map(|g| g.1).reduce(f64::min);
    let greatest = good.iter().map(|g| g.1).reduce(f64::max);
    let reported_nan = |t: &&&FrozenTrial| t.intermediate.values().any(|v| v.is_nan());
    Values {
        scored: scored.len(),
        believed: good.len(),
        least,
        greatest,
        constant: least == greatest && good.len() > 1,
        best,
        impossible: bad.iter().map(|(t, _)| t.number).collect(),
        reported_nan: trials
            .iter()
            .filter(reported_nan)
            .map(|t| t.number)
            .collect(),
        frequent: frequent(&good),
        repeats: repeats(&good),
        against: baseline.map(|baseline| AgainstBaseline {
            baseline: baseline.clone(),
            beaten_by: good
                .iter()
                .filter(|(_, v)| direction.better(*v, baseline.value))
                .count(),
        }),
    }
}

/// The most frequent value, where it is suspiciously frequent.
fn frequent(good: &[(&FrozenTrial, f64)]) -> Option<FrequentValue> {
    let mut values: Vec<f64> = good.iter().map(|g| g.1).collect();
    values.sort_by(f64::total_cmp);
    let (value, trials) = values
        .chunk_by(|a, b| a == b)
        .map(|same| (same[0], same.len()))
        .max_by_key(|(_, n)| *n)?;
    (trials > 4 && trials * 5 > values.len()).then_some(FrequentValue { value, trials })
}

fn repeats(good: &[(&FrozenTrial, f64)]) -> Option<RepeatedPoints> {
    let mut points: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (trial, value) in good {
        let point: Params = trial
            .params
            .iter()
            .filter(|(name, _)| !is_seed(name))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        // Trials without parameters say nothing about where they were.
        if !point.is_empty() {
            points.entry(format!("{point:?}")).or_default().push(*value);
        }
    }
    points.retain(|_, values| values.len() > 1);
    let trials: usize = points.values().map(Vec::len).sum();
    // In units of the largest, whose square need not be a float.
    let unit = points
        .values()
        .flatten()
        .fold(0.0, |m: f64, v| m.max(v.abs()));
    let unit = if unit > 0.0 { unit } else { 1.0 };
    let squares: f64 = points
        .values()
        .map(|values| {
            let mean = values.iter().map(|v| v / unit).sum::<f64>() / values.len() as f64;
            values
                .iter()
                .map(|v| (v / unit - mean).powi(2))
                .sum::<f64>()
        })
        .sum();
    let freedom = trials - points.len();
    (freedom > 0).then(|| RepeatedPoints {
        points: points.len(),
        trials,
        deviation: ((squares / freedom as f64).sqrt() * unit).min(f64::MAX),
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::trial;
    use super::*;
    use TrialState::{Complete, Pruned};
    use search::space::Value;

    const ACCURACY: Option<(f64, f64)> = Some((0.0, 1.0));

    fn looked_at(trials: &[FrozenTrial]) -> Values {
        let baseline = Baseline {
            value: 0.442,
            what: "always 1".to_owned(),
        };
        let trials: Vec<&FrozenTrial> = trials.iter().collect();
        values(&trials, ACCURACY, Direction::Maximize, Some(&baseline))
    }

    fn scored(values: &[f64]) -> Vec<FrozenTrial> {
        let trial = |(i, v): (usize, &f64)| trial(i as u64, Complete, Some(*v), &[]);
        values.iter().enumerate().map(trial).collect()
    }

    #[test]
    fn a_best_that_only_equals_the_trivial_answer_does_not_beat_it() {
        assert!(looked_at(&scored(&[0.4, 0.442])).trivial());
        let beaten = looked_at(&scored(&[0.4, 0.45, 0.6]));
        assert!(!beaten.trivial());
        assert_eq!(beaten.against.unwrap().beaten_by, 2);
        assert_eq!(
            beaten.best,
            Some(BestValue {
                number: 2,
                value: 0.6
            })
        );
    }

    #[test]
    fn values_that_the_metric_cannot_have_are_no_best() {
        let found = looked_at(&scored(&[0.5, 1.7, f64::INFINITY, -0.1, 1.000_000_1]));
        assert_eq!(found.impossible, [1, 2, 3]);
        assert_eq!(found.best.unwrap().number, 4);
        assert_eq!(found.scored, 5);
    }

    #[test]
    fn infeasible_trials_by_either_form_of_optuna_are_no_best() {
        let mut trials = scored(&[0.9, 0.8, 0.7]);
        let put = |t: &mut FrozenTrial, key: &str, json| t.system_attrs.insert(key.into(), json);
        put(
            &mut trials[0],
            "constraints",
            serde_json::json!([-1.0, 0.5]),
        );
        put(&mut trials[1], "constraints:memory", serde_json::json!(2));
        put(&mut trials[2], "constraints", serde_json::json!([0.0]));
        let found = looked_at(&trials);
        assert_eq!(found.best.unwrap().number, 2);
        // Nor are their values a part of the range, or of the noise.
        assert_eq!(
            (found.believed, found.least, found.greatest),
            (1, Some(0.7), Some(0.7))
        );
        assert!(!found.constant);
        for trial in &mut trials {
            trial.params.insert("lr".to_owned(), Value::Float(0.1));
        }
        assert_eq!(looked_at(&trials).repeats, None);
    }

    #[test]
    fn the_noise_of_huge_values_is_a_number() {
        let at = |n, value| trial(n, Complete, Some(value), &[("lr", Value::Float(0.1))]);
        for (a, b) in [(1e200, 3e200), (1.7e308, -1.7e308)] {
            let trials = [at(0, a), at(1, b)];
            let trials: Vec<&FrozenTrial> = trials.iter().collect();
            let found = values(&trials, None, Direction::Maximize, None);
            let deviation = found.repeats.unwrap().deviation;
            let expected = ((b / 2.0 - a / 2.0).abs() * 2f64.sqrt()).min(f64::MAX);
            assert!((deviation / expected - 1.0).abs() < 1e-12, "{deviation:e}");
        }
    }

    #[test]
    fn the_noise_is_that_of_points_tried_again_whatever_their_seed() {
        let at = |n, lr: f64, seed: i64, value| {
            let params = [("lr", Value::Float(lr)), ("train.seed", Value::Int(seed))];
            trial(n, Complete, Some(value), &params)
        };
        let trials = [
            at(0, 0.1, 1, 0.5),
            at(1, 0.1, 2, 0.7),
            at(2, 0.2, 3, 0.1),
            at(3, 0.2, 4, 0.3),
            at(4, 0.3, 5, 0.9),
            trial(5, Pruned, Some(0.0), &[("lr", Value::Float(0.1))]),
        ];
        let repeats = looked_at(&trials).repeats.unwrap();
        assert_eq!((repeats.points, repeats.trials), (2, 4));
        assert!((repeats.deviation - 0.02f64.sqrt()).abs() < 1e-12);
        assert_eq!(looked_at(&trials[3..5]).repeats, None);
    }

    #[test]
    fn a_value_that_comes_again_and_again_is_noticed() {
        let mut same = vec![0.442; 12];
        assert!(looked_at(&scored(&same)).constant);
        same.extend((0..20).map(|i| 0.5 + f64::from(i) / 100.0));
        let found = looked_at(&scored(&same));
        let frequent = found.frequent.unwrap();
        assert_eq!((frequent.value, frequent.trials), (0.442, 12));
        assert!(!found.constant);
        assert_eq!(looked_at(&scored(&[0.1, 0.1, 0.2])).frequent, None);
    }

    #[test]
    fn no_trial_at_all_is_no_trouble() {
        let empty = looked_at(&[]);
        assert_eq!((empty.scored, empty.best), (0, None));
        assert!(!empty.constant);
    }
}
