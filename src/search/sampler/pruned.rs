//! Points beside one at which a trial was pruned are proposed only where there is nothing else: what
//! ended the one would end the other.
//!
//! A model learns the same, but slowly where the early steps of a trial say little of its end: each
//! pruned trial enters with much doubt, and many of them are wasted on one point that a trend makes
//! look best. The best known point is no such point, whatever became of a trial beside it.

use super::{Ask, Proposal, random};
use crate::space::{Domain, Params, Space};
use crate::study::{self, TrialState};

/// How far apart the numbers of two points may be, on the unit interval, that are beside each other;
/// their choices are equal.
const NEAR: f64 = 0.01;

/// Times that a sampler is asked again.
const ASKED: u64 = 4;

/// Random points that are then looked at.
const DRAWN: usize = 30;

/// Proposals of a sampler, asked again with other randomness while they lie beside a pruned point;
/// then a random point. What it proposed first where all of that leads to nothing: a small space has
/// an end.
pub(super) fn avoided(
    ask: &Ask,
    mut candidate: impl FnMut(&Ask) -> Option<Proposal>,
) -> Option<Proposal> {
    let first = candidate(ask)?;
    let pruned = codes(ask);
    let beside = |params: &Params| {
        let code = ask.space.encode(params);
        pruned.iter().any(|p| beside_code(ask.space, p, &code))
    };
    if !beside(&first.params) {
        return Some(first);
    }
    let asked = (0..ASKED).find_map(|time| {
        let seed = study::derive_seed(ask.seed, time, "elsewhere");
        candidate(&Ask { seed, ..*ask }).filter(|p| !beside(&p.params))
    });
    let drawn = || {
        let mut rng = study::rng(ask.seed, ask.number, "elsewhere");
        (0..DRAWN)
            .map_while(|_| random::draw_or_walk(ask, &mut rng))
            .find(|params| !beside(params))
            .map(Proposal::by(random::BY))
    };
    asked.or_else(drawn).or(Some(first))
}

/// The points of pruned trials, in internal representation, that do not lie beside the best one.
pub(super) fn codes<'a>(ask: &Ask<'a>) -> Vec<&'a [f64]> {
    let best = ask.history.best();
    let is_best = |code: &[f64]| best.is_some_and(|b| beside_code(ask.space, &b.code, code));
    let entries = ask.history.entries().iter();
    entries
        .filter(|e| e.state == TrialState::Pruned && e.number != ask.number)
        .map(|e| e.code.as_slice())
        .filter(|code| !is_best(code))
        .collect()
}

/// Whether two points lie beside each other, by coordinates (see `encoding`): indices of choices
/// differ by 1 at least.
pub(super) fn beside(a: &[f64], b: &[f64]) -> bool {
    a.iter().zip(b).all(|(a, b)| near(*a, *b))
}

/// The same in internal representation. Of most points the first parameter tells.
fn beside_code(space: &Space, a: &[f64], b: &[f64]) -> bool {
    let of = |code: &[f64], index: usize| code.get(index).copied().unwrap_or(f64::NAN);
    let parameters = space.parameters.iter().enumerate();
    parameters
        .map(|(i, p)| (&p.domain, of(a, i), of(b, i)))
        .all(|(domain, a, b)| {
            let place = |internal: f64| match domain {
                Domain::Categorical { .. } => internal,
                Domain::Float { .. } | Domain::Int { .. } => domain.to_unit(internal),
            };
            a == b || near(place(a), place(b))
        })
}

fn near(a: f64, b: f64) -> bool {
    a.is_nan() && b.is_nan() || (a - b).abs() <= NEAR
}
