"""Hypervolumes of Optuna's samplers on the functions of src/search/sampler/several_tests.rs, mean of 5 seeds.

    $(tests/optuna/venv.sh 5.0.0) tests/several/optuna_hypervolume.py
"""

import math
import warnings

import optuna

optuna.logging.set_verbosity(optuna.logging.ERROR)
warnings.simplefilter("ignore")


def cube(trial, n):
    return [trial.suggest_float(f"x{i}", 0.0, 1.0) for i in range(n)]


def zdt(trial, shape):
    x = cube(trial, 10)
    g = 1 + 9 * sum(x[1:]) / 9
    return x[0], g * shape(x[0], x[0] / g)


def zdt1(trial):
    return zdt(trial, lambda f, r: 1 - math.sqrt(r))


def zdt2(trial):
    return zdt(trial, lambda f, r: 1 - r * r)


def zdt3(trial):
    return zdt(trial, lambda f, r: 1 - math.sqrt(r) - r * math.sin(10 * math.pi * f))


def dtlz2(trial):
    x = cube(trial, 7)
    g = sum((v - 0.5) ** 2 for v in x[2:])
    a, b = x[0] * math.pi / 2, x[1] * math.pi / 2
    shape = math.cos(a) * math.cos(b), math.cos(a) * math.sin(b), math.sin(a)
    return tuple((1 + g) * s for s in shape)


def mixed(trial):
    optimiser = trial.suggest_categorical("optimiser", ["sgd", "adam", "rms"])
    model = trial.suggest_categorical("model", ["plain", "wide", "deep"])
    layers = trial.suggest_int("layers", 1, 12)
    width = trial.suggest_int("width", 16, 1024, log=True)
    lr = trial.suggest_float("lr", 1e-5, 1.0, log=True)
    decay = trial.suggest_float("decay", 1e-6, 0.1, log=True)
    offset, factor = {"plain": (0.15, 1.0), "wide": (0.05, 1.6), "deep": (0.0, 2.2)}[model]
    if optimiser == "sgd":
        off = (trial.suggest_float("momentum", 0.0, 1.0) - 0.9) ** 2
    else:
        off = 0.05 if optimiser == "adam" else 0.1
    size = layers * math.log2(width) / 120
    error = offset + off + abs(math.log10(lr) + 2.5) / 10 + abs(math.log10(decay) + 4) / 20
    return error + 0.5 * (1 - size) ** 2, factor * size


def volume(points, reference):
    """By slices along the last objective."""
    points = sorted((p for p in points if all(x < r for x, r in zip(p, reference))), key=lambda p: p[-1])
    if len(reference) == 1:
        return reference[0] - points[0][0] if points else 0.0
    total = 0.0
    for i, point in enumerate(points):
        end = points[i + 1][-1] if i + 1 < len(points) else reference[-1]
        if end > point[-1]:
            total += (end - point[-1]) * volume([p[:-1] for p in points[: i + 1]], reference[:-1])
    return total


PROBLEMS = [
    ("ZDT1", zdt1, (1.1, 7.0)),
    ("ZDT2", zdt2, (1.1, 7.0)),
    ("ZDT3", zdt3, (1.1, 7.0)),
    ("DTLZ2", dtlz2, (1.5, 1.5, 1.5)),
    ("mixed", mixed, (1.5, 2.5)),
]
SAMPLERS = {
    "nsga2": lambda seed: optuna.samplers.NSGAIISampler(seed=seed),
    "tpe": lambda seed: optuna.samplers.TPESampler(seed=seed),
    "tpe-multivariate": lambda seed: optuna.samplers.TPESampler(
        seed=seed, multivariate=True, group=True
    ),
}

for name, objective, reference in PROBLEMS:
    for sampler, make in SAMPLERS.items():
        found = []
        for seed in range(5):
            study = optuna.create_study(
                directions=["minimize"] * len(reference), sampler=make(seed)
            )
            study.optimize(objective, n_trials=200)
            values = [tuple(t.values) for t in study.best_trials]
            found.append(volume(values, reference))
        print(name, sampler, f"{sum(found) / 5:.4f}", flush=True)
