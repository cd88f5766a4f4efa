//! A core whose proposals come at once, as far as a test does not say otherwise.

use std::ops::{Deref, DerefMut};

use super::super::*;
use crate::Proposer;
use search::sampler::{Ask, Proposal, Sampler};
use search::study::Updates;

/// A core and who answers its questions.
pub struct Driven {
    core: Core,
    proposer: Proposer,
}

impl Driven {
    pub fn new(start: Start, sampler: impl Sampler + 'static) -> Driven {
        Driven {
            proposer: Proposer::new(Box::new(sampler), &start.spec),
            core: Core::new(start),
        }
    }

    /// Another sampler, before the first event.
    pub fn search_by(&mut self, sampler: impl Sampler + 'static) {
        assert!(!self.core.started);
        self.proposer = Proposer::new(Box::new(sampler), &self.core.spec);
    }

    /// Takes an event that has come just now; gives what is to be done, in order. Questions are among it.
    pub fn one(&mut self, event: Event, now: Now) -> Vec<Action> {
        let mut actions = self.core.on_event(event, now, now);
        actions.extend(self.core.start_work(now));
        actions
    }

    /// The same, with all questions answered.
    pub fn handle(&mut self, event: Event, now: Now) -> Vec<Action> {
        let mut events = vec![event];
        let mut done = vec![];
        while let Some(event) = events.pop() {
            for action in self.one(event, now) {
                if let Action::Propose { number, news, seed } = action {
                    events.push(self.answer(number, news, seed));
                } else {
                    done.push(action);
                }
            }
        }
        done
    }

    pub fn answer(&mut self, number: u64, news: Updates, seed: u64) -> Event {
        self.proposer.answer(number, news, seed)
    }
}

/// A sampler whose points depend on all that it is told of other trials.
pub struct Learns;

impl Sampler for Learns {
    fn name(&self) -> &'static str {
        "learns"
    }

    fn candidate(&mut self, ask: &Ask) -> Option<Proposal> {
        let told = format!("{:?}", ask.history.entries());
        let mut rng = study::rng(ask.seed, ask.number, &told);
        Some(Proposal {
            params: ask.space.build(|_, _, domain| domain.sample(&mut rng)),
            by: self.name(),
        })
    }
}

impl Deref for Driven {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.core
    }
}

impl DerefMut for Driven {
    fn deref_mut(&mut self) -> &mut Core {
        &mut self.core
    }
}
