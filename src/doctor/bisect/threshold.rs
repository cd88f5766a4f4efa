//! From which value of a number on it fails.

use search::space::{Domain, Value};

/// Where a number of the cause changes sides: the nearest values that are known of both.
#[derive(Debug, Clone, PartialEq)]
pub struct Threshold {
    /// With this value it fails.
    pub fails: Value,
    /// With this one it does not.
    pub survives: Value,
}

/// Halvings of the range between the value that fails and the one that survives.
const HALVINGS: usize = 5;

/// Narrows the threshold down by halving: `survives` is asked for values between. `None` of it ends the search: such a
/// value cannot be tried. Nothing comes of what is no number.
///
/// # Errors
/// No further run is made: with the threshold as far as it is known.
pub fn threshold<S>(
    domain: &Domain,
    known: Threshold,
    survives: &mut dyn FnMut(&Value) -> Result<Option<bool>, S>,
) -> Result<Threshold, (Threshold, S)> {
    let mut known = known;
    for _ in 0..HALVINGS {
        let Some(value) = halfway(domain, &known) else {
            break;
        };
        match survives(&value) {
            Ok(Some(true)) => known.survives = value,
            Ok(Some(false)) => known.fails = value,
            Ok(None) => break,
            Err(stop) => return Err((known, stop)),
        }
    }
    Ok(known)
}

/// A short number about halfway on the domain's own scale; `None`: there is none between.
fn halfway(domain: &Domain, known: &Threshold) -> Option<Value> {
    match domain {
        Domain::Categorical { .. } => return None,
        Domain::Float { .. } | Domain::Int { .. } => {}
    }
    let (fails, survives) = (known.fails.as_f64()?, known.survives.as_f64()?);
    let unit = (domain.to_unit(fails) + domain.to_unit(survives)) / 2.0;
    let exact = domain.from_unit(unit);
    let short = domain.from_number(rounded(exact.as_f64()?));
    let (low, high) = (fails.min(survives), fails.max(survives));
    [short, exact].into_iter().find(|value| {
        let number = value.as_f64();
        number.is_some_and(|number| low < number && number < high)
    })
}

/// To two digits.
fn rounded(number: f64) -> f64 {
    format!("{number:.1e}").parse().unwrap_or(number)
}
