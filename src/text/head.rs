//! What a head is: the part of a trial's model between the hidden states and the classes. Its weights
//! are elsewhere; nothing here needs libtorch.

use anyhow::Result;
use serde::{Deserialize, Serialize};

use task::TrialSpec;
pub use training::nonlinearity::Nonlinearity;
use training::nonlinearity::sizes;

/// How the vectors of a row's tokens become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pooling {
    /// The first token's.
    Cls,
    /// The mean.
    Mean,
    /// The greatest value of each dimension.
    Max,
    /// The mean, weighted by the softmax of the products with a learned query.
    Attn,
}

impl Pooling {
    /// Whether it learns nothing: the pooled vectors of frozen states can then be kept.
    pub fn is_fixed(self) -> bool {
        match self {
            Pooling::Cls | Pooling::Mean | Pooling::Max => true,
            Pooling::Attn => false,
        }
    }
}

/// The name of the learned query of [`Pooling::Attn`] in files of weights.
pub const QUERY: &str = "head.query";

/// What a head is, beside its weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HeadConfig {
    /// Size of the encoder's hidden states.
    pub input: usize,
    /// Classes.
    pub classes: usize,
    /// Pooling.
    pub pooling: Pooling,
    /// Linear layers; at least 1.
    pub layers: usize,
    /// Width between them.
    pub hidden: usize,
    /// Nonlinearity between them.
    pub activation: Nonlinearity,
    /// Dropped of what each layer is given, in training.
    pub dropout: f64,
}

impl HeadConfig {
    /// Of a trial, on an encoder with states of size `input`.
    ///
    /// # Errors
    /// A key is absent or of the wrong type.
    pub fn of(trial: &TrialSpec, input: usize, classes: usize) -> Result<HeadConfig> {
        Ok(HeadConfig {
            input,
            classes,
            pooling: trial.word("head.pooling")?,
            layers: trial.int("head.layers")?,
            hidden: trial.int("head.hidden")?,
            activation: trial.word("head.activation")?,
            dropout: trial.float("head.dropout")?,
        })
    }

    /// The name of each layer's tensors in training: `classifier` in a head of one layer, else
    /// `head.layers.0` and so on.
    pub fn layer_names(&self) -> Vec<String> {
        match self.layers {
            1 => vec!["classifier".to_owned()],
            layers => (0..layers).map(|at| format!("head.layers.{at}")).collect(),
        }
    }

    /// Inputs and outputs of each layer.
    pub fn sizes(&self) -> Vec<(usize, usize)> {
        let between = (self.layers.max(1) - 1, self.hidden);
        sizes(self.input, between, self.classes)
    }
}
