//! Whether a study is worked on, and if not, how its last run ended.

use serde::Serialize;

use super::format::{self, rfc3339};
use messages::exit::Exit;
use report::shell_word;
use store::RunEntry;
use supervisor::LockOwner;

/// How a study stands, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StudyState {
    /// A process works on it.
    Running,
    /// The last run reached its goal.
    Finished,
    /// The last run was killed.
    Interrupted,
    /// The last run was stopped by a signal.
    Stopped,
    /// The last run used its time budget up.
    OutOfTime,
    /// The last run ended because trials or workers kept failing.
    Failing,
    /// The last run ended with another error.
    Error,
    /// `tune` has not run it.
    New,
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
}

impl Holder {
    /// The owner of the study's lock; where nobody has it, the process of the last run.
    pub(super) fn of(owner: Option<&LockOwner>, last: Option<&RunEntry>) -> Option<Holder> {
        let Some(owner) = owner else {
            return last.map(|run| Holder::of_run(run, false));
        };
        match last.filter(|run| run.record.pid == owner.pid && run.exit.is_none()) {
            Some(run) => Some(Holder::of_run(run, true)),
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
            }),
        }
    }

    fn of_run(run: &RunEntry, live: bool) -> Holder {
        Holder {
            pid: run.record.pid,
            host: run.record.host.clone(),
            command: run.record.command.clone(),
            since: Some(rfc3339(&run.started)),
            live,
        }
    }

    /// The command line that a shell reads; `None` where it is not known.
    pub(super) fn command(&self) -> Option<String> {
        let words = self.command.iter().skip(1).map(|word| shell_word(word));
        let words: Vec<String> = std::iter::once("tune".to_owned()).chain(words).collect();
        (words.len() > 1).then(|| words.join(" "))
    }
}

impl StudyState {
    pub(super) fn of(live: bool, last: Option<&RunEntry>) -> StudyState {
        let Some(last) = last.filter(|_| !live) else {
            return if live {
                StudyState::Running
            } else {
                StudyState::New
            };
        };
        let ended_with = |exit: Exit| last.exit == Some(exit.code());
        if last.exit.is_none() {
            StudyState::Interrupted
        } else if ended_with(Exit::Done) {
            StudyState::Finished
        } else if ended_with(Exit::Stopped) {
            StudyState::Stopped
        } else if ended_with(Exit::Budget) {
            StudyState::OutOfTime
        } else if ended_with(Exit::Breaker) {
            StudyState::Failing
        } else {
            StudyState::Error
        }
    }

    /// In a word or two.
    pub(super) fn word(self) -> &'static str {
        match self {
            StudyState::Running => "running",
            StudyState::Finished => "finished",
            StudyState::Interrupted => "interrupted",
            StudyState::Stopped => "stopped",
            StudyState::OutOfTime => "out of time",
            StudyState::Failing => "failing",
            StudyState::Error => "error",
            StudyState::New => "not run yet",
        }
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
            StudyState::Finished => format!("finished{at}: the goal was reached"),
            StudyState::Interrupted => {
                "interrupted: its process was killed; the same command goes on".to_owned()
            }
            StudyState::Stopped => format!("stopped{at}; the same command goes on"),
            StudyState::OutOfTime => {
                format!("stopped{at}, its time (--timeout) was used up; the same command goes on")
            }
            StudyState::Failing => format!(
                "stopped{at}, because trials or workers kept failing; mend the cause, then the same command goes on"
            ),
            StudyState::Error => {
                let code = last.and_then(|run| run.exit).unwrap_or_default();
                let meaning = Exit::ALL.iter().find(|(exit, _)| exit.code() == code);
                let meaning = meaning.map_or("unknown", |(_, meaning)| meaning);
                format!("ended{at} with exit code {code} ({meaning}); the same command goes on")
            }
            StudyState::New => "tune has not run it yet".to_owned(),
        }
    }
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

    fn told(owner: Option<u32>, run: &RunEntry) -> String {
        let owner = owner.map(|pid| LockOwner {
            pid,
            host: "h".to_owned(),
            since: "2026-11-21T03:30:00.5Z".to_owned(),
        });
        let holder = Holder::of(owner.as_ref(), Some(run));
        let state = StudyState::of(owner.is_some(), Some(run));
        let now = "2026-11-21T05:00:00Z".parse().unwrap();
        state.text(holder.as_ref(), Some(run), now)
    }

    #[test]
    fn a_live_run_says_since_when_and_who() {
        let text = "running since 2026-11-21 03:00:00 UTC, 2 h 00 min (pid 7 on h)";
        assert_eq!(told(Some(7), &run(None)), text);
        // Who has only just come has not recorded its run yet.
        let text = "running since 2026-11-21 03:30:00 UTC, 1 h 30 min (pid 9 on h)";
        assert_eq!(told(Some(9), &run(None)), text);
    }

    #[test]
    fn a_run_that_is_over_says_how_it_ended_and_what_goes_on() {
        let ends = [
            (
                None,
                "interrupted: its process was killed; the same command goes on",
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
                "ended at 2026-11-21 04:00:00 UTC with exit code 7 (storage); the same command goes on",
            ),
        ];
        for (exit, text) in ends {
            assert_eq!(told(None, &run(exit)), text);
        }
        let holder = Holder::of(None, Some(&run(None))).unwrap();
        assert_eq!(
            holder.command().as_deref(),
            Some("tune 'my task' --trials 3")
        );
        assert!(!holder.live);
        assert_eq!(StudyState::of(false, None), StudyState::New);
    }
}
