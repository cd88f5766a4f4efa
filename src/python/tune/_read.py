"""The trials of a study as a table."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any, Dict, List, Optional, Union

from ._program import Error, program as find


def read(
    study: Optional[str] = None,
    *,
    project: Optional[Union[str, "os.PathLike[str]"]] = None,
    storage: Optional[str] = None,
    to: str = "pandas",
    program: Optional[str] = None,
) -> Any:
    """The trials of a study, a row each, also while it runs.

    Args:
        study: its name; default: the one with the latest activity.
        project: the project directory; default: as for the command ``tune``.
        storage: a database: a path, ``sqlite:///PATH`` or ``postgresql://USER@HOST/DATABASE``.
        to: ``"pandas"``, ``"polars"``, or ``"dicts"`` for a list of dictionaries.
        program: the ``tune`` to use; default: that of this Python environment.

    Returns:
        A frame with ``number``, ``state``, ``value`` (a number, or missing), ``attempts`` (how many), ``datetime_start`` and
        ``datetime_complete`` (UTC), then a column for each parameter (``params.NAME``) and for each attribute that is a number,
        a text or a truth value (``attrs.NAME``).

    Raises:
        Error: there is no such study, or ``tune`` cannot read the database.
        ImportError: pandas or polars is not installed.
    """
    if to not in ("pandas", "polars", "dicts"):
        raise ValueError(f"to: found {to!r}, expected 'pandas', 'polars' or 'dicts'")
    command = [find(program), "trials", "--json"]
    command += ["-C", os.fspath(project)] if project is not None else []
    command += ["--storage", storage] if storage is not None else []
    command += ["--", study] if study is not None else []
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8")
    if done.returncode != 0:
        raise Error(done.stderr.strip().removeprefix("error: "))
    rows = [_row(trial) for trial in json.loads(done.stdout)]
    # A column that only later trials have is one of all.
    columns = {name: None for row in rows for name in row}
    rows = [{**columns, **row} for row in rows]
    if to == "dicts":
        return rows
    return _pandas(rows) if to == "pandas" else _polars(rows)


_FIRST = ("number", "state", "value", "attempts", "datetime_start", "datetime_complete")
_TIMES = ("datetime_start", "datetime_complete")


def _row(trial: Dict[str, Any]) -> Dict[str, Any]:
    row = {name: trial.get(name) for name in _FIRST}
    row["attempts"] = len(trial.get("attempts") or [])
    row["value"] = _number(row["value"])
    row.update((f"values.{at}", _number(value)) for at, value in enumerate(trial.get("values") or []))
    row.update((f"params.{name}", value) for name, value in trial["params"].items())
    scalars = ((name, value) for name, value in trial["attrs"].items() if not isinstance(value, (dict, list)))
    row.update((f"attrs.{name}", value) for name, value in scalars)
    return row


def _number(value: Any) -> Any:
    """JSON has no NaN and no infinities: they are texts."""
    return float(value) if isinstance(value, str) else value


def _pandas(rows: List[Dict[str, Any]]) -> Any:
    import pandas

    frame = pandas.DataFrame(rows)
    for name in _TIMES:
        if name in frame:
            frame[name] = pandas.to_datetime(frame[name], format="ISO8601", utc=True)
    return frame.astype({"value": "float64"}) if rows else frame


def _polars(rows: List[Dict[str, Any]]) -> Any:
    import polars

    names = list(rows[0]) if rows else []
    columns = {name: [row[name] for row in rows] for name in names}
    series = [polars.Series(name, values, strict=not _mixed(values)) for name, values in columns.items()]
    times = [
        polars.col(name).cast(polars.String).str.to_datetime(time_unit="us", time_zone="UTC")
        for name in _TIMES
        if name in names
    ]
    return polars.DataFrame(series).with_columns(times)


def _mixed(values: List[Any]) -> bool:
    return len({type(value) for value in values if value is not None}) > 1
