//! Domains in the JSON of Optuna's `distribution_json` column.

use serde_json::{Value as Json, json};

use super::{Domain, Value};

/// The text that Optuna 3.2 to 5.0 writes for this distribution.
pub fn distribution_to_json(domain: &Domain) -> String {
    let (name, attributes) = match domain {
        Domain::Float {
            low,
            high,
            log,
            step,
        } => (
            "FloatDistribution",
            json!({"step": step, "low": low, "high": high, "log": log}),
        ),
        Domain::Int {
            low,
            high,
            log,
            step,
        } => (
            "IntDistribution",
            json!({"log": log, "step": step, "low": low, "high": high}),
        ),
        Domain::Categorical { choices } => {
            let choices: Vec<Json> = choices.iter().map(Value::to_json).collect();
            ("CategoricalDistribution", json!({"choices": choices}))
        }
    };
    json!({"name": name, "attributes": attributes}).to_string()
}

/// Reads a distribution that Optuna wrote, the deprecated kinds of Optuna 2 included
/// (`UniformDistribution`, `LogUniformDistribution`, `DiscreteUniformDistribution`,
/// `IntUniformDistribution`, `IntLogUniformDistribution`). `None` where the text is no
/// distribution.
pub fn distribution_from_json(text: &str) -> Option<Domain> {
    let json: Json = crate::store::python_json(text)?;
    let attributes = json.get("attributes")?;
    let float = |key: &str| attributes.get(key).and_then(Json::as_f64);
    let int = |key: &str| attributes.get(key).and_then(Json::as_i64);
    let flag = |key: &str| attributes.get(key).and_then(Json::as_bool);
    let name = json.get("name")?.as_str()?;
    Some(match name {
        "FloatDistribution"
        | "UniformDistribution"
        | "LogUniformDistribution"
        | "DiscreteUniformDistribution" => Domain::Float {
            low: float("low")?,
            high: float("high")?,
            log: flag("log").unwrap_or(name == "LogUniformDistribution"),
            step: float("step").or_else(|| float("q")),
        },
        "IntDistribution" | "IntUniformDistribution" | "IntLogUniformDistribution" => Domain::Int {
            low: int("low")?,
            high: int("high")?,
            log: flag("log").unwrap_or(name == "IntLogUniformDistribution"),
            step: int("step").unwrap_or(1),
        },
        "CategoricalDistribution" => Domain::Categorical {
            choices: attributes
                .get("choices")?
                .as_array()?
                .iter()
                .map(Value::from_json)
                .collect::<Option<Vec<_>>>()
                .filter(|c| !c.is_empty())?,
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_optuna_5_survives_a_round_trip() {
        // As written by Optuna 5.0.0.
        for text in [
            r#"{"name": "FloatDistribution", "attributes": {"step": null, "low": 1e-05, "high": 0.1, "log": true}}"#,
            r#"{"name": "FloatDistribution", "attributes": {"step": 0.01, "low": 0.5, "high": 0.99, "log": false}}"#,
            r#"{"name": "IntDistribution", "attributes": {"log": false, "step": 64, "low": 64, "high": 1024}}"#,
            r#"{"name": "CategoricalDistribution", "attributes": {"choices": ["adam", "sgd", null, true, 3, 0.5]}}"#,
        ] {
            let domain = distribution_from_json(text).unwrap();
            let again = distribution_to_json(&domain);
            let (a, b): (Json, Json) = (
                serde_json::from_str(text).unwrap(),
                serde_json::from_str(&again).unwrap(),
            );
            assert_eq!(a, b);
        }
    }

    #[test]
    fn deprecated_kinds_are_read_and_others_refused() {
        let log = r#"{"name": "LogUniformDistribution", "attributes": {"low": 1e-5, "high": 1.0}}"#;
        assert_eq!(
            distribution_from_json(log),
            Some(Domain::Float {
                low: 1e-5,
                high: 1.0,
                log: true,
                step: None
            })
        );
        assert_eq!(distribution_from_json(r#"{"name": "Other"}"#), None);
        assert_eq!(distribution_from_json("nonsense"), None);
    }
}
