"""The results on disk, and what is read from them: normalised regret and ranks."""
import json
import os
import statistics
from pathlib import Path

from functions import ALL
from service import run

CACHE = Path(os.environ.get("TUNE_CACHE") or Path.home() / ".cache" / "tune") / "search-bench"
RESULTS = CACHE / "results"
# Of runs of the peers, which take hours and change with a peer's version alone: what tables are made of (keep.py).
KEPT = Path(__file__).resolve().parent / "kept"
BUDGETS = (50, 100, 200)
# Random search against which regrets are normalised: other seeds than the random search that is ranked.
BASELINE_SEEDS = 100
CAP = 2.0


def load(key):
    """The results of one sampler, by (function, seed, parallel); the longest run of each counts."""
    found = {}
    for path in (folder / f"{key}.jsonl" for folder in (KEPT, RESULTS)):
        for line in path.read_text().splitlines() if path.exists() else ():
            try:
                result = json.loads(line)
            except json.JSONDecodeError:
                continue  # a run that was killed while it wrote
            function = ALL.get(result["function"])
            if function is not None and function.revision == result["revision"]:
                found.setdefault((result["function"], result["seed"], result["parallel"]), {})[result["evals"]] = result
    return found


def keep(key):
    """Writes what tables are made of the results of one sampler beside this program; the number of runs."""
    lines = []
    for (function, seed, parallel), lengths in sorted(load(key).items()):
        longest = lengths[max(lengths)]
        trace = [[budget, best_at(longest, budget)] for budget in BUDGETS if budget <= longest["evals"]]
        # Before its first completed trial a run has no value.
        known = [[budget, value] for budget, value in trace if value != float("inf")]
        lines.append(json.dumps({
            "function": function, "revision": longest["revision"], "seed": seed, "parallel": parallel,
            "evals": longest["evals"], "trace": known, "cpu": longest["cpu"],
        }))  # fmt: skip
    KEPT.mkdir(exist_ok=True)
    (KEPT / f"{key}.jsonl").write_text("".join(line + "\n" for line in lines))
    return len(lines)


def pick(lengths, evals, exact):
    """The result to use of those with the lengths given; None if there is none."""
    if exact or not lengths:
        return lengths.get(evals)
    longest = lengths[max(lengths)]
    return longest if longest["evals"] >= evals else None


def save(key, result):
    RESULTS.mkdir(parents=True, exist_ok=True)
    with open(RESULTS / f"{key}.jsonl", "a") as file:
        file.write(json.dumps(result) + "\n")


def best_at(result, budget):
    """The judged value at a budget; infinity while no trial has been completed."""
    value = float("inf")
    for spent, best in result["trace"]:
        if spent > budget:
            break
        value = best
    return value


class Baseline:
    """The median regret of random search, for each function, budget and parallelism."""

    def __init__(self):
        from samplers import random_search

        self.sampler = random_search()
        self.path = CACHE / "baseline.json"
        self.known = json.loads(self.path.read_text()) if self.path.exists() else {}

    def regret(self, function, parallel, budget):
        # How many trials are running matters to random search only where the budget is shared among them.
        parallel = parallel if function.max_step else 1
        key = f"{function.name}/{function.revision}/{parallel}"
        if key not in self.known:
            runs = [run(self.sampler, function, 10_000 + i, parallel, max(BUDGETS)) for i in range(BASELINE_SEEDS)]
            self.known[key] = {
                str(b): statistics.median(best_at(one, b) for one in runs) - function.best for b in range(10, 201, 10)
            }
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Several runs may come here at once; each writes a whole file.
            mine = self.path.with_suffix(f".{os.getpid()}")
            mine.write_text(json.dumps(self.known))
            mine.replace(self.path)
        return self.known[key][str(budget)]


def normalised(baseline, function, parallel, budget, value):
    """Regret as a share of random search's median regret at the same budget: 0 the optimum, 1 as good as random.
    At most CAP, so that one lost run does not outweigh all others."""
    regret = max(0.0, value - function.best)
    scale = baseline.regret(function, parallel, budget)
    tiny = 1e-9 * max(1.0, abs(function.best))
    if regret <= tiny:
        return 0.0
    return min(CAP, regret / max(scale, tiny))


def ranks(values):
    """The ranks of the values of a dict, 1 the lowest; ties share the mean of their ranks."""
    order = sorted(values.values())
    return {
        name: (order.index(value) + 1 + len(order) - order[::-1].index(value)) / 2 for name, value in values.items()
    }
