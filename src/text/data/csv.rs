//! CSV with a header line.

use std::convert::Infallible;
use std::io::BufRead;

use super::records::{self, Place};
use super::{Columns, Findings, RawRow};

/// The cells of the columns asked for.
pub fn rows(file: impl BufRead, columns: &Columns, findings: &mut Findings) -> Vec<RawRow> {
    let mut rows = Vec::new();
    let mut begin = |header: &[String], findings: &mut Findings| {
        check_header(header, columns, findings);
        header.contains(&columns.text) && header.contains(&columns.label)
    };
    let read = records::csv(
        file,
        "data.path",
        findings,
        &mut begin,
        &mut |place: Place, header, record, findings| -> Result<(), Infallible> {
            let mut cell = |name: &str| {
                let at = header.iter().position(|column| column == name)?;
                Some(records::text(place, name, &record[at], findings))
            };
            let further = [&columns.pair, &columns.group, &columns.part];
            let first = [cell(&columns.text), cell(&columns.label)];
            let further = further.map(|name| cell(name.as_deref()?));
            if first.contains(&Some(None)) || further.contains(&Some(None)) {
                return Ok(());
            }
            let [text, label] = first.map(Option::flatten);
            let [pair, group, part] = further.map(Option::flatten);
            rows.push(RawRow {
                place,
                text,
                label,
                pair,
                group,
                part,
            });
            Ok(())
        },
    );
    match read {
        Ok(_) => rows,
    }
}

/// Each column asked for is there, once.
fn check_header(header: &[String], columns: &Columns, findings: &mut Findings) {
    for (key, name) in columns.named() {
        match header.iter().filter(|column| *column == name).count() {
            0 => findings.file(
                key,
                {
                    let all = records::listed(header.iter().map(String::as_str));
                    format!("no column {name}; the file has {all}")
                },
                "a column of the file",
            ),
            1 => {}
            n => findings.file(
                key,
                format!("{n} columns called {name}"),
                "a name that only one column has",
            ),
        }
    }
}
