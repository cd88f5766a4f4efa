//! The read-only commands: from the database to text, JSON and CSV. Nothing here prints; the
//! command line decides where the text goes.

mod adopt;
mod best;
mod columns;
mod compare;
mod enqueued;
mod explain;
mod failures;
mod faults;
mod format;
mod gpus;
mod importance;
mod key;
mod list;
mod live;
mod material;
mod memory;
mod nodes;
mod objectives;
mod reason;
mod replay;
mod selection;
mod show;
mod state;
mod status;
#[cfg(test)]
mod tests;
mod trial_table;
mod trials;
mod watched;
mod winner;

pub use adopt::{Adoption, adopted, alive};
pub use best::best;
pub use columns::Width;
pub use compare::{must_be_alike, study_or_latest_of_task};
pub use enqueued::Enqueued;
pub use failures::failures;
pub use faults::Faults;
pub use format::{printable, stored as stored_time};
pub use importance::importance;
pub use list::{TaskLine, list, tasks};
pub use material::material;
pub use memory::memory;
pub use nodes::{is_elsewhere, is_live, nodes};
pub use objectives::metric_names;
pub use replay::{Replayed, best_value};
pub use report::shell_word;
pub use selection::Selection;
pub use show::{read as read_trial, show};
pub use state::waits_text;
pub use status::{Context, Status, Statuses, status};
pub use trials::{trials_csv, trials_json, trials_table};
pub use watched::Watched;

use ::adopt::fit::adopted_params;
use config::Baseline;
use messages::exit::Failure;
use report::Best;
use report::format::{plural, value as number};
use search::study::{FrozenTrial, pareto};
use serde::Serialize;
use store::{Store, StudySummary, choose};
use supervisor::MADE_FROM;
use winner::Winner;

/// What a query answers. For scripts it is JSON by its fields, for people a text made from the same.
pub trait Answer: Serialize {
    /// For people.
    fn text(&self) -> String;
}

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
    Ok(best::winning(store, study)?.0.number)
}

/// The baseline that a run has noted in the study.
fn baseline(study: &StudySummary) -> Option<Baseline> {
    serde_json::from_value(study.user_attrs.get("baseline")?.clone()).ok()
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

/// The best trial, of several objectives the front, the best first, with all of them that their outlines do not have.
fn leading(
    store: &Store,
    study: &StudySummary,
    outlines: &[FrozenTrial],
) -> Result<Vec<FrozenTrial>, Failure> {
    let most = match study.directions.len() {
        1 => 1,
        _ => usize::MAX,
    };
    let front = pareto::front(&study.directions, outlines).into_iter();
    let numbers: Vec<u64> = front.take(most).map(|t| t.number).collect();
    let mut whole = store.these(study.study_id, &numbers)?;
    whole.sort_by_cached_key(|trial| numbers.iter().position(|n| *n == trial.number));
    Ok(whole)
}

/// What is told of a trial that is best.
fn told(trial: &FrozenTrial) -> Best {
    Best::new(trial, adopted_params(trial))
}

/// Whether the mean of a trial's repeats, or else its value, is better than the trivial answer's.
fn beats(study: &StudySummary, best: &Best, baseline: &Baseline) -> bool {
    let mean = Winner::of(study).mean(best.number);
    mean.or(best.values.first().copied())
        .is_some_and(|value| study.direction().better(value, baseline.value))
}

/// A line that says that the search has found nothing better than the trivial answer.
fn warning(study: &StudySummary, best: Option<&Best>, baseline: Option<&Baseline>) -> String {
    match (best, baseline) {
        (Some(best), Some(baseline)) if !beats(study, best, baseline) => format!(
            "\nwarning: no trial beats the baseline; {} scores {}\n",
            match baseline.what.as_str() {
                "" => "it".to_owned(),
                what => format::printable(what),
            },
            number(baseline.value)
        ),
        (Some(_) | None, Some(_) | None) => String::new(),
    }
}

fn baseline_text(baseline: &Baseline) -> String {
    format!("{} ({})", number(baseline.value), baseline.what)
}
