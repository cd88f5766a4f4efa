#!/usr/bin/env python3
"""A search as the script did it that tune replaces; supervise.sh starts it.

    tune_max.py '{"storage": ..., "trials": 500, "parallel": 4, "epochs": 9, "models": {NAME: FOLDER}, "data": ...}'

Optuna's TPE and Hyperband, a thread for each trial that runs, one process and one context for all of them. A CUDA error is caught,
the trial pruned, and the search goes on; after three in a row, or where the device answers no more, the process ends.
Memory that ran out prunes the trial and empties the cache; after 50 successes in a row everything is cleared.
"""
import gc
import json
import os
import sys
import threading
from pathlib import Path

os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "speed"))

import data
import encoder
import old
import optuna
import torch

JOB = json.loads(sys.argv[1])
STRIKES = 3
RESET_AFTER = 50


class Health:
    """What all threads know of the device."""

    def __init__(self):
        self.lock, self.strikes, self.successes = threading.Lock(), 0, 0

    def good(self):
        with self.lock:
            self.strikes, self.successes = 0, self.successes + 1
            if self.successes % RESET_AFTER == 0:
                clear()

    def bad(self):
        with self.lock:
            self.strikes, self.successes = self.strikes + 1, 0
            if self.strikes >= STRIKES or not healthy():
                print(f"{self.strikes} CUDA errors in a row: the script ends", flush=True)
                os._exit(1)


HEALTH = Health()


def clear():
    gc.collect()
    torch.cuda.empty_cache()


def healthy():
    try:
        torch.cuda.synchronize()
        return (torch.ones(8, device="cuda") + 1).sum().item() == 16
    except RuntimeError:
        return False


def suggest(trial):
    """The space of run.py, by the names that old.py reads."""
    drawn = {}
    for name, domain in JOB["space"].items():
        if "choices" in domain:
            drawn[name] = trial.suggest_categorical(name, domain["choices"])
        elif domain.get("int"):
            drawn[name] = trial.suggest_int(name, domain["low"], domain["high"], step=domain.get("step", 1))
        else:
            drawn[name] = trial.suggest_float(name, domain["low"], domain["high"], log=domain.get("log", False))
    return {**drawn, "epochs": JOB["epochs"]}


def fit(trial, chosen):
    """Trains; the best accuracy, unless the pruner ends it."""
    values = []

    def report(epoch, accuracy, **_):
        values.append(accuracy)
        trial.report(accuracy, epoch)
        if trial.should_prune():
            raise optuna.TrialPruned

    torch.cuda.manual_seed_all(trial.number)
    checkpoint, length = JOB["models"][chosen["model"]], chosen["max_length"]
    pad = encoder.read_config(checkpoint).pad_token_id
    rows = [old.padded(part, length, pad) for part in data.read(JOB["data"], checkpoint, length)]
    model = encoder.load(checkpoint, 2, chosen["dropout"]).to("cuda")
    old.train(model, rows, chosen, "cuda", report)
    return max(values)


def objective(trial):
    chosen = suggest(trial)
    try:
        value = fit(trial, chosen)
    except torch.cuda.OutOfMemoryError as error:
        trial.set_user_attr("oom", True)
        trial.set_user_attr("cuda_error_msg", str(error)[:500])
        clear()
        raise optuna.TrialPruned from error
    except RuntimeError as error:
        trial.set_user_attr("cuda_error", True)
        trial.set_user_attr("cuda_error_msg", str(error)[:500])
        HEALTH.bad()
        raise optuna.TrialPruned from error
    HEALTH.good()
    return value


def main():
    torch.set_num_threads(1)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    pruner = optuna.pruners.HyperbandPruner(min_resource=1, max_resource=JOB["epochs"], reduction_factor=3)
    study = optuna.create_study(
        study_name="night", storage=JOB["storage"], load_if_exists=True, direction="maximize",
        sampler=optuna.samplers.TPESampler(multivariate=True, group=True, constant_liar=True),
        pruner=optuna.pruners.PatientPruner(pruner, patience=JOB["patience"]),
    )  # fmt: skip
    finished = sum(trial.state.is_finished() for trial in study.get_trials(deepcopy=False))
    study.optimize(objective, n_trials=max(0, JOB["trials"] - finished), n_jobs=JOB["parallel"])


if __name__ == "__main__":
    main()
