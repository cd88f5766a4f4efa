//! A trial with folds: a model a fold, one after the other, each validated on its fold.
//!
//! What is reported are folds: the `k`th report has the metrics of fold `k` at its best epoch, so that
//! pruners compare trials on the same rows at the same step. Every fold begins as if it were a
//! training of its own, with a seed derived from the trial's. A checkpoint within a fold has what the
//! fold's training has reported before its state, so that a trial that was cut short goes on within
//! the fold it was in. No weights are kept: there is a model a fold.

use std::io::{Read, Write};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::{Kind, TorchTask, Trained};
use config::Objective;
use search::study::derive_seed;
use task::Epoch;
use task::{Checkpoint, Decision, Ended, Metrics, Reporter, TrialSpec};

/// The epoch at which a fold was best, among its metrics.
const FOLD_EPOCH: &str = "fold_epoch";
/// The standard deviation of the objective over the folds, among a trial's metrics.
const FOLD_STD: &str = "fold_std";

/// Trains all folds.
///
/// # Errors
/// See [`task::Task::run`].
pub fn train<K: Kind>(
    task: &mut TorchTask<K>,
    trial: &TrialSpec,
    reporter: &mut dyn Reporter,
) -> Result<Trained> {
    let objective = task.objective.clone();
    let folds = task.rounds.len();
    let earlier = match trial.rehearse {
        None => reporter.resume()?,
        Some(_) => None,
    };
    let (mut done, mut from) = match earlier {
        Some(checkpoint) => take_up(checkpoint)?,
        None => (Vec::new(), None),
    };
    let mut trained = Trained {
        ended: Ended::Completed,
        parameters: Vec::new(),
    };
    for fold in done.len()..folds {
        let seed = derive_seed(trial.seed, fold as u64, "fold");
        let own = TrialSpec {
            seed,
            ..trial.clone()
        };
        let mut inside = InFold::new(reporter, &objective, (fold, folds), from.take());
        // The fold before gives its memory back first.
        trained.parameters.clear();
        trained = task.train_round(&own, fold, &mut inside)?;
        let best = inside.best.take();
        let number = fold as u32 + 1;
        match trained.ended {
            Ended::Completed if trial.rehearse.is_some() => return Ok(trained),
            Ended::Completed | Ended::Returned { .. } | Ended::Pruned => {}
            Ended::Diverged { at } => {
                trained.ended = Ended::Diverged {
                    at: format!("fold {number}, {at}"),
                };
                return Ok(trained);
            }
        }
        let Some(metrics) = best else {
            anyhow::bail!("fold {number} has reported no epoch");
        };
        if reporter.epoch(number, &metrics)? == Decision::Prune {
            trained.ended = Ended::Pruned;
            return Ok(trained);
        }
        // Between two folds what was reported is all there is to go on from.
        reporter.keep(&mut |_| Ok(()));
        done.push(metrics);
    }
    trained.ended = Ended::Returned {
        metrics: summary(&done, &objective.metric),
    };
    Ok(trained)
}

/// What stands before the state of a fold's training.
#[derive(Serialize, Deserialize)]
struct WithinFold {
    /// From 0.
    fold: usize,
    /// What its training has reported.
    epochs: Vec<Epoch>,
}

/// The folds that are done, and where the next one is to be taken up.
fn take_up(mut checkpoint: Checkpoint) -> Result<(Vec<Metrics>, Option<Checkpoint>)> {
    let done = finished(checkpoint.epochs);
    let state = &mut checkpoint.state;
    let mut length = [0; 8];
    if state.metadata()?.len() < length.len() as u64 {
        return Ok((done, None));
    }
    state.read_exact(&mut length)?;
    let mut text = Vec::new();
    let mut header = (&*state).take(u64::from_le_bytes(length));
    header.read_to_end(&mut text)?;
    let within: WithinFold = serde_json::from_slice(&text).context("the state is damaged")?;
    let from = (within.fold == done.len()).then_some(Checkpoint {
        epochs: within.epochs,
        state: checkpoint.state,
    });
    Ok((done, from))
}

/// The folds that an earlier attempt has reported, from the first without a gap.
fn finished(epochs: Vec<Epoch>) -> Vec<Metrics> {
    let numbered = epochs.into_iter().zip(1..);
    let known = numbered.take_while(|(epoch, number)| epoch.epoch == *number);
    known.map(|(epoch, _)| epoch.metrics).collect()
}

/// The mean of every metric that all folds have, and the objective's standard deviation (of the
/// sample, that is by one less than the folds).
fn summary(folds: &[Metrics], objective: &str) -> Metrics {
    let count = folds.len() as f64;
    let values =
        |name: &str| -> Vec<f64> { folds.iter().filter_map(|m| m.get(name).copied()).collect() };
    let names = folds.iter().flat_map(Metrics::keys);
    let mut all: Metrics = names
        .map(|name| (name, values(name)))
        .filter(|(_, values)| values.len() == folds.len())
        .map(|(name, values)| (name.clone(), values.iter().sum::<f64>() / count))
        .collect();
    if let Some(mean) = all.get(objective) {
        let squares = values(objective)
            .iter()
            .map(|v| (v - mean).powi(2))
            .sum::<f64>();
        let std = (squares / (count - 1.0).max(1.0)).sqrt();
        all.insert(FOLD_STD.to_owned(), std);
    }
    all
}

/// What a fold's training reports to: steps go on, epochs stay here.
struct InFold<'a> {
    outer: &'a mut dyn Reporter,
    objective: &'a Objective,
    /// Which, from 0, of how many.
    fold: (usize, usize),
    from: Option<Checkpoint>,
    epochs: Vec<Epoch>,
    /// The metrics of the best epoch, and which one it was.
    best: Option<Metrics>,
}

impl<'a> InFold<'a> {
    fn new(
        outer: &'a mut dyn Reporter,
        objective: &'a Objective,
        fold: (usize, usize),
        from: Option<Checkpoint>,
    ) -> InFold<'a> {
        InFold {
            outer,
            objective,
            fold,
            from,
            epochs: Vec::new(),
            best: None,
        }
    }

    fn note(&mut self, epoch: u32, metrics: &Metrics) {
        let value = |metrics: &Metrics| metrics.get(&self.objective.metric).copied();
        let improves = match (self.best.as_ref().and_then(value), value(metrics)) {
            (Some(best), Some(new)) => self.objective.direction.better(new, best),
            (None, _) => true,
            (Some(_), None) => false,
        };
        if improves {
            let mut metrics = metrics.clone();
            metrics.insert(FOLD_EPOCH.to_owned(), f64::from(epoch));
            self.best = Some(metrics);
        }
        self.epochs.push(Epoch {
            epoch,
            metrics: metrics.clone(),
        });
    }
}

impl Reporter for InFold<'_> {
    fn step(&mut self) {
        self.outer.step();
    }

    fn plan(&mut self, steps: u64) {
        self.outer.plan(steps * self.fold.1 as u64);
    }

    fn epoch(&mut self, epoch: u32, metrics: &Metrics) -> Result<Decision> {
        self.note(epoch, metrics);
        Ok(Decision::Continue)
    }

    fn resume(&mut self) -> Result<Option<Checkpoint>> {
        let from = self.from.take();
        for done in from.iter().flat_map(|checkpoint| &checkpoint.epochs) {
            self.note(done.epoch, &done.metrics);
        }
        Ok(from)
    }

    fn keep(&mut self, write: &mut dyn FnMut(&mut dyn Write) -> Result<()>) {
        let within = WithinFold {
            fold: self.fold.0,
            epochs: self.epochs.clone(),
        };
        self.outer.keep(&mut |to| {
            let text = serde_json::to_vec(&within)?;
            to.write_all(&(text.len() as u64).to_le_bytes())?;
            to.write_all(&text)?;
            write(to)
        });
    }

    fn printed(&mut self) {
        self.outer.printed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics(all: &[(&str, f64)]) -> Metrics {
        all.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect()
    }

    #[test]
    fn a_trial_has_the_means_of_its_folds_and_the_deviation_of_its_objective() {
        let folds = [
            metrics(&[("f1", 0.5), ("loss", 1.0), ("now and then", 1.0)]),
            metrics(&[("f1", 0.7), ("loss", 3.0)]),
        ];
        let all = summary(&folds, "f1");
        assert_eq!(all.len(), 3);
        assert!((all["f1"] - 0.6).abs() < 1e-12 && all["loss"] == 2.0);
        assert!((all[FOLD_STD] - 0.02f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn an_attempt_goes_on_after_the_folds_without_a_gap() {
        let epoch = |epoch| Epoch {
            epoch,
            metrics: metrics(&[("f1", f64::from(epoch))]),
        };
        assert_eq!(finished(vec![epoch(1), epoch(2)]).len(), 2);
        assert_eq!(finished(vec![epoch(1), epoch(3)]).len(), 1);
        assert!(finished(vec![epoch(2)]).is_empty());
    }
}
