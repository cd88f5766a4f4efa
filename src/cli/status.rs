//! `tune status [STUDY] [--watch]`.

use std::io;
use std::time::Duration;

use super::commands::StatusArgs;
use super::{Common, answer, done, print, versioned};
use crate::query::{self, Answer, Context, Status, Statuses};
use messages::exit::{Exit, Failure};
use report::Screen;
use store::{Place, Store, StudySummary};
use supervisor::lock_owner;
use supervisor::spool::Waiting;

/// Seconds between two looks, unless others are asked for.
const EVERY: f64 = 2.0;

/// The longest pause between two looks, in seconds.
const MOST: f64 = 86_400.0;

/// `tune`: how commands about the database begin.
pub(super) fn status(
    common: &Common,
    storage: &Place,
    args: &StatusArgs,
    tune: &str,
) -> Result<Exit, Failure> {
    let (study, every) = meant(args)?;
    let store = Store::open_read_only(storage)?;
    match every {
        None => look(&store, study, tune)?.answer(common),
        Some(every) => watch(common, &store, study, every, tune),
    }
}

/// Shows it again and again, until no run is left that could change it, or nobody reads it.
fn watch(
    common: &Common,
    store: &Store,
    study: Option<&str>,
    every: Duration,
    tune: &str,
) -> Result<Exit, Failure> {
    let mut screen = Screen::default();
    loop {
        let seen = look(store, study, tune)?;
        if common.json {
            print(&format!("{}\n", versioned(&seen)?))?;
        } else {
            match screen.draw(&seen.text()) {
                Err(e) if e.kind() == io::ErrorKind::BrokenPipe => return Ok(Exit::Done),
                drawn => done(drawn)?,
            };
        }
        if !seen.is_live() || !report::wait_while_read(every) {
            return Ok(Exit::Done);
        }
    }
}

/// One study, or all of a database.
#[derive(serde::Serialize)]
#[serde(untagged)]
enum Seen {
    One(Box<Status>),
    All(Statuses),
}

impl Seen {
    fn is_live(&self) -> bool {
        match self {
            Seen::One(status) => status.is_live(),
            Seen::All(statuses) => statuses.is_live(),
        }
    }

    fn answer(&self, common: &Common) -> Result<Exit, Failure> {
        answer(common, self)
    }
}

impl Answer for Seen {
    fn text(&self) -> String {
        match self {
            Seen::One(status) => status.text(),
            Seen::All(statuses) => statuses.text(),
        }
    }
}

/// What the database does not know of a study.
pub(super) fn context(store: &Store, study: &StudySummary, tune: &str) -> Context {
    let owner = lock_owner(store.place(), study);
    Context {
        suspended: owner.as_ref().is_some_and(supervisor::suspended),
        spooled: Waiting::of(store.place(), &study.name),
        now: messages::clock::now(),
        owner,
        tune: tune.to_owned(),
    }
}

fn look(store: &Store, study: Option<&str>, tune: &str) -> Result<Seen, Failure> {
    let stands = |study: StudySummary| {
        let context = context(store, &study, tune);
        query::status(store, study, &context)
    };
    match study {
        Some(name) => Ok(Seen::One(Box::new(stands(store::choose(
            store,
            Some(name),
        )?)?))),
        None => {
            let studies = store.studies()?.into_iter().map(stands);
            Ok(Seen::All(Statuses::new(studies.collect::<Result<_, _>>()?)))
        }
    }
}

/// The study, and how often it is looked at. `--watch STUDY` means the study, for no study's state is asked for by
/// seconds alone.
fn meant(args: &StatusArgs) -> Result<(Option<&str>, Option<Duration>), Failure> {
    let study = args.study.as_deref();
    let Some(watch) = &args.watch else {
        return Ok((study, None));
    };
    let usual = Duration::from_secs_f64(EVERY);
    match (study, watch.as_deref()) {
        (study, None) => Ok((study, Some(usual))),
        (study, Some(given)) => match given.parse::<f64>() {
            Ok(seconds) if (0.1..=MOST).contains(&seconds) => {
                Ok((study, Some(Duration::from_secs_f64(seconds))))
            }
            Err(_) if study.is_none() => Ok((Some(given), Some(usual))),
            Ok(_) | Err(_) => Err(Failure::input(format!(
                "--watch {given}: expected seconds from 0.1 to {MOST:.0}"
            ))),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_behind_watch_is_seconds_or_the_study() {
        let of = |study: Option<&str>, watch: Option<Option<&str>>| {
            let args = StatusArgs {
                study: study.map(str::to_owned),
                watch: watch.map(|w| w.map(str::to_owned)),
            };
            let (study, every) = meant(&args).ok()?;
            Some((study.map(str::to_owned), every.map(|e| e.as_secs_f64())))
        };
        let study = || Some("s".to_owned());
        assert_eq!(of(Some("s"), None), Some((study(), None)));
        assert_eq!(of(Some("s"), Some(None)), Some((study(), Some(2.0))));
        assert_eq!(of(Some("s"), Some(Some("5"))), Some((study(), Some(5.0))));
        assert_eq!(of(None, Some(Some("s"))), Some((study(), Some(2.0))));
        assert_eq!(of(None, Some(Some("0.5"))), Some((None, Some(0.5))));
        for wrong in ["0", "-1", "NaN", "1e9"] {
            assert_eq!(of(None, Some(Some(wrong))), None, "{wrong}");
        }
        assert_eq!(of(Some("s"), Some(Some("x"))), None);
    }
}
