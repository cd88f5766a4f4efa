//! What `tune evaluate` tells: metrics beside the trivial answers, a report by class, and who was taken
//! for whom.

use serde_json::{Value as Json, json};

use config::Baseline;
use messages::{JSON_VERSION, json_number};
use report::format::{table, table_of, value};
use training::scores::{ClassScores, Confusion};

/// The scores of a model on labelled rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// The model's directory.
    pub model: String,
    /// The file.
    pub file: String,
    /// Rows.
    pub rows: usize,
    /// What a row is, in the plural.
    pub things: &'static str,
    /// The classes; none of a number.
    pub labels: Vec<String>,
    /// Each metric of the kind, in its order.
    pub metrics: Vec<Score>,
    /// By class.
    pub classes: Vec<ClassScores>,
    /// Who was taken for whom.
    pub confusion: Confusion,
}

/// A metric beside the trivial answer's.
#[derive(Debug, Clone, PartialEq)]
pub struct Score {
    /// The metric's name.
    pub name: String,
    /// Its value.
    pub value: f64,
    /// The trivial answer on the same rows.
    pub trivial: Option<Baseline>,
    /// Where it lies with 95 % confidence, where that is known.
    pub interval: Option<[f64; 2]>,
}

/// For people.
pub fn evaluation_text(e: &Evaluation) -> String {
    let mut out = format!("{} {} of {} by {}\n\n", e.rows, e.things, e.file, e.model);
    let mut heads = vec!["metric", "value", "trivial", "by"];
    let intervals = e.metrics.iter().any(|score| score.interval.is_some());
    if intervals {
        heads.insert(2, "95 % between");
    }
    let mut rows = vec![heads.into_iter().map(str::to_owned).collect()];
    for score in &e.metrics {
        let (number, what) = match &score.trivial {
            Some(trivial) => (value(trivial.value), trivial.what.clone()),
            None => (String::new(), String::new()),
        };
        let mut row = vec![score.name.clone(), value(score.value), number, what];
        if intervals {
            let ends = score.interval.map(|ends| ends.map(value).join(" and "));
            row.insert(2, ends.unwrap_or_default());
        }
        rows.push(row);
    }
    out.push_str(&table(&rows));
    if e.labels.is_empty() {
        return out;
    }
    let rows = e.labels.iter().zip(&e.classes).map(|(label, scores)| {
        [
            label.clone(),
            value(scores.precision),
            value(scores.recall),
            value(scores.f1),
            scores.support.to_string(),
        ]
    });
    out.push('\n');
    out.push_str(&table_of(
        ["class", "precision", "recall", "f1", "rows"],
        rows,
    ));
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
        .map(|score| (score.name.clone(), json_number(score.value)))
        .collect();
    let baseline: serde_json::Map<String, Json> = (e.metrics.iter())
        .filter_map(|score| Some((score.name.clone(), json!(score.trivial.as_ref()?))))
        .collect();
    let intervals: serde_json::Map<String, Json> = (e.metrics.iter())
        .filter_map(|score| Some((score.name.clone(), json!(score.interval?))))
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
    let mut json = json!({
        "version": JSON_VERSION,
        "model": e.model, "file": e.file, "rows": e.rows, "labels": e.labels, "metrics": metrics,
        "baseline": baseline, "classes": classes, "confusion": confusion,
    });
    if !intervals.is_empty() {
        json["intervals"] = intervals.into();
    }
    json
}
