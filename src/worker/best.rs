//! The weights of the epochs that were the best of an attempt so far.
//!
//! An attempt that goes on from a checkpoint needs the best epoch's weights up to that checkpoint; one
//! that ends needs the best of all. So of the candidates up to the last checkpoint the latest stays,
//! and of all of them the latest.

use std::io::Write;
use std::path::PathBuf;

use serde_json::{Map, Value as Json};

use files::replace;
use protocol::KeepBest;
use search::space::Params;
use search::study::Direction;
use task::Epoch;
use task::TrialSpec;
use weights::Draft;

/// Keeps the candidates of one attempt.
#[derive(Debug)]
pub struct BestEpochWeights {
    dir: PathBuf,
    better_than: Option<f64>,
    direction: Direction,
    metric: String,
    number: u64,
    seed: u64,
    params: Params,
    /// Epochs of the candidates that are this attempt's, or those of the attempts it goes on from.
    own: Vec<u32>,
    /// The epoch of the last checkpoint; 0: there is none.
    safe: u32,
}

impl BestEpochWeights {
    /// Those of an attempt at `trial`, judged by this metric.
    pub fn new(
        keep: KeepBest,
        trial: &TrialSpec,
        metric: &str,
        direction: Direction,
    ) -> BestEpochWeights {
        BestEpochWeights {
            dir: keep.directory.into(),
            better_than: keep.better_than,
            direction,
            metric: metric.to_owned(),
            number: trial.number,
            seed: trial.seed,
            params: trial.params.clone(),
            own: Vec::new(),
            safe: 0,
        }
    }

    /// The attempt goes on after these epochs: candidates of other epochs, or other values, are not
    /// its own.
    pub fn go_on_after(&mut self, epochs: &[Epoch]) {
        self.safe = epochs.last().map_or(0, |e| e.epoch);
        let value = |epoch: u32| {
            let reported = epochs.iter().find(|e| e.epoch == epoch)?;
            reported.metrics.get(&self.metric).copied()
        };
        let candidates = weights::candidates(&self.dir);
        let own = candidates.iter().filter(|c| {
            let same = (c.number, c.seed) == (self.number, self.seed);
            same && value(c.epoch) == Some(c.value)
        });
        self.own = own.map(|c| c.epoch).collect();
        self.own.sort_unstable();
    }

    /// A checkpoint was kept after this epoch.
    pub fn checkpointed(&mut self, epoch: u32) {
        self.safe = epoch;
        self.tidy();
    }

    /// Whether this value is good enough.
    pub fn wants(&self, value: f64) -> bool {
        let passes = |bar| self.direction.better(value, bar);
        value.is_finite() && self.better_than.is_none_or(passes)
    }

    /// Writes the weights of this epoch.
    ///
    /// # Errors
    /// What the system or `write` says.
    pub fn offer(
        &mut self,
        epoch: u32,
        value: f64,
        about: &Map<String, Json>,
        write: &mut dyn FnMut(&mut dyn Write) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let draft = Draft {
            trial: self.number,
            seed: self.seed,
            epoch,
            value,
            params: &self.params,
            about,
        };
        draft.write(&self.dir, write)?;
        self.own.retain(|other| *other != epoch);
        self.own.push(epoch);
        self.tidy();
        Ok(())
    }

    /// Deletes what is not needed any more, and what is not this attempt's.
    fn tidy(&mut self) {
        self.own = needed(&self.own, self.safe);
        for candidate in weights::candidates(&self.dir) {
            if !self.own.contains(&candidate.epoch) {
                // What stays is looked at by its epoch and value: it only takes room.
                let _ = replace::delete_directory(&candidate.path);
            }
        }
    }
}

/// Of the epochs of candidates, ascending, those to keep where the last checkpoint is that after epoch
/// `safe`.
fn needed(own: &[u32], safe: u32) -> Vec<u32> {
    let before = own.iter().rev().find(|epoch| **epoch <= safe);
    let last = own.last().filter(|last| Some(*last) != before);
    before.into_iter().chain(last).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use task::Metrics;

    fn candidates(dir: &tempfile::TempDir, better_than: Option<f64>) -> BestEpochWeights {
        BestEpochWeights {
            dir: dir.path().join("trial-000003"),
            better_than,
            direction: Direction::Maximize,
            metric: "f1".into(),
            number: 3,
            seed: 7,
            params: Params::new(),
            own: Vec::new(),
            safe: 0,
        }
    }

    fn offer(to: &mut BestEpochWeights, epoch: u32, value: f64) {
        let about = Map::new();
        to.offer(epoch, value, &about, &mut |w| Ok(w.write_all(b"weights")?))
            .unwrap();
    }

    fn there(of: &BestEpochWeights) -> Vec<u32> {
        let mut epochs: Vec<u32> = weights::candidates(&of.dir)
            .iter()
            .map(|f| f.epoch)
            .collect();
        epochs.sort_unstable();
        epochs
    }

    fn epochs(values: &[f64]) -> Vec<Epoch> {
        let epoch = |(at, value): (usize, &f64)| Epoch {
            epoch: at as u32 + 1,
            metrics: Metrics::from([("f1".into(), *value)]),
        };
        values.iter().enumerate().map(epoch).collect()
    }

    #[test]
    fn the_latest_up_to_the_checkpoint_and_the_latest_of_all_are_needed() {
        assert_eq!(needed(&[], 5), [0u32; 0]);
        assert_eq!(needed(&[2, 4, 7, 9], 0), [9]);
        assert_eq!(needed(&[2, 4, 7, 9], 5), [4, 9]);
        assert_eq!(needed(&[2, 4, 7, 9], 9), [9]);
        assert_eq!(needed(&[2, 4], 5), [4]);
    }

    #[test]
    fn only_values_that_pass_the_bar_are_wanted() {
        let dir = tempfile::tempdir().unwrap();
        let barred = candidates(&dir, Some(0.5));
        assert!(!barred.wants(0.4) && !barred.wants(0.5) && barred.wants(0.6));
        let open = candidates(&dir, None);
        assert!(open.wants(0.4) && !open.wants(f64::INFINITY));
    }

    #[test]
    fn an_attempt_that_goes_on_has_the_candidate_of_its_checkpoint_and_drops_later_ones() {
        let dir = tempfile::tempdir().unwrap();
        let mut first = candidates(&dir, None);
        offer(&mut first, 1, 0.4);
        offer(&mut first, 2, 0.5);
        first.checkpointed(2);
        offer(&mut first, 4, 0.6);
        assert_eq!(there(&first), [2, 4]);
        // It was killed in epoch 5; its last checkpoint is that after epoch 2.
        let mut second = candidates(&dir, None);
        second.go_on_after(&epochs(&[0.4, 0.5]));
        offer(&mut second, 3, 0.55);
        assert_eq!(there(&second), [2, 3]);
        // One that starts from the beginning has none.
        let mut third = candidates(&dir, None);
        offer(&mut third, 1, 0.4);
        assert_eq!(there(&third), [1]);
    }

    #[test]
    fn a_candidate_with_another_value_than_was_reported_is_not_taken_over() {
        let dir = tempfile::tempdir().unwrap();
        let mut first = candidates(&dir, None);
        offer(&mut first, 1, 0.41);
        let mut second = candidates(&dir, None);
        second.go_on_after(&epochs(&[0.4, 0.3]));
        second.checkpointed(2);
        assert_eq!(there(&second), [0u32; 0]);
    }
}
