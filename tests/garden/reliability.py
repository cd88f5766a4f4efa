"""How far doctor's probabilities can be believed: reads what the tests of the garden have recorded.

    rm -f garden.jsonl
    TUNE_GARDEN=$PWD/garden.jsonl cargo test --workspace --locked --test training -- doctor_garden
    python3 tests/garden/reliability.py garden.jsonl
"""

import json
import sys

BINS = [(0.0, 0.2), (0.2, 0.5), (0.5, 0.8), (0.8, 0.95), (0.95, 1.01)]


def main(path):
    programs = [json.loads(line) for line in open(path)]
    told = [(p, cause == program["cause"]) for program in programs for cause, p in program["hypotheses"]]
    first = sum(program["hypotheses"][0][0] == program["cause"] for program in programs)
    three = sum(program["cause"] in [h[0] for h in program["hypotheses"][:3]] for program in programs)
    missed = sum(program["cause"] not in [h[0] for h in program["hypotheses"]] for program in programs)
    brier = (sum((p - true) ** 2 for p, true in told) + missed) / len(programs)
    print(f"{len(programs)} programs: the true cause first in {first}, among the first three in {three}")
    print(f"runs: {sum(p['runs'] for p in programs) / len(programs):.1f} a program")
    print(f"Brier score, summed over the causes of a program: {brier:.3f}")
    print("| told | causes | true |\n|---|---|---|")
    for low, high in BINS:
        inside = [true for p, true in told if low <= p < high]
        if inside:
            mean = sum(p for p, _ in told if low <= p < high) / len(inside)
            print(f"| {100 * mean:.0f} % | {len(inside)} | {100 * sum(inside) / len(inside):.0f} % |")


main(sys.argv[1])
