//! Which trials can be the best ones.

use super::TrialState;

/// The values of a trial that has ended by itself, if there is a number for each objective; infinite ones are
/// numbers.
pub(super) fn result(state: TrialState, values: &[f64], objectives: usize) -> Option<&[f64]> {
    let whole = values.len() == objectives && !values.iter().any(|v| v.is_nan());
    (state == TrialState::Complete && whole).then_some(values)
}
