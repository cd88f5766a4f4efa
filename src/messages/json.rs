//! JSON as the contract has it.

use serde_json::Value as Json;

/// The version of the JSON that commands answer with. A member that goes or changes its meaning makes a new one;
/// one that comes does not.
pub const JSON_VERSION: u32 = 1;

/// A number in JSON; non-finite values are the strings `"NaN"`, `"Infinity"`, `"-Infinity"`.
pub fn json_number(x: f64) -> Json {
    match serde_json::Number::from_f64(x) {
        Some(n) => Json::Number(n),
        None if x.is_nan() => "NaN".into(),
        None if x > 0.0 => "Infinity".into(),
        None => "-Infinity".into(),
    }
}

/// The inverse of [`json_number`]; `None` for anything else.
pub fn number_from_json(json: &Json) -> Option<f64> {
    match json {
        Json::Number(n) => n.as_f64(),
        Json::String(s) => match s.as_str() {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        Json::Null | Json::Bool(_) | Json::Array(_) | Json::Object(_) => None,
    }
}
