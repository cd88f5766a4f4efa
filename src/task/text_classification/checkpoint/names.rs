//! The tensors that an encoder needs, and how checkpoints spell their names.

use super::BertConfig;

/// A tensor that the model needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// Name without prefix, with `LayerNorm.weight` and `LayerNorm.bias`.
    pub name: String,
    /// Shape.
    pub shape: Vec<usize>,
}

/// The names under which a file may hold a tensor: as it is, with the prefix `bert.`, with the old
/// names of layer norms, or both.
pub fn spellings(name: &str) -> [String; 4] {
    let old = name
        .replace("LayerNorm.weight", "LayerNorm.gamma")
        .replace("LayerNorm.bias", "LayerNorm.beta");
    [
        name.to_owned(),
        format!("bert.{name}"),
        old.clone(),
        format!("bert.{old}"),
    ]
}

/// Every tensor that the encoder needs, without a pooler.
pub fn needed(config: &BertConfig) -> Vec<Tensor> {
    let (h, wide) = (config.hidden_size, config.intermediate_size);
    let mut all = Vec::new();
    let mut add = |name: String, shape: &[usize]| {
        all.push(Tensor {
            name,
            shape: shape.to_vec(),
        });
    };
    let tables = [
        ("word", config.vocab_size),
        ("position", config.max_position_embeddings),
        ("token_type", config.type_vocab_size),
    ];
    for (table, rows) in tables {
        add(format!("embeddings.{table}_embeddings.weight"), &[rows, h]);
    }
    add("embeddings.LayerNorm.weight".into(), &[h]);
    add("embeddings.LayerNorm.bias".into(), &[h]);
    for layer in 0..config.num_hidden_layers {
        let linears = [
            ("attention.self.query", h, h),
            ("attention.self.key", h, h),
            ("attention.self.value", h, h),
            ("attention.output.dense", h, h),
            ("intermediate.dense", wide, h),
            ("output.dense", h, wide),
        ];
        for (name, out, input) in linears {
            add(
                format!("encoder.layer.{layer}.{name}.weight"),
                &[out, input],
            );
            add(format!("encoder.layer.{layer}.{name}.bias"), &[out]);
        }
        for norm in ["attention.output.LayerNorm", "output.LayerNorm"] {
            add(format!("encoder.layer.{layer}.{norm}.weight"), &[h]);
            add(format!("encoder.layer.{layer}.{norm}.bias"), &[h]);
        }
    }
    all
}
