"""The sampler and the pruner in Optuna's programs, by Optuna's own suite of tests and by tests of ours (pytest)."""

import multiprocessing
import os
import pickle

import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.testing.pytest_samplers import BasicSamplerTestCase, RelativeSamplerTestCase, SingleOnlySamplerTestCase
from optuna.trial import TrialState

from tune.optuna import TunePruner, TuneSampler

TUNE = os.environ["TUNE"]
optuna.logging.set_verbosity(optuna.logging.WARNING)


class TestOfOptuna(BasicSamplerTestCase, RelativeSamplerTestCase, SingleOnlySamplerTestCase):
    @pytest.fixture(params=["auto", "tpe", "gp", "random"])
    def sampler(self, request):
        return lambda: TuneSampler(request.param, seed=0, program=TUNE)


def bowl(trial):
    x, n = trial.suggest_float("x", -5, 5), trial.suggest_int("n", 1, 64, log=True)
    kind = trial.suggest_categorical("kind", [None, "a"])
    return (x - 2) ** 2 + abs(n - 8) / 8 + (kind is None)


def study(objective=bowl, n_trials=40, **options):
    made = optuna.create_study(sampler=TuneSampler(seed=3, program=TUNE), **options)
    made.optimize(objective, n_trials=n_trials)
    return made


def test_a_study_finds_what_random_search_does_not():
    assert study().best_value < 0.05
    rival = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=3))
    rival.optimize(bowl, n_trials=40)
    assert rival.best_value > 0.05


def test_the_larger_value_is_better_where_it_is_maximized():
    assert study(lambda trial: -bowl(trial), direction="maximize").best_value > -0.05


def test_the_same_seed_gives_the_same_points():
    assert [t.params for t in study(n_trials=12).trials] == [t.params for t in study(n_trials=12).trials]


def test_points_that_others_chose_are_learned_from():
    made = optuna.create_study(sampler=TuneSampler(seed=0, program=TUNE))
    for at in range(60):
        x = -5 + at / 6
        made.add_trial(
            optuna.create_trial(params={"x": x}, distributions={"x": FloatDistribution(-5, 5)}, value=(x - 2) ** 2)
        )
    asked = made.ask({"x": FloatDistribution(-5, 5)})
    assert abs(asked.params["x"] - 2) < 0.5
    # One that runs elsewhere at another point than was proposed, and ones that fail or are pruned.
    made.enqueue_trial({"x": 4.0})
    queued = made.ask({"x": FloatDistribution(-5, 5)})
    assert queued.params == {"x": 4.0}
    made.tell(queued, 4.0)
    made.tell(asked, state=TrialState.FAIL)
    pruned = made.ask({"x": FloatDistribution(-5, 5)})
    pruned.report(1.0, 3)
    made.tell(pruned, state=TrialState.PRUNED)
    assert -5 <= made.ask({"x": FloatDistribution(-5, 5)}).params["x"] <= 5


def test_threads_share_a_sampler_and_get_different_points():
    made = optuna.create_study(sampler=TuneSampler(seed=0, program=TUNE))
    made.optimize(lambda trial: trial.suggest_float("x", -5, 5) ** 2, n_trials=40, n_jobs=4)
    assert len({t.params["x"] for t in made.trials}) == 40
    assert made.best_value < 0.05


def test_a_sampler_can_be_kept_and_goes_on_elsewhere(tmp_path):
    made = study(n_trials=5, storage=f"sqlite:///{tmp_path}/o.db", study_name="s")
    sampler = pickle.loads(pickle.dumps(made.sampler))
    again = optuna.load_study(study_name="s", storage=f"sqlite:///{tmp_path}/o.db", sampler=sampler)
    x = lambda trial: trial.suggest_float("x", -5, 5)  # noqa: E731
    again.optimize(x, n_trials=3)
    child = multiprocessing.get_context("fork").Process(target=again.optimize, args=(x, 3))
    child.start()
    child.join()
    assert child.exitcode == 0
    again.optimize(x, n_trials=3)
    assert [t.state for t in again.trials] == [TrialState.COMPLETE] * 14


def test_trials_that_are_behind_are_pruned_and_good_ones_are_not():
    def objective(trial):
        slope = trial.suggest_float("slope", 0, 1) if trial.number else 0.2
        for step in range(20):
            trial.report(slope + 1 / (step + 1), step)
            if trial.should_prune():
                # The same question gets the same answer.
                assert trial.should_prune()
                raise optuna.TrialPruned()
        return slope

    sampler = optuna.samplers.RandomSampler(seed=2)
    pruner = TunePruner(max_step=19, pruner={"kind": "median", "n_startup_trials": 3}, program=TUNE)
    made = optuna.create_study(sampler=sampler, pruner=pruner)
    made.optimize(objective, n_trials=30)
    pruned = [t for t in made.trials if t.state == TrialState.PRUNED]
    assert 8 <= len(pruned) < 27
    assert made.best_trial.value < 0.1
    assert min(t.params["slope"] for t in pruned) > made.best_value
    # Optuna's own rule on the same reports.
    rival = optuna.create_study(
        sampler=optuna.samplers.RandomSampler(seed=2), pruner=optuna.pruners.MedianPruner(n_startup_trials=3)
    )
    rival.optimize(objective, n_trials=30)
    assert [t.state for t in rival.trials] == [t.state for t in made.trials]


def test_a_pruner_learns_of_trials_that_another_process_ran_and_says_what_step_is_too_late():
    pruner = TunePruner(max_step=4, program=TUNE, pruner={"kind": "median", "n_startup_trials": 1})
    made = optuna.create_study(pruner=pruner)
    made.add_trial(optuna.create_trial(value=0.1, intermediate_values={0: 0.2, 3: 0.1, 9: 0.1}))
    trial = made.ask()
    trial.report(0.5, 3)
    assert trial.should_prune()
    trial.report(0.5, 5)
    with pytest.raises(ValueError, match="step: found 5, expected at most 4"):
        trial.should_prune()
    with pytest.raises(ValueError, match="2 objectives"):
        pruner.prune(optuna.create_study(directions=["minimize"] * 2), trial._get_latest_trial())


def test_what_tune_refuses_is_told():
    made = optuna.create_study(sampler=TuneSampler("tpee", program=TUNE))
    made.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=1)
    with pytest.raises(RuntimeError, match="tpee"):
        made.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=1)
