//! Rows read from each kind of file, what is refused, and how answers are written.

use std::fs;

use super::*;

fn wanted() -> Wanted {
    Wanted {
        text: Some("text".into()),
        columns: Vec::new(),
        numbers: Default::default(),
        pair: None,
        label: None,
        forbidden: written(&labels()),
        empty: false,
    }
}

fn labels() -> Vec<String> {
    vec!["no".into(), "yes".into()]
}

/// The rows of a file of this name, or its problems as text.
fn rows(name: &str, content: &[u8], wanted: Wanted) -> Result<(Survey, Vec<Record>), String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    fs::write(&path, content).unwrap();
    let input = Input::new(&path, wanted).map_err(|p| p.to_string())?;
    let survey = input.survey().map_err(|p| p.to_string())?;
    let mut rows = Vec::new();
    let visited = input.visit(&mut |row| {
        rows.push(row);
        Ok(())
    });
    visited.map_err(|e| e.to_string())?;
    assert_eq!(rows.len(), survey.rows);
    Ok((survey, rows))
}

fn answered(shape: AnswerFormat, survey: &Survey, rows: &[Record]) -> String {
    let mut writer = Writer::new(Vec::new(), shape, &survey.columns, &labels()).unwrap();
    for row in rows {
        writer
            .row(row, &Prediction::Class(1), &[0.25, 0.75])
            .unwrap();
    }
    String::from_utf8(writer.finish().unwrap()).unwrap()
}

#[test]
fn csv_is_answered_with_its_columns_in_either_shape() {
    let text = b"\xef\xbb\xbfid,text\r\n7,\"a, b\r\nc\"\r\n8,d\r\n";
    let (survey, rows) = rows("rows.csv", text, wanted()).unwrap();
    assert_eq!(survey.columns, ["id", "text"]);
    assert_eq!(rows[0].row.text, "a, b\r\nc");
    assert_eq!(rows[1].line, 4);
    assert_eq!(
        answered(AnswerFormat::Csv, &survey, &rows),
        "id,text,prediction,probability.no,probability.yes\n\
         7,\"a, b\r\nc\",yes,0.25,0.75\n8,d,yes,0.25,0.75\n"
    );
    let json = answered(AnswerFormat::Jsonl, &survey, &rows);
    let first: serde_json::Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert_eq!(
        first,
        serde_json::json!({"id": "7", "text": "a, b\r\nc", "prediction": "yes",
            "probability.no": 0.25, "probability.yes": 0.75})
    );
}

#[test]
fn json_lines_stay_as_they_are_written_and_become_csv() {
    let text =
        b"{\"text\": \"a\", \"n\": 123456789012345678901234567890}\n\n{\"text\": 5, \"m\": [1, 2]}";
    let (survey, rows) = rows("rows.jsonl", text, wanted()).unwrap();
    assert_eq!(survey.columns, ["text", "n", "m"]);
    assert_eq!(
        answered(AnswerFormat::Jsonl, &survey, &rows),
        "{\"text\": \"a\", \"n\": 123456789012345678901234567890,\"prediction\":\"yes\",\
         \"probability.no\":0.25,\"probability.yes\":0.75}\n\
         {\"text\": 5, \"m\": [1, 2],\"prediction\":\"yes\",\
         \"probability.no\":0.25,\"probability.yes\":0.75}\n"
    );
    assert_eq!(rows[1].row.text, "5");
    let csv = answered(AnswerFormat::Csv, &survey, &rows);
    assert_eq!(csv.lines().nth(2).unwrap(), "5,,\"[1,2]\",yes,0.25,0.75");
}

#[test]
fn a_text_file_has_a_text_a_line() {
    let (survey, rows) = rows("rows.txt", b"one\r\ntwo, three\n", wanted()).unwrap();
    assert_eq!(survey.columns, ["text"]);
    assert_eq!(rows[1].row.text, "two, three");
    assert_eq!(
        answered(AnswerFormat::Csv, &survey, &rows)
            .lines()
            .nth(2)
            .unwrap(),
        "\"two, three\",yes,0.25,0.75"
    );
    let mut pairs = wanted();
    pairs.pair = Some("criterion".into());
    let problems = self::rows("rows.txt", b"one\n", pairs).unwrap_err();
    assert!(problems.contains("criterion"), "{problems}");
}

#[test]
fn pairs_and_classes_are_read_where_they_are_wanted() {
    let mut wanted = wanted();
    wanted.pair = Some("criterion".into());
    wanted.label = Some(("status".into(), labels()));
    let text = b"criterion,text,status\nx,a, yes\n,b,no\n";
    let (_, rows) = rows("rows.csv", text, wanted).unwrap();
    assert_eq!((rows[0].row.pair.as_deref(), rows[0].class), (Some("x"), 1));
    assert_eq!((rows[1].row.pair.as_deref(), rows[1].class), (Some(""), 0));
}

#[test]
fn a_number_to_be_predicted_is_read_as_in_training() {
    let mut wanted = wanted();
    wanted.label = Some(("y".into(), Vec::new()));
    let text = b"text,y\na,1.5\nb,true\nc,False\n";
    let (_, rows) = rows("rows.csv", text, wanted.clone()).unwrap();
    let numbers: Vec<f64> = rows.iter().map(|row| row.number).collect();
    assert_eq!(numbers, [1.5, 1.0, 0.0]);
    let problems = self::rows("rows.csv", b"text,y\na,far\n", wanted.clone()).unwrap_err();
    assert!(problems.contains("the target \"far\""), "{problems}");
    let problems = self::rows("rows.csv", b"text,y\na,1e300\n", wanted.clone()).unwrap_err();
    assert!(problems.contains("at most 1e150"), "{problems}");
    wanted.columns = vec!["x".into()];
    let problems = self::rows("rows.csv", b"text\na\n", wanted).unwrap_err();
    assert!(problems.contains("(--label)"), "{problems}");
    assert!(problems.contains("no column x"), "{problems}");
}

#[test]
fn what_is_wrong_is_told_with_file_and_row() {
    let mut labelled = wanted();
    labelled.label = Some(("status".into(), labels()));
    let cases: [(&str, &[u8], &Wanted, &[&str]); 12] = [
        ("a.csv", b"txt\na\n", &wanted(), &["no column text", "txt"]),
        (
            "a.csv",
            b"text,text\na,b\n",
            &wanted(),
            &["2 columns called text"],
        ),
        (
            "a.csv",
            b"text\na\n \n",
            &wanted(),
            &["a.csv:3", "row 2", "no text"],
        ),
        ("a.csv", b"text,b\na\n", &wanted(), &["a.csv:2", "1 cells"]),
        (
            "a.csv",
            b"text\n\xff\n",
            &wanted(),
            &["row 1, column text", "UTF-8"],
        ),
        (
            "a.csv",
            b"text,prediction\na,b\n",
            &wanted(),
            &["a column prediction"],
        ),
        ("a.csv", b"text\n", &wanted(), &["no rows"]),
        (
            "a.jsonl",
            b"{\"text\": \"a\"}\n{\"text\"\n",
            &wanted(),
            &["a.jsonl:2", "row 2"],
        ),
        (
            "a.jsonl",
            b"{\"text\": [1]}\n",
            &wanted(),
            &["row 1, column text", "a list"],
        ),
        (
            "a.jsonl",
            b"{\"txt\": \"a\"}\n",
            &wanted(),
            &["no column text", "txt"],
        ),
        (
            "a.csv",
            b"text,status\na,maybe\n",
            &labelled,
            &["row 1, column status", "maybe", "no, yes"],
        ),
        ("a.tsv", b"text\na\n", &wanted(), &["a .tsv file"]),
    ];
    for (name, content, wanted, expected) in cases {
        let problems = rows(name, content, wanted.clone()).unwrap_err();
        for part in expected {
            assert!(problems.contains(part), "{part:?} is not in: {problems}");
        }
    }
}

#[test]
fn lines_of_csv_are_counted_right_whatever_ends_them() {
    for end in ["\n", "\r\n", "\r"] {
        let text = "\u{feff}text\na\n\"b\n\nb\"\n \nc\n".replace('\n', end);
        let problems = rows("a.csv", text.as_bytes(), wanted()).unwrap_err();
        assert!(problems.contains("a.csv:6"), "{end:?}: {problems}");
        let (_, all) = rows("a.csv", text.replace(' ', "d").as_bytes(), wanted()).unwrap();
        let lines: Vec<usize> = all.iter().map(|row| row.line).collect();
        assert_eq!(lines, [2, 3, 6, 7], "{end:?}");
    }
}

#[test]
fn a_row_without_its_second_text_is_named() {
    let mut wanted = wanted();
    wanted.pair = Some("with".into());
    let whole = "{\"text\": \"a\", \"with\": \"\"}\n";
    for lacking in ["{\"text\": \"a\"}\n", "{\"text\": \"a\", \"with\": null}\n"] {
        let text = format!("{whole}{lacking}");
        let problems = rows("a.jsonl", text.as_bytes(), wanted.clone()).unwrap_err();
        assert!(problems.contains("a.jsonl:2"), "{problems}");
        assert!(problems.contains("no second text"), "{problems}");
    }
    let (_, all) = rows("a.jsonl", whole.as_bytes(), wanted).unwrap();
    assert_eq!(all[0].row.pair.as_deref(), Some(""));
}

/// The texts of a file of this name, or its problems as text.
fn texts(name: &str, content: &[u8], columns: &TextColumns) -> Result<Vec<Text>, String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    fs::write(&path, content).unwrap();
    let rows = Input::texts(&path, columns).and_then(|input| input.rows());
    let rows = rows.map_err(|p| p.to_string())?;
    Ok(rows.into_iter().map(|row| (row.text, row.pair)).collect())
}

type Text = (String, Option<String>);

fn columns(text: &str, pair: &str) -> TextColumns {
    TextColumns {
        text: Some(text.to_owned()),
        pair: Some(pair.to_owned()),
    }
}

#[test]
fn every_line_of_a_file_of_texts_is_a_row() {
    let of = |content: &[u8]| texts("x.txt", content, &TextColumns::default());
    let rows = of(b"\xef\xbb\xbfone\r\n\ntwo, \"three\"\n").unwrap();
    let all: Vec<&str> = rows.iter().map(|(text, _)| text.as_str()).collect();
    assert_eq!(all, ["one", "", "two, \"three\""]);
    assert_eq!(of(b"\n").unwrap(), [(String::new(), None)]);
    assert!(of(b"").unwrap_err().contains("no rows"));
    let error = of(b"a\n\xff\n").unwrap_err();
    assert!(
        error.contains("x.txt:2") && error.contains("UTF-8"),
        "{error}"
    );
    let error = texts("x.txt", b"a", &columns("a", "b")).unwrap_err();
    assert!(error.contains("--text"), "{error}");
}

#[test]
fn columns_of_texts_are_found_by_name() {
    let expected = [
        ("a".to_owned(), Some("1".to_owned())),
        ("b, c".to_owned(), Some(String::new())),
    ];
    let csv = b"id,t,p\n1,a,1\n2,\"b, c\",\n";
    assert_eq!(texts("x.csv", csv, &columns("t", "p")).unwrap(), expected);
    let jsonl = b"{\"t\": \"a\", \"p\": 1}\n\n{\"p\": \"\", \"t\": \"b, c\"}";
    assert_eq!(
        texts("x.jsonl", jsonl, &columns("t", "p")).unwrap(),
        expected
    );
    let default = texts("x.csv", b"text\na\n", &TextColumns::default()).unwrap();
    assert_eq!(default, [("a".to_owned(), None)]);
}

#[test]
fn texts_that_cannot_be_read_are_named_by_line() {
    for (name, text, expected) in [
        ("x.csv", &b"t\na\n"[..], "no column text; the file has t"),
        ("x.csv", b"text,text\na,b\n", "2 columns called text"),
        ("x.csv", b"text,b\na,b\nc\n", "x.csv:3"),
        ("x.csv", b"text,b\r\n\"a\r\n\",b\r\nc\r\n", "x.csv:4"),
        ("x.jsonl", b"{\"text\": \"a\"}\n{\"t\": 1}", "x.jsonl:2"),
        ("x.jsonl", b"{\"text\": null}", "column text: found no text"),
        ("x.jsonl", b"[1]", "x.jsonl:1"),
        ("x.xml", b"a", "a .xml file"),
    ] {
        let error = texts(name, text, &TextColumns::default()).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    let many = "{}\n".repeat(30);
    let error = texts("x.jsonl", many.as_bytes(), &TextColumns::default()).unwrap_err();
    assert_eq!(
        error.lines().count(),
        12,
        "a header, ten rows, and how many more"
    );
    assert!(error.contains("20 more"), "{error}");
}
