//! What the kinds of task that are trained here read alike: how rows are split, the loop with its early stopping, the loss of
//! classes.

use crate::TaskKind;
use crate::active_when::{ActiveWhen, Is, when};
use crate::key::{FRACTION, Key, KeyType, Preset, data, float, int, training};

/// Epochs in a row without an improvement that end a training; 0: never.
pub const PATIENCE: &str = "train.patience";

/// What the objective must improve by to count.
pub const MIN_DELTA: &str = "train.min_delta";

/// The first epoch is always an improvement, and to stop after the last one is to stop nowhere.
pub(super) const LONG_ENOUGH: ActiveWhen = when("train.epochs", Is::Beyond(2));

/// What early stopping alone reads.
pub(super) const WITH_PATIENCE: ActiveWhen = when(PATIENCE, Is::AtLeast(1));

/// What cuts the rows into parts.
const DRAWN: ActiveWhen = when("data.split.column", Is::LeftOut);

const FOCAL: ActiveWhen = when("loss.cls.type", Is::OneOf(&["focal"]));

/// The probability from which on a row is of the second of two classes.
pub const THRESHOLD: &str = "post.threshold";

/// How many layers of an encoder are frozen.
pub const FREEZE: &str = "train.freeze_encoder_layers";

/// How rows are split.
pub(super) const SPLIT: [Key; 7] = [
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
];

/// What differs between kinds.
pub(super) struct LoopPresets {
    pub epochs: i64,
    pub patience: i64,
    pub batch_size: i64,
    pub lr: f64,
}

/// What the loop reads.
pub(super) const fn training_loop(presets: LoopPresets) -> [Key<'static>; 16] {
    [
    training("train.epochs", int(1, 100_000), Preset::Int(presets.epochs))
        .help("most epochs of a trial"),
    training(PATIENCE, int(0, 100_000), Preset::Int(presets.patience))
        .help("epochs in a row without improvement that end a trial; 0 = never")
        .only_where(LONG_ENOUGH),
    training(MIN_DELTA, float(0.0, 1e6), Preset::Float(0.0))
        .help("what the objective must improve by to count, in its own unit")
        .only_where(WITH_PATIENCE),
    training("train.batch_size", int(1, 65_536), Preset::Int(presets.batch_size))
        .help("rows a batch"),
    training("train.grad_accum", int(1, 4096), Preset::Int(1))
        .help("batches whose gradients make one step of the optimiser; what is left at an epoch's end makes one too"),
    training("train.clip_grad", float(0.0, 1e6), Preset::Float(1.0))
        .help("greatest global L2 norm of the gradients; 0 = no limit"),
    training("train.precision", KeyType::Choice(&["fp32", "bf16"]), Preset::Text("fp32"))
        .help("bf16: products in 16 bits (autocast); weights, losses and a text classifier's head stay in 32"),
    training("optim.lr", FRACTION, Preset::Float(presets.lr))
        .help("AdamW's learning rate at the end of the warm-up"),
    training("optim.weight_decay", float(0.0, 10.0), Preset::Float(0.01))
        .help("decoupled decay of the weights; none on biases and layer norms"),
    training("optim.beta1", float(0.0, 0.999_999), Preset::Float(0.9))
        .help("decay of AdamW's first moment"),
    training("optim.beta2", float(0.0, 0.999_999_9), Preset::Float(0.999))
        .help("decay of AdamW's second moment"),
    training("optim.eps", float(1e-12, 1.0), Preset::Float(1e-8))
        .help("added to AdamW's denominator"),
    training("sched.name", KeyType::Choice(&["linear", "cosine", "cosine_restart", "polynomial", "one_cycle"]), Preset::Text("linear"))
        .help("how the learning rate falls to 0 after the warm-up; one_cycle: rises and falls, without a warm-up before"),
    training("sched.warmup_ratio", FRACTION, Preset::Float(0.1))
        .help("share of all steps in which the learning rate rises; with one_cycle: of each cycle"),
    training("sched.cosine_cycles", int(1, 1000), Preset::Int(1))
        .help("how often the learning rate falls to 0")
        .only_where(when("sched.name", Is::OneOf(&["cosine_restart", "one_cycle"]))),
    training("sched.poly_power", float(0.01, 100.0), Preset::Float(1.0))
        .help("power of the part of the steps that is left; 1: linear")
        .only_where(when("sched.name", Is::OneOf(&["polynomial"]))),
    ]
}

/// The loss of classes, and how a class is chosen.
pub(super) const CLASSES: [Key; 6] = [
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

/// What kinds that libtorch trains have in common; they say the rest themselves.
pub(super) const BY_LIBTORCH: TaskKind = TaskKind {
    name: "",
    keys: &[],
    metrics: &[],
    presets: &[("supervisor.checkpoint", "true")],
    folds: Some("data.folds"),
    accepts_any_parameter: false,
    in_process: true,
    keeps_checkpoints: true,
    keeps_weights: true,
    halves_batches: true,
    needs_libtorch: true,
};

/// Tables one behind the other; `N` is how many rows they have.
pub(super) const fn joined<T: Copy, const N: usize>(tables: &[&[T]]) -> [T; N] {
    let mut all = [tables[0][0]; N];
    let (mut table, mut at) = (0, 0);
    while table < tables.len() {
        let mut key = 0;
        while key < tables[table].len() {
            all[at] = tables[table][key];
            at += 1;
            key += 1;
        }
        table += 1;
    }
    assert!(at == N, "all rows are there");
    all
}
