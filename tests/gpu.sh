#!/usr/bin/env bash
# Every check that needs a GPU, in one call of less than ten minutes, on any machine that has one. Prints
# a table whatever happens, and behind it the end of the log of each check that failed; exits 1 if one
# did, 2 if there is no GPU.
#
#   tests/gpu.sh [TUNE]          TUNE: the program, with libtune_torch.so beside it (default: the release build of this checkout)
#
# What it uses: Python 3, best with PyTorch (models of random weights are made with it), nvidia-smi where
# there is one, and CUDA libraries that the binary finds, for example
#   T=$(python3 -c 'import os, torch; print(os.path.dirname(torch.__file__))')
#   LD_LIBRARY_PATH=$T/lib tests/gpu.sh .gpu/tune
# No network, and nothing of the machine's own caches.
#
#   DEVICE=cuda:0    cpu: the same checks on the CPU, to test this script
#   OUT=DIR          table.md and logs.tgz go there (default: a temporary directory)
#   SECONDS_IN_ALL=540   a check that would begin later is skipped, and one that lasts longer ended
#   COUNT=1          how often the drill makes each fault
#   SLOTS=1          slots of the drill's second round; 1: it has none
#   ROUNDS=1         rounds of the comparison of speeds
#   LARGE=bert-base  the model of the checks of memory; where it is a small one, speeds are compared with that, too
#   TUNE_TESTS=FILE  the binary of the library's tests, for the check of grants
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
tune=$(realpath "${1:-${CARGO_TARGET_DIR:-$HOME/.cache/tune/target}/release/tune}")
device=${DEVICE:-cuda:0}
in_all=${SECONDS_IN_ALL:-540}
out=${OUT:-$(mktemp -d)}
work=$(mktemp -d)
logs=$work/logs
large=${LARGE:-bert-base}
rows=$work/rows
mkdir -p "$out" "$logs"
: > "$rows"
# What the checks leave in temporary directories goes with ours.
export TMPDIR=$work

# --- The table ----------------------------------------------------------------------------------------------

# row CHECK RESULT FIGURE [LOG]: one line of the table, and the log that explains a failure.
row() {
    printf '%s\t%s\t%s\n' "$1" "$2" "$3" >> "$rows"
    printf '%4d s  %s: %s %s\n' "$SECONDS" "$1" "$2" "$3" >&2
    if [[ $2 == FAILED && -n ${4:-} ]]; then printf '%s\n' "$4" >> "$work/failed"; fi
}

finish() {
    status=$?
    trap - EXIT
    set +e
    name=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2> /dev/null | head -1)
    echo
    echo "date $(date -u +%Y-%m-%d), device ${name:-$device}, $("$tune" --version 2>&1 | head -1), $SECONDS s in all"
    echo
    {
        printf 'check\tresult\tfigures\n'
        cat "$rows"
    } | awk -F'\t' '{ printf "| %s | %s | %s |\n", $1, $2, $3 } NR == 1 { print "|---|---|---|" }' | tee "$out/table.md"
    if [[ -s $work/failed ]]; then
        sort -u "$work/failed" | while read -r log; do
            printf '\n--- %s, the end of it ---\n' "$log"
            tail -n 12 "$logs/$log" | cut -c1-400
        done
    fi
    tar -czf "$out/logs.tgz" -C "$work" logs 2> /dev/null && printf '\nlogs: %s\n' "$out/logs.tgz"
    rm -rf "$work"
    if [[ $status == 0 ]] && grep -q '| FAILED |' "$out/table.md"; then status=1; fi
    exit "$status"
}
trap finish EXIT
trap 'row "interrupted" FAILED "after $SECONDS s"; exit 1' INT TERM HUP

# within SECONDS COMMAND...: ends the command after so long, or when the time in all is over.
within() {
    local limit=$1 left=$((in_all - SECONDS))
    shift
    if ((left < limit)); then limit=$left; fi
    if ((limit < 1)); then return 124; fi
    timeout --kill-after=10 "$limit" "$@"
}

# begins CHECK SECONDS: whether there is time for a check; notes where there is none.
begins() {
    if ((SECONDS + $2 <= in_all)); then return 0; fi
    row "$1" skipped "no time left of $in_all s"
    return 1
}

milliseconds() { echo $(($(date +%s%N) / 1000000)); }

# --- The GPU --------------------------------------------------------------------------------------------------

if [[ $device != cpu ]]; then
    if ! "$tune" probe > "$logs/probe.json" 2> "$logs/probe.err" \
        || ! python3 -c 'import json, sys; sys.exit(not json.load(open(sys.argv[1]))["gpus"])' "$logs/probe.json"; then
        nvidia-smi -L >&2 || true
        cat "$logs/probe.json" "$logs/probe.err" >&2
        echo "there is no GPU that tune finds" >&2
        trap - EXIT
        rm -rf "$work"
        exit 2
    fi
fi
torch=no
if python3 -c 'import sys, torch; assert sys.argv[1] == "cpu" or torch.cuda.is_available()' "$device" 2> "$logs/torch.err"; then torch=yes; fi

# --- What the stand-in for the CUDA runtime assumes, on which the tests run where there is no GPU -------------------
check="as the tests' stand-in has it"
if [[ $device == cpu || $torch == no ]]; then
    row "$check" skipped "python3 has no torch with CUDA"
elif begins "$check" 60; then
    within 120 python3 -B "$root/tests/standin/model.py" > "$logs/model.tsv" 2> "$logs/model.err" || true
    row "$check" held "$(awk -F'\t' '$2 == $3 { n++ } END { printf "%d of %d assumptions", n, NR }' "$logs/model.tsv")"
    while IFS=$'\t' read -r what assumed found; do
        if [[ $assumed != "$found" ]]; then row "$what" differs "here: $found; the stand-in: $assumed"; fi
    done < "$logs/model.tsv"
fi

# --- The context, made by dlopen in a worker; the device's health; a run to its goal --------------------------
mkdir -p "$work/project/configs"
cp "$root/configs/synthetic.toml" "$work/project/configs/"
from=$(milliseconds)
if within 90 "$tune" -C "$work/project" synthetic --trials 20 --device "$device" --no-rehearsal --json > "$logs/context.log" 2>&1; then
    row "context made by dlopen, 20 trials" held "$(($(milliseconds) - from)) ms in all"
else
    row "context made by dlopen, 20 trials" FAILED "see context.log" context.log
fi

# --- Training on the device: models of random weights, everything that a trial can choose ---------------------
mkdir -p "$work/train/configs"
cat > "$work/make.py" <<'PY'
"""Checkpoints and 400 rows."""
import csv
import sys
from pathlib import Path

sys.path.insert(0, sys.argv[1])
import made

into = Path(sys.argv[2])
for name in sys.argv[3:]:
    made.checkpoint(name, into / name)
with open(into / "rows.csv", "w", newline="", encoding="utf-8") as file:
    table = csv.writer(file)
    table.writerow(["text", "status"])
    table.writerows(made.texts(400, 96, 1000))
PY
cat > "$work/train/configs/small.toml" <<'TOML'
task = { kind = "text-classification" }
data = { path = "rows.csv", text = "text", label = "status", split = { train = 0.8, validation = 0.2, test = 0.0, seed = 0 } }
objective = { metric = "log_loss", direction = "minimize" }
models = { bert = "bert-base-small", deberta = "deberta-v3-base-small" }
[train]
epochs = 3
patience = 0
batch_size = 16
[space]
"model.name" = { choices = ["bert", "deberta"] }
"model.dropout" = { low = 0.0, high = 0.3 }
"model.attn_dropout" = { low = 0.0, high = 0.3 }
"tok.max_length" = { low = 32, high = 96, step = 16, int = true }
"train.freeze_encoder_layers" = { low = 0, high = 1, int = true }
"train.grad_checkpointing" = { choices = [false, true] }
"train.grad_accum" = { choices = [1, 2] }
"optim.lr" = { low = 1e-5, high = 1e-3, log = true }
"optim.layerwise_lr_decay" = { low = 0.8, high = 1.0 }
"head.pooling" = { choices = ["cls", "mean", "max", "attn"] }
"loss.cls.type" = { choices = ["ce", "focal"] }
"loss.cls.balance" = { choices = ["none", "weighted"] }
TOML
# study NAME PRECISION SLOTS [MORE...]: trials of `small`; their values go to NAME.values.
study() {
    local name=$1 precision=$2 slots=$3
    shift 3
    within 120 "$tune" -C "$work/train" small --study "$name" --trials 12 --parallel "$slots" --device "$device" --sampler random \
        --pruner none --set run.threads=1 --set "train.precision=$precision" --json "$@" > "$logs/train-$name.log" 2>&1 || return 1
    "$tune" -C "$work/train" trials "$name" --json 2> /dev/null > "$logs/train-$name.json"
    python3 - "$logs/train-$name.json" > "$work/$name.values" 2>> "$logs/train-$name.log" <<'PY'
import json
import sys

trials = json.load(open(sys.argv[1]))
for t in trials:
    if t["state"] != "COMPLETE":
        sys.exit(f"trial {t['number']} ended as {t['state']}: {t['attrs']}")
    print(t["number"], t["value"], t["intermediate"])
PY
}
if [[ $torch == no ]]; then
    row "training on the device" skipped "python3 has no torch for $device"
elif ! python3 -B "$work/make.py" "$root/benches/speed" "$work/train/configs" bert-base-small deberta-v3-base-small > "$logs/make.log" 2>&1; then
    row "training on the device" FAILED "the models could not be made, see make.log" make.log
else
    for precision in bf16 fp32; do
        begins "training, $precision" 20 || continue
        from=$(milliseconds)
        # The first one with its rehearsal.
        more=(--no-rehearsal)
        if [[ $precision == bf16 ]]; then more=(); fi
        if study "$precision" "$precision" 1 "${more[@]}"; then
            row "training, $precision: 12 trials of two models" held "$(($(milliseconds) - from)) ms"
        else
            row "training, $precision: 12 trials of two models" FAILED "see train-$precision.log" "train-$precision.log"
        fi
    done
    if [[ -s $work/bf16.values ]] && begins "the same study again" 20; then
        if study again bf16 1 --no-rehearsal && cmp -s "$work/bf16.values" "$work/again.values"; then
            row "the same study again" held "every value bit for bit"
        else
            diff "$work/bf16.values" "$work/again.values" >> "$logs/train-again.log" 2>&1 || true
            row "the same study again" FAILED "$(diff "$work/bf16.values" "$work/again.values" 2> /dev/null | grep -c '^<' || true) of 12 trials differ" train-again.log
        fi
    fi
    if [[ -s $work/bf16.values ]] && begins "killed and gone on" 40; then
        kills=0
        for after in 3 5 7; do
            # The shell would say of its child that it was killed.
            { timeout --signal=KILL "$after" "$tune" -C "$work/train" small --study killed --trials 12 --parallel 1 --device "$device" \
                --sampler random --pruner none --set run.threads=1 --set train.precision=bf16 --no-rehearsal --json >> "$logs/kills.log" 2>&1; } 2> /dev/null || kills=$((kills + 1))
        done
        if study killed bf16 1 --no-rehearsal && cmp -s "$work/bf16.values" "$work/killed.values"; then
            row "killed and gone on" held "$kills times SIGKILL to the supervisor, every value as without"
        else
            diff "$work/bf16.values" "$work/killed.values" >> "$logs/train-killed.log" 2>&1 || true
            row "killed and gone on" FAILED "see train-killed.log" train-killed.log
        fi
    fi
    check="out of memory beside a neighbour"
    if [[ -s $work/bf16.values ]] && begins "$check" 20; then
        ended() { grep -c '"fault":"oom"' "$logs/train-oom.log" || true; }
        if study oom bf16 2 --no-rehearsal --inject oom:3 && cmp -s "$work/bf16.values" "$work/oom.values" && [[ $(ended) == 3 ]]; then
            row "$check" held "3 trials ran out of it, every value as without"
        else
            diff "$work/bf16.values" "$work/oom.values" >> "$logs/train-oom.log" 2>&1 || true
            row "$check" FAILED "$(ended) of 3 ran out of it, see train-oom.log" train-oom.log
        fi
    fi
    "$tune" -C "$work/train" memory bf16 > "$logs/memory.txt" 2>&1 || true
fi

# --- Real faults, their detection and recovery: the fire drill --------------------------------------------------
if begins "fire drill" 60; then
    verdict=held
    # Each death costs a context; another round with two slots would take as long again.
    within 330 "$tune" drill --device "$device" --count "${COUNT:-1}" --parallel "${SLOTS:-1}" --json > "$logs/drill.json" 2> "$logs/drill.log" || verdict=FAILED
    if [[ -s $logs/drill.json ]]; then
        python3 - "$logs/drill.json" >> "$rows" 2>> "$logs/drill.log" <<'PY' || true
import json
import sys

report = json.load(open(sys.argv[1]))
words = lambda counts: ", ".join(sorted(counts)) or "-"
seconds = lambda times: "-" if times.get("median") is None else f"{times['median'] * 1e3:.0f} ms"
for fault in report["faults"]:
    figure = (
        f"{fault['injected']} times ({fault['form']}), detected as {words(fault['detected_as'])} "
        f"after {seconds(fault['detection_s'])}, {words(fault['action'])}, "
        f"next step after {seconds(fault['next_step_s'])}"
    )
    print(f"drill: {fault['fault']}", "held" if fault["held"] else "FAILED", figure, sep="\t")
for problem in report.get("problems", []):
    print(problem, file=sys.stderr)
PY
    fi
    row "fire drill" "$verdict" "see drill.json and drill.log" drill.log
fi

# --- Memory at bert-base's size: what was predicted after a rehearsal, and what trials then used ----------------------
mkdir -p "$work/large/configs"
sed -e 's/^models = .*/models = { bert = "'"$large"'" }/' -e '/^"model.name"/c "model.name" = { choices = ["bert"] }' \
    -e 's/^epochs = .*/epochs = 1/' -e '/^batch_size/d' "$work/train/configs/small.toml" > "$work/large/configs/large.toml"
echo '"train.batch_size" = { choices = [8, 16, 32, 64] }' >> "$work/large/configs/large.toml"
if [[ $device == cpu || $torch == no ]]; then
    row "predicted and measured memory, $large" skipped "python3 has no torch with CUDA"
elif begins "predicted and measured memory, $large" 60; then
    if python3 -B "$work/make.py" "$root/benches/speed" "$work/large/configs" "$large" > "$logs/large.log" 2>&1 \
        && within 150 "$tune" -C "$work/large" large --trials 12 --device "$device" --sampler random --pruner none --json \
            --set train.precision=bf16 >> "$logs/large.log" 2>&1 \
        && python3 - "$work/large/tune.db" > "$work/large.txt" 2>> "$logs/large.log" <<'PY'
import sqlite3
import statistics
import sys

database = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)
rows = database.execute(
    "SELECT reserved + coalesce(context, 0), predicted_expected, predicted_upper, context FROM tune_memory"
    " WHERE outcome = 'completed' AND reserved > 0 AND predicted_upper > 0").fetchall()
assert len(rows) >= 8, rows
above = sum(peak > upper for peak, _, upper, _ in rows)
off = statistics.median(abs(peak - expected) / peak for peak, expected, _, _ in rows)
peaks = [peak / 2**20 for peak, *_ in rows]
contexts = [context / 2**20 for *_, context in rows if context]
print(f"{len(rows)} trials of {min(peaks):.0f} to {max(peaks):.0f} MiB: {above} above the upper prediction,"
      f" {off:.0%} beside the expected one in the median; context {statistics.median(contexts or [0]):.0f} MiB")
sys.exit(above > 2)
PY
    then
        row "predicted and measured memory, $large" held "$(cat "$work/large.txt")"
    else
        row "predicted and measured memory, $large" FAILED "$(cat "$work/large.txt" 2> /dev/null || true)" large.log
    fi
fi

# --- The probe's figures against those of nvidia-smi --------------------------------------------------------------
if [[ $device == cpu || -n ${CUDA_VISIBLE_DEVICES:-} ]] || ! command -v nvidia-smi > /dev/null; then
    row "memory figures against NVML" skipped "no nvidia-smi, or not for all GPUs"
elif begins "memory figures against NVML" 10; then
    sleep 3 | within 20 "$tune" probe --stream > "$logs/stream.jsonl" 2> "$logs/stream.err" || true
    nvidia-smi --query-gpu=memory.total,memory.free,temperature.gpu --format=csv,noheader,nounits > "$logs/smi.csv" 2>> "$logs/stream.err" || true
    if python3 - "$logs/stream.jsonl" "$logs/smi.csv" > "$work/probe.txt" 2>> "$logs/stream.err" <<'PY'
import json
import sys

lines = [json.loads(line) for line in open(sys.argv[1])]
samples = [line["sampled"] for line in lines if "sampled" in line]
assert len(samples) >= 2, lines
for gpu, line in zip(samples[-1], open(sys.argv[2]), strict=True):
    total, free, temperature = (float(x) for x in line.split(","))
    probed = gpu["memory_total"] / 2**20, gpu["memory_used"] / 2**20
    assert abs(probed[0] - total) <= 1 and abs(probed[1] - (total - free)) <= 64, (probed, line)
    assert abs(gpu["temperature"] - temperature) <= 10, (gpu, line)
    print(f"GPU {gpu['index']}: {probed[1]:.0f} of {probed[0]:.0f} MiB in use", end="; ")
PY
    then
        row "memory figures against NVML" held "$(cat "$work/probe.txt")"
    else
        row "memory figures against NVML" FAILED "see stream.jsonl, smi.csv, stream.err" stream.err
    fi
fi

# --- Programs: each sees its slot's GPU and no other; a real assertion in PyTorch touches one trial ---------------
mkdir -p "$work/programs/configs"
cat > "$work/programs/see.sh" <<'SEE'
case $TUNE_DEVICE in cuda:*) [ "$CUDA_VISIBLE_DEVICES" = "${TUNE_DEVICE#cuda:}" ] ;; *) [ -z "$CUDA_VISIBLE_DEVICES" ] ;; esac
echo "$(($? + $1))"
SEE
cat > "$work/programs/configs/see.toml" <<'TOML'
task = { kind = "command", run = ["sh", "see.sh", "{x}"] }
objective = { direction = "minimize" }
space = { x = { choices = [0] } }
TOML
if [[ -z ${CUDA_VISIBLE_DEVICES:-} ]] && begins "a program sees its slot's GPU only" 5; then
    within 60 "$tune" -C "$work/programs" see --trials 1 --device "$device" --json > "$logs/see.log" 2>&1 || true
    if grep -q '"value":0' "$logs/see.log"; then
        row "a program sees its slot's GPU only" held ""
    else
        row "a program sees its slot's GPU only" FAILED "see see.log" see.log
    fi
fi
cat > "$work/programs/gather.py" <<'PY'
import os
import torch

index = torch.tensor([3 if os.environ["TUNE_PARAM_BAD"] == "true" else 0], device="cuda")
print(torch.ones(2, device="cuda").gather(0, index).sum().item())
PY
cat > "$work/programs/configs/gather.toml" <<'TOML'
task = { kind = "command", run = ["python3", "gather.py"] }
objective = { direction = "minimize" }
space = { bad = { choices = [true, false], default = true } }
TOML
if [[ $device == cpu || $torch == no ]]; then
    row "PyTorch program: out-of-range gather" skipped "python3 has no torch with CUDA"
elif begins "PyTorch program: out-of-range gather" 40; then
    within 90 "$tune" -C "$work/programs" gather --trials 4 --sampler random --device "$device" > "$logs/gather.log" 2>&1 || true
    if "$tune" -C "$work/programs" trials gather --json 2>> "$logs/gather.log" | python3 -c '
import json
import sys

trials = json.load(sys.stdin)
assert len(trials) == 4, len(trials)
for t in trials:
    bad = t["params"]["bad"]
    assert bad == (t["attrs"].get("cuda_error") is True), t
    assert not bad or "gather" in t["attrs"]["cuda_error_place"].lower(), t
' 2>> "$logs/gather.log"; then
        row "PyTorch program: out-of-range gather" held "culprits pruned with their place, the others complete"
    else
        row "PyTorch program: out-of-range gather" FAILED "see gather.log" gather.log
    fi
fi

# --- A limit on a worker's memory hits the worker, whatever the GPU has free, and no other process ------------------
if [[ $device != cpu && -n ${TUNE_TESTS:-} ]]; then
    if within 60 "$TUNE_TESTS" a_grant_is_the_offenders_limit --ignored --nocapture > "$logs/grant.log" 2>&1; then
        row "a grant is the offender's limit" held "$(grep -o 'refused after .*' "$logs/grant.log" | head -1 || true)"
    else
        row "a grant is the offender's limit" FAILED "see grant.log" grant.log
    fi
else
    row "a grant is the offender's limit" skipped "TUNE_TESTS=BINARY of the library's tests; the drill's oom has one, too"
fi

# --- Speed beside an expert's PyTorch loop and the old script's: PyTorch is enough, the models have random weights ------
models=(bert-base deberta-v3-base)
sizes=(--batches 32 --rows 512)
if [[ $device == cpu || $large == *-small ]]; then
    models=(bert-base-small)
    sizes=(--length 64 --rows 64)
fi
for model in "${models[@]}"; do
    if [[ $torch == no ]]; then
        row "speed beside PyTorch: $model" skipped "python3 has no torch for $device"
    elif begins "speed beside PyTorch: $model" 60; then
        if within 180 python3 -B "$root/benches/speed/run.py" --tune "$tune" --python python3 --device "$device" "${sizes[@]}" \
            --models "$model" --frozen 0 --rounds "${ROUNDS:-1}" --parts steps > "$logs/speed-$model.md" 2> "$logs/speed-$model.err"; then
            figures=$(awk -F' *\\| *' '$2 == "tune" { printf "%s%s", comma, $4; comma = ", " }' "$logs/speed-$model.md")
            row "speed beside PyTorch: $model" held "times the expert's: $figures (see speed-$model.md)"
        else
            row "speed beside PyTorch: $model" FAILED "see speed-$model.err" "speed-$model.err"
        fi
    fi
done

# --- Taking over: from a worker's death to the next trial's start, with a spare worker and without one ------------------
if begins "from a death to the next start" 90; then
    if within 200 python3 -B "$root/benches/recovery/recovery.py" --tune "$tune" --task "$root/configs/synthetic.toml" --device "$device" \
        --deaths 3 --recyclings 0 --ready 4 --set task.step_ms=50 --set task.steps=12 > "$logs/recovery.md" 2> "$logs/recovery.err"; then
        figures=$(awk -F' *\\| *' '$2 ~ /death/ { printf "%sspare worker %s: %s", comma, $3, $5; comma = ", " }' "$logs/recovery.md")
        row "from a death to the next start" held "$figures (see recovery.md)"
    else
        row "from a death to the next start" FAILED "see recovery.err" recovery.err
    fi
fi

# --- How busy the device is with 1, 2 and as many trials at a time as fit ------------------------------------------
check="busy with --parallel 1, 2 and auto"
if [[ -e $work/train/configs/bert-base-small ]] && begins "$check" 45; then
    if within 150 python3 -B "$root/benches/recovery/utilisation.py" --tune "$tune" --task "$work/train/configs/small.toml" \
        --device "$device" --trials 12 --set train.precision=bf16 --set run.threads=1 > "$logs/utilisation.md" 2> "$logs/utilisation.err"; then
        figures=$(awk -F' *\\| *' 'NR > 2 { printf "%s%s: %s (%s trials an hour)", comma, $2, $6, $5; comma = ", " }' "$logs/utilisation.md")
        row "$check" held "$figures (see utilisation.md)"
    else
        row "$check" FAILED "see utilisation.err" utilisation.err
    fi
fi
