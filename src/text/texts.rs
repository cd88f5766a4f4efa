//! Texts without labels, from `.txt`, `.csv` and `.jsonl`.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use super::data::line_numbers::{Next, noted};
use super::data::records::{MAX_FILE, MAX_ROW, listed};
use config::{Problem, Source};
use files::bounded::{self, shown};

/// A text, and the second one where there is such a column.
pub type Text = (String, Option<String>);

/// Which columns are read; only `.csv` and `.jsonl` have any.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextColumns {
    /// Column of the text; `text` if it is not said.
    pub text: Option<String>,
    /// Column of the second text.
    pub pair: Option<String>,
}

impl TextColumns {
    fn first(&self) -> &str {
        self.text.as_deref().unwrap_or("text")
    }
}

/// Problems that are spelled out.
const SPELLED_OUT: usize = 10;

/// Reads the texts, in the file's order. In `.txt` every line is a text, an empty one, too.
///
/// # Errors
/// The file cannot be read, is none of the three kinds, lacks a column or holds no text.
pub fn read(file: &Path, columns: &TextColumns) -> Result<Vec<Text>, Vec<Problem>> {
    let problem = |line: Option<usize>, found: String, expected: &str| Problem {
        source: Source::File(file.to_owned(), line),
        key: None,
        found,
        expected: expected.to_owned(),
    };
    let bytes = bounded::read(file, MAX_FILE)
        .map_err(|e| vec![problem(None, e.to_string(), "a readable file")])?;
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    let kind = file
        .extension()
        .and_then(|e| e.to_str())
        .unwrap_or_default();
    let rows = match kind {
        "txt" if *columns != TextColumns::default() => {
            let found = "--text or --text-pair with a .txt file".to_owned();
            return Err(vec![problem(None, found, "columns of .csv or .jsonl")]);
        }
        "txt" => lines(bytes),
        "csv" => csv(bytes, columns),
        "jsonl" => jsonl(bytes, columns),
        other => Err(vec![(None, format!("a file of the kind {other:?}"))]),
    };
    match rows {
        Ok(rows) if rows.is_empty() => {
            Err(vec![problem(None, "no texts".into(), "a text at least")])
        }
        Ok(rows) => Ok(rows),
        Err(mut found) => {
            let more = found.len().saturating_sub(SPELLED_OUT);
            found.truncate(SPELLED_OUT);
            if more > 0 {
                found.push((None, format!("{more} more such rows")));
            }
            let expected =
                ".txt, .csv or .jsonl, in UTF-8, with the column of the text in every row";
            Err((found.into_iter())
                .map(|(line, found)| problem(line, found, expected))
                .collect())
        }
    }
}

/// What was found, with the line from 1.
type Found = (Option<usize>, String);

fn lines(bytes: &[u8]) -> Result<Vec<Text>, Vec<Found>> {
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let mut wrong = Vec::new();
    let mut rows = Vec::new();
    for (line, text) in bytes.split(|b| *b == b'\n').enumerate() {
        if text.len() as u64 > MAX_ROW {
            wrong.push((Some(line + 1), too_long()));
            continue;
        }
        match std::str::from_utf8(text.strip_suffix(b"\r").unwrap_or(text)) {
            Ok(text) => rows.push((text.to_owned(), None)),
            Err(e) => wrong.push((Some(line + 1), format!("invalid UTF-8: {e}"))),
        }
    }
    told(rows, wrong)
}

fn csv(bytes: &[u8], columns: &TextColumns) -> Result<Vec<Text>, Vec<Found>> {
    let (bytes, lines) = noted(bytes, MAX_ROW);
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(bytes);
    let header = reader.headers().map_err(|e| vec![(None, e.to_string())])?;
    let header: Vec<String> = header.iter().map(|name| name.trim().to_owned()).collect();
    let place = |name: &str| match header.iter().filter(|h| *h == name).count() {
        1 => Ok(header.iter().position(|h| h == name).unwrap_or(0)),
        0 => Err(vec![(
            None,
            format!(
                "no column {name}; the file has {}",
                listed(header.iter().map(String::as_str))
            ),
        )]),
        n => Err(vec![(None, format!("{n} columns called {name}"))]),
    };
    let text = place(columns.first())?;
    let pair = columns.pair.as_deref().map(place).transpose()?;
    let mut wrong = Vec::new();
    let mut rows = Vec::new();
    let mut record = csv::ByteRecord::new();
    loop {
        let line = match lines.next(&mut reader, &mut record) {
            Ok(Next::Record(line)) => Some(line),
            Ok(Next::End) => break,
            Ok(Next::TooLong(line)) => {
                wrong.push((Some(line), too_long()));
                break;
            }
            Err(e) => {
                wrong.push((None, e.to_string()));
                break;
            }
        };
        if record.len() != header.len() {
            let (found, expected) = (record.len(), header.len());
            wrong.push((
                line,
                format!("{found} cells, where the header has {expected}"),
            ));
            continue;
        }
        let cell = |index: usize| std::str::from_utf8(&record[index]).map(str::to_owned);
        match cell(text).and_then(|text| Ok((text, pair.map(cell).transpose()?))) {
            Ok(row) => rows.push(row),
            Err(e) => wrong.push((line, format!("invalid UTF-8: {e}"))),
        }
    }
    told(rows, wrong)
}

fn jsonl(bytes: &[u8], columns: &TextColumns) -> Result<Vec<Text>, Vec<Found>> {
    let mut wrong = Vec::new();
    let mut rows = Vec::new();
    for (number, line) in bytes.split(|b| *b == b'\n').enumerate() {
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        if line.len() as u64 > MAX_ROW {
            wrong.push((Some(number + 1), too_long()));
            continue;
        }
        let row = serde_json::from_slice(line)
            .map_err(|e| e.to_string())
            .and_then(|object: Map<String, Json>| {
                let text = field(&object, columns.first())?;
                let pair = columns.pair.as_deref().map(|name| field(&object, name));
                Ok((text, pair.transpose()?))
            });
        match row {
            Ok(row) => rows.push(row),
            Err(found) => wrong.push((Some(number + 1), found)),
        }
    }
    told(rows, wrong)
}

/// A text, or a number or truth value as a text.
fn field(object: &Map<String, Json>, name: &str) -> Result<String, String> {
    match object.get(name) {
        Some(Json::String(text)) => Ok(text.clone()),
        Some(scalar @ (Json::Number(_) | Json::Bool(_))) => Ok(scalar.to_string()),
        Some(Json::Null) => Err(format!("null in the column {name}")),
        Some(Json::Array(_) | Json::Object(_)) => {
            Err(format!("a list or an object in the column {name}"))
        }
        None => {
            let names = listed(object.keys().map(String::as_str));
            Err(format!("no column {name}; the row has {names}"))
        }
    }
}

fn too_long() -> String {
    format!("a row of more than {}", shown(MAX_ROW))
}

fn told(rows: Vec<Text>, wrong: Vec<Found>) -> Result<Vec<Text>, Vec<Found>> {
    match wrong.is_empty() {
        true => Ok(rows),
        false => Err(wrong),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, text: &[u8], columns: &TextColumns) -> Result<Vec<Text>, String> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(name);
        std::fs::write(&file, text).unwrap();
        read(&file, columns).map_err(|all| {
            let lines: Vec<String> = all
                .into_iter()
                .map(|p| format!("{:?} {}", p.source, p.found))
                .collect();
            lines.join("\n")
        })
    }

    fn columns(text: &str, pair: &str) -> TextColumns {
        TextColumns {
            text: Some(text.to_owned()),
            pair: Some(pair.to_owned()),
        }
    }

    #[test]
    fn every_line_of_a_text_file_is_a_row() {
        let rows = of(
            "x.txt",
            b"\xef\xbb\xbfone\r\n\ntwo, \"three\"\n",
            &TextColumns::default(),
        )
        .unwrap();
        let texts: Vec<&str> = rows.iter().map(|(text, _)| text.as_str()).collect();
        assert_eq!(texts, ["one", "", "two, \"three\""]);
        let empty = of("x.txt", b"\n", &TextColumns::default()).unwrap();
        assert_eq!(empty, [(String::new(), None)]);
        assert!(
            of("x.txt", b"", &TextColumns::default())
                .unwrap_err()
                .contains("no texts")
        );
        let error = of("x.txt", b"a\n\xff\n", &TextColumns::default()).unwrap_err();
        assert!(
            error.contains("Some(2)") && error.contains("UTF-8"),
            "{error}"
        );
        assert!(
            of("x.txt", b"a", &columns("a", "b"))
                .unwrap_err()
                .contains("--text")
        );
    }

    #[test]
    fn columns_of_csv_and_jsonl_are_found_by_name() {
        let expected = [
            ("a".to_owned(), Some("1".to_owned())),
            ("b, c".to_owned(), Some(String::new())),
        ];
        let csv = of("x.csv", b"id,t,p\n1,a,1\n2,\"b, c\",\n", &columns("t", "p")).unwrap();
        assert_eq!(csv, expected);
        let jsonl = b"{\"t\": \"a\", \"p\": 1}\n\n{\"p\": \"\", \"t\": \"b, c\"}";
        assert_eq!(of("x.jsonl", jsonl, &columns("t", "p")).unwrap(), expected);
        let default = of("x.csv", b"text\na\n", &TextColumns::default()).unwrap();
        assert_eq!(default, [("a".to_owned(), None)]);
    }

    #[test]
    fn rows_that_cannot_be_read_are_named_by_line() {
        for (name, text, expected) in [
            ("x.csv", &b"t\na\n"[..], "no column text; the file has t"),
            ("x.csv", b"text,text\na,b\n", "2 columns called text"),
            ("x.csv", b"text,b\na,b\nc\n", "Some(3)"),
            ("x.csv", b"text,b\r\n\"a\r\n\",b\r\nc\r\n", "Some(4)"),
            ("x.jsonl", b"{\"text\": \"a\"}\n{\"t\": 1}", "Some(2)"),
            ("x.jsonl", b"{\"text\": null}", "null in the column text"),
            ("x.jsonl", b"[1]", "Some(1)"),
            ("x.xml", b"a", "kind \"xml\""),
        ] {
            let error = of(name, text, &TextColumns::default()).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        let many = "{}\n".repeat(30);
        let error = of("x.jsonl", many.as_bytes(), &TextColumns::default()).unwrap_err();
        assert_eq!(error.lines().count(), SPELLED_OUT + 1);
        assert!(error.contains("20 more"), "{error}");
    }
}
