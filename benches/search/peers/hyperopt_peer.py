"""Hyperopt's TPE behind the ask-tell protocol: `hyperopt_peer.py tpe PARALLEL`."""
import math
from importlib.metadata import version

import numpy as np
from hyperopt import JOB_STATE_DONE, JOB_STATE_RUNNING, STATUS_FAIL, STATUS_OK, Trials, hp, tpe
from hyperopt.base import Domain
from protocol import is_active, serve


def node(parameter, children):
    """A node of Hyperopt's graph; a choice holds the parameters that exist with it."""
    name, kind = parameter["name"], parameter["type"]
    if kind == "cat":
        return hp.choice(name, [children(value) for value in parameter["choices"]])
    low, high, log = parameter["low"], parameter["high"], parameter["log"]
    if kind == "float":
        return hp.loguniform(name, math.log(low), math.log(high)) if log else hp.uniform(name, low, high)
    if log:
        return hp.qloguniform(name, math.log(low - 0.5), math.log(high + 0.5), 1)
    return hp.uniformint(name, low, high)


def graph(space):
    """The nested space; a parameter of several choices is one node that they share."""
    made = {}

    def build(parameter):
        name = parameter["name"]
        if name not in made:

            def children(value):
                inside = [p for p in space if (p.get("when") or {}).get("param") == name and value in p["when"]["in"]]
                return {"value": repr(value), **{p["name"]: build(p) for p in inside}}

            made[name] = node(parameter, children)
        return made[name]

    return {parameter["name"]: build(parameter) for parameter in space if not parameter.get("when")}


class Hyperopt:
    def __init__(self, init):
        self.space = init["space"]
        self.domain = Domain(lambda config: 0.0, graph(self.space))
        self.trials = Trials()
        self.rng = np.random.default_rng(init["seed"])
        self.name = f"hyperopt {version('hyperopt')} tpe"

    def ask(self):
        number = self.trials.new_trial_ids(1)[0]
        self.trials.refresh()
        made = tpe.suggest([number], self.domain, self.trials, int(self.rng.integers(2**31 - 1)), verbose=False)
        made[0]["state"] = JOB_STATE_RUNNING
        self.trials.insert_trial_docs(made)
        self.trials.refresh()
        values = {name: found[0] for name, found in made[0]["misc"]["vals"].items() if found}
        params = {}
        for parameter in self.space:
            if is_active(parameter, params):
                params[parameter["name"]] = self.value(parameter, values[parameter["name"]])
        return number, params

    @staticmethod
    def value(parameter, found):
        if parameter["type"] == "cat":
            return parameter["choices"][int(found)]
        inside = min(max(float(found), parameter["low"]), parameter["high"])
        return inside if parameter["type"] == "float" else int(round(inside))

    def report(self, number, step, value):
        return False

    def tell(self, number, value, state):
        doc = next(doc for doc in self.trials._dynamic_trials if doc["tid"] == number)
        done = state == "ok"
        doc["result"] = {"status": STATUS_OK, "loss": value} if done else {"status": STATUS_FAIL}
        doc["state"] = JOB_STATE_DONE
        self.trials.refresh()


serve(Hyperopt)
