//! What of a trial can be asked for by name: to filter, to sort, as a column.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};

use super::reason::reason;
use super::trials::runtime;
use config::hint;
use messages::any_float::AnyFloat;
use search::study::FrozenTrial;

/// Something that trials have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Key {
    Number,
    State,
    /// The value of an objective.
    Value(usize),
    /// Seconds from start to end.
    Duration,
    Attempts,
    Reason,
    Parameter(String),
    Attribute(String),
}

/// The keys that every study has.
const FIXED: [(&str, Key); 6] = [
    ("number", Key::Number),
    ("state", Key::State),
    ("value", Key::Value(0)),
    ("duration", Key::Duration),
    ("attempts", Key::Attempts),
    ("reason", Key::Reason),
];

impl Key {
    /// The key of this name: a fixed one, an objective, a parameter or an attribute, or the last part of a parameter's
    /// name where no other one ends so.
    ///
    /// # Errors
    /// There is none; the text names the nearest.
    pub(super) fn named(
        name: &str,
        metrics: &[String],
        parameters: &BTreeSet<String>,
        attributes: &BTreeSet<String>,
    ) -> Result<Key, String> {
        if let Some((_, key)) = FIXED.iter().find(|(fixed, _)| *fixed == name) {
            return Ok(key.clone());
        }
        if let Some(at) = metrics.iter().position(|metric| metric == name) {
            return Ok(Key::Value(at));
        }
        if parameters.contains(name) {
            return Ok(Key::Parameter(name.to_owned()));
        }
        if attributes.contains(name) {
            return Ok(Key::Attribute(name.to_owned()));
        }
        let mut same = parameters
            .iter()
            .filter(|p| p.rsplit('.').next() == Some(name));
        if let (Some(only), None) = (same.next(), same.next()) {
            return Ok(Key::Parameter(only.clone()));
        }
        let all = FIXED.iter().map(|(fixed, _)| *fixed);
        let all = all.chain(
            metrics
                .iter()
                .chain(parameters)
                .chain(attributes)
                .map(String::as_str),
        );
        let hint = hint(name, all);
        Err(format!(
            "no trial has {name}{hint}; there are number, state, value, duration, attempts, reason, the parameters and \
             the attributes"
        ))
    }

    /// What a trial has of it.
    pub(super) fn value(&self, trial: &FrozenTrial, attempts: Option<u32>) -> Option<Json> {
        match self {
            Key::Number => Some(json!(trial.number)),
            Key::State => Some(json!(trial.state)),
            Key::Value(i) => trial.values.get(*i).map(AnyFloat::to_json),
            Key::Duration => runtime(trial).map(|s| json!(s)),
            Key::Attempts => attempts.map(|n| json!(n)),
            Key::Reason => Some(reason(trial))
                .filter(|r| !r.is_empty())
                .map(Json::String),
            Key::Parameter(name) => trial.params.get(name).map(search::space::Value::to_json),
            Key::Attribute(name) => trial.user_attrs.get(name).cloned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_by_its_name_or_by_its_unambiguous_end() {
        let set = |names: &[&str]| {
            names
                .iter()
                .map(|n| (*n).to_owned())
                .collect::<BTreeSet<_>>()
        };
        let parameters = set(&["head.dropout", "model.dropout", "optim.lr"]);
        let attributes = set(&["metric.f1", "seed"]);
        let of = |name| Key::named(name, &["loss".to_owned()], &parameters, &attributes);
        assert_eq!(of("state"), Ok(Key::State));
        assert_eq!(of("loss"), Ok(Key::Value(0)));
        assert_eq!(of("lr"), Ok(Key::Parameter("optim.lr".to_owned())));
        assert_eq!(of("metric.f1"), Ok(Key::Attribute("metric.f1".to_owned())));
        assert!(of("dropout").unwrap_err().contains("did you mean"));
        let why = of("optim.lf").unwrap_err();
        assert!(
            why.starts_with("no trial has optim.lf (did you mean optim.lr?); there are"),
            "{why}"
        );
    }
}
