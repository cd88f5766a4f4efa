"""A script as a trial of ``tune`` (task kind ``command``)."""

from __future__ import annotations

import fcntl
import json
import os
import stat
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, Dict, Mapping, Optional

from ._program import number


def trial(defaults: Optional[Mapping[str, Any]] = None, /, **more: Any) -> Trial:
    """The trial that this script runs as.

    Without ``tune`` around it the script runs alone: the parameters are the defaults, reports go nowhere, nothing is pruned.

    Args:
        defaults: parameters with names that are no Python names, as ``{"optim.lr": 1e-3}``.
        more: the others, as ``lr=1e-3``.

    Returns:
        The trial. All calls in one process share the connection to ``tune``.
    """
    return Trial({**(defaults or {}), **more})


class Trial:
    """One trial, as the script sees it.

    Attributes:
        params: the parameters by their names. Those that the trial does not have (inactive ones) have their defaults.
        study: the study's name; ``None`` alone.
        number: the trial's number from 0; ``None`` alone.
        attempt: how many times the trial has been begun before: 0 the first time.
        repeat: 0 for the trial itself, from 1 for its repeats with other seeds (``--repeats``).
        seed: from 0 to 2^31 - 1, the same in all attempts and another one in each repeat; 0 alone.
    """

    def __init__(self, defaults: Mapping[str, Any]) -> None:
        given = os.environ.get("TUNE_PARAMS_FILE")
        searched: Dict[str, Any] = json.loads(Path(given).read_text(encoding="utf-8")) if given else {}
        self.params: Dict[str, Any] = {**defaults, **searched}
        self.study: Optional[str] = os.environ.get("TUNE_STUDY")
        own = os.environ.get("TUNE_TRIAL")
        self.number: Optional[int] = int(own) if own else None
        self.attempt: int = int(os.environ.get("TUNE_ATTEMPT") or 0)
        self.repeat: int = int(os.environ.get("TUNE_REPEAT") or 0)
        # Many libraries take no larger one.
        self.seed: int = int(os.environ.get("TUNE_SEED") or 0) % 2**31

    @property
    def alone(self) -> bool:
        """Whether the script runs without ``tune``."""
        return "TUNE_METRICS_FILE" not in os.environ

    @property
    def device(self) -> str:
        """``"cuda"`` or ``"cpu"``, as PyTorch names the device of this trial: it sees no other GPU than its own.

        Alone: ``"cuda"`` where PyTorch is imported and has a GPU.
        """
        named = os.environ.get("TUNE_DEVICE")
        if named:
            return named.split(":")[0]
        torch = sys.modules.get("torch")
        return "cuda" if torch is not None and torch.cuda.is_available() else "cpu"

    @property
    def checkpoint_dir(self) -> Path:
        """A directory that all attempts of this trial share and no other trial has. ``tune`` deletes it at the trial's end.

        Alone: an empty one, which is gone when the process ends.
        """
        named = os.environ.get("TUNE_CHECKPOINT_DIR")
        return Path(named) if named else Path(_temporary().name)

    def report(self, step: Optional[int] = None, **metrics: Any) -> bool:
        """Reports metrics: the objective under its own name or as ``value``, any others beside it.

        Args:
            step: an integer from 0 that goes up: the epoch, say. Without one the metrics are the trial's result.
            metrics: numbers, also those of NumPy or PyTorch. NaN or an infinite objective ends the trial as diverged.

        Returns:
            Whether the trial is pruned: save nothing more and end. Alone: ``False``.

        Raises:
            TypeError: a metric is no number, or the step no integer.
        """
        line: Dict[str, Any] = {} if step is None else {"step": _step(step)}
        if "pruned" in metrics:
            raise TypeError("pruned: found as a metric, expected another name; prune() ends the trial")
        line.update((name, number(name, value)) for name, value in metrics.items())
        return _tell(line)

    def prune(self) -> None:
        """Says that the trial is not worth going on, by the script's own judgement; the script ends after it."""
        _tell({"pruned": True})


def _step(step: Any) -> int:
    try:
        return int(step.__index__())
    except AttributeError:
        raise TypeError(f"step: found {step!r}, expected an integer from 0") from None


_LOCK = threading.Lock()


def _new_lock() -> None:
    """In a forked process: a thread that had the lock is not there."""
    global _LOCK
    _LOCK = threading.Lock()


os.register_at_fork(after_in_child=_new_lock)
_DIRECTORY: Optional[tempfile.TemporaryDirectory[str]] = None


def _temporary() -> tempfile.TemporaryDirectory[str]:
    global _DIRECTORY
    with _LOCK:
        if _DIRECTORY is None:
            _DIRECTORY = tempfile.TemporaryDirectory(prefix="tune-alone-")
        return _DIRECTORY


def _descriptor() -> Optional[int]:
    """The descriptor to report on; ``None`` where this process has not inherited it."""
    named = os.environ.get("TUNE_METRICS_FD")
    if named is None:
        return None
    try:
        open_as_socket = stat.S_ISSOCK(os.fstat(int(named)).st_mode)
    except (OSError, ValueError):
        return None
    return int(named) if open_as_socket else None


def _tell(line: Mapping[str, Any]) -> bool:
    text = (json.dumps(line) + "\n").encode()
    with _LOCK:
        file = os.environ.get("TUNE_METRICS_FILE")
        if file is None:
            return False
        descriptor = _descriptor()
        with open(file, "ab") as metrics:
            if descriptor is not None:
                # Processes that were forked share the connection: one at a time asks and reads its answer.
                fcntl.flock(metrics, fcntl.LOCK_EX)
                try:
                    return _ask(descriptor, text)
                finally:
                    # A process that another thread forks meanwhile would hold it, too.
                    fcntl.flock(metrics, fcntl.LOCK_UN)
            # Started by the script itself, as a worker of distributed training is: files lead to tune from everywhere.
            metrics.write(text)
        prune = os.environ.get("TUNE_PRUNE_FILE")
        return prune is not None and os.path.exists(prune)


def _ask(descriptor: int, text: bytes) -> bool:
    """Each line is answered by one."""
    while text:
        text = text[os.write(descriptor, text) :]
    answer = b""
    while not answer.endswith(b"\n"):
        more = os.read(descriptor, 4096)
        if not more:
            # Nobody listens any more: this process is about to be ended.
            return False
        answer += more
    return bool(json.loads(answer).get("prune", False))
