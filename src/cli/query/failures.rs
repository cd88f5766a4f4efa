//! `tune failures`: why trials failed.

use serde::Serialize;

use super::{Answer, choose};
use fault::{FailureGroup, group_failures};
use files::paths::directory_of;
use messages::exit::Failure;
use report::format::plural;
use report::{FAILURE_ATTRS, failure, failure_lines};
use store::{Store, StudySummary};

/// Why trials of a study failed.
#[derive(Serialize)]
pub struct Failures {
    study: String,
    /// Failed trials in all.
    failed: usize,
    failures: Vec<FailureGroup>,
}

/// Why trials of a study failed.
///
/// # Errors
/// No such study (2); reading failed (7).
pub fn failures(store: &Store, name: Option<&str>) -> Result<Failures, Failure> {
    let study = choose(store, name)?;
    let failures = failure_groups(store, &study)?;
    Ok(Failures {
        failed: failures.iter().map(|group| group.count).sum(),
        study: study.name,
        failures,
    })
}

/// The failed trials of a study by what they say, the most frequent first, each group with the log of
/// its latest trial.
///
/// # Errors
/// Reading failed (7).
pub(super) fn failure_groups(
    store: &Store,
    study: &StudySummary,
) -> Result<Vec<FailureGroup>, Failure> {
    let trials = store.ended_early(study.study_id, &FAILURE_ATTRS)?;
    let failed = trials.iter().filter_map(|trial| failure(trial, None));
    let mut groups = group_failures(failed);
    let dir = directory_of(store.path());
    for group in &mut groups {
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
        lines.extend(failure_lines(&self.study, &self.failures, usize::MAX));
        lines.join("\n") + "\n"
    }
}
