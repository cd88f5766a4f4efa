//! Reading rows from CSV and JSON lines.

use super::*;
use config::Source;
use training::rows::classes;
use training::split::Part;
use training::table;

fn columns() -> Columns {
    Columns {
        text: "text".into(),
        pair: None,
        label: "status".into(),
        group: Some("post".into()),
        part: None,
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
    assert_eq!(csv.samples.classes, ["0", "1"]);
    assert_eq!(csv.samples.class[0], 1);
    assert_eq!(csv.samples.lines[1], 4);
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

#[test]
fn a_column_can_say_each_rows_part() {
    let mut columns = columns();
    columns.part = Some("set".into());
    let of = |text: &str| read_columns("a.csv", text.as_bytes(), &columns);
    let head = "text,status,post,set\n";
    let data = of(&format!(
        "{head}a,0,1,train\nb,1,2,Val\nc,1,3,dev\nd,0,4, test\n"
    ))
    .unwrap();
    use Part::{Test, Train, Validation};
    assert_eq!(data.samples.parts, [Train, Validation, Validation, Test]);
    let problems = of(&format!("{head}a,0,1,train\nb,1,2,\nc,1,3,holdout\n")).unwrap_err();
    assert!(problems[0].starts_with("line 3: row 2, column set: the part \"\""));
    assert!(problems[1].contains("the part \"holdout\""), "{problems:?}");
}

#[test]
fn rows_keep_their_numbers_behind_rows_that_cannot_be_read() {
    let csv = b"text,status,post\na\nb,,2\n";
    let problems = read("a.csv", csv).unwrap_err().join("\n");
    assert!(
        problems.contains("line 3: row 2, column status: no label"),
        "{problems}"
    );
    let json = b"[]\n\n{\"text\": \"a\", \"status\": null, \"post\": 1}\n";
    let problems = read("a.jsonl", json).unwrap_err().join("\n");
    assert!(
        problems.contains("line 3: row 2, column status: no label"),
        "{problems}"
    );
}

#[test]
fn line_ends_of_windows_booleans_and_pairs_are_read_from_both_formats() {
    let mut columns = columns();
    columns.pair = Some("criterion".into());
    let csv = b"\xef\xbb\xbftext,criterion,status,post\r\n\"a\r\nb\",x,true,1\r\nc,,false,2\r\n";
    let csv = read_columns("a.csv", csv, &columns).unwrap();
    let json = b"\xef\xbb\xbf{\"text\": \"a\\r\\nb\", \"criterion\": \"x\", \"status\": true, \"post\": 1}\r\n\
                 {\"text\": \"c\", \"criterion\": \"\", \"status\": false, \"post\": 2}\r\n";
    let json = read_columns("a.jsonl", json, &columns).unwrap();
    assert_eq!(csv.fingerprint(), json.fingerprint());
    assert_eq!(csv.samples.classes, ["false", "true"]);
    assert_eq!(csv.rows[0].pair.as_deref(), Some("x"));
    assert_eq!(csv.rows[1].pair.as_deref(), Some(""));
}

#[test]
fn a_column_twice_and_a_number_written_in_two_ways_are_problems() {
    let problems = read("a.csv", b"text,status,post,text\na,1,1,b\n").unwrap_err();
    assert!(
        problems[0].contains("2 columns called text"),
        "{problems:?}"
    );
    let json = b"{\"text\": \"a\", \"status\": 1, \"post\": 1}\n{\"text\": \"b\", \"status\": 1.0, \"post\": 1}\n{\"text\": \"b\", \"status\": 0, \"post\": 1}\n";
    let problems = read("a.jsonl", json).unwrap_err();
    assert!(problems[0].contains("the labels 1 and 1.0"), "{problems:?}");
}

#[test]
fn lines_are_counted_right_whatever_ends_them() {
    for end in ["\n", "\r\n", "\r"] {
        let csv = "\u{feff}text,status,post\nabc,no,1\n,yes,2\n\"a\n\nb\",,3\nc\nd,no,4\n";
        let problems = read("a.csv", csv.replace('\n', end).as_bytes()).unwrap_err();
        let starts = [
            "line 3: row 2, column text: no text",
            "line 4: row 3, column status: no label",
            "line 7: row 4: 1 cells",
        ];
        for start in starts {
            let found = problems.iter().filter(|p| p.starts_with(start)).count();
            assert_eq!(found, 1, "{start} of {end:?} not in {problems:#?}");
        }
        assert_eq!(problems.len(), starts.len(), "{problems:#?}");
    }
}

#[test]
fn a_row_without_its_second_text_is_named_and_an_empty_one_is_a_text() {
    let mut columns = columns();
    columns.pair = Some("with".into());
    let row = |with: &str| format!("{{\"text\": \"a\", \"status\": 1, \"post\": 1{with}}}\n");
    let text = [
        row(", \"with\": \"\""),
        row(""),
        row(", \"with\": null"),
        row(", \"with\": 0"),
    ];
    let problems = read_columns("a.jsonl", text.concat().as_bytes(), &columns).unwrap_err();
    for expected in [
        "line 2: row 2, column with: no second text",
        "line 3: row 3, column with: no second text",
    ] {
        assert!(
            problems.iter().any(|p| p.starts_with(expected)),
            "{problems:#?}"
        );
    }
    let other = |line: &str| line.contains("line 1:") || line.contains("line 4:");
    assert!(!problems.iter().any(|p| other(p)), "{problems:#?}");
}

#[test]
fn truth_values_and_the_numbers_that_they_are_cannot_both_be_labels() {
    let of = |labels: [&str; 3]| {
        let row = |label| format!("{{\"text\": \"a\", \"status\": {label}, \"post\": 1}}\n");
        read("a.jsonl", labels.map(row).concat().as_bytes())
    };
    let problems = of(["true", "1", "0"]).unwrap_err();
    assert!(
        problems[0].contains("the labels 1 and true"),
        "{problems:?}"
    );
    let problems = of(["true", "\"False\"", "0"]).unwrap_err();
    assert!(
        problems[0].contains("the labels 0 and False"),
        "{problems:?}"
    );
    assert!(of(["true", "0", "true"]).is_ok());
}

#[test]
fn a_row_longer_than_any_is_named_and_ends_the_reading() {
    let long = "x".repeat(table::MAX_ROW as usize + 1);
    let csv = format!("text,status,post\na,0,1\n{long},1,2\n,,\n");
    let jsonl = format!("{{\"text\": \"a\"}}\n\n{{\"text\": \"{long}\"}}\n?\n");
    let open = format!("text,status,post\na,0,1\n\"b{}", "\nc,1,2".repeat(700_000));
    for (name, content, place) in [
        ("a.csv", csv, "line 3: row 2: more than 4 MiB"),
        ("a.jsonl", jsonl, "line 3: row 2: more than 4 MiB"),
        (
            "a.csv",
            open,
            "line 3: row 2: more than 4 MiB (an open quote?)",
        ),
    ] {
        let errors = read(name, content.as_bytes()).unwrap_err();
        assert!(errors.iter().any(|e| e.starts_with(place)), "{errors:?}");
        assert!(
            !errors.iter().any(|e| e.starts_with("line 4")),
            "{errors:?}"
        );
    }
    let header = format!("{}\n", "a,".repeat(3_000_000));
    let errors = read("a.csv", header.as_bytes()).unwrap_err();
    assert!(
        errors[0].contains("a header of more than 4 MiB"),
        "{errors:?}"
    );
}

#[test]
fn a_quote_that_nobody_closes_is_one_error_with_its_line() {
    for (content, place) in [
        (
            "text,status,post\na,0,1\nb,1,\"2\nc,0,3\n",
            "line 3: row 2: a quote",
        ),
        (
            "text,status,post\na,0,1\n\"b,1,2\nc,0,3\n",
            "line 3: row 2: a quote",
        ),
        ("text,status,\"post\na,0,1\n", "line 1: the header: a quote"),
    ] {
        let errors = read("a.csv", content.as_bytes()).unwrap_err();
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].starts_with(place), "{errors:?}");
    }
}

#[test]
fn of_a_million_columns_some_are_named() {
    let header = format!("{}\n", "c,".repeat(1_000_000));
    let errors = read("a.csv", header.as_bytes()).unwrap_err();
    assert!(errors[0].contains("and 999971 more"), "{errors:?}");
    assert!(errors.iter().all(|e| e.len() < 1000));
}

#[test]
fn utf_16_is_told_as_what_it_is() {
    for (mark, unit) in [(b"\xff\xfe", [b'a', 0]), (b"\xfe\xff", [0, b'a'])] {
        let mut content = mark.to_vec();
        content.extend(unit.repeat(100));
        for name in ["a.csv", "a.jsonl"] {
            let errors = read(name, &content).unwrap_err();
            assert!(errors[0].contains("UTF-16"), "{errors:?}");
        }
    }
}

#[test]
fn a_file_that_is_no_regular_file_is_refused_and_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("a.csv");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let zero = dir.path().join("b.jsonl");
    std::os::unix::fs::symlink("/dev/zero", &zero).unwrap();
    for (path, found) in [(pipe, "a pipe"), (zero, "a device")] {
        let problems = Dataset::read(&path, &columns()).unwrap_err();
        assert!(problems.to_string().contains(found), "{problems}");
    }
}

#[test]
fn nul_bytes_are_characters_as_others_are() {
    let data = read("a.csv", b"text,status,post\na\0b,0,1\n\0,1,2\n").unwrap();
    assert_eq!(data.rows[0].text, "a\0b");
}
