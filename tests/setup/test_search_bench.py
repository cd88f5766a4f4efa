"""The functions of the search-quality benchmark and how results are read; the spaces and counts of the search's cost."""

import sys
import unittest
from pathlib import Path

try:
    import tomllib
except ImportError:  # Python 3.10 and older
    tomllib = None

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benches" / "search"))

import cost  # noqa: E402
import limit  # noqa: E402
import results  # noqa: E402
import samplers  # noqa: E402
import service  # noqa: E402
import spaces  # noqa: E402
from functions import ALL, KINDS, SPLITS, check_point, draw, stream  # noqa: E402


class Functions(unittest.TestCase):
    def test_every_kind_has_functions_to_tune_on_and_held_out(self):
        for kind in KINDS:
            for split in SPLITS:
                found = [one for one in ALL.values() if (one.kind, one.split) == (kind, split)]
                self.assertGreaterEqual(len(found), 2, (kind, split))

    def test_no_point_is_below_the_optimum(self):
        for function in ALL.values():
            rng = stream("test", function.name)
            for _ in range(300):
                point = draw(function.space, rng)
                check_point(function.space, point)
                self.assertGreaterEqual(function.value(point), function.best - 1e-9, (function.name, point))

    def test_the_optimum_of_a_known_point_is_the_declared_one(self):
        known = {
            "branin": {"x0": 9.42477796, "x1": 2.475},
            "rosenbrock5": {f"x{i}": 1.0 for i in range(5)},
            "speed-reducer": {"width": 3.5, "module": 0.7, "teeth": 17, "shaft1": 7.3, "shaft2": 7.7153199,
                              "diameter1": 3.3502147, "diameter2": 5.2866545},
            "coil-spring": {"coils": 9, "diameter": 1.2230410, "wire": 35},
            "func3c": {"h1": "c1", "h2": "c1", "h3": "c0", "x0": 0.0449210, "x1": -0.3563283},
            "jenatton": {"x1": 0, "x2": 0, "x4": 0.36, "r8": 0.27},
            "dominant": {"method": "m3", "a": 4, "b": 2, "c": 6, "d": 1, "e": 3, "detail": "on"},
        }  # fmt: skip
        for name, point in known.items():
            function = ALL[name]
            check_point(function.space, point)
            self.assertAlmostEqual(function.value(point) / (function.best or 1), 1 if function.best else 0, 5, name)

    def test_a_curve_has_all_steps_and_ends_at_the_value(self):
        for function in (one for one in ALL.values() if one.max_step):
            point = draw(function.space, stream("curve", function.name))
            curve = function.curve(point)
            self.assertEqual(len(curve), function.max_step)
            self.assertEqual(curve[-1], function.value(point))

    def test_a_point_with_a_parameter_that_is_not_active_is_refused(self):
        space = ALL["jenatton"].space
        point = {"x1": 0, "x2": 0, "x4": 0.1, "r8": 0.5}
        check_point(space, point)
        with self.assertRaises(ValueError):
            check_point(space, {**point, "r9": 0.5})
        with self.assertRaises(ValueError):
            check_point(space, {**point, "x4": 1.5})


class Pruning:
    """Ends every trial but the first at its second step."""

    name = "pruning"

    def __init__(self, space):
        self.space, self.asked, self.told = space, 0, []

    def call(self, op, **request):
        if op == "ask":
            self.asked += 1
            return {"id": self.asked - 1, "params": draw(self.space, stream("pruning", self.asked))}
        if op == "tell":
            self.told.append((request["id"], request["state"]))
        return {"prune": op == "report" and request["id"] > 0 and request["step"] == 2}

    def cpu(self):
        return 0.0


class Runs(unittest.TestCase):
    def test_with_four_running_the_oldest_is_told_and_no_more_is_asked_than_planned(self):
        class Recorder(Pruning):
            def call(self, op, **request):
                log.append(op)
                return super().call(op, **request)

        log, function = [], ALL["branin"]
        recorder = Recorder(function.space)
        service.Run(function, recorder, 0, 4, 6).points()
        self.assertEqual(log, ["ask"] * 4 + ["tell", "ask"] * 2 + ["tell"] * 4)
        self.assertEqual([number for number, _ in recorder.told], list(range(6)))

    def test_pruned_trials_leave_their_steps_to_others_and_never_count(self):
        function = ALL["curves-currin"]
        one = Pruning(function.space)
        run = service.Run(function, one, 0, 1, 10)
        run.curves()
        # 9 steps for the first, then 2 for each of the others, until 90 are spent.
        self.assertEqual((one.asked, run.pruned), (1 + 41, 40))
        self.assertEqual([spent for spent, _ in run.trace], [1.0])

    def test_the_same_seed_gives_the_same_run(self):
        first, again, other = (service.run(samplers.random_search(), ALL["noisy-branin"], s, 1, 30) for s in (1, 1, 2))
        self.assertEqual(first["trace"], again["trace"])
        self.assertNotEqual(first["trace"], other["trace"])


class Results(unittest.TestCase):
    def test_ties_share_their_ranks(self):
        self.assertEqual(results.ranks({"a": 2.0, "b": 1.0, "c": 2.0, "d": 3.0}), {"a": 2.5, "b": 1, "c": 2.5, "d": 4})

    def test_the_value_at_a_budget_is_that_of_the_incumbent_then(self):
        result = {"trace": [(2, 5.0), (10, 3.0), (11, 4.0)]}
        self.assertEqual([results.best_at(result, at) for at in (1, 2, 10, 50)], [float("inf"), 5.0, 3.0, 4.0])

    def test_a_longer_run_counts_for_a_shorter_one_unless_length_matters(self):
        lengths = {100: {"evals": 100}}
        self.assertEqual(results.pick(lengths, 50, False), {"evals": 100})
        self.assertIsNone(results.pick(lengths, 200, False))
        self.assertIsNone(results.pick(lengths, 50, True))


class Spaces(unittest.TestCase):
    def test_values_of_the_spaces_lie_between_0_and_1(self):
        for space in cost.SPACES.values():
            rng = stream("spaces", len(space))
            for _ in range(100):
                point = draw(space, rng)
                self.assertTrue(0 <= spaces.value(space, point) <= 1, point)

    @unittest.skipIf(tomllib is None, "reads TOML")
    def test_the_conditional_space_is_the_one_of_the_field_notes(self):
        text = (ROOT / "tests" / "data" / "field-notes-space.toml").read_text()
        found, expected = {}, {}
        for name, parameter in tomllib.loads(text)["space"].items():
            when = {key: [one] if isinstance(one, str) else one for key, one in parameter.pop("when", {}).items()}
            parameter.pop("high_when", None)
            whole = parameter.pop("int", False)
            kind = "cat" if "choices" in parameter else "int" if whole else "float"
            expected[name] = {"type": kind, "log": False, **parameter, "when": when}
        for parameter in spaces.CONDITIONAL:
            when = parameter.get("when")
            found[parameter["name"]] = {"log": False, **parameter, "when": {when["param"]: when["in"]} if when else {}}
            del found[parameter["name"]]["name"]
        self.assertEqual(found, expected)

    def test_figures_have_two_digits_or_all_before_the_point(self):
        shown = [cost.milliseconds(seconds) for seconds in (0.000123, 0.00123, 0.0123, 0.1234, 12.34)]
        self.assertEqual(shown, ["0.12", "1.2", "12", "123", "12,340"])

    def test_a_cell_says_how_many_times_as_fast_as_its_rival_a_sampler_is(self):
        one = cost.Member("one", "tune", "tpe", "other")
        figures = {("one", 5): cost.Figure(0.001, 1), ("other", 5): cost.Figure(0.02, 1), ("one", 9): cost.Figure(2, 1)}
        self.assertEqual([cost.cell(figures, one, n) for n in (5, 9, 10)], ["1.0 (20x)", "2,000", ""])


class Asking:
    """Proposes the given points and records what is told."""

    def __init__(self, points):
        self.points, self.told = iter(points), []

    def call(self, op, **request):
        if op == "ask":
            return {"id": len(self.told), "params": next(self.points)}
        self.told.append((request["state"], request["value"]))
        return {"ok": True}


class Limit(unittest.TestCase):
    SMALL = {"model": "mini", "batch": 8, "length": 64, "hidden": 128, "layers": 1, "lr": 1e-3, "wd": 1e-3,
             "dropout": 0.2, "act": "gelu", "opt": "adam"}  # fmt: skip
    LARGE = {**SMALL, "model": "xl"}

    def test_the_limit_leaves_18_percent_of_the_space(self):
        rng = stream("limit")
        fits = sum(limit.memory(draw(limit.SPACE, rng)) <= limit.LIMIT for _ in range(10_000))
        self.assertTrue(1700 < fits < 1900, fits)

    def test_what_needs_too_much_memory_is_told_as_failed_and_counted(self):
        service = Asking([self.SMALL, self.LARGE, self.LARGE, self.SMALL, self.LARGE])
        count = limit.run(service, 5, constraints=False)
        self.assertEqual((count.trials, count.wasted, count.longest, count.best), (5, 3, 2, limit.value(self.SMALL)))
        self.assertEqual(service.told[:2], [("ok", limit.value(self.SMALL)), ("failed", None)])

    def test_a_constraint_is_told_beside_the_value_and_positive_where_it_is_violated(self):
        service = Asking([self.SMALL, self.LARGE])
        count = limit.run(service, 2, constraints=True)
        (_, (_, kept)), (state, (value, violated)) = service.told
        self.assertEqual((count.wasted, state, value), (1, "ok", limit.value(self.LARGE)))
        self.assertTrue(kept < 0 < violated)


if __name__ == "__main__":
    unittest.main()
