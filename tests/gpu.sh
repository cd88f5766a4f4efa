#!/usr/bin/env bash
# Every check that needs a GPU, in one call, on any machine that has one. Prints a table; exits 1 if a
# check failed, 2 if there is no GPU.
#
#   tests/gpu.sh [TUNE]          TUNE: the binary (default: the release build of this checkout)
#
# What it uses: nvidia-smi, Python 3, and CUDA libraries that the binary finds, for example
#   T=$(python3 -c 'import os, torch; print(os.path.dirname(torch.__file__))')
#   LD_LIBRARY_PATH=$T/lib tests/gpu.sh .gpu/tune
# DEVICE=cpu runs the same checks on the CPU, to test this script.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
tune=$(realpath "${1:-${CARGO_TARGET_DIR:-$HOME/.cache/tune/target}/release/tune}")
device=${DEVICE:-cuda:0}
out=${OUT:-$(mktemp -d)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [[ $device != cpu ]] && ! nvidia-smi -L; then
    echo "there is no GPU that nvidia-smi knows" >&2
    exit 2
fi
failed=0
rows=$work/rows
: > "$rows"

# row CHECK RESULT FIGURE: one line of the table.
row() {
    printf '%s\t%s\t%s\n' "$1" "$2" "$3" >> "$rows"
    if [[ $2 == FAILED ]]; then failed=1; fi
}

# A project of its own with the synthetic task.
mkdir -p "$work/project/configs"
cp "$root/configs/synthetic.toml" "$work/project/configs/"

# --- The context, made by dlopen in a worker; the device's health; a run to its goal ------------------
log=$out/context.log
start=$(date +%s%N)
if "$tune" -C "$work/project" synthetic --trials 20 --device "$device" --json > "$log" 2>&1; then
    row "context made by dlopen, 20 trials" held "$((($(date +%s%N) - start) / 1000000)) ms in all"
else
    row "context made by dlopen, 20 trials" FAILED "see $log"
fi

# --- Real faults, their detection and recovery: the fire drill ------------------------------------------
if "$tune" drill --device "$device" --json > "$out/drill.json" 2> "$out/drill.log"; then
    verdict=held
else
    verdict=FAILED
fi
row "fire drill" "$verdict" "see $out/drill.json"
if [[ -s $out/drill.json ]]; then
    python3 - "$out/drill.json" >> "$rows" <<'PY'
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
PY
fi

# --- The probe's figures against those of nvidia-smi -----------------------------------------------------
if [[ $device != cpu && -z ${CUDA_VISIBLE_DEVICES:-} ]]; then
    sleep 3 | "$tune" probe --stream > "$out/probe.jsonl" || true
    nvidia-smi --query-gpu=memory.total,memory.free,temperature.gpu --format=csv,noheader,nounits > "$out/smi.csv"
    if python3 - "$out/probe.jsonl" "$out/smi.csv" > "$work/probe.txt" 2> "$out/probe.err" <<'PY'
import json
import sys

samples = [json.loads(line)["sampled"] for line in open(sys.argv[1]) if "sampled" in line]
assert len(samples) >= 2, samples
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
        row "memory figures against NVML" FAILED "see $out/probe.jsonl, $out/smi.csv, $out/probe.err"
    fi
fi

# --- Programs: each sees its slot's GPU and no other; a real assertion in PyTorch touches one trial --------
mkdir -p "$work/programs/configs"
cat > "$work/programs/see.sh" <<'SH'
case $TUNE_DEVICE in cuda:*) [ "$CUDA_VISIBLE_DEVICES" = "${TUNE_DEVICE#cuda:}" ] ;; *) [ -z "$CUDA_VISIBLE_DEVICES" ] ;; esac
echo "$(($? + $1))"
SH
cat > "$work/programs/configs/see.toml" <<'TOML'
task = { kind = "command", run = ["sh", "see.sh", "{x}"] }
objective = { direction = "minimize" }
space = { x = { choices = [0] } }
TOML
if [[ -z ${CUDA_VISIBLE_DEVICES:-} ]]; then
    "$tune" -C "$work/programs" see --trials 1 --device "$device" --json > "$out/see.log" 2>&1 || true
    if grep -q '"value":0' "$out/see.log"; then
        row "a program sees its slot's GPU only" held ""
    else
        row "a program sees its slot's GPU only" FAILED "see $out/see.log"
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
if [[ $device != cpu ]] && python3 -c 'import torch; assert torch.cuda.is_available()' 2> /dev/null; then
    "$tune" -C "$work/programs" gather --trials 6 --sampler random --device "$device" > "$out/gather.log" 2>&1 || true
    if "$tune" -C "$work/programs" trials gather --json 2> /dev/null | python3 -c '
import json
import sys

trials = json.load(sys.stdin)
assert len(trials) == 6
for t in trials:
    bad = t["params"]["bad"]
    assert bad == (t["attrs"].get("cuda_error") is True), t
    assert not bad or "gather" in t["attrs"]["cuda_error_place"].lower(), t
' 2> "$out/gather.err"; then
        row "PyTorch program: out-of-range gather" held "culprits pruned with their place, the others complete"
    else
        row "PyTorch program: out-of-range gather" FAILED "see $out/gather.log, $out/gather.err"
    fi
else
    row "PyTorch program: out-of-range gather" skipped "python3 has no torch with CUDA"
fi

# --- A limit on a worker's memory hits the worker, whatever the GPU has free, and no other process ------------
if [[ $device != cpu && -n ${TUNE_TESTS:-} ]]; then
    if "$TUNE_TESTS" a_grant_is_the_offenders_limit --ignored --nocapture > "$out/grant.log" 2>&1; then
        row "a grant is the offender's limit" held "$(grep -o 'refused after .*' "$out/grant.log" | head -1)"
    else
        row "a grant is the offender's limit" FAILED "see $out/grant.log"
    fi
else
    row "a grant is the offender's limit" skipped "TUNE_TESTS=BINARY of the library's tests"
fi

# --- Training on the device ---------------------------------------------------------------------------------
model=${MODEL:-$HOME/.cache/tune/models/minilm}
if [[ -e $model/config.json ]]; then
    mkdir -p "$work/train/configs"
    cp -r "$root/configs/data" "$root/configs/criteria.toml" "$work/train/configs/"
    start=$(date +%s%N)
    if "$tune" -C "$work/train" criteria --trials 3 --epochs 1 --device "$device" \
        --set "models.minilm=$model" --json > "$out/train.log" 2>&1; then
        best=$("$tune" -C "$work/train" best --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["best"]["value"])')
        row "training on the device, 3 trials" held "$((($(date +%s%N) - start) / 1000000)) ms, best macro_f1 $best"
    else
        row "training on the device, 3 trials" FAILED "see $out/train.log"
    fi
else
    row "training on the device, 3 trials" skipped "no checkpoint at $model (MODEL=DIR)"
fi

# --- Speed beside an expert's PyTorch loop and the old script's: PyTorch is enough, the models have random weights ------
sizes=(--models bert-base,deberta-v3-base --batches 16,32)
if [[ $device == cpu ]]; then sizes=(--models bert-base-small --length 64 --rows 64); fi
if python3 -c 'import sys, torch; assert sys.argv[1] == "cpu" or torch.cuda.is_available()' "$device" 2> /dev/null; then
    for model in ${sizes[1]//,/ }; do
        if python3 -B "$root/benches/speed/run.py" --tune "$tune" --python python3 --device "$device" "${sizes[@]}" \
            --models "$model" --frozen 0 --rounds 3 --parts steps,start > "$out/speed-$model.md" 2> "$out/speed-$model.err"; then
            figures=$(awk -F' *\\| *' '$2 == "tune" { printf "%s%s", comma, $4; comma = ", " }' "$out/speed-$model.md")
            row "speed beside PyTorch: $model" held "times the expert's: $figures (see $out/speed-$model.md)"
        else
            row "speed beside PyTorch: $model" FAILED "see $out/speed-$model.err"
        fi
    done
else
    row "speed beside PyTorch" skipped "python3 has no torch for $device"
fi

name=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2> /dev/null | head -1 || true)
echo
echo "date $(date -u +%Y-%m-%d), device ${name:-$device}, $("$tune" --version)"
echo
{
    printf 'check\tresult\tfigures\n'
    cat "$rows"
} | awk -F'\t' '{ printf "| %s | %s | %s |\n", $1, $2, $3 } NR == 1 { print "|---|---|---|" }' | tee "$out/table.md"
if grep -q "FAILED" "$rows"; then failed=1; fi
exit "$failed"
