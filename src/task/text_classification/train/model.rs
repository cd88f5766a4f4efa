//! A trial's model: the trainable blocks, and a classifier on the mean of the tokens.

use std::rc::Rc;

use anyhow::Result;
use rand::Rng;
use tch::{Device, Kind, Tensor};

use super::bert::{Block, Dropouts, Embeddings, Linear, Parameter};
use super::dropout::dropout;
use super::encoder::Encoder;
use super::prefix::Input;
use super::rows::{Batch, Rows};

/// A trial's own copy of what it trains, beside the encoder that it shares.
pub struct Model {
    encoder: Rc<Encoder>,
    /// Blocks that are frozen.
    frozen: usize,
    /// `None` where frozen.
    embeddings: Option<Embeddings>,
    /// Trainable blocks.
    blocks: Vec<Block>,
    /// `[classes, H]`.
    head: Linear,
    dropout: f64,
}

impl Model {
    /// Copies what is trained and draws the classifier from `rng`. `frozen` is at most the number
    /// of blocks.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn new(
        encoder: Rc<Encoder>,
        frozen: usize,
        classes: usize,
        dropout: f64,
        rng: &mut impl Rng,
    ) -> Result<Model> {
        let device = encoder.embeddings.words.device();
        let mut own = |t: &Tensor| {
            let mut copy = t.f_empty_like()?;
            copy.f_copy_(t)?;
            Ok(copy.f_set_requires_grad(true)?)
        };
        let embeddings = match frozen {
            0 => Some(encoder.embeddings.map(&mut own)?),
            _ => None,
        };
        let blocks = encoder.blocks[frozen..]
            .iter()
            .map(|b| b.map(&mut own))
            .collect::<Result<Vec<Block>>>()?;
        let head = classifier(classes, encoder.config.hidden_size, device, rng)?;
        Ok(Model {
            encoder,
            frozen,
            embeddings,
            blocks,
            head,
            dropout,
        })
    }

    /// Everything that is trained.
    pub fn parameters(&self) -> Vec<Parameter> {
        let mut all = Vec::new();
        if let Some(embeddings) = &self.embeddings {
            embeddings.list(&mut all);
        }
        for (i, block) in self.blocks.iter().enumerate() {
            block.list(self.frozen + i, &mut all);
        }
        let head = [("weight", &self.head.weight), ("bias", &self.head.bias)];
        for (name, tensor) in head {
            all.push(Parameter {
                name: format!("classifier.{name}"),
                tensor: tensor.shallow_clone(),
                decayed: name == "weight",
            });
        }
        all
    }

    /// A batch's logits `[B, classes]`; with dropout where `training`.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn logits(
        &self,
        rows: &Rows,
        batch: &Batch,
        input: &Input,
        training: bool,
    ) -> Result<Tensor> {
        let p = if training { self.dropout } else { 0.0 };
        let dropouts = Dropouts {
            hidden: p,
            attention: 0.0,
        };
        let x = match input {
            Input::Pooled(pooled) => {
                let pooled = pooled.f_index_select(0, &batch.rows)?;
                return self.head.forward(&dropout(pooled, p)?);
            }
            Input::Hidden(flat) => batch.gather(flat)?,
            Input::Tokens => match &self.embeddings {
                None => rows.encode(&self.encoder, batch, self.frozen)?,
                Some(embeddings) => {
                    let config = &self.encoder.config;
                    let (ids, types) = rows.ids(batch, config.pad_token_id as i64)?;
                    embeddings.forward(&ids, types.as_ref(), config, dropouts)?
                }
            },
        };
        let mask = batch.attention()?;
        let mut x = x;
        for block in &self.blocks {
            x = block.forward(&x, mask.as_ref(), &self.encoder.config, dropouts)?;
        }
        self.head.forward(&dropout(batch.pool(&x)?, p)?)
    }
}

/// A fresh classifier: weights from a normal distribution of deviation 0.02, biases 0.
fn classifier(classes: usize, hidden: usize, device: Device, rng: &mut impl Rng) -> Result<Linear> {
    let mut weights = Vec::with_capacity(classes * hidden);
    while weights.len() < classes * hidden {
        let (a, b) = normal_pair(rng);
        weights.push((0.02 * a) as f32);
        weights.push((0.02 * b) as f32);
    }
    weights.truncate(classes * hidden);
    let size = [classes as i64, hidden as i64];
    let trainable =
        |t: Tensor| -> Result<Tensor> { Ok(t.f_to_device(device)?.f_set_requires_grad(true)?) };
    Ok(Linear {
        weight: trainable(Tensor::f_from_slice(&weights)?.f_view(size)?)?,
        bias: trainable(Tensor::f_zeros([size[0]], (Kind::Float, device))?)?,
    })
}

/// Two independent normal numbers (Box and Muller), a function of the generator's bits alone.
fn normal_pair(rng: &mut impl Rng) -> (f64, f64) {
    // 53 random bits in (0, 1].
    let mut uniform = || ((rng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
    let (radius, angle) = (
        (-2.0 * uniform().ln()).sqrt(),
        std::f64::consts::TAU * uniform(),
    );
    (radius * angle.cos(), radius * angle.sin())
}
