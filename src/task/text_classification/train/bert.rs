//! The BERT encoder (Devlin et al. 2018) on tensors of libtorch.
//!
//! Shapes: B rows of a batch, L tokens of its longest row, H hidden size.

use anyhow::Result;
use tch::Tensor;

use super::dropout::dropout;
use crate::gpu;
use crate::task::text_classification::checkpoint::{Activation, BertConfig};

/// A linear layer: `weight` `[out, in]`, `bias` `[out]`.
#[derive(Debug)]
pub struct Linear {
    /// `[out, in]`.
    pub weight: Tensor,
    /// `[out]`.
    pub bias: Tensor,
}

/// A layer norm over the last dimension: both `[H]`.
#[derive(Debug)]
pub struct Norm {
    /// `[H]`.
    pub weight: Tensor,
    /// `[H]`.
    pub bias: Tensor,
}

/// Token, position and type tables, and their norm.
#[derive(Debug)]
pub struct Embeddings {
    /// `[vocabulary, H]`.
    pub words: Tensor,
    /// `[positions, H]`.
    pub positions: Tensor,
    /// `[types, H]`.
    pub types: Tensor,
    /// Norm of the sum.
    pub norm: Norm,
}

/// One block: attention and two linear layers, each with a residual and a norm behind it.
#[derive(Debug)]
pub struct Block {
    /// Query, key and value in one: `[3 H, H]`.
    pub qkv: Linear,
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
}

/// A tensor of a model with its name and whether weight decay applies to it.
#[derive(Debug)]
pub struct Parameter {
    /// Dotted name.
    pub name: String,
    /// The values.
    pub tensor: Tensor,
    /// Biases and layer norms are not decayed.
    pub decayed: bool,
}

impl Linear {
    /// `x [.., in]` to `[.., out]`.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        gpu::linear(x, &self.weight, &self.bias)
    }

    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Result<Tensor>) -> Result<Linear> {
        Ok(Linear {
            weight: f(&self.weight)?,
            bias: f(&self.bias)?,
        })
    }

    fn list(&self, name: &str, into: &mut Vec<Parameter>) {
        push(into, format!("{name}.weight"), &self.weight, true);
        push(into, format!("{name}.bias"), &self.bias, false);
    }
}

impl Norm {
    fn forward(&self, x: &Tensor, eps: f64) -> Result<Tensor> {
        let (weight, bias) = (Some(&self.weight), Some(&self.bias));
        Ok(x.f_layer_norm(self.weight.size(), weight, bias, eps, true)?)
    }

    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Result<Tensor>) -> Result<Norm> {
        Ok(Norm {
            weight: f(&self.weight)?,
            bias: f(&self.bias)?,
        })
    }

    fn list(&self, name: &str, into: &mut Vec<Parameter>) {
        push(into, format!("{name}.weight"), &self.weight, false);
        push(into, format!("{name}.bias"), &self.bias, false);
    }
}

fn push(into: &mut Vec<Parameter>, name: String, tensor: &Tensor, decayed: bool) {
    into.push(Parameter {
        name,
        tensor: tensor.shallow_clone(),
        decayed,
    });
}

/// The shares that a pass drops; all 0 where nothing is trained.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Dropouts {
    /// Of hidden states.
    pub hidden: f64,
    /// Of attention weights.
    pub attention: f64,
}

impl Embeddings {
    /// Token ids `[B, L]` and types `[B, L]` (`None`: all 0) to `[B, L, H]`.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn forward(
        &self,
        ids: &Tensor,
        types: Option<&Tensor>,
        config: &BertConfig,
        dropouts: Dropouts,
    ) -> Result<Tensor> {
        let length = ids.size2()?.1;
        let words = Tensor::f_embedding(&self.words, ids, -1, false, false)?;
        let kinds = match types {
            Some(types) => Tensor::f_embedding(&self.types, types, -1, false, false)?,
            None => self.types.f_narrow(0, 0, 1)?,
        };
        let places = self.positions.f_narrow(0, 0, length)?;
        let sum = words.f_add(&kinds)?.f_add(&places)?;
        let normed = self.norm.forward(&sum, config.layer_norm_eps)?;
        dropout(normed, dropouts.hidden)
    }

    /// The same with each tensor passed through `f`.
    ///
    /// # Errors
    /// Those of `f`.
    pub fn map(&self, f: &mut dyn FnMut(&Tensor) -> Result<Tensor>) -> Result<Embeddings> {
        Ok(Embeddings {
            words: f(&self.words)?,
            positions: f(&self.positions)?,
            types: f(&self.types)?,
            norm: self.norm.map(f)?,
        })
    }

    /// Appends all parameters.
    pub fn list(&self, into: &mut Vec<Parameter>) {
        let tables = [
            ("word", &self.words),
            ("position", &self.positions),
            ("token_type", &self.types),
        ];
        for (name, tensor) in tables {
            let name = format!("embeddings.{name}_embeddings.weight");
            push(into, name, tensor, true);
        }
        self.norm.list("embeddings.LayerNorm", into);
    }
}

impl Block {
    /// `x [B, L, H]` to `[B, L, H]`. `mask [B, 1, 1, L]` is true where there is a token; `None`
    /// where no row is padded.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn forward(
        &self,
        x: &Tensor,
        mask: Option<&Tensor>,
        config: &BertConfig,
        dropouts: Dropouts,
    ) -> Result<Tensor> {
        let p = dropouts.hidden;
        let (rows, length, hidden) = x.size3()?;
        let heads = config.num_attention_heads as i64;
        // [3, B, heads, L, H / heads]
        let qkv = self
            .qkv
            .forward(x)?
            .f_view([rows, length, 3, heads, hidden / heads])?
            .f_permute([2, 0, 3, 1, 4])?;
        let part = |i| qkv.f_select(0, i);
        let mixed = Tensor::f_scaled_dot_product_attention(
            &part(0)?,
            &part(1)?,
            &part(2)?,
            mask,
            dropouts.attention,
            false,
            None,
            false,
        )?
        .f_transpose(1, 2)?
        .f_reshape([rows, length, hidden])?;
        let eps = config.layer_norm_eps;
        let attended = dropout(self.attention.forward(&mixed)?, p)?;
        let x = self.attention_norm.forward(&attended.f_add(x)?, eps)?;
        let wide = self.up.forward(&x)?;
        let wide = match config.hidden_act {
            Activation::Gelu => wide.f_gelu("none")?,
            Activation::GeluTanh => wide.f_gelu("tanh")?,
            Activation::Relu => wide.f_relu()?,
        };
        let narrow = dropout(self.down.forward(&wide)?, p)?;
        self.norm.forward(&narrow.f_add(&x)?, eps)
    }

    /// The same with each tensor passed through `f`.
    ///
    /// # Errors
    /// Those of `f`.
    pub fn map(&self, f: &mut dyn FnMut(&Tensor) -> Result<Tensor>) -> Result<Block> {
        Ok(Block {
            qkv: self.qkv.map(f)?,
            attention: self.attention.map(f)?,
            attention_norm: self.attention_norm.map(f)?,
            up: self.up.map(f)?,
            down: self.down.map(f)?,
            norm: self.norm.map(f)?,
        })
    }

    /// Appends all parameters of block number `index`.
    pub fn list(&self, index: usize, into: &mut Vec<Parameter>) {
        let name = |part: &str| format!("encoder.layer.{index}.{part}");
        self.qkv.list(&name("attention.self.qkv"), into);
        self.attention.list(&name("attention.output.dense"), into);
        let norm = name("attention.output.LayerNorm");
        self.attention_norm.list(&norm, into);
        self.up.list(&name("intermediate.dense"), into);
        self.down.list(&name("output.dense"), into);
        self.norm.list(&name("output.LayerNorm"), into);
    }
}
