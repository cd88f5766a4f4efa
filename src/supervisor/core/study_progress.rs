//! All trials of the study at a glance: counts, the best, and the streaks that trip the breaker.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use adopt::fit::adopted_params;
use messages::number_from_json;
use report::{Best, Counts};
use search::study::pareto::Front;
use search::study::{Direction, FrozenTrial, TrialState};
use weights::Unheard;

/// So many trials that fail alike, the first to end, show that none will work.
const FIRST: u64 = 3;

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
    /// The trials that failed since one worked. One whose end another node got ahead of may end again.
    failed_in_row: BTreeSet<u64>,
    /// How many trials of this run have failed alike, the first that ended, and what they say; `None`: the first
    /// have not.
    alike: Option<(u64, String)>,
    /// A trial of the study has ended with a value.
    works: bool,
    /// The most steps that a trial of this run had reported before it failed.
    failed_after: usize,
    /// The longest that a trial took, from the start of its last attempt.
    longest: Option<Duration>,
    /// How long each of the candidates took.
    times: BTreeMap<u64, Duration>,
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
            failed_in_row: BTreeSet::new(),
            alike: Some((0, String::new())),
            works: false,
            failed_after: 0,
            longest: None,
            times: BTreeMap::new(),
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
        self.works |= trial.gave_value();
        let took = took(trial);
        self.longest = self.longest.max(took);
        let candidate = self.candidate(trial);
        if let Some(took) = took.filter(|_| candidate.is_some()) {
            self.times.insert(trial.number, took);
        }
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
        self.failed_in_row.remove(&number);
        if self.candidates.remove(&number).is_some() {
            self.find_front();
        }
    }

    /// A trial without a result has another number than was thought; there is none of that number.
    pub fn renumber(&mut self, from: u64, to: u64) {
        if let Some(trial) = self.trials.remove(&from) {
            self.trials.insert(to, trial);
        }
    }

    /// Whether a trial of this number is known.
    pub fn knows(&self, number: u64) -> bool {
        self.trials.contains_key(&number)
    }

    /// Whether a trial is known to have ended.
    pub fn has_ended(&self, number: u64) -> bool {
        let trial = self.trials.get(&number);
        trial.is_some_and(|(state, _)| state.finished())
    }

    /// The trials whose ends are not known here, where there are other nodes.
    pub fn unheard(&self) -> Unheard {
        Unheard::beside(
            self.trials
                .iter()
                .map(|(number, (state, _))| (*number, *state)),
        )
    }

    /// Notes the end of a trial of this run, for the streaks; `failure` is what it says where it failed.
    pub fn ended(&mut self, trial: &FrozenTrial, failure: Option<&str>) {
        if let Some(message) = failure {
            self.failed_after = self.failed_after.max(trial.intermediate.len());
            if self.failed_in_row.insert(trial.number) {
                self.compare(Some(fault::masked(message)));
            }
            return;
        }
        match trial.state {
            TrialState::Pruned if !trial.counts() => self.refused_in_row += 1,
            TrialState::Complete | TrialState::Pruned | TrialState::Fail => {
                self.failed_in_row.clear();
                self.compare(None);
                self.refused_in_row = 0;
            }
            TrialState::Running | TrialState::Waiting => {}
        }
    }

    /// Compares what a trial that ended says with the first ones; `None`: it has not failed.
    fn compare(&mut self, says: Option<String>) {
        self.alike = match (self.alike.take(), says) {
            (Some((0, _)), Some(says)) => Some((1, says)),
            (Some((count, before)), Some(says)) if says == before => Some((count + 1, before)),
            // What ran beside the first ones may fail in its own way.
            (Some((count, before)), _) if count >= FIRST => Some((count, before)),
            (Some(_) | None, _) => None,
        };
    }

    /// Whether a running trial that has reported so many steps has come further than all that failed: what trains it
    /// works.
    pub fn is_further(&self, steps: usize) -> bool {
        steps > self.failed_after
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
        self.failed_in_row.len() as u64
    }

    /// How many trials of this run have failed alike where these are the first 3 to end, or more, and no trial of the
    /// study has ever given a value.
    pub fn first_alike(&self) -> Option<u64> {
        let alike = self.alike.as_ref().map(|(count, _)| *count);
        alike.filter(|count| *count >= FIRST && !self.works)
    }

    /// Refused trials in a row.
    pub fn refused_in_row(&self) -> u64 {
        self.refused_in_row
    }

    /// The longest that a trial of the study took to end; `None`: none is known to have.
    pub fn longest(&self) -> Option<Duration> {
        self.longest
    }

    /// The longest that one of so many best trials took; `None`: none is known to have.
    pub fn leaders_take(&self, leaders: usize) -> Option<Duration> {
        let direction = self.directions.first()?;
        let loss = |(n, best): (&u64, &Best)| Some((direction.loss(best.value?), *n));
        let mut losses: Vec<(f64, u64)> = self.candidates.iter().filter_map(loss).collect();
        losses.sort_by(|a, b| a.0.total_cmp(&b.0));
        let best = losses.iter().take(leaders);
        best.filter_map(|(_, n)| self.times.get(n)).copied().max()
    }

    /// The trials that count towards the goal, in order: the loss of each that may be the best.
    pub fn losses(&self) -> Vec<Option<f64>> {
        let counted = self.trials.iter().filter(|(_, (_, counted))| *counted);
        let value = |n: &u64| self.candidates.get(n)?.value.filter(|v| v.is_finite());
        let loss = |v: f64| self.directions.first().map_or(v, |d| d.loss(v));
        counted.map(|(n, _)| value(n).map(loss)).collect()
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
        let count = self.counts.of(state, counted);
        count.unwrap_or(&mut self.waiting)
    }
}

/// How long the last attempt of a finished trial took; nothing of a time that no attempt can have taken.
fn took(trial: &FrozenTrial) -> Option<Duration> {
    let runtime = trial.user_attrs.get("runtime_s").and_then(number_from_json);
    let took = Duration::try_from_secs_f64(runtime.filter(|_| trial.state.finished())?);
    took.ok().filter(|took| *took <= config::CENTURY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use search::space::Params;

    #[test]
    fn a_time_that_no_attempt_can_have_taken_is_none() {
        let took = |seconds: f64| {
            let mut trial = FrozenTrial::new(0, TrialState::Complete, Params::new());
            trial.user_attrs.insert("runtime_s".into(), seconds.into());
            took(&trial)
        };
        assert_eq!(took(1.5), Some(Duration::from_millis(1500)));
        for wrong in [-1.0, 1e10, 1.8e19, 1e300] {
            assert_eq!(took(wrong), None, "{wrong}");
        }
    }

    /// What is known after trials that end one after the other: with a value, or with what they say.
    fn after(ends: &[Result<f64, &str>]) -> StudyProgress {
        let mut progress = StudyProgress::new(vec![Direction::Minimize]);
        for (number, end) in (0..).zip(ends) {
            let state = match end {
                Ok(_) => TrialState::Complete,
                Err(_) => TrialState::Fail,
            };
            let mut trial = FrozenTrial::new(number, state, Params::new());
            trial.values.extend(end.ok());
            progress.put(&trial);
            progress.ended(&trial, end.err());
        }
        progress
    }

    #[test]
    fn only_the_first_trials_that_end_show_that_nothing_works() {
        let alike = |ends: &[Result<f64, &str>]| after(ends).first_alike();
        assert_eq!(alike(&[Err("x is 1"), Err("x is 2")]), None);
        assert_eq!(
            alike(&[Err("x is 1"), Err("x is 2"), Err("x is 3")]),
            Some(3)
        );
        assert_eq!(alike(&[Err("a"), Err("b"), Err("b"), Err("b")]), None);
        assert_eq!(alike(&[Err("b"), Err("b"), Err("a"), Err("b")]), None);
        assert_eq!(alike(&[Ok(1.0), Err("b"), Err("b"), Err("b")]), None);
    }

    #[test]
    fn a_trial_that_fails_here_and_then_on_another_node_counts_once() {
        let mut progress = after(&[Err("a"), Err("a")]);
        let again = FrozenTrial::new(1, TrialState::Fail, Params::new());
        progress.ended(&again, Some("a"));
        assert_eq!(progress.failures_in_row(), 2);
        assert_eq!(progress.first_alike(), None);
        progress.remove(1);
        progress.ended(&again, Some("a"));
        assert_eq!(progress.failures_in_row(), 2);
    }

    #[test]
    fn what_ran_beside_the_first_ones_shows_that_something_works_by_a_value_alone() {
        let mut progress = after(&[Err("b"), Err("b"), Err("b"), Err("a")]);
        assert_eq!(progress.first_alike(), Some(3));
        assert!(progress.is_further(1) && !progress.is_further(0));
        let mut late = FrozenTrial::new(4, TrialState::Fail, Params::new());
        late.intermediate.extend([(1, 0.5), (2, 0.5)]);
        progress.put(&late);
        progress.ended(&late, Some("b"));
        assert_eq!(progress.first_alike(), Some(4), "its steps are no value");
        assert!(progress.is_further(3) && !progress.is_further(2));
        assert_eq!(
            after(&[Err("b"), Err("b"), Err("b"), Ok(0.5)]).first_alike(),
            None
        );
    }
}
