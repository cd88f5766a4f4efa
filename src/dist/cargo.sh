#!/bin/sh
# A cargo that writes into each program and library which crates are in it (`cargo audit bin` reads that), for what can be
# told a cargo, but no subcommand. TUNE_CARGO names the real one; cargo-auditable is on the search path.
set -eu

CARGO=${TUNE_CARGO:?} exec cargo-auditable auditable "$@"
