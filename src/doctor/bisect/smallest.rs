//! The smallest set of parts that fails, with few runs, also where a failing input fails only sometimes.
//!
//! Parts are walked through in one order: the first prefix that fails ends with one member of the cause. That member
//! stays, the prefix before it is searched in the same way, and so on until the members fail alone: QuickXplain (Junker,
//! QUICKXPLAIN: preferred explanations and relaxations for over-constrained problems, AAAI 2004) in the form that takes
//! log2 of the parts for each member. At the end each member is left out once, so that the answer is 1-minimal as with
//! ddmin (Zeller and Hildebrandt, Simplifying and isolating failure-inducing input, IEEE TSE 28, 2002).
//!
//! Where a failing input fails at a rate below 1, a failure is certain and a clean run is a hint. So where the prefix
//! ends is a probability for each place, each run is made where it tells most, and a place counts once it is probable
//! enough (Burnashev and Zigangirov, An interval estimation problem for controlled observations, Problems of Information
//! Transmission 10, 1974). At a rate of 1 that is a binary search. A clean run too many only makes the prefix too long:
//! the cause is still within, and the part that was taken for a member falls when it is left out.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use crate::statistics::Rate;
use crate::statistics::runs_to_exclude;

/// Parts of the failing input, by number.
pub type Parts = BTreeSet<usize>;

/// What is asked: inputs are made of parts, and run.
pub trait Oracle {
    /// Something that can be run.
    type Input: Clone + PartialEq;
    /// Why no further run is made.
    type Stop;

    /// The surviving input with these parts of the failing one; `None` where there is no such input.
    fn input(&self, parts: &Parts) -> Option<Self::Input>;

    /// Runs it once: whether it fails in the way that is looked for.
    ///
    /// # Errors
    /// No further run is made, and why.
    fn fails(&mut self, input: &Self::Input) -> Result<bool, Self::Stop>;
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer<S> {
    /// Parts that belong to the cause; with [`End::Found`] they are all of it.
    pub parts: Parts,
    /// Where the search did not come to its end: parts that may belong to it, too.
    pub among: Parts,
    /// How the search ended.
    pub end: End<S>,
}

/// How a search ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End<S> {
    /// With a cause: it fails, and without any one of its parts it does not.
    Found,
    /// The input without any part fails, too.
    BaseFails,
    /// The oracle has stopped.
    Stopped(S),
}

/// The smallest of `count` parts that fail, where all of them together fail at `rate`.
pub fn smallest<O: Oracle>(oracle: &mut O, count: usize, rate: Rate) -> Answer<O::Stop> {
    let mut search = Search {
        oracle,
        rate,
        seen: Vec::new(),
        found: Parts::new(),
        rest: (0..count).collect(),
    };
    if let Some(all) = search.oracle.input(&(0..count).collect()) {
        search.seen.push(Seen {
            input: all,
            clean: rate.clean(),
            failed: true,
        });
    }
    let end = match search.run() {
        Ok(end) => end,
        Err(stop) => End::Stopped(stop),
    };
    Answer {
        parts: search.found,
        among: search.rest.into_iter().collect(),
        end,
    }
}

/// An input that was run.
struct Seen<I> {
    input: I,
    /// Runs without the fault.
    clean: u32,
    /// Whether it has failed: then it is not run again.
    failed: bool,
}

struct Search<'a, O: Oracle> {
    oracle: &'a mut O,
    /// Of inputs that are known to fail.
    rate: Rate,
    seen: Vec<Seen<O::Input>>,
    found: Parts,
    /// Parts that are not excluded, in order: together with what was found they fail.
    rest: Vec<usize>,
}

/// How improbable all other places may be together.
const DOUBT: f64 = 0.05;

/// How often the runs that exclude the fault are made without a member before it is believed to be needed: what was
/// taken for one by mistake falls here or not at all, and a fault that has always come may yet be flaky.
const TWICE: u32 = 2;

impl<O: Oracle> Search<'_, O> {
    fn run(&mut self) -> Result<End<O::Stop>, O::Stop> {
        if self.survives(&Parts::new(), 1)? == Some(false) {
            return Ok(End::BaseFails);
        }
        while !self.rest.is_empty() {
            let place = self.place()?;
            let (first, last) = ((*place.start()).max(1), *place.end());
            let members = self.rest.get(first - 1..last).unwrap_or_default();
            self.found.extend(members);
            self.rest.truncate(first - 1);
            if *place.start() == 0 {
                self.rest.clear();
            }
        }
        self.leave_out()?;
        Ok(End::Found)
    }

    /// The length of the shortest prefix that fails with what was found: 0 where that fails alone. A range where no
    /// input lies between.
    fn place(&mut self) -> Result<RangeInclusive<usize>, O::Stop> {
        let mut tried: Vec<(usize, Option<usize>)> = Vec::new();
        loop {
            let weights = self.weights(&tried);
            let range = probable(&weights);
            if range.start() == range.end() {
                return Ok(range);
            }
            let Some(next) = most_telling(&weights, self.rate.estimate(), &tried) else {
                return Ok(range);
            };
            let fresh = !tried.iter().any(|(at, _)| *at == next);
            let parts = self.with_found(next);
            let Some(input) = self.oracle.input(&parts) else {
                tried.push((next, None));
                continue;
            };
            let seen = self.seen(&input);
            if fresh {
                tried.push((next, Some(seen)));
            }
            // What is known of it costs no run.
            let known = self.seen[seen].failed || self.seen[seen].clean > 0;
            if !(fresh && known) {
                self.try_once(seen)?;
            }
        }
    }

    /// What was found, and so many of the rest.
    fn with_found(&self, prefix: usize) -> Parts {
        let rest = self.rest.iter().take(prefix);
        self.found.iter().chain(rest).copied().collect()
    }

    /// How probable each length of the prefix is, not normalised.
    fn weights(&self, tried: &[(usize, Option<usize>)]) -> Vec<f64> {
        let count = self.rest.len();
        // Half of the weight is on the first answer, that what was found is all: most causes are small.
        let alone = match self.found.is_empty() {
            true => 0.0,
            false => count as f64,
        };
        let mut weights = vec![1.0; count + 1];
        weights[0] = alone;
        let missed = 1.0 - self.rate.estimate();
        for (at, seen) in tried {
            let Some(seen) = seen.and_then(|seen| self.seen.get(seen)) else {
                continue;
            };
            let (within, beyond) = weights.split_at_mut(at + 1);
            if seen.failed {
                beyond.fill(0.0);
            } else {
                let factor = missed.powf(f64::from(seen.clean));
                within.iter_mut().for_each(|weight| *weight *= factor);
            }
        }
        weights
    }

    /// Leaves out each member that is not needed.
    fn leave_out(&mut self) -> Result<(), O::Stop> {
        let members: Vec<usize> = self.found.iter().rev().copied().collect();
        for member in members {
            let mut without = self.found.clone();
            without.remove(&member);
            if !without.is_empty() && self.survives(&without, TWICE)? == Some(false) {
                self.found = without;
            }
        }
        Ok(())
    }

    /// Whether an input survives so many times the runs that exclude the fault at 95 %; `None`: there is no such input.
    fn survives(&mut self, parts: &Parts, times: u32) -> Result<Option<bool>, O::Stop> {
        let Some(input) = self.oracle.input(parts) else {
            return Ok(None);
        };
        let seen = self.seen(&input);
        while !self.seen[seen].failed {
            if self.seen[seen].clean >= runs_to_exclude(self.rate.estimate()).saturating_mul(times)
            {
                return Ok(Some(true));
            }
            self.try_once(seen)?;
        }
        Ok(Some(false))
    }

    /// The place of an input among those that were run.
    fn seen(&mut self, input: &O::Input) -> usize {
        let known = self.seen.iter().position(|seen| seen.input == *input);
        known.unwrap_or_else(|| {
            self.seen.push(Seen {
                input: input.clone(),
                clean: 0,
                failed: false,
            });
            self.seen.len() - 1
        })
    }

    fn try_once(&mut self, seen: usize) -> Result<(), O::Stop> {
        let failed = self.oracle.fails(&self.seen[seen].input)?;
        let seen = &mut self.seen[seen];
        if failed {
            seen.failed = true;
            // The fault that always came comes only sometimes.
            if seen.clean > 0 || !self.rate.every_time() {
                self.rate.failed += 1;
                self.rate.all += 1 + seen.clean;
            }
        } else {
            seen.clean += 1;
        }
        Ok(())
    }
}

/// The shortest range of lengths that leaves out no more than [`DOUBT`]; what is beyond the last one is excluded.
fn probable(weights: &[f64]) -> RangeInclusive<usize> {
    let total: f64 = weights.iter().sum();
    let last = weights.iter().rposition(|w| *w > 0.0).unwrap_or(0);
    let mut left_out = 0.0;
    let first = weights.iter().position(|weight| {
        left_out += weight;
        left_out > DOUBT * total
    });
    first.unwrap_or(last)..=last
}

/// The prefix whose run tells most of where the place is: the greatest information between the place and what comes out,
/// where a prefix up to the place or longer fails at `rate`, and a shorter one never. `None`: no run tells anything.
fn most_telling(weights: &[f64], rate: f64, tried: &[(usize, Option<usize>)]) -> Option<usize> {
    let entropy = |p: f64| match p > 0.0 && p < 1.0 {
        true => -p * p.ln() - (1.0 - p) * (1.0 - p).ln(),
        false => 0.0,
    };
    let total: f64 = weights.iter().sum();
    let certain = entropy(rate);
    let mut within = 0.0;
    let mut best = (1e-12, None);
    for (at, weight) in weights.iter().enumerate() {
        within += weight / total;
        let told = entropy(rate * within) - within * certain;
        let possible = weights
            .get(at + 1..)
            .is_some_and(|rest| rest.iter().any(|w| *w > 0.0));
        let there_is = !tried.iter().any(|(t, seen)| *t == at && seen.is_none());
        if told > best.0 && possible && there_is {
            best = (told, Some(at));
        }
    }
    best.1
}
