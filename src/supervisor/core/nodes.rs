//! Other nodes that work on the same study: what they run is left to them, and what they leave is taken over.
//!
//! A node that vanishes loses its lease; its trials are then nobody's, and each node takes over as many as it has slots
//! free for. Two nodes that want the same one ask the database, as for a new trial. A trial that another node
//! has taken from this one is ended here, and its files are the other node's business.

use std::collections::{BTreeMap, BTreeSet};

use super::repeats::Repeated;
use super::{Core, left_trial};
use crate::refused_starts::RefusedStarts;
use search::space::Params;
use search::study::{FrozenTrial, Job, TrialState};
use store::{OtherNodes, Reclaimable, Write};

/// What is known of them.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    /// The own run's row, where there may be others.
    pub(super) own: Option<i64>,
    /// The trials and repeats that they run.
    running: BTreeSet<Job>,
    /// The trials that nobody runs any more, those that this node takes over included until that is durable.
    left: BTreeMap<u64, (FrozenTrial, Reclaimable)>,
    /// The numbers that others were faster to take, until the trials that have them are found.
    pub(super) unseen: BTreeSet<u64>,
}

impl Nodes {
    /// Of none yet; `own`: the own run's row, where there may be some.
    pub(super) fn new(own: Option<i64>) -> Nodes {
        Nodes {
            own,
            ..Nodes::default()
        }
    }

    /// Whether there may be others.
    pub(super) fn shared(&self) -> bool {
        self.own.is_some()
    }

    /// Trials that others run, that are to be taken over, or of which no more is known than that there are some: each may
    /// count towards the goal.
    pub(super) fn trials(&self) -> u64 {
        let trials = self.running.iter().filter(|job| job.searches());
        (trials.count() + self.left.len() + self.unseen.len()) as u64
    }

    /// The first number whose trial is not known; `next` is the number that the next trial gets.
    pub(super) fn first_unknown(&self, next: u64) -> u64 {
        self.unseen.first().copied().unwrap_or(next)
    }

    /// Whether others run repeats.
    pub(super) fn repeat(&self) -> bool {
        self.running.iter().any(|job| !job.searches())
    }

    /// Whether another node runs this.
    pub(super) fn run(&self, job: Job) -> bool {
        self.running.contains(&job)
    }
}

impl Core {
    /// What other nodes do has changed.
    pub(super) fn on_other_nodes(&mut self, nodes: OtherNodes) {
        self.nodes.running = nodes.running;
        let left = nodes.left.into_iter();
        self.nodes.left = left.map(|left| (left.0.number, left)).collect();
        for record in nodes.repeats {
            let repeated = Repeated::of(record);
            let job = repeated.job;
            let begun = self.active.contains_key(&job);
            if begun && (repeated.ended.is_some() || self.nodes.run(job)) {
                self.lose(job);
            }
            self.repeats.found(repeated, self.nodes.run(job));
        }
        self.repeats.look_again();
    }

    /// Whether a point has been tried in a trial from this number on, which it was proposed without knowing of: nodes that know
    /// the same propose the same.
    pub(super) fn tried_since(&self, number: u64, params: &Params) -> bool {
        let entries = self.history.entries().iter().rev();
        let mut since = entries.take_while(|entry| entry.number >= number);
        self.nodes.shared() && since.any(|entry| entry.params == *params)
    }

    /// Trials that have failed here and whose end is not durable yet: another node may have taken one over, and there it may
    /// count.
    pub(super) fn failures_on_their_way(&self) -> u64 {
        let sent = self.pending.values().flat_map(|pending| &pending.writes);
        let failed = sent.chain(&self.outbox).filter(|write| {
            let fails = |state: &TrialState| *state == TrialState::Fail;
            self.nodes.shared()
                && matches!(write, Write::TrialFinished { state, .. } if fails(state))
        });
        failed.count() as u64
    }

    /// These writes are durable, but for what was refused: what they take over is this node's.
    pub(super) fn taken_over(&mut self, writes: &[Write], refused: &RefusedStarts) {
        for write in writes {
            if let Write::TrialReclaimed { number, .. } = write
                && refused.trials().all(|refused| refused != *number)
            {
                self.nodes.left.remove(number);
            }
        }
    }

    /// Another node has taken it over: what goes on here is of no use.
    pub(super) fn lose(&mut self, job: Job) {
        self.kill_attempts_of(|attempt| attempt.job() == job);
        self.drop_live(job);
    }

    /// Takes over what nobody runs any more, as far as there are slots for it.
    pub(super) fn take_over(&mut self) {
        let open = self.slots.iter().filter(|s| !s.spare && !s.is_drained());
        let room = open.count().saturating_sub(self.active.len());
        // A trial of this number that is on its way is the same one, or a new one whose number another node has got.
        let on_its_way = |number: &u64| self.active.contains_key(&Job::trial(*number));
        let left = (self.nodes.left.iter()).filter(|(number, _)| !on_its_way(number));
        let taken: Vec<_> = left
            .take(room)
            .map(|(n, left)| (*n, left.clone()))
            .collect();
        for (number, (trial, again)) in taken {
            let job = Job::trial(number);
            let attempt = again.next_attempt();
            self.outbox.push(Write::TrialReclaimed { number, attempt });
            self.history.clear_reports(number);
            self.warn(format!(
                "{job} is taken over from a node that is gone: attempt {attempt} begins here, and nothing is held against the trial"
            ));
            self.active
                .insert(job, left_trial(&again, &self.spec, trial));
            self.retry.insert(job);
            self.predict(job);
        }
    }
}
