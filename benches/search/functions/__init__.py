"""The functions of the search-quality benchmark: `ALL`, by name, in the order of their kinds."""
from . import conditional, curves, mixed, noisy, numerical
from .base import KINDS, SPLITS, Function, check_point, draw, stream

ALL = {
    function.name: function
    for module in (numerical, mixed, conditional, noisy, curves)
    for function in module.FUNCTIONS
}

__all__ = ["ALL", "KINDS", "SPLITS", "Function", "check_point", "draw", "stream"]
