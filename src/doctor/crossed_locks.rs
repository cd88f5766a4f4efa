//! Threads of a Python program that wait for each other's locks, by the stacks that it printed when it stood still.

use std::fs;

use crate::signature::RunEnd;

/// Words in names of locks.
const LOCKS: [&str; 9] = [
    "lock",
    "rlock",
    "mutex",
    "sem",
    "semaphore",
    "cond",
    "condition",
    "guard",
    "latch",
];

/// A line that is executed, by its file and number.
struct Frame<'a> {
    file: &'a str,
    number: usize,
    function: &'a str,
}

impl Frame<'_> {
    /// Of `  File "a.py", line 3 in f`.
    fn of(line: &str) -> Option<Frame<'_>> {
        let (file, rest) = line
            .trim()
            .strip_prefix("File \"")?
            .split_once("\", line ")?;
        let (number, function) = rest.split_once(" in ")?;
        Some(Frame {
            file,
            number: number.parse().ok()?,
            function,
        })
    }

    fn source(&self) -> Option<Vec<String>> {
        let text = fs::read_to_string(self.file).ok()?;
        Some(text.lines().map(str::to_owned).collect())
    }
}

/// A thread that waits for a lock while it holds another one, by their names.
struct Wait {
    held: String,
    wanted: String,
    /// Both are taken in the same file.
    one_file: bool,
    /// In words.
    told: String,
}

/// Two threads of which each waits for a lock of the name of one that the other holds, in words, or the only thread at a lock,
/// which waits for one that it holds itself; `None`: neither is there.
pub fn crossed(end: &RunEnd) -> Option<String> {
    end.hang?;
    let mut waits: Vec<Wait> = Vec::new();
    for stack in end.output.split("(most recent call first):").skip(1) {
        let frames = stack.lines().skip(1).map_while(Frame::of);
        waits.extend(wait_in(&frames.collect::<Vec<Frame<'_>>>()));
    }
    let is_same = |a: &str, b: &str| a.rsplit('.').next() == b.rsplit('.').next();
    if let [wait] = waits.as_slice() {
        let itself = wait.one_file && wait.held == wait.wanted;
        return itself.then(|| format!("a thread {}", wait.told));
    }
    waits.iter().enumerate().find_map(|(at, one)| {
        let crosses =
            |other: &&Wait| is_same(&one.wanted, &other.held) && is_same(&other.wanted, &one.held);
        let other = waits[at + 1..].iter().find(crosses)?;
        Some(format!("a thread {}; another {}", one.told, other.told))
    })
}

/// What a thread waits for and what it holds, by its frames, innermost first.
fn wait_in(frames: &[Frame<'_>]) -> Option<Wait> {
    let innermost = frames.first()?;
    // A thread's end is waited for by a lock, too.
    if innermost.file.ends_with("/threading.py") {
        return None;
    }
    let source = innermost.source()?;
    let wanted = lock_of(source.get(innermost.number.checked_sub(1)?)?)?;
    let held = |frame: &Frame<'_>| enclosing(&frame.source()?, frame.number);
    let (held, holder) = frames.iter().find_map(|f| Some((held(f)?, f)))?;
    let at = |frame: &Frame<'_>| format!("{}:{} in {}", frame.file, frame.number, frame.function);
    let told = format!(
        "holds {held} ({}) and waits for {wanted} at {}",
        at(holder),
        at(innermost)
    );
    Some(Wait {
        one_file: innermost.file == holder.file,
        held,
        wanted,
        told,
    })
}

/// The lock that a line takes: `with self.lock:`, `lock.acquire()`.
fn lock_of(line: &str) -> Option<String> {
    let line = line.trim();
    let taken = match line.strip_prefix("with ") {
        Some(rest) => rest.split([':', ',']).next()?,
        None => {
            let before = line.split(".acquire(").next()?;
            let before = (before.len() < line.len()).then_some(before)?;
            before.rsplit([' ', '(']).next()?
        }
    };
    let lower = taken.to_lowercase();
    let mut words = lower.split(|c: char| !c.is_ascii_alphabetic());
    let is_lock = words.any(|word| LOCKS.contains(&word));
    is_lock.then(|| taken.trim().to_owned())
}

/// The lock of the nearest `with` around a line of a function.
fn enclosing(source: &[String], number: usize) -> Option<String> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut within = indent(source.get(number.checked_sub(1)?)?);
    for line in source[..number - 1].iter().rev() {
        let text = line.trim_start();
        if text.is_empty() || text.starts_with('#') || indent(line) >= within {
            continue;
        }
        within = indent(line);
        if text.starts_with("def ") || text.starts_with("async def ") {
            return None;
        }
        if let Some(lock) = lock_of(line).filter(|_| text.starts_with("with ")) {
            return Some(lock);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signature::Hang;
    use fault::Death;
    use std::time::Duration;

    const SOURCE: &str = "\
class Board:
    def record(self):
        with self.lock:
            self.rows.append(1)

    def publish(self):
        with self.lock:

            model = self.shared.snapshot()

def train():
    with shared.lock:
        board.record()

def snapshot():
    with shared.lock:
        return 1

def again():
    with shared.lock:
        snapshot()

def waits():
    return queue.get()
";

    fn told(stacks: &[&[(usize, &str)]]) -> Option<String> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.py");
        fs::write(&file, SOURCE).unwrap();
        let frame = |(line, name): &(usize, &str)| {
            format!("  File \"{}\", line {line} in {name}\n", file.display())
        };
        let stack = |frames: &&[(usize, &str)]| {
            let frames: String = frames.iter().map(frame).collect();
            format!("Thread 0x7 (most recent call first):\n{frames}\n")
        };
        let end = RunEnd {
            death: Death::Signaled(15),
            hang: Some(Hang::Still(Duration::from_secs(9))),
            oom_kills: 0,
            output: stacks.iter().map(stack).collect(),
        };
        let told = crossed(&end)?;
        Some(told.replace(&format!("{}/", dir.path().display()), ""))
    }

    #[test]
    fn two_threads_that_hold_what_the_other_one_waits_for_are_told() {
        let main: &[_] = &[(3, "record"), (13, "train")];
        let other: &[_] = &[(16, "snapshot"), (9, "publish")];
        assert_eq!(
            told(&[main, other]).unwrap(),
            "a thread holds shared.lock (a.py:13 in train) and waits for self.lock at a.py:3 in record; \
             another holds self.lock (a.py:9 in publish) and waits for shared.lock at a.py:16 in snapshot"
        );
        assert_eq!(told(&[main, &[(24, "waits")]]), None);
        assert_eq!(lock_of("with clock(\"feed\"), ensemble:"), None);
        assert_eq!(
            lock_of("self._lock.acquire()").as_deref(),
            Some("self._lock")
        );
        assert_eq!(
            told(&[&[(3, "record")], &[(16, "snapshot")]]),
            None,
            "none holds one"
        );
        assert_eq!(
            told(&[&[(16, "snapshot"), (21, "again")]]).unwrap(),
            "a thread holds shared.lock (a.py:21 in again) and waits for \
             shared.lock at a.py:16 in snapshot"
        );
    }
}
