//! `tune watch [STUDY]`: a study on the whole terminal, as it goes on.

mod beside;
mod reader;
mod screen;
mod show;

use std::io::IsTerminal;

use super::commands::{StatusArgs, WatchArgs};
use super::report_server::serve;
use super::status::status;
use super::{Common, run};
pub(super) use beside::{Beside, opens};
use messages::exit::{Exit, Failure};
use reader::Reader;
use store::{Place, Store};
use view::Looks;

/// What the terminal can show, by the environment.
fn looks() -> Looks {
    Looks::of(|name| run::variable(name)?.into_string().ok())
}

/// Whether there is a terminal that can show the view: it is read from and written to, and moves its cursor.
fn can_show() -> bool {
    let dumb = run::variable("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    !dumb && std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

/// Shows a study until it is left. Where nothing but lines can be shown, or JSON is asked for, it is `tune status --watch`.
/// `tune`: how commands about the database begin.
pub(super) fn watch(
    common: &Common,
    storage: &Place,
    args: &WatchArgs,
    tune: &str,
) -> Result<Exit, Failure> {
    let store = Store::open_read_only(storage)?;
    let study = store::choose(&store, args.study.as_deref())?;
    if args.web {
        return serve(storage, &study.name, args.port, tune);
    }
    if common.json || !can_show() {
        drop(store);
        let args = StatusArgs {
            study: Some(study.name),
            watch: Some(None),
        };
        return status(common, storage, &args, tune);
    }
    let reader = Reader::start(store, &study, tune)?;
    show::until_left(&reader, looks(), args.of_run)
}
