//! Trials as JSON, straight from their rows: what only is to be shown need not be made into values
//! and maps first.

use std::io::Write as _;

use serde::de::IgnoredAny;

use super::StoreErrorKind as Kind;
use super::read::{Reader, number, parameter};
use messages::json_number;
use messages::python_json;
use search::space::Value;

/// The members of JSON objects, with commas between them and without the braces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Members {
    /// Parameters, ordered by name.
    pub params: Vec<u8>,
    /// User attributes, in the order in which they came.
    pub attrs: Vec<u8>,
    /// Reports, ordered by step.
    pub intermediate: Vec<u8>,
}

/// Those of all trials that were read.
pub(super) fn members(reader: &mut Reader) -> Result<Vec<Members>, Kind> {
    let mut all = vec![Members::default(); reader.trials.len()];
    let columns = "r.param_name, r.param_value, r.distribution_json";
    let order = "ORDER BY t.trial_id, r.param_name";
    reader.each("trial_params", columns, order, |i, trial, row, domains| {
        let name = row.text(1)?;
        let (value, _) = parameter(row, name, trial.number, domains)?;
        let out = &mut all[i].params;
        put_key(out, name)?;
        put_value(out, &value)
    })?;
    let order = "ORDER BY t.trial_id, r.trial_user_attribute_id";
    let columns = "r.key, r.value_json";
    reader.each(
        "trial_user_attributes",
        columns,
        order,
        |i, trial, row, _| {
            let key = row.text(1)?;
            let json = row.text_or_null(2)?;
            let out = &mut all[i].attrs;
            put_key(out, key)?;
            let put = json.map(|json| put_json(out, json)).transpose()?;
            put.flatten().ok_or_else(|| {
                let whose = format!("attribute {key:?} of trial {}", trial.number);
                Kind::Content(format!("{whose} is no JSON"))
            })
        },
    )?;
    let columns = "r.step, r.intermediate_value, r.intermediate_value_type";
    let order = "ORDER BY t.trial_id, r.step";
    let table = "trial_intermediate_values";
    reader.each(table, columns, order, |i, trial, row, _| {
        let step: i64 = row.get(1)?;
        let value = number(row, 2, || {
            format!("the value of trial {} at step {step}", trial.number)
        })?;
        let out = &mut all[i].intermediate;
        comma(out);
        write!(out, "\"{step}\":").map_err(unwritten)?;
        put_number(out, value)
    })?;
    Ok(all)
}

fn comma(out: &mut Vec<u8>) {
    if !out.is_empty() {
        out.push(b',');
    }
}

fn put_key(out: &mut Vec<u8>, key: &str) -> Result<(), Kind> {
    comma(out);
    serde_json::to_writer(&mut *out, key).map_err(unwritten)?;
    out.push(b':');
    Ok(())
}

fn put_number(out: &mut Vec<u8>, value: f64) -> Result<(), Kind> {
    let put = match value.is_finite() {
        true => serde_json::to_writer(out, &value),
        false => serde_json::to_writer(out, &json_number(value)),
    };
    put.map_err(unwritten)
}

fn put_value(out: &mut Vec<u8>, value: &Value) -> Result<(), Kind> {
    match value {
        Value::Float(x) => put_number(out, *x),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Str(_) => {
            serde_json::to_writer(out, value).map_err(unwritten)
        }
    }
}

/// Puts JSON as Python writes it; `None` where it is none. Most of it is standard JSON in one line,
/// and stays as it is.
fn put_json(out: &mut Vec<u8>, text: &str) -> Result<Option<()>, Kind> {
    let plain = !text.bytes().any(|b| b == b'\\' || b == b'\n');
    if plain && serde_json::from_str::<IgnoredAny>(text).is_ok() {
        out.extend_from_slice(text.as_bytes());
        return Ok(Some(()));
    }
    let Some(json) = python_json(text) else {
        return Ok(None);
    };
    serde_json::to_writer(out, &json).map_err(unwritten)?;
    Ok(Some(()))
}

/// Writing to memory does not fail.
fn unwritten(error: impl std::fmt::Display) -> Kind {
    Kind::Content(format!("a trial cannot be written as JSON: {error}"))
}
