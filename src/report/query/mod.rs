//! The read-only commands: from the database to text, JSON and CSV. Nothing here prints; the
//! command line decides where the text goes.

mod adopt;
mod explain;
mod format;
mod list;
mod replay;
mod show;
mod status;
#[cfg(test)]
mod tests;
mod trials;

pub use adopt::{Adoption, adopted, alive};
pub use explain::{explanation, explanation_json};
pub use format::stored as stored_time;
pub(super) use format::table;
pub use list::{TaskLine, list, list_json};
pub use replay::Replayed;
pub use show::{read as read_trial, show, show_json};
pub use status::{Context, best, best_json, spooled_text, status, status_json};
pub use trials::{trials_csv, trials_json, trials_table};

use crate::exit::Failure;
use crate::store::{Store, StudySummary};
use crate::study::{FrozenTrial, TrialState};
use crate::task::Baseline;

/// The study called `name`; without a name the only one.
///
/// # Errors
/// No such study, or several to choose from (2, with their names); reading failed (7).
pub fn choose(store: &Store, name: Option<&str>) -> Result<StudySummary, Failure> {
    if let Some(name) = name
        && let Some(study) = store.find_study(name)?
    {
        return Ok(study);
    }
    let mut studies = store.studies()?;
    let names: Vec<&str> = studies.iter().map(|s| s.name.as_str()).collect();
    let names = format::words(&names);
    let path = store.path().display();
    match (name, studies.len()) {
        (_, 0) => Err(Failure::input(format!("{path} holds no study yet"))),
        (None, 1) => Ok(studies.remove(0)),
        (None, _) => Err(Failure::input(format!(
            "which study? {path} holds several: {names}"
        ))),
        (Some(name), _) => Err(Failure::input(format!(
            "{path} holds no study called {name:?}; it holds: {names}"
        ))),
    }
}

/// The baseline that a run has noted in the study.
fn baseline(study: &StudySummary) -> Option<Baseline> {
    let noted = study.user_attrs.get("baseline")?;
    Some(Baseline {
        value: super::number_from_json(noted.get("value")?)?,
        what: noted
            .get("what")
            .and_then(|w| w.as_str())
            .unwrap_or_default()
            .to_owned(),
    })
}

/// The best COMPLETE trial; among equals the earliest. Infeasible trials do not count.
fn best_trial<'a>(study: &StudySummary, trials: &'a [FrozenTrial]) -> Option<&'a FrozenTrial> {
    let direction = study.direction();
    trials
        .iter()
        .filter(|t| t.state == TrialState::Complete && feasible(t))
        .filter_map(|t| Some((t, t.value()?)))
        .reduce(|best, next| {
            if direction.better(next.1, best.1) {
                next
            } else {
                best
            }
        })
        .map(|(trial, _)| trial)
}

fn feasible(trial: &FrozenTrial) -> bool {
    trial
        .system_attrs
        .iter()
        .filter(|(key, _)| key.starts_with("constraints:"))
        .filter_map(|(_, value)| super::number_from_json(value))
        .all(|violation| violation <= 0.0)
}
