//! Carries out the differential matrix: runs the command, reads what it left, and asks what is next.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::change::{Change, Host, Rows, Setting, invocation, options};
use crate::matrix::{Matrix, Series, Step};
use crate::notes::{self, Notes};
use crate::run::{Limits, RunReport, Stop, fresh_dir, run};
use crate::signature::Signature;
use crate::signs::{HostFacts, signs};

/// A command that neither prints nor computes for so long stands still, unless a deadline says less.
const IDLE: Duration = Duration::from_secs(30);

/// With a deadline it stands still after this part of it, as a divisor.
const STILL_SHARE: u32 = 3;

/// The longest run of a command that was not yet seen to fail, unless a deadline says otherwise.
const LONGEST: Duration = Duration::from_secs(600);

/// Who has run for so many times as long as a failing run took has survived.
const OUTLIVES: u32 = 3;

/// A whole pass is waited for up to so many times that many batches.
const PASS_SHARE: u64 = 4;

/// And at least for so long beyond it.
const AT_LEAST: Duration = Duration::from_secs(5);

/// How much of the budget the command as it is may take, as a divisor.
const BASE_SHARE: u32 = 2;

/// Most variables or options that are left out one by one.
const MOST_PARTS: usize = 40;

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
    /// The end of the first failing run's output.
    pub output: String,
    /// Why it ended before everything was run.
    pub cut_short: Option<CutShort>,
    /// Runs in all.
    pub runs: usize,
    /// Wall time.
    pub time: Duration,
}

/// Why an examination ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutShort {
    /// The budget is used up.
    Budget,
    /// A signal came.
    Signal,
}

struct Examiner<'a> {
    request: &'a Request,
    module: PathBuf,
    matrix: Matrix,
    failing: Vec<RunReport>,
    /// The longest failing run of the command as it is.
    slowest: Option<Duration>,
    /// Most batches that one of them had taken.
    batches: Option<u64>,
    began: Instant,
    until: Instant,
    runs: usize,
    cut_short: Option<CutShort>,
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
            ..Matrix::default()
        },
        failing: Vec::new(),
        slowest: None,
        batches: None,
        began,
        until: began + request.budget,
        runs: 0,
        cut_short: None,
        heard,
        stopped,
    };
    examiner.play()?;
    let known = examiner.matrix.base.runs.failed > 0 && examiner.cut_short.is_none();
    let (mut rows, mut left_out, mut variables) = (None, Vec::new(), Vec::new());
    if known {
        rows = examiner.locate_rows()?;
        variables = examiner.locate_variables()?;
        left_out = examiner.locate_options()?;
        examiner.play()?;
        if let Some(pair) = examiner.matrix.best_pair() {
            examiner.repeat(&pair)?;
        }
    }
    Ok(Examined {
        rows,
        options: left_out,
        variables,
        output: examiner
            .failing
            .first()
            .map_or_else(String::new, |r| r.end.output.clone()),
        cut_short: examiner.cut_short,
        runs: examiner.runs,
        time: examiner.began.elapsed(),
        matrix: examiner.matrix,
    })
}

impl Examiner<'_> {
    /// Runs what tells most until nothing is left or the budget is used up.
    fn play(&mut self) -> io::Result<()> {
        while let Some(step) = self.matrix.next() {
            let base_budget = self.began + self.request.budget / BASE_SHARE;
            let base = step == Step::Base && self.matrix.base.runs.failed == 0;
            if base && self.matrix.base.runs.all > 0 && Instant::now() >= base_budget {
                self.cut_short = Some(CutShort::Budget);
            }
            if self.is_over() {
                return Ok(());
            }
            match step {
                Step::Base => self.run_base()?,
                Step::Trace => self.run_traced()?,
                Step::Under(settings) => self.run_under(&settings)?,
            }
            self.matrix.weigh();
        }
        Ok(())
    }

    fn is_over(&mut self) -> bool {
        if (self.stopped)() {
            self.cut_short = Some(CutShort::Signal);
        } else if Instant::now() >= self.until {
            self.cut_short = Some(CutShort::Budget);
        }
        self.cut_short.is_some()
    }

    /// One run under these settings and those that always hold.
    fn once(
        &mut self,
        settings: &BTreeSet<Setting>,
        rows: Option<&Rows>,
        repeat: u32,
    ) -> io::Result<Seen> {
        self.runs += 1;
        let dir = fresh_dir(&self.request.dir, self.runs)?;
        let all: BTreeSet<Setting> = self.request.fixed.union(settings).cloned().collect();
        let mut invocation = invocation(&self.request.words, &all, &self.module, &dir, repeat);
        if let Some(rows) = rows {
            let list: Vec<String> = rows.rows.iter().map(u64::to_string).collect();
            let value = format!("{}:{}", rows.loader, list.join(","));
            invocation
                .environment
                .insert("TUNE_DOCTOR_ROWS".into(), Some(value));
        }
        let limits = self.limits(settings);
        let report = run(&invocation, &limits, &dir, self.stopped)?;
        let failure = match report.stop {
            Some(Stop::Survived | Stop::Budget) => None,
            Some(Stop::Idle) | None => Signature::of(&report.end),
        };
        let notes = notes::read(&dir);
        let mut what: Vec<String> = settings.iter().map(Setting::what).collect();
        what.extend(rows.map(|r| match r.rows.as_slice() {
            [row] => format!("row {row} alone"),
            rows => format!("{} rows alone", rows.len()),
        }));
        let ended = RunEnded {
            number: self.runs,
            what: what.join(" and "),
            failure: failure.clone(),
            stop: report.stop,
            time: report.time,
        };
        (self.heard)(&ended);
        Ok(Seen {
            report,
            notes,
            failure,
        })
    }

    /// When a run ends that does not end by itself.
    fn limits(&self, settings: &BTreeSet<Setting>) -> Limits {
        let slower = settings.iter().map(Setting::slowdown).fold(1.0, f64::max);
        let has = |change: Change| settings.contains(&Setting::Change(change));
        // Smaller batches are more of them.
        let smaller = match (has(Change::OneRow), has(Change::HalfBatch)) {
            (true, _) => self.matrix.notes.batch_size().max(1),
            (false, true) => 2,
            (false, false) => 1,
        };
        // Another order of the rows may come to the same row at the end of a pass.
        let pass = self.matrix.notes.pass() + 1;
        let enough = |taken: u64| {
            let longer = taken * u64::from(OUTLIVES) + 2;
            longer.max(pass.min(longer * PASS_SHARE)) * smaller
        };
        let deadline = self.request.deadline;
        let idle = deadline.map_or(IDLE, |deadline| IDLE.min(deadline / STILL_SHARE));
        let hangs = self.matrix.failures.iter().any(Signature::is_hang);
        let survived = self.slowest.map(|slowest| {
            let time = (slowest * OUTLIVES).max(slowest + AT_LEAST).mul_f64(slower);
            // A standstill has to be seen before it counts as going on.
            if hangs { time + idle * 2 } else { time }
        });
        Limits {
            idle,
            deadline: match survived {
                Some(_) => None,
                None => Some(deadline.unwrap_or(LONGEST)),
            },
            survived,
            batches: self.batches.map(enough),
            until: self.until,
        }
    }

    fn run_base(&mut self) -> io::Result<()> {
        let seen = self.once(&BTreeSet::new(), None, 0)?;
        if seen.report.stop == Some(Stop::Budget) {
            return Ok(());
        }
        self.matrix.base.runs.add(seen.failure.is_some());
        match seen.failure {
            Some(failure) => self.failed(failure, seen.report, seen.notes),
            None if self.matrix.failures.is_empty() => self.matrix.notes = seen.notes,
            None => {}
        }
        Ok(())
    }

    /// Takes in a failing run of the command as it is.
    fn failed(&mut self, failure: Signature, report: RunReport, notes: Notes) {
        // A standstill has lasted as long as it was watched.
        let idle = report
            .end
            .idle
            .map_or(Duration::ZERO, |_| self.limits(&BTreeSet::new()).idle);
        let time = report.time.saturating_sub(idle);
        self.slowest = Some(self.slowest.map_or(time, |s| s.max(time)));
        let batch = notes.batch.as_ref().map(|b| b.taken);
        self.batches = batch.max(self.batches);
        if !self.matrix.is_it(&failure) {
            self.matrix.failures.push(failure);
        }
        let traced = self.matrix.notes.operation.take();
        let module = self.matrix.notes.not_finite.take();
        self.matrix.notes = Notes {
            operation: notes.operation.clone().or(traced),
            not_finite: notes.not_finite.clone().or(module),
            ..notes
        };
        self.failing.push(report);
        self.see();
    }

    /// Reads the signs of all that has failed so far.
    fn see(&mut self) {
        let flaky = self.matrix.base.runs.clean() > 0;
        let Some(failure) = self.matrix.failures.first() else {
            return;
        };
        let runs: Vec<&RunReport> = self.failing.iter().collect();
        let facts = self.request.facts;
        self.matrix.evidence.signs = signs(failure, &runs, flaky, &self.matrix.notes, facts);
    }

    fn run_traced(&mut self) -> io::Result<()> {
        self.matrix.traced = true;
        let trace = BTreeSet::from([Setting::Trace]);
        let seen = self.once(&trace, None, 0)?;
        if seen.failure.is_some() {
            self.matrix.notes.operation = seen.notes.operation;
            self.matrix.notes.not_finite = seen.notes.not_finite;
            self.see();
        }
        Ok(())
    }

    fn run_under(&mut self, settings: &BTreeSet<Setting>) -> io::Result<()> {
        let at = self.matrix.series.iter().position(|(s, _)| s == settings);
        let repeat = at.map_or(0, |at| self.matrix.series[at].1.runs.all);
        let seen = self.once(settings, None, repeat)?;
        let at = at.unwrap_or_else(|| {
            self.matrix
                .series
                .push((settings.clone(), Series::default()));
            self.matrix.series.len() - 1
        });
        if seen.report.stop == Some(Stop::Budget) {
            return Ok(());
        }
        let it = seen.failure.as_ref().is_some_and(|f| self.matrix.is_it(f));
        let named = |s: &Setting| matches!(s, Setting::Change(c) if seen.notes.changed.contains(&c.to_string()));
        let series = &mut self.matrix.series[at].1;
        series.applied |= settings.iter().any(named);
        match seen.failure {
            Some(other) if !it => series.other = Some(other),
            Some(_) | None => series.runs.add(it),
        }
        Ok(())
    }

    /// Runs settings until it is known whether they end the failure; says whether they do.
    fn repeat(&mut self, settings: &BTreeSet<Setting>) -> io::Result<bool> {
        loop {
            let known = self.matrix.series.iter().find(|(s, _)| s == settings);
            if let Some((settings, series)) = known {
                let open = series.runs.failed == 0 && series.other.is_none();
                let needed = self.matrix.needed().unwrap_or(u32::MAX);
                if !open || series.runs.all >= needed {
                    use crate::matrix::Verdict;
                    let verdict = self.matrix.verdict(settings, series);
                    return Ok(verdict == Verdict::Cleared);
                }
            }
            if self.is_over() {
                return Ok(false);
            }
            self.run_under(settings)?;
            self.matrix.weigh();
        }
    }

    /// Whether it fails with these rows alone, in as many runs as would show that it does not.
    fn fails_with(&mut self, rows: &Rows) -> io::Result<bool> {
        let workers = Setting::Change(Change::Workers0);
        let own =
            self.matrix.notes.loader_workers() > 0 && !self.matrix.workarounds().contains(&workers);
        let settings: BTreeSet<Setting> = own.then_some(workers).into_iter().collect();
        for repeat in 0..self.matrix.needed().unwrap_or(0) {
            if self.is_over() {
                return Ok(false);
            }
            let seen = self.once(&settings, Some(rows), repeat)?;
            if seen.failure.is_some_and(|f| self.matrix.is_it(&f)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The smallest part of the last batch that makes the program fail alone.
    fn locate_rows(&mut self) -> io::Result<Option<Rows>> {
        use crate::signs::Sign;
        let data = [
            Sign::NotFiniteRows,
            Sign::RowFrames,
            Sign::LabelText,
            Sign::IndexText,
        ];
        let signs = data.iter().any(|s| self.matrix.evidence.signs.contains(s));
        let synthetic = self
            .matrix
            .workarounds()
            .contains(&Setting::Change(Change::Synthetic));
        let Some(batch) = self
            .matrix
            .notes
            .batch
            .clone()
            .filter(|_| signs || synthetic)
        else {
            return Ok(None);
        };
        let Some(all) = batch.rows.filter(|rows| !rows.is_empty()) else {
            return Ok(None);
        };
        let of = |rows: Vec<u64>| Rows {
            loader: batch.loader,
            rows,
        };
        let named = self.matrix.notes.rows_not_finite();
        let mut left = match named.is_empty() {
            true => all.clone(),
            false => named,
        };
        if !self.fails_with(&of(left.clone()))? {
            return Ok(None);
        }
        while left.len() > 1 {
            let second = left.split_off(left.len() / 2);
            if self.fails_with(&of(left.clone()))? {
                continue;
            }
            if !self.fails_with(&of(second.clone()))? {
                // Rows of both halves are needed.
                left.extend(second);
                break;
            }
            left = second;
        }
        // Where the others fail, too, it is not the rows.
        let others: Vec<u64> = all
            .iter()
            .copied()
            .filter(|row| !left.contains(row))
            .collect();
        if !others.is_empty() && self.fails_with(&of(others))? {
            return Ok(None);
        }
        self.matrix.evidence.row = left.len() == 1;
        Ok(Some(of(left)))
    }

    /// The variable without which it does not fail, where a clean environment ends it.
    fn locate_variables(&mut self) -> io::Result<Vec<String>> {
        let clean = Setting::Change(Change::CleanEnvironment);
        if !self.matrix.workarounds().contains(&clean) {
            return Ok(Vec::new());
        }
        let names = self.request.host.uncommon();
        let parts = names
            .iter()
            .map(|n| Setting::WithoutVariable(n.clone()))
            .collect();
        let found = self.smallest(parts)?;
        self.matrix.evidence.variable = !found.is_empty();
        Ok(found.iter().map(Setting::part).collect())
    }

    /// The options without which it does not fail, where nothing else explains it.
    fn locate_options(&mut self) -> io::Result<Vec<String>> {
        let names = match self.request.options {
            true => options(&self.request.words),
            false => Vec::new(),
        };
        let explained = !self.matrix.workarounds().is_empty();
        if names.is_empty() || names.len() > MOST_PARTS || explained {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        for name in names {
            let alone = BTreeSet::from([Setting::WithoutOption(name.clone())]);
            if self.repeat(&alone)? {
                found.push(name);
            }
        }
        self.matrix.evidence.options = !found.is_empty();
        Ok(found)
    }

    /// Of settings that end the failure together, one that does alone; all of them where none does.
    fn smallest(&mut self, mut parts: Vec<Setting>) -> io::Result<Vec<Setting>> {
        while parts.len() > 1 {
            let second = parts.split_off(parts.len() / 2);
            if self.repeat(&parts.iter().cloned().collect())? {
                continue;
            }
            if !self.repeat(&second.iter().cloned().collect())? {
                parts.extend(second);
                return Ok(parts);
            }
            parts = second;
        }
        Ok(parts)
    }
}
