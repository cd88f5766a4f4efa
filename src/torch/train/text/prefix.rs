//! What a frozen prefix answers, computed once per worker and kept on the device.
//!
//! The pass uses fixed batches in the order of length, no dropout and no gradients, and starts at the
//! token ids each time: its result depends on its key alone, so that a warm cache changes nothing.

use anyhow::Result;
use tch::{Kind, Tensor};

use super::RowsKey;
use super::encoder::Encoder;
use super::head::{self, Pooling};
use super::rows::Rows;
use crate::train::precision::Precision;
use ::text::checkpoint::EncoderConfig;
use ::text::floor::pass_tokens;
use ::training::batches::by_length;
use device::Device;
use task::Reporter;

/// What a trial's first trainable layer reads.
#[derive(Debug)]
pub enum Input {
    /// Token ids; the frozen blocks (there may be none) are run in each step.
    Tokens,
    /// `[T, H]`: the hidden states behind the frozen blocks.
    Hidden(Tensor),
    /// `[n, H]`: one vector a row, pooled behind the last block.
    Pooled(Tensor),
}

impl Input {
    fn shallow_clone(&self) -> Input {
        match self {
            Input::Tokens => Input::Tokens,
            Input::Hidden(t) => Input::Hidden(t.shallow_clone()),
            Input::Pooled(t) => Input::Pooled(t.shallow_clone()),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Input::Tokens => 0,
            Input::Hidden(t) | Input::Pooled(t) => t.numel() * 4,
        }
    }
}

/// What a prefix depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrefixKey {
    /// The rows, of a model's tokeniser.
    pub rows: RowsKey,
    /// Frozen blocks.
    pub blocks: usize,
    /// What the encoder computes with.
    pub precision: Precision,
    /// How rows are pooled where all blocks are frozen and pooling learns nothing; else `None`: the
    /// hidden states are kept.
    pub pooling: Option<Pooling>,
}

/// The least recently used prefixes go first when the limit is reached.
#[derive(Debug)]
pub struct PrefixCache {
    limit: usize,
    /// Least recently used first.
    entries: Vec<(PrefixKey, Input)>,
}

/// Fixed batches of these rows for passes that no trial changes ([`pass_tokens`]).
pub fn fixed_batches(
    lengths: &[u32],
    device: tch::Device,
    model: &EncoderConfig,
) -> Vec<Vec<usize>> {
    let longest = lengths.iter().copied().max().unwrap_or(0);
    let on_gpu = matches!(device, tch::Device::Cuda(_));
    by_length(
        lengths,
        pass_tokens(on_gpu, model, u64::from(longest)) as usize,
    )
}

impl PrefixCache {
    /// A cache of at most `limit` bytes.
    pub fn new(limit: usize) -> PrefixCache {
        PrefixCache {
            limit,
            entries: Vec::new(),
        }
    }

    /// The prefix of `key` over all rows, from the cache or computed. Where it would be larger than
    /// the whole cache, [`Input::Tokens`]. Reports a step per batch.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn get(
        &mut self,
        key: &PrefixKey,
        encoder: &Encoder,
        rows: &Rows,
        reporter: &mut dyn Reporter,
    ) -> Result<Input> {
        if key.blocks == 0 {
            return Ok(Input::Tokens);
        }
        if let Some(at) = self.entries.iter().position(|(k, _)| k == key) {
            let entry = self.entries.remove(at);
            let input = entry.1.shallow_clone();
            self.entries.push(entry);
            return Ok(input);
        }
        let vectors = match key.pooling {
            Some(_) => rows.lengths.len(),
            None => rows.tokens(),
        };
        let bytes = vectors * encoder.config.hidden_size * 4;
        if bytes > self.limit {
            return Ok(Input::Tokens);
        }
        self.make_room(bytes);
        let input = compute(encoder, rows, key, vectors, reporter)?;
        self.entries.push((key.clone(), input.shallow_clone()));
        Ok(input)
    }

    fn make_room(&mut self, bytes: usize) {
        let mut held: usize = self.entries.iter().map(|(_, input)| input.bytes()).sum();
        while held + bytes > self.limit && !self.entries.is_empty() {
            held -= self.entries.remove(0).1.bytes();
        }
    }
}

fn compute(
    encoder: &Encoder,
    rows: &Rows,
    key: &PrefixKey,
    vectors: usize,
    reporter: &mut dyn Reporter,
) -> Result<Input> {
    let _no_grad = tch::no_grad_guard();
    let size = [vectors as i64, encoder.config.hidden_size as i64];
    let mut flat = Tensor::f_empty(size, (Kind::Float, rows.labels.device()))?;
    let batches = fixed_batches(&rows.lengths, rows.labels.device(), &encoder.config);
    for (numbers, on_device) in batches.iter().zip(rows.upload(&batches)?) {
        let batch = rows.batch(numbers, &on_device)?;
        let x = {
            let _precision = key.precision.guard(rows.labels.device())?;
            rows.encode(encoder, &batch, key.blocks)?
        };
        let x = x.f_to_kind(Kind::Float)?;
        match key.pooling {
            Some(pooling) => {
                let pooled = head::pool(pooling, &batch, &x)?;
                let _ = flat.f_index_copy_(0, &batch.rows, &pooled)?;
            }
            None => batch.scatter(&x, &mut flat)?,
        }
        reporter.step();
    }
    Ok(match key.pooling {
        Some(_) => Input::Pooled(flat),
        None => Input::Hidden(flat),
    })
}

/// The default limit: 2 GiB, on the CPU at most a quarter of the machine's memory.
pub fn default_limit(device: Device) -> usize {
    let limit = 2 << 30;
    match device {
        Device::Cuda(_) => limit,
        Device::Cpu => memory_total().map_or(limit, |total| limit.min(total / 4)),
    }
}

fn memory_total() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|l| l.starts_with("MemTotal:"))?;
    let kib: usize = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}
