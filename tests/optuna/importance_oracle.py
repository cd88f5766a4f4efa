"""Writes tests/data/importance-oracle.json: the importances that Optuna 5.0.0 gives the parameters of
some studies (PED-ANOVA as it comes)."""

import json
import math
import random
import sys
import warnings

import optuna
from optuna.distributions import distribution_to_json

optuna.logging.set_verbosity(optuna.logging.ERROR)
warnings.simplefilter("ignore")


def mixed(trial):
    lr = trial.suggest_float("lr", 1e-5, 1e-1, log=True)
    dropout = trial.suggest_float("dropout", 0.0, 0.5, step=0.1)
    layers = trial.suggest_int("layers", 1, 12)
    batch = trial.suggest_int("batch", 1, 64, log=True)
    width = trial.suggest_int("width", 64, 8192, step=64)
    act = trial.suggest_categorical("act", ["relu", "gelu", None])
    trial.suggest_float("fixed", 0.5, 0.5)
    loss = (math.log10(lr) + 3) ** 2 + dropout + abs(layers - 4) / 12 + (act == "gelu") - math.log(batch) / 8
    return loss + width / 1e5


def conditional(trial):
    opt = trial.suggest_categorical("opt", ["sgd", "adam", "lion"])
    depth = trial.suggest_int("depth", 1, 8 if opt == "sgd" else 16)
    loss = {"sgd": 1.0, "adam": 0.2, "lion": 0.5}[opt] + abs(depth - 6) / 10
    if opt == "sgd":
        loss -= trial.suggest_float("momentum", 0.0, 0.99)
    else:
        loss += abs(trial.suggest_float("beta", 0.5, 1.0) - 0.9)
    return loss


def case(function, trials, direction, seed):
    sampler = optuna.samplers.RandomSampler(seed=seed)
    study = optuna.create_study(direction=direction, sampler=sampler)
    rng = random.Random(seed)
    study.optimize(lambda trial: round(function(trial) + rng.gauss(0, 0.05), 4), n_trials=trials)
    distributions = []

    def known(distribution):
        text = distribution_to_json(distribution)
        if text not in distributions:
            distributions.append(text)
        return distributions.index(text)

    told = [{"value": t.value, "params": t.params,
             "distributions": {name: known(d) for name, d in t.distributions.items()}}
            for t in study.trials]  # fmt: skip
    importances = optuna.importance.get_param_importances(study)
    return {"direction": direction, "distributions": distributions, "importances": importances, "trials": told}


cases = [case(mixed, 60, "minimize", 1), case(mixed, 25, "maximize", 2),
         case(conditional, 80, "minimize", 3), case(conditional, 120, "maximize", 4)]  # fmt: skip
assert optuna.__version__ == "5.0.0"
json.dump(cases, sys.stdout, separators=(",", ":"))
print()
