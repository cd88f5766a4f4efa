//! Domains in the JSON of Optuna's `distribution_json` column.

use serde_json::{Value as Json, json};

use super::{Domain, Value};

/// Longest text that a message quotes, in characters.
const LONGEST: usize = 60;

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
/// `IntUniformDistribution`, `IntLogUniformDistribution`).
///
/// # Errors
/// In words, why the text is no distribution: no JSON, an unknown kind, an attribute that is missing
/// or of another type, or what no domain can be (see [`Domain::check`]).
pub fn distribution_from_json(text: &str) -> Result<Domain, String> {
    let json = messages::python_json(text).ok_or("found no JSON that can be read")?;
    let name = json.get("name").and_then(Json::as_str);
    let name = name.ok_or("found no name of its kind")?;
    let attributes = Attributes(json.get("attributes"));
    let domain = match name {
        "FloatDistribution"
        | "UniformDistribution"
        | "LogUniformDistribution"
        | "DiscreteUniformDistribution" => Domain::Float {
            low: attributes.float("low")?,
            high: attributes.float("high")?,
            log: attributes.flag("log", name == "LogUniformDistribution")?,
            step: match (attributes.get("step"), attributes.get("q")) {
                (Some(_), _) => Some(attributes.float("step")?),
                (None, Some(_)) => Some(attributes.float("q")?),
                (None, None) => None,
            },
        },
        "IntDistribution" | "IntUniformDistribution" | "IntLogUniformDistribution" => Domain::Int {
            low: attributes.int("low")?,
            high: attributes.int("high")?,
            log: attributes.flag("log", name == "IntLogUniformDistribution")?,
            step: match attributes.get("step") {
                Some(_) => attributes.int("step")?,
                None => 1,
            },
        },
        "CategoricalDistribution" => Domain::Categorical {
            choices: attributes.choices()?,
        },
        other => return Err(format!("found the unknown kind {}", shown(&other.into()))),
    };
    domain.check().map_err(|unsound| unsound.to_string())?;
    Ok(domain)
}

/// The attributes of a distribution; `null` is as good as nothing.
struct Attributes<'a>(Option<&'a Json>);

impl<'a> Attributes<'a> {
    fn get(&self, key: &str) -> Option<&'a Json> {
        self.0?.get(key).filter(|json| !json.is_null())
    }

    fn of<T>(
        &self,
        key: &str,
        expected: &str,
        read: impl Fn(&'a Json) -> Option<T>,
    ) -> Result<T, String> {
        let json = self.get(key);
        json.and_then(read).ok_or_else(|| match json {
            Some(json) => format!("found {key} = {}, expected {expected}", shown(json)),
            None => format!("found no {key}, expected {expected}"),
        })
    }

    fn float(&self, key: &str) -> Result<f64, String> {
        self.of(key, "a finite number", messages::number_from_json)
    }

    /// An integer; to Optuna 3.0 is one, too.
    fn int(&self, key: &str) -> Result<i64, String> {
        self.of(key, "an integer of 64 bits", |json| {
            Value::from_json(json)?.as_i64()
        })
    }

    fn flag(&self, key: &str, otherwise: bool) -> Result<bool, String> {
        match self.get(key) {
            Some(_) => self.of(key, "true or false", Json::as_bool),
            None => Ok(otherwise),
        }
    }

    fn choices(&self) -> Result<Vec<Value>, String> {
        let list = self.of("choices", "a list", Json::as_array)?;
        let choice = |json: &Json| {
            let expected = "numbers, texts, true, false or null";
            let why = || format!("found the choice {}, expected {expected}", shown(json));
            Value::from_json(json).ok_or_else(why)
        };
        list.iter().map(choice).collect()
    }
}

/// A value for a message: without control characters, cut where it is long.
fn shown(json: &Json) -> String {
    let text = messages::printable(&json.to_string()).into_owned();
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
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
            Ok(Domain::Float {
                low: 1e-5,
                high: 1.0,
                log: true,
                step: None
            })
        );
    }

    fn of(name: &str, attributes: &str) -> Result<Domain, String> {
        distribution_from_json(&format!(
            r#"{{"name": "{name}Distribution", "attributes": {attributes}}}"#
        ))
    }

    #[test]
    fn what_is_no_distribution_is_refused_with_what_was_found() {
        for (name, attributes, why) in [
            ("Other", "{}", "the unknown kind \"OtherDistribution\""),
            ("Float", "null", "found no low"),
            ("Float", r#"{"low": "a", "high": 1}"#, "low = \"a\""),
            ("Float", r#"{"low": 0, "high": NaN}"#, "high = NaN"),
            ("Float", r#"{"low": 0, "high": 1e999}"#, "high = inf"),
            ("Float", r#"{"low": 1, "high": 0}"#, "low = 1.0 above high"),
            (
                "Float",
                r#"{"low": 0, "high": 1, "log": true}"#,
                "low = 0.0 on",
            ),
            ("Float", r#"{"low": 0, "high": 1, "log": 3}"#, "log = 3"),
            ("Float", r#"{"low": 0, "high": 1, "step": 0}"#, "step = 0.0"),
            (
                "Float",
                r#"{"low": 0, "high": 1, "step": "x"}"#,
                "step = \"x\"",
            ),
            ("LogUniform", r#"{"low": -1, "high": 1}"#, "low = -1.0 on"),
            (
                "DiscreteUniform",
                r#"{"low": 0, "high": 1, "q": -1}"#,
                "step = -1.0",
            ),
            ("Int", r#"{"low": 0, "high": 8, "step": 0}"#, "step = 0"),
            ("Int", r#"{"low": 0, "high": 8, "step": 0.5}"#, "step = 0.5"),
            ("Int", r#"{"low": 8, "high": 0}"#, "low = 8 above high"),
            (
                "Int",
                r#"{"low": 0, "high": 18446744073709551615}"#,
                "of 64 bits",
            ),
            ("Int", r#"{"low": 0, "high": 1e400}"#, "of 64 bits"),
            ("IntLogUniform", r#"{"low": 0, "high": 8}"#, "low = 0 on"),
            ("Categorical", r#"{"choices": []}"#, "no choices"),
            ("Categorical", r#"{"choices": [[1]]}"#, "the choice [1]"),
            ("Categorical", "{}", "found no choices, expected a list"),
        ] {
            let error = of(name, attributes).unwrap_err();
            assert!(error.contains(why), "{name} {attributes}: {error}");
        }
        let long = format!(r#"{{"low": "\u001b{}", "high": 1}}"#, "x".repeat(1000));
        let error = of("Float", &long).unwrap_err();
        assert!(error.len() < 200 && !error.contains('\u{1b}'), "{error}");
        assert!(distribution_from_json("nonsense").is_err());
        assert!(distribution_from_json("[]").is_err());
    }

    #[test]
    fn what_optuna_takes_for_an_integer_is_one() {
        let domain = of("Int", r#"{"low": 1.0, "high": 9223372036854775807}"#);
        assert_eq!(
            domain,
            Ok(Domain::Int {
                low: 1,
                high: i64::MAX,
                log: false,
                step: 1
            })
        );
    }
}
