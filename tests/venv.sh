#!/bin/sh
# Makes a virtual environment, once per machine, and prints its interpreter's path.
#
#     tests/venv.sh NAME MODULE[,MODULE...] PACKAGE...
#
# The modules are imported once, to see that the packages work here.
set -eu

name=${1:?usage: venv.sh NAME MODULES PACKAGE...}
modules=${2:?usage: venv.sh NAME MODULES PACKAGE...}
shift 2
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
        if ! "$python" -m pip install --disable-pip-version-check --quiet --retries 2 --timeout 20 \
            "$@" >>"$log" 2>&1; then
            echo "cannot install $* from PyPI (no network?); see $log" >&2
            rm -rf "$home"
            exit 1
        fi
        if ! "$python" -c "import $modules" >>"$log" 2>&1; then
            echo "$* was installed, but does not import; see $log" >&2
            exit 1
        fi
        touch "$home/ready"
    fi
fi
echo "$python"
