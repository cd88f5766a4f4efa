//! The program: parse, run, exit.

use std::process::{ExitCode, Termination};

fn main() -> ExitCode {
    tune::cli::main(std::env::args_os()).report()
}
