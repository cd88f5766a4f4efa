//! All trials of the study at a glance: counts, the best, and the streaks that trip the breaker.

use std::collections::BTreeMap;
use std::time::Duration;

use adopt::fit::adopted_params;
use messages::number_from_json;
use report::{Best, Counts};
use search::study::pareto::Front;
use search::study::{Direction, FrozenTrial, TrialState};

/// Counts over all trials, kept up to date trial by trial.
#[derive(Debug, Clone)]
pub struct StudyProgress {
    directions: Vec<Direction>,
    trials: BTreeMap<u64, (TrialState, bool)>,
    /// Trials that may be the best, should those before them be taken away.
    candidates: BTreeMap<u64, Best>,
    counts: Counts,
    /// Of one objective, the best trial alone: the earliest among equals.
    front: Front<Best>,
    failures_in_row: u64,
    /// Those of them, up to the last one, that say the same, and what they say.
    alike: (u64, String),
    /// A trial of the study has given a value, or is giving one.
    works: bool,
    /// The longest that a trial took, from the start of its last attempt.
    longest: Option<Duration>,
    refused_in_row: u64,
    waiting: u64,
    revision: u64,
}

impl StudyProgress {
    /// Of no trials; one direction an objective.
    pub fn new(directions: Vec<Direction>) -> StudyProgress {
        StudyProgress {
            front: Front::new(directions.clone()),
            directions,
            trials: BTreeMap::new(),
            candidates: BTreeMap::new(),
            counts: Counts::default(),
            failures_in_row: 0,
            alike: (0, String::new()),
            works: false,
            longest: None,
            refused_in_row: 0,
            waiting: 0,
            revision: 0,
        }
    }

    /// Notes a trial as it is now. What it is when it is the new best, or new on the front.
    pub fn put(&mut self, trial: &FrozenTrial) -> Option<Best> {
        self.revision += 1;
        let counted = trial.counts();
        let before = self.trials.insert(trial.number, (trial.state, counted));
        if let Some((state, counted)) = before {
            *self.field(state, counted) -= 1;
        }
        *self.field(trial.state, counted) += 1;
        self.works |= trial.state.finished() && !trial.values.is_empty();
        self.longest = self.longest.max(took(trial));
        let candidate = self.candidate(trial);
        let before = match &candidate {
            Some(best) => self.candidates.insert(trial.number, best.clone()),
            None => self.candidates.remove(&trial.number),
        };
        match before {
            None => self.offer(candidate?),
            Some(before) if candidate.as_ref() == Some(&before) => None,
            Some(_) => {
                self.find_front();
                None
            }
        }
    }

    /// Forgets a trial that turned out not to exist, or was deleted.
    pub fn remove(&mut self, number: u64) {
        self.revision += 1;
        if let Some((state, counted)) = self.trials.remove(&number) {
            *self.field(state, counted) -= 1;
        }
        if self.candidates.remove(&number).is_some() {
            self.find_front();
        }
    }

    /// Notes the end of a trial of this run, for the streaks; `failure` is what it says where it failed.
    pub fn ended(&mut self, trial: &FrozenTrial, failure: Option<&str>) {
        if let Some(message) = failure {
            self.failures_in_row += 1;
            let says = fault::masked(message);
            let (count, before) = &self.alike;
            let count = if *before == says { count + 1 } else { 1 };
            self.alike = (count, says);
            return;
        }
        match trial.state {
            TrialState::Pruned if !trial.counts() => self.refused_in_row += 1,
            TrialState::Complete | TrialState::Pruned | TrialState::Fail => {
                self.failures_in_row = 0;
                self.alike = (0, String::new());
                self.refused_in_row = 0;
            }
            TrialState::Running | TrialState::Waiting => {}
        }
    }

    /// A running trial has reported a value.
    pub fn gives_values(&mut self) {
        self.works = true;
    }

    /// Another number after each change of a trial.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Counts now.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The best COMPLETE, feasible trial; with several objectives none is.
    pub fn best(&self) -> Option<&Best> {
        self.front.items().next().filter(|_| self.single())
    }

    /// With several objectives: the trials that none dominates.
    pub fn front(&self) -> Vec<Best> {
        let front = self.front.items().filter(|_| !self.single());
        front.cloned().collect()
    }

    fn single(&self) -> bool {
        self.directions.len() <= 1
    }

    /// Failed trials in a row.
    pub fn failures_in_row(&self) -> u64 {
        self.failures_in_row
    }

    /// Failed trials in a row that say the same, where no trial of the study has ever given a value.
    pub fn failures_alike(&self) -> u64 {
        if self.works { 0 } else { self.alike.0 }
    }

    /// Refused trials in a row.
    pub fn refused_in_row(&self) -> u64 {
        self.refused_in_row
    }

    /// The longest that a trial of the study took to end; `None`: none is known to have.
    pub fn longest(&self) -> Option<Duration> {
        self.longest
    }

    /// The number after the highest known one.
    pub fn next_number(&self) -> u64 {
        self.trials.keys().next_back().map_or(0, |n| n + 1)
    }

    /// The trial as it would be told of, if it may be the best.
    fn candidate(&self, trial: &FrozenTrial) -> Option<Best> {
        trial.result(self.directions.len())?;
        Some(Best::new(trial, adopted_params(trial)))
    }

    fn offer(&mut self, candidate: Best) -> Option<Best> {
        if self.single()
            && let Some(best) = self.best()
            && let (Some(new), Some(old)) = (candidate.value, best.value)
            && !self.directions[0].better(new, old)
        {
            return None;
        }
        let values = candidate.values.clone();
        self.front
            .offer(&values, candidate.clone())
            .then_some(candidate)
    }

    /// Finds the best again after one of the candidates was taken away or changed.
    fn find_front(&mut self) {
        self.front = Front::new(self.directions.clone());
        for candidate in self.candidates.clone().into_values() {
            self.offer(candidate);
        }
    }

    fn field(&mut self, state: TrialState, counted: bool) -> &mut u64 {
        match state {
            TrialState::Complete => &mut self.counts.complete,
            TrialState::Pruned if counted => &mut self.counts.pruned,
            TrialState::Pruned => &mut self.counts.infeasible,
            TrialState::Fail => &mut self.counts.fail,
            TrialState::Running => &mut self.counts.running,
            TrialState::Waiting => &mut self.waiting,
        }
    }
}

/// How long the last attempt of a finished trial took.
fn took(trial: &FrozenTrial) -> Option<Duration> {
    let runtime = trial.user_attrs.get("runtime_s").and_then(number_from_json);
    Duration::try_from_secs_f64(runtime.filter(|_| trial.state.finished())?).ok()
}
