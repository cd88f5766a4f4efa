"""Notes mistakes around a training that raise no error: what is lost, rounded or stale before a network sees it."""

import builtins
import sys
import weakref

from .notes import place

# Calls without effects, as far as their names tell: an assert may well be left out with them.
HARMLESS = {
    "abs", "all", "allclose", "any", "callable", "count", "dim", "endswith", "equal", "exists", "float", "get", "getattr", "hasattr", "int",
    "is_available", "is_dir", "is_file", "is_floating_point", "is_tensor", "isdir", "isfile", "isfinite", "isinstance", "isnan",
    "issubclass", "item", "keys", "len", "lower", "max", "mean", "min", "ndim", "numel", "range", "round", "set", "size", "sorted",
    "startswith", "std", "str", "sum", "tuple", "type", "upper", "values",
}
# Texts that mean no, and yet are true.
NO = ("0", "f", "false", "n", "no", "none", "off")
# 32-bit floats have every integer up to here.
EXACT = 1 << 24
# Fewer values than this say nothing.
FEWEST = 64
# Passes in a row in which rows that are kept have changed.
PASSES = 3
# Hooks that a module has got since it was called first.
HOOKS = 8
# Steps between two evaluations of a copy: what is called more often may be a teacher, which is meant to stay.
STEPS_BETWEEN = 10
# Evaluations in which a copy that is to follow the trained network would have changed.
EVALUATIONS = 3
# Steps at which default arguments are looked at.
LOOKS = (8, 64, 512, 4096)
# More values than this are not looked through.
MOST = 1_000_000


class Mistakes:
    def look_for_mistakes(self):
        """Before the program begins."""
        self.watch_zip()
        self.watch_enumerate()
        self.after_import("queue", self.watch_queues)
        self.after_import("argparse", self.watch_options)

    def look_for_mistakes_of(self, torch):
        """Once torch is there."""
        self.watch_tensors(torch)
        self.watch_persistent_workers()
        self.watch_scaling(torch)
        self.watch_generators(torch)
        if sys.flags.optimize:
            # By the first step all of its files are there.
            self.before_steps(lambda optimizer, args, kwargs: self.look_at_asserts())
        self.watch_defaults()
        hooks, copies = {}, Copies()
        self.before_steps(lambda optimizer, args, kwargs: copies.step(torch, optimizer))

        def look(module, args, output):
            try:
                self.look_at_mode(torch, module)
                self.look_at_hooks(module, hooks)
                if copies.are_stale(torch, module):
                    self.silent("copy_stale", type(module).__name__)
            except Exception:
                pass  # Of modules of other kinds nothing is known.

        torch.nn.modules.module.register_module_forward_hook(look)

    def called_by_own(self):
        """Whether it is the program's own code that called what stands in for a function of Python's."""
        return self.owns(sys._getframe(2).f_code.co_filename)

    def watch_zip(self):
        doctor, original = self, builtins.zip

        class Zip(original):
            def __new__(cls, *iterables, **options):
                if len(iterables) > 1 and not options and doctor.called_by_own():
                    lengths = doctor.lengths(iterables)
                    if lengths:
                        doctor.silent("lengths_differ", " and ".join(map(str, lengths)))
                return original.__new__(cls, *iterables, **options)

        Zip.__name__ = Zip.__qualname__ = "zip"
        builtins.zip = Zip

    def lengths(self, iterables):
        """How long they are, where the longest has more than the others and is no window on the same values."""
        if not all(hasattr(i, "__len__") for i in iterables):
            return None
        try:
            lengths = [len(i) for i in iterables]
            more = max(lengths) - min(lengths)
            if not more or min(lengths) < FEWEST:
                return None
            whole, part = iterables[lengths.index(max(lengths))], iterables[lengths.index(min(lengths))]
            rows = isinstance(whole, (list, tuple)) and isinstance(part, (list, tuple))
            # As in zip(words, words[1:]); an array's window has no values of its own to tell it by.
            window = any(whole[at] is part[0] for at in range(more + 1)) if rows else more <= 8
            return None if window else lengths
        except Exception:
            return None

    def watch_enumerate(self):
        import os

        doctor, original = self, builtins.enumerate
        if os.environ.get("PYTHONHASHSEED", "random") != "random":
            return

        class Enumerate(original):
            def __new__(cls, iterable, start=0):
                if isinstance(iterable, (set, frozenset)) and len(iterable) > 1 and doctor.called_by_own():
                    if any(isinstance(item, (str, bytes)) for item in iterable):
                        doctor.silent("numbered_set")
                return original.__new__(cls, iterable, start)

        Enumerate.__name__ = Enumerate.__qualname__ = "enumerate"
        builtins.enumerate = Enumerate

    def watch_options(self, argparse):
        """Notes options of the type bool, which takes any text but the empty one for true."""
        doctor, get_value = self, argparse.ArgumentParser._get_value

        def watched(self, action, text):
            if action.type is bool and isinstance(text, str) and text.strip().lower() in NO:
                name = action.option_strings[-1] if action.option_strings else action.dest
                doctor.silent("no_is_true", "%s %s" % (name, text))
            return get_value(self, action, text)

        argparse.ArgumentParser._get_value = watched

    def watch_queues(self, queue):
        """Has each tensor that is put into a queue looked at again where it is taken out."""
        doctor = self
        put, get = queue.Queue.put, queue.Queue.get
        waiting = {}

        def watched_put(self, item, *args, **kwargs):
            torch, tensors = sys.modules.get("torch"), []
            if hasattr(torch, "Tensor"):
                doctor.collect(torch, item, tensors)
            # It may be taken out before the call returns.
            waiting.pop(id(item), None)
            if tensors:
                waiting[id(item)] = [(t, version(t)) for t in tensors], doctor.own_line()
            try:
                return put(self, item, *args, **kwargs)
            except queue.Full:
                waiting.pop(id(item), None)
                raise

        def watched_get(self, *args, **kwargs):
            item = get(self, *args, **kwargs)
            tensors, line = waiting.pop(id(item), ((), None))
            if any(version(tensor) != before for tensor, before in tensors):
                doctor.silent("overwritten", line=line)
            return item

        queue.Queue.put, queue.Queue.get = watched_put, watched_get

    def watch_tensors(self, torch):
        """Looks at what 32-bit floats are made of."""
        doctor = self

        def watch(name):
            original = getattr(torch, name)

            def watched(data, *args, **kwargs):
                made = original(data, *args, **kwargs)
                if made.dtype is torch.float32 and not isinstance(data, torch.Tensor):
                    doctor.look_at_rounding(data)
                return made

            setattr(torch, name, watched)

        watch("tensor")
        watch("as_tensor")

    def look_at_conversion(self, torch, given, kwargs):
        """A tensor is converted to another type."""
        wide = isinstance(given, torch.Tensor) and given.dtype in (torch.float64, torch.int64)
        if wide and kwargs.get("dtype") is torch.float32 and FEWEST <= given.numel() <= MOST:
            from torch.utils._python_dispatch import _disable_current_modes

            with _disable_current_modes():  # By doctor: it is no operation of the program's.
                values = given.detach().cpu().numpy()
            self.look_at_rounding(values)

    def look_at_rounding(self, data):
        """Whether numbers that differ little beside their size are so large that 32-bit floats have gaps between integers:
        points in time in seconds, numbers of rows that begin high."""
        numpy = sys.modules.get("numpy")
        try:
            values = numpy.asarray(data, dtype="float64")
            if not FEWEST <= values.size <= MOST or numpy.abs(values).max() <= EXACT:
                return
            wide = values.ndim > 1 and values.shape[-1] <= 1024
            columns = values.reshape(-1, values.shape[-1] if wide else 1)
            middle = numpy.median(numpy.abs(columns), axis=0)
            changed = (columns != columns.astype("float32")).mean(axis=0) > 0.5
            near = (middle > EXACT) & (middle >= 4 * columns.std(axis=0)) & changed
            if len(columns) >= FEWEST and near.any():
                large = middle[near].max()
                self.silent("rounded", "%.4g to multiples of %.4g" % (large, numpy.spacing(numpy.float32(large))))
        except Exception:
            pass  # No numbers, or no numpy.

    def watch_persistent_workers(self):
        """Compares a dataset's settings with those that its workers were started with."""
        doctor = self
        of_workers = sys.modules["torch.utils.data.dataloader"]._MultiProcessingDataLoaderIter
        reset = of_workers._reset

        def watched(self, loader, first_iter=False):
            now = settings(loader.dataset)
            before = self.__dict__.setdefault("_tune_doctor_settings", now)
            changed = sorted(name for name, value in now.items() if before.get(name, value) != value)
            if changed:
                doctor.silent("workers_stale", ", ".join(changed[:4]))
            return reset(self, loader, first_iter)

        of_workers._reset = watched

    def watch_generators(self, torch):
        """Notes rows that are drawn again in each pass, or in each process: a loader's process begins with a copy of the dataset,
        and of the generator that it keeps. Each copy leaves a file, and the second that draws from the same state says so."""
        import os

        doctor, reader = self, torch.utils.data._utils.fetch._MapDatasetFetcher
        fetch, begun, reading = reader.fetch, set(), []

        def watched(self, rows):
            dataset = whole(self.dataset)
            # Only the loader's processes: here, it goes on where it was.
            if id(dataset) in begun or torch.utils.data.get_worker_info() is None:
                return fetch(self, rows)
            begun.add(id(dataset))
            before = generators(torch, dataset)
            fetched = fetch(self, rows)
            after = generators(torch, dataset)
            path = os.path.join(doctor.notes, "drawn-%d-" % id(dataset))
            # One that is seeded anew goes on from another state.
            if before is not None and before != after and not os.path.exists(path + "again"):
                drawn = "drawn-%d-%s-%s" % (id(dataset), before, after)
                doctor.write(os.path.basename(path) + "again" if os.path.exists(os.path.join(doctor.notes, drawn)) else drawn, "")
            return fetched

        def passes(loader):
            # A validation may draw the same rows each time on purpose.
            if torch.is_grad_enabled():
                begins_anew = loader.num_workers and not loader.persistent_workers
                reading[:] = [weakref.ref(loader)] if begins_anew else []

        def step(optimizer, args, kwargs):
            dataset = whole(getattr(reading.pop()(), "dataset", None)) if reading else None
            if dataset is not None and os.path.exists(os.path.join(doctor.notes, "drawn-%d-again" % id(dataset))):
                code = getattr(type(dataset).__getitem__, "__code__", None)
                self.silent("rows_again", line=code and place(code))

        reader.fetch = watched
        self.at_pass = passes
        self.before_steps(step)

    def before_fetch(self, passing):
        """Samples the arrays that a dataset keeps before rows of it are read here: processes that read them have copies of it."""
        if not self.fetches or "rows_changed" in self.silent_kinds or not self.wants("trace"):
            return None
        try:
            return kept_by(passing._dataset)
        except Exception:
            return None  # Of a dataset that answers oddly nothing is known.

    def after_fetch(self, passing, before):
        """Whether reading rows changes the array that keeps them, in one pass after the other. What was 0 may be room that is
        filled."""
        if not before:
            return
        try:
            now = kept_by(passing._dataset)
            for at, (name, values, array) in before.items():
                after = now.get(at, (name, values, array))[1]
                if after.shape == values.shape and ((values != after) & (values != 0) & (values == values)).any():
                    passes = self.changed_rows.setdefault(at, set())
                    passes.add(self.passes)
                    if len(passes) == PASSES:
                        line = place(type(passing._dataset).__getitem__.__code__)
                        self.silent("rows_changed", "%s of %s" % (name, type(passing._dataset).__name__), line=line)
        except Exception:
            pass  # As above.

    def watch_scaling(self, torch):
        """Notes gradients that are clipped while they are scaled up for 16-bit floats, and steps without any."""
        import functools

        doctor, clip = self, torch.nn.utils.clip_grad
        scaler, scaled = getattr(getattr(torch, "amp", None), "GradScaler", None), weakref.WeakSet()
        if scaler is None:
            return  # Of older versions of PyTorch nothing is known.

        def watch(owner, name, act):
            original = getattr(owner, name)

            @functools.wraps(original)
            def watched(*args, **kwargs):
                try:
                    act(*args)
                except Exception:
                    pass  # Of a scaler of another kind nothing is known.
                return original(*args, **kwargs)

            setattr(owner, name, watched)
            return watched

        def scale(self, *args):
            # One of the program's own classes may take the scale back in its own way.
            if type(self).unscale_ is scaler.unscale_ and self.is_enabled() and self.get_scale() > 1:
                scaled.add(self)

        def step(self, optimizer, *args):
            parameters = [p for group in optimizer.param_groups for p in group["params"]]
            # One that takes the scale back itself may be given none in a step.
            fused = getattr(optimizer, "_step_supports_amp_scaling", False)
            if self.is_enabled() and not fused and all(p.grad is None for p in parameters):
                shapes = ", ".join(str(list(p.shape)) for p in parameters[:2])
                doctor.silent("no_gradients", "of shapes " + shapes)

        watch(scaler, "scale", scale)
        watch(scaler, "step", step)
        for name in ("unscale_", "update"):
            watch(scaler, name, lambda self, *args: scaled.discard(self))
        for name in ("clip_grad_norm_", "clip_grad_value_"):
            watched = watch(clip, name, lambda *args: scaled and doctor.silent("clipped_scaled"))
            setattr(torch.nn.utils, name, watched)

    def watch_defaults(self):
        """Looks at default arguments after some steps, and at the end."""
        import atexit

        counted = []

        def count(optimizer, args, kwargs):
            counted.append(None)
            if len(counted) in LOOKS:
                self.look_at_defaults()

        self.before_steps(count)
        atexit.register(self.look_at_defaults)

    def look_at_defaults(self):
        """Whether a default argument of the program's own functions, an empty list for one, is no longer what is written there."""
        for module in list(sys.modules.values()):
            name = getattr(module, "__file__", None) or ""
            try:
                if name.endswith(".py") and self.is_own(name):
                    self.look_at_defaults_of(module, name)
            except Exception:
                pass  # Of a file that cannot be read, or a module that answers oddly, nothing is known.

    def look_at_defaults_of(self, module, name):
        import ast

        # Of each function by its first line, a decorator's for one.
        kept = {}
        owners = [module] + [v for v in vars(module).values() if isinstance(v, type) and v.__module__ == module.__name__]
        for owner in owners:
            for value in vars(owner).values():
                function = getattr(value, "__func__", value)
                code, defaults = getattr(function, "__code__", None), getattr(function, "__defaults__", None)
                if code and code.co_filename == name and any(isinstance(d, (list, dict, set)) and d for d in defaults or ()):
                    kept[code.co_firstlineno] = defaults
        if not kept:
            return
        with open(name, encoding="utf-8") as file:
            tree = ast.parse(file.read())
        for node in ast.walk(tree):
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            now = kept.get(min(at.lineno for at in [node] + node.decorator_list), ())
            written = node.args.defaults
            arguments = (node.args.posonlyargs + node.args.args)[-len(written):] if written else ()
            for argument, default, value in zip(arguments, written, now):
                if isinstance(value, (list, dict, set)) and value and empty(ast, default):
                    line = "%s:%d in %s" % (name, node.lineno, node.name)
                    self.silent("default_changed", "%s of %s" % (argument.arg, node.name), line=line)

    def look_at_mode(self, torch, module):
        if module.training and not torch.is_grad_enabled():
            nn = torch.nn.modules
            dropout = isinstance(module, nn.dropout._DropoutNd) and module.p > 0
            normalises = isinstance(module, nn.batchnorm._BatchNorm)
            if (dropout or normalises) and not is_called_by("update_bn"):
                self.silent("training_mode", type(module).__name__)

    def look_at_hooks(self, module, seen):
        """Whether a module gets more and more hooks, as it does where they are never removed."""
        hooks = module._forward_hooks
        first = seen.setdefault(id(module), len(hooks))
        if len(hooks) >= first + HOOKS:
            code = getattr(list(hooks.values())[-1], "__code__", None)
            self.silent("hooks_kept", "%d on one %s" % (len(hooks), type(module).__name__), line=code and place(code))

    def look_at_asserts(self):
        """The first assert of the program's own files that would have called something."""
        import ast

        if self.asserts_seen:
            return
        self.asserts_seen = True
        for module in list(sys.modules.values()):
            name = getattr(module, "__file__", None) or ""
            try:
                if not name.endswith(".py") or not self.is_own(name):
                    continue
                with open(name, encoding="utf-8") as file:
                    tree = ast.parse(file.read())
            except Exception:
                continue
            for node in ast.walk(tree):
                called = acts(ast, node.test) if isinstance(node, ast.Assert) else None
                if called:
                    self.silent("assert_skipped", called, line="%s:%d" % (name, node.lineno))
                    break


class Copies:
    """Layers that no optimiser trains and that are never in training mode, of all shapes of a network that is trained: a copy of
    it, such as an average of its weights. Frozen layers of the network itself are in training mode as the others are."""

    def __init__(self):
        self.steps, self.shapes, self.trained = 0, set(), set()
        self.training, self.seen, self.stale = set(), {}, set()

    def step(self, torch, optimizer):
        self.steps += 1
        if self.steps <= 2:
            parameters = [p for group in optimizer.param_groups for p in group["params"]]
            plain = [p for p in parameters if not torch.nn.parameter.is_lazy(p)]
            self.trained.update(map(id, plain))
            self.shapes.update(p.shape for p in plain if p.dim() > 1)

    def are_stale(self, torch, module):
        """Whether layers of every shape have been evaluated again and again, with training in between, and are as they were at
        first."""
        if module.training:
            self.training.add(id(module))
        weight = getattr(module, "weight", None)
        evaluated = not torch.is_grad_enabled() and self.steps > 0 and id(module) not in self.training
        if not evaluated or not isinstance(weight, torch.Tensor) or weight.numel() > MOST:
            return False
        if id(weight) in self.trained or weight.shape not in self.shapes:
            return False
        last, times, first = self.seen.get(id(module), (None, 0, None))
        if last == self.steps:
            return False
        if last is not None and (self.steps < last + STEPS_BETWEEN or not same(torch, weight, first)):
            times, first = 0, None
            self.stale.discard(weight.shape)
        first = weight.detach().clone() if first is None else first
        self.seen[id(module)] = (self.steps, times + 1, first)
        if times + 1 > EVALUATIONS:
            self.stale.add(weight.shape)
        return bool(self.stale) and self.stale >= self.shapes


def is_called_by(name):
    """Whether a function of this name is under way: torch's, that gathers statistics over a pass, computes in training mode."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != name:
        frame = frame.f_back
    return frame is not None


def same(torch, weight, first):
    alike = weight.device == first.device and weight.dtype == first.dtype and weight.shape == first.shape
    return alike and torch.equal(weight, first)


def version(tensor):
    """How often it was written to; a tensor of inference has no such count."""
    return 0 if tensor.is_inference() else tensor._version


def kept_by(dataset):
    """A sample of each table, picture or volume of NumPy's that a dataset keeps, by its identity, with the attribute's name; of
    lists and dictionaries the first few. Counts and weights of rows have one dimension."""
    numpy = sys.modules.get("numpy")
    found = {}
    for name, value in getattr(dataset, "__dict__", {}).items() if numpy is not None else ():
        values = list(value.values())[:16] if isinstance(value, dict) else [value]
        for array in value[:16] if isinstance(value, (list, tuple)) else values:
            if isinstance(array, numpy.ndarray) and array.ndim > 1 and array.dtype.kind in "fui" and array.size:
                rows = array[:: len(array) // 64 + 1].reshape(-1)
                # With the array itself: another one would get its identity.
                found[id(array)] = name, rows[:: rows.size // 512 + 1].copy(), array
    return found


def whole(dataset):
    """The dataset of which one is a part, as torch.utils.data.Subset is."""
    for _ in range(4):
        dataset = getattr(dataset, "__dict__", {}).get("dataset", dataset)
    return dataset


def generators(torch, dataset):
    """What stands for the states of the generators of random numbers that a dataset keeps; `None`: it keeps none."""
    import hashlib
    import pickle
    import random

    numpy, states = sys.modules.get("numpy"), []
    try:
        for value in list(vars(dataset).values()):
            if isinstance(value, torch.Generator):
                states.append(value.get_state().numpy())
            elif isinstance(value, random.Random):
                states.append(value.getstate())
            elif numpy is not None and isinstance(value, numpy.random.Generator):
                states.append(value.bit_generator.state)
            elif numpy is not None and isinstance(value, numpy.random.RandomState):
                states.append(value.get_state())
        return hashlib.sha256(pickle.dumps(states)).hexdigest()[:16] if states else None
    except Exception:
        return None  # Of one that has no state, as random.SystemRandom, nothing is known.


def settings(dataset):
    """What is set on a dataset, and on the one of which it is a part, that is plain enough to compare."""
    found = {}
    for _ in range(4):
        own = getattr(dataset, "__dict__", {})
        found.update((k, v) for k, v in own.items() if isinstance(v, (bool, int, float, str, type(None))))
        dataset = own.get("dataset")
    return found


def empty(ast, node):
    """Whether it is written as an empty list, dictionary or set."""
    if isinstance(node, (ast.List, ast.Dict)):
        return not (node.elts if isinstance(node, ast.List) else node.keys)
    return isinstance(node, ast.Call) and getattr(node.func, "id", None) in ("list", "dict", "set") and not node.args and not node.keywords


def acts(ast, test):
    """The name of a function that an assert calls and that may do more than look."""
    for node in ast.walk(test):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", None) or getattr(node.func, "id", None)
            if name and name not in HARMLESS:
                return name
    return None
