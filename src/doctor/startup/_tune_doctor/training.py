"""Changes to torch and to loaders of data, and notes of batches."""

import functools
import os
import sys

from .notes import as_json


class Training:
    def torch_imported(self):
        torch = sys.modules.get("torch")
        if self.depth or torch is None or getattr(torch, "_tune_doctor", False):
            return
        spec = getattr(torch, "__spec__", None)
        if not hasattr(torch, "nn") or getattr(spec, "_initializing", False):
            return
        torch._tune_doctor = True
        try:
            self.on_torch(torch)
        except Exception as error:  # Another version of torch: the run goes on without.
            self.note("not_applied", error=repr(error))

    def on_torch(self, torch):
        self.note("torch", version=torch.__version__, cuda=bool(torch.version.cuda))
        self.settings(torch)
        self.precision(torch)
        self.loaders_of(torch)
        self.steps()
        if self.wants("seed"):
            self.reseed_torch(torch)
        if self.wants("spawn"):
            self.spawn(torch.multiprocessing)
        if self.wants("trace"):
            self.trace(torch)

    def settings(self, torch):
        def deterministic():
            torch.use_deterministic_algorithms(True, warn_only=True)
            torch.backends.cudnn.benchmark = False

        def onednn_off():
            import warnings

            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # It warns of graphics cards.
                torch.backends.mkldnn.set_flags(False)

        def one_thread():
            torch.set_num_threads(1)
            torch.set_num_threads = lambda number: None  # What the program asks for.

        acts = {
            "tf32_off": lambda: (
                setattr(torch.backends.cuda.matmul, "allow_tf32", False),
                setattr(torch.backends.cudnn, "allow_tf32", False),
            ),
            "cudnn_off": lambda: setattr(torch.backends.cudnn, "enabled", False),
            "onednn_off": onednn_off,
            "deterministic": deterministic,
            "one_thread": one_thread,
            "operation_on_cpu": lambda: self.on_cpu(torch, os.environ.get("TUNE_DOCTOR_OPERATION", "")),
        }
        for change, act in acts.items():
            if self.wants(change):
                act()
                self.changed(change)

    def on_cpu(self, torch, name):
        """Has an operation computed on the CPU, below autograd: gradients are as they were."""
        import warnings

        name, _, overload = name.partition("::")[2].partition(".")
        operation = getattr(getattr(torch.ops.aten, name), overload or "default")
        from torch.utils._pytree import tree_map_only

        def run(*args, **kwargs):
            devices = []

            def here(tensor):
                if tensor.is_cuda:
                    devices.append(tensor.device)
                return tensor.cpu()

            copies = tree_map_only(torch.Tensor, here, (args, kwargs))
            result = operation(*copies[0], **copies[1])
            given = list(args) + list(kwargs.values())
            for original, copy in zip(given, list(copies[0]) + list(copies[1].values())):
                if copy is result:
                    return original.copy_(copy)
            return tree_map_only(torch.Tensor, lambda t: t.to(devices[0]) if devices else t, result)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.library = torch.library.Library("aten", "IMPL")
            self.library.impl(name + ("." + overload if overload else ""), run, "CUDA")

    def precision(self, torch):
        """Notes automatic and half precision; with `fp32` or `bf16` another type stands for 16-bit floats."""
        doctor = self
        half = torch.float16
        autocast = torch.amp.autocast_mode.autocast
        init = autocast.__init__

        def watched(self, device_type, dtype=None, enabled=True, cache_enabled=None):
            if enabled:
                doctor.note("half", how="autocast", dtype=str(dtype))
                if doctor.wants("fp32"):
                    doctor.changed("fp32", how="autocast")
                    enabled = False
                if doctor.wants("bf16"):
                    doctor.changed("bf16", how="autocast")
                    dtype = torch.bfloat16
            return init(self, device_type, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)

        autocast.__init__ = watched
        wanted = torch.float32 if self.wants("fp32") else torch.bfloat16 if self.wants("bf16") else None

        def cast(owner, name, of):
            original = getattr(owner, name)

            def watched(self, *args, **kwargs):
                doctor.note("half", how=name, dtype=str(of))
                if wanted is None or of is wanted:
                    return original(self, *args, **kwargs)
                doctor.changed("fp32" if wanted is torch.float32 else "bf16", how=name)
                return self.to(wanted)

            setattr(owner, name, watched)

        for owner in (torch.Tensor, torch.nn.Module):
            cast(owner, "half", half)
            if self.wants("fp32"):
                cast(owner, "bfloat16", torch.bfloat16)
        to = torch.Tensor.to

        def watched_to(self, *args, **kwargs):
            for at in list(args) + list(kwargs.values()):
                if at is half:
                    doctor.note("half", how="to", dtype=str(at))
                    if wanted is not None:
                        doctor.changed("fp32" if wanted is torch.float32 else "bf16", how="to")
            if wanted is not None:
                args = tuple(wanted if a is half else a for a in args)
                kwargs = {k: wanted if v is half else v for k, v in kwargs.items()}
            return to(self, *args, **kwargs)

        torch.Tensor.to = watched_to

    def before_steps(self, act):
        try:
            from torch.optim.optimizer import register_optimizer_step_pre_hook
        except ImportError:  # Before PyTorch 2.0.
            return
        register_optimizer_step_pre_hook(act)

    def steps(self):
        """Notes that the program trains, which one without a loader or an optimiser of torch's may, too, and a learning rate
        that is none."""

        def trains():
            if not self.stepped:
                self.stepped = True
                self.write("step", "")

        def before(optimizer, args, kwargs):
            trains()
            self.has_stepped = True
            for group in optimizer.param_groups:
                rate = group.get("lr", 0.0)
                if isinstance(rate, complex) or isinstance(rate, float) and rate - rate != 0.0:
                    self.note("learning_rate", optimizer=type(optimizer).__name__, value=repr(rate))

        self.before_steps(before)
        from torch import autograd

        backward = autograd.backward

        @functools.wraps(backward)
        def watched_backward(*args, **kwargs):
            trains()
            self.unused = True
            return backward(*args, **kwargs)

        autograd.backward = watched_backward

    def reseed_torch(self, torch):
        doctor = self
        manual = torch.manual_seed

        def shifted(seed):
            doctor.changed("seed", of="torch")
            return manual(int(seed) + doctor.shift)

        torch.manual_seed = shifted
        torch.random.manual_seed = shifted
        shifted(torch.initial_seed() % (1 << 31))

    # --- Loaders ---------------------------------------------------------------------------------

    def loaders_of(self, torch):
        data = torch.utils.data
        loader = data.DataLoader
        init = loader.__init__
        doctor = self
        import inspect

        names = [p for p in inspect.signature(init).parameters if p != "self"]

        def watched(self, *args, **kwargs):
            given = dict(zip(names, args))
            given.update(kwargs)
            number = doctor.number_of(given.get("dataset"))
            doctor.prepare(torch, number, given)
            doctor.parts[number] = doctor.part_of(given.get("dataset"))
            init(self, **given)
            self.__dict__["_tune_doctor"] = number

        loader.__init__ = watched
        module = sys.modules["torch.utils.data.dataloader"]
        base = module._BaseDataLoaderIter
        first = base.__init__
        next_index = base._next_index
        following = base.__next__

        def watched_first(self, loader):
            self._tune_doctor = [getattr(loader, "_tune_doctor", 0), [], 0]
            doctor.look_at_length(loader)
            doctor.at_pass(loader)
            doctor.passes += 1
            first(self, loader)

        def watched_index(self):
            index = next_index(self)
            number, indices, count = self._tune_doctor
            indices.append(index)
            if not getattr(self, "_num_workers", 0):
                # Reading the rows may be what fails.
                doctor.batch_note(number, count, index, [])
            return index

        def watched_next(self):
            number, indices, count = self._tune_doctor
            if indices and getattr(self, "_num_workers", 0):
                doctor.batch_note(number, count, indices[0], [])
            # Of a stream, what is changed while it is read may be its own state.
            mapped = not isinstance(getattr(self, "_dataset", None), data.IterableDataset)
            doctor.fetches = mapped and not getattr(self, "_num_workers", 0)
            before = doctor.before_fetch(self)
            try:
                batch = following(self)
            finally:
                doctor.fetches = False
            doctor.after_fetch(self, before)
            rows = indices.pop(0) if indices else None
            self._tune_doctor[2] += 1
            if doctor.wants("synthetic"):
                batch = doctor.synthetic(torch, batch)
            doctor.taken(torch, number, count, rows, batch)
            return batch

        base.__init__ = watched_first
        base._next_index = watched_index
        base.__next__ = watched_next

    def look_at_length(self, loader):
        """Whether a loader gives no batch at all: it drops a last one that is not full, and it is the first."""
        try:
            if not loader.drop_last or isinstance(loader.dataset, sys.modules["torch.utils.data"].IterableDataset):
                return
            rows = len(loader.dataset)
            if rows and not len(loader):
                self.silent("empty_loader", "%d rows, batches of %s" % (rows, loader.batch_size))
        except Exception:
            pass  # Of data without a length nothing is known.

    def number_of(self, dataset):
        """A loader's number, in the order in which they are made. One that is made anew in each epoch is the same: it is
        made at the same line, of as many rows."""
        frame = sys._getframe(2)
        place = (frame.f_code.co_filename, frame.f_lineno, len(dataset) if hasattr(dataset, "__len__") else None)
        if place not in self.loaders:
            self.loaders.append(place)
        return self.loaders.index(place)

    def prepare(self, torch, number, given):
        """Notes a loader's settings, and changes them."""
        workers = given.get("num_workers") or 0
        size = given.get("batch_size", 1)
        dataset = given.get("dataset")
        mapped = not isinstance(dataset, torch.utils.data.IterableDataset) and hasattr(dataset, "__len__")
        length = len(dataset) if mapped else None
        self.note("loader", number=number, workers=workers, batch_size=size, rows=length, forks=not workers or self.forks(given))
        if self.wants("workers_0") and workers:
            self.changed("workers_0", was=workers)
            given["num_workers"] = 0
            for name in ("prefetch_factor", "multiprocessing_context", "persistent_workers", "timeout"):
                given.pop(name, None)
        if self.wants("spawn") and given.get("num_workers"):
            given["multiprocessing_context"] = "spawn"
            self.changed("spawn", of="loader")
        sampled = given.get("batch_sampler") is not None
        for change, smaller in (("half_batch", (size or 1) // 2), ("one_row", 1)):
            if self.wants(change) and not sampled and size and size > 1:
                self.changed(change, was=size)
                given["batch_size"] = smaller
        if self.wants("drop_last") and not sampled and size:
            self.changed("drop_last")
            given["drop_last"] = True
        of, _, rows = self.rows.partition(":")
        if rows and mapped and of == str(number):
            self.changed("rows", rows=rows)
            given["dataset"] = torch.utils.data.Subset(dataset, [int(r) for r in rows.split(",")])
            given.pop("sampler", None)
            given["shuffle"] = False

    def forks(self, given):
        """Whether a loader's processes are forked: others draw their own hash seed, and import everything anew."""
        import multiprocessing

        context = given.get("multiprocessing_context") or multiprocessing
        # To ask in any other way would choose it.
        method = context if isinstance(context, str) else context.get_start_method(allow_none=True)
        return method == "fork" if method else sys.version_info < (3, 14)

    def taken(self, torch, loader, number, rows, batch):
        """Notes a batch before the program sees it: which rows, and what is in them."""
        self.batch += 1
        tensors = []
        if self.main:
            self.describe(torch, batch, tensors, 0)
        self.batch_note(loader, number, rows, tensors)

    def batch_note(self, loader, number, rows, tensors):
        """Writes over the last one: the file says which batch it was when the process ended."""
        if not self.main:
            return
        if rows is not None:
            rows = list(rows) if isinstance(rows, (list, tuple)) else [rows]
            # Rows of a stream have no number, and a sampler may name its rows by words.
            rows = rows[:4096] if all(hasattr(r, "__index__") for r in rows) else None
        note = {"taken": self.batch, "loader": loader, "batch": number, "rows": rows, "tensors": tensors}
        part = self.parts.get(loader)
        if rows and part:
            note["dataset_rows"] = [part[row] for row in rows if row < len(part)]
        self.last_batch = note
        self.write("batch", as_json(note), os.O_TRUNC)
        # What it does to weights may show much later.
        if not self.spoiled and any("not_finite" in tensor for tensor in tensors):
            self.spoiled = True
            self.note("batch_not_finite", **note)

    def part_of(self, dataset):
        """The rows of the whole dataset that a part of it has, as torch.utils.data.Subset; none where it is whole."""
        part = None
        try:
            while hasattr(dataset, "indices") and hasattr(dataset, "dataset"):
                own = [int(row) for row in dataset.indices]
                part = own if part is None else [own[row] for row in part]
                dataset = dataset.dataset
        except Exception:
            return None  # It only looks like one.
        return part

    def describe(self, torch, value, found, depth):
        if depth > 4 or len(found) > 16:
            return
        if isinstance(value, torch.Tensor):
            found.append(self.tensor(torch, value))
        elif isinstance(value, dict):
            for item in value.values():
                self.describe(torch, item, found, depth + 1)
        elif isinstance(value, (list, tuple)):
            for item in value:
                self.describe(torch, item, found, depth + 1)

    def tensor(self, torch, value):
        facts = {"shape": list(value.shape), "dtype": str(value.dtype).replace("torch.", "")}
        if value.numel() == 0 or value.is_complex() or value.dtype == torch.bool or value.is_quantized:
            return facts
        flat = value.detach()
        if value.is_floating_point():
            finite = torch.isfinite(flat)
            if not bool(finite.all()):
                whole = finite.reshape(finite.shape[0], -1).all(dim=1) if finite.dim() else finite.reshape(1)
                facts["not_finite"] = [int(i) for i in (~whole).nonzero().flatten()[:16]]
                flat = flat[finite]
        if flat.numel():
            facts["low"], facts["high"] = float(flat.min()), float(flat.max())
        return facts

    def synthetic(self, torch, batch, depth=0):
        """The same shapes and types, with harmless contents."""
        if isinstance(batch, torch.Tensor):
            self.changed("synthetic")
            if batch.dtype == torch.bool or batch.is_complex():
                return torch.zeros_like(batch)
            if batch.is_floating_point():
                return torch.rand(batch.shape, generator=self.generator(torch)).to(batch.dtype)
            return torch.randint(0, 2, batch.shape, generator=self.generator(torch)).to(batch.dtype)
        if depth > 4:
            return batch
        if isinstance(batch, dict):
            return type(batch)({k: self.synthetic(torch, v, depth + 1) for k, v in batch.items()})
        if isinstance(batch, tuple) and hasattr(batch, "_fields"):
            return type(batch)(*(self.synthetic(torch, v, depth + 1) for v in batch))
        if isinstance(batch, (list, tuple)):
            return type(batch)(self.synthetic(torch, v, depth + 1) for v in batch)
        return batch

    def generator(self, torch):
        if not hasattr(self, "_generator"):
            self._generator = torch.Generator().manual_seed(0)
        return self._generator
