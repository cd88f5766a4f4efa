#!/usr/bin/env python3
"""The constants of the forecast of what more trials bring (src/search/outlook.rs), from searches that `outlook.py` wrote.

    outlook_fit.py searches.jsonl pruned.jsonl

First, how often the 80 % interval held for functions that the constants were not fitted to: each fifth of the functions is
judged by a fit to the other four. Then the constants of a fit to all.
"""
import json
import math
import sys
from statistics import NormalDist

import numpy as np

AHEAD = 100
RANK = 5
FOLDS = 5


def forecasts(path):
    """What is known after each 50 trials, and what the next ones gained."""
    for line in open(path):
        search = json.loads(line)
        losses = [math.inf if x is None else x for x in search["losses"]]
        for now in range(50, len(losses) - AHEAD + 1, 50):
            past, half = losses[:now], now // 2
            best = min(past)
            values = sorted({x for x in past if x < math.inf})
            if len(values) < RANK:
                continue
            records = [i for i in range(now) if past[i] < min(past[:i], default=math.inf)]
            yield {
                "kind": path,
                "function": search["function"],
                "now": now,
                "odds": [
                    1.0,
                    math.log(sum(i >= now - half for i in records) + 0.5),
                    math.log(AHEAD / (now - records[-1])),
                    math.log(AHEAD / now),
                    sum(x == math.inf for x in past[now - half:]) / half,
                ],
                "gap": values[RANK - 1] - best,
                "gain": max(best - min(losses[now:now + AHEAD]), 0.0),
            }


def logistic(x, y):
    """The weights of a logistic regression, by Newton's method with a slight ridge."""
    weights = np.zeros(x.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-x @ weights))
        hessian = x.T @ (x * (p * (1 - p))[:, None]) + 0.1 * np.eye(len(weights))
        weights += np.linalg.solve(hessian, x.T @ (y - p) - 0.1 * weights)
    return weights


def least_absolute(x, y):
    """The weights with the least sum of absolute residuals, by reweighting."""
    weight = np.ones(len(y))
    for _ in range(30):
        root = np.sqrt(weight)
        weights = np.linalg.lstsq(x * root[:, None], y * root, rcond=None)[0]
        weight = 1 / np.maximum(np.abs(y - x @ weights), 0.1)
    return weights


def fit(rows):
    odds = np.array([r["odds"] for r in rows])
    came = np.array([r["gain"] > 0 for r in rows])
    sizes = [r for r in rows if r["gain"] > 0 and r["gap"] > 0]
    x = np.array([[1.0, r["odds"][-1]] for r in sizes])
    y = np.log([r["gain"] / r["gap"] for r in sizes])
    size = least_absolute(x, y)
    spread = np.quantile(y - x @ size, 0.8) / NormalDist().inv_cdf(0.8)
    return logistic(odds, came), size, spread


def high(row, fitted):
    """The upper end of the interval from 0 that has 80 % of what may come."""
    odds, size, spread = fitted
    chance = 1 / (1 + math.exp(-np.dot(row["odds"], odds)))
    if chance <= 0.2:
        return 0.0
    z = NormalDist().inv_cdf(1 - 0.2 / chance)
    return row["gap"] * math.exp(size[0] + size[1] * row["odds"][-1] + spread * z)


def main():
    rows = [row for path in sys.argv[1:] for row in forecasts(path)]
    functions = sorted({row["function"] for row in rows})
    held = {}
    for fold in range(FOLDS):
        judged = {name for i, name in enumerate(functions) if i % FOLDS == fold}
        fitted = fit([r for r in rows if r["function"] not in judged])
        for row in (r for r in rows if r["function"] in judged):
            for after in (min(row["now"], 250), "all"):
                held.setdefault((row["kind"], after), []).append((row["gain"] <= high(row, fitted), row["gain"] == 0))
    for (kind, after), found in sorted(held.items(), key=str):
        share = [100 * sum(column) / len(found) for column in zip(*found)]
        print(f"{kind} after {after}: {len(found)} forecasts, {share[0]:.0f} % held, nothing was gained in {share[1]:.0f} %")
    odds, size, spread = fit(rows)
    print("log odds of a gain:", np.round(odds, 2))
    print("log size:", np.round(size, 2), "spread:", round(float(spread), 2))


if __name__ == "__main__":
    main()
