//! `config.json` of a BERT encoder.

use std::path::Path;

use serde::Deserialize;

use super::{missing, problem};
use crate::config::Problem;

/// Values of `model_type` whose encoders are implemented.
const SUPPORTED: [&str; 1] = ["bert"];

/// The nonlinearity between the two linear layers of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Activation {
    /// x times the normal distribution function of x.
    #[serde(rename = "gelu")]
    Gelu,
    /// The approximation of GELU by tanh.
    #[serde(rename = "gelu_new", alias = "gelu_pytorch_tanh")]
    GeluTanh,
    /// max(x, 0).
    #[serde(rename = "relu")]
    Relu,
}

/// The architecture of a BERT encoder.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct BertConfig {
    /// Token ids are below this.
    pub vocab_size: usize,
    /// Width of a token's vector.
    pub hidden_size: usize,
    /// Blocks.
    pub num_hidden_layers: usize,
    /// Attention heads a block; they divide the width.
    pub num_attention_heads: usize,
    /// Width between the two linear layers of a block.
    pub intermediate_size: usize,
    /// Longest row, in tokens.
    pub max_position_embeddings: usize,
    /// Token type ids are below this.
    #[serde(default = "two")]
    pub type_vocab_size: usize,
    /// Added to the variance in layer norms.
    #[serde(default = "layer_norm_eps")]
    pub layer_norm_eps: f64,
    /// Token id of padding.
    #[serde(default)]
    pub pad_token_id: usize,
    /// The nonlinearity.
    pub hidden_act: Activation,
}

fn two() -> usize {
    2
}

fn layer_norm_eps() -> f64 {
    1e-12
}

impl BertConfig {
    /// Reads and checks `config.json`.
    ///
    /// # Errors
    /// The file is absent or broken, or the model is of another kind.
    pub fn read(file: &Path, name: &str) -> Result<BertConfig, Problem> {
        let bad = |found: String, expected: &str| {
            problem(
                file,
                "model.name",
                format!("{found} (model {name})"),
                expected.to_owned(),
            )
        };
        let Ok(bytes) = std::fs::read(file) else {
            let dir = file.parent().unwrap_or(Path::new("."));
            return Err(missing(dir, "config.json", name));
        };
        let json: serde_json::Value = serde_json::from_slice(&bytes)
            .map_err(|e| bad(format!("broken JSON: {e}"), "a model's configuration"))?;
        let kind = json.get("model_type").and_then(|v| v.as_str());
        if !kind.is_some_and(|k| SUPPORTED.contains(&k)) {
            return Err(bad(
                format!("model_type {}", kind.unwrap_or("(none)")),
                &format!("model_type one of: {}", SUPPORTED.join(", ")),
            ));
        }
        let position = json
            .get("position_embedding_type")
            .and_then(|v| v.as_str())
            .unwrap_or("absolute");
        if position != "absolute" {
            return Err(bad(
                format!("position_embedding_type {position}"),
                "position_embedding_type absolute",
            ));
        }
        let config: BertConfig = serde_json::from_value(json)
            .map_err(|e| bad(e.to_string(), "the configuration of a BERT encoder"))?;
        match config.inconsistency() {
            Some(found) => Err(bad(found, "the configuration of a BERT encoder")),
            None => Ok(config),
        }
    }

    /// Parameters of the encoder, without a pooler.
    pub fn parameters(&self) -> usize {
        super::needed(self)
            .iter()
            .map(|t| t.shape.iter().product::<usize>())
            .sum()
    }

    fn inconsistency(&self) -> Option<String> {
        let sizes = [
            ("vocab_size", self.vocab_size),
            ("hidden_size", self.hidden_size),
            ("num_hidden_layers", self.num_hidden_layers),
            ("num_attention_heads", self.num_attention_heads),
            ("intermediate_size", self.intermediate_size),
            ("max_position_embeddings", self.max_position_embeddings),
            ("type_vocab_size", self.type_vocab_size),
        ];
        if let Some((key, _)) = sizes.iter().find(|(_, size)| *size == 0) {
            return Some(format!("{key} 0"));
        }
        if !self.hidden_size.is_multiple_of(self.num_attention_heads) {
            return Some(format!(
                "hidden_size {} with {} heads, which do not divide it",
                self.hidden_size, self.num_attention_heads
            ));
        }
        (self.pad_token_id >= self.vocab_size).then(|| {
            format!(
                "pad_token_id {} with vocab_size {}",
                self.pad_token_id, self.vocab_size
            )
        })
    }
}
