//! The checks of the machine.

use std::ffi::OsStr;
use std::process::ExitCode;

use super::super::{Common, libtorch, run};
use config::places::Wanted;
use device::{Device, probe};
use doctor::Check;
use doctor::machine::{self, Loaded};
use messages::exit::Failure;

/// All of them, those that failed first.
pub(super) fn checks(common: &Common) -> Result<Vec<Check>, Failure> {
    Ok(machine::checks(&run::project(common, Wanted::Studies)?.dir))
}

/// `tune probe --maps`, a child that may hang or die: loads libtorch, and the driver's library as CUDA does, and says
/// which files are mapped then.
pub(in super::super) fn maps() -> ExitCode {
    let device = probe::first_gpu();
    let why = libtorch::load_for(device.unwrap_or(Device::Cpu)).err();
    if device.is_some() {
        // Only where it lies is of interest.
        let _ = libtorch::open(OsStr::new("libcuda.so.1"));
    }
    probe::print_line(&Loaded::here(why))
}
