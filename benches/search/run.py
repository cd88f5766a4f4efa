#!/usr/bin/env python3
"""Runs samplers on the functions of the search-quality benchmark; what has been run before is not run again.

    run.py --samplers tune,random,optuna-tpe --tune ./target/release/tune:tpe:'"tpe"' --split tune --seeds 5 --evals 100
"""
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed

import results
import table
from functions import ALL
from options import arguments, chosen_functions, chosen_samplers, kept_binaries
from service import ServiceError, run


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
    """Runs the jobs, `workers` at a time; returns how many of tune's failed."""
    failed, began, progress = 0, time.monotonic(), Progress()
    with ProcessPoolExecutor(workers) as pool:
        futures = {pool.submit(attempt, job): job for job in jobs}
        for done, future in enumerate(as_completed(futures), 1):
            sampler, function, seed, parallel, _ = futures[future]
            result, error = future.result()
            what = f"{sampler.name} {function} seed {seed} x{parallel}"
            if error is not None:
                # A peer that fails now and then is not our failure; its runs are missing from the report.
                failed += sampler.exact
                print(f"\nFAILED {what}: {error}", file=sys.stderr)
            else:
                results.save(sampler.key, result)
            left = (time.monotonic() - began) / done * (len(jobs) - done)
            progress.show(f"{done}/{len(jobs)} {left:5.0f} s left  {what}", done == len(jobs))
    return failed


def main():
    options = arguments(__doc__.splitlines()[0])
    if os.nice(0) < 19:
        os.nice(19)
    functions = chosen_functions(options)
    with kept_binaries() as keep:
        samplers = chosen_samplers(options, keep)
        failed = carry_out(list(missing(options, functions, samplers)), options.jobs)
    if not options.quiet:
        table.console(samplers, functions, options.seeds, options.evals, options.parallel)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
