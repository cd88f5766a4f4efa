#!/bin/sh
# Makes the virtual environment with one version of Optuna, once per machine, and prints its
# interpreter's path: tests/optuna/venv.sh 5.0.0
set -eu

version=${1:?usage: venv.sh VERSION}
home="${XDG_CACHE_HOME:-$HOME/.cache}/tune/venv/optuna-$version"
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
        if ! "$python" -m pip install --disable-pip-version-check --quiet --retries 2 --timeout 20 \
            "optuna==$version" 'sqlalchemy>=2,<2.1' >>"$log" 2>&1; then
            echo "cannot install optuna==$version from PyPI (no network?); see $log" >&2
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
