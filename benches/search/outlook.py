#!/usr/bin/env python3
"""The values of searches in the order in which they came, a line of JSON a search: what forecasts are judged by.

    outlook.py --tune ./target/release/tune > searches.jsonl
    cargo run --release -p tune-search --example outlook < searches.jsonl

With --curves they are those whose trials report each step and may be pruned; the budget is then that of EVALS whole
trials, and a trial that was pruned has no loss.
"""
import argparse
import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from functions import ALL
from service import Run, Service


def values(job):
    """What one search has observed, trial by trial; nothing of one that was pruned."""
    binary, name, seed, evals = job
    function = ALL[name]
    init = {"seed": seed, "n_evals": evals, "max_step": function.max_step, "space": function.space}
    service = Service((binary, "ask-tell"), init)
    seen = []

    class Kept(Run):
        def finished(self, spent, observed, value):
            seen.append(observed)

        def cut(self):
            seen.append(None)

    try:
        search = Kept(function, service, seed, 1, evals)
        search.curves() if function.max_step else search.points()
    finally:
        service.close()
    return {"function": name, "seed": seed, "losses": seen}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tune", required=True, help="the binary")
    parser.add_argument("--seeds", type=int, default=3, help="seeds 0 to SEEDS - 1")
    parser.add_argument("--evals", type=int, default=300, help="trials of a search")
    parser.add_argument("--curves", action="store_true", help="the functions with learning curves, and pruning")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="searches at a time")
    options = parser.parse_args()
    os.nice(max(0, 19 - os.nice(0)))
    names = [name for name, function in ALL.items() if bool(function.max_step) == options.curves]
    binary = str(Path(options.tune).resolve())
    jobs = [(binary, name, seed, options.evals) for seed in range(options.seeds) for name in names]
    with ProcessPoolExecutor(options.jobs) as pool:
        for done, found in enumerate(pool.map(values, jobs), 1):
            print(json.dumps(found), flush=True)
            print(f"{done} of {len(jobs)} searches", file=sys.stderr)


if __name__ == "__main__":
    main()
