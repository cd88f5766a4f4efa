//! `tune TASK`.

use super::{RunArgs, init_logging};
use crate::exit::{Exit, Failure};

pub(super) fn run(args: &RunArgs) -> Result<Exit, Failure> {
    init_logging(&args.common, None)?;
    Err(Failure::internal(
        "the supervisor is not wired to the command line yet",
    ))
}
