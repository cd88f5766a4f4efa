"""Optuna for cost.py and limit.py behind the ask-tell protocol: `optuna_study.py SAMPLER [POINTS]`.

SAMPLER is tpe, tpe-grouped, random or gp. With `+constraints` behind it, the value that is told is a pair: the value and
by how much the point violates the constraint (0 or less: not at all). POINTS is a file of JSON lines, the parameters and
value of a trial each, that a new study begins with. The study lies where `storage` of `init` says, in memory without it.
"""
import json
import sys

import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from protocol import is_active, serve

optuna.logging.set_verbosity(optuna.logging.ERROR)


def make_sampler(text, seed):
    kind, _, constraints = text.partition("+")
    options = {"constraints_func": lambda trial: (trial.user_attrs["violation"],)} if constraints else {}
    samplers = optuna.samplers
    if kind == "tpe":
        return samplers.TPESampler(seed=seed, **options)
    if kind == "tpe-grouped":
        return samplers.TPESampler(seed=seed, multivariate=True, group=True, **options)
    if kind == "random":
        return samplers.RandomSampler(seed=seed)
    if kind == "gp":
        return samplers.GPSampler(seed=seed, **options)
    raise SystemExit(f"unknown sampler {kind}")


def distribution(parameter):
    if parameter["type"] == "cat":
        return CategoricalDistribution(parameter["choices"])
    low, high, log, step = parameter["low"], parameter["high"], parameter["log"], parameter.get("step")
    if parameter["type"] == "float":
        return FloatDistribution(low, high, log=log, step=step)
    return IntDistribution(low, high, log=log, step=step or 1)


class Study:
    def __init__(self, init):
        kind, *points = sys.argv[1:]
        self.distributions = {parameter["name"]: distribution(parameter) for parameter in init["space"]}
        self.space = init["space"]
        storage = init.get("storage")
        self.study = optuna.create_study(
            storage=storage and f"sqlite:///{storage}", study_name=init.get("study"), load_if_exists=True,
            sampler=make_sampler(kind, init["seed"]),
        )  # fmt: skip
        if points and not self.study.get_trials(deepcopy=False):
            with open(points[0]) as lines:
                self.study.add_trials([self.trial(*json.loads(line)) for line in lines])
        self.running = {}
        self.name = f"optuna {optuna.__version__} {kind}"

    def trial(self, params, value):
        distributions = {name: self.distributions[name] for name in params}
        return optuna.trial.create_trial(params=params, distributions=distributions, value=value)

    def ask(self):
        trial = self.study.ask()
        params = {}
        for parameter in self.space:
            if is_active(parameter, params):
                params[parameter["name"]] = self.suggest(trial, parameter["name"])
        self.running[trial.number] = trial
        return trial.number, params

    def suggest(self, trial, name):
        found = self.distributions[name]
        if isinstance(found, CategoricalDistribution):
            return trial.suggest_categorical(name, found.choices)
        suggest = trial.suggest_float if isinstance(found, FloatDistribution) else trial.suggest_int
        return suggest(name, found.low, found.high, log=found.log, step=found.step)

    def report(self, number, step, value):
        return False

    def tell(self, number, value, state):
        trial = self.running.pop(number)
        if state == "failed":
            self.study.tell(trial, state=optuna.trial.TrialState.FAIL)
            return
        if isinstance(value, list):
            value, violation = value
            trial.set_user_attr("violation", violation)
        self.study.tell(trial, value)


serve(Study)
