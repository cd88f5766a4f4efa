//! What the kinds of task say alike of early stopping.

use crate::ActiveWhen;

/// Epochs in a row without an improvement that end a training; 0: never.
pub const PATIENCE: &str = "train.patience";
/// What the objective must improve by to count.
pub const MIN_DELTA: &str = "train.min_delta";

/// The first epoch is always an improvement, and to stop after the last one is to stop nowhere.
pub(super) const LONG_ENOUGH: ActiveWhen = ActiveWhen::Beyond {
    key: "train.epochs",
    by: 2,
};

/// What early stopping alone reads.
pub(super) const WITH_PATIENCE: ActiveWhen = ActiveWhen::AtLeast {
    key: PATIENCE,
    least: 1,
};
