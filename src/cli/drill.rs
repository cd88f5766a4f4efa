//! `tune drill [TASK]`.

use std::path::{Path, PathBuf};

use clap::Args;

use super::args::{key_value, set_overrides};
use super::libtorch;
use super::{Common, RESERVED, run};
use config::places::{Wanted, find_task};
use config::{Deadline, Input, Overrides, Source, resolve, resolve_text};
use drill::Drill;
use inject::{Here, Plan};
use messages::exit::{Exit, Failure};

/// `tune drill`
#[derive(Debug, Args)]
pub struct DrillArgs {
    /// A task, as for a run [default: the synthetic one that tune brings along]
    pub task: Option<String>,
    /// Only these faults: NAME, NAME:COUNT or NAME:RATE, comma-separated [default: every kind, and the scenarios]
    #[arg(long, value_name = "FAULTS")]
    pub inject: Option<String>,
    /// How often each fault
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub count: u32,
    /// Decides which trials are hit, and when
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Slots of the second disturbed study; 1: there is none
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub parallel: u32,
    /// auto, cpu, cuda or cuda:0,1
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<String>,
    /// Longest time without a training step [default: 2s, or as a TASK has it]
    #[arg(long, value_name = "TIME")]
    pub deadline: Option<String>,
    /// Override any key of the task's configuration; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub set: Vec<(String, String)>,
    /// Keep the drill's files, and say where they are
    #[arg(long)]
    pub keep: bool,
}

/// The synthetic task has short steps.
const DEADLINE: &str = "2s";

pub(super) fn drill(common: &Common, args: &DrillArgs) -> Result<Exit, Failure> {
    let drill = resolved(common, args)?;
    let progress = |what: &str| {
        if !common.quiet {
            report::err(&format!("drill: {what}"));
        }
    };
    let found = drill::run(&drill, &progress)?;
    if common.json {
        super::print_json(&crate::drill_report::drill_json(&found))?;
    } else {
        super::print(&crate::drill_report::drill_report(&found))?;
    }
    Ok(if found.held() {
        Exit::Done
    } else {
        Exit::Internal
    })
}

/// The file of the task, from the root.
fn task_file(common: &Common, name: &str) -> Result<PathBuf, Failure> {
    let project = run::project(common, Wanted::Task(name))?;
    let file = find_task(&project, name, &RESERVED)?;
    run::absolute(&file)
}

/// Everything checked before the first process is started.
fn resolved(common: &Common, args: &DrillArgs) -> Result<Drill, Failure> {
    let task = args.task.as_deref();
    let task = task.map(|name| task_file(common, name)).transpose()?;
    let mut arguments = Vec::new();
    let deadline = match (&args.deadline, &task) {
        (Some(time), _) => Some(time.as_str()),
        (None, None) => Some(DEADLINE),
        (None, Some(_)) => None,
    };
    let device = args.device.as_deref();
    let mut set = set_overrides(&args.set);
    for (flag, key, value) in [
        ("deadline", "supervisor.deadline", deadline),
        ("device", "run.device", device),
    ] {
        if let Some(value) = value {
            arguments.extend([format!("--{flag}"), value.to_owned()]);
            let source = Source::Flag(format!("--{flag} {value}"));
            set.push((key.to_owned(), value.to_owned(), source));
        }
    }
    for (key, value) in &args.set {
        arguments.extend(["--set".to_owned(), format!("{key}={value}")]);
    }
    let overrides = Overrides { set };
    let shipped = Path::new("/synthetic.toml");
    let synthetic = Input {
        text: drill::SYNTHETIC,
        shown: shipped,
        absolute: shipped,
        home: None,
    };
    let spec = match &task {
        Some(file) => resolve(file, &overrides),
        None => resolve_text(&synthetic, &overrides, &config::kinds::KINDS),
    }?;
    if spec.operation.supervisor.deadline == Deadline::Off {
        return Err(Failure::input(
            "supervisor.deadline = off: a drill makes hangs, which nothing would end; give a time",
        ));
    }
    let here = Here::of(&libtorch::devices(&spec)?, libtorch::is_there());
    let plan = match &args.inject {
        Some(text) => Some(
            Plan::parse(text, here).map_err(|e| Failure::input(format!("--inject {text}: {e}")))?,
        ),
        None => None,
    };
    Ok(Drill {
        task,
        plan,
        count: args.count,
        seed: args.seed,
        parallel: args.parallel as usize,
        arguments,
        max_log_bytes: spec.operation.max_log_bytes,
        here,
        keep: args.keep,
    })
}
