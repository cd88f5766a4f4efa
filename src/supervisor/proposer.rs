//! Who answers [`Action::Propose`](super::Action::Propose): the sampler, with what it knows of the study.

use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use super::Event;
use super::event_channel::EventSender;
use config::StudySpec;
use search::sampler::{Ask, Sampler};
use search::space::Space;
use search::study::{History, Updates};

/// The sampler, with the history that it is told of.
pub struct Proposer {
    sampler: Box<dyn Sampler>,
    space: Space,
    history: History,
}

impl Proposer {
    /// One that knows of no trial yet.
    pub fn new(sampler: Box<dyn Sampler>, spec: &StudySpec) -> Proposer {
        Proposer {
            sampler,
            space: spec.space.clone(),
            history: History::new(spec.directions()),
        }
    }

    /// The sampler's name.
    pub fn name(&self) -> &'static str {
        self.sampler.name()
    }

    /// The point for the trial of this number, after what has become of the others, by a generator of this seed.
    pub fn answer(&mut self, number: u64, news: Updates, seed: u64) -> Event {
        self.history.apply(news);
        let ask = Ask {
            space: &self.space,
            history: &self.history,
            number,
            seed,
        };
        let exhausted = self.sampler.exhausted(&ask);
        Event::Proposed {
            number,
            proposal: self.sampler.propose(&ask),
            exhausted,
        }
    }
}

/// A proposer on a thread of its own. Dropping this does not wait for the question that it is working on: nobody has a
/// use for the answer.
pub(super) struct ProposerThread {
    questions: Sender<(u64, Updates, u64)>,
    thread: JoinHandle<()>,
}

impl ProposerThread {
    /// Starts the thread, which answers to `events`.
    ///
    /// # Errors
    /// It cannot be started.
    pub(super) fn start(mut proposer: Proposer, events: EventSender) -> io::Result<ProposerThread> {
        let (questions, asked): (_, Receiver<(u64, Updates, u64)>) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("proposer".into())
            .spawn(move || {
                for (number, news, seed) in asked {
                    if events.send(proposer.answer(number, news, seed)).is_err() {
                        return;
                    }
                }
            })?;
        Ok(ProposerThread { questions, thread })
    }

    /// Asks; does not wait for the answer.
    pub(super) fn ask(&self, number: u64, news: Updates, seed: u64) {
        // Where it is gone, [`ProposerThread::is_gone`] tells.
        let _ = self.questions.send((number, news, seed));
    }

    /// Whether it has ended, which only a defect of a sampler does: no answer will come any more.
    pub(super) fn is_gone(&self) -> bool {
        self.thread.is_finished()
    }
}
