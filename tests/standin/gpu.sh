#!/usr/bin/env bash
# tests/gpu.sh on a CUDA runtime without a GPU: what it checks of faults, memory and values holds there, too; its
# times mean nothing. `make test-gpu-standin` runs it.
#
#   tests/standin/gpu.sh TUNE
#
# PyTorch makes the models and is what programs of others use: it is installed once (0.5 GB to download), without
# NVIDIA's libraries, whose places the stand-in takes.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
tune=$(realpath "$1")
cache=${TUNE_CACHE:-$HOME/.cache/tune}
python=$(sh "$here/../venv.sh" torch-2.11.0 numpy --no-deps torch==2.11.0 filelock fsspec jinja2 MarkupSafe mpmath \
    networkx numpy safetensors setuptools sympy typing-extensions)
torch=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib") + "/torch")')
standin=$cache/standin-python
"$python" -B "$here/build.py" "$torch" "$cache/cuda-headers-13.0/nvidia/cu13/include" "$standin"

card=$(mktemp -d)
trap 'rm -rf "$card"' EXIT
echo 'memory 8G' > "$card/settings"
# The kernels that the drill brings along do here what they are written to do.
printf '%s\n' 'launch/illegal=sticky:700' 'launch/misaligned=sticky:716' 'launch/spin=spin' > "$card/rules"
# Python's libtorch_cuda.so is the real one: the one that computes has to be there before it.
mkdir "$card/bin"
printf '#!/bin/sh\nLD_PRELOAD=%s exec %s "$@"\n' "$standin/torch/lib/libtorch_cuda.so" "$python" > "$card/bin/python3"
chmod +x "$card/bin/python3"

export STANDIN_DIR=$card LIBTORCH=$standin/torch TUNE_NVML=$standin/lib/libnvidia-ml.so.1 PATH=$card/bin:$PATH
export LD_LIBRARY_PATH=$standin/torch/lib:$standin/lib
export DEVICE=cuda:0 LARGE=${LARGE:-bert-base-small} SECONDS_IN_ALL=${SECONDS_IN_ALL:-1500}
"$here/../gpu.sh" "$tune"
