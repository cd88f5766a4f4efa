//! What `tune enqueue` did, and what it takes for the points to be tried.

use std::ops::Range;

use serde_json::{Value as Json, json};

use super::format::printable;
use super::state::{command_of, shell_command};
use super::{choose, format};
use messages::exit::Failure;
use report::format::plural;
use report::shell_word;
use store::Store;

/// Points that were enqueued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enqueued {
    /// The study.
    pub study: String,
    /// The numbers of the new trials.
    pub numbers: Range<u64>,
    /// Of these, counted from 0, those whose point another trial has, with its number.
    pub same: Vec<(u64, u64)>,
    /// The trials that have the points that were left out.
    pub skipped: Vec<u64>,
    /// Whether a run works on the study.
    pub held: bool,
}

impl Enqueued {
    /// For people. `tune`: how commands begin.
    ///
    /// # Errors
    /// Reading failed.
    pub fn text(&self, store: &Store, tune: &str) -> Result<String, Failure> {
        let study = printable(&self.study);
        let mut out = match self.numbers.end - self.numbers.start {
            0 => format!("nothing enqueued in {study}\n"),
            1 => format!("enqueued in {study}: trial {}\n", self.numbers.start),
            _ => {
                let Range { start, end } = self.numbers;
                format!("enqueued in {study}: trials {start} to {}\n", end - 1)
            }
        };
        for (index, other) in &self.same {
            let number = self.numbers.start + index;
            out.push_str(&format!(
                "  the point of trial {number} is that of trial {other}; --skip-existing leaves \
                 such points out\n"
            ));
        }
        if !self.skipped.is_empty() {
            let trials: Vec<String> = self.skipped.iter().map(u64::to_string).collect();
            let trials = format::words(&trials);
            out.push_str(&format!(
                "  left out, because they are there: trials {trials}\n"
            ));
        }
        out.push_str(&self.next(store, tune)?);
        Ok(out)
    }

    /// For scripts.
    pub fn json(&self) -> Json {
        json!({
            "study": self.study,
            "numbers": self.numbers.clone().collect::<Vec<u64>>(),
            "skipped": self.skipped,
        })
    }

    /// When the trials are run, and with which command.
    fn next(&self, store: &Store, tune: &str) -> Result<String, Failure> {
        let study = choose(store, Some(&self.study))?;
        let waiting = study.counts.waiting;
        if waiting == 0 {
            return Ok(String::new());
        }
        let run = store.last_run(study.study_id)?;
        let record = run.as_ref().map(|r| &r.record);
        let goal = record.and_then(|r| r.operation.get("trials")?.as_u64());
        let trials = store.trials(study.study_id)?;
        let counted = trials.iter().filter(|t| t.counts()).count() as u64;
        let taken = counted + study.counts.running;
        let wait = match waiting {
            1 => "1 trial waits".to_owned(),
            n => format!("{} wait", plural(n, "trial")),
        };
        let last = run.as_ref().map(|run| command_of(&self.study, run));
        let task = study.user_attrs.get("task").and_then(Json::as_str);
        let command = |goal| {
            let known = last
                .as_ref()
                .and_then(|last| shell_command(last, Some(goal)));
            let task = shell_word(task.unwrap_or("TASK"));
            let study = shell_word(&self.study);
            known.unwrap_or_else(|| format!("{tune} {task} --study {study} --trials {goal}"))
        };
        Ok(match goal {
            Some(goal) if taken + waiting <= goal && self.held => {
                format!("  {wait}: the run that works on the study takes them next\n")
            }
            Some(goal) if taken + waiting <= goal => {
                let command = command(goal);
                format!("  {wait}: the next run of the study takes them first\n    {command}\n")
            }
            Some(goal) => {
                let room = goal.saturating_sub(taken);
                let command = command(taken + waiting);
                format!(
                    "  {wait}, and the goal of {} leaves room for {room}; to run them all:\n    \
                     {command}\n",
                    plural(goal, "trial")
                )
            }
            None => {
                let command = command(taken + waiting);
                format!("  {wait}; to run them:\n    {command}\n")
            }
        })
    }
}
