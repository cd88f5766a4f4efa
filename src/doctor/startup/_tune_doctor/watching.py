"""Looks what a Python program does that others do not: what it imports, raises, starts and reads."""

import os
import sys

from .notes import place


def loaded(name):
    """A module that is there, and loaded to its end: of one that is being loaded nothing may be asked yet."""
    module = sys.modules.get(name)
    top = sys.modules.get(name.partition(".")[0])
    return None if getattr(getattr(top, "__spec__", None), "_initializing", False) else module


# Names that are looked through for one that is not found.
NAMES = 20_000


def keys_in(frame):
    """The texts by which something can be looked up in what a function has at hand, and in the attributes of its object. Of objects
    whose classes are not known nothing is asked: it would run the program's code."""
    values = list(frame.f_locals.values())[:500]
    attributes = None
    if "self" in frame.f_locals:
        attributes = object.__getattribute__(frame.f_locals["self"], "__dict__")
    if type(attributes) is dict:
        values += list(attributes.values())[:500]
    for value in values:
        kind = type(value)
        if issubclass(kind, dict):
            yield from dict.__iter__(value)
        elif kind.__name__ == "DataFrame" and kind.__module__.startswith("pandas."):
            yield from value.columns


def plain(text, is_file):
    """A name without what is not seen of it: byte-order marks, spaces around it, its Unicode form; of a file, its case."""
    import unicodedata

    kept = (c for c in unicodedata.normalize("NFKC", text) if unicodedata.category(c) != "Cf")
    name = "".join(kept).strip()
    return name.casefold() if is_file else name


class Watching:
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

    def look_at_file_limit(self):
        """Notes that files may not become larger than a limit, which the program may have set itself."""
        try:
            with open("/proc/self/limits") as limits:
                line = next(line for line in limits if line.startswith("Max file size"))
            if line.split()[3] != "unlimited":
                self.note("file_limit")
        except Exception:
            pass  # Of other systems nothing is known.

    def at_exception(self, kind, value, trace):
        """Notes whether the innermost frames are those of an import, and which file was opened for reading last."""
        importing = None
        while trace is not None:
            code = trace.tb_frame.f_code
            if code.co_name == "<module>" and trace.tb_frame.f_globals.get("__name__") != "__main__":
                importing = trace.tb_frame.f_globals.get("__name__")
            trace = trace.tb_next
        if importing:
            self.note("raised_in_import", module=importing)
        if self.opened:
            self.note("opened", file=self.opened)
        self.look_at_file_limit()
        try:
            self.look_for_removed(value)
            self.look_for_name(value)
        except BaseException:
            pass  # Whatever it is, the program ends by its own error.

    def look_for_name(self, error):
        """Whether a name that is not found is there in another form, which looks the same or nearly so: a key of what the
        function has, or a file of the folder."""
        is_file = isinstance(error, FileNotFoundError)
        if is_file and isinstance(error.filename, (str, bytes)):
            folder, name = os.path.split(os.fsdecode(error.filename))
        elif isinstance(error, KeyError) and error.args:
            folder, name = None, error.args[0]
        else:
            return
        frame, line, last = self.innermost(error)
        of_environment = not is_file and last == os.__file__ or last == "<frozen os>"
        if frame is None or type(name) is not str or of_environment:
            return
        import itertools

        names = os.listdir(folder or ".") if is_file else keys_in(frame)
        sought = plain(name, is_file)
        for other in itertools.islice(names, NAMES):
            near = type(other) is str and other != name and abs(len(other) - len(name)) <= 8
            if near and plain(other, is_file) == sought:
                told = "%s is looked for, %s is there" % (ascii(name), ascii(other))
                if self.opened and not is_file:
                    told += "; the file that was opened last is " + self.opened
                self.silent("name_differs", told, place(frame.f_code, line))
                return

    # Words in the names of what programs write for later runs.
    LEFTOVERS = frozenset(
        "artifact artifacts built cache cached caches checkpoint checkpoints ckpt ckpts derived encoded feat feats feature"
        " features generated idx index indexed last latest lock locks log logs memo memos mmap memmap out output outputs packed"
        " partial pid prep prepared preprocessed processed progress result results resume resumed run runs save saved saves"
        " scratch snapshot snapshots state states stats temp tmp tokenized vocab work".split()
    )
    OF_THE_SYSTEM = ("/proc/", "/sys/", "/dev/", "/etc/", "/usr/")
    NO_LEFTOVERS = ("python%d%d.zip" % sys.version_info[:2], ".env", ".py", ".pyc", ".so", ".sh", ".toml", ".yaml", ".yml", ".ini", ".cfg")

    def watch_leftovers(self):
        """Notes files of the working directory that the program opens, that are older than this run, and that have a name
        as of what programs write for later runs: a cache, a checkpoint, a lock; and its databases."""
        here = os.getcwd() + os.sep
        own = self.notes + os.sep
        seen = set()

        def is_left(name):
            letters = "".join(c if c.isalpha() else " " for c in name.lower())
            # `part` is also what data in several files is called.
            hidden_or_half = name.startswith(".") or name.endswith(".part")
            return hidden_or_half or not self.LEFTOVERS.isdisjoint(letters.split())

        def hook(event, arguments):
            if event not in self.EVENTS:
                return
            try:
                if event in self.REMOVES:
                    self.removes(*arguments)
                    return
                if event == "mmap.__new__":
                    self.mapped(*arguments)
                    return
                # SQLite opens its files by itself. What a program keeps in one is of earlier runs, whatever its name.
                database = event != "open"
                path, flags = (arguments[0], os.O_RDWR) if database else arguments[::2]
                if isinstance(path, int) or flags & os.O_TRUNC:
                    return
                path = os.path.abspath(os.fsdecode(path))
                if path.startswith(own) or path.endswith(self.NO_LEFTOVERS) or not self.is_own(path):
                    return
                below = path.startswith(here) and not path.startswith(here + ".git")
                if not flags & (os.O_WRONLY | os.O_RDWR) and not path.startswith(self.OF_THE_SYSTEM):
                    self.opened = path[len(here) :] if below else path
                if not below or path in seen:
                    return
                if len(seen) > 2000:
                    return
                seen.add(path)
                names = path[len(here) :].split(os.sep)
                roots = [at for at, name in enumerate(names) if is_left(name)] or [len(names) - 1][: int(database)]
                began = os.stat(own + "main").st_mtime
                if roots and self.leftovers < 40 and os.stat(path).st_mtime < began:
                    self.leftovers += 1
                    self.note("leftover", root=os.sep.join(names[: roots[0] + 1]), file=os.sep.join(names))
            except Exception:
                pass  # It would be raised in the program.

        if hasattr(sys, "addaudithook"):
            sys.addaudithook(hook)

    # What Python tells before a file or a folder is deleted.
    REMOVES = frozenset(["os.remove", "os.rmdir", "shutil.rmtree"])
    EVENTS = REMOVES | {"open", "sqlite3.connect", "mmap.__new__"}

    def removes(self, path, folder=-1):
        """Remembers what the program itself deletes, and where; not what is named within a folder that is open, as by rmtree."""
        if isinstance(path, (str, bytes, os.PathLike)) and folder in (-1, None):
            path = os.path.abspath(os.fsdecode(path))
            frame, by = sys._getframe(2), ""
            while frame is not None and not self.owns(frame.f_code.co_filename):
                of_tempfile = frame.f_globals.get("__name__") == "tempfile"
                by = "with the last reference to its TemporaryDirectory, " if of_tempfile else by
                frame = frame.f_back
            if frame is not None:
                if len(self.removed) > 1000:
                    self.removed.pop(next(iter(self.removed)))
                self.removed[path] = by + "at %s:%d" % (frame.f_code.co_filename, frame.f_lineno)

    def look_for_removed(self, error):
        """Whether the error names what the program has deleted, or what was in it."""
        named = " %s " % error
        if isinstance(error, OSError) and isinstance(error.filename, (str, bytes, os.PathLike)):
            named += "%s " % os.path.abspath(os.fsdecode(error.filename))
        for path, where in self.removed.items():
            at = named.find(path)
            whole = at > 0 and not named[at - 1].isalnum() and named[at - 1] not in "/.-_" and named[at + len(path)] in "/'\" ,:;)\n"
            if whole and not os.path.exists(path):
                frame, line, _ = self.innermost(error)
                self.silent("removed_before", "%s, %s" % (path, where), frame and place(frame.f_code, line))
                return

    def innermost(self, error):
        """The innermost frame of an error that is the program's own, the line in it, and the file of the innermost of all."""
        frame, line, trace, last = None, 0, error.__traceback__, ""
        while trace is not None:
            last = trace.tb_frame.f_code.co_filename
            if self.is_own(last):
                frame, line = trace.tb_frame, trace.tb_lineno
            trace = trace.tb_next
        return frame, line, last

    def mapped(self, descriptor, length, access, offset):
        """Notes a file that is mapped into memory, and up to which byte: it may be cut short before anybody looks."""
        if descriptor >= 0 and self.mappings < 100:
            self.mappings += 1
            file = os.readlink("/proc/self/fd/%d" % descriptor)
            self.note("mapped", file=file, end=offset + (length or os.fstat(descriptor).st_size - offset))

    def watch_waits(self):
        """Notes where the end of a process cannot be waited for, because the program ignores SIGCHLD: it may wait for ever."""
        wait = os.waitpid

        def watched(*args):
            try:
                return wait(*args)
            except ChildProcessError:
                if getattr(self, "ignores_children", None):
                    self.silent("children_ignored", line=self.ignores_children)
                raise

        os.waitpid = watched

    def watch_timers(self):
        """Notes where a timer was set that ends the program by SIGALRM, until it is taken back."""
        import functools
        import signal

        def watched(set_timer, seconds):
            @functools.wraps(set_timer)
            def call(*arguments):
                try:
                    asked = seconds(*arguments)
                    caller = sys._getframe(1)
                    at = place(caller.f_code, caller.f_lineno)
                    if asked is not None:
                        self.write("timer", at if asked else "", os.O_TRUNC)
                        self.timer = at if asked else self.timer
                except Exception:
                    pass  # The call itself says what is wrong with it.
                return set_timer(*arguments)

            return call

        def real(which, seconds, interval=0.0):
            return seconds if which == signal.ITIMER_REAL else None

        set_handler = signal.signal

        @functools.wraps(set_handler)
        def watched_handler(number, handler):
            if number == getattr(signal, "SIGCHLD", None):
                self.ignores_children = self.own_line() if handler == signal.SIG_IGN else None
            code = getattr(handler, "__code__", None)
            if number != getattr(signal, "SIGALRM", None) or code is None:
                return set_handler(number, handler)

            @functools.wraps(handler)
            def rings(*arguments):
                handled = place(code)
                self.note("rang", handler=handled, timer=self.timer)
                return handler(*arguments)

            return set_handler(number, rings)

        signal.signal = watched_handler
        if hasattr(signal, "setitimer"):
            signal.alarm = watched(signal.alarm, lambda seconds: seconds)
            signal.setitimer = watched(signal.setitimer, real)

    def watch_exceptions(self):
        """Notes the exceptions that the program's own lines raise or are given: it may catch one, and end with words that
        hide it; and those with which a thread leaves them, of which it may never hear. Only its own functions are traced,
        and of these no lines."""
        import dis
        import threading

        main = threading.main_thread()
        leaving = {}

        def own(frame):
            return self.owns(frame.f_code.co_filename)

        def is_outermost(frame):
            frame = frame.f_back
            while frame is not None and not own(frame):
                frame = frame.f_back
            return frame is None

        def within(frame, event, arg):
            if event == "exception":
                kind, value, trace = arg
                self.raised(kind, value, trace, own)
                if threading.current_thread() is not main and is_outermost(frame):
                    leaving[frame] = arg
            elif event == "return":
                raised = leaving.pop(frame, None)
                # One that has caught it comes to a statement that returns.
                if raised and not dis.opname[frame.f_code.co_code[frame.f_lasti]].startswith(("RETURN", "YIELD")):
                    self.swallowed(*raised)
            return within

        def called(frame, event, arg):
            if not own(frame):
                return None
            frame.f_trace_lines = False
            return within

        threading.settrace(called)
        sys.settrace(called)

    def told(self, error, trace):
        """An exception with its traceback, without those of others."""
        import traceback

        lines = "".join(traceback.format_exception(type(error), error, trace, chain=False)).splitlines()
        # The program's own lines come first, the error last.
        kept = lines if len(lines) <= 60 else lines[:30] + lines[-30:]
        return "\n".join(line[:500] for line in kept)

    def swallowed(self, kind, value, trace):
        """Notes an exception that has ended what a thread was to do."""
        try:
            self.note("swallowed", kind=kind.__name__, message=str(value)[:500], text=self.told(value, trace), exits=False,
                      taken=self.batch, handled=None)
        except Exception:
            pass  # It cannot be told.

    def raised(self, kind, value, trace, own):
        """Notes an exception where the innermost frame of the program's own has it, with the one that was being handled."""
        if not isinstance(value, BaseException) or issubclass(kind, (StopIteration, StopAsyncIteration, GeneratorExit)):
            return
        at = trace
        while at is not None:
            if at is not trace and own(at.tb_frame):
                return  # A function further in has noted it.
            at = at.tb_next
        told = self.told
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

        torch, numpy = loaded("torch"), loaded("numpy")
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
            module = loaded(library)
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
