//! Carries out the differential matrix: runs the command, reads what it left, and asks what is next.

mod locate;

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::caught;
use crate::change::{Change, Host, Rows, Setting, invocation, told};
use crate::failed_at;
use crate::inside::{VARIABLES, operation_name};
use crate::leftovers;
use crate::lifetimes::{Bounds, Lifetimes};
use crate::machine::{Cards, Heat};
use crate::matrix::{Matrix, Series, Step, Verdict};
use crate::noted;
use crate::notes::{self, Notes};
use crate::options::options;
use crate::rank::Evidence;
use crate::run::{Outside, RunReport, Stop, fresh_dir, run};
use crate::signature::{Hang, RunEnd, Signature, sanitizer_kernel};
use crate::signs::{HostFacts, Sign, signs};
use fault::Death;

/// How much of the budget the command as it is may take, as a divisor.
const BASE_SHARE: u32 = 2;

/// What is examined, and how.
pub struct Request {
    /// The command.
    pub words: Vec<String>,
    /// Whether its options may be left out to see what becomes of it.
    pub options: bool,
    /// What holds in every run.
    pub fixed: BTreeSet<Setting>,
    /// Settings of one's own to try.
    pub own: Vec<Setting>,
    /// How long all runs may take together.
    pub budget: Duration,
    /// A run that takes longer hangs.
    pub deadline: Option<Duration>,
    /// Run every change, also those that tell nothing.
    pub all: bool,
    /// The machine.
    pub host: Host,
    /// What the machine tells of itself.
    pub facts: HostFacts,
    /// Where runs leave their notes; exists.
    pub dir: PathBuf,
}

/// A run that has ended, for who waits.
#[derive(Debug, Clone)]
pub struct RunEnded {
    /// Counts the runs, from 1.
    pub number: usize,
    /// What was changed; empty: nothing.
    pub what: String,
    /// The failure it ended with.
    pub failure: Option<Signature>,
    /// Why it was ended from here.
    pub stop: Option<Stop>,
    /// How long it took.
    pub time: Duration,
}

/// What came of it.
pub struct Examined {
    /// The runs.
    pub matrix: Matrix,
    /// The rows that alone make it fail, and their loader.
    pub rows: Option<Rows>,
    /// The smallest sets of options without which it does not fail.
    pub options: Vec<String>,
    /// Variables without which it does not fail.
    pub variables: Vec<String>,
    /// Files that earlier runs have left without which it does not fail, or their folder, from the working directory.
    pub leftovers: Vec<String>,
    /// The kernel that compute-sanitizer has named.
    pub kernel: Option<String>,
    /// What was seen of the failing runs from outside.
    pub outside: Outside,
    /// How hot the hottest card was after the first failing run.
    pub heat: Option<Heat>,
    /// The end of the first failing run's output.
    pub output: String,
    /// Why it ended before everything was run.
    pub cut_short: Option<CutShort>,
    /// Runs in all.
    pub runs: usize,
    /// Wall time.
    pub time: Duration,
}

impl Examined {
    /// The rows that alone make it fail as the whole dataset numbers them, where the loader has a part of one.
    pub fn dataset_rows(&self) -> Vec<u64> {
        let of = |rows: &Rows| -> Option<Vec<u64>> {
            let row = |row: &u64| self.matrix.notes.dataset_row(rows.loader, *row);
            rows.rows.iter().map(row).collect()
        };
        self.rows.as_ref().and_then(of).unwrap_or_default()
    }

    /// Both in words: `row 254 of loader 0, which is row 271 of the whole dataset`.
    pub fn told_rows(&self) -> Option<String> {
        const MOST: usize = 8;
        let found = self.rows.as_ref()?;
        let named = |rows: &[u64]| {
            let list: Vec<String> = rows.iter().take(MOST).map(u64::to_string).collect();
            let word = if rows.len() == 1 { "row" } else { "rows" };
            format!("{word} {}", list.join(", "))
        };
        let mut text = named(&found.rows);
        if self.matrix.notes.python {
            text += &format!(" of loader {}", found.loader);
        }
        let whole = self.dataset_rows();
        if !whole.is_empty() {
            let verb = if whole.len() == 1 { "is" } else { "are" };
            text += &format!(", which {verb} {} of the whole dataset", named(&whole));
        }
        Some(text)
    }
}

/// Why an examination ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutShort {
    /// The budget is used up.
    Budget,
    /// A signal came.
    Signal,
}

/// Why no further run is made.
enum Halt {
    /// The budget is used up, or a signal came.
    Over(CutShort),
    /// A run was not possible.
    Failed(io::Error),
}

impl From<io::Error> for Halt {
    fn from(error: io::Error) -> Halt {
        Halt::Failed(error)
    }
}

struct Examiner<'a> {
    request: &'a Request,
    module: PathBuf,
    matrix: Matrix,
    failing: Vec<RunReport>,
    /// How long its runs took.
    lifetimes: Lifetimes,
    /// The last batches of runs that failed as it is, or with other seeds: their numbers and rows.
    failed_at: Vec<(u64, BTreeSet<u64>)>,
    began: Instant,
    until: Instant,
    runs: usize,
    rows: Option<Rows>,
    /// These rows alone make it fail in the first batch, with other random numbers, too.
    at_once: bool,
    options: Vec<String>,
    variables: Vec<String>,
    leftovers: Vec<String>,
    /// Changes of many things at once of which it was looked for what in them matters.
    located: BTreeSet<Change>,
    kernel: Option<String>,
    /// The end as it would have been had the program not caught what it did.
    hidden: Option<RunEnd>,
    /// The first failure is what a loader's process had died of in the others.
    masked: bool,
    /// The cards before the first run.
    idle_cards: Option<Cards>,
    /// How hot they were after each failing run.
    heats: Vec<Option<Heat>>,
    heard: &'a mut dyn FnMut(&RunEnded),
    stopped: &'a dyn Fn() -> bool,
}

/// One run with what it left.
struct Seen {
    report: RunReport,
    notes: Notes,
    failure: Option<Signature>,
}

/// Examines a command; `heard` is called after each run, `stopped` says whether a signal came.
///
/// # Errors
/// The program cannot be started, or notes cannot be written.
pub fn examine(
    request: &Request,
    heard: &mut dyn FnMut(&RunEnded),
    stopped: &dyn Fn() -> bool,
) -> io::Result<Examined> {
    let module = request.dir.join("module");
    notes::write_module(&module)?;
    let began = Instant::now();
    let mut examiner = Examiner {
        request,
        module,
        matrix: Matrix {
            host: request.host.clone(),
            own: request.own.clone(),
            all: request.all,
            evidence: Evidence {
                without_options: options(&request.words).is_empty(),
                ..Evidence::default()
            },
            ..Matrix::default()
        },
        failing: Vec::new(),
        lifetimes: Lifetimes::default(),
        failed_at: Vec::new(),
        began,
        until: began + request.budget,
        runs: 0,
        rows: None,
        at_once: false,
        options: Vec::new(),
        variables: Vec::new(),
        leftovers: Vec::new(),
        located: BTreeSet::new(),
        kernel: None,
        hidden: None,
        masked: false,
        idle_cards: request.host.gpu.then(Cards::look).flatten(),
        heats: Vec::new(),
        heard,
        stopped,
    };
    let cut_short = match examiner.investigate() {
        Ok(()) => None,
        Err(Halt::Over(why)) => Some(why),
        Err(Halt::Failed(error)) => return Err(error),
    };
    let outside = examiner.outside();
    Ok(Examined {
        outside,
        rows: examiner.rows,
        options: examiner.options,
        variables: examiner.variables,
        leftovers: examiner.leftovers,
        kernel: examiner.kernel,
        heat: examiner.heats.into_iter().flatten().next(),
        output: examiner
            .failing
            .first()
            .map_or_else(String::new, |r| r.end.output.clone()),
        cut_short,
        runs: examiner.runs,
        time: examiner.began.elapsed(),
        matrix: examiner.matrix,
    })
}

impl Examiner<'_> {
    /// What was seen of the failing runs from outside, the first of each kind.
    fn outside(&self) -> Outside {
        let first = |of: fn(&Outside) -> &Option<String>| {
            self.failing.iter().find_map(|run| of(&run.outside).clone())
        };
        Outside {
            unread: first(|seen| &seen.unread),
            cut: first(|seen| &seen.cut),
            untyped_call: first(|seen| &seen.untyped_call),
            crossed_locks: first(|seen| &seen.crossed_locks),
            processor_time: first(|seen| &seen.processor_time),
        }
    }

    /// The matrix, then what a change that helps, or none that does, calls for.
    fn investigate(&mut self) -> Result<(), Halt> {
        self.play()?;
        if self.matrix.base.runs.failed == 0 || self.matrix.needed().is_none() {
            return Ok(());
        }
        self.locate_rows()?;
        self.locate_cleared(false)?;
        self.play()?;
        if let Some(pair) = self.matrix.best_pair() {
            self.ends(&pair)?;
        }
        Ok(())
    }

    /// Runs what tells most until nothing is left.
    fn play(&mut self) -> Result<(), Halt> {
        while let Some(step) = self.matrix.next() {
            let base = self.matrix.base.runs;
            let share = self.began + self.request.budget / BASE_SHARE;
            if step == Step::Base && base.failed == 0 && base.all > 0 && Instant::now() >= share {
                return Err(Halt::Over(CutShort::Budget));
            }
            match step {
                Step::Base => self.run_base()?,
                Step::Trace => self.run_traced(Setting::Trace)?,
                Step::Watch => self.run_traced(Setting::Watch)?,
                Step::Under(settings) => self.run_under(&settings)?,
            }
            self.matrix.weigh();
            self.locate_cleared(true)?;
        }
        Ok(())
    }

    /// Whether another run may be made.
    fn go_on(&self) -> Result<(), Halt> {
        if (self.stopped)() {
            Err(Halt::Over(CutShort::Signal))
        } else if Instant::now() >= self.until {
            Err(Halt::Over(CutShort::Budget))
        } else {
            Ok(())
        }
    }

    /// One run under these settings and those that always hold.
    fn once(
        &mut self,
        settings: &BTreeSet<Setting>,
        rows: Option<&Rows>,
        repeat: u32,
    ) -> Result<Seen, Halt> {
        self.go_on()?;
        self.runs += 1;
        let dir = fresh_dir(&self.request.dir, self.runs)?;
        let all: BTreeSet<Setting> = self.request.fixed.union(settings).cloned().collect();
        let mut invocation = invocation(&self.request.words, &all, &self.module, &dir, repeat);
        let [.., listed, named] = VARIABLES.map(str::to_owned);
        let operation = self.matrix.notes.operation.as_deref().map(operation_name);
        invocation.environment.insert(named, operation);
        if let Some(rows) = rows {
            let list: Vec<String> = rows.rows.iter().map(u64::to_string).collect();
            let value = format!("{}:{}", rows.loader, list.join(","));
            invocation.environment.insert(listed, Some(value));
        }
        let without = leftovers::left_out(&all, &self.matrix.notes.leftovers);
        if !without.is_empty() {
            let (here, copy) = (std::env::current_dir()?, dir.join("folder"));
            leftovers::copy_without(&here, &copy, &without)?;
            invocation.words = leftovers::moved(&invocation.words, &here, &copy);
            invocation.folder = Some(copy);
        }
        let as_it_is = settings.is_empty() && rows.is_none();
        let notes = &self.matrix.notes;
        let limits = (self.lifetimes).limits(settings, as_it_is, notes, self.bounds());
        let report = run(&invocation, &limits, &dir, self.stopped)?;
        if let Some(copy) = &invocation.folder {
            // Many copies of a large folder would fill the disk.
            let _ = std::fs::remove_dir_all(copy);
        }
        let failure = match report.stop {
            Some(Stop::Survived | Stop::Behind | Stop::Budget) => None,
            Some(Stop::Hung(_)) | None => Signature::of(&report.end),
        };
        let notes = notes::read(&dir);
        let alone = rows.map(|r| match r.rows.as_slice() {
            [row] => format!("row {row} alone"),
            rows => format!("{} rows alone", rows.len()),
        });
        let under = (!settings.is_empty()).then(|| told(settings));
        let what: Vec<String> = under.into_iter().chain(alone).collect();
        let ended = RunEnded {
            number: self.runs,
            what: what.join(" and "),
            failure: failure.clone(),
            stop: report.stop,
            time: report.time,
        };
        (self.heard)(&ended);
        if report.stop == Some(Stop::Budget) {
            self.go_on()?;
        }
        Ok(Seen {
            report,
            notes,
            failure,
        })
    }

    fn bounds(&self) -> Bounds {
        Bounds {
            budget: self.request.budget,
            until: self.until,
            deadline: self.request.deadline,
            hangs: self.matrix.failures.iter().any(Signature::is_hang),
        }
    }

    fn run_base(&mut self) -> Result<(), Halt> {
        let seen = self.once(&BTreeSet::new(), None, 0)?;
        self.matrix.base.runs.add(seen.failure.is_some());
        if seen.failure.is_none() {
            let ended = seen.report.stop.is_none();
            self.lifetimes.survived(seen.report.time, ended);
        }
        match seen.failure {
            Some(failure) => self.failed(failure, seen.report, seen.notes),
            None if self.matrix.failures.is_empty() => {
                let before = std::mem::take(&mut self.matrix.notes);
                self.matrix.notes = seen.notes.or_traced(before);
            }
            None => {}
        }
        Ok(())
    }

    /// Takes in a failing run of the command as it is.
    fn failed(&mut self, failure: Signature, report: RunReport, notes: Notes) {
        let stood = report.end.hang.map_or(Duration::ZERO, Hang::stood);
        let time = report.time.saturating_sub(stood);
        let taken = notes.batch.as_ref().map(|b| b.taken);
        self.lifetimes
            .failed(time, report.ticks, taken, report.printed);
        self.lifetimes.stood(stood);
        self.failed_at.extend(notes.place());
        if !self.matrix.matches(&failure) {
            self.matrix.failures.push(failure);
        }
        if self.failing.is_empty() {
            // What was traced before was no failure.
            self.matrix.traced = false;
        }
        let idle = self.idle_cards.as_ref();
        let heat = idle.and_then(|idle| Cards::look()?.heat_since(idle));
        self.heats.push(heat);
        self.matrix.notes = notes.or_traced(std::mem::take(&mut self.matrix.notes));
        self.failing.push(report);
        self.see();
    }

    /// Reads the signs of all that has failed so far.
    fn see(&mut self) {
        let flaky = self.matrix.base.runs.clean() > 0;
        let Some(failure) = self.matrix.failures.first() else {
            return;
        };
        // What a program says of a process of its loader that died, and where it was by then, is of no use.
        let tells = |run: &&RunReport| {
            let it = |f: Signature| f.same(failure);
            !self.masked || Signature::of(&run.end).is_some_and(it)
        };
        let runs = self.failing.iter().filter(tells);
        // As if the program had not caught what it did.
        let runs: Vec<RunReport> = runs
            .map(|run| RunReport {
                end: self.hidden.as_ref().unwrap_or(&run.end).clone(),
                ..run.clone()
            })
            .collect();
        let facts = self.request.facts;
        let root = self.matrix.root().unwrap_or(failure);
        let mut seen = signs(root, &runs, flaky, &self.matrix.notes, facts);
        if self
            .heats
            .iter()
            .all(|heat| heat.is_some_and(|heat| heat.is_hot()))
        {
            seen.insert(Sign::Hot);
        }
        if !self.masked && !self.at_once && failed_at::wanders(&self.failed_at) {
            seen.insert(Sign::Wanders);
        }
        if self.matrix.failures.len() > 1 + usize::from(self.masked) {
            seen.insert(Sign::Various);
        }
        self.matrix.evidence.signs = seen;
        self.matrix.weigh_caught_earlier();
    }

    /// A run that changes nothing, and notes more.
    fn run_traced(&mut self, how: Setting) -> Result<(), Halt> {
        self.matrix.traced |= how == Setting::Trace;
        let seen = self.once(&BTreeSet::from([how]), None, 0)?;
        if self.matrix.failures.is_empty() {
            self.looked_through(seen.notes);
            return Ok(());
        }
        self.matrix.was_watched(seen.failure.is_some());
        if seen.failure.is_some() {
            let taken = seen.notes.batch.as_ref().map_or(0, |batch| batch.taken);
            let end = &seen.report.end;
            let output = &end.output;
            let text = match end.hang {
                // What it waits for was to come of a thread that has ended.
                Some(_) => seen.notes.swallowed.last().map(|raised| &*raised.text),
                None => caught::hidden(&seen.notes.raised, output, taken),
            };
            self.hidden = text.map(|text| RunEnd {
                output: text.to_owned(),
                death: end.hang.map_or(end.death, |_| Death::Exited(1)),
                hang: None,
                oom_kills: end.oom_kills,
            });
            self.matrix.caught_earlier = match text {
                Some(_) => Vec::new(),
                None => caught::earlier(&seen.notes.raised, output),
            };
            self.matrix.hidden = self.hidden.as_ref().and_then(Signature::of);
            self.matrix.notes = std::mem::take(&mut self.matrix.notes).or_traced(seen.notes);
            self.see();
        }
        Ok(())
    }

    /// Takes in a traced run of a command that has not failed yet. That this one fails says nothing: it is slower, and what
    /// traces it may be in the way.
    fn looked_through(&mut self, traced: Notes) {
        let before = std::mem::take(&mut self.matrix.notes);
        self.matrix.notes = before.or_traced(traced);
        self.matrix.evidence.signs = noted::of_notes(&self.matrix.notes);
    }

    fn run_under(&mut self, settings: &BTreeSet<Setting>) -> Result<(), Halt> {
        let at = self.matrix.series.iter().position(|(s, _)| s == settings);
        let repeat = at.map_or(0, |at| self.matrix.series[at].1.runs.all);
        let seen = self.once(settings, None, repeat)?;
        let at = at.unwrap_or_else(|| {
            self.matrix
                .series
                .push((settings.clone(), Series::default()));
            self.matrix.series.len() - 1
        });
        self.kernel = self
            .kernel
            .take()
            .or_else(|| sanitizer_kernel(&seen.report.end.output));
        let crash = seen.failure.as_ref();
        if let Some(crash) = crash.filter(|f| self.matrix.unmasks(settings, f)) {
            self.unmask(crash, &seen);
        }
        let it = seen
            .failure
            .as_ref()
            .is_some_and(|f| self.matrix.matches(f));
        if it && *settings == BTreeSet::from([Setting::Change(Change::Seed)]) {
            self.failed_at.extend(seen.notes.place());
            self.see();
        }
        let named = |s: &Setting| matches!(s, Setting::Change(c) if seen.notes.changed.contains(&c.to_string()));
        let series = &mut self.matrix.series[at].1;
        series.applied |= settings.iter().any(named);
        series.behind |= seen.report.stop == Some(Stop::Behind);
        let clean = seen.failure.is_none() && !series.behind;
        match seen.failure {
            Some(other) if !it => series.other = Some(other),
            Some(_) => series.runs.add(true),
            None if clean => series.runs.add(false),
            None => {}
        }
        let (_, series) = &self.matrix.series[at];
        if (it || clean) && self.matrix.verdict(settings, series) == Verdict::NotApplied {
            // Nothing was changed: it was a run of the command as it is.
            self.matrix.base.runs.add(it);
            self.see();
        }
        Ok(())
    }

    /// Takes a crash for the failure, in the place of what the program said of its loader.
    fn unmask(&mut self, crash: &Signature, seen: &Seen) {
        self.matrix.failures.insert(0, crash.clone());
        self.masked = true;
        self.hidden = None;
        self.matrix.hidden = None;
        self.failing.push(seen.report.clone());
        self.matrix.notes.batch.clone_from(&seen.notes.batch);
        self.see();
    }
}
