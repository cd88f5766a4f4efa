//! Replays of points, within the budget, told one by one.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::told::{Found, Other};
use crate::replay::stopped_by_signals;
use config::kinds::command::RUN;
use doctor::signature::Signature;
use doctor::statistics::{Rate, runs_to_exclude};
use fault::{Fault, FaultKind, masked};
use messages::exit::{Exit, Failure};
use messages::printable;
use report::format::duration;
use search::space::Params;
use search::study::{FrozenTrial, TrialState};
use supervisor::{Bounds, Replay, ReplayEnd, replay};

/// Why no further run is made.
pub(super) enum Stop {
    /// The budget is used up.
    Budget,
    /// A signal asks to end.
    Signal,
    /// Runs are not possible.
    Failure(Failure),
}

/// How the trial failed in its study.
#[derive(Debug)]
pub(super) struct Recorded {
    fault: Option<String>,
    message: Option<String>,
}

impl Recorded {
    /// What the trial's attributes say.
    ///
    /// # Errors
    /// It did not fail, or of the time that it took.
    pub(super) fn of(trial: &FrozenTrial) -> Result<Recorded, Failure> {
        let text = |name: &str| Some(trial.user_attrs.get(name)?.as_str()?.to_owned());
        let fault = text("fault");
        let of_time = fault.as_deref() == Some(FaultKind::TimeLimit.word());
        let failed = match trial.state {
            TrialState::Fail => true,
            TrialState::Pruned => fault.is_some() && trial.counts() && !of_time,
            TrialState::Complete | TrialState::Running | TrialState::Waiting => false,
        };
        if !failed {
            let why = match of_time {
                true => " (it took longer than --trial-limit)",
                false => "",
            };
            return Err(Failure::input(format!(
                "trial {} is {}{why}: it did not fail, and there is nothing to bisect; `tune failures` \
                 names trials that failed",
                trial.number, trial.state
            )));
        }
        let message = text("error_msg").or_else(|| text("cuda_error_msg"));
        Ok(Recorded { fault, message })
    }

    /// Whether a fault is the recorded one, as far as that is on record.
    fn is(&self, fault: &Fault) -> bool {
        let kind = self
            .fault
            .as_deref()
            .is_none_or(|word| word == fault.kind.word());
        // Of the others the kind says what went wrong, and the text where it was noticed.
        let by_text = matches!(fault.kind, FaultKind::TaskError | FaultKind::Crash);
        let Some(message) = self.message.as_deref().filter(|_| by_text) else {
            return kind;
        };
        let said = beginning(message);
        kind && [&fault.text, &fault.detail]
            .iter()
            .any(|text| beginning(text) == said)
    }
}

/// What a message begins with: attributes hold 500 characters of it.
fn beginning(message: &str) -> String {
    let start: String = message.chars().take(300).collect();
    masked(&start)
}

fn place(fault: &Fault) -> Option<String> {
    let assertion = fault.place.as_ref().map(ToString::to_string);
    fault.own_line.clone().or(assertion)
}

/// Runs without the fault are told after so many of them alone that fail in another way.
const OTHERWISE: u32 = 3;

/// How a run ended, for people.
enum Ending {
    Failed,
    Survived,
    Cut,
    Other(Box<Fault>),
}

pub(super) struct Runs {
    plan: Replay,
    recorded: Recorded,
    budget: Duration,
    began: Instant,
    stop: Arc<AtomicBool>,
    loud: bool,
    count: u32,
    /// The fault, once it has come, and how long it took at most.
    fault: Option<(Fault, Signature)>,
    slowest: Option<Duration>,
    stem: PathBuf,
    /// The log of the last run that failed.
    log: Option<PathBuf>,
    /// Other faults that have come.
    pub(super) others: Vec<Other>,
}

impl Runs {
    pub(super) fn new(
        plan: Replay,
        recorded: Recorded,
        budget: Duration,
        loud: bool,
    ) -> Result<Runs, Failure> {
        Ok(Runs {
            // Two at a time do not share a log, by which processes are known.
            stem: plan.log.with_extension(std::process::id().to_string()),
            plan,
            recorded,
            budget,
            began: Instant::now(),
            stop: stopped_by_signals()?,
            loud,
            count: 0,
            fault: None,
            slowest: None,
            log: None,
            others: Vec::new(),
        })
    }

    /// Whether the trial fails in another way than it did, and not as recorded.
    pub(super) fn fails_otherwise(&self, rate: Rate) -> bool {
        let others: u32 = self.others.iter().map(|other| other.runs).sum();
        rate.failed == 0 && others >= OTHERWISE
    }

    /// Gives the program another file in the place of an argument that names one; says what stood there.
    pub(super) fn set_argument(&mut self, at: usize, word: String) -> Option<String> {
        let run = self.plan.spec.lists.get_mut(RUN)?.get_mut(at)?;
        Some(std::mem::replace(run, word))
    }

    /// Runs a point once, in a fresh process, on these of the rows that it trains on or on all: whether it fails as the
    /// trial did.
    pub(super) fn fails(
        &mut self,
        what: &str,
        params: &Params,
        rows: Option<&[usize]>,
    ) -> Result<bool, Stop> {
        let left = self.budget.saturating_sub(self.began.elapsed());
        if left.is_zero() {
            return Err(Stop::Budget);
        }
        // A run that outlives the fault by so much has survived it.
        let patience = self.slowest.map(|slowest| slowest * 3 + MARGIN);
        let plan = &mut self.plan;
        plan.bounds = Bounds {
            limit: Some(patience.map_or(left, |patience| patience.min(left))),
            stop: Some(Arc::clone(&self.stop)),
        };
        plan.trial.params = params.clone();
        plan.trial.config = plan.spec.effective(params);
        plan.trial.rows = rows.map(<[usize]>::to_vec);
        self.count += 1;
        let name = self.stem.file_name().unwrap_or_default().to_string_lossy();
        let log = format!("{name}-{}.log", self.count);
        plan.log = self.stem.with_file_name(log);
        let began = Instant::now();
        let played = replay(plan, &mut |_| {}).map_err(Stop::Failure)?;
        let took = began.elapsed();
        if self.stop.load(Ordering::Relaxed) {
            return Err(Stop::Signal);
        }
        let ending = match played.end {
            ReplayEnd::Completed => Ending::Survived,
            ReplayEnd::Fault(fault) => self.judge(*fault, took, patience)?,
        };
        self.note(what, &ending, took);
        Ok(matches!(ending, Ending::Failed))
    }

    /// Whether it fails in any of as many runs as exclude a fault of this rate.
    pub(super) fn ever_fails(
        &mut self,
        what: &str,
        params: &Params,
        rows: Option<&[usize]>,
        rate: Rate,
    ) -> Result<bool, Stop> {
        for _ in 0..runs_to_exclude(rate.estimate()) {
            if self.fails(what, params, rows)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn judge(
        &mut self,
        fault: Fault,
        took: Duration,
        patience: Option<Duration>,
    ) -> Result<Ending, Stop> {
        if fault.kind == FaultKind::TimeLimit {
            return match patience {
                Some(patience) if took >= patience => Ok(Ending::Cut),
                Some(_) | None => Err(Stop::Budget),
            };
        }
        let signature = Signature::of_fault(&fault);
        let same = match &self.fault {
            Some((_, known)) => known.same(&signature),
            None => self.recorded.is(&fault),
        };
        if same {
            self.slowest = self.slowest.max(Some(took));
            self.fault.get_or_insert((fault, signature));
            return Ok(Ending::Failed);
        }
        let exit = if fault.kind == FaultKind::OpenFailed {
            Exit::BadInput
        } else if fault.kind == FaultKind::DeviceLost {
            Exit::Device
        } else {
            return Ok(Ending::Other(Box::new(fault)));
        };
        let log = self.plan.log.display();
        let said = format!("{}: {} (see {log})", fault.kind.word(), fault.detail);
        Err(Stop::Failure(Failure::new(exit, said)))
    }

    /// Tells of a run, and keeps its log if it is the first of its fault, or the last of the one that is looked for.
    fn note(&mut self, what: &str, ending: &Ending, took: Duration) {
        let log = self.plan.log.clone();
        let (ended, dropped) = match ending {
            Ending::Failed => ("failed".to_owned(), self.log.replace(log)),
            Ending::Survived => ("survived".to_owned(), Some(log)),
            Ending::Cut => ("survived, and was ended".to_owned(), Some(log)),
            Ending::Other(fault) => {
                let known = Other::count(&mut self.others, fault);
                let said = printable(&fault.detail);
                let ended = format!("another fault ({}: {said})", fault.kind.word());
                (ended, known.then_some(log))
            }
        };
        if let Some(log) = dropped {
            // One file too many does no harm.
            let _ = std::fs::remove_file(log);
        }
        self.say(&format!(
            "run {}  {what}: {ended}, {}",
            self.count,
            duration(took)
        ));
    }

    /// Tells people.
    pub(super) fn say(&self, line: &str) {
        if self.loud {
            // A reader that has gone away does not end the runs.
            let _ = report::out(&format!("{line}\n"));
        }
    }

    /// What there is to tell of all runs.
    pub(super) fn tell(self, found: &mut Found) {
        found.runs = self.count;
        found.duration = self.began.elapsed();
        found.others = self.others;
        found.log = self.log;
        found.fault = self
            .fault
            .map(|(fault, _)| (fault.kind, fault.detail.clone(), place(&fault)));
    }
}

/// Runs are given so much longer than three times what the fault took: a machine is not always equally fast.
const MARGIN: Duration = Duration::from_secs(5);
