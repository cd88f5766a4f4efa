"""Notes where it happens: operations, modules and gradients whose values are not finite."""

import math
import os

# Operations by which a program looks at results, and marks of the profiler's: what it computed before says more.
CHECKS = ("aten.isnan.default", "aten.any.default", "aten._local_scalar_dense.default", "aten.ne.Tensor")
MARKS = "profiler."
# They make memory that holds anything yet.
UNFILLED = ("aten.empty", "aten.new_empty", "aten.resize")


class Tracing:
    def trace(self, torch):
        """Notes each operation before it is called, and the first module whose result is not finite; with it the operation
        that had made such values of finite ones."""
        from time import monotonic

        from torch.utils._python_dispatch import TorchDispatchMode

        doctor = self
        self.changed("trace")
        names = {}
        state = {"gradient": None, "looking": False, "made": None}

        class Mode(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                name = str(func)
                if state["looking"] or name in CHECKS or name.startswith(MARKS):
                    return func(*args, **(kwargs or {}))
                shapes = [list(a.shape) for a in args if isinstance(a, torch.Tensor)]
                doctor.operation(name, shapes, torch._C._current_graph_task_id() >= 0)
                begun = monotonic()
                try:
                    result = func(*args, **(kwargs or {}))
                finally:
                    doctor.took(name, monotonic() - begun)
                if torch._C._current_graph_task_id() >= 0:
                    if state["gradient"] is None and not finite(result) and finite(args):
                        state["gradient"] = doctor.of_forward(torch)
                elif shapes and not doctor.wrong_result and not finite(result) and finite(args) and not meant(name, args):
                    state["made"] = doctor.made(torch, name, args, result)
                else:
                    doctor.look_at_operation(torch, name, args, kwargs or {}, result)
                return result

        def meant(name, args):
            """Whether nothing is wrong with such a result: a mask is made of infinities, new memory of anything."""
            infinity = any(isinstance(arg, float) and not math.isfinite(arg) for arg in args)
            return infinity or name.startswith(UNFILLED)

        def finite(value):
            tensors = []
            doctor.collect(torch, value, tensors)
            state["looking"] = True  # By doctor: it is no operation of the program's.
            try:
                return all(bool(torch.isfinite(t).all()) for t in tensors if t.is_floating_point())
            except Exception:  # Of tensors without values, or whose layout has no such operation, nothing is known.
                return True
            finally:
                state["looking"] = False

        def hook(module, args, output):
            if id(module) not in names:
                names[id(module)] = type(module).__name__
            if not self.wrong_result and not finite(output):
                self.wrong_result = True
                doctor.note("not_finite", module=names[id(module)], inputs_finite=finite(args),
                            weights_finite=finite(list(module.parameters(recurse=False))), batch=doctor.last_batch,
                            made=state["made"])

        def look_at_gradients(optimizer, args, kwargs):
            function, line = state["gradient"] or (None, None)
            state["gradient"] = None
            if function is None or self.overflowed:
                return
            gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
            if not finite(gradients):
                self.overflowed = True
                doctor.note("gradient_not_finite", function=function, line=line, batch=doctor.last_batch)

        torch.nn.modules.module.register_module_forward_hook(hook)
        self.before_steps(look_at_gradients)
        self.look_at_steps()
        self.look_at_functions(torch)
        self.watch_states(torch)
        self.watch_modules(torch)
        self.look_for_mistakes_of(torch)
        # Each node of the graph keeps the traceback of its forward operation.
        torch.autograd.set_detect_anomaly(True, check_nan=False)
        self.mode = Mode()
        self.mode.__enter__()

    def made(self, torch, function, args, result):
        """An operation that makes values that are not finite: its name, the program's own line, and the value of which it
        makes the first of them, where it makes each of one."""
        value, given = None, args[0]
        tensors = isinstance(result, torch.Tensor) and isinstance(given, torch.Tensor)
        if tensors and given.shape == result.shape and not given.is_complex():
            wrong = (~torch.isfinite(result)).flatten().nonzero()
            value = "%.6g" % given.flatten()[int(wrong[0])].item()
        return {"function": function, "line": self.own_line(), "value": value}

    def of_forward(self, torch):
        """The function whose gradient is computed, and the program's own line that called it forward."""
        node = torch._C._current_autograd_node()
        frames = node.metadata.get("traceback_", []) if node is not None else []
        for frame in reversed(frames):
            place = frame.split('"')
            if len(place) > 2 and self.is_own(place[1]):
                number, _, function = place[2].partition(", in ")
                number = number.replace(", line ", "").strip()
                return node.name(), "%s:%s in %s" % (place[1], number, function.split("\n")[0])
        return (node.name() if node is not None else "backward"), None

    def collect(self, torch, value, found):
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            for item in value:
                self.collect(torch, item, found)
        elif isinstance(value, dict):
            self.collect(torch, list(value.values()), found)

    def operation(self, name, shapes, backward):
        """Writes over the last one: the file says what ran when the process ended."""
        line = name + (" backward " if backward else " forward ") + str(shapes)
        data = line[:400].ljust(400).encode("utf-8", "replace")
        if not hasattr(self, "_operation"):
            path = os.path.join(self.notes, "operation-%d" % os.getpid())
            self._operation = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
        os.pwrite(self._operation, data, 0)

    def took(self, name, seconds):
        """Behind it, the operation that took longest; launches block, so that its kernels count."""
        if seconds > self.longest:
            self.longest = seconds
            line = "\n%d %s" % (seconds * 1e6, name)
            os.pwrite(self._operation, line[:200].ljust(200).encode("utf-8", "replace"), 400)
