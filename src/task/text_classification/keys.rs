//! What the kind reads and reports.

use crate::study::Direction;
use crate::task::{Key, KeyType, Metric, Preset, Role};

const fn data(name: &'static str, ty: KeyType, preset: Preset, help: &'static str) -> Key<'static> {
    Key {
        name,
        ty,
        preset,
        role: Role::Data,
        help,
    }
}

const fn training(
    name: &'static str,
    ty: KeyType,
    preset: Preset,
    help: &'static str,
) -> Key<'static> {
    Key {
        name,
        ty,
        preset,
        role: Role::Training,
        help,
    }
}

const FRACTION: KeyType = KeyType::Float {
    low: 0.0,
    high: 1.0,
};

/// Every key of the kind.
pub const KEYS: &[Key<'static>] = &[
    data(
        "data.path",
        KeyType::Path,
        Preset::Required,
        "the labelled rows: .csv with a header, or .jsonl (one object a line)",
    ),
    data(
        "data.text",
        KeyType::Text,
        Preset::Text("text"),
        "column of the text",
    ),
    data(
        "data.text_pair",
        KeyType::Text,
        Preset::Optional,
        "column of a second text, encoded as a pair with the first",
    ),
    data(
        "data.label",
        KeyType::Text,
        Preset::Text("label"),
        "column of the class",
    ),
    data(
        "data.group",
        KeyType::Text,
        Preset::Optional,
        "column whose equal values keep rows in one split",
    ),
    data(
        "data.split.train",
        FRACTION,
        Preset::Float(0.8),
        "share of the rows to train on",
    ),
    data(
        "data.split.validation",
        FRACTION,
        Preset::Float(0.1),
        "share of the rows that score a trial",
    ),
    data(
        "data.split.test",
        FRACTION,
        Preset::Float(0.1),
        "share of the rows kept away from the search",
    ),
    data(
        "data.split.seed",
        KeyType::Int {
            low: 0,
            high: i64::MAX,
        },
        Preset::Int(0),
        "seed of the split; the trial's seed never enters it",
    ),
    data(
        "data.split.column",
        KeyType::Text,
        Preset::Optional,
        "column with each row's part (train, validation or test), instead of shares and seed",
    ),
    data(
        "data.folds",
        KeyType::Int { low: 0, high: 1000 },
        Preset::Int(0),
        "a trial trains so many models, each validated on its part of the rows that are not for the test; its value is their mean; 0 or 1: one model",
    ),
    data(
        "data.duplicates",
        KeyType::Choice(&["error", "together", "allow"]),
        Preset::Text("error"),
        "the same text in two parts of the split: refused, kept in one part, or accepted with a warning",
    ),
    training(
        "tok.doc_stride",
        KeyType::Int { low: 0, high: 8192 },
        Preset::Int(0),
        "k >= 1: a row longer than tok.max_length becomes windows, neighbours sharing k tokens; 0: it is cut",
    ),
    training(
        "train.epochs",
        KeyType::Int {
            low: 1,
            high: 100_000,
        },
        Preset::Int(4),
        "most epochs of a trial",
    ),
    training(
        "train.patience",
        KeyType::Int {
            low: 0,
            high: 100_000,
        },
        Preset::Int(2),
        "epochs in a row without improvement that end a trial; 0 = never",
    ),
    training(
        "train.min_delta",
        KeyType::Float {
            low: 0.0,
            high: 1e6,
        },
        Preset::Float(0.0),
        "what the objective must improve by to count, in its own unit",
    ),
    training(
        "train.batch_size",
        KeyType::Int {
            low: 1,
            high: 65_536,
        },
        Preset::Int(16),
        "rows a step",
    ),
    training(
        "train.clip_grad",
        KeyType::Float {
            low: 0.0,
            high: 1e6,
        },
        Preset::Float(1.0),
        "greatest global L2 norm of the gradients; 0 = no limit",
    ),
    training(
        "train.freeze_encoder_layers",
        KeyType::Int { low: 0, high: 48 },
        Preset::Int(0),
        "k >= 1 freezes the embeddings and the first k layers; their activations are cached",
    ),
    training(
        "tok.max_length",
        KeyType::Int { low: 8, high: 8192 },
        Preset::Int(128),
        "longest row, in tokens; longer ones are cut",
    ),
    training(
        "optim.lr",
        FRACTION,
        Preset::Float(5e-5),
        "AdamW's learning rate at the end of the warm-up",
    ),
    training(
        "optim.weight_decay",
        KeyType::Float {
            low: 0.0,
            high: 10.0,
        },
        Preset::Float(0.01),
        "decoupled decay of the weights; none on biases and layer norms",
    ),
    training(
        "sched.warmup_ratio",
        FRACTION,
        Preset::Float(0.1),
        "share of all steps in which the learning rate rises; then it falls to 0",
    ),
    training(
        "model.name",
        KeyType::Text,
        Preset::Required,
        "a name of [models], or a Hugging Face id in the local cache",
    ),
    training(
        "model.dropout",
        KeyType::Float {
            low: 0.0,
            high: 0.9,
        },
        Preset::Float(0.1),
        "dropout before the classifier and on the hidden states of layers that are not frozen",
    ),
];

const fn metric(name: &'static str, direction: Direction, low: f64, high: f64) -> Metric {
    Metric {
        name,
        direction,
        range: Some((low, high)),
    }
}

/// Computed on the validation split at each epoch; they count documents.
pub const METRICS: [Metric; 9] = [
    metric("macro_f1", Direction::Maximize, 0.0, 1.0),
    metric("f1", Direction::Maximize, 0.0, 1.0),
    metric("accuracy", Direction::Maximize, 0.0, 1.0),
    metric("balanced_accuracy", Direction::Maximize, 0.0, 1.0),
    metric("mcc", Direction::Maximize, -1.0, 1.0),
    metric("auroc", Direction::Maximize, 0.0, 1.0),
    metric("auprc", Direction::Maximize, 0.0, 1.0),
    metric("log_loss", Direction::Minimize, 0.0, f64::INFINITY),
    metric("loss", Direction::Minimize, 0.0, f64::INFINITY),
];
