//! `tune list`: the tasks that can be run, and the studies there are.

use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value as Json;

use super::format::{self, stored_field};
use super::objectives::Objectives;
use super::{Answer, made_from};
use messages::exit::Failure;
use report::format::{table, table_of};
use store::{Counts, Store, StudySummary};
use supervisor::MADE_FROM;

/// A task of the project directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TaskLine {
    /// Its name on the command line.
    pub name: String,
    /// What it is: kind and objective, or why its configuration cannot be used.
    pub what: String,
    /// Its configuration.
    pub file: PathBuf,
}

/// The tasks of the project.
#[derive(Serialize)]
pub struct Tasks {
    tasks: Vec<TaskLine>,
}

/// The tasks of the project.
pub fn tasks(tasks: Vec<TaskLine>) -> Tasks {
    Tasks { tasks }
}

impl Answer for Tasks {
    fn text(&self) -> String {
        let row = |t: &TaskLine| [t.name.clone(), t.what.clone(), t.file.display().to_string()];
        tasks_table(["task", "what", "file"], self.tasks.iter().map(row))
    }
}

fn tasks_table<const N: usize>(
    heading: [&str; N],
    tasks: impl ExactSizeIterator<Item = [String; N]>,
) -> String {
    match tasks.len() {
        0 => {
            "no tasks: there is no configs/*.toml here; `tune init` makes a first one\n".to_owned()
        }
        _ => table_of(heading, tasks),
    }
}

/// Tasks and studies.
#[derive(Serialize)]
pub struct Listed {
    tasks: Vec<TaskLine>,
    studies: Vec<StudyLine>,
}

#[derive(Serialize)]
struct StudyLine {
    name: String,
    #[serde(flatten)]
    objectives: Objectives,
    counts: Counts,
    made_from: Option<Json>,
    #[serde(serialize_with = "stored_field")]
    last_activity: Option<String>,
    /// What it was made from, in words.
    #[serde(skip)]
    origin: Option<String>,
}

/// Tasks and studies. Without a database there are no studies yet.
///
/// # Errors
/// Reading failed.
pub fn list(tasks: Vec<TaskLine>, store: Option<&Store>) -> Result<Listed, Failure> {
    let studies = store.map(Store::studies).transpose()?.unwrap_or_default();
    let studies = studies.into_iter().map(StudyLine::new).collect();
    Ok(Listed { tasks, studies })
}

impl StudyLine {
    fn new(study: StudySummary) -> StudyLine {
        StudyLine {
            origin: made_from(&study),
            made_from: study.user_attrs.get(MADE_FROM).cloned(),
            objectives: Objectives::of(&study),
            name: study.name,
            counts: study.counts,
            last_activity: study.last_activity,
        }
    }

    fn cells(&self) -> Vec<String> {
        let last_activity = self.last_activity.as_deref();
        vec![
            self.name.clone(),
            self.objectives.text(),
            self.counts.total().to_string(),
            self.counts.complete.to_string(),
            self.counts.pruned.to_string(),
            self.counts.fail.to_string(),
            last_activity.map_or_else(String::new, format::time),
        ]
    }
}

impl Answer for Listed {
    fn text(&self) -> String {
        let tasks = self.tasks.iter();
        let tasks = tasks.map(|t| [t.name.clone(), t.what.clone()]);
        let mut out = tasks_table(["task", "what"], tasks);
        out.push('\n');
        if self.studies.is_empty() {
            out.push_str("no studies yet\n");
            return out;
        }
        let heading = [
            "study",
            "objective",
            "trials",
            "complete",
            "pruned",
            "failed",
            "last activity",
        ];
        let mut rows = vec![heading.map(str::to_owned).to_vec()];
        rows.extend(self.studies.iter().map(StudyLine::cells));
        if self.studies.iter().any(|study| study.origin.is_some()) {
            rows[0].push("made from".to_owned());
            for (row, study) in rows.iter_mut().skip(1).zip(&self.studies) {
                row.push(study.origin.clone().unwrap_or_default());
            }
        }
        out.push_str(&table(&rows));
        out
    }
}
