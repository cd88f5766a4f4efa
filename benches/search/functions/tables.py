"""Real machine learning: validation results of scikit-learn's models on its bundled data sets.

They were computed once, at the points of a grid (`tabulate.py`), and lie in tables/; between the points they are
interpolated linearly (in the logarithm, where the scale is one). So a run takes no time, everybody has the same
values, and the lowest value is known: it lies at a point of the grid.
"""
import bisect
import itertools
import json
import math
from functools import lru_cache
from pathlib import Path

from .base import Function, choice, real, whole

TABLES = Path(__file__).resolve().parent.parent / "tables"


class Leaf:
    """The values of one combination of categories."""

    def __init__(self, leaf, unit):
        self.when = leaf["when"]
        self.unit = unit
        self.values = leaf["values"]
        self.axes = [(name, self.scaled(scale, at), scale) for name, scale, at in leaf["axes"]]

    @staticmethod
    def scaled(scale, at):
        return [math.log(place) for place in at] if scale == "log" else list(at)

    def at(self, params):
        """The value, or the list of values of a curve."""
        ends = []
        for name, places, scale in self.axes:
            place = math.log(params[name]) if scale == "log" else params[name]
            upper = min(max(bisect.bisect_left(places, place), 1), len(places) - 1)
            share = (place - places[upper - 1]) / (places[upper] - places[upper - 1])
            # Rounding may put a bound a little outside of the grid.
            share = min(max(share, 0.0), 1.0)
            ends.append(((upper - 1, 1 - share), (upper, share)))
        total = None
        for corner in itertools.product(*ends):
            weight = math.prod(share for _, share in corner)
            if weight == 0.0:
                continue
            index = 0
            for (place, _), (_, places, _) in zip(corner, self.axes):
                index = index * len(places) + place
            value = self.values[index]
            if isinstance(value, list):
                total = [sum_ + weight * one for sum_, one in zip(total or [0.0] * len(value), value)]
            else:
                total = (total or 0.0) + weight * value
        return [one * self.unit for one in total] if isinstance(total, list) else total * self.unit

    def lowest(self):
        return min(value[-1] if isinstance(value, list) else value for value in self.values) * self.unit


@lru_cache
def leaves(name):
    table = json.loads((TABLES / f"{name}.json").read_text())
    return [Leaf(leaf, table["unit"]) for leaf in table["leaves"]]


def lookup(name):
    """The function of a table."""

    def at(params):
        for leaf in leaves(name):
            if all(params.get(key) == value for key, value in leaf.when.items()):
                return leaf.at(params)
        raise KeyError(f"{name}: no table for {params}")

    return at


def tabled(name, kind, split, source, space, max_step=None):
    """A function that is read from the table of its name."""
    at = lookup(name)
    best = min(leaf.lowest() for leaf in leaves(name))
    source = f"scikit-learn 1.7.2: {source}"
    if max_step is None:
        return Function(name, kind, split, source, space, at, best)
    return Function(
        name, kind, split, source, space, lambda params: at(params)[-1], best, max_step=max_step, curve=at
    )


SVM_SPACE = [
    choice("kernel", ["rbf", "poly", "sigmoid"]),
    choice("scale", ["none", "standard", "minmax"]),
    real("c", 1e-3, 1e3, log=True),
    real("gamma", 1e-5, 1.0, log=True),
]

BOOST_SPACE = [
    choice("columns", ["sqrt", "all", "half"]),
    real("rate", 0.005, 1.0, log=True),
    whole("depth", 1, 8),
    real("part", 0.2, 1.0),
    whole("trees", 10, 320, log=True),
]

CANCER_SPACE = [
    choice("scale", ["none", "standard"]),
    choice("model", ["linear", "knn", "tree", "boost"]),
    choice("linear.penalty", ["l1", "l2"], when=("model", ["linear"])),
    real("linear.c", 1e-4, 1e3, log=True, when=("model", ["linear"])),
    choice("knn.weights", ["uniform", "distance"], when=("model", ["knn"])),
    whole("knn.k", 1, 60, log=True, when=("model", ["knn"])),
    choice("tree.criterion", ["gini", "entropy"], when=("model", ["tree"])),
    whole("tree.depth", 1, 12, when=("model", ["tree"])),
    whole("tree.leaf", 1, 64, log=True, when=("model", ["tree"])),
    real("boost.rate", 0.003, 1.0, log=True, when=("model", ["boost"])),
    whole("boost.trees", 10, 160, log=True, when=("model", ["boost"])),
    whole("boost.depth", 1, 4, when=("model", ["boost"])),
]

DIGITS_SPACE = [
    choice("model", ["svm", "knn", "logistic", "trees", "bayes"]),
    choice("svm.kernel", ["linear", "rbf", "poly"], when=("model", ["svm"])),
    real("svm.c", 1e-3, 1e3, log=True, when=("model", ["svm"])),
    real("svm.gamma", 1e-4, 10.0, log=True, when=("svm.kernel", ["rbf", "poly"])),
    choice("knn.weights", ["uniform", "distance"], when=("model", ["knn"])),
    choice("knn.metric", ["manhattan", "euclidean", "chebyshev"], when=("model", ["knn"])),
    whole("knn.k", 1, 40, log=True, when=("model", ["knn"])),
    real("logistic.c", 1e-4, 1e4, log=True, when=("model", ["logistic"])),
    choice("trees.criterion", ["gini", "entropy"], when=("model", ["trees"])),
    whole("trees.leaf", 1, 32, log=True, when=("model", ["trees"])),
    whole("trees.depth", 2, 16, when=("model", ["trees"])),
    real("trees.share", 0.05, 1.0, when=("model", ["trees"])),
    real("bayes.smoothing", 1e-9, 10.0, log=True, when=("model", ["bayes"])),
]

SGD_SPACE = [
    choice("loss", ["hinge", "log_loss", "squared_hinge"]),
    choice("penalty", ["l1", "l2"]),
    choice("schedule", ["constant", "invscaling"]),
    real("alpha", 1e-6, 1.0, log=True),
    real("eta", 1e-5, 10.0, log=True),
]

MLP_SPACE = [
    choice("activation", ["relu", "tanh"]),
    choice("solver", ["adam", "sgd"]),
    real("rate", 1e-4, 1.0, log=True),
    whole("width", 4, 64, log=True),
    whole("batch", 8, 128, log=True),
    real("decay", 1e-5, 10.0, log=True),
]

LEARNED = [
    ("svm-digits", "mixed", "tune", "error of a support vector machine on 700 digits", SVM_SPACE),
    ("boost-diabetes", "mixed", "held-out", "squared error of gradient boosting on diabetes", BOOST_SPACE),
    ("cash-cancer", "conditional", "tune", "log loss on breast cancer, four classifiers", CANCER_SPACE),
    ("cash-digits", "conditional", "held-out", "error on 500 digits, five classifiers, two levels", DIGITS_SPACE),
    ("curves-sgd", "curves", "tune", "error of SGDClassifier on breast cancer, 20 epochs", SGD_SPACE, 20),
    ("curves-mlp", "curves", "held-out", "log loss of MLPClassifier on 600 digits, 27 epochs", MLP_SPACE, 27),
]
# A table that has not been made yet leaves its function out.
FUNCTIONS = [tabled(*learned) for learned in LEARNED if (TABLES / f"{learned[0]}.json").exists()]
