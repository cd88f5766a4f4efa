//! `tune rehearse TASK`, and the rehearsal before a new study.

use std::path::PathBuf;

use clap::Args;

use super::{Common, libtorch, run};
use crate::args::ConfigFlags;
use config::StudySpec;
use config::places::Wanted;
use device::Device;
use files::paths::logs_dir;
use memory::Predictor;
use memory::rehearsal::{Caps, Forecast, Rehearsed, forecast};
use messages::exit::{Exit, Failure};
use supervisor::{Rehearsal, memory_total, rehearse};

/// Points of a rehearsal, unless said otherwise.
const POINTS: usize = 8;

/// Training steps at each point, unless said otherwise: the first one warms up.
const STEPS: u32 = 4;

/// `tune rehearse`
#[derive(Debug, Args)]
pub struct RehearseArgs {
    /// A task: the name of a file in configs/ without .toml, or a path that ends in .toml
    pub task: String,
    /// Points at most
    #[arg(long, value_name = "N", default_value_t = POINTS as u64,
          value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub points: u64,
    /// Training steps at each
    #[arg(long, value_name = "N", default_value_t = STEPS,
          value_parser = clap::value_parser!(u32).range(2..))]
    pub steps: u32,
    /// What a run would ask.
    #[command(flatten)]
    pub asked: ConfigFlags,
}

pub(super) fn rehearse_task(common: &Common, args: &RehearseArgs) -> Result<Exit, Failure> {
    let project = run::project(common, Wanted::Task(&args.task))?;
    let spec = run::read(&project, &args.task, args.asked.overrides())?;
    let devices = libtorch::devices(&spec)?;
    run::prepare(&spec)?;
    if spec.runs_programs() {
        return Err(Failure::input(format!(
            "the task kind {} cannot be rehearsed: its programs do not stop after a few steps; `tune \
             memory` tells what the trials of a study used",
            spec.kind
        )));
    }
    let storage = run::storage(&project, common)?;
    let logs = logs_dir(&storage.files(), &spec.study);
    let loud = common.loud();
    let library = libtorch::for_workers(&spec, devices[0])?;
    let floor = run::floor(&spec, devices[0]);
    let plan = Rehearsal {
        floor: floor.as_deref(),
        ..plan(
            &spec,
            &devices,
            args.points as usize,
            args.steps,
            logs,
            library,
        )
    };
    let device = plan.device.to_string();
    if loud {
        super::print(&format!(
            "rehearsal of {} on {device}: {} steps at each point\n",
            spec.study, args.steps
        ))?;
    }
    let points = carry_out(&plan, loud)?;
    let caps = caps(&spec, plan.device);
    let told = report::Rehearsal {
        study: &spec.study,
        device: &device,
        cap: caps.map(|caps| caps.alone),
        trials: spec.operation.trials,
        forecast: look_ahead(&spec, plan.device, &points, caps),
    };
    match common.json {
        true => super::print_json(&report::rehearsal_json(&told, &points))?,
        false => super::print(&report::rehearsal_text(&told))?,
    };
    match points.iter().find_map(|p| p.error.as_ref()) {
        Some(error) if points.iter().all(|p| p.error.is_some()) => Err(Failure::input(format!(
            "no point could be trained: {error}; {} has the logs",
            plan.logs.display()
        ))),
        Some(_) | None => Ok(Exit::Done),
    }
}

/// The rehearsal before a study that is new, on a GPU: told as it goes on, and at its end.
///
/// # Errors
/// A worker cannot be started.
pub(super) fn before_run(
    spec: &StudySpec,
    devices: &[Device],
    logs: PathBuf,
    library: Option<PathBuf>,
    loud: bool,
) -> Result<Vec<Rehearsed>, Failure> {
    let floor = run::floor(spec, devices[0]);
    let plan = Rehearsal {
        floor: floor.as_deref(),
        ..plan(spec, devices, POINTS, STEPS, logs, library)
    };
    let device = plan.device.to_string();
    if loud {
        super::print(&format!(
            "rehearsal on {device}, for what fits together (--no-rehearsal leaves it out)\n"
        ))?;
    }
    let points = carry_out(&plan, loud)?;
    if loud {
        let caps = caps(spec, plan.device);
        super::print(&report::rehearsal_text(&report::Rehearsal {
            study: &spec.study,
            device: &device,
            cap: caps.map(|caps| caps.alone),
            trials: spec.operation.trials,
            forecast: look_ahead(spec, plan.device, &points, caps),
        }))?;
    }
    Ok(points)
}

fn plan<'a>(
    spec: &'a StudySpec,
    devices: &[Device],
    points: usize,
    steps: u32,
    logs: PathBuf,
    library: Option<PathBuf>,
) -> Rehearsal<'a> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Rehearsal {
        spec,
        device: devices.first().copied().unwrap_or(Device::Cpu),
        threads: spec.operation.worker_threads(devices, cores),
        points,
        steps,
        logs,
        floor: None,
        library,
    }
}

fn carry_out(plan: &Rehearsal<'_>, loud: bool) -> Result<Vec<Rehearsed>, Failure> {
    rehearse(plan, &mut |point, at, count| {
        if loud {
            // A reader that has gone away does not end the rehearsal.
            let _ = report::out(&report::point_line(point, at, count));
        }
    })
}

/// What may be used of the device's memory, in bytes.
fn caps(spec: &StudySpec, device: Device) -> Option<Caps> {
    let operation = &spec.operation;
    let (together, alone) = match device {
        Device::Cpu => (operation.host_memory, operation.host_memory),
        Device::Cuda(_) => (operation.gpu_memory, operation.gpu_alone),
    };
    let total = memory_total(device)? as f64;
    Some(Caps {
        together: (total * together) as u64,
        alone: (total * alone) as u64,
    })
}

fn look_ahead(
    spec: &StudySpec,
    device: Device,
    points: &[Rehearsed],
    caps: Option<Caps>,
) -> Forecast {
    let floor = run::floor(spec, device);
    let mut predictor = Predictor::new(spec.space.clone(), floor);
    points
        .iter()
        .filter_map(Rehearsed::observation)
        .for_each(|o| predictor.learn(o));
    let effective = |params: &_| spec.effective(params);
    forecast(&spec.space, points, &predictor, effective, caps, spec.seed)
}
