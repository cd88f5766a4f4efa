//! `text-classification`: what it reads and reports.

use search::study::Direction;

use super::shared::{BY_LIBTORCH, CLASSES, FREEZE, LoopPresets, SPLIT, joined, training_loop};
use crate::active_when::{ActiveWhen, Is, when};
use crate::key::{Key, KeyType, Preset, data, float, int, training};
use crate::{Metric, TaskKind};

/// What acts on trained parts of the encoder alone.
const TRAINED: ActiveWhen = when(FREEZE, Is::Below("the model's number of layers"));

/// What acts on the linear layers between the pooled vector and the classifier.
const DEEP: ActiveWhen = when("head.layers", Is::AtLeast(2));

/// Every key of the kind.
pub const KEYS: &[Key] = &joined::<_, 47>(&[&OWN, &SPLIT, &LOOP, &CLASSES]);

const LOOP: [Key; 16] = training_loop(LoopPresets {
    epochs: 4,
    patience: 2,
    batch_size: 16,
    lr: 5e-5,
});

/// Those that no other kind has.
const OWN: [Key; 18] = [
    data("data.path", KeyType::Path, Preset::Required)
        .help("the labelled rows: .csv with a header, or .jsonl (one object a line)"),
    data("data.text", KeyType::Text, Preset::Text("text"))
        .help("column of the text"),
    data("data.text_pair", KeyType::Text, Preset::Optional)
        .help("column of a second text, encoded as a pair with the first"),
    data("data.label", KeyType::Text, Preset::Text("label"))
        .help("column of the class"),
    data("data.duplicates", KeyType::Choice(&["error", "together", "allow"]), Preset::Text("error"))
        .help("the same text in two parts of the split: refused, kept in one part, or accepted with a warning"),
    training("tok.doc_stride", int(0, 8192), Preset::Int(0))
        .help("k >= 1: a row longer than tok.max_length becomes windows, neighbours sharing k tokens; 0: it is cut"),
    training(FREEZE, int(0, 48), Preset::Int(0))
        .help("k >= 1 freezes the embeddings and the first k layers; their activations are cached"),
    training("tok.max_length", int(8, 8192), Preset::Int(128))
        .help("longest row, in tokens; longer ones are cut"),
    training("model.name", KeyType::Text, Preset::Required)
        .help("a name of [models], or a Hugging Face id in the local cache"),
    training("model.dropout", float(0.0, 0.9), Preset::Float(0.1))
        .help("dropout before the classifier and on the hidden states of layers that are not frozen"),
    training("train.grad_checkpointing", KeyType::Bool, Preset::Bool(false))
        .help("keep only the inputs of trained layers and compute the rest again backwards: less memory, more time; other dropout masks")
        .only_where(TRAINED),
    training("optim.layerwise_lr_decay", float(0.01, 1.0), Preset::Float(1.0))
        .help("the learning rate falls by this factor from the head to the last layer, from there to the one below, and so on to the embeddings")
        .only_where(TRAINED),
    training("model.attn_dropout", float(0.0, 0.9), Preset::Float(0.0))
        .help("dropout on the attention weights of layers that are not frozen")
        .only_where(TRAINED),
    training("head.pooling", KeyType::Choice(&["cls", "mean", "max", "attn"]), Preset::Text("mean"))
        .help("a row's vector: its first token's, the mean or the greatest values of its tokens, or their mean weighted by a learned query"),
    training("head.layers", int(1, 4), Preset::Int(1))
        .help("linear layers from the pooled vector to the classes"),
    training("head.hidden", int(1, 65_536), Preset::Int(256))
        .help("width between the head's layers")
        .only_where(DEEP),
    training("head.activation", KeyType::Choice(&["gelu", "relu", "silu", "tanh"]), Preset::Text("gelu"))
        .help("nonlinearity between the head's layers")
        .only_where(DEEP),
    training("head.dropout", float(0.0, 0.9), Preset::Float(0.0))
        .help("dropout before each of the head's layers, beside model.dropout on the pooled vector"),
];

/// Computed on the validation split at each epoch; they count documents.
pub const METRICS: [Metric; 9] = [
    Metric::within("macro_f1", Direction::Maximize, 0.0, 1.0),
    Metric::within("f1", Direction::Maximize, 0.0, 1.0),
    Metric::within("accuracy", Direction::Maximize, 0.0, 1.0),
    Metric::within("balanced_accuracy", Direction::Maximize, 0.0, 1.0),
    Metric::within("mcc", Direction::Maximize, -1.0, 1.0),
    Metric::within("auroc", Direction::Maximize, 0.0, 1.0),
    Metric::within("auprc", Direction::Maximize, 0.0, 1.0),
    Metric::within("log_loss", Direction::Minimize, 0.0, f64::INFINITY),
    Metric::within("loss", Direction::Minimize, 0.0, f64::INFINITY),
];

/// Task kind `text-classification`: fine-tunes a Hugging Face encoder on labelled text.
pub static KIND: TaskKind = TaskKind {
    name: "text-classification",
    keys: KEYS,
    metrics: &METRICS,
    ..BY_LIBTORCH
};
