#!/usr/bin/env python3
"""What a search costs, beside Optuna: Markdown tables of CPU time, memory, and the commands that read a study.

    cost.py --tune ./target/release/tune

CPU time is what the process of the sampler has used, user and system, for an ask and the tell of its value, which is
durable when it is answered wherever a database is used. A study is filled with points drawn at random and their values;
then a new process with the sampler in question goes on with a copy of it. All samplers meet the same points.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import environments
import spaces
from service import ONE_THREAD, Service, ServiceError

PEER = Path(__file__).resolve().parent / "peers" / "optuna_study.py"
SPACES = {"10 parameters, mixed": spaces.MIXED, "29 parameters, conditional": spaces.CONDITIONAL}
STUDY = "cost"
MEMORY = Path("/dev/shm")
# An ask of Optuna's GP takes seconds.
GP_TRIALS = 100
WARM_UP = 3
# A multiple of the turns of `auto`; more would make a small study a larger one.
ASKS = 40
# The first trials are drawn at random; with more of them a study would no longer be an empty one.
FIRST_ASKS = 7
FIRST_STUDIES = 5


@dataclass(frozen=True)
class Member:
    """A sampler. `rival` is the one of Optuna that it is compared with; `most`: no study of more trials."""

    name: str
    program: str
    kind: str
    rival: str = ""
    durable: bool = True
    most: float = float("inf")


MEMBERS = [
    Member("tune random", "tune", "random", "Optuna random"),
    Member("tune sobol", "tune", "sobol", "Optuna random"),
    Member("tune tpe", "tune", "tpe", "Optuna TPE"),
    Member("tune gp", "tune", "gp", "Optuna GP"),
    Member("tune auto", "tune", "auto", "Optuna TPE"),
    Member("Optuna random", "optuna", "random"),
    Member("Optuna TPE", "optuna", "tpe"),
    Member("Optuna TPE, in memory", "optuna", "tpe", durable=False),
    Member("Optuna TPE, grouped", "optuna", "tpe-grouped"),
    Member("Optuna GP", "optuna-gp", "gp", most=GP_TRIALS),
]


@dataclass(frozen=True)
class Figure:
    """Seconds of CPU time an ask with its tell, and the resident memory after them in MiB."""

    seconds: float
    resident: float


class Study:
    """Studies of a number of trials in one space: the points, and a database of each program that holds them."""

    def __init__(self, folder, programs, space, trials):
        """They are kept in `folder`; the copies that are measured are not: they lie on a disk."""
        self.folder, self.programs, self.space, self.trials = Path(folder), programs, space, trials
        self.points = self.folder / f"points-{trials}"
        self.fill("tune")
        if "optuna" in programs:
            self.fill("optuna")

    def fill(self, program):
        """The points are those that `tune`, the first, draws."""
        service = self.start(program, "random", self.full(program))
        try:
            if program == "tune":
                points = [one_trial(service, self.space)[1:] for _ in range(self.trials)]
                self.points.write_text("".join(json.dumps(point) + "\n" for point in points))
        finally:
            service.close()

    def full(self, program):
        return self.folder / f"{program.partition('-')[0]}-{self.trials}.db"

    def start(self, program, kind, storage):
        command, init = list(self.programs[program]), {"seed": 1, "n_evals": None, "max_step": None, "space": self.space}
        if program == "tune":
            init["sampler"] = kind
        else:
            command += [kind, str(self.points)]
        if storage is not None:
            init.update(storage=str(storage), study=STUDY)
        return Service(command, init)

    def measure(self, member):
        """Raises ServiceError where the sampler fails."""
        if self.trials:
            return self.one(member, ASKS)
        figures = [self.one(member, FIRST_ASKS) for _ in range(FIRST_STUDIES)]
        return Figure(*(statistics.median(getattr(f, name) for f in figures) for name in ("seconds", "resident")))

    def one(self, member, asks):
        with tempfile.TemporaryDirectory() as disk:
            storage = Path(disk) / "study.db" if member.durable else None
            if storage is not None:
                shutil.copy(self.full(member.program), storage)
            service = self.start(member.program, member.kind, storage)
            try:
                spent = cpu_of_a_trial(service, self.space, self.trials, asks)
                return Figure(spent, resident(service.process.pid))
            finally:
                service.close()


def one_trial(service, space):
    """Asks and tells; returns the trial's number, its point and its value."""
    reply = service.call(op="ask")
    value = spaces.value(space, reply["params"])
    service.call(op="tell", id=reply["id"], value=value, state="ok")
    return reply["id"], reply["params"], value


def cpu_of_a_trial(service, space, before, asks):
    """Seconds, over so many trials in a study that holds `before` others."""
    for warm in range(WARM_UP):
        number = one_trial(service, space)[0]
        if number != before + warm:
            raise ServiceError(f"trial {number} where {before + warm} was expected")
    began = service.cpu()
    for _ in range(asks):
        one_trial(service, space)
    return (service.cpu() - began) / asks


def resident(pid):
    """The resident memory of a process in MiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmRSS"))


def milliseconds(seconds):
    """Two digits, or all before the point."""
    text = f"{seconds * 1000:.{max(0, 1 - exponent(seconds * 1000))}f}"
    return f"{float(text):,.0f}" if "." not in text else text


def exponent(number):
    return int(f"{number:e}".partition("e")[2])


def cell(figures, member, trials):
    """One figure, and how many times that of its rival it is worth."""
    found, other = figures.get((member.name, trials)), figures.get((member.rival, trials))
    if found is None:
        return ""
    times = "" if other is None else f" ({other.seconds / found.seconds:,.0f}x)"
    return milliseconds(found.seconds) + times


def table(title, figures, members, counts):
    """Milliseconds of CPU time, with the ratio to Optuna, and memory."""
    last = max(counts)
    heads = [f"{count:,}" for count in counts]
    yield f"\n{title}, milliseconds an ask with its tell (times as fast as Optuna's):\n"
    yield f"| trials | {' | '.join(heads)} | resident at {last:,} |"
    yield "|---" * (len(counts) + 2) + "|"
    for member in members:
        cells = [cell(figures, member, count) for count in counts]
        memory = figures.get((member.name, last))
        yield f"| {member.name} | {' | '.join(cells)} | {'' if memory is None else f'{memory.resident:.0f} MiB'} |"


def measured(folder, programs, space, counts, members):
    """The figures by member and number of trials. The programs take turns at each number."""
    figures = {}
    for trials in counts:
        study = Study(folder, programs, space, trials)
        for member in members:
            if member.program in programs and trials <= member.most:
                try:
                    figures[member.name, trials] = study.measure(member)
                except ServiceError as error:
                    print(f"left out: {member.name} at {trials}: {error}", file=sys.stderr)
    return figures


def commands(tune, programs, database, optuna):
    """How long commands on the study take, beside what the same process takes to start."""
    python = programs["optuna"][0] if "optuna" in programs else None
    best = f"import optuna; optuna.load_study(study_name={STUDY!r}, storage='sqlite:///{optuna}').best_trial"
    reads = [
        ("`tune best`", [tune, "best", STUDY, "--storage", database], [tune, "--help"], 21),
        ("`tune trials --json`", [tune, "trials", STUDY, "--json", "--storage", database], [tune, "--help"], 21),
    ]
    if python:
        reads.append(("Optuna `load_study(...).best_trial`", [python, "-c", best], [python, "-c", "import optuna"], 3))
    yield "\nCommands on the last study, milliseconds beyond the start of their process (medians):\n"
    yield "| command | start, wall | beyond it, wall | beyond it, CPU |\n|---|---|---|---|"
    for name, command, start, times in reads:
        pairs = [(timed(start), timed(command)) for _ in range(times)]
        begin, whole = ([statistics.median(times) for times in zip(*side)] for side in zip(*pairs))
        cells = [milliseconds(seconds) for seconds in (begin[0], whole[0] - begin[0], whole[1] - begin[1])]
        yield f"| {name} | {' | '.join(cells)} |"


def timed(command):
    """Seconds of wall-clock and of CPU time of a process."""
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**os.environ, **ONE_THREAD})
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{command} ended with {process.returncode}")
    return time.perf_counter() - began, usage.ru_utime + usage.ru_stime


def available(tune):
    """How each program is started; without what cannot be had."""
    programs = {"tune": [tune, "ask-tell"]}
    for name, environment in (("optuna", "optuna-5.0.0"), ("optuna-gp", "search-bench-gp")):
        try:
            programs[name] = [environments.python(environment), "-B", str(PEER)]
        except RuntimeError as error:
            print(f"left out: {error}", file=sys.stderr)
    return programs


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tune", required=True, metavar="PATH", help="the binary")
    parser.add_argument("--trials", type=lambda text: [int(word) for word in text.split(",")],
                        default=[0, 100, 1000, 5000], help="numbers of trials, 0,100,1000,5000")
    parser.add_argument("--samplers", type=lambda text: text.split(","), help="names of rows, separated by commas")
    options = parser.parse_args()  # fmt: skip
    tune, programs = str(Path(options.tune).resolve()), available(options.tune)
    members = [member for member in MEMBERS if not options.samplers or member.name in options.samplers]
    for title, space in SPACES.items():
        # 5,000 trials are added in the time of some ten thousand writes to a disk.
        with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
            figures = measured(folder, programs, space, options.trials, members)
            for line in table(title, figures, members, options.trials):
                print(line)
            if space is spaces.MIXED:
                last = options.trials[-1]
                for line in commands(tune, programs, f"{folder}/tune-{last}.db", f"{folder}/optuna-{last}.db"):
                    print(line, flush=True)


if __name__ == "__main__":
    main()
