"""What two studies in one database cost each other.

Two studies are filled with trials, then both go on at the same time: in one database, and, for comparison, each in a
database of its own. Both ways do the same work on the same machine, one after the other, several times.

    together.py --tune PATH [--trials 5000] [--more 500] [--rounds 5] [--step-ms 5]
"""

import argparse
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile
import time

STUDIES = ("one", "two")


def start(tune, database, study, trials, step_ms, sampler):
    command = [tune, "synthetic", "--study", study, "--trials", str(trials), "--parallel", "1", "--quiet"]
    command += ["--storage", str(database), "--sampler", sampler, "--set", f"task.step_ms={step_ms}"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def finish(children):
    """Waits for all; the seconds of processor time that each has used with all its workers."""
    used = []
    for child in children:
        _, status, usage = os.wait4(child.pid, 0)
        assert os.waitstatus_to_exitcode(status) == 0, child.args
        used.append(usage.ru_utime + usage.ru_stime)
    return used


def fill(args, databases):
    """So many trials in each study, quickly."""
    children = [start(args.tune, d, s, args.trials, 0, "random") for d, s in zip(databases, STUDIES)]
    finish(children)


def measure(args, directory, names):
    """Both go on in copies of the filled databases; seconds of time and of processor time."""
    with tempfile.TemporaryDirectory(dir=directory) as place:
        for name in set(names):
            shutil.copy(directory / name, place)
        begun = time.monotonic()
        goal = args.trials + args.more
        children = [
            start(args.tune, pathlib.Path(place) / n, s, goal, args.step_ms, args.sampler)
            for n, s in zip(names, STUDIES)
        ]
        used = finish(children)
        return time.monotonic() - begun, sum(used)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tune", required=True, type=os.path.abspath, help="the binary")
    parser.add_argument("--trials", type=int, default=5000, help="trials that each study has before")
    parser.add_argument("--more", type=int, default=500, help="trials that each is continued by")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--step-ms", type=float, default=5.0, help="length of a step; a trial that is not pruned has nine")
    parser.add_argument("--sampler", default="random")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        directory = pathlib.Path(place)
        own, shared = ["one.db", "two.db"], ["both.db", "both.db"]
        for names in (own, shared):
            fill(args, [directory / name for name in names])
        rows = {"own": [], "shared": []}
        for number in range(args.rounds):
            for what, names in (("own", own), ("shared", shared)):
                seconds, used = measure(args, directory, names)
                rows[what].append((seconds, used))
                print(f"round {number + 1}, {what}: {seconds:.2f} s, {used:.2f} s of processor time", flush=True)
        for i, what in enumerate(("time", "processor time")):
            of = {name: statistics.median(row[i] for row in taken) for name, taken in rows.items()}
            print(f"{what}: {of['own']:.2f} s apart, {of['shared']:.2f} s in one database, ratio {of['shared'] / of['own']:.3f}")


main()
