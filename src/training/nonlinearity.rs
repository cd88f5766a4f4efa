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

/// Inputs and outputs of each of the linear layers that lead from so many numbers to `out`, with so many layers of a width
/// in `between`.
pub fn sizes(input: usize, (between, width): (usize, usize), out: usize) -> Vec<(usize, usize)> {
    let mut ends = vec![input];
    ends.extend(std::iter::repeat_n(width, between));
    ends.push(out);
    ends.windows(2).map(|pair| (pair[0], pair[1])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_layer_reads_what_the_one_below_it_writes() {
        assert_eq!(sizes(6, (2, 8), 3), [(6, 8), (8, 8), (8, 3)]);
        assert_eq!(sizes(6, (0, 8), 3), [(6, 3)]);
    }
}
