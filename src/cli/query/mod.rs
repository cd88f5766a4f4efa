//! The read-only commands: from the database to text, JSON and CSV. Nothing here prints; the
//! command line decides where the text goes.

mod adopt;
mod enqueued;
mod explain;
mod format;
mod front;
mod gpus;
mod list;
mod memory;
mod replay;
mod show;
mod status;
#[cfg(test)]
mod tests;
mod trials;
mod winner;

pub use adopt::{Adoption, adopted, alive};
pub use enqueued::Enqueued;
pub use explain::{explanation, explanation_json};
pub use format::stored as stored_time;
pub use list::{TaskLine, list, list_json};
pub use memory::{memory, memory_json};
pub use replay::Replayed;
pub use show::{read as read_trial, show, show_json};
pub use status::{Context, best, best_json, status, status_json};
pub use trials::{trials_csv, trials_json, trials_table};

use config::Baseline;
use messages::exit::Failure;
use report::format::plural;
use search::study::FrozenTrial;
use store::{Store, StudySummary, choose};
use supervisor::MADE_FROM;

/// The number of the study's winner: by its repeats where there are some, else of the best trial.
///
/// # Errors
/// There is none yet, or the study has several objectives (2); reading failed (7).
pub fn winner_number(store: &Store, study: &StudySummary) -> Result<u64, Failure> {
    if study.directions.len() > 1 {
        return Err(Failure::input(format!(
            "study {} has several objectives, and so no winner: name a trial of its front (tune best {})",
            study.name, study.name
        )));
    }
    Ok(status::read_best(store, study)?.0.number)
}

/// The baseline that a run has noted in the study.
fn baseline(study: &StudySummary) -> Option<Baseline> {
    let noted = study.user_attrs.get("baseline")?;
    Some(Baseline {
        value: messages::number_from_json(noted.get("value")?)?,
        what: noted
            .get("what")
            .and_then(|w| w.as_str())
            .unwrap_or_default()
            .to_owned(),
    })
}

/// What a study was made from: `criteria (--fork), 12 trials copied`. `None`: from nothing.
fn made_from(study: &StudySummary) -> Option<String> {
    let made = study.user_attrs.get(MADE_FROM)?;
    let by = made.get("by")?.as_str()?;
    let studies: Vec<&str> = made
        .get("studies")?
        .as_array()?
        .iter()
        .filter_map(|s| s.as_str())
        .collect();
    let count = |key: &str| {
        made.get(key)
            .and_then(serde_json::Value::as_u64)
            .unwrap_or(0)
    };
    let took = match (count("copied"), count("enqueued")) {
        (0, 0) if count("waiting") > 0 => {
            format!("{} taken over", plural(count("waiting"), "enqueued point"))
        }
        (0, 0) => "nothing fitted".to_owned(),
        (0, n) => format!("{} tried again", plural(n, "point")),
        (n, _) => format!("{} copied", plural(n, "trial")),
    };
    Some(format!(
        "{} ({}), {took}",
        format::words(&studies),
        format::printable(by)
    ))
}

/// The best COMPLETE trial; among equals the earliest. Infeasible trials do not count.
fn best_trial<'a>(study: &StudySummary, trials: &'a [FrozenTrial]) -> Option<&'a FrozenTrial> {
    let value = |t: &FrozenTrial| t.result(study.directions.len())?.first().copied();
    let results = trials.iter().filter_map(|t| Some((t, value(t)?)));
    study.direction().best(results).map(|(trial, _)| trial)
}
