//! Independent uniform sampling (Bergstra and Bengio, "Random Search for Hyper-Parameter
//! Optimization", 2012), with rejection of points that violate a constraint. Where constraints
//! leave too little for that, values are drawn one by one, and points walk from those that are
//! known to satisfy them.

use rand::RngExt;
use rand::seq::IteratorRandom;
use rand_chacha::ChaCha8Rng;

use super::{Ask, Proposal, Sampler};
use crate::space::{Domain, Params, Space, Value};

/// Draws every active parameter independently and uniformly (in the logarithm where `log`).
#[derive(Debug, Clone, Copy, Default)]
pub struct RandomSampler;

/// What random points are said to be proposed by.
pub(super) const BY: &str = "random";

/// Whole points that are drawn.
const DRAWS: usize = 2000;

/// Points that are then drawn value by value.
const BUILT: usize = 200;

/// Draws of one value of these.
const REDRAWS: usize = 50;

/// Steps of a walk from a point that satisfies the constraints.
const STEPS: usize = 8;

/// How often a step is made shorter.
const SHRINKS: usize = 40;

impl Sampler for RandomSampler {
    fn name(&self) -> &'static str {
        BY
    }

    fn candidate(&mut self, ask: &Ask) -> Option<Proposal> {
        draw_or_walk(ask, &mut ask.rng()).map(Proposal::by(BY))
    }
}

/// A random point that satisfies the constraints; `None` where none was found.
pub(super) fn draw(space: &Space, rng: &mut ChaCha8Rng) -> Option<Params> {
    let whole = (0..DRAWS)
        .map(|_| space.build(|_, _, domain| domain.sample(rng)))
        .find(|params| space.violated(params).is_none());
    whole.or_else(|| {
        let built = (0..BUILT).find_map(|_| build(space, rng))?;
        Some(walk(space, built, rng))
    })
}

/// The same; where none was found a point not far from that of an earlier trial.
pub(super) fn draw_or_walk(ask: &Ask, rng: &mut ChaCha8Rng) -> Option<Params> {
    draw(ask.space, rng).or_else(|| {
        let known = ask.history.entries().iter().map(|e| &e.params);
        let from = known.filter(|params| ask.space.holds(params)).choose(rng)?;
        Some(walk(ask.space, from.clone(), rng))
    })
}

/// A point drawn value by value, each again while it violates a constraint beside those before
/// it, and at last an end of its range; `None` where that leads to nothing.
fn build(space: &Space, rng: &mut ChaCha8Rng) -> Option<Params> {
    let mut params = Params::new();
    for parameter in &space.parameters {
        let Some(domain) = space.active_domain(parameter, &params) else {
            continue;
        };
        let ends = [domain.from_unit(0.0), domain.from_unit(1.0)];
        let tries = (0..REDRAWS).map(|_| domain.sample(rng)).chain(ends);
        let fits = |value: Value| {
            params.insert(parameter.name.clone(), value);
            space.violated(&params).is_none()
        };
        tries.map(fits).find(|fits| *fits)?;
    }
    Some(params)
}

/// Some steps of hit-and-run from a point that satisfies the constraints: each goes towards a
/// random point, the less far the more of what lies there violates a constraint (the shrinkage of
/// Neal, "Slice Sampling", 2003).
fn walk(space: &Space, from: Params, rng: &mut ChaCha8Rng) -> Params {
    (0..STEPS).fold(from, |from, _| {
        let to = space.build(|_, _, domain| domain.sample(rng));
        let mut part = 1.0;
        for _ in 0..SHRINKS {
            let point = between(space, &from, &to, part, rng);
            if space.violated(&point).is_none() {
                return point;
            }
            part *= rng.random::<f64>();
        }
        from
    })
}

/// A point on the way: numbers lie a part of the way, the same part of the choices is changed.
fn between(space: &Space, from: &Params, to: &Params, part: f64, rng: &mut ChaCha8Rng) -> Params {
    space.build(|_, parameter, domain| {
        let of = |params: &Params| domain.clamp(params.get(&parameter.name)?);
        match (of(from), of(to)) {
            (Some(a), Some(b)) => match (unit(domain, &a), unit(domain, &b)) {
                (Some(x), Some(y)) => domain.from_unit(x + part * (y - x)),
                _ if rng.random_bool(part) => b,
                _ => a,
            },
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => domain.sample(rng),
        }
    })
}

/// Where a number lies between the bounds of its domain; `None` for choices.
pub(super) fn unit(domain: &Domain, value: &Value) -> Option<f64> {
    match domain {
        Domain::Float { .. } | Domain::Int { .. } => {
            Some(domain.to_unit(value.as_f64()?)).filter(|unit| unit.is_finite())
        }
        Domain::Categorical { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{categorical, float, int, log_float, parameter, trial};
    use super::*;
    use crate::space::Constraint;
    use crate::study::{self, Direction, History, TrialState};

    fn space(domains: Vec<(&str, Domain)>, constraints: &[&str]) -> Space {
        let constraints = constraints.iter().map(|expr| Constraint {
            expr: expr.parse().unwrap(),
            when: vec![],
        });
        Space {
            parameters: domains.into_iter().map(|(n, d)| parameter(n, d)).collect(),
            constraints: constraints.collect(),
            ..Space::default()
        }
    }

    fn points(space: &Space, n: u64) -> Vec<Params> {
        let point = |number| draw(space, &mut study::rng(0, number, "test"));
        let points: Vec<Params> = (0..n).filter_map(point).collect();
        assert_eq!(points.len() as u64, n);
        assert!(points.iter().all(|p| space.holds(p)));
        points
    }

    #[test]
    fn a_chain_of_many_inequalities_is_no_dead_end() {
        let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
        let order: Vec<String> = names
            .windows(2)
            .map(|w| format!("{} <= {}", w[0], w[1]))
            .collect();
        let order: Vec<&str> = order.iter().map(String::as_str).collect();
        // One point in 40,320.
        let space = space(names.map(|n| (n, float(0.0, 1.0))).to_vec(), &order);
        let first: Vec<f64> = points(&space, 50)
            .iter()
            .map(|p| p["a"].as_f64().unwrap())
            .collect();
        assert!(first.iter().any(|a| *a > 0.15) && first.iter().any(|a| *a < 0.05));
    }

    #[test]
    fn thin_slices_are_found_and_not_only_at_their_ends() {
        let thin = space(
            vec![
                ("momentum", float(0.0, 1.0)),
                ("lr", log_float(1e-6, 1.0)),
                ("layers", int(1, 1000, false, 1)),
                ("kind", categorical(&["a".into(), "b".into(), "c".into()])),
            ],
            &["momentum <= 0.0001", "layers <= 2", "lr >= 0.5"],
        );
        let points = points(&thin, 30);
        let of =
            |name: &str| -> Vec<f64> { points.iter().map(|p| p[name].as_f64().unwrap()).collect() };
        let mut momenta = of("momentum");
        momenta.sort_by(f64::total_cmp);
        momenta.dedup();
        assert!(momenta.len() > 20, "{momenta:?}");
        assert!(of("layers").contains(&1.0) && of("layers").contains(&2.0));
        assert!(points.iter().any(|p| p["kind"] != points[0]["kind"]));
    }

    #[test]
    fn what_is_known_to_satisfy_the_constraints_is_gone_on_from() {
        let names = ["a", "b", "c"];
        let tiny = [
            "a * b * c >= 0.1",
            "a * b * c <= 0.1000000001",
            "a >= b + c - 0.5",
        ];
        let space = space(names.map(|n| (n, float(0.0, 1.0))).to_vec(), &tiny);
        let mut history = History::new(vec![Direction::Minimize]);
        let propose = |history: &History| {
            let ask = Ask {
                space: &space,
                history,
                number: 1,
                seed: 0,
            };
            RandomSampler.suggest(&ask)
        };
        assert_eq!(propose(&history), None);
        let point: Params = [("a", 0.5), ("b", 0.5), ("c", 0.4)]
            .map(|(n, x)| (n.to_owned(), Value::Float(x)))
            .into();
        history.put(&space, &trial(0, TrialState::Fail, point, None));
        let found = propose(&history).expect("there is one");
        assert!(space.holds(&found));
    }
}
