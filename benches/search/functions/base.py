"""What a function of the benchmark is, and the search space it is searched in.

A space is the list of parameters that `tune ask-tell` takes (docs/ask-tell.md): parents before their children.
"""
import math
import random
from dataclasses import dataclass, field
from typing import Callable, Optional

KINDS = ("numerical", "mixed", "conditional", "noisy", "curves")
SPLITS = ("tune", "held-out")


@dataclass(frozen=True)
class Function:
    """One function to be minimised.

    `value` gives the noiseless value of a point; a function with learning curves has `curve` too, all values of
    steps 1 to `max_step`, whose last one is `value`. `noise` is the standard deviation of what is added to an
    observed value. `best` is the lowest value: exact, or (`best_known`) the lowest that the literature or a long
    search has found. `revision` goes up with each change of the function: older results are then left out.
    """

    name: str
    kind: str
    split: str
    source: str
    space: list
    value: Callable[[dict], float]
    best: float
    best_known: bool = False
    noise: float = 0.0
    max_step: Optional[int] = None
    curve: Optional[Callable[[dict], list]] = None
    revision: int = 1
    note: str = field(default="")

    def __post_init__(self):
        assert self.kind in KINDS and self.split in SPLITS, self.name
        assert (self.max_step is None) == (self.curve is None), self.name


def real(name, low, high, log=False, when=None):
    """A float parameter, bounds inclusive."""
    return _conditional({"name": name, "type": "float", "low": low, "high": high, "log": log}, when)


def whole(name, low, high, log=False, step=None, when=None):
    """An integer parameter, bounds inclusive."""
    parameter = {"name": name, "type": "int", "low": low, "high": high, "log": log}
    if step is not None:
        parameter["step"] = step
    return _conditional(parameter, when)


def choice(name, choices, when=None):
    """A categorical parameter."""
    return _conditional({"name": name, "type": "cat", "choices": list(choices)}, when)


def _conditional(parameter, when):
    if when is not None:
        parent, values = when
        parameter["when"] = {"param": parent, "in": list(values)}
    return parameter


def box(bounds):
    """A space of floats x0, x1, ... within the bounds."""
    return [real(f"x{i}", low, high) for i, (low, high) in enumerate(bounds)]


def vector(params, size):
    """The values of x0, x1, ... as a list."""
    return [params[f"x{i}"] for i in range(size)]


def is_active(parameter, params):
    """Whether the parameter exists, given the values of its parents."""
    when = parameter.get("when")
    return when is None or (when["param"] in params and params[when["param"]] in when["in"])


def draw(space, rng):
    """A uniform point (uniform in the logarithm where the scale is one)."""
    params = {}
    for parameter in space:
        if is_active(parameter, params):
            params[parameter["name"]] = _draw_one(parameter, rng)
    return params


def _draw_one(parameter, rng):
    if parameter["type"] == "cat":
        return rng.choice(parameter["choices"])
    low, high = parameter["low"], parameter["high"]
    if parameter["type"] == "float":
        if parameter["log"]:
            return min(max(math.exp(rng.uniform(math.log(low), math.log(high))), low), high)
        return rng.uniform(low, high)
    step = parameter.get("step", 1)
    if parameter["log"]:
        drawn = math.exp(rng.uniform(math.log(low - 0.5), math.log(high + 0.5)))
        return min(max(round(drawn), low), high)
    return low + step * rng.randrange((high - low) // step + 1)


def check_point(space, params):
    """Raises ValueError unless `params` holds exactly the active parameters, each within its domain."""
    left = dict(params)
    for parameter in space:
        if not is_active(parameter, params):
            continue
        name = parameter["name"]
        if name not in left:
            raise ValueError(f"{name} is active but missing in {params}")
        value = left.pop(name)
        if parameter["type"] == "cat":
            good = value in parameter["choices"]
        else:
            good = parameter["low"] <= value <= parameter["high"]
            if parameter["type"] == "int":
                good = good and value == int(value) and (value - parameter["low"]) % parameter.get("step", 1) == 0
        if not good:
            raise ValueError(f"{name} = {value!r} is outside of {parameter}")
    if left:
        raise ValueError(f"{sorted(left)} are not active in {params}")


def stream(*names):
    """A generator of random numbers that depends on the names alone."""
    return random.Random("/".join(str(name) for name in names))
