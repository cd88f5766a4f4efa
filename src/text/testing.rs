//! What the kind's tests share: a study by hand, and a tiny random BERT.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rand::Rng;
use safetensors::tensor::{Dtype, TensorView};

use super::checkpoint::{EncoderConfig, needed};
use config::StudySpec;
use search::space::Value;
use search::study::rng;
pub use training::testing::study_of;

/// Words of the tiny model; each is a token.
const WORDS: [&str; 12] = [
    "good", "bad", "fine", "poor", "great", "awful", "the", "phone", "screen", "is", "was", "it",
];

/// A directory with data and two tiny checkpoints, `tiny` (2 layers) and `other`.
pub struct TinyProject {
    pub dir: tempfile::TempDir,
    pub spec: StudySpec,
}

impl TinyProject {
    /// 120 rows of two classes in 40 groups.
    #[allow(clippy::new_without_default)]
    pub fn new() -> TinyProject {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows.csv");
        std::fs::write(&path, rows_csv()).unwrap();
        let mut models = BTreeMap::new();
        for (seed, name) in [(1, "tiny"), (2, "other")] {
            let model = dir.path().join(name);
            write_tiny_bert(&model, seed);
            models.insert(name.to_owned(), model);
        }
        let spec = study(&path, models, "tiny");
        TinyProject { dir, spec }
    }

    /// The directory of the model `tiny`.
    pub fn tiny(&self) -> PathBuf {
        self.dir.path().join("tiny")
    }

    /// Sets a fixed key.
    pub fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.spec.fixed.insert(key.to_owned(), value.into());
    }
}

/// Rows whose class shows in one word.
fn rows_csv() -> String {
    let mut generator = rng(3, 0, "rows");
    let mut text = String::from("id,text,status,post\n");
    for i in 0..120 {
        let class = usize::from(i % 3 == 0);
        let mut words: Vec<&str> = (0..2 + generator.next_u64() % 7)
            .map(|_| WORDS[6 + (generator.next_u64() % 6) as usize])
            .collect();
        words.insert(1, WORDS[class + 2 * (generator.next_u64() % 3) as usize]);
        text.push_str(&format!("{i},{},{class},{}\n", words.join(" "), i / 3));
    }
    text
}

/// A study with every key at its default, within the tiny model's limits.
pub fn study(data: &Path, models: BTreeMap<String, PathBuf>, model: &str) -> StudySpec {
    let mut spec = study_of(&config::kinds::text_classification::KIND, "macro_f1");
    spec.models = models;
    let fixed = &mut spec.fixed;
    fixed.insert("data.path".into(), data.to_str().unwrap().into());
    fixed.insert("data.label".into(), "status".into());
    fixed.insert("data.group".into(), "post".into());
    fixed.insert("model.name".into(), model.into());
    fixed.insert("tok.max_length".into(), 64.into());
    // Of a dozen words, some rows are equal.
    fixed.insert("data.duplicates".into(), "allow".into());
    spec.space.fixed = spec.fixed.clone();
    spec
}

/// The tiny model's architecture, as `config.json` has it.
pub fn tiny_config() -> serde_json::Value {
    serde_json::json!({
        "model_type": "bert", "vocab_size": 20, "hidden_size": 16, "num_hidden_layers": 2,
        "num_attention_heads": 2, "intermediate_size": 32, "hidden_act": "gelu",
        "max_position_embeddings": 64, "type_vocab_size": 2, "layer_norm_eps": 1e-12,
        "pad_token_id": 0,
    })
}

/// Writes a checkpoint of random weights.
pub fn write_tiny_bert(dir: &Path, seed: u64) {
    write_tiny(dir, seed, tiny_config());
}

/// Writes a checkpoint of random weights with this configuration.
pub fn write_tiny(dir: &Path, seed: u64, config: serde_json::Value) {
    std::fs::create_dir_all(dir).unwrap();
    std::fs::write(dir.join("config.json"), config.to_string()).unwrap();
    std::fs::write(dir.join("tokenizer.json"), tokenizer_json().to_string()).unwrap();
    write_weights_of(dir, seed, config, Dtype::F32, |name| name.to_owned());
}

/// Writes `model.safetensors` of random weights, in this type and under these names.
pub fn write_weights(dir: &Path, seed: u64, dtype: Dtype, rename: impl Fn(&str) -> String) {
    write_weights_of(dir, seed, tiny_config(), dtype, rename);
}

fn write_weights_of(
    dir: &Path,
    seed: u64,
    config: serde_json::Value,
    dtype: Dtype,
    rename: impl Fn(&str) -> String,
) {
    let config: EncoderConfig = serde_json::from_value(config).unwrap();
    let mut generator = rng(seed, 0, "weights");
    let mut store = Vec::new();
    for tensor in needed(&config) {
        let count: usize = tensor.shape.iter().product();
        let norm = tensor.name.ends_with("LayerNorm.weight");
        let mut bytes = Vec::new();
        for _ in 0..count {
            let uniform = (generator.next_u64() >> 40) as f32 / (1u64 << 24) as f32;
            let value = if norm { 1.0 } else { (uniform - 0.5) * 0.5 };
            let full = value.to_le_bytes();
            // BF16 is the upper half of a 32-bit float.
            let from = if dtype == Dtype::BF16 { 2 } else { 0 };
            bytes.extend_from_slice(&full[from..]);
        }
        store.push((rename(&tensor.name), tensor.shape, bytes));
    }
    let views: Vec<(&str, TensorView)> = store
        .iter()
        .map(|(name, shape, bytes)| {
            let view = TensorView::new(dtype, shape.clone(), bytes).unwrap();
            (name.as_str(), view)
        })
        .collect();
    let file = dir.join("model.safetensors");
    safetensors::serialize_to_file(views, None, &file).unwrap();
}

fn tokenizer_json() -> serde_json::Value {
    let special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"];
    let vocab: serde_json::Map<String, serde_json::Value> = special
        .iter()
        .chain(WORDS.iter())
        .enumerate()
        .map(|(id, word)| ((*word).to_owned(), id.into()))
        .collect();
    let piece = |id: &str, ty: u8| serde_json::json!({"SpecialToken": {"id": id, "type_id": ty}});
    let seq = |id: &str, ty: u8| serde_json::json!({"Sequence": {"id": id, "type_id": ty}});
    let token =
        |word: &str, id: u32| serde_json::json!({"id": word, "ids": [id], "tokens": [word]});
    serde_json::json!({
        "version": "1.0",
        // Must be overridden.
        "truncation": {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0},
        "padding": {"strategy": {"Fixed": 30}, "direction": "Right", "pad_to_multiple_of": null,
            "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"},
        "added_tokens": [],
        "normalizer": null,
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [piece("[CLS]", 0), seq("A", 0), piece("[SEP]", 0)],
            "pair": [piece("[CLS]", 0), seq("A", 0), piece("[SEP]", 0), seq("B", 1),
                piece("[SEP]", 1)],
            "special_tokens": {"[CLS]": token("[CLS]", 2), "[SEP]": token("[SEP]", 3)},
        },
        "decoder": null,
        "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "[UNK]"},
    })
}
