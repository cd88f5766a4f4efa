#!/usr/bin/env python3
"""How long a slot stands still: after a worker's death and where a worker is replaced, with and without a spare one.

    benches/recovery/recovery.py --tune target/release/tune --task configs/criteria.toml --deaths 30 --recyclings 30

Runs the task twice, with `--standby off` and with `--standby on`, one trial at a time, kills the worker at a random
moment of every other trial, and reads the events: the time from the kill until the next attempt is sent to a worker
that is ready, and until that attempt's first epoch is reported. Then the same without kills, a worker replaced every third trial:
the time between the end of a trial and the start of the next. With `--drift N` also what a worker that is never replaced
holds of the host's memory after so many trials. Prints tables in Markdown, medians and 95th percentiles.
"""
import argparse
import json
import os
import random
import signal
import sqlite3
import statistics
import subprocess
import tempfile
import time
from datetime import datetime
from pathlib import Path


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tune", required=True, help="the binary")
    parser.add_argument("--task", required=True, help="a task file")
    parser.add_argument("--device", default="cpu", help="cpu or cuda:N")
    parser.add_argument("--deaths", type=int, default=30, help="kills in each of the two runs")
    parser.add_argument("--recyclings", type=int, default=30, help="planned replacements in each of the two runs")
    parser.add_argument("--drift", type=int, default=0, help="trials of a worker that is never replaced")
    parser.add_argument("--ready", type=float, default=2.0, help="seconds that a spare worker gets to become ready")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="passed on to tune")
    parser.add_argument("--seed", type=int, default=0, help="of the moments of the kills")
    return parser.parse_args()


def events(arguments):
    """A run's events, as they come, and then its exit status."""
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            yield json.loads(line)
        if process.wait() != 0:
            raise SystemExit(f"{' '.join(arguments)}: exit status {process.returncode}")


def command(given, home, trials, standby, *sets):
    task = os.path.abspath(given.task)
    keys = [part for key in [*given.set, *sets] for part in ("--set", key)]
    return [
        given.tune, "-C", home, task, "--trials", str(trials), "--parallel", "1", "--json", "--device", given.device,
        "--sampler", "random", "--pruner", "none", "--no-rehearsal", "--standby", standby, *keys,
    ]  # fmt: skip


def moment(event):
    return datetime.fromisoformat(event["time"].replace("Z", "+00:00")).timestamp()


def kill(pid):
    """The moment at which it was killed; nothing where it has gone by itself."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return None
    return time.time()


def deaths(given, standby):
    """Seconds from each kill to the next attempt's start, and to its first epoch."""
    draw, starts, epochs = random.Random(given.seed), [], []
    pids, killed, begun = {}, None, 0
    with tempfile.TemporaryDirectory() as home:
        for event in events(command(given, home, 2 * given.deaths, standby, "supervisor.recycle_after=0")):
            kind = event["event"]
            if kind == "worker_started":
                pids[event["worker"]] = event["pid"]
            elif kind == "trial_started" and killed is not None:
                # What was under way before the kill is read after it.
                if moment(event) > killed:
                    starts.append(moment(event) - killed)
            elif kind == "trial_started":
                begun += 1
                if begun % 2 == 0:
                    # A spare worker gets the time to become ready that a long trial would give it.
                    time.sleep(draw.uniform(0.1, 0.3) + given.ready)
                    killed = kill(pids[event["worker"]])
            elif kind == "epoch_finished" and killed is not None and moment(event) > killed:
                epochs.append(moment(event) - killed)
                killed = None
    return starts, epochs


def recyclings(given, standby):
    """Seconds between two trials where the worker is replaced, and where it is not."""
    replaced, kept, ended, last = [], [], None, None
    with tempfile.TemporaryDirectory() as home:
        trials = 3 * given.recyclings + 1
        for event in events(command(given, home, trials, standby, "supervisor.recycle_after=3")):
            if event["event"] == "trial_finished":
                ended = moment(event)
            elif event["event"] == "trial_started" and ended is not None:
                (kept if event["worker"] == last else replaced).append(moment(event) - ended)
            if event["event"] == "trial_started":
                last = event["worker"]
    return replaced, kept


def drift(given):
    """What the worker held before each trial, in bytes."""
    with tempfile.TemporaryDirectory() as home:
        for _ in events(command(given, home, given.drift, "off", "supervisor.recycle_after=0")):
            pass
        with sqlite3.connect(f"file:{home}/tune.db?mode=ro", uri=True) as database:
            held = database.execute("SELECT resident_before FROM tune_memory ORDER BY trial_id").fetchall()
    return [one for (one,) in held]


def row(what, standby, seconds):
    if not seconds:
        return f"| {what} | {standby} | 0 | | |"
    ordered = sorted(seconds)
    p95 = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
    return f"| {what} | {standby} | {len(seconds)} | {1e3 * statistics.median(seconds):.0f} ms | {1e3 * p95:.0f} ms |"


def main():
    given = options()
    given.tune = str(Path(given.tune).resolve())
    print("| what | spare worker | times | median | 95 % |\n|---|---|---|---|---|")
    for standby in ("off", "on"):
        starts, epochs = deaths(given, standby)
        print(row("a worker's death to the next start", standby, starts))
        print(row("... to the first epoch's end", standby, epochs), flush=True)
        replaced, kept = recyclings(given, standby)
        print(row("trial to trial, worker replaced", standby, replaced))
        print(row("trial to trial, same worker", standby, kept), flush=True)
    if given.drift:
        held = drift(given)
        print("\n| before trial | the worker holds |\n|---|---|")
        for number in sorted({0, 1, 2, 10, 50, 100, 150, len(held) - 1}):
            if number < len(held):
                print(f"| {number} | {held[number] / 2**20:.0f} MiB |")


if __name__ == "__main__":
    main()
