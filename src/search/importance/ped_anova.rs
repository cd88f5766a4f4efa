//! How much each parameter decides whether a trial is one of the best: PED-ANOVA (Watanabe, Bansal and
//! Hutter, "PED-ANOVA: Efficiently Quantifying Hyperparameter Importance in Arbitrary Subspaces",
//! 2023), with conditional parameters as in Optuna 5, whose default it is: the same shares.
//!
//! A density of a parameter's values in the best tenth of the trials is compared with one in all of
//! them, on a grid; how far they are apart (Pearson's divergence) is what the parameter matters. A
//! parameter that only some trials have, or whose bounds differ, is compared within the trials that
//! have the same domain for it, which weigh by their shares of both sets.
//!
//! It is an order for people to look at, and no test: dead parameters have a small share, not none
//! (see [`effects`](super::effects) for that).

use std::collections::BTreeMap;

use crate::space::{Domain, distinct_names};
use crate::study::{Direction, FrozenTrial, TrialState};

/// The best part of the trials that is looked at.
const BEST: f64 = 0.1;

/// Most points of a range that densities are compared at.
const POINTS: usize = 50;

/// Trials with a domain without which nothing is said about it.
const LEAST: usize = 2;

/// Added to densities, so that none is 0.
const TINY: f64 = 1e-12;

/// The share of each parameter in what makes a trial one of the best tenth, 0 to 1 and 1 in sum, from
/// the COMPLETE trials with a finite value and the distributions that they were drawn from. All are 0
/// where nothing differs; empty with fewer than 2 such trials, and with several objectives.
pub fn shares(trials: &[FrozenTrial], direction: Direction) -> BTreeMap<String, f64> {
    let complete = trials.iter().filter(|t| t.state == TrialState::Complete);
    let all: Vec<(&FrozenTrial, f64)> = complete
        .filter_map(|t| match t.values[..] {
            [value] => Some((t, direction.loss(value))),
            _ => None,
        })
        .filter(|(_, loss)| loss.is_finite())
        .collect();
    let Some(worst) = cutoff(&all) else {
        return BTreeMap::new();
    };
    let study = Trials {
        best: all.iter().map(|(_, loss)| *loss <= worst).collect(),
        all: all.into_iter().map(|(trial, _)| trial).collect(),
    };
    let names = distinct_names(study.all.iter().flat_map(|t| t.distributions.keys()));
    let of = |name: String| {
        let share = study.importance(&name);
        (name, share)
    };
    let mut shares: BTreeMap<String, f64> = names.into_iter().map(of).collect();
    let sum: f64 = shares.values().sum();
    if sum > 0.0 {
        shares.values_mut().for_each(|share| *share /= sum);
    }
    shares
}

/// The loss of the worst trial of the best tenth.
fn cutoff(trials: &[(&FrozenTrial, f64)]) -> Option<f64> {
    let mut losses: Vec<f64> = trials.iter().map(|(_, loss)| *loss).collect();
    losses.sort_by(f64::total_cmp);
    let best = (BEST * losses.len() as f64).ceil() as usize;
    (losses.len() >= LEAST).then(|| losses[best - 1])
}

/// Trials, and whether each is one of the best.
struct Trials<'a> {
    all: Vec<&'a FrozenTrial>,
    best: Vec<bool>,
}

impl Trials<'_> {
    /// What a parameter matters, above 0 and of no unit.
    fn importance(&self, name: &str) -> f64 {
        let count = |rows: &[usize]| rows.iter().filter(|&&row| self.best[row]).count() as f64;
        let (all, best) = (
            self.all.len() as f64,
            self.best.iter().filter(|b| **b).count() as f64,
        );
        let mut sum = 0.0;
        for (domain, rows) in self.domains(name) {
            let of_best = count(&rows);
            if rows.len() < LEAST || domain.single() || of_best == 0.0 {
                continue;
            }
            let places = |only_best: bool| -> Vec<f64> {
                let mut weights = vec![0.0; points(domain)];
                let rows = rows.iter().filter(|&&row| self.best[row] || !only_best);
                for place in rows.filter_map(|&row| place(domain, self.all[row], name)) {
                    weights[place] += 1.0;
                }
                density(domain, &weights)
            };
            let weight = (of_best / best).powi(2) / (rows.len() as f64 / all);
            sum += weight * divergence(&places(true), &places(false));
        }
        sum
    }

    /// The domains of a parameter, each with the trials that have it, in order of first use.
    fn domains(&self, name: &str) -> Vec<(&Domain, Vec<usize>)> {
        let mut domains: Vec<(&Domain, Vec<usize>)> = Vec::new();
        for (row, trial) in self.all.iter().enumerate() {
            let Some(domain) = trial.distributions.get(name) else {
                continue;
            };
            match domains.iter_mut().find(|(known, _)| *known == domain) {
                Some((_, rows)) => rows.push(row),
                None => domains.push((domain, vec![row])),
            }
        }
        domains
    }
}

/// How many points a domain is looked at in.
fn points(domain: &Domain) -> usize {
    let grid = |width: f64, step: f64| {
        ((width / step).round() as usize)
            .saturating_add(1)
            .min(POINTS)
    };
    match domain {
        Domain::Categorical { choices } => choices.len(),
        Domain::Float { step: None, .. } => POINTS,
        Domain::Float {
            low,
            high,
            step: Some(step),
            ..
        } => grid(high - low, *step),
        Domain::Int {
            low,
            high,
            log: true,
            ..
        } => {
            let values = *high as f64 - *low as f64 + 1.0;
            (values.ln() / 2f64.ln()).ceil() as usize + 1
        }
        .min(POINTS),
        Domain::Int {
            low, high, step, ..
        } => grid(*high as f64 - *low as f64, *step as f64),
    }
}

/// The point that a trial's value is nearest to; of two the lower one.
fn place(domain: &Domain, trial: &FrozenTrial, name: &str) -> Option<usize> {
    let internal = domain.to_internal(trial.params.get(name)?)?;
    let (low, high, log) = match *domain {
        Domain::Categorical { .. } => return Some(internal as usize),
        Domain::Float { low, high, log, .. } => (low, high, log),
        Domain::Int { low, high, log, .. } => (low as f64, high as f64, log),
    };
    let scale = |x: f64| if log { x.ln() } else { x };
    let last = points(domain) as f64 - 1.0;
    let step = (scale(high) - scale(low)) / last;
    let nearest = ((scale(internal) - scale(low)) / step - 0.5).ceil();
    Some(nearest.clamp(0.0, last) as usize)
}

/// The probability of each point: a Parzen estimator of the observed ones by their weights (Scott's
/// bandwidth), with a prior that weighs as much as one trial.
fn density(domain: &Domain, weights: &[f64]) -> Vec<f64> {
    let observed: Vec<usize> = (0..weights.len()).filter(|&i| weights[i] > 0.0).collect();
    let total: f64 = weights.iter().sum();
    let n = weights.len();
    let mut density = vec![0.0; n];
    if let Domain::Categorical { .. } = domain {
        // Each kernel keeps a part of its mass for the other choices.
        let other = 1.0 / (observed.len() as f64 + 1.0);
        for (i, sum) in density.iter_mut().enumerate() {
            *sum = 1.0 / n as f64 + weights[i] / (1.0 + n as f64 * other);
            *sum += other * total / (1.0 + n as f64 * other);
        }
    } else {
        let width = bandwidth(&observed, weights);
        let kernels = observed.iter().map(|&at| (at as f64, width, weights[at]));
        let prior = ((n as f64 - 1.0) / 2.0, n as f64, 1.0);
        for (middle, width, weight) in kernels.chain([prior]) {
            let within = |a: f64, b: f64| mass((a - middle) / width, (b - middle) / width);
            let whole = within(-0.5, n as f64 - 0.5);
            for (i, sum) in density.iter_mut().enumerate() {
                *sum += weight * within(i as f64 - 0.5, i as f64 + 0.5) / whole;
            }
        }
    }
    density.iter_mut().for_each(|d| *d /= total + 1.0);
    density
}

/// Scott's bandwidth of weighted points ("Multivariate Density Estimation", 1992), in points.
fn bandwidth(observed: &[usize], weights: &[f64]) -> f64 {
    let total: f64 = observed.iter().map(|&i| weights[i]).sum();
    let mean = observed.iter().map(|&i| i as f64 * weights[i]).sum::<f64>() / total;
    let squares = observed
        .iter()
        .map(|&i| (i as f64 - mean).powi(2) * weights[i]);
    let deviation = (squares.sum::<f64>() / (total - 1.0).max(1.0)).sqrt();
    let until: Vec<f64> = observed
        .iter()
        .scan(0.0, |sum, &i| {
            *sum += weights[i];
            Some(*sum)
        })
        .collect();
    let first = until.partition_point(|sum| *sum < (total / 4.0).floor());
    let third = until.partition_point(|sum| *sum <= (total * 3.0 / 4.0).floor());
    let quartiles = observed[third.min(observed.len() - 1)] as f64 - observed[first] as f64;
    let scott = 1.059 * deviation.min(quartiles / 1.34) * total.powf(-0.2);
    // Nine tenths of a kernel lie within its own point.
    scott.max(0.5 / 1.64)
}

/// The mass of the standard normal distribution between two places.
fn mass(a: f64, b: f64) -> f64 {
    let above = |x: f64| 0.5 * libm::erfc(x * std::f64::consts::FRAC_1_SQRT_2);
    // Where both are small, their difference is exact.
    if a > 0.0 {
        above(a) - above(b)
    } else {
        above(-b) - above(-a)
    }
}

/// Pearson's divergence of one density from another.
fn divergence(best: &[f64], all: &[f64]) -> f64 {
    let terms = best.iter().zip(all).map(|(b, a)| (b + TINY, a + TINY));
    terms.map(|(b, a)| a * (b / a - 1.0).powi(2)).sum()
}

#[cfg(test)]
mod tests {
    use rand::RngExt;
    use serde_json::Value as Json;

    use super::*;
    use crate::space::{Value, distribution_from_json};
    use crate::study;

    /// Trials whose values are a function of points between 0 and 1.
    fn trials(n: u64, names: &[&str], value: impl Fn(&[f64]) -> f64) -> Vec<FrozenTrial> {
        let trial = |number| {
            let mut rng = study::rng(1, number, "test");
            let point: Vec<f64> = names.iter().map(|_| rng.random()).collect();
            let mut trial = FrozenTrial::new(number, TrialState::Complete, Default::default());
            for (name, x) in names.iter().zip(&point) {
                trial.params.insert((*name).into(), Value::Float(*x));
                trial
                    .distributions
                    .insert((*name).into(), Domain::float(0.0, 1.0));
            }
            trial.values = vec![value(&point)];
            trial
        };
        (0..n).map(trial).collect()
    }

    #[test]
    fn the_one_parameter_that_matters_has_nearly_all_of_it() {
        let names = ["a", "b", "c"];
        for direction in [Direction::Minimize, Direction::Maximize] {
            let told = trials(200, &names, |p| 100.0 * p[0] + p[1]);
            let shares = shares(&told, direction);
            assert!(shares["a"] > 0.85, "{shares:?}");
            assert!((shares.values().sum::<f64>() - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn where_no_parameter_matters_none_stands_out() {
        let noise = trials(400, &["a", "b", "c", "noise"], |p| p[3]);
        let hidden = noise.into_iter().map(|mut trial| {
            trial.distributions.remove("noise");
            trial
        });
        let even = shares(&hidden.collect::<Vec<_>>(), Direction::Minimize);
        assert!(even.values().all(|share| *share < 0.6), "{even:?}");
        let equal = trials(50, &["a", "b"], |_| 1.0);
        let none = shares(&equal, Direction::Minimize);
        assert!(none.values().all(|share| *share < 1e-9), "{none:?}");
    }

    #[test]
    fn a_parameter_of_a_branch_counts_within_its_branch() {
        let mut told = trials(300, &["branch", "rate", "dead"], |p| match p[0] < 0.5 {
            true => (p[1] - 0.2).abs(),
            false => 2.0,
        });
        for trial in &mut told {
            if trial.values == [2.0] {
                trial.params.remove("rate");
                trial.distributions.remove("rate");
            }
        }
        let shares = shares(&told, Direction::Minimize);
        assert!(shares["rate"] > 10.0 * shares["dead"], "{shares:?}");
        assert!(shares["branch"] > 10.0 * shares["dead"], "{shares:?}");
    }

    #[test]
    fn trials_that_are_not_complete_or_have_no_number_say_nothing() {
        let mut told = trials(40, &["a", "b"], |p| p[0]);
        let before = shares(&told, Direction::Minimize);
        let mut more = trials(43, &["a", "b"], |p| p[1] - 5.0).split_off(40);
        more[0].state = TrialState::Pruned;
        more[1].values = vec![f64::NEG_INFINITY];
        more[2].values = vec![1.0, 2.0];
        told.extend(more);
        assert_eq!(shares(&told, Direction::Minimize), before);
        assert!(shares(&told[..1], Direction::Minimize).is_empty());
    }

    #[test]
    fn the_shares_are_those_of_optuna() {
        let text = include_str!("../../../tests/data/importance-oracle.json");
        let cases: Vec<Json> = serde_json::from_str(text).unwrap();
        for case in &cases {
            let told = case["trials"].as_array().unwrap().iter().map(|json| {
                let mut trial = FrozenTrial::new(0, TrialState::Complete, Default::default());
                trial.values = vec![json["value"].as_f64().unwrap()];
                for (name, value) in json["params"].as_object().unwrap() {
                    let kind = json["distributions"][name].as_u64().unwrap() as usize;
                    let domain = case["distributions"][kind].as_str().unwrap();
                    let domain = distribution_from_json(domain).unwrap();
                    trial
                        .params
                        .insert(name.clone(), Value::from_json(value).unwrap());
                    trial.distributions.insert(name.clone(), domain);
                }
                trial
            });
            let direction: Direction = case["direction"].as_str().unwrap().parse().unwrap();
            let ours = shares(&told.collect::<Vec<_>>(), direction);
            let theirs = case["importances"].as_object().unwrap();
            assert_eq!(ours.len(), theirs.len());
            for (name, share) in theirs {
                let share = share.as_f64().unwrap();
                assert!(
                    (ours[name] - share).abs() < 1e-9,
                    "{name}: {} {share}",
                    ours[name]
                );
            }
        }
    }
}
