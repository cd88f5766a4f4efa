//! The numbers that a model computes with.

use anyhow::Result;
use serde::Deserialize;
use tch::Device;

use crate::gpu;

/// What a model computes with, by its word in `train.precision`. Weights and loss are in 32 bits in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 32-bit floats.
    Fp32,
    /// 16-bit brain floats where autocast takes that for safe.
    Bf16,
}

impl Precision {
    /// Holds while the guard lives.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn guard(self, device: Device) -> Result<Option<gpu::Autocast>> {
        match self {
            Precision::Fp32 => Ok(None),
            Precision::Bf16 => Ok(Some(gpu::Autocast::new(device)?)),
        }
    }
}
