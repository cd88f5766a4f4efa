#!/bin/sh
# Tries the Python package with the packages that it works with, and its types: `make test-python`.
#
#     tests/python/packages/run.sh TUNE
set -eu

TUNE=${1:?usage: run.sh TUNE}
here=$(cd "$(dirname "$0")" && pwd)
package=$here/../../../src/python
python=$(sh "$here/../../venv.sh" python-1 optuna,pytest,pandas,polars,mypy \
    optuna==5.0.0 pytest==8.4.2 pandas==3.1.1 polars==2.1.0 numpy==2.4.6 scipy==1.16.3 mypy==1.18.2)
export TUNE PYTHONPATH="$package" PYTHONDONTWRITEBYTECODE=1 TUNE_TORCH_LIBRARY=none
(cd "$package" && "$python" -m mypy --config-file pyproject.toml --cache-dir /dev/null tune)
exec "$python" -m pytest -q -p no:cacheprovider "$here/test_optuna.py" "$here/test_read.py"
