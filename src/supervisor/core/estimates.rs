//! What the core knows of memory: the machine's, by samples, and the trials', by prediction.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, json};

use super::active_trial::{End, memory_constraint};
use super::admission::{Admission, DeviceMemory, MemoryRequest, Reservation, admit};
use super::shortage::TOLD_EVERY;
use super::slot::Slot;
use super::{Core, remember};
use crate::Now;
use config::{BATCH_SIZE, Parallel};
use device::Device;
use device::GpuSample;
use memory::{Estimate, Observation, Predictor, size as bytes};
use search::space::{Params, Value};
use search::study::{Job, TrialState};

/// With so many measurements upper predictions are believed over somebody's word on how many fit.
pub(super) const SURE: usize = 20;

/// What a worker without an attempt takes of its GPU, in bytes, until one has measured its context.
const CONTEXT: u64 = 512 << 20;

/// How many recent predictions say what the next trial will need.
const RECENT: usize = 20;

/// A training's configuration with the batch size that is computed at a time, where batches are
/// halved so often.
pub fn in_parts(mut config: Params, halvings: u32) -> Params {
    if halvings > 0
        && let Some(batch) = config.get(BATCH_SIZE).and_then(Value::as_i64)
    {
        let part = (batch.max(1) as u64).div_ceil(1u64.checked_shl(halvings).unwrap_or(u64::MAX));
        config.insert(BATCH_SIZE.to_owned(), (part as i64).into());
    }
    config
}

/// Memory as the core knows it.
pub(super) struct Memory {
    predictor: Predictor,
    /// What other people's processes used of a GPU when none of our workers was on it, in bytes.
    before: BTreeMap<usize, u64>,
    /// Measured size of a context, by device, in bytes.
    context: BTreeMap<Device, u64>,
    /// The largest resident memory of an attempt, in bytes.
    resident: u64,
    /// Upper predictions of the last trials that started.
    recent: VecDeque<u64>,
    /// Trials and repeats that have been proposed and wait for memory.
    pub held: BTreeSet<Job>,
    /// What devices are being emptied for.
    pub clearing: BTreeMap<Device, Job>,
    /// When people were told last that other people's processes are waited for.
    told: Option<Now>,
    /// When people were told last that slots of a device wait for room on it.
    pub short: BTreeMap<Device, Now>,
}

impl Memory {
    pub(super) fn new(mut predictor: Predictor, known: Vec<Observation>) -> Memory {
        predictor.learn_all(known);
        Memory {
            predictor,
            before: BTreeMap::new(),
            context: BTreeMap::new(),
            resident: 0,
            recent: VecDeque::new(),
            held: BTreeSet::new(),
            clearing: BTreeMap::new(),
            told: None,
            short: BTreeMap::new(),
        }
    }

    /// What other people's processes used of a GPU when none of our workers was on it.
    pub(super) fn used_before(&self, gpu: usize) -> Option<u64> {
        self.before.get(&gpu).copied()
    }

    /// What the next trial will need, by what the last ones were predicted to.
    fn typical(&self) -> Option<u64> {
        let mut sorted: Vec<u64> = self.recent.iter().copied().collect();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied()
    }

    fn context(&self, device: Device) -> u64 {
        let unmeasured = match device {
            Device::Cpu => 0,
            Device::Cuda(_) => CONTEXT,
        };
        self.context.get(&device).copied().unwrap_or(unmeasured)
    }
}

impl Core {
    /// A worker has measured what its context takes, in bytes.
    pub(super) fn note_context(&mut self, slot: usize, context: Option<u64>) {
        if let Some(context) = context.filter(|c| *c > 0) {
            let device = self.slots[slot].device;
            self.memory.context.insert(device, context);
        }
    }

    /// Notes what a GPU is used for while none of our workers is on it, nor in the figure any more.
    pub(super) fn note_use_before(&mut self, gpu: &GpuSample) {
        let device = Device::Cuda(gpu.index);
        let ours = |s: &Slot| s.device == device && s.worker().is_some();
        let gone = self.ended_workers.counted(gpu);
        let told_apart = gone > 0 || !self.ended_workers.blurs(gpu.index);
        if told_apart && !self.slots.iter().any(ours) {
            let used = gpu.memory_used.saturating_sub(gone);
            self.memory.before.insert(gpu.index, used);
        }
    }

    /// What a worker's process was seen to use of its device's memory, with what it has started.
    pub(super) fn seen(&self, device: Device, pid: u32) -> Option<u64> {
        let processes = match device {
            Device::Cpu => &self.machine.host()?.processes,
            Device::Cuda(index) => &self.machine.gpu(index)?.processes,
        };
        processes.get(&pid).copied()
    }

    /// Total and use of a device's memory, as last seen.
    fn extent(&self, device: Device) -> (u64, u64) {
        match device {
            Device::Cpu => (self.machine.host())
                .map_or((0, 0), |h| (h.total, h.total.saturating_sub(h.available))),
            Device::Cuda(index) => {
                let told = self.device_facts.capacities.get(&device).copied();
                let gpu = self.machine.gpu(index);
                let total = gpu.map(|g| g.memory_total).filter(|total| *total > 0);
                let used = gpu.map_or(0, |g| g.memory_used);
                (total.or(told).unwrap_or(0), used)
            }
        }
    }

    /// The memory of a device, as it is for the worker of `asking`, or for a new one.
    pub(super) fn device_memory(&self, device: Device, asking: Option<usize>) -> DeviceMemory {
        let (total, used) = self.extent(device);
        let operation = &self.spec.operation;
        let (share, alone) = match device {
            Device::Cpu => (operation.host_memory, operation.host_memory),
            Device::Cuda(_) => (operation.gpu_memory, operation.gpu_alone),
        };
        let part = |share: f64| (total as f64 * share) as u64;
        let mut memory = DeviceMemory {
            total,
            cap: part(share),
            alone: part(alone),
            yields: device == Device::Cpu,
            ..DeviceMemory::default()
        };
        let (mut own, mut visible, mut workers) = (0, false, false);
        for (index, slot) in self.slots.iter().enumerate() {
            let Some(worker) = slot.worker().filter(|_| slot.device == device) else {
                continue;
            };
            workers = true;
            let seen = self.seen(device, worker.pid);
            own += seen.unwrap_or(0);
            visible |= seen.is_some();
            match slot.attempt() {
                Some(attempt) => {
                    let active = self.active.get(&attempt.job());
                    let reserved = active.map_or(0, |l| l.reserved_bytes());
                    memory.running += reserved.max(seen.unwrap_or(0));
                    memory.attempts += 1;
                }
                None if asking == Some(index) => {}
                None => memory.idle += seen.unwrap_or_else(|| self.memory.context(device)),
            }
        }
        let gone = match device {
            Device::Cuda(index) => self
                .machine
                .gpu(index)
                .map(|g| self.ended_workers.counted(g)),
            Device::Cpu => None,
        };
        own += gone.unwrap_or(0);
        visible |= gone.is_some_and(|bytes| bytes > 0);
        // Where NVML does not know our processes (other containers' names), what was in use before
        // they came has to do; also just after they have gone.
        memory.foreign = match device {
            Device::Cuda(index) if (workers || self.ended_workers.blurs(index)) && !visible => {
                self.memory.before.get(&index).copied().unwrap_or(0)
            }
            Device::Cpu | Device::Cuda(_) => used.saturating_sub(own),
        };
        memory
    }

    /// Says that other people's processes are waited for: nothing of ours runs on the device.
    pub(super) fn tell_of_waiting(&mut self, device: Device) {
        let memory = self.device_memory(device, None);
        let due = self
            .memory
            .told
            .is_none_or(|at| self.now >= at + TOLD_EVERY);
        if memory.attempts > 0 || memory.foreign == 0 || !due {
            return;
        }
        self.memory.told = Some(self.now);
        self.warn(format!(
            "waiting for memory of {device}: other processes use {} of {}",
            bytes(memory.foreign),
            bytes(memory.total)
        ));
    }

    /// Whether the slot's idle worker may start this trial or repeat now.
    pub(super) fn admission(&self, slot: usize, job: Job) -> Admission {
        let device = self.slots[slot].device;
        let Some(active) = self.active.get(&job) else {
            return Admission::Wait;
        };
        let memory = self.device_memory(device, Some(slot));
        let request = MemoryRequest {
            estimate: active.predicted,
            sure: self.memory.predictor.known() >= SURE,
            // What has been started before is not refused any more.
            holds: self.memory.predictor.holds() && active.attempt == 0,
            trusting: self.trusts(device),
            alone: active.alone(),
        };
        let admission = admit(&memory, request);
        if active.alone() && matches!(admission, Admission::Start(_)) && self.shares_device(slot) {
            // However little is known of the device's memory: an idle worker's context is part of it.
            return Admission::Clear;
        }
        match (admission, device) {
            (Admission::Start(_), Device::Cuda(_)) if !self.host_has_room(slot) => Admission::Wait,
            (admission, _) => admission,
        }
    }

    /// Whether somebody has said how many trials may run at a time, and so vouches for them.
    fn told_how_many(&self) -> bool {
        matches!(self.spec.operation.parallel, Parallel::Limit(_))
    }

    /// Whether trials may share the device although little is known of them.
    fn trusts(&self, device: Device) -> bool {
        device == Device::Cpu || self.told_how_many()
    }

    /// Whether the host's memory carries one more attempt on a GPU, by the largest one seen.
    fn host_has_room(&self, slot: usize) -> bool {
        let Some(host) = self.machine.host() else {
            return true;
        };
        let busy = |s: &&Slot| s.attempt().is_some();
        if !self.slots.iter().any(|s| busy(&s)) {
            return true;
        }
        let of = |s: &Slot| {
            let worker = s.worker()?;
            host.processes.get(&worker.pid).copied()
        };
        let growth = |s: &Slot| self.memory.resident.saturating_sub(of(s).unwrap_or(0));
        let coming: u64 = self.slots.iter().filter(busy).map(growth).sum();
        let asked = growth(&self.slots[slot]);
        let cap = (host.total as f64 * self.spec.operation.host_memory) as u64;
        host.total.saturating_sub(host.available) + coming + asked <= cap
    }

    /// Whether a device has room for one more worker and the trial that it is started for.
    pub(super) fn room_for_worker(&self, device: Device) -> bool {
        let workers = |s: &&Slot| s.device == device && s.worker().is_some();
        if !self.slots.iter().filter(|s| !s.spare).any(|s| workers(&s)) {
            return true;
        }
        if self.waits_for_device(device) || self.kept_free(device) {
            // It is being emptied for a trial.
            return false;
        }
        if self.trusts(device) && self.memory.predictor.known() < SURE {
            // The trial that it would be started for decides, not a wide first guess.
            return true;
        }
        let waiting = self.memory.held.iter().chain(&self.retry);
        let needs = waiting.filter_map(|j| Some(self.active.get(j)?.predicted?.upper));
        let needs = needs.min().or_else(|| self.memory.typical());
        match needs {
            Some(needs) => {
                self.device_memory(device, None).has(needs) || self.extent(device).0 == 0
            }
            None => self.trusts(device),
        }
    }

    /// Whether a device has room for a spare worker beside what runs.
    pub(super) fn room_for_spare(&self, device: Device) -> bool {
        let memory = self.device_memory(device, None);
        memory.total == 0 || memory.has(self.memory.context(device).max(CONTEXT))
    }

    /// What a spare worker on a GPU may take for a rehearsal; `None`: it does without, being no spare
    /// one, or because the GPU's memory is not known.
    pub(super) fn rehearsal_of_spare(&self, slot: usize) -> Option<u64> {
        let Slot { spare, device, .. } = self.slots[slot];
        let memory = self.device_memory(device, Some(slot));
        let rehearses = spare && device != Device::Cpu && memory.total > 0;
        rehearses.then(|| memory.left())
    }

    /// Predicts what a trial or repeat will need.
    pub(super) fn predict(&mut self, job: Job) {
        let Some(active) = self.active.get(&job) else {
            return;
        };
        let config = self.config_of(&active.trial.params, active.halvings);
        let predicted = self.memory.predictor.estimate(&config);
        if let Some(active) = self.active.get_mut(&job) {
            active.predicted = predicted;
        }
    }

    /// Everything that a training reads, its batch size as it is computed.
    fn config_of(&self, params: &Params, halvings: u32) -> Params {
        in_parts(self.spec.effective(params), halvings)
    }

    /// A trial starts with this share of its device.
    pub(super) fn reserve(&mut self, job: Job, reservation: Reservation) {
        let Some(active) = self.active.get_mut(&job) else {
            return;
        };
        active.reservation = reservation;
        active.passed = 0;
        if let Some(estimate) = active.predicted {
            remember(&mut self.memory.recent, RECENT, estimate.upper);
        }
        for waiting in self.memory.held.iter().chain(&self.retry) {
            if *waiting < job
                && let Some(active) = self.active.get_mut(waiting)
            {
                active.passed += 1;
            }
        }
    }

    /// Learns what the attempt has used; of one that ran out of memory, that it needs more.
    pub(super) fn learn_memory(&mut self, slot: usize, job: Job, out_of_memory: bool) {
        let device = self.slots[slot].device;
        let pid = self.slots[slot].worker().map_or(0, |w| w.pid);
        let Some(active) = self.active.get(&job) else {
            return;
        };
        let usage = active.used();
        self.memory.resident = self.memory.resident.max(usage.resident.unwrap_or(0));
        let peak = match out_of_memory {
            // At least what it was given; what it had when it failed may be much less.
            true => usage.peak(device).max(active.reservation.grant),
            false => usage.peak(device),
        };
        let Some(peak) = peak.max(self.seen(device, pid).filter(|_| out_of_memory)) else {
            return;
        };
        let config = self.config_of(&active.trial.params, active.halvings);
        self.memory.predictor.learn(Observation {
            config,
            peak,
            censored: out_of_memory,
        });
        let waiting: Vec<Job> = self
            .memory
            .held
            .iter()
            .chain(&self.retry)
            .copied()
            .collect();
        for job in waiting {
            self.predict(job);
        }
    }

    /// Halves the batches of a training until it is predicted to fit, where that is wanted and
    /// possible; at least once where `once`. Says whether that has changed anything.
    pub(super) fn halve(&mut self, job: Job, device: Device, once: bool) -> bool {
        if !self.spec.operation.halve {
            return false;
        }
        let cap = self.device_memory(device, None).cap;
        let Some(active) = self.active.get(&job) else {
            return false;
        };
        let batch = self.spec.effective(&active.trial.params);
        let Some(batch) = batch.get(BATCH_SIZE).and_then(Value::as_i64) else {
            return false;
        };
        let (before, params) = (active.halvings, active.trial.params.clone());
        let most = 63 - batch.max(1).leading_zeros();
        let fits = |halvings: u32| {
            let config = self.config_of(&params, halvings);
            (self.memory.predictor.estimate(&config)).is_none_or(|e| cap == 0 || e.upper <= cap)
        };
        let first = before + u32::from(once);
        let Some(halvings) = (first..=most)
            .find(|h| fits(*h))
            .or((first <= most).then_some(most))
        else {
            return false;
        };
        if let Some(active) = self.active.get_mut(&job) {
            active.halvings = halvings;
        }
        self.predict(job);
        halvings != before
    }

    /// Ends a trial that cannot fit, never started. A repeat of a trial that did fit just waits.
    pub(super) fn refuse_for_memory(&mut self, job: Job, device: Device, needs: u64, has: u64) {
        let mut user_attrs = Map::new();
        let predicted = self.active.get(&job).and_then(|l| l.predicted);
        let what = match device {
            Device::Cpu => "host.memory",
            Device::Cuda(_) => "gpu.alone",
        };
        let message = format!(
            "it is predicted to need at least {} of {device}'s memory, and {} may be used ({what})",
            bytes(needs),
            bytes(has)
        );
        user_attrs.insert("infeasible".into(), true.into());
        user_attrs.insert("error_msg".into(), message.into());
        if let Some(Estimate {
            lower,
            expected,
            upper,
        }) = predicted
        {
            let mib = |bytes: u64| json!((bytes as f64 / 1048576.0).round());
            let figures = json!([mib(lower), mib(expected), mib(upper)]);
            user_attrs.insert("predicted_memory_mb".into(), figures);
        }
        let excess = needs as f64 / has.max(1) as f64 - 1.0;
        let constraint = memory_constraint(device == Device::Cpu).to_owned();
        let system_attrs = [(constraint, json!(excess.max(1e-3)))];
        self.memory.held.remove(&job);
        self.finish(
            job,
            End {
                state: TrialState::Pruned,
                values: Vec::new(),
                user_attrs,
                system_attrs: system_attrs.into_iter().collect(),
            },
        );
    }
}
