//! The tensors that an encoder needs, and how checkpoints spell their names.

use super::config::{Architecture, EncoderConfig};
use training::tensors::Tensor;

/// What checkpoints of a model with a head put before the encoder's names.
const PREFIXES: [&str; 5] = ["", "bert.", "roberta.", "electra.", "deberta."];

/// The names under which a file may hold a tensor: as it is or with an architecture's prefix, with
/// the new or the old names of layer norms.
pub fn spellings(name: &str) -> Vec<String> {
    let old = name
        .replace("LayerNorm.weight", "LayerNorm.gamma")
        .replace("LayerNorm.bias", "LayerNorm.beta");
    let with = |name: &str| PREFIXES.map(|prefix| format!("{prefix}{name}"));
    let mut all = with(name).to_vec();
    if old != name {
        all.extend(with(&old));
    }
    all
}

/// The layers that make queries, keys and values of tokens, in this order.
pub fn projections(architecture: Architecture) -> [&'static str; 3] {
    match architecture {
        Architecture::DebertaV2 => ["query_proj", "key_proj", "value_proj"],
        Architecture::Bert
        | Architecture::Roberta
        | Architecture::XlmRoberta
        | Architecture::Camembert
        | Architecture::Electra => ["query", "key", "value"],
    }
}

/// Every tensor that the encoder needs, without a pooler.
pub fn needed(config: &EncoderConfig) -> Vec<Tensor> {
    let mut list = List::default();
    tables(config, &mut list);
    for layer in 0..config.num_hidden_layers {
        block(config, layer, &mut list);
    }
    list.0
}

/// What a checkpoint may hold or not: the pooler, a linear layer on the first token.
pub fn optional(config: &EncoderConfig) -> Vec<Tensor> {
    let mut list = List::default();
    if config.architecture.has_pooler() {
        list.linear("pooler.dense", config.hidden_size, config.hidden_size);
    }
    list.0
}

#[derive(Default)]
struct List(Vec<Tensor>);

impl List {
    fn add(&mut self, name: String, shape: &[usize]) {
        self.0.push(Tensor {
            name,
            shape: shape.to_vec(),
        });
    }

    fn linear(&mut self, name: &str, input: usize, out: usize) {
        self.add(format!("{name}.weight"), &[out, input]);
        self.add(format!("{name}.bias"), &[out]);
    }

    fn norm(&mut self, name: &str, width: usize) {
        self.add(format!("{name}.weight"), &[width]);
        self.add(format!("{name}.bias"), &[width]);
    }
}

/// What is before the blocks, or shared by them.
fn tables(config: &EncoderConfig, list: &mut List) {
    let (narrow, hidden) = (config.embedding_size, config.hidden_size);
    let deberta = config.disentangled.as_ref();
    let positions = match deberta {
        Some(deberta) if !deberta.absolute => 0,
        Some(_) | None => config.max_position_embeddings,
    };
    let tables = [
        ("word", config.vocab_size),
        ("position", positions),
        ("token_type", config.type_vocab_size),
    ];
    for (table, rows) in tables.into_iter().filter(|(_, rows)| *rows > 0) {
        let name = format!("embeddings.{table}_embeddings.weight");
        list.add(name, &[rows, narrow]);
    }
    match deberta {
        Some(_) => {
            if narrow != hidden {
                list.add("embeddings.embed_proj.weight".into(), &[hidden, narrow]);
            }
            list.norm("embeddings.LayerNorm", hidden);
        }
        None => {
            list.norm("embeddings.LayerNorm", narrow);
            if narrow != hidden {
                list.linear("embeddings_project", narrow, hidden);
            }
        }
    }
    if let Some(relative) = config.relative() {
        let name = "encoder.rel_embeddings.weight".to_owned();
        list.add(name, &[2 * relative.span(), hidden]);
        if relative.normed {
            list.norm("encoder.LayerNorm", hidden);
        }
    }
    if let Some(convolution) = deberta.and_then(|d| d.convolution) {
        let shape = [hidden, hidden / convolution.groups, convolution.kernel];
        list.add("encoder.conv.conv.weight".into(), &shape);
        list.add("encoder.conv.conv.bias".into(), &[hidden]);
        list.norm("encoder.conv.LayerNorm", hidden);
    }
}

fn block(config: &EncoderConfig, layer: usize, list: &mut List) {
    let (hidden, wide) = (config.hidden_size, config.intermediate_size);
    let name = |part: &str| format!("encoder.layer.{layer}.{part}");
    for part in projections(config.architecture) {
        list.linear(&name(&format!("attention.self.{part}")), hidden, hidden);
    }
    if let Some(relative) = config.relative().filter(|r| !r.shared_layers) {
        if relative.content_to_position {
            list.linear(&name("attention.self.pos_key_proj"), hidden, hidden);
        }
        if relative.position_to_content {
            list.linear(&name("attention.self.pos_query_proj"), hidden, hidden);
        }
    }
    list.linear(&name("attention.output.dense"), hidden, hidden);
    list.linear(&name("intermediate.dense"), hidden, wide);
    list.linear(&name("output.dense"), wide, hidden);
    for norm in ["attention.output.LayerNorm", "output.LayerNorm"] {
        list.norm(&name(norm), hidden);
    }
}
