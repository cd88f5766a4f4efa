"""The options of run.py and report.py, and what they choose."""
import argparse
import os
import shutil
import sys
import tempfile
from contextlib import contextmanager

import results
import samplers as members
from functions import ALL, KINDS, SPLITS


def words(text):
    return [word for word in text.split(",") if word]


def arguments(description):
    """The command line, parsed."""
    parser = argparse.ArgumentParser(description=description)
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
    """The functions asked for."""
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


@contextmanager
def kept_binaries():
    """A directory for copies of the binaries, until the end of the run."""
    results.CACHE.mkdir(parents=True, exist_ok=True)
    keep = tempfile.mkdtemp(prefix="binary-", dir=results.CACHE)
    try:
        yield keep
    finally:
        shutil.rmtree(keep)
