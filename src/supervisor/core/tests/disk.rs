//! What the simulated world has on its disk: the durable writes, and what a next start finds there.

use std::collections::{BTreeMap, BTreeSet};

use super::super::*;
use memory::Entry;
use search::study::Job;
use store::{CarriedOut, Changes, HeldBy, KnownTrials, TrialSummary};

/// What is durable.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Disk {
    pub trials: BTreeMap<u64, FrozenTrial>,
    /// Those that a run of ours has made or claimed.
    pub ours: BTreeSet<u64>,
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
}

impl Disk {
    pub fn repeated(&self) -> Vec<Repeated> {
        let found = self.repeats.iter().map(|(job, repeat)| {
            let mut tally = Tally::default();
            let outcomes = repeat.attempts.iter().flatten();
            outcomes.for_each(|w| tally.add_word(w));
            Repeated {
                job: *job,
                ended: repeat.ended.clone(),
                attempt: repeat.attempts.len() as u32,
                tally,
            }
        });
        found.collect()
    }

    pub fn attempts_of(&self, job: Job) -> Vec<Option<String>> {
        match job.searches() {
            true => self.attempts[&job.number].clone(),
            false => self.repeats[&job].attempts.clone(),
        }
    }

    pub fn reclaimable(&self) -> Vec<Reclaimed> {
        self.trials
            .values()
            .filter(|t| t.state == TrialState::Running && self.ours.contains(&t.number))
            .map(|t| {
                let attempts = self.attempts.get(&t.number).cloned().unwrap_or_default();
                let mut tally = Tally::default();
                attempts.iter().flatten().for_each(|w| tally.add_word(w));
                Reclaimed {
                    number: t.number,
                    attempt: attempts.len() as u32,
                    tally,
                }
            })
            .collect()
    }

    pub fn glimpse(&self, number: u64) -> Option<TrialSummary> {
        let trial = self.trials.get(&number)?;
        Some(TrialSummary {
            state: trial.state,
            held_by: match self.ours.contains(&number) {
                true => HeldBy::Run,
                false => HeldBy::Foreign,
            },
            struck: trial.struck(),
        })
    }

    /// What has changed since `seen`, as the store finds it.
    pub fn changes(&self, seen: &mut KnownTrials) -> Changes {
        let now = (self.trials.keys()).filter_map(|n| Some((*n, self.glimpse(*n)?)));
        let compared = seen.update(0, now.collect());
        let trials = compared.read.iter().map(|n| self.trials[n].clone());
        Changes {
            gone: compared.gone,
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
        self.ours.remove(&number);
        self.attempts.remove(&number);
        self.repeats.retain(|job, _| job.number != number);
        self.memory.retain(|(job, _), _| job.number != number);
    }

    /// Carries out what nobody got ahead of, as the store does.
    pub fn carry_out(&mut self, writes: &[Write], seen: &mut KnownTrials) -> CarriedOut {
        let mut carried = CarriedOut::default();
        for write in writes {
            let mut now = write.clone();
            let twin = matches!(write, Write::TrialCreated { since, params, .. }
                if self.trials.range(since..).any(|(_, t)| t.params == *params));
            let next = self.next();
            if !twin && let Some(asked) = seen.renumbered(write, next) {
                carried.renumbered.insert(asked, next);
            }
            let asked = write.number();
            if let Some(number) = asked.and_then(|n| carried.renumbered.get(&n)) {
                now = write.under(*number);
            }
            let trial = now.number().and_then(|n| self.glimpse(n));
            if twin || store::overtaken(&now, trial, None, next) {
                carried.late.push(write.clone());
            } else {
                self.apply(&now);
                seen.note(&now);
            }
        }
        carried
    }

    pub fn apply(&mut self, write: &Write) {
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
                self.ours.insert(*number);
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
                repeat.attempts.push(None);
            }
            Write::AttemptStarted { id, .. } => {
                let attempts = self.attempts.entry(id.number).or_default();
                assert_eq!(attempts.len(), id.attempt as usize, "attempts have no gaps");
                attempts.push(None);
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
            Write::RunEnded { exit } => self.ended = Some(*exit),
            Write::StudyAttributes { user_attrs } => self.attributes.extend(user_attrs.clone()),
            Write::TrialReclaimed { number, .. } => panic!("trial {number} is this run's"),
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
                self.ours.insert(*number);
            }
        }
    }
}
