//! Numbers that may be NaN or infinite, which JSON numbers cannot: for `#[serde(with = "any_float")]`.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value as Json;

use crate::{json_number, number_from_json};

/// A number, or several.
pub trait AnyFloat: Sized {
    /// As [`json_number`] writes it.
    fn to_json(&self) -> Json;

    /// The inverse; `None` for anything else.
    fn from_json(json: &Json) -> Option<Self>;
}

impl AnyFloat for f64 {
    fn to_json(&self) -> Json {
        json_number(*self)
    }

    fn from_json(json: &Json) -> Option<f64> {
        number_from_json(json)
    }
}

impl<T: AnyFloat> AnyFloat for Option<T> {
    fn to_json(&self) -> Json {
        self.as_ref().map_or(Json::Null, T::to_json)
    }

    fn from_json(json: &Json) -> Option<Option<T>> {
        match json.is_null() {
            true => Some(None),
            false => T::from_json(json).map(Some),
        }
    }
}

impl<T: AnyFloat> AnyFloat for Vec<T> {
    fn to_json(&self) -> Json {
        self.iter().map(T::to_json).collect()
    }

    fn from_json(json: &Json) -> Option<Vec<T>> {
        json.as_array()?.iter().map(T::from_json).collect()
    }
}

impl<K: ToString + FromStr + Ord, T: AnyFloat> AnyFloat for BTreeMap<K, T> {
    fn to_json(&self) -> Json {
        let members = self
            .iter()
            .map(|(key, value)| (key.to_string(), value.to_json()));
        Json::Object(members.collect())
    }

    fn from_json(json: &Json) -> Option<BTreeMap<K, T>> {
        let members = json.as_object()?.iter();
        members
            .map(|(key, value)| Some((key.parse().ok()?, T::from_json(value)?)))
            .collect()
    }
}

/// Writes non-finite numbers as strings, as the contract has them.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<T: AnyFloat, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    value.to_json().serialize(serializer)
}

/// The inverse of [`serialize`].
///
/// # Errors
/// What is no number.
pub fn deserialize<'de, T: AnyFloat, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    let json = Json::deserialize(deserializer)?;
    T::from_json(&json).ok_or_else(|| D::Error::custom(format!("{json} is no number")))
}
