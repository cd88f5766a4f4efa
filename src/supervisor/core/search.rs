//! What the search is asked for, and its answers. A proposal may take its time, so it is made elsewhere: asked for by
//! [`Action::Propose`], answered by [`Event::Proposed`]. There is one question at a time, because each proposal takes
//! into account those before it.
//!
//! [`Event::Proposed`]: crate::supervisor::Event::Proposed

use super::{Core, Mode};
use crate::report::Counts;
use crate::sampler::Proposal;
use crate::supervisor::Action;

/// See the module.
pub(super) struct Search {
    /// The sampler's name.
    pub(super) sampler: &'static str,
    /// The question that is on its way, and the counts when it was asked.
    asked: Option<Counts>,
    /// What came last, until it is used.
    answer: Option<Answer>,
    /// Whether nothing is left to propose, and the counts for which that was asked.
    exhausted: Option<(Counts, bool)>,
}

struct Answer {
    number: u64,
    /// `None`: no point satisfies the constraints.
    proposal: Option<Proposal>,
    /// When it came.
    counts: Counts,
}

impl Search {
    pub(super) fn new(sampler: &'static str) -> Search {
        Search {
            sampler,
            asked: None,
            answer: None,
            exhausted: None,
        }
    }
}

impl Core {
    /// The proposal for a trial; `None` as long as it is on its way, and asks for it first.
    ///
    /// One that nobody had a use for when it came is used later only if nothing has ended or begun since.
    pub(super) fn proposal(&mut self, number: u64) -> Option<Option<Proposal>> {
        let counts = self.board.counts();
        let answer = self.search.answer.take();
        // Other programs may have taken numbers meanwhile: who asks often must not keep us from ever beginning.
        let fits = |a: &Answer| a.number <= number && a.counts == counts;
        let answer = answer.filter(fits).map(|a| a.proposal);
        if answer.is_none() {
            self.ask(number);
        }
        answer
    }

    fn ask(&mut self, number: u64) {
        if self.search.asked.is_none() {
            self.search.asked = Some(self.board.counts());
            let news = self.history.news();
            self.actions.push(Action::Propose { number, news });
        }
    }

    /// Whether a proposal is on its way.
    pub(super) fn asked(&self) -> bool {
        self.search.asked.is_some()
    }

    pub(super) fn on_proposed(&mut self, number: u64, proposal: Option<Proposal>, exhausted: bool) {
        if let Some(counts) = self.search.asked.take() {
            self.search.exhausted = Some((counts, exhausted));
        }
        self.search.answer = Some(Answer {
            number,
            proposal,
            counts: self.board.counts(),
        });
    }

    /// Asks whether anything is left to propose where that is not known: at the beginning, and where something has
    /// changed in a study of which nothing was left.
    pub(super) fn look_for_end_of_search(&mut self) {
        let counts = self.board.counts();
        let known = (self.search.exhausted).is_some_and(|(at, over)| !over || at == counts);
        let wanted = counts.finished() < self.spec.operation.trials;
        if !known && wanted && self.mode == Mode::Running {
            self.ask(self.board.next_number());
        }
    }

    /// Whether something may be left to propose, as far as is known; at the beginning nothing is.
    pub(super) fn searches_on(&self) -> bool {
        self.search.exhausted.is_some_and(|(_, over)| !over)
    }

    /// Whether nothing is left to propose for sure.
    pub(super) fn searched_out(&self) -> bool {
        self.search.exhausted == Some((self.board.counts(), true))
    }
}
