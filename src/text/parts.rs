//! The parts of the default point's model, by the names that `tune doctor` calls them, and the reading of all its rows.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::checkpoint::Checkpoint;
use crate::prepare;
use crate::tokens::Tokenised;
use config::{Problems, StudySpec};
use search::space::{Params, Value};
use task::ReadRows;

/// A part of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartOf {
    /// From hidden states to the classes.
    Head,
    /// A layer of the encoder, from 0.
    Layer(usize),
    /// The tables that a pass begins with.
    Embeddings,
}

/// The part of this name, of a model with so many layers.
pub fn part_of(name: &str, layers: usize) -> Option<PartOf> {
    match name.split_once('.') {
        None if name == "head" => Some(PartOf::Head),
        None if name == "embeddings" => Some(PartOf::Embeddings),
        Some(("layer", number)) => {
            let number = number.parse().ok().filter(|number| *number < layers);
            number.map(PartOf::Layer)
        }
        None | Some(_) => None,
    }
}

/// The names of all parts, in the order of the way back.
pub(crate) fn names(layers: usize) -> Vec<String> {
    let between = (0..layers).rev().map(|at| format!("layer.{at}"));
    let first = std::iter::once("head".to_owned());
    first
        .chain(between)
        .chain(["embeddings".to_owned()])
        .collect()
}

/// The checkpoint of the point of the defaults.
///
/// # Errors
/// See [`Checkpoint::named`].
pub(crate) fn default_model(spec: &StudySpec) -> Result<Checkpoint, Problems> {
    let config = spec.effective(&spec.space.point(&Params::new()));
    let name = config.get("model.name").and_then(Value::as_str);
    Checkpoint::named(name.unwrap_or_default(), &spec.models)
}

/// Reads all rows and makes tokens of them.
pub(crate) fn read_all(spec: &StudySpec, at: &dyn Fn(&str)) -> anyhow::Result<ReadRows> {
    at("the rows");
    let (data, _) = prepare::load(spec)?;
    at("their tokens");
    let model = default_model(spec)?;
    let tokenised = Tokenised::new(&model.dir, &data.rows)?;
    let mut hasher = DefaultHasher::new();
    let mut tokens = 0;
    for row in &tokenised.full {
        (&row.ids, &row.types).hash(&mut hasher);
        tokens += row.ids.len();
    }
    Ok(ReadRows {
        checksum: hasher.finish(),
        what: format!("{} rows, {tokens} tokens", data.rows.len()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_is_found_by_its_name_and_nothing_else_is() {
        let found: Vec<_> = names(2).iter().map(|name| part_of(name, 2)).collect();
        let all = [
            PartOf::Head,
            PartOf::Layer(1),
            PartOf::Layer(0),
            PartOf::Embeddings,
        ];
        assert_eq!(found, all.map(Some));
        for wrong in ["", "layer", "layer.2", "layer.x", "stem"] {
            assert_eq!(part_of(wrong, 2), None, "{wrong}");
        }
    }
}
