//! `tune TASK` and `tune check TASK`.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::logging::note_told;
use super::metrics_file::{self, MetricsFile};
use super::notify::Notified;
use super::track::{self, Tracked};
use super::{Check, Common, RESERVED, RunArgs, by, init_logging, libtorch, rehearse, watch};
use crate::check_report;
use config::Prepared;
use config::active_when::inactive_values;
use config::places::{Project, Wanted, find_project, find_task, holds, is_path};
use config::{Overrides, Problem, Problems, Shown, StudySpec, TestPolicy, resolve};
use config::{overrides_from_environment, unknown_variables};
use detection::TextDetection;
use device::Device;
use files::paths::{ledger_of, logs_dir};
use files::plain;
use inject::{Here, InjectSpec, Plan};
use memory::Floor;
use messages::exit::{Exit, Failure};
use report::{About, Logged, Mode, Sink, shell_word};
use store::{Place, Store};
use supervisor::{Launch, launch, lock_study};
use tabular::Tabular;
use task::Preparation;
use task::command::Command;
use task::synthetic::Synthetic;
use text::TextClassification;

pub(super) fn run(args: &RunArgs) -> Result<Exit, Failure> {
    let began = Instant::now();
    let project = project(&args.common, Wanted::Task(&args.task))?;
    if let Some(path) = &args.metrics_file {
        metrics_file::must_be_ours(path)?;
    }
    let mut spec = read_with_files(&project, &args.task, args.asked.overrides())?;
    if let Some(by) = &args.by {
        spec.operation.by = Some(by::until(by, &jiff::Zoned::now())?);
    }
    let devices = libtorch::devices(&spec)?;
    let mut prepared = prepare(&spec)?;
    let mut library = libtorch::for_workers(&spec, devices[0])?;
    let configured = spec.operation.storage.as_deref();
    let storage = storage_of(&project, &args.common, configured)?;
    prepared
        .warnings
        .extend(left_elsewhere(args, &storage, &spec.study)?);
    if storage.is_shared() {
        // A server that is of no use says so before anything is written here.
        Store::open_if_any(&storage)?;
    }
    track::prepare(&spec)?;
    let origin = args.origin();
    let locked = lock_study(&storage, &mut spec, &prepared, &origin)?;
    spec.operation.inject = injection(args, &spec, &devices, &storage)?;
    if library.is_none() {
        // Some faults are libtorch's.
        library = libtorch::for_workers(&spec, devices[0])?;
    }
    init_logging(&args.common, Some(run_log(&storage, &spec.study)))?;
    let tune = command_in(&args.common, &project)?;
    let rehearsed = match wants_rehearsal(args, &spec, &devices, &storage)? {
        true => {
            let loud = !args.common.json && !args.common.quiet;
            let logs = logs_dir(&storage.files(), &spec.study);
            rehearse::before_run(&spec, &devices, logs, library.clone(), loud)?
        }
        false => Vec::new(),
    };
    let about = About::new(&spec.study, &tune);
    let told = told(args, &spec, &storage, &about)
        .map_err(|e| Failure::internal(format!("cannot start threads: {e}")))?;
    let ended = launch(Launch {
        floor: floor(&spec, devices[0]),
        library,
        rehearsed,
        sink: Box::new(Logged::new(&about, note_told, told)),
        spec,
        prepared,
        devices,
        storage,
        origin,
        same_program: args.same_program,
        locked,
    });
    let exit = ended
        .as_ref()
        .map_or_else(|failure| failure.exit, |exit| *exit);
    if exit == Exit::Breaker {
        look_at_machine(args, &project.dir, &tune, began.elapsed());
    }
    ended.map_err(with_variables)
}

/// Who is told of what happens: people or scripts at the output, a view beside it, a command, a file.
fn told(
    args: &RunArgs,
    spec: &StudySpec,
    storage: &Place,
    about: &About,
) -> std::io::Result<Box<dyn Sink>> {
    let common = &args.common;
    let mode = Mode::choose(common.json, common.quiet, std::io::stdout().is_terminal());
    let mut told = report::sink(mode, about)?;
    if watch::opens(args) {
        told = Box::new(watch::Beside::new(told, storage, &spec.study));
    }
    if let Some(command) = &args.notify {
        told = Box::new(Notified::new(told, command, spec)?);
    }
    if let Some(path) = &args.metrics_file {
        told = Box::new(MetricsFile::new(told, path, spec)?);
    }
    Ok(Tracked::beside(told, storage, spec))
}

/// The last words of a run that gave up: what is wrong with the machine, if anything is, and how to find out more.
fn look_at_machine(args: &RunArgs, project: &Path, tune: &str, took: Duration) {
    if args.common.quiet {
        return;
    }
    let checks = doctor::machine::quick(project, took);
    let found = match checks.is_empty() {
        true => "nothing is wrong with the machine as far as a short look tells\n".to_owned(),
        false => doctor::machine::problems(&checks),
    };
    let task = shell_word(&args.task);
    report::err(&format!(
        "{found}`{tune} doctor {task}` looks closer, and tries the parts of the task one by one"
    ));
}

/// A study may differ by what an environment variable sets, of which the command line shows nothing.
fn with_variables(mut failure: Failure) -> Failure {
    let set = config::variables_set(variable);
    if failure.exit == Exit::Differs && !set.is_empty() {
        failure.message += &format!("\nThe environment sets {}.", set.join(", "));
    }
    failure
}

/// Whether what fits is found out before the first trial: for a new study that trains on a GPU.
fn wants_rehearsal(
    args: &RunArgs,
    spec: &StudySpec,
    devices: &[Device],
    storage: &Place,
) -> Result<bool, Failure> {
    let on_gpu = devices.iter().any(|d| *d != Device::Cpu);
    if args.no_rehearsal || !on_gpu || spec.runs_programs() {
        return Ok(false);
    }
    match Store::open_if_any(storage)? {
        Some(store) => Ok(store.find_study(&spec.study)?.is_none()),
        None => Ok(true),
    }
}

/// The faults that `--inject` asks for.
fn injection(
    args: &RunArgs,
    spec: &StudySpec,
    devices: &[Device],
    storage: &Place,
) -> Result<Option<InjectSpec>, Failure> {
    let Some(text) = &args.inject else {
        return Ok(None);
    };
    let plan = Plan::parse(text, Here::of(devices, libtorch::is_there()))
        .map_err(|e| Failure::input(format!("--inject {text}: {e}")))?;
    let ledger = std::path::absolute(ledger_of(&storage.files(), &spec.study))
        .map_err(|e| Failure::input(format!("the current directory cannot be read: {e}")))?;
    Ok(Some(InjectSpec {
        plan,
        seed: args.inject_seed.unwrap_or(spec.seed),
        ledger,
    }))
}

pub(super) fn check(common: &Common, args: &Check) -> Result<Exit, Failure> {
    let project = existing_project(common, Wanted::Task(&args.task))?;
    let spec = read_with_files(&project, &args.task, args.asked.overrides())?;
    let prepared = prepare(&spec)?;
    match common.json {
        true => super::print_json(&check_report::check_json(&spec, &prepared)),
        false => {
            let report = check_report::check_report(&spec, &prepared);
            super::print(&report::for_terminal(&report))
        }
    }
}

/// The project directory that is meant.
pub(super) fn project(common: &Common, wanted: Wanted) -> Result<Project, Failure> {
    let dir = common.dir.as_deref();
    // A working directory that was deleted is of no matter beside a path from the root.
    let cwd = match working_directory() {
        Err(_) if dir.is_some_and(Path::is_absolute) => PathBuf::from("/"),
        cwd => cwd?,
    };
    find_project(dir, variable, &cwd, wanted, holds)
}

/// How commands about a project are begun from the working directory: `tune`, with `-C DIR` where another project
/// would be found, and with the `--storage` that was given.
pub(super) fn command_in(common: &Common, project: &Project) -> Result<String, Failure> {
    let found = working_directory()
        .and_then(|cwd| find_project(None, variable, &cwd, Wanted::Studies, holds));
    let option = |name: &str, text: &str| format!(" {name} {}", shell_word(text));
    Ok(match &common.storage {
        Some(path) => format!("tune{}", option("--storage", path)),
        None if found.is_ok_and(|found| found == *project) => "tune".to_owned(),
        None => format!("tune{}", option("-C", &project.dir.display().to_string())),
    })
}

pub(super) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

pub(super) fn working_directory() -> Result<PathBuf, Failure> {
    std::env::current_dir()
        .map_err(|e| Failure::input(format!("the current directory cannot be read: {e}")))
}

/// A path from the root.
pub(super) fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path).map_err(|e| Failure::input(format!("{}: {e}", path.display())))
}

/// Whether a program of this name is in one of the directories of `PATH`.
pub(super) fn on_path(program: &str) -> bool {
    let has = |path: OsString| std::env::split_paths(&path).any(|d| d.join(program).is_file());
    variable("PATH").is_some_and(has)
}

/// What to say of a study where earlier versions kept it: of a task that was given as a path, not in the file's
/// project, but in that of the working directory.
fn left_elsewhere(args: &RunArgs, storage: &Place, study: &str) -> Result<Option<String>, Failure> {
    let common = &args.common;
    if !is_path(&args.task)
        || common.dir.is_some()
        || common.storage.is_some()
        || storage.is_shared()
    {
        return Ok(None);
    }
    let wanted = Wanted::Task("");
    let any = |dir: &Path, _: Wanted| dir.join("configs").is_dir();
    let Ok(former) = find_project(None, variable, &working_directory()?, wanted, any) else {
        return Ok(None);
    };
    let there = plain::real(&former.database());
    // What is wrong with a database of others is no matter of this run.
    let finished = |path: &Path| {
        let study = Store::open_if_any(path).ok()??.find_study(study).ok()??;
        Some(study.counts.total())
    };
    if there == storage.file() || finished(storage.file()).is_some() {
        return Ok(None);
    }
    Ok(finished(&there).map(|trials: u64| {
        format!(
            "{} has a study {study} with {trials} trials, from before studies were kept in \
             the task file's project; to go on with that one: tune -C {} {}",
            there.display(),
            former.dir.display(),
            args.task
        )
    }))
}

/// The same, for who makes nothing in it: what `-C` names has to be there.
pub(super) fn existing_project(common: &Common, wanted: Wanted) -> Result<Project, Failure> {
    match common.dir.as_deref().filter(|dir| !dir.is_dir()) {
        Some(dir) => Err(Failure::input(format!(
            "-C {}: there is no such directory",
            dir.display()
        ))),
        None => project(common, wanted),
    }
}

/// What this node is called among those that share a server.
pub(super) fn node() -> String {
    let set = std::env::var("TUNE_NODE").ok();
    let set = set.filter(|name| !name.is_empty());
    set.unwrap_or_else(supervisor::this_host)
}

/// The database that is meant, by the one name that all who mean it agree on: that of `--storage`, of `$TUNE_STORAGE`,
/// or the project's own.
///
/// # Errors
/// `$TUNE_STORAGE` names none.
pub(super) fn storage(project: &Project, common: &Common) -> Result<Place, Failure> {
    storage_of(project, common, None)
}

/// The same for a run whose configuration may name it.
pub(super) fn storage_of(
    project: &Project,
    common: &Common,
    configured: Option<&str>,
) -> Result<Place, Failure> {
    let set = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
    let (text, whose) = match &common.storage {
        Some(text) => (Some(text.clone()), "--storage"),
        None => match set("TUNE_STORAGE") {
            Some(text) => (Some(text), "TUNE_STORAGE"),
            None => (configured.map(str::to_owned), "storage.url"),
        },
    };
    let database = plain::real(&project.database());
    let Some(text) = text else {
        return Ok(database.into());
    };
    let place = Place::named(&text, &database, &node());
    let place = place.map_err(|why| Failure::input(format!("{whose}: {why}")))?;
    must_be_named(&place)?;
    Ok(place)
}

/// Checks what this node is called, where it shares a server with others: files are called so, too.
///
/// # Errors
/// It is no name.
pub(super) fn must_be_named(place: &Place) -> Result<(), Failure> {
    const LONGEST: usize = 100;
    let Some(node) = place.node() else {
        return Ok(());
    };
    let checked = match node.chars().count() > LONGEST {
        true => Err("a name of at most 100 characters"),
        false => config::check_name(node),
    };
    checked.map_err(|expected| {
        let node = config::shown_name(node);
        Failure::input(format!("TUNE_NODE: found {node}, expected {expected}"))
    })
}

pub(super) fn read(project: &Project, task: &str, flags: Overrides) -> Result<StudySpec, Failure> {
    let (file, overrides) = asked(project, task, flags)?;
    Ok(resolve(&file, &overrides)?)
}

/// The same, with where each value comes from.
pub(super) fn shown(
    project: &Project,
    task: &str,
    flags: Overrides,
) -> Result<(StudySpec, Vec<Shown>), Failure> {
    let (file, overrides) = asked(project, task, flags)?;
    Ok(config::resolve_and_show(&file, &overrides)?)
}

/// The same for who prepares it next: what only a preparation finds is told together with what is wrong
/// with the configuration itself.
fn read_with_files(project: &Project, task: &str, flags: Overrides) -> Result<StudySpec, Failure> {
    let (file, overrides) = asked(project, task, flags)?;
    match config::resolve_partly(&file, &overrides) {
        (Some(spec), problems) if problems.0.is_empty() => Ok(spec),
        (spec, mut problems) => {
            let others = spec.map_or_else(Vec::new, |spec| further(&spec, &problems));
            problems.0.extend(others);
            Err(problems.sorted().into())
        }
    }
}

/// The configuration file and what wins over it.
fn asked(project: &Project, task: &str, flags: Overrides) -> Result<(PathBuf, Overrides), Failure> {
    let file = find_task(project, task, &RESERVED)?;
    let mut overrides = overrides_from_environment(|name| std::env::var_os(name))?;
    overrides.extend(flags);
    Ok((file, overrides))
}

/// What a preparation finds in a configuration that has these problems, as far as none of them may be the
/// reason.
fn further(spec: &StudySpec, problems: &Problems) -> Vec<Problem> {
    let section = |problem: &Problem| {
        let key = problem.key.as_deref().unwrap_or_default();
        key.split(['.', '[']).next().unwrap_or_default().to_owned()
    };
    let told: Vec<String> = problems.0.iter().map(section).collect();
    let read = ["data", "model", "models", "tok"];
    let reason =
        |told: &String| told.is_empty() || !spec.runs_programs() && read.contains(&told.as_str());
    if told.iter().any(reason) {
        return Vec::new();
    }
    let found = preparation(&spec.kind).and_then(|kind| prepare_by(spec, kind).err());
    let mut found = found.map_or_else(Vec::new, |problems| problems.0);
    found.retain(|found| {
        let objective = section(found) == "objective" && told.iter().any(|t| t == "objective");
        !objective && problems.0.iter().all(|told| told.key != found.key)
    });
    found
}

/// What each kind of task does before a worker trains.
const PREPARATIONS: [&dyn Preparation; 5] = [
    &Synthetic,
    &Command,
    &TextClassification,
    &Tabular,
    &TextDetection,
];

/// What this kind does before a worker trains.
pub(super) fn preparation(kind: &str) -> Option<&'static dyn Preparation> {
    (PREPARATIONS.into_iter()).find(|preparation| preparation.kind().name == kind)
}

/// What a training cannot do without of a device's memory.
pub(super) fn floor(spec: &StudySpec, device: Device) -> Option<Arc<Floor>> {
    preparation(&spec.kind)?.floor(spec, device)
}

/// What is found out of a study before it starts, with what to say of values that act nowhere.
pub(super) fn prepare(spec: &StudySpec) -> Result<Prepared, Failure> {
    let preparation = preparation(&spec.kind)
        .ok_or_else(|| Failure::internal(format!("task kind {} has no code", spec.kind)))?;
    let mut prepared = prepare_by(spec, preparation)?;
    let inactive = inactive_values(spec, preparation.kind().keys, &[], None);
    prepared.warnings.extend(inactive);
    let variables = std::env::vars_os().map(|(name, _)| name);
    prepared.warnings.extend(unknown_variables(variables));
    Ok(prepared)
}

/// The preparation itself, with what `tune` asks of every kind.
fn prepare_by(spec: &StudySpec, preparation: &dyn Preparation) -> Result<Prepared, Problems> {
    let kind = preparation.kind();
    let found = preparation.prepare(spec);
    let mut problems = Vec::new();
    if spec.operation.supervisor.checkpoint && !kind.keeps_checkpoints {
        let found = format!(
            "true, but trainings of the task kind {} keep none",
            kind.name
        );
        problems.push(spec.problem("supervisor.checkpoint", found, "no such key"));
    }
    let split = found
        .as_ref()
        .map_or(!kind.accepts_any_parameter, |p| p.test.is_some());
    if matches!(spec.operation.test, TestPolicy::On | TestPolicy::Again) && !split {
        let why = match kind.accepts_any_parameter {
            true => "a test split is the program's own affair",
            false => "the task has no test split (data.split.test)",
        };
        let found = format!("a test of the winner, but {why}");
        problems.push(spec.problem("run.test", found, "no such key"));
    }
    match found {
        Ok(prepared) if problems.is_empty() => Ok(prepared),
        found => {
            problems.extend(found.err().into_iter().flat_map(|found| found.0));
            Err(Problems(problems).sorted())
        }
    }
}

/// The log of this run, named by its time.
fn run_log(storage: &Place, study: &str) -> PathBuf {
    let dir = logs_dir(&storage.files(), study);
    let time = messages::clock::now().strftime("%Y%m%dT%H%M%SZ");
    dir.join(format!("run-{time}-{}.log", std::process::id()))
}
