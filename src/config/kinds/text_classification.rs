//! `text-classification`: what it reads and reports.

use search::study::Direction;

use super::early_stopping::{LONG_ENOUGH, MIN_DELTA, PATIENCE, WITH_PATIENCE};
use crate::active_when::{ActiveWhen, Is, when};
use crate::key::{FRACTION, Key, KeyType, Preset, data, float, int, training};
use crate::{Metric, TaskKind};

/// What acts on trained parts of the encoder alone.
const TRAINED: ActiveWhen = when(FREEZE, Is::Below("the model's number of layers"));

/// What acts on the linear layers between the pooled vector and the classifier.
const DEEP: ActiveWhen = when("head.layers", Is::AtLeast(2));

/// What cuts the rows into parts.
const DRAWN: ActiveWhen = when("data.split.column", Is::LeftOut);

const FOCAL: ActiveWhen = when("loss.cls.type", Is::OneOf(&["focal"]));

/// The probability from which on a document is of the second of two classes.
pub const THRESHOLD: &str = "post.threshold";

/// How many blocks are frozen.
pub const FREEZE: &str = "train.freeze_encoder_layers";

/// Every key of the kind.
pub const KEYS: &[Key] = &[
    data("data.path", KeyType::Path, Preset::Required)
        .help("the labelled rows: .csv with a header, or .jsonl (one object a line)"),
    data("data.text", KeyType::Text, Preset::Text("text"))
        .help("column of the text"),
    data("data.text_pair", KeyType::Text, Preset::Optional)
        .help("column of a second text, encoded as a pair with the first"),
    data("data.label", KeyType::Text, Preset::Text("label"))
        .help("column of the class"),
    data("data.group", KeyType::Text, Preset::Optional)
        .help("column whose equal values keep rows in one split"),
    data("data.split.train", FRACTION, Preset::Float(0.8))
        .help("share of the rows to train on")
        .only_where(DRAWN),
    data("data.split.validation", FRACTION, Preset::Float(0.1))
        .help("share of the rows that score a trial")
        .only_where(DRAWN),
    data("data.split.test", FRACTION, Preset::Float(0.1))
        .help("share of the rows kept away from the search")
        .only_where(DRAWN),
    data("data.split.seed", int(0, i64::MAX), Preset::Int(0))
        .help("seed of the split; the trial's seed never enters it"),
    data("data.split.column", KeyType::Text, Preset::Optional)
        .help("column with each row's part (train, validation or test), instead of shares and seed"),
    data("data.folds", int(0, 1000), Preset::Int(0))
        .help("a trial trains so many models, each validated on its part of the rows that are not for the test; its value is their mean; 0 or 1: one model"),
    data("data.duplicates", KeyType::Choice(&["error", "together", "allow"]), Preset::Text("error"))
        .help("the same text in two parts of the split: refused, kept in one part, or accepted with a warning"),
    training("tok.doc_stride", int(0, 8192), Preset::Int(0))
        .help("k >= 1: a row longer than tok.max_length becomes windows, neighbours sharing k tokens; 0: it is cut"),
    training("train.epochs", int(1, 100_000), Preset::Int(4))
        .help("most epochs of a trial"),
    training(PATIENCE, int(0, 100_000), Preset::Int(2))
        .help("epochs in a row without improvement that end a trial; 0 = never")
        .only_where(LONG_ENOUGH),
    training(MIN_DELTA, float(0.0, 1e6), Preset::Float(0.0))
        .help("what the objective must improve by to count, in its own unit")
        .only_where(WITH_PATIENCE),
    training("train.batch_size", int(1, 65_536), Preset::Int(16))
        .help("rows a batch"),
    training("train.clip_grad", float(0.0, 1e6), Preset::Float(1.0))
        .help("greatest global L2 norm of the gradients; 0 = no limit"),
    training(FREEZE, int(0, 48), Preset::Int(0))
        .help("k >= 1 freezes the embeddings and the first k layers; their activations are cached"),
    training("tok.max_length", int(8, 8192), Preset::Int(128))
        .help("longest row, in tokens; longer ones are cut"),
    training("optim.lr", FRACTION, Preset::Float(5e-5))
        .help("AdamW's learning rate at the end of the warm-up"),
    training("optim.weight_decay", float(0.0, 10.0), Preset::Float(0.01))
        .help("decoupled decay of the weights; none on biases and layer norms"),
    training("sched.warmup_ratio", FRACTION, Preset::Float(0.1))
        .help("share of all steps in which the learning rate rises; with one_cycle: of each cycle"),
    training("model.name", KeyType::Text, Preset::Required)
        .help("a name of [models], or a Hugging Face id in the local cache"),
    training("model.dropout", float(0.0, 0.9), Preset::Float(0.1))
        .help("dropout before the classifier and on the hidden states of layers that are not frozen"),
    training("train.grad_accum", int(1, 4096), Preset::Int(1))
        .help("batches whose gradients make one step of the optimiser; what is left at an epoch's end makes one too"),
    training("train.grad_checkpointing", KeyType::Bool, Preset::Bool(false))
        .help("keep only the inputs of trained layers and compute the rest again backwards: less memory, more time; other dropout masks")
        .only_where(TRAINED),
    training("train.precision", KeyType::Choice(&["fp32", "bf16"]), Preset::Text("fp32"))
        .help("bf16: products of the encoder in 16 bits (autocast); weights, head and loss stay in 32"),
    training("optim.beta1", float(0.0, 0.999_999), Preset::Float(0.9))
        .help("decay of AdamW's first moment"),
    training("optim.beta2", float(0.0, 0.999_999_9), Preset::Float(0.999))
        .help("decay of AdamW's second moment"),
    training("optim.eps", float(1e-12, 1.0), Preset::Float(1e-8))
        .help("added to AdamW's denominator"),
    training("optim.layerwise_lr_decay", float(0.01, 1.0), Preset::Float(1.0))
        .help("the learning rate falls by this factor from the head to the last layer, from there to the one below, and so on to the embeddings")
        .only_where(TRAINED),
    training("sched.name", KeyType::Choice(&["linear", "cosine", "cosine_restart", "polynomial", "one_cycle"]), Preset::Text("linear"))
        .help("how the learning rate falls to 0 after the warm-up; one_cycle: rises and falls, without a warm-up before"),
    training("sched.cosine_cycles", int(1, 1000), Preset::Int(1))
        .help("how often the learning rate falls to 0")
        .only_where(when("sched.name", Is::OneOf(&["cosine_restart", "one_cycle"]))),
    training("sched.poly_power", float(0.01, 100.0), Preset::Float(1.0))
        .help("power of the part of the steps that is left; 1: linear")
        .only_where(when("sched.name", Is::OneOf(&["polynomial"]))),
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
    training("loss.cls.type", KeyType::Choice(&["ce", "ce_label_smooth", "focal"]), Preset::Text("ce"))
        .help("cross entropy, plain or with smoothed labels, or focal loss"),
    training("loss.cls.label_smoothing", FRACTION, Preset::Float(0.1))
        .help("part of a label that is spread evenly over all classes")
        .only_where(when("loss.cls.type", Is::OneOf(&["ce_label_smooth"]))),
    training("loss.cls.gamma", float(0.0, 20.0), Preset::Float(2.0))
        .help("how much rows that are told well count less: their loss is multiplied by (1 - p)^gamma")
        .only_where(FOCAL),
    training("loss.cls.alpha", FRACTION, Preset::Float(0.5))
        .help("weight of class 1, and of all further ones; class 0 has 1 - alpha")
        .only_where(FOCAL),
    training("loss.cls.balance", KeyType::Choice(&["none", "weighted", "effective_num"]), Preset::Text("none"))
        .help("weights of the classes by their rows n_c to train on: n / (classes n_c), or 1 / (1 - 0.999^n_c), of mean 1"),
    data(THRESHOLD, KeyType::Grid { low: 0.0, high: 1.0 }, Preset::Optional)
        .help("of two classes the second is predicted from this probability on, by default from above 0.5; of a list each epoch takes the best on the validation part, without training again"),
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
    presets: &[("supervisor.checkpoint", "true")],
    folds: Some("data.folds"),
    accepts_any_parameter: false,
    in_process: true,
    keeps_checkpoints: true,
    keeps_weights: true,
    halves_batches: true,
    needs_libtorch: true,
};
