//! `tune TASK --metrics-file FILE`: what a run is at, in Prometheus' text format, for the textfile collector of
//! node_exporter. A thread writes the file anew on a slow beat and at the end; the run never waits for it, and one that
//! cannot be written is told of once.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs::Permissions;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use jiff::Timestamp;

use config::StudySpec;
use device::{GpuMinute, HostSample};
use fault::FaultKind;
use files::{bounded, replace};
use messages::exit::Failure;
use messages::{clock, printable};
use process::cgroup::OwnCgroup;
use report::{Counts, Event, Sink, TrialRate};

/// The file is written this often.
const BEAT: Duration = Duration::from_secs(15);

/// What the first line of a file of ours begins with.
const OURS: &str = "# HELP tune_";

/// Longer texts make no good labels.
const LABEL: usize = 200;

/// What is known of a run. Pure.
#[derive(Default)]
struct Metrics {
    study: String,
    task: String,
    metric: String,
    direction: String,
    started: Option<Timestamp>,
    goal: u64,
    slots: usize,
    counts: Counts,
    rate: TrialRate,
    best: Option<f64>,
    baseline: Option<f64>,
    last_trial: Option<Timestamp>,
    faults: BTreeMap<String, u64>,
    /// Process ids by worker.
    workers: BTreeMap<u64, u32>,
    gpus: BTreeMap<usize, GpuMinute>,
    /// Trials that run.
    running: BTreeSet<u64>,
    exit: Option<u8>,
    /// Nothing more will come.
    over: bool,
}

impl Metrics {
    fn new(spec: &StudySpec) -> Metrics {
        let label = |text: &str| chart::shortened(&printable(text), LABEL);
        Metrics {
            study: label(&spec.study),
            task: label(&spec.task),
            metric: label(&spec.objective.metric),
            direction: spec.objective.direction.to_string(),
            faults: (FaultKind::ALL
                .iter()
                .map(|kind| (kind.word().to_owned(), 0)))
            .collect(),
            ..Metrics::default()
        }
    }

    fn take(&mut self, event: &Event, time: Timestamp) {
        match event {
            Event::RunStarted(run) => {
                self.started = Some(time);
                self.goal = run.trials;
                self.slots = run.parallel;
                self.counts = run.counts;
                self.rate = TrialRate::new(run.trials, run.counts.finished(), time);
                self.best = run.best.as_ref().and_then(|best| best.value);
                self.baseline = run.baseline.as_ref().map(|b| b.value);
            }
            Event::TrialStarted { number, .. } => _ = self.running.insert(*number),
            Event::TrialFinished(trial) => {
                self.running.remove(&trial.number);
                self.counts = trial.counts;
                self.last_trial = Some(time);
                if trial.counts.finished() > 0 {
                    self.rate.finished(trial.counts.finished(), time);
                }
            }
            Event::NewBest(best) => self.best = best.value.or(self.best),
            Event::Fault(fault) => {
                *self.faults.entry(fault.fault.clone()).or_default() += 1;
                if let Some(attempt) = fault.attempt.filter(|a| a.job().searches()) {
                    self.running.remove(&attempt.job().number);
                }
            }
            Event::WorkerStarted { worker, pid, .. } => _ = self.workers.insert(*worker, *pid),
            Event::WorkerStopped { worker, .. } => _ = self.workers.remove(worker),
            Event::GpuSampled(minute) => {
                _ = self.gpus.insert(minute.gpu, GpuMinute::clone(minute));
            }
            Event::RunFinished(run) => {
                self.counts = run.counts;
                self.best = run.best.as_ref().and_then(|best| best.value).or(self.best);
                self.exit = Some(run.exit);
                self.running.clear();
                self.workers.clear();
            }
            Event::StudyForked(_)
            | Event::TrialStepped { .. }
            | Event::EpochFinished { .. }
            | Event::RepeatStarted { .. }
            | Event::RepeatFinished(_)
            | Event::WinnerSelected(_)
            | Event::StopRequested(_)
            | Event::SearchEnded(_)
            | Event::Warned { .. } => {}
        }
    }

    /// The file's text; `host` is what the host's memory is at. `None` before the run has begun.
    fn text(&self, host: Option<&HostSample>, now: Timestamp) -> Option<String> {
        self.started?;
        let mut page = Page::new(&self.study);
        let about = [
            ("task", self.task.as_str()),
            ("metric", &self.metric),
            ("direction", &self.direction),
            ("version", env!("CARGO_PKG_VERSION")),
        ];
        page.family("tune_run_info", "gauge", "The run: what it optimises.");
        page.sample(&about, 1.0);
        page.gauge(
            "tune_run_active",
            "Whether the run goes on: 1, or 0.",
            f64::from(u8::from(!self.over && self.exit.is_none())),
        );
        page.seconds(
            "tune_run_start_time_seconds",
            "When the run began.",
            self.started,
        );
        if let Some(exit) = self.exit {
            page.gauge(
                "tune_run_exit_code",
                "What the run has ended with.",
                f64::from(exit),
            );
        }
        self.trials(&mut page);
        page.family(
            "tune_faults_total",
            "counter",
            "Attempts of this run that ended by a fault, by kind.",
        );
        for (kind, n) in &self.faults {
            page.sample(&[("kind", kind)], *n as f64);
        }
        page.gauge(
            "tune_slots",
            "Trials at a time, at most.",
            self.slots as f64,
        );
        page.gauge(
            "tune_workers",
            "Processes that train or are ready to.",
            self.workers.len() as f64,
        );
        if let Some(host) = host {
            host_memory(&mut page, host);
        }
        self.gpus(&mut page);
        page.seconds(
            "tune_metrics_written_time_seconds",
            "When this file was written.",
            Some(now),
        );
        Some(page.text)
    }

    fn trials(&self, page: &mut Page) {
        let counts = self.counts;
        let states = [
            ("complete", counts.complete),
            ("pruned", counts.pruned),
            ("fail", counts.fail),
            ("infeasible", counts.infeasible),
        ];
        page.family(
            "tune_trials_total",
            "counter",
            "Trials of the study that have ended, by state.",
        );
        for (state, n) in states {
            page.sample(&[("state", state)], n as f64);
        }
        page.gauge(
            "tune_trials_running",
            "Trials that run now.",
            self.running.len() as f64,
        );
        page.gauge(
            "tune_trials_goal",
            "Finished trials that the run is to reach.",
            self.goal as f64,
        );
        if let Some(rate) = self.rate.per_hour() {
            page.gauge(
                "tune_trials_per_hour",
                "Finished trials an hour, by the latest ones.",
                rate,
            );
        }
        page.seconds(
            "tune_last_trial_time_seconds",
            "When a trial ended last.",
            self.last_trial,
        );
        let metric = [("metric", self.metric.as_str())];
        if let Some(best) = self.best {
            page.family(
                "tune_best_value",
                "gauge",
                "The best value of a trial so far.",
            );
            page.sample(&metric, best);
        }
        if let Some(baseline) = self.baseline {
            page.family(
                "tune_baseline_value",
                "gauge",
                "The value of the trivial answer.",
            );
            page.sample(&metric, baseline);
        }
    }

    fn gpus(&self, page: &mut Page) {
        type Figure = fn(&GpuMinute) -> Option<f64>;
        let families: [(&str, &str, Figure); 4] = [
            ("tune_gpu_memory_bytes", "Memory of the GPU.", |gpu| {
                (gpu.memory_total > 0).then_some(gpu.memory_total as f64)
            }),
            (
                "tune_gpu_memory_used_bytes",
                "Of that, what was in use in the last minute, at most.",
                |gpu| (gpu.memory_total > 0).then_some(gpu.memory_peak as f64),
            ),
            (
                "tune_gpu_utilization_ratio",
                "Share of the last minute in which the GPU computed.",
                |gpu| gpu.utilization.map(|percent| percent / 100.0),
            ),
            (
                "tune_gpu_temperature_celsius",
                "Its temperature in the last minute, at most.",
                |gpu| gpu.temperature_peak.map(f64::from),
            ),
        ];
        for (name, help, figure) in families {
            let known = self
                .gpus
                .values()
                .filter_map(|gpu| Some((gpu.gpu, figure(gpu)?)));
            let known: Vec<(usize, f64)> = known.collect();
            if !known.is_empty() {
                page.family(name, "gauge", help);
            }
            for (gpu, value) in known {
                page.sample(&[("gpu", &gpu.to_string())], value);
            }
        }
    }
}

fn host_memory(page: &mut Page<'_>, host: &HostSample) {
    let held = host.processes.values().sum::<u64>() as f64;
    page.gauge(
        "tune_host_memory_bytes",
        "Memory that there is for the run: the host's, or its cgroup's limit.",
        host.total as f64,
    );
    page.gauge(
        "tune_host_memory_available_bytes",
        "Of that, what can be had without swapping.",
        host.available as f64,
    );
    page.gauge(
        "tune_workers_memory_bytes",
        "Resident memory of the workers, with what they have started.",
        held,
    );
}

/// A text in the format of Prometheus, version 0.0.4.
struct Page<'a> {
    study: &'a str,
    name: &'a str,
    text: String,
}

impl<'a> Page<'a> {
    fn new(study: &'a str) -> Page<'a> {
        let (name, text) = ("", String::new());
        Page { study, name, text }
    }

    /// Begins the samples of one name.
    fn family(&mut self, name: &'static str, kind: &str, help: &str) {
        self.name = name;
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    /// A sample of the family that was begun last.
    fn sample(&mut self, labels: &[(&str, &str)], value: f64) {
        let study = [("study", self.study)];
        let labels = study.iter().chain(labels);
        let labels = labels.map(|(name, value)| format!("{name}=\"{}\"", escaped(value)));
        let labels = labels.collect::<Vec<_>>().join(",");
        let value = match value {
            x if x.is_nan() => "NaN".to_owned(),
            f64::INFINITY => "+Inf".to_owned(),
            f64::NEG_INFINITY => "-Inf".to_owned(),
            x => x.to_string(),
        };
        let _ = writeln!(self.text, "{}{{{labels}}} {value}", self.name);
    }

    /// A name with one sample.
    fn gauge(&mut self, name: &'static str, help: &str, value: f64) {
        self.family(name, "gauge", help);
        self.sample(&[], value);
    }

    /// A time, where it is known.
    fn seconds(&mut self, name: &'static str, help: &str, time: Option<Timestamp>) {
        if let Some(time) = time {
            self.gauge(name, help, time.as_millisecond() as f64 / 1e3);
        }
    }
}

/// The value of a label.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    text.replace('\n', "\\n")
}

/// Shows events as another sink does, and keeps a file of metrics.
pub(super) struct MetricsFile {
    shown: Box<dyn Sink>,
    metrics: Arc<Mutex<Metrics>>,
    /// `None` once the file is to be written for the last time.
    wake: Option<Sender<()>>,
    writer: Option<thread::JoinHandle<()>>,
}

fn lock(metrics: &Mutex<Metrics>) -> MutexGuard<'_, Metrics> {
    metrics.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MetricsFile {
    /// # Errors
    /// There is no thread to be had.
    pub(super) fn new(
        shown: Box<dyn Sink>,
        path: &Path,
        spec: &StudySpec,
    ) -> io::Result<MetricsFile> {
        let metrics = Arc::new(Mutex::new(Metrics::new(spec)));
        let (wake, woken) = mpsc::channel();
        let (theirs, path) = (Arc::clone(&metrics), path.to_owned());
        let writer = thread::Builder::new()
            .name("metrics".into())
            .spawn(move || keep(&theirs, &path, &woken))?;
        Ok(MetricsFile {
            shown,
            metrics,
            wake: Some(wake),
            writer: Some(writer),
        })
    }
}

/// Writes the file when it is woken, on each beat, and when nobody can wake it any more.
fn keep(metrics: &Mutex<Metrics>, path: &Path, woken: &Receiver<()>) {
    let own = OwnCgroup::own();
    let mut told = false;
    loop {
        let over = woken.recv_timeout(BEAT) == Err(RecvTimeoutError::Disconnected);
        let workers: BTreeSet<u32> = {
            let mut metrics = lock(metrics);
            metrics.over = over;
            metrics.workers.values().copied().collect()
        };
        let host = process::host::look(&workers, own.as_ref());
        let text = lock(metrics).text(host.as_ref(), clock::now());
        // What never began has nothing to tell.
        if let Some(Err(why)) = text.map(|text| write(path, &text))
            && !std::mem::replace(&mut told, true)
        {
            tracing::warn!(
                "--metrics-file {}: {why}; the run goes on without it",
                path.display()
            );
        }
        if over {
            return;
        }
    }
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut file = replace::Replacement::new(path)?;
    file.write_all(text.as_bytes())?;
    // The collector is somebody else.
    file.file().set_permissions(Permissions::from_mode(0o644))?;
    file.finish().map(|_| ())
}

impl Sink for MetricsFile {
    fn handle(&mut self, event: &Event, time: Timestamp) {
        self.shown.handle(event, time);
        lock(&self.metrics).take(event, time);
        if let (Event::RunStarted(_), Some(wake)) = (event, &self.wake) {
            let _ = wake.send(());
        }
    }
}

impl Drop for MetricsFile {
    fn drop(&mut self) {
        drop(self.wake.take());
        let _ = self.writer.take().map(thread::JoinHandle::join);
    }
}

/// That no file of somebody else is replaced.
///
/// # Errors
/// It is there, and not one of metrics (2).
pub(super) fn must_be_ours(path: &Path) -> Result<(), Failure> {
    let wrong = |why: String| Failure::input(format!("--metrics-file {}: {why}", path.display()));
    match path.symlink_metadata() {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        // A pipe or a device has nothing that could be lost.
        Ok(meta) if !meta.is_file() && !meta.is_dir() => return Ok(()),
        Err(_) | Ok(_) => {}
    }
    let there = bounded::read(path, 1 << 20).map_err(|e| wrong(e.to_string()))?;
    if there.is_empty() || there.starts_with(OURS.as_bytes()) {
        return Ok(());
    }
    Err(wrong(
        "this file is there already, and tune has not made it. Name another one".to_owned(),
    ))
}

#[cfg(test)]
#[path = "metrics_file_tests.rs"]
mod tests;
