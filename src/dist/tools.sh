#!/bin/sh
# Installs what a release is made with, once per machine, and prints the directory of the programs.
#
#     src/dist/tools.sh
#
# Pinned: what they write is part of a release, which is to be the same wherever it is built.
set -eu

cargo=${CARGO:-cargo}
tools=${TUNE_CACHE:-$HOME/.cache/tune}/tools
# Not beside the crates of tune itself.
unset CARGO_TARGET_DIR
for tool in cargo-auditable@0.7.7 cargo-cyclonedx@0.5.9 cargo-about@0.9.3; do
    "$cargo" install --list --root "$tools" | grep -q "^${tool%@*} v${tool#*@}:" ||
        "$cargo" install --quiet --locked --root "$tools" --features "$([ "${tool%@*}" != cargo-about ] || echo cli)" "$tool" >&2
done
echo "$tools/bin"
