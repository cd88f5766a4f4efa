//! A study that is looked at again and again, for `tune watch`: only what has changed is read.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use jiff::Timestamp;
use view::{Detail, FaultLine, Meter, Running, Section, Snapshot};

use super::failures::grouped;
use super::format;
use super::gpus::Gpu;
use super::live::{RunningTrial, step_word};
use super::nodes::{NodeLine, nodes_of};
use super::objectives::Objectives;
use super::show;
use super::state::StudyState;
use super::status::{Context, Status, status_of};
use super::trial_table::{Shared, TrialTable};
use super::{baseline_text, warning};
use config::StudySpec;
use device::{Device, HostSample};
use fault::size_text;
use messages::exit::Failure;
use report::failure;
use report::format::duration;
use search::space::Params;
use search::study::{FrozenTrial, TrialState};
use store::{AttemptRecord, KnownTrials, RunEntry, Store, StudySummary};

/// So many faults are told.
const FAULTS: usize = 50;

/// Part of a GPU's and of the host's memory where no run has recorded what trials may use.
const PART: f64 = 0.8;

/// What is kept of a study between two looks.
pub struct Watched {
    study_id: i64,
    known: KnownTrials,
    table: Arc<Shared>,
    history: History,
    /// What the run with this id was asked for; `None` where an older version recorded it.
    spec: Option<(i64, Option<Box<StudySpec>>)>,
}

impl Watched {
    /// Before the first look.
    pub fn new(study: &StudySummary) -> Watched {
        let table = TrialTable::new(Objectives::of(study), &study.directions);
        Watched {
            study_id: study.study_id,
            known: KnownTrials::default(),
            table: Arc::new(Shared(RwLock::new(table))),
            history: History::default(),
            spec: None,
        }
    }

    /// The study as it is now.
    ///
    /// # Errors
    /// It was deleted (2); reading failed (7).
    pub fn study(&self, store: &Store) -> Result<StudySummary, Failure> {
        let studies = store.studies()?;
        let found = studies.into_iter().find(|s| s.study_id == self.study_id);
        found.ok_or_else(|| Failure::input("the study was deleted"))
    }

    /// Looks at it. `host` looks at this machine's memory and that of these workers, where the run is here.
    ///
    /// # Errors
    /// Reading failed (7).
    pub fn look(
        &mut self,
        store: &Store,
        study: StudySummary,
        context: &Context,
        host: impl FnOnce(&BTreeSet<u32>) -> Option<HostSample>,
    ) -> Result<Snapshot, Failure> {
        let changes = store.changes(self.study_id, &mut self.known)?;
        let attempts = store.attempt_counts(self.study_id)?;
        let is_live =
            context.owner.is_some() || nodes_of(store, &study)?.iter().any(NodeLine::is_live);
        let changed = !changes.is_empty();
        let mut table = self.table.0.write().unwrap_or_else(PoisonError::into_inner);
        table.attempts = attempts;
        table.live = is_live;
        if changed {
            table.apply(changes);
            self.history = History::of(&study, &table.trials);
        }
        drop(table);
        let table = self.table.0.read().unwrap_or_else(PoisonError::into_inner);
        let early = |t: &&FrozenTrial| matches!(t.state, TrialState::Fail | TrialState::Pruned);
        let failed = table.trials.iter().filter(early);
        let groups = grouped(store, &study, failed.filter_map(|t| failure(t, None)), 0)?;
        let status = status_of(store, study, &table.trials, groups, context)?;
        drop(table);
        self.remember(status.last_run.as_ref());
        let faults = store.last_faults(self.study_id, FAULTS)?;
        let pids = status.running.iter().filter_map(|t| t.pid).collect();
        Ok(self.snapshot(&status, faults, host(&pids)))
    }

    /// All about one trial, and whether it may still change; `log` reads the end of a log, by its path relative to where
    /// logs lie.
    ///
    /// # Errors
    /// There is no such trial (2); reading failed (7).
    pub fn detail(
        &self,
        store: &Store,
        number: u64,
        log: impl FnOnce(&str) -> Section,
    ) -> Result<(Detail, bool), Failure> {
        let study = self.study(store)?;
        let shown = show(store, Some(&study.name), number)?;
        let objectives = Objectives::of(&study);
        let log = shown.last_log().map(log).unwrap_or_default();
        let page = shown.page(objectives.metric(), &self.usual(), log);
        Ok((page, !shown.is_finished()))
    }

    /// The point of the defaults; empty where there are none.
    fn usual(&self) -> Params {
        let space = self.spec().map(|spec| &spec.space);
        let space = space.filter(|space| space.has_defaults());
        space.map_or_else(Params::new, |space| space.point(&Params::new()))
    }

    fn spec(&self) -> Option<&StudySpec> {
        self.spec.as_ref()?.1.as_deref()
    }

    fn remember(&mut self, run: Option<&RunEntry>) {
        let known = self.spec.as_ref().map(|(run_id, _)| *run_id);
        if let Some(run) = run.filter(|run| known != Some(run.run_id)) {
            let spec = StudySpec::from_record(&run.record.operation);
            self.spec = Some((run.run_id, spec.map(Box::new)));
        }
    }

    fn snapshot(
        &self,
        status: &Status,
        faults: Vec<(u64, AttemptRecord)>,
        host: Option<HostSample>,
    ) -> Snapshot {
        let trials: Arc<Shared> = Arc::clone(&self.table);
        let running = status.state == StudyState::Running;
        let run = status.last_run.as_ref().filter(|_| status.is_live());
        let operation = run.map(|run| &run.record.operation);
        let baseline = status.baseline.as_ref();
        Snapshot {
            study: status.study.clone(),
            objective: status.objectives.text(),
            metric: status
                .objectives
                .names()
                .first()
                .cloned()
                .unwrap_or_default(),
            step: step_word(&status.summary),
            state: status.state.row().word.to_owned(),
            advice: if running { Vec::new() } else { advice(status) },
            mood: status.state.row().mood,
            since: run.and_then(|run| format::timestamp(&run.started)),
            finished: status.finished,
            goal: status.goal,
            progress: self.progress(status),
            best: status.leading_text(),
            trivial: baseline.map_or_else(String::new, |b| {
                format!("trivial answer {}", baseline_text(b))
            }),
            warnings: warnings(status),
            history: self.history.up_to(status),
            history_ends: self.history.ends(status),
            level: baseline.map(|b| b.value),
            running: (status.running.iter())
                .map(|trial| running_row(trial, host.as_ref(), &status.gpus))
                .collect(),
            slots: operation.and_then(|o| o.get("parallel")?.as_u64()),
            machine: self.machine(status, host.as_ref()),
            faults: faults.into_iter().map(fault_line).collect(),
            trials,
        }
    }

    /// What stands beside the bar.
    fn progress(&self, status: &Status) -> Vec<String> {
        let counts = status.counts.text(status.goal, status.is_live());
        let run = status.last_run.as_ref();
        let budget = self.spec().and_then(|spec| spec.operation.timeout);
        let left = budget
            .filter(|_| status.state == StudyState::Running)
            .and_then(|budget| {
                let used = status.now.duration_since(format::timestamp(&run?.started)?);
                let used = Duration::try_from(used).unwrap_or_default();
                let left = Duration::from_secs(budget.saturating_sub(used).as_secs());
                Some(format!("{} of its time left", duration(left)))
            });
        let pace = [status.rate.time_left(), status.rate.speed()];
        std::iter::once(counts)
            .chain(pace)
            .chain(left)
            .filter(|part| !part.is_empty())
            .collect()
    }

    fn machine(&self, status: &Status, host: Option<&HostSample>) -> Vec<Meter> {
        let operation = self.spec().map(|spec| &spec.operation);
        let gpu_part = operation.map_or(PART, |o| o.gpu_memory);
        let mut meters: Vec<Meter> = (status.gpus.iter())
            .map(|gpu| gpu_meter(gpu, gpu_part, status.now))
            .collect();
        meters.extend(host.filter(|host| host.total > 0).map(|host| {
            let used = host.total.saturating_sub(host.available);
            Meter {
                label: "host".to_owned(),
                share: Some(used as f64 / host.total as f64),
                mark: Some(operation.map_or(PART, |o| o.host_memory)),
                text: format!("{} of {} in use", size_text(used), size_text(host.total)),
                trouble: String::new(),
            }
        }));
        meters
    }
}

fn gpu_meter(gpu: &Gpu, part: f64, now: Timestamp) -> Meter {
    let minute = &gpu.minute;
    let share = minute.memory_peak as f64 / minute.memory_total as f64;
    Meter {
        label: format!("gpu {}", minute.gpu),
        share: (minute.memory_total > 0).then_some(share),
        mark: Some(part),
        text: gpu.figures().join(", "),
        trouble: gpu.trouble(now).join(", "),
    }
}

fn running_row(trial: &RunningTrial, host: Option<&HostSample>, gpus: &[Gpu]) -> Running {
    let resident = trial.pid.and_then(|pid| host?.processes.get(&pid).copied());
    Running {
        number: trial.number,
        attempt: trial.attempt.unwrap_or_default(),
        device: (trial.device.clone()).unwrap_or_else(|| "another program".to_owned()),
        step: trial.step,
        curve: trial.curve.clone(),
        memory: memory_text(
            resident,
            used_of_gpu(trial, gpus),
            trial.grant,
            trial.device.as_deref(),
        ),
        started: trial.started.as_deref().and_then(|s| s.parse().ok()),
    }
}

/// What a trial's worker used of its GPU's memory in the last minute, in bytes, at most; none where NVML does not tell.
fn used_of_gpu(trial: &RunningTrial, gpus: &[Gpu]) -> Option<u64> {
    let Ok(Device::Cuda(index)) = trial.device.as_deref()?.parse() else {
        return None;
    };
    let minute = &gpus.iter().find(|gpu| gpu.minute.gpu == index)?.minute;
    minute.processes.get(&trial.pid?).copied()
}

/// What a worker uses of the memory that it trains in, against what its attempt may use; where nobody knows what it uses of
/// a GPU, what it uses of the host's memory.
fn memory_text(
    resident: Option<u64>,
    of_gpu: Option<u64>,
    grant: Option<u64>,
    device: Option<&str>,
) -> String {
    let grant = grant.map(size_text);
    if let Some(of_gpu) = of_gpu.map(size_text) {
        return match grant {
            Some(grant) => format!("GPU {of_gpu} of {grant}"),
            None => format!("GPU {of_gpu}"),
        };
    }
    match (resident.map(size_text), grant) {
        (Some(used), Some(grant)) if device == Some("cpu") => format!("{used} of {grant}"),
        (Some(used), Some(grant)) => format!("{used}, GPU {grant}"),
        (None, Some(grant)) => format!("up to {grant}"),
        (used, None) => used.unwrap_or_default(),
    }
}

fn fault_line((number, attempt): (u64, AttemptRecord)) -> FaultLine {
    let outcome = attempt.outcome.as_deref().unwrap_or_default();
    let mut text = outcome.replace('_', " ");
    let detail = attempt
        .detail
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty());
    // Where the detail begins with the outcome's own word it is not said twice.
    match detail {
        Some(detail) if detail.starts_with(&text) => text = detail.to_owned(),
        Some(detail) => text += &format!(": {detail}"),
        None => {}
    }
    if attempt.again {
        text = format!("runs again, {text}");
    }
    FaultLine {
        number,
        text,
        at: attempt.ended.as_deref().and_then(format::timestamp),
    }
}

/// How the study stands in a sentence, and the command that goes on with it.
fn advice(status: &Status) -> Vec<String> {
    let holder = status.holder.as_ref();
    let state = status
        .state
        .text(holder, status.last_run.as_ref(), status.now);
    let command = holder
        .and_then(|h| h.command())
        .filter(|_| !status.is_live());
    let command = command.filter(|_| status.state != StudyState::Finished);
    std::iter::once(state)
        .chain(command.map(|c| format!("  {c}")))
        .collect()
}

fn warnings(status: &Status) -> Vec<String> {
    let trivial = warning(
        &status.summary,
        status.best.as_ref(),
        status.baseline.as_ref(),
    );
    let spool = status.spooled.text();
    let given_up = status.slots_given_up.iter().map(|given_up| {
        let report::SlotGivenUp {
            slot,
            device,
            reason,
        } = given_up;
        format!("slot {slot} on {device} is given up: {reason}")
    });
    let trivial = Some(trivial.trim().to_owned()).filter(|text| !text.is_empty());
    given_up.chain(spool).chain(trivial).collect()
}

/// The best value over time; of several objectives, of the first one.
#[derive(Default)]
struct History {
    start: Option<Timestamp>,
    /// Seconds since then, and the best value from then on.
    points: Vec<(f64, f64)>,
    /// Seconds at which the last trial ended.
    end: f64,
}

impl History {
    fn of(study: &StudySummary, trials: &[FrozenTrial]) -> History {
        let Some(direction) = study.directions.first() else {
            return History::default();
        };
        let time = |stored: &Option<String>| stored.as_deref().and_then(format::timestamp);
        let Some(start) = trials.iter().filter_map(|t| time(&t.datetime_start)).min() else {
            return History::default();
        };
        let since = |t: Timestamp| t.duration_since(start).as_secs_f64();
        let end = trials
            .iter()
            .filter_map(|t| time(&t.datetime_complete))
            .max();
        let ended = trials.iter().filter_map(|t| {
            let value = *t.result(study.directions.len())?.first()?;
            Some((since(time(&t.datetime_complete)?), value))
        });
        let mut ended: Vec<(f64, f64)> = ended.collect();
        ended.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut points: Vec<(f64, f64)> = Vec::new();
        for (at, value) in ended {
            if points
                .last()
                .is_none_or(|(_, best)| direction.better(value, *best))
            {
                points.push((at, value));
            }
        }
        History {
            start: Some(start),
            points,
            end: end.map_or(0.0, since),
        }
    }

    /// Until now, or until the last trial ended where no run goes on.
    fn up_to(&self, status: &Status) -> Vec<(f64, f64)> {
        let mut points = self.points.clone();
        let now = self
            .start
            .map(|start| status.now.duration_since(start).as_secs_f64());
        let end = now.filter(|_| status.is_live()).unwrap_or(self.end);
        let last = points.last().filter(|(at, _)| *at < end).copied();
        points.extend(last.map(|(_, best)| (end, best)));
        points
    }

    fn ends(&self, status: &Status) -> (String, String) {
        let start = self.start.map(format::stored);
        let start = start.map_or_else(String::new, |s| format::time(&s));
        let last = || {
            let end = Duration::try_from_secs_f64(self.end).ok()?;
            Some(format::time(&format::stored(
                self.start?.checked_add(end).ok()?,
            )))
        };
        let end = if status.is_live() {
            Some("now".to_owned())
        } else {
            last()
        };
        (start, end.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_that_of_the_device_against_the_grant_where_it_is_known() {
        let (mib, gib) = (1 << 20, 1 << 30);
        for (resident, of_gpu, grant, device, text) in [
            (
                Some(gib),
                None,
                Some(2 * gib),
                "cpu",
                "1.00 GiB of 2.00 GiB",
            ),
            (
                Some(gib),
                None,
                Some(2 * gib),
                "cuda:0",
                "1.00 GiB, GPU 2.00 GiB",
            ),
            (
                Some(gib),
                Some(mib),
                Some(gib),
                "cuda:0",
                "GPU 1.00 MiB of 1.00 GiB",
            ),
            (Some(gib), Some(mib), None, "cuda:0", "GPU 1.00 MiB"),
            (None, None, Some(gib), "cuda:0", "up to 1.00 GiB"),
            (Some(gib), None, None, "cpu", "1.00 GiB"),
            (None, None, None, "cpu", ""),
        ] {
            assert_eq!(memory_text(resident, of_gpu, grant, Some(device)), text);
        }
    }
}
