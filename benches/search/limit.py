#!/usr/bin/env python3
"""How samplers get on with a memory limit that 82 % of a space's points do not keep: a Markdown table.

    limit.py --tune ./target/release/tune --seeds 10
"""
import argparse
import math
import os
import statistics
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import environments
from functions.base import choice, real, whole
from service import Service

PEER = Path(__file__).resolve().parent / "peers" / "optuna_study.py"

SPACE = [
    choice("model", ["mini", "base", "large", "xl"]),
    whole("batch", 8, 256, log=True),
    whole("length", 64, 512, step=32),
    whole("hidden", 128, 2048, log=True),
    whole("layers", 1, 8),
    real("lr", 1e-5, 1e-1, log=True),
    real("wd", 1e-6, 1e-1, log=True),
    real("dropout", 0.0, 0.6),
    choice("act", ["relu", "gelu", "silu"]),
    choice("opt", ["adam", "sgd"]),
]
# Weights of the model, in millions.
SIZE = {"mini": 22, "base": 110, "large": 335, "xl": 560}
# In bytes; 82 % of uniformly drawn points need more.
LIMIT = 1.82e9


def memory(params):
    """What a point needs, in bytes: weights with gradients and moments, and activations of the encoder and the head."""
    size = SIZE[params["model"]]
    activations = 2600 * size**0.75 + 14 * params["hidden"] * params["layers"]
    return 16e6 * size + params["batch"] * params["length"] * activations


def value(params):
    """What is minimised. Larger models, inputs and heads are better: the best points lie close to the limit."""
    size = SIZE[params["model"]]
    rate = math.log10(params["lr"]) + 3.2 + (0.5 if size > 200 else 0)
    return (
        0.5
        - 0.05 * math.log(size / 22)
        - 0.03 * math.log2(params["length"] / 64)
        - 0.015 * math.log2(params["hidden"] / 128)
        - 0.004 * params["layers"]
        + 0.03 * rate**2
        + 0.01 * (math.log10(params["wd"]) + 2.5) ** 2
        + 0.3 * (params["dropout"] - 0.2) ** 2
        + 0.01 * (math.log2(params["batch"]) - 5) ** 2
        + (0.02 if params["act"] == "relu" else 0)
        + (0.05 if params["opt"] == "sgd" else 0)
    )


class Count:
    """What became of the trials of a run."""

    def __init__(self):
        self.trials = self.wasted = self.streak = self.longest = 0
        self.best = math.inf

    def add(self, params):
        """Returns whether the point could be run."""
        self.trials += 1
        if memory(params) > LIMIT:
            self.wasted += 1
            self.streak += 1
            self.longest = max(self.longest, self.streak)
            return False
        self.streak = 0
        self.best = min(self.best, value(params))
        return True


def run(service, trials, constraints):
    """One run. A point that needs too much memory has failed; a sampler with constraints is told how much too much it
    is instead, and a value, which no training could tell: its study must have one."""
    count = Count()
    for _ in range(trials):
        reply = service.call(op="ask")
        params = reply["params"]
        fits = count.add(params)
        if constraints:
            pair = [value(params), memory(params) / LIMIT - 1]
            service.call(op="tell", id=reply["id"], value=pair, state="ok")
        elif fits:
            service.call(op="tell", id=reply["id"], value=value(params), state="ok")
        else:
            service.call(op="tell", id=reply["id"], value=None, state="failed")
    return count


def row(name, counts):
    """A line of the table, over the seeds."""
    wasted = [count.wasted / count.trials for count in counts]
    longest = [count.longest for count in counts]
    best = [count.best for count in counts]
    return (
        f"| {name} | {len(counts)} | {statistics.mean(wasted):.1%} ({min(wasted):.1%} to {max(wasted):.1%}) | "
        f"{statistics.median(longest):g} ({max(longest)}) | {statistics.median(best):.4f} ({max(best):.4f}) |"
    ).replace("%", " %")


def samplers(options):
    """Name, command, what `init` says beside the space, whether it has constraints, seeds."""
    for kind in ("auto", "gp", "tpe", "random"):
        yield f"tune {kind}", [options.tune, "ask-tell"], {"sampler": kind}, False, options.seeds
    peers = [("tpe", "TPE", "optuna-5.0.0", options.seeds), ("tpe+constraints", "TPE with constraints", "optuna-5.0.0", options.seeds)]
    if options.gp_seeds:
        peers.append(("gp+constraints", "GP with constraints", "search-bench-gp", options.gp_seeds))
    for kind, name, environment, seeds in peers:
        try:
            python = environments.python(environment)
        except RuntimeError as error:
            print(f"left out: {error}", file=sys.stderr)
            continue
        yield f"Optuna {name}", [python, "-B", str(PEER), kind], {}, "constraints" in kind, seeds


def one_seed(command, init, constraints, seed, trials):
    service = Service(command, {"seed": seed, "n_evals": trials, "max_step": None, "space": SPACE, **init})
    try:
        return run(service, trials, constraints)
    finally:
        service.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tune", required=True, metavar="PATH", help="the binary")
    parser.add_argument("--seeds", type=int, default=10, help="seeds 0 to SEEDS - 1")
    parser.add_argument("--gp-seeds", type=int, default=1, help="the same for Optuna's GP (half an hour each), 0: none")
    parser.add_argument("--trials", type=int, default=200, help="trials of a run")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="runs at a time")
    options = parser.parse_args()
    print(f"{options.trials} trials. Over the seeds: mean (range), median (highest), median (worst).\n")
    print("| sampler | seeds | out of memory | longest streak | best value |\n|---|---|---|---|---|", flush=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        for name, command, init, constraints, seeds in samplers(options):
            jobs = [pool.submit(one_seed, command, init, constraints, seed, options.trials) for seed in range(seeds)]
            print(row(name, [job.result() for job in jobs]), flush=True)


if __name__ == "__main__":
    main()
