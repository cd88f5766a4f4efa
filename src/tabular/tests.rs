//! Tables: what is read of them, what is wrong with them, and what is made of their columns.

use super::*;
use training::testing::study_of;

/// A study of a file `rows.csv` with this content.
fn site(content: &str, problem: &str, metric: &str) -> (tempfile::TempDir, StudySpec) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rows.csv");
    std::fs::write(&path, content).unwrap();
    let mut spec = study_of(&KIND, metric);
    let keys = [
        ("data.path", path.to_str().unwrap()),
        ("data.target", "y"),
        (PROBLEM, problem),
    ];
    for (key, value) in keys {
        spec.fixed.insert(key.to_owned(), value.into());
    }
    (dir, spec)
}

/// Rows of a number, a category and a class that follows from them.
fn table() -> String {
    let row = |n: usize| {
        let number = if n % 10 == 3 {
            String::new()
        } else {
            n.to_string()
        };
        let color = ["red", "blue", ""][n % 3];
        format!("{number},{color},{},{}\n", n % 4, n % 2)
    };
    String::from("n,color,code,y\n") + &(0..100).map(row).collect::<String>()
}

fn told(spec: &StudySpec) -> String {
    Tabular.prepare(spec).unwrap_err().to_string()
}

#[test]
fn columns_are_numbers_where_all_cells_are_and_it_is_not_said_otherwise() {
    let (_dir, mut spec) = site(&table(), "classification", "macro_f1");
    let numeric = |spec: &StudySpec| -> Vec<bool> {
        let (data, _) = load(spec).unwrap();
        data.columns.iter().map(Column::is_numeric).collect()
    };
    assert_eq!(numeric(&spec), [true, false, true]);
    let before = load(&spec).unwrap().0.fingerprint();
    let code = vec!["code".to_owned()];
    spec.lists.insert(CATEGORICAL.to_owned(), code.clone());
    assert_eq!(numeric(&spec), [true, false, false]);
    spec.lists.insert(IGNORE.to_owned(), code);
    assert_eq!(numeric(&spec), [true, false]);
    assert_ne!(load(&spec).unwrap().0.fingerprint(), before);
    let prepared = Tabular.prepare(&spec).unwrap();
    assert!(
        prepared
            .facts
            .iter()
            .any(|(_, fact)| fact == "1 categorical: color")
    );
    assert_eq!(
        prepared.baseline.unwrap().what,
        "always predicting class 0 of y"
    );
}

#[test]
fn columns_of_json_lines_may_come_late() {
    let (dir, mut spec) = site("", "regression", "rmse");
    let path = dir.path().join("rows.jsonl");
    let row = |n: usize| match n % 2 {
        0 => format!("{{\"y\": {n}, \"a\": {n}}}\n"),
        _ => format!("{{\"y\": {n}, \"late\": \"x\", \"a\": null}}\n"),
    };
    std::fs::write(&path, (0..40).map(row).collect::<String>()).unwrap();
    let path = path.to_str().unwrap();
    spec.fixed.insert("data.path".to_owned(), path.into());
    let (data, _) = load(&spec).unwrap();
    let names: Vec<&str> = data.columns.iter().map(Column::name).collect();
    assert_eq!(names, ["a", "late"]);
    match &data.columns[..] {
        [Column::Numeric(_, a), Column::Categorical(_, late)] => {
            assert!(a[2] == 2.0 && a[3].is_nan());
            assert_eq!(late[..3], ["", "x", ""]);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_encoding_is_learned_of_the_rows_to_train_on_alone() {
    let numbers = Column::of("n", ["1", "3", "", "9"].map(str::to_owned).into(), false);
    let names = Column::of("c", ["b", "a", "", "z"].map(str::to_owned).into(), false);
    let encoding = Encoding::learn(&[numbers.clone(), names.clone()], &[0, 1, 2]);
    assert_eq!(
        (encoding.width(), encoding.categories().collect::<Vec<_>>()),
        (2, vec![3])
    );
    let encoded = encoding.encode(&[numbers, names], &[0, 1, 2, 3]);
    // Mean 2 and deviation 1; what is missing is the mean, and said to be missing.
    assert_eq!(encoded.numbers, [-1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 7.0, 0.0]);
    // Categories in their order from 1; another one, and none, is 0.
    assert_eq!(encoded.categories, [2, 1, 0, 0]);
    assert_eq!(encoding.inputs(4), 6);
    let equal = Column::of("n", vec!["5".to_owned(); 3], false);
    let encoding = Encoding::learn(std::slice::from_ref(&equal), &[0, 1]);
    assert_eq!(encoding.encode(&[equal], &[2]).numbers, [0.0]);
}

#[test]
fn every_problem_of_a_table_is_told_with_its_line() {
    let (_dir, mut spec) = site("n,y\n1,2\n2,far\n3,\n", "regression", "rmse");
    let text = told(&spec);
    for part in [
        "rows.csv:3",
        "the target far",
        "a number in every row",
        "rows.csv:4",
        "no target",
    ] {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
    spec.fixed.insert("data.target".to_owned(), "z".into());
    spec.lists
        .insert(IGNORE.to_owned(), vec!["other".to_owned()]);
    let text = told(&spec);
    assert!(text.contains("no column z; the file has n, y"), "{text}");
    assert!(text.contains("no column other"), "{text}");
    assert!(!text.contains("no target"), "{text}");
    let (_dir, spec) = site("n,n,y\n1,2,3\n", "regression", "rmse");
    assert!(told(&spec).contains("2 columns called n"));
    let (_dir, spec) = site("y\n1\n0\n", "classification", "macro_f1");
    assert!(told(&spec).contains("no column beside the target"));
    let (_dir, spec) = site("n,y\n1,a\n2,a\n", "classification", "macro_f1");
    assert!(told(&spec).contains("data.target: found only the class a"));
}

#[test]
fn what_is_wrong_with_a_column_is_told_once_and_under_its_key() {
    let (_dir, spec) = site("n,y\n1,1\n2,1.0\n3,0\n", "classification", "macro_f1");
    let text = told(&spec);
    assert!(
        text.contains("data.target: found the labels 1 and 1.0"),
        "{text}"
    );
    let (dir, mut spec) = site("", "classification", "macro_f1");
    let path = dir.path().join("rows.jsonl");
    let value = path.to_str().unwrap();
    spec.fixed.insert("data.path".to_owned(), value.into());
    std::fs::write(&path, "").unwrap();
    let text = told(&spec);
    assert!(text.contains("no rows"), "{text}");
    let rows = [
        r#"{"n": 1, "y": [1]}"#,
        r#"{"n": 2, "y": 0}"#,
        r#"{"n": 3, "y": 1}"#,
    ];
    std::fs::write(&path, rows.join("\n")).unwrap();
    let text = told(&spec);
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains("column y: found a list"), "{text}");
    // A column that no row has is one problem, not one of each row.
    std::fs::write(&path, r#"{"n": 1, "x": 1}"#).unwrap();
    let text = told(&spec);
    assert!(text.contains("no column y; the rows have n, x"), "{text}");
    assert!(!text.contains("no target"), "{text}");
}

#[test]
fn a_group_in_two_parts_of_the_files_own_split_is_refused_with_its_lines() {
    let row = |n: usize| {
        let part = ["train", "train", "validation", "test"][n % 4];
        format!("{},{part},{n},{}\n", n / 8, n % 8 / 4)
    };
    let rows = String::from("g,part,n,y\n") + &(0..80).map(row).collect::<String>();
    let (_dir, mut spec) = site(&rows, "classification", "macro_f1");
    for (key, value) in [("data.group", "g"), ("data.split.column", "part")] {
        spec.fixed.insert(key.to_owned(), value.into());
    }
    for folds in [0i64, 3] {
        spec.fixed.insert("data.folds".to_owned(), folds.into());
        let text = told(&spec);
        assert!(text.contains("rows.csv:2"), "{text}");
        assert!(text.contains("10 groups in two parts"), "{text}");
    }
    spec.fixed.remove("data.group");
    Tabular.prepare(&spec).unwrap();
}

#[test]
fn numbers_that_cannot_be_standardised_are_told_once_a_column() {
    let rows = |large: &str, target: &str| {
        let row = |n: usize| match n {
            7 | 9 => format!("{large},{n},{target}\n"),
            _ => format!("{n},{n},{n}\n"),
        };
        String::from("a,b,y\n") + &(0..60).map(row).collect::<String>()
    };
    let (_dir, spec) = site(&rows("-1e300", "1e151"), "regression", "rmse");
    let text = told(&spec);
    for part in [
        "rows.csv:9: row 8, column a: found -1e300, the first of 2 such numbers",
        "rows.csv:9: row 8, column y: found 1e151, the first of 2 such numbers",
        "at most 1e150 either way",
        "leave a cell empty",
    ] {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
    assert_eq!(text.lines().count(), 3, "{text}");
    // What may be read is described by finite numbers, which JSON can hold.
    for (cell, target) in [("1e150", "-1e150"), ("1e-200", "1e-300")] {
        let (_dir, spec) = site(&rows(cell, target), "regression", "rmse");
        let baseline = Tabular.prepare(&spec).unwrap().baseline.unwrap();
        assert!(baseline.value.is_finite(), "{}", baseline.value);
        let (data, split) = load(&spec).unwrap();
        let trial = task::TrialSpec::of_defaults(&spec, 0);
        let about = Description::of(&trial, &data, &split.rows(Part::Train)).unwrap();
        let json = serde_json::to_string(&about).unwrap();
        assert_eq!(serde_json::from_str::<Description>(&json).unwrap(), about);
    }
}

#[test]
fn a_column_of_tiny_numbers_is_standardised_like_any_other() {
    let cells = [1, 3, 1, 3].map(|n| format!("{n}e-200"));
    let column = Column::of("n", cells.into(), false);
    let encoding = Encoding::learn(std::slice::from_ref(&column), &[0, 1, 2, 3]);
    let encoded = encoding.encode(&[column], &[0, 1]);
    assert_eq!(encoded.numbers, [-1.0, 1.0]);
}

#[test]
fn what_does_not_fit_the_target_is_refused() {
    let (_dir, mut spec) = site(&table(), "classification", "rmse");
    let text = told(&spec);
    assert!(
        text.contains("objective.metric") && text.contains("macro_f1"),
        "{text}"
    );
    spec.fixed.insert(PROBLEM.to_owned(), "regression".into());
    let baseline = Tabular.prepare(&spec).unwrap().baseline.unwrap();
    assert_eq!(
        baseline.what,
        "always predicting the mean of y in the training rows"
    );
    assert!((baseline.value - 0.5).abs() < 0.1, "{}", baseline.value);
    let grid = vec!["0.5".to_owned()];
    spec.lists.insert("post.threshold".to_owned(), grid);
    let text = told(&spec);
    assert!(text.contains("post.threshold"), "{text}");
    assert!(text.contains("a threshold for a number"), "{text}");
}

#[test]
fn the_median_that_is_kept_is_the_trivial_answer_of_the_check() {
    let (_dir, spec) = site(&table(), "regression", "mae");
    let (data, _) = load(&spec).unwrap();
    let trial = task::TrialSpec::of_defaults(&spec, 0);
    let about = Description::of(&trial, &data, &[0, 1]).unwrap();
    assert_eq!(about.scale.unwrap().median, 0.5);
}

#[test]
fn a_training_needs_more_memory_with_more_and_wider_layers() {
    let (_dir, spec) = site(&table(), "classification", "macro_f1");
    let floor = Tabular.floor(&spec, Device::Cpu).unwrap();
    let with = |layers: i64, hidden: i64| {
        let mut config = spec.fixed.clone();
        config.insert("model.layers".to_owned(), layers.into());
        config.insert("model.hidden".to_owned(), hidden.into());
        floor(&config).unwrap()
    };
    // Inputs: n, whether there is none, code, and 8 numbers for a colour.
    let tables = 3 * 8;
    let parameters = |layers: &[usize]| tables + layers.iter().sum::<usize>();
    let cells = 100 * (3 + 2);
    assert_eq!(
        with(0, 64) as usize,
        4 * (4 * parameters(&[12 * 2]) + cells)
    );
    assert_eq!(
        with(1, 10) as usize,
        4 * (4 * parameters(&[12 * 10, 11 * 2]) + cells)
    );
    assert!(with(2, 64) > with(1, 64));
}

#[test]
fn columns_that_may_have_been_meant_as_numbers_are_told() {
    let column =
        |cells: &[&str]| Column::of("c", cells.iter().map(|c| (*c).to_owned()).collect(), false);
    let prices = column(&["1.5", "2", "", "NA", "3"]);
    assert_eq!(prices.no_number(), Some((3, "NA")));
    let with_commas = column(&["12,5", "", "3,25", "7"]);
    assert_eq!(with_commas.no_number(), Some((0, "12,5")));
    let shares = column(&["13%", "unknown", "5%"]);
    assert_eq!(shares.no_number(), Some((0, "13%")));
    let codes = column(&["a1", "b2", "7"]);
    assert_eq!((codes.no_number(), codes.same_number()), (None, None));
    let hours = column(&["a", "3", "3.0", "b", "c"]);
    assert_eq!(hours.same_number(), Some(("3", "3.0")));
    assert_eq!(
        column(&["1", "1.0"]).same_number(),
        None,
        "they are numbers"
    );
}

#[test]
fn a_column_of_numbers_with_decimal_commas_is_warned_of_with_what_to_do() {
    let row = |n: usize| format!("\"{n},5\",{}\n", n % 2);
    let rows = String::from("price,y\n") + &(0..60).map(row).collect::<String>();
    let (_dir, mut spec) = site(&rows, "classification", "macro_f1");
    let warnings = Tabular.prepare(&spec).unwrap().warnings;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    for part in ["the column price", "\"0,5\" (line 2)", "such as 1234.5"] {
        assert!(warnings[0].contains(part), "{part:?}: {warnings:?}");
    }
    let price = vec!["price".to_owned()];
    spec.lists.insert(CATEGORICAL.to_owned(), price);
    assert_eq!(Tabular.prepare(&spec).unwrap().warnings, [""; 0]);
}
