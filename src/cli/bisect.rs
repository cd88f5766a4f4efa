//! `tune bisect STUDY N`: the smallest cause of a trial's failure.

use std::time::Duration;

use clap::Args;

use super::{Common, init_logging};
use device::DevicePolicy;
use messages::exit::{Exit, Failure};

/// `tune bisect`
#[derive(Debug, Args)]
pub struct BisectArgs {
    /// Study
    pub study: String,
    /// Trial number
    pub number: u64,
    /// How long the runs may take together
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = super::doctor::duration)]
    pub budget: Duration,
    /// auto, cpu, cuda or cuda:0 [default: as the study's last run]
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<DevicePolicy>,
}

pub(super) fn bisect(common: &Common, _args: &BisectArgs) -> Result<Exit, Failure> {
    init_logging(common, None)?;
    Err(Failure::internal("not built yet".to_owned()))
}
