//! One JSON object a line.

use std::convert::Infallible;
use std::io::BufRead;

use serde_json::{Map, Value as Json};

use super::records::{self, Place};
use super::{Columns, Findings, RawRow};

/// The fields of the columns asked for; empty lines are passed over.
pub fn rows(file: impl BufRead, columns: &Columns, findings: &mut Findings) -> Vec<RawRow> {
    let mut objects: Vec<(Place, Map<String, Json>)> = Vec::new();
    let read = records::objects(file, "data.path", findings, &mut |place,
                                                                   object,
                                                                   _,
                                                                   _|
     -> Result<
        (),
        Infallible,
    > {
        objects.push((place, object));
        Ok(())
    });
    match read {
        Ok(()) => missing_columns(&objects, columns, findings),
    }
    let mut rows = Vec::with_capacity(objects.len());
    // Each object goes when its row is made.
    for (place, object) in objects {
        let mut field = |name: &str| {
            records::member(&object, name).unwrap_or_else(|no_text| {
                no_text.note(place, name, findings);
                Some("?".to_owned())
            })
        };
        rows.push(RawRow {
            place,
            text: field(&columns.text),
            label: field(&columns.label),
            pair: columns.pair.as_deref().and_then(&mut field),
            group: columns.group.as_deref().and_then(&mut field),
            part: columns.part.as_deref().and_then(field),
        });
    }
    rows
}

/// A column that no row has is a problem of the file.
fn missing_columns(
    objects: &[(Place, Map<String, Json>)],
    columns: &Columns,
    findings: &mut Findings,
) {
    let names: std::collections::BTreeSet<&str> = objects
        .iter()
        .flat_map(|(_, object)| object.keys().map(String::as_str))
        .collect();
    if names.is_empty() {
        return;
    }
    for (key, name) in columns.named() {
        if !names.contains(name) {
            let all = records::listed(names.iter().copied());
            findings.file(
                key,
                format!("no column {name}; the rows have {all}"),
                "a column of the file",
            );
        }
    }
}
