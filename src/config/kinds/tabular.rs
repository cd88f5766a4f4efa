//! `tabular`: what it reads and reports.

use search::study::Direction;

use super::shared::{BY_LIBTORCH, CLASSES, LoopPresets, SPLIT, joined, training_loop};
use super::text_classification;
use crate::active_when::{ActiveWhen, Is, when};
use crate::key::{Key, KeyType, Preset, data, float, int, training};
use crate::{Metric, TaskKind};

const DEEP: ActiveWhen = when("model.layers", Is::AtLeast(1));
const NUMBERS: ActiveWhen = when(PROBLEM, Is::OneOf(&["regression"]));

/// Whether classes or numbers are predicted.
pub const PROBLEM: &str = "task.problem";
/// Columns that are categories though they look like numbers.
pub const CATEGORICAL: &str = "data.categorical";
/// Columns that are not read.
pub const IGNORE: &str = "data.ignore";

/// Every key of the kind.
pub const KEYS: &[Key] = &joined::<_, 41>(&[&OWN, &SPLIT, &LOOP, &CLASSES]);

const LOOP: [Key; 16] = training_loop(LoopPresets {
    epochs: 50,
    patience: 10,
    batch_size: 64,
    lr: 1e-3,
});

/// Those that no other kind has.
const OWN: [Key; 12] = [
    data(PROBLEM, KeyType::Choice(&["classification", "regression"]), Preset::Text("classification"))
        .help("whether the target is a class or a number"),
    data("data.path", KeyType::Path, Preset::Required)
        .help("the rows: .csv with a header, or .jsonl (one object a line)"),
    data("data.target", KeyType::Text, Preset::Required)
        .help("column that is predicted; all others are read, but for group, part and data.ignore"),
    data(CATEGORICAL, KeyType::List, Preset::Optional)
        .help("columns whose numbers are names; columns with a cell that is no number are categorical anyway"),
    data(IGNORE, KeyType::List, Preset::Optional)
        .help("columns that are not read: numbers of rows, what is not known when one predicts"),
    training("model.layers", int(0, 16), Preset::Int(2))
        .help("hidden layers; 0: a linear model"),
    training("model.hidden", int(1, 65_536), Preset::Int(64))
        .help("width of a hidden layer")
        .only_where(DEEP),
    training("model.activation", KeyType::Choice(&["gelu", "relu", "silu", "tanh"]), Preset::Text("relu"))
        .help("nonlinearity behind a hidden layer")
        .only_where(DEEP),
    training("model.dropout", float(0.0, 0.9), Preset::Float(0.0))
        .help("dropout before each linear layer"),
    training("model.embedding", int(1, 1024), Preset::Int(8))
        .help("numbers that stand for a category, of each categorical column"),
    training("loss.reg.type", KeyType::Choice(&["mse", "huber"]), Preset::Text("mse"))
        .help("squared error, or Huber's, which large errors dominate less; of the target in its standard deviations")
        .only_where(NUMBERS),
    training("loss.reg.delta", float(1e-3, 1e3), Preset::Float(1.0))
        .help("errors beyond it count linearly, in standard deviations of the target")
        .only_where(when("loss.reg.type", Is::OneOf(&["huber"]))),
];

/// Those of classes are text classification's; numbers are in the target's own unit.
pub const METRICS: [Metric; 12] = joined(&[&text_classification::METRICS, &OF_NUMBERS]);

const OF_NUMBERS: [Metric; 3] = [
    Metric::within("rmse", Direction::Minimize, 0.0, f64::INFINITY),
    Metric::within("mae", Direction::Minimize, 0.0, f64::INFINITY),
    Metric::within("r2", Direction::Maximize, f64::NEG_INFINITY, 1.0),
];

/// Task kind `tabular`: a multi-layer perceptron on the columns of a table.
pub static KIND: TaskKind = TaskKind {
    name: "tabular",
    keys: KEYS,
    metrics: &METRICS,
    ..BY_LIBTORCH
};
