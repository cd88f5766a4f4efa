//! A trial of this run that has not ended, and what it ends as.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json, json};

use crate::fault::{Fault, FaultKind, Tally, cuda};
use crate::report::json_number;
use crate::space::{Params, Value};
use crate::study::{Direction, FrozenTrial, TrialState};
use crate::supervisor::Now;
use crate::task::Metrics;

/// A trial that is running or waits to be run again.
#[derive(Debug, Clone)]
pub struct Live {
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
    /// Peak resident memory the worker reported, in MiB.
    pub peak_memory_mb: Option<f64>,
}

/// What a trial ends with.
#[derive(Debug, Clone, PartialEq)]
pub struct End {
    /// COMPLETE, PRUNED or FAIL.
    pub state: TrialState,
    /// The value, of a COMPLETE trial.
    pub values: Vec<f64>,
    /// User attributes to merge.
    pub user_attrs: Map<String, Json>,
    /// System attributes to merge.
    pub system_attrs: Map<String, Json>,
}

impl Live {
    /// A new trial, or one that is taken up again at `attempt`.
    pub fn new(trial: FrozenTrial, attempt: u32, seed: u64, tally: Tally) -> Live {
        Live {
            trial,
            attempt,
            seed,
            tally,
            epochs: BTreeMap::new(),
            started: Now::ZERO,
            place: None,
            peak_memory_mb: None,
        }
    }

    /// The end by its own result: the value is the best epoch's (contract: Counting).
    pub fn result(&self, metric: &str, direction: Direction, pruned: bool, now: Now) -> End {
        let best = best_epoch(&self.epochs, metric, direction);
        let mut attrs = self.common_attrs(now);
        let mut end = End {
            state: TrialState::Complete,
            values: Vec::new(),
            user_attrs: Map::new(),
            system_attrs: Map::new(),
        };
        match best {
            Some((epoch, value)) => {
                self.add_metrics(&mut attrs, epoch, metric);
                if pruned {
                    end.state = TrialState::Pruned;
                } else {
                    end.values = vec![value];
                }
            }
            None if pruned => end.state = TrialState::Pruned,
            None => {
                end.state = TrialState::Fail;
                attrs.insert("fault".into(), FaultKind::TaskError.word().into());
                let message = format!("no epoch reported a value of {metric}");
                attrs.insert("error_msg".into(), message.into());
            }
        }
        end.user_attrs = attrs;
        end
    }

    /// The end with a result of the task's own, which is no epoch's.
    pub fn returned(&self, metrics: &Metrics, metric: &str, direction: Direction, now: Now) -> End {
        let mut end = self.result(metric, direction, false, now);
        let Some(value) = metrics.get(metric) else {
            return end;
        };
        if end.state == TrialState::Fail {
            end.user_attrs = self.common_attrs(now);
        }
        end.state = TrialState::Complete;
        end.values = vec![*value];
        for (name, value) in metrics.iter().filter(|(name, _)| *name != metric) {
            end.user_attrs
                .insert(format!("metric.{name}"), json_number(*value));
        }
        end
    }

    /// The end by a fault: PRUNED for `reason`, or FAIL without one.
    pub fn fault_end(
        &self,
        fault: &Fault,
        reason: Option<&str>,
        config: &Params,
        metric: &str,
        direction: Direction,
        now: Now,
    ) -> End {
        let mut attrs = self.common_attrs(now);
        if let Some((epoch, _)) = best_epoch(&self.epochs, metric, direction) {
            self.add_metrics(&mut attrs, epoch, metric);
        }
        let mut system_attrs = Map::new();
        attrs.insert("fault".into(), fault.kind.word().into());
        let text = if fault.text.is_empty() {
            &fault.detail
        } else {
            &fault.text
        };
        match reason {
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
                if fault.kind == FaultKind::Oom {
                    attrs.insert("cuda_error_type".into(), cuda::python_class(text).into());
                }
                attrs.insert("cuda_error_msg".into(), first_chars(text).into());
                system_attrs.insert("constraints:gpu_memory".into(), json!(1.0));
            }
            Some(word @ ("hang" | "diverged")) => {
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

    fn common_attrs(&self, now: Now) -> Map<String, Json> {
        let mut attrs = Map::new();
        attrs.insert("attempts".into(), (self.attempt + 1).into());
        let runtime = now.saturating_sub(self.started).as_secs_f64();
        attrs.insert(
            "runtime_s".into(),
            json_number((runtime * 1e3).round() / 1e3),
        );
        if let Some((device, worker)) = &self.place {
            attrs.insert("worker".into(), (*worker).into());
            attrs.insert("device".into(), device.clone().into());
        }
        if let Some(peak) = self.peak_memory_mb {
            attrs.insert("peak_memory_mb".into(), json_number(peak));
        }
        attrs
    }

    fn add_metrics(&self, attrs: &mut Map<String, Json>, best: u32, objective: &str) {
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

/// The epoch with the best value, the earliest among equals; epochs without a number do not count.
fn best_epoch(
    epochs: &BTreeMap<u32, Metrics>,
    metric: &str,
    direction: Direction,
) -> Option<(u32, f64)> {
    epochs
        .iter()
        .filter_map(|(epoch, metrics)| Some((*epoch, *metrics.get(metric)?)))
        .filter(|(_, value)| !value.is_nan())
        .reduce(|best, next| {
            if direction.better(next.1, best.1) {
                next
            } else {
                best
            }
        })
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
        out.insert("effective_batch_size".into(), (batch * accumulated).into());
    }
    Json::Object(out)
}
