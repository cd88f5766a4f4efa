//! The search space: parameters, the conditions under which they exist, and the constraints that
//! every proposal must satisfy.

mod bounds;
mod constraint;
mod domain;
mod optuna;
mod value;

pub use bounds::{EXACT, InvalidDomain};
pub use constraint::{Constraint, ConstraintError, Expr};
pub use domain::Domain;
pub use optuna::{distribution_from_json, distribution_to_json};
pub use value::{Params, Value, distinct_names};

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// True when the parameter `parent` is active and has one of `values`. A list of conditions holds
/// when all of them do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Condition {
    /// Name of another parameter (or of a fixed training key).
    pub parent: String,
    /// The values of the parent for which the condition holds.
    pub values: Vec<Value>,
}

/// A conditional upper bound: while all of `when` hold, the parameter's upper bound is `high`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HighWhen {
    /// All must hold.
    pub when: Vec<Condition>,
    /// The upper bound then (inclusive), at most the domain's own.
    pub high: f64,
}

/// One searched parameter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Parameter {
    /// Dotted name, for example `optim.lr`.
    pub name: String,
    /// The values it can take where no conditional bound narrows them.
    pub domain: Domain,
    /// The parameter exists only while all of these hold; empty: always.
    pub when: Vec<Condition>,
    /// Conditional upper bounds; where several hold, the smallest counts.
    pub high_when: Vec<HighWhen>,
    /// The value at the point of the defaults.
    pub default: Option<Value>,
}

impl Parameter {
    /// A parameter that is always searched, within all of its domain, and has no default.
    pub fn new(name: &str, domain: Domain) -> Parameter {
        Parameter {
            name: name.to_owned(),
            domain,
            when: Vec::new(),
            high_when: Vec::new(),
            default: None,
        }
    }
}

/// A whole search space. Parents stand before their children in `parameters`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Space {
    /// Searched parameters, parents first.
    pub parameters: Vec<Parameter>,
    /// Never violated by a proposal.
    pub constraints: Vec<Constraint>,
    /// Fixed training keys that conditions and constraints may name.
    pub fixed: Params,
}

impl Space {
    /// A space of these parameters, without constraints.
    pub fn new(parameters: impl IntoIterator<Item = Parameter>) -> Space {
        Space {
            parameters: parameters.into_iter().collect(),
            ..Space::default()
        }
    }

    /// The parameters that a study of this space cannot hold beside values drawn from other
    /// distributions, each with its index and the distribution.
    pub fn incompatible<'a>(
        &'a self,
        distributions: &'a BTreeMap<String, Domain>,
    ) -> impl Iterator<Item = (usize, &'a Parameter, &'a Domain)> {
        distributions.iter().filter_map(|(name, drawn)| {
            let (at, parameter) = self.find(name)?;
            (!drawn.compatible(&parameter.domain)).then_some((at, parameter, drawn))
        })
    }

    /// The parameter called `name`, with its index.
    pub fn find(&self, name: &str) -> Option<(usize, &Parameter)> {
        self.parameters
            .iter()
            .enumerate()
            .find(|(_, p)| p.name == name)
    }

    /// The domain that `parameter` has beside the given values of its parents, or `None` while it
    /// is inactive.
    pub fn active_domain(&self, parameter: &Parameter, params: &Params) -> Option<Domain> {
        if !self.all_hold(&parameter.when, params) {
            return None;
        }
        let bound = parameter
            .high_when
            .iter()
            .filter(|h| self.all_hold(&h.when, params))
            .map(|h| h.high)
            .reduce(f64::min);
        Some(match bound {
            Some(high) => parameter.domain.with_high(high),
            None => parameter.domain.clone(),
        })
    }

    /// Builds a point parameter by parameter, parents first: `choose` is asked for each active
    /// parameter, with the domain that holds beside the values chosen so far.
    pub fn build(&self, mut choose: impl FnMut(usize, &Parameter, &Domain) -> Value) -> Params {
        let mut params = Params::new();
        for (index, parameter) in self.parameters.iter().enumerate() {
            if let Some(domain) = self.active_domain(parameter, &params) {
                let value = choose(index, parameter, &domain);
                params.insert(parameter.name.clone(), value);
            }
        }
        params
    }

    /// The point of the defaults: each parameter's default, else the first choice or the middle of
    /// the range; values in `overrides` win. Values outside the active domain are clamped into it.
    pub fn point(&self, overrides: &Params) -> Params {
        self.build(|_, parameter, domain| {
            overrides
                .get(&parameter.name)
                .or(parameter.default.as_ref())
                .and_then(|v| domain.clamp(v))
                .unwrap_or_else(|| domain.middle())
        })
    }

    /// Whether any parameter has a default; then trial 0 is the point of the defaults.
    pub fn has_defaults(&self) -> bool {
        self.parameters.iter().any(|p| p.default.is_some())
    }

    /// Whether these are the values of a whole point: one for each active parameter, within its
    /// domain, none besides, and no constraint violated.
    pub fn holds(&self, params: &Params) -> bool {
        let active = self
            .parameters
            .iter()
            .filter_map(|p| Some((p, self.active_domain(p, params)?)));
        let mut wanted = 0;
        for (parameter, domain) in active {
            wanted += 1;
            if !params
                .get(&parameter.name)
                .is_some_and(|v| domain.contains(v))
            {
                return false;
            }
        }
        params.len() == wanted && self.violated(params).is_none()
    }

    /// The first constraint that `params` violates.
    pub fn violated(&self, params: &Params) -> Option<&Constraint> {
        self.violations(params).next()
    }

    /// Every constraint that `params` violates; one about a value that is not there says nothing.
    pub fn violations(&self, params: &Params) -> impl Iterator<Item = &Constraint> {
        self.constraints.iter().filter(|c| {
            let value = |name: &str| params.get(name).or_else(|| self.fixed.get(name)).cloned();
            self.all_hold(&c.when, params) && !c.expr.holds(&value)
        })
    }

    /// The distributions that held for `params`: those that a stored trial carries.
    pub fn distributions(&self, params: &Params) -> BTreeMap<String, Domain> {
        self.parameters
            .iter()
            .filter(|p| params.contains_key(&p.name))
            .filter_map(|p| Some((p.name.clone(), self.active_domain(p, params)?)))
            .collect()
    }

    /// The value in each parameter's internal representation (see [`Domain::to_internal`]), in the
    /// order of `parameters`; NaN where a parameter is absent or holds a value of no known choice.
    pub fn encode(&self, params: &Params) -> Vec<f64> {
        self.parameters
            .iter()
            .map(|p| {
                params
                    .get(&p.name)
                    .and_then(|v| p.domain.to_internal(v))
                    .unwrap_or(f64::NAN)
            })
            .collect()
    }

    /// Whether all of the conditions hold beside these values and the fixed ones.
    pub fn all_hold(&self, conditions: &[Condition], params: &Params) -> bool {
        conditions.iter().all(|c| {
            params
                .get(&c.parent)
                .or_else(|| self.fixed.get(&c.parent))
                .is_some_and(|v| c.values.contains(v))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space() -> Space {
        let model = Parameter::new(
            "model.name",
            Domain::Categorical {
                choices: vec!["small".into(), "large".into()],
            },
        );
        let large = Condition {
            parent: "model.name".into(),
            values: vec!["large".into()],
        };
        let mut length = Parameter::new(
            "tok.max_length",
            Domain::Int {
                low: 64,
                high: 512,
                log: false,
                step: 32,
            },
        );
        length.default = Some(Value::Int(512));
        length.high_when = vec![HighWhen {
            when: vec![large.clone()],
            high: 384.0,
        }];
        let mut extra = Parameter::new(
            "extra",
            Domain::Float {
                low: 0.0,
                high: 1.0,
                log: false,
                step: None,
            },
        );
        extra.when = vec![large];
        Space {
            parameters: vec![model, length, extra],
            ..Space::default()
        }
    }

    fn params(entries: &[(&str, Value)]) -> Params {
        entries
            .iter()
            .map(|(k, v)| (k.to_string(), v.clone()))
            .collect()
    }

    #[test]
    fn the_point_of_the_defaults_leaves_inactive_parameters_out() {
        let point = space().point(&Params::new());
        assert_eq!(
            point,
            params(&[
                ("model.name", "small".into()),
                ("tok.max_length", Value::Int(512))
            ])
        );
    }

    #[test]
    fn a_conditional_bound_narrows_the_domain_and_clamps_the_default() {
        let point = space().point(&params(&[("model.name", "large".into())]));
        assert_eq!(point["tok.max_length"], Value::Int(384));
        assert_eq!(point["extra"], Value::Float(0.5));
    }

    #[test]
    fn constraints_see_fixed_values_and_apply_only_while_their_conditions_hold() {
        let mut s = space();
        s.fixed.insert("train.batch_size".into(), Value::Int(4));
        s.constraints.push(Constraint {
            expr: "train.batch_size * tok.max_length <= 1024".parse().unwrap(),
            when: vec![Condition {
                parent: "model.name".into(),
                values: vec!["large".into()],
            }],
        });
        let small = params(&[
            ("model.name", "small".into()),
            ("tok.max_length", Value::Int(512)),
        ]);
        let large = params(&[
            ("model.name", "large".into()),
            ("tok.max_length", Value::Int(384)),
        ]);
        assert!(s.violated(&small).is_none());
        assert!(s.violated(&large).is_some());
    }

    #[test]
    fn encoding_marks_absent_parameters_with_nan() {
        let code = space().encode(&params(&[
            ("model.name", "large".into()),
            ("extra", Value::Float(0.25)),
        ]));
        assert_eq!(code[0], 1.0);
        assert!(code[1].is_nan());
        assert_eq!(code[2], 0.25);
    }
}
