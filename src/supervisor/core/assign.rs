//! Which trial goes where: making, recording, sending.

use serde_json::{Map, Value as Json};

use super::Core;
use super::active_trial::ActiveTrial;
use crate::WorkerId;
use crate::refused_starts::RefusedStarts;
use fault::{FaultKind, Tally};
use files::name::part;
use files::paths::checkpoints_dir;
use protocol::{AttemptId, ToWorker};
use search::sampler::{PROPOSED_BY, Proposal};
use search::space::Params;
use search::study::{self, FrozenTrial, Job, Purpose, TrialState};
use store::{Changes, Write};
use task::TrialSpec;

/// Random points that are tried to complete an enqueued one, before it counts as infeasible.
const COMPLETIONS: usize = 1000;

impl Core {
    /// Takes a waiting trial, or makes a new one, if the goal needs one and its proposal has come.
    pub(super) fn start_trial(&mut self) -> Option<u64> {
        if self.new_trials_wanted() == 0 || !self.ends_in_time() {
            return None;
        }
        while let Some(number) = self.waiting.keys().next().copied() {
            let proposal = self.proposal(number)?;
            let trial = self.waiting.remove(&number)?;
            if let Some(number) = self.claim(number, trial, proposal) {
                return Some(number);
            }
        }
        match self.searches_on() {
            true => self.create(),
            false => None,
        }
    }

    /// Makes an enqueued trial run: its fixed values, completed by the proposal, or by the defaults
    /// where the proposal's values do not go with them, or at random where those do not either. Values
    /// that the space or a constraint forbids make it infeasible; it is ended and not run.
    fn claim(
        &mut self,
        number: u64,
        trial: FrozenTrial,
        proposal: Option<Proposal>,
    ) -> Option<u64> {
        let mut fixed = trial.fixed_params();
        fixed.extend(trial.params.clone());
        let proposal = proposal.map(|p| p.params).unwrap_or_default();
        let completed = self.completed(&fixed, &proposal).or_else(|problem| {
            let defaults = self.spec.space.point(&Params::new());
            let by_default = self.completed(&fixed, &defaults);
            by_default.or_else(|_| self.completed_at_random(number, &fixed).ok_or(problem))
        });
        let params = match completed {
            Ok(params) => params,
            Err(problem) => {
                self.refuse(number, trial, &problem);
                return None;
            }
        };
        let (seed, user_attrs) = self.seed_of(number);
        let distributions = self.spec.space.distributions(&params);
        self.outbox.push(Write::TrialClaimed {
            number,
            params: params.clone(),
            distributions: distributions.clone(),
            user_attrs: user_attrs.clone(),
        });
        let mut running = trial;
        running.state = TrialState::Running;
        running.params = params;
        running.distributions = distributions;
        running.user_attrs.extend(user_attrs);
        self.add_active(running, seed);
        Some(number)
    }

    fn create(&mut self) -> Option<u64> {
        let number = self.progress.next_number();
        let point = self.points.get(number as usize);
        if !self.numbers_are_known() {
            if point.is_none() {
                self.propose_meanwhile(number);
            }
            return None;
        }
        let mut system_attrs = Map::new();
        let params = match point {
            Some(point) => point.clone(),
            None => {
                let Some(Proposal { params, by }) = self.proposal(number)? else {
                    self.give_up_search();
                    return None;
                };
                system_attrs.insert(PROPOSED_BY.into(), by.into());
                params
            }
        };
        let (seed, user_attrs) = self.seed_of(number);
        let distributions = self.spec.space.distributions(&params);
        self.outbox.push(Write::TrialCreated {
            number,
            last: number.saturating_add(self.new_trials_wanted().saturating_sub(1)),
            since: self.nodes.first_unknown(number),
            study_seed: Some(self.spec.seed),
            params: params.clone(),
            distributions: distributions.clone(),
            user_attrs: user_attrs.clone(),
            system_attrs: system_attrs.clone(),
        });
        let trial = FrozenTrial {
            distributions,
            user_attrs,
            system_attrs,
            ..FrozenTrial::new(number, TrialState::Running, params)
        };
        self.add_active(trial, seed);
        Some(number)
    }

    /// A new trial's seed, and the user attribute that tells it.
    pub(super) fn seed_of(&self, number: u64) -> (u64, Map<String, Json>) {
        let seed = study::derive_seed(self.spec.seed, number, "trial");
        let attrs = [("seed".to_owned(), seed.into())];
        (seed, attrs.into_iter().collect())
    }

    fn add_active(&mut self, trial: FrozenTrial, seed: u64) {
        self.history.put(&self.spec.space, &trial);
        self.progress.put(&trial);
        let job = Job::trial(trial.number);
        self.active
            .insert(job, ActiveTrial::new(trial, 0, seed, Tally::default()));
        self.predict(job);
    }

    /// The point of an enqueued trial: its fixed values, the rest from `others`; or why it cannot
    /// be run.
    fn completed(&self, fixed: &Params, others: &Params) -> Result<Params, String> {
        let params = self.spec.space.build(|_, parameter, domain| {
            let wanted = fixed.get(&parameter.name);
            let value = wanted.or_else(|| others.get(&parameter.name));
            value
                .filter(|v| wanted.is_some() || domain.contains(v))
                .or(parameter.default.as_ref().filter(|v| domain.contains(v)))
                .cloned()
                .unwrap_or_else(|| domain.middle())
        });
        match self.refusal(&params, fixed) {
            None => Ok(params),
            Some(problem) => Err(problem),
        }
    }

    /// The same with random values for the rest, the first that can be run.
    fn completed_at_random(&self, number: u64, fixed: &Params) -> Option<Params> {
        let mut rng = study::rng(self.spec.seed, number, "completion");
        (0..COMPLETIONS).find_map(|_| {
            let params = self.spec.space.build(|_, parameter, domain| {
                let wanted = fixed.get(&parameter.name).cloned();
                wanted.unwrap_or_else(|| domain.sample(&mut rng))
            });
            self.refusal(&params, fixed).is_none().then_some(params)
        })
    }

    /// Why an enqueued trial cannot be run, if it cannot.
    fn refusal(&self, params: &Params, fixed: &Params) -> Option<String> {
        let space = &self.spec.space;
        for parameter in &space.parameters {
            let Some(value) = params.get(&parameter.name) else {
                continue;
            };
            let domain = space.active_domain(parameter, params);
            let inside = domain.as_ref().is_some_and(|d| d.contains(value));
            if !inside && fixed.contains_key(&parameter.name) {
                let domain = domain.unwrap_or_else(|| parameter.domain.clone());
                let value = value.to_json();
                return Some(format!(
                    "{} = {value}, expected a value within {domain}",
                    parameter.name
                ));
            }
        }
        space
            .violated(params)
            .map(|c| format!("the constraint {} is violated", c.expr))
    }

    /// Ends a trial as infeasible, never started.
    fn refuse(&mut self, number: u64, mut trial: FrozenTrial, problem: &str) {
        let mut user_attrs = Map::new();
        user_attrs.insert("infeasible".into(), true.into());
        user_attrs.insert("error_msg".into(), problem.into());
        // Claimed first: only what is ours is ended by us.
        self.outbox.push(Write::TrialClaimed {
            number,
            params: trial.params.clone(),
            distributions: trial.distributions.clone(),
            user_attrs: Map::new(),
        });
        self.outbox.push(Write::TrialFinished {
            number,
            state: TrialState::Pruned,
            values: Vec::new(),
            user_attrs: user_attrs.clone(),
            system_attrs: Map::new(),
        });
        trial.state = TrialState::Pruned;
        trial.user_attrs.extend(user_attrs);
        self.history.put(&self.spec.space, &trial);
        self.record_end(&trial);
    }

    /// Notes a trial's end and tells people.
    pub(super) fn record_end(&mut self, trial: &FrozenTrial) {
        self.repeats.look_again();
        if let Some(weights) = &mut self.weights {
            weights.ended(trial);
        }
        let best = self.progress.put(trial);
        let failure = self.count_streaks(trial);
        self.failures.extend(failure);
        let several = !self.spec.further.is_empty();
        self.report(report::Event::TrialFinished(report::TrialFinished {
            number: trial.number,
            state: trial.state,
            value: trial.value().filter(|_| !several),
            values: trial.values.clone(),
            params: trial.params.clone(),
            attrs: trial.user_attrs.clone(),
            counts: self.progress.counts(),
            leads: best.is_some(),
            best: self
                .progress
                .best()
                .and_then(|b| Some((b.number, b.value?))),
        }));
        if let Some(best) = best {
            self.report(report::Event::NewBest(best));
        }
    }

    /// Counts the end of a trial for the breaker; gives its failure, if it has failed.
    pub(super) fn count_streaks(&mut self, trial: &FrozenTrial) -> Option<fault::Failure> {
        let failure = report::failure(trial, self.log_of(trial));
        let failed = failure.as_ref().filter(|_| self.says_nothing_works(trial));
        let doubted = self.in_doubt().is_some();
        self.progress
            .ended(trial, failed.map(|f| f.message.as_str()));
        if !doubted {
            self.tell_of_doubt();
        }
        failure
    }

    /// Whether the failure of a trial says that nothing works: it is FAIL, or its program has come to a bad end before
    /// it gave any value. A worker's own deaths are counted by its slot.
    fn says_nothing_works(&self, trial: &FrozenTrial) -> bool {
        let gave_nothing = trial.values.is_empty() && trial.intermediate.is_empty();
        trial.state == TrialState::Fail || self.spec.runs_programs() && gave_nothing
    }

    /// The log of a trial's last attempt.
    fn log_of(&self, trial: &FrozenTrial) -> Option<String> {
        let attempts = trial.user_attrs.get("attempts")?.as_u64()?;
        let attempt = AttemptId {
            number: trial.number,
            purpose: Purpose::Search,
            attempt: u32::try_from(attempts.checked_sub(1)?).ok()?,
        };
        let log = self.dir.join(log_name(&self.spec.study, attempt));
        Some(log.to_string_lossy().into_owned())
    }

    /// A batch is durable, but for what other programs got ahead of: what it recorded may be sent.
    pub(super) fn on_written(&mut self, batch: u64, late: &[Write], changes: Changes) {
        let Some(pending) = self.pending.remove(&batch) else {
            return;
        };
        let refused = RefusedStarts::of(late);
        self.undo(&pending.writes, &refused);
        self.taken_over(&pending.writes, &refused);
        let overruled: Vec<Job> = late.iter().filter_map(Write::job_ended).collect();
        for job in &pending.ends {
            self.repeats.answered(*job, !overruled.contains(job));
        }
        self.merge_foreign_changes(changes);
        self.resolve_contested(&pending.writes);
        let durable = |job: &Job| !overruled.contains(job);
        let ends: Vec<Job> = pending.ends.iter().copied().filter(durable).collect();
        self.keep_weights(&ends);
        // What another node has taken over it may be at, with the same files, unless another program has ended it. One that is
        // live again is a new trial with the number of a deleted one.
        let shared = self.nodes.shared();
        let over =
            |job: &Job| *job == Job::trial(job.number) && self.progress.has_ended(job.number);
        let ended = pending.ends.into_iter();
        let ended = ended.filter(|job| !shared || durable(job) || over(job));
        let ended: Vec<Job> = ended.filter(|j| !self.active.contains_key(j)).collect();
        ended.into_iter().for_each(|job| self.forget(job));
        if let Some((worker, attempt)) = pending.sends {
            self.send_attempt(worker, attempt, refused.attempt(&attempt));
        }
        self.send_held_back();
    }

    /// Sends an attempt to the worker that waits for its record; one that is not on record, or whose
    /// trial is gone or was ended meanwhile, leaves the worker idle.
    fn send_attempt(&mut self, worker: WorkerId, attempt: AttemptId, refused: bool) {
        let job = attempt.job();
        let Some(slot) = self.slot_of(worker) else {
            return;
        };
        if refused || !self.active.contains_key(&job) {
            let waited = self.slots[slot].unrecord(attempt);
            if waited && !refused {
                self.end_orphan(attempt, FaultKind::Interrupted.word(), "");
            }
            let elsewhere = self.slots.iter().any(|s| s.attempt() == Some(attempt));
            if waited && !elsewhere && self.active.contains_key(&job) {
                match job.searches() {
                    true => _ = self.retry.insert(job),
                    // Another node was faster.
                    false => {
                        self.drop_live(job);
                        self.repeats.look_again();
                    }
                }
            }
            return;
        }
        if !self.slots[slot].sent(attempt, self.now) {
            return;
        }
        let Some(active) = self.active.get_mut(&job) else {
            return;
        };
        active.started = self.now;
        let seed = active.seed;
        let params = active.trial.params.clone();
        let trial = TrialSpec {
            purpose: attempt.purpose,
            attempt: attempt.attempt,
            halvings: active.halvings,
            ..TrialSpec::new(&self.spec, attempt.number, seed, params)
        };
        let params = trial.params.clone();
        let grant = active.reservation.grant;
        let run = ToWorker::Run {
            trial: Box::new(trial),
            log: log_name(&self.spec.study, attempt),
            max_log_bytes: self.spec.operation.max_log_bytes,
            checkpoint: (self.spec.operation.supervisor.checkpoint)
                .then(|| checkpoint_name(&self.spec.study, job)),
            keep_best: self.keep_best(job),
            grant,
        };
        self.send(worker, run);
        self.report(match attempt.purpose {
            Purpose::Search => report::Event::TrialStarted {
                number: attempt.number,
                attempt: attempt.attempt,
                worker,
                params,
            },
            Purpose::Repeat(_) | Purpose::Test => report::Event::RepeatStarted {
                job,
                attempt: attempt.attempt,
                worker,
                seed,
                params,
            },
        });
    }
}

/// The log of an attempt, relative to the database's directory.
pub fn log_name(study: &str, attempt: AttemptId) -> String {
    let stem = attempt.job().file_stem();
    let study = part(study);
    format!("logs/{study}/{stem}-attempt-{}.log", attempt.attempt)
}

/// The directory of a training's checkpoint, relative to the database's directory.
pub fn checkpoint_name(study: &str, job: Job) -> String {
    format!("{}/{}", checkpoints_dir(study), job.file_stem())
}
