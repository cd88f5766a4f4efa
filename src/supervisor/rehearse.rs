//! Runs a rehearsal: a few training steps at each of some points, each in a worker of its own, with
//! nothing recorded.

use std::path::PathBuf;

use super::replay::{Replay, ReplayEnd, ReplayResult, replay};
use config::StudySpec;
use fault::FaultKind;
use messages::exit::Failure;

use device::Device;
use memory::Floor;
use memory::rehearsal::{Rehearsed, points};
use search::space::Params;
use search::study::derive_seed;
use task::TrialSpec;

/// What is rehearsed, and how.
pub struct Rehearsal<'a> {
    /// The study.
    pub spec: &'a StudySpec,
    /// Where to train.
    pub device: Device,
    /// libtorch threads.
    pub threads: usize,
    /// What trainings cannot do without of the device's memory.
    pub floor: Option<&'a Floor>,
    /// Most points.
    pub points: usize,
    /// Training steps at each.
    pub steps: u32,
    /// The library that has libtorch, where workers need it.
    pub library: Option<PathBuf>,
    /// Where the workers' logs go.
    pub logs: PathBuf,
}

/// Rehearses point by point; `heard` gets each with its place and the number of all.
///
/// # Errors
/// A worker cannot be started.
pub fn rehearse(
    rehearsal: &Rehearsal<'_>,
    heard: &mut dyn FnMut(&Rehearsed, usize, usize),
) -> Result<Vec<Rehearsed>, Failure> {
    let spec = rehearsal.spec;
    let points = points(&spec.space, rehearsal.floor, rehearsal.points, spec.seed);
    let mut rehearsed = Vec::with_capacity(points.len());
    let count = points.len();
    for (at, params) in points.into_iter().enumerate() {
        let number = at as u64;
        let seed = derive_seed(spec.seed, number, "rehearsal");
        let trial = TrialSpec {
            rehearse: Some(rehearsal.steps),
            ..TrialSpec::new(spec, number, seed, params)
        };
        let plan = Replay {
            device: rehearsal.device,
            threads: rehearsal.threads,
            library: rehearsal.library.clone(),
            ..Replay::new(
                spec.clone(),
                trial,
                rehearsal.logs.join(format!("rehearsal-{at}.log")),
            )
        };
        let played = replay(&plan, &mut |_| {})?;
        let point = shown(
            plan.trial.params,
            plan.trial.config,
            rehearsal.device,
            &played,
        );
        heard(&point, at + 1, count);
        rehearsed.push(point);
    }
    Ok(rehearsed)
}

fn shown(params: Params, config: Params, device: Device, played: &ReplayResult) -> Rehearsed {
    let (out_of_memory, error) = match &played.end {
        ReplayEnd::Completed => (false, None),
        ReplayEnd::Fault(fault) if matches!(fault.kind, FaultKind::Oom | FaultKind::HostOom) => {
            (true, None)
        }
        ReplayEnd::Fault(fault) => {
            let error = format!("{}: {}", fault.kind.word(), fault.detail);
            (false, Some(error))
        }
    };
    let usage = played.usage.unwrap_or_default();
    let speed = |(time, steps): (std::time::Duration, u64)| {
        (steps > 0).then(|| time.as_secs_f64() / steps as f64)
    };
    Rehearsed {
        params,
        config,
        peak: usage.peak(device).filter(|_| error.is_none()),
        step_s: played.speed.and_then(speed).filter(|_| error.is_none()),
        steps: played.planned,
        out_of_memory,
        error,
    }
}

/// The memory of a device in all, in bytes; `None`: unknown.
pub fn memory_total(device: Device) -> Option<u64> {
    match device {
        Device::Cpu => process::host::memory_total(),
        Device::Cuda(index) => device::probe::memory_total(index),
    }
}
