//! The nonlinearities between linear layers.

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

/// What stands between two linear layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Nonlinearity {
    /// x times the normal distribution function of x.
    Gelu,
    /// max(x, 0).
    Relu,
    /// x times the logistic function of x.
    Silu,
    /// The hyperbolic tangent, as in the heads of BERT and RoBERTa.
    Tanh,
}

impl Nonlinearity {
    /// The word, here and in transformers.
    pub fn word(self) -> &'static str {
        self.into()
    }
}
