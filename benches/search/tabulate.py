#!/usr/bin/env python3
"""Writes tables/: validation results of scikit-learn's models on its bundled data, at the points of a grid.

Needs the versions of `environments.py` (search-bench-tables). Takes some minutes for each table:

    $(python3 -c 'import environments as e; print(e.python("search-bench-tables"))') tabulate.py [TABLE...]
"""
import itertools
import json
import sys
import warnings
from pathlib import Path

import numpy as np
from sklearn import datasets
from sklearn.ensemble import ExtraTreesClassifier, GradientBoostingClassifier, GradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

FOLDS = 3
# Values are kept as whole multiples of this.
UNIT = 1e-4


def logs(low, high, count):
    return [float(f"{value:.6g}") for value in np.geomspace(low, high, count)]


def digits(rows):
    x, y = datasets.load_digits(return_X_y=True)
    return x[:rows] / 16, y[:rows]


def folds(x, y, scale="none"):
    """The parts of a cross-validation, scaled by what the training part knows."""
    splitter = (StratifiedKFold if y.dtype.kind == "i" else KFold)(FOLDS, shuffle=True, random_state=0)
    for train, test in splitter.split(x, y):
        a, b = x[train], x[test]
        if scale != "none":
            scaler = {"standard": StandardScaler, "minmax": MinMaxScaler}[scale]().fit(a)
            a, b = scaler.transform(a), scaler.transform(b)
        yield a, y[train], b, y[test]


def error(make, data, scale="none"):
    """Mean share of wrong answers."""
    return float(np.mean([1 - make().fit(a, s).score(b, t) for a, s, b, t in folds(*data, scale)]))


def loss(make, data, scale="none"):
    """Mean log loss, at most 2."""
    found = [log_loss(t, make().fit(a, s).predict_proba(b)) for a, s, b, t in folds(*data, scale)]
    return min(2.0, float(np.mean(found)))


def leaf(when, axes, value):
    """One table of numbers: `value(**point)` at the points of the axes, the last axis fastest."""
    names = [name for name, _, _ in axes]
    points = itertools.product(*(at for _, _, at in axes))
    values = [np.rint(np.asarray(value(**dict(zip(names, point)))) / UNIT).astype(int).tolist() for point in points]
    print(f"  {when}: {len(values)} points", file=sys.stderr, flush=True)
    return {"when": when, "axes": axes, "values": values}


def svm_digits():
    data = digits(700)
    for kernel, scale in itertools.product(["rbf", "poly", "sigmoid"], ["none", "standard", "minmax"]):
        yield leaf(
            {"kernel": kernel, "scale": scale},
            [("c", "log", logs(1e-3, 1e3, 13)), ("gamma", "log", logs(1e-5, 1.0, 11))],
            lambda c, gamma: error(lambda: SVC(C=c, gamma=gamma, kernel=kernel, max_iter=20000), data, scale),
        )  # fmt: skip


def boost_diabetes():
    """Squared error as a share of the variance: gradient boosting; the number of trees comes by stages."""
    x, y = datasets.load_diabetes(return_X_y=True)
    trees = [10, 20, 40, 80, 160, 320]

    def staged(rate, depth, part, columns):
        total = np.zeros(len(trees))
        for a, s, b, t in folds(x, y):
            model = GradientBoostingRegressor(
                learning_rate=rate, n_estimators=trees[-1], max_depth=depth, subsample=part, max_features=columns,
                random_state=0,
            ).fit(a, s)
            stages = list(model.staged_predict(b))
            total += [np.mean((stages[n - 1] - t) ** 2) / np.var(y) for n in trees]
        return np.minimum(total / FOLDS, 3.0)

    for name, columns in (("all", None), ("half", 0.5), ("sqrt", "sqrt")):
        axes = [("rate", "log", logs(0.005, 1.0, 8)), ("depth", "linear", [1, 2, 3, 5, 8]),
                ("part", "linear", [0.2, 0.5, 0.8, 1.0])]  # fmt: skip
        made = leaf({"columns": name}, axes, lambda rate, depth, part: staged(rate, depth, part, columns))
        made["axes"].append(("trees", "log", trees))
        made["values"] = list(itertools.chain(*made["values"]))
        yield made


def cash_digits():
    """Which classifier, and its own parameters; the kernel of the machine has one more of its own."""
    data = digits(500)
    c = ("svm.c", "log", logs(1e-3, 1e3, 10))
    yield leaf({"model": "svm", "svm.kernel": "linear"}, [c],
               lambda **p: error(lambda: SVC(C=p["svm.c"], kernel="linear"), data))  # fmt: skip
    for kernel in ("rbf", "poly"):
        yield leaf({"model": "svm", "svm.kernel": kernel}, [c, ("svm.gamma", "log", logs(1e-4, 10.0, 11))],
                   lambda **p: error(lambda: SVC(C=p["svm.c"], gamma=p["svm.gamma"], kernel=kernel), data))  # fmt: skip
    for weights, metric in itertools.product(["uniform", "distance"], ["manhattan", "euclidean", "chebyshev"]):
        yield leaf(
            {"model": "knn", "knn.weights": weights, "knn.metric": metric},
            [("knn.k", "log", [1, 2, 3, 5, 8, 13, 21, 40])],
            lambda **p: error(lambda: KNeighborsClassifier(p["knn.k"], weights=weights, metric=metric), data),
        )
    yield leaf({"model": "logistic"}, [("logistic.c", "log", logs(1e-4, 1e4, 13))],
               lambda **p: error(lambda: LogisticRegression(C=p["logistic.c"], max_iter=300), data))  # fmt: skip
    for criterion in ("gini", "entropy"):
        yield leaf(
            {"model": "trees", "trees.criterion": criterion},
            [("trees.leaf", "log", [1, 2, 4, 8, 16, 32]), ("trees.depth", "linear", [2, 4, 7, 11, 16]),
             ("trees.share", "linear", [0.05, 0.15, 0.3, 0.6, 1.0])],
            lambda **p: error(lambda: ExtraTreesClassifier(
                40, criterion=criterion, min_samples_leaf=p["trees.leaf"], max_depth=p["trees.depth"],
                max_features=p["trees.share"], random_state=0), data),
        )  # fmt: skip
    yield leaf({"model": "bayes"}, [("bayes.smoothing", "log", logs(1e-9, 10.0, 11))],
               lambda **p: error(lambda: GaussianNB(var_smoothing=p["bayes.smoothing"]), data))  # fmt: skip


def cash_cancer():
    """Log loss on breast cancer: a linear model with its penalty, boosting, a tree, neighbours; scaled or not."""
    data = datasets.load_breast_cancer(return_X_y=True)
    for scale in ("none", "standard"):
        for penalty in ("l1", "l2"):
            yield leaf(
                {"scale": scale, "model": "linear", "linear.penalty": penalty},
                [("linear.c", "log", logs(1e-4, 1e3, 15))],
                lambda **p: loss(lambda: LogisticRegression(
                    C=p["linear.c"], penalty=penalty, solver="liblinear", max_iter=300), data, scale),
            )  # fmt: skip
        for weights in ("uniform", "distance"):
            yield leaf({"scale": scale, "model": "knn", "knn.weights": weights},
                       [("knn.k", "log", [1, 2, 3, 5, 8, 12, 18, 27, 40, 60])],
                       lambda **p: loss(lambda: KNeighborsClassifier(p["knn.k"], weights=weights), data, scale))  # fmt: skip
        for criterion in ("gini", "entropy"):
            yield leaf(
                {"scale": scale, "model": "tree", "tree.criterion": criterion},
                [("tree.depth", "linear", [1, 2, 3, 5, 8, 12]), ("tree.leaf", "log", [1, 2, 4, 8, 16, 32, 64])],
                lambda **p: loss(lambda: DecisionTreeClassifier(
                    criterion=criterion, max_depth=p["tree.depth"], min_samples_leaf=p["tree.leaf"], random_state=0
                ), data, scale),
            )  # fmt: skip
        yield leaf(
            {"scale": scale, "model": "boost"},
            [("boost.rate", "log", logs(0.003, 1.0, 8)), ("boost.trees", "log", [10, 20, 40, 80, 160]),
             ("boost.depth", "linear", [1, 2, 4])],
            lambda **p: loss(lambda: GradientBoostingClassifier(
                learning_rate=p["boost.rate"], n_estimators=p["boost.trees"], max_depth=p["boost.depth"],
                random_state=0, max_features=5), data, scale),
        )  # fmt: skip


def partial(make, data, epochs, scale, measure, worst):
    """The curve of a model that learns by epochs, in batches of its own; `worst` once it has diverged."""
    curves = []
    for a, s, b, t in folds(*data, scale):
        model, curve = make(), []
        for epoch in range(epochs):
            order = np.random.default_rng(epoch).permutation(len(s))
            try:
                model.partial_fit(a[order], s[order], classes=np.unique(data[1]))
                curve.append(measure(model, b, t))
            except ValueError:
                curve.append(worst)  # weights that have overflowed
        curves.append(curve)
    return np.mean(curves, axis=0)


def curves_sgd():
    data = datasets.load_breast_cancer(return_X_y=True)
    for kind, penalty, schedule in itertools.product(
        ["hinge", "log_loss", "squared_hinge"], ["l1", "l2"], ["constant", "invscaling"]
    ):
        yield leaf(
            {"loss": kind, "penalty": penalty, "schedule": schedule},
            [("alpha", "log", logs(1e-6, 1.0, 5)), ("eta", "log", logs(1e-5, 10.0, 10))],
            lambda alpha, eta: partial(
                lambda: SGDClassifier(loss=kind, penalty=penalty, alpha=alpha, learning_rate=schedule, eta0=eta,
                                      random_state=0),
                data, 20, "standard", lambda model, b, t: 1 - model.score(b, t), 0.6),
        )  # fmt: skip


def curves_mlp():
    data = digits(600)
    labels = np.unique(data[1])

    def measure(model, b, t):
        found = log_loss(t, np.nan_to_num(model.predict_proba(b), nan=0.1), labels=labels)
        return min(2.5, float(found))

    for activation, solver in itertools.product(["relu", "tanh"], ["adam", "sgd"]):
        yield leaf(
            {"activation": activation, "solver": solver},
            [("rate", "log", logs(1e-4, 1.0, 9)), ("width", "log", [4, 16, 64]), ("batch", "log", [8, 32, 128]),
             ("decay", "log", [1e-5, 1e-2, 10.0])],
            lambda rate, width, batch, decay: partial(
                lambda: MLPClassifier((width,), activation=activation, solver=solver, learning_rate_init=rate,
                                      batch_size=batch, alpha=decay, random_state=0),
                data, 27, "none", measure, 2.5),
        )  # fmt: skip


TABLES = {
    "svm-digits": svm_digits,
    "boost-diabetes": boost_diabetes,
    "cash-digits": cash_digits,
    "cash-cancer": cash_cancer,
    "curves-sgd": curves_sgd,
    "curves-mlp": curves_mlp,
}


def main():
    warnings.simplefilter("ignore")
    for name in sys.argv[1:] or TABLES:
        print(name, file=sys.stderr)
        leaves = list(TABLES[name]())
        text = ",\n".join(json.dumps(one, separators=(",", ":")) for one in leaves)
        path = Path(__file__).resolve().parent / "tables" / f"{name}.json"
        path.write_text(f'{{"unit":{UNIT},"leaves":[\n{text}\n]}}\n')


if __name__ == "__main__":
    main()
