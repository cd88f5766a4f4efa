//! Reading rows from CSV and JSON lines.

use super::*;

fn columns() -> Columns {
    Columns {
        text: "text".into(),
        pair: None,
        label: "status".into(),
        group: Some("post".into()),
    }
}

fn read(name: &str, content: &[u8]) -> Result<Dataset, Vec<String>> {
    read_columns(name, content, &columns())
}

fn read_columns(name: &str, content: &[u8], columns: &Columns) -> Result<Dataset, Vec<String>> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    std::fs::write(&path, content).unwrap();
    Dataset::read(&path, columns).map_err(|problems| {
        problems
            .0
            .into_iter()
            .map(|p| {
                let line = match p.source {
                    Source::File(_, Some(line)) => format!("line {line}: "),
                    Source::File(_, None) => String::new(),
                    Source::Flag(s) | Source::Environment(s) => s,
                };
                let key = p.key.unwrap_or_default();
                format!("{line}{key}: {}; expected {}", p.found, p.expected)
            })
            .collect()
    })
}

#[test]
fn csv_and_json_lines_of_the_same_rows_are_the_same_data() {
    let csv = read(
        "a.csv",
        b"\xef\xbb\xbfstatus,post,text\n1,p1,\"two\nlines, quoted\"\n0,p2,\xc3\xa4\n",
    )
    .unwrap();
    let json = read(
        "a.jsonl",
        "{\"status\": 1, \"post\": \"p1\", \"text\": \"two\\nlines, quoted\", \"x\": []}\n\n\
         {\"status\": \"0\", \"post\": \"p2\", \"text\": \"ä\"}"
            .as_bytes(),
    )
    .unwrap();
    assert_eq!(csv.fingerprint(), json.fingerprint());
    assert_eq!(csv.classes, ["0", "1"]);
    assert_eq!(csv.rows[0].class, 1);
    assert_eq!(csv.rows[1].line, 4);
}

#[test]
fn the_fingerprint_depends_on_contents_and_not_on_the_path() {
    let a = read("a.csv", b"text,status,post\na,0,1\nb,1,2\n").unwrap();
    let b = read("b.csv", b"text,status,post\na,0,1\nb,1,2\n").unwrap();
    let c = read("a.csv", b"text,status,post\na,0,1\nb,1,3\n").unwrap();
    assert_eq!(a.fingerprint(), b.fingerprint());
    assert_ne!(a.fingerprint(), c.fingerprint());
}

#[test]
fn numeric_labels_are_ordered_as_numbers_and_words_as_words() {
    let of = |labels: &[&str]| {
        classes(
            &labels
                .iter()
                .map(|l| (*l).to_owned())
                .collect::<Vec<String>>(),
        )
    };
    assert_eq!(of(&["10", "9", "-1", "9"]), ["-1", "9", "10"]);
    assert_eq!(of(&["10", "9", "no"]), ["10", "9", "no"]);
}

#[test]
fn all_problems_come_together_with_their_lines() {
    let problems = read(
        "a.csv",
        b"text,status,post\na,,1\n ,1,1\nb,0,\nc,0\n\xff,1,2\n",
    )
    .unwrap_err();
    let all = problems.join("\n");
    for expected in [
        "line 2: row 1, column status: no label",
        "line 3: row 2, column text: no text",
        "line 4: row 3, column post: no group",
        "line 5: row 4: 2 cells",
        "line 6: row 5, column text: invalid UTF-8",
    ] {
        assert!(all.contains(expected), "{expected} not in\n{all}");
    }
}

#[test]
fn a_missing_column_names_those_there_are() {
    let problems = read("a.csv", b"txt,status\na,1\n").unwrap_err();
    assert_eq!(problems.len(), 2);
    assert!(problems[0].contains("no column text; the file has txt, status"));
    assert!(problems[1].contains("data.group"), "{}", problems[1]);
    let problems = read("a.jsonl", b"{\"a\": 1, \"post\": 1}").unwrap_err();
    assert!(problems[0].contains("no column text; the rows have a, post"));
}

#[test]
fn one_class_is_no_task() {
    let problems = read("a.csv", b"text,status,post\na,1,1\nb,1,2\n").unwrap_err();
    assert!(problems[0].contains("only the class 1"), "{problems:?}");
    let problems = read("a.csv", b"text,status,post\n").unwrap_err();
    assert!(problems[0].contains("no labelled rows"), "{problems:?}");
}

#[test]
fn a_thousand_bad_rows_are_counted_and_not_listed() {
    let mut text = b"text,status,post\n".to_vec();
    for _ in 0..1000 {
        text.extend_from_slice(b"a,,1\n");
    }
    let problems = read("a.csv", &text).unwrap_err();
    assert!(problems.len() < 20);
    assert!(problems.iter().any(|p| p.contains("990 more such rows")));
}

#[test]
fn broken_json_lines_are_named() {
    let problems = read(
        "a.jsonl",
        b"{\"text\": \"a\", \"status\": 1, \"post\": [1]}\n[1]\n{\n",
    )
    .unwrap_err();
    let all = problems.join("\n");
    assert!(all.contains("line 1: row 1, column post: a list"), "{all}");
    assert!(all.contains("line 2"), "{all}");
    assert!(all.contains("line 3"), "{all}");
}

#[test]
fn an_unknown_format_and_an_absent_file_are_problems() {
    assert!(read("a.tsv", b"").unwrap_err()[0].contains("a .tsv file"));
    let missing = Dataset::read(Path::new("/nonexistent/a.csv"), &columns());
    assert_eq!(missing.unwrap_err().0.len(), 1);
}
