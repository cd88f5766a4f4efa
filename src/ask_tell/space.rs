//! The list of parameters in a request, and the parameters of a trial in a reply.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use serde_json::{Map, Value as Json};

use super::fields::{Fields, found, found_in, short};
use config::points;
use search::space::{Condition, Domain, EXACT, Parameter, Params, Space, Value};

pub(super) const EXPECTED: &str = "a list of parameters";

/// Beyond this, sums and products of bounds leave the range of floats.
const LARGEST: f64 = 1e300;

/// Reads the list; `text` is the line it stands in, `python` whether that was read as Python's JSON.
pub(super) fn read(json: &Json, text: &str, python: bool) -> Result<Space, String> {
    let Json::Array(entries) = json else {
        return Err(format!(
            "space: found {}, expected {EXPECTED}",
            found_in(json, python)
        ));
    };
    let large = integers_beyond_64_bits(text);
    let mut reader = Reader {
        parameters: Vec::with_capacity(entries.len()),
        index: HashMap::new(),
        choices: HashMap::new(),
        names: entries.iter().map(|e| e["name"].as_str()).collect(),
        large,
        python,
    };
    for (at, entry) in entries.iter().enumerate() {
        reader.parameter(at, entry)?;
    }
    Ok(Space {
        parameters: reader.parameters,
        ..Space::default()
    })
}

/// A point that a client has chosen: a value of its domain for each active parameter, and none besides.
pub(super) fn point(space: &Space, given: &Map<String, Json>) -> Result<Params, String> {
    if let Some(name) = given.keys().find(|name| space.find(name).is_none()) {
        let problem = "found a value, expected none: the space has no such parameter";
        return Err(format!("params {}: {problem}", short(name)));
    }
    let mut params = Params::new();
    for parameter in &space.parameters {
        let value = given.get(&parameter.name);
        let expected = match space.active_domain(parameter, &params) {
            Some(domain) => {
                let meant = value.and_then(Value::from_json);
                let meant = meant.filter(|v| domain.contains(v));
                if let Some(own) = meant.and_then(|v| domain.clamp(&v)) {
                    params.insert(parameter.name.clone(), own);
                    continue;
                }
                points::expected(&domain)
            }
            None if value.is_none() => continue,
            None => "none: the parameter is not active at this point".to_owned(),
        };
        let found = value.map_or_else(|| "nothing".to_owned(), found);
        let name = short(&parameter.name);
        return Err(format!("params {name}: found {found}, expected {expected}"));
    }
    Ok(params)
}

/// Writes the parameters of a trial as a JSON object, in the order of the list.
pub(super) fn write_params(space: &Space, params: &Params, out: &mut String) {
    out.push('{');
    let mut first = true;
    for parameter in &space.parameters {
        let Some(value) = params.get(&parameter.name) else {
            continue;
        };
        if !first {
            out.push(',');
        }
        first = false;
        write_text(&parameter.name, out);
        out.push(':');
        match value {
            Value::Str(text) => write_text(text, out),
            // Floats with a point or an exponent, so that no reader takes one for an integer.
            // Writing to a string never fails.
            Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => {
                write!(out, "{value}").ok();
            }
        }
    }
    out.push('}');
}

/// Writes a JSON string.
pub(super) fn write_text(text: &str, out: &mut String) {
    let plain = |b: u8| (b' '..=b'~').contains(&b) && b != b'"' && b != b'\\';
    if text.bytes().all(plain) {
        out.push('"');
        out.push_str(text);
        out.push('"');
    } else {
        out.push_str(&Json::from(text).to_string());
    }
}

struct Reader<'a> {
    parameters: Vec<Parameter>,
    /// By name, the position of those read.
    index: HashMap<&'a str, usize>,
    /// By position, the choices of categorical parameters, for quick look-up.
    choices: HashMap<usize, HashSet<Key>>,
    /// Every name of the list, also of parameters not read yet.
    names: HashSet<Option<&'a str>>,
    /// See [`integers_beyond_64_bits`].
    large: Vec<f64>,
    /// See [`found_in`].
    python: bool,
}

impl<'a> Reader<'a> {
    fn parameter(&mut self, at: usize, entry: &'a Json) -> Result<(), String> {
        let name = entry["name"].as_str();
        let place = match name {
            Some(name) => format!("space[{at}] {}, ", short(name)),
            None => format!("space[{at}], "),
        };
        let kind = match entry["type"].as_str() {
            Some(kind @ ("float" | "int" | "cat")) => kind,
            Some(_) | None => {
                let all = Fields::new(entry, place, &KNOWN)?.of_python(self.python);
                all.text("name", "a name")?;
                return Err(all.wrong("type", "float, int or cat"));
            }
        };
        let known: &[&str] = if kind == "cat" { &CAT } else { &RANGE };
        let fields = Fields::new(entry, place, known)?.of_python(self.python);
        let name = fields.text("name", "a name")?;
        if let Some(first) = self.index.get(name) {
            let expected = format!("another name: space[{first}] has this one");
            return Err(fields.wrong("name", &expected));
        }
        let domain = match kind {
            "float" => float(&fields)?,
            "int" => int(&fields)?,
            _ => self.categorical(at, &fields)?,
        };
        let when = match fields.optional("when") {
            Some(when) => vec![self.condition(&fields, when)?],
            None => Vec::new(),
        };
        self.index.insert(name, at);
        self.parameters.push(Parameter {
            name: name.to_owned(),
            domain,
            when,
            high_when: Vec::new(),
            default: None,
        });
        Ok(())
    }

    fn categorical(&mut self, at: usize, fields: &Fields) -> Result<Domain, String> {
        let expected = "a list of one choice or more";
        let items = fields.list("choices", expected)?;
        let mut choices = Vec::with_capacity(items.len());
        let mut keys = HashSet::new();
        for (i, item) in items.iter().enumerate() {
            let wrong = |expected: &str| {
                let name = format!("choices[{i}]");
                format!(
                    "{}: found {}, expected {expected}",
                    fields.path(&name),
                    found_in(item, self.python)
                )
            };
            let value = choice(item, &self.large).map_err(wrong)?;
            if !keys.insert(key(&value)) {
                return Err(wrong("each choice once (1 and 1.0 are the same)"));
            }
            choices.push(value);
        }
        self.choices.insert(at, keys);
        Ok(Domain::Categorical { choices })
    }

    fn condition(&self, fields: &Fields, when: &Json) -> Result<Condition, String> {
        let inner =
            Fields::new(when, fields.path("when."), &["param", "in"])?.of_python(self.python);
        let expected = "the name of a categorical parameter above";
        let parent = inner.text("param", expected)?;
        let wrong = |what: &str| inner.wrong("param", &format!("{expected}; {what}"));
        let Some(at) = self.index.get(parent) else {
            return Err(wrong(if self.names.contains(&Some(parent)) {
                "this one is not above"
            } else {
                "there is no such parameter"
            }));
        };
        let Some(choices) = self.choices.get(at) else {
            return Err(wrong("this one has no choices"));
        };
        let expected = format!("a list of choices of {}", short(parent));
        let items = inner.list("in", &expected)?;
        let value = |(i, item): (usize, &Json)| {
            let value = Value::from_json(item).filter(|v| choices.contains(&key(v)));
            value.ok_or_else(|| {
                let name = inner.path(&format!("in[{i}]"));
                format!(
                    "{name}: found {}, expected a choice of {}",
                    found_in(item, self.python),
                    short(parent)
                )
            })
        };
        Ok(Condition {
            parent: parent.to_owned(),
            values: items
                .iter()
                .enumerate()
                .map(value)
                .collect::<Result<_, _>>()?,
        })
    }
}

const RANGE: [&str; 7] = ["name", "type", "low", "high", "log", "step", "when"];
const CAT: [&str; 4] = ["name", "type", "choices", "when"];
const KNOWN: [&str; 8] = [
    "name", "type", "low", "high", "log", "step", "choices", "when",
];

fn float(fields: &Fields) -> Result<Domain, String> {
    let expected = "a number between -1e300 and 1e300";
    let number = |name: &str| {
        let x = fields.number(name, expected)?;
        if x.abs() <= LARGEST {
            Ok(x)
        } else {
            Err(fields.wrong(name, expected))
        }
    };
    let (low, high, log) = (number("low")?, number("high")?, fields.flag("log")?);
    if low > high {
        return Err(fields.wrong("low", &format!("at most high, which is {high:?}")));
    }
    if log && low <= 0.0 {
        return Err(fields.wrong("low", "a number above 0, as log is true"));
    }
    let step = match fields.optional("step") {
        None => None,
        Some(_) if log => return Err(fields.wrong("step", "no step, as log is true")),
        Some(_) => Some(number("step")?),
    };
    if let Some(step) = step
        && (step <= 0.0 || (high - low) / step > EXACT as f64)
    {
        let expected = "a number above 0 that makes at most 2^53 steps";
        return Err(fields.wrong("step", expected));
    }
    Ok(Domain::Float {
        low,
        high,
        log,
        step,
    }
    .on_grid())
}

fn int(fields: &Fields) -> Result<Domain, String> {
    let integer = |name: &str, least: i64, expected: &str| {
        let i = fields.integer(name)?;
        if (least..=EXACT).contains(&i) {
            Ok(i)
        } else {
            Err(fields.wrong(name, expected))
        }
    };
    let expected = "an integer between -2^53 and 2^53";
    let (low, high) = (
        integer("low", -EXACT, expected)?,
        integer("high", -EXACT, expected)?,
    );
    let log = fields.flag("log")?;
    if low > high {
        return Err(fields.wrong("low", &format!("at most high, which is {high}")));
    }
    if log && low < 1 {
        return Err(fields.wrong("low", "an integer above 0, as log is true"));
    }
    let step = match fields.optional("step") {
        None => 1,
        Some(_) => integer("step", 1, "an integer between 1 and 2^53")?,
    };
    if log && step != 1 {
        return Err(fields.wrong("step", "1 or no step, as log is true"));
    }
    Ok(Domain::Int {
        low,
        high,
        log,
        step,
    }
    .on_grid())
}

fn choice(json: &Json, large: &[f64]) -> Result<Value, &'static str> {
    let value = Value::from_json(json).ok_or("a string, a number, true, false or null")?;
    let whole = match (json, &value) {
        (Json::Number(n), Value::Float(x)) => n.is_u64() || large.contains(x),
        _ => false,
    };
    if whole {
        return Err("no integer beyond 64 bits");
    }
    Ok(value)
}

/// What makes two choices the same; numbers are compared as floats, as elsewhere in a space.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Key {
    Null,
    Bool(bool),
    Number(u64),
    Text(String),
}

fn key(value: &Value) -> Key {
    match value {
        Value::Null => Key::Null,
        Value::Bool(b) => Key::Bool(*b),
        // `+ 0.0` makes -0 and 0 the same.
        Value::Int(i) => Key::Number((*i as f64 + 0.0).to_bits()),
        Value::Float(x) => Key::Number((x + 0.0).to_bits()),
        Value::Str(s) => Key::Text(s.clone()),
    }
}

/// The integers in a line of JSON that no 64 bits hold; the parser makes floats of them, which
/// would come back as something else than what was sent.
fn integers_beyond_64_bits(text: &str) -> Vec<f64> {
    let mut found = Vec::new();
    let bytes = text.as_bytes();
    let (mut at, mut in_string) = (0, false);
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if in_string => at += 1,
            b'"' => in_string = !in_string,
            b'-' | b'0'..=b'9' if !in_string => {
                let rest = &bytes[at..];
                let part = |b: &u8| b.is_ascii_digit() || b"+-.eE".contains(b);
                let length = rest.iter().position(|b| !part(b)).unwrap_or(rest.len());
                let number = &text[at..at + length];
                if !number.contains(['.', 'e', 'E']) && number.parse::<i64>().is_err() {
                    found.extend(number.parse::<f64>().ok());
                }
                at += length - 1;
            }
            _ => {}
        }
        at += 1;
    }
    found
}
