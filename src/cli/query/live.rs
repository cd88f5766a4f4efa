//! What a run is doing now: its trials under way and how fast it is.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value as Json;

use super::format::{self, rfc3339};
use super::nodes::NodeLine;
use messages::any_float;
use messages::exit::Failure;
use report::TrialRate;
use report::format::value as number;
use search::study::{FrozenTrial, Job, TrialState};
use store::{RunEntry, Store, StudySummary};

/// More trials under way than this are only counted.
const MOST: usize = 64;

/// A trial that is under way.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct RunningTrial {
    pub(super) number: u64,
    /// From 0; null for a trial that another program runs.
    pub(super) attempt: Option<u32>,
    pub(super) worker: Option<u64>,
    pub(super) pid: Option<u32>,
    pub(super) device: Option<String>,
    /// Of a study that several nodes share: which one runs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    /// The last step that was reported: of most tasks an epoch.
    pub(super) step: Option<i64>,
    /// What was reported at it.
    #[serde(with = "any_float")]
    value: Option<f64>,
    /// When its attempt started, RFC 3339.
    pub(super) started: Option<String>,
    /// Bytes that it may use of the memory that it trains in.
    #[serde(skip)]
    pub(super) grant: Option<u64>,
    /// All that was reported, in order.
    #[serde(skip)]
    pub(super) curve: Vec<f64>,
    /// Seconds since then.
    age_s: Option<f64>,
}

impl RunningTrial {
    /// `trial 12: epoch 3, loss 0.31, 12 min 03 s, worker 1 on cpu, attempt 1`.
    pub(super) fn text(&self, step: &str, metric: &str) -> String {
        let mut parts = Vec::new();
        match (self.step, self.value) {
            (Some(at), Some(v)) => parts.push(format!("{step} {at}, {metric} {}", number(v))),
            // Not every program tells of its steps.
            (Some(_) | None, Some(_) | None) if step == "step" => {}
            (Some(_) | None, Some(_) | None) => parts.push(format!("no {step} yet")),
        }
        parts.extend(self.age_s.map(format::duration));
        match (self.worker, &self.device) {
            (Some(worker), Some(device)) => {
                let node = self.node.as_ref().map(|node| format!(" of {node}"));
                let node = node.unwrap_or_default();
                parts.push(format!("worker {worker} on {device}{node}"));
            }
            (_, _) if self.attempt.is_some() => parts.push("between two attempts".to_owned()),
            (_, _) => parts.push("run by another program".to_owned()),
        }
        let again = self.attempt.filter(|attempt| *attempt > 0);
        parts.extend(again.map(|attempt| format!("attempt {attempt}")));
        format!("trial {}: {}", self.number, parts.join(", "))
    }
}

/// The trials of a study that are under way, ascending by number, at most [`MOST`].
pub(super) fn running_trials(
    store: &Store,
    study: &StudySummary,
    trials: &[FrozenTrial],
    nodes: &[NodeLine],
    now: Timestamp,
) -> Result<Vec<RunningTrial>, Failure> {
    let running = trials.iter().filter(|t| t.state == TrialState::Running);
    let numbers: Vec<u64> = running.map(|t| t.number).take(MOST).collect();
    let now = format::stored(now);
    // Before the trials: one whose attempt ends meanwhile is one that has ended then, and not one without an attempt.
    let attempts = numbers.iter().map(|n| store.attempts(study.study_id, *n));
    let attempts = attempts.collect::<Result<Vec<_>, _>>()?;
    let mut told = Vec::new();
    for trial in store.these(study.study_id, &numbers)? {
        let at = numbers.iter().position(|n| *n == trial.number);
        let last = at.and_then(|at| attempts[at].last());
        if trial.state != TrialState::Running {
            continue;
        }
        let attempt = last.filter(|a| a.ended.is_none());
        let started = attempt
            .map(|a| &a.started)
            .or(trial.datetime_start.as_ref());
        let reported = trial.intermediate.last_key_value();
        told.push(RunningTrial {
            number: trial.number,
            attempt: last.map(|a| a.attempt),
            worker: attempt.map(|a| a.worker),
            pid: attempt.map(|a| a.pid),
            device: attempt.map(|a| a.device.clone()),
            node: nodes
                .iter()
                .find(|node| node.runs(trial.number))
                .map(NodeLine::name),
            step: reported.map(|(step, _)| *step),
            value: reported.map(|(_, value)| *value),
            grant: match attempt {
                Some(a) => {
                    store.grant(study.study_id, Job::trial(trial.number).attempt(a.attempt))?
                }
                None => None,
            },
            curve: trial.intermediate.values().copied().collect(),
            age_s: started.and_then(|s| format::seconds(s, &now)),
            started: started.map(|s| rfc3339(s)),
        });
    }
    Ok(told)
}

/// How fast the trials finish that count, since a run began.
pub(super) fn rate(trials: &[FrozenTrial], run: &RunEntry, goal: u64) -> TrialRate {
    let Some(start) = format::timestamp(&run.started) else {
        return TrialRate::default();
    };
    let ended = trials.iter().filter(|t| t.counts());
    let ended = ended.map(|t| format::timestamp(t.datetime_complete.as_deref()?));
    let mut ended: Vec<Option<Timestamp>> = ended.collect();
    // What has no time was there before.
    ended.sort();
    let before = ended
        .iter()
        .filter(|end| end.is_none_or(|end| end < start))
        .count();
    let mut rate = TrialRate::new(goal, before as u64, start);
    for (i, end) in ended.iter().enumerate().skip(before) {
        rate.finished(i as u64 + 1, end.unwrap_or(start));
    }
    rate
}

/// What a step of the study's trials is called.
pub(super) fn step_word(study: &StudySummary) -> &'static str {
    let kind = study.user_attrs.get("task_kind").and_then(Json::as_str);
    match kind.and_then(config::kinds::kind) {
        Some(kind) if kind.in_process => "epoch",
        Some(_) | None => "step",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_under_way_is_one_line() {
        let mut trial = RunningTrial {
            number: 12,
            attempt: Some(1),
            worker: Some(3),
            pid: Some(7),
            device: Some("cpu".to_owned()),
            node: None,
            step: Some(4),
            value: Some(0.3125),
            grant: None,
            curve: Vec::new(),
            started: None,
            age_s: Some(75.0),
        };
        assert_eq!(
            trial.text("epoch", "loss"),
            "trial 12: epoch 4, loss 0.3125, 1 min 15 s, worker 3 on cpu, attempt 1"
        );
        trial = RunningTrial {
            attempt: Some(0),
            step: None,
            value: None,
            ..trial
        };
        assert_eq!(
            trial.text("epoch", "loss"),
            "trial 12: no epoch yet, 1 min 15 s, worker 3 on cpu"
        );
        trial = RunningTrial {
            worker: None,
            device: None,
            age_s: None,
            ..trial
        };
        assert_eq!(trial.text("step", "loss"), "trial 12: between two attempts");
        trial.attempt = None;
        assert_eq!(
            trial.text("step", "loss"),
            "trial 12: run by another program"
        );
    }

    #[test]
    fn the_rate_counts_what_finished_since_the_run_began() {
        let ended = |number, at: Option<&str>| {
            let mut trial = FrozenTrial::new(number, TrialState::Complete, Default::default());
            trial.datetime_complete = at.map(|t| format!("2026-11-21 {t}.000000"));
            trial
        };
        let trials = [
            ended(0, Some("01:00:00")),
            ended(1, None),
            ended(2, Some("03:30:00")),
            ended(3, Some("03:10:00")),
        ];
        let run = RunEntry {
            run_id: 1,
            record: store::RunRecord {
                pid: 1,
                host: String::new(),
                version: String::new(),
                command: Vec::new(),
                operation: Json::Null,
            },
            started: "2026-11-21 03:00:00.000000".to_owned(),
            ended: None,
            exit: None,
        };
        let rate = rate(&trials, &run, 10);
        assert_eq!(
            (rate.speed(), rate.time_left()),
            ("4.0/h".to_owned(), "1 h 30 min left".to_owned())
        );
    }
}
