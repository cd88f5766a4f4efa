//! The fire drill: faults made on purpose on the user's own machine, through the real binary, and
//! what became of them. First a study whose trials are hit by every kind of fault that is possible
//! there, compared with the same study left in peace; then what cannot be made from inside a
//! worker: deaths of the supervisor, full and damaged disks, foreign locks.
//!
//! Everything happens in a temporary directory. The judging (`judge`, `expect`) is pure.

mod directory;
mod expect;
mod judge;
mod measure;
mod storage;
mod study;
mod supervisor;

pub use directory::SYNTHETIC;
pub use judge::Row;
pub use measure::Times;

use std::path::PathBuf;

use directory::{DrillDirectory, Ended};
use inject::{Form, Here, Kind, Plan};
use messages::exit::Failure;

/// What a drill is asked for.
#[derive(Debug, Clone)]
pub struct Drill {
    /// The task's configuration; `None`: the synthetic task that `tune` brings along.
    pub task: Option<PathBuf>,
    /// The faults; `None`: each that is possible here.
    pub plan: Option<Plan>,
    /// How often each of them, where `plan` does not say.
    pub count: u32,
    /// Decides which trials and which moments.
    pub seed: u64,
    /// Slots of the second disturbed study; below 2 there is none.
    pub parallel: usize,
    /// Arguments for every run of the task: `--device`, `--deadline`, `--set`.
    pub arguments: Vec<String>,
    /// A log is cut at this size, in bytes.
    pub max_log_bytes: u64,
    /// What is possible.
    pub here: Here,
    /// Keep the directory.
    pub keep: bool,
}

/// What a drill found.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// The faults of the study, as they were asked for.
    pub plan: String,
    /// Trials of all disturbed studies.
    pub trials: u64,
    /// One row a kind of fault.
    pub rows: Vec<Row>,
    /// What was tried beside the study.
    pub scenarios: Vec<Scenario>,
    /// What is not possible here, and why.
    pub impossible: Vec<(String, String)>,
    /// Everything that did not hold.
    pub problems: Vec<String>,
    /// Where the drill's files are, if they were kept.
    pub kept: Option<PathBuf>,
}

impl Report {
    /// Whether everything held.
    pub fn held(&self) -> bool {
        self.problems.is_empty() && self.scenarios.iter().all(|s| s.problems.is_empty())
    }
}

/// One thing that was tried.
#[derive(Debug, Clone, Default)]
pub struct Scenario {
    /// A word for it, in tables.
    pub name: &'static str,
    /// What was done.
    pub what: &'static str,
    /// How often.
    pub times: u32,
    /// What followed, for people.
    pub outcome: String,
    /// From the fault until no process was left.
    pub gone: Times,
    /// From the fault to the next finished epoch.
    pub next_step: Times,
    /// What did not hold.
    pub problems: Vec<String>,
    /// Why it was left out.
    pub skipped: Option<String>,
}

impl Scenario {
    fn new(name: &'static str, what: &'static str) -> Scenario {
        Scenario {
            name,
            what,
            ..Scenario::default()
        }
    }

    /// Notes a problem unless a run ended with this exit code.
    fn check_exit(&mut self, run: &str, ended: &Ended, code: i32) {
        let expected = match code {
            0 => String::new(),
            code => format!(", expected exit code {code}"),
        };
        self.check(ended.code() == Some(code), || {
            format!("{run} ended with {}{expected}", ended.describe())
        });
    }

    /// Notes a problem unless `held`.
    fn check(&mut self, held: bool, problem: impl FnOnce() -> String) {
        if !held {
            self.problems.push(problem());
        }
    }
}

/// Holds the drill; `progress` is told what is being done.
///
/// # Errors
/// The drill itself could not be held: no temporary directory, no process, an undisturbed run that
/// fails.
pub fn run(drill: &Drill, progress: &dyn Fn(&str)) -> Result<Report, Failure> {
    let site = DrillDirectory::new()?;
    let mut report = Report {
        impossible: impossible(drill.here),
        ..Report::default()
    };
    study::run(drill, &site, &mut report, progress)?;
    let only_study = drill.plan.is_some();
    if !only_study {
        supervisor::run(drill, &site, &mut report, progress)?;
        storage::run(drill, &site, &mut report, progress)?;
    }
    for (pid, project) in site.left() {
        report
            .problems
            .push(format!("process {pid} of {project} was left over"));
    }
    report.kept = site.close(drill.keep);
    Ok(report)
}

/// Every fault that can be had here, those that are texts only included.
fn possible(here: Here) -> Vec<Kind> {
    let kinds = Kind::ALL.iter().copied();
    kinds.filter(|k| k.possible(here).is_ok()).collect()
}

fn impossible(here: Here) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Kind::ALL
        .iter()
        .filter_map(|&kind| match kind.possible(here) {
            Ok(Form::Real) => None,
            Ok(Form::TextOnly) if kind == Kind::Cublas => None,
            Ok(Form::TextOnly) => Some((kind, "text only, no GPU")),
            Err(why) => Some((kind, why)),
        })
        .map(|(kind, why)| (kind.word().to_owned(), why.to_owned()))
        .collect();
    all.push((
        "host-oom".into(),
        "a kill by the system's OOM killer needs a memory limit on the supervisor's own group, \
         which would hit everything in it"
            .into(),
    ));
    all
}
