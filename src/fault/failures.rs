//! Why trials failed, at a glance: failures that say the same but for numbers and paths are one.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde::Serialize;

use crate::pattern;

/// A trial that failed, and what is known of why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The trial's number.
    pub trial: u64,
    /// The fault's word, such as `task_error`.
    pub fault: String,
    /// What went wrong, in the words of the error.
    pub message: String,
    /// The line of the user's own code, see [`own_line`].
    pub place: Option<String>,
    /// The log of the last attempt.
    pub log: Option<String>,
}

/// Trials that failed alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FailureGroup {
    /// The fault's word.
    pub fault: String,
    /// The message of the latest of them.
    pub message: String,
    /// How many there are.
    pub count: usize,
    /// Their numbers, in ascending order.
    pub trials: Vec<u64>,
    /// The latest one's line of the user's own code.
    pub place: Option<String>,
    /// The latest one's log.
    pub log: Option<String>,
}

impl FailureGroup {
    /// The trial with the highest number: message, place and log are its own.
    pub fn latest(&self) -> u64 {
        self.trials.last().copied().unwrap_or_default()
    }
}

/// Failures by what they say, the most frequent first; of equally many those that began earlier.
pub fn group_failures(failures: impl IntoIterator<Item = Failure>) -> Vec<FailureGroup> {
    let mut failures: Vec<Failure> = failures.into_iter().collect();
    failures.sort_by_key(|f| f.trial);
    let mut groups: BTreeMap<(String, String), FailureGroup> = BTreeMap::new();
    for failure in failures {
        let key = (failure.fault.clone(), masked(&failure.message));
        let mut trials = groups.remove(&key).map_or_else(Vec::new, |g| g.trials);
        trials.push(failure.trial);
        let group = FailureGroup {
            fault: failure.fault,
            message: failure.message,
            count: trials.len(),
            trials,
            place: failure.place,
            log: failure.log,
        };
        groups.insert(key, group);
    }
    let mut groups: Vec<FailureGroup> = groups.into_values().collect();
    groups.sort_by_key(|g| (std::cmp::Reverse(g.count), g.trials.first().copied()));
    groups
}

/// Paths.
static PATH: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r#"(?:~|\.{1,2}|\b[A-Za-z]:)?[/\\](?:[^\s'":,;()\[\]/\\]+[/\\])*[^\s'":,;()\[\]/\\]+"#)
});

/// Addresses, and what may be a hash.
static HEX: LazyLock<Regex> = LazyLock::new(|| pattern(r"\b0x[0-9a-fA-F]+\b|\b[0-9a-f]{8,}\b"));

/// Numbers, with the sign where one stands before them; an exit status says what went wrong, and stays.
static NUMBER: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?P<status>\bexited with status \d+)|-?\d+(?:[.,_]\d+)*(?:[eE][-+]?\d+)?")
});

/// A message without what differs from trial to trial: `<path>` stands for paths, `#` for numbers (but an exit status),
/// addresses and hashes. Two messages say the same where these are equal.
pub fn masked(message: &str) -> String {
    let text = message.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = PATH.replace_all(&text, "<path>");
    let text = HEX.replace_all(&text, |found: &Captures<'_>| {
        let found = &found[0];
        // A word has no digit, and a plain number is the next pattern's.
        let mixed = found.contains(|c: char| c.is_ascii_digit())
            && found.contains(|c: char| c.is_ascii_alphabetic());
        if mixed { "#" } else { found }.to_owned()
    });
    let masked = NUMBER.replace_all(&text, |found: &Captures<'_>| {
        let status = found.name("status");
        status.map_or("#", |status| status.as_str()).to_owned()
    });
    masked.into_owned()
}

/// A frame of a Python traceback.
static FRAME: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r#"^\s*File "(?P<file>[^"]+)", line (?P<line>\d+)(?:,? in (?P<function>.+))?"#)
});

/// Where the code of others lies.
const OF_OTHERS: [&str; 8] = [
    "/sitecustomize.py",
    "/_tune_doctor/",
    "/site-packages/",
    "/dist-packages/",
    "/lib/python",
    "/torch/",
    "torch/",
    "<frozen ",
];

/// The file of `python -c`, and of processes that `multiprocessing` spawns.
const GIVEN_AS_TEXT: &str = "<string>";

/// What Python prints of the calls that it is in.
#[derive(Clone, Copy, PartialEq)]
enum Calls {
    /// A traceback: the nearest frame is the last.
    Traceback,
    /// `faulthandler`'s of one thread: the nearest frame is the first.
    Stack { current: bool },
}

/// Of the last Python traceback in a program's output, the frame of the user's own code that is the
/// nearest to the error: `train.py:12 in fit`. Frames of libraries and of Python itself do not count, and code that was
/// given as a text (`<string>`) where there is no other. Of the stacks that Python's `faulthandler` prints of all
/// threads it is the current thread's, else that of the last one that has such a frame.
pub fn own_line(output: &str) -> Option<String> {
    let mut printed: Vec<(Calls, Vec<String>)> = vec![(Calls::Traceback, Vec::new())];
    for line in output.lines() {
        if line.ends_with("(most recent call first):") {
            let current = line.trim_start().starts_with("Current thread");
            printed.push((Calls::Stack { current }, Vec::new()));
        } else if (line.trim_start()).starts_with("Traceback (most recent call last)") {
            printed.push((Calls::Traceback, Vec::new()));
        } else if let (Some(frame), Some((_, frames))) = (own_frame(line), printed.last_mut()) {
            frames.push(frame);
        }
    }
    let (last, _) = printed.last()?;
    if *last == Calls::Traceback {
        let (_, mut frames) = printed.pop()?;
        frames.reverse();
        return nearest(&frames);
    }
    let stacks = printed
        .rsplit(|(calls, _)| *calls == Calls::Traceback)
        .next()?;
    let current = stacks
        .iter()
        .filter(|(calls, _)| *calls == Calls::Stack { current: true });
    let current = current.rev().find_map(|(_, frames)| nearest(frames));
    current.or_else(|| stacks.iter().rev().find_map(|(_, frames)| nearest(frames)))
}

/// The first frame of a file, else the first of all.
fn nearest(frames: &[String]) -> Option<String> {
    let of_file = frames
        .iter()
        .find(|frame| !frame.starts_with(GIVEN_AS_TEXT));
    of_file.or(frames.first()).cloned()
}

/// `train.py:12 in fit`, where a line is a frame of the user's own code.
fn own_frame(line: &str) -> Option<String> {
    let frame = FRAME.captures(line)?;
    let file = &frame["file"];
    let of_others = |place: &&str| match place.starts_with('/') {
        true => file.contains(*place),
        false => file.starts_with(*place),
    };
    if OF_OTHERS.iter().any(of_others) {
        return None;
    }
    let inside = frame.name("function").map(|f| f.as_str().trim());
    let inside = inside.filter(|f| *f != "<module>");
    let inside = inside.map_or_else(String::new, |f| format!(" in {f}"));
    Some(format!("{file}:{}{inside}", &frame["line"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(trial: u64, message: &str) -> Failure {
        Failure {
            trial,
            fault: "task_error".into(),
            message: message.into(),
            place: Some(format!("train.py:{trial}")),
            log: Some(format!("trial-{trial}.log")),
        }
    }

    #[test]
    fn what_differs_from_trial_to_trial_is_masked() {
        for (a, b) in [
            ("lr = 0.1 is too large", "lr = 3e-05 is too large"),
            ("no /tmp/a1/b.json: 2", "no /data/run-7/b/c.json: 13"),
            ("shape (3, 224) at 0x7ffe12ab", "shape (64, 7) at 0x10"),
            ("x is -3", "x is 4"),
            (
                "commit deadbeef01 is gone",
                "commit 0123456789abcdef is gone",
            ),
            ("two\n  lines", "two lines"),
        ] {
            assert_eq!(masked(a), masked(b));
        }
        assert_ne!(masked("KeyError: 'a'"), masked("KeyError: 'b'"));
        let exited = |status: u8, said: &str| {
            masked(&format!("the program exited with status {status}: {said}"))
        };
        assert_eq!(exited(1, "loss=3"), exited(1, "loss=4"));
        assert_ne!(exited(1, "loss=3"), exited(2, "loss=3"));
        assert_ne!(masked("no file /a/b"), masked("no file"));
        assert_eq!(masked("a/b and 1.5"), masked("a/c and 2"));
    }

    #[test]
    fn failures_that_say_the_same_are_one_group_and_the_largest_comes_first() {
        let groups = group_failures([
            failure(4, "x is 2"),
            failure(0, "no module named torch"),
            failure(2, "x is 1"),
        ]);
        let told: Vec<_> = groups.iter().map(|g| (g.count, g.trials.clone())).collect();
        assert_eq!(told, [(2, vec![2, 4]), (1, vec![0])]);
        assert_eq!(groups[0].message, "x is 2", "of the latest");
        assert_eq!(groups[0].log.as_deref(), Some("trial-4.log"));
        assert_eq!(groups[0].latest(), 4);
        let mut other = failure(5, "x is 3");
        other.fault = "crash".into();
        let kinds = group_failures([failure(4, "x is 2"), other]);
        assert_eq!(kinds.len(), 2, "another fault is another group");
    }

    #[test]
    fn the_own_line_is_the_last_frame_outside_of_libraries() {
        let output = "Traceback (most recent call last):\n  File \"old.py\", line 1, in f\nKeyError: 1\n\
            During handling of the above exception, another exception occurred:\n\
            Traceback (most recent call last):\n\
            \x20 File \"train.py\", line 30, in <module>\n    main()\n\
            \x20 File \"/home/me/net.py\", line 12, in forward\n    y = self.f(x)\n\
            \x20 File \"/usr/lib/python3.12/site-packages/torch/nn/modules/linear.py\", line 9, in forward\n\
            \x20   return F.linear(x)\nRuntimeError: mat1 and mat2\n";
        assert_eq!(own_line(output).unwrap(), "/home/me/net.py:12 in forward");
        let module =
            "Traceback (most recent call last):\n  File \"t.py\", line 3, in <module>\nE\n";
        assert_eq!(own_line(module).unwrap(), "t.py:3");
        assert_eq!(own_line("panicked at x.rs"), None);
        let crash = "Fatal Python error: Segmentation fault\n\nCurrent thread 0x1 (most recent call first):\n\
            \x20 File \"/usr/lib/python3.12/ctypes/__init__.py\", line 5 in string_at\n\
            \x20 File \"net.py\", line 12 in forward\n  File \"train.py\", line 30 in <module>\n";
        assert_eq!(own_line(crash).unwrap(), "net.py:12 in forward");
    }

    #[test]
    fn of_the_stacks_of_all_threads_the_current_one_is_told_and_a_spawned_process_by_its_file() {
        let stack = |head: &str, frames: &[(&str, u32)]| {
            let frames = frames
                .iter()
                .map(|(file, line)| format!("  File \"{file}\", line {line} in f\n"));
            format!(
                "{head} (most recent call first):\n{}",
                frames.collect::<String>()
            )
        };
        let lib = ("/usr/lib/python3.12/threading.py", 9);
        let current = stack(
            "Current thread 0x2",
            &[lib, ("work.py", 5), ("<string>", 1)],
        );
        let main = stack("Thread 0x1", &[("train.py", 40)]);
        assert_eq!(
            own_line(&(current.clone() + &main)).unwrap(),
            "work.py:5 in f"
        );
        let waits = stack("Current thread 0x2", &[lib]);
        assert_eq!(
            own_line(&(main.clone() + &waits)).unwrap(),
            "train.py:40 in f"
        );
        let raised = "Traceback (most recent call last):\n  File \"a.py\", line 3, in g\n\
            \x20 File \"<string>\", line 2, in <lambda>\nE\n";
        assert_eq!(own_line(raised).unwrap(), "a.py:3 in g");
        assert_eq!(
            own_line(&(raised.to_owned() + &waits)),
            None,
            "the error was before"
        );
        let text =
            "Traceback (most recent call last):\n  File \"<string>\", line 1, in <module>\nE\n";
        assert_eq!(own_line(text).unwrap(), "<string>:1");
    }
}
