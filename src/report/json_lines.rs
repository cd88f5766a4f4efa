//! `--json` of a run: one event a line, as the contract has it.

use std::io;

use jiff::Timestamp;
use serde_json::{Map, Value as Json, json};

use super::outlet::{Outlet, Worth};
use super::output::Output;
use super::sink::Sink;
use super::{Best, Counts, Event, Fork, selection_json, tested_json};
use config::Baseline;
use messages::json_number;
use search::space::Params;
use search::study::{Job, Purpose};
use task::Metrics;

/// Writes one JSON object a line, flushed.
pub(super) struct JsonLines {
    study: String,
    outlet: Outlet,
}

impl JsonLines {
    pub(super) fn new(study: &str, output: Output) -> io::Result<JsonLines> {
        let study = study.to_owned();
        let name = study.clone();
        let left_out = move |n| left_out_json(n, messages::clock::now(), &name).to_string();
        let outlet = Outlet::new(output, None, left_out)?;
        Ok(JsonLines { study, outlet })
    }
}

/// What stands in the place of lines that nobody read in time.
pub fn left_out_json(lines: u64, time: Timestamp, study: &str) -> Json {
    json!({ "event": "lines_left_out", "time": time.to_string(), "study": study, "lines": lines })
}

/// What is under way is told by its end again.
fn worth(event: &Event) -> Worth {
    match event {
        Event::WorkerStarted { .. }
        | Event::WorkerStopped { .. }
        | Event::TrialStarted { .. }
        | Event::TrialStepped { .. }
        | Event::EpochFinished { .. }
        | Event::RepeatStarted { .. } => Worth::Routine,
        Event::RunStarted { .. }
        | Event::StudyForked(_)
        | Event::TrialFinished { .. }
        | Event::RepeatFinished { .. }
        | Event::WinnerSelected { .. }
        | Event::Fault { .. }
        | Event::NewBest(_)
        | Event::Warned { .. }
        | Event::RunFinished { .. } => Worth::Lasting,
    }
}

impl Sink for JsonLines {
    fn handle(&mut self, event: &Event, time: Timestamp) {
        if let Some(object) = event_json(event, time, &self.study) {
            self.outlet.lines(&[object.to_string()], worth(event));
        }
    }
}

/// An event as a JSON object; `None` for events that are not part of `--json`.
pub fn event_json(event: &Event, time: Timestamp, study: &str) -> Option<Json> {
    let (name, fields) = name_and_fields(event)?;
    let mut object = Map::new();
    object.insert("event".to_owned(), name.into());
    object.insert("time".to_owned(), time.to_string().into());
    object.insert("study".to_owned(), study.into());
    if let Json::Object(fields) = fields {
        object.extend(fields);
    }
    Some(Json::Object(object))
}

fn name_and_fields(event: &Event) -> Option<(&'static str, Json)> {
    Some(match event {
        Event::TrialStepped { .. } => return None,
        Event::RunStarted { .. } => ("run_started", run_started(event)),
        Event::StudyForked(fork) => ("study_forked", study_forked(fork)),
        Event::WorkerStarted {
            worker,
            pid,
            device,
        } => (
            "worker_started",
            json!({ "worker": worker, "pid": pid, "device": device }),
        ),
        Event::TrialStarted {
            number,
            attempt,
            worker,
            params,
        } => (
            "trial_started",
            json!({
                "number": number, "attempt": attempt, "worker": worker,
                "params": params_json(params),
            }),
        ),
        Event::EpochFinished {
            number,
            epoch,
            value,
            metrics,
        } => (
            "epoch_finished",
            json!({
                "number": number, "epoch": epoch, "value": json_number(*value),
                "metrics": metrics_json(metrics),
            }),
        ),
        Event::TrialFinished { .. } => ("trial_finished", trial_finished(event)),
        Event::Fault { .. } => ("fault", fault(event)),
        Event::RepeatStarted { .. } => ("repeat_started", repeat_started(event)),
        Event::RepeatFinished { .. } => ("repeat_finished", repeat_finished(event)),
        Event::WinnerSelected { selection, trials } => {
            ("winner_selected", selection_json(selection, *trials))
        }
        Event::WorkerStopped { worker, reason } => (
            "worker_stopped",
            json!({ "worker": worker, "reason": reason }),
        ),
        Event::NewBest(best) => ("new_best", best_json(best)),
        Event::Warned { message } => ("warned", json!({ "message": message })),
        Event::RunFinished { .. } => ("run_finished", run_finished(event)),
    })
}

fn run_started(event: &Event) -> Json {
    let Event::RunStarted {
        trials,
        parallel,
        devices,
        metric,
        direction,
        baseline,
        counts,
        reclaimed,
        best,
        sampler,
        pruner,
        injected,
        further,
        front,
        defaults: _,
    } = event
    else {
        return Json::Null;
    };
    let mut json = json!({
        "trials": trials, "parallel": parallel, "devices": devices, "metric": metric,
        "direction": direction, "baseline": baseline.as_ref().map(baseline_json),
        "counts": counts_json(counts), "reclaimed": reclaimed,
        "best": best.as_ref().map(best_json), "sampler": sampler, "pruner": pruner,
        "injected": injected,
    });
    if !further.is_empty() {
        let first = json!({ "metric": metric, "direction": direction });
        let further = further.iter().map(|o| json!(o));
        json["objectives"] = std::iter::once(first).chain(further).collect();
        json["front"] = front.iter().map(best_json).collect();
    }
    json
}

fn study_forked(fork: &Fork) -> Json {
    let carried = &fork.carried;
    json!({
        "by": fork.by, "from": fork.from, "differences": fork.differences,
        "copied": carried.copied, "enqueued": carried.enqueued, "left_out": carried.left_out,
        "waiting": carried.waiting, "waiting_left_out": carried.waiting_left_out,
        "without_result": carried.without_result,
    })
}

fn run_finished(event: &Event) -> Json {
    let Event::RunFinished {
        exit,
        reason,
        counts,
        best,
        front,
        baseline,
        chosen,
    } = event
    else {
        return Json::Null;
    };
    let selection = chosen.selection.as_ref();
    let front: Option<Vec<Json>> =
        (!front.is_empty()).then(|| front.iter().map(best_json).collect());
    json!({
        "exit": exit, "reason": reason, "counts": counts_json(counts),
        "best": best.as_ref().map(best_json), "front": front,
        "baseline": baseline.as_ref().map(baseline_json),
        "selection": selection.map(|s| selection_json(s, counts.finished())),
        "test": chosen.test.as_ref().map(tested_json),
    })
}

fn fault(event: &Event) -> Json {
    let Event::Fault {
        fault,
        worker,
        attempt,
        detail,
        verdict,
    } = event
    else {
        return Json::Null;
    };
    json!({
        "fault": fault, "worker": worker, "number": attempt.map(|a| a.number),
        "purpose": attempt.map(|a| purpose(a.job())),
        "repeat": attempt.and_then(|a| repeat(a.job())),
        "attempt": attempt.map(|a| a.attempt), "detail": detail, "verdict": verdict,
    })
}

fn repeat_started(event: &Event) -> Json {
    let Event::RepeatStarted {
        job,
        attempt,
        worker,
        seed,
        params,
    } = event
    else {
        return Json::Null;
    };
    json!({
        "number": job.number, "purpose": purpose(*job), "repeat": repeat(*job),
        "attempt": attempt, "worker": worker, "seed": seed, "params": params_json(params),
    })
}

fn repeat_finished(event: &Event) -> Json {
    let Event::RepeatFinished {
        job,
        state,
        value,
        seed,
        attrs,
    } = event
    else {
        return Json::Null;
    };
    json!({
        "number": job.number, "purpose": purpose(*job), "repeat": repeat(*job),
        "state": state, "value": value.map(json_number), "seed": seed, "attrs": attrs,
    })
}

/// `search`, `repeat` or `test`.
fn purpose(job: Job) -> &'static str {
    match job.purpose {
        Purpose::Search => "search",
        Purpose::Repeat(_) => "repeat",
        Purpose::Test => "test",
    }
}

/// Which repeat, from 1.
fn repeat(job: Job) -> Option<u32> {
    match job.purpose {
        Purpose::Repeat(repeat) => Some(repeat),
        Purpose::Search | Purpose::Test => None,
    }
}

fn trial_finished(event: &Event) -> Json {
    let Event::TrialFinished {
        number,
        state,
        value,
        values,
        params,
        attrs,
        counts,
    } = event
    else {
        return Json::Null;
    };
    let mut json = json!({
        "number": number, "state": state, "value": value.map(json_number),
        "params": params_json(params), "attrs": attrs, "counts": counts_json(counts),
    });
    if values.len() > 1 {
        json["values"] = values_json(values);
    }
    json
}

/// One value an objective.
pub(super) fn values_json(values: &[f64]) -> Json {
    values.iter().map(|v| json_number(*v)).collect()
}

fn metrics_json(metrics: &Metrics) -> Json {
    Json::Object(
        metrics
            .iter()
            .map(|(k, v)| (k.clone(), json_number(*v)))
            .collect(),
    )
}

/// Parameters as a JSON object.
pub fn params_json(params: &Params) -> Json {
    Json::Object(
        params
            .iter()
            .map(|(k, v)| (k.clone(), v.to_json()))
            .collect(),
    )
}

fn best_json(best: &Best) -> Json {
    let params = params_json(&best.params);
    let mut json = json!({
        "number": best.number, "value": json_number(best.value), "params": params,
    });
    if best.values.len() > 1 {
        json["value"] = Json::Null;
        json["values"] = values_json(&best.values);
    }
    if best.adopted {
        json["params"] = json!({});
        json["adopted_params"] = params;
    }
    json
}

/// A baseline as the contract has it.
pub fn baseline_json(baseline: &Baseline) -> Json {
    json!({ "value": json_number(baseline.value), "what": baseline.what })
}

fn counts_json(counts: &Counts) -> Json {
    json!({
        "complete": counts.complete, "pruned": counts.pruned, "fail": counts.fail,
        "infeasible": counts.infeasible, "running": counts.running,
    })
}
