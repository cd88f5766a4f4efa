//! A trial of this run that has not ended, and what it ends as.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json, json};

use super::admission::Reservation;
use crate::Now;
use config::{Objective, objectives::MEASURED};
use device::Device;
use fault::{Fault, FaultKind, Tally, cuda};
use memory::{Estimate, Usage};
use messages::json_number;
use search::space::{Params, Value};
use search::study::{AUDITED, FrozenTrial, TrialState};
use task::Metrics;

/// A trial that is running or waits to be run again.
#[derive(Debug, Clone)]
pub struct ActiveTrial {
    /// The trial as the store has it.
    pub trial: FrozenTrial,
    /// The current attempt, or the next one between two.
    pub attempt: u32,
    /// The trial's seed.
    pub seed: u64,
    /// Earlier faulty attempts.
    pub tally: Tally,
    /// Reported metrics of the current attempt, by epoch.
    pub epochs: BTreeMap<u32, Metrics>,
    /// When the current attempt was sent.
    pub started: Now,
    /// Device and worker of the current attempt.
    pub place: Option<(String, u64)>,
    /// Peak of the current attempt ([`Usage::peak`]), in MiB.
    pub peak_memory_mb: Option<f64>,
    /// What the worker measured of the current attempt.
    pub usage: Option<Usage>,
    /// What it is predicted to need.
    pub predicted: Option<Estimate>,
    /// What it has of its device in the current attempt.
    pub reservation: Reservation,
    /// How often its batches are halved.
    pub halvings: u32,
    /// Trials after it that were started while it waited for memory.
    pub passed: u32,
    /// What samples of the machine saw of the current attempt's worker.
    pub seen: Usage,
    /// The current attempt has finished an epoch: every row was seen, the longest among them.
    pub epoch_over: bool,
    /// What its worker held of its GPU after that, in bytes.
    pub settled: Option<u64>,
    /// It is put back after the epoch that it has just ended.
    pub leaves: bool,
    /// The epoch at which the pruner would have ended it, where it goes on to show whether that is right.
    pub audited: Option<u32>,
}

/// What a trial ends with.
#[derive(Debug, Clone, PartialEq)]
pub struct End {
    /// COMPLETE, PRUNED or FAIL.
    pub state: TrialState,
    /// The values, one an objective, of a COMPLETE trial.
    pub values: Vec<f64>,
    /// User attributes to merge.
    pub user_attrs: Map<String, Json>,
    /// System attributes to merge.
    pub system_attrs: Map<String, Json>,
}

impl ActiveTrial {
    /// A new trial, or one that is taken up again at `attempt`.
    pub fn new(trial: FrozenTrial, attempt: u32, seed: u64, tally: Tally) -> ActiveTrial {
        ActiveTrial {
            trial,
            attempt,
            seed,
            tally,
            epochs: BTreeMap::new(),
            started: Now::ZERO,
            place: None,
            peak_memory_mb: None,
            usage: None,
            predicted: None,
            reservation: Reservation::default(),
            halvings: 0,
            passed: 0,
            seen: Usage::default(),
            epoch_over: false,
            settled: None,
            leaves: false,
            audited: None,
        }
    }

    /// Whether it has to be alone on its device: it ran out of memory, and its batches are whole.
    pub fn alone(&self) -> bool {
        self.tally.oom > 0 && self.halvings == 0
    }

    /// The end by its own result: the value is the best epoch's (contract: Counting). With several
    /// objectives all values are those of one epoch, the one that is best by the first of them.
    pub fn result(&self, objectives: &[&Objective], pruned: bool, now: Now) -> End {
        let best = best_epoch(&self.epochs, objectives);
        let mut attrs = self.common_attrs(now);
        let mut end = End {
            state: TrialState::Complete,
            values: Vec::new(),
            user_attrs: Map::new(),
            system_attrs: Map::new(),
        };
        match best {
            Some((epoch, metrics)) => {
                self.add_metrics(&mut attrs, epoch, objectives);
                if pruned {
                    end.state = TrialState::Pruned;
                } else {
                    match self.values(objectives, metrics, now) {
                        Ok(values) => end.values = values,
                        Err(message) => fail(&mut end, &mut attrs, message),
                    }
                }
            }
            None if pruned => end.state = TrialState::Pruned,
            None => {
                let message = match names(objectives).as_slice() {
                    [one] => format!("no epoch reported a value of {one}"),
                    several => format!("no epoch reported values of {}", several.join(" and ")),
                };
                fail(&mut end, &mut attrs, message);
            }
        }
        end.user_attrs = attrs;
        end
    }

    /// One value an objective, from the metrics of one model and from what was measured.
    fn values(
        &self,
        objectives: &[&Objective],
        metrics: &Metrics,
        now: Now,
    ) -> Result<Vec<f64>, String> {
        let value = |objective: &&Objective| {
            let name = objective.metric.as_str();
            let found = match name {
                _ if !MEASURED.contains(&name) => metrics.get(name).copied(),
                "runtime_s" => Some(self.runtime_s(now)),
                _ => self.peak_memory_mb,
            };
            let number = found.filter(|v| !v.is_nan());
            number.ok_or_else(|| format!("no value of the objective {name} with the others"))
        };
        objectives.iter().map(value).collect()
    }

    /// The end with a result of the task's own, which is no epoch's.
    pub fn returned(&self, metrics: &Metrics, objectives: &[&Objective], now: Now) -> End {
        let mut end = self.result(objectives, false, now);
        let metric = objectives.first().map_or("", |o| o.metric.as_str());
        if !metrics.contains_key(metric) {
            return end;
        }
        if end.state == TrialState::Fail {
            end.user_attrs = self.common_attrs(now);
        }
        end.state = TrialState::Complete;
        end.values = match self.values(objectives, metrics, now) {
            Ok(values) => values,
            Err(message) => {
                let mut attrs = std::mem::take(&mut end.user_attrs);
                fail(&mut end, &mut attrs, message);
                end.user_attrs = attrs;
                Vec::new()
            }
        };
        for (name, value) in metrics.iter().filter(|(name, _)| *name != metric) {
            end.user_attrs
                .insert(format!("metric.{name}"), json_number(*value));
        }
        end
    }

    /// Whether CUDA may have had a part in the fault: the attempt had a GPU, or CUDA is named.
    fn in_play(&self, fault: &Fault) -> bool {
        let cpu = Device::Cpu.to_string();
        let on_gpu = self
            .place
            .as_ref()
            .is_some_and(|(device, _)| *device != cpu);
        on_gpu || fault.shows_cuda()
    }

    /// The end by a fault: PRUNED for `reason`, or FAIL without one.
    pub fn fault_end(
        &self,
        fault: &Fault,
        reason: Option<&str>,
        config: &Params,
        objectives: &[&Objective],
        now: Now,
    ) -> End {
        let mut attrs = self.common_attrs(now);
        if let Some((epoch, _)) = best_epoch(&self.epochs, objectives) {
            self.add_metrics(&mut attrs, epoch, objectives);
        }
        attrs.insert("fault".into(), fault.kind.word().into());
        if let Some(line) = &fault.own_line {
            attrs.insert("error_place".into(), line.as_str().into());
        }
        self.tell_error(fault, reason, config, &mut attrs);
        let mut system_attrs = Map::new();
        if reason == Some("oom") {
            let constraint = memory_constraint(fault.kind == FaultKind::HostOom);
            system_attrs.insert(constraint.into(), json!(1.0));
        }
        End {
            state: match reason {
                Some(_) => TrialState::Pruned,
                None => TrialState::Fail,
            },
            values: Vec::new(),
            user_attrs: attrs,
            system_attrs,
        }
    }

    /// The attributes that people's scripts read of an error.
    fn tell_error(
        &self,
        fault: &Fault,
        reason: Option<&str>,
        config: &Params,
        attrs: &mut Map<String, Json>,
    ) {
        let text = if fault.text.is_empty() {
            &fault.detail
        } else {
            &fault.text
        };
        match reason {
            Some("cuda_error") if !self.in_play(fault) => {
                attrs.insert("error_msg".into(), first_chars(&fault.detail).into());
            }
            Some("cuda_error") => {
                attrs.insert("cuda_error".into(), true.into());
                attrs.insert("cuda_error_type".into(), cuda::python_class(text).into());
                attrs.insert("cuda_error_msg".into(), first_chars(text).into());
                if let Some(place) = &fault.place {
                    attrs.insert("cuda_error_place".into(), place.to_string().into());
                }
            }
            Some("oom") => {
                attrs.insert("oom".into(), true.into());
                attrs.insert("oom_config".into(), oom_config(config));
                let name = match fault.kind == FaultKind::Oom {
                    true => {
                        let class = cuda::python_class(text);
                        attrs.insert("cuda_error_type".into(), class.into());
                        "cuda_error_msg"
                    }
                    false => "error_msg",
                };
                attrs.insert(name.into(), first_chars(text).into());
            }
            Some(word @ ("hang" | "diverged" | "time_limit")) => {
                attrs.insert(word.into(), true.into());
                attrs.insert("error_msg".into(), first_chars(&fault.detail).into());
            }
            Some(other) => {
                attrs.insert(
                    "error_msg".into(),
                    format!("{other}: {}", fault.detail).into(),
                );
            }
            None => {
                attrs.insert("error_msg".into(), first_chars(text).into());
            }
        }
    }

    fn common_attrs(&self, now: Now) -> Map<String, Json> {
        let mut attrs = Map::new();
        attrs.insert("attempts".into(), (self.attempt + 1).into());
        attrs.insert("runtime_s".into(), json_number(self.runtime_s(now)));
        if let Some((device, worker)) = &self.place {
            attrs.insert("worker".into(), (*worker).into());
            attrs.insert("device".into(), device.clone().into());
        }
        if let Some(peak) = self.peak_memory_mb {
            attrs.insert("peak_memory_mb".into(), json_number(peak));
        }
        if let Some(epoch) = self.audited {
            attrs.insert(AUDITED.into(), epoch.into());
        }
        attrs
    }

    /// Seconds since the current attempt was sent, in whole milliseconds.
    fn runtime_s(&self, now: Now) -> f64 {
        let runtime = now.saturating_sub(self.started).as_secs_f64();
        (runtime * 1e3).round() / 1e3
    }

    /// What is told of the best epoch; `last_value` is the first objective's.
    fn add_metrics(&self, attrs: &mut Map<String, Json>, best: u32, objectives: &[&Objective]) {
        let objective = objectives.first().map_or("", |o| o.metric.as_str());
        attrs.insert("best_epoch".into(), best.into());
        if let Some(last) = self
            .epochs
            .values()
            .next_back()
            .and_then(|m| m.get(objective))
        {
            attrs.insert("last_value".into(), json_number(*last));
        }
        for (name, value) in self.epochs.get(&best).into_iter().flatten() {
            if name != objective {
                attrs.insert(format!("metric.{name}"), json_number(*value));
            }
        }
    }
}

/// The epoch that is best by the first objective, the earliest among equals. Epochs without a number
/// for each objective that epochs report do not count.
fn best_epoch<'a>(
    epochs: &'a BTreeMap<u32, Metrics>,
    objectives: &[&Objective],
) -> Option<(u32, &'a Metrics)> {
    let first = objectives.first()?;
    let names = names(objectives);
    let number = |metrics: &Metrics, name: &str| metrics.get(name).is_some_and(|v| !v.is_nan());
    let value = |of: &Metrics| of.get(&first.metric).copied().unwrap_or(f64::NAN);
    let whole = epochs
        .iter()
        .filter(|(_, metrics)| names.iter().all(|name| number(metrics, name)))
        .map(|(epoch, metrics)| ((*epoch, metrics), value(metrics)));
    first.direction.best(whole).map(|(best, _)| best)
}

/// The objectives that epochs report.
fn names<'a>(objectives: &[&'a Objective]) -> Vec<&'a str> {
    let names = objectives.iter().map(|o| o.metric.as_str());
    names.filter(|name| !MEASURED.contains(name)).collect()
}

/// The constraint that a trial violates for which the host's memory, or a GPU's, does not suffice.
pub(super) fn memory_constraint(of_host: bool) -> &'static str {
    match of_host {
        true => "constraints:host_memory",
        false => "constraints:gpu_memory",
    }
}

fn fail(end: &mut End, attrs: &mut Map<String, Json>, message: String) {
    end.state = TrialState::Fail;
    attrs.insert("fault".into(), FaultKind::TaskError.word().into());
    attrs.insert("error_msg".into(), message.into());
}

/// The first 500 characters, as people's scripts expect.
fn first_chars(text: &str) -> String {
    text.chars().take(500).collect()
}

/// The configuration that ran out of memory, in the words of people's scripts; what the task does
/// not have is left out.
fn oom_config(config: &Params) -> Json {
    let mut out = Map::new();
    for (word, key) in [
        ("model", "model.name"),
        ("batch_size", "train.batch_size"),
        ("grad_accum", "train.grad_accum"),
        ("max_length", "tok.max_length"),
    ] {
        if let Some(value) = config.get(key) {
            out.insert(word.into(), value.to_json());
        }
    }
    if let Some(batch) = config.get("train.batch_size").and_then(Value::as_i64) {
        let accumulated = config
            .get("train.grad_accum")
            .and_then(Value::as_i64)
            .unwrap_or(1);
        let effective = batch.saturating_mul(accumulated);
        out.insert("effective_batch_size".into(), effective.into());
    }
    Json::Object(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ran_out_of_memory_is_told_with_the_rows_of_a_whole_step() {
        let config: Params = [
            ("model.name", Value::from("minilm")),
            ("train.batch_size", 12.into()),
            ("train.grad_accum", 3.into()),
            ("tok.max_length", 384.into()),
            ("optim.lr", 0.1.into()),
        ]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect();
        let expected = json!({
            "model": "minilm", "batch_size": 12, "grad_accum": 3, "max_length": 384,
            "effective_batch_size": 36,
        });
        assert_eq!(oom_config(&config), expected);
        assert_eq!(oom_config(&Params::new()), json!({}));
        let many =
            ["train.batch_size", "train.grad_accum"].map(|k| (k.to_owned(), Value::Int(1 << 40)));
        assert_eq!(
            oom_config(&many.into_iter().collect())["effective_batch_size"],
            i64::MAX
        );
    }

    #[test]
    fn the_memory_that_did_not_suffice_is_the_constraint() {
        let trial = FrozenTrial::new(0, TrialState::Running, Params::new());
        let active = ActiveTrial::new(trial, 0, 1, Tally::default());
        for (kind, constraint) in [
            (FaultKind::Oom, "constraints:gpu_memory"),
            (FaultKind::HostOom, "constraints:host_memory"),
        ] {
            let fault = Fault::new(kind, "out of memory");
            let end = active.fault_end(&fault, Some("oom"), &Params::new(), &[], Now::ZERO);
            assert_eq!(end.system_attrs.keys().collect::<Vec<_>>(), [constraint]);
        }
    }
}
