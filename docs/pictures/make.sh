#!/usr/bin/env bash
# The pictures of docs/report.md, of a study made for them: docs/pictures/make.sh TUNE
set -euo pipefail
tune=$(readlink -f "$1")
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/configs"
cp "$here/../../configs/synthetic.toml" "$work/configs/"
"$tune" -C "$work" synthetic --trials 300 --parallel 3 --repeats 3 --seed 5 --set task.noise=0.03 --set task.step_ms=3 \
    --inject segv:6,kill:6,error:4 > "$work/out" 2>&1 || { cat "$work/out"; exit 1; }
for kind in history timeline contour; do
    "$tune" -C "$work" plot "$kind" synthetic --theme auto --width 200 -o "$here/$kind.svg"
done
