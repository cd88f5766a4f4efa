//! One line to one request, every field checked; what depends on the study is checked later.

use serde_json::{Map, Value as Json};

use super::fields::{Fields, found_in};
use super::init::RequestedStudy;
use messages::python_json;

/// What a client can ask for.
#[derive(Debug)]
pub(super) enum Request {
    Init(Box<RequestedStudy>),
    Ask,
    Add { params: Map<String, Json> },
    Report { id: u64, step: i64, value: f64 },
    Tell { id: u64, result: TrialResult },
    Close,
}

/// How a trial ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum TrialResult {
    /// With this value, which is not NaN.
    Ok(f64),
    /// Early; with the last reported value, as the client has it.
    Pruned(Option<f64>),
    /// Without any.
    Failed,
}

const ID: &str = "the id of a trial, an integer from 0";
const OPS: &str = "init, ask, add, report, tell or close";

impl Request {
    /// Reads a line; the error says what is wrong with it.
    pub fn read(line: &[u8]) -> Result<Request, String> {
        let text = std::str::from_utf8(line)
            .map_err(|e| format!("not UTF-8: wrong byte at {}", e.valid_up_to() + 1))?;
        match serde_json::from_str(text) {
            Ok(json) => Request::of(&json, text, false),
            // What is read from a database as infinite is most likely a mistake in a request.
            Err(error) if error.to_string().starts_with("number out of range") => {
                Err(format!("not JSON: {error}"))
            }
            Err(error) => match python_json(text) {
                // NaN and infinities came in as strings, and halves of surrogate pairs were
                // replaced: where a string stands for itself, it may not be what was sent.
                Some(json) => match Request::of(&json, text, true)? {
                    Request::Init(_) => Err(not_plain("init")),
                    Request::Add { .. } => Err(not_plain("add")),
                    other @ (Request::Ask
                    | Request::Report { .. }
                    | Request::Tell { .. }
                    | Request::Close) => Ok(other),
                },
                None => Err(format!("not JSON: {error}")),
            },
        }
    }

    /// `python` says whether the line was read as Python's JSON.
    fn of(json: &Json, text: &str, python: bool) -> Result<Request, String> {
        let found = |json: &Json| found_in(json, python);
        let Json::Object(map) = json else {
            return Err(format!(
                "request: found {}, expected an object",
                found(json)
            ));
        };
        let fields =
            |known: &[&str]| Fields::new(json, String::new(), known).map(|f| f.of_python(python));
        match map.get("op") {
            Some(Json::String(op)) => match op.as_str() {
                "init" => Ok(Request::Init(Box::new(RequestedStudy::read(
                    json, text, python,
                )?))),
                "ask" => fields(&["op"]).map(|_| Request::Ask),
                "add" => add(&fields(&["op", "params"])?),
                "report" => report(&fields(&["op", "id", "step", "value"])?),
                "tell" => tell(&fields(&["op", "id", "value", "state"])?),
                "close" => fields(&["op"]).map(|_| Request::Close),
                _ => Err(format!("op: found {}, expected {OPS}", found(&map["op"]))),
            },
            Some(other) => Err(format!("op: found {}, expected {OPS}", found(other))),
            None => Err(format!("op: found nothing, expected {OPS}")),
        }
    }
}

fn not_plain(op: &str) -> String {
    format!("{op}: found NaN, an infinity or half of a surrogate pair, expected none")
}

fn add(fields: &Fields) -> Result<Request, String> {
    let expected = "an object with the value of each parameter";
    let params = fields.required("params", expected)?.as_object();
    let wrong = || fields.wrong("params", expected);
    Ok(Request::Add {
        params: params.ok_or_else(wrong)?.clone(),
    })
}

fn report(fields: &Fields) -> Result<Request, String> {
    Ok(Request::Report {
        id: fields.unsigned("id", ID)?,
        step: fields.step("step")?,
        value: fields.number("value", "a number")?,
    })
}

fn tell(fields: &Fields) -> Result<Request, String> {
    let id = fields.unsigned("id", ID)?;
    let states = "ok, pruned or failed";
    let state = fields.text("state", states)?;
    // Of a trial that did not end by itself, the value may be missing.
    let some = |expected| match fields.optional("value") {
        Some(_) => fields.number("value", expected).map(Some),
        None => Ok(None),
    };
    let result = match state {
        "ok" => {
            let expected = "a number other than NaN, as state is ok";
            let value = fields.number("value", expected)?;
            if value.is_nan() {
                return Err(fields.wrong("value", expected));
            }
            TrialResult::Ok(value)
        }
        "pruned" => TrialResult::Pruned(some("the last reported value, or null")?),
        "failed" => {
            some("a number or null")?;
            TrialResult::Failed
        }
        _ => return Err(fields.wrong("state", states)),
    };
    Ok(Request::Tell { id, result })
}
