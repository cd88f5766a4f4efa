"""Compares the gradients of a program's own autograd functions with finite differences."""

import functools
import random
import sys

from .notes import place

# An input of more numbers is left alone: the function is computed some ten times more.
LARGEST = 1 << 18
# Calls of a function that are looked at: its first input may be a special one.
CALLS = 2
# Steps along a direction, as a part of the inputs' size. By the first, what rounds or clamps is told from what is smooth.
STEPS = (1e-2, 1e-4, 1e-5)
# How much the slopes by these steps may differ from that by the last.
ALIKE = (0.05, 1e-3)
# What a forward computes of which its gradient is meant to be another one, as a straight-through estimator's.
SURROGATES = r"\b(?:amax|amin|ceil|clamp|clip|floor|max|maximum|min|minimum|quant\w*|round|sign|where)_?\("


class Gradients:
    def look_at_functions(self, torch):
        """Keeps the inputs of the first calls of each function with a gradient of the program's own, and compares at the next
        step of an optimiser: outside of checkpointing, autocast and whatever else the call is in."""
        original = torch.autograd.Function.apply.__func__
        calls, waiting = {}, []

        @functools.wraps(original)
        def apply(cls, *args, **kwargs):
            if calls.get(cls, 0) < CALLS and not kwargs and torch.is_grad_enabled():
                calls[cls] = calls.get(cls, 0) + 1
                try:
                    if few(torch, args) and self.is_own_function(torch, cls, args):
                        waiting.append((cls, kept(torch, args), trained_in(torch, args)))
                except Exception:
                    pass  # Of inputs of other kinds nothing is known.
            return original(cls, *args, **kwargs)

        def compare(optimizer, args, kwargs):
            while waiting:
                cls, given, trained = waiting.pop(0)
                try:
                    told = differs(torch, functools.partial(original, cls), given, trained)
                    if told is not None:
                        self.silent("gradient_differs", "%s.backward: %s" % (cls.__name__, told), line=place(own_code(cls)))
                except Exception:
                    pass  # One that takes no other inputs than the program's, or computes in 32 bits alone.

        torch.autograd.Function.apply = classmethod(apply)
        self.before_steps(compare)

    def is_own_function(self, torch, cls, args):
        """Whether it is the program's, and does nothing but compute: what is given a function or a network calls it, and
        several processes wait for each other in it."""
        code = own_code(cls)
        if code is None or not self.is_own(code.co_filename) or any(callable(a) and not isinstance(a, torch.Tensor) for a in args):
            return False
        distributed = torch.distributed
        if distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1:
            return False
        import inspect
        import re

        return not re.search(SURROGATES, inspect.getsource(cls.forward))


def own_code(cls):
    """Of its backward as it is written, within torch's decorators."""
    import inspect

    return getattr(inspect.unwrap(cls.backward), "__code__", None)


def few(torch, args):
    """Whether some of the inputs have gradients, and all are not too large."""
    return bool(trained_in(torch, args)) and sum(arg.numel() for arg in args if isinstance(arg, torch.Tensor)) <= LARGEST


def trained_in(torch, args):
    """Which of the inputs have gradients."""
    return [i for i, arg in enumerate(args) if isinstance(arg, torch.Tensor) and arg.requires_grad and arg.is_floating_point()]


def kept(torch, args):
    """Copies of the inputs, which may be written to before they are looked at."""
    from torch.utils._python_dispatch import _disable_current_modes

    with _disable_current_modes(), torch.no_grad():
        return [arg.detach().clone() if isinstance(arg, torch.Tensor) else arg for arg in args]


def differs(torch, function, args, trained):
    """How the gradient of a function differs from what its results do when an input is changed a little; `None`: it does not,
    or it is not for differences to say. Random numbers go on as if nothing had been computed."""
    from torch.utils._python_dispatch import _disable_current_modes

    devices = sorted({arg.device.index for arg in args if isinstance(arg, torch.Tensor) and arg.is_cuda})
    numpy = sys.modules.get("numpy")
    states = random.getstate(), numpy.random.get_state() if numpy else None
    try:
        with _disable_current_modes(), torch.random.fork_rng(devices=devices):
            return compared(torch, function, precise(torch, args), trained, devices)
    finally:
        random.setstate(states[0])
        if numpy:
            numpy.random.set_state(states[1])


def precise(torch, args):
    """Copies of the inputs, in 64 bits."""
    def copy(arg):
        if not isinstance(arg, torch.Tensor):
            return arg
        arg = arg.detach().clone()
        return arg.double() if arg.is_floating_point() else arg

    return [copy(arg) for arg in args]


def compared(torch, function, args, trained, devices):
    generator = torch.Generator().manual_seed(0)

    def drawn(like):
        return torch.randn(like.shape, generator=generator, dtype=torch.float64).to(like.device)

    def computed(given):
        torch.default_generator.manual_seed(0)
        for device in devices:
            torch.cuda.default_generators[device].manual_seed(0)
        random.seed(0)
        outputs = function(*given)
        outputs = outputs if isinstance(outputs, (tuple, list)) else [outputs]
        return [out for out in outputs if isinstance(out, torch.Tensor) and out.is_floating_point()]

    given = [arg.requires_grad_() if i in trained else arg for i, arg in enumerate(precise(torch, args))]
    with torch.enable_grad():
        first = computed(given)
        # One that is said to have no gradient has none to compare.
        counts = [out.requires_grad for out in first]
        if not any(counts) or any(out.dtype != torch.float64 or not torch.isfinite(out).all() for out in first):
            return None
        # One that gives back what it is given is there for its gradient: it turns it round, or clips it.
        if any(out.shape == args[i].shape and torch.equal(out, args[i]) for i in trained for out in first):
            return None
        weights = [torch.ones_like(out) if out.numel() == 1 else drawn(out) for out in first]

        def weighed(outputs):
            return sum((out * weight).sum() for out, weight, has in zip(outputs, weights, counts) if has)

        gradients = torch.autograd.grad(weighed(first), [given[i] for i in trained], allow_unused=True)
    for i, gradient in zip(trained, gradients):
        if gradient is None or gradient.shape != args[i].shape:
            continue
        direction, size, slopes = drawn(args[i]), args[i].abs().mean().item() or 1.0, []
        with torch.no_grad():
            for step in STEPS:
                ends = []
                for sign in (1, -1):
                    moved = precise(torch, args)
                    moved[i] = moved[i] + sign * step * size * direction
                    ends.append(weighed(computed(moved)).item())
                slopes.append((ends[0] - ends[1]) / (2 * step * size))
        by_function, slope = (gradient * direction).sum().item(), slopes[-1]
        # Where steps do not agree it has jumps or kinks, and where it does not change it is one that rounds.
        if slope == 0 or any(not abs(other - slope) <= most * abs(slope) for other, most in zip(slopes, ALIKE)):
            continue
        if not abs(by_function - slope) <= 0.02 * max(abs(slope), abs(by_function)):
            return "in a direction in which its result changes by %.3g its gradient says %.3g" % (slope, by_function)
    return None
