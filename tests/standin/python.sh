#!/usr/bin/env bash
# PyTorch on the stand-in for the CUDA runtime: makes what it needs, once per machine, and prints the directory whose
# `bin/python3` is that Python, and whose `torch` and `lib` are what a tune beside it uses.
#
# It is PyTorch's CUDA wheel (0.5 GB to download) without NVIDIA's libraries, whose places the stand-in takes. Optuna is
# there, too.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
cache=${TUNE_CACHE:-$HOME/.cache/tune}
python=$(sh "$here/../venv.sh" torch-2.11.0-optuna-4.9.0 numpy,optuna --no-deps torch==2.11.0 filelock fsspec jinja2 \
    MarkupSafe mpmath networkx numpy safetensors setuptools sympy typing-extensions \
    optuna==4.9.0 alembic colorlog greenlet Mako packaging PyYAML 'sqlalchemy>=2,<2.1' tqdm)
torch=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib") + "/torch")')
standin=$cache/standin-python
"$python" -B "$here/build.py" "$torch" "$cache/cuda-headers-13.0/nvidia/cu13/include" "$standin" >&2
# Python's libtorch_cuda.so is the real one: the one that computes has to be there before it.
cat > "$standin/bin/python3.part-$$" <<END
#!/bin/sh
export LD_LIBRARY_PATH=$standin/torch/lib:$standin/lib\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}
LD_PRELOAD=$standin/torch/lib/libtorch_cuda.so exec $python "\$@"
END
chmod +x "$standin/bin/python3.part-$$"
mv "$standin/bin/python3.part-$$" "$standin/bin/python3"
echo "$standin"
