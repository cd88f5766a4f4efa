"""Notes mistakes of a training that raise no error: it goes on, and learns nothing or something else."""

import operator
import sys
import weakref

from .modules import LOSSES
from .notes import place

# By which a loss compares results with targets.
COMPARES = ("aten.sub.Tensor", "aten.rsub.Tensor", "aten.mul.Tensor", "aten.div.Tensor", "aten.mse_loss.default",
            "aten.smooth_l1_loss.default", "aten.huber_loss.default")
# Losses of logits, each with the function whose result they should not be given.
OF_LOGITS = {"aten._log_softmax.default": "SoftmaxBackward0",
             "aten.binary_cross_entropy_with_logits.default": "SigmoidBackward0"}
# Arithmetic whose result integers of few bits may not hold.
ARITHMETIC = {"aten.add.Tensor": operator.add, "aten.sub.Tensor": operator.sub, "aten.mul.Tensor": operator.mul}
IN_PLACE = "aten.add_.Tensor"
FILLS = ("aten.masked_fill.Scalar", "aten.masked_fill_.Scalar")
CLEARS = ("aten.zero_.default", "aten._foreach_zero_.default", "aten.fill_.Scalar")
# Operations that change what a tensor has, by what it has.
CHANGES = {name + "_" for name in ("abs", "add", "clamp", "div", "exp", "log", "mul", "neg", "pow", "sqrt", "square", "sub")}
# Operations that set what a tensor has.
SETS = {"copy_", "fill_", "zero_", "normal_", "uniform_", "random_"}
WRITES = CHANGES | SETS
HALVES = ("torch.bfloat16", "torch.float16")
# Steps in a row after which it is no accident: a schedule may begin at 0, a first step may have no gradients.
STEPS = 5
# Operations on integers of few bits that are computed again with more.
SUMS = 300
# Tensors that a dataset changes again in a later pass, after which they are rows.
ROWS = 8
# Gradients that were cleared unused: a GradScaler may leave out some first steps, whose gradients are infinite.
UNUSED = 16


class Silent:
    def look_at_steps(self):
        """Has each step of an optimiser looked at."""
        counts = {}
        earlier = {}
        weights = {}

        def before(optimizer, args, kwargs):
            parameters = [p for group in optimizer.param_groups for p in group["params"]]
            gradients = {id(p): p.grad for p in parameters if p.grad is not None}
            kept = [earlier[at]() is gradient for at, gradient in gradients.items() if at in earlier]
            # One that is a tensor is left alone: to compare it would be an operation.
            rates = [group.get("lr") for group in optimizer.param_groups]
            found = {
                "gradients_kept": not self.cleared and len(kept) == len(gradients) > 0 and all(kept),
                "no_gradients": not gradients,
                "rate_of_zero": all(isinstance(rate, (int, float)) and rate == 0 for rate in rates),
                "updates_lost": stays([p for p in parameters if p.grad is not None], weights),
            }
            for kind, is_so in found.items():
                at = (id(optimizer), kind)
                counts[at] = counts.get(at, 0) + 1 if is_so else 0
                if counts[at] == STEPS:
                    self.silent(kind)
            earlier.update((at, weakref.ref(gradient)) for at, gradient in gradients.items())
            self.cleared = False

        self.before_steps(before)
        self.look_at_clearing()

    def look_at_clearing(self):
        """Whether gradients are cleared again and again before an optimiser has made its first step, and its weights stay."""
        import functools

        from torch.optim import Optimizer

        clear = Optimizer.zero_grad
        cleared = [0]
        weights = {}

        @functools.wraps(clear)
        def watched(self_, *args, **kwargs):
            if self.unused and not self.has_stepped and cleared[0] < UNUSED:
                cleared[0] += 1
                # By a step of the program's own they would change.
                if cleared[0] in (1, UNUSED):
                    parameters = [p for group in self_.param_groups for p in group["params"]]
                    if unchanged(parameters, weights) and cleared[0] == UNUSED:
                        self.silent("never_stepped")
            self.unused = False
            return clear(self_, *args, **kwargs)

        Optimizer.zero_grad = watched

    def look_at_operation(self, torch, name, args, kwargs, result):
        """Looks at an operation of the forward pass, or of none."""
        try:
            if self.checkpoints:
                self.takes(torch, *args)
            if name in LOSSES:
                self.look_at_targets(args[1])
            if name in CLEARS:
                self.cleared = True
            elif name in COMPARES and crosses(torch, args):
                self.silent("crossed")
            elif name in OF_LOGITS and args[0].grad_fn is not None and args[0].grad_fn.name() == OF_LOGITS[name]:
                self.silent("probabilities_as_logits")
            elif (name in ARITHMETIC or name == IN_PLACE) and not kwargs and self.wraps(torch, ARITHMETIC.get(name), args, result):
                self.silent("wrapped", str(result.dtype).replace("torch.", ""))
            elif name == "aten.embedding.default":
                self.look_at_tokens(torch, args[1])
            elif name in FILLS:
                self.look_at_mask(torch, *args[1:])
            elif name == "aten._to_copy.default":
                self.look_at_conversion(torch, args[0], kwargs)
            elif name == "aten.lerp_.Scalar" and rounds_away(torch, *args):
                self.averages += 1
                if self.averages == STEPS:
                    self.silent("updates_lost", "of an average, by lerp_()")
            elif self.fetches:
                self.look_at_row(name.split(".")[1], args[0], args, kwargs)
        except Exception:
            pass  # Of tensors of other kinds, which may have no strides, nothing is known.

    def wraps(self, torch, act, args, result):
        """Whether integers of few bits do not hold what is computed of them, and begin again at their other end. In place, where
        `act` is none and one of the values is gone, a sum of bytes is then less than what was added."""
        few = isinstance(result, torch.Tensor) and result.dtype in (torch.uint8, torch.int8, torch.int16)
        # Bytes less a number may be what is to be signed next.
        signed = act is operator.sub and not isinstance(args[1], torch.Tensor)
        if not few or signed or not 1 < result.numel() <= 1 << 20 or self.sums >= SUMS:
            return False
        self.sums += 1
        if act is None:
            added = args[1]
            return isinstance(added, torch.Tensor) and added.dtype is result.dtype is torch.uint8 and bool((result < added).any())
        from torch.utils._python_dispatch import _disable_current_modes

        with _disable_current_modes():  # By doctor: it is no operation of the program's.
            wide = [arg.int() if isinstance(arg, torch.Tensor) else arg for arg in args[:2]]
            return bool((act(*wide) != result).any())

    def look_at_row(self, name, row, args, kwargs):
        """Whether a row is changed where the dataset keeps it while it is read: in the next epoch it is changed again."""
        filled = name in SETS or kwargs.get("out") is not None
        row = kwargs.get("out") if kwargs.get("out") is not None else row
        whole = row._base if filled or name in CHANGES else None
        if row._base is None and name in WRITES:
            self.look_at_kept_row(row, name in SETS)
        # One number may be a count or a mean, which is kept there.
        if whole is None or row.numel() < 2 or whole.numel() < 2 * row.numel():
            return
        if name == "copy_" and args[1].data_ptr() == row.data_ptr():
            return  # What `x[i] -= y` does last.
        kept, changed = self.wholes.get(id(whole), (None, None))
        if kept is None or kept() is not whole:
            if len(self.wholes) > 1000:  # Most are gone.
                self.wholes.clear()
            kept, changed = self.wholes[id(whole)] = weakref.ref(whole), {}
        passes = changed.setdefault(row.storage_offset(), set())
        # What is filled anew is room to work in.
        passes.add(-1 if filled else self.passes)
        if len(passes) > 1 and -1 not in passes:
            self.silent("rows_changed")

    def look_at_kept_row(self, row, filled):
        """The same of rows that are tensors of their own, which a dataset keeps. A few may be sums of its own."""
        if row.numel() < 2:
            return
        kept, passes = self.rows_kept.get(id(row), (None, None))
        if kept is None or kept() is not row:
            if len(self.rows_kept) > 100_000:  # Most are gone.
                self.rows_kept.clear()
            kept, passes = self.rows_kept[id(row)] = weakref.ref(row), set()
        again = passes and -1 not in passes and not filled and self.passes not in passes
        passes.add(-1 if filled else self.passes)
        if again and len(passes) == 2:
            self.rows_of_before += 1
            if self.rows_of_before == ROWS:
                self.silent("rows_changed")

    def silent(self, kind, what=None, line=None):
        if kind not in self.silent_kinds:
            self.silent_kinds.add(kind)
            self.note("silent", kind=kind, told=what, line=line or self.own_line())

    def own_line(self):
        """The program's own line that is being executed."""
        frame = sys._getframe(1)
        while frame is not None and not self.is_own(frame.f_code.co_filename):
            frame = frame.f_back
        return frame and place(frame.f_code, frame.f_lineno)


def is_plain(tensor):
    import torch

    # Others may be spread over processes.
    return type(tensor) in (torch.Tensor, torch.nn.Parameter) and 0 < tensor.numel() <= 1 << 20


def unchanged(parameters, weights, also=lambda p: True):
    """Whether some of these, of which `weights` has copies, are what they were when they were looked at the last time."""
    import torch

    looked_at = [p for p in parameters if is_plain(p)][:8]
    if not looked_at:
        return False
    try:
        from torch.utils._python_dispatch import _disable_current_modes

        with _disable_current_modes(), torch.no_grad():  # By doctor: it is no operation of the program's.
            same = [id(p) in weights and torch.equal(p, weights[id(p)]) and also(p) for p in looked_at]
            weights.update((id(p), p.detach().clone()) for p in looked_at)
    except Exception:
        return False  # Of a PyTorch that has no such way round its modes, or of sparse gradients, nothing is known.
    return all(same)


def stays(parameters, weights):
    """Whether 16-bit weights are what they were a step ago although they have gradients: the step is rounded away."""
    half = [p for p in parameters if str(p.dtype) in HALVES]
    return unchanged(half, weights, lambda p: bool(p.grad.any()))


def rounds_away(torch, average, values, weight):
    """Whether an average in 16 bits stays what it is although the values are others: the step towards them is rounded away."""
    if str(average.dtype) not in HALVES or not is_plain(average) or not is_plain(values):
        return False
    try:
        from torch.utils._python_dispatch import _disable_current_modes

        with _disable_current_modes(), torch.no_grad():  # By doctor: it is no operation of the program's.
            missing = (values - average).float().abs()
            stays = torch.lerp(average, values, weight) == average
            return bool(missing.sum() > 0.05 * average.float().abs().sum() and stays.float().mean() > 0.9)
    except Exception:
        return False  # Of a PyTorch that has no such way round its modes nothing is known.


def crosses(torch, args):
    """Whether a network's results of shape [n, 1] meet targets of shape [n], or the other way round, so that each is compared
    with each; also where a loss has broadcast both to [n, n] before. A layer's weight, which may have such a shape, is a leaf."""
    pair = args[:2]
    if len(pair) < 2 or not all(isinstance(t, torch.Tensor) and t.layout == torch.strided for t in pair):
        return False
    if [t.is_leaf for t in pair if t.requires_grad] != [False]:
        return False
    return any(1 < column(one) == row(other) for one, other in (pair, pair[::-1]))


def column(tensor):
    """The rows of what has one column, or has been broadcast from one; 0: it has more."""
    one = tensor.dim() == 2 and (tensor.shape[1] == 1 or tensor.stride(1) == 0 != tensor.stride(0))
    return tensor.shape[0] if one else 0


def row(tensor):
    """The entries of what has one dimension, or has been broadcast from one; 0: it has more."""
    if tensor.dim() == 1:
        return tensor.shape[0]
    return tensor.shape[1] if tensor.dim() == 2 and tensor.stride(0) == 0 != tensor.stride(1) else 0
