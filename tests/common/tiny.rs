//! A text classification that trains in milliseconds: a random BERT of two layers and rows of a few
//! words, whose class shows in one of them.

use std::path::Path;

use rand::{RngExt, SeedableRng};
use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Map, Value as Json, json};

use super::Project;

const WORDS: [&str; 16] = [
    "good", "bad", "fine", "poor", "great", "awful", "the", "phone", "screen", "is", "was", "it",
    "one", "two", "three", "four",
];
const HIDDEN: usize = 16;
const WIDE: usize = 32;
const POSITIONS: usize = 64;

/// A project with the task `tiny`: `rows` rows of four a group, one of three of class 1, and the
/// checkpoint `tiny`. Every third group has texts beyond 16 tokens.
pub fn project(rows: usize) -> Project {
    project_of(rows, HIDDEN, WIDE)
}

/// The same with a model of this hidden size and this size of its inner layers.
pub fn project_of(rows: usize, hidden: usize, wide: usize) -> Project {
    let project = Project::empty();
    write_bert_of(&project.path().join("model"), hidden, wide);
    std::fs::write(project.path().join("configs/rows.csv"), csv(rows)).unwrap();
    project.config("tiny", CONFIG);
    project
}

/// `configs/tiny.toml`.
pub const CONFIG: &str = r#"
[task]
kind = "text-classification"
[data]
path = "rows.csv"
label = "status"
group = "post"
[train]
epochs = 2
[models]
tiny = "../model"
[model]
name = "tiny"
[tok]
max_length = 16
[space]
optim.lr = { low = 1e-4, high = 1e-2, log = true, default = 1e-3 }
"#;

/// Rows of `text,status,post`; no text is there twice.
pub fn csv(rows: usize) -> String {
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(5);
    let mut text = String::from("text,status,post\n");
    let mut seen = std::collections::BTreeSet::new();
    while seen.len() < rows {
        let (row, class) = (seen.len(), usize::from(seen.len() % 3 == 0));
        let count = if row / 4 % 3 == 0 { 24 } else { 6 };
        let mut words: Vec<&str> = (0..count)
            .map(|_| WORDS[rng.random_range(6..WORDS.len())])
            .collect();
        words[1] = WORDS[class + 2 * rng.random_range(0..3)];
        let words = words.join(" ");
        if seen.insert(words.clone()) {
            text.push_str(&format!("{words},{class},{}\n", row / 4));
        }
    }
    text
}

/// Writes a checkpoint of random weights in Hugging Face's layout.
pub fn write_bert(dir: &Path) {
    write_bert_of(dir, HIDDEN, WIDE);
}

fn write_bert_of(dir: &Path, hidden: usize, wide: usize) {
    std::fs::create_dir_all(dir).unwrap();
    let config = json!({
        "model_type": "bert", "vocab_size": WORDS.len() + 4, "hidden_size": hidden,
        "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": wide,
        "hidden_act": "gelu", "max_position_embeddings": POSITIONS, "type_vocab_size": 2,
        "layer_norm_eps": 1e-12, "pad_token_id": 0,
    });
    std::fs::write(dir.join("config.json"), config.to_string()).unwrap();
    std::fs::write(dir.join("tokenizer.json"), tokenizer().to_string()).unwrap();
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
    let store: Vec<(String, Vec<usize>, Vec<u8>)> = tensors(hidden, wide)
        .into_iter()
        .map(|(name, shape)| {
            let norm = name.ends_with("LayerNorm.weight");
            let values = (0..shape.iter().product()).map(|_| match norm {
                true => 1.0f32,
                false => rng.random_range(-0.25..0.25),
            });
            let bytes = values.flat_map(f32::to_le_bytes).collect();
            (name, shape, bytes)
        })
        .collect();
    let views = store.iter().map(|(name, shape, bytes)| {
        let view = TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap();
        (name.as_str(), view)
    });
    safetensors::serialize_to_file(views, None, &dir.join("model.safetensors")).unwrap();
}

/// Names and shapes.
fn tensors(hidden: usize, wide: usize) -> Vec<(String, Vec<usize>)> {
    let mut all = Vec::new();
    let mut layer = |name: String, shape: &[usize]| {
        all.push((format!("{name}.weight"), shape.to_vec()));
        if !name.ends_with("embeddings") {
            all.push((format!("{name}.bias"), shape[..1].to_vec()));
        }
    };
    for (table, size) in [
        ("word", WORDS.len() + 4),
        ("position", POSITIONS),
        ("token_type", 2),
    ] {
        layer(format!("embeddings.{table}_embeddings"), &[size, hidden]);
    }
    layer("embeddings.LayerNorm".into(), &[hidden]);
    for i in 0..2 {
        for (name, shape) in [
            ("attention.self.query", &[hidden, hidden][..]),
            ("attention.self.key", &[hidden, hidden]),
            ("attention.self.value", &[hidden, hidden]),
            ("attention.output.dense", &[hidden, hidden]),
            ("attention.output.LayerNorm", &[hidden]),
            ("intermediate.dense", &[wide, hidden]),
            ("output.dense", &[hidden, wide]),
            ("output.LayerNorm", &[hidden]),
        ] {
            layer(format!("encoder.layer.{i}.{name}"), shape);
        }
    }
    all
}

fn tokenizer() -> Json {
    let special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"];
    let vocab: Map<String, Json> = special
        .iter()
        .chain(WORDS.iter())
        .enumerate()
        .map(|(id, word)| ((*word).to_owned(), id.into()))
        .collect();
    let piece = |id: &str, ty: u8| json!({"SpecialToken": {"id": id, "type_id": ty}});
    let seq = |id: &str, ty: u8| json!({"Sequence": {"id": id, "type_id": ty}});
    let token = |word: &str, id: u32| json!({"id": word, "ids": [id], "tokens": [word]});
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
        "normalizer": null, "pre_tokenizer": {"type": "Whitespace"},
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
