"""The program ``tune``, and values as it reads them."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from typing import Any, Optional


class Error(RuntimeError):
    """What ``tune`` refused, in its own words: what was found and what was expected."""


def program(named: Optional[str] = None) -> str:
    """The program's path: the one named, else that of this Python environment, else the one on the search path.

    Raises:
        Error: there is none.
    """
    if named is not None:
        return named
    scripts = [sysconfig.get_path("scripts"), os.path.dirname(sys.executable)]
    found = shutil.which("tune", path=os.pathsep.join(scripts)) or shutil.which("tune")
    if found is None:
        raise Error(f"there is no program tune in {scripts[0]}, nor on the search path; expected it from tune's wheel")
    return found


def plain(value: Any) -> Any:
    """A value as JSON has it: numbers of NumPy, PyTorch and others become Python's own.

    Raises:
        TypeError: it is no number and no other value that JSON has.
    """
    if value is None or isinstance(value, (bool, str)) or type(value) in (int, float):
        return value
    item = getattr(value, "item", None)
    if callable(item):
        return plain(item())
    if hasattr(value, "__index__"):
        return int(value.__index__())
    if hasattr(value, "__float__"):
        return float(value)
    raise TypeError(f"found {value!r} ({type(value).__name__}), expected a number, a text, True, False or None")


def number(name: str, value: Any) -> float:
    """A metric's value, by its name.

    Raises:
        TypeError: it is no number.
    """
    try:
        found = plain(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name}: {error}") from None
    if isinstance(found, (int, float)):
        return found + 0
    raise TypeError(f"{name}: found {value!r}, expected a number")
