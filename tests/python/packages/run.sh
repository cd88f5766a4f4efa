#!/bin/sh
# Tries the Python package with the packages that it works with.
#
#     tests/python/packages/run.sh TUNE              its types, Optuna, pandas and polars: `make test-python`
#     tests/python/packages/run.sh TUNE callbacks    training loops, and the notebook: `make test-python-callbacks`
set -eu

TUNE=${1:?usage: run.sh TUNE [callbacks]}
what=${2:-}
here=$(cd "$(dirname "$0")" && pwd)
package=$here/../../../src/python
export TUNE PYTHONPATH="$package" PYTHONDONTWRITEBYTECODE=1 TUNE_TORCH_LIBRARY=none

if [ "$what" = callbacks ]; then
    python=$(sh "$here/../../venv.sh" callbacks-1 torch,transformers,accelerate,lightning,xgboost,lightgbm,catboost,nbclient,ipykernel,pytest,pandas \
        torch==2.11.0 transformers==5.24.0 accelerate==1.15.0 lightning==2.6.6 keras==3.15.1 xgboost-cpu==3.2.0 lightgbm==4.7.0 \
        catboost==1.2.10 nbclient==0.11.0 ipykernel==7.4.0 pytest==8.4.2 pandas==3.1.1)
    exec "$python" -m pytest -q -p no:cacheprovider "$here/test_callbacks.py" "$here/test_notebook.py"
fi

python=$(sh "$here/../../venv.sh" python-1 optuna,pytest,pandas,polars,mypy \
    optuna==5.0.0 pytest==8.4.2 pandas==3.1.1 polars==2.1.0 numpy==2.4.6 scipy==1.16.3 mypy==1.18.2)
(cd "$package" && "$python" -m mypy --config-file pyproject.toml --cache-dir /dev/null tune)
exec "$python" -m pytest -q -p no:cacheprovider "$here/test_optuna.py" "$here/test_read.py"
