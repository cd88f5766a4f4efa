//! What a simulated world has on its disk: the durable writes, and what a next start, or another node, finds there.

use std::collections::{BTreeMap, BTreeSet};

use super::super::*;
use super::several_nodes::records;
use memory::Entry;
use search::study::Job;
use store::{CarriedOut, Changes, HeldBy, KnownTrials, RepeatSummary, TrialSummary};

/// What is durable.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Disk {
    pub trials: BTreeMap<u64, FrozenTrial>,
    /// The runs that hold those that `tune` has made, claimed or taken over.
    pub holders: BTreeMap<u64, i64>,
    /// The runs whose leases go on, where several nodes share the study.
    pub live: BTreeSet<i64>,
    /// Attempts by trial: the outcome, once there is one.
    pub attempts: BTreeMap<u64, Vec<Option<String>>>,
    pub ended: Option<u8>,
    pub repeats: BTreeMap<Job, Repeat>,
    pub attributes: serde_json::Map<String, serde_json::Value>,
    /// The ledger, by attempt.
    pub memory: BTreeMap<(Job, u32), Entry>,
}

/// A repeat on disk.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Repeat {
    pub seed: u64,
    pub ended: Option<Outcome>,
    pub attempts: Vec<Option<String>>,
    /// The run that has begun the last of them.
    pub holder: i64,
}

/// The tally of attempts that ended so.
fn tally_of(outcomes: &[Option<String>]) -> Tally {
    let mut tally = Tally::default();
    outcomes.iter().flatten().for_each(|w| tally.add_word(w));
    tally
}

impl Disk {
    pub fn repeated(&self) -> Vec<Repeated> {
        let found = self.repeats.iter().map(|(job, repeat)| Repeated {
            job: *job,
            ended: repeat.ended.clone(),
            attempt: repeat.attempts.len() as u32,
            tally: tally_of(&repeat.attempts),
        });
        found.collect()
    }

    pub fn attempts_of(&self, job: Job) -> Vec<Option<String>> {
        match job.searches() {
            true => self.attempts[&job.number].clone(),
            false => self.repeats[&job].attempts.clone(),
        }
    }

    pub fn reclaimable(&self) -> Vec<Reclaimable> {
        self.trials
            .values()
            .filter(|t| t.state == TrialState::Running && self.is_ours(t.number))
            .map(|t| {
                let attempts = self.attempts.get(&t.number).cloned().unwrap_or_default();
                Reclaimable {
                    number: t.number,
                    attempts: records(&attempts, self.holders[&t.number]),
                }
            })
            .collect()
    }

    /// Whether a run of `tune` has made, claimed or taken over this trial.
    pub fn is_ours(&self, number: u64) -> bool {
        self.holders.contains_key(&number)
    }

    /// A trial, for the run that asks; for none, all that runs hold is the same.
    pub fn glimpse(&self, number: u64, asks: Option<i64>) -> Option<TrialSummary> {
        let trial = self.trials.get(&number)?;
        let holder = self.holders.get(&number).copied();
        let live = !trial.state.finished() && holder.is_some_and(|run| self.live.contains(&run));
        Some(TrialSummary {
            state: trial.state,
            held_by: HeldBy::of(holder, live, asks),
            struck: trial.struck(),
        })
    }

    fn glimpse_of_repeat(&self, job: Job, asks: Option<i64>) -> Option<RepeatSummary> {
        let repeat = self.repeats.get(&job)?;
        let live = self.live.contains(&repeat.holder);
        Some(RepeatSummary {
            finished: repeat.ended.is_some(),
            held_by: HeldBy::of(Some(repeat.holder), live, asks),
        })
    }

    /// The run that has to do with the files of a trial or repeat, until it has ended.
    pub fn open_holder(&self, job: Job) -> Option<i64> {
        let (open, holder) = match job.searches() {
            true => {
                let trial = self.trials.get(&job.number)?;
                (!trial.state.finished(), *self.holders.get(&job.number)?)
            }
            false => {
                let repeat = self.repeats.get(&job)?;
                (repeat.ended.is_none(), repeat.holder)
            }
        };
        open.then_some(holder)
    }

    /// What has changed in the trials from the number `first` on since `seen`, as the store finds it.
    pub fn changes(&self, seen: &mut KnownTrials, first: u64, asks: Option<i64>) -> Changes {
        let numbers = self.trials.range(first..).map(|(number, _)| *number);
        let now = numbers.filter_map(|n| Some((n, self.glimpse(n, asks)?)));
        let compared = seen.update(first, now.collect());
        let trials = compared.read.iter().map(|n| self.trials[n].clone());
        Changes {
            gone: compared.gone,
            lost: compared.lost,
            trials: trials.collect(),
            ..Changes::default()
        }
    }

    /// The beginning of a run ends the attempts that a killed one left open.
    pub fn begin_run(&mut self) {
        let attempts = self.attempts.values_mut().flatten();
        let open = attempts.filter(|a| a.is_none());
        open.for_each(|a| *a = Some("interrupted".into()));
    }

    /// The number that the next trial gets.
    pub fn next(&self) -> u64 {
        self.trials.keys().next_back().map_or(0, |n| n + 1)
    }

    /// Another program deletes a trial, and our triggers what is stored with it.
    pub fn delete(&mut self, number: u64) {
        self.trials.remove(&number);
        self.holders.remove(&number);
        self.attempts.remove(&number);
        self.repeats.retain(|job, _| job.number != number);
        self.memory.retain(|(job, _), _| job.number != number);
    }

    /// Carries out what nobody got ahead of, as the store does; `by`: the run, where there are others.
    pub fn carry_out(
        &mut self,
        writes: &[Write],
        seen: &mut KnownTrials,
        by: Option<i64>,
    ) -> CarriedOut {
        let mut carried = CarriedOut::default();
        for write in writes {
            let mut now = write.clone();
            let twin = matches!(write, Write::TrialCreated { since, params, .. }
                if self.trials.range(since..).any(|(_, t)| t.params == *params));
            let next = if let Write::TrialReclaimed { number, .. } = write {
                self.attempts.get(number).map_or(0, Vec::len) as u64
            } else if let Write::AttemptStarted { id, .. } = write {
                let repeat = self.repeats.get(&id.job());
                repeat.map_or(0, |repeat| repeat.attempts.len()) as u64
            } else {
                self.next()
            };
            if !twin && let Some(asked) = seen.renumbered(write, next) {
                carried.renumbered.insert(asked, next);
            }
            let asked = write.number();
            if let Some(number) = asked.and_then(|n| carried.renumbered.get(&n)) {
                now = write.under(*number);
            }
            let trial = now.number().and_then(|n| self.glimpse(n, by));
            let repeat = now.repeat().and_then(|job| self.glimpse_of_repeat(job, by));
            let follows = store::follows_from_late(write, &carried.late);
            if twin || follows || store::overtaken(&now, trial, repeat, next) {
                carried.late.push(write.clone());
            } else {
                self.apply(&now, by.unwrap_or_default());
                seen.note(&now);
            }
        }
        carried
    }

    /// Records what a run writes.
    pub fn apply(&mut self, write: &Write, by: i64) {
        match write {
            Write::TrialCreated {
                number,
                params,
                distributions,
                user_attrs,
                system_attrs,
                ..
            } => {
                assert_eq!(*number, self.next(), "numbers have no gaps");
                self.holders.insert(*number, by);
                self.attempts.insert(*number, Vec::new());
                let trial = FrozenTrial {
                    distributions: distributions.clone(),
                    user_attrs: user_attrs.clone(),
                    system_attrs: system_attrs.clone(),
                    ..FrozenTrial::new(*number, TrialState::Running, params.clone())
                };
                self.trials.insert(*number, trial);
            }
            Write::AttemptStarted { id, seed, .. } if !id.job().searches() => {
                assert_eq!(self.trials[&id.number].state, TrialState::Complete);
                let repeat = self.repeats.entry(id.job()).or_default();
                assert_eq!(repeat.ended, None, "a repeat ends once");
                assert_eq!(repeat.attempts.len(), id.attempt as usize, "no gaps");
                repeat.seed = *seed;
                repeat.holder = by;
                begin_attempt(&mut repeat.attempts);
            }
            Write::AttemptStarted { id, .. } => {
                let attempts = self.attempts.entry(id.number).or_default();
                assert_eq!(attempts.len(), id.attempt as usize, "attempts have no gaps");
                begin_attempt(attempts);
                self.trials
                    .get_mut(&id.number)
                    .unwrap()
                    .intermediate
                    .clear();
            }
            Write::AttemptEnded { id, end } => {
                let attempts = match id.job().searches() {
                    true => self.attempts.get_mut(&id.number).unwrap(),
                    false => &mut self.repeats.get_mut(&id.job()).unwrap().attempts,
                };
                let slot = &mut attempts[id.attempt as usize];
                assert_eq!(*slot, None, "an attempt ends once");
                *slot = Some(end.outcome.clone());
            }
            Write::Reported {
                number,
                step,
                value,
            } => {
                let trial = self.trials.get_mut(number).unwrap();
                trial.intermediate.insert(*step, *value);
            }
            Write::TrialFinished {
                number,
                state,
                values,
                user_attrs,
                ..
            } => {
                let trial = self.trials.get_mut(number).unwrap();
                trial.state = trial.state.next(*state).unwrap();
                trial.values = values.clone();
                trial.user_attrs.extend(user_attrs.clone());
            }
            Write::MemoryUsed { id, entry } => {
                let attempts = self.attempts_of(id.job());
                assert!(attempts.len() > id.attempt as usize, "it was started");
                self.memory
                    .insert((id.job(), id.attempt), (**entry).clone());
            }
            Write::TrialNoted { number, user_attrs } => {
                let trial = self.trials.get_mut(number).unwrap();
                trial.user_attrs.extend(user_attrs.clone());
            }
            Write::RepeatFinished {
                job,
                value,
                user_attrs,
                ..
            } => {
                let repeat = self.repeats.get_mut(job).unwrap();
                let before = repeat.ended.replace(Outcome {
                    value: *value,
                    attrs: user_attrs.clone(),
                });
                assert_eq!(before, None, "a repeat ends once");
            }
            Write::GpuSampled { .. } => {}
            Write::RunEnded { exit } => {
                self.live.remove(&by);
                self.ended = Some(*exit);
            }
            Write::StudyAttributes { user_attrs } => self.attributes.extend(user_attrs.clone()),
            Write::TrialReclaimed { number, .. } => {
                assert!(!self.live.is_empty(), "trial {number} is this run's");
                self.holders.insert(*number, by);
            }
            Write::TrialClaimed {
                number,
                params,
                distributions,
                user_attrs,
            } => {
                let trial = self.trials.get_mut(number).unwrap();
                assert_eq!(trial.state, TrialState::Waiting);
                trial.state = TrialState::Running;
                trial.params = params.clone();
                trial.distributions = distributions.clone();
                trial.user_attrs.extend(user_attrs.clone());
                self.holders.insert(*number, by);
            }
        }
    }
}

/// An attempt begins; one before it that nobody ended was interrupted.
fn begin_attempt(attempts: &mut Vec<Option<String>>) {
    if let Some(open) = attempts.last_mut() {
        open.get_or_insert_with(|| "interrupted".into());
    }
    attempts.push(None);
}
