"""What the results say: the table on the console."""
import statistics

import results
from functions import KINDS


class Table:
    """The results of some samplers on some functions, at one parallelism."""

    def __init__(self, samplers, functions, seeds, evals, parallel):
        self.samplers = samplers
        self.functions = functions
        self.parallel = parallel
        self.baseline = results.Baseline()
        self.runs = {}
        for sampler in samplers:
            have = results.load(sampler.key)
            for function in functions:
                for seed in range(seeds):
                    lengths = have.get((function.name, seed, parallel), {})
                    found = results.pick(lengths, sampler.evals(evals), sampler.exact)
                    if found is not None:
                        self.runs[sampler.key, function.name, seed] = found
        self.seeds = seeds

    def value(self, sampler, function, seed, budget):
        """The judged value; None where there is no such run, or it was too short."""
        found = self.runs.get((sampler.key, function.name, seed))
        return results.best_at(found, budget) if found is not None and found["evals"] >= budget else None

    def regrets(self, sampler, function, budget):
        """Normalised regrets of all seeds."""
        values = (self.value(sampler, function, seed, budget) for seed in range(self.seeds))
        return [
            results.normalised(self.baseline, function, self.parallel, budget, value)
            for value in values
            if value is not None
        ]

    def summary(self, functions, budget):
        """By sampler's key: mean normalised regret, mean rank, functions behind random, pairs counted."""
        gathered = {sampler.key: ([], [], 0) for sampler in self.samplers}
        for function in functions:
            for sampler in self.samplers:
                regrets = self.regrets(sampler, function, budget)
                if regrets:
                    own, ranked, behind = gathered[sampler.key]
                    own.append(statistics.mean(regrets))
                    gathered[sampler.key] = (own, ranked, behind + (statistics.median(regrets) > 1.0))
            for seed in range(self.seeds):
                taking_part = [sampler for sampler in self.samplers if function.kind in sampler.kinds]
                values = {s.key: self.value(s, function, seed, budget) for s in taking_part}
                # Ranks count where everybody has run.
                if None not in values.values() and values:
                    rounded = {key: self.rounded(function, value) for key, value in values.items()}
                    for key, rank in results.ranks(rounded).items():
                        gathered[key][1].append(rank)
        return {
            key: (
                statistics.mean(own) if own else None, statistics.mean(ranked) if ranked else None, behind, len(own)
            )
            for key, (own, ranked, behind) in gathered.items()
        }  # fmt: skip

    @staticmethod
    def rounded(function, value):
        """Regrets below 1e-9 are ties."""
        return max(value - function.best, 1e-9 * max(1.0, abs(function.best)))


def number(value, digits=3):
    return "-" if value is None else f"{value:.{digits}f}"


def console(samplers, functions, seeds, evals, parallels):
    """Mean normalised regret / mean rank by kind, and medians by function, on stdout."""
    budgets = [budget for budget in results.BUDGETS if budget <= evals] or [evals]
    width = max([len(sampler.name) for sampler in samplers] + [10])
    for parallel in parallels:
        table = Table(samplers, functions, seeds, evals, parallel)
        for budget in budgets:
            print(f"\n{budget} evaluations, {parallel} running: mean normalised regret / mean rank (behind random)")
            kinds = [kind for kind in KINDS if any(f.kind == kind for f in functions)]
            print(" " * width, *(f"{kind:>18}" for kind in [*kinds, "all"]))
            columns = [table.summary([f for f in functions if f.kind == kind], budget) for kind in kinds]
            columns.append(table.summary(functions, budget))
            for sampler in samplers:
                cells = []
                for column in columns:
                    regret, rank, behind, _ = column[sampler.key]
                    cells.append(f"{number(regret)} / {number(rank, 2)} ({behind})")
                print(f"{sampler.name:{width}}", *(f"{cell:>18}" for cell in cells))
        budget = budgets[-1]
        print(f"\n{budget} evaluations, {parallel} running: median normalised regret")
        print(" " * 20, *(f"{sampler.name:>{max(9, len(sampler.name))}}" for sampler in samplers))
        for function in functions:
            medians = [table.regrets(sampler, function, budget) for sampler in samplers]
            cells = [number(statistics.median(found) if found else None) for found in medians]
            print(f"{function.name:20}", *(f"{c:>{max(9, len(s.name))}}" for c, s in zip(cells, samplers)))
