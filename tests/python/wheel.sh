#!/bin/sh
# Installs a wheel into a fresh environment, where no compiler and no Rust is to be found, and uses it: `make test-wheel`.
#
#     tests/python/wheel.sh WHEEL
set -eu

wheel=${1:?usage: wheel.sh WHEEL}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
mkdir "$dir/home" "$dir/bin"
for word in sh env ls cat uname; do ln -s "$(command -v "$word")" "$dir/bin/$word"; done
cat >"$dir/home/train.py" <<'END'
import tune

trial = tune.trial(lr=0.01)
for epoch in range(1, 6):
    if trial.report(epoch, loss=(trial.params["lr"] - 0.03) ** 2 + 1 / epoch):
        break
END
cat >"$dir/home/mine.toml" <<'END'
[task]
kind = "command"
run = ["python", "train.py"]
[objective]
metric = "loss"
direction = "minimize"
[space]
lr = { low = 1e-4, high = 1e-1, log = true }
END
installed() {
    (cd "$dir/home" && env -i HOME="$dir/home" PATH="$dir/venv/bin:$dir/bin" PIP_DISABLE_PIP_VERSION_CHECK=1 "$@")
}
start=$(date +%s)
installed pip install --quiet "$wheel"
installed pip check
installed tune --version
installed tune mine.toml --trials 5
echo "from the wheel to the end of the fifth trial: $(($(date +%s) - start)) s"
installed tune trials mine --json | installed python -c 'import json, sys; assert len(json.load(sys.stdin)) == 5'
installed python train.py
for file in bash-completion/completions/tune zsh/site-functions/_tune fish/vendor_completions.d/tune.fish man/man1/tune.1; do
    test -s "$dir/venv/share/$file"
done
# What trains says what is missing, and what brings it.
status=0
installed tune doctor >"$dir/doctor" 2>&1 || status=$?
grep -q libtorch "$dir/doctor" || { echo "tune doctor (exit $status) says nothing of libtorch" >&2; exit 1; }
