//! What `tune replay` tells: the trial as it went this time, beside what the study has of it.

use serde_json::{Value as Json, json};

use super::format;
use config::Objective;
use messages::json_number;
use report::format::value;
use search::study::FrozenTrial;
use supervisor::{Replay, ReplayEnd, ReplayResult};
use task::Epoch;

/// A replay and the trial that it replays.
pub struct Replayed {
    head: Vec<(String, String)>,
    study: String,
    number: u64,
    device: String,
    blocking: bool,
    log: String,
    objective: Objective,
    stored: FrozenTrial,
}

impl Replayed {
    /// Before it starts.
    pub fn new(replay: &Replay, stored: &FrozenTrial) -> Replayed {
        let mode = if replay.blocking {
            "blocking launches, full stacks"
        } else {
            "as in the study"
        };
        let mut head = vec![
            (
                "trial".to_owned(),
                format!("{} of {}", replay.trial.number, replay.spec.study),
            ),
            ("device".to_owned(), replay.device.to_string()),
            ("launches".to_owned(), mode.to_owned()),
            ("log".to_owned(), replay.log.display().to_string()),
        ];
        for (name, value) in &replay.trial.params {
            head.push((name.clone(), value.to_string()));
        }
        Replayed {
            head,
            study: replay.spec.study.clone(),
            number: replay.trial.number,
            device: replay.device.to_string(),
            blocking: replay.blocking,
            log: replay.log.display().to_string(),
            objective: replay.spec.objective.clone(),
            stored: stored.clone(),
        }
    }

    /// What is replayed.
    pub fn head(&self) -> String {
        format::facts(&self.head)
    }

    /// One epoch.
    pub fn epoch(&self, epoch: &Epoch) -> String {
        let now = of_epoch(&self.objective, epoch);
        let then = match self.stored.intermediate.get(&i64::from(epoch.epoch)) {
            Some(was) if was.to_bits() == now.to_bits() => String::new(),
            Some(was) => format!(" (the study has {})", value(*was)),
            None => " (not in the study)".to_owned(),
        };
        format!(
            "epoch {}  {} {}{then}\n",
            epoch.epoch,
            self.objective.metric,
            value(now)
        )
    }

    /// How it ended.
    pub fn end(&self, played: &ReplayResult) -> String {
        let stored = match self.stored.value() {
            Some(v) => format!("{} with {}", self.stored.state, value(v)),
            None => self.stored.state.to_string(),
        };
        let mut facts = match &played.end {
            ReplayEnd::Completed => {
                let best = self.best(played).map_or("no value".to_owned(), value);
                vec![("result".to_owned(), format!("completed with {best}"))]
            }
            ReplayEnd::Fault(fault) => vec![
                ("fault".to_owned(), fault.kind.word().to_owned()),
                ("detail".to_owned(), fault.detail.clone()),
            ],
        };
        facts.push(("in the study".to_owned(), stored));
        format::facts(&facts)
    }

    /// All of it.
    pub fn json(&self, played: &ReplayResult) -> Json {
        let epochs: Vec<Json> = played
            .epochs
            .iter()
            .map(|e| {
                let was = self.stored.intermediate.get(&i64::from(e.epoch));
                json!({
                    "epoch": e.epoch,
                    "value": json_number(of_epoch(&self.objective, e)),
                    "stored": was.map(|v| json_number(*v)),
                })
            })
            .collect();
        let (end, fault) = match &played.end {
            ReplayEnd::Completed => ("completed", Json::Null),
            ReplayEnd::Fault(fault) => (
                "fault",
                json!({
                    "fault": fault.kind.word(), "detail": fault.detail, "text": fault.text,
                }),
            ),
        };
        json!({
            "study": self.study, "number": self.number, "device": self.device,
            "blocking": self.blocking, "log": self.log, "params": self.stored.params,
            "end": end, "fault": fault, "epochs": epochs,
            "value": self.best(played).map(json_number),
            "stored": {
                "state": self.stored.state.to_string(),
                "value": self.stored.value().map(json_number),
            },
        })
    }

    fn best(&self, played: &ReplayResult) -> Option<f64> {
        best_value(&self.objective, played)
    }
}

fn of_epoch(objective: &Objective, epoch: &Epoch) -> f64 {
    let found = epoch.metrics.get(&objective.metric);
    found.copied().unwrap_or(f64::NAN)
}

/// The objective's value of a training: what it returned, else the best epoch's.
pub fn best_value(objective: &Objective, played: &ReplayResult) -> Option<f64> {
    if let Some(returned) = &played.returned {
        return returned.get(&objective.metric).copied();
    }
    let values = played.epochs.iter().map(|e| ((), of_epoch(objective, e)));
    let (_, best) = objective.direction.best(values)?;
    (!best.is_nan()).then_some(best)
}
