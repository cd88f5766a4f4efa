"""Writes tests/data/pruner-oracle.json: what the pruners of Optuna 5.0.0 decide.

Needs optuna 5.0.0 with SciPy. Each case is a study as it went: every report with Optuna's answer,
which the trial follows, and every end. Where Optuna compares the latest reports and we the best ones
(successive halving, Hyperband), Optuna is told the best value so far.
"""

import json
import math
import random
import sys
import warnings

import optuna
from optuna import pruners
from optuna.trial import TrialState

optuna.logging.set_verbosity(optuna.logging.ERROR)
warnings.simplefilter("ignore")


def number(value):
    return value if math.isfinite(value) else str(value).replace("nan", "NaN")


def curve(rng, steps, nan, sign, rise):
    """A falling, noisy curve that may rise again; few values, so that equal ones meet."""
    end, rate, noise = rng.random() * 2, 0.05 + rng.random() * 0.4, rng.choice([0.0, 0.2])
    out = []
    for step in range(steps):
        value = end + 2 * math.exp(-rate * step) + rise * rng.random() * step + rng.gauss(0, noise)
        out.append(math.nan if rng.random() < nan else sign * round(value, 1))
    return out


class Case:
    def __init__(self, kind, options, make, *, seed, sign=1, trials=14, steps=9, parallel=3, nan=0.0,
                 best_so_far=False, folds=False, rise=0.0,
                 first_counts_at=()):
        self.rng = random.Random(seed)
        self.pruner = make()
        direction = "minimize" if sign == 1 else "maximize"
        name = f"study {seed}"
        self.study = optuna.create_study(study_name=name, direction=direction, pruner=self.pruner)
        self.sign, self.steps, self.nan = sign, steps, nan
        self.best_so_far, self.folds, self.rise = best_so_far, folds, rise
        self.first_counts_at = first_counts_at
        self.events = []
        self.run(trials, parallel)
        self.json = {"kind": kind, "options": options, "direction": direction, "study": name,
                     "events": self.events}

    def run(self, trials, parallel):
        running, started = [], 0
        while started < trials or running:
            while started < trials and len(running) < parallel:
                running.append((self.study.ask(), self.reports(), []))
                started += 1
            at = self.rng.randrange(len(running))
            if self.advance(*running[at]):
                running.pop(at)

    def count(self, trial, done):
        """Optuna's rungs forget the trial that they learned their steps from; ours do not."""
        for rung, step in enumerate(self.first_counts_at):
            best = self.sign * min(self.sign * v for s, v in done if s <= step)
            storage = self.study._storage
            storage.set_trial_system_attr(trial._trial_id, f"completed_rung_{rung}", best)

    def reports(self):
        if not self.folds:
            return list(enumerate(curve(self.rng, self.steps, self.nan, self.sign, self.rise)))
        level, ids = self.rng.gauss(0, 0.6), list(range(self.steps))
        return [(i, round(i % 5 + level + self.rng.gauss(0, 0.5), 1)) for i in ids]

    def advance(self, trial, reports, done):
        """The next report, or the end; whether it was the end."""
        if len(done) == len(reports):
            values = [v for _, v in done if not math.isnan(v)]
            if (self.rng.random() < 0.1 and trial.number > 0) or not values:
                self.study.tell(trial, state=TrialState.FAIL)
                self.events.append(["fail", trial.number])
                return True
            value = self.sign * min(self.sign * v for v in values)
            if self.folds:
                value = sum(values) / len(values)
            if trial.number == 0:
                self.count(trial, done)
            self.study.tell(trial, value)
            self.events.append(["complete", trial.number, value])
            return True
        step, value = reports[len(done)]
        done.append((step, value))
        told = value
        if self.best_so_far:
            told = self.sign * min((self.sign * v for _, v in done if not math.isnan(v)),
                                   default=math.nan)
        trial.report(told, step)
        frozen = self.study.get_trials(deepcopy=True)[trial.number]
        prune = bool(self.pruner.prune(self.study, frozen))
        self.events.append(["report", trial.number, step, number(value), prune])
        if prune:
            self.study.tell(trial, state=TrialState.PRUNED)
        return prune


def cases():
    def percentile(kind, seed, nan, sign, **options):
        def make():
            rest = dict(options)
            return pruners.PercentilePruner(rest.pop("percentile", 50.0), **rest)
        return Case(kind, options, make, seed=seed, nan=nan, sign=sign)

    for seed in range(6):
        sign = 1 if seed % 2 else -1
        yield percentile("median", seed, 0.1 * (seed % 3), sign, n_startup_trials=seed,
                         n_warmup_steps=seed % 3, interval_steps=1 + seed % 4, n_min_trials=1 + seed // 2)
        yield percentile("percentile", 10 + seed, 0.05 * (seed % 3), sign, percentile=15.0 * seed,
                         n_startup_trials=2, n_warmup_steps=seed % 2, interval_steps=1 + seed % 2)
        options = {"min_resource": 1 + seed % 3, "reduction_factor": 2 + seed % 3,
                   "min_early_stopping_rate": seed // 3, "bootstrap_count": seed % 4 // 3 * 2}
        yield Case("asha", options, lambda: pruners.SuccessiveHalvingPruner(**options),
                   seed=20 + seed, sign=sign, trials=24, steps=17, nan=0.1 * (seed % 2), best_so_far=True)
        options = {"min_resource": 1 + seed % 2, "max_resource": 9 + 9 * seed, "reduction_factor": 2 + seed % 2}
        yield Case("hyperband", options, lambda: pruners.HyperbandPruner(**options),
                   seed=30 + seed, sign=sign, trials=40, steps=13, best_so_far=True)
        options = {"patience": seed % 4, "min_delta": 0.1 * (seed % 3)}
        yield Case("patient", options | {"wrapped.kind": "none"}, lambda: pruners.PatientPruner(None, **options),
                   seed=40 + seed, sign=sign, trials=8, rise=0.3)
        options = {"patience": 1 + seed % 3}
        wrapped = {"wrapped.kind": "median", "wrapped.n_startup_trials": 2}
        yield Case("patient", options | wrapped,
                   lambda: pruners.PatientPruner(pruners.MedianPruner(n_startup_trials=2), **options),
                   seed=50 + seed, sign=sign, rise=0.3)
        options = {"lower": 0.5 * sign, "upper": 3.5 * sign, "n_warmup_steps": seed % 3,
                   "interval_steps": 1 + seed % 2}
        options["lower"], options["upper"] = sorted([options["lower"], options["upper"]])
        yield Case("threshold", options, lambda: pruners.ThresholdPruner(**options),
                   seed=60 + seed, sign=sign, trials=8, nan=0.02)
        options = {"p_threshold": [0.1, 0.3, 0.02][seed % 3], "n_startup_steps": 2 + seed}
        yield Case("wilcoxon", options, lambda: pruners.WilcoxonPruner(**options),
                   seed=70 + seed, sign=sign, trials=10, steps=13, folds=True)
    yield Case("asha", {}, pruners.SuccessiveHalvingPruner, seed=80, trials=9, steps=70, parallel=1,
               best_so_far=True, first_counts_at=[1, 4, 16, 64])
    yield Case("asha", {"min_resource": "auto", "reduction_factor": 3},
               lambda: pruners.SuccessiveHalvingPruner("auto", 3), seed=81, trials=9, steps=210,
               parallel=1, best_so_far=True, first_counts_at=[2, 6, 18, 54, 162])


def main():
    assert optuna.__version__ == "5.0.0", optuna.__version__
    found = [case.json for case in cases()]
    with open(sys.argv[1], "w") as out:
        rows = ",\n".join(json.dumps(case) for case in found)
        out.write(f"[\n{rows}\n]\n")
    kinds = {}
    for case in found:
        asked = [e for e in case["events"] if e[0] == "report"]
        counts = kinds.setdefault(case["kind"], [0, 0])
        counts[0] += len(asked)
        counts[1] += sum(e[4] for e in asked)
    print(kinds)


main()
