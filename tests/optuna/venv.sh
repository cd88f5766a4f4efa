#!/bin/sh
# Makes the virtual environment with one version of Optuna, once per machine, and prints its
# interpreter's path. `full` adds what importances by fANOVA and plots need.
#
#     tests/optuna/venv.sh 5.0.0 [full]
set -eu

version=${1:?usage: venv.sh VERSION [full]}
extra=""
name="optuna-$version"
if [ "${2:-}" = full ]; then
    extra="scikit-learn plotly"
    name="$name-full"
fi
home="${XDG_CACHE_HOME:-$HOME/.cache}/tune/venv/$name"
python="$home/bin/python"
log="$home.log"

if [ ! -e "$home/ready" ]; then
    mkdir -p "$(dirname "$home")"
    # Two test runs may come here at once: the first makes it, the second waits.
    exec 9>"$home.lock"
    flock 9
    if [ ! -e "$home/ready" ]; then
        rm -rf "$home"
        if ! python3 -m venv "$home" >"$log" 2>&1; then
            echo "cannot make a virtual environment in $home (python3 -m venv); see $log" >&2
            exit 1
        fi
        # shellcheck disable=SC2086 # several packages
        if ! "$python" -m pip install --disable-pip-version-check --quiet --retries 2 --timeout 20 \
            "optuna==$version" 'sqlalchemy>=2,<2.1' $extra >>"$log" 2>&1; then
            echo "cannot install optuna==$version from PyPI (no network?); see $log" >&2
            rm -rf "$home"
            exit 1
        fi
        if ! "$python" -c 'import optuna, sqlalchemy' >>"$log" 2>&1; then
            echo "optuna $version was installed, but does not import; see $log" >&2
            exit 1
        fi
        touch "$home/ready"
    fi
fi
echo "$python"
