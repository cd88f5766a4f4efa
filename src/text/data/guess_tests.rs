//! What is guessed of files of rows, and what is refused of them.

use super::*;

fn likely(name: &str, text: &str) -> Result<LikelyColumns, Problems> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    std::fs::write(&path, text).unwrap();
    likely_columns(&path, None, None)
}

#[test]
fn text_label_and_group_are_told_apart_by_what_they_hold() {
    let mut text = "id,user_id,comment,stars,sentiment\n".to_owned();
    for i in 0..60 {
        let mood = ["good", "bad"][i % 2];
        text += &format!(
            "{i},{},\"quite {mood}, the {i}th\",{},{mood}\n",
            i % 20,
            i % 5
        );
    }
    let found = likely("rows.csv", &text).unwrap();
    assert_eq!(found.text.as_deref(), Some("comment"));
    assert_eq!(found.label, "sentiment");
    assert_eq!(found.classes, ["bad", "good"]);
    assert_eq!(found.group.as_deref(), Some("user_id"));
    assert_eq!((found.columns.len(), found.rows), (5, 60));
}

#[test]
fn columns_without_telling_names_are_chosen_by_their_values() {
    let rows: String = (0..30)
        .map(|i| {
            format!(
                "{{\"a\": {}, \"b\": \"a longer text number {i}\"}}\n",
                i % 3
            )
        })
        .collect();
    let found = likely("rows.jsonl", &rows).unwrap();
    assert_eq!(
        (found.text.as_deref(), found.label.as_str()),
        (Some("b"), "a")
    );
    assert_eq!(found.group, None);
}

#[test]
fn numbers_and_categories_without_texts_are_a_table() {
    let row = |i: usize| format!("{i},{},{}.5,{}\n", ["Graz", "Linz"][i % 2], i % 7, i % 3);
    let rows: String = (0..60).map(row).collect();
    let found = likely("x.csv", &format!("row_id,town,price,kind\n{rows}")).unwrap();
    assert_eq!((found.text, found.label.as_str()), (None, "kind"));
    assert!(found.categorical, "of the towns");
    assert_eq!(
        (found.classes.len(), found.row_names),
        (3, vec!["row_id".to_owned()])
    );
    // Categories of several words, and points in time, are no texts; long cells without spaces may be.
    let row = |i: usize| {
        format!(
            "{},2024-01-{:02} 10:00:00,{}\n",
            ["New York", "Los Angeles"][i % 2],
            i % 28,
            i % 2
        )
    };
    let rows: String = (0..60).map(row).collect();
    let found = likely("x.csv", &format!("city,taken,late\n{rows}")).unwrap();
    assert_eq!((found.text, found.label.as_str()), (None, "late"));
    let row = |i: usize| format!("これは{i}番目の長い文章です,{}\n", i % 2);
    let rows: String = (0..60).map(row).collect();
    let found = likely("x.csv", &format!("b,label\n{rows}")).unwrap();
    assert_eq!(found.text.as_deref(), Some("b"));
    // A column that is called so comes before the last; a number of many values is no class.
    let row = |i: usize| format!("{},{}.25,{}\n", i % 5, i * 3 % 59, i % 2);
    let rows: String = (0..60).map(row).collect();
    let found = likely("x.csv", &format!("a,target,b\n{rows}")).unwrap();
    assert_eq!((found.text, found.label.as_str()), (None, "target"));
    assert_eq!((found.classes, found.categorical), (Vec::new(), false));
    // A feature of truth values has categories.
    let row = |i: usize| format!("{}.5,{},{}\n", i % 7, i.is_multiple_of(3), i % 2);
    let rows: String = (0..60).map(row).collect();
    let found = likely("x.csv", &format!("price,sold,label\n{rows}")).unwrap();
    assert_eq!(
        (found.label.as_str(), found.categorical),
        ("label", true),
        "of what is sold"
    );
    // Nor is one of a few rows, or with fractions; a feature whose name ends in "id" is none of a row.
    let row = |i: usize| format!("{},{},{}.5\n", i * 3, 7.25 + i as f64, i % 4);
    let rows: String = (0..12).map(row).collect();
    let found = likely("x.csv", &format!("a,amount_paid,y\n{rows}")).unwrap();
    assert_eq!((found.classes, found.row_names), (Vec::new(), Vec::new()));
}

#[test]
fn what_cannot_be_told_is_an_error_that_names_the_columns() {
    let rows: String = (0..30).map(|i| format!("{i},some text {i}\n")).collect();
    let error = likely("x.csv", &format!("n,words\n{rows}")).unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("--label") && error.contains("n, words"),
        "{error}"
    );
    assert!(
        likely("x.xlsx", "")
            .unwrap_err()
            .to_string()
            .contains(".xlsx")
    );
    let told = |text: &str| likely("x.csv", text).unwrap_err().to_string();
    let semicolons: String = (0..30).map(|i| format!("{i};text {i};a\n")).collect();
    let error = told(&format!("id;text;label\n{semicolons}"));
    assert!(error.contains("separated by commas"), "{error}");
    assert!(error.contains("delimiter=';'"), "{error}");
    let error = likely("x.tsv", "a\tb\n").unwrap_err().to_string();
    assert!(error.contains("delimiter='\\t'"), "{error}");
    let label = |i: usize| ["a", "b", ""][i % 3];
    let rows: String = (0..30)
        .map(|i| format!("text {i},{}\n", label(i)))
        .collect();
    let error = told(&format!("text,label\n{rows}"));
    assert!(
        error.contains(
            "10 of 30 rows without a value in the column \"label\", the first on line 4, 7, 10"
        ),
        "{error}"
    );
    assert!(error.contains("take these rows out"), "{error}");
    assert!(told("text,text,label\na,b,c\n").contains("two columns"));
    let error = likely("x.csv", "text,label\n").unwrap_err().to_string();
    assert!(error.contains("no rows"), "{error}");
}

#[test]
fn a_label_that_is_named_is_looked_at_too() {
    let named = |text: &str, label: &str| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.csv");
        std::fs::write(&path, text).unwrap();
        let likely = likely_columns(&path, None, Some(label));
        likely.map_err(|problems| problems.to_string())
    };
    let rows: String = (0..30)
        .map(|i| format!("words number {i},0.{i}\n"))
        .collect();
    let error = named(&format!("text,score\n{rows}"), "score").unwrap_err();
    assert!(error.contains("30 classes in 30 rows"), "{error}");
    assert!(error.contains("is this a number?"), "{error}");
    let rows: String = (0..30)
        .map(|i| format!("words number {i},{}\n", ["", "a"][i % 2]))
        .collect();
    let error = named(&format!("text,label\n{rows}"), "label").unwrap_err();
    assert!(error.contains("15 of 30 rows"), "{error}");
}

#[test]
fn rows_without_names_above_them_are_told_from_names() {
    let rows: String = (0..30)
        .map(|i| format!("a day with words {i},{}\n", ["neg", "pos"][i % 2]))
        .collect();
    let error = likely("x.csv", &rows).unwrap_err().to_string();
    assert!(error.contains("put a line with names first"), "{error}");
    assert!(likely("x.csv", &format!("text,label\n{rows}")).is_ok());
}

#[test]
fn a_first_line_of_numbers_is_data_unless_it_counts_the_columns() {
    let rows: String = (0..30)
        .map(|i| format!("{}.5,{i},{}\n", i * 7 % 5, i % 2))
        .collect();
    for first in ["1.5,1,2", "0,0,1", "3,2,4"] {
        let error = likely("x.csv", &format!("{first}\n{rows}"))
            .unwrap_err()
            .to_string();
        assert!(error.contains("put a line with names first"), "{error}");
    }
    assert!(likely("x.csv", &format!("0,1,2\n{rows}")).is_ok());
}

#[test]
fn semicolons_with_decimal_commas_are_one_problem_with_its_remedy() {
    let rows: String = (0..30)
        .map(|i| format!("{i},5;{};{i},25\n", i % 2))
        .collect();
    let error = likely("x.csv", &format!("a;b;c\n{rows}")).unwrap_err();
    assert_eq!(error.0.len(), 1, "{error}");
    assert!(error.to_string().contains("re.sub("), "{error}");
}

#[test]
fn a_word_that_is_another_in_each_row_is_no_category() {
    let rows: String = (0..40)
        .map(|i| format!("u{i},{},{}\n", i % 3, i % 7))
        .collect();
    let found = likely("x.csv", &format!("user,kind,target\n{rows}")).unwrap();
    assert_eq!(
        (found.row_names, found.categorical),
        (vec!["user".to_owned()], false)
    );
}

#[test]
fn numbers_as_people_write_them_are_no_names_of_rows() {
    let row = |i: usize| {
        let word = ["a", "b", "c"][i % 3];
        format!("\"{i},{}5\",{} kg,{word},{}\n", i % 7, i % 9, i % 2)
    };
    let rows: String = (0..40).map(row).collect();
    let found = likely("x.csv", &format!("price,weight,word,label\n{rows}")).unwrap();
    assert_eq!(found.row_names, [""; 0]);
    assert_eq!(found.dressed, ["price", "weight"]);
    let rows: String = (0..40).map(|i| format!("{},\"{i},5\"\n", i % 4)).collect();
    let error = likely("x.csv", &format!("a,target\n{rows}")).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("is this a number?"), "{error}");
    assert!(error.contains("such as 1234.5"), "{error}");
}

#[test]
fn rows_in_latin_1_are_one_problem_with_its_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.csv");
    let mut bytes = b"text,label\n".to_vec();
    for i in 0..30 {
        bytes.extend(b"caf\xe9 again,");
        bytes.extend(format!("{}\n", i % 2).as_bytes());
    }
    std::fs::write(&path, bytes).unwrap();
    let error = likely_columns(&path, None, None).unwrap_err();
    assert_eq!(error.0.len(), 1);
    let error = error.to_string();
    assert!(
        error.contains("30 cells") && error.contains("iconv -f latin1"),
        "{error}"
    );
}
