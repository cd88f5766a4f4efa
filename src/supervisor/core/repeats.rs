//! After the goal: repeats of the leading trials, the choice of the winner, and its one look at the
//! test split. Who is repeated and who wins is [`search::study::selection`]'s business.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value as Json, json};

use super::active_trial::{ActiveTrial, End};
use super::{Core, Mode, tally};
use config::{Operation, TestPolicy};
use fault::Tally;
use messages::number_from_json;
use report::{Chosen, Selected, Tested};
use search::space::Params;
use search::study::selection::{self, Leader, Next, Outcomes, Selection};
use search::study::{FrozenTrial, Job, Purpose, TrialState};
use store::{RepeatRecord, Write};

use config::TestSplit;
use config::test_metric;

/// A repeat, or the test, as an earlier run has left it.
#[derive(Debug, Clone, PartialEq)]
pub struct Repeated {
    /// The trial, and what the training was for.
    pub job: Job,
    /// Its end; `None`: it is to be run again.
    pub ended: Option<Outcome>,
    /// The attempt to make next.
    pub attempt: u32,
    /// Its faulty attempts so far.
    pub tally: Tally,
}

impl Repeated {
    /// From the database.
    pub fn of(record: RepeatRecord) -> Repeated {
        Repeated {
            job: record.job,
            attempt: record.next_attempt(),
            tally: tally(&record.attempts),
            ended: record.state.finished().then_some(Outcome {
                value: record.value,
                attrs: record.attrs,
            }),
        }
    }
}

/// How a repeat ended.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outcome {
    /// The objective's value, with the test that of the test split; `None`: it failed for good.
    pub value: Option<f64>,
    /// The names of a trial's user attributes.
    pub attrs: Map<String, Json>,
}

/// What comes after the goal.
#[derive(Debug)]
pub(super) struct Repeats {
    repeats: u32,
    policy: TestPolicy,
    split: Option<TestSplit>,
    ended: BTreeMap<Job, Outcome>,
    /// Those of them whose end is on its way to the database. Another node may have been faster: then its end stands.
    unconfirmed: BTreeSet<Job>,
    /// Trials whose test has shown a value, each a look at the test split, in the order of the
    /// looks.
    looks: Vec<u64>,
    /// Started by an earlier run and not ended: the next attempt, and its faults so far.
    open: BTreeMap<Job, (u32, Tally)>,
    /// To be started, in order.
    wanted: VecDeque<Job>,
    /// Something has changed that `wanted` may follow from.
    stale: bool,
    selection: Option<Selection>,
    /// The selection that was last told and recorded.
    told: Option<Json>,
    /// The trial that is to be tested, once it is known.
    target: Option<u64>,
    /// It was told that the test split has been used for another trial.
    refusal_told: bool,
}

impl Repeats {
    /// `found` in the order in which they ended.
    pub(super) fn new(
        operation: &Operation,
        split: Option<TestSplit>,
        found: Vec<Repeated>,
        told: Option<Json>,
    ) -> Repeats {
        let (mut ended, mut open) = (Vec::new(), BTreeMap::new());
        for repeated in found {
            match repeated.ended {
                Some(outcome) => ended.push((repeated.job, outcome)),
                None => _ = open.insert(repeated.job, (repeated.attempt, repeated.tally)),
            }
        }
        let mut repeats = Repeats {
            repeats: operation.repeats,
            policy: operation.test,
            split,
            ended: BTreeMap::new(),
            unconfirmed: BTreeSet::new(),
            looks: Vec::new(),
            open,
            wanted: VecDeque::new(),
            stale: true,
            selection: None,
            told,
            target: None,
            refusal_told: false,
        };
        ended
            .into_iter()
            .for_each(|(job, outcome)| repeats.end(job, outcome));
        repeats
    }

    /// What the database says of a repeat; `elsewhere`: another node is at it.
    pub(super) fn found(&mut self, repeated: Repeated, elsewhere: bool) {
        let Repeated {
            job,
            ended,
            attempt,
            tally,
        } = repeated;
        self.open.remove(&job);
        match ended {
            // Where it has ended here as well, another node was faster, and its word stands.
            Some(outcome) => {
                self.unconfirmed.remove(&job);
                self.end(job, outcome);
            }
            // The end is on its way to the database.
            None if elsewhere || self.ended.contains_key(&job) => {}
            None => _ = self.open.insert(job, (attempt, tally)),
        }
    }

    /// A repeat has ended here; that is on its way to the database.
    fn ends_here(&mut self, job: Job, outcome: Outcome) {
        self.end(job, outcome);
        self.unconfirmed.insert(job);
        self.stale = true;
    }

    /// The end of a repeat here has been written, or was refused because another node has it.
    pub(super) fn answered(&mut self, job: Job, written: bool) {
        if self.unconfirmed.remove(&job) {
            self.stale = true;
            if !written {
                self.ended.remove(&job);
                self.looks.retain(|looked| Job::test(*looked) != job);
            }
        }
    }

    fn end(&mut self, job: Job, outcome: Outcome) {
        self.open.remove(&job);
        let looked = |o: &Outcome| job.purpose == Purpose::Test && o.value.is_some();
        let is_look = looked(&outcome);
        let before = self.ended.insert(job, outcome);
        if is_look && !before.as_ref().is_some_and(looked) {
            self.looks.push(job.number);
        }
    }

    /// Whether nothing is left to start. What is under way is the core's business.
    pub(super) fn done(&self) -> bool {
        !self.active() || (!self.stale && self.wanted.is_empty())
    }

    /// Repeats that wait for a worker and have not been run before.
    pub(super) fn waiting(&self) -> u64 {
        self.wanted.len() as u64
    }

    /// A trial or a repeat has ended or changed.
    pub(super) fn look_again(&mut self) {
        self.stale = true;
    }

    /// What is to be told at the end of the run.
    pub(super) fn chosen(&self, metric: &str, finished: u64) -> Chosen {
        let selection = self.selection.clone();
        // A run that selects nobody tells who was selected before, as `tune best` does.
        let before = || serde_json::from_value(self.told.clone()?).ok();
        Chosen {
            selection: selection
                .map(|s| Selected::new(s, finished))
                .or_else(before),
            test: self.tested(metric),
        }
    }

    fn selects(&self) -> bool {
        self.repeats > 1
    }

    fn tests(&self) -> bool {
        self.split.is_some()
            && match self.policy {
                TestPolicy::Auto => self.selects(),
                TestPolicy::On | TestPolicy::Again => true,
                TestPolicy::Off => false,
            }
    }

    fn active(&self) -> bool {
        self.selects() || self.tests()
    }

    /// Repeats of the last candidates, 1 for none, and whether the winner is tested.
    pub(super) fn planned(&self) -> (u32, bool) {
        (self.repeats, self.tests())
    }

    /// The finite values of repeats, by trial.
    pub(super) fn values(&self) -> BTreeMap<u64, Vec<f64>> {
        let mut values: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for ((number, _), value) in self.outcomes() {
            values.entry(number).or_default().extend(value);
        }
        values
    }

    fn outcomes(&self) -> Outcomes {
        let repeat = |(job, outcome): (&Job, &Outcome)| match job.purpose {
            Purpose::Repeat(repeat) => Some(((job.number, repeat), outcome.value)),
            Purpose::Search | Purpose::Test => None,
        };
        self.ended.iter().filter_map(repeat).collect()
    }

    /// What the test split said of the winner, else of the trial that it was used for.
    fn tested(&self, metric: &str) -> Option<Tested> {
        let own = self
            .target
            .filter(|n| self.ended.contains_key(&Job::test(*n)));
        let number = own.or_else(|| self.looks.last().copied())?;
        let outcome = self.ended.get(&Job::test(number))?;
        let text = |key: &str| outcome.attrs.get(key).and_then(Json::as_str);
        Some(Tested {
            number,
            metric: metric.to_owned(),
            value: outcome.value,
            validation: outcome.attrs.get(VALIDATION).and_then(number_from_json),
            baseline: self.split.as_ref().and_then(|s| s.baseline.clone()),
            looks: self.looks.len() as u64,
            error: match outcome.value {
                Some(_) => None,
                None => Some(text("error_msg").or(text("fault")).unwrap_or("").to_owned()),
            },
        })
    }
}

/// Attribute of a test: the value on the validation split at the same epoch.
const VALIDATION: &str = "validation";

impl Core {
    /// Once the goal is reached: who is to be repeated, and whether the winner is known.
    pub(super) fn plan_repeats(&mut self) {
        let due = self.repeats.stale && self.mode == Mode::Running && self.search_done();
        // Of several nodes only one's result of a repeat counts: nobody concludes anything from one that may not.
        let sure = !self.nodes.shared() || self.repeats.unconfirmed.is_empty();
        if !due || !sure || !self.repeats.active() {
            return;
        }
        self.repeats.stale = false;
        let direction = self.spec.objective.direction;
        let runs = |params: &Params| self.spec.space.holds(params);
        let leaders = selection::leaders(self.history.entries(), direction, runs);
        let wanted = self.next_repeats(&leaders);
        self.repeats.wanted.clear();
        for job in wanted {
            if self.active.contains_key(&job) || self.nodes.run(job) {
                continue;
            }
            match self.repeats.open.remove(&job) {
                // Again means a fresh worker.
                Some((attempt, tally)) if attempt > 0 => {
                    if self.add_repeat(job, attempt, tally) {
                        self.retry.insert(job);
                    }
                }
                Some(_) | None => self.repeats.wanted.push_back(job),
            }
        }
    }

    fn next_repeats(&mut self, leaders: &[Leader]) -> Vec<Job> {
        let Some(first) = leaders.first() else {
            return Vec::new();
        };
        let mut winner = Some(first.number);
        if self.repeats.selects() {
            let direction = self.spec.objective.direction;
            let outcomes = self.repeats.outcomes();
            match selection::next(leaders, &outcomes, self.repeats.repeats, direction) {
                Next::Run(jobs) => {
                    self.repeats.selection = None;
                    return jobs.into_iter().map(|(n, r)| Job::repeat(n, r)).collect();
                }
                Next::Done(selection) => {
                    winner = selection.winner().map(|w| w.number);
                    self.tell_selection(selection);
                }
            }
        }
        self.repeats.target = winner;
        winner
            .and_then(|n| self.test_wanted(n))
            .into_iter()
            .collect()
    }

    /// Records and tells who won, unless that was done before.
    fn tell_selection(&mut self, selection: Selection) {
        let trials = self.progress.counts().finished();
        let selected = Selected::new(selection.clone(), trials);
        let json = json!(selected);
        if self.repeats.told.as_ref() != Some(&json) {
            self.outbox.extend(notes(&json));
            let note = Write::study_attribute("selection", json.clone());
            self.outbox.push(note);
            if selection.winner.is_none() {
                self.warn(
                    "no candidate has enough repeats with a value: nobody is the winner; the \
                     attempts' logs say what happened"
                        .into(),
                );
            }
            self.report(report::Event::WinnerSelected(Box::new(selected)));
            self.repeats.told = Some(json);
        }
        self.repeats.selection = Some(selection);
    }

    /// The test of the winner, if it is to be run: it runs once, and not after that of another.
    fn test_wanted(&mut self, winner: u64) -> Option<Job> {
        let job = Job::test(winner);
        if !self.repeats.tests() || self.repeats.ended.contains_key(&job) {
            return None;
        }
        let before = self.repeats.looks.last().copied();
        let Some(before) = before.filter(|_| self.repeats.policy != TestPolicy::Again) else {
            return Some(job);
        };
        if !self.repeats.refusal_told {
            self.repeats.refusal_told = true;
            self.warn(format!(
                "trial {winner} wins, but the test split has been used for trial {before} already \
                 and is not used again: a test value that is chosen among several is no test. \
                 --test=again looks once more, and says that it did"
            ));
        }
        None
    }

    /// The next repeat that has not been run before, if one is wanted.
    pub(super) fn start_repeat(&mut self) -> Option<Job> {
        if !self.ends_in_time() {
            return None;
        }
        while let Some(job) = self.repeats.wanted.pop_front() {
            if self.add_repeat(job, 0, Tally::default()) {
                return Some(job);
            }
        }
        None
    }

    /// False where another program has deleted the trial.
    fn add_repeat(&mut self, job: Job, attempt: u32, tally: Tally) -> bool {
        let Some(entry) = self.history.get(job.number) else {
            return false;
        };
        let mut trial = FrozenTrial::new(job.number, TrialState::Running, entry.params.clone());
        trial.distributions = self.spec.space.distributions(&entry.params);
        let seed = job.purpose.seed(self.spec.seed, job.number);
        self.active
            .insert(job, ActiveTrial::new(trial, attempt, seed, tally));
        self.predict(job);
        true
    }

    /// A repeat has ended; only a finite value is one.
    pub(super) fn finish_repeat(&mut self, job: Job, active: &ActiveTrial, end: End) {
        let metric = self.spec.objective.metric.clone();
        let (mut state, mut attrs) = (end.state, end.user_attrs);
        let own = end.values.first().copied();
        let value = match (state, job.purpose) {
            (TrialState::Complete, Purpose::Test) => {
                attrs.extend(own.map(|v| (VALIDATION.to_owned(), messages::json_number(v))));
                let name = format!("metric.{}", test_metric(&metric));
                attrs.get(&name).and_then(number_from_json)
            }
            (TrialState::Complete, Purpose::Search | Purpose::Repeat(_)) => own,
            (
                TrialState::Pruned | TrialState::Fail | TrialState::Waiting | TrialState::Running,
                _,
            ) => None,
        };
        let value = value.filter(|v| v.is_finite());
        if state == TrialState::Complete && value.is_none() {
            state = TrialState::Fail;
            let message = format!("no finite value of {metric} came out of it");
            attrs.insert("error_msg".into(), message.into());
        }
        self.outbox.push(Write::RepeatFinished {
            job,
            seed: active.seed,
            state,
            value,
            user_attrs: attrs.clone(),
        });
        self.report(report::Event::RepeatFinished(report::RepeatFinished {
            job,
            state,
            value,
            seed: active.seed,
            attrs: attrs.clone(),
        }));
        self.repeats.ends_here(job, Outcome { value, attrs });
        if job.purpose == Purpose::Test
            && let Some(tested) = self.repeats.tested(&metric)
        {
            let note = Write::study_attribute("test", json!(tested));
            self.outbox.push(note);
        }
    }
}

/// Notes on the candidates' trials, from the selection's own account of them.
fn notes(selection: &Json) -> Vec<Write> {
    let candidates = selection.get("candidates").and_then(Json::as_array);
    let note = |candidate: &Json| {
        let mut attrs = Map::new();
        for key in ["mean", "low", "high", "values", "missing"] {
            let value = candidate.get(key).filter(|v| !v.is_null())?;
            attrs.insert(format!("repeats.{key}"), value.clone());
        }
        Some(Write::TrialNoted {
            number: candidate.get("number")?.as_u64()?,
            user_attrs: attrs,
        })
    };
    candidates.into_iter().flatten().filter_map(note).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::spec;
    use super::*;

    #[test]
    fn of_an_end_that_is_refused_nothing_is_left_and_what_the_database_says_stands() {
        let mut repeats = Repeats::new(&spec(1, 1).operation, None, vec![], None);
        let job = Job::test(3);
        let said = |value: Option<f64>, attempt| Repeated {
            job,
            ended: value.map(|value| Outcome {
                value: Some(value),
                attrs: Map::new(),
            }),
            attempt,
            tally: Tally::default(),
        };
        let here = said(Some(0.5), 1).ended.unwrap();
        repeats.ends_here(job, here.clone());
        repeats.found(said(None, 2), true);
        repeats.answered(job, false);
        assert!(repeats.ended.is_empty() && repeats.looks.is_empty());
        // The node that had it is gone.
        repeats.found(said(None, 2), false);
        assert_eq!(repeats.open[&job], (2, Tally::default()));

        repeats.ends_here(job, here);
        repeats.found(said(Some(0.75), 3), false);
        repeats.answered(job, false);
        assert_eq!(repeats.ended[&job].value, Some(0.75));
        assert_eq!(repeats.looks, [3]);
        assert!(repeats.open.is_empty());
    }

    #[test]
    fn the_latest_look_at_the_test_split_is_told_whatever_the_numbers_are() {
        let looked = |number: u64, value: Option<f64>| Repeated {
            job: Job::test(number),
            ended: Some(Outcome {
                value,
                attrs: Map::new(),
            }),
            attempt: 1,
            tally: Tally::default(),
        };
        let found = vec![looked(9, Some(0.9)), looked(4, Some(0.4)), looked(12, None)];
        let mut repeats = Repeats::new(&spec(1, 1).operation, None, found, None);
        let told = |repeats: &Repeats| {
            let tested = repeats.tested("m").unwrap();
            (tested.number, tested.looks)
        };
        assert_eq!(told(&repeats), (4, 2), "the failed one has shown nothing");
        let seen = Outcome {
            value: Some(0.2),
            attrs: Map::new(),
        };
        repeats.end(Job::test(2), seen);
        assert_eq!(told(&repeats), (2, 3));
    }
}
