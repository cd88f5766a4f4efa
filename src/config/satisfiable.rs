//! Whether any point of the space satisfies the constraints: said before a study is made.

use super::document::Document;
use super::problem::Problem;
use search::sampler::SamplerSpec;
use search::sampler::{self, Ask};
use search::space::{Params, Space};
use search::study::{self, Direction, History};

/// Random points that are tried, before the sampler that is asked for looks by its own means.
const POINTS: usize = 10_000;

/// Refuses constraints that no point satisfies, as far as a search can tell: a run would find
/// none, either. `space` is made of the document; `points` are tried first and satisfy them.
pub(super) fn refuse_unsatisfiable(
    document: &Document,
    space: &Space,
    points: &[Params],
    (sampler, seed): (&SamplerSpec, u64),
    problems: &mut Vec<Problem>,
) {
    let known = space.has_defaults() || !points.is_empty();
    if space.constraints.is_empty() || known {
        return;
    }
    let Some(held) = look(space, seed).filter(|_| !found_by(sampler, space, seed)) else {
        return;
    };
    let never: Vec<usize> = (0..held.len()).filter(|&i| !held[i]).collect();
    let (whose, none) = match never.is_empty() {
        true => (
            (0..held.len()).collect(),
            format!("some points satisfy it, but none of {POINTS} random ones all constraints"),
        ),
        false => (
            never,
            format!("none of {POINTS} random points satisfies it"),
        ),
    };
    for index in whose {
        let constraint = &space.constraints[index];
        let node = &document.constraints[index];
        let found = format!(
            "{}: {none}, and the sampler {} finds none either",
            constraint.expr, sampler.kind
        );
        let expected = "a constraint that leaves points to try; loosen it, or widen [space]";
        let source = &node.get("expr").unwrap_or(node).source;
        let owner = format!("constraints[{index}]");
        problems.push(Problem::new(source, owner, found, expected));
    }
}

/// Draws points; for each constraint whether any of them satisfied it, or `None` where one
/// satisfied all.
fn look(space: &Space, seed: u64) -> Option<Vec<bool>> {
    let mut rng = study::rng(seed, 0, "constraints");
    let mut held = vec![false; space.constraints.len()];
    for _ in 0..POINTS {
        let point = space.build(|_, _, domain| domain.sample(&mut rng));
        let mut violated = space.violations(&point).peekable();
        violated.peek()?;
        let violated: Vec<_> = violated.collect();
        for (held, constraint) in held.iter_mut().zip(&space.constraints) {
            *held |= !violated.iter().any(|v| std::ptr::eq(*v, constraint));
        }
    }
    Some(held)
}

/// Whether the sampler finds a point for the first trial.
fn found_by(spec: &SamplerSpec, space: &Space, seed: u64) -> bool {
    let history = History::new(vec![Direction::Minimize]);
    let first = Ask {
        space,
        history: &history,
        number: 0,
        seed,
    };
    let sampler = sampler::sampler(spec);
    sampler.is_some_and(|mut sampler| sampler.suggest(&first).is_some())
}
