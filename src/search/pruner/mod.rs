//! Pruners: whether a running trial is worth going on with. One file an algorithm, one interface,
//! one shared test suite (`conformance`). Pure: a decision is a function of the [`PruneContext`] alone.

mod asha;
mod auto;
mod curves;
mod hyperband;
mod options;
mod patient;
mod percentile;
mod regression;
mod reports;
mod signed_rank;
mod spec;
mod threshold;
mod wilcoxon;

#[cfg(test)]
mod conformance;
#[cfg(test)]
mod oracle_tests;
#[cfg(test)]
mod simulation_tests;
#[cfg(test)]
mod testing;

pub use asha::AshaPruner;
pub use auto::AutoPruner;
pub use hyperband::HyperbandPruner;
pub use options::pruner;
pub use patient::PatientPruner;
pub use percentile::PercentilePruner;
pub use spec::PrunerSpec;
pub use threshold::ThresholdPruner;
pub use wilcoxon::WilcoxonPruner;

use crate::study::{Entry, History};

/// What is known of a study beside its trials. Part of its identity or of the run's record, so that
/// a resumed study decides alike.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Horizon {
    /// The last step that a trial reports if nothing ends it early, at least 1; `None`: unknown.
    pub max_step: Option<u64>,
    /// The study's name: Hyperband deals trials to brackets by it.
    pub study: String,
}

/// A trial that has just reported, and what a decision about it may depend on.
#[derive(Debug, Clone, Copy)]
pub struct PruneContext<'a> {
    /// The trials of the study, this one among them or not.
    pub history: &'a History,
    /// The trial, its latest report included.
    pub trial: &'a Entry,
    /// The step at which the pruner was asked about this trial the last time; `None`: never.
    pub since: Option<i64>,
}

/// A rule that ends trials early. `&mut self` is for caches alone: the same question always gets
/// the same answer, whatever was asked before.
pub trait Pruner: Send {
    /// The name in configurations (`pruner.kind`).
    fn name(&self) -> &'static str;

    /// Whether the trial should end. NaN reports count as worst.
    fn judge(&mut self, judged: &PruneContext) -> bool;

    /// Whether `trial`, which has just reported its latest intermediate value, should end; asked at
    /// each of its reports. `history` holds the other trials (and this one).
    fn should_prune(&mut self, history: &History, trial: &Entry) -> bool {
        let Some((step, _)) = trial.last_report() else {
            return false;
        };
        let before = trial.intermediate.range(..step).next_back();
        self.judge(&PruneContext {
            history,
            trial,
            since: before.map(|(step, _)| *step),
        })
    }
}

/// Never prunes.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoPruner;

impl Pruner for NoPruner {
    fn name(&self) -> &'static str {
        "none"
    }

    fn judge(&mut self, _judged: &PruneContext) -> bool {
        false
    }
}
