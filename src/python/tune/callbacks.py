"""Trials of ``tune`` (task kind ``command``) in the training loops of others::

    import lightning, tune.callbacks
    trainer = lightning.Trainer(callbacks=[tune.callbacks.lightning()])

Each function makes what the library takes as a callback. It reports what the library has evaluated, under the library's own names, so
that the task's ``metric`` is one of them, and ends the training where the trial is pruned. Where the script runs alone it does nothing.

| | metrics are called | a step is |
|---|---|---|
| ``transformers`` | ``eval_loss``, ``eval_f1`` | an epoch, or with ``eval_strategy="steps"`` a training step |
| ``lightning`` | as logged: ``val_loss`` | an epoch |
| ``keras`` | as in the logs: ``val_loss`` | an epoch |
| ``xgboost``, ``lightgbm``, ``catboost`` | data and metric: ``valid.auc`` | a round of boosting |

``trial`` is the script's :func:`tune.trial`, if it has one already.
"""

from __future__ import annotations

import sys
from typing import Any, Dict, Iterable, Mapping, Optional, Tuple

from ._program import plain
from ._trial import Trial, trial as this_trial

__all__ = ["catboost", "keras", "lightgbm", "lightning", "transformers", "xgboost"]


def transformers(trial: Optional[Trial] = None) -> Any:
    """For ``transformers.Trainer(callbacks=[...])``, with ``eval_strategy="epoch"`` or ``"steps"``."""
    from transformers import TrainerCallback

    reports = _Reports(trial)

    class TuneCallback(TrainerCallback):  # type: ignore[misc]
        def on_evaluate(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            by_epoch = args.eval_strategy == "epoch"
            step = round(state.epoch or 0) if by_epoch else state.global_step
            metrics = {name: value for name, value in (more.get("metrics") or {}).items() if name != "epoch"}
            if reports.tell(step, metrics, state.is_world_process_zero):
                control.should_training_stop = True

    return TuneCallback()


def lightning(trial: Optional[Trial] = None) -> Any:
    """For ``lightning.Trainer(callbacks=[...])``: the metrics that ``self.log`` has noted, after each validation."""
    from lightning.pytorch.callbacks import Callback

    reports = _Reports(trial)

    class TuneCallback(Callback):  # type: ignore[misc]
        def on_validation_end(self, trainer: Any, module: Any) -> None:
            if trainer.sanity_checking:
                return
            if reports.tell(trainer.current_epoch + 1, trainer.callback_metrics, trainer.is_global_zero):
                trainer.should_stop = True

    return TuneCallback()


def keras(trial: Optional[Trial] = None) -> Any:
    """For ``model.fit(callbacks=[...])``: the logs of each epoch."""
    from keras.callbacks import Callback

    reports = _Reports(trial)

    class TuneCallback(Callback):  # type: ignore[misc]
        def on_epoch_end(self, epoch: int, logs: Optional[Mapping[str, Any]] = None) -> None:
            if reports.tell(epoch + 1, logs or {}):
                self.model.stop_training = True

    return TuneCallback()


def xgboost(trial: Optional[Trial] = None) -> Any:
    """For ``xgboost.train(evals=..., callbacks=[...])`` and the estimators' ``callbacks``."""
    from xgboost.callback import TrainingCallback

    reports = _Reports(trial)

    class TuneCallback(TrainingCallback):  # type: ignore[misc]
        def after_iteration(self, model: Any, epoch: int, evals_log: Mapping[str, Mapping[str, Any]]) -> bool:
            return reports.tell(epoch + 1, _latest(evals_log))

    return TuneCallback()


def lightgbm(trial: Optional[Trial] = None) -> Any:
    """For ``lightgbm.train(valid_sets=..., valid_names=..., callbacks=[...])`` and the estimators' ``fit``."""
    from lightgbm.callback import CallbackEnv, EarlyStopException

    reports = _Reports(trial)

    def after_iteration(env: CallbackEnv) -> None:
        results = env.evaluation_result_list or []
        if reports.tell(env.iteration + 1, {f"{data}.{metric}": value for data, metric, value, *_ in results}):
            raise EarlyStopException(env.iteration, results)

    return after_iteration


def catboost(trial: Optional[Trial] = None) -> Any:
    """For ``CatBoost.fit(eval_set=..., callbacks=[...])``, on the CPU: CatBoost takes no callbacks on a GPU."""
    reports = _Reports(trial)

    class TuneCallback:
        def after_iteration(self, info: Any) -> bool:
            """``False`` ends the training."""
            return not reports.tell(info.iteration, _latest(info.metrics or {}))

    return TuneCallback()


class _Reports:
    """What one training tells of itself."""

    def __init__(self, trial: Optional[Trial]) -> None:
        self._trial = this_trial() if trial is None else trial
        self._last = -1

    def tell(self, step: int, metrics: Mapping[str, Any], leads: bool = True) -> bool:
        """Reports the numbers among the metrics; whether to stop. Where several processes train one model, one leads and reports."""
        stop = False
        # Evaluated again after the training, the last step is no new one.
        if leads and step > self._last:
            self._last = step
            stop = self._trial.report(step, **dict(_numbers(metrics)))
        return _of_the_first(stop)


def _numbers(metrics: Mapping[str, Any]) -> Iterable[Tuple[str, float]]:
    for name, value in metrics.items():
        try:
            value = plain(value)
        except (TypeError, ValueError, RuntimeError):
            continue
        if isinstance(value, (int, float)) and name not in ("step", "pruned"):
            yield name, value + 0


def _latest(logs: Mapping[str, Mapping[str, Any]]) -> Dict[str, Any]:
    return {
        f"{data}.{metric}": values[-1] for data, metrics in logs.items() for metric, values in metrics.items() if len(values)
    }


def _of_the_first(stop: bool) -> bool:
    """What the first process of PyTorch's group says: all of them stop at the same step, or none."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return stop
    said = [stop]
    torch.distributed.broadcast_object_list(said, src=0)
    return said[0]
