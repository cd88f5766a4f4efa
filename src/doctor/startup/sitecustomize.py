"""tune doctor's start-up module: makes one change to a Python program from outside, and notes what the program uses.

Python imports a module of this name by itself when it starts. The program's files stay as they are, and torch is
touched only once the program has imported it. What is noted goes to files in the directory TUNE_DOCTOR_NOTES; the
change is named by TUNE_DOCTOR_CHANGE.
"""

import os
import sys

from _tune_doctor.gradients import Gradients
from _tune_doctor.mistakes import Mistakes
from _tune_doctor.modules import Modules
from _tune_doctor.notes import HERE, Notes
from _tune_doctor.python import Python
from _tune_doctor.silent import Silent
from _tune_doctor.states import States
from _tune_doctor.tracing import Tracing
from _tune_doctor.training import Training
from _tune_doctor.watching import Watching


def _chain():
    """Imports the start-up module that this one hides, as if this one were not there."""
    kept = sys.path[:]
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != HERE]
    own = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # noqa: F401
    except ImportError:
        if own is not None:
            sys.modules["sitecustomize"] = own
    finally:
        sys.path[:] = [p for p in kept if os.path.abspath(p or ".") != HERE]


class Doctor(Watching, Python, Training, Tracing, Silent, Gradients, States, Modules, Mistakes, Notes):
    """All of it: what one part notes, another may go on from."""

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
        self.watch_timers()
        self.watch_waits()
        if self.wants("watch") or self.wants("trace"):
            self.watch_exceptions()
        if self.wants("trace"):
            self.look_for_mistakes()
        if self.wants("seed"):
            self.reseed_python()
        if self.wants("stack"):
            self.deepen_stacks()
        if self.wants("clock"):
            self.shift_clock()


def _begin():
    notes = os.environ.get("TUNE_DOCTOR_NOTES")
    if not notes:
        return
    try:
        Doctor(notes).start()
    except Exception as error:
        sys.stderr.write("tune doctor: its start-up module failed: %r\n" % (error,))


_begin()
_chain()
