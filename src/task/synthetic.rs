//! Task kind `synthetic`: a known function with learning curves, no libtorch.
//!
//! The loss after `t` (epochs, weighted by the steps an epoch) is
//! `floor + (START - floor) * exp(-rate * t)`. At the optimum (`optim.lr` 0.01, `optim.name` sgd,
//! `optim.momentum` 0.9, `model.layers` 4, `model.width` 128) `floor` is 0, its least, and `rate`
//! is 1, its greatest: whatever the number of epochs, no other point has a smaller loss. A learning
//! rate above 3 diverges. `cost` is layers times width in thousands, whatever else: smaller models cost
//! less and have a larger loss.

use std::f64::consts::{LN_10, TAU};
use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;

use crate::{
    Decision, EarlyStopping, Ended, Epoch, Metrics, Patience, Preparation, Reporter, Task,
    TrialSpec,
};
use config::kinds::synthetic;
use config::{
    Baseline, Objective, Prepared, Problems, StudySpec, TaskKind, TestSplit, test_metric,
};
use device::Device;
use memory::Floor;
use search::space::{Params, Value};
use search::study::{derive_seed, rng};

/// The kind.
pub struct Synthetic;

/// Loss of an untrained model: that of a fair guess among ten.
const START: f64 = LN_10;

/// Greater learning rates diverge.
const MAX_LR: f64 = 3.0;

/// The memory that a training is told to hold, by its key.
fn declared_memory(config: &Params) -> Option<u64> {
    let mib = config.get("task.memory_mb")?.as_f64()?;
    (mib > 0.0).then_some((mib * f64::from(1 << 20)) as u64)
}

impl Preparation for Synthetic {
    fn kind(&self) -> &'static TaskKind {
        &synthetic::KIND
    }

    fn floor(&self, _spec: &StudySpec, _device: Device) -> Option<Arc<Floor>> {
        Some(Arc::new(declared_memory))
    }

    fn prepare(&self, spec: &StudySpec) -> Result<Prepared, Problems> {
        let baseline = metrics(START)
            .get(&spec.objective.metric)
            .map(|&value| Baseline {
                value,
                what: "an untrained model".into(),
            });
        let optimum =
            "optim.lr 0.01, optim.name sgd, optim.momentum 0.9, model.layers 4, model.width 128";
        Ok(Prepared {
            test: Some(TestSplit {
                baseline: baseline.clone(),
            }),
            baseline,
            facts: vec![
                ("data".into(), "none: the loss is a known function".into()),
                ("optimum".into(), optimum.into()),
            ],
            ..Prepared::default()
        })
    }
}

/// Opens it in a worker.
///
/// # Errors
/// None.
pub fn open(spec: &StudySpec, _device: Device) -> anyhow::Result<Box<dyn Task>> {
    Ok(Box::new(Opened {
        objective: spec.objective.clone(),
    }))
}

struct Opened {
    objective: Objective,
}

impl Task for Opened {
    fn run(&mut self, trial: &TrialSpec, reporter: &mut dyn Reporter) -> anyhow::Result<Ended> {
        let curve = Curve::of(trial)?;
        let held = touched(trial.config.get("task.memory_mb"))?;
        let pause = Duration::from_secs_f64(trial.float("task.step_ms")? / 1000.0);
        let epochs = trial.int("train.epochs")?;
        let mut stopping = EarlyStopping::new(Patience::of(trial)?, self.objective.direction);
        if let Some(steps) = trial.rehearse {
            reporter.plan(u64::from(epochs) * curve.steps);
            for _ in 0..steps {
                std::thread::sleep(pause);
                reporter.step();
            }
            return Ok(Ended::Completed);
        }
        let mut done = 0;
        // The curve is a function of the epoch: there is no other state to go on from.
        for Epoch { epoch, metrics } in reporter.resume()?.into_iter().flat_map(|c| c.epochs) {
            done = epoch;
            if let Some(value) = metrics.get(&self.objective.metric) {
                stopping.update(*value);
            }
        }
        for epoch in done + 1..=epochs {
            for _ in 0..curve.steps {
                if !pause.is_zero() {
                    std::thread::sleep(pause);
                }
                reporter.step();
            }
            // The first epoch still looks well, where there is another one.
            if curve.diverges && epoch == epochs.min(2) {
                let at = format!("epoch {epoch}, step {}: the loss is NaN", curve.steps);
                return Ok(Ended::Diverged { at });
            }
            let mut metrics = curve.metrics(trial.seed, epoch);
            let value = metrics.get(&self.objective.metric).copied();
            if trial.tests() {
                metrics.extend(test_metrics(&curve, trial.seed, epoch));
            }
            match reporter.epoch(epoch, &metrics)? {
                Decision::Continue => {}
                Decision::Prune => return Ok(Ended::Pruned),
            }
            if value.is_some_and(|value| stopping.update(value)) {
                break;
            }
            reporter.keep(&mut |_| Ok(()));
        }
        std::hint::black_box(&held);
        Ok(Ended::Completed)
    }
}

/// So many MiB that are really there: each page was written.
fn touched(mib: Option<&Value>) -> anyhow::Result<Vec<u8>> {
    let mib = mib.and_then(Value::as_i64).unwrap_or(0);
    Ok(vec![1; usize::try_from(mib)? << 20])
}

/// The learning curve of one configuration.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Curve {
    floor: f64,
    rate: f64,
    steps: u64,
    noise: f64,
    diverges: bool,
    /// Layers times width, in thousands.
    cost: f64,
}

impl Curve {
    fn of(trial: &TrialSpec) -> anyhow::Result<Curve> {
        let lr = trial.float("optim.lr")?;
        let optimiser = match trial.text("optim.name")? {
            "sgd" => 0.0,
            "adam" => 0.1,
            "rmsprop" => 0.2,
            other => anyhow::bail!("optim.name = {other}, expected adam, sgd or rmsprop"),
        };
        // In decades, doublings and tenths from the best.
        let lr_off = (lr.log10() + 2.0).powi(2);
        let layers_off = ((trial.int::<i64>("model.layers")? as f64).log2() - 2.0).powi(2);
        let cost = trial.int::<i64>("model.layers")? as f64
            * trial.int::<i64>("model.width")? as f64
            / 1e3;
        let width_off = ((trial.int::<i64>("model.width")? as f64).log2() - 7.0).powi(2);
        let momentum_off = (trial.float("optim.momentum")? - 0.9).powi(2);
        Ok(Curve {
            floor: 0.3 * lr_off + optimiser + momentum_off + 0.05 * layers_off + 0.02 * width_off,
            rate: (-0.25 * lr_off).exp(),
            steps: trial.int("task.steps")?,
            noise: trial.float("task.noise")?,
            diverges: lr > MAX_LR,
            cost,
        })
    }

    /// The loss at the end of an epoch, from 1.
    fn loss(&self, seed: u64, epoch: u32) -> f64 {
        // More steps an epoch learn faster, with diminishing returns.
        let time = f64::from(epoch) * (1.0 + (self.steps as f64).ln());
        let clean = self.floor + (START - self.floor) * (-self.rate * time).exp();
        if self.noise > 0.0 {
            clean + self.noise * gaussian(seed, epoch)
        } else {
            clean
        }
    }

    /// Everything that is reported at the end of an epoch.
    fn metrics(&self, seed: u64, epoch: u32) -> Metrics {
        let mut metrics = metrics(self.loss(seed, epoch));
        metrics.insert("cost".into(), self.cost);
        metrics
    }
}

/// The metrics on the test split: the same loss with noise of its own.
fn test_metrics(curve: &Curve, seed: u64, epoch: u32) -> Metrics {
    let metrics = curve.metrics(derive_seed(seed, 0, "test split"), epoch);
    let named = |(name, value): (String, f64)| (test_metric(&name), value);
    metrics.into_iter().map(named).collect()
}

/// A standard normal number (Box and Muller), a function of its arguments alone.
fn gaussian(seed: u64, epoch: u32) -> f64 {
    let mut rng = rng(seed, u64::from(epoch), "noise");
    let radius: f64 = 1.0 - rng.random::<f64>();
    let angle: f64 = rng.random();
    (-2.0 * radius.ln()).sqrt() * (TAU * angle).cos()
}

fn metrics(loss: f64) -> Metrics {
    Metrics::from([
        ("loss".into(), loss),
        ("accuracy".into(), (-loss.max(0.0)).exp()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::Role;
    use config::kinds::synthetic::KEYS;
    use search::study::Direction;
    use search::study::Purpose;

    #[test]
    fn the_floor_is_the_memory_that_a_training_is_told_to_hold() {
        let of = |mib: Option<i64>| {
            let config = mib.map(|n| ("task.memory_mb".to_owned(), Value::Int(n)));
            declared_memory(&config.into_iter().collect())
        };
        assert_eq!(of(Some(300)), Some(300 << 20));
        assert_eq!((of(Some(0)), of(None)), (None, None));
    }

    /// Records losses; prunes after so many epochs.
    #[derive(Default)]
    struct Recorder {
        steps: u64,
        losses: Vec<f64>,
        tested: Vec<Option<f64>>,
        prune_at: Option<u32>,
    }

    impl Reporter for Recorder {
        fn step(&mut self) {
            self.steps += 1;
        }
        fn epoch(&mut self, epoch: u32, metrics: &Metrics) -> anyhow::Result<Decision> {
            self.losses.push(metrics["loss"]);
            self.tested.push(metrics.get("test.loss").copied());
            Ok(match self.prune_at {
                Some(at) if at == epoch => Decision::Prune,
                Some(_) | None => Decision::Continue,
            })
        }
    }

    fn trial(seed: u64, set: &[(&str, Value)]) -> TrialSpec {
        let mut config: Params = KEYS
            .iter()
            .filter_map(|k| Some((k.name.to_owned(), k.preset.value()?)))
            .collect();
        config.extend(set.iter().map(|(k, v)| ((*k).to_owned(), v.clone())));
        TrialSpec {
            number: 0,
            purpose: Purpose::Search,
            attempt: 0,
            seed,
            params: Params::new(),
            config,
            halvings: 0,
            rehearse: None,
            rows: None,
        }
    }

    fn train_with(trial: &TrialSpec, mut recorder: Recorder) -> (Ended, Recorder) {
        let mut task = Opened {
            objective: Objective {
                metric: "loss".into(),
                direction: Direction::Minimize,
            },
        };
        let ended = task.run(trial, &mut recorder).unwrap();
        (ended, recorder)
    }

    fn losses(set: &[(&str, Value)]) -> Vec<f64> {
        train_with(&trial(1, set), Recorder::default()).1.losses
    }

    const BEST: [(&str, f64); 4] = [
        ("optim.lr", 0.01),
        ("optim.momentum", 0.9),
        ("model.layers", 4.0),
        ("model.width", 128.0),
    ];

    fn best() -> Vec<(&'static str, Value)> {
        let mut set: Vec<_> = BEST.map(|(k, v)| (k, Value::Float(v))).to_vec();
        set.push(("optim.name", "sgd".into()));
        set
    }

    #[test]
    fn no_neighbour_of_the_optimum_is_better_at_any_epoch() {
        let optimum = losses(&best());
        let others = [
            ("optim.lr", Value::Float(0.013)),
            ("optim.lr", Value::Float(0.008)),
            ("optim.momentum", Value::Float(0.95)),
            ("optim.name", "adam".into()),
            ("model.layers", Value::Int(5)),
            ("model.width", Value::Int(100)),
        ];
        for other in others {
            let mut set = best();
            set.push(other.clone());
            let worse = losses(&set);
            assert!(optimum.iter().zip(&worse).all(|(a, b)| a < b), "{other:?}");
        }
        assert!(optimum[8] < 1e-3);
    }

    #[test]
    fn every_training_key_changes_training() {
        let patient = ("train.patience", Value::Int(1));
        let noisy = ("task.noise", Value::Float(0.5));
        let base = losses(&[patient.clone(), noisy.clone()]);
        for key in KEYS.iter().filter(|key| key.role == Role::Training) {
            if let Some(condition) = key.active_when {
                let bound = ["train.patience", "train.epochs"];
                assert!(bound.contains(&condition.key), "1 and 9 here: {}", key.name);
            }
            let value: Value = match key.name {
                "task.steps" => 3.into(),
                "task.noise" => 0.3.into(),
                // What is held changes no value: people search it to see what fits.
                "task.memory_mb" => continue,
                "train.epochs" => 1.into(),
                "train.patience" => 0.into(),
                "train.min_delta" => 5.0.into(),
                "optim.lr" => 0.05.into(),
                "optim.momentum" => 0.5.into(),
                "optim.name" => "sgd".into(),
                "model.layers" => 3.into(),
                "model.width" => 65.into(),
                other => panic!("{other}: say here with which value it is tried"),
            };
            let changed = losses(&[patient.clone(), noisy.clone(), (key.name, value)]);
            assert_ne!(base, changed, "{}", key.name);
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_noise() {
        let run = |seed| {
            let trial = trial(seed, &[("task.noise", 0.1.into())]);
            train_with(&trial, Recorder::default()).1.losses
        };
        assert_eq!(run(5), run(5));
        assert_ne!(run(5), run(6));
    }

    #[test]
    fn the_test_split_is_scored_in_a_test_alone_and_has_noise_of_its_own() {
        let mut noisy = trial(5, &[("task.noise", 0.1.into())]);
        let plain = train_with(&noisy, Recorder::default()).1;
        assert!(plain.tested.iter().all(Option::is_none));
        noisy.purpose = Purpose::Test;
        let tested = train_with(&noisy, Recorder::default()).1;
        assert_eq!(plain.losses, tested.losses);
        assert_eq!(tested.tested.len(), 9);
        for (loss, test) in tested.losses.iter().zip(&tested.tested) {
            assert_ne!(Some(*loss), *test);
        }
    }

    #[test]
    fn a_large_learning_rate_diverges_after_a_finite_epoch() {
        let (ended, recorder) =
            train_with(&trial(0, &[("optim.lr", 5.0.into())]), Recorder::default());
        assert!(matches!(ended, Ended::Diverged { .. }));
        assert_eq!(recorder.losses.len(), 1);
        assert!(recorder.losses[0].is_finite());
    }

    #[test]
    fn the_pruners_decision_ends_the_trial() {
        let recorder = Recorder {
            prune_at: Some(3),
            ..Recorder::default()
        };
        let (ended, recorder) = train_with(&trial(0, &[("task.steps", 4.into())]), recorder);
        assert_eq!(ended, Ended::Pruned);
        assert_eq!((recorder.losses.len(), recorder.steps), (3, 12));
    }

    #[test]
    fn every_key_but_that_of_the_memory_has_a_default() {
        for key in KEYS {
            let memory = key.name == "task.memory_mb";
            assert_eq!(key.preset.value().is_none(), memory, "{}", key.name);
        }
    }
}
