//! How a study's rows are read and divided into parts and folds, whatever they are rows of.

use std::collections::BTreeSet;
use std::path::Path;

use super::baseline::{counts, counts_of};
use super::split::{Part, Samples, Split, split, ties};
use anyhow::Context;
use config::{Baseline, Prepared, Problem, Problems, Source, StudySpec, TestSplit};
use files::watched::WatchedFile;
use search::space::Value;
use search::study::rng;
use serde_json::{Map, Value as Json};
use task::TrainingRows;

/// The file of the rows.
pub fn data_path(spec: &StudySpec) -> &Path {
    let path = spec.fixed.get("data.path").and_then(Value::as_str);
    Path::new(path.unwrap_or_default())
}

/// Reads rows with `read` and splits them; `of` is what a split knows of them. Those of a group stay together, and those
/// to whose texts `texts` gives one number ([`ties`]).
///
/// # Errors
/// Problems of the data, of the fractions, or a part that lacks a class.
pub fn load<D>(
    spec: &StudySpec,
    read: &dyn Fn(&Path) -> Result<D, Problems>,
    of: fn(&D) -> &Samples,
    texts: &dyn Fn(&D) -> Option<Vec<usize>>,
) -> Result<(D, Split), Problems> {
    let mut problems = Vec::new();
    let fractions = fractions(spec).map_err(|problem| problems.push(problem));
    let path = spec.fixed.get("data.path").and_then(Value::as_str);
    let path = path.map(Path::new);
    let data = match path {
        Some(path) => read(path).map_err(|found| problems.extend(found.0)).ok(),
        None => {
            problems.push(spec.problem("data.path", "no value", "a .csv or .jsonl file"));
            None
        }
    };
    let (Some(data), Ok(fractions), Some(path)) = (data, fractions, path) else {
        return Err(Problems(problems));
    };
    let samples = of(&data);
    let ties = ties(samples, texts(&data).as_deref());
    let split = cut(spec, samples, &ties, fractions);
    if let Some(problem) = too_many_folds(spec, samples, &ties, &split) {
        return Err(problem.into());
    }
    let given = !samples.parts.is_empty();
    for (name, rows) in split.sets() {
        let test = name == Part::Test.name();
        // A test part is asked for by its share, or by a column that has rows of it.
        if !test || (given && !rows.is_empty()) || (!given && fractions[2] > 0.0) {
            problems.extend(lacking(path, samples, &name, &rows));
        }
    }
    Problems(problems).or((data, split))
}

/// More folds than rows, or groups of rows, of a class: then no fold can be without a gap.
fn too_many_folds(
    spec: &StudySpec,
    data: &Samples,
    ties: &[usize],
    split: &Split,
) -> Option<Problem> {
    let folds = split.folds();
    let mut groups = vec![BTreeSet::new(); data.classes.len()];
    for row in folds.iter().flatten() {
        groups[data.class[*row]].insert(ties[*row]);
    }
    let (class, groups) = groups.iter().enumerate().min_by_key(|(_, g)| g.len())?;
    let most = groups.len();
    let what = match ties.iter().enumerate().all(|(row, tie)| row == *tie) {
        true => "rows",
        false => "groups",
    };
    let found = format!(
        "{} folds, and {most} {what} of class {} outside the test part",
        folds.len(),
        data.classes[class]
    );
    let expected = match most {
        0 | 1 => "at least two such for folds at all: more rows, or no folds".to_owned(),
        _ => format!("at most {most} folds: each has rows of every class"),
    };
    (folds.len() > most).then(|| spec.problem("data.folds", found, expected))
}

/// The parts of the rows, drawn or as the data's column has them, and the folds.
fn cut(spec: &StudySpec, data: &Samples, ties: &[usize], fractions: [f64; 3]) -> Split {
    let whole = |key: &str| spec.fixed.get(key).and_then(Value::as_i64).unwrap_or(0);
    let seed = whole("data.split.seed") as u64;
    let mut parts = match data.parts.as_slice() {
        [] => split(data, ties, fractions, &mut rng(seed, 0, "split")),
        given => Split::given(given.to_vec()),
    };
    let folds = usize::try_from(whole("data.folds")).unwrap_or(0);
    parts.cut(data, ties, folds, &mut rng(seed, 0, "folds"));
    parts
}

/// The fractions of train, validation and test.
fn fractions(spec: &StudySpec) -> Result<[f64; 3], Problem> {
    let key = |part: Part| format!("data.split.{}", part.name());
    let of = |part: Part, preset: f64| {
        let given = spec.fixed.get(&key(part)).and_then(Value::as_f64);
        given.unwrap_or(preset)
    };
    let all = [
        of(Part::Train, 0.8),
        of(Part::Validation, 0.1),
        of(Part::Test, 0.1),
    ];
    let sum: f64 = all.iter().sum();
    if (sum - 1.0).abs() < 1e-6 && all[0] > 0.0 && all[1] > 0.0 && all[2] >= 0.0 {
        return Ok(all);
    }
    let found = format!("train {}, validation {}, test {}", all[0], all[1], all[2]);
    let expected = "shares that sum to 1, of train and validation above 0";
    // The share that was given first, or by a flag, which was typed after the file.
    let given = Part::ALL.map(key);
    let given = given.iter().filter_map(|key| spec.sources.get(key));
    let first = given.min_by_key(|source| match source {
        Source::File(_, line) => *line,
        Source::Flag(_) | Source::Environment(_) => None,
    });
    Err(match first {
        Some(source) => Problem::new(source, "data.split", found, expected),
        None => spec.problem("data.split", found, expected),
    })
}

/// The classes that a part or a fold has no row of; the first few.
fn lacking(path: &Path, data: &Samples, name: &str, rows: &[usize]) -> Vec<Problem> {
    let counts = counts_of(data, rows);
    let absent: Vec<usize> = (0..counts.len()).filter(|c| counts[*c] == 0).collect();
    let of = |class: &usize| {
        let all = (0..data.count())
            .filter(|r| data.class[*r] == *class)
            .count();
        let part = if name.starts_with("fold") {
            ""
        } else {
            " part"
        };
        format!(
            "no row of class {} in the {name}{part} ({all} rows of it in the file)",
            data.classes[*class]
        )
    };
    let mut found: Vec<String> = absent.iter().take(LISTED).map(of).collect();
    if absent.len() > LISTED {
        found.push(format!("nor of {} more classes", absent.len() - LISTED));
    }
    let expected = "rows of every class in every part and fold: more rows, more groups, a larger share or fewer folds";
    found
        .into_iter()
        .map(|found| Problem::in_file(path, "data.split", found, expected))
        .collect()
}

/// Problems of one kind that are spelled out.
const LISTED: usize = 5;

/// What of divided rows is trained on.
pub fn training_rows(spec: &StudySpec, samples: &Samples, split: &Split) -> TrainingRows {
    TrainingRows {
        file: data_path(spec).display().to_string(),
        lines: samples.lines.clone(),
        train: split
            .rounds()
            .into_iter()
            .map(|round| round.train)
            .collect(),
    }
}

/// A column of rows that nobody wrote: its name, and the cell of each row.
pub type MadeUp<'a> = (&'a str, &'a dyn Fn(usize) -> String);

/// Rows that nobody wrote, of these columns, in the place of a study's.
///
/// # Errors
/// They cannot be written.
pub fn make_up(spec: &mut StudySpec, dir: &Path, columns: &[MadeUp<'_>]) -> anyhow::Result<()> {
    const ROWS: usize = 240;
    let path = dir.join("rows.csv").display().to_string();
    let write = || -> csv::Result<()> {
        let mut out = csv::Writer::from_path(&path)?;
        out.write_record(columns.iter().map(|(name, _)| name))?;
        for row in 0..ROWS {
            out.write_record(columns.iter().map(|(_, cell)| cell(row)))?;
        }
        Ok(out.flush()?)
    };
    write().with_context(|| path.clone())?;
    read_from(spec, &path);
    Ok(())
}

/// Puts other rows, which have no columns for their parts and groups, in the place of a study's.
pub fn read_from(spec: &mut StudySpec, path: &str) {
    for key in ["data.split.column", "data.group"] {
        spec.fixed.remove(key);
    }
    let path = Value::from(path);
    spec.fixed.insert("data.path".to_owned(), path);
}

/// What `tune check` tells of rows whose classes are those of the column `label`, and of their parts.
pub fn facts(
    spec: &StudySpec,
    data: &Samples,
    (label, split): (&str, &Split),
    facts: &mut Vec<(String, String)>,
) {
    let rows = data.count();
    let share = |counts: &[usize]| {
        let total: usize = counts.iter().sum();
        let each: Vec<String> = data
            .classes
            .iter()
            .zip(counts)
            .map(|(class, n)| {
                let percent = 100.0 * *n as f64 / total.max(1) as f64;
                format!("{class}: {n} ({percent:.1} %)")
            })
            .collect();
        each.join(", ")
    };
    let every: Vec<usize> = (0..rows).collect();
    let all = share(&counts_of(data, &every));
    let mut tell = |fact: String| facts.push(("data".into(), fact));
    tell(format!("{rows} rows in {}", data_path(spec).display()));
    if data.classes.len() > 1 {
        tell(format!("classes of {label}: {all}"));
    }
    if let Some(column) = spec.fixed.get("data.group").and_then(Value::as_str) {
        let groups: BTreeSet<_> = (0..rows).map(|row| data.group(row)).collect();
        tell(format!("{} groups of {column}", groups.len()));
    }
    let mut line = |name: &str, counts: &[usize]| {
        let rows = counts.iter().sum::<usize>();
        let fact = format!("{name}: {rows} rows; {}", share(counts));
        facts.push(("split".into(), fact));
    };
    match split.folds() {
        [] => {
            for part in [Part::Train, Part::Validation] {
                line(part.name(), &counts(data, split, part));
            }
        }
        folds => {
            let sizes = || folds.iter().map(Vec::len);
            let (least, most) = (sizes().min().unwrap_or(0), sizes().max().unwrap_or(0));
            let name = format!(
                "{} folds of {least} to {most} rows, a model each; together",
                folds.len()
            );
            line(&name, &counts_of(data, &folds.concat()));
        }
    }
    line(Part::Test.name(), &counts(data, split, Part::Test));
}

/// What is known of divided rows with this fingerprint before anything trains; `trivial` is the trivial answer on a part,
/// `label` the column that is predicted.
pub fn prepared(
    spec: &StudySpec,
    data: &Samples,
    (label, split): (&str, &Split),
    fingerprint: String,
    trivial: &dyn Fn(Part) -> Option<Baseline>,
) -> Prepared {
    let mut prepared = Prepared {
        data_fingerprint: Some(fingerprint),
        split_fingerprint: Some(split.fingerprint()),
        baseline: trivial(Part::Validation),
        ..Prepared::default()
    };
    if !split.rows(Part::Test).is_empty() {
        prepared.test = Some(TestSplit {
            baseline: trivial(Part::Test),
        });
    }
    // Workers that start later read it again.
    let path = data_path(spec);
    let watched = path
        .is_file()
        .then(|| WatchedFile::read(&path.display().to_string(), path));
    prepared.watched.extend(watched.into_iter().flatten());
    facts(spec, data, (label, split), &mut prepared.facts);
    prepared
}

/// The problem that `what` of a file is not what the study's `identity` says of it under `key`; `now` is its fingerprint.
pub fn differs(
    identity: &Map<String, Json>,
    (file, key): (&Path, &str),
    what: &str,
    now: &str,
) -> Option<Problem> {
    let then = identity.get(key).and_then(Json::as_str);
    let found = format!(
        "{what} changed since the study was made (fingerprint {now}, then {})",
        then.unwrap_or("unknown")
    );
    (then != Some(now)).then(|| Problem::in_file(file, key, found, "the same files"))
}

/// The same of a study's rows and their split.
pub fn rows_differ(
    spec: &StudySpec,
    identity: &Map<String, Json>,
    (rows, split): (&str, &Split),
) -> Option<Problem> {
    let path = data_path(spec);
    let data = (path, "data.fingerprint");
    // Other rows are split in another way: one problem, not two.
    differs(identity, data, "the data have", rows).or_else(|| {
        let parts = (path, "data.split.fingerprint");
        differs(identity, parts, "the split has", &split.fingerprint())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::study_of;

    #[test]
    fn shares_that_do_not_sum_to_1_are_told_where_they_are_given() {
        let mut spec = study_of(&config::kinds::tabular::KIND, "macro_f1");
        let line = |line: usize| Source::File("t.toml".into(), Some(line));
        spec.sources.insert("data".to_owned(), line(3));
        assert!(fractions(&spec).is_ok());
        spec.fixed.insert("data.split.test".to_owned(), 0.3.into());
        let told = |spec: &StudySpec| fractions(spec).unwrap_err().to_string();
        assert!(told(&spec).starts_with("t.toml:3: data.split: found train 0.8"));
        for (part, at) in [("validation", 7), ("test", 6)] {
            spec.sources.insert(format!("data.split.{part}"), line(at));
        }
        assert!(told(&spec).starts_with("t.toml:6: data.split: "));
        let flag = Source::Flag("--set data.split.test=0.3".to_owned());
        spec.sources.insert("data.split.test".to_owned(), flag);
        assert!(told(&spec).starts_with("--set data.split.test=0.3: data.split: "));
    }
}
