//! Reads and validates everything on the CPU, with all problems together.

mod lengths;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::baseline::{OF_SHARES, baseline, counts, counts_of};
use super::checkpoint::Checkpoint;
use super::data::{Columns, Dataset};
use super::export::loadable;
use super::knobs;
use super::leakage::{self, Duplicates, TextIds};
use super::split::{Part, Split, split, ties};
use super::tokens::Tokenised;
use config::kinds::text_classification::THRESHOLD;
use config::{Objective, Problem, Problems, Source, StudySpec};
use search::space::{Domain, Params, Value};
use search::study::rng;

use config::Prepared;
use config::TestSplit;

/// See [`task::Preparation::prepare`].
pub fn prepare(spec: &StudySpec) -> Result<Prepared, Problems> {
    let mut problems = Vec::new();
    let mut prepared = Prepared::default();
    let data = match load(spec) {
        Ok(data) => Some(data),
        Err(found) => {
            problems.extend(found.0);
            None
        }
    };
    if let Some((data, split)) = &data {
        let label = Columns::of(&spec.fixed).label;
        prepared.data_fingerprint = Some(data.fingerprint());
        prepared.split_fingerprint = Some(split.fingerprint());
        let trivial = |part| baseline(data, split, part, &label, &spec.objective.metric);
        prepared.baseline = trivial(Part::Validation);
        if !split.rows(Part::Test).is_empty() {
            prepared.test = Some(TestSplit {
                baseline: trivial(Part::Test),
            });
        }
        data_facts(spec, data, split, &mut prepared.facts);
        problems.extend(idle_threshold(spec, data.classes.len()));
        let found = leaks(spec, data, split, &mut prepared.facts);
        problems.extend(found.problems);
        prepared.warnings.extend(found.warnings);
    }
    let mut layers = BTreeMap::new();
    for value in spec.possible("model.name") {
        let name = value.as_str().unwrap_or_default();
        match Checkpoint::named(name, &spec.models) {
            Err(found) => problems.extend(found.0),
            Ok(checkpoint) => {
                match checkpoint.fingerprint() {
                    Ok(hash) => prepared.fingerprints.push((format!("model.{name}"), hash)),
                    Err(problem) => problems.push(problem),
                }
                layers.insert(name.to_owned(), checkpoint.config.num_hidden_layers as i64);
                problems.extend(limits(spec, &checkpoint));
                let data = data.as_ref().map(|(data, _)| data);
                problems.extend(model(spec, &checkpoint, data, &mut prepared));
            }
        }
    }
    problems.extend(knobs::refuse_dead(spec, &layers));
    prepared.warnings.extend(knobs::warnings(spec, &layers));
    if problems.is_empty() {
        Ok(prepared)
    } else {
        Err(Problems(problems))
    }
}

/// A threshold that decides nothing.
fn idle_threshold(spec: &StudySpec, classes: usize) -> Option<Problem> {
    spec.lists.get(THRESHOLD)?;
    let decided = |o: &Objective| !OF_SHARES.contains(&o.metric.as_str());
    let found = match (classes, spec.objectives().into_iter().any(decided)) {
        (2, true) => return None,
        (2, false) => format!(
            "a threshold, but {} is of probabilities",
            spec.objective.metric
        ),
        _ => format!("a threshold for {classes} classes"),
    };
    let expected = "no such key, or two classes and a metric of predicted classes such as macro_f1";
    Some(Problem::in_file(&spec.file, THRESHOLD, found, expected))
}

/// Reads the rows and splits them.
///
/// # Errors
/// Problems of the data, of the fractions, or a part that lacks a class.
pub fn load(spec: &StudySpec) -> Result<(Dataset, Split), Problems> {
    let mut problems = Vec::new();
    let fractions = match fractions(spec) {
        Ok(fractions) => Some(fractions),
        Err(problem) => {
            problems.push(problem);
            None
        }
    };
    let path = spec.fixed.get("data.path").and_then(Value::as_str);
    let path = path.map(Path::new);
    let data = match path {
        Some(path) => Dataset::read(path, &Columns::of(&spec.fixed))
            .map_err(|found| problems.extend(found.0))
            .ok(),
        None => {
            problems.push(Problem::in_file(
                &spec.file,
                "data.path",
                "no value",
                "a .csv or .jsonl file",
            ));
            None
        }
    };
    let (Some(data), Some(fractions), Some(path)) = (data, fractions, path) else {
        return Err(Problems(problems));
    };
    let ties = tied(spec, &data);
    let split = cut(spec, &data, &ties, fractions);
    if let Some(problem) = too_many_folds(spec, &data, &ties, &split) {
        return Err(Problems(vec![problem]));
    }
    let given = !data.parts.is_empty();
    for (name, rows) in split.sets() {
        let test = name == Part::Test.name();
        // A test part is asked for by its share, or by a column that has rows of it.
        if !test || (given && !rows.is_empty()) || (!given && fractions[2] > 0.0) {
            problems.extend(lacking(path, &data, &name, &rows));
        }
    }
    if problems.is_empty() {
        Ok((data, split))
    } else {
        Err(Problems(problems))
    }
}

/// The file of the rows.
pub(crate) fn data_path(spec: &StudySpec) -> &Path {
    let path = spec.fixed.get("data.path").and_then(Value::as_str);
    Path::new(path.unwrap_or_default())
}

/// Which rows stay together, as the study asks.
fn tied(spec: &StudySpec, data: &Dataset) -> Vec<usize> {
    let texts = match Duplicates::of(spec) {
        Duplicates::Together => Some(TextIds::of(data).first),
        Duplicates::Error | Duplicates::Allow => None,
    };
    ties(data, texts.as_deref())
}

/// More folds than rows, or groups of rows, of a class: then no fold can be without a gap.
fn too_many_folds(
    spec: &StudySpec,
    data: &Dataset,
    ties: &[usize],
    split: &Split,
) -> Option<Problem> {
    let folds = split.folds();
    let mut groups = vec![BTreeSet::new(); data.classes.len()];
    for row in folds.iter().flatten() {
        groups[data.rows[*row].class].insert(ties[*row]);
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
    (folds.len() > most).then(|| Problem::in_file(&spec.file, "data.folds", found, expected))
}

/// The parts of the rows, drawn or as the data's column has them, and the folds.
fn cut(spec: &StudySpec, data: &Dataset, ties: &[usize], fractions: [f64; 3]) -> Split {
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

/// Texts and groups in two parts, and what else people should know of the rows.
fn leaks(
    spec: &StudySpec,
    data: &Dataset,
    split: &Split,
    facts: &mut Vec<(String, String)>,
) -> leakage::Leaks {
    let texts = TextIds::of(data);
    if texts.repeated() > 0 {
        let fact = format!(
            "{} rows repeat the text of an earlier one",
            texts.repeated()
        );
        facts.push(("data".into(), fact));
    }
    let given = !data.parts.is_empty();
    leakage::review(
        data,
        &texts,
        &split.sets(),
        Duplicates::of(spec),
        data_path(spec),
        given,
    )
}

/// The fractions of train, validation and test.
fn fractions(spec: &StudySpec) -> Result<[f64; 3], Problem> {
    let of = |part: Part, preset: f64| {
        spec.fixed
            .get(&format!("data.split.{}", part.name()))
            .and_then(Value::as_f64)
            .unwrap_or(preset)
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
    Err(Problem::in_file(
        &spec.file,
        "data.split",
        format!("train {}, validation {}, test {}", all[0], all[1], all[2]),
        "shares that sum to 1, of train and validation above 0",
    ))
}

/// The classes that a part or a fold has no row of; the first few.
fn lacking(path: &Path, data: &Dataset, name: &str, rows: &[usize]) -> Vec<Problem> {
    let counts = counts_of(data, rows);
    let absent: Vec<usize> = (0..counts.len()).filter(|c| counts[*c] == 0).collect();
    let of = |class: &usize| {
        let all = data.rows.iter().filter(|r| r.class == *class).count();
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

/// The least and greatest value that an integer key has in trials of one model.
fn bounds(spec: &StudySpec, key: &str, model: &str) -> Option<(i64, i64)> {
    let Some((_, parameter)) = spec.space.find(key) else {
        let fixed = spec.fixed.get(key)?.as_i64()?;
        return Some((fixed, fixed));
    };
    let params = Params::from([("model.name".to_owned(), model.into())]);
    let domain = spec
        .space
        .active_domain(parameter, &params)
        .unwrap_or_else(|| parameter.domain.clone());
    match domain {
        Domain::Int { low, high, .. } => Some((low, high)),
        Domain::Float { low, high, .. } => Some((low as i64, high as i64)),
        Domain::Categorical { choices } => {
            let numbers: Vec<i64> = choices.iter().filter_map(Value::as_i64).collect();
            Some((*numbers.iter().min()?, *numbers.iter().max()?))
        }
    }
}

/// Keys that a model's size bounds.
fn limits(spec: &StudySpec, checkpoint: &Checkpoint) -> Vec<Problem> {
    let config = &checkpoint.config;
    let positions = match config.architecture.counts_from_padding() {
        true => "max_position_embeddings behind pad_token_id",
        false => "max_position_embeddings",
    };
    let limits = [
        ("tok.max_length", config.max_tokens(), positions),
        (
            "train.freeze_encoder_layers",
            Some(config.num_hidden_layers),
            "num_hidden_layers",
        ),
    ];
    limits
        .into_iter()
        .filter_map(|(key, limit, what)| {
            let limit = limit?;
            let (_, high) = bounds(spec, key, &checkpoint.name)?;
            let found = format!("{high} with the model {}", checkpoint.name);
            let expected = format!("at most {limit}, the model's {what}");
            (high > limit as i64).then(|| Problem::in_file(&spec.file, key, found, expected))
        })
        .collect()
}

/// Encodes every row with a model's tokeniser and checks the ids.
fn model(
    spec: &StudySpec,
    checkpoint: &Checkpoint,
    data: Option<&Dataset>,
    prepared: &mut Prepared,
) -> Vec<Problem> {
    let config = &checkpoint.config;
    let name = &checkpoint.name;
    prepared.facts.push((
        "model".into(),
        format!(
            "{name}: {}, {} layers, hidden {}, {} heads, vocabulary {}, {:.1} M parameters, {}; {}",
            config.architecture.name(),
            config.num_hidden_layers,
            config.hidden_size,
            config.num_attention_heads,
            config.vocab_size,
            config.parameters() as f64 / 1e6,
            match config.max_tokens() {
                Some(limit) => format!("at most {limit} tokens"),
                None => "any number of tokens".to_owned(),
            },
            checkpoint.dir.display(),
        ),
    ));
    let pooled = spec.possible("head.pooling");
    if pooled.iter().any(|word| word.as_str() == Some("cls")) {
        let heads = loadable(config.architecture, config.hidden_size);
        let fact = format!("{name}: {heads}");
        prepared.facts.push(("export".into(), fact));
    }
    let rows = data.map_or(&[][..], |d| d.rows.as_slice());
    let tokenised = match Tokenised::new(&checkpoint.dir, rows) {
        Ok(tokenised) => tokenised,
        Err(error) => {
            return vec![Problem::in_file(
                &checkpoint.tokenizer.files[0],
                "model.name",
                format!("{error:#} (model {name})"),
                "files of a tokeniser that can be read",
            )];
        }
    };
    if let Some(data) = data {
        let mut problems = lengths::review(spec, name, data, &tokenised, prepared);
        problems.extend(ids(spec, checkpoint, data, &tokenised));
        return problems;
    }
    Vec::new()
}

/// Rows whose ids are outside the embedding tables; the first few.
fn ids(
    spec: &StudySpec,
    checkpoint: &Checkpoint,
    data: &Dataset,
    tokenised: &Tokenised,
) -> Vec<Problem> {
    let config = &checkpoint.config;
    let mut problems = Vec::new();
    for (row, tokens) in tokenised.full.iter().enumerate() {
        let tables = [
            (
                &tokens.ids,
                Some(config.vocab_size),
                "token id",
                "vocab_size",
            ),
            (
                &tokens.types,
                config.token_types(),
                "token type",
                "type_vocab_size",
            ),
        ];
        for (ids, size, what, limit) in tables {
            let Some(size) = size else { continue };
            let bad = ids.iter().position(|id| *id as usize >= size);
            if let Some(at) = bad.filter(|_| problems.len() < 10) {
                problems.push(Problem::new(
                    &Source::File(data_path(spec).into(), Some(data.rows[row].line)),
                    format!("row {}, token {at}", row + 1),
                    format!("{what} {} with the model {}", ids[at], checkpoint.name),
                    format!("below {size}, the model's {limit}"),
                ));
            }
        }
    }
    problems
}

fn data_facts(spec: &StudySpec, data: &Dataset, split: &Split, facts: &mut Vec<(String, String)>) {
    let rows = data.rows.len();
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
    let columns = Columns::of(&spec.fixed);
    let mut tell = |fact: String| facts.push(("data".into(), fact));
    tell(format!("{rows} rows in {}", data_path(spec).display()));
    tell(format!("classes of {}: {all}", columns.label));
    if let Some(column) = columns.group {
        let groups: BTreeSet<_> = data.rows.iter().map(|r| &r.group).collect();
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

#[cfg(test)]
mod tests;
