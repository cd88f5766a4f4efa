//! Median stopping.

use super::Pruner;
use crate::study::{Entry, History};

/// Median stopping.
#[derive(Debug)]
pub struct MedianPruner;

impl Pruner for MedianPruner {
    fn name(&self) -> &'static str {
        "median"
    }
    fn should_prune(&self, _history: &History, _trial: &Entry) -> bool {
        false
    }
}
