#!/usr/bin/env python3
"""Runs samplers on the functions of the search-quality benchmark; what has been run before is not run again.

    run.py --samplers tune,random,optuna-tpe --tune ./target/release/tune:tpe:'"tpe"' --split tune --seeds 5 --evals 100
"""
import argparse
import os
import shutil
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, as_completed

import report
import results
import samplers as members
from functions import ALL, KINDS, SPLITS
from service import ServiceError, run


def words(text):
    return [word for word in text.split(",") if word]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samplers", type=words, default=["tune", "random", *members.PEERS],
                        help="tune, random, " + ", ".join(members.PEERS))
    parser.add_argument("--tune", action="append", metavar="PATH[:name[:sampler-json]]", default=[],
                        help="a binary, the name of its row, its sampler (or {\"sampler\":...,\"pruner\":...}); repeatable")
    parser.add_argument("--only", type=words, metavar="FUNCTIONS", help="these functions")
    parser.add_argument("--kinds", type=words, default=list(KINDS), help=",".join(KINDS))
    parser.add_argument("--split", choices=(*SPLITS, "all"), default="all", help="functions to tune on, or to judge on")
    parser.add_argument("--seeds", type=int, default=10, help="seeds 0 to SEEDS - 1")
    parser.add_argument("--evals", type=int, default=200, help="evaluations of a run (a multiple of 10 up to 200)")
    parser.add_argument("--parallel", type=lambda text: [int(word) for word in words(text)], default=[1, 4],
                        help="numbers of running trials, 1,4")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="runs at a time")
    parser.add_argument("--quiet", action="store_true", help="no table at the end")
    return parser.parse_args()  # fmt: skip


def chosen_functions(options):
    unknown = set(options.only or ()) - set(ALL) | set(options.kinds) - set(KINDS)
    if unknown:
        sys.exit(f"unknown: {', '.join(sorted(unknown))}; functions: {', '.join(ALL)}")
    return [
        function
        for function in ALL.values()
        if (not options.only or function.name in options.only)
        and function.kind in options.kinds
        and options.split in ("all", function.split)
    ]


def chosen_samplers(options, keep):
    """The samplers asked for; a peer that cannot be had is left out, with a word on stderr."""
    found = []
    for name in options.samplers:
        if name == "tune":
            if not options.tune:
                sys.exit("--tune PATH says which binary")
            found += [members.tune(text, keep) for text in options.tune]
        elif name == "random":
            found.append(members.random_search())
        elif name in members.PEERS:
            try:
                found.append(members.peer(name))
            except RuntimeError as error:
                print(f"left out: {error}", file=sys.stderr)
        else:
            sys.exit(f"unknown sampler {name}: tune, random, {', '.join(members.PEERS)}")
    return found


def missing(options, functions, samplers):
    """What has to be run: seed by seed, so that a stopped run has all functions of the first seeds."""
    have = {sampler.key: results.load(sampler.key) for sampler in samplers}
    for seed in range(options.seeds):
        for parallel in options.parallel:
            for sampler in samplers:
                evals = sampler.evals(options.evals)
                for function in (one for one in functions if one.kind in sampler.kinds):
                    lengths = have[sampler.key].get((function.name, seed, parallel), {})
                    if results.pick(lengths, evals, sampler.exact) is None:
                        yield sampler, function.name, seed, parallel, evals


def attempt(job):
    """One run; the message of what went wrong instead of a result."""
    try:
        sampler, name, *rest = job
        return run(sampler, ALL[name], *rest), None
    except (ServiceError, ValueError) as error:
        return None, str(error)


class Progress:
    """One line on a terminal that is written over; elsewhere (a log) a line a minute."""

    def __init__(self):
        self.terminal = sys.stderr.isatty()
        self.shown = float("-inf")

    def show(self, text, last):
        if self.terminal:
            print(f"\r{text:78.78}", end="\n" if last else "", file=sys.stderr, flush=True)
        elif last or time.monotonic() - self.shown > 60:
            self.shown = time.monotonic()
            print(text, file=sys.stderr, flush=True)


def carry_out(jobs, workers):
    """Runs the jobs, `workers` at a time; returns how many failed."""
    failed, began, progress = 0, time.monotonic(), Progress()
    with ProcessPoolExecutor(workers) as pool:
        futures = {pool.submit(attempt, job): job for job in jobs}
        for done, future in enumerate(as_completed(futures), 1):
            sampler, function, seed, parallel, _ = futures[future]
            result, error = future.result()
            what = f"{sampler.name} {function} seed {seed} x{parallel}"
            if error is not None:
                failed += 1
                print(f"\nFAILED {what}: {error}", file=sys.stderr)
            else:
                results.save(sampler.key, result)
            left = (time.monotonic() - began) / done * (len(jobs) - done)
            progress.show(f"{done}/{len(jobs)} {left:5.0f} s left  {what}", done == len(jobs))
    return failed


def main():
    options = arguments()
    if os.nice(0) < 19:
        os.nice(19)
    results.CACHE.mkdir(parents=True, exist_ok=True)
    keep = tempfile.mkdtemp(prefix="binary-", dir=results.CACHE)
    try:
        functions = chosen_functions(options)
        samplers = chosen_samplers(options, keep)
        failed = carry_out(list(missing(options, functions, samplers)), options.jobs)
        if not options.quiet:
            report.console(samplers, functions, options.seeds, options.evals, options.parallel)
    finally:
        shutil.rmtree(keep)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
