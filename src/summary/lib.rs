//! A study as people read it in the morning. [`Material`] is what the database knows, [`Facts`] what follows from it in
//! figures, [`figure`] a chart with its sentence, [`Page`] all of it as one HTML file without any other.

mod audit;
mod compare;
mod facts;
mod faults;
mod figures;
mod night;
mod page;
#[cfg(test)]
mod tests;
mod timeline;
mod verdict;

use serde_json::{Map, Value as Json};

pub use compare::{Basis, Comparison, Differing, Side};
pub use facts::Facts;
pub use figures::{Figure, Kind, Panel, figure};
pub use night::{Culprit, Night, OverTime};
pub use page::{GENERATOR, Page, Part, Scripts, index};

use config::Baseline;
use fault::FailureGroup;
use messages::clock;
use report::{About, Selected, Tested};
use search::study::selection::{Candidate, Estimate};
use search::study::{FrozenTrial, Job, TrialState};
use store::{AttemptRecord, MemoryRecord, RepeatRecord, RunEntry, StudySummary};

/// What the database knows of a study.
pub struct Material {
    /// The study.
    pub study: StudySummary,
    /// Names of the objectives, one for each direction.
    pub metrics: Vec<String>,
    /// The trivial answer.
    pub baseline: Option<Baseline>,
    /// How it stands, in words.
    pub state: String,
    /// All trials, ascending by number, whole.
    pub trials: Vec<FrozenTrial>,
    /// The number of the winner, or of the best trial; none with several objectives.
    pub winner: Option<u64>,
    /// What came of the repeats.
    pub selection: Option<Selected>,
    /// What the test split says.
    pub test: Option<Tested>,
    /// The attempts at trials and at repeats, by what they are at.
    pub attempts: Vec<(Job, AttemptRecord)>,
    /// Repeats and tests.
    pub repeats: Vec<RepeatRecord>,
    /// The memory ledger.
    pub memory: Vec<MemoryRecord>,
    /// The runs, in order.
    pub runs: Vec<RunEntry>,
    /// Why trials failed.
    pub failures: Vec<FailureGroup>,
    /// What the values depend on.
    pub identity: Map<String, Json>,
    /// Names and trials of studies beside it.
    pub others: Vec<(String, Vec<FrozenTrial>)>,
    /// How commands about it begin.
    pub about: About,
    /// The command that goes on with it, where a run of ours has begun it.
    pub command: Option<String>,
    /// The database's file.
    pub database: String,
    /// When this is made, and by which version.
    pub made: String,
}

/// A trial with a value that may be compared with others'.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scored<'a> {
    trial: &'a FrozenTrial,
    value: f64,
}

/// The complete, feasible trials with a finite value of the first objective, in order.
pub(crate) fn scored(trials: &[FrozenTrial], objectives: usize) -> Vec<Scored<'_>> {
    let of = |trial| {
        let value = *FrozenTrial::result(trial, objectives)?.first()?;
        value.is_finite().then_some(Scored { trial, value })
    };
    trials.iter().filter_map(of).collect()
}

impl Material {
    pub(crate) fn scored(&self) -> Vec<Scored<'_>> {
        scored(&self.trials, self.study.directions.len())
    }

    /// The winner by repeats, with the mean of them; none where another trial leads, because that one was struck.
    pub(crate) fn repeated(&self) -> Option<(&Candidate, Estimate)> {
        let winner = self.selection.as_ref()?.winner.as_ref()?;
        let leads = Some(winner.number) == self.winner;
        leads.then_some((winner, winner.estimate?))
    }

    /// The first objective's name.
    pub(crate) fn metric(&self) -> &str {
        self.metrics.first().map_or("value", String::as_str)
    }

    pub(crate) fn several(&self) -> bool {
        self.study.directions.len() > 1
    }

    /// Trials that count towards a goal.
    pub(crate) fn finished(&self) -> u64 {
        self.trials.iter().filter(|t| t.counts()).count() as u64
    }

    pub(crate) fn in_state(&self, state: TrialState) -> usize {
        self.trials.iter().filter(|t| t.state == state).count()
    }
}

/// Text of others in a sentence or a cell: one line that drives no terminal, and not a book.
pub(crate) fn shown(text: &str) -> String {
    chart::shortened(&messages::printable(text), 200)
}

/// Seconds since 1970 of a time of the database.
pub(crate) fn seconds(stored: &str) -> Option<f64> {
    let time = clock::stored(stored)?;
    Some(time.as_millisecond() as f64 / 1e3)
}
