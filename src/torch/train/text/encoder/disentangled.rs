//! DeBERTa's attention (He et al. 2021), which looks at tokens and at their distance apart, and the
//! convolution of its version 2.
//!
//! Shapes: B rows of a batch, L tokens of its longest row, H hidden size, h heads, D = H / h. The head
//! is the first dimension, so that what depends on positions alone is multiplied once for all rows.

use anyhow::{Context as _, Result};
use tch::Tensor;

use super::block::Block;
use super::context::Context;
use crate::train::dropout::dropout;
use crate::train::layers::{Dropouts, Linear, Map, Norm, activate};
use ::text::checkpoint::Disentangled;

/// The score of what must not be seen; within the range of 16-bit types.
const UNSEEN: f64 = -1e30;

/// Layers that make keys and queries of positions; `None` where the tokens' layers do, or where there is
/// no such term.
#[derive(Debug, Default)]
pub struct PositionLayers {
    /// `[H, H]`.
    pub key: Option<Linear>,
    /// `[H, H]`.
    pub query: Option<Linear>,
}

impl PositionLayers {
    /// The same with each tensor passed through `f`.
    ///
    /// # Errors
    /// Those of `f`.
    pub fn map(&self, name: &str, f: &mut Map) -> Result<PositionLayers> {
        let mut layer = |layer: &Option<Linear>, part: &str| {
            let layer = layer.as_ref();
            layer
                .map(|l| l.map(&format!("{name}.{part}"), f))
                .transpose()
        };
        Ok(PositionLayers {
            key: layer(&self.key, "pos_key_proj")?,
            query: layer(&self.query, "pos_query_proj")?,
        })
    }
}

/// `x [B, L, H]` to what its tokens see, `[B, L, H]`, of `deberta` with so many heads.
///
/// # Errors
/// libtorch throws.
pub fn attend(
    block: &Block,
    x: &Tensor,
    context: &Context,
    (deberta, heads): (&Disentangled, i64),
    dropouts: Dropouts,
) -> Result<Tensor> {
    let (rows, length, hidden) = x.size3()?;
    let width = hidden / heads;
    let scale = 1.0 / ((width as f64) * deberta.terms as f64).sqrt();
    // [3, h, B, L, D]
    let qkv = block
        .qkv
        .forward(x)?
        .f_view([rows, length, 3, heads, width])?
        .f_permute([2, 3, 0, 1, 4])?
        .f_contiguous()?;
    let part = |i| -> Result<Tensor> {
        let part = qkv.f_select(0, i)?;
        Ok(part.f_view([heads * rows, length, width])?)
    };
    let (query, key, value) = (part(0)?.f_mul_scalar(scale)?, part(1)?, part(2)?);
    let scores = match position_scores(block, context, deberta, (&query, &key), scale, dropouts)? {
        Scores::None => query.f_bmm(&key.f_transpose(1, 2)?)?,
        Scores::One(term) => term.f_baddbmm(&query, &key.f_transpose(1, 2)?, 1.0, 1.0)?,
        // A tensor of this pass alone, whose values nobody else reads: no copy is needed.
        Scores::Both(mut sum) => sum.f_baddbmm_(&query, &key.f_transpose(1, 2)?)?,
    };
    let scores = match &context.outside {
        Some(outside) => scores
            .f_view([heads, rows, length, length])?
            .f_masked_fill(outside, UNSEEN)?
            .f_view([heads * rows, length, length])?,
        None => scores,
    };
    let weights = dropout(scores.f_softmax(-1, None)?, dropouts.attention)?;
    Ok(weights
        .f_bmm(&value)?
        .f_view([heads, rows, length, width])?
        .f_permute([1, 2, 0, 3])?
        .f_reshape([rows, length, hidden])?)
}

/// The terms of the scores that depend on distances, `[h B, L, L]`.
enum Scores {
    None,
    /// A view.
    One(Tensor),
    /// A tensor of its own.
    Both(Tensor),
}

fn position_scores(
    block: &Block,
    context: &Context,
    deberta: &Disentangled,
    (query, key): (&Tensor, &Tensor),
    scale: f64,
    dropouts: Dropouts,
) -> Result<Scores> {
    let (Some(relative), Some(positions), Some(distances)) =
        (&deberta.relative, &context.positions, &context.distances)
    else {
        return Ok(Scores::None);
    };
    let hidden = positions.size2()?.1;
    let width = query.size3()?.2;
    let positions = dropout(positions.shallow_clone(), dropouts.hidden)?;
    // What a layer makes of the positions: [h, D, 2 L].
    let made = |own: &Option<Linear>, first: i64, rows: &Tensor, scale: f64| -> Result<Tensor> {
        let made = match (own, relative.shared_layers) {
            (Some(own), false) => own.forward(&positions)?,
            (Some(_) | None, true) => block.qkv.rows(first, hidden)?.forward(&positions)?,
            (None, false) => None.context("a block without layers for positions")?,
        };
        let made = if scale == 1.0 {
            made
        } else {
            made.f_mul_scalar(scale)?
        };
        Ok(made
            .f_index_select(0, rows)?
            .f_view([-1, hidden / width, width])?
            .f_permute([1, 2, 0])?)
    };
    let by_key = match relative.content_to_position {
        true => {
            // Queries are scaled already.
            let keys = made(&block.positions.key, hidden, &distances.to_key, 1.0)?;
            Some(along_distances(query, &keys)?)
        }
        false => None,
    };
    let by_query = match relative.position_to_content {
        true => {
            let queries = made(&block.positions.query, 0, &distances.to_query, scale)?;
            Some(along_distances(key, &queries)?.f_transpose(1, 2)?)
        }
        false => None,
    };
    Ok(match (by_key, by_query) {
        (Some(a), Some(b)) => Scores::Both(a.f_add(&b)?),
        (Some(one), None) | (None, Some(one)) => Scores::One(one),
        (None, None) => Scores::None,
    })
}

/// `tokens [h B, L, D]` times `positions [h, D, 2 L]`, of which the token i meets at place j the one
/// numbered j - i + L - 1: `[h B, L, L]`. Each row starts one further to the left than the one above it,
/// which is a matter of strides: nothing is gathered, and nothing is scattered in the backward pass.
fn along_distances(tokens: &Tensor, positions: &Tensor) -> Result<Tensor> {
    let (all, length, width) = tokens.size3()?;
    let heads = positions.size3()?.0;
    let every = tokens
        .f_view([heads, -1, width])?
        .f_bmm(positions)?
        .f_contiguous()?;
    let row = 2 * length;
    Ok(every.f_as_strided(
        [all, length, length],
        [length * row, row - 1, 1],
        length - 1,
    )?)
}

/// A convolution over neighbouring tokens, whose outcome is added to the first block's.
#[derive(Debug)]
pub struct Convolved {
    /// `[H, H / groups, kernel]`.
    pub weight: Tensor,
    /// `[H]`.
    pub bias: Tensor,
    /// Norm of the sum.
    pub norm: Norm,
}

impl Convolved {
    /// `x [B, L, H]`, which the block read, and `out [B, L, H]`, which it gave, to `[B, L, H]`.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn forward(
        &self,
        x: &Tensor,
        out: &Tensor,
        context: &Context,
        (deberta, eps): (&Disentangled, f64),
        p: f64,
    ) -> Result<Tensor> {
        let settings = deberta
            .convolution
            .context("no settings of a convolution")?;
        let padding = [settings.kernel as i64 / 2];
        let seen = x
            .f_transpose(1, 2)?
            .f_conv1d(
                &self.weight,
                Some(&self.bias),
                [1],
                padding,
                [1],
                settings.groups as i64,
            )?
            .f_transpose(1, 2)?;
        let tokens = match &context.mask {
            Some(mask) => Some(mask.f_flatten(1, 3)?.f_unsqueeze(2)?),
            None => None,
        };
        let seen = match &tokens {
            Some(tokens) => seen.f_masked_fill(&tokens.f_logical_not()?, 0.0)?,
            None => seen,
        };
        let seen = activate(settings.activation, &dropout(seen, p)?)?;
        let sum = self.norm.forward(&out.f_add(&seen)?, eps)?;
        Ok(match &tokens {
            Some(tokens) => sum.f_mul(&tokens.f_to_kind(sum.kind())?)?,
            None => sum,
        })
    }

    /// The same with each tensor passed through `f`.
    ///
    /// # Errors
    /// Those of `f`.
    pub fn map(&self, f: &mut Map) -> Result<Convolved> {
        Ok(Convolved {
            weight: f("encoder.conv.conv.weight".to_owned(), &self.weight, true)?,
            bias: f("encoder.conv.conv.bias".to_owned(), &self.bias, false)?,
            norm: self.norm.map("encoder.conv.LayerNorm", f)?,
        })
    }
}
