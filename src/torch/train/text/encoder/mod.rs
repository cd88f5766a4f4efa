//! Pretrained encoders on tensors of libtorch: BERT, RoBERTa and its relatives, ELECTRA, DeBERTa.
//!
//! Shapes: B rows of a batch, L tokens of its longest row, H hidden size.

mod block;
mod context;
mod disentangled;
mod embeddings;
mod load;

use anyhow::Result;
use tch::Tensor;

use crate::train::layers::{Dropouts, Linear, Parameter};
use ::text::checkpoint::{EncoderConfig, projections};

pub use block::Block;
pub use context::Context;
pub use embeddings::Embeddings;

/// An encoder as its checkpoint has it, in 32-bit floats on the device; loaded once per worker, never
/// changed, and none of its tensors requires a gradient.
#[derive(Debug)]
pub struct Encoder {
    /// The shape.
    pub config: EncoderConfig,
    /// Tables, and what all blocks share.
    pub embeddings: Embeddings,
    /// All blocks.
    pub blocks: Vec<Block>,
    /// The layer on the first token, where the checkpoint has one.
    pub first_token: Option<Linear>,
}

impl Encoder {
    /// Token ids `[B, L]` to the hidden states behind the first `blocks` blocks `[B, L, H]`,
    /// without dropout and without gradients. `types [B, L]`: `None` where all are 0.
    /// `mask [B, 1, 1, L]` is true where there is a token; `None` where no row is padded.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn prefix(
        &self,
        ids: &Tensor,
        types: Option<&Tensor>,
        mask: Option<&Tensor>,
        blocks: usize,
    ) -> Result<Tensor> {
        let _no_grad = tch::no_grad_guard();
        let (config, none) = (&self.config, Dropouts::default());
        let context = self.embeddings.context(ids.size2()?.1, mask, config)?;
        let mut x = self
            .embeddings
            .forward(ids, types, &context, config, none)?;
        for block in &self.blocks[..blocks] {
            x = block.forward(&x, &context, config, none)?;
        }
        Ok(x)
    }

    /// What transformers calls `pooler_output`: tanh of a linear layer on the first token of
    /// `last_hidden_state [B, L, H]`, `[B, H]`. `None` where the checkpoint has no such layer.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn pooler(&self, last_hidden_state: &Tensor) -> Result<Option<Tensor>> {
        let Some(layer) = &self.first_token else {
            return Ok(None);
        };
        let first = last_hidden_state.f_select(1, 0)?;
        Ok(Some(layer.forward(&first)?.f_tanh()?))
    }

    /// All parameters without the pooler's, named as a trial's are.
    #[cfg(test)]
    pub fn parameters(&self) -> Vec<Parameter> {
        let all = crate::train::layers::listed(|f| {
            self.embeddings.map(f)?;
            for (i, block) in self.blocks.iter().enumerate() {
                block.map(i, f)?;
            }
            Ok(())
        });
        all.unwrap()
    }
}

/// Parameters of an encoder under the names that transformers gives them, without prefix: queries, keys
/// and values, which are one tensor here, are three there. Tensors are views of the parameters; other
/// parameters keep their names.
///
/// # Errors
/// libtorch throws.
pub fn hugging_face_tensors(
    parameters: &[Parameter],
    config: &EncoderConfig,
) -> Result<Vec<(String, Tensor)>> {
    let mut all = Vec::new();
    for parameter in parameters {
        let tensor = parameter.tensor.f_detach()?;
        match parameter.name.split_once(".self.qkv.") {
            None => all.push((parameter.name.clone(), tensor)),
            Some((block, kind)) => {
                let parts = projections(config.architecture);
                for (part, tensor) in parts.iter().zip(tensor.f_chunk(3, 0)?) {
                    all.push((format!("{block}.self.{part}.{kind}"), tensor));
                }
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests;
