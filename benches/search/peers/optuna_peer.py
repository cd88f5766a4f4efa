"""Optuna behind the ask-tell protocol: `optuna_peer.py SAMPLER[+PRUNER] PARALLEL`."""
import sys

import optuna
from protocol import is_active, serve

optuna.logging.set_verbosity(optuna.logging.ERROR)


def make_sampler(kind, seed, parallel):
    samplers = optuna.samplers
    if kind == "tpe":
        return samplers.TPESampler(seed=seed)
    if kind == "tpe-univariate":
        return samplers.TPESampler(seed=seed, multivariate=False)
    if kind == "tpe-multivariate":
        # What people take who have read the documentation.
        return samplers.TPESampler(seed=seed, multivariate=True, group=True, constant_liar=parallel > 1)
    if kind == "gp":
        return samplers.GPSampler(seed=seed)
    raise SystemExit(f"unknown sampler {kind}")


def make_pruner(kind, max_step):
    if kind == "none":
        return optuna.pruners.NopPruner()
    if kind == "median":
        return optuna.pruners.MedianPruner()
    if kind == "hyperband":
        return optuna.pruners.HyperbandPruner(min_resource=1, max_resource=max_step)
    raise SystemExit(f"unknown pruner {kind}")


class Optuna:
    def __init__(self, init):
        kind, _, pruner = sys.argv[1].partition("+")
        self.space = init["space"]
        self.study = optuna.create_study(
            sampler=make_sampler(kind, init["seed"], int(sys.argv[2])),
            pruner=make_pruner(pruner or "none", init["max_step"]),
        )
        self.running = {}
        self.name = f"optuna {optuna.__version__} {sys.argv[1]}"

    def ask(self):
        trial = self.study.ask()
        params = {}
        for parameter in self.space:
            if is_active(parameter, params):
                params[parameter["name"]] = self.suggest(trial, parameter)
        self.running[trial.number] = trial
        return trial.number, params

    @staticmethod
    def suggest(trial, parameter):
        name = parameter["name"]
        if parameter["type"] == "cat":
            return trial.suggest_categorical(name, parameter["choices"])
        low, high, log = parameter["low"], parameter["high"], parameter["log"]
        if parameter["type"] == "float":
            return trial.suggest_float(name, low, high, log=log)
        return trial.suggest_int(name, low, high, log=log, step=parameter.get("step", 1))

    def report(self, number, step, value):
        trial = self.running[number]
        trial.report(value, step)
        return trial.should_prune()

    def tell(self, number, value, state):
        trial = self.running.pop(number)
        if state == "pruned":
            self.study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        else:
            self.study.tell(trial, value)


serve(Optuna)
