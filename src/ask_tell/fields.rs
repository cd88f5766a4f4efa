//! Fields of a request: whether they are there, known and of their type. Messages name the field,
//! what was found and what was expected.

use serde_json::{Map, Value as Json};

use messages::number_from_json;

/// Longest text that a message quotes, in characters.
const QUOTED: usize = 60;

/// The fields of a JSON object.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    map: &'a Map<String, Json>,
    /// What stands before a field's name in messages: `space[1] "lr", `; empty for the request.
    place: String,
    /// Whether the line was read as Python's JSON, see [`found_in`].
    python: bool,
}

impl<'a> Fields<'a> {
    /// The fields of `json`, none of them unknown.
    pub fn new(json: &'a Json, place: String, known: &[&str]) -> Result<Fields<'a>, String> {
        let Json::Object(map) = json else {
            let what = if place.is_empty() { "request" } else { &place };
            let what = what.trim_end_matches([',', '.', ' ']);
            return Err(format!("{what}: found {}, expected an object", found(json)));
        };
        if let Some(name) = map.keys().find(|k| !known.contains(&k.as_str())) {
            let known = known.join(", ");
            return Err(format!(
                "{place}{}: found an unknown field, expected {known}",
                short(name)
            ));
        }
        Ok(Fields {
            map,
            place,
            python: false,
        })
    }

    /// The fields of a line that was read as Python's JSON.
    pub fn of_python(mut self, yes: bool) -> Fields<'a> {
        self.python = yes;
        self
    }

    /// A field that may be left out; `null` is as good as nothing.
    pub fn optional(&self, name: &str) -> Option<&'a Json> {
        self.map.get(name).filter(|json| !json.is_null())
    }

    /// A field that must be there.
    pub fn required(&self, name: &str, expected: &str) -> Result<&'a Json, String> {
        let found = self.map.get(name);
        found.ok_or_else(|| self.wrong(name, expected))
    }

    /// A field's name with where it stands.
    pub fn path(&self, name: &str) -> String {
        format!("{}{name}", self.place)
    }

    /// What is wrong with a field.
    pub fn wrong(&self, name: &str, expected: &str) -> String {
        let found = match self.map.get(name) {
            Some(json) => found_in(json, self.python),
            None => "nothing".to_owned(),
        };
        format!("{}{name}: found {found}, expected {expected}", self.place)
    }

    /// A string.
    pub fn text(&self, name: &str, expected: &str) -> Result<&'a str, String> {
        let json = self.required(name, expected)?;
        json.as_str().ok_or_else(|| self.wrong(name, expected))
    }

    /// An integer of 64 bits, with or without a sign.
    pub fn unsigned(&self, name: &str, expected: &str) -> Result<u64, String> {
        let json = self.required(name, expected)?;
        json.as_u64().ok_or_else(|| self.wrong(name, expected))
    }

    /// An integer of 64 bits with a sign.
    pub fn integer(&self, name: &str) -> Result<i64, String> {
        let expected = "an integer of at most 64 bits";
        let json = self.required(name, expected)?;
        json.as_i64().ok_or_else(|| self.wrong(name, expected))
    }

    /// A step: no more than the column of a server's database has room for, and the same for a file.
    pub fn step(&self, name: &str) -> Result<i64, String> {
        let expected = "an integer of at most 32 bits";
        let step = self.required(name, expected)?.as_i64();
        let step = step.filter(|step| i32::try_from(*step).is_ok());
        step.ok_or_else(|| self.wrong(name, expected))
    }

    /// A positive integer, or `null`; not to be left out.
    pub fn positive_or_null(&self, name: &str) -> Result<Option<i64>, String> {
        let expected = "an integer of at least 1, or null";
        let json = self.required(name, expected)?;
        match json.as_i64() {
            Some(n) if n >= 1 => Ok(Some(n)),
            None if json.is_null() => Ok(None),
            Some(_) | None => Err(self.wrong(name, expected)),
        }
    }

    /// A number; NaN and infinities are numbers, too.
    pub fn number(&self, name: &str, expected: &str) -> Result<f64, String> {
        let json = self.required(name, expected)?;
        number_from_json(json).ok_or_else(|| self.wrong(name, expected))
    }

    /// A list that is not empty.
    pub fn list(&self, name: &str, expected: &str) -> Result<&'a [Json], String> {
        let items = self.required(name, expected)?.as_array();
        let items = items.filter(|items| !items.is_empty());
        let wrong = || self.wrong(name, expected);
        items.map(Vec::as_slice).ok_or_else(wrong)
    }

    /// `true` or `false`; false where it is left out or `null`.
    pub fn flag(&self, name: &str) -> Result<bool, String> {
        match self.map.get(name) {
            None | Some(Json::Null) => Ok(false),
            Some(Json::Bool(flag)) => Ok(*flag),
            Some(_) => Err(self.wrong(name, "true or false")),
        }
    }
}

/// A value as messages show it.
pub(super) fn found(json: &Json) -> String {
    match json {
        Json::Array(items) if items.is_empty() => "an empty list".to_owned(),
        Json::Array(_) => "a list".to_owned(),
        Json::Object(_) => "an object".to_owned(),
        Json::String(text) => short(text),
        Json::Null | Json::Bool(_) | Json::Number(_) => json.to_string(),
    }
}

/// A value of a line as messages show it. Where the line was read as Python's JSON, a NaN or an
/// infinity stands in it as a string.
pub(super) fn found_in(json: &Json, python: bool) -> String {
    match json.as_str() {
        Some(word @ ("NaN" | "Infinity" | "-Infinity")) if python => word.to_owned(),
        Some(_) | None => found(json),
    }
}

/// A text in quotes, cut where it is long.
pub(super) fn short(text: &str) -> String {
    match text.char_indices().nth(QUOTED) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}
