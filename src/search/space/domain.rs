//! The values a parameter can take.

use std::fmt;

use rand::{Rng, RngExt};
use serde::{Deserialize, Serialize};

use super::{EXACT, Value};

/// A parameter's domain. Bounds are inclusive. The kinds and their fields are those of Optuna's
/// `FloatDistribution`, `IntDistribution` and `CategoricalDistribution`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", remote = "Self")]
pub enum Domain {
    /// A float in `low..=high`; on a grid `low + k * step` where there is a step.
    Float {
        /// Lower bound; above 0 where `log`.
        low: f64,
        /// Upper bound, at least `low`.
        high: f64,
        /// Sampled on a logarithmic scale; never together with a step.
        log: bool,
        /// Grid width, above 0.
        step: Option<f64>,
    },
    /// An integer `low + k * step` in `low..=high`.
    Int {
        /// Lower bound; at least 1 where `log`.
        low: i64,
        /// Upper bound, at least `low`.
        high: i64,
        /// Sampled on a logarithmic scale; then `step` is 1.
        log: bool,
        /// Grid width, at least 1.
        step: i64,
    },
    /// One of the choices.
    Categorical {
        /// At least one.
        choices: Vec<Value>,
    },
}

impl Domain {
    /// The floats in `low..=high`.
    pub fn float(low: f64, high: f64) -> Domain {
        Domain::Float {
            low,
            high,
            log: false,
            step: None,
        }
    }

    /// The floats in `low..=high`, sampled on a logarithmic scale.
    pub fn log_float(low: f64, high: f64) -> Domain {
        Domain::Float {
            low,
            high,
            log: true,
            step: None,
        }
    }

    /// The integers in `low..=high`.
    pub fn int(low: i64, high: i64) -> Domain {
        Domain::Int {
            low,
            high,
            log: false,
            step: 1,
        }
    }

    /// One of these.
    pub fn choices<V: Into<Value>>(choices: impl IntoIterator<Item = V>) -> Domain {
        Domain::Categorical {
            choices: choices.into_iter().map(Into::into).collect(),
        }
    }

    /// Whether a study can hold both distributions of a parameter. Optuna's rule: the same kind on
    /// the same scale, for categorical parameters the same choices.
    pub fn compatible(&self, other: &Domain) -> bool {
        match (self, other) {
            (Domain::Categorical { choices: a }, Domain::Categorical { choices: b }) => a == b,
            (Domain::Float { log: a, .. }, Domain::Float { log: b, .. })
            | (Domain::Int { log: a, .. }, Domain::Int { log: b, .. }) => a == b,
            (Domain::Categorical { .. } | Domain::Float { .. } | Domain::Int { .. }, _) => false,
        }
    }

    /// The same domain with its upper bound lowered to `high`; categorical domains stay as they
    /// are. The bound never falls below the lower one.
    pub fn with_high(&self, bound: f64) -> Domain {
        let mut lowered = self.clone();
        match &mut lowered {
            Domain::Float { low, high, .. } => *high = high.min(bound).max(*low),
            Domain::Int { low, high, .. } => *high = (*high).min(bound.floor() as i64).max(*low),
            Domain::Categorical { .. } => {}
        }
        lowered.on_grid()
    }

    /// The same domain with its upper bound moved down onto the grid, as Optuna does it.
    pub fn on_grid(mut self) -> Domain {
        match &mut self {
            Domain::Float {
                low,
                high,
                step: Some(step),
                ..
            } => {
                let steps = ((*high - *low) / *step + 1e-9).floor();
                *high = (*low + steps * *step).min(*high);
            }
            Domain::Int {
                low, high, step, ..
            } => *high = *low + (*high - *low) / *step * *step,
            Domain::Float { .. } | Domain::Categorical { .. } => {}
        }
        self
    }

    /// Whether `value` lies in the domain (on its grid, within rounding).
    pub fn contains(&self, value: &Value) -> bool {
        match self {
            Domain::Float {
                low, high, step, ..
            } => value.as_f64().is_some_and(|x| {
                let on_grid = step.is_none_or(|s| {
                    let k = (x - low) / s;
                    (k - k.round()).abs() < 1e-6
                });
                x >= *low && x <= *high && on_grid
            }),
            Domain::Int {
                low, high, step, ..
            } => value
                .as_i64()
                .is_some_and(|i| i >= *low && i <= *high && (i - low) % step == 0),
            Domain::Categorical { choices } => choices.contains(value),
        }
    }

    /// Whether the domain holds exactly one value.
    pub fn single(&self) -> bool {
        match self {
            Domain::Float {
                low, high, step, ..
            } => low == high || step.is_some_and(|s| high - low < s),
            Domain::Int {
                low, high, step, ..
            } => high - low < *step,
            Domain::Categorical { choices } => choices.len() == 1,
        }
    }

    /// The nearest value of the domain; `None` where the value is of another type or no choice.
    pub fn clamp(&self, value: &Value) -> Option<Value> {
        match self {
            Domain::Float { .. } | Domain::Int { .. } => {
                value.as_f64().map(|x| self.from_number(x))
            }
            Domain::Categorical { choices } => choices.iter().find(|c| *c == value).cloned(),
        }
    }

    /// The middle of the range (of its logarithm where `log`), or the first choice.
    pub fn middle(&self) -> Value {
        match self {
            Domain::Categorical { choices } => choices[0].clone(),
            Domain::Float { .. } | Domain::Int { .. } => self.from_unit(0.5),
        }
    }

    /// A value drawn uniformly (uniformly in the logarithm where `log`).
    pub fn sample<R: Rng>(&self, rng: &mut R) -> Value {
        match self {
            Domain::Categorical { choices } => choices[rng.random_range(0..choices.len())].clone(),
            Domain::Float { .. } | Domain::Int { .. } => self.from_unit(rng.random::<f64>()),
        }
    }

    /// Optuna's internal representation: the number itself (not its logarithm), or the index of
    /// the choice. `None` for a value of another type or of no known choice.
    pub fn to_internal(&self, value: &Value) -> Option<f64> {
        match self {
            Domain::Float { .. } | Domain::Int { .. } => value.as_f64(),
            Domain::Categorical { choices } => {
                choices.iter().position(|c| c == value).map(|i| i as f64)
            }
        }
    }

    /// The inverse of [`Domain::to_internal`]; `None` for an index that no choice has, and for
    /// what is no finite number.
    pub fn from_internal(&self, internal: f64) -> Option<Value> {
        if !internal.is_finite() {
            return None;
        }
        match self {
            Domain::Float { .. } => Some(Value::Float(internal)),
            Domain::Int { .. } => Some(Value::Int(internal.round() as i64)),
            // A cast would make the first choice of everything below it.
            Domain::Categorical { .. } if internal < 0.0 => None,
            Domain::Categorical { choices } => choices.get(internal as usize).cloned(),
        }
    }

    /// Maps a point of the unit interval into the domain; each grid value and each choice has an
    /// equal share of the interval (of its logarithm where `log`). Values outside 0..=1 are
    /// clamped.
    pub fn from_unit(&self, unit: f64) -> Value {
        let u = unit.clamp(0.0, 1.0);
        match *self {
            Domain::Float {
                low,
                high,
                log: true,
                ..
            } => {
                let x = (low.ln() + u * (high.ln() - low.ln())).exp();
                Value::Float(x.clamp(low, high))
            }
            Domain::Float {
                low,
                high,
                step: Some(step),
                ..
            } => self.from_number(low - step / 2.0 + u * (high - low + step)),
            Domain::Float { low, high, .. } => {
                Value::Float((low + u * (high - low)).clamp(low, high))
            }
            Domain::Int {
                low,
                high,
                log: true,
                ..
            } => {
                let (a, b) = ((low as f64 - 0.5).ln(), (high as f64 + 0.5).ln());
                self.from_number((a + u * (b - a)).exp())
            }
            Domain::Int {
                low, high, step, ..
            } => {
                let half = step as f64 / 2.0;
                self.from_number(low as f64 - half + u * ((high - low) as f64 + 2.0 * half))
            }
            Domain::Categorical { ref choices } => {
                let index = (u * choices.len() as f64) as usize;
                choices[index.min(choices.len() - 1)].clone()
            }
        }
    }

    /// The place of a value (in internal representation) on the unit interval: the inverse of
    /// [`Domain::from_unit`], in the middle of the share of a grid value or choice. Outside 0..=1
    /// for a number outside the bounds; NaN where the scale has no place for it.
    pub fn to_unit(&self, internal: f64) -> f64 {
        let part = |x: f64, a: f64, b: f64| if a < b { (x - a) / (b - a) } else { 0.5 };
        match *self {
            Domain::Float {
                low,
                high,
                log: true,
                ..
            } => part(internal.ln(), low.ln(), high.ln()),
            Domain::Float {
                low, high, step, ..
            } => {
                let half = step.unwrap_or(0.0) / 2.0;
                part(internal, low - half, high + half)
            }
            Domain::Int {
                low,
                high,
                log: true,
                ..
            } => part(
                internal.ln(),
                (low as f64 - 0.5).ln(),
                (high as f64 + 0.5).ln(),
            ),
            Domain::Int {
                low, high, step, ..
            } => {
                let half = step as f64 / 2.0;
                part(internal, low as f64 - half, high as f64 + half)
            }
            Domain::Categorical { ref choices } => (internal + 0.5) / choices.len() as f64,
        }
    }

    /// The value of the domain nearest to a number. Categorical: the number is an index.
    pub fn from_number(&self, x: f64) -> Value {
        match *self {
            Domain::Float {
                low,
                high,
                step: Some(step),
                ..
            } => {
                let steps = ((x - low) / step).round();
                Value::Float((low + steps * step).clamp(low, high))
            }
            Domain::Float { low, high, .. } => Value::Float(x.clamp(low, high)),
            Domain::Int {
                low, high, step, ..
            } => {
                let most = (high - low) / step;
                // The distance of two exact integers may be none that a float has.
                let exact = x.fract() == 0.0 && x.abs() <= EXACT as f64;
                let k = match (x as i64).checked_sub(low).filter(|_| exact) {
                    Some(distance) => distance.saturating_add(step / 2).div_euclid(step),
                    None => ((x - low as f64) / step as f64).round() as i64,
                };
                Value::Int(low + k.clamp(0, most) * step)
            }
            Domain::Categorical { ref choices } => {
                choices[(x.max(0.0).round() as usize).min(choices.len() - 1)].clone()
            }
        }
    }
}

/// For people: `5e-6..0.0003 log`, `64..128 step 32`, `adam | sgd`.
impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |x: f64| Value::Float(x).to_string();
        let (low, high, log, step) = match self {
            Domain::Categorical { choices } => {
                let choices: Vec<String> = choices.iter().map(Value::to_string).collect();
                return f.write_str(&choices.join(" | "));
            }
            Domain::Float {
                low,
                high,
                log,
                step,
            } => (number(*low), number(*high), *log, step.map(number)),
            Domain::Int {
                low,
                high,
                log,
                step,
            } => {
                let step = (*step != 1).then(|| step.to_string());
                (low.to_string(), high.to_string(), *log, step)
            }
        };
        let log = if log { " log" } else { "" };
        let step = step.map(|s| format!(" step {s}")).unwrap_or_default();
        write!(f, "{low}..{high}{log}{step}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn int(low: i64, high: i64, log: bool, step: i64) -> Domain {
        Domain::Int {
            low,
            high,
            log,
            step,
        }
    }

    #[test]
    fn each_grid_value_has_an_equal_share_of_the_unit_interval() {
        let domain = int(64, 512, false, 32);
        let mut counts = std::collections::BTreeMap::new();
        for i in 0..15_000 {
            let value = domain.from_unit((i as f64 + 0.5) / 15_000.0);
            *counts.entry(value.as_i64().unwrap()).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 15);
        assert!(counts.values().all(|&c| (999..=1001).contains(&c)));
    }

    #[test]
    fn an_upper_bound_off_the_grid_moves_down_to_it() {
        assert_eq!(int(64, 100, false, 32).on_grid(), int(64, 96, false, 32));
        assert_eq!(
            int(64, 512, false, 32).with_high(400.0),
            int(64, 384, false, 32)
        );
    }

    #[test]
    fn whole_numbers_stay_what_they_are_in_ranges_that_no_float_spans() {
        let widest = int(-EXACT, EXACT, false, 1);
        for n in [-EXACT, -1, 0, 1, 2, EXACT - 1, EXACT] {
            assert_eq!(widest.clamp(&Value::Int(n)), Some(Value::Int(n)));
        }
        let odd = int(-EXACT + 1, EXACT, false, 2);
        assert_eq!(
            odd.clamp(&Value::Int(2)),
            Some(Value::Int(3)),
            "half of a step goes up"
        );
    }

    #[test]
    fn the_widest_ranges_are_not_left_at_their_ends() {
        for (low, step) in [(1, 1), (-1, 1), (i64::MIN / 2, 3), (0, i64::MAX)] {
            let domain = int(low, low.saturating_add(i64::MAX - 1), false, step).on_grid();
            for unit in [0.0, 0.5, 1.0] {
                let value = domain.from_unit(unit);
                assert!(domain.contains(&value), "{domain:?} {value}");
            }
        }
    }

    #[test]
    fn what_is_no_index_is_no_choice_and_what_is_no_number_no_value() {
        let choices = vec!["a".into(), "b".into()];
        let choice = Domain::Categorical { choices };
        assert_eq!(choice.from_internal(0.0), Some("a".into()));
        assert_eq!(choice.from_internal(1.0), Some("b".into()));
        for none in [-1.0, -0.5, 2.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(choice.from_internal(none), None, "{none}");
        }
        for domain in [int(0, 5, false, 1), float_to(5.0)] {
            assert!(domain.from_internal(3.0).is_some());
            assert_eq!(domain.from_internal(f64::NAN), None);
            assert_eq!(domain.from_internal(f64::INFINITY), None);
        }
    }

    fn float_to(high: f64) -> Domain {
        Domain::Float {
            low: 0.0,
            high,
            log: false,
            step: None,
        }
    }

    #[test]
    fn numbers_of_other_types_are_equal_and_choices_are_not_confused() {
        let domain = Domain::Categorical {
            choices: vec![Value::Null, Value::Bool(true), Value::Int(1), "1".into()],
        };
        assert_eq!(domain.to_internal(&Value::Float(1.0)), Some(2.0));
        assert_eq!(domain.to_internal(&"1".into()), Some(3.0));
        assert_eq!(domain.to_internal(&"x".into()), None);
    }

    proptest! {
        #[test]
        fn the_place_of_a_value_on_the_unit_interval_leads_back_to_it(
            u in 0.0f64..=1.0, low in 1i64..50, width in 0i64..500, step in 1i64..40, log: bool,
        ) {
            let float = |step| Domain::Float {
                low: low as f64 / 7.0, high: (low + width) as f64 / 7.0, log, step,
            };
            let choices = (0..step).map(Value::Int).collect();
            for domain in [
                int(low, low + width, log, if log { 1 } else { step }).on_grid(),
                float((!log).then_some(step as f64 / 11.0)).on_grid(),
                float(None),
                Domain::Categorical { choices },
            ] {
                let internal = domain.to_internal(&domain.from_unit(u)).unwrap();
                let place = domain.to_unit(internal);
                let back = domain.to_internal(&domain.from_unit(place)).unwrap();
                prop_assert!((0.0..=1.0).contains(&place), "{domain:?} {place}");
                prop_assert!((back - internal).abs() <= 1e-9 * internal.abs(), "{domain:?}");
            }
        }

        #[test]
        fn every_point_of_the_unit_interval_maps_into_the_domain(
            u in 0.0f64..=1.0, low in 1i64..50, width in 0i64..500, step in 1i64..40, log: bool,
        ) {
            let domain = int(low, low + width, log, if log { 1 } else { step }).on_grid();
            prop_assert!(domain.contains(&domain.from_unit(u)));
            let (low, width) = (low as f64 / 7.0, width as f64 / 3.0);
            let float = Domain::Float {
                low, high: low + width, log, step: (!log).then_some(step as f64 / 11.0),
            }.on_grid();
            prop_assert!(float.contains(&float.from_unit(u)), "{float:?} {:?}", float.from_unit(u));
        }
    }
}
