//! CSV with a header line.

use super::line_numbers::noted;
use super::{Columns, Findings, RawRow};

/// The cells of the columns asked for.
pub fn rows(bytes: &[u8], columns: &Columns, findings: &mut Findings) -> Vec<RawRow> {
    let (bytes, lines) = noted(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes));
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(bytes);
    let header: Vec<String> = match reader.byte_headers() {
        Ok(header) => header
            .iter()
            .map(|name| String::from_utf8_lossy(name).trim().to_owned())
            .collect(),
        Err(error) => {
            findings.file("data.path", error.to_string(), "CSV with a header line");
            return Vec::new();
        }
    };
    check_header(&header, columns, findings);
    let place = |name: &str| header.iter().position(|column| column == name);
    let (Some(text), Some(label)) = (place(&columns.text), place(&columns.label)) else {
        return Vec::new();
    };
    let pair = columns.pair.as_deref().and_then(place);
    let group = columns.group.as_deref().and_then(place);
    let part = columns.part.as_deref().and_then(place);
    let mut rows = Vec::new();
    let mut record = csv::ByteRecord::new();
    let mut number = 0;
    loop {
        match reader.read_byte_record(&mut record) {
            Ok(true) => number += 1,
            Ok(false) => return rows,
            Err(error) => {
                findings.file("data.path", error.to_string(), "CSV with a header line");
                return rows;
            }
        }
        let line = lines.of(&record);
        if record.len() != header.len() {
            findings.row(
                line,
                format!("row {number}"),
                format!("{} cells (an open quote before it?)", record.len()),
                &format!("{} cells in every row, as in the header", header.len()),
            );
            continue;
        }
        let mut cell = |index: usize| match std::str::from_utf8(&record[index]) {
            Ok(text) => Some(text.to_owned()),
            Err(error) => {
                findings.row(
                    line,
                    format!("row {number}, column {}", header[index]),
                    format!("invalid UTF-8 after byte {}", error.valid_up_to()),
                    "text in UTF-8",
                );
                None
            }
        };
        let (text, label) = (cell(text), cell(label));
        let further = [pair, group, part].map(|index| index.map(&mut cell));
        if text.is_none() || label.is_none() || further.contains(&Some(None)) {
            continue;
        }
        let [pair, group, part] = further.map(Option::flatten);
        rows.push(RawRow {
            line,
            number,
            text,
            label,
            pair,
            group,
            part,
        });
    }
}

/// Each column asked for is there, once.
fn check_header(header: &[String], columns: &Columns, findings: &mut Findings) {
    for (key, name) in columns.named() {
        match header.iter().filter(|column| *column == name).count() {
            0 => findings.file(
                key,
                format!("no column {name}; the file has {}", header.join(", ")),
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
