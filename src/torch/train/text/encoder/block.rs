//! One block of an encoder, and the attention of all but DeBERTa.

use anyhow::Result;
use tch::Tensor;

use super::context::Context;
use super::disentangled::{self, Convolved, PositionLayers};
use crate::train::dropout::dropout;
use crate::train::layers::{Dropouts, Linear, Map, Norm, activate};
use ::text::checkpoint::EncoderConfig;

/// One block: attention and two linear layers, each with a residual and a norm behind it.
#[derive(Debug)]
pub struct Block {
    /// Query, key and value in one: `[3 H, H]`.
    pub qkv: Linear,
    /// DeBERTa's layers for positions, where the tokens' are not used.
    pub positions: PositionLayers,
    /// `[H, H]`.
    pub attention: Linear,
    /// Behind the attention.
    pub attention_norm: Norm,
    /// `[intermediate, H]`.
    pub up: Linear,
    /// `[H, intermediate]`.
    pub down: Linear,
    /// Behind the linear layers.
    pub norm: Norm,
    /// Behind the first block of some DeBERTas.
    pub convolved: Option<Convolved>,
}

impl Block {
    /// `x [B, L, H]` to `[B, L, H]`.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn forward(
        &self,
        x: &Tensor,
        context: &Context,
        config: &EncoderConfig,
        dropouts: Dropouts,
    ) -> Result<Tensor> {
        let (p, eps) = (dropouts.hidden, config.layer_norm_eps);
        let mixed = match &config.disentangled {
            None => self.attend(x, context, config, dropouts.attention)?,
            Some(deberta) => {
                let heads = config.num_attention_heads as i64;
                disentangled::attend(self, x, context, (deberta, heads), dropouts)?
            }
        };
        let attended = dropout(self.attention.forward(&mixed)?, p)?;
        let inner = self.attention_norm.forward(&attended.f_add(x)?, eps)?;
        let wide = activate(config.hidden_act, &self.up.forward(&inner)?)?;
        let narrow = dropout(self.down.forward(&wide)?, p)?;
        let out = self.norm.forward(&narrow.f_add(&inner)?, eps)?;
        match (&self.convolved, config.disentangled.as_ref()) {
            (Some(layer), Some(deberta)) => layer.forward(x, &out, context, (deberta, eps), p),
            (Some(_) | None, _) => Ok(out),
        }
    }

    fn attend(
        &self,
        x: &Tensor,
        context: &Context,
        config: &EncoderConfig,
        p: f64,
    ) -> Result<Tensor> {
        let (rows, length, hidden) = x.size3()?;
        let heads = config.num_attention_heads as i64;
        // [3, B, heads, L, H / heads]
        let qkv = self
            .qkv
            .forward(x)?
            .f_view([rows, length, 3, heads, hidden / heads])?
            .f_permute([2, 0, 3, 1, 4])?;
        let part = |i| qkv.f_select(0, i);
        Ok(Tensor::f_scaled_dot_product_attention(
            &part(0)?,
            &part(1)?,
            &part(2)?,
            context.mask.as_ref(),
            p,
            false,
            None,
            false,
        )?
        .f_transpose(1, 2)?
        .f_reshape([rows, length, hidden])?)
    }

    /// The same with each tensor passed through `f`; it is block number `index`.
    ///
    /// # Errors
    /// Those of `f`.
    pub fn map(&self, index: usize, f: &mut Map) -> Result<Block> {
        let name = |part: &str| format!("encoder.layer.{index}.{part}");
        let norm = name("attention.output.LayerNorm");
        Ok(Block {
            qkv: self.qkv.map(&name("attention.self.qkv"), f)?,
            positions: self.positions.map(&name("attention.self"), f)?,
            attention: self.attention.map(&name("attention.output.dense"), f)?,
            attention_norm: self.attention_norm.map(&norm, f)?,
            up: self.up.map(&name("intermediate.dense"), f)?,
            down: self.down.map(&name("output.dense"), f)?,
            norm: self.norm.map(&name("output.LayerNorm"), f)?,
            convolved: self.convolved.as_ref().map(|c| c.map(f)).transpose()?,
        })
    }
}
