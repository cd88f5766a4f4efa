//! From a checkpoint's file to an encoder.

use std::cell::RefCell;
use std::collections::HashMap;

use anyhow::{Context as _, Result, ensure};
use tch::{Device, Tensor};

use super::context::PositionTable;
use super::disentangled::{Convolved, PositionLayers};
use super::{Block, Embeddings, Encoder};
use crate::train::layers::{Linear, Norm};
use crate::train::tensors::convert;
use ::text::checkpoint::{Checkpoint, EncoderConfig, needed, optional, projections};

/// Reads a tensor by its name without prefix.
type Read<'a> = dyn Fn(&str) -> Result<Tensor> + 'a;

impl Encoder {
    /// Reads the weights of a checked checkpoint.
    ///
    /// # Errors
    /// The file changed since it was checked, or a weight is NaN or infinite.
    pub fn load(checkpoint: &Checkpoint, device: Device) -> Result<Encoder> {
        let file = &checkpoint.weights.file;
        let reader = RefCell::new(checkpoint.weights.reader());
        let config = &checkpoint.config;
        let shapes: HashMap<String, Vec<usize>> = needed(config)
            .into_iter()
            .chain(optional(config))
            .map(|t| (t.name, t.shape))
            .collect();
        let read = |name: &str| -> Result<Tensor> {
            let raw = reader.borrow_mut().read(name)?;
            ensure!(
                shapes.get(name).is_some_and(|s| *s == raw.shape),
                "{name} has the shape {:?}",
                raw.shape
            );
            let tensor = convert(&raw, name)?.f_to_device(device)?;
            Ok(tensor)
        };
        let there = |name: &str| checkpoint.weights.name_in_file(name).is_some();
        let pooled = optional(config).iter().all(|t| there(&t.name));
        assemble(config, pooled && config.architecture.has_pooler(), &read)
            .with_context(|| format!("in {}", file.display()))
    }
}

/// The encoder of tensors that `read` gives, with a pooler where `pooled`.
fn assemble(config: &EncoderConfig, pooled: bool, read: &Read<'_>) -> Result<Encoder> {
    Ok(Encoder {
        config: config.clone(),
        embeddings: embeddings(config, read)?,
        blocks: (0..config.num_hidden_layers)
            .map(|layer| block(config, layer, read))
            .collect::<Result<Vec<Block>>>()?,
        first_token: match pooled {
            true => Some(linear(read, "pooler.dense")?),
            false => None,
        },
    })
}

fn linear(read: &Read<'_>, name: &str) -> Result<Linear> {
    Ok(Linear {
        weight: read(&format!("{name}.weight"))?,
        bias: read(&format!("{name}.bias"))?,
    })
}

fn norm(read: &Read<'_>, name: &str) -> Result<Norm> {
    Ok(Norm {
        weight: read(&format!("{name}.weight"))?,
        bias: read(&format!("{name}.bias"))?,
    })
}

fn embeddings(config: &EncoderConfig, read: &Read<'_>) -> Result<Embeddings> {
    let deberta = config.disentangled.as_ref();
    let widened = config.embedding_size != config.hidden_size;
    let table = |there: bool, name: &str| {
        let name = format!("embeddings.{name}.weight");
        there.then(|| read(&name)).transpose()
    };
    let relative = match config.relative() {
        None => None,
        Some(relative) => Some(PositionTable::new(
            read("encoder.rel_embeddings.weight")?,
            match relative.normed {
                true => Some(norm(read, "encoder.LayerNorm")?),
                false => None,
            },
        )),
    };
    Ok(Embeddings {
        words: read("embeddings.word_embeddings.weight")?,
        positions: table(deberta.is_none_or(|d| d.absolute), "position_embeddings")?,
        types: table(config.type_vocab_size > 0, "token_type_embeddings")?,
        widened: table(widened && deberta.is_some(), "embed_proj")?,
        norm: norm(read, "embeddings.LayerNorm")?,
        project: match widened && deberta.is_none() {
            true => Some(linear(read, "embeddings_project")?),
            false => None,
        },
        relative,
    })
}

fn block(config: &EncoderConfig, layer: usize, read: &Read<'_>) -> Result<Block> {
    let name = |part: &str| format!("encoder.layer.{layer}.{part}");
    let parts = projections(config.architecture)
        .into_iter()
        .map(|part| linear(read, &name(&format!("attention.self.{part}"))))
        .collect::<Result<Vec<Linear>>>()?;
    let weights: Vec<&Tensor> = parts.iter().map(|l| &l.weight).collect();
    let biases: Vec<&Tensor> = parts.iter().map(|l| &l.bias).collect();
    Ok(Block {
        qkv: Linear {
            weight: Tensor::f_cat(&weights, 0)?,
            bias: Tensor::f_cat(&biases, 0)?,
        },
        positions: position_layers(config, &name("attention.self"), read)?,
        attention: linear(read, &name("attention.output.dense"))?,
        attention_norm: norm(read, &name("attention.output.LayerNorm"))?,
        up: linear(read, &name("intermediate.dense"))?,
        down: linear(read, &name("output.dense"))?,
        norm: norm(read, &name("output.LayerNorm"))?,
        convolved: match config.disentangled.as_ref().and_then(|d| d.convolution) {
            Some(_) if layer == 0 => Some(Convolved {
                weight: read("encoder.conv.conv.weight")?,
                bias: read("encoder.conv.conv.bias")?,
                norm: norm(read, "encoder.conv.LayerNorm")?,
            }),
            Some(_) | None => None,
        },
    })
}

fn position_layers(config: &EncoderConfig, name: &str, read: &Read<'_>) -> Result<PositionLayers> {
    let Some(relative) = config.relative().filter(|r| !r.shared_layers) else {
        return Ok(PositionLayers::default());
    };
    let own = |there: bool, part: &str| -> Result<Option<Linear>> {
        there
            .then(|| linear(read, &format!("{name}.{part}")))
            .transpose()
    };
    Ok(PositionLayers {
        key: own(relative.content_to_position, "pos_key_proj")?,
        query: own(relative.position_to_content, "pos_query_proj")?,
    })
}
