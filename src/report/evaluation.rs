//! What `tune evaluate` tells: metrics beside the trivial answers, a report by class, and who was taken
//! for whom.

use serde_json::{Value as Json, json};

use super::format::value;
use super::json_number;
use super::query::table;
use crate::task::Metrics;
use crate::task::text_classification::scores::{ClassScores, Confusion};

/// The scores of a model on labelled rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// The model's directory.
    pub model: String,
    /// The file.
    pub file: String,
    /// Rows.
    pub rows: usize,
    /// The classes.
    pub labels: Vec<String>,
    /// Each metric of the kind, in its order: name, value, the trivial answer's value and what it is.
    pub metrics: Vec<(String, f64, Option<(f64, String)>)>,
    /// By class.
    pub classes: Vec<ClassScores>,
    /// Who was taken for whom.
    pub confusion: Confusion,
}

impl Evaluation {
    /// The metrics by name.
    pub fn values(&self) -> Metrics {
        let values = self.metrics.iter();
        values.map(|(name, v, _)| (name.clone(), *v)).collect()
    }
}

/// For people.
pub fn evaluation_text(e: &Evaluation) -> String {
    let mut out = format!("{} rows of {} by {}\n\n", e.rows, e.file, e.model);
    let mut rows = vec![
        ["metric", "value", "trivial", "by"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for (name, v, trivial) in &e.metrics {
        let (number, what) = match trivial {
            Some((number, what)) => (value(*number), what.clone()),
            None => (String::new(), String::new()),
        };
        rows.push(vec![name.clone(), value(*v), number, what]);
    }
    out.push_str(&table(&rows));
    let mut rows = vec![
        ["class", "precision", "recall", "f1", "rows"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for (label, scores) in e.labels.iter().zip(&e.classes) {
        rows.push(vec![
            label.clone(),
            value(scores.precision),
            value(scores.recall),
            value(scores.f1),
            scores.support.to_string(),
        ]);
    }
    out.push('\n');
    out.push_str(&table(&rows));
    let head = std::iter::once("class \\ predicted".to_owned());
    let mut rows = vec![head.chain(e.labels.iter().cloned()).collect()];
    for (truth, label) in e.labels.iter().enumerate() {
        let mut row = vec![label.clone()];
        row.extend((0..e.labels.len()).map(|p| e.confusion.at(truth, p).to_string()));
        rows.push(row);
    }
    out.push('\n');
    out.push_str(&table(&rows));
    out
}

/// For scripts.
pub fn evaluation_json(e: &Evaluation) -> Json {
    let metrics: serde_json::Map<String, Json> = (e.metrics.iter())
        .map(|(name, v, _)| (name.clone(), json_number(*v)))
        .collect();
    let baseline: serde_json::Map<String, Json> = (e.metrics.iter())
        .filter_map(|(name, _, trivial)| {
            let (v, what) = trivial.as_ref()?;
            Some((
                name.clone(),
                json!({ "value": json_number(*v), "what": what }),
            ))
        })
        .collect();
    let classes: Vec<Json> = (e.labels.iter().zip(&e.classes))
        .map(|(label, s)| {
            json!({
                "label": label, "precision": s.precision, "recall": s.recall, "f1": s.f1,
                "support": s.support,
            })
        })
        .collect();
    let all = 0..e.labels.len();
    let confusion: Vec<Vec<u64>> = (all.clone())
        .map(|t| all.clone().map(|p| e.confusion.at(t, p) as u64).collect())
        .collect();
    json!({
        "model": e.model, "file": e.file, "rows": e.rows, "labels": e.labels, "metrics": metrics,
        "baseline": baseline, "classes": classes, "confusion": confusion,
    })
}
