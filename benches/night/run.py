#!/usr/bin/env python3
"""The old night, replayed: the script that tune replaces, and tune, on the same card with the same faults.

    run.py --tune ./target/release/tune --standin ~/.cache/tune/standin-python

The card is the stand-in for the CUDA runtime (tests/standin), as small beside its trials as theirs was. Faults come when so
many trials are finished. A person looks after both alike: where a program has ended short of its goal, or has finished nothing
for a while, it is killed and started again, the old one with a thread less each time, as they did. Prints a table.
"""
import argparse
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from datetime import datetime
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "speed"))

from contest import KEYS, project  # noqa: E402

MODELS = {"bert": "bert-base-small", "deberta": "deberta-v3-base-small"}
ROWS = {"train": 128, "validation": 64}
EPOCHS, PATIENCE = 4, 1
SPACE = {
    "model": {"choices": list(MODELS)}, "max_length": {"low": 32, "high": 128, "step": 32, "int": True},
    "batch_size": {"choices": [8, 16, 32, 64]}, "frozen": {"low": 0, "high": 2, "int": True},
    "lr": {"low": 5e-6, "high": 3e-3, "log": True}, "weight_decay": {"low": 1e-6, "high": 0.2, "log": True},
    "warmup_ratio": {"low": 0.0, "high": 0.2}, "dropout": {"low": 0.0, "high": 0.5}, "clip_grad": {"low": 0.1, "high": 1.5},
}  # fmt: skip
# After so many finished trials of 500: what the next launch of a matrix product meets.
FAULTS = {
    0.30: ("an assert", "sticky:710"), 0.45: ("a hang", "spin"), 0.60: ("an assert", "sticky:710"),
    0.75: ("a lost context", "sticky:700"), 0.90: ("an assert", "sticky:710"),
}  # fmt: skip
# User attributes of a trial that a fault ended.
MARKS = ("oom", "cuda_error", "hang", "infeasible", "fault")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tune", type=Path, required=True)
    parser.add_argument("--standin", type=Path, required=True, help="what tests/standin/python.sh printed")
    parser.add_argument("--trials", type=int, default=500)
    parser.add_argument("--parallel", type=int, default=4)
    parser.add_argument("--memory", default="560M", help="of the card")
    parser.add_argument("--context", default="16M", help="of its memory that each process takes")
    parser.add_argument("--poll", type=float, default=2.0, help="seconds between two looks of the old supervisor")
    parser.add_argument("--patience", type=float, default=90.0, help="seconds without a finished trial, to the person")
    parser.add_argument("--only", choices=["old", "tune"])
    parser.add_argument("--keep", type=Path, help="a directory for what the programs write")
    return parser.parse_args()


class Card:
    """A card of its own for a program, and its rules."""

    def __init__(self, folder, options):
        self.folder, self.options, self.due = folder, options, sorted(FAULTS)
        folder.mkdir(parents=True)
        (folder / "settings").write_text(f"memory {options.memory}\ncontext {options.context}\n")
        (folder / "rules").write_text("")

    def environment(self):
        """For programs on this card."""
        standin = self.options.standin
        return {
            **os.environ, "STANDIN_DIR": str(self.folder), "LIBTORCH": str(standin / "torch"),
            "TUNE_NVML": str(standin / "lib" / "libnvidia-ml.so.1"), "OMP_NUM_THREADS": "1",
            "LD_LIBRARY_PATH": f"{standin / 'torch' / 'lib'}:{standin / 'lib'}", "PYTHONDONTWRITEBYTECODE": "1",
        }  # fmt: skip

    def advance(self, finished):
        """Faults that are due by now."""
        while self.due and finished >= self.due[0] * self.options.trials:
            name, action = FAULTS[self.due.pop(0)]
            with open(self.folder / "rules", "a") as rules:
                rules.write(f"launch/cublas*@1x1={action}\n")
            say(f"  {finished} finished: {name}")

    def fired(self):
        """How many rules had their effect."""
        log = self.folder / "log"
        return log.read_text().count("fault launch") if log.exists() else 0


def say(text):
    print(text, file=sys.stderr, flush=True)


def prepare(folder, options):
    """Models with random weights, and rows of which a tenth have the other class: made by whoever has PyTorch."""
    code = (
        "import csv, random, sys, made; from pathlib import Path; folder, rows = Path(sys.argv[1]), eval(sys.argv[2]);"
        "[made.checkpoint(name, folder / name) for name in sys.argv[3:]];"
        "rng = random.Random(1); table = csv.writer(open(folder / 'rows.csv', 'w', newline=''));"
        "parts = [part for part, count in rows.items() for _ in range(count)];"
        "table.writerow(['text', 'status', 'part']);"
        "[table.writerow([text, status ^ (rng.random() < 0.1), part])"
        " for part, (text, status) in zip(parts, made.texts(len(parts), 128, 1000))]"
    )
    command = [options.standin / "bin" / "python3", "-c", code, folder, repr(ROWS), *MODELS.values()]
    environment = Card(folder / "card", options).environment()
    subprocess.run(command, cwd=HERE.parent / "speed", env=environment, check=True)


class Old:
    """The script and its supervisor."""

    name = "the old script"

    def __init__(self, data, folder, options):
        self.database, self.restarts = folder / "old.db", folder / "restarts"
        self.options, self.data, self.folder = options, data, folder
        self.restarts.write_text("")

    def command(self, acts):
        job = {
            "storage": f"sqlite:///{self.database}", "trials": self.options.trials, "epochs": EPOCHS, "patience": PATIENCE,
            "parallel": max(2, self.options.parallel - acts), "data": str(self.data / "rows.csv"), "space": SPACE,
            "models": {name: str(self.data / folder) for name, folder in MODELS.items()},
        }  # fmt: skip
        python = [str(self.options.standin / "bin" / "python3"), str(HERE / "tune_max.py"), json.dumps(job)]
        return ["sh", str(HERE / "supervise.sh"), str(self.options.poll), str(self.restarts), *python]

    def restarted(self):
        return self.restarts.read_text().count("restart")

    def counted(self):
        """When the trials ran that count."""
        query = "SELECT number, datetime_start, datetime_complete FROM trials"
        lost = {trial for trial, *_ in rows(self.database, LOST)}
        return [(moment(a), moment(b)) for trial, a, b in rows(self.database, query) if trial not in lost]


class Tune:
    """A binary of tune, with what it does by itself."""

    name = "tune"

    def __init__(self, data, folder, options):
        self.database, self.options, self.folder = folder / "tune.db", options, folder
        models = {name: data / path for name, path in MODELS.items()}
        space = {KEYS[key]: domain for key, domain in SPACE.items() if key in KEYS}
        train = {"epochs": EPOCHS, "patience": 0}
        (folder / "configs").mkdir()
        text = project(data / "rows.csv", tuple(ROWS.values()), models, train, space, metric="accuracy")
        (folder / "configs" / "night.toml").write_text(text)

    def command(self, acts):
        return [str(self.options.tune), "-C", str(self.folder), "night", "--trials", str(self.options.trials), "--device",
                "cuda:0", "--parallel", str(self.options.parallel), "--set", "run.threads=1"]  # fmt: skip

    def restarted(self):
        """Workers that were replaced after a fault."""
        return sum(1 for trial in self.trials() for attempt in trial["attempts"] if attempt["outcome"] not in ("completed", "pruned"))

    def counted(self):
        lost = {trial for trial, *_ in rows(self.database, LOST)}
        spans = [trial["attempts"][-1] for trial in self.trials() if trial["number"] not in lost]
        return [(moment(span["started"]), moment(span["ended"])) for span in spans]

    def trials(self):
        command = [str(self.options.tune), "-C", str(self.folder), "trials", "--json"]
        return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


LOST = (
    "SELECT number FROM trials WHERE state NOT IN ('COMPLETE', 'PRUNED') OR state = 'PRUNED' AND trial_id IN"
    f" (SELECT trial_id FROM trial_user_attributes WHERE key IN {MARKS})"
)


def moment(text):
    """A time of either database, in seconds."""
    return datetime.fromisoformat(text.rstrip("Z")).timestamp()


def rows(database, query):
    """What a query finds; nothing as long as there is no database."""
    if not database.exists():
        return []
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=30)) as connection:
        try:
            return connection.execute(query).fetchall()
        except sqlite3.OperationalError:
            return []


def finished(database):
    """Trials that have a result or were ended by the pruner."""
    return len(rows(database, f"SELECT number FROM trials WHERE number NOT IN ({LOST})"))


def night(program, card, options):
    """Runs to the goal; the figures of the table."""
    say(program.name)
    log = open(program.folder / "output", "ab")
    began, acts, alone, process = time.time(), 0, None, None
    last, since = 0, time.time()
    while True:
        if process is None:
            process = subprocess.Popen(program.command(acts), env=card.environment(), stdout=log, stderr=log, start_new_session=True)
            since = time.time()
        time.sleep(0.5)
        now = finished(program.database)
        card.advance(now)
        if now > last:
            last, since = now, time.time()
        ended = process.poll() is not None
        if ended and process.returncode == 0:
            break
        if ended or time.time() - since > options.patience:
            say(f"  {now} finished: " + ("it has ended" if ended else "nothing happens") + ", a person starts it again")
            alone = now if alone is None else alone
            acts += 1
            end(process)
            process = None
    return table(program, card, last if alone is None else alone, acts, time.time() - began)


def end(process):
    """Kills all that the program started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def table(program, card, alone, acts, wall):
    """The figures of one program."""
    lost = len(rows(program.database, LOST))
    useful, reached = 0.0, 0.0
    for start, stop in sorted(program.counted()):
        useful += max(0.0, stop - max(start, reached))
        reached = max(reached, stop)
    best = rows(program.database, "SELECT max(value) FROM trial_values JOIN trials USING (trial_id) WHERE state = 'COMPLETE'")
    return {
        "trials finished before a person was needed": alone,
        "trials finished in the end": finished(program.database),
        "trials lost or pruned for a fault": lost,
        "restarts: of the script, of workers": program.restarted(),
        "acts of a person": acts,
        "faults made": card.fired(),
        "time in which nothing ran that counted": f"{1 - useful / wall:.0%}",
        "best accuracy": f"{best[0][0]:.3f}",
    }


def main():
    options = arguments()
    options.tune, options.standin = options.tune.resolve(), options.standin.resolve()
    folder = options.keep or Path(tempfile.mkdtemp())
    try:
        folder.mkdir(exist_ok=True)
        prepare(folder, options)
        columns = {}
        for kind in (Old, Tune):
            if options.only in (None, kind.__name__.lower()):
                own = folder / kind.__name__.lower()
                card = Card(own / "card", options)
                columns[kind.name] = night(kind(folder, own, options), card, options)
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"| {options.trials} trials | " + " | ".join(columns) + " |\n" + "|---" * (len(columns) + 1) + "|")
    for row in next(iter(columns.values())):
        print(f"| {row} | " + " | ".join(str(column[row]) for column in columns.values()) + " |")


if __name__ == "__main__":
    main()
