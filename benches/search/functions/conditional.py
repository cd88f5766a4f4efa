"""Functions of which some parameters exist only where others have certain values."""
import math

from .base import Function, choice, real, whole
from .numerical import HARTMANN_BEST, ackley, branin, hartmann6, rosenbrock


def jenatton(params):
    """The tree of Jenatton et al. with its optimum moved: 0.1 in the leaf 0, 0."""
    if params["x1"] == 0:
        shared = abs(params["r8"] - 0.27)
        if params["x2"] == 0:
            return (params["x4"] - 0.36) ** 2 + 0.1 + shared
        return (params["x5"] + 0.41) ** 2 + 0.2 + shared
    shared = abs(params["r9"] - 0.64)
    if params["x3"] == 0:
        return (params["x6"] + 0.23) ** 2 + 0.3 + shared
    return (params["x7"] - 0.57) ** 2 + 0.4 + shared


JENATTON_SPACE = [
    choice("x1", [0, 1]),
    choice("x2", [0, 1], when=("x1", [0])),
    choice("x3", [0, 1], when=("x1", [1])),
    real("x4", -1.0, 1.0, when=("x2", [0])),
    real("x5", -1.0, 1.0, when=("x2", [1])),
    real("x6", -1.0, 1.0, when=("x3", [0])),
    real("x7", -1.0, 1.0, when=("x3", [1])),
    real("r8", 0.0, 1.0, when=("x1", [0])),
    real("r9", 0.0, 1.0, when=("x1", [1])),
]

# Each model of `zoo` has a function of its own, scaled to about 0 to 1, and a floor.
ZOO_SPACE = [
    choice("model", ["forest", "kernel", "net", "line"]),
    real("forest.a", -5.0, 10.0, when=("model", ["forest"])),
    real("forest.b", 0.0, 15.0, when=("model", ["forest"])),
    *(real(f"kernel.x{i}", 0.0, 1.0, when=("model", ["kernel"])) for i in range(6)),
    choice("net.depth", [1, 2, 3], when=("model", ["net"])),
    real("net.u1", -3.0, 5.0, when=("net.depth", [1, 2, 3])),
    real("net.u2", -3.0, 5.0, when=("net.depth", [2, 3])),
    real("net.u3", -3.0, 5.0, when=("net.depth", [3])),
    real("line.slope", 1e-4, 10.0, log=True, when=("model", ["line"])),
]


def zoo(params):
    model = params["model"]
    if model == "forest":
        return 0.15 + (branin([params["forest.a"], params["forest.b"]]) - 0.39788735772973816) / 100
    if model == "kernel":
        return (hartmann6([params[f"kernel.x{i}"] for i in range(6)]) - HARTMANN_BEST) / 3.4
    if model == "net":
        depth = params["net.depth"]
        units = [params[f"net.u{i + 1}"] for i in range(depth)]
        return (0.3, 0.2, 0.08)[depth - 1] + ackley([unit - 1.7 for unit in units]) / 15
    return 0.4 + abs(params["line.slope"] - 0.03)


# --- One parameter outweighs the others, all domains are small ---------------------------------------


def dominant(weights, levels, pay):
    """A sum in which `method` counts most, small integers count little, and one detail exists for some methods."""

    def value(params):
        total = weights[params["method"]]
        for name, (place, weight) in levels.items():
            if name in params:
                total += weight * abs(params[name] - place)
        return total + (pay[params["detail"]] if "detail" in params else 0.0)

    return value


DOMINANT_METHODS = {"m0": 3.1, "m1": 2.2, "m2": 4.0, "m3": 0.6, "m4": 1.7, "m5": 0.9, "m6": 3.6}
DOMINANT_LEVELS = {"a": (4, 0.05), "b": (2, 0.08), "c": (6, 0.04), "d": (1, 0.06), "e": (3, 0.03)}
DOMINANT_PAY = {"on": 0.0, "off": 0.3, "half": 0.12}
DOMINANT_SPACE = [
    choice("method", list(DOMINANT_METHODS)),
    whole("a", 1, 6),
    whole("b", 0, 4),
    whole("c", 1, 8),
    whole("d", 0, 3, when=("method", ["m3", "m4", "m5"])),
    whole("e", 1, 5, when=("method", ["m0", "m3", "m6"])),
    choice("detail", list(DOMINANT_PAY), when=("method", ["m1", "m3"])),
]

RULED_METHODS = {"p": 1.4, "q": 2.6, "r": 0.8, "s": 3.3, "t": 2.1, "u": 0.5, "v": 1.9, "w": 2.9, "x": 1.1, "y": 3.8}
RULED_LEVELS = {"k": (7, 0.04), "l": (3, 0.07), "m": (2, 0.1), "n": (5, 0.02)}
RULED_PAY = {"left": 0.25, "right": 0.0, "both": 0.4, "none": 0.1}
RULED_SPACE = [
    choice("method", list(RULED_METHODS)),
    choice("detail", list(RULED_PAY), when=("method", ["r", "u", "x"])),
    whole("k", 0, 9),
    whole("l", 1, 5),
    whole("m", 0, 3),
    whole("n", 2, 8, when=("method", ["q", "u", "w"])),
]

# --- Two levels: an optimizer with its own parameters, a schedule with its own, a shared rate --------

PIPELINE_SPACE = [
    choice("optimizer", ["sgd", "adam", "lbfgs"]),
    real("lr", 1e-5, 1.0, log=True, when=("optimizer", ["sgd", "adam"])),
    real("momentum", 0.0, 0.99, when=("optimizer", ["sgd"])),
    choice("nesterov", [False, True], when=("optimizer", ["sgd"])),
    real("beta", 0.8, 0.9999, when=("optimizer", ["adam"])),
    whole("history", 3, 50, log=True, when=("optimizer", ["lbfgs"])),
    choice("schedule", ["flat", "cosine", "steps"], when=("optimizer", ["sgd", "adam"])),
    whole("cycles", 1, 4, when=("schedule", ["cosine"])),
    whole("drops", 1, 6, when=("schedule", ["steps"])),
    real("gamma", 0.05, 0.95, when=("schedule", ["steps"])),
    real("decay", 1e-6, 1e-1, log=True),
    real("dropout", 0.0, 0.6),
]


def pipeline(params):
    """An invented training: the ranges of good values are those of field reports, the shape is a sum of bowls."""
    total = 0.04 * (math.log10(params["decay"]) + 3.3) ** 2 + 0.8 * (params["dropout"] - 0.17) ** 2
    optimizer = params["optimizer"]
    if optimizer == "lbfgs":
        return total + 0.35 + 0.1 * abs(math.log10(params["history"] / 14))
    if optimizer == "sgd":
        # Momentum and rate act together: what counts is the effective rate.
        effective = math.log10(params["lr"] / (1 - params["momentum"]))
        total += 0.05 + 0.12 * (effective + 0.4) ** 2 + 0.1 * (params["momentum"] - 0.88) ** 2
        total += 0.0 if params["nesterov"] else 0.015
    else:
        total += 0.09 + 0.15 * (math.log10(params["lr"]) + 2.9) ** 2 + 1.5 * (params["beta"] - 0.93) ** 2
    schedule = params["schedule"]
    if schedule == "flat":
        return total + 0.12
    if schedule == "cosine":
        return total + 0.02 + 0.02 * abs(params["cycles"] - 2)
    return total + 0.015 * abs(params["drops"] - 3) + 0.2 * (params["gamma"] - 0.31) ** 2


# --- Depth decides how many parameters there are -----------------------------------------------------

LAYERS_SPACE = [
    choice("depth", ["one", "two", "three", "four"]),
    *(
        real(f"w{i}", -2.0, 3.0, when=("depth", ["one", "two", "three", "four"][max(i - 1, 0):]))
        for i in range(5)
    ),
]
LAYERS_FLOOR = {"one": 6.0, "two": 2.5, "three": 0.4, "four": 0.9}


def layers(params):
    """Rosenbrock's valley of as many parameters as the depth says, with a floor for each depth."""
    size = {"one": 2, "two": 3, "three": 4, "four": 5}[params["depth"]]
    return LAYERS_FLOOR[params["depth"]] + rosenbrock([params[f"w{i}"] for i in range(size)]) / 20


TREE = "Jenatton, Archambeau, Gonzalez and Seeger 2017; optimum moved"
OWN = "made for this benchmark"

FUNCTIONS = [
    Function("jenatton", "conditional", "tune", TREE, JENATTON_SPACE, jenatton, 0.1),
    Function(
        "dominant", "conditional", "tune", OWN + ": one dominant category, small domains", DOMINANT_SPACE,
        dominant(DOMINANT_METHODS, DOMINANT_LEVELS, DOMINANT_PAY), 0.6,
    ),
    Function("layers", "conditional", "tune", "Rosenbrock by depth; " + OWN, LAYERS_SPACE, layers, 0.4),
    Function(
        "zoo", "conditional", "held-out", "Branin, Hartmann 6 and Ackley as the models of one choice, two levels",
        ZOO_SPACE, zoo, 0.0,
    ),
    Function(
        "ruled", "conditional", "held-out", OWN + ": one dominant category, small domains", RULED_SPACE,
        dominant(RULED_METHODS, RULED_LEVELS, RULED_PAY), 0.5,
    ),
    Function(
        "pipeline", "conditional", "held-out", OWN + ": optimizer and schedule, two levels", PIPELINE_SPACE,
        pipeline, 0.05,
    ),
]  # fmt: skip
