//! Which heads transformers has too, and how each is written down.
//!
//! `AutoModelForSequenceClassification` builds one head for each architecture: a linear layer on the
//! first token's state, a nonlinearity, and the classifier. A head of ours is that one where it pools by
//! `cls` and has two layers with the same nonlinearity between them, as wide as the encoder. A head of
//! one layer on the first token is written as such a head whose first layer passes its input on.

use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::checkpoint::Architecture;
use crate::head::{HeadConfig, Nonlinearity, Pooling};

/// A linear layer in the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Layer {
    /// The tensors are `NAME.weight` and `NAME.bias`.
    pub name: String,
    /// The layer's own weight is the file's times this, a power of two, so that nothing is rounded.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub scale: f64,
}

fn one() -> f64 {
    1.0
}

fn is_one(scale: &f64) -> bool {
    *scale == 1.0
}

/// How a head is written.
#[derive(Debug, Clone, PartialEq)]
pub struct HeadForm {
    /// transformers' class that computes the same logits.
    pub class: Option<&'static str>,
    /// The head's layers, the first one first.
    pub layers: Vec<Layer>,
    /// A further layer before them: its name, and the number on the diagonal of its weight, which is
    /// else 0 as its bias is.
    pub passing: Option<(String, f64)>,
    /// Keys that `config.json` needs for it.
    pub settings: Vec<(&'static str, Json)>,
}

/// What transformers has: its class, the names of the two layers, and what is between them.
struct TransformersHead {
    class: &'static str,
    dense: &'static str,
    classifier: &'static str,
    /// `None`: `pooler_hidden_act` of `config.json` says it.
    activation: Option<Nonlinearity>,
}

/// Near 0 the hyperbolic tangent of x is x: of a state of 30 times this factor it is 5 millionths off.
const SMALL: f64 = 1.0 / 8192.0;

/// Near 0 GELU of x is half of x; the square of x, which comes next, needs a smaller factor.
const SMALLER: f64 = 1.0 / 4_194_304.0;

/// What is put before the encoder's names in the file of a model with a head.
pub fn prefix(architecture: Architecture) -> &'static str {
    match architecture {
        Architecture::Bert => "bert.",
        Architecture::Roberta | Architecture::XlmRoberta | Architecture::Camembert => "roberta.",
        Architecture::Electra => "electra.",
        Architecture::DebertaV2 => "deberta.",
    }
}

/// How this head on this architecture is written.
pub fn form(architecture: Architecture, head: &HeadConfig) -> HeadForm {
    let known = known(architecture);
    let layer = |name: &str, scale: f64| Layer {
        name: name.to_owned(),
        scale,
    };
    let settings = |word: &str| match known.activation {
        Some(_) => Vec::new(),
        None => vec![
            ("pooler_hidden_act", json!(word)),
            ("pooler_hidden_size", json!(head.input)),
        ],
    };
    if head.pooling == Pooling::Cls
        && head.layers == 2
        && head.hidden == head.input
        && known.activation.is_none_or(|a| a == head.activation)
    {
        return HeadForm {
            class: Some(known.class),
            layers: vec![layer(known.dense, 1.0), layer(known.classifier, 1.0)],
            passing: None,
            settings: settings(head.activation.word()),
        };
    }
    if head.pooling == Pooling::Cls && head.layers == 1 {
        // The layer's factor, and what of it is left behind the nonlinearity.
        let (factor, left) = match known.activation {
            None => (1.0, 1.0),
            Some(Nonlinearity::Gelu) => (SMALLER, SMALLER / 2.0),
            Some(Nonlinearity::Tanh) => (SMALL, SMALL),
            Some(Nonlinearity::Relu | Nonlinearity::Silu) => return own(head),
        };
        return HeadForm {
            class: Some(known.class),
            layers: vec![layer(known.classifier, left)],
            passing: Some((known.dense.to_owned(), factor)),
            settings: settings("linear"),
        };
    }
    own(head)
}

/// Which heads transformers has for an encoder with states of this size, for people.
pub fn loadable(architecture: Architecture, hidden: usize) -> String {
    let between = match known(architecture).activation {
        Some(activation) => activation.word(),
        None => "any head.activation",
    };
    format!(
        "transformers loads heads of pooling cls with 1 layer, or with 2 of width {hidden} and {between} \
         between them"
    )
}

/// A head that transformers does not have, under names that it does not read.
fn own(head: &HeadConfig) -> HeadForm {
    HeadForm {
        class: None,
        layers: (0..head.sizes().len())
            .map(|at| Layer {
                name: format!("head.layers.{at}"),
                scale: 1.0,
            })
            .collect(),
        passing: None,
        settings: Vec::new(),
    }
}

fn known(architecture: Architecture) -> TransformersHead {
    let known = |class, dense, classifier, activation| TransformersHead {
        class,
        dense,
        classifier,
        activation,
    };
    let (dense, out) = ("classifier.dense", "classifier.out_proj");
    let tanh = Some(Nonlinearity::Tanh);
    match architecture {
        Architecture::Bert => known(
            "BertForSequenceClassification",
            "bert.pooler.dense",
            "classifier",
            tanh,
        ),
        Architecture::Roberta => known("RobertaForSequenceClassification", dense, out, tanh),
        Architecture::XlmRoberta => known("XLMRobertaForSequenceClassification", dense, out, tanh),
        Architecture::Camembert => known("CamembertForSequenceClassification", dense, out, tanh),
        Architecture::Electra => known(
            "ElectraForSequenceClassification",
            dense,
            out,
            Some(Nonlinearity::Gelu),
        ),
        Architecture::DebertaV2 => known(
            "DebertaV2ForSequenceClassification",
            "pooler.dense",
            "classifier",
            None,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(pooling: Pooling, layers: usize, activation: Nonlinearity) -> HeadConfig {
        HeadConfig {
            input: 16,
            classes: 2,
            pooling,
            layers,
            hidden: 16,
            activation,
            dropout: 0.1,
        }
    }

    #[test]
    fn two_layers_on_the_first_token_are_the_head_that_transformers_has() {
        let of = |architecture, activation| {
            let form = form(architecture, &head(Pooling::Cls, 2, activation));
            let names: Vec<String> = form.layers.into_iter().map(|l| l.name).collect();
            form.class.map(|class| (class, names))
        };
        let expected = |class, names: [&str; 2]| Some((class, names.map(str::to_owned).to_vec()));
        assert_eq!(
            of(Architecture::Bert, Nonlinearity::Tanh),
            expected(
                "BertForSequenceClassification",
                ["bert.pooler.dense", "classifier"]
            )
        );
        assert_eq!(
            of(Architecture::Camembert, Nonlinearity::Tanh),
            expected(
                "CamembertForSequenceClassification",
                ["classifier.dense", "classifier.out_proj"]
            )
        );
        assert_eq!(of(Architecture::Bert, Nonlinearity::Gelu), None);
        assert_eq!(of(Architecture::Electra, Nonlinearity::Tanh), None);
        assert!(of(Architecture::Electra, Nonlinearity::Gelu).is_some());
        let silu = form(
            Architecture::DebertaV2,
            &head(Pooling::Cls, 2, Nonlinearity::Silu),
        );
        assert_eq!(silu.settings[0], ("pooler_hidden_act", json!("silu")));
    }

    #[test]
    fn other_heads_have_names_that_transformers_does_not_read() {
        let mut wide = head(Pooling::Cls, 2, Nonlinearity::Tanh);
        wide.hidden = 17;
        for head in [
            wide,
            head(Pooling::Mean, 1, Nonlinearity::Tanh),
            head(Pooling::Attn, 2, Nonlinearity::Tanh),
            head(Pooling::Cls, 3, Nonlinearity::Tanh),
        ] {
            for architecture in Architecture::ALL.iter().copied() {
                let form = form(architecture, &head);
                assert_eq!((form.class, &form.passing), (None, &None));
                assert_eq!(form.layers.len(), head.layers);
                assert!(form.layers.iter().all(|l| l.name.starts_with("head.")));
            }
        }
    }

    #[test]
    fn a_layer_that_passes_its_input_on_changes_no_logit_by_a_ten_thousandth() {
        // What is between the layers, beside a classifier's weight and the file's.
        let gelu = |x: f64| 0.5 * x * (1.0 + libm::erf(x / std::f64::consts::SQRT_2));
        for architecture in Architecture::ALL.iter().copied() {
            let form = form(architecture, &head(Pooling::Cls, 1, Nonlinearity::Relu));
            let (_, factor) = form.passing.expect("a layer in front");
            let scale = form.layers[0].scale;
            assert!(scale.log2().fract() == 0.0);
            for state in [-30.0, -1.0, 1e-3, 0.5, 30.0] {
                let between: f64 = match known(architecture).activation {
                    Some(Nonlinearity::Tanh) => (state * factor).tanh(),
                    Some(_) => gelu(state * factor),
                    None => state * factor,
                };
                let off = between / scale - state;
                assert!(off.abs() < 3e-4, "{architecture:?} {state}: {off}");
                assert!(off.abs() < 2e-5 * state.abs(), "{architecture:?} {state}");
            }
        }
    }
}
