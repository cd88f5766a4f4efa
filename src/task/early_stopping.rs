//! Early stopping, shared by the task kinds.

use config::kinds::shared::{MIN_DELTA, PATIENCE};
use search::study::Direction;

use crate::TrialSpec;

/// How long a training may go without an improvement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Patience {
    /// So many epochs in a row without an improvement end it; 0: none do.
    epochs: u32,
    /// An improvement is more than this.
    min_delta: f64,
}

impl Patience {
    /// Of a trial.
    ///
    /// # Errors
    /// A key is absent or of the wrong type.
    pub fn of(trial: &TrialSpec) -> anyhow::Result<Patience> {
        Ok(Patience {
            epochs: trial.int(PATIENCE)?,
            min_delta: trial.float(MIN_DELTA)?,
        })
    }
}

/// Watches the objective; says when a training should stop because it no longer improves.
#[derive(Debug, Clone, PartialEq)]
pub struct EarlyStopping {
    patience: Patience,
    direction: Direction,
    best: Option<f64>,
    waited: u32,
}

impl EarlyStopping {
    /// Of a training that begins.
    pub fn new(patience: Patience, direction: Direction) -> EarlyStopping {
        EarlyStopping {
            patience,
            direction,
            best: None,
            waited: 0,
        }
    }

    /// Takes the value of the next epoch; true: stop now. NaN is no improvement.
    pub fn update(&mut self, value: f64) -> bool {
        if self.improves(value) {
            self.best = Some(value);
            self.waited = 0;
        } else {
            self.waited = self.waited.saturating_add(1);
        }
        self.patience.epochs > 0 && self.waited >= self.patience.epochs
    }

    fn improves(&self, value: f64) -> bool {
        match (self.best, self.direction) {
            (None, _) => !value.is_nan(),
            (Some(best), Direction::Minimize) => value < best - self.patience.min_delta,
            (Some(best), Direction::Maximize) => value > best + self.patience.min_delta,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The index at which it stops.
    fn stop(epochs: u32, min_delta: f64, direction: Direction, values: &[f64]) -> Option<usize> {
        let mut stopping = EarlyStopping::new(Patience { epochs, min_delta }, direction);
        values.iter().position(|v| stopping.update(*v))
    }

    #[test]
    fn patience_zero_never_stops() {
        assert_eq!(stop(0, 0.0, Direction::Minimize, &[1.0; 100]), None);
    }

    #[test]
    fn it_stops_after_so_many_epochs_without_improvement() {
        let values = [3.0, 2.0, 2.0, 2.5, 1.0, 1.0, 1.0];
        assert_eq!(stop(2, 0.0, Direction::Minimize, &values), Some(3));
        assert_eq!(stop(3, 0.0, Direction::Minimize, &values), None);
        let rising = values.map(|v| -v);
        assert_eq!(stop(2, 0.0, Direction::Maximize, &rising), Some(3));
    }

    #[test]
    fn an_improvement_must_exceed_min_delta() {
        let values = [1.0, 0.95, 0.9, 0.85];
        assert_eq!(stop(2, 0.1, Direction::Minimize, &values), Some(2));
        assert_eq!(stop(2, 0.01, Direction::Minimize, &values), None);
    }

    #[test]
    fn nan_is_no_improvement() {
        let values = [f64::NAN, f64::NAN];
        assert_eq!(stop(2, 0.0, Direction::Maximize, &values), Some(1));
    }
}
