//! `text-classification`: what it reads and reports.

use crate::{Acts, Key, KeyType, Metric, Preset, Role, TaskKind};
use search::study::Direction;

const fn data(name: &'static str, ty: KeyType, preset: Preset, help: &'static str) -> Key<'static> {
    Key {
        name,
        ty,
        preset,
        role: Role::Data,
        help,
        acts: &[],
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
        acts: &[],
    }
}

const FRACTION: KeyType = KeyType::Float {
    low: 0.0,
    high: 1.0,
};

const fn float(low: f64, high: f64) -> KeyType {
    KeyType::Float { low, high }
}

const fn int(low: i64, high: i64) -> KeyType {
    KeyType::Int { low, high }
}

/// What acts on trained parts of the encoder alone.
const TRAINED: &[Acts] = &[Acts::Below {
    key: FREEZE,
    limit: "the model's number of layers",
}];

/// What acts on the linear layers between the pooled vector and the classifier.
const DEEP: &[Acts] = &[Acts::AtLeast {
    key: "head.layers",
    least: 2,
}];

/// The first epoch is always an improvement, and to stop after the last one is to stop nowhere.
const STOPPING: &[Acts] = &[Acts::Beyond {
    key: "train.epochs",
    by: 2,
}];

/// What early stopping alone reads.
const PATIENT: &[Acts] = &[Acts::AtLeast {
    key: "train.patience",
    least: 1,
}];

/// What cuts the rows into parts.
const DRAWN: &[Acts] = &[Acts::Without {
    key: "data.split.column",
}];

const FOCAL: &[Acts] = &[Acts::Words {
    key: "loss.cls.type",
    words: &["focal"],
}];

/// How many blocks are frozen.
pub const FREEZE: &str = "train.freeze_encoder_layers";

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
    )
    .only_where(DRAWN),
    data(
        "data.split.validation",
        FRACTION,
        Preset::Float(0.1),
        "share of the rows that score a trial",
    )
    .only_where(DRAWN),
    data(
        "data.split.test",
        FRACTION,
        Preset::Float(0.1),
        "share of the rows kept away from the search",
    )
    .only_where(DRAWN),
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
    )
    .only_where(STOPPING),
    training(
        "train.min_delta",
        KeyType::Float {
            low: 0.0,
            high: 1e6,
        },
        Preset::Float(0.0),
        "what the objective must improve by to count, in its own unit",
    )
    .only_where(PATIENT),
    training(
        "train.batch_size",
        KeyType::Int {
            low: 1,
            high: 65_536,
        },
        Preset::Int(16),
        "rows a batch",
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
        FREEZE,
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
        "share of all steps in which the learning rate rises; with one_cycle: of each cycle",
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
    training(
        "train.grad_accum",
        int(1, 4096),
        Preset::Int(1),
        "batches whose gradients make one step of the optimiser; what is left at an epoch's end makes one too",
    ),
    training(
        "train.grad_checkpointing",
        KeyType::Bool,
        Preset::Bool(false),
        "keep only the inputs of trained layers and compute the rest again backwards: less memory, more time; other dropout masks",
    )
    .only_where(TRAINED),
    training(
        "train.precision",
        KeyType::Choice(&["fp32", "bf16"]),
        Preset::Text("fp32"),
        "bf16: products of the encoder in 16 bits (autocast); weights, head and loss stay in 32",
    ),
    training(
        "optim.beta1",
        float(0.0, 0.999_999),
        Preset::Float(0.9),
        "decay of AdamW's first moment",
    ),
    training(
        "optim.beta2",
        float(0.0, 0.999_999_9),
        Preset::Float(0.999),
        "decay of AdamW's second moment",
    ),
    training(
        "optim.eps",
        float(1e-12, 1.0),
        Preset::Float(1e-8),
        "added to AdamW's denominator",
    ),
    training(
        "optim.layerwise_lr_decay",
        float(0.01, 1.0),
        Preset::Float(1.0),
        "the learning rate falls by this factor from the head to the last layer, from there to the one below, and so on to the embeddings",
    )
    .only_where(TRAINED),
    training(
        "sched.name",
        KeyType::Choice(&["linear", "cosine", "cosine_restart", "polynomial", "one_cycle"]),
        Preset::Text("linear"),
        "how the learning rate falls to 0 after the warm-up; one_cycle: rises and falls, without a warm-up before",
    ),
    training(
        "sched.cosine_cycles",
        int(1, 1000),
        Preset::Int(1),
        "how often the learning rate falls to 0",
    )
    .only_where(&[Acts::Words {
        key: "sched.name",
        words: &["cosine_restart", "one_cycle"],
    }]),
    training(
        "sched.poly_power",
        float(0.01, 100.0),
        Preset::Float(1.0),
        "power of the part of the steps that is left; 1: linear",
    )
    .only_where(&[Acts::Words {
        key: "sched.name",
        words: &["polynomial"],
    }]),
    training(
        "model.attn_dropout",
        float(0.0, 0.9),
        Preset::Float(0.0),
        "dropout on the attention weights of layers that are not frozen",
    )
    .only_where(TRAINED),
    training(
        "head.pooling",
        KeyType::Choice(&["cls", "mean", "max", "attn"]),
        Preset::Text("mean"),
        "a row's vector: its first token's, the mean or the greatest values of its tokens, or their mean weighted by a learned query",
    ),
    training(
        "head.layers",
        int(1, 4),
        Preset::Int(1),
        "linear layers from the pooled vector to the classes",
    ),
    training(
        "head.hidden",
        int(1, 65_536),
        Preset::Int(256),
        "width between the head's layers",
    )
    .only_where(DEEP),
    training(
        "head.activation",
        KeyType::Choice(&["gelu", "relu", "silu", "tanh"]),
        Preset::Text("gelu"),
        "nonlinearity between the head's layers",
    )
    .only_where(DEEP),
    training(
        "head.dropout",
        float(0.0, 0.9),
        Preset::Float(0.0),
        "dropout before each of the head's layers, beside model.dropout on the pooled vector",
    ),
    training(
        "loss.cls.type",
        KeyType::Choice(&["ce", "ce_label_smooth", "focal"]),
        Preset::Text("ce"),
        "cross entropy, plain or with smoothed labels, or focal loss",
    ),
    training(
        "loss.cls.label_smoothing",
        FRACTION,
        Preset::Float(0.1),
        "part of a label that is spread evenly over all classes",
    )
    .only_where(&[Acts::Words {
        key: "loss.cls.type",
        words: &["ce_label_smooth"],
    }]),
    training(
        "loss.cls.gamma",
        float(0.0, 20.0),
        Preset::Float(2.0),
        "how much rows that are told well count less: their loss is multiplied by (1 - p)^gamma",
    )
    .only_where(FOCAL),
    training(
        "loss.cls.alpha",
        FRACTION,
        Preset::Float(0.5),
        "weight of class 1, and of all further ones; class 0 has 1 - alpha",
    )
    .only_where(FOCAL),
    training(
        "loss.cls.balance",
        KeyType::Choice(&["none", "weighted", "effective_num"]),
        Preset::Text("none"),
        "weights of the classes by their rows n_c to train on: n / (classes n_c), or 1 / (1 - 0.999^n_c), of mean 1",
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

/// Task kind `text-classification`: fine-tunes a Hugging Face encoder on labelled text.
pub static KIND: TaskKind = TaskKind {
    name: "text-classification",
    keys: KEYS,
    metrics: &METRICS,
    presets: &[("supervisor.checkpoint", "true")],
    folds: Some("data.folds"),
    accepts_any_parameter: false,
    in_process: true,
    keeps_checkpoints: true,
    keeps_weights: true,
    halves_batches: true,
    needs_libtorch: true,
};

#[cfg(test)]
mod tests {
    use super::*;

    const DOC: &str = include_str!("../../../docs/configuration.md");

    fn values(ty: KeyType) -> String {
        match ty {
            KeyType::Float { low, high } => format!("{low:?}..{high:?}"),
            KeyType::Int { low, high } if high == i64::MAX => format!("integer from {low}"),
            KeyType::Int { low, high } => format!("{low}..{high}, integer"),
            KeyType::Bool => "true, false".into(),
            KeyType::Text | KeyType::Any => "text".into(),
            KeyType::Choice(words) => words.join(", "),
            KeyType::List => "list".into(),
            KeyType::Path => "path".into(),
        }
    }

    /// As in the documentation.
    fn row(key: &Key) -> String {
        let preset = match key.preset.value() {
            Some(value) => format!("`{value}`"),
            None => String::new(),
        };
        let acts: Vec<String> = key.acts.iter().map(|a| format!(". Where {a}")).collect();
        let (values, help) = (values(key.ty), key.help);
        format!(
            "| `{}` | {preset} | {values} | {help}{} |",
            key.name,
            acts.concat()
        )
    }

    #[test]
    fn the_documentation_lists_every_key_with_its_values_and_where_it_acts() {
        let rows = KEYS.iter().map(row);
        let missing: Vec<String> = rows.filter(|row| !DOC.contains(row)).collect();
        let missing = missing.join("\n");
        assert!(missing.is_empty(), "docs/configuration.md lacks\n{missing}");
    }
}
