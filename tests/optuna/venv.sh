#!/bin/sh
# The virtual environment with one version of Optuna; prints its interpreter's path. `full` adds what
# importances by fANOVA and plots need.
#
#     tests/optuna/venv.sh 5.0.0 [full]
set -eu

version=${1:?usage: venv.sh VERSION [full]}
here=$(dirname "$0")
if [ "${2:-}" = full ]; then
    exec "$here/../venv.sh" "optuna-$version-full" optuna,sqlalchemy \
        "optuna==$version" 'sqlalchemy>=2,<2.1' scikit-learn plotly
fi
exec "$here/../venv.sh" "optuna-$version" optuna,sqlalchemy "optuna==$version" 'sqlalchemy>=2,<2.1'
