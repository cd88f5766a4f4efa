#!/usr/bin/env python3
"""Writes docs/search-quality.md from the results that are there, and prints a short table. Sections written by hand stay.

Takes the options of run.py: those say which samplers, functions, seeds and lengths are shown.
"""
import datetime
import os
import platform
from pathlib import Path

import table
from options import arguments, chosen_functions, chosen_samplers, kept_binaries
from results import BASELINE_SEEDS, CAP

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "search-quality.md"

BY_HAND = "<!-- report.py writes what stands above. What follows is written by hand, and stays. -->\n"

METHOD = """# Search quality

How good the points are that tune proposes, beside other programs, on published functions and on real machine learning
problems. `make search-bench` runs the comparison and writes this page up to [Functions](#functions) (`benches/search/`); the sections
behind it name their own commands. A stopped run goes on where it was, and peers are not run again where `benches/search/kept` has their
results.
Written on {date} on {machine}.

**Runs.** Every sampler is a process that serves the [ask-tell protocol](ask-tell.md), with one thread. It minimises each
function with the seeds 0 to {last_seed}. With one running trial each point is told before the next is asked for. With
four, four are asked for, the oldest is told, the next is asked for. Values at 50, 100 and 200 evaluations are read off
one run; the samplers are told its length.

**Noise.** The observed values carry the noise; a sampler is judged by the noiseless value of the point whose observed
value is best.

**Learning curves.** The budget is counted in steps: 50 evaluations are 50 times the last step, so that a trial that is
ended early leaves steps for others. Trials that run at a time take their steps in turn. The best last value of completed
trials counts.

**Normalised regret.** (best value so far - optimum) / (median of the same for random search - optimum), the median over
{baseline} runs of random search with other seeds, at the same budget. 0 is the optimum, 1 is no better than random search.
Means would be ruled by single lost runs, hence a run counts {cap:g} at most. This normalisation needs no guess of a
function's range, and its unit means the same at each budget.

**Mean rank.** Of all samplers of the table, for each function and seed, 1 the best; equal regrets share their ranks.
*Behind random* counts the functions on which the median normalised regret is above 1. Only runs that every sampler of a
table has made are compared; each function weighs the same.

**Tuned on, held out.** tune's defaults were chosen with the functions marked *tune* in mind; the others were left out
of that, and are the ones to judge by.
"""

PEERS = """## Samplers

| name | what it is |
|---|---|
| `optuna-tpe` | Optuna's TPESampler, `multivariate=True, group=True`, `constant_liar=True` where four trials run, no pruner |
| `optuna-tpe-default` | Optuna's TPESampler as it comes, no pruner; the same as `optuna-tpe` where all parameters are always active |
| `optuna-tpe-univariate` | Optuna's TPESampler with `multivariate=False`, no pruner |
| `optuna-tpe+median`, `optuna-tpe+hyperband` | Optuna's TPESampler and that pruner as they come; learning curves only |
| `optuna-gp` | Optuna's GPSampler as it comes, up to 100 evaluations |
| `smac` | SMAC3's HyperparameterOptimizationFacade, deterministic, told and run for 100 evaluations |
| `hyperopt` | Hyperopt's `tpe.suggest` as it comes |
| `random` | uniform, in the logarithm where the scale is one |
"""


def machine():
    """The processor and what runs on it, without names of places."""
    model = platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    except OSError:
        pass
    return f"{os.cpu_count()} cores ({model}), Python {platform.python_version()}"


def grid(head, rows):
    """A table in Markdown."""
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def functions_table(functions):
    rows = []
    for one in functions:
        best = f"{one.best:.6g}" + (" (best known)" if one.best_known else "")
        more = [f"noise {one.noise:g}"] if one.noise else []
        more += [f"{one.max_step} steps"] if one.max_step else []
        rows.append([one.name, one.kind, one.split, str(len(one.space)), best, "; ".join([one.source, *more])])
    return grid(["function", "kind", "split", "parameters", "optimum", "source"], rows)


def summary_table(made, functions, budget):
    """Mean normalised regret and mean rank by kind."""
    groups = table.by_kind(functions)
    columns = [made.summary(group, budget) for _, group in groups]
    rows = []
    for sampler in made.samplers:
        found = [column[sampler.key] for column in columns]
        if all(row.regret is None for row in found):
            continue
        cells = [f"{table.number(row.regret, 2)} / {table.number(row.rank, 2)}" for row in found]
        rows.append([f"`{sampler.name}`", *cells, str(found[-1].behind) if found[-1].regret is not None else "-"])
    counted = [max((row.runs for row in column.values()), default=0) for column in columns]
    head = ["", *(f"{kind} ({count})" for (kind, _), count in zip(groups, counted)), "behind random"]
    return grid(head, rows)


def in_short(sampler, tables, budget):
    """Mean ranks of a sampler, bold where it is first, beside the best of the others; `tables` by number of running trials."""
    head, rows = [], []
    for parallel, made in tables.items():
        groups = table.by_kind(made.functions)
        head = [f"{budget} evaluations", *(kind for kind, _ in groups), "behind random"]
        summaries = [made.summary(group, budget) for _, group in groups]
        cells = []
        for summary in summaries:
            ranks = {one.name: summary[one.key].rank for one in made.samplers if summary[one.key].rank is not None}
            own = ranks.pop(sampler.name, None)
            other = min(ranks, key=ranks.get, default=None)
            first = own is not None and (other is None or own <= ranks[other])
            shown = f"**{table.number(own, 2)}**" if first else table.number(own, 2)
            cells.append(shown + (f", `{other}` {ranks[other]:.2f}" if other else ""))
        rows.append([f"{parallel} running", *cells, f"{summaries[-1][sampler.key].behind} of {len(made.functions)}"])
    return grid(head, rows)


def medians_table(made, functions, budget):
    head = ["function", *(f"`{sampler.name}`" for sampler in made.samplers)]
    rows = [
        [one.name, *(table.number(made.median(sampler, one, budget), 2) for sampler in made.samplers)]
        for one in functions
    ]
    return grid(head, rows)


def cpu_table(tables, evals):
    """Milliseconds of CPU time an ask and tell, by budget and number of running trials."""
    columns = [(made, budget) for made in tables for budget in table.budgets(evals)]
    head = ["", *(f"{budget} evaluations, {made.parallel} running" for made, budget in columns)]
    rows = []
    for sampler in tables[0].samplers:
        cells = [table.number(made.cpu_per_ask(sampler, budget), 2) for made, budget in columns]
        # Random search is a few lines inside of the benchmark: no process of its own to be measured.
        if sampler.command is not None:
            rows.append([f"`{sampler.name}`", *cells])
    return grid(head, rows)


def splits(samplers, functions, options, parallel):
    """Title and table of the functions to judge by and of those tuned on, each with the samplers that ran them."""
    for title, split in (("Held out", "held-out"), ("Tuned on", "tune")):
        group = [one for one in functions if one.split == split]
        made = table.Table(samplers, group, options.seeds, options.evals, parallel)
        if made.samplers:
            yield title, made


def page(samplers, functions, options):
    """The whole page."""
    tables = {n: list(splits(samplers, functions, options, n)) for n in options.parallel}
    parts = [
        METHOD.format(date=datetime.date.today(), machine=machine(), last_seed=options.seeds - 1,
                      baseline=BASELINE_SEEDS, cap=CAP),
        PEERS,
        "Versions: " + ", ".join(f"`{s.name}` {s.shown}" for s in samplers if s.command) + ".\n",
    ]  # fmt: skip
    # One budget is enough to see where somebody is weak; 100 is the longest that all of them run.
    shown = 100 if options.evals >= 100 else table.budgets(options.evals)[-1]
    judged = {n: made for n, both in tables.items() for title, made in both
              if title == "Held out" and samplers[0] in made.samplers}  # fmt: skip
    if judged:
        parts.append(f"## In short\n\nMean rank of `{samplers[0].name}` on the functions held out, bold where it is first, and of the best of "
                     "the others. The sections below say of how many runs.\n")
        parts.append(in_short(samplers[0], judged, shown))
    for parallel, both in tables.items():
        for budget in table.budgets(options.evals):
            parts.append(f"## {budget} evaluations, {parallel} running\n")
            parts.append("Mean normalised regret / mean rank (in brackets: runs of each sampler).\n")
            for title, made in both:
                parts.append(f"{title}:\n\n" + summary_table(made, made.functions, budget))
    parts.append("## CPU time\n\nMilliseconds of CPU time (user and system) an ask and its tell, mean over all runs.\n")
    for title in ("Held out", "Tuned on"):
        group = [made for both in tables.values() for name, made in both if name == title]
        if group:
            parts.append(f"{title}:\n\n" + cpu_table(group, options.evals))
    for parallel, both in tables.items():
        parts.append(f"## By function: {shown} evaluations, {parallel} running\n\nMedian normalised regret.\n")
        parts += [f"{title}:\n\n" + medians_table(made, made.functions, shown) for title, made in both]
    parts.append("## Functions\n\n" + functions_table(functions))
    return "\n".join(parts)


def by_hand(written):
    """What a page that was written before has behind the mark."""
    _, mark, sections = written.partition(BY_HAND)
    return "\n" + mark + sections if mark else ""


def main():
    options = arguments(__doc__.splitlines()[0])
    functions = chosen_functions(options)
    with kept_binaries() as keep:
        samplers = chosen_samplers(options, keep)
    written = PAGE.read_text() if PAGE.exists() else ""
    PAGE.write_text(page(samplers, functions, options) + by_hand(written))
    if not options.quiet:
        table.console(samplers, functions, options.seeds, options.evals, options.parallel)


if __name__ == "__main__":
    main()
