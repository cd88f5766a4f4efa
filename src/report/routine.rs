//! What is under way, in a sentence: for `-v` and the run's log.

use super::Event;
use super::format::{params_short, value};
use search::space::Params;

/// Parameters have so much room, in characters.
const PARAMS: usize = 120;

/// A routine event in words; `None` of one that people are told of anyway.
pub fn routine_text(event: &Event) -> Option<String> {
    Some(match event {
        Event::WorkerStarted {
            worker,
            pid,
            device,
        } => {
            format!("worker {worker} is ready on {device} (pid {pid})")
        }
        Event::WorkerStopped { worker, reason } => format!("worker {worker} has ended: {reason}"),
        Event::TrialStarted {
            number,
            attempt,
            worker,
            params,
        } => {
            let params = params_short(params, &Params::new(), PARAMS);
            format!("trial {number}, attempt {attempt}, started on worker {worker}: {params}")
        }
        Event::RepeatStarted {
            job,
            attempt,
            worker,
            seed,
            ..
        } => {
            format!("{job}, attempt {attempt}, started on worker {worker} with seed {seed}")
        }
        Event::GpuSampled(gpu) => {
            let used = gpu.memory_used >> 20;
            format!("GPU {} has {used} MiB of memory in use", gpu.gpu)
        }
        Event::TrialStepped { number, steps } => format!("trial {number} is at step {steps}"),
        Event::EpochFinished {
            number,
            epoch,
            metrics,
            ..
        } => {
            let metrics = metrics
                .iter()
                .map(|(name, v)| format!("{name} {}", value(*v)));
            let metrics: Vec<String> = metrics.collect();
            format!("trial {number}, epoch {epoch}: {}", metrics.join(", "))
        }
        Event::RunStarted(_)
        | Event::StudyForked(_)
        | Event::TrialFinished(_)
        | Event::RepeatFinished(_)
        | Event::WinnerSelected(_)
        | Event::Fault(_)
        | Event::StopRequested(_)
        | Event::SearchEnded(_)
        | Event::NewBest(_)
        | Event::Warned { .. }
        | Event::RunFinished(_) => return None,
    })
}
