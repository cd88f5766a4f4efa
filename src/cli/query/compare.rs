//! `tune compare`: two studies beside each other.

use std::fmt::Display;

use super::Answer;
use super::format::{printable, shortened, value};
use super::objectives::Objectives;
use messages::exit::Failure;
use report::format::{self, plural, table_of};
use serde_json::Value as Json;
use store::{Store, StudySummary, choose};
use summary::{Comparison, Differing, Side};

/// The study of this name, else the latest one of the task of this name.
///
/// # Errors
/// There is none (2); reading failed (7).
pub fn study_or_latest_of_task(store: &Store, name: &str) -> Result<StudySummary, Failure> {
    if let Some(study) = store.find_study(name)? {
        return Ok(study);
    }
    let of_task = |s: &StudySummary| s.user_attrs.get("task").and_then(Json::as_str) == Some(name);
    let studies = store.studies()?.into_iter().filter(of_task);
    let latest = studies.max_by(|a, b| a.last_activity.cmp(&b.last_activity));
    latest.map_or_else(|| choose(store, Some(name)), Ok)
}

/// That two studies are two, and optimise the same.
///
/// # Errors
/// They are one, or optimise something else (2).
pub fn must_be_alike(a: &StudySummary, b: &StudySummary) -> Result<(), Failure> {
    if a.study_id == b.study_id {
        return Err(Failure::input(format!(
            "both are study {:?}; expected two studies",
            a.name
        )));
    }
    let (of_a, of_b) = (Objectives::of(a), Objectives::of(b));
    if a.directions != b.directions || of_a.names() != of_b.names() {
        return Err(Failure::input(format!(
            "study {:?} is to {}, and {:?} to {}; only values of one kind stand beside each other",
            a.name,
            printable(&of_a.text()),
            b.name,
            printable(&of_b.text())
        )));
    }
    Ok(())
}

/// The widest cell, in characters.
const CELL: usize = 48;

impl Answer for Comparison {
    fn text(&self) -> String {
        let mut text = String::new();
        for sentence in &self.verdict {
            text += &format!("{}\n  {}\n", sentence.about, sentence.text);
        }
        let names = [&self.a, &self.b].map(|side| shortened(&printable(&side.study), CELL));
        let [a, b] = [side(&self.a), side(&self.b)];
        // Values that cannot stand beside each other are not as good, nor worse; nor are those of several objectives.
        let ordered = self.incomparable.is_empty() && self.metrics.len() == 1;
        let beside = a
            .into_iter()
            .zip(b)
            .filter(|((what, _), _)| ordered || *what != AS_GOOD)
            .map(|((what, a), (_, b))| row(what, a, b));
        text += &section("", &names, beside.collect());
        let d = &self.differences;
        let texts = |differing: &[Differing<String>]| {
            differing
                .iter()
                .map(|d| differs(d, String::clone))
                .collect()
        };
        text += &section("configuration", &names, texts(&d.configuration));
        text += &section("space", &names, texts(&d.space));
        let parameters = d.parameters.iter().map(|d| differs(d, value));
        text += &section("parameters of the best", &names, parameters.collect());
        text
    }
}

/// A table with a heading for each study; nothing without rows.
fn section(heading: &str, [a, b]: &[String; 2], rows: Vec<[String; 3]>) -> String {
    if rows.is_empty() {
        return String::new();
    }
    format!("\n{}", table_of([heading, a.as_str(), b.as_str()], rows))
}

fn row(what: impl Display, a: String, b: String) -> [String; 3] {
    [what.to_string(), a, b]
}

fn differs<T>(differing: &Differing<T>, text: impl Fn(&T) -> String) -> [String; 3] {
    let cell = |side: &Option<T>| {
        let told = side.as_ref().map_or_else(|| "not set".to_owned(), &text);
        shortened(&printable(&told), CELL)
    };
    row(
        shortened(&printable(&differing.key), CELL),
        cell(&differing.a),
        cell(&differing.b),
    )
}

/// The line that says when a study was as good as the best of the other one.
const AS_GOOD: &str = "as good as the other";

/// What is told of each study; the same lines for both.
fn side(side: &Side) -> Vec<(&'static str, String)> {
    let counts = &side.counts;
    let best = side.best.as_ref();
    let hours = |hours: f64| super::format::duration(3600.0 * hours);
    let reached = side
        .reached
        .map(|r| format!("{}, {}", plural(r.trials as u64, "trial"), hours(r.hours)));
    let kinds = side
        .faults
        .iter()
        .map(|f| format!("{} {}", f.kind, f.attempts));
    let kinds: Vec<String> = kinds.collect();
    let kinds = if kinds.is_empty() {
        "none".to_owned()
    } else {
        kinds.join(", ")
    };
    let values = best.map(|best| {
        let values = best.values.iter().map(|x| format::value(*x));
        // The winner's own value need not be the best one.
        let won = side.mean.map_or("", |_| ", winner by repeats");
        format!(
            "{} (trial {}{won})",
            values.collect::<Vec<_>>().join(", "),
            best.number
        )
    });
    let none = || "none".to_owned();
    vec![
        ("state", side.state.clone()),
        (
            "trials",
            format!(
                "{} complete, {} pruned, {} failed",
                counts.complete, counts.pruned, counts.fail
            ),
        ),
        ("best", values.unwrap_or_else(none)),
        (
            "mean of its repeats",
            side.mean.map_or_else(none, format::value),
        ),
        (AS_GOOD, reached.unwrap_or_else(|| "never".to_owned())),
        ("training", hours(side.hours.trained)),
        ("lost to faults", hours(side.hours.lost)),
        ("faults", kinds),
    ]
}
