//! `tune TASK` and `tune check TASK`.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use super::{Check, Common, RunArgs, SUBCOMMANDS, init_logging, rehearse};
use crate::config::acts::idle;
use crate::config::places::{Project, find_project, find_task};
use crate::config::{
    Overrides, Problems, StudySpec, TestPolicy, overrides_from_environment, resolve,
};
use crate::exit::{Exit, Failure};
use crate::files::plain;
use crate::gpu::{self, Device};
use crate::inject::{self, Here, InjectSpec, Plan};
use crate::report::{self, Mode};
use crate::store::Store;
use crate::supervisor::{Launch, directory_of, launch, logs_dir, settle};
use crate::task::{self, Prepared};

pub(super) fn run(args: &RunArgs) -> Result<Exit, Failure> {
    let project = project(&args.common)?;
    let mut spec = read(&project, &args.task, args.asked.overrides())?;
    let devices = gpu::probe::resolve(&spec.operation.device, in_process(&spec))?;
    let prepared = prepare(&spec)?;
    let storage = storage(&project, &args.common);
    let origin = args.origin();
    let held = settle(&storage, &mut spec, &prepared, &origin)?;
    spec.operation.inject = injection(args, &spec, &devices, &storage)?;
    init_logging(&args.common, Some(run_log(&storage, &spec.study)))?;
    let mode = Mode::choose(
        args.common.json,
        args.common.quiet,
        std::io::stdout().is_terminal(),
    );
    let rehearsed = match wants_rehearsal(args, &spec, &devices, &storage)? {
        true => {
            let loud = !args.common.json && !args.common.quiet;
            let logs = logs_dir(&directory_of(&storage), &spec.study);
            rehearse::before_run(&spec, &devices, logs, loud)?
        }
        false => Vec::new(),
    };
    launch(Launch {
        rehearsed,
        sink: report::sink(mode, &spec.study)
            .map_err(|e| Failure::internal(format!("cannot start threads: {e}")))?,
        spec,
        prepared,
        devices,
        storage,
        origin,
        held,
    })
}

/// Whether what fits is found out before the first trial: for a new study that trains on a GPU.
fn wants_rehearsal(
    args: &RunArgs,
    spec: &StudySpec,
    devices: &[Device],
    storage: &Path,
) -> Result<bool, Failure> {
    let on_gpu = devices.iter().any(|d| *d != Device::Cpu);
    if args.no_rehearsal || !on_gpu || !in_process(spec) {
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
    storage: &Path,
) -> Result<Option<InjectSpec>, Failure> {
    let Some(text) = &args.inject else {
        return Ok(None);
    };
    let plan = Plan::parse(text, Here::of(devices))
        .map_err(|e| Failure::input(format!("--inject {text}: {e}")))?;
    let ledger = std::path::absolute(inject::ledger_of(&directory_of(storage), &spec.study))
        .map_err(|e| Failure::input(format!("the current directory cannot be read: {e}")))?;
    Ok(Some(InjectSpec {
        plan,
        seed: args.inject_seed.unwrap_or(spec.seed),
        ledger,
    }))
}

pub(super) fn check(common: &Common, args: &Check) -> Result<Exit, Failure> {
    init_logging(common, None)?;
    let project = project(common)?;
    let spec = read(&project, &args.task, args.asked.overrides())?;
    let prepared = prepare(&spec)?;
    let text = if common.json {
        format!("{:#}\n", report::check_json(&spec, &prepared))
    } else {
        report::check_report(&spec, &prepared)
    };
    super::print(&text)
}

/// The project directory that is meant.
pub(super) fn project(common: &Common) -> Result<Project, Failure> {
    let cwd = std::env::current_dir()
        .map_err(|e| Failure::input(format!("the current directory cannot be read: {e}")))?;
    let variable = |name: &str| std::env::var_os(name);
    find_project(common.dir.as_deref(), variable, &cwd, Path::is_dir)
}

/// The database that is meant, by the one name that all who mean it agree on.
pub(super) fn storage(project: &Project, common: &Common) -> PathBuf {
    let storage = common.storage.clone();
    plain::real(&storage.unwrap_or_else(|| project.database()))
}

pub(super) fn read(project: &Project, task: &str, flags: Overrides) -> Result<StudySpec, Failure> {
    let file = find_task(project, task, SUBCOMMANDS)?;
    let mut overrides = overrides_from_environment(|name| std::env::var_os(name)).map_err(input)?;
    overrides.extend(flags);
    resolve(&file, &overrides).map_err(input)
}

/// Whether libtorch trains, in the workers, or a program of the user's.
pub(super) fn in_process(spec: &StudySpec) -> bool {
    task::kind(&spec.kind).is_none_or(|kind| kind.in_process())
}

pub(super) fn prepare(spec: &StudySpec) -> Result<Prepared, Failure> {
    let kind = task::kind(&spec.kind)
        .ok_or_else(|| Failure::internal(format!("task kind {} has no code", spec.kind)))?;
    if spec.operation.supervisor.checkpoint && !kind.keeps_checkpoints() {
        return Err(Failure::input(format!(
            "supervisor.checkpoint = true, but trainings of the task kind {} keep no checkpoints: \
             leave the key out",
            spec.kind
        )));
    }
    let mut prepared = kind.prepare(spec).map_err(input)?;
    prepared.warnings.extend(idle(spec, kind.keys(), &[], None));
    let asked = matches!(spec.operation.test, TestPolicy::On | TestPolicy::Again);
    if asked && prepared.test.is_none() {
        let why = match kind.passes_on() {
            true => "with the kind command a test split is the program's own affair",
            false => "the task has no test split (data.split.test)",
        };
        return Err(Failure::input(format!(
            "run.test asks for a test of the winner, but {why}: leave it out"
        )));
    }
    Ok(prepared)
}

fn input(problems: Problems) -> Failure {
    Failure::input(problems.to_string())
}

/// The log of this run, named by its time.
fn run_log(storage: &Path, study: &str) -> PathBuf {
    let dir = logs_dir(&directory_of(storage), study);
    let time = crate::clock::now().strftime("%Y%m%dT%H%M%SZ");
    dir.join(format!("run-{time}-{}.log", std::process::id()))
}
