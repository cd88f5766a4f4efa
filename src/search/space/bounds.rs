//! What every domain keeps to, wherever it comes from, and the domain that holds two.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Domain;

/// How far a quotient may be from a whole number and still count as one.
const ROUNDING: f64 = 1e-9;

impl Domain {
    /// Checks what everything that draws from a domain relies on. Domains that people and other
    /// programs have written go through here: configurations, Optuna's distributions, our own
    /// tables.
    ///
    /// # Errors
    /// What is wrong: bounds that are not finite, the wrong way round or too far apart, a
    /// step that is not above 0, a logarithmic scale that has a step or reaches 0, no choices.
    pub fn check(&self) -> Result<(), InvalidDomain> {
        match *self {
            Domain::Float {
                low,
                high,
                log,
                step,
            } => check_float(low, high, log, step),
            Domain::Int {
                low,
                high,
                log,
                step,
            } => check_int(low, high, log, step),
            Domain::Categorical { ref choices } if choices.is_empty() => {
                invalid("no choices".to_owned(), "at least one")
            }
            Domain::Categorical { .. } => Ok(()),
        }
    }

    /// A domain that holds the values of both: the range of both bounds, on the widest grid that
    /// holds both grids, or all choices. Where both are of different kinds, or too far apart for one
    /// range, it is the first one alone.
    pub fn widened(&self, other: &Domain) -> Domain {
        let wide = match (self, other) {
            (
                Domain::Float {
                    low,
                    high,
                    log,
                    step,
                },
                Domain::Float {
                    low: l,
                    high: h,
                    step: s,
                    ..
                },
            ) => {
                let log = *log && low.min(*l) > 0.0;
                let steps = step.zip(*s).filter(|_| !log);
                Domain::Float {
                    low: low.min(*l),
                    high: high.max(*h),
                    log,
                    step: steps.and_then(|(a, b)| common_step(a, b, low - l)),
                }
            }
            (
                Domain::Int {
                    low,
                    high,
                    log,
                    step,
                },
                Domain::Int {
                    low: l,
                    high: h,
                    step: s,
                    ..
                },
            ) => {
                let log = *log && *low.min(l) >= 1;
                let common = divisor(
                    divisor(step.unsigned_abs(), s.unsigned_abs()),
                    low.abs_diff(*l),
                );
                let step = i64::try_from(common).unwrap_or(1);
                Domain::Int {
                    low: *low.min(l),
                    high: *high.max(h),
                    log,
                    step: if log { 1 } else { step },
                }
            }
            (Domain::Categorical { choices }, Domain::Categorical { choices: more }) => {
                let mut choices = choices.clone();
                for choice in more {
                    if !choices.contains(choice) {
                        choices.push(choice.clone());
                    }
                }
                Domain::Categorical { choices }
            }
            (Domain::Float { .. } | Domain::Int { .. } | Domain::Categorical { .. }, _) => {
                return self.clone();
            }
        };
        match wide.check() {
            Ok(()) => wide,
            Err(_) => self.clone(),
        }
    }
}

/// What no domain can be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("found {found}, expected {expected}")]
pub struct InvalidDomain {
    /// What was found, with the name of the bound or the step.
    pub found: String,
    /// What it would have to be.
    pub expected: &'static str,
}

fn invalid(found: String, expected: &'static str) -> Result<(), InvalidDomain> {
    Err(InvalidDomain { found, expected })
}

/// Integers beyond this, and more values of a grid than this, are not told apart by 64-bit floats, which samplers calculate
/// in and Optuna's tables hold.
pub const EXACT: i64 = 1 << 53;

fn check_float(low: f64, high: f64, log: bool, step: Option<f64>) -> Result<(), InvalidDomain> {
    for (name, bound) in [("low", low), ("high", high)] {
        if !bound.is_finite() {
            return invalid(format!("{name} = {bound}"), "a finite number");
        }
    }
    if low > high {
        return invalid(
            format!("low = {low:?} above high = {high:?}"),
            "low <= high",
        );
    }
    if !(high - low).is_finite() {
        let found = format!("low = {low:?} with high = {high:?}");
        return invalid(found, "bounds whose difference is a finite number");
    }
    if log && low <= 0.0 {
        let found = format!("low = {low:?} on a logarithmic scale");
        return invalid(found, "low above 0");
    }
    match step {
        Some(step) if log => {
            let found = format!("step = {step:?} on a logarithmic scale");
            invalid(found, "none")
        }
        Some(step) if !(step > 0.0 && step.is_finite()) => {
            invalid(format!("step = {step:?}"), "a finite number above 0")
        }
        Some(step) if (high - low) / step > EXACT as f64 => {
            let found = format!("step = {step:?} between {low:?} and {high:?}");
            invalid(found, "at most 2^53 steps, which a 64-bit float can count")
        }
        Some(_) | None => Ok(()),
    }
}

fn check_int(low: i64, high: i64, log: bool, step: i64) -> Result<(), InvalidDomain> {
    if low > high {
        return invalid(format!("low = {low} above high = {high}"), "low <= high");
    }
    if high.checked_sub(low).is_none() {
        let found = format!("low = {low} with high = {high}");
        return invalid(found, "bounds whose difference has 63 bits");
    }
    if log && low < 1 {
        let found = format!("low = {low} on a logarithmic scale");
        return invalid(found, "low of at least 1");
    }
    if step < 1 {
        return invalid(format!("step = {step}"), "at least 1");
    }
    if log && step != 1 {
        let found = format!("step = {step} on a logarithmic scale");
        return invalid(found, "a step of 1");
    }
    Ok(())
}

/// The smaller of two steps, if the other one and the distance of the grids are multiples of it.
fn common_step(a: f64, b: f64, apart: f64) -> Option<f64> {
    let step = a.min(b);
    let whole = |x: f64| (x / step - (x / step).round()).abs() < ROUNDING;
    (whole(a.max(b)) && whole(apart)).then_some(step)
}

/// The greatest common divisor; of 0 and a number, the number.
fn divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { divisor(b, a % b) }
}

// The derived code is `Domain::serialize` and `Domain::deserialize` (`remote = "Self"`); these are
// serde's traits, so that no domain comes in unchecked.

impl Serialize for Domain {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Domain::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for Domain {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Domain, D::Error> {
        let domain = Domain::deserialize(deserializer)?;
        domain.check().map_err(D::Error::custom)?;
        Ok(domain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::Value;
    use proptest::prelude::*;

    fn float(low: f64, high: f64, log: bool, step: Option<f64>) -> Domain {
        Domain::Float {
            low,
            high,
            log,
            step,
        }
    }

    fn int(low: i64, high: i64, log: bool, step: i64) -> Domain {
        Domain::Int {
            low,
            high,
            log,
            step,
        }
    }

    #[test]
    fn what_no_domain_can_be_is_refused_with_what_was_found() {
        let (max, inf, nan) = (f64::MAX, f64::INFINITY, f64::NAN);
        for (domain, found) in [
            (float(nan, 1.0, false, None), "low = NaN"),
            (float(0.0, inf, false, None), "high = inf"),
            (float(1.0, 0.5, false, None), "low = 1.0 above high = 0.5"),
            (float(-max, max, false, None), "difference"),
            (float(0.0, 1.0, true, None), "low = 0.0 on a log"),
            (float(0.1, 1.0, true, Some(0.1)), "step = 0.1 on a log"),
            (float(0.0, 1.0, false, Some(0.0)), "step = 0.0, expected"),
            (float(0.0, 1.0, false, Some(-0.1)), "step = -0.1, expected"),
            (
                float(0.0, 1.0, false, Some(1e-300)),
                "step = 1e-300 between 0.0 and 1.0, expected at most 2^53",
            ),
            (float(0.0, 1.0, false, Some(nan)), "step = NaN, expected"),
            (int(2, 1, false, 1), "low = 2 above high = 1"),
            (int(i64::MIN, i64::MAX, false, 1), "difference"),
            (int(0, 8, true, 1), "low = 0 on a log"),
            (int(1, 8, true, 2), "step = 2 on a log"),
            (int(1, 8, false, 0), "step = 0, expected"),
            (int(1, 8, false, -1), "step = -1, expected"),
            (Domain::Categorical { choices: vec![] }, "no choices"),
        ] {
            let error = domain.check().unwrap_err().to_string();
            assert!(error.contains(found), "{domain:?}: {error}");
        }
        for domain in [
            float(0.5, 0.5, false, Some(0.1)),
            float(-1e300, 1e300, false, None),
            int(3, 3, true, 1),
            int(0, i64::MAX, false, i64::MAX),
        ] {
            assert_eq!(domain.check(), Ok(()), "{domain:?}");
        }
    }

    #[test]
    fn no_domain_of_our_own_tables_comes_in_unchecked() {
        let sound = int(1, 8, false, 2);
        let json = serde_json::to_value(&sound).unwrap();
        assert_eq!(json["kind"], "int");
        assert_eq!(
            serde_json::from_value::<Domain>(json.clone()).unwrap(),
            sound
        );
        let mut edited = json;
        edited["step"] = 0.into();
        let error = serde_json::from_value::<Domain>(edited).unwrap_err();
        assert!(error.to_string().contains("step = 0"), "{error}");
    }

    #[test]
    fn a_wider_grid_holds_both_grids() {
        let wide = |a: Domain, b: Domain| a.widened(&b);
        // Of other steps, from other ends.
        assert_eq!(
            wide(int(3, 9, false, 2), int(0, 10, false, 5)),
            int(0, 10, false, 1)
        );
        assert_eq!(
            wide(int(8, 24, false, 8), int(4, 64, false, 4)),
            int(4, 64, false, 4)
        );
        let (fine, coarse) = (
            float(0.1, 0.9, false, Some(0.1)),
            float(0.3, 1.1, false, Some(0.4)),
        );
        assert_eq!(
            wide(fine.clone(), coarse),
            float(0.1, 1.1, false, Some(0.1))
        );
        let shifted = float(0.05, 0.85, false, Some(0.1));
        assert_eq!(wide(fine.clone(), shifted), float(0.05, 0.9, false, None));
        assert_eq!(
            wide(fine, float(0.0, 0.5, false, None)),
            float(0.0, 0.9, false, None)
        );
        // No logarithmic scale reaches 0.
        let log = float(1e-4, 0.1, true, None);
        assert_eq!(
            wide(log.clone(), float(0.0, 0.5, false, Some(0.1))),
            float(0.0, 0.5, false, None)
        );
        assert_eq!(
            wide(log.clone(), float(1e-5, 0.01, true, None)),
            float(1e-5, 0.1, true, None)
        );
        assert_eq!(
            wide(int(1, 8, true, 1), int(0, 9, false, 3)),
            int(0, 9, false, 1)
        );
        // What has no common range stays as it is.
        let least = int(i64::MIN, -1, false, 1);
        assert_eq!(wide(least.clone(), int(0, i64::MAX, false, 1)), least);
        assert_eq!(wide(log.clone(), int(1, 2, false, 1)), log);
    }

    proptest! {
        #[test]
        fn whatever_one_of_two_holds_the_wider_one_holds(
            lows in (-40i64..40, -40i64..40),
            steps in (1i64..9, 1i64..9),
            cells in (0i64..9, 0i64..9),
            scale in prop_oneof![Just(1.0), Just(0.1), Just(1e-7), Just(3.3)],
            at in 0i64..9,
        ) {
            let high = |low: i64, step: i64, cells: i64| low + step * cells;
            let value = lows.0 + steps.0 * at.min(cells.0);
            let one = int(lows.0, high(lows.0, steps.0, cells.0), false, steps.0);
            let two = int(lows.1, high(lows.1, steps.1, cells.1), false, steps.1);
            prop_assert!(one.contains(&Value::Int(value)));
            prop_assert!(one.widened(&two).contains(&Value::Int(value)));
            prop_assert!(two.widened(&one).contains(&Value::Int(value)));
            let of = |x: i64| x as f64 * scale;
            let grid = |low: i64, step: i64, cells: i64| {
                float(of(low), of(low) + of(step) * cells as f64, false, Some(of(step)))
            };
            let one = grid(lows.0, steps.0, cells.0);
            let two = grid(lows.1, steps.1, cells.1);
            let value = Value::Float(of(lows.0) + of(steps.0) * at.min(cells.0) as f64);
            prop_assert!(one.contains(&value));
            prop_assert!(one.widened(&two).contains(&value), "{one} {two} {value}");
            prop_assert!(two.widened(&one).contains(&value), "{one} {two} {value}");
        }
    }
}
