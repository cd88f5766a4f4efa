#!/usr/bin/env python3
"""How busy the device is, and how many trials an hour end, with `--parallel 1`, `2` and `auto`.

    benches/recovery/utilisation.py --tune target/release/tune --task configs/criteria.toml --trials 12

Runs the same trials (drawn at random, so that they do not depend on what ran beside them) once for each. Busy is, on the
CPU, the CPU time of all processes as a part of what all cores have; on a GPU, the mean of what nvidia-smi says twice a
second, which is the part of the time in which some kernel ran. Both from the first trial's start to the last one's end.
Trials at a time are a mean over that time. Prints a table in Markdown.
"""
import argparse
import os
import resource
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path

from recovery import events, moment


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tune", required=True, help="the binary")
    parser.add_argument("--task", required=True, help="a task file")
    parser.add_argument("--device", default="cpu", help="cpu or cuda:N")
    parser.add_argument("--trials", type=int, default=12, help="trials of each run")
    parser.add_argument("--parallel", default="1,2,auto", help="what to compare")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="passed on to tune")
    return parser.parse_args()


def cpu_seconds():
    """Of all processes that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Smi:
    """What nvidia-smi says of a GPU, twice a second, until it is closed."""

    def __init__(self, gpu):
        query = ["--query-gpu=utilization.gpu,memory.used", "--format=csv,noheader,nounits"]
        self.process = subprocess.Popen(
            ["nvidia-smi", "-i", str(gpu), "-lms", "500", *query], stdout=subprocess.PIPE, text=True
        )

    def close(self):
        """Mean utilisation as a part of 1, and the most memory in use, in MiB."""
        self.process.terminate()
        text, _ = self.process.communicate()
        rows = [[float(field) for field in line.split(",")] for line in text.splitlines() if line.count(",") == 1]
        if not rows:
            return None
        return statistics.mean(row[0] for row in rows) / 100, max(row[1] for row in rows)


def run(given, parallel):
    """Runs the trials; returns a row of the table."""
    keys = [part for key in given.set for part in ("--set", key)]
    running, at_a_time, states = {}, 0.0, []
    smi, said, first, last = None, None, None, None
    before = cpu_seconds()
    with tempfile.TemporaryDirectory() as home:
        arguments = [
            given.tune, "-C", home, os.path.abspath(given.task), "--trials", str(given.trials), "--parallel", parallel,
            "--json", "--device", given.device, "--sampler", "random", "--pruner", "none", "--no-rehearsal", *keys,
        ]  # fmt: skip
        try:
            for event in events(arguments):
                if event["event"] == "trial_started":
                    running[event["number"]] = moment(event)
                    first = first or moment(event)
                    if smi is None and given.device.startswith("cuda") and shutil.which("nvidia-smi"):
                        smi = Smi(given.device.partition(":")[2] or 0)
                elif event["event"] == "trial_finished":
                    states.append(event["state"])
                    last = moment(event)
                    at_a_time += last - running.pop(event["number"], last)
                    if len(states) == given.trials and smi is not None:
                        said = smi.close()
        finally:
            # It would go on for ever.
            if smi is not None:
                smi.process.kill()
    took = last - first
    if given.device == "cpu":
        busy = f"{(cpu_seconds() - before) / took / os.cpu_count():.0%} of {os.cpu_count()} cores"
    else:
        busy = "unknown" if not said else f"{said[0]:.0%}, at most {said[1]:.0f} MiB in use"
    complete = states.count("COMPLETE")
    return f"| {parallel} | {complete} of {len(states)} | {at_a_time / took:.1f} | {3600 * len(states) / took:.0f} | {busy} |"


def main():
    given = options()
    given.tune = str(Path(given.tune).resolve())
    print("| `--parallel` | complete | at a time | trials an hour | busy |\n|---|---|---|---|---|")
    for parallel in given.parallel.split(","):
        print(run(given, parallel), flush=True)


if __name__ == "__main__":
    main()
