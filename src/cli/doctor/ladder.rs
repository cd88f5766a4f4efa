//! The parts of a task, tried one by one, each in a process of its own.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::super::rung::{TRACE, overrides};
use super::super::{Common, RESERVED, run};
use super::DoctorArgs;
use config::StudySpec;
use config::places::{Wanted, find_task};
use device::{Device, DevicePolicy};
use doctor::Outcome;
use doctor::bisect::{Culprits, culprits};
use doctor::ladder::{Culprit, Ladder, Rung, RungEnd, Step, TaskFacts, judge, rungs};
use files::bounded;
use messages::exit::Failure;
use process::child::{self, ChildState, GroupLeader};
use process::evidence;
use search::space::{Params, Value};
use task::{ModelParts, TrainingRows};

/// A rung that takes longer hangs, unless it is said otherwise.
const LIMIT: Duration = Duration::from_secs(300);

/// How often a rung is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// The most that is read of what a rung prints, in bytes.
const MOST: u64 = 1 << 20;

/// Tries all rungs of a task; for people each is printed as it ends.
///
/// # Errors
/// The task's configuration has problems, or no process can be started.
pub(super) fn climb(common: &Common, args: &DoctorArgs, task: &str) -> Result<Ladder, Failure> {
    let site = Site::new(common, args, task)?;
    let loud = common.loud();
    let ends = Instant::now() + args.budget;
    let told = |step: Step| {
        if loud {
            // A reader that has gone away does not end the checks.
            let _ = report::out(&report::for_terminal(&step.line()));
        }
        step
    };
    let first = site.run(
        &Rung::Environment.to_string(),
        &Rung::Environment,
        &[],
        false,
    )?;
    let device = first.fact("device: ").map(str::to_owned);
    let site = site.on(device.clone());
    let facts = facts(&site.spec, device.as_deref());
    let mut checksums = Vec::new();
    let mut tried = vec![told(judge(&Rung::Environment, &first))];
    for rung in rungs(&facts).into_iter().skip(1) {
        let gpu = device.as_deref().is_some_and(|d| d != "cpu");
        let late = (Instant::now() > ends).then(|| "the time (--budget) is used up".to_owned());
        let step = match rung.skipped(&facts, gpu, &tried).or(late) {
            Some(why) => Step::not_run(&rung, why),
            None => {
                let end = site.run(&rung.to_string(), &rung, &[], false)?;
                checksums.extend(end.fact("checksum: ").map(str::to_owned));
                let step = judge(&rung, &end).same_as_before(&rung, &checksums);
                match gpu && rung.computes() && step.outcome == Outcome::Failed {
                    true => {
                        let again = site.run(&rung.to_string(), &rung, &[], true)?;
                        step.placed(&judge(&rung, &again))
                    }
                    false => step,
                }
            }
        };
        tried.push(told(step));
    }
    let culprit = site.descend(&facts, &tried, ends)?;
    Ok(Ladder::new(site.spec.study.clone(), device, tried, culprit))
}

/// What is known before a rung is tried.
fn facts(spec: &StudySpec, device: Option<&str>) -> TaskFacts {
    let learns = spec.needs_libtorch(Device::Cpu);
    let apart = run::preparation(&spec.kind).map(|kind| kind.parts(spec));
    let ModelParts { parts, losses } = apart.unwrap_or_default();
    let on = device.and_then(|d| d.parse::<DevicePolicy>().ok());
    let on = match on {
        Some(DevicePolicy::Cuda(indices)) => {
            indices.first().map_or(Device::Cpu, |i| Device::Cuda(*i))
        }
        Some(DevicePolicy::Cpu | DevicePolicy::Auto) | None => Device::Cpu,
    };
    TaskFacts {
        learns,
        parts,
        losses,
        computes: spec.needs_libtorch(on),
        threads: std::thread::available_parallelism().map_or(1, usize::from),
    }
}

/// What the processes of all rungs have in common.
struct Site {
    spec: StudySpec,
    /// The task's file, from the root.
    task: PathBuf,
    /// The project.
    project: PathBuf,
    set: Vec<(String, String)>,
    device: Option<String>,
    limit: Duration,
    dir: tempfile::TempDir,
}

impl Site {
    fn new(common: &Common, args: &DoctorArgs, task: &str) -> Result<Site, Failure> {
        let project = run::existing_project(common, Wanted::Task(task))?;
        let flags = overrides(&args.set, args.device.as_deref());
        let spec = run::read(&project, task, flags)?;
        let file = find_task(&project, task, &RESERVED)?;
        Ok(Site {
            spec,
            task: run::absolute(&file)?,
            project: run::absolute(&project.dir)?,
            set: args.set.clone(),
            device: args.device.clone(),
            limit: args.deadline.unwrap_or(LIMIT),
            dir: tempfile::tempdir()
                .map_err(|e| Failure::internal(format!("no temporary directory: {e}")))?,
        })
    }

    /// The same on this device, where one is known.
    fn on(mut self, device: Option<String>) -> Site {
        self.device = device.or(self.device);
        self
    }

    fn command(&self, name: &str, rung: &Rung, more: &[&str], blocking: bool) -> Command {
        let mut command = Command::new("/proc/self/exe");
        command.args(["rung", name]).arg(&self.task);
        command.arg("-C").arg(&self.project);
        if let Some(device) = &self.device {
            command.args(["--device", device]);
        }
        for (key, value) in &self.set {
            command.arg("--set").arg(format!("{key}={value}"));
        }
        command.args(more);
        // As workers of a run have it.
        command
            .envs(device::search_path())
            .env("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
        command.envs(rung.environment());
        if *rung == Rung::LongestKernel {
            command.env(fault::TRACE_OPERATIONS, self.dir.path().join("operations"));
        }
        if blocking {
            command.env("CUDA_LAUNCH_BLOCKING", "1");
        }
        command
    }

    /// Runs a rung to its end, or for so long as one may take.
    fn run(
        &self,
        name: &str,
        rung: &Rung,
        more: &[&str],
        blocking: bool,
    ) -> Result<RungEnd, Failure> {
        let failed = |e: std::io::Error| {
            Failure::internal(format!("the rung {name} cannot be started: {e}"))
        };
        let (out, err) = (self.dir.path().join("out"), self.dir.path().join("err"));
        let mut command = self.command(name, rung, more, blocking);
        command
            .stdin(Stdio::null())
            .stdout(File::create(&out).map_err(failed)?)
            .stderr(File::create(&err).map_err(failed)?);
        // SAFETY: nothing is done between fork and exec.
        unsafe { child::lead_group(&mut command, Signal::SIGKILL, || Ok(())) };
        let begun = Instant::now();
        let leader = GroupLeader::new(&command.spawn().map_err(failed)?);
        let mut late = None;
        while leader.look() != ChildState::Ended {
            if begun.elapsed() > self.limit {
                late = Some(self.limit);
                break;
            }
            std::thread::sleep(LOOK);
        }
        let took = begun.elapsed();
        let (end, _) = leader.end(None);
        let text = File::open(&out).and_then(|file| bounded::all(file, MOST));
        Ok(RungEnd {
            death: end.death,
            late,
            out: String::from_utf8_lossy(&text.unwrap_or_default()).into_owned(),
            err: evidence::tail(&err),
            took,
        })
    }
}

/// From a training that fails down to its rows and its operation.
impl Site {
    fn descend(
        &self,
        facts: &TaskFacts,
        tried: &[Step],
        ends: Instant,
    ) -> Result<Option<Culprit>, Failure> {
        let pipeline = Rung::Pipeline { real: true };
        let name = pipeline.to_string();
        let failed = tried
            .iter()
            .find(|step| step.name == name && step.outcome == Outcome::Failed);
        let (true, Some(failed)) = (facts.learns, failed) else {
            return Ok(None);
        };
        let kind = run::preparation(&self.spec.kind);
        let Some(Ok(Some(read))) = kind.map(|kind| kind.training_rows(&self.spec)) else {
            return Ok(None);
        };
        // Of several models the rows of one alone may not be what fails.
        let [all] = &read.train[..] else {
            return Ok(None);
        };
        if all.is_empty() {
            return Ok(None);
        }
        let mut runs = 0;
        // What was found by the end of the budget is no answer.
        let mut fails = |rows: &[usize]| -> Result<bool, Option<Failure>> {
            if Instant::now() > ends {
                return Err(None);
            }
            runs += 1;
            let more = ["--rows", &self.listed(rows)?];
            let end = self.run(&name, &pipeline, &more, false)?;
            Ok(judge(&pipeline, &end).fault == failed.fault
                && end.late.is_none()
                && !end.succeeded())
        };
        let rows = match culprits(all.clone(), all, &mut fails) {
            Ok(Culprits::These(rows)) => rows,
            Ok(Culprits::Any) => Vec::new(),
            Ok(Culprits::Nothing) | Err(None) => return Ok(None),
            Err(Some(failure)) => return Err(failure),
        };
        let shown = if rows.is_empty() { &all[..1] } else { &rows };
        let operation = match facts.parts.is_empty() {
            true => None,
            false => {
                let more = ["--rows", &self.listed(shown)?];
                let end = self.run(TRACE, &pipeline, &more, true)?;
                (!end.succeeded()).then(|| judge(&pipeline, &end).evidence)
            }
        };
        Ok(Some(self.culprit(&read, &rows, operation, runs)))
    }

    /// What is told of the rows.
    fn culprit(
        &self,
        read: &TrainingRows,
        rows: &[usize],
        operation: Option<String>,
        runs: usize,
    ) -> Culprit {
        let config = self.spec.effective(&self.spec.space.point(&Params::new()));
        let file = Path::new(&read.file).file_name();
        let file = file.unwrap_or_default().to_string_lossy();
        Culprit {
            places: rows
                .iter()
                .map(|row| format!("{file}:{}", read.lines[*row]))
                .collect(),
            rows: rows.iter().map(|row| row + 1).collect(),
            of: read.train.first().map_or(0, Vec::len),
            batch: config
                .get("train.batch_size")
                .and_then(Value::as_i64)
                .unwrap_or(1)
                .max(1) as usize,
            operation,
            runs,
        }
    }

    /// Rows for the command line, in a file: there may be many.
    fn listed(&self, rows: &[usize]) -> Result<String, Failure> {
        let path = self.dir.path().join("rows");
        let numbers: Vec<String> = rows.iter().map(|row| (row + 1).to_string()).collect();
        std::fs::write(&path, numbers.join(","))
            .map_err(|e| Failure::internal(format!("{}: {e}", path.display())))?;
        Ok(format!("@{}", path.display()))
    }
}
