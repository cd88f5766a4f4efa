//! Reads and validates everything on the CPU, with all problems together.

mod lengths;

use std::collections::BTreeMap;

use super::checkpoint::Checkpoint;
use super::data::{Columns, Dataset};
use super::export::loadable;
use super::knobs;
use super::leakage::{self, Duplicates, TextIds};
use super::tokens::Tokenised;
use config::{Problem, Problems, Source, StudySpec};
use files::watched::WatchedFile;
use search::space::{Domain, Params, Value};

use config::Prepared;
use training::baseline::{baseline, idle_threshold};
use training::division::{self, data_path};
use training::split::Split;

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
        let trivial = |part| baseline(&data.samples, split, part, &label, &spec.objective.metric);
        let columns = (label.as_str(), split);
        let (samples, fingerprint) = (&data.samples, data.fingerprint());
        prepared = division::prepared(spec, samples, columns, fingerprint, &trivial);
        problems.extend(idle_threshold(spec, samples.classes.len()));
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
                let watched = checkpoint.files().into_iter();
                let watched = watched.filter_map(|path| WatchedFile::unread(&path).ok());
                prepared.watched.extend(watched);
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
    Problems(problems).or(prepared)
}

/// Reads the rows and splits them.
///
/// # Errors
/// Problems of the data, of the fractions, or a part that lacks a class.
pub fn load(spec: &StudySpec) -> Result<(Dataset, Split), Problems> {
    division::load(
        spec,
        &|path| Dataset::read(path, &Columns::of(&spec.fixed)),
        |data: &Dataset| &data.samples,
        &|data| {
            let together = Duplicates::of(spec) == Duplicates::Together;
            together.then(|| TextIds::of(data).first)
        },
    )
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
    let given = !data.samples.parts.is_empty();
    leakage::review(
        data,
        &texts,
        &split.sets(),
        Duplicates::of(spec),
        data_path(spec),
        given,
    )
}

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
            (high > limit as i64).then(|| spec.problem(key, found, expected))
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
                    &Source::File(data_path(spec).into(), Some(data.samples.lines[row])),
                    format!("row {}, token {at}", row + 1),
                    format!("{what} {} with the model {}", ids[at], checkpoint.name),
                    format!("below {size}, the model's {limit}"),
                ));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests;
