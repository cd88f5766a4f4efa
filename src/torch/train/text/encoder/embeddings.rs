//! The tables that a pass starts with.

use anyhow::Result;
use tch::{Kind, Tensor};

use super::context::{Context, PositionTable};
use crate::train::dropout::dropout;
use crate::train::layers::{Dropouts, Linear, Map, Norm};
use ::text::checkpoint::EncoderConfig;

/// Token, position and type tables, their norm, and what all blocks share. E is the width of the
/// tables, H the one of the blocks.
#[derive(Debug)]
pub struct Embeddings {
    /// `[vocabulary, E]`.
    pub words: Tensor,
    /// `[positions, E]`; `None` where only relative positions count.
    pub positions: Option<Tensor>,
    /// `[types, E]`; `None` where types are not read.
    pub types: Option<Tensor>,
    /// `[H, E]`: DeBERTa's way to the blocks' width, before the norm.
    pub widened: Option<Tensor>,
    /// Norm of the sum.
    pub norm: Norm,
    /// `[H, E]`: ELECTRA's way to the blocks' width, behind the norm.
    pub project: Option<Linear>,
    /// Relative positions, of DeBERTa.
    pub relative: Option<PositionTable>,
}

impl Embeddings {
    /// What the layers of a pass over L tokens share. `mask [B, 1, 1, L]` is true where there is a
    /// token; `None` where no row is padded.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn context(
        &self,
        length: i64,
        mask: Option<&Tensor>,
        config: &EncoderConfig,
    ) -> Result<Context> {
        match &config.disentangled {
            Some(_) => Context::disentangled(mask, length, self.relative.as_ref(), config),
            None => Ok(Context::new(mask)),
        }
    }

    /// Token ids `[B, L]` and types `[B, L]` (`None`: all 0) to `[B, L, H]`.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn forward(
        &self,
        ids: &Tensor,
        types: Option<&Tensor>,
        context: &Context,
        config: &EncoderConfig,
        dropouts: Dropouts,
    ) -> Result<Tensor> {
        let length = ids.size2()?.1;
        let padding = config.pad_token_id as i64;
        // The vector of padding is not trained.
        let mut x = Tensor::f_embedding(&self.words, ids, padding, false, false)?;
        if let Some(table) = &self.types {
            let types = types.filter(|_| config.token_types().is_some());
            x = x.f_add(&match types {
                Some(types) => Tensor::f_embedding(table, types, -1, false, false)?,
                None => table.f_narrow(0, 0, 1)?,
            })?;
        }
        if let Some(table) = &self.positions {
            x = x.f_add(&match config.architecture.counts_from_padding() {
                true => {
                    let places = counted(ids, padding)?;
                    Tensor::f_embedding(table, &places, padding, false, false)?
                }
                false => table.f_narrow(0, 0, length)?,
            })?;
        }
        if let Some(weight) = &self.widened {
            x = x.f_linear(weight, None::<&Tensor>)?;
        }
        x = self.norm.forward(&x, config.layer_norm_eps)?;
        if let (Some(_), Some(mask)) = (&config.disentangled, &context.mask) {
            let tokens = mask.f_flatten(1, 3)?.f_unsqueeze(2)?;
            x = x.f_mul(&tokens.f_to_kind(x.kind())?)?;
        }
        x = dropout(x, dropouts.hidden)?;
        match &self.project {
            Some(project) => project.forward(&x),
            None => Ok(x),
        }
    }

    /// The same with each tensor passed through `f`.
    ///
    /// # Errors
    /// Those of `f`.
    pub fn map(&self, f: &mut Map) -> Result<Embeddings> {
        let mut table =
            |name: &str, tensor: &Tensor| f(format!("embeddings.{name}.weight"), tensor, true);
        let words = table("word_embeddings", &self.words)?;
        let mut optional = |name: &str, tensor: &Option<Tensor>| {
            tensor
                .as_ref()
                .map(|tensor| table(name, tensor))
                .transpose()
        };
        let positions = optional("position_embeddings", &self.positions)?;
        let types = optional("token_type_embeddings", &self.types)?;
        let widened = optional("embed_proj", &self.widened)?;
        let norm = self.norm.map("embeddings.LayerNorm", f)?;
        let project = self.project.as_ref();
        Ok(Embeddings {
            words,
            positions,
            types,
            widened,
            norm,
            project: project
                .map(|l| l.map("embeddings_project", f))
                .transpose()?,
            relative: self.relative.as_ref().map(|r| r.map(f)).transpose()?,
        })
    }
}

/// The places of tokens, counted from the padding's id on; padding itself is at its id.
fn counted(ids: &Tensor, padding: i64) -> Result<Tensor> {
    let token = ids.f_ne(padding)?;
    Ok(token
        .f_cumsum(1, Kind::Int64)?
        .f_mul(&token)?
        .f_add_scalar(padding)?)
}
