//! Peaks of trainings that have not run yet.

use std::sync::Arc;

use super::{Estimate, Floor, Observation};
use crate::space::{Params, Space};

/// Learns peaks from measurements, beginning with what the task knows beforehand.
pub struct Predictor {
    space: Space,
    floor: Option<Arc<dyn Floor>>,
    observations: Vec<Observation>,
}

impl Predictor {
    /// Knows the floor alone.
    pub fn new(space: Space, floor: Option<Arc<dyn Floor>>) -> Predictor {
        Predictor {
            space,
            floor,
            observations: Vec::new(),
        }
    }

    /// Takes a measurement in.
    pub fn learn(&mut self, observation: Observation) {
        self.observations.push(observation);
    }

    /// How many measurements it knows.
    pub fn known(&self) -> usize {
        self.observations.len()
    }

    /// The peak of a training of this configuration; `None` where nothing is known. A function of
    /// the arguments of [`Predictor::new`] and of what was learned, in order.
    pub fn estimate(&self, config: &Params) -> Option<Estimate> {
        let _ = &self.space;
        let floor = self.floor.as_ref().and_then(|f| f.floor(config));
        let peaks = self.observations.iter().map(|o| o.peak);
        let upper = peaks.max().max(floor)?;
        Some(Estimate {
            lower: floor.unwrap_or(0),
            expected: upper,
            upper,
        })
    }
}
