//! A trial's model: its own copy of what it trains of an encoder, and a head.

use std::rc::Rc;

use anyhow::Result;
use rand::Rng;
use tch::{Kind, Tensor};

use super::encoder::{Block, Context, Embeddings, Encoder, hugging_face_tensors};
use super::head::{Head, HeadConfig};
use super::prefix::Input;
use super::rows::{Batch, Rows};
use crate::gpu;
use crate::train::dropout::dropout;
use crate::train::layers::{Dropouts, Parameter, listed};
use crate::train::precision::Precision;
use crate::train::tensors::fetched;
use ::text::checkpoint::EncoderConfig;
use search::study::derive_seed;
use task::TrialSpec;

/// How a trial's model is made of an encoder, and how it computes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// Blocks that are frozen; from 1 on the embeddings are frozen too.
    pub frozen: usize,
    /// In training; what is frozen drops nothing.
    pub dropouts: Dropouts,
    /// Of the encoder.
    pub precision: Precision,
    /// Whether trained blocks keep nothing but their inputs for the backward pass.
    pub checkpointing: bool,
}

impl Options {
    /// Of a trial.
    ///
    /// # Errors
    /// A key is absent or of the wrong type.
    pub fn of(trial: &TrialSpec) -> Result<Options> {
        Ok(Options {
            frozen: trial.int("train.freeze_encoder_layers")?,
            dropouts: Dropouts {
                hidden: trial.float("model.dropout")?,
                attention: trial.float("model.attn_dropout")?,
            },
            precision: trial.word("train.precision")?,
            checkpointing: trial.flag("train.grad_checkpointing")?,
        })
    }
}

/// A trial's own copy of what it trains, beside the encoder that it shares.
pub struct Model {
    encoder: Rc<Encoder>,
    options: Options,
    /// `None` where frozen.
    embeddings: Option<Embeddings>,
    /// Trainable blocks.
    blocks: Vec<Block>,
    head: Head,
}

/// A training pass over a batch, before its way back.
pub struct Pass {
    /// `[B, classes]`.
    pub logits: Tensor,
    /// With checkpointing.
    kept: Option<RecomputeInputs>,
}

/// What is needed to compute the trained blocks again.
struct RecomputeInputs {
    /// What the first trained block reads; with a graph where the embeddings are trained.
    first: Tensor,
    /// What each trained block was given, without graphs.
    inputs: Vec<Tensor>,
    /// What the last one gave; collects its gradient.
    last: Tensor,
    seed: u64,
}

impl Model {
    /// Copies what is trained and draws the head from `rng`. At most all blocks are frozen.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn new(
        encoder: Rc<Encoder>,
        options: Options,
        head: HeadConfig,
        rng: &mut impl Rng,
    ) -> Result<Model> {
        let device = encoder.embeddings.words.device();
        let mut own = |_: String, tensor: &Tensor, _: bool| {
            let mut copy = tensor.f_empty_like()?;
            copy.f_copy_(tensor)?;
            Ok(copy.f_set_requires_grad(true)?)
        };
        let embeddings = match options.frozen {
            0 => Some(encoder.embeddings.map(&mut own)?),
            _ => None,
        };
        let blocks = (options.frozen..encoder.blocks.len())
            .map(|at| encoder.blocks[at].map(at, &mut own))
            .collect::<Result<Vec<Block>>>()?;
        Ok(Model {
            head: Head::new(head, device, rng)?,
            encoder,
            options,
            embeddings,
            blocks,
        })
    }

    /// An encoder as it is with a head as it is: nothing is trained.
    pub fn fixed(encoder: Rc<Encoder>, precision: Precision, head: Head) -> Model {
        let options = Options {
            frozen: encoder.blocks.len(),
            dropouts: Dropouts::default(),
            precision,
            checkpointing: false,
        };
        Model {
            encoder,
            options,
            embeddings: None,
            blocks: Vec::new(),
            head,
        }
    }

    /// Everything that is trained.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn parameters(&self) -> Result<Vec<Parameter>> {
        listed(|f| {
            if let Some(embeddings) = &self.embeddings {
                embeddings.map(f)?;
            }
            for (at, block) in (self.options.frozen..).zip(&self.blocks) {
                block.map(at, f)?;
            }
            self.head.each(f)
        })
    }

    /// Everything that is trained as it is kept: the encoder's tensors under the names that transformers
    /// gives them, the head's under its own.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn weights(&self) -> Result<Vec<(String, Tensor)>> {
        hugging_face_tensors(&self.parameters()?, &self.encoder.config)
    }

    /// The shape of the encoder.
    pub fn config(&self) -> &EncoderConfig {
        &self.encoder.config
    }

    /// Blocks of the encoder, frozen ones included.
    pub fn layers(&self) -> usize {
        self.encoder.blocks.len()
    }

    /// What the head is.
    pub fn head(&self) -> &HeadConfig {
        self.head.config()
    }

    /// A batch's logits `[B, classes]`, without dropout.
    ///
    /// # Errors
    /// libtorch throws.
    fn logits(&self, rows: &Rows, batch: &Batch, input: &Input) -> Result<Tensor> {
        let none = Dropouts::default();
        let pooled = match input {
            Input::Pooled(pooled) => pooled.f_index_select(0, &batch.rows)?,
            Input::Hidden(_) | Input::Tokens => {
                let x = self.states(rows, batch, input, none)?;
                self.head.pool(batch, &x)?
            }
        };
        self.head.logits(pooled, false)
    }

    /// The logits of all rows of these batches, in their order, one row's classes behind the other's;
    /// fetched from the device once. `step` is called with each batch that has been computed.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn all_logits(
        &self,
        rows: &Rows,
        (batches, on_device): (&[Vec<usize>], &[Tensor]),
        input: &Input,
        step: &mut dyn FnMut(&[usize]),
    ) -> Result<Vec<f32>> {
        let _no_grad = tch::no_grad_guard();
        let mut collected = Vec::with_capacity(batches.len());
        for (numbers, on_device) in batches.iter().zip(on_device) {
            let batch = rows.batch(numbers, on_device)?;
            let logits = self.logits(rows, &batch, input)?;
            collected.push(logits.f_to_kind(Kind::Float)?);
            step(numbers);
        }
        fetched(&collected)
    }

    /// A training pass, with dropout. With checkpointing the masks are drawn from `seed`, otherwise
    /// from libtorch's generator as it stands.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn pass(&self, rows: &Rows, batch: &Batch, input: &Input, seed: u64) -> Result<Pass> {
        let dropouts = self.options.dropouts;
        let trained = self.embeddings.is_some() || !self.blocks.is_empty();
        let (pooled, kept) = match input {
            Input::Pooled(pooled) => (pooled.f_index_select(0, &batch.rows)?, None),
            Input::Hidden(_) | Input::Tokens if self.options.checkpointing && trained => {
                let kept = self.checkpointed(rows, batch, input, seed)?;
                gpu::seed(derive_seed(seed, 0, "head"))?;
                (self.head.pool(batch, &kept.last)?, Some(kept))
            }
            Input::Hidden(_) | Input::Tokens => {
                let x = self.states(rows, batch, input, dropouts)?;
                (self.head.pool(batch, &x)?, None)
            }
        };
        let logits = self.head.logits(dropout(pooled, dropouts.hidden)?, true)?;
        Ok(Pass { logits, kept })
    }

    /// Adds the gradients of `loss`, a scalar made of the logits of the pass over `batch`, to those of
    /// the parameters.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn backward(&self, batch: &Batch, pass: Pass, loss: &Tensor) -> Result<()> {
        loss.f_backward()?;
        let Some(kept) = pass.kept else {
            return Ok(());
        };
        let mut above = kept.last.f_grad()?;
        for (i, input) in kept.inputs.into_iter().enumerate().rev() {
            let wanted = i > 0 || kept.first.requires_grad();
            let input = input.f_detach()?.f_set_requires_grad(wanted)?;
            let out = self.block(i, &input, &self.context(batch)?, kept.seed)?;
            along(&out, &above)?;
            if wanted {
                above = input.f_grad()?;
            }
        }
        if kept.first.requires_grad() {
            along(&kept.first, &above)?;
        }
        Ok(())
    }

    /// What the first trained block reads: `[B, L, H]`. In the trial's precision where a guard lives.
    fn first(
        &self,
        rows: &Rows,
        batch: &Batch,
        input: &Input,
        context: &Context,
        dropouts: Dropouts,
    ) -> Result<Tensor> {
        let x = match (input, &self.embeddings) {
            (Input::Hidden(flat), _) => batch.gather(flat)?,
            (Input::Tokens | Input::Pooled(_), None) => {
                rows.encode(&self.encoder, batch, self.options.frozen)?
            }
            (Input::Tokens | Input::Pooled(_), Some(embeddings)) => {
                let config = &self.encoder.config;
                let (ids, types) = rows.ids(batch, config.pad_token_id as i64)?;
                embeddings.forward(&ids, types.as_ref(), context, config, dropouts)?
            }
        };
        Ok(x.f_to_kind(Kind::Float)?)
    }

    /// Hidden states behind the last block: `[B, L, H]`.
    fn states(
        &self,
        rows: &Rows,
        batch: &Batch,
        input: &Input,
        dropouts: Dropouts,
    ) -> Result<Tensor> {
        let _precision = self.options.precision.guard(rows.labels.device())?;
        let context = self.context(batch)?;
        let mut x = self.first(rows, batch, input, &context, dropouts)?;
        for block in &self.blocks {
            x = block.forward(&x, &context, &self.encoder.config, dropouts)?;
        }
        Ok(x.f_to_kind(Kind::Float)?)
    }

    /// Runs the trained blocks without gradients and keeps what each was given.
    fn checkpointed(
        &self,
        rows: &Rows,
        batch: &Batch,
        input: &Input,
        seed: u64,
    ) -> Result<RecomputeInputs> {
        let first = {
            let _precision = self.options.precision.guard(rows.labels.device())?;
            gpu::seed(derive_seed(seed, 0, "embeddings"))?;
            let context = self.context(batch)?;
            self.first(rows, batch, input, &context, self.options.dropouts)?
        };
        let mut inputs = Vec::with_capacity(self.blocks.len());
        let _no_grad = tch::no_grad_guard();
        let context = self.context(batch)?;
        let mut x = first.f_detach()?;
        for i in 0..self.blocks.len() {
            let out = self.block(i, &x, &context, seed)?;
            inputs.push(std::mem::replace(&mut x, out));
        }
        Ok(RecomputeInputs {
            first,
            inputs,
            last: x.f_detach()?.f_set_requires_grad(true)?,
            seed,
        })
    }

    /// What all blocks share is trained with the embeddings and frozen with them.
    fn context(&self, batch: &Batch) -> Result<Context> {
        let config = &self.encoder.config;
        let embeddings = self.embeddings.as_ref();
        let embeddings = embeddings.unwrap_or(&self.encoder.embeddings);
        embeddings.context(batch.length()?, batch.attention()?.as_ref(), config)
    }

    /// The trained block number `i`, by itself: its masks depend on `seed` and `i` alone. A graph ends
    /// with its way back, so each block that has one needs a context of its own.
    fn block(&self, i: usize, x: &Tensor, context: &Context, seed: u64) -> Result<Tensor> {
        let _precision = self.options.precision.guard(x.device())?;
        gpu::seed(derive_seed(seed, i as u64, "block"))?;
        let dropouts = self.options.dropouts;
        let out = self.blocks[i].forward(x, context, &self.encoder.config, dropouts)?;
        Ok(out.f_to_kind(Kind::Float)?)
    }
}

/// Sends a gradient back through the graph of `x`.
fn along(x: &Tensor, gradient: &Tensor) -> Result<()> {
    // tch takes no gradient of a tensor as an argument; that of this sum is the same.
    Ok(x.f_mul(gradient)?.f_sum(Kind::Float)?.f_backward()?)
}
