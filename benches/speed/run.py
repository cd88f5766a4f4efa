#!/usr/bin/env python3
"""Fine-tuning by tune, by an expert's PyTorch loop and by the old script's: speeds, as ratios within one run.

    run.py --tune ./target/release/tune
    run.py --tune ./target/release/tune --device cuda:0 --models bert-base,deberta-v3-base --python python3

The programs take turns, so that other work on the machine hits all alike. All train the same layers of the same
checkpoint on the same rows with the same sizes, and score the same rows after each epoch.
"""
import argparse
import csv
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from contest import KEYS, Failed, Peer, Tune, Work

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
REVIEWS = ROOT / "configs" / "data" / "reviews.csv"
CACHE = Path(os.environ.get("TUNE_CACHE") or Path.home() / ".cache" / "tune")
VENV = ROOT / "tests" / "venv.sh"
PACKAGES = ["torch==2.11.0", "transformers==4.57.6", "safetensors==0.8.0"]
TRIAL = {"frozen": 0, "batch_size": 16, "lr": 1e-4, "weight_decay": 0.01, "warmup_ratio": 0.1, "dropout": 0.1,
         "clip_grad": 1.0}  # fmt: skip
# The old script is so slow that it gets a part of the rows, and of the trials of a study.
OLD_PART = 4
# What a study searches.
SPACE = {
    "frozen": {"low": 0, "high": 6, "int": True}, "batch_size": {"choices": [8, 16, 32]},
    "max_length": {"low": 64, "high": 128, "step": 32, "int": True}, "lr": {"low": 5e-6, "high": 3e-4, "log": True},
    "weight_decay": {"low": 1e-6, "high": 0.2, "log": True}, "warmup_ratio": {"low": 0.0, "high": 0.2},
    "dropout": {"low": 0.0, "high": 0.5}, "clip_grad": {"low": 0.1, "high": 1.5},
}  # fmt: skip


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tune", action="append", required=True, metavar="PATH[:NAME]", help="a binary, or several")
    parser.add_argument("--device", default="cpu", help="cpu or cuda:N")
    parser.add_argument("--models", default="minilm",
                        help="minilm, or with random weights bert-base, deberta-v3-base")
    parser.add_argument("--frozen", default="0,3,6", help="numbers of frozen layers")
    parser.add_argument("--batches", default="16", help="batch sizes")
    parser.add_argument("--length", type=int, help="tokens of a row at most (128; 512 on a GPU)")
    parser.add_argument("--rows", type=int, help="rows to train on (256; 1024 on a GPU)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1, help="CPU threads of each program")
    parser.add_argument("--parts", default="steps,start,study,same", help="what is measured")
    parser.add_argument("--trials", type=int, default=20, help="trials of the study")
    parser.add_argument("--transformers", action="store_true",
                        help="the expert's loop around transformers' own model too")
    parser.add_argument("--no-old", action="store_true", help="without the old script")
    parser.add_argument("--python", help="an interpreter with PyTorch (default: one is made, 3 GB)")
    parser.add_argument("--checkpoint", type=Path, help="the MiniLM checkpoint",
                        default=CACHE / "models" / "minilm")
    options = parser.parse_args()  # fmt: skip
    on_gpu = options.device != "cpu"
    options.length = options.length or (512 if on_gpu else 128)
    options.rows = options.rows or (1024 if on_gpu else 256)
    return options


def interpreter(options):
    """Python with PyTorch; with transformers and tokenizers too, where it is ours."""
    if options.python:
        return options.python
    command = ["sh", VENV, "transformers", "torch,transformers", *PACKAGES]
    made = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if made.returncode != 0:
        sys.exit("no PyTorch to compare with; --python names one")
    return made.stdout.strip()


class Data:
    """Data sets of a number of rows, written once."""

    def __init__(self, folder, python, options):
        self.folder, self.python, self.options = folder, python, options

    def work(self, model, rows, epochs):
        """`rows` are those to train on; an eighth of them are scored beside."""
        counts = (rows, max(16, rows // 8))
        path = self.folder / f"{model}-{rows}.csv"
        checkpoint = self.options.checkpoint if model == "minilm" else self.folder / model
        if not path.exists():
            texts = self.reviews if model == "minilm" else self.made
            with open(path, "w", newline="", encoding="utf-8") as file:
                table = csv.writer(file)
                table.writerow(["text", "status", "part"])
                for row, (text, status) in enumerate(texts(model, sum(counts))):
                    table.writerow([text, status, "train" if row < rows else "validation"])
        return Work(checkpoint, path, counts, epochs, self.options.device, self.options.threads)

    def reviews(self, _, count):
        with open(REVIEWS, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        return [(row["text"], row["status"]) for row in random.Random(0).sample(rows, count)]

    def made(self, model, count):
        """Whoever has PyTorch makes the checkpoint and the texts."""
        code = (
            "import json, sys, made; from pathlib import Path; model, folder, count, longest = sys.argv[1:];"
            "folder = Path(folder); folder.exists() or made.checkpoint(model, folder);"
            "size = json.loads((folder / 'config.json').read_text())['vocab_size'];"
            "print(json.dumps(list(made.texts(int(count), int(longest), size))))"
        )
        command = [self.python, "-B", "-c", code, model, self.folder / model, str(count), str(self.options.length)]
        return json.loads(subprocess.run(command, cwd=HERE, stdout=subprocess.PIPE, check=True, text=True).stdout)


class Table:
    """Figures by program, a column each; every round adds one to each."""

    def __init__(self, title, unit, reference):
        self.title, self.unit, self.reference, self.rows = title, unit, reference, {}

    def add(self, program, wall, cpu=None):
        """A figure of a round."""
        self.rows.setdefault(program, []).append((wall, cpu))

    def show(self):
        """Medians with least and most; ratios of medians to that of the expert's loop, larger is better."""
        print(f"\n{self.title}:\n")
        has_cpu = any(cpu is not None for figures in self.rows.values() for _, cpu in figures)
        heads = ["program", f"{self.unit}, by the clock", "times the expert's"]
        heads += [f"{self.unit}, by CPU time", "times the expert's"] if has_cpu else []
        print("| " + " | ".join(heads) + " |\n" + "|---" * len(heads) + "|")
        for program, figures in self.rows.items():
            cells = [program]
            for side in range(2 if has_cpu else 1):
                own = [figure[side] for figure in figures]
                base = [figure[side] for figure in self.rows.get(self.reference, figures)]
                ratio = statistics.median(own) / statistics.median(base)
                cells += [f"{statistics.median(own):.1f} ({min(own):.1f} to {max(own):.1f})", f"{ratio:.2f}"]
            print("| " + " | ".join(cells) + " |", flush=True)


# Programs that failed.
FAILURES = []


def measured(program, *arguments, run="run"):
    """What a program said; nothing where it failed, which is told and remembered."""
    try:
        return getattr(program, run)(*arguments)
    except Failed as error:
        FAILURES.append(program.name)
        print(f"FAILED {program.name}: {error}", file=sys.stderr)
        return None


def steps(options, programs, data, model, batch, frozen):
    """Training rows a second, the scoring of each epoch included: over the epochs after the first; with frozen layers
    over the whole trial, at whose start tune computes their output once and for all.
    """
    what = f"{model}, batch {batch}, up to {options.length} tokens, {frozen} layers frozen"
    table = Table(f"Rows a second: {what}", "rows a second", "expert")
    trial = {**TRIAL, "batch_size": batch, "frozen": frozen, "max_length": options.length}
    for _ in range(options.rounds):
        for program in programs:
            old = program.name == "old"
            if old and frozen:
                continue
            rows, epochs = (max(batch, options.rows // OLD_PART), 2) if old else (options.rows, epochs_of(frozen))
            found = measured(program, data.work(model, rows, epochs), [trial])
            if found:
                ends = found[1][0].epochs
                spent = ends[-1].since(found[1][0].started if frozen else ends[0])
                done = rows * (epochs if frozen else epochs - 1)
                table.add(program.name, done / spent.wall, done / spent.cpu if options.device == "cpu" else None)
    table.show()


def epochs_of(frozen):
    """More, where an epoch may take no more than milliseconds."""
    return 3 if frozen < 6 else 9


def start(options, programs, data, model):
    """From a trial's start to the end of its first step and of the scoring of 16 rows, in a warm process."""
    table = Table(f"A trial's start, its first step and the scoring of 16 rows: {model}", "starts a minute", "expert")
    trial = {**TRIAL, "max_length": options.length}
    cold = Table("From the program's start to the same of its first trial", "starts a minute", "expert")
    for _ in range(options.rounds):
        for program in programs:
            found = measured(program, data.work(model, 16, 1), [trial] * 3)
            if found:
                began, trials = found
                for one in trials[1:]:
                    table.add(program.name, 60 / one.epochs[0].since(one.started).wall)
                cold.add(program.name, 60 / trials[0].epochs[0].since(began).wall)
    table.show()
    cold.show()


def study(options, programs, data, model):
    """Trials an hour: tune draws them at random, the others train the same ones."""
    table = Table(f"Trials an hour, {options.trials} trials of 2 epochs: {model}", "trials an hour", "expert")
    work = data.work(model, options.rows // 2, 2)
    tunes = [program for program in programs if isinstance(program, Tune)]
    others = [program for program in programs if not isinstance(program, Tune)]
    drawn = None
    space = {KEYS[key]: domain for key, domain in SPACE.items()}
    for program in [*tunes, *others]:
        if isinstance(program, Tune):
            found = measured(program, work, space, options.trials, run="search")
        else:
            count = max(1, options.trials // OLD_PART) if program.name == "old" else options.trials
            found = drawn and measured(program, work, drawn[:count])
        if found:
            began, trials = found
            drawn = drawn or [{key: one.params[name] for key, name in KEYS.items()} for one in trials]
            spent = trials[-1].finished.since(began)
            hours = spent.wall / 3600, spent.cpu / 3600
            table.add(program.name, len(trials) / hours[0], len(trials) / hours[1] if options.device == "cpu" else None)
    table.show()


def same(options, programs, data, model):
    """The losses of an equal training without dropout: they differ by the order of rows alone."""
    print(f"\nMean training loss of each epoch, no dropout: {model}\n")
    trial = {**TRIAL, "dropout": 0.0, "max_length": options.length}
    for program in programs:
        if program.name != "old":
            found = measured(program, data.work(model, options.rows, 3), [trial])
            if found:
                losses = ", ".join(f"{loss:.4f}" for loss in found[1][0].losses)
                print(f"- {program.name}: {losses}", flush=True)


def main():
    options = arguments()
    python = interpreter(options)
    programs = [Peer("expert", python, "expert.py")]
    if options.transformers:
        programs.append(Peer("expert, transformers", python, "expert.py", transformers=True))
    for binary in options.tune:
        path, _, name = binary.partition(":")
        programs.append(Tune(name or "tune", path))
    if not options.no_old:
        programs.append(Peer("old", python, "old.py"))
    parts = options.parts.split(",")
    with tempfile.TemporaryDirectory() as folder:
        data = Data(Path(folder), python, options)
        for model in options.models.split(","):
            if "steps" in parts:
                for batch in (int(b) for b in options.batches.split(",")):
                    for frozen in (int(f) for f in options.frozen.split(",")):
                        steps(options, programs, data, model, batch, frozen)
            for part, measure in (("start", start), ("study", study), ("same", same)):
                if part in parts:
                    measure(options, programs, data, model)
    sys.exit(1 if FAILURES else 0)


if __name__ == "__main__":
    main()
