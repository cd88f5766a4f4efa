"""What the results say: regrets, ranks and CPU time of some samplers on some functions, and the console's tables."""
import statistics
from dataclasses import dataclass
from typing import Optional

import results
from functions import KINDS


@dataclass(frozen=True)
class Row:
    """A sampler on some functions: mean normalised regret, mean rank, the functions whose median is worse than that
    of random search, and how many runs were counted."""

    regret: Optional[float]
    rank: Optional[float]
    behind: int
    runs: int


class Table:
    """The results at one parallelism."""

    def __init__(self, samplers, functions, seeds, evals, parallel):
        self.functions = functions
        self.seeds = range(seeds)
        self.parallel = parallel
        self.baseline = results.Baseline()
        self.runs = {}
        for sampler in samplers:
            have = results.load(sampler.key)
            for function in functions:
                for seed in self.seeds:
                    lengths = have.get((function.name, seed, parallel), {})
                    found = results.pick(lengths, sampler.evals(evals), sampler.exact)
                    if found is not None:
                        self.runs[sampler.key, function.name, seed] = found
        self.samplers = [sampler for sampler in samplers if self.has_run(sampler)]

    def has_run(self, sampler):
        """Whether it has run nearly all functions at least once: only what everybody has run is compared, and one
        that has just begun would leave nothing of that."""
        asked = [one.name for one in self.functions if one.kind in sampler.kinds]
        found = {name for key, name, _ in self.runs if key == sampler.key}
        return bool(asked) and len(found) >= 0.9 * len(asked)

    def taking_part(self, kind, budget):
        """Who runs functions of this kind for that long."""
        return [one for one in self.samplers if kind in one.kinds and one.evals(budget) == budget]

    def run(self, sampler, function, seed, budget):
        """The run; None where there is none, or it was too short."""
        found = self.runs.get((sampler.key, function.name, seed))
        return found if found is not None and found["evals"] >= budget else None

    def shared_seeds(self, function, budget):
        """The seeds with which everybody has run the function: only those are compared."""
        everybody = self.taking_part(function.kind, budget)
        return [s for s in self.seeds if all(self.run(one, function, s, budget) is not None for one in everybody)]

    def regrets(self, sampler, function, budget):
        """Normalised regrets of the shared seeds."""
        if sampler not in self.taking_part(function.kind, budget):
            return []
        return [
            results.normalised(
                self.baseline, function, self.parallel, budget,
                results.best_at(self.run(sampler, function, seed, budget), budget),
            )
            for seed in self.shared_seeds(function, budget)
        ]  # fmt: skip

    def median(self, sampler, function, budget):
        """The median normalised regret; None without runs."""
        found = self.regrets(sampler, function, budget)
        return statistics.median(found) if found else None

    def ranks(self, function, budget):
        """By sampler's key: its rank with each shared seed. Regrets below 1e-9 are ties."""
        everybody = self.taking_part(function.kind, budget)
        gathered = {sampler.key: [] for sampler in everybody}
        tiny = 1e-9 * max(1.0, abs(function.best))
        for seed in self.shared_seeds(function, budget):
            regrets = {
                one.key: max(results.best_at(self.run(one, function, seed, budget), budget) - function.best, tiny)
                for one in everybody
            }
            for key, rank in results.ranks(regrets).items():
                gathered[key].append(rank)
        return gathered

    def summary(self, functions, budget):
        """By sampler's key: its Row over all these functions, each of them weighing the same."""
        means = {sampler.key: ([], [], []) for sampler in self.samplers}
        for function in functions:
            ranks = self.ranks(function, budget)
            for sampler in self.taking_part(function.kind, budget):
                regrets = self.regrets(sampler, function, budget)
                if regrets:
                    means[sampler.key][0].append(statistics.mean(regrets))
                    means[sampler.key][1].append(statistics.mean(ranks[sampler.key]))
                    means[sampler.key][2].append((statistics.median(regrets) > 1.0, len(regrets)))
        rows = {}
        for key, (regrets, ranks, counts) in means.items():
            # One that takes part in some of the functions only has no place in their common table.
            if len(regrets) == max(len(other[0]) for other in means.values()) and regrets:
                behind = sum(worse for worse, _ in counts)
                runs = sum(count for _, count in counts)
                rows[key] = Row(statistics.mean(regrets), statistics.mean(ranks), behind, runs)
            else:
                rows[key] = Row(None, None, 0, 0)
        return rows

    def cpu_per_ask(self, sampler, budget):
        """Mean CPU time of an ask and its tell, in ms, over the first `budget` evaluations; None without runs."""
        found = [
            run["cpu"][str(budget)] for (key, _, _), run in self.runs.items()
            if key == sampler.key and str(budget) in run["cpu"]
        ]  # fmt: skip
        return 1e3 * statistics.mean(cpu / asks for cpu, asks in found) if found else None


def number(value, digits=3):
    """A number for a table; a dash for None."""
    return "-" if value is None else f"{value:.{digits}f}"


def budgets(evals):
    """The budgets that are read off a run of this length."""
    return [budget for budget in results.BUDGETS if budget <= evals] or [evals]


def by_kind(functions):
    """The kinds that occur, each with its functions, and all of them at the end."""
    groups = [(kind, [one for one in functions if one.kind == kind]) for kind in KINDS]
    groups = [group for group in groups if group[1]]
    return groups + [("all", functions)] if len(groups) > 1 else groups


def console(samplers, functions, seeds, evals, parallels):
    """Prints mean normalised regret / mean rank (functions behind random) by kind, and medians by function."""
    width = max(len(sampler.name) for sampler in samplers)
    for parallel in parallels:
        table = Table(samplers, functions, seeds, evals, parallel)
        for budget in budgets(evals):
            columns = [(kind, table.summary(group, budget)) for kind, group in by_kind(functions)]
            runs = max((row.runs for row in columns[-1][1].values()), default=0)
            print(f"\n{budget} evaluations, {parallel} running, {runs} runs each: mean normalised regret / mean rank "
                  "(functions behind random)")  # fmt: skip
            print(" " * width, *(f"{kind:>18}" for kind, _ in columns))
            for sampler in table.samplers:
                rows = [column[sampler.key] for _, column in columns]
                cells = [f"{number(r.regret)} / {number(r.rank, 2)} ({r.behind})" for r in rows]
                print(f"{sampler.name:{width}}", *(f"{cell:>18}" for cell in cells))
        budget = budgets(evals)[-1]
        print(f"\n{budget} evaluations, {parallel} running: median normalised regret")
        print(" " * 20, *(f"{sampler.name:>{max(7, len(sampler.name))}}" for sampler in table.samplers))
        for function in functions:
            medians = [(s.name, number(table.median(s, function, budget))) for s in table.samplers]
            print(f"{function.name:20}", *(f"{text:>{max(7, len(name))}}" for name, text in medians))
