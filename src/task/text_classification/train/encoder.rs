//! An encoder as its checkpoint has it: loaded once per worker, never changed.

use std::cell::RefCell;

use anyhow::{Context, Result, ensure};
use tch::{Device, Kind, Tensor};

use super::bert::{Block, Dropouts, Embeddings, Linear, Norm};
use crate::task::text_classification::checkpoint::{
    BertConfig, Checkpoint, Precision, Raw, needed,
};

/// The pretrained weights, in 32-bit floats on the device; none requires a gradient.
#[derive(Debug)]
pub struct Encoder {
    /// The architecture.
    pub config: BertConfig,
    /// Tables.
    pub embeddings: Embeddings,
    /// All blocks.
    pub blocks: Vec<Block>,
}

impl Encoder {
    /// Reads the weights of a checked checkpoint.
    ///
    /// # Errors
    /// The file changed since it was checked, or a weight is NaN or infinite.
    pub fn load(checkpoint: &Checkpoint, device: Device) -> Result<Encoder> {
        let file = &checkpoint.weights.file;
        let reader = RefCell::new(checkpoint.weights.reader());
        let shapes: std::collections::HashMap<String, Vec<usize>> = needed(&checkpoint.config)
            .into_iter()
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
        let in_file = || format!("in {}", file.display());
        let config = checkpoint.config.clone();
        let embeddings = embeddings(&read).with_context(in_file)?;
        let blocks = (0..config.num_hidden_layers)
            .map(|layer| block(&read, layer))
            .collect::<Result<Vec<Block>>>()
            .with_context(in_file)?;
        Ok(Encoder {
            config,
            embeddings,
            blocks,
        })
    }

    /// Token ids `[B, L]` to the hidden states behind the first `blocks` blocks `[B, L, H]`,
    /// without dropout and without gradients.
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
        let none = Dropouts::default();
        let mut x = self.embeddings.forward(ids, types, &self.config, none)?;
        for block in &self.blocks[..blocks] {
            x = block.forward(&x, mask, &self.config, none)?;
        }
        Ok(x)
    }
}

type Read<'a> = dyn Fn(&str) -> Result<Tensor> + 'a;

/// The tensor in 32-bit floats; an error where a value is not finite.
fn convert(raw: &Raw, name: &str) -> Result<Tensor> {
    let kind = match raw.precision {
        Precision::F32 => Kind::Float,
        Precision::F16 => Kind::Half,
        Precision::Bf16 => Kind::BFloat16,
        Precision::F64 => Kind::Double,
    };
    let shape: Vec<i64> = raw.shape.iter().map(|d| *d as i64).collect();
    let tensor = Tensor::f_from_data_size(&raw.bytes, &shape, kind)?.f_to_kind(Kind::Float)?;
    // The sum is finite only where all values are: NaN and infinity stay in it.
    let sum = tensor.f_sum(Kind::Double)?.f_double_value(&[])?;
    ensure!(sum.is_finite(), "{name} holds NaN or infinite weights");
    Ok(tensor)
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

fn embeddings(read: &Read<'_>) -> Result<Embeddings> {
    Ok(Embeddings {
        words: read("embeddings.word_embeddings.weight")?,
        positions: read("embeddings.position_embeddings.weight")?,
        types: read("embeddings.token_type_embeddings.weight")?,
        norm: norm(read, "embeddings.LayerNorm")?,
    })
}

fn block(read: &Read<'_>, layer: usize) -> Result<Block> {
    let name = |part: &str| format!("encoder.layer.{layer}.{part}");
    let parts = ["query", "key", "value"]
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
        attention: linear(read, &name("attention.output.dense"))?,
        attention_norm: norm(read, &name("attention.output.LayerNorm"))?,
        up: linear(read, &name("intermediate.dense"))?,
        down: linear(read, &name("output.dense"))?,
        norm: norm(read, &name("output.LayerNorm"))?,
    })
}
