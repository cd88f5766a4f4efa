//! The commands that only read the database.

use std::path::Path;

use super::{Common, ReadCommand, answer, init_logging, run};
use crate::query::{self, Context, TaskLine};
use config::places::{Project, list_tasks};
use config::{Overrides, resolve};
use device::Device;
use files::paths::directory_of;
use messages::exit::{Exit, Failure};
use store::Store;
use supervisor::{lock_owner, spool};

pub(super) fn read_command(common: &Common, command: &ReadCommand) -> Result<Exit, Failure> {
    init_logging(common, None)?;
    let project = run::project(common)?;
    let storage = run::storage(&project, common);
    let open = || Store::open_read_only(&storage);
    let dir = directory_of(&storage);
    match command {
        ReadCommand::List(_) => {
            let store = Store::open_if_any(&storage)?;
            answer(common, &query::list(tasks(&project)?, store.as_ref())?)
        }
        ReadCommand::Status(args) => status(common, &open()?, args.study.as_deref()),
        ReadCommand::Best(args) => {
            let (store, study) = (open()?, args.study.as_deref());
            mention_spool(&store, &dir, study)?;
            answer(common, &query::best(&store, study)?)
        }
        ReadCommand::Trials(args) => {
            let (store, study) = (open()?, args.study.as_deref());
            mention_spool(&store, &dir, study)?;
            if common.json {
                super::print(&query::trials_json(&store, study)?)
            } else if args.csv {
                super::print_data(&query::trials_csv(&store, study)?)
            } else {
                super::print(&query::trials_table(&store, study)?)
            }
        }
        ReadCommand::Show(args) => {
            let shown = query::show(&open()?, Some(&args.study), args.number)?;
            answer(common, &shown)
        }
        ReadCommand::Memory(args) => {
            let host = supervisor::memory_total(Device::Cpu);
            let memory = query::memory(&open()?, args.study.as_deref(), host)?;
            answer(common, &memory)
        }
    }
}

fn status(common: &Common, store: &Store, study: Option<&str>) -> Result<Exit, Failure> {
    let study = store::choose(store, study)?;
    let owner = lock_owner(store.path(), &study);
    let context = Context {
        spooled: spool::waiting(&directory_of(store.path()), &study.name),
        now: messages::clock::now(),
        holder: owner.map(|h| format!("pid {} on {} since {}", h.pid, h.host, h.since)),
    };
    answer(common, &query::status(store, study, &context)?)
}

/// Says on stderr that the database does not have all results yet.
fn mention_spool(store: &Store, dir: &Path, study: Option<&str>) -> Result<(), Failure> {
    let study = match study {
        Some(name) => name.to_owned(),
        None => store::choose(store, None)?.name,
    };
    let waiting = spool::waiting(dir, &study);
    if waiting > 0 {
        report::err(&format!(
            "note: {}",
            supervisor::spool::waiting_text(waiting)
        ));
    }
    Ok(())
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
