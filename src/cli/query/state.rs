//! Whether a study is worked on, and if not, how its last run ended.

use std::time::Duration;

use serde::Serialize;

use super::format::{self, rfc3339};
use messages::exit::Exit;
use report::format::{duration, plural};
use store::RunEntry;
use supervisor::{LockOwner, Stopping};
use view::Mood;

messages::table! {
    /// How a study stands, in one word.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub(super) enum StudyState;

    /// What is known of a state.
    pub(super) struct Known {
        /// In a word or two.
        pub(super) word: &'static str,
        /// Whether a process works on the study.
        pub(super) live: bool,
        pub(super) mood: Mood,
        /// What the last run ended with, where that alone makes it.
        exit: Option<Exit>,
    }

    Running("running", true, Mood::Running, None);
    /// A process works on it, starts nothing new and waits for what runs.
    Stopping("stopping", true, Mood::Waiting, None);
    /// The process that works on it was stopped, as by Ctrl-Z, and does nothing until it is told to go on.
    Suspended("suspended", true, Mood::Waiting, None);
    Finished("finished", false, Mood::Done, Some(Exit::Done));
    /// The last run was killed.
    Interrupted("interrupted", false, Mood::Waiting, None);
    Stopped("stopped", false, Mood::Waiting, Some(Exit::Stopped));
    OutOfTime("out of time", false, Mood::Waiting, Some(Exit::Budget));
    /// The last run ended because trials or workers kept failing.
    Failing("failing", false, Mood::Failing, Some(Exit::Breaker));
    /// The last run ended with another error.
    Error("error", false, Mood::Failing, None);
    New("not run yet", false, Mood::Waiting, None);
}

/// The process that works on a study, or the last one that did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Holder {
    pid: u32,
    host: String,
    command: Vec<String>,
    /// RFC 3339; null where it is not known.
    since: Option<String>,
    /// Whether it works on the study now.
    live: bool,
    #[serde(skip)]
    stopping: Option<Stopping>,
}

impl Holder {
    /// The owner of the study's lock; where nobody has it, the process of the last run.
    pub(super) fn of(
        study: &str,
        owner: Option<&LockOwner>,
        last: Option<&RunEntry>,
    ) -> Option<Holder> {
        let Some(owner) = owner else {
            return last.map(|run| Holder::of_run(study, run, false));
        };
        match last.filter(|run| run.record.pid == owner.pid && run.exit.is_none()) {
            Some(run) => Some(Holder {
                stopping: owner.stopping.clone(),
                ..Holder::of_run(study, run, true)
            }),
            None => Some(Holder {
                pid: owner.pid,
                host: owner.host.clone(),
                command: Vec::new(),
                since: owner
                    .since
                    .parse::<jiff::Timestamp>()
                    .ok()
                    .map(|t| rfc3339(&format::stored(t))),
                live: true,
                stopping: owner.stopping.clone(),
            }),
        }
    }

    /// Whether it works is known by its lease where its lock is on another node.
    pub(super) fn or_live(self, by_lease: bool) -> Holder {
        Holder {
            live: self.live || by_lease,
            ..self
        }
    }

    fn of_run(study: &str, run: &RunEntry, live: bool) -> Holder {
        Holder {
            pid: run.record.pid,
            host: run.record.host.clone(),
            command: command_of(study, run),
            since: Some(rfc3339(&run.started)),
            live,
            stopping: None,
        }
    }

    /// The command line for a shell that goes on with the study; `None` where it is not known.
    pub(super) fn command(&self) -> Option<String> {
        shell_command(&self.command, None)
    }
}

/// A run's command line for a shell, to another goal where one is given; `None` where it is not known or no person's. Faults that the run made
/// on purpose are left out: nobody wants them again by copying a line.
pub(super) fn shell_command(command: &[String], goal: Option<u64>) -> Option<String> {
    let mut words = without(command, &["--inject", "--inject-seed"], &[]);
    if let Some(goal) = goal {
        words = without(&words, &["--trials"], &[]);
        words.extend(["--trials".to_owned(), goal.to_string()]);
    }
    let words = words.iter().skip(1).map(String::as_str);
    let line = report::shell_line(std::iter::once("tune").chain(words));
    // A program that asks is started by another one.
    let of_a_task = command.get(1).is_some_and(|word| word != "ask-tell");
    of_a_task.then_some(line)
}

/// The command line of a run, as it goes on with the study under the name that it has now.
pub(super) fn command_of(study: &str, run: &RunEntry) -> Vec<String> {
    let recorded = &run.record.command;
    let then = run.record.operation["study"]["study"].as_str();
    if recorded.len() < 2 || then.is_none_or(|name| name == study) {
        return recorded.clone();
    }
    let mut command = without(recorded, &["--study", "--from"], &["--fork"]);
    command.extend(["--study".to_owned(), study.to_owned()]);
    command
}

/// A command line without these options and their values, and without these flags.
fn without(words: &[String], options: &[&str], flags: &[&str]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let name = word.split_once('=').map_or(word.as_str(), |(name, _)| name);
        if options.contains(&name) {
            if name == word {
                words.next();
            }
        } else if !flags.contains(&word.as_str()) {
            kept.push(word.clone());
        }
    }
    kept
}

impl StudyState {
    /// `suspended`: whether the owner of the study's lock is.
    pub(super) fn of(
        owner: Option<&LockOwner>,
        suspended: bool,
        last: Option<&RunEntry>,
    ) -> StudyState {
        if let Some(owner) = owner {
            return match (suspended, &owner.stopping) {
                (true, _) => StudyState::Suspended,
                (false, Some(_)) => StudyState::Stopping,
                (false, None) => StudyState::Running,
            };
        }
        let Some(last) = last else {
            return StudyState::New;
        };
        let Some(code) = last.exit else {
            return StudyState::Interrupted;
        };
        let made_by = |state: &&StudyState| state.row().exit.map(Exit::code) == Some(code);
        let state = StudyState::ALL.iter().find(made_by);
        state.copied().unwrap_or(StudyState::Error)
    }

    /// In a sentence.
    pub(super) fn text(
        self,
        holder: Option<&Holder>,
        last: Option<&RunEntry>,
        now: jiff::Timestamp,
    ) -> String {
        let at = last
            .and_then(|run| run.ended.as_deref())
            .map_or_else(String::new, |ended| format!(" at {}", format::time(ended)));
        match self {
            StudyState::Running => running_text(holder, now),
            StudyState::Stopping => {
                let waits = holder.and_then(|holder| holder.stopping.as_ref());
                let waits = waits.map_or_else(String::new, |stopping| waits_text(stopping, now));
                format!(
                    "stopping: it starts nothing new; {waits}{}",
                    process_text(holder)
                )
            }
            StudyState::Suspended => {
                let go_on =
                    holder.map_or_else(String::new, |h| format!(" or kill -CONT {}", h.pid));
                format!(
                    "suspended, by Ctrl-Z or SIGSTOP: fg{go_on} lets it go on{}",
                    process_text(holder)
                )
            }
            StudyState::Finished if last.is_some_and(serves_others) => {
                format!("closed{at} by the program that it served")
            }
            StudyState::Finished => {
                let operation = last.map(|run| &run.record.operation);
                let flat = operation.and_then(|o| o.get("until_flat")?.as_f64());
                let or = match flat {
                    Some(_) => ", or more trials would hardly have gained anything (--until-flat)",
                    None => "",
                };
                format!("finished{at}: the goal was reached{or}")
            }
            // On a server, only the directory that it was started in knows whether it still works.
            StudyState::Interrupted if last.is_some_and(serves_others) => {
                let record = last.map(|run| &run.record);
                let process = record.map_or_else(String::new, |r| format!(" (pid {} on {})", r.pid, r.host));
                format!("not closed: the program that it served was killed, or works from another directory{process}")
            }
            StudyState::Interrupted => {
                "interrupted: its process was killed, or could not write its end down; the same command goes on".to_owned()
            }
            StudyState::Stopped => format!("stopped{at}; the same command goes on"),
            StudyState::OutOfTime => {
                format!(
                    "stopped{at}, its time (--timeout, --by) was used up; the same command goes on"
                )
            }
            StudyState::Failing => format!(
                "stopped{at}, because trials or workers kept failing; mend the cause, then the same command goes on"
            ),
            StudyState::Error => {
                let code = last.and_then(|run| run.exit).unwrap_or_default();
                let meaning = Exit::meaning_of(code);
                let first = match code == Exit::Internal.code() {
                    true => "report it if it comes again: the same command goes on",
                    false => "mend the cause, then the same command goes on",
                };
                format!("ended{at} with exit code {code} ({meaning}); {first}")
            }
            StudyState::New => "tune has not run it yet".to_owned(),
        }
    }
}

/// Whether a run was a session of another program's, which has no goal.
fn serves_others(run: &RunEntry) -> bool {
    run.record
        .command
        .iter()
        .skip(1)
        .any(|word| word == "ask-tell")
}

/// `it waits for 2 trials, at most until 2026-11-21 03:10:00 UTC (9 min 20 s)`.
pub fn waits_text(stopping: &Stopping, now: jiff::Timestamp) -> String {
    let trials = plural(stopping.waits_for as u64, "trial");
    let until = stopping.until.parse::<jiff::Timestamp>().ok();
    let until = until.map_or_else(String::new, |until| {
        let left = Duration::try_from(until.duration_since(now)).unwrap_or_default();
        let at = format::time(&format::stored(until));
        format!(", at most until {at} ({})", duration(left))
    });
    format!("it waits for {trials}{until}")
}

/// ` (pid 7 on gpu1)`.
fn process_text(holder: Option<&Holder>) -> String {
    holder.map_or_else(String::new, |h| format!(" (pid {} on {})", h.pid, h.host))
}

fn running_text(holder: Option<&Holder>, now: jiff::Timestamp) -> String {
    let Some(holder) = holder else {
        return "running".to_owned();
    };
    let process = format!("pid {} on {}", holder.pid, holder.host);
    let since = holder
        .since
        .as_deref()
        .map(|s| s.replace('T', " ").replace('Z', ""));
    match since {
        Some(since) => {
            let age = format::seconds(&since, &format::stored(now)).map(format::duration);
            let age = age.map_or_else(String::new, |age| format!(", {age}"));
            format!("running since {}{age} ({process})", format::time(&since))
        }
        None => format!("running ({process})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value as Json;

    fn run(exit: Option<u8>) -> RunEntry {
        RunEntry {
            run_id: 1,
            record: store::RunRecord {
                pid: 7,
                host: "h".to_owned(),
                version: String::new(),
                command: ["/bin/tune", "my task", "--trials", "3"]
                    .map(str::to_owned)
                    .to_vec(),
                operation: Json::Null,
            },
            started: "2026-11-21 03:00:00.000000".to_owned(),
            ended: exit.map(|_| "2026-11-21 04:00:00.000000".to_owned()),
            exit,
        }
    }

    fn owner(pid: u32) -> LockOwner {
        LockOwner {
            pid,
            host: "h".to_owned(),
            since: "2026-11-21T03:30:00.5Z".to_owned(),
            stopping: None,
            taking_in: false,
        }
    }

    fn told(owner: Option<LockOwner>, suspended: bool, run: &RunEntry) -> String {
        let holder = Holder::of("s", owner.as_ref(), Some(run));
        let state = StudyState::of(owner.as_ref(), suspended, Some(run));
        let now = "2026-11-21T05:00:00Z".parse().unwrap();
        state.text(holder.as_ref(), Some(run), now)
    }

    #[test]
    fn a_live_run_says_since_when_and_who() {
        let text = "running since 2026-11-21 03:00:00 UTC, 2 h 00 min (pid 7 on h)";
        assert_eq!(told(Some(owner(7)), false, &run(None)), text);
        // Who has only just come has not recorded its run yet.
        let text = "running since 2026-11-21 03:30:00 UTC, 1 h 30 min (pid 9 on h)";
        assert_eq!(told(Some(owner(9)), false, &run(None)), text);
    }

    #[test]
    fn a_run_that_stops_or_is_suspended_is_told_apart() {
        let mut owner = owner(7);
        owner.stopping = Some(Stopping {
            waits_for: 2,
            until: "2026-11-21T05:01:30Z".to_owned(),
        });
        let text = "stopping: it starts nothing new; it waits for 2 trials, at most until 2026-11-21 05:01:30 UTC \
                    (1 min 30 s) (pid 7 on h)";
        assert_eq!(told(Some(owner.clone()), false, &run(None)), text);
        let text = "suspended, by Ctrl-Z or SIGSTOP: fg or kill -CONT 7 lets it go on (pid 7 on h)";
        assert_eq!(told(Some(owner), true, &run(None)), text);
    }

    #[test]
    fn the_command_that_goes_on_makes_no_faults_on_purpose() {
        let mut last = run(Some(4));
        let more = [
            "--inject",
            "abort:0.1",
            "--plain",
            "--inject-seed=3",
            "--notify=a b",
        ];
        last.record.command.extend(more.map(str::to_owned));
        let command = Holder::of_run("s", &last, false).command();
        let expected = "tune 'my task' --trials 3 --plain '--notify=a b'";
        assert_eq!(command.as_deref(), Some(expected));
    }

    #[test]
    fn a_command_for_more_trials_is_that_of_the_last_run_with_another_goal() {
        let command = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            shell_command(&words, Some(7))
        };
        let words = [
            "/x/tune",
            "-C",
            "my dir",
            "t",
            "--trials",
            "5",
            "--set",
            "a=[\"b\"]",
        ];
        let expected = "tune -C 'my dir' t --set 'a=[\"b\"]' --trials 7";
        assert_eq!(command(&words).as_deref(), Some(expected));
        let words = ["tune", "t", "--trials=5", "--inject", "abort:0.1", "it's"];
        assert_eq!(
            command(&words).as_deref(),
            Some("tune t 'it'\\''s' --trials 7")
        );
        assert_eq!(command(&[]), None);
    }

    #[test]
    fn a_run_that_is_over_says_how_it_ended_and_what_goes_on() {
        let ends = [
            (
                None,
                "interrupted: its process was killed, or could not write its end down; the same command goes on",
            ),
            (
                Some(0),
                "finished at 2026-11-21 04:00:00 UTC: the goal was reached",
            ),
            (
                Some(4),
                "stopped at 2026-11-21 04:00:00 UTC; the same command goes on",
            ),
            (
                Some(7),
                "ended at 2026-11-21 04:00:00 UTC with exit code 7 (storage); mend the cause, then the same command goes on",
            ),
        ];
        for (exit, text) in ends {
            assert_eq!(told(None, false, &run(exit)), text);
        }
        let holder = Holder::of("s", None, Some(&run(None))).unwrap();
        assert_eq!(
            holder.command().as_deref(),
            Some("tune 'my task' --trials 3")
        );
        assert!(!holder.live);
        // After a renaming the same words would begin another study.
        let mut renamed = run(None);
        renamed.record.operation = serde_json::json!({"study": {"study": "old"}});
        renamed.record.command = [
            "tune",
            "t",
            "--study=old",
            "--from",
            "x",
            "--fork",
            "--trials",
            "3",
        ]
        .map(str::to_owned)
        .to_vec();
        let command = |study: &str| Holder::of(study, None, Some(&renamed)).unwrap().command();
        assert_eq!(
            command("new").as_deref(),
            Some("tune t --trials 3 --study new")
        );
        assert_eq!(
            command("old").as_deref(),
            Some("tune t --study=old --from x --fork --trials 3")
        );
        assert_eq!(StudyState::of(None, false, None), StudyState::New);
    }
}
