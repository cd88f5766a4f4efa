//! `tune failures`: why trials failed.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Answer, choose};
use fault::{FailureGroup, FaultKind, group_failures};
use messages::exit::Failure;
use report::format::plural;
use report::{About, FAILURE_ATTRS, failure, failure_lines, no_value};
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
    /// Trials whose loss or value was NaN or infinite: a result of the search, and no failure.
    diverged: u64,
    /// What to say where none of the others has a value.
    #[serde(skip)]
    no_value: Option<String>,
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
    let faults = store.faults(study.study_id)?;
    let about = About::new(&study.name, tune);
    Ok(Failures {
        failed: failures.iter().map(|group| group.count).sum(),
        diverged: diverged(&faults),
        no_value: without_value(&about, &trials, &faults),
        about,
        study: study.name,
        failures,
    })
}

/// Attempts that have diverged; no trial diverges twice.
fn diverged(faults: &BTreeMap<String, u64>) -> u64 {
    let word = FaultKind::Diverged.word();
    faults.get(word).copied().unwrap_or_default()
}

/// What to say where trials have been pruned and none is complete, by the faults of a study.
pub(super) fn without_value(
    about: &About,
    trials: &[FrozenTrial],
    faults: &BTreeMap<String, u64>,
) -> Option<String> {
    let complete = trials.iter().any(|t| t.state == TrialState::Complete);
    let pruned = trials
        .iter()
        .filter(|t| t.state == TrialState::Pruned && t.counts());
    let latest = pruned.clone().map(|t| t.number).max()?;
    let told = || no_value(about, pruned.count() as u64, diverged(faults), latest);
    (!complete).then(told)
}

/// The failed trials of a study by what they say, the most frequent first; the first `logs` groups with the log of
/// their latest trial. Of the trials, outlines are read.
///
/// # Errors
/// Reading failed (7).
pub(super) fn failure_groups(
    store: &Store,
    study: &StudySummary,
    trials: &[FrozenTrial],
    logs: usize,
) -> Result<Vec<FailureGroup>, Failure> {
    let early = |t: &&FrozenTrial| match t.state {
        TrialState::Fail => true,
        TrialState::Pruned => t.user_attrs.contains_key("fault"),
        TrialState::Complete | TrialState::Running | TrialState::Waiting => false,
    };
    let numbers: Vec<u64> = trials.iter().filter(early).map(|t| t.number).collect();
    if numbers.is_empty() {
        return Ok(Vec::new());
    }
    let mut attributes = store.attributes(study.study_id, &numbers, &FAILURE_ATTRS)?;
    let failed = trials.iter().filter(early).filter_map(|t| {
        let mut trial = FrozenTrial::new(t.number, t.state, Params::new());
        trial.user_attrs = attributes.remove(&t.number).unwrap_or_default();
        failure(&trial, None)
    });
    grouped(store, study, failed, logs)
}

/// The same of failures that were read.
pub(super) fn grouped(
    store: &Store,
    study: &StudySummary,
    failed: impl Iterator<Item = fault::Failure>,
    logs: usize,
) -> Result<Vec<FailureGroup>, Failure> {
    let mut groups = group_failures(failed);
    let dir = store.place().files();
    for group in groups.iter_mut().take(logs) {
        let attempts = store.attempts(study.study_id, group.latest())?;
        let log = attempts.last().map(|attempt| dir.join(&attempt.log));
        group.log = log.map(|path| path.to_string_lossy().into_owned());
    }
    Ok(groups)
}

impl Answer for Failures {
    fn text(&self) -> String {
        let mut lines = match self.failures.is_empty() {
            true => vec![format!("no trial of {} has failed", self.study)],
            false => {
                let failed = plural(self.failed as u64, "failed trial");
                vec![format!("{}: {failed}", self.study)]
            }
        };
        lines.extend(failure_lines(&self.about, &self.failures, usize::MAX));
        if let Some(no_value) = &self.no_value {
            lines.push(no_value.clone());
        } else if self.diverged > 0 {
            let trials = plural(self.diverged, "trial");
            let which = self.about.command("trials");
            lines.push(format!(
                "{trials} diverged (the loss or the value was NaN or infinite), which the search has learned from: {which} \
                 --where reason=diverged"
            ));
        }
        lines.join("\n") + "\n"
    }
}
