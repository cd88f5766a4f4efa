//! Whether a trial is infeasible, and by how much: the one place that reads constraints.
//!
//! They are system attributes in Optuna's two forms: `constraints:NAME`, a number each (Optuna 5 and
//! tune), and `constraints`, a list of numbers (a sampler's `constraints_func`, and all there is in
//! Optuna 4 and older). As in Optuna 5, `constraints:0` stands for the first of the list where both
//! are there, and a trial without any constraint is feasible: of most of tune's own nothing is
//! known but that they ran.

use serde_json::Value as Json;

use super::FrozenTrial;
use messages::number_from_json;

/// The attribute with the list.
const LIST: &str = "constraints";

/// What the names of the attributes begin with that have a number each.
const ONE: &str = "constraints:";

/// The constraint that a trial violates whose result somebody has declared invalid (`tune strike`).
pub const STRUCK: &str = "constraints:struck";

/// Whether a system attribute is a constraint. `Store::outlines` selects by the same names.
pub fn is_constraint(key: &str) -> bool {
    key == LIST || key.starts_with(ONE)
}

/// By how much a trial violates its constraints, never NaN: above 0 it is infeasible, `None` without
/// any constraint. As in Optuna what is violated adds up; of a trial that violates nothing it is the
/// constraint that is nearest to it.
pub fn violation(trial: &FrozenTrial) -> Option<f64> {
    let attrs = &trial.system_attrs;
    let list = match attrs.get(LIST) {
        None => &[],
        Some(Json::Array(list)) => list.as_slice(),
        Some(other) => std::slice::from_ref(other),
    };
    let listed = list.iter().enumerate();
    let listed = listed.filter(|(at, _)| !attrs.contains_key(&format!("{ONE}{at}")));
    let named = attrs.iter().filter(|(key, _)| key.starts_with(ONE));
    let all = listed.map(|(_, v)| v).chain(named.map(|(_, v)| v));
    all.map(measure)
        .reduce(|a, b| if a > 0.0 && b > 0.0 { a + b } else { a.max(b) })
}

/// One constraint's value. What is none is violated beyond measure: Optuna 4 and older leave `null`
/// where a constraint came out as NaN or could not be computed.
fn measure(value: &Json) -> f64 {
    let number = match value {
        // Numbers to Python; a list may hold comparisons.
        Json::Bool(violated) => Some(f64::from(*violated)),
        other @ (Json::Null
        | Json::Number(_)
        | Json::String(_)
        | Json::Array(_)
        | Json::Object(_)) => number_from_json(other),
    };
    number.filter(|v| !v.is_nan()).unwrap_or(f64::INFINITY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::testing::trial;
    use crate::space::{Params, Space};
    use crate::study::{Direction, History, TrialState};
    use messages::python_json;

    /// A trial with these system attributes, as Python writes them.
    fn with(text: &str) -> FrozenTrial {
        let mut told = trial(0, TrialState::Complete, Params::new(), Some(0.5));
        let attrs = python_json(text).unwrap();
        told.system_attrs = attrs.as_object().cloned().unwrap();
        told
    }

    #[test]
    fn constraints_are_read_in_every_form_in_which_optuna_stores_them() {
        for (attrs, expected) in [
            (r#"{}"#, None),
            (
                r#"{"fixed_params": {}, "constraint": 1.0, "constraints_of": [1]}"#,
                None,
            ),
            (r#"{"constraints": []}"#, None),
            (r#"{"constraints:gpu_memory": 0.25}"#, Some(0.25)),
            (
                r#"{"constraints:a": -2, "constraints:b": -0.5}"#,
                Some(-0.5),
            ),
            (
                r#"{"constraints:a": 2, "constraints:b": 0.5, "constraints:c": -9}"#,
                Some(2.5),
            ),
            (r#"{"constraints": [-1.0, 0]}"#, Some(0.0)),
            (r#"{"constraints": [-1.0, 0.5, 1]}"#, Some(1.5)),
            // The later form wins where both have the same constraint.
            (
                r#"{"constraints": [3.0, -1], "constraints:0": -2}"#,
                Some(-1.0),
            ),
            (
                r#"{"constraints": [-3.0], "constraints:memory": 2}"#,
                Some(2.0),
            ),
            // Comparisons, numbers to Python.
            (r#"{"constraints": [false, true]}"#, Some(1.0)),
            (r#"{"constraints:a": -Infinity}"#, Some(f64::NEG_INFINITY)),
        ] {
            assert_eq!(violation(&with(attrs)), expected, "{attrs}");
        }
    }

    #[test]
    fn a_constraint_whose_value_nobody_knows_is_violated() {
        for attrs in [
            r#"{"constraints:a": NaN}"#,
            r#"{"constraints:a": Infinity, "constraints:b": -1}"#,
            r#"{"constraints:a": -1, "constraints:b": NaN, "constraints:c": -Infinity}"#,
            r#"{"constraints": [-1.0, NaN]}"#,
            r#"{"constraints": [Infinity]}"#,
            r#"{"constraints": [NaN, 1.0]}"#,
            r#"{"constraints": null}"#,
            r#"{"constraints": "none"}"#,
            r#"{"constraints:a": null}"#,
            r#"{"constraints:a": [-1.0]}"#,
            r#"{"constraints:a": {"value": -1.0}}"#,
        ] {
            assert_eq!(violation(&with(attrs)), Some(f64::INFINITY), "{attrs}");
            assert!(!with(attrs).feasible(), "{attrs}");
        }
    }

    #[test]
    fn the_history_and_the_trial_agree() {
        for attrs in [
            r#"{"constraints:a": NaN}"#,
            r#"{"constraints:a": Infinity}"#,
            r#"{"constraints": [0.5]}"#,
            r#"{"constraints": null}"#,
        ] {
            let told = with(attrs);
            let mut history = History::new(vec![Direction::Minimize]);
            history.put(&Space::default(), &told);
            assert_eq!(history.entries()[0].violation, violation(&told));
            assert!(!history.entries()[0].feasible(), "{attrs}");
            assert_eq!(history.best(), None, "{attrs}");
        }
    }
}
