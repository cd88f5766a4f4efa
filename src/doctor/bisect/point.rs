//! Points between one that survived and one that failed.

use super::Parts;
use search::space::{Domain, Params, Space};

/// Two points of a space; the parts are the parameters in which the failing one differs.
#[derive(Debug)]
pub struct Between<'a> {
    space: &'a Space,
    survivor: &'a Params,
    failing: &'a Params,
    names: Vec<&'a str>,
}

impl<'a> Between<'a> {
    /// Of these two.
    pub fn new(space: &'a Space, survivor: &'a Params, failing: &'a Params) -> Between<'a> {
        let names = space.parameters.iter().map(|p| p.name.as_str());
        let differs = |name: &&str| {
            let value = failing.get(*name);
            value.is_some() && value != survivor.get(*name)
        };
        Between {
            space,
            survivor,
            failing,
            names: names.filter(differs).collect(),
        }
    }

    /// The parameters that the failing point has with another value than the survivor, or alone; parents first.
    pub fn names(&self) -> &[&'a str] {
        &self.names
    }

    /// The survivor with these parameters of the failing point. What exists only beside them, and is not among them, gets
    /// its default. A value outside of the bounds that hold there is moved to them. `None`: a constraint is violated.
    pub fn point(&self, parts: &Parts) -> Option<Params> {
        let taken = |name: &str| {
            let at = self.names.iter().position(|n| *n == name);
            at.is_some_and(|at| parts.contains(&at))
        };
        let point = self.space.build(|_, parameter, domain| {
            let from = match taken(&parameter.name) {
                true => self.failing,
                false => self.survivor,
            };
            let value = from.get(&parameter.name).or(parameter.default.as_ref());
            let value = value.and_then(|value| domain.clamp(value));
            value.unwrap_or_else(|| domain.middle())
        });
        self.space.violated(&point).is_none().then_some(point)
    }
}

/// How far two points are apart: of each parameter the distance on its own scale, from 0 to 1; 1 for another choice, and
/// where one of them lacks it (Gower, A general coefficient of similarity, Biometrics 27, 1971).
pub fn distance(space: &Space, a: &Params, b: &Params) -> f64 {
    let of = |domain: &Domain, name: &str| match (a.get(name), b.get(name)) {
        (None, None) => 0.0,
        (Some(a), Some(b)) if a == b => 0.0,
        (Some(a), Some(b)) => match (domain, a.as_f64(), b.as_f64()) {
            (Domain::Float { .. } | Domain::Int { .. }, Some(a), Some(b)) => {
                (domain.to_unit(a) - domain.to_unit(b)).abs().min(1.0)
            }
            (Domain::Float { .. } | Domain::Int { .. } | Domain::Categorical { .. }, _, _) => 1.0,
        },
        (Some(_), None) | (None, Some(_)) => 1.0,
    };
    let parameters = space.parameters.iter();
    parameters.map(|p| of(&p.domain, &p.name)).sum()
}
