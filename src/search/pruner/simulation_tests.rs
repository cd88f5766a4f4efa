//! What pruners are worth: random search over families of learning curves, with a budget of steps.
//!
//! The tables of docs/search-quality.md, "Pruners on learning curves":
//! `cargo test --package tune-search -- --ignored --nocapture table_of_pruners`

use rand::{Rng, RngExt};

use super::testing::put;
use super::{Horizon, Pruner, pruner};
use crate::pruner::PrunerSpec;
use crate::sampler::testing::trial;
use crate::space::{Params, Space};
use crate::study::{self, Direction, Entry, History, TrialState};

/// Steps of a whole trial.
const STEPS: usize = 40;

/// What an untrained model scores.
const START: f64 = 2.3;

/// A trial: what it would report, and how good it is at its best, without the noise.
struct Trial {
    reports: Vec<f64>,
    quality: f64,
}

/// A kind of learning curves.
struct Family {
    name: &'static str,
    noise: f64,
    /// The curve without noise, from the level that it tends to.
    curve: fn(&mut dyn Rng, f64) -> Vec<f64>,
    /// A trial ends by itself after so many steps without improvement.
    patience: Option<usize>,
}

fn normal(rng: &mut dyn Rng) -> f64 {
    let (a, b): (f64, f64) = (rng.random(), rng.random());
    (-2.0 * (1.0 - a).ln()).sqrt() * (std::f64::consts::TAU * b).cos()
}

/// A rate that is usually near `typical`, by a factor of `exp(spread)`.
fn rate(rng: &mut dyn Rng, typical: f64, spread: f64) -> f64 {
    typical * (spread * normal(rng)).exp()
}

fn falling(level: f64, rate: f64) -> Vec<f64> {
    let from = START.max(level);
    let at = |t: usize| level + (from - level) * (-rate * t as f64).exp();
    (1..=STEPS).map(at).collect()
}

fn with(mut curve: Vec<f64>, change: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    for (t, value) in (1..).zip(&mut curve) {
        *value = change(f64::from(t), *value);
    }
    curve
}

const fn family(
    name: &'static str,
    noise: f64,
    curve: fn(&mut dyn Rng, f64) -> Vec<f64>,
) -> Family {
    Family {
        name,
        noise,
        curve,
        patience: None,
    }
}

const FAMILIES: [Family; 10] = [
    family("saturating", 0.01, |rng, level| {
        falling(level, rate(rng, 0.15, 0.8))
    }),
    // The better, the slower.
    family("crossing", 0.02, |rng, level| {
        falling(level, rate(rng, 0.05 + 0.17 * level, 0.4))
    }),
    family("noisy", 0.25, |rng, level| {
        falling(level, rate(rng, 0.15, 0.5))
    }),
    family("parallel", 0.005, |_, level| {
        with(vec![level; STEPS], |t, v| v + (-0.1 * t).exp())
    }),
    // Three of ten explode at some step.
    family("diverging", 0.03, |rng, level| {
        let at = if rng.random::<f64>() < 0.3 {
            rng.random::<f64>()
        } else {
            9.0
        };
        with(falling(level, rate(rng, 0.15, 0.5)), |t, v| {
            let beyond = t - at * STEPS as f64;
            if beyond < 0.0 {
                v
            } else {
                (v * (1.0 + beyond.exp())).min(1e6)
            }
        })
    }),
    // Trials overfit from some step on, and stop by their own patience.
    Family {
        patience: Some(5),
        ..family("patience", 0.03, |rng, level| {
            let turn = 5.0 + 30.0 * rng.random::<f64>();
            with(falling(level, rate(rng, 0.3, 0.6)), |t, v| {
                v + 0.02 * (t - turn).max(0.0)
            })
        })
    },
    // A learning rate that falls at step 28 uncovers the order.
    family("schedule", 0.03, |rng, level| {
        let plateau = 0.4 + 0.6 * rng.random::<f64>();
        with(falling(level, rate(rng, 0.5, 0.5)), |t, v| {
            v + plateau * (-0.5 * (t - 28.0).max(0.0)).exp()
        })
    }),
    // Before the middle, nothing can be told.
    family("late", 0.02, |rng, level| {
        let early = 1.5 + 1.5 * rng.random::<f64>();
        with(vec![level; STEPS], |t, v| {
            let known = 1.0 / (1.0 + (-(t - 24.0) / 2.0).exp());
            (1.0 - known) * early + known * v
        })
    }),
    // Before the last step, nothing can be told.
    family("blind", 0.0, |rng, level| {
        let noise: Vec<f64> = (0..STEPS).map(|_| 3.0 + 0.3 * normal(rng)).collect();
        let at = |t: usize| if t + 1 < STEPS { noise[t] } else { level };
        (0..STEPS).map(at).collect()
    }),
    // One of twelve is slow, and far better than all others.
    family("rare", 0.02, |rng, level| {
        if rng.random::<f64>() < 0.08 {
            falling(0.3 * level, 0.06)
        } else {
            falling(level + 0.3, rate(rng, 0.4, 0.4))
        }
    }),
];

impl Family {
    fn draw(&self, rng: &mut dyn Rng) -> Trial {
        let coordinates = (0..4).map(|_| rng.random::<f64>() - 0.5);
        let level = 0.1 + 2.0 * coordinates.map(|x| x * x).sum::<f64>();
        let curve = (self.curve)(rng, level);
        let quality = curve.iter().copied().fold(f64::INFINITY, f64::min);
        let mut reports: Vec<f64> = Vec::new();
        let (mut best, mut waited) = (f64::INFINITY, 0);
        for value in curve {
            let report = value + self.noise * normal(rng);
            reports.push(report);
            waited = if report < best { 0 } else { waited + 1 };
            best = best.min(report);
            if self.patience.is_some_and(|patience| waited >= patience) {
                break;
            }
        }
        Trial { reports, quality }
    }

    /// What trials are worth, ascending.
    fn qualities(&self) -> Vec<f64> {
        let mut rng = study::rng(0, 0, self.name);
        let mut all: Vec<f64> = (0..20_000).map(|_| self.draw(&mut rng).quality).collect();
        all.sort_unstable_by(f64::total_cmp);
        all
    }
}

/// Searches at random until so many steps are spent; the quality of the COMPLETE trial with the best
/// value, and the number of trials.
fn search(family: &Family, pruner: &mut dyn Pruner, budget: usize, seed: u64) -> (f64, u64) {
    let mut history = History::new(vec![Direction::Minimize]);
    let mut best = (f64::INFINITY, f64::INFINITY);
    let (mut left, mut number) = (budget, 0);
    while left > 0 {
        let drawn = family.draw(&mut study::rng(seed, number, family.name));
        let reports = drawn.reports.iter().take(left);
        let whole = drawn.reports.len() <= left;
        let mut entry = super::testing::epochs(number, TrialState::Running, &[]);
        put(&mut history, &entry);
        let mut pruned = false;
        for (step, value) in (1..).zip(reports) {
            left -= 1;
            entry.intermediate.insert(step, *value);
            history.report(number, step, *value);
            pruned = pruner.should_prune(&history, &entry);
            if pruned {
                break;
            }
        }
        let state = if pruned {
            TrialState::Pruned
        } else {
            TrialState::Complete
        };
        if !pruned && whole {
            let value = entry
                .intermediate
                .values()
                .copied()
                .fold(f64::INFINITY, f64::min);
            if value < best.0 {
                best = (value, drawn.quality);
            }
        }
        end(&mut history, &entry, state);
        number += 1;
    }
    (best.1, number)
}

fn end(history: &mut History, entry: &Entry, state: TrialState) {
    let best = entry
        .intermediate
        .values()
        .copied()
        .fold(f64::INFINITY, f64::min);
    let value = (state == TrialState::Complete).then_some(best);
    let mut told = trial(entry.number, state, Params::new(), value);
    told.intermediate.clone_from(&entry.intermediate);
    history.put(&Space::default(), &told);
}

/// The part of all random trials that are better than the one found, on average; and the trials.
fn regret(family: &Family, kind: &str, trials: usize, seeds: u64) -> (f64, u64) {
    let qualities = family.qualities();
    let spec = PrunerSpec {
        kind: kind.into(),
        options: Params::new(),
    };
    let horizon = Horizon {
        max_step: Some(STEPS as u64),
        study: "simulation".into(),
    };
    let (mut sum, mut count) = (0.0, 0);
    for seed in 0..seeds {
        let mut pruner = pruner(&spec, &horizon).unwrap();
        let (found, tried) = search(family, &mut *pruner, trials * STEPS, seed);
        let better = qualities.partition_point(|q| *q < found);
        sum += better as f64 / qualities.len() as f64;
        count += tried;
    }
    (sum / seeds as f64, count / seeds)
}

#[test]
fn auto_is_never_clearly_worse_than_no_pruning_and_better_in_the_mean() {
    let mut logs = Vec::new();
    for family in &FAMILIES {
        let (none, _) = regret(family, "none", 30, 12);
        let (auto, _) = regret(family, "auto", 30, 12);
        println!("{:<12} none {none:.4} auto {auto:.4}", family.name);
        // A few seeds leave much to chance; docs/search-quality.md has the averages of many.
        assert!(auto < 1.35 * none, "{}: {auto} {none}", family.name);
        logs.push((none / auto).ln());
    }
    let mean = (logs.iter().sum::<f64>() / logs.len() as f64).exp();
    assert!(mean > 1.4, "{mean}");
}

#[test]
#[ignore = "minutes; prints the tables of docs/search-quality.md"]
fn table_of_pruners() {
    const SEEDS: u64 = 100;
    let kinds = ["none", "median", "asha", "hyperband", "auto"];
    for trials in [20, 50, 100] {
        println!("\nbudget {trials} trials: {}", kinds.join(", "));
        let mut logs = [0.0; 5];
        for family in &FAMILIES {
            let found = kinds.map(|kind| regret(family, kind, trials, SEEDS));
            let none = found[0].0;
            let cells = found
                .map(|(regret, n)| format!("{:.2} % ({:.2}; {n})", 100.0 * regret, none / regret));
            println!("| {} | {} |", family.name, cells.join(" | "));
            for (log, (regret, _)) in logs.iter_mut().zip(found) {
                *log += (none / regret).ln() / FAMILIES.len() as f64;
            }
        }
        let means = logs.map(|log: f64| format!("{:.2}", log.exp()));
        println!("| geometric mean | {} |", means.join(" | "));
    }
}
