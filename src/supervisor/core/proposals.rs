//! What the search is asked for, and its answers. A proposal may take its time, so it is made elsewhere: asked for by
//! [`Action::Propose`], answered by [`Event::Proposed`]. There is one question at a time, because each proposal takes
//! into account those before it.
//!
//! [`Event::Proposed`]: crate::Event::Proposed

use super::{Core, Mode};
use crate::Action;
use search::sampler::Proposal;
use search::study::derive_seed;

/// The question to the sampler that is open, and its last answer.
pub(super) struct Search {
    /// The sampler's name.
    pub(super) sampler: &'static str,
    /// The seed of its generators: the study's, until another node has proposed the same point.
    seed: u64,
    /// The question that is on its way.
    asked: Option<Question>,
    /// What came last, until it is used.
    answer: Option<Answer>,
    /// Whether nothing is left to propose, and the revision of the study's progress for which that was asked.
    exhausted: Option<(u64, bool)>,
}

struct Question {
    /// The revision of the study's progress when it was asked.
    revision: u64,
    /// The first number of which no trial was known then.
    since: u64,
    /// A worker waits for the answer.
    waited_for: bool,
}

struct Answer {
    number: u64,
    /// `None`: no point satisfies the constraints.
    proposal: Option<Proposal>,
    /// The revision of the study's progress for which it is good.
    revision: u64,
    /// See [`Question`].
    since: u64,
    /// A worker waited for it.
    waited_for: bool,
}

impl Search {
    pub(super) fn new(sampler: &'static str, seed: u64) -> Search {
        Search {
            sampler,
            seed,
            asked: None,
            answer: None,
            exhausted: None,
        }
    }
}

impl Core {
    /// The proposal for a trial that a worker waits for; `None` while it is on its way, which it is now at the latest.
    ///
    /// What comes for a worker that waits is used although something has changed meanwhile: with many workers
    /// something always has. What nobody had a use for when it came is used later only if nothing has changed since.
    pub(super) fn proposal(&mut self, number: u64) -> Option<Option<Proposal>> {
        let revision = self.progress.revision();
        let answer = self.search.answer.take();
        // Other programs may have taken numbers meanwhile: who asks often must not keep us from ever beginning.
        let twin = |a: &Answer| {
            let proposal = a.proposal.as_ref();
            proposal.is_some_and(|p| self.tried_since(a.since, &p.params))
        };
        let twin = answer.as_ref().is_some_and(twin);
        let fits = |a: &Answer| a.number <= number && a.revision == revision && !twin;
        let answer = answer.filter(fits).map(|a| a.proposal);
        if twin {
            self.propose_apart();
        }
        if answer.is_none() {
            self.ask(number, true);
        }
        answer
    }

    /// A worker waits for a new trial that cannot be made yet: its proposal is made meanwhile, and stays good while the
    /// worker waits.
    pub(super) fn propose_meanwhile(&mut self, number: u64) {
        let revision = self.progress.revision();
        match &mut self.search.answer {
            // One that was asked for before there was a trial of its number is no answer for the next.
            Some(answer) if answer.waited_for && answer.number == number => {
                answer.revision = revision
            }
            Some(_) | None => self.ask(number, true),
        }
    }

    /// Another node has proposed the same point, from the same history with the same seed. From now on this one proposes
    /// with a seed of its own: else as many would go on to propose the same, and all but one in vain.
    pub(super) fn propose_apart(&mut self) {
        if let Some(run) = self.nodes.own {
            self.search.seed = derive_seed(self.spec.seed, run.unsigned_abs(), "node");
        }
    }

    fn ask(&mut self, number: u64, waited_for: bool) {
        if self.search.asked.is_none() {
            let revision = self.progress.revision();
            self.search.asked = Some(Question {
                revision,
                since: self.nodes.first_unknown(number),
                waited_for,
            });
            let news = self.history.take_updates();
            let seed = self.search.seed;
            self.actions.push(Action::Propose { number, news, seed });
        }
    }

    /// Whether a worker waits for a proposal, and can be given it when it comes, or when the new trial before it has its
    /// number.
    pub(super) fn starts_soon(&self) -> bool {
        let asked = self.search.asked.as_ref().is_some_and(|q| q.waited_for);
        let answered = self.search.answer.as_ref().is_some_and(|a| a.waited_for);
        let waits = asked || answered && self.new_on_its_way().is_some();
        waits && self.mode == Mode::Running && self.outage.is_none() && !self.done()
    }

    /// Whether a proposal is on its way.
    pub(super) fn asked(&self) -> bool {
        self.search.asked.is_some()
    }

    pub(super) fn on_proposed(&mut self, number: u64, proposal: Option<Proposal>, exhausted: bool) {
        let Some(question) = self.search.asked.take() else {
            return;
        };
        self.search.exhausted = Some((question.revision, exhausted));
        let revision = match question.waited_for {
            true => self.progress.revision(),
            false => question.revision,
        };
        self.search.answer = Some(Answer {
            number,
            proposal,
            revision,
            since: question.since,
            waited_for: question.waited_for,
        });
    }

    /// Asks whether anything is left to propose where that is not known: at the beginning, and where something has
    /// changed in a study of which nothing was left.
    pub(super) fn look_for_end_of_search(&mut self) {
        let now = self.progress.revision();
        let known = (self.search.exhausted).is_some_and(|(at, over)| !over || at == now);
        if !known && self.searching() && self.mode == Mode::Running {
            self.ask(self.progress.next_number(), false);
        }
    }

    /// Whether something may be left to propose, as far as is known; at the beginning nothing is known, which
    /// counts as no.
    pub(super) fn searches_on(&self) -> bool {
        self.search.exhausted.is_some_and(|(_, over)| !over)
    }

    /// Whether it is sure that nothing is left to propose.
    pub(super) fn searched_out(&self) -> bool {
        self.search.exhausted == Some((self.progress.revision(), true))
    }
}
