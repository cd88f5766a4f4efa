//! `tune.json`: where an exported model comes from.

use serde_json::{Map, Value as Json, json};

use config::StudySpec;
use messages::json_number;
use search::study::FrozenTrial;
use task::TrialSpec;
use weights::SavedWeights;

/// The version of libtorch that this program is built for.
const LIBTORCH: &str = "2.11.0";

/// What an exported model comes from.
pub struct Origin<'a> {
    /// The study, as its last run resolved it.
    pub spec: &'a StudySpec,
    /// What the study's values depend on: fingerprints among it.
    pub identity: &'a Map<String, Json>,
    /// The trial in the study.
    pub trial: &'a FrozenTrial,
    /// What was trained.
    pub training: &'a TrialSpec,
    /// The weights that are exported.
    pub kept: &'a SavedWeights,
    /// Where they were trained anew; `None`: they were kept by the search.
    pub retrained: Option<String>,
    /// Now, RFC 3339.
    pub now: String,
}

impl Origin<'_> {
    /// Whether the weights have the value that the study has.
    pub fn reproduced(&self) -> bool {
        let recorded = self.trial.value().map(f64::to_bits);
        recorded == Some(self.kept.value.to_bits())
    }

    /// The whole of it.
    pub fn json(&self) -> Json {
        let (spec, trial, kept) = (self.spec, self.trial, self.kept);
        let mut metrics: Map<String, Json> = (trial.user_attrs.iter())
            .filter_map(|(name, v)| Some((name.strip_prefix("metric.")?.to_owned(), v.clone())))
            .collect();
        if let Some(value) = trial.value() {
            metrics.insert(spec.objective.metric.clone(), json_number(value));
        }
        let known = |key: &str| self.identity.get(key).cloned().unwrap_or(Json::Null);
        let about = |key: &str| kept.about.get(key).cloned().unwrap_or(Json::Null);
        json!({
            "study": spec.study, "task": spec.task, "kind": spec.kind, "study_seed": spec.seed,
            "trial": trial.number, "seed": self.training.seed,
            "objective": { "metric": spec.objective.metric, "direction": spec.objective.direction },
            "value": trial.value().map(json_number), "metrics": metrics,
            "best_epoch": trial.user_attrs.get("best_epoch"),
            "params": trial.params, "config": self.training.config,
            "datetime_start": trial.datetime_start, "datetime_complete": trial.datetime_complete,
            "data": {
                "path": known_path(spec), "fingerprint": known("data.fingerprint"),
                "split_fingerprint": known("data.split.fingerprint"),
                "labels": about("labels"), "train_rows": about("train_rows"),
            },
            "model": { "name": about("model"), "fingerprint": about("model_fingerprint") },
            "weights": {
                "from": if self.retrained.is_some() { "retrained" } else { "kept" },
                "device": self.retrained, "epoch": kept.epoch, "value": json_number(kept.value),
                "reproduced": self.reproduced(), "sha256": kept.sha256, "tune": kept.tune,
            },
            "tune": env!("CARGO_PKG_VERSION"), "libtorch": LIBTORCH, "exported": self.now,
        })
    }
}

/// Where the data lay.
fn known_path(spec: &StudySpec) -> Json {
    spec.fixed
        .get("data.path")
        .map_or(Json::Null, |path| path.to_json())
}
