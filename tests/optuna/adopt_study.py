"""A study as a script leaves it, and the same study once tune has adopted it, for tests/program/adopt.rs.

    adopt_study.py make DATABASE STUDY      a script's study: faults, zombies, enqueued points
    adopt_study.py continue DATABASE STUDY  loads it, goes on with the task's distributions, prints it
"""

import json
import math
import random
import sys
import warnings

import optuna
from optuna.trial import TrialState

optuna.logging.set_verbosity(optuna.logging.ERROR)
warnings.filterwarnings("ignore")

ASSERT = (
    "CUDA error: device-side assert triggered\n"
    "Search for `cudaErrorAssert' in https://docs.nvidia.com/cuda for more information."
)


def script_space(trial):
    """Partly the task's, partly not."""
    params = {
        "lr": trial.suggest_float("optim.lr", 1e-6, 0.1, log=True),
        "name": trial.suggest_categorical("optim.name", ["sgd", "adam", "adamw"]),
        "layers": trial.suggest_int("model.layers", 1, 12),
        "width": trial.suggest_categorical("model.width", [32, 64, 128]),
        "dropout": trial.suggest_float("head.dropout", 0, 0.5),
        "pooling": trial.suggest_categorical("head.pooling", [["cls"], ["mean", "max"]]),
        "seed": trial.suggest_int("seed", 0, 10000),
    }
    if params["name"] == "sgd":
        trial.suggest_float("optim.momentum", 0.0, 0.99)
    return params


def task_space(trial):
    """That of configs/synthetic.toml."""
    trial.suggest_float("optim.lr", 1e-5, 1.0, log=True)
    if trial.suggest_categorical("optim.name", ["adam", "sgd", "rmsprop"]) == "sgd":
        trial.suggest_float("optim.momentum", 0.0, 0.99)
    trial.suggest_int("model.layers", 1, 8)
    trial.suggest_int("model.width", 16, 512, log=True)


def make(database, name):
    noise = random.Random(0)
    study = optuna.create_study(
        study_name=name,
        storage="sqlite:///" + database,
        direction="minimize",
        sampler=optuna.samplers.RandomSampler(seed=1),
    )
    study.set_user_attr("note", {"who": "é", "baseline": float("nan")})
    study.set_user_attr("task", "theirs")
    for number in range(60):
        trial = study.ask()
        params = script_space(trial)
        if number >= 52:
            trial.set_user_attr("cuda_error", True)
            trial.set_user_attr("cuda_error_type", "AcceleratorError")
            trial.set_user_attr("cuda_error_msg", ASSERT)
            study.tell(trial, state=TrialState.PRUNED)
        elif number % 17 == 5:
            trial.set_user_attr("oom", True)
            study.tell(trial, state=TrialState.FAIL)
        else:
            value = 0.3 * (math.log10(params["lr"]) + 2) ** 2 + noise.gauss(0, 0.05)
            trial.report(value + 1, 1)
            trial.report(math.nan if number == 9 else value, 2)
            study.tell(trial, math.inf if number == 3 else value)
    study.ask()
    script_space(study.ask())
    study.enqueue_trial({"optim.lr": 0.01, "optim.name": "sgd"})
    study.enqueue_trial({"optim.name": "adamw"})


def go_on(database, name):
    sampler = optuna.samplers.TPESampler(seed=0, n_startup_trials=2, multivariate=True, group=True)
    study = optuna.load_study(
        study_name=name, storage="sqlite:///" + database, sampler=sampler
    )
    before = len(study.trials)

    def objective(trial):
        task_space(trial)
        return trial.params["optim.lr"]

    study.optimize(objective, n_trials=6)
    return {
        "optuna": optuna.__version__,
        "before": before,
        "best": study.best_trial.number,
        "attrs": {k: v for k, v in study.user_attrs.items() if k != "note"},
        "states": [t.state.name for t in study.trials],
        "params": [t.params for t in study.trials],
        "moved": [t.user_attrs.get("adopted_params") for t in study.trials],
    }


def main():
    command, database, name = sys.argv[1:]
    if command == "make":
        make(database, name)
    else:
        json.dump(go_on(database, name), sys.stdout)


if __name__ == "__main__":
    main()
