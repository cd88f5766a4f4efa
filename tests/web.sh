#!/usr/bin/env bash
# Pages of `tune report` in a real browser: nothing in its console, no request to anywhere, nothing wider than the
# window, on a phone and on a screen, light and dark. With npm, axe-core looks for what a reader cannot use. One is of
# 5,000 trials of 30 parameters, and one is live: of that, what has not changed stays.
#
#   tests/web.sh [--if-there] TUNE [PICTURES]     PICTURES: where screenshots go
#
# --if-there: where Chromium is not there and cannot be installed, that is said, and nothing fails. Only CI installs it then.
set -euo pipefail
if_there=
if [ "$1" = --if-there ]; then
    if_there=yes
    shift
fi
tune=$(readlink -f "$1")
pictures=${2:-}
here=$(cd "$(dirname "$0")" && pwd)
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
# install PACKAGE...: as root of a Debian-like machine.
install() {
    [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null && { [ -z "$if_there" ] || [ -n "${CI:-}" ]; } || return 1
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" > /dev/null
}
if [ -z "$browser" ]; then
    if install chromium fonts-dejavu-core; then
        browser=$(command -v chromium)
    elif [ -n "$if_there" ]; then
        echo "note: no chromium here, and it cannot be installed: the pages of tune report were not looked at" \
            "(apt-get install chromium npm, then make test-web)" >&2
        exit 0
    else
        echo "error: no chromium here, and it cannot be installed: apt-get install chromium, as root" >&2
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
run synthetic --study large --trials 5000 --parallel 2 --sampler random --pruner none --repeats 3 --set task.noise=0.03 \
    --inject segv:20,kill:10
# The other 25 parameters: nothing reads them, but the page has to cope with them.
python3 - "$work/tune.db" << 'END'
import json, random, sqlite3, sys

db = sqlite3.connect(sys.argv[1])
attributes = {"step": None, "low": 0.0, "high": 1.0, "log": False}
domain = json.dumps({"name": "FloatDistribution", "attributes": attributes})
named = "study_id = (SELECT study_id FROM studies WHERE study_name = 'large')"
trials = [row[0] for row in db.execute(f"SELECT trial_id FROM trials WHERE {named}")]
rng = random.Random(0)
db.executemany(
    "INSERT INTO trial_params (trial_id, param_name, param_value, distribution_json) VALUES (?, ?, ?, ?)",
    [(trial, f"more.p{i}", rng.random(), domain) for i in range(25) for trial in trials],
)
db.commit()
END
for study in synthetic two few large; do
    run report "$study" --with few -o "$work/$study.html"
    size=$(stat -c %s "$work/$study.html")
    [ "$size" -lt 1000000 ] || { echo "error: the page of $study has $size bytes" >&2; exit 1; }
done
axe=
if command -v npm > /dev/null || install npm; then
    (cd "$work" && npm install --silent --no-audit --no-fund axe-core@4 > /dev/null 2>&1) && axe=$work/node_modules/axe-core/axe.min.js
fi
if [ -z "$axe" ]; then
    echo "note: axe-core could not be fetched by npm: what a reader cannot use is not looked for" >&2
fi
python3 "$here/web.py" "$browser" "$work" "${axe:--}" "${pictures:--}" "$tune"
