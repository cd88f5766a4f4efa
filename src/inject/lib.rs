//! Faults made on purpose, for drills and tests. A worker decides by a plan which of its attempts
//! are hit, and then really does what the fault's name says: kills itself, writes to address zero,
//! stops reading. What follows is the supervisor's business, and it learns of it only through the
//! evidence that a real fault leaves: no message says that one was made. What was done stands in a
//! ledger that nothing but the drill's report reads.

mod kind;
pub mod ledger;
mod plan;

pub use kind::{Form, Here, Kind};
pub use plan::{Injection, Plan, PlanError};

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use search::study::{Job, Purpose};

/// A number beyond those that a count is dealt to.
const NO_TRIAL: u64 = u64::MAX;

/// What a run injects, as its workers get it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InjectSpec {
    /// Which faults, and how many.
    pub plan: Plan,
    /// Decides which trials they hit.
    pub seed: u64,
    /// Where what was done is noted.
    pub ledger: PathBuf,
}

impl InjectSpec {
    /// Whether, how and at which step this attempt is hit. Counts are of the search's trials; a
    /// rate hits repeats as well.
    pub fn decide(&self, job: Job, attempt: u32) -> Option<Injection> {
        match job.purpose {
            Purpose::Search => self.plan.decide(self.seed, job.number, attempt),
            Purpose::Repeat(_) | Purpose::Test => {
                let seed = job.purpose.seed(self.seed, job.number);
                self.plan.decide(seed, NO_TRIAL, attempt)
            }
        }
    }
}
