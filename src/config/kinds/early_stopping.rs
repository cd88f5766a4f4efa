//! What the kinds of task say alike of early stopping.

use crate::active_when::{ActiveWhen, Is, when};

/// Epochs in a row without an improvement that end a training; 0: never.
pub const PATIENCE: &str = "train.patience";
/// What the objective must improve by to count.
pub const MIN_DELTA: &str = "train.min_delta";

/// The first epoch is always an improvement, and to stop after the last one is to stop nowhere.
pub(super) const LONG_ENOUGH: ActiveWhen = when("train.epochs", Is::Beyond(2));

/// What early stopping alone reads.
pub(super) const WITH_PATIENCE: ActiveWhen = when(PATIENCE, Is::AtLeast(1));
