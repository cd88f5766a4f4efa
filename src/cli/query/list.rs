//! `tune list`: the tasks that can be run, and the studies there are.

use serde_json::{Value as Json, json};

use super::format::{self, rfc3339};
use super::made_from;
use messages::exit::Failure;
use store::Store;
use supervisor::MADE_FROM;

/// A task of the project directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskLine {
    /// Its name on the command line.
    pub name: String,
    /// What it is: kind and objective, or why its configuration cannot be used.
    pub what: String,
}

/// Tasks and studies as text. Without a database there are no studies yet.
///
/// # Errors
/// Reading failed.
pub fn list(tasks: &[TaskLine], store: Option<&Store>) -> Result<String, Failure> {
    let mut out = String::new();
    if tasks.is_empty() {
        out.push_str("no tasks: there is no configs/*.toml here\n");
    } else {
        let mut rows = vec![vec!["task".to_owned(), "what".to_owned()]];
        rows.extend(
            tasks
                .iter()
                .map(|t| vec![t.name.clone(), format::printable(&t.what)]),
        );
        out.push_str(&report::format::table(&rows));
    }
    out.push('\n');
    let studies = store.map(Store::studies).transpose()?.unwrap_or_default();
    if studies.is_empty() {
        out.push_str("no studies yet\n");
        return Ok(out);
    }
    let heading = [
        "study",
        "direction",
        "trials",
        "complete",
        "pruned",
        "failed",
        "last activity",
    ];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    let origins: Vec<Option<String>> = studies.iter().map(made_from).collect();
    let made = origins.iter().any(Option::is_some);
    if made {
        rows[0].push("made from".to_owned());
    }
    for (study, origin) in studies.iter().zip(origins) {
        let directions: Vec<String> = study.directions.iter().map(ToString::to_string).collect();
        let mut row = vec![
            format::printable(&study.name),
            directions.join(", "),
            study.counts.total().to_string(),
            study.counts.complete.to_string(),
            study.counts.pruned.to_string(),
            study.counts.fail.to_string(),
            study
                .last_activity
                .as_deref()
                .map_or_else(String::new, format::time),
        ];
        if made {
            row.push(origin.unwrap_or_default());
        }
        rows.push(row);
    }
    out.push_str(&report::format::table(&rows));
    Ok(out)
}

/// Tasks and studies as JSON.
///
/// # Errors
/// Reading failed.
pub fn list_json(tasks: &[TaskLine], store: Option<&Store>) -> Result<Json, Failure> {
    let studies = store.map(Store::studies).transpose()?.unwrap_or_default();
    let studies: Vec<Json> = studies
        .iter()
        .map(|study| {
            json!({
                "name": study.name,
                "directions": study.directions,
                "counts": super::status::counts_json(&study.counts),
                "made_from": study.user_attrs.get(MADE_FROM),
                "last_activity": study.last_activity.as_deref().map(rfc3339),
            })
        })
        .collect();
    let tasks: Vec<Json> = tasks
        .iter()
        .map(|t| json!({"name": t.name, "what": t.what}))
        .collect();
    Ok(json!({"tasks": tasks, "studies": studies}))
}
