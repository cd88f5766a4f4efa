//! One run of a command: in a process group of its own, watched, and ended with all that it has started.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::signature::{Hang, RunEnd};
use crate::{crossed_locks, ctypes, mapped, pipes};
use fault::Death;
use process::child::{self, ChildState, GroupLeader};
use process::evidence::oom_kills;
use process::host::{self, Family};
use process::orphans::{ProcessMark, VARIABLE};

/// How much of a run's output is kept, in bytes, of its end.
const TAIL: usize = 64 * 1024;

/// Between two looks at a run.
const LOOK: Duration = Duration::from_millis(50);

/// Between two measurements of its memory.
const SAMPLE: Duration = Duration::from_millis(250);

/// Processor time between two samples that is work, in ticks of 10 ms: a timer or a poll now and then is none.
const BUSY_TICKS: u64 = 3;

/// What it is given to print its stacks, and after that to end, once it is asked to.
const GRACE: Duration = Duration::from_secs(2);

/// Variables of the environment that differ from this process's: `None` removes one.
pub type Environment = BTreeMap<String, Option<String>>;

/// What is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// What differs in its environment.
    pub environment: Environment,
    /// Nothing of this process's environment is inherited but these.
    pub only: Option<BTreeSet<String>>,
    /// The working directory, where it is another one than this process's.
    pub folder: Option<PathBuf>,
}

/// When a run is ended, and how that counts.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// It stands still if it neither prints nor uses the processor for so long.
    pub idle: Duration,
    /// It is in an endless loop if it neither prints nor takes a batch for so long, although it uses the processor.
    pub loops: Option<Duration>,
    /// It hangs if it takes so long.
    pub deadline: Option<Duration>,
    /// Whoever has run for so long has survived.
    pub survived: Option<Duration>,
    /// It has used at least so much processor time by then, in ticks, or three times as long has gone by: on a busy
    /// machine it may not have come as far as the failing runs did.
    pub work: u64,
    /// So is the least number of batches that it has taken from its loader by then: what starts for longer than it ran, as
    /// loaders whose processes are spawned may, has not come as far either.
    pub taken: u64,
    /// Its batches are smaller than those of the runs that failed: one that is not as far by then says nothing.
    pub smaller: bool,
    /// And so much that it has printed, in bytes, where nothing counts batches.
    pub printed: u64,
    /// Whoever has taken so many batches from its loader has survived.
    pub batches: Option<u64>,
    /// The budget ends here: the run says nothing.
    pub until: Instant,
}

impl Limits {
    /// Whether a run of this age hangs, and how. `still`: since it last printed anything or used the processor; `silent`:
    /// since it last printed anything or took a batch.
    fn hang(&self, age: Duration, still: Duration, silent: Duration) -> Option<Hang> {
        let late = self.deadline.is_some_and(|deadline| age >= deadline);
        if still >= self.idle {
            Some(Hang::Still(still))
        } else if self.loops.is_some_and(|most| silent >= most) || late && silent >= age / 2 {
            Some(Hang::Loops(silent))
        } else {
            late.then_some(Hang::Late(age))
        }
    }
}

/// Why a run was ended from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// It had outlived the failure.
    Survived,
    /// It was not as far as the failing runs by the time at which that should have been.
    Behind,
    /// It hung.
    Hung(Hang),
    /// The budget was used up, or a signal came.
    Budget,
}

/// What is known of a run.
#[derive(Debug, Clone)]
pub struct RunReport {
    /// How it ended.
    pub end: RunEnd,
    /// Why it was ended from here, where it was.
    pub stop: Option<Stop>,
    /// Wall time.
    pub time: Duration,
    /// Processor time, in ticks, as far as it was seen.
    pub ticks: u64,
    /// Bytes that it had printed before it said why it ended.
    pub printed: u64,
    /// What else was seen of it from outside.
    pub outside: Outside,
    /// Memory of it and all that it had started, in bytes, four times a second.
    pub memory: Vec<u64>,
    /// The first of these that was taken once the program had taken a batch.
    pub training_from: Option<usize>,
}

/// What is seen of a run from outside, whatever the program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outside {
    /// A program that it has started and that waited in vain for somebody to read what it prints, in words.
    pub unread: Option<String>,
    /// A file that it had mapped into memory, and that was shorter when it ended by SIGBUS, in words.
    pub cut: Option<String>,
    /// The line of Python at which native code has ended it, where that calls a function by `ctypes` and nothing says what it
    /// takes.
    pub untyped_call: Option<String>,
    /// Threads that hold what others wait for, where it stood still, in words.
    pub crossed_locks: Option<String>,
    /// A limit of processor time that it had used up when it was killed, in words.
    pub processor_time: Option<String>,
}

/// Runs it to its end. `dir` is where its notes come ([`crate::notes`]); `stopped` says whether a signal came.
///
/// # Errors
/// The program cannot be started.
pub fn run(
    invocation: &Invocation,
    limits: &Limits,
    dir: &Path,
    stopped: &dyn Fn() -> bool,
) -> io::Result<RunReport> {
    let mark = mark_of(dir)?;
    let kills = oom_kills();
    let started = Instant::now();
    let (child, output) = start(invocation, &mark)?;
    let leader = GroupLeader::new(&child);
    let mut watch = Watch {
        leader: &leader,
        output: &output,
        dir,
        started,
        memory: Vec::new(),
        training_from: None,
        sampled: None,
        active: started,
        went_on: started,
        batches: 0,
        printed: 0,
        ticks: 0,
        most_ticks: 0,
        unread: None,
        mapped: BTreeMap::new(),
        limited: None,
    };
    let stop = watch.until_end(limits, stopped);
    let (memory, training_from, ticks) = (watch.memory, watch.training_from, watch.most_ticks);
    let (unread, mapped, limited) = (watch.unread, watch.mapped, watch.limited);
    let (end, _) = leader.end(Some(mark));
    let time = started.elapsed();
    // What its last processes have printed is in the pipe by now.
    thread::sleep(Duration::from_millis(10));
    let output = output.lock().unwrap_or_else(PoisonError::into_inner);
    let text = output.text();
    let printed = output.seen.saturating_sub(last_words(&text));
    let end = RunEnd {
        death: match stop {
            Some(Stop::Survived) => Death::Exited(0),
            Some(Stop::Behind | Stop::Hung(_) | Stop::Budget) | None => end.death,
        },
        hang: match stop {
            Some(Stop::Hung(hang)) => Some(hang),
            Some(Stop::Survived | Stop::Behind | Stop::Budget) | None => None,
        },
        oom_kills: oom_kills().saturating_sub(kills),
        output: text,
    };
    Ok(RunReport {
        outside: Outside {
            unread,
            cut: cut_under(&end, &mapped, dir),
            untyped_call: ctypes::untyped_call(&end),
            crossed_locks: crossed_locks::crossed(&end),
            processor_time: used_up(&end, limited),
        },
        end,
        stop,
        time,
        ticks,
        printed,
        memory,
        training_from,
    })
}

/// Of a run that SIGBUS has ended, a mapped file that is shorter now: of those that were seen, or that it has noted itself.
fn cut_under(end: &RunEnd, mapped: &BTreeMap<PathBuf, u64>, dir: &Path) -> Option<String> {
    end.signal().filter(|signal| *signal == libc::SIGBUS)?;
    mapped::cut(mapped).or_else(|| mapped::cut(&crate::notes::read(dir).mapped))
}

/// Of a run that was killed, the limit of processor time that it had used up, if it had one.
fn used_up(end: &RunEnd, limited: Option<(u64, u64)>) -> Option<String> {
    let killed = [libc::SIGKILL, libc::SIGXCPU];
    end.signal().filter(|signal| killed.contains(signal))?;
    let (used, limit) = limited?;
    // It has gone on after the last sample.
    (used + 1 >= limit).then_some(())?;
    Some(format!(
        "{limit} s, of which it had used {used} s at the last look"
    ))
}

/// How much of an output tells of its program's end, in bytes.
fn last_words(text: &str) -> u64 {
    let begins = ["Traceback (most recent call last)", "Fatal Python error"].map(|w| text.rfind(w));
    let from = begins.into_iter().flatten().min();
    from.map_or(0, |from| (text.len() - from) as u64)
}

/// Starts it as the leader of a group, and gathers the end of what it prints.
fn start(invocation: &Invocation, mark: &ProcessMark) -> io::Result<(Child, Arc<Mutex<Tail>>)> {
    let mut command = command(invocation)?;
    let inherited = std::env::var(VARIABLE).ok();
    command.env(VARIABLE, mark.variable(inherited.as_deref()));
    let (mut reader, writer) = io::pipe()?;
    command
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer);
    // SAFETY: nothing is called between fork and exec.
    unsafe { child::lead_group(&mut command, Signal::SIGKILL, || Ok(())) };
    let child = command.spawn()?;
    // The command holds the other end of the pipe: its end would never be seen.
    drop(command);
    let output = Arc::new(Mutex::new(Tail::default()));
    let kept = Arc::clone(&output);
    thread::spawn(move || {
        let mut buffer = vec![0; 16 * 1024];
        while let Ok(length @ 1..) = reader.read(&mut buffer) {
            let mut tail = kept.lock().unwrap_or_else(PoisonError::into_inner);
            tail.add(&buffer[..length]);
        }
    });
    Ok((child, output))
}

/// What a run starts is known by the directory of its notes, which is this run's own.
fn mark_of(dir: &Path) -> io::Result<ProcessMark> {
    use std::os::unix::fs::MetadataExt;
    let meta = std::fs::metadata(dir)?;
    Ok(ProcessMark::study((meta.dev(), meta.ino())))
}

fn command(invocation: &Invocation) -> io::Result<Command> {
    let (program, arguments) = invocation
        .words
        .split_first()
        .ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command.args(arguments);
    if let Some(folder) = &invocation.folder {
        command.current_dir(folder);
    }
    if let Some(only) = &invocation.only {
        command.env_clear();
        command.envs(
            std::env::vars_os()
                .filter(|(name, _)| name.to_str().is_some_and(|name| only.contains(name))),
        );
    }
    for (name, value) in &invocation.environment {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    Ok(command)
}

/// The last of an output.
#[derive(Debug, Default)]
struct Tail {
    bytes: Vec<u8>,
    seen: u64,
}

impl Tail {
    fn add(&mut self, bytes: &[u8]) {
        self.seen += bytes.len() as u64;
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() > 2 * TAIL {
            self.bytes.drain(..self.bytes.len() - TAIL);
        }
    }

    fn text(&self) -> String {
        let from = self.bytes.len().saturating_sub(TAIL);
        String::from_utf8_lossy(&self.bytes[from..]).into_owned()
    }
}

struct Watch<'a> {
    leader: &'a GroupLeader,
    output: &'a Mutex<Tail>,
    dir: &'a Path,
    started: Instant,
    memory: Vec<u64>,
    training_from: Option<usize>,
    sampled: Option<Instant>,
    /// When it last did something.
    active: Instant,
    /// When it last printed something or took a batch.
    went_on: Instant,
    /// Batches that it had taken by the last sample.
    batches: u64,
    /// Bytes that it had printed by the last sample.
    printed: u64,
    /// Processor time that it had used by the last sample, in ticks.
    ticks: u64,
    /// The most that it was: of children that have ended nothing is counted.
    most_ticks: u64,
    /// As in [`Outside`].
    unread: Option<String>,
    /// Files that it has mapped by the samples so far ([`mapped`]).
    mapped: BTreeMap<PathBuf, u64>,
    /// Seconds of processor time that its first process had used, and that this might use, by the last sample.
    limited: Option<(u64, u64)>,
}

impl Watch<'_> {
    /// Waits for its end, or ends it for a reason.
    fn until_end(&mut self, limits: &Limits, stopped: &dyn Fn() -> bool) -> Option<Stop> {
        loop {
            if self.leader.look() == ChildState::Ended {
                return None;
            }
            let now = Instant::now();
            if self.sampled.is_none_or(|at| now - at >= SAMPLE) {
                self.sampled = Some(now);
                self.sample(now);
            }
            let stop = if stopped() || now >= limits.until {
                Some(Stop::Budget)
            } else if limits
                .batches
                .is_some_and(|n| crate::notes::batches(self.dir) >= n)
            {
                Some(Stop::Survived)
            } else if let Some(outlived) = self.outlived(now, limits) {
                Some(outlived)
            } else {
                let age = now - self.started;
                let hang = limits.hang(age, now - self.active, now - self.went_on);
                hang.map(Stop::Hung)
            };
            if let Some(stop) = stop {
                self.terminate(stop);
                return Some(stop);
            }
            thread::sleep(LOOK);
        }
    }

    /// Whether it has run for so long that it would have failed.
    fn outlived(&self, now: Instant, limits: &Limits) -> Option<Stop> {
        let age = now - self.started;
        let after = limits.survived.filter(|after| age >= *after)?;
        let taken = crate::notes::batches(self.dir);
        let went_on = match limits.taken {
            0 => self.printed >= limits.printed,
            wanted => taken >= wanted,
        };
        let as_far = self.most_ticks >= limits.work && went_on;
        let late = age >= after * 3;
        // By then it will not be as far either.
        let slow = late || taken * 3 < limits.taken;
        if limits.smaller && limits.taken > 0 && !went_on && slow {
            return Some(Stop::Behind);
        }
        (as_far || late).then_some(Stop::Survived)
    }

    fn sample(&mut self, now: Instant) {
        let pid = self.leader.pid();
        let trains = || {
            let marks = [crate::notes::BATCH, crate::notes::STEP];
            marks.iter().any(|mark| self.dir.join(mark).exists())
        };
        if self.training_from.is_none() && trains() {
            self.training_from = Some(self.memory.len());
        }
        let family = Family::of(pid);
        if !family.pids.is_empty() {
            self.memory.push(family.memory);
        }
        let printed = self
            .output
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .seen;
        let batches = crate::notes::batches(self.dir);
        if printed != self.printed || batches != self.batches {
            self.went_on = now;
        }
        self.batches = batches;
        let busy = family.wants || family.ticks >= self.ticks + BUSY_TICKS;
        if printed != self.printed || busy {
            self.active = now;
        }
        mapped::add_mapped(&mut self.mapped, &family.pids);
        self.limited = host::limited_time(pid).or(self.limited);
        (self.printed, self.ticks) = (printed, family.ticks);
        self.most_ticks = self.most_ticks.max(family.ticks);
    }

    /// Has it print its stacks where it stands still, then end.
    fn terminate(&mut self, stop: Stop) {
        if matches!(stop, Stop::Hung(Hang::Still(_))) {
            self.unread = pipes::unread(&Family::of(self.leader.pid()).pids);
        }
        if matches!(stop, Stop::Hung(_)) && self.dir.join(crate::notes::STACKS).exists() {
            self.leader.signal(Signal::SIGUSR2);
            self.wait(GRACE / 2);
        }
        self.leader.signal(Signal::SIGTERM);
        self.leader.signal(Signal::SIGCONT);
        self.wait(GRACE);
    }

    fn wait(&self, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until && self.leader.look() != ChildState::Ended {
            thread::sleep(LOOK);
        }
    }
}

/// A directory for the notes of one run, below `base`.
///
/// # Errors
/// What the system says.
pub fn fresh_dir(base: &Path, number: usize) -> io::Result<PathBuf> {
    let dir = base.join(format!("run-{number}"));
    std::fs::create_dir(&dir)?;
    Ok(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_says_of_its_end_is_no_progress() {
        assert_eq!(last_words("step 1\nstep 2\n"), 0);
        let traced = "Traceback (most recent call last):\nKeyError: 1\n";
        assert_eq!(
            last_words(&format!("step 1\n{traced}")),
            traced.len() as u64
        );
    }

    #[test]
    fn a_hang_is_told_by_what_a_run_still_does() {
        let seconds = Duration::from_secs;
        let mut limits = Limits {
            idle: seconds(30),
            loops: Some(seconds(100)),
            deadline: Some(seconds(200)),
            survived: None,
            work: 0,
            smaller: false,
            taken: 0,
            printed: 0,
            batches: None,
            until: Instant::now(),
        };
        let hang = |limits: &Limits, age, still, silent| {
            limits.hang(seconds(age), seconds(still), seconds(silent))
        };
        assert_eq!(hang(&limits, 150, 2, 90), None);
        assert_eq!(hang(&limits, 150, 30, 120), Some(Hang::Still(seconds(30))));
        assert_eq!(hang(&limits, 150, 2, 120), Some(Hang::Loops(seconds(120))));
        assert_eq!(hang(&limits, 200, 2, 5), Some(Hang::Late(seconds(200))));
        limits.loops = None;
        assert_eq!(hang(&limits, 150, 2, 120), None);
        assert_eq!(hang(&limits, 200, 2, 120), Some(Hang::Loops(seconds(120))));
    }
}
