//! Pruners: whether a running trial is worth going on with. One file an algorithm. Pure.

mod median;

pub use median::MedianPruner;

use crate::study::{Entry, History};

/// A rule that ends trials early.
pub trait Pruner: Send {
    /// The name in configurations (`pruner.kind`).
    fn name(&self) -> &'static str;

    /// Whether `trial`, which has just reported its latest intermediate value, should end.
    /// `history` holds the other trials (and this one). NaN reports count as worst.
    fn should_prune(&self, history: &History, trial: &Entry) -> bool;
}

/// Never prunes.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoPruner;

impl Pruner for NoPruner {
    fn name(&self) -> &'static str {
        "none"
    }

    fn should_prune(&self, _history: &History, _trial: &Entry) -> bool {
        false
    }
}

/// A pruner.
pub fn pruner(spec: &crate::config::PrunerSpec) -> Option<Box<dyn Pruner>> {
    (spec.kind == "none" || spec.kind == "auto").then(|| Box::new(NoPruner) as Box<dyn Pruner>)
}
