#!/usr/bin/env bash
# tests/gpu.sh on a CUDA runtime without a GPU: what it checks of faults, memory and values holds there, too; its
# times mean nothing. `make test-gpu-standin` runs it.
#
#   tests/standin/gpu.sh TUNE
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
tune=$(realpath "$1")
standin=$("$here/python.sh")

card=$(mktemp -d)
trap 'rm -rf "$card"' EXIT
echo 'memory 8G' > "$card/settings"
# The kernels that the drill brings along do here what they are written to do.
printf '%s\n' 'launch/illegal=sticky:700' 'launch/misaligned=sticky:716' 'launch/spin=spin' > "$card/rules"

export STANDIN_DIR=$card LIBTORCH=$standin/torch TUNE_NVML=$standin/lib/libnvidia-ml.so.1 PATH=$standin/bin:$PATH
export LD_LIBRARY_PATH=$standin/torch/lib:$standin/lib
export DEVICE=cuda:0 LARGE=${LARGE:-bert-base-small} SECONDS_IN_ALL=${SECONDS_IN_ALL:-1500}
"$here/../gpu.sh" "$tune"
