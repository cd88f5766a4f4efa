//! The probe as the supervisor sees it: a child that says a line a second. One that falls silent
//! hangs in the driver; it is killed and left behind, and another one is tried after a pause.

use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::Event;
use crate::event_channel::EventSender;
use device::probe::{INTERVAL, ProbeLine};

/// Before the first line the driver may have to start every GPU.
const FIRST_LINE: Duration = Duration::from_secs(30);

/// A longer silence than this means that the probe hangs.
const SILENCE: Duration = INTERVAL.saturating_mul(8);

/// The pauses before the tries after the first one. A driver that is updated or reset is back
/// within minutes, or not at all.
const PAUSES: [Duration; 4] = [
    Duration::from_secs(5),
    Duration::from_secs(30),
    Duration::from_secs(120),
    Duration::from_secs(600),
];

/// A probe that has lived for this long was no failure.
const LIVED: Duration = Duration::from_secs(3600);

/// Why a probe is not listened to any more.
enum End {
    /// The run is over.
    Over,
    /// It can say nothing more.
    Lost(String),
}

/// Keeps a probe until `over` is closed, and passes on what it says.
pub fn watch(over: &OwnedFd, events: &EventSender) {
    let mut left_behind: Vec<Child> = Vec::new();
    let mut failures = 0;
    // Told once, until samples come again.
    let mut told = false;
    loop {
        let start = Instant::now();
        let mut said = false;
        let end = match spawn() {
            Ok(mut child) => {
                let end = listen(&mut child, over, |event| {
                    said |= matches!(event, Event::Sampled(_));
                    let _ = events.send(event);
                });
                let _ = child.kill();
                left_behind.push(child);
                end
            }
            Err(error) => End::Lost(format!("the probe cannot be started: {error}")),
        };
        told &= !said;
        match end {
            End::Over => return,
            End::Lost(reason) if told => tracing::info!(reason, "the probe is lost again"),
            End::Lost(reason) => {
                told = true;
                let _ = events.send(Event::ProbeLost(reason));
            }
        }
        failures = if start.elapsed() < LIVED {
            failures + 1
        } else {
            1
        };
        let Some(pause) = PAUSES.get(failures - 1) else {
            return;
        };
        if closes(over, *pause) {
            return;
        }
        // Only those that have died: one that hangs in the kernel does not.
        left_behind.retain_mut(|child| !matches!(child.try_wait(), Ok(Some(_))));
    }
}

fn spawn() -> io::Result<Child> {
    Command::new("/proc/self/exe")
        .arg0("tune")
        .args(["probe", "--stream"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        // A terminal's signals are for the supervisor, which decides.
        .process_group(0)
        .spawn()
}

/// Whether the run ends within this time.
fn closes(over: &OwnedFd, within: Duration) -> bool {
    let until = Instant::now() + within;
    loop {
        let mut wanted = [PollFd::new(over.as_fd(), PollFlags::POLLIN)];
        match poll(&mut wanted, left(until)) {
            Ok(0) => return false,
            Err(Errno::EINTR) => {}
            Ok(_) | Err(_) => return true,
        }
    }
}

/// The time left, rounded up.
fn left(until: Instant) -> PollTimeout {
    let left = until.saturating_duration_since(Instant::now());
    PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
}

/// Passes on what the probe says, until it ends, falls silent, or the run is over.
fn listen(child: &mut Child, over: &OwnedFd, mut tell: impl FnMut(Event)) -> End {
    let Some(mut stdout) = child.stdout.take() else {
        return End::Lost("the probe has no output".to_owned());
    };
    let mut unread = Vec::new();
    let mut patience = FIRST_LINE;
    let mut until = Instant::now() + patience;
    loop {
        match wait(&stdout, over, until) {
            Ready::Over => return End::Over,
            Ready::Nothing => {
                let seconds = patience.as_secs();
                return End::Lost(format!(
                    "it has said nothing for {seconds} s: the driver hangs"
                ));
            }
            Ready::Output => {}
        }
        match read(&mut stdout, &mut unread) {
            Ok(0) => return End::Lost(ended(child)),
            Ok(_) => {}
            Err(error) => return End::Lost(format!("the probe cannot be heard: {error}")),
        }
        for line in lines(&mut unread) {
            patience = SILENCE;
            until = Instant::now() + patience;
            match line {
                ProbeLine::Sampled(gpus) => {
                    tell(Event::Sampled(device::Sample { host: None, gpus }))
                }
                ProbeLine::Xid { gpu, code } => tell(Event::Xid { gpu, code }),
                ProbeLine::Lost { reason } => return End::Lost(reason),
            }
        }
    }
}

enum Ready {
    Output,
    Nothing,
    Over,
}

fn wait(stdout: &ChildStdout, over: &OwnedFd, until: Instant) -> Ready {
    loop {
        let mut wanted = [
            PollFd::new(over.as_fd(), PollFlags::POLLIN),
            PollFd::new(stdout.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut wanted, left(until)) {
            Err(Errno::EINTR) => continue,
            Ok(0) => return Ready::Nothing,
            Ok(_) | Err(_) => {}
        }
        return match wanted[0].any() {
            Some(false) => Ready::Output,
            Some(true) | None => Ready::Over,
        };
    }
}

fn read(stdout: &mut ChildStdout, unread: &mut Vec<u8>) -> io::Result<usize> {
    let mut buffer = [0; 4096];
    loop {
        match stdout.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(length) => {
                unread.extend_from_slice(&buffer[..length]);
                return Ok(length);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Takes the whole lines out; what a library has printed between them is dropped.
fn lines(unread: &mut Vec<u8>) -> Vec<ProbeLine> {
    let Some(end) = unread.iter().rposition(|b| *b == b'\n') else {
        return Vec::new();
    };
    let whole: Vec<u8> = unread.drain(..=end).collect();
    let lines = whole.split(|b| *b == b'\n');
    lines
        .filter_map(|l| serde_json::from_slice(l).ok())
        .collect()
}

/// Its output is closed: it has ended, or is about to.
fn ended(child: &mut Child) -> String {
    match child.try_wait() {
        Ok(Some(status)) => format!("its probe ended with {status}"),
        Ok(None) | Err(_) => "its probe ended".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_taken_whole_and_noise_is_dropped() {
        let mut unread = b"NVML says hello\n{\"xid\":{\"gpu\":1,\"code\":79}}\n{\"sampl".to_vec();
        assert_eq!(lines(&mut unread), [ProbeLine::Xid { gpu: 1, code: 79 }]);
        unread.extend_from_slice(b"ed\":[]}\n");
        assert_eq!(lines(&mut unread), [ProbeLine::Sampled(vec![])]);
        assert!(unread.is_empty());
    }

    /// What is told of a child of this script, and why it is lost.
    fn heard(script: &str) -> (Vec<Event>, String) {
        let (over, _running) = nix::unistd::pipe().unwrap();
        let mut child = Command::new("sh")
            .args(["-c", script])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut events = Vec::new();
        let end = listen(&mut child, &over, |event| events.push(event));
        child.kill().unwrap();
        child.wait().unwrap();
        match end {
            End::Lost(reason) => (events, reason),
            End::Over => panic!("the run is not over"),
        }
    }

    #[test]
    fn the_last_line_says_why_nvml_is_lost() {
        let script =
            r#"echo '{"xid":{"gpu":0,"code":94}}'; echo '{"lost":{"reason":"gone"}}'; sleep 60"#;
        let xid = Event::Xid { gpu: 0, code: 94 };
        assert_eq!(heard(script), (vec![xid], "gone".to_owned()));
    }

    #[test]
    fn a_probe_that_dies_is_lost() {
        let (events, reason) = heard("kill -9 $$");
        assert!(events.is_empty());
        assert!(reason.contains("its probe ended"), "{reason}");
    }

    #[test]
    fn the_end_of_the_run_ends_the_watch() {
        let (over, running) = nix::unistd::pipe().unwrap();
        drop(running);
        let mut child = Command::new("sleep")
            .arg("60")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        assert!(matches!(listen(&mut child, &over, |_| {}), End::Over));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
