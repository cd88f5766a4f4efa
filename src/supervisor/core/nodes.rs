//! Other nodes that work on the same study: what they run is left to them, and what they leave is taken over.
//!
//! A node that vanishes loses its lease; its trials are then nobody's, and each node takes over as many as it has slots
//! free for. Two nodes that want the same one ask the database, as for a new trial. A trial that another node
//! has taken from this one is ended here, and its files are the other node's business.

use std::collections::{BTreeMap, BTreeSet};

use super::Core;
use super::active_trial::ActiveTrial;
use super::repeats::Repeated;
use fault::Tally;
use search::study::{self, FrozenTrial, Job};
use store::{AttemptRecord, Held, Write};

/// What is known of them.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    /// Whether there may be others.
    pub(super) shared: bool,
    /// The trials and repeats that they run.
    elsewhere: BTreeSet<Job>,
    /// The trials that nobody runs any more.
    left: BTreeMap<u64, Left>,
}

/// A trial that a node has left RUNNING.
#[derive(Debug, Clone)]
struct Left {
    trial: FrozenTrial,
    /// The attempt to make next.
    attempt: u32,
    tally: Tally,
}

/// The faults of earlier attempts.
pub fn tally(attempts: &[AttemptRecord]) -> Tally {
    let mut tally = Tally::default();
    for attempt in attempts {
        tally.add_word(attempt.outcome.as_deref().unwrap_or_default());
    }
    tally
}

impl Nodes {
    /// Of none yet; `shared`: there may be some.
    pub(super) fn new(shared: bool) -> Nodes {
        Nodes {
            shared,
            ..Nodes::default()
        }
    }

    /// Trials that others run, or that are to be taken over.
    pub(super) fn trials(&self) -> u64 {
        let elsewhere = self.elsewhere.iter().filter(|job| job.searches());
        (elsewhere.count() + self.left.len()) as u64
    }

    /// Whether others run repeats.
    pub(super) fn repeat(&self) -> bool {
        self.elsewhere.iter().any(|job| !job.searches())
    }

    /// Whether another node runs this.
    pub(super) fn run(&self, job: Job) -> bool {
        self.elsewhere.contains(&job)
    }
}

impl Core {
    /// What other nodes do has changed.
    pub(super) fn on_held(&mut self, held: Held) {
        self.nodes.elsewhere = held.elsewhere;
        self.nodes.left = held
            .left
            .into_iter()
            .map(|(trial, reclaimable)| {
                let left = Left {
                    trial,
                    attempt: reclaimable.next_attempt(),
                    tally: tally(&reclaimable.attempts),
                };
                (reclaimable.number, left)
            })
            .collect();
        for record in held.repeats {
            let repeated = Repeated::of(record);
            let job = repeated.job;
            let begun = self.active.contains_key(&job);
            if begun && (repeated.ended.is_some() || self.nodes.run(job)) {
                self.lose(job);
            }
            if repeated.ended.is_some() || !begun {
                self.repeats.found(repeated, self.nodes.run(job));
            }
        }
        self.repeats.look_again();
    }

    /// Another node has taken it over: what goes on here is of no use.
    pub(super) fn lose(&mut self, job: Job) {
        self.kill_attempts_of(|attempt| attempt.job() == job);
        self.drop_live(job);
    }

    /// Takes over what nobody runs any more, as far as there are slots for it.
    pub(super) fn take_over(&mut self) {
        let open = self.slots.iter().filter(|s| !s.spare && !s.is_drained());
        let mut room = open.count().saturating_sub(self.active.len());
        while room > 0
            && let Some((number, left)) = self.nodes.left.pop_first()
        {
            let seed = study::derive_seed(self.spec.seed, number, "trial");
            let Left {
                mut trial,
                attempt,
                tally,
            } = left;
            trial.intermediate.clear();
            let mut active = ActiveTrial::new(trial, attempt, seed, tally);
            if self.spec.operation.halve {
                active.halvings = tally.oom;
            }
            let job = Job::trial(number);
            self.outbox.push(Write::TrialReclaimed { number });
            self.history.clear_reports(number);
            self.active.insert(job, active);
            self.retry.insert(job);
            self.predict(job);
            self.warn(format!(
                "{job} is taken over from a node that is gone: attempt {attempt} begins here, and nothing is held against \
                 the trial"
            ));
            room -= 1;
        }
    }
}
