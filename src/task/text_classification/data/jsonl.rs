//! One JSON object a line.

use serde_json::{Map, Value as Json};

use super::{Columns, Findings, RawRow};

/// The fields of the columns asked for; empty lines are passed over.
pub fn rows(bytes: &[u8], columns: &Columns, findings: &mut Findings) -> Vec<RawRow> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut objects: Vec<(usize, usize, Map<String, Json>)> = Vec::new();
    let mut number = 0;
    for (index, line) in bytes.split(|b| *b == b'\n').enumerate() {
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        number += 1;
        match object(line) {
            Ok(object) => objects.push((index + 1, number, object)),
            Err(found) => findings.row(
                index + 1,
                format!("row {number}"),
                found,
                "one JSON object a line, in UTF-8",
            ),
        }
    }
    missing_columns(&objects, columns, findings);
    let mut rows = Vec::with_capacity(objects.len());
    for (line, number, object) in &objects {
        let mut field = |name: &str| match object.get(name) {
            None | Some(Json::Null) => None,
            Some(Json::String(text)) => Some(text.clone()),
            Some(scalar @ (Json::Number(_) | Json::Bool(_))) => Some(scalar.to_string()),
            Some(Json::Array(_) | Json::Object(_)) => {
                findings.row(
                    *line,
                    format!("row {number}, column {name}"),
                    "a list or an object",
                    "a string or a number in every column",
                );
                Some("?".to_owned())
            }
        };
        rows.push(RawRow {
            line: *line,
            number: *number,
            text: field(&columns.text),
            label: field(&columns.label),
            pair: columns.pair.as_deref().and_then(&mut field),
            group: columns.group.as_deref().and_then(&mut field),
            part: columns.part.as_deref().and_then(field),
        });
    }
    rows
}

fn object(line: &[u8]) -> Result<Map<String, Json>, String> {
    let text = std::str::from_utf8(line)
        .map_err(|e| format!("invalid UTF-8 after byte {}", e.valid_up_to()))?;
    match serde_json::from_str(text) {
        Ok(Json::Object(object)) => Ok(object),
        Ok(other) => Err(format!("the JSON value {other}").chars().take(80).collect()),
        Err(error) => Err(error.to_string()),
    }
}

/// A column that no row has is a problem of the file.
fn missing_columns(
    objects: &[(usize, usize, Map<String, Json>)],
    columns: &Columns,
    findings: &mut Findings,
) {
    let names: std::collections::BTreeSet<&str> = objects
        .iter()
        .flat_map(|(_, _, object)| object.keys().map(String::as_str))
        .collect();
    if names.is_empty() {
        return;
    }
    for (key, name) in columns.named() {
        if !names.contains(name) {
            let all: Vec<&str> = names.iter().copied().collect();
            findings.file(
                key,
                format!("no column {name}; the rows have {}", all.join(", ")),
                "a column of the file",
            );
        }
    }
}
