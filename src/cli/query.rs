//! The commands that only read.

use std::path::Path;

use super::{Common, Query, init_logging, run};
use crate::config::places::{Project, list_tasks};
use crate::config::{Overrides, resolve};
use crate::exit::{Exit, Failure};
use crate::gpu::Device;
use crate::report;
use crate::report::query::{self, Context, TaskLine};
use crate::store::Store;
use crate::supervisor::{self, directory_of, holder, spool};

pub(super) fn query(common: &Common, query: &Query) -> Result<Exit, Failure> {
    if let Query::Check(args) = query {
        return run::check(common, args);
    }
    if let Query::Explain(args) = query {
        return super::explain::explain(common, args);
    }
    init_logging(common, None)?;
    let project = run::project(common)?;
    let storage = run::storage(&project, common);
    if let Query::List(_) = query {
        let tasks = tasks(&project)?;
        let store = storage
            .exists()
            .then(|| Store::open_read_only(&storage))
            .transpose()?;
        return print(
            common,
            || query::list_json(&tasks, store.as_ref()),
            || query::list(&tasks, store.as_ref()),
        );
    }
    let store = Store::open_read_only(&storage)?;
    let dir = directory_of(&storage);
    match query {
        Query::Status(args) => status(common, &store, &dir, args.study.as_deref()),
        Query::Best(args) => {
            mention_spool(&store, &dir, args.study.as_deref())?;
            print(
                common,
                || query::best_json(&store, args.study.as_deref()),
                || query::best(&store, args.study.as_deref()),
            )
        }
        Query::Trials(args) => {
            let study = args.study.as_deref();
            mention_spool(&store, &dir, study)?;
            super::print(&if common.json {
                query::trials_json(&store, study)?
            } else if args.csv {
                query::trials_csv(&store, study)?
            } else {
                query::trials_table(&store, study)?
            })
        }
        Query::Show(args) => print(
            common,
            || query::show_json(&store, Some(&args.study), args.number),
            || query::show(&store, Some(&args.study), args.number),
        ),
        Query::Memory(args) => {
            let host = supervisor::memory_total(Device::Cpu);
            print(
                common,
                || query::memory_json(&store, args.study.as_deref(), host),
                || query::memory(&store, args.study.as_deref(), host),
            )
        }
        Query::List(_)
        | Query::Adopt(_)
        | Query::Check(_)
        | Query::Drill(_)
        | Query::Embed(_)
        | Query::Fetch(_)
        | Query::Enqueue(_)
        | Query::Evaluate(_)
        | Query::Predict(_)
        | Query::Explain(_)
        | Query::Export(_)
        | Query::Rehearse(_)
        | Query::Replay(_)
        | Query::AskTell
        | Query::Worker
        | Query::Probe(_) => Ok(Exit::Done),
    }
}

fn status(
    common: &Common,
    store: &Store,
    dir: &Path,
    study: Option<&str>,
) -> Result<Exit, Failure> {
    let study = query::choose(store, study)?.name;
    let holder = holder(dir, &study);
    let context = Context {
        spooled: spool::waiting(dir, &study),
        now: jiff::Timestamp::now(),
        holder: holder.map(|h| format!("pid {} on {} since {}", h.pid, h.host, h.since)),
        goal: None,
    };
    print(
        common,
        || query::status_json(store, Some(&study), &context),
        || query::status(store, Some(&study), &context),
    )
}

/// Says on stderr that the database does not have all results yet.
fn mention_spool(store: &Store, dir: &Path, study: Option<&str>) -> Result<(), Failure> {
    let study = query::choose(store, study)?.name;
    let waiting = spool::waiting(dir, &study);
    if waiting > 0 {
        report::err(&format!("note: {}", query::spooled_text(waiting)));
    }
    Ok(())
}

/// Prints one of the two forms.
fn print(
    common: &Common,
    json: impl FnOnce() -> Result<serde_json::Value, Failure>,
    text: impl FnOnce() -> Result<String, Failure>,
) -> Result<Exit, Failure> {
    super::print(&if common.json {
        format!("{:#}\n", json()?)
    } else {
        text()?
    })
}

/// The tasks of the project, with what each is, or why it cannot be used.
fn tasks(project: &Project) -> Result<Vec<TaskLine>, Failure> {
    let names = list_tasks(project, super::SUBCOMMANDS)?;
    Ok(names
        .into_iter()
        .map(|name| {
            let file = project.configs().join(format!("{name}.toml"));
            let what = match resolve(&file, &Overrides::default()) {
                Ok(spec) => {
                    let objectives = spec.objectives().into_iter().map(|o| o.to_string());
                    let objectives: Vec<String> = objectives.collect();
                    format!("{}, {}", spec.kind, objectives.join(", "))
                }
                Err(problems) => {
                    let count = problems.0.len();
                    format!("{count} problems, see tune check {name}")
                }
            };
            TaskLine { name, what }
        })
        .collect())
}
