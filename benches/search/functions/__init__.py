"""The functions of the search-quality benchmark: `ALL`, by name, in the order of their kinds."""
from . import conditional, curves, mixed, noisy, numerical, tables
from .base import KINDS, SPLITS, Function, check_point, draw, stream

ALL = {
    function.name: function
    for module in (numerical, mixed, conditional, noisy, curves, tables)
    for function in module.FUNCTIONS
}
ALL = dict(sorted(ALL.items(), key=lambda item: KINDS.index(item[1].kind)))

__all__ = ["ALL", "KINDS", "SPLITS", "Function", "check_point", "draw", "stream"]
