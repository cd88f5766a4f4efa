//! `tune TASK --notify COMMAND`: a command of the user's is told of the end, of a new best and of a lost GPU.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use config::StudySpec;
use fault::FaultKind;
use report::format::{plural, value};
use report::{Event, Sink, event_json};

/// A command that takes longer is killed.
const LIMIT: Duration = Duration::from_secs(30);

/// New bests are told this often at most: a search finds many at its beginning.
const PAUSE: Duration = Duration::from_secs(60);

/// So many messages wait at most; beyond that the oldest are dropped.
const MOST: usize = 100;

/// How often it is looked whether a command has ended.
const LOOK: Duration = Duration::from_millis(50);

/// What a command is told.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Message {
    event: &'static str,
    /// In a sentence, without quotes and backslashes: it can stand in JSON.
    text: String,
    /// The line of `--json`.
    json: String,
}

/// What waits to be told. Pure.
#[derive(Debug, Default)]
struct Waiting {
    messages: VecDeque<Message>,
    /// Of new bests only the latest is worth telling.
    best: Option<Message>,
    /// When a new best was told last.
    told: Option<Instant>,
    /// Nothing more will come.
    closed: bool,
}

/// What is to be done next.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Tell(Message),
    /// Nothing before this time has passed, unless something comes.
    Wait(Option<Duration>),
    End,
}

impl Waiting {
    fn push(&mut self, message: Message) {
        if message.event == "new_best" {
            self.best = Some(message);
            return;
        }
        self.messages.push_back(message);
        if self.messages.len() > MOST {
            self.messages.pop_front();
        }
    }

    fn next(&mut self, now: Instant) -> Next {
        if let Some(message) = self.messages.pop_front() {
            return Next::Tell(message);
        }
        // The end tells the best, too.
        if self.closed {
            return Next::End;
        }
        let since = self.told.map(|told| now.duration_since(told));
        let left = since.and_then(|since| PAUSE.checked_sub(since));
        match (self.best.take(), left) {
            (None, _) => Next::Wait(None),
            (Some(best), None | Some(Duration::ZERO)) => {
                self.told = Some(now);
                Next::Tell(best)
            }
            (Some(best), Some(left)) => {
                self.best = Some(best);
                Next::Wait(Some(left))
            }
        }
    }
}

#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next message; `None`: there will be no more.
    fn next(&self) -> Option<Message> {
        let mut waiting = self.lock();
        loop {
            waiting = match waiting.next(Instant::now()) {
                Next::Tell(message) => return Some(message),
                Next::End => return None,
                Next::Wait(None) => {
                    (self.changed.wait(waiting)).unwrap_or_else(PoisonError::into_inner)
                }
                Next::Wait(Some(left)) => {
                    let waited = self.changed.wait_timeout(waiting, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

/// Shows events as another sink does, and tells a command of some. It never waits for the command, but at the end: until
/// the last message was told, or its time is over.
pub(super) struct Notified {
    shown: Box<dyn Sink>,
    study: String,
    metric: String,
    shared: Arc<Shared>,
    teller: Option<thread::JoinHandle<()>>,
}

impl Notified {
    /// `command` is for `sh`.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub(super) fn new(
        shown: Box<dyn Sink>,
        command: &str,
        spec: &StudySpec,
    ) -> io::Result<Notified> {
        let study = &spec.study;
        let shared = Arc::new(Shared::default());
        let (theirs, command, name) = (Arc::clone(&shared), command.to_owned(), study.to_owned());
        let teller = thread::Builder::new()
            .name("notify".into())
            .spawn(move || {
                while let Some(message) = theirs.next() {
                    if let Err(why) = tell(&command, &name, &message, LIMIT) {
                        tracing::warn!("--notify {command}: {why}");
                    }
                }
            })?;
        Ok(Notified {
            shown,
            study: study.to_owned(),
            metric: spec.objective.metric.clone(),
            shared,
            teller: Some(teller),
        })
    }

    fn message(&self, event: &Event, time: Timestamp) -> Option<Message> {
        let (name, text) = told(event, &self.study, &self.metric)?;
        Some(Message {
            event: name,
            text: text.replace('"', "'").replace('\\', "/"),
            json: event_json(event, time, &self.study)?.to_string(),
        })
    }
}

impl Sink for Notified {
    fn handle(&mut self, event: &Event, time: Timestamp) {
        self.shown.handle(event, time);
        if let Some(message) = self.message(event, time) {
            self.shared.lock().push(message);
            self.shared.changed.notify_all();
        }
    }
}

impl Drop for Notified {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
        // Each command has its limit; few messages wait at the end.
        let _ = self.teller.take().map(thread::JoinHandle::join);
    }
}

/// The word of an event that is told, and what it says in a sentence.
fn told(event: &Event, study: &str, metric: &str) -> Option<(&'static str, String)> {
    let study = messages::printable(study);
    let best = |best: &report::Best| match best.value {
        Some(v) => format!("{metric} {} (trial {})", value(v), best.number),
        None => format!("trial {} joins the front", best.number),
    };
    if let Event::NewBest(new) = event {
        return Some(("new_best", format!("{study}: new best: {}", best(new))));
    }
    if let Event::Fault(fault) = event
        && fault.fault == FaultKind::DeviceLost.word()
    {
        let detail = fault.detail.lines().next().unwrap_or_default();
        let detail = messages::printable(detail);
        return Some(("fault", format!("{study}: a GPU is lost: {detail}")));
    }
    if let Event::RunFinished(run) = event {
        let finished = plural(run.counts.finished(), "trial");
        let best = run
            .best
            .as_ref()
            .map_or_else(String::new, |b| format!(", best {}", best(b)));
        let text = format!("{study} ended: {}; {finished} finished{best}", run.reason);
        return Some(("run_finished", text));
    }
    None
}

/// Tells a command a message, in `limit`.
///
/// # Errors
/// It could not be started, failed, or took too long; the text says so.
fn tell(command: &str, study: &str, message: &Message, limit: Duration) -> Result<(), String> {
    let start = || -> io::Result<(Child, File)> {
        // Files, not pipes: a command that reads nothing, or says much, is no reason to wait.
        let mut json = tempfile::tempfile()?;
        writeln!(json, "{}", message.json)?;
        json.rewind()?;
        let said = tempfile::tempfile()?;
        let child = Command::new("sh")
            .args(["-c", command])
            .env("TUNE_EVENT", message.event)
            .env("TUNE_STUDY", study)
            .env("TUNE_TEXT", &message.text)
            .stdin(json)
            .stdout(Stdio::null())
            .stderr(said.try_clone()?)
            .process_group(0)
            .spawn()?;
        Ok((child, said))
    };
    let (mut child, said) = start().map_err(|e| format!("it cannot be started: {e}"))?;
    match ended(&mut child, limit).map_err(|e| e.to_string())? {
        None => Err(format!(
            "it was killed after {}",
            report::format::duration(limit)
        )),
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(format!("it failed ({status}){}", last_words(said))),
    }
}

/// Waits for the end of a command; `None`: it took too long and was killed, with all that it had started.
fn ended(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if start.elapsed() >= limit {
            // It has not been waited for: the group is still its own.
            let _ = killpg(Pid::from_raw(child.id() as i32), Signal::SIGKILL);
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(LOOK);
    }
}

/// The last line that a command has written to standard error: `: no route to host`.
fn last_words(mut said: File) -> String {
    const MOST: u64 = 1 << 16;
    let mut text = Vec::new();
    let read = said
        .rewind()
        .and_then(|()| said.take(MOST).read_to_end(&mut text));
    let text = String::from_utf8_lossy(&text);
    let last = text.lines().rev().find(|line| !line.trim().is_empty());
    let last = last.filter(|_| read.is_ok());
    last.map_or_else(String::new, |line| {
        format!(": {}", messages::printable(line.trim()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(event: &'static str, text: &str) -> Message {
        Message {
            event,
            text: text.to_owned(),
            json: format!("{{\"event\":\"{event}\"}}"),
        }
    }

    #[test]
    fn new_bests_are_told_once_a_minute_and_the_rest_at_once() {
        let mut waiting = Waiting::default();
        let start = Instant::now();
        let at = |s| start + Duration::from_secs(s);
        let (first, second) = (message("new_best", "1"), message("new_best", "2"));
        assert_eq!(waiting.next(at(0)), Next::Wait(None));
        waiting.push(first.clone());
        assert_eq!(waiting.next(at(0)), Next::Tell(first.clone()));
        waiting.push(first);
        waiting.push(second.clone());
        let left = Some(Duration::from_secs(50));
        assert_eq!(waiting.next(at(10)), Next::Wait(left));
        let lost = message("fault", "lost");
        waiting.push(lost.clone());
        assert_eq!(waiting.next(at(11)), Next::Tell(lost));
        assert_eq!(waiting.next(at(60)), Next::Tell(second.clone()));
        // The end does not wait for a best: it has it.
        waiting.push(second);
        let end = message("run_finished", "ended");
        waiting.push(end.clone());
        waiting.closed = true;
        assert_eq!(waiting.next(at(61)), Next::Tell(end));
        assert_eq!(waiting.next(at(61)), Next::End);
    }

    #[test]
    fn the_oldest_messages_are_dropped_where_too_many_wait() {
        let mut waiting = Waiting::default();
        (0..=MOST).for_each(|i| waiting.push(message("fault", &i.to_string())));
        assert_eq!(waiting.messages.len(), MOST);
        assert_eq!(waiting.messages[0].text, "1");
    }

    #[test]
    fn a_command_gets_the_event_and_what_is_wrong_with_it_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        let told = |command: &str, limit| tell(command, "s", &message("new_best", "a b"), limit);
        let command = format!(
            "(echo \"$TUNE_EVENT $TUNE_STUDY $TUNE_TEXT\"; cat) > {}",
            out.display()
        );
        assert_eq!(told(&command, LIMIT), Ok(()));
        let text = std::fs::read_to_string(&out).unwrap();
        assert_eq!(text, "new_best s a b\n{\"event\":\"new_best\"}\n");
        let why = told("echo first >&2; echo no route >&2; exit 7", LIMIT).unwrap_err();
        assert_eq!(why, "it failed (exit status: 7): no route");
        // Also one that has started others.
        let why = told("sleep 600 & sleep 600", Duration::from_millis(200)).unwrap_err();
        assert_eq!(why, "it was killed after 200 ms");
        assert_eq!(told("yes | head -c 1000000 >&2", LIMIT), Ok(()));
    }
}
