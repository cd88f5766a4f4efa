"""SMAC3's facade for hyperparameters behind the ask-tell protocol: `smac_peer.py hpo PARALLEL`."""
import tempfile
from importlib.metadata import version

from ConfigSpace import Categorical, ConfigurationSpace, Float, InCondition, Integer
from protocol import serve
from smac import HyperparameterOptimizationFacade, Scenario
from smac.runhistory import TrialValue


def config_space(space, seed):
    """Choices are told by their position: ConfigSpace takes strings, a choice may be anything."""
    made = ConfigurationSpace(seed=seed)
    by_name = {}
    for parameter in space:
        name, kind = parameter["name"], parameter["type"]
        if kind == "cat":
            one = Categorical(name, [str(i) for i in range(len(parameter["choices"]))])
        elif kind == "float":
            one = Float(name, (parameter["low"], parameter["high"]), log=parameter["log"])
        else:
            step = parameter.get("step", 1)
            if step != 1:
                raise SystemExit(f"{name}: integers with a step are not translated")
            one = Integer(name, (parameter["low"], parameter["high"]), log=parameter["log"])
        by_name[name] = (parameter, one)
        made.add(one)
        when = parameter.get("when")
        if when:
            parent, node = by_name[when["param"]]
            values = [str(parent["choices"].index(value)) for value in when["in"]]
            made.add(InCondition(one, node, values))
    return made


class Smac:
    def __init__(self, init):
        self.space = init["space"]
        # SMAC wants a directory, and stops asking at its number of trials: running ones at the end come on top.
        self.directory = tempfile.TemporaryDirectory()
        scenario = Scenario(
            config_space(self.space, init["seed"]), deterministic=True, n_trials=init["n_evals"], seed=init["seed"],
            output_directory=self.directory.name,
        )  # fmt: skip
        self.facade = HyperparameterOptimizationFacade(scenario, lambda config, seed=0: 0.0, logging_level=False)
        self.running = {}
        self.asked = 0
        self.name = f"smac {version('smac')} hyperparameter optimization facade"

    def ask(self):
        info = self.facade.ask()
        number, self.asked = self.asked, self.asked + 1
        self.running[number] = info
        config = dict(info.config)
        params = {}
        for parameter in self.space:
            name = parameter["name"]
            if name not in config:
                continue
            value = config[name]
            if parameter["type"] == "cat":
                params[name] = parameter["choices"][int(value)]
            elif parameter["type"] == "int":
                params[name] = int(value)
            else:
                params[name] = min(max(float(value), parameter["low"]), parameter["high"])
        return number, params

    def report(self, number, step, value):
        return False

    def tell(self, number, value, state):
        self.facade.tell(self.running.pop(number), TrialValue(cost=value))


serve(Smac)
