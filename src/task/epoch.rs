//! What a training reports of an epoch.

use serde::{Deserialize, Serialize};

use crate::Metrics;

/// A finished epoch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Epoch {
    /// From 1.
    pub epoch: u32,
    /// By name.
    #[serde(with = "messages::any_float")]
    pub metrics: Metrics,
}
