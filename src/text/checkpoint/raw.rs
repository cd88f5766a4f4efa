//! `config.json` as it is written: its keys, their defaults, and what is refused.

use serde::Deserialize;
use serde_json::Value as Json;
use strum::VariantArray;

use super::config::{Activation, Architecture, Convolution, Disentangled, EncoderConfig, Relative};

/// The keys that are read. A default is the one of the architecture's class in transformers, which
/// leaves out of the file what it has by default.
#[derive(Debug, Deserialize)]
pub struct ConfigKeys {
    model_type: Option<String>,
    vocab_size: usize,
    embedding_size: Option<usize>,
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    intermediate_size: usize,
    max_position_embeddings: usize,
    type_vocab_size: Option<usize>,
    layer_norm_eps: Option<f64>,
    pad_token_id: Option<usize>,
    hidden_act: Option<Activation>,
    position_embedding_type: Option<String>,
    is_decoder: Option<bool>,
    relative_attention: Option<bool>,
    max_relative_positions: Option<i64>,
    position_buckets: Option<i64>,
    norm_rel_ebd: Option<String>,
    share_att_key: Option<bool>,
    pos_att_type: Option<Terms>,
    position_biased_input: Option<bool>,
    attention_head_size: Option<usize>,
    conv_kernel_size: Option<i64>,
    conv_groups: Option<usize>,
    conv_act: Option<Activation>,
}

/// `c2p`, `p2c`: a list, or one string with bars between them.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Terms {
    Joined(String),
    List(Vec<String>),
}

impl Terms {
    fn names(&self, term: &str) -> bool {
        match self {
            Terms::Joined(text) => text.to_lowercase().split('|').any(|t| t.trim() == term),
            Terms::List(list) => list.iter().any(|t| t == term),
        }
    }
}

/// Greatest size that is read; products of two fit into 64 bits. What a size asks of the memory is
/// compared with the weights' file, which has a tensor of every size.
const MAX_SIZE: u64 = i32::MAX as u64;

/// What a key's value must be.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Whole,
    Integer,
    Epsilon,
    Switch,
    Text,
    Nonlinearity,
    Texts,
}

/// The keys of [`ConfigKeys`] with what they hold, and whether they must be there.
const KEYS: [(&str, Kind, bool); 24] = [
    ("vocab_size", Kind::Whole, true),
    ("hidden_size", Kind::Whole, true),
    ("num_hidden_layers", Kind::Whole, true),
    ("num_attention_heads", Kind::Whole, true),
    ("intermediate_size", Kind::Whole, true),
    ("max_position_embeddings", Kind::Whole, true),
    ("embedding_size", Kind::Whole, false),
    ("type_vocab_size", Kind::Whole, false),
    ("layer_norm_eps", Kind::Epsilon, false),
    ("pad_token_id", Kind::Whole, false),
    ("hidden_act", Kind::Nonlinearity, false),
    ("position_embedding_type", Kind::Text, false),
    ("is_decoder", Kind::Switch, false),
    ("relative_attention", Kind::Switch, false),
    ("max_relative_positions", Kind::Integer, false),
    ("position_buckets", Kind::Integer, false),
    ("norm_rel_ebd", Kind::Text, false),
    ("share_att_key", Kind::Switch, false),
    ("pos_att_type", Kind::Texts, false),
    ("position_biased_input", Kind::Switch, false),
    ("attention_head_size", Kind::Whole, false),
    ("conv_kernel_size", Kind::Integer, false),
    ("conv_groups", Kind::Whole, false),
    ("conv_act", Kind::Nonlinearity, false),
];

impl Kind {
    fn holds(self, value: &Json) -> bool {
        match self {
            Kind::Whole => value.as_u64().is_some_and(|n| n <= MAX_SIZE),
            Kind::Integer => value.as_i64().is_some_and(|n| n.unsigned_abs() <= MAX_SIZE),
            // Added to variances, whose root is divided by.
            Kind::Epsilon => value.as_f64().is_some_and(|x| x > 0.0 && x <= 1.0),
            Kind::Switch => value.is_boolean(),
            Kind::Text => value.is_string(),
            Kind::Nonlinearity => Activation::deserialize(value).is_ok(),
            Kind::Texts => Terms::deserialize(value).is_ok(),
        }
    }

    fn expected(self) -> String {
        match self {
            Kind::Whole => format!("a whole number from 0 to {MAX_SIZE}"),
            Kind::Integer => format!("a whole number from -{MAX_SIZE} to {MAX_SIZE}"),
            Kind::Epsilon => "a number above 0, at most 1".to_owned(),
            Kind::Switch => "true or false".to_owned(),
            Kind::Text => "a text".to_owned(),
            Kind::Nonlinearity => {
                let names = Activation::VARIANTS.iter().map(Into::into);
                format!("one of: {}", names.collect::<Vec<&str>>().join(", "))
            }
            Kind::Texts => "a text or a list of texts".to_owned(),
        }
    }
}

/// The first key whose value is absent or of another kind: what was found, what was expected.
pub(super) fn misfit(json: &Json) -> Option<(String, String)> {
    KEYS.iter().find_map(|(key, kind, needed)| {
        let found = match json.get(*key) {
            None | Some(Json::Null) if *needed => format!("no {key}"),
            None | Some(Json::Null) => return None,
            Some(value) if kind.holds(value) => return None,
            Some(value) => format!("{key} {value}").chars().take(80).collect(),
        };
        Some((found, format!("{key}: {}", kind.expected())))
    })
}

impl ConfigKeys {
    fn disentangled(&self) -> Result<Disentangled, String> {
        let names = |term| self.pos_att_type.as_ref().is_some_and(|t| t.names(term));
        let (c2p, p2c) = (names("c2p"), names("p2c"));
        let positive = |value: Option<i64>| {
            value
                .and_then(|v| usize::try_from(v).ok())
                .filter(|v| *v > 0)
        };
        let buckets = positive(self.position_buckets);
        let furthest = positive(self.max_relative_positions);
        let normed = self
            .norm_rel_ebd
            .as_deref()
            .unwrap_or("none")
            .to_lowercase();
        let relative = Relative {
            buckets,
            furthest: furthest.unwrap_or(self.max_position_embeddings),
            content_to_position: c2p,
            position_to_content: p2c,
            shared_layers: self.share_att_key.unwrap_or(false),
            normed: normed.split('|').any(|word| word.trim() == "layer_norm"),
        };
        let looks = self.relative_attention.unwrap_or(false) && (c2p || p2c);
        if looks && buckets == Some(1) {
            return Err("position_buckets 1".to_owned());
        }
        Ok(Disentangled {
            relative: looks.then_some(relative),
            terms: 1 + usize::from(c2p) + usize::from(p2c),
            absolute: self.position_biased_input.unwrap_or(true),
            convolution: self.convolution()?,
        })
    }

    fn convolution(&self) -> Result<Option<Convolution>, String> {
        let Some(kernel) = self.conv_kernel_size.filter(|kernel| *kernel > 0) else {
            return Ok(None);
        };
        let groups = self.conv_groups.unwrap_or(1);
        if kernel % 2 == 0 {
            return Err(format!("conv_kernel_size {kernel}, which is even"));
        }
        if groups == 0 || !self.hidden_size.is_multiple_of(groups) {
            return Err(format!(
                "conv_groups {groups}, which do not divide hidden_size {}",
                self.hidden_size
            ));
        }
        Ok(Some(Convolution {
            kernel: kernel as usize,
            groups,
            activation: self.conv_act.unwrap_or(Activation::Tanh),
        }))
    }

    /// What contradicts itself or is not implemented.
    fn trouble(&self, architecture: Architecture) -> Option<String> {
        let sizes = [
            ("vocab_size", self.vocab_size),
            ("hidden_size", self.hidden_size),
            ("num_hidden_layers", self.num_hidden_layers),
            ("num_attention_heads", self.num_attention_heads),
            ("intermediate_size", self.intermediate_size),
            ("max_position_embeddings", self.max_position_embeddings),
            ("embedding_size", self.embedding_size.unwrap_or(1)),
        ];
        if let Some((key, _)) = sizes.iter().find(|(_, size)| *size == 0) {
            return Some(format!("{key} 0"));
        }
        let (hidden, heads) = (self.hidden_size, self.num_attention_heads);
        if !hidden.is_multiple_of(heads) {
            return Some(format!(
                "hidden_size {hidden} with {heads} heads, which do not divide it"
            ));
        }
        match architecture {
            Architecture::DebertaV2 => {
                let size = self.attention_head_size.unwrap_or(hidden / heads);
                if size * heads != hidden {
                    return Some(format!(
                        "attention_head_size {size} with {heads} heads and hidden_size {hidden}"
                    ));
                }
            }
            Architecture::Bert
            | Architecture::Roberta
            | Architecture::XlmRoberta
            | Architecture::Camembert
            | Architecture::Electra => {
                let position = self.position_embedding_type.as_deref();
                if let Some(kind) = position.filter(|kind| *kind != "absolute") {
                    return Some(format!("position_embedding_type {kind}"));
                }
                if self.is_decoder == Some(true) {
                    return Some("is_decoder true".to_owned());
                }
                if self.type_vocab_size == Some(0) {
                    return Some("type_vocab_size 0".to_owned());
                }
            }
        }
        None
    }
}

impl TryFrom<ConfigKeys> for EncoderConfig {
    type Error = String;

    fn try_from(raw: ConfigKeys) -> Result<EncoderConfig, String> {
        let architecture = raw
            .model_type
            .as_deref()
            .and_then(Architecture::of)
            .ok_or("an unknown model_type")?;
        if let Some(trouble) = raw.trouble(architecture) {
            return Err(trouble);
        }
        // Types, epsilon, padding.
        let (types, eps, pad) = match architecture {
            Architecture::Bert | Architecture::Electra => (2, 1e-12, 0),
            Architecture::Roberta | Architecture::XlmRoberta | Architecture::Camembert => {
                (2, 1e-12, 1)
            }
            Architecture::DebertaV2 => (0, 1e-7, 0),
        };
        let (embedding, disentangled) = match architecture {
            Architecture::Bert
            | Architecture::Roberta
            | Architecture::XlmRoberta
            | Architecture::Camembert => (raw.hidden_size, None),
            Architecture::Electra => (raw.embedding_size.unwrap_or(128), None),
            Architecture::DebertaV2 => (
                raw.embedding_size.unwrap_or(raw.hidden_size),
                Some(raw.disentangled()?),
            ),
        };
        let config = EncoderConfig {
            architecture,
            vocab_size: raw.vocab_size,
            embedding_size: embedding,
            hidden_size: raw.hidden_size,
            num_hidden_layers: raw.num_hidden_layers,
            num_attention_heads: raw.num_attention_heads,
            intermediate_size: raw.intermediate_size,
            max_position_embeddings: raw.max_position_embeddings,
            type_vocab_size: raw.type_vocab_size.unwrap_or(types),
            layer_norm_eps: raw.layer_norm_eps.unwrap_or(eps),
            pad_token_id: raw.pad_token_id.unwrap_or(pad),
            hidden_act: raw.hidden_act.unwrap_or(Activation::Gelu),
            disentangled,
        };
        if config.pad_token_id >= config.vocab_size {
            return Err(format!(
                "pad_token_id {} with vocab_size {}",
                config.pad_token_id, config.vocab_size
            ));
        }
        if config.max_tokens() == Some(0) {
            return Err(format!(
                "max_position_embeddings {} with pad_token_id {}: no position is left",
                config.max_position_embeddings, config.pad_token_id
            ));
        }
        Ok(config)
    }
}
