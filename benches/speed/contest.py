"""The programs that are compared: how each is started, and when it says what, by the clock and by its CPU time."""
import json
import os
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
# What tune calls the parameters of a trial.
KEYS = {
    "max_length": "tok.max_length", "batch_size": "train.batch_size", "frozen": "train.freeze_encoder_layers",
    "lr": "optim.lr", "weight_decay": "optim.weight_decay", "warmup_ratio": "sched.warmup_ratio",
    "dropout": "model.dropout", "clip_grad": "train.clip_grad",
}  # fmt: skip


@dataclass(frozen=True)
class Moment:
    """An instant: by the clock, by the CPU time that the process has used, and by the time in which its busiest thread has
    run or stood in line for a core, and not slept.
    """

    wall: float
    cpu: float
    busiest: float

    def since(self, other):
        return Moment(self.wall - other.wall, self.cpu - other.cpu, self.busiest - other.busiest)


@dataclass
class Trial:
    """What a program said of a trial: its start, its epochs' ends with their losses, its end."""

    started: Moment
    params: dict
    epochs: list = field(default_factory=list)
    losses: list = field(default_factory=list)
    finished: Moment | None = None


@dataclass(frozen=True)
class Work:
    """What is trained: a checkpoint on a data set of (training, validation) rows."""

    checkpoint: Path
    data: Path
    rows: tuple
    epochs: int
    device: str
    threads: int


class Failed(Exception):
    """A program ended otherwise than it should."""


def now(pid):
    """The moment of the threads that a process has now, to the nanosecond."""
    wall, threads = time.perf_counter(), []
    for thread in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            ran, waited, _ = map(int, thread.read_text().split())
        except (FileNotFoundError, ProcessLookupError):
            continue  # It has ended.
        threads.append((ran / 1e9, waited / 1e9))
    return Moment(wall, sum(ran for ran, _ in threads), sum(max(threads)))


def follow(command, environment):
    """Runs a program; returns its trials and the moment of its start."""
    began = Moment(time.perf_counter(), 0.0, 0.0)
    trials, environment = [], {**os.environ, **environment}
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment)
        pid = process.pid
        for line in process.stdout:
            if not line.startswith("{"):
                continue
            event = json.loads(line)
            if event["event"] == "worker_started":
                # What trains is not the program itself but a child of it.
                pid = event["pid"]
            elif event["event"] in ("trial_started", "epoch_finished", "trial_finished"):
                note(trials, event, now(pid))
        if process.wait() != 0:
            errors.seek(0)
            raise Failed(f"{command[:4]} ended with {process.returncode}: {errors.read()[-2000:]}")
    if any(trial.finished is None for trial in trials):
        raise Failed(f"{command[:4]} left a trial unfinished")
    return began, trials


def note(trials, event, moment):
    if event["event"] == "trial_started":
        trials.append(Trial(moment, event.get("params", {})))
    elif event["event"] == "epoch_finished":
        loss = event["train_loss"] if "train_loss" in event else event["metrics"]["train_loss"]
        trials[-1].epochs.append(moment)
        trials[-1].losses.append(loss)
    else:
        if event.get("state", "COMPLETE") != "COMPLETE":
            raise Failed(f"a trial ended as {event['state']}: {event.get('attrs')}")
        trials[-1].finished = moment


def thread_pools(threads):
    return {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}


class Peer:
    """expert.py or old.py."""

    def __init__(self, name, python, script, **more):
        self.name, self.python, self.script, self.more = name, python, script, more

    def run(self, work, trials):
        job = {
            "checkpoint": str(work.checkpoint), "data": str(work.data), "device": work.device,
            "threads": work.threads, "trials": [{**trial, "epochs": work.epochs} for trial in trials], **self.more,
        }  # fmt: skip
        command = [self.python, "-B", str(HERE / self.script), json.dumps(job)]
        return follow(command, thread_pools(work.threads))


class Tune:
    """A binary of tune, on a project made for the purpose."""

    def __init__(self, name, binary):
        self.name, self.binary = name, str(Path(binary).resolve())

    def run(self, work, trials):
        """All trials are equal: to tune, they are one point."""
        return self.search(work, {KEYS[name]: {"choices": [value]} for name, value in trials[0].items()}, len(trials))

    def search(self, work, space, count):
        """A study of so many trials, drawn at random."""
        with tempfile.TemporaryDirectory() as folder:
            configs = Path(folder) / "configs"
            configs.mkdir()
            precision = {} if work.device == "cpu" else {"precision": "bf16"}
            models, train = {"contest": work.checkpoint}, {"epochs": work.epochs, "patience": 0, **precision}
            (configs / "speed.toml").write_text(project(work.data, work.rows, models, train, space))
            command = [self.binary, "-C", folder, "speed", "--trials", str(count), "--parallel", "1", "--json",
                       "--device", work.device, "--sampler", "random", "--pruner", "none"]  # fmt: skip
            if work.device == "cpu":
                command += ["--set", f"run.threads={work.threads}"]
            return follow(command, {})


def project(data, rows, models, train, space, metric="macro_f1"):
    """The configuration for `rows` (training, validation) of `data`. The parts are groups, of the sizes that the split
    asks for: each stays whole.
    """
    share = rows[0] / sum(rows)
    domains = {"model.name": {"choices": list(models)}, **space}
    lines = "".join(f"{json.dumps(key)} = {toml(domain)}\n" for key, domain in domains.items())
    return f"""task = {{ kind = "text-classification" }}
objective = {{ metric = {json.dumps(metric)} }}
train = {toml(train)}
models = {toml({name: str(path) for name, path in models.items()})}
[data]
path = {json.dumps(str(data))}
text = "text"
label = "status"
group = "part"
split = {{ train = {share!r}, validation = {1 - share!r}, test = 0.0, seed = 0 }}
[space]
{lines}"""


def toml(domain):
    """A domain as an inline table."""
    return "{ " + ", ".join(f"{key} = {json.dumps(value)}" for key, value in domain.items()) + " }"
