//! What attempts use of memory: measured in the process that trains them, from one attempt's start
//! to its end.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::Libtorch;
use ::memory::Usage;
use device::Device;
use fault::cuda;
use protocol::EXPANDABLE;

/// How long NVML is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often resident memory is looked at where its peak cannot be had.
const LOOK: Duration = Duration::from_millis(20);

/// What the kernel is told to let this process be chosen first by its OOM killer: 0 is usual, 1000
/// the most.
const DIE_FIRST: i32 = 500;

/// What an attempt may leave behind without a word, in bytes: the next one uses it again.
const LITTLE: u64 = 4 << 20;

const MIB: f64 = (1 << 20) as f64;

/// Measures a worker's attempts, one after the other.
pub struct Meter {
    libtorch: &'static Libtorch,
    device: Device,
    in_process: bool,
    /// Of the GPU: its memory, and this process's context, in bytes.
    capacity: Option<u64>,
    context: Option<u64>,
    /// The attempt that is under way.
    resident_before: Option<u64>,
    watch: Option<Watch>,
}

/// How a device was opened.
pub enum Opened {
    /// It can be used.
    Open(Meter),
    /// Not with expandable segments: the error.
    NotExpandable(String),
}

impl Meter {
    /// Brings libtorch's CUDA part alive for a GPU, with `fallback_ops` on the CPU, makes the context and measures it; on the CPU,
    /// and where programs compute, nothing is to be done.
    ///
    /// # Errors
    /// CUDA's libraries cannot be loaded, or the GPU cannot be used.
    pub fn open(
        libtorch: &'static Libtorch,
        device: Device,
        in_process: bool,
        fallback_ops: &[String],
    ) -> anyhow::Result<Opened> {
        let mut meter = Meter {
            libtorch,
            device,
            in_process,
            capacity: None,
            context: None,
            resident_before: None,
            watch: None,
        };
        let Some(index) = meter.gpu() else {
            return Ok(Opened::Open(meter));
        };
        (libtorch.load)(device, fallback_ops)?;
        let before = device::in_use(index, PATIENCE);
        if let Err(error) = (libtorch.first_allocation)(device) {
            let text = format!("{error:#}");
            let ours = std::env::var_os(EXPANDABLE).is_some();
            return match ours && cuda::refuses_segments(&text) {
                true => Ok(Opened::NotExpandable(first_line(&text))),
                false => Err(error),
            };
        }
        // What computing loads belongs to the context as well.
        (libtorch.health)(device)?;
        (libtorch.empty_cache)()?;
        meter.capacity = (libtorch.memory_info)(index).map(|(_, all)| all).ok();
        let reserved = (libtorch.allocator_stats)(index).map_or(0, |s| s.reserved);
        // One that did not answer is not asked again.
        let after = before.and_then(|_| device::in_use(index, PATIENCE));
        meter.context = after.and_then(|after| device::context(before, after, reserved));
        Ok(Opened::Open(meter))
    }

    /// The GPU's memory in all and this process's context, in bytes.
    pub fn device(&self) -> Option<(u64, Option<u64>)> {
        Some((self.capacity?, self.context))
    }

    /// An attempt begins, which may take `grant` bytes of its GPU.
    pub fn begin(&mut self, grant: Option<u64>) {
        if !self.in_process {
            return;
        }
        if let Some(index) = self.gpu() {
            // A device that does not answer will say so to the training.
            let _ = (self.libtorch.reset_allocator_stats)(index);
            self.limit(index, grant);
        }
        self.resident_before = status("VmRSS");
        self.watch = match std::fs::write("/proc/self/clear_refs", "5") {
            Ok(()) => None,
            Err(_) => Watch::start(),
        };
    }

    /// Enforces the grant, or lifts that of the attempt before.
    fn limit(&self, index: usize, grant: Option<u64>) {
        let limit = match (grant, self.capacity) {
            (None, _) => Ok(1.0),
            (Some(grant), Some(capacity)) => Ok(fraction(grant, self.context, capacity)),
            (Some(_), None) => Err("the GPU's size is not known".to_owned()),
        };
        let set = |part| {
            let set = (self.libtorch.set_memory_fraction)(index, part);
            set.map_err(|e| format!("{e:#}"))
        };
        if let (Err(why), Some(grant)) = (limit.and_then(set), grant) {
            let grant = grant as f64 / MIB;
            note(&format!(
                "the limit of {grant:.0} MiB is not enforced: {why}"
            ));
        }
    }

    /// The attempt has ended; everything that it had is dropped. `program`: the peak of the program
    /// that it was, in MiB.
    pub fn end(&mut self, program: Option<f64>, device_works: bool) -> Usage {
        if !self.in_process {
            return Usage {
                resident: program.map(|mib| (mib * MIB) as u64),
                ..Usage::default()
            };
        }
        let seen = self.watch.take().map(Watch::stop);
        let mut usage = Usage {
            resident: seen.or_else(|| status("VmHWM")),
            resident_before: self.resident_before.take(),
            context: self.context,
            ..Usage::default()
        };
        if let Some(index) = self.gpu().filter(|_| device_works) {
            add_device(self.libtorch, &mut usage, index);
        }
        let grown = usage.resident.unwrap_or(0) > usage.resident_before.unwrap_or(0) + LITTLE;
        if grown {
            give_back();
        }
        usage
    }

    /// The GPU that this process itself computes on.
    fn gpu(&self) -> Option<usize> {
        match self.device {
            Device::Cuda(index) if self.in_process => Some(index),
            Device::Cuda(_) | Device::Cpu => None,
        }
    }
}

/// Adds what the GPU's allocator says, its cache emptied.
fn add_device(libtorch: &Libtorch, usage: &mut Usage, index: usize) {
    if (libtorch.empty_cache)().is_err() {
        return;
    }
    if let Ok(stats) = (libtorch.allocator_stats)(index) {
        usage.allocated = Some(stats.allocated_peak);
        usage.reserved = Some(stats.reserved_peak);
        usage.unallocated = Some(stats.reserved.saturating_sub(stats.allocated));
        usage.inactive_split = Some(stats.inactive_split_peak);
        usage.retries = Some(stats.retries);
        usage.ooms = Some(stats.ooms);
    }
}

/// A grant counts the context, which the allocator does not know of.
fn fraction(grant: u64, context: Option<u64>, capacity: u64) -> f64 {
    let tensors = grant.saturating_sub(context.unwrap_or(0)).max(1);
    (tensors as f64 / capacity.max(1) as f64).min(1.0)
}

/// Gives what the C library has freed and kept back to the system, so that a large trial is no
/// burden on the next one's figures.
fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: has no requirements; it locks each of the heaps for a moment.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Has the allocator keep what is freed for the next tensor, up to 2 GiB, instead of giving each large
/// one back to the kernel, which then has to clear the next one's pages: on a CPU a tenth of a
/// training step. What is left at a trial's end is given back there.
pub fn keep_freed() {
    #[cfg(target_env = "gnu")]
    // SAFETY: these two only set numbers; no other thread allocates yet.
    unsafe {
        // Some versions take no such threshold; what they then do by themselves is left alone.
        if libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 30) == 1 {
            libc::mallopt(libc::M_TRIM_THRESHOLD, libc::c_int::MAX);
        }
    }
}

/// Where the host runs out of memory, a worker is to be killed and not its supervisor.
pub fn die_first() {
    let path = "/proc/self/oom_score_adj";
    let now = std::fs::read_to_string(path).unwrap_or_default();
    if now.trim().parse().is_ok_and(|now: i32| now < DIE_FIRST) {
        // Raising it needs no privilege; where /proc is read-only, things stay as they are.
        let _ = std::fs::write(path, DIE_FIRST.to_string());
    }
}

/// A size of this process in bytes, by its name in /proc/self/status.
fn status(name: &str) -> Option<u64> {
    process::host::size(&std::fs::read_to_string("/proc/self/status").ok()?, name)
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "tune: {text}");
}

/// Looks at resident memory again and again.
struct Watch {
    peak: Arc<AtomicU64>,
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Watch {
    fn start() -> Option<Watch> {
        Watch::of(|| status("VmRSS"))
    }

    fn of(mut look: impl FnMut() -> Option<u64> + Send + 'static) -> Option<Watch> {
        let (stop, stopped) = mpsc::channel();
        let peak = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&peak);
        let watch = move || loop {
            seen.fetch_max(look().unwrap_or(0), Ordering::Relaxed);
            match stopped.recv_timeout(LOOK) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
            }
        };
        let thread = thread::Builder::new().name("memory".into()).spawn(watch);
        Some(Watch {
            peak,
            stop,
            thread: thread.ok()?,
        })
    }

    fn stop(self) -> u64 {
        let _ = self.stop.send(());
        let _ = self.thread.join();
        self.peak.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_leaves_room_for_the_context() {
        let gib = 1 << 30;
        assert_eq!(fraction(7 * gib, Some(gib), 24 * gib), 0.25);
        assert_eq!(fraction(30 * gib, None, 24 * gib), 1.0);
        let nothing = fraction(gib, Some(2 * gib), 24 * gib);
        assert!(nothing > 0.0 && nothing < 1e-9, "0 would be refused");
    }

    #[test]
    fn a_watch_sees_what_was_held_while_it_looked() {
        let mut sizes = vec![None, Some(3), Some(9), Some(4)].into_iter();
        let (looked, looks) = mpsc::channel();
        let look = move || {
            let size = sizes.next().flatten();
            let _ = looked.send(size);
            size
        };
        let watch = Watch::of(look).unwrap();
        let seen: Vec<Option<u64>> = looks.iter().take(5).collect();
        assert_eq!(seen, [None, Some(3), Some(9), Some(4), None]);
        assert_eq!(watch.stop(), 9, "a peak stays one");
    }
}
