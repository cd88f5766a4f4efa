//! Hidden states of texts, batch by batch, into a file.

use anyhow::{Context, Result};
use tch::Device;

use super::encoder::Encoder;
use super::head;
use super::rows::Rows;
use crate::gpu;
use crate::train::tensors::flat;
use ::request::torch_request::Embed;
use ::text::checkpoint::Checkpoint;
use ::text::data::Row;
use ::text::embedding::{Embedded, EmbeddingPooling, EmbeddingStep, Output, tokens};
use ::text::tokens::Tokens;
use messages::exit::{Exit, Failure};

/// Computes what the encoder of a checkpoint makes of the texts of these rows, and writes it.
///
/// # Errors
/// A row cannot be encoded, the model has no pooler that was asked for, the file cannot be written,
/// or libtorch throws.
pub fn embed(
    checkpoint: &Checkpoint,
    rows: &[Row],
    wanted: &Embed,
    told: &mut dyn FnMut(EmbeddingStep),
) -> Result<Embedded, Failure> {
    let (rows, cut) = tokens(checkpoint, rows, wanted.max_length)?;
    // Before any other call of libtorch.
    gpu::cuda::load(wanted.device).map_err(|e| Failure::new(Exit::Device, format!("{e:#}")))?;
    if std::env::var_os("OMP_NUM_THREADS").is_none() {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        tch::set_num_threads(i32::try_from(cores).unwrap_or(1));
    }
    let device: Device = gpu::tch_device(wanted.device);
    let thrown = |e: anyhow::Error| Failure::input(format!("{e:#}"));
    let encoder = Encoder::load(checkpoint, device).map_err(thrown)?;
    let pooling = pooling(checkpoint, wanted, &encoder)?;
    let length = rows.iter().map(|row| row.ids.len()).max().unwrap_or(0);
    let hidden = encoder.config.hidden_size;
    let metadata = [
        ("model", checkpoint.name.clone()),
        ("pooled", pooling.name().to_owned()),
        ("max_length", wanted.max_length.to_string()),
        ("padding", "zeros behind a row's end".to_owned()),
    ];
    let output = Output::new(&wanted.out, (rows.len(), length, hidden), &metadata)?;
    told(EmbeddingStep::Began {
        rows: rows.len(),
        bytes: output.size,
    });
    // Rows of like length together; the longest first, so that too little memory shows at once.
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|row| std::cmp::Reverse(rows[*row].ids.len()));
    for batch in order.chunks(wanted.batch_size.max(1)) {
        let text = |row: &usize| std::slice::from_ref(&rows[*row]);
        let texts: Vec<&[Tokens]> = batch.iter().map(text).collect();
        let (states, pooled) = compute(&encoder, &texts, pooling, device).map_err(|e| {
            thrown(e.context(format!("a batch of {} rows (--batch-size)", batch.len())))
        })?;
        let width = states.len() / batch.len();
        for (at, (row, text)) in batch.iter().zip(&texts).enumerate() {
            let states = &states[at * width..][..text[0].ids.len() * hidden];
            output.row(*row, states, &pooled[at * hidden..][..hidden])?;
        }
        told(EmbeddingStep::Computed(batch.len()));
    }
    let bytes = output.size;
    output.finish()?;
    Ok(Embedded {
        rows: rows.len(),
        length,
        hidden,
        cut,
        pooling,
        bytes,
    })
}

/// What `pooled` will be.
fn pooling(
    checkpoint: &Checkpoint,
    wanted: &Embed,
    encoder: &Encoder,
) -> Result<EmbeddingPooling, Failure> {
    let has = encoder.first_token.is_some();
    match wanted.pooling {
        Some(EmbeddingPooling::Pooler) if !has => Err(Failure::input(format!(
            "--pooling pooler: the checkpoint of {} has no pooler; mean and cls need none",
            checkpoint.name
        ))),
        Some(pooling) => Ok(pooling),
        None if has => Ok(EmbeddingPooling::Pooler),
        None => Ok(EmbeddingPooling::Mean),
    }
}

/// The hidden states of a batch, padded to its longest row, and its vectors, both flat.
fn compute(
    encoder: &Encoder,
    texts: &[&[Tokens]],
    pooling: EmbeddingPooling,
    device: Device,
) -> Result<(Vec<f32>, Vec<f32>)> {
    let _no_grad = tch::no_grad_guard();
    let rows = Rows::of_windows(texts, &vec![0; texts.len()], device)?;
    let all: Vec<usize> = (0..texts.len()).collect();
    let uploaded = rows.upload(std::slice::from_ref(&all))?;
    let batch = rows.batch(&all, uploaded.first().context("a batch without rows")?)?;
    let states = rows.encode(encoder, &batch, encoder.blocks.len())?;
    let pooled = match pooling {
        EmbeddingPooling::Pooler => encoder.pooler(&states)?.context("no pooler")?,
        EmbeddingPooling::Cls => head::pool(head::Pooling::Cls, &batch, &states)?,
        EmbeddingPooling::Mean => head::pool(head::Pooling::Mean, &batch, &states)?,
    };
    Ok((flat(&states)?, flat(&pooled)?))
}

#[cfg(test)]
mod tests;
