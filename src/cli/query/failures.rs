//! `tune failures`: why trials failed.

use serde::Serialize;

use super::{Answer, choose};
use fault::{FailureGroup, group_failures};
use files::paths::directory_of;
use messages::exit::Failure;
use report::format::plural;
use report::{About, FAILURE_ATTRS, failure, failure_lines};
use search::space::Params;
use search::study::{FrozenTrial, TrialState};
use store::{Store, StudySummary};

/// Why trials of a study failed.
#[derive(Serialize)]
pub struct Failures {
    study: String,
    /// Failed trials in all.
    failed: usize,
    failures: Vec<FailureGroup>,
    #[serde(skip)]
    about: About,
}

/// Why trials of a study failed; `tune`: how commands begin ([`About`]).
///
/// # Errors
/// No such study (2); reading failed (7).
pub fn failures(store: &Store, name: Option<&str>, tune: &str) -> Result<Failures, Failure> {
    let study = choose(store, name)?;
    let trials = store.outlines(study.study_id)?;
    let failures = failure_groups(store, &study, &trials, usize::MAX)?;
    Ok(Failures {
        failed: failures.iter().map(|group| group.count).sum(),
        about: About::new(&study.name, tune),
        study: study.name,
        failures,
    })
}

/// The failed trials of a study by what they say, the most frequent first; the first `logs` groups with the log of
/// their latest trial. Of the trials, states are read.
///
/// # Errors
/// Reading failed (7).
pub(super) fn failure_groups(
    store: &Store,
    study: &StudySummary,
    trials: &[FrozenTrial],
    logs: usize,
) -> Result<Vec<FailureGroup>, Failure> {
    let early = |t: &&FrozenTrial| matches!(t.state, TrialState::Fail | TrialState::Pruned);
    if !trials.iter().any(|t| early(&t)) {
        return Ok(Vec::new());
    }
    let mut attributes = store.attributes(study.study_id, &FAILURE_ATTRS)?;
    let failed = trials.iter().filter(early).filter_map(|t| {
        let mut trial = FrozenTrial::new(t.number, t.state, Params::new());
        trial.user_attrs = attributes.remove(&t.number).unwrap_or_default();
        failure(&trial, None)
    });
    let mut groups = group_failures(failed);
    let dir = directory_of(store.path());
    for group in groups.iter_mut().take(logs) {
        let attempts = store.attempts(study.study_id, group.latest())?;
        let log = attempts.last().map(|attempt| dir.join(&attempt.log));
        group.log = log.map(|path| path.to_string_lossy().into_owned());
    }
    Ok(groups)
}

impl Answer for Failures {
    fn text(&self) -> String {
        if self.failures.is_empty() {
            return format!("no trial of {} has failed\n", self.study);
        }
        let failed = plural(self.failed as u64, "failed trial");
        let mut lines = vec![format!("{}: {failed}", self.study)];
        lines.extend(failure_lines(&self.about, &self.failures, usize::MAX));
        lines.join("\n") + "\n"
    }
}
