"""Changes to Python itself: how processes are started, random numbers, the clock."""

import os
import sys


class Python:
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
        # Workers of a loader compute with one thread each, whatever threads computing has made here.
        if others or tasks > 1 and not self.in_loader():
            self.note("fork_with_threads", threads=tasks, python=len(others))

    def in_loader(self):
        """Whether it is a loader that is starting a worker."""
        frame = sys._getframe()
        while frame is not None:
            if frame.f_globals.get("__name__") == "torch.utils.data.dataloader":
                return True
            frame = frame.f_back
        return False

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
                try:
                    act(module)
                except Exception as error:
                    # A file of the program's own that hides the module, for one.
                    doctor.note("not_applied", change="watching " + name, error=repr(error))

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

    def deepen_stacks(self):
        """Threads get a larger stack than by the system's limit, whatever the program asks for."""
        import threading

        threading.stack_size(64 << 20)
        threading.stack_size = lambda size=0: 64 << 20

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
