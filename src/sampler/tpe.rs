//! Tree-structured Parzen estimator.

use super::{Ask, Sampler};
use crate::space::Params;

/// TPE.
#[derive(Debug, Default)]
pub struct TpeSampler;

impl Sampler for TpeSampler {
    fn name(&self) -> &'static str {
        "tpe"
    }
    fn suggest(&mut self, _ask: &Ask) -> Option<Params> {
        None
    }
}
