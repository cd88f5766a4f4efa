"""Ask and tell: the search of ``tune`` for a program that trains its trials itself."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import weakref
from concurrent.futures import Future
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Dict, List, Mapping, Optional, Tuple, Type, Union

from ._program import Error, number, plain, program

Algorithm = Union[str, Mapping[str, Any]]


class Suggestion:
    """A point to try.

    Attributes:
        id: counts from 0 in a study.
        params: exactly the active parameters, in the order of the space.
    """

    def __init__(self, study: Study, id: int, params: Dict[str, Any]) -> None:
        self._study = study
        self.id = id
        self.params = params

    def report(self, step: int, value: Any) -> bool:
        """Reports a value on the way; ``True``: the trial should end now, and be told as ``pruned``.

        Args:
            step: from 1 to the study's ``max_step``, ascending.
            value: any number; NaN counts as worst.

        Raises:
            Error: the step does not fit, or the trial has ended.
        """
        said = self._study.call(op="report", id=self.id, step=plain(step), value=number("value", value))
        return bool(said["prune"])


class Study:
    """A search. It ends with ``close``, or with the ``with`` block::

        space = {"lr": {"low": 1e-5, "high": 1e-1, "log": True}, "layers": {"low": 1, "high": 4, "int": True}}
        with tune.Study(space, direction="maximize", n_trials=50) as study:
            for _ in range(50):
                trial = study.ask()
                study.tell(trial, train(**trial.params))

    Threads may share it; a process that is forked cannot use it, and its calls there are refused.

    Args:
        space: name to parameter, written as in the ``[space]`` of a task file: ``low`` and ``high`` (both inclusive) with ``log``,
            ``step`` and ``int``, or ``choices``; ``when`` names a parameter with choices that stands before this one, and
            the choices with which this one exists: ``{"booster": ["gbtree"]}``.
        direction: ``"minimize"`` or ``"maximize"``.
        seed: decides everything random: the same calls get the same points.
        n_trials: how many trials are planned; a hint, no limit.
        max_step: the last step that trials report; ``None``: they report none.
        sampler, pruner: a kind such as ``"tpe"``, or a mapping with ``kind`` and its options.
        storage: a database (a path, ``sqlite:///PATH``) that keeps the study; ``None``: in memory.
        name: the study's name in the database.
        program: the ``tune`` to use; default: that of this Python environment.

    Raises:
        Error: the space or an option makes no sense, or the study in the database is another one.
    """

    def __init__(
        self,
        space: Mapping[str, Mapping[str, Any]],
        *,
        direction: str = "minimize",
        seed: int = 0,
        n_trials: Optional[int] = None,
        max_step: Optional[int] = None,
        sampler: Algorithm = "auto",
        pruner: Algorithm = "auto",
        storage: Optional[Union[str, "os.PathLike[str]"]] = None,
        name: Optional[str] = None,
        program: Optional[str] = None,
    ) -> None:
        request: Dict[str, Any] = {
            "op": "init",
            "protocol": 1,
            "seed": plain(seed),
            "direction": direction,
            "n_evals": plain(n_trials),
            "max_step": plain(max_step),
            "space": [_parameter(key, description) for key, description in space.items()],
            "sampler": sampler,
            "pruner": pruner,
        }
        if storage is not None:
            request["storage"] = os.fspath(storage)
        if name is not None:
            request["study"] = name
        # Ctrl-C ends a wait of the caller's thread, never a call between its request and its reply. An executor's thread
        # would end with the main one, before others that go on.
        self._calls: SimpleQueue[Optional[Tuple[str, Future[str]]]] = SimpleQueue()
        self._caller = threading.Thread(target=self._exchange_all, name="tune-study", daemon=True)
        self._closed = False
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._process = _start(program)
        _studies.add(self)
        self._caller.start()
        try:
            self.call(**request)
        except BaseException:
            self.close()
            raise

    def ask(self) -> Suggestion:
        """A new point. Any number may be outstanding."""
        said = self.call(op="ask")
        return Suggestion(self, said["id"], said["params"])

    def tell(self, trial: Union[Suggestion, int], value: Any = None, state: Optional[str] = None) -> None:
        """Ends a trial.

        Args:
            trial: the point, or its id.
            value: its value; ``None`` where it has none.
            state: ``"ok"``, ``"pruned"`` or ``"failed"``; default: ``"ok"`` with a value, ``"failed"`` without.

        Raises:
            Error: the trial has ended already, or the value is NaN.
        """
        state = state or ("failed" if value is None else "ok")
        told = None if value is None else number("value", value)
        self.call(op="tell", id=trial.id if isinstance(trial, Suggestion) else plain(trial), value=told, state=state)

    def call(self, **request: Any) -> Dict[str, Any]:
        """Sends one request of the protocol (docs/ask-tell.md) and gives the reply.

        Raises:
            Error: the request is refused, or the program has ended.
        """
        if os.getpid() != self._owner:
            raise Error(f"the study is of process {self._owner}: expected its calls there, not in a fork of it")
        line = json.dumps(request, default=plain) + "\n"
        said: Future[str] = Future()
        with self._lock:
            if self._closed:
                raise Error("the study is closed")
            self._calls.put((line, said))
        reply: Dict[str, Any] = json.loads(said.result())
        if "error" in reply:
            raise Error(reply["error"])
        return reply

    def close(self) -> None:
        """Ends the search; trials that were not told become FAIL where the study is kept."""
        if os.getpid() != self._owner:
            return
        with self._lock:
            if not self._closed:
                self._closed = True
                self._calls.put(None)
        self._caller.join()
        if self._process.stdin is not None:
            try:
                self._process.stdin.close()
            except BrokenPipeError:
                pass
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _exchange_all(self) -> None:
        """Calls, one after the other, until the study is closed."""
        for request, said in iter(self._calls.get, None):
            try:
                said.set_result(self._exchange(request))
            except Exception as error:
                said.set_exception(error)

    def _exchange(self, request: str) -> str:
        """Sends a line, and gives the line that comes back."""
        send, receive = self._process.stdin, self._process.stdout
        line = ""
        if send is not None and receive is not None:
            try:
                send.write(request)
                send.flush()
                line = receive.readline()
            except BrokenPipeError:
                pass
        if not line:
            raise Error(f"tune ask-tell has ended (status {self._process.wait()}); what it said is on stderr")
        return line

    def __enter__(self) -> Study:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()


_studies: weakref.WeakSet[Study] = weakref.WeakSet()


def _let_go() -> None:
    """A process that was forked holds the pipes of its parent's studies, and these end when they are closed: it puts
    others in their places, so that nothing of what it has copied is ever written to them.
    """
    for study in _studies:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for pipe in (study._process.stdin, study._process.stdout):
            if pipe is not None and not pipe.closed:
                os.dup2(nowhere, pipe.fileno(), inheritable=False)
        os.close(nowhere)


os.register_at_fork(after_in_child=_let_go)


def _start(named: Optional[str]) -> subprocess.Popen[str]:
    command = [program(named), "ask-tell"]
    try:
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8", start_new_session=True
        )
    except OSError as error:
        raise Error(f"{command[0]} cannot be started: {error}") from None


_FIELDS = {"low", "high", "log", "step", "int", "choices", "when"}


def _parameter(name: str, description: Mapping[str, Any]) -> Dict[str, Any]:
    """A parameter of a task file, as the protocol has it."""
    if not isinstance(description, Mapping):
        raise Error(f"{name}: found {description!r}, expected a mapping such as {{'low': 0.0, 'high': 1.0}}")
    unknown = sorted(set(description) - _FIELDS)
    if unknown:
        raise Error(f"{name}: found {', '.join(unknown)}, expected {', '.join(sorted(_FIELDS))}")
    fields = {key: plain(value) for key, value in description.items() if key in ("low", "high", "log", "step")}
    if "choices" in description:
        if "int" in description:
            raise Error(f"{name}: found choices and int, expected one of them")
        fields.update(type="cat", choices=[plain(choice) for choice in description["choices"]])
    else:
        fields["type"] = "int" if description.get("int", False) else "float"
    if "when" in description:
        fields["when"] = _condition(name, description["when"])
    return {"name": name, **fields}


def _condition(name: str, when: Mapping[str, Any]) -> Dict[str, Any]:
    if len(when) != 1:
        raise Error(f"{name}: found when with {len(when)} parameters, expected one")
    ((parent, values),) = when.items()
    choices: List[Any] = [plain(value) for value in values]
    return {"param": parent, "in": choices}
