"""Compares the gradients of a program's own autograd functions with finite differences."""

import functools

# An input of more numbers is left alone: the function is computed some ten times more.
LARGEST = 1 << 18
# Calls of a function that are looked at: its first input may be a special one.
CALLS = 2
# Steps along a direction, as a part of the inputs' size.
STEPS = (1e-4, 1e-5)


class Gradients:
    def look_at_functions(self, torch):
        """Has the first calls of each function with a gradient of the program's own looked at."""
        original = torch.autograd.Function.apply.__func__
        looked_at = {}

        @functools.wraps(original)
        def apply(cls, *args, **kwargs):
            result = original(cls, *args, **kwargs)
            calls = looked_at.get(cls, 0)
            if calls < CALLS and not self.comparing and not kwargs and self.is_own_function(cls):
                looked_at[cls] = calls + 1
                self.comparing = True
                try:
                    told = differs(torch, lambda *args: original(cls, *args), args)
                    if told is not None:
                        self.silent("gradient_differs", "%s.backward: %s" % (cls.__name__, told))
                except Exception:
                    pass  # One that takes no other inputs than the program's.
                finally:
                    self.comparing = False
            return result

        self.comparing = False
        torch.autograd.Function.apply = classmethod(apply)

    def is_own_function(self, cls):
        code = getattr(cls.backward, "__code__", None)
        return code is not None and self.is_own(code.co_filename)


def differs(torch, function, args):
    """How the gradient of a function differs from what its results do when an input is changed a little; `None`: it does not,
    or it is not for differences to say."""
    from torch.utils._python_dispatch import _disable_current_modes

    if not torch.is_grad_enabled():
        return None
    trained = [i for i, arg in enumerate(args)
               if isinstance(arg, torch.Tensor) and arg.requires_grad and arg.is_floating_point()]
    if not trained or sum(args[i].numel() for i in trained) > LARGEST:
        return None
    with _disable_current_modes(), torch.random.fork_rng():
        try:
            return compared(torch, function, precise(torch, args), trained)
        except (RuntimeError, TypeError):
            return None  # It computes in 32 bits alone, which differences are too coarse for.


def precise(torch, args):
    """Copies of the inputs, in 64 bits."""
    def copy(arg):
        if not isinstance(arg, torch.Tensor):
            return arg
        arg = arg.detach().clone()
        return arg.double() if arg.is_floating_point() else arg

    return [copy(arg) for arg in args]


def compared(torch, function, args, trained):
    generator = torch.Generator().manual_seed(0)

    def drawn(like):
        return torch.randn(like.shape, generator=generator, dtype=torch.float64).to(like.device)

    def computed(given):
        torch.manual_seed(0)
        outputs = function(*given)
        outputs = outputs if isinstance(outputs, (tuple, list)) else [outputs]
        return [out for out in outputs if isinstance(out, torch.Tensor) and out.is_floating_point()]

    with torch.no_grad():
        first = computed(precise(torch, args))
        if not first or any(out.dtype != torch.float64 or not torch.isfinite(out).all() for out in first):
            return None
        for i in trained:
            # One that gives back what it is given is there for its gradient: it turns it round, or clips it.
            if any(out.shape == args[i].shape and torch.equal(out, args[i]) for out in first):
                return None
    weights = [torch.ones_like(out) if out.numel() == 1 else drawn(out) for out in first]

    def weighed(given):
        return sum((out * weight).sum() for out, weight in zip(computed(given), weights))

    given = [arg.requires_grad_() if i in trained else arg for i, arg in enumerate(precise(torch, args))]
    with torch.enable_grad():
        gradients = torch.autograd.grad(weighed(given), [given[i] for i in trained], allow_unused=True)
    for i, gradient in zip(trained, gradients):
        if gradient is None or gradient.shape != args[i].shape:
            continue
        direction = drawn(args[i])
        size = args[i].abs().mean().item() or 1.0
        slopes = []
        with torch.no_grad():
            for step in STEPS:
                ends = []
                for sign in (1, -1):
                    moved = precise(torch, args)
                    moved[i] = moved[i] + sign * step * size * direction
                    ends.append(weighed(moved).item())
                slopes.append((ends[0] - ends[1]) / (2 * step * size))
        by_function = (gradient * direction).sum().item()
        slope = slopes[1]
        # Where two steps do not agree it has jumps, and where it does not change it is one that rounds.
        if slope == 0 or not abs(slopes[0] - slope) <= 1e-3 * abs(slope):
            continue
        if not abs(by_function - slope) <= 0.02 * max(abs(slope), abs(by_function)):
            return "in a direction in which its result changes by %.3g its gradient says %.3g" % (slope, by_function)
    return None
