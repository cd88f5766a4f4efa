//! The streaming probe, `tune probe --stream`: says each second what the GPUs are at, and each Xid
//! at once, until its standard input closes.
//!
//! Xids have a thread of their own: where the driver hangs, it is they that tell why.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enums::event::XidError;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::event::EventData;
use nvml_wrapper::{EventSet, Nvml};

use super::line::ProbeLine;
use super::nvml::{self, Gpu};
use crate::GpuSample;

/// The time between two samples.
pub const INTERVAL: Duration = Duration::from_secs(1);

/// How long to wait for an Xid at a time, in milliseconds.
const EVENTS: u32 = 10_000;

/// What a driver reports where it does not know the code.
const UNKNOWN_XID: u64 = 999;

/// The hidden subcommand: see the module.
pub fn main() -> ExitCode {
    // Where this fails, the closed standard input does the same a little later.
    let _ = nix::sys::prctl::set_pdeathsig(Signal::SIGKILL);
    let listener = thread::Builder::new().spawn(|| {
        let mut buffer = [0; 64];
        while std::io::stdin().read(&mut buffer).is_ok_and(|n| n > 0) {}
        leave(0);
    });
    if listener.is_err() {
        return ExitCode::FAILURE;
    }
    let reason = watch();
    say(&ProbeLine::Lost { reason });
    // NVML's own end may hang where the driver does.
    leave(1)
}

fn leave(status: i32) -> ! {
    // SAFETY: ends the process; nothing here needs to be flushed or dropped.
    unsafe { libc::_exit(status) }
}

/// Writes a line; a reader that is gone is noticed by the closed standard input.
fn say(line: &ProbeLine) {
    if let Ok(mut text) = serde_json::to_string(line) {
        text.push('\n');
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }
}

/// Streams until NVML is lost; says why it is.
fn watch() -> String {
    let opened = nvml::open();
    let nvml = match &opened {
        Ok(nvml) => nvml,
        Err(error) => return nvml::explain(error),
    };
    let gpus = match nvml::gpus(nvml) {
        Ok(gpus) => gpus,
        Err(error) => return nvml::explain(&error),
    };
    if gpus.is_empty() {
        return "it knows no GPU".to_owned();
    }
    thread::scope(|scope| {
        // Without the thread there are no Xids, but samples all the same.
        let _ = thread::Builder::new()
            .name("xids".into())
            .spawn_scoped(scope, || events(nvml, &gpus));
        let reason = samples(&gpus);
        // The scope would wait for the thread.
        say(&ProbeLine::Lost { reason });
        leave(1)
    })
}

/// Samples until no GPU is left; says why.
fn samples(gpus: &[Gpu<'_>]) -> String {
    let mut totals = vec![0; gpus.len()];
    let mut next = Instant::now();
    loop {
        let mut lost = Vec::new();
        let mut seen = Vec::new();
        for (gpu, total) in gpus.iter().zip(&mut totals) {
            match nvml::read(gpu) {
                Ok(sample) => {
                    *total = sample.memory_total;
                    seen.push(sample);
                }
                Err(error) => {
                    seen.push(gone(gpu.index, *total, &error));
                    lost.push(format!("GPU {}: {}", gpu.index, nvml::explain(&error)));
                }
            }
        }
        say(&ProbeLine::Sampled(seen));
        if lost.len() == gpus.len() {
            return lost.join("; ");
        }
        next += INTERVAL;
        // After a pause of the whole machine nothing is caught up on.
        next = next.max(Instant::now());
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

/// What is known of a GPU that cannot be read any more.
pub(super) fn gone(index: usize, memory_total: u64, error: &NvmlError) -> GpuSample {
    let action = if matches!(error, NvmlError::ResetRequired) {
        "reset"
    } else {
        "lost"
    };
    GpuSample {
        index,
        memory_total,
        recovery_action: Some(action.to_owned()),
        ..GpuSample::default()
    }
}

/// Says each Xid, for as long as NVML reports events.
fn events(nvml: &Nvml, gpus: &[Gpu<'_>]) {
    let Some(set) = register(nvml, gpus) else {
        return;
    };
    loop {
        match set.wait(EVENTS) {
            Ok(event) => say_xid(&event, gpus),
            Err(NvmlError::Timeout) => {}
            // Of a lost GPU this comes at once, again and again; others may still report.
            Err(NvmlError::GpuLost) => thread::sleep(INTERVAL),
            Err(_) => return,
        }
    }
}

/// The Xids of all GPUs that report any.
fn register<'a>(nvml: &'a Nvml, gpus: &[Gpu<'a>]) -> Option<EventSet<'a>> {
    let mut mute = BTreeSet::new();
    // A set is of no use any more after one refusal: the next one is made without that GPU.
    'sets: while mute.len() < gpus.len() {
        let mut set = nvml.create_event_set().ok()?;
        for gpu in gpus.iter().filter(|g| !mute.contains(&g.index)) {
            let registered = gpu
                .handle
                .register_events(EventTypes::CRITICAL_XID_ERROR, set);
            match registered {
                Ok(same) => set = same,
                Err(_) => {
                    mute.insert(gpu.index);
                    continue 'sets;
                }
            }
        }
        return Some(set);
    }
    None
}

fn say_xid(event: &EventData<'_>, gpus: &[Gpu<'_>]) {
    let code = match event.event_data {
        Some(XidError::Value(code)) => code,
        Some(XidError::Unknown) => UNKNOWN_XID,
        None => return,
    };
    // A GPU that has fallen off the bus does not even tell its index.
    let same = |gpu: &&Gpu<'_>| {
        // SAFETY: the handles are compared, and not used.
        unsafe { gpu.handle.handle() == event.device.handle() }
    };
    if let Some(gpu) = gpus.iter().find(same) {
        let gpu = gpu.index;
        say(&ProbeLine::Xid { gpu, code });
    }
}
