"""tune doctor's start-up module: makes one change to a Python program from outside, and notes what the program uses.

Python imports a module of this name by itself when it starts. The program's files stay as they are, and torch is
touched only once the program has imported it. What is noted goes to files in the directory TUNE_DOCTOR_NOTES; the
change is named by TUNE_DOCTOR_CHANGE.
"""

import os
import sys


def _chain():
    """Imports the start-up module that this one hides, as if this one were not there."""
    here = os.path.dirname(os.path.abspath(__file__))
    kept = sys.path[:]
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != here]
    own = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # noqa: F401
    except ImportError:
        if own is not None:
            sys.modules["sitecustomize"] = own
    finally:
        sys.path[:] = [p for p in kept if os.path.abspath(p or ".") != here]


# Operations by which a program looks at results: what it computed before says more.
CHECKS = ("aten.isnan.default", "aten.any.default", "aten._local_scalar_dense.default", "aten.ne.Tensor")


def _json(value):
    """JSON without Python's module of that name: a file of the program's may hide it, which is what is looked for."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, float):
        return repr(value) if value - value == 0 else "null"
    if hasattr(value, "__index__"):
        return repr(int(value))
    if isinstance(value, dict):
        return "{%s}" % ", ".join("%s: %s" % (_json(str(k)), _json(v)) for k, v in sorted(value.items()))
    if isinstance(value, (list, tuple)):
        return "[%s]" % ", ".join(map(_json, value))
    text = str(value).encode("utf-16-be", "surrogatepass")
    units = [text[at] << 8 | text[at + 1] for at in range(0, len(text), 2)]
    plain = [32 <= unit < 127 and unit not in (34, 92) for unit in units]
    return '"%s"' % "".join(chr(u) if ok else "\\u%04x" % u for u, ok in zip(units, plain))


class _Doctor:
    def __init__(self, notes):
        self.notes = notes
        self.said = set()
        self.changes = set(filter(None, os.environ.get("TUNE_DOCTOR_CHANGE", "").split(",")))
        self.shift = int(os.environ.get("TUNE_DOCTOR_SHIFT", "0"))
        self.rows = os.environ.get("TUNE_DOCTOR_ROWS", "")
        self.main = self.first()
        self.batch = 0
        self.loaders = []
        self.parts = {}
        self.depth = 0
        self.skipped = set()
        self.spoiled = False
        self.stepped = False
        self.longest = 0.0
        self.times = {}
        self.last_batch = None
        self.overflowed = False
        self.leftovers = 0
        self.builtins = set(vars(sys.modules["builtins"])) - {"_"}

    # --- Notes -----------------------------------------------------------------------------------

    def first(self):
        """Whether this is the first process of the run: the program itself, and none of its children."""
        try:
            os.close(os.open(os.path.join(self.notes, "main"), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            return True
        except OSError:
            return False

    def note(self, what, **facts):
        """Notes a fact, once for each process."""
        line = _json({"what": what, **facts})
        if line in self.said or len(self.said) > 500:
            return
        self.said.add(line)
        self.write("notes", line)

    def write(self, name, line, mode=os.O_APPEND):
        try:
            fd = os.open(os.path.join(self.notes, name), os.O_CREAT | os.O_WRONLY | mode, 0o600)
            try:
                os.write(fd, (line + "\n").encode("utf-8", "replace"))
            finally:
                os.close(fd)
        except OSError:
            pass  # A full disk is the program's affair.

    def changed(self, change, **facts):
        self.note("changed", change=change, **facts)

    def wants(self, change):
        return change in self.changes

    # --- Python itself ---------------------------------------------------------------------------

    def start(self):
        import faulthandler
        import signal

        try:
            faulthandler.enable()
            faulthandler.register(signal.SIGUSR2, all_threads=True, chain=False)
            self.write("stacks", "")
        except (AttributeError, OSError, RuntimeError, ValueError):
            pass  # No stderr, or the signal is in use.
        self.watch_stdlib()
        self.look_for_the_clock()
        self.watch_imports()
        self.watch_threads()
        self.watch_forks()
        self.watch_leftovers()
        if self.wants("watch") or self.wants("trace"):
            self.watch_exceptions()
        if self.wants("seed"):
            self.reseed_python()
        if self.wants("clock"):
            self.shift_clock()

    def is_own(self, file):
        """Whether a file is the program's own: neither Python's nor of a package that is installed."""
        file = os.path.abspath(file)
        stdlib = os.path.dirname(os.path.abspath(os.__file__))
        return not file.startswith(stdlib + os.sep) and "-packages" + os.sep not in file and file != os.path.abspath(__file__)

    def look_for_the_clock(self):
        """Notes at the end whether the program's own files read the date or the time of day."""
        import atexit

        reads = (".now(", "today(", "utcnow(", "localtime(", "gmtime(", "ctime(", "strftime(")

        def look():
            files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
            # That of the main module is forgotten by then.
            for file in filter(None, [sys.argv[0], *files]):
                if not file.endswith(".py") or not self.is_own(file):
                    continue
                try:
                    with open(file, encoding="utf-8", errors="replace") as source:
                        text = source.read()
                except OSError:
                    continue
                if any(name in text for name in reads):
                    self.note("reads_clock")
                    return

        if self.main:
            atexit.register(look)

    def watch_stdlib(self):
        """Notes modules of the standard library, and packages that are installed, that another file of the same name
        hides."""
        import atexit

        names = getattr(sys, "stdlib_module_names", frozenset())
        stdlib = os.path.dirname(os.path.abspath(os.__file__))

        def look():
            for name in sorted(names):
                module = sys.modules.get(name)
                file = getattr(module, "__file__", None)
                hidden = file and not os.path.abspath(file).startswith(stdlib) and "site-packages" not in file
                if hidden and "lib-dynload" not in file and name not in ("sitecustomize", "usercustomize", "__main__"):
                    self.note("hides_stdlib", module=name, file=file)
            installed = [p for p in sys.path if "site-packages" in p]
            for name, module in list(sys.modules.items()):
                file = getattr(module, "__file__", None)
                own = file and "." not in name and "site-packages" not in file and not file.startswith(stdlib)
                for place in installed if own else ():
                    path = os.path.join(place, name)
                    if os.path.exists(os.path.join(path, "__init__.py")) or os.path.exists(path + ".py"):
                        if name not in ("sitecustomize", "usercustomize"):
                            self.note("hides_stdlib", module=name, file=file)

        self.look_at_stdlib = look
        atexit.register(look)
        hook = sys.excepthook

        def excepthook(kind, value, trace):
            look()
            self.at_exception(kind, value, trace)
            hook(kind, value, trace)

        sys.excepthook = excepthook

    def at_exception(self, kind, value, trace):
        """Notes whether the innermost frames are those of an import."""
        importing = None
        while trace is not None:
            code = trace.tb_frame.f_code
            if code.co_name == "<module>" and trace.tb_frame.f_globals.get("__name__") != "__main__":
                importing = trace.tb_frame.f_globals.get("__name__")
            trace = trace.tb_next
        if importing:
            self.note("raised_in_import", module=importing)

    # Words in the names of what programs write for later runs.
    LEFTOVERS = frozenset(
        "artifact artifacts built cache cached caches checkpoint checkpoints ckpt ckpts derived encoded feat feats feature"
        " features generated idx index indexed last latest lock locks log logs memo memos mmap memmap out output outputs packed"
        " part partial pid prep prepared preprocessed processed progress result results resume resumed run runs save saved saves"
        " scratch snapshot snapshots state states stats temp tmp tokenized vocab work".split()
    )
    NO_LEFTOVERS = (".py", ".pyc", ".so", ".sh", ".toml", ".yaml", ".yml", ".ini", ".cfg")

    def watch_leftovers(self):
        """Notes files of the working directory that the program opens, that are older than this run, and that have a name
        as of what programs write for later runs: a cache, a checkpoint, a lock."""
        here = os.getcwd() + os.sep
        own = self.notes + os.sep
        seen = set()

        def is_left(name):
            letters = "".join(c if c.isalpha() else " " for c in name.lower())
            return name.startswith(".") or not self.LEFTOVERS.isdisjoint(letters.split())

        def hook(event, arguments):
            if event != "open" or len(seen) > 2000:
                return
            try:
                path, _, flags = arguments
                if isinstance(path, int) or flags & os.O_TRUNC:
                    return
                path = os.path.abspath(os.fsdecode(path))
                if path in seen or "site-packages" in path or path.startswith(here + ".git") or not path.startswith(here) or path.startswith(own) or path.endswith(self.NO_LEFTOVERS):
                    return
                seen.add(path)
                names = path[len(here) :].split(os.sep)
                roots = [at for at, name in enumerate(names) if is_left(name)]
                began = os.stat(own + "main").st_mtime
                if roots and self.leftovers < 40 and os.stat(path).st_mtime < began:
                    self.leftovers += 1
                    self.note("leftover", root=os.sep.join(names[: roots[0] + 1]), file=os.sep.join(names))
            except Exception:
                pass  # It would be raised in the program.

        if hasattr(sys, "addaudithook"):
            sys.addaudithook(hook)

    def watch_exceptions(self):
        """Notes the exceptions that the program's own lines raise or are given: it may catch one, and end with words that
        hide it. Only its own functions are traced, and of these no lines."""
        import threading

        owned = {}

        def own(frame):
            file = frame.f_code.co_filename
            if file not in owned:
                owned[file] = not file.startswith("<") and self.is_own(file)
            return owned[file]

        def within(frame, event, arg):
            if event == "exception":
                kind, value, trace = arg
                self.raised(kind, value, trace, own)
            return within

        def called(frame, event, arg):
            if not own(frame):
                return None
            frame.f_trace_lines = False
            return within

        threading.settrace(called)
        sys.settrace(called)

    def raised(self, kind, value, trace, own):
        """Notes an exception where the innermost frame of the program's own has it, with the one that was being handled."""
        if not isinstance(value, BaseException) or issubclass(kind, (StopIteration, StopAsyncIteration, GeneratorExit)):
            return
        at = trace
        while at is not None:
            if at is not trace and own(at.tb_frame):
                return  # A function further in has noted it.
            at = at.tb_next
        import traceback

        def told(error, trace):
            lines = "".join(traceback.format_exception(type(error), error, trace, chain=False)).splitlines()
            # The program's own lines come first, the error last.
            kept = lines if len(lines) <= 60 else lines[:30] + lines[-30:]
            return "\n".join(line[:500] for line in kept)

        try:
            # One that comes again and again is the program's way of asking.
            key = (kind.__name__, str(value)[:100], trace.tb_lineno)
            self.times[key] = self.times.get(key, 0) + 1
            if self.times[key] > 3 or len(self.times) > 100:
                return
            handled = value.__context__
            self.note("raised", kind=kind.__name__, message=str(value)[:500], text=told(value, trace), exits=issubclass(kind, SystemExit),
                      taken=self.batch, handled=told(handled, handled.__traceback__) if handled is not None else None)
        except Exception:
            pass  # It cannot be told, and what is raised here would be raised in the program.

    # Settings of libraries that an import should leave alone: the module, what gives them and what sets them.
    SETTINGS = {
        "time-out of sockets": ("socket", "getdefaulttimeout", "setdefaulttimeout"),
        "default device of torch": ("torch", "get_default_device", "set_default_device"),
        "deterministic algorithms of torch": (
            "torch", "are_deterministic_algorithms_enabled", "use_deterministic_algorithms"),
        "search for anomalies of torch": ("torch.autograd.anomaly_mode", "is_anomaly_enabled", "set_detect_anomaly"),
        "threads of torch": ("torch", "get_num_threads", "set_num_threads"),
    }

    def state(self):
        """What an import should leave alone."""
        import locale
        import signal
        import warnings

        torch = sys.modules.get("torch")
        numpy = sys.modules.get("numpy")
        state = {"working directory": os.getcwd(), "recursion limit": sys.getrecursionlimit()}
        try:
            state["locale"] = locale.setlocale(locale.LC_ALL)
        except locale.Error:
            pass
        for name in ("SIGCHLD", "SIGTERM", "SIGFPE", "SIGALRM", "SIGINT", "SIGPIPE", "SIGSEGV", "SIGABRT", "SIGUSR1"):
            state["handler of " + name] = signal.getsignal(getattr(signal, name))
        state["warnings that are errors"] = [f for f in warnings.filters if f[0] == "error"]
        state["variables of the environment"] = dict(os.environ)
        state["standard output"], state["standard error"] = sys.stdout, sys.stderr
        state["the alarm clock"] = signal.getitimer(signal.ITIMER_REAL)[0] > 0
        state["functions of Python"] = {k: v for k, v in vars(sys.modules["builtins"]).items() if k in self.builtins}
        for name, (library, get, _) in self.SETTINGS.items():
            module = sys.modules.get(library)
            get = module and getattr(module, get, None)
            if get:
                try:
                    state[name] = get()
                except Exception:
                    pass  # Of a library that is not loaded to its end.
        if torch is not None and hasattr(torch, "get_default_dtype"):
            state["default dtype of torch"] = torch.get_default_dtype()
            state["gradients of torch"] = torch.is_grad_enabled()
        if numpy is not None and hasattr(numpy, "geterr"):
            state["errors of numpy"] = tuple(sorted(numpy.geterr().items()))
        return state

    def difference(self, was, now):
        """What differs between two values, as texts: of tables the entries that do."""
        if isinstance(was, dict) and isinstance(now, dict):
            names = sorted(k for k in {*was, *now} if was.get(k) != now.get(k))[:4]
            was, now = ({k: of[k] for k in names if k in of} for of in (was, now))
        return str(was)[:200], str(now)[:200]

    def restore(self, name, value):
        """Takes back what an import has changed."""
        import locale
        import signal

        torch = sys.modules.get("torch")
        if name == "working directory":
            os.chdir(value)
        elif name == "recursion limit":
            sys.setrecursionlimit(value)
        elif name == "locale":
            locale.setlocale(locale.LC_ALL, value)
        elif name.startswith("handler of ") and value is not None:
            signal.signal(getattr(signal, name[len("handler of ") :]), value)
        elif name == "default dtype of torch":
            torch.set_default_dtype(value)
        elif name == "gradients of torch":
            torch.set_grad_enabled(value)
        elif name == "errors of numpy":
            sys.modules["numpy"].seterr(**dict(value))
        elif name == "warnings that are errors":
            filters = sys.modules["warnings"].filters
            filters[:] = [f for f in filters if f[0] != "error" or f in value]
            sys.modules["warnings"]._filters_mutated()
        elif name == "variables of the environment":
            os.environ.clear()
            os.environ.update(value)
        elif name == "standard output":
            sys.stdout = value
        elif name == "standard error":
            sys.stderr = value
        elif name == "the alarm clock":
            signal.setitimer(signal.ITIMER_REAL, 0)
        elif name == "functions of Python":
            vars(sys.modules["builtins"]).update(value)
        elif name in self.SETTINGS:
            library, _, change = self.SETTINGS[name]
            getattr(sys.modules[library], change)(value)

    def watch_imports(self):
        """Notes imports that change what is not theirs; with the change `import_effects` they are taken back."""
        import builtins
        import threading

        original = builtins.__import__
        main = threading.main_thread()
        doctor = self

        def watched(name, globals=None, locals=None, fromlist=(), level=0):
            top = name.partition(".")[0]
            known = top in sys.modules or top in getattr(sys, "stdlib_module_names", ())
            if doctor.depth or known or level or threading.current_thread() is not main:
                module = original(name, globals, locals, fromlist, level)
                doctor.torch_imported()
                return module
            before = doctor.state()
            doctor.depth += 1
            try:
                module = original(name, globals, locals, fromlist, level)
            finally:
                doctor.depth -= 1
            doctor.torch_imported()
            after = doctor.state()
            for key, value in before.items():
                if key in after and after[key] != value:
                    was, now = doctor.difference(value, after[key])
                    facts = {"module": name, "of": key, "from": was, "to": now}
                    doctor.note("import_effect", **facts)
                    if doctor.wants("import_effects"):
                        doctor.restore(key, value)
                        doctor.changed("import_effects", **facts)
            return module

        builtins.__import__ = watched

    def watch_threads(self):
        """Notes threads that other modules start; with the change `other_threads` they are not started."""
        import threading

        start = threading.Thread.start
        join = threading.Thread.join
        doctor = self
        of_python = os.path.dirname(os.path.abspath(os.__file__))

        def owner():
            """The module that starts the thread, where it is neither Python's, torch's nor the program's main file."""
            frame = sys._getframe(2)
            while frame is not None:
                name = frame.f_globals.get("__name__", "")
                file = frame.f_code.co_filename
                if name == "__main__":
                    return None
                if name.partition(".")[0] == "torch":
                    return None
                if not file.startswith(of_python) or "site-packages" in file:
                    return name
                frame = frame.f_back
            return None

        def watched_start(thread):
            module = owner()
            if module:
                doctor.note("thread", module=module)
                if doctor.wants("other_threads"):
                    doctor.changed("other_threads", module=module)
                    doctor.skipped.add(id(thread))
                    thread._started.set()
                    return None
            return start(thread)

        def watched_join(thread, timeout=None):
            return None if id(thread) in doctor.skipped else join(thread, timeout)

        threading.Thread.start = watched_start
        threading.Thread.join = watched_join

    def watch_forks(self):
        """Notes forks of a process that has threads; with the change `spawn` children are started anew."""
        import threading

        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=lambda: self.before_fork(threading))
        if self.wants("spawn"):
            self.after_import("multiprocessing", self.spawn)

    def before_fork(self, threading):
        # The threads that feed Python's queues are made for forks.
        own = (threading.current_thread().name, "QueueFeederThread")
        others = [t for t in threading.enumerate() if t.name not in own]
        try:
            tasks = len(os.listdir("/proc/self/task"))
        except OSError:
            tasks = len(others) + 1
        if others:
            self.note("fork_with_threads", threads=tasks, python=len(others))

    def spawn(self, multiprocessing):
        multiprocessing.set_start_method("spawn", force=True)
        set_method = multiprocessing.set_start_method
        multiprocessing.set_start_method = lambda method=None, force=False: set_method("spawn", force=True)
        get_context = multiprocessing.get_context
        multiprocessing.get_context = lambda method=None: get_context("spawn")
        self.changed("spawn")

    def after_import(self, name, act):
        """Calls `act` with a module, now or once it has been imported."""
        if name in sys.modules:
            act(sys.modules[name])
            return
        import importlib.abc
        import importlib.util

        doctor = self

        class Loader(importlib.abc.Loader):
            def __init__(self, loader):
                self.loader = loader

            def create_module(self, spec):
                return self.loader.create_module(spec)

            def exec_module(self, module):
                self.loader.exec_module(module)
                act(module)

        class Finder(importlib.abc.MetaPathFinder):
            def find_spec(self, wanted, path=None, target=None):
                if wanted != name:
                    return None
                sys.meta_path.remove(self)
                spec = importlib.util.find_spec(name)
                if spec is not None and spec.loader is not None:
                    spec.loader = Loader(spec.loader)
                return spec

        sys.meta_path.insert(0, Finder())

    def fixed(self, of, seed, state):
        """Gives random numbers that nobody seeds one seed, the same in each run; that they were drawn is noted at the end."""
        import atexit

        seed()
        before = state()
        atexit.register(lambda: state() != before and self.changed("seed", of=of))

    def reseed_python(self):
        import random

        doctor = self
        seed = random.seed
        self.fixed("random", lambda: seed(1), random.getstate)

        def shifted(a=None, version=2):
            doctor.changed("seed", of="random")
            return seed(a + doctor.shift if isinstance(a, int) else a, version)

        random.seed = shifted

        def numpy(module):
            def act():
                original = module.random.seed
                state = lambda: (lambda s: (bytes(s[1]), s[2]))(module.random.get_state())  # noqa: E731
                doctor.fixed("numpy", lambda: original(1), state)

                def shifted(a=None):
                    doctor.changed("seed", of="numpy")
                    return original(a + doctor.shift if isinstance(a, int) else a)

                module.random.seed = shifted

            act()

        self.after_import("numpy", numpy)

    def shift_clock(self):
        """Has the program see another time of day, on another day."""
        import datetime
        import time

        doctor = self
        # Back, as what has expired is the commonest; another time of day, too.
        seconds = -self.shift * (700 * 86_400 + 10_969)
        now, now_ns, local, utc, text = time.time, time.time_ns, time.localtime, time.gmtime, time.strftime

        def seen():
            # Behind the function that it stands for, and that function's own frame.
            frame = sys._getframe(3)
            if frame.f_globals.get("__name__") == "__main__" or "site-packages" not in frame.f_code.co_filename:
                doctor.changed("clock")

        def shifted_time():
            seen()
            return now() + seconds

        def shifted_ns():
            seen()
            return now_ns() + seconds * 1_000_000_000

        class Function:
            """As time's own functions, it becomes no method where a class keeps it: logging's formatter has one."""

            def __init__(self, act):
                self.act = act

            def __call__(self, *args):
                return self.act(*args)

        time.time, time.time_ns = Function(shifted_time), Function(shifted_ns)
        time.localtime = Function(lambda at=None: local(shifted_time() if at is None else at))
        time.gmtime = Function(lambda at=None: utc(shifted_time() if at is None else at))
        time.strftime = Function(lambda form, at=None: text(form, time.localtime() if at is None else at))
        original = datetime.datetime

        class Shifted(original):
            @classmethod
            def now(cls, tz=None):
                doctor.changed("clock")
                return original.now(tz) + datetime.timedelta(seconds=seconds)

            @classmethod
            def utcnow(cls):
                doctor.changed("clock")
                return original.now(datetime.timezone.utc).replace(tzinfo=None) + datetime.timedelta(seconds=seconds)

            @classmethod
            def today(cls):
                return cls.now()

        datetime.datetime = Shifted

    # --- torch -----------------------------------------------------------------------------------

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

        acts = {
            "tf32_off": lambda: (
                setattr(torch.backends.cuda.matmul, "allow_tf32", False),
                setattr(torch.backends.cudnn, "allow_tf32", False),
            ),
            "cudnn_off": lambda: setattr(torch.backends.cudnn, "enabled", False),
            "onednn_off": onednn_off,
            "deterministic": deterministic,
            "one_thread": lambda: torch.set_num_threads(1),
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
        """Notes that the program trains, which one without a loader may, too."""

        def first(optimizer, args, kwargs):
            if not self.stepped:
                self.stepped = True
                self.note("step")

        self.before_steps(first)

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
            batch = following(self)
            rows = indices.pop(0) if indices else None
            self._tune_doctor[2] += 1
            if doctor.wants("synthetic"):
                batch = doctor.synthetic(torch, batch)
            doctor.taken(torch, number, count, rows, batch)
            return batch

        base.__init__ = watched_first
        base._next_index = watched_index
        base.__next__ = watched_next

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
        self.write("batch", _json(note), os.O_TRUNC)
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

    # --- Where it happens ------------------------------------------------------------------------

    def trace(self, torch):
        """Notes each operation before it is called, and the first module whose result is not finite."""
        from time import monotonic

        from torch.utils._python_dispatch import TorchDispatchMode

        doctor = self
        self.changed("trace")
        names = {}
        state = {"gradient": None, "looking": False}

        class Mode(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                if state["looking"] or str(func) in CHECKS:
                    return func(*args, **(kwargs or {}))
                shapes = [list(a.shape) for a in args if isinstance(a, torch.Tensor)]
                doctor.operation(str(func), shapes, torch._C._current_graph_task_id() >= 0)
                begun = monotonic()
                try:
                    result = func(*args, **(kwargs or {}))
                finally:
                    doctor.took(str(func), monotonic() - begun)
                if state["gradient"] is None and torch._C._current_graph_task_id() >= 0:
                    if not finite(result) and finite(args):
                        state["gradient"] = doctor.of_forward(torch)
                return result

        def finite(value):
            tensors = []
            doctor.collect(torch, value, tensors)
            state["looking"] = True  # By doctor: it is no operation of the program's.
            try:
                return all(bool(torch.isfinite(t).all()) for t in tensors if t.is_floating_point())
            finally:
                state["looking"] = False

        def hook(module, args, output):
            if id(module) not in names:
                names[id(module)] = type(module).__name__
            if not finite(output):
                doctor.note("not_finite", module=names[id(module)], inputs_finite=finite(args),
                            weights_finite=finite(list(module.parameters(recurse=False))))

        def look_at_rates(optimizer, args, kwargs):
            rates = [float(group.get("lr", 0.0)) for group in optimizer.param_groups]
            wrong = [rate for rate in rates if rate - rate != 0.0]
            if wrong:
                doctor.note("learning_rate", optimizer=type(optimizer).__name__, value=repr(wrong[0]))

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
        self.before_steps(look_at_rates)
        self.before_steps(look_at_gradients)
        # Each node of the graph keeps the traceback of its forward operation.
        torch.autograd.set_detect_anomaly(True, check_nan=False)
        self.mode = Mode()
        self.mode.__enter__()

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


def _begin():
    notes = os.environ.get("TUNE_DOCTOR_NOTES")
    if not notes:
        return
    try:
        _Doctor(notes).start()
    except Exception as error:
        sys.stderr.write("tune doctor: its start-up module failed: %r\n" % (error,))


_begin()
_chain()
