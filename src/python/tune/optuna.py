"""The search of ``tune`` in programs that are written for Optuna (3.6 or newer)::

    import optuna
    from tune.optuna import TunePruner, TuneSampler

    study = optuna.create_study(sampler=TuneSampler(seed=1), pruner=TunePruner(max_step=20))
    study.optimize(objective, n_trials=100)

Everything else stays Optuna's: the study, its storage, the trials. Both learn from all trials of the study, whoever made them.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Set, Tuple, Union

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.search_space import IntersectionSearchSpace
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from ._program import Error
from ._study import Algorithm, Study

__all__ = ["TunePruner", "TuneSampler"]

# More than anybody reports: what a sampler wants to know is the last value, not how far the trial was to go.
_ENDLESS = 2**40


class TuneSampler(optuna.samplers.BaseSampler):
    """Proposes points by ``tune``'s search.

    It searches the parameters that all finished trials have, in the same ranges. Those of branches (``if``), and all of the first
    trial, come from ``independent_sampler``. A study has one objective.

    Args:
        sampler: a kind such as ``"auto"`` or ``"gp"``, or a mapping with ``kind`` and its options, as in a task file.
        seed: decides everything random, where one trial runs at a time; ``None``: another one each time.
        n_trials: how many trials are planned; a hint, no limit.
        independent_sampler: for the other parameters; default: Optuna's ``TPESampler``.
        program: the ``tune`` to use; default: that of this Python environment.
    """

    def __init__(
        self,
        sampler: Algorithm = "auto",
        *,
        seed: Optional[int] = None,
        n_trials: Optional[int] = None,
        independent_sampler: Optional[optuna.samplers.BaseSampler] = None,
        program: Optional[str] = None,
    ) -> None:
        self._independent = independent_sampler or optuna.samplers.TPESampler(seed=seed)
        self._options: Dict[str, Any] = {"sampler": sampler, "n_trials": n_trials, "program": program}
        self._seed = _random_seed() if seed is None else seed
        self._common = IntersectionSearchSpace()
        self._sessions = _Sessions()

    def reseed_rng(self) -> None:
        self._independent.reseed_rng()
        # A session that goes on gives each point once, however many threads ask.
        self._seed = _random_seed()

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> Dict[str, BaseDistribution]:
        _one_direction(study)
        common = self._common.calculate(study)
        return {name: distribution for name, distribution in common.items() if not distribution.single()}

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: Dict[str, BaseDistribution]
    ) -> Dict[str, Any]:
        direction = _one_direction(study)
        if not search_space:
            return {}

        def start() -> _Session:
            space = {name: _described(distribution) for name, distribution in search_space.items()}
            return _Session(
                Study(space, direction=direction, seed=self._seed, max_step=_ENDLESS, pruner="none", **self._options),
                search_space,
            )

        with self._sessions.lock:
            for _ in range(2):
                session = self._sessions.of(study, (direction, search_space), start)
                if session.learn(study.get_trials(deepcopy=False), but=trial.number):
                    break
                self._sessions.close()
            return session.ask(trial.number)

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        _one_direction(study)
        return self._independent.sample_independent(study, trial, param_name, param_distribution)


class TunePruner(optuna.pruners.BasePruner):
    """Ends trials early by ``tune``'s judgement, from the values that trials report on the way.

    Args:
        max_step: the last step that a trial reports.
        pruner: a kind such as ``"auto"`` or ``"hyperband"``, or a mapping with ``kind`` and its options, as in a task file.
        n_trials: how many trials are planned; a hint, no limit.
        program: the ``tune`` to use; default: that of this Python environment.
    """

    def __init__(
        self,
        max_step: int,
        pruner: Algorithm = "auto",
        *,
        n_trials: Optional[int] = None,
        program: Optional[str] = None,
    ) -> None:
        self._max_step = max_step
        self._options: Dict[str, Any] = {"pruner": pruner, "n_trials": n_trials, "program": program}
        self._sessions = _Sessions()

    def prune(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        direction = _one_direction(study)
        if trial.last_step is not None and trial.last_step > self._max_step:
            raise ValueError(f"step: found {trial.last_step}, expected at most {self._max_step}, the max_step of TunePruner")

        def start() -> _Session:
            # A pruner looks at no parameter; tune counts steps from 1, Optuna's programs mostly from 0.
            space = {"point": {"choices": ["any"]}}
            return _Session(
                Study(space, direction=direction, max_step=self._max_step + 1, sampler="random", **self._options),
                {},
            )

        with self._sessions.lock:
            session = self._sessions.of(study, direction, start)
            for other in study.get_trials(deepcopy=False):
                if other.number != trial.number:
                    session.follow(other, self._max_step)
            return session.follow(trial, self._max_step)


class _Sessions:
    """At most one session at a time. Neither a copy nor a process that was forked off shares it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._open: Optional[_Session] = None
        self._of: Tuple[Any, ...] = ()

    def __getstate__(self) -> Dict[str, Any]:
        return {}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        _Sessions.__init__(self)

    def of(self, study: optuna.Study, asked: Any, start: Callable[[], _Session]) -> _Session:
        """The session for a study and for what is asked of it."""
        of = (os.getpid(), study.study_name, id(study._storage), asked)
        if self._open is None or self._of != of:
            self.close()
            self._open, self._of = start(), of
        return self._open

    def close(self) -> None:
        if self._open is not None and self._of[0] == os.getpid():
            self._open.close()
        self._open = None


class _Session:
    """A study of ``tune`` that follows one of Optuna's."""

    def __init__(self, study: Study, space: Mapping[str, BaseDistribution]) -> None:
        self._study = study
        self._space = space
        # By Optuna's numbers: the id in `tune` with the point (a dictionary); the trials that have nothing more to tell.
        self._ids: Dict[int, Tuple[int, Dict[str, Any]]] = {}
        self._over: Set[int] = set()
        self._steps: Dict[int, int] = {}
        self._prune: Dict[int, bool] = {}
        self.close = weakref.finalize(self, study.close)

    def ask(self, number: int) -> Dict[str, Any]:
        """A point for a trial, as Optuna has it."""
        asked = self._study.ask()
        self._ids[number] = asked.id, asked.params
        return {name: _to_optuna(self._space[name], value) for name, value in asked.params.items()}

    def learn(self, trials: Sequence[FrozenTrial], but: int) -> bool:
        """Tells what other trials have come to; ``False``: one was run at another point than was proposed."""
        for trial in trials:
            if trial.number == but or trial.number in self._over or trial.state == TrialState.WAITING:
                continue
            point = self._point(trial)
            if point is None:
                # It is none of this space, or a running one whose parameters are not all chosen yet.
                if trial.state.is_finished():
                    self._over.add(trial.number)
                    if trial.number in self._ids:
                        return False
                continue
            if trial.number in self._ids and self._ids[trial.number][1] != point:
                return False
            if self._add(trial.number, point):
                last = trial.last_step
                if trial.state == TrialState.PRUNED and last is not None:
                    self._report(trial.number, last, trial.intermediate_values[last])
                self._end(trial)
        return True

    def follow(self, trial: FrozenTrial, last: int) -> bool:
        """Tells what a trial has reported up to the last step that there is, and its end; whether it should end now."""
        if trial.number in self._over:
            return False
        steps = sorted(step for step in trial.intermediate_values if step <= last)
        if steps and self._add(trial.number, {"point": "any"}):
            for step in steps:
                # What comes late, or again, comes too late.
                if step > self._steps.get(trial.number, -1):
                    self._prune[trial.number] = self._report(trial.number, step, trial.intermediate_values[step])
            self._end(trial)
        return self._prune.get(trial.number, False)

    def _point(self, trial: FrozenTrial) -> Optional[Dict[str, Any]]:
        if not self._space.keys() <= trial.params.keys():
            return None
        if any(type(trial.distributions[name]) is not type(meant) for name, meant in self._space.items()):
            return None
        try:
            return {name: _from_optuna(meant, trial.params[name]) for name, meant in self._space.items()}
        except ValueError:
            return None

    def _add(self, number: int, point: Dict[str, Any]) -> bool:
        """Makes a trial one of ``tune``'s; ``False``: its point does not lie in the space."""
        if number not in self._ids:
            try:
                added = self._study.call(op="add", params=point)
            except Error as error:
                if not str(error).startswith("params "):
                    raise
                self._over.add(number)
                return False
            self._ids[number] = added["id"], point
        return True

    def _report(self, number: int, step: int, value: float) -> bool:
        self._steps[number] = step
        said = self._study.call(op="report", id=self._ids[number][0], step=step + 1, value=value)
        return bool(said["prune"])

    def _end(self, trial: FrozenTrial) -> None:
        if not trial.state.is_finished():
            return
        self._over.add(trial.number)
        state = {TrialState.COMPLETE: "ok", TrialState.PRUNED: "pruned"}.get(trial.state, "failed")
        value = trial.value if state == "ok" else None
        self._study.tell(self._ids[trial.number][0], value, state)


def _one_direction(study: optuna.Study) -> str:
    if len(study.directions) > 1:
        raise ValueError(f"found a study with {len(study.directions)} objectives, expected one")
    return "maximize" if study.direction == StudyDirection.MAXIMIZE else "minimize"


def _random_seed() -> int:
    return int.from_bytes(os.urandom(4), "little")


def _described(distribution: BaseDistribution) -> Dict[str, Any]:
    """A distribution as the ``[space]`` of a task file has it. Choices may be any objects: they go by their place."""
    if isinstance(distribution, CategoricalDistribution):
        return {"choices": [str(at) for at in range(len(distribution.choices))]}
    if not isinstance(distribution, (FloatDistribution, IntDistribution)):
        raise ValueError(f"found {distribution}, expected a float, an integer or a categorical distribution")
    described: Dict[str, Any] = {"low": distribution.low, "high": distribution.high, "log": distribution.log}
    if distribution.step is not None and not distribution.log:
        described["step"] = distribution.step
    if isinstance(distribution, IntDistribution):
        described["int"] = True
    return described


def _from_optuna(distribution: BaseDistribution, value: Any) -> Union[str, float]:
    if isinstance(distribution, CategoricalDistribution):
        return str(int(distribution.to_internal_repr(value)))
    return int(value) if isinstance(distribution, IntDistribution) else float(value)


def _to_optuna(distribution: BaseDistribution, value: Any) -> Any:
    if isinstance(distribution, CategoricalDistribution):
        return distribution.choices[int(value)]
    return value
