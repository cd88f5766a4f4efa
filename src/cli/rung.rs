//! `tune rung NAME TASK`: one rung of `tune doctor TASK`, in this process. What it is about to do and what it found
//! goes to standard output, its error to standard error.

mod pipeline;

use std::path::Path;

use clap::Args;

use super::args::{key_value, set_overrides};
use super::{Common, libtorch, run};
use config::places::Wanted;
use config::{Overrides, Source, StudySpec};
use device::{Device, DevicePolicy};
use doctor::ladder::{AT, Rung, WARNING};
use drill::Drill;
use inject::{Here, Plan};
use messages::exit::{Exit, Failure};
use request::torch_request::{self, RungPart, TaskPart, TorchRequest};

/// How much of a device's free memory patterns are written to.
const SHARE: f64 = 0.5;

/// `tune rung`
#[derive(Debug, Clone, Args)]
pub struct RungArgs {
    /// Its name
    pub name: String,
    /// A task, as for a run
    pub task: String,
    /// auto, cpu, cuda or cuda:0
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<String>,
    /// Override any key of the task's configuration; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub set: Vec<(String, String)>,
    /// Of the rows to train on only these, from 1: 3,7,10..20; @FILE reads them
    #[arg(long, value_name = "ROWS")]
    pub rows: Option<String>,
    /// Train so many steps, and not an epoch
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub steps: Option<u32>,
    /// With blocking launches and full stacks
    #[arg(long)]
    pub blocking: bool,
    /// Decides what is made up
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
}

/// What `tune rung` can be asked for beside the ladder's rungs: one pass over rows, part by part.
pub(super) const TRACE: &str = "trace";

pub(super) fn rung(common: &Common, args: &RungArgs) -> Result<Exit, Failure> {
    let spec = resolved(common, args)?;
    let rows = args.rows.as_deref().map(rows_of).transpose()?;
    if args.name == TRACE {
        return torch(&spec, args, TaskPart::Trace(rows.unwrap_or_default()));
    }
    let rung = Rung::named(&args.name)
        .ok_or_else(|| Failure::input(format!("there is no rung {:?}", args.name)))?;
    let part = |part| torch_part(&spec, args, part);
    let task = |part| torch(&spec, args, part);
    match rung {
        Rung::Environment => environment(&spec, args),
        Rung::Fill => part(RungPart::Fill),
        Rung::MatrixProduct => part(RungPart::MatrixProduct),
        Rung::Convolution => part(RungPart::Convolution),
        Rung::Memory => part(RungPart::Memory { share: SHARE }),
        Rung::ExpandableSegments => part(RungPart::Environment),
        Rung::Uncached => {
            part(RungPart::Fill)?;
            part(RungPart::MatrixProduct)?;
            part(RungPart::Convolution)
        }
        Rung::Data => data(&spec),
        Rung::Model => task(TaskPart::Model),
        Rung::Loss { form, real } => task(TaskPart::Loss { form, real }),
        Rung::Backward(name) => task(TaskPart::Backward(name)),
        Rung::Loader { threads } => loader(&spec, threads),
        Rung::Pipeline { real } => pipeline::train(spec, real, rows, args),
        Rung::LongestKernel => pipeline::longest_kernel(spec, args),
        Rung::Supervision => supervision(),
    }
}

/// The task, as its run would have it.
fn resolved(common: &Common, args: &RungArgs) -> Result<StudySpec, Failure> {
    let project = run::existing_project(common, Wanted::Task(&args.task))?;
    run::read(
        &project,
        &args.task,
        overrides(&args.set, args.device.as_deref()),
    )
}

/// What flags override.
pub(super) fn overrides(set: &[(String, String)], device: Option<&str>) -> Overrides {
    let mut set = set_overrides(set);
    if let Some(device) = device {
        let source = Source::Flag(format!("--device {device}"));
        set.push(("run.device".to_owned(), device.to_owned(), source));
    }
    Overrides { set }
}

/// Rows by their numbers from 0, of a list from 1 such as `3,7,10..20`.
fn rows_of(text: &str) -> Result<Vec<usize>, Failure> {
    let read = match text.strip_prefix('@') {
        None => text.to_owned(),
        Some(path) => std::fs::read_to_string(path)
            .map_err(|e| Failure::input(format!("--rows {text}: {e}")))?,
    };
    let mut rows = Vec::new();
    for part in read.split(',').map(str::trim) {
        let (first, last) = part.split_once("..").unwrap_or((part, part));
        match (first.parse::<usize>(), last.parse::<usize>()) {
            (Ok(first), Ok(last)) if 1 <= first && first <= last => rows.extend(first - 1..last),
            _ => {
                let expected = "expected rows from 1, such as 3,7,10..20";
                return Err(Failure::input(format!("--rows {part}: {expected}")));
            }
        }
    }
    Ok(rows)
}

fn say(text: &str) {
    // A reader that has gone away wants to hear nothing.
    let _ = report::out(&format!("{text}\n"));
}

fn at(what: &str) {
    say(&format!("{AT}{what}"));
}

/// The device that is meant; the probe is asked only where it is not said.
fn device(spec: &StudySpec) -> Result<Device, Failure> {
    match &spec.operation.device {
        DevicePolicy::Cpu => Ok(Device::Cpu),
        DevicePolicy::Cuda(indices) if indices.len() == 1 => Ok(Device::Cuda(indices[0])),
        DevicePolicy::Auto | DevicePolicy::Cuda(_) => {
            let devices = libtorch::devices(spec)?;
            Ok(devices.first().copied().unwrap_or(Device::Cpu))
        }
    }
}

fn torch_part(spec: &StudySpec, args: &RungArgs, part: RungPart) -> Result<Exit, Failure> {
    libtorch::run(&TorchRequest::Rung(torch_request::Rung {
        part,
        device: device(spec)?,
        seed: args.seed,
        fallback_ops: spec.operation.fallback_ops.clone(),
    }))
}

fn torch(spec: &StudySpec, args: &RungArgs, part: TaskPart) -> Result<Exit, Failure> {
    let part = RungPart::Task(Box::new(spec.clone()), part);
    torch_part(spec, args, part)
}

fn environment(spec: &StudySpec, args: &RungArgs) -> Result<Exit, Failure> {
    at("which devices there are");
    let devices = libtorch::devices(spec)?;
    let device = devices.first().copied().unwrap_or(Device::Cpu);
    say(&format!("device: {device}"));
    if !spec.needs_libtorch(device) {
        say(&format!("{device}; no libtorch is needed"));
        return Ok(Exit::Done);
    }
    libtorch::run(&TorchRequest::Rung(torch_request::Rung {
        part: RungPart::Environment,
        device,
        seed: args.seed,
        fallback_ops: spec.operation.fallback_ops.clone(),
    }))?;
    if let Some(path) = mapped("libtorch_cpu.so") {
        say(&path);
    }
    Ok(Exit::Done)
}

/// Where the library of this name was really loaded from.
fn mapped(name: &str) -> Option<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let paths = maps
        .lines()
        .filter_map(|line| line.find('/').map(|at| &line[at..]));
    let mut found =
        paths.filter(|path| Path::new(path).file_name().is_some_and(|file| file == name));
    found.next().map(str::to_owned)
}

fn data(spec: &StudySpec) -> Result<Exit, Failure> {
    at("the rows and the models");
    let prepared = run::prepare(spec)?;
    for (_, fact) in prepared.facts.iter().filter(|(name, _)| name == "data") {
        say(fact);
    }
    for warning in &prepared.warnings {
        say(&format!("{WARNING}{}", warning.replace('\n', " ")));
    }
    Ok(Exit::Done)
}

fn loader(spec: &StudySpec, threads: usize) -> Result<Exit, Failure> {
    let kind = run::preparation(&spec.kind)
        .ok_or_else(|| Failure::internal("the task kind has no code"))?;
    let read = kind.read_all(spec, threads, &at);
    let read = read.map_err(|e| Failure::input(format!("{e:#}")))?;
    say(&format!("checksum: {:016x}", read.checksum));
    say(&read.what);
    Ok(Exit::Done)
}

/// A study of the synthetic task, one worker of which is killed.
fn supervision() -> Result<Exit, Failure> {
    let here = Here::of(&[Device::Cpu], false);
    let plan = Plan::parse("kill:1", here).map_err(|e| Failure::internal(e.to_string()))?;
    let found = drill::run(
        &Drill {
            task: None,
            plan: Some(plan),
            count: 1,
            seed: 0,
            parallel: 1,
            arguments: ["--deadline", "10s", "--device", "cpu"]
                .map(str::to_owned)
                .to_vec(),
            max_log_bytes: 1 << 20,
            here,
            keep: false,
        },
        &at,
    )?;
    if !found.held() {
        return Err(Failure::new(Exit::Breaker, found.problems.join("\n")));
    }
    say(&format!(
        "{} trials, one worker killed: its trial ran again, results as without",
        found.trials
    ));
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_named_from_1_alone_or_in_ranges_that_hold_their_ends() {
        assert_eq!(rows_of("3").unwrap(), [2]);
        assert_eq!(rows_of("7, 1..3").unwrap(), [6, 0, 1, 2]);
        for wrong in ["", "0", "3..1", "a", "1,,2"] {
            let message = rows_of(wrong).unwrap_err().message;
            assert!(message.contains("from 1"), "{wrong}: {message}");
        }
    }
}
