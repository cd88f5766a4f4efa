//! `tune strike STUDY N`: a result is declared invalid.

use serde::Serialize;

use super::commands::StrikeArgs;
use super::manage::{PATIENCE, warn};
use super::{Common, answer, run};
use crate::query::{Answer, printable};
use config::places::Wanted;
use messages::exit::{Exit, Failure};
use store::Store;
use supervisor::patiently;

/// A trial whose result was struck, or is valid again.
#[derive(Debug, Serialize)]
struct Struck {
    study: String,
    number: u64,
    /// Why; null: the result is valid again.
    why: Option<String>,
}

impl Answer for Struck {
    fn text(&self) -> String {
        let (study, number) = (printable(&self.study), self.number);
        match &self.why {
            Some(why) => format!(
                "trial {number} of {study} is struck: {}\n\
                 It no longer leads, and the search no longer learns from it. It still counts as a finished trial.\n",
                printable(why)
            ),
            None => format!("the result of trial {number} of {study} is valid again\n"),
        }
    }
}

pub(super) fn strike(common: &Common, args: &StrikeArgs) -> Result<Exit, Failure> {
    let storage = run::storage(&run::existing_project(common, Wanted::Studies)?, common)?;
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
    drop(store);
    patiently(PATIENCE, &mut warn(common), || {
        Store::open_existing(&storage)?.strike(study.study_id, number, why)
    })?;
    answer(
        common,
        &Struck {
            study: study.name,
            number,
            why: why.map(str::to_owned),
        },
    )
}
