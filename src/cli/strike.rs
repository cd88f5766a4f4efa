//! `tune strike STUDY N`: a result is declared invalid.

use std::collections::BTreeSet;

use serde::Serialize;

use super::commands::StrikeArgs;
use super::manage::{PATIENCE, warn};
use super::{Common, acknowledge, run};
use crate::query::{Answer, printable, shell_word};
use config::places::Wanted;
use messages::exit::{Exit, Failure};
use search::study::carry::{COPIED_FROM, origin};
use store::{Store, StudySummary};
use supervisor::{MADE_FROM, patiently};

/// A trial whose result was struck, or is valid again.
#[derive(Debug, Serialize)]
struct Struck {
    study: String,
    number: u64,
    /// Why; null: the result is valid again.
    why: Option<String>,
    /// Its copies in other studies for which that does not hold.
    copies: Vec<TrialCopy>,
    /// How commands about the project begin.
    #[serde(skip)]
    tune: String,
}

/// A trial that another study has taken over with its result.
#[derive(Debug, Serialize)]
struct TrialCopy {
    study: String,
    number: u64,
}

impl Struck {
    /// The commands that do the same to the copies.
    fn of_copies(&self) -> String {
        let (heading, flag) = match &self.why {
            Some(why) => (
                "Forks have copies of it, which still lead where they led:",
                format!("--why {}", shell_word(why)),
            ),
            None => (
                "Copies of it in forks are still struck:",
                "--undo".to_owned(),
            ),
        };
        let mut text = String::new();
        for (at, TrialCopy { study, number }) in self.copies.iter().enumerate() {
            if at == 0 {
                text = format!("{heading}\n");
            }
            let study = shell_word(study);
            text += &format!("  {} strike {study} {number} {flag}\n", self.tune);
        }
        text
    }
}

impl Answer for Struck {
    fn text(&self) -> String {
        let (study, number) = (printable(&self.study), self.number);
        let told = match &self.why {
            Some(why) => format!(
                "trial {number} of {study} is struck: {}\n\
                 It no longer leads, and the search no longer learns from it. It still counts as a finished trial.\n",
                printable(why)
            ),
            None => format!("the result of trial {number} of {study} is valid again\n"),
        };
        told + &self.of_copies()
    }
}

/// The copies of a trial in the studies that were made from its study, and copies of those, whose results are struck or not.
fn copies(
    store: &Store,
    study: &StudySummary,
    number: u64,
    struck: bool,
) -> Result<Vec<TrialCopy>, Failure> {
    let mut known = BTreeSet::from([(study.name.clone(), number)]);
    let mut found = Vec::new();
    // A copy is made after what it is one of, and studies come in the order in which they were made.
    // Most have none: their trials, which may be hundreds of thousands on a server, are not read.
    let later = |other: &StudySummary| {
        other.study_id > study.study_id && other.user_attrs.contains_key(MADE_FROM)
    };
    for other in store.studies()?.into_iter().filter(later) {
        for trial in store.overviews(other.study_id, None, &[COPIED_FROM])? {
            let from = trial.user_attrs.get(COPIED_FROM).and_then(origin);
            if !from.is_some_and(|from| known.contains(&from)) {
                continue;
            }
            known.insert((other.name.clone(), trial.number));
            let whole = store.trial(other.study_id, trial.number)?;
            if whole.is_some_and(|copy| copy.struck() == struck) {
                found.push(TrialCopy {
                    study: other.name.clone(),
                    number: trial.number,
                });
            }
        }
    }
    Ok(found)
}

pub(super) fn strike(common: &Common, args: &StrikeArgs) -> Result<Exit, Failure> {
    let project = run::existing_project(common, Wanted::Studies)?;
    let storage = run::storage(&project, common)?;
    let number = args.number;
    let why = args.why.as_deref().map(str::trim);
    if why == Some("") {
        return Err(Failure::input("--why: found no text, expected a reason"));
    }
    let store = Store::open_read_only(&storage)?;
    let study = store::choose(&store, Some(&args.study))?;
    let name = printable(&study.name);
    let Some(trial) = store.trial(study.study_id, number)? else {
        return Err(Failure::input(format!(
            "study {name} has no trial {number}"
        )));
    };
    if !trial.state.finished() {
        return Err(Failure::input(format!(
            "trial {number} of {name} is {}; only a trial that has ended has a result to strike",
            trial.state.optuna()
        )));
    }
    if why.is_none() && !trial.struck() {
        return Err(Failure::input(format!(
            "trial {number} of {name} is not struck"
        )));
    }
    let copies = copies(&store, &study, number, why.is_none())?;
    drop(store);
    patiently(PATIENCE, &mut warn(common), || {
        Store::open_existing(&storage)?.strike(study.study_id, number, why)
    })?;
    acknowledge(
        common,
        &Struck {
            study: study.name,
            number,
            why: why.map(str::to_owned),
            copies,
            tune: run::command_in(common, &project)?,
        },
    )
}
