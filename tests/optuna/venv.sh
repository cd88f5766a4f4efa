#!/bin/sh
# The virtual environment with one version of Optuna and its driver of PostgreSQL; prints its interpreter's path. `full`
# adds what importances by fANOVA and plots need.
#
#     tests/optuna/venv.sh 5.0.0 [full]
set -eu

version=${1:?usage: venv.sh VERSION [full]}
more=${2:-}
here=$(dirname "$0")
set -- "optuna==$version" 'sqlalchemy>=2,<2.1' psycopg2-binary==2.9.12
if [ "$more" = full ]; then
    set -- "$@" scikit-learn plotly
fi
exec "$here/../venv.sh" "optuna-$version-psycopg2${more:+-$more}" optuna,sqlalchemy,psycopg2 "$@"
