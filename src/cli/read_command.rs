//! The commands that only read the database.

use super::export_trials::export_trials;
use super::logs::logs;
use super::report_page::{material, plot, report_page};
use super::status::status;
use super::watch::watch;
use super::{Common, CompareArgs, ReadCommand, TrialsArgs, answer, run};
use crate::query::{self, Faults, Selection, TaskLine, Width};
use config::places::{Project, Wanted, list_tasks};
use config::{Overrides, resolve};
use device::Device;
use messages::exit::{Exit, Failure};
use report::format::plural;
use store::{Place, Store, StudySummary};
use summary::{Comparison, Night};
use supervisor::spool::Waiting;

/// Characters of a table's line where it is not for a terminal.
const PIPED: usize = 120;

pub(super) fn read_command(common: &Common, command: &ReadCommand) -> Result<Exit, Failure> {
    let project = run::existing_project(common, Wanted::Studies)?;
    read(common, command, &project).map_err(|mut failure| {
        let nothing = failure.exit == Exit::Storage && !project.database().exists();
        if let Some(place) = kept_elsewhere(common, &project).filter(|_| nothing) {
            failure.message += &format!("\n{place}");
        }
        failure
    })
}

/// What to say where a task of the project names a database, and the command line names none.
fn kept_elsewhere(common: &Common, project: &Project) -> Option<String> {
    let set = run::variable("TUNE_STORAGE").is_some_and(|text| !text.is_empty());
    if common.storage.is_some() || set {
        return None;
    }
    let names = list_tasks(project, &super::RESERVED).ok()?;
    names.into_iter().find_map(|name| {
        let file = project.configs().join(format!("{name}.toml"));
        let spec = resolve(&file, &Overrides::default()).ok()?;
        let named = spec.operation.storage?;
        // One that is of no use is told by a run.
        let place = Place::named(&named, &project.database(), &run::node()).ok()?;
        let word = report::shell_word(&place.word());
        Some(format!(
            "configs/{name}.toml keeps its studies on {place}: give --storage {word}"
        ))
    })
}

/// The same as a note.
fn tell_elsewhere(common: &Common, project: &Project) {
    if let Some(place) = kept_elsewhere(common, project).filter(|_| !common.quiet) {
        report::err(&format!("note: {place}"));
    }
}

fn read(common: &Common, command: &ReadCommand, project: &Project) -> Result<Exit, Failure> {
    let storage = run::storage(project, common)?;
    let open = || Store::open_read_only(&storage);
    let tune = || run::command_in(common, project);
    let named = |name: &Option<String>| {
        let store = open()?;
        let study = meant(common, &store, name.as_deref())?;
        Ok::<_, Failure>((store, study))
    };
    match command {
        ReadCommand::List(_) => {
            let store = Store::open_if_any(&storage)?;
            tell_elsewhere(common, project);
            answer(common, &query::list(tasks(project)?, store.as_ref())?)
        }
        ReadCommand::Tasks(_) => answer(common, &query::tasks(tasks(project)?)),
        ReadCommand::Logs(args) => logs(common, &storage, args),
        ReadCommand::Status(args) => status(common, &storage, args, &tune()?),
        ReadCommand::Watch(args) => watch(common, &storage, args, &tune()?),
        ReadCommand::Best(args) => {
            let (store, study) = named(&args.study)?;
            answer(common, &query::best(&store, Some(&study.name))?)
        }
        ReadCommand::Trials(args) => {
            let (store, study) = named(&args.study)?;
            trials(common, &store, &study, args)
        }
        ReadCommand::Show(args) => {
            let shown = query::show(&open()?, Some(&args.study), args.number)?;
            answer(common, &shown)
        }
        ReadCommand::Failures(args) => {
            let (store, study) = named(&args.study)?;
            answer(
                common,
                &query::failures(&store, Some(&study.name), &tune()?)?,
            )
        }
        ReadCommand::Faults(args) => {
            let (store, study) = named(&args.study)?;
            let material = material(&store, &study.name, &[], &tune()?)?;
            let bars = report::columns().is_some();
            answer(common, &Faults::new(Night::new(&material), bars))
        }
        ReadCommand::Compare(args) => compare(common, &open()?, args, &tune()?),
        ReadCommand::Importance(args) => {
            let (store, study) = named(&args.study)?;
            answer(common, &query::importance(&store, Some(&study.name))?)
        }
        ReadCommand::Report(args) => {
            let (store, study) = named(&args.study)?;
            report_page(common, &store, &study.name, args, &tune()?)
        }
        ReadCommand::Plot(args) => {
            let (store, study) = named(&args.study)?;
            plot(common, &store, &study.name, args, &tune()?)
        }
        ReadCommand::ExportTrials(args) => {
            let (store, study) = named(&args.study)?;
            export_trials(common, &store, study, args)
        }
        ReadCommand::Memory(args) => {
            let host = supervisor::memory_total(Device::Cpu);
            let (store, study) = named(&args.study)?;
            let memory = query::memory(&store, Some(&study.name), host)?;
            answer(common, &memory)
        }
    }
}

/// Two studies beside each other.
fn compare(
    common: &Common,
    store: &Store,
    args: &CompareArgs,
    tune: &str,
) -> Result<Exit, Failure> {
    let of = |name: &str| query::study_or_latest_of_task(store, name);
    let (a, b) = (of(&args.a)?, of(&args.b)?);
    query::must_be_alike(&a, &b)?;
    let of = |study: &StudySummary| {
        meant(common, store, Some(&study.name))?;
        material(store, &study.name, &[], tune)
    };
    answer(common, &Comparison::new(&of(&a)?, &of(&b)?))
}

/// The trials that are asked for, as a table, JSON or CSV.
fn trials(
    common: &Common,
    store: &Store,
    study: &StudySummary,
    args: &TrialsArgs,
) -> Result<Exit, Failure> {
    let live = query::is_live(store, study)?;
    let selection = Selection {
        live,
        ..args.selection.clone()
    };
    if common.json {
        return super::print(&query::trials_json(store, study, &selection)?);
    }
    if args.csv {
        return super::print_data(&query::trials_csv(store, study, &selection)?);
    }
    let width = match selection.all_columns() {
        true => Width::Any,
        false => Width::Of(report::columns().unwrap_or(PIPED)),
    };
    super::print(&query::trials_table(store, study, &selection, width)?)
}

/// The study that is meant. Says on stderr which of several was chosen, and that the database does not have
/// all results yet.
pub(super) fn meant(
    common: &Common,
    store: &Store,
    name: Option<&str>,
) -> Result<StudySummary, Failure> {
    let study = store::choose(store, name)?;
    if name.is_none() && !common.quiet {
        let several = store.studies()?.len();
        if several > 1 {
            report::err(&format!(
                "study {}: the one of {several} with the latest activity (tune list has all)",
                messages::printable(&study.name)
            ));
        }
    }
    if let Some(waiting) = Waiting::of(store.place(), &study.name).text() {
        report::err(&format!("note: {waiting}"));
    }
    Ok(study)
}

/// The tasks of the project, with what each is, or why it cannot be used.
fn tasks(project: &Project) -> Result<Vec<TaskLine>, Failure> {
    let names = list_tasks(project, &super::RESERVED)?;
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
                    let count = plural(problems.0.len() as u64, "problem");
                    format!("{count}, see tune check {name}")
                }
            };
            TaskLine { name, what, file }
        })
        .collect())
}
