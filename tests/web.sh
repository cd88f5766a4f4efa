#!/usr/bin/env bash
# Pages of `tune report` in a real browser: nothing in its console, no request to anywhere, nothing wider than the
# window, on a phone and on a screen, light and dark. With npm, axe-core looks for what a reader cannot use.
#
#   tests/web.sh TUNE [PICTURES]     PICTURES: where screenshots go
set -euo pipefail
tune=$(readlink -f "$1")
pictures=${2:-}
here=$(cd "$(dirname "$0")" && pwd)
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [ -z "$browser" ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
        apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core > /dev/null
        browser=$(command -v chromium)
    else
        echo "error: no chromium here, and only root can install it: apt-get install chromium" >&2
        exit 2
    fi
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/configs"
cp "$here/../configs/synthetic.toml" "$work/configs/"
run() { "$tune" -C "$work" "$@" > "$work/out" 2>&1 || { cat "$work/out"; exit 1; }; }
run synthetic --trials 120 --parallel 3 --repeats 3 --seed 5 --set task.noise=0.03 --set task.step_ms=2 --inject segv:4,kill:3
run synthetic --study two --trials 60 --seed 1 --objective loss:min --objective cost:min
run synthetic --study few --trials 3
for study in synthetic two few; do
    run report "$study" --with few -o "$work/$study.html"
done
axe=
if command -v npm > /dev/null; then
    (cd "$work" && npm install --silent --no-audit --no-fund axe-core@4 > /dev/null 2>&1) && axe=$work/node_modules/axe-core/axe.min.js
fi
python3 "$here/web.py" "$browser" "$work" "${axe:--}" "${pictures:--}"
