"""What is noted of a program, in files of a directory that doctor reads."""

import os
import sys

# The directory of all that is doctor's own.
HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def as_json(value):
    """JSON without Python's module of that name: a file of the program's may hide it, which is what is looked for."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, float):
        return repr(value) if value - value == 0 else "null"
    if hasattr(value, "__index__"):
        return repr(int(value))
    if isinstance(value, dict):
        return "{%s}" % ", ".join("%s: %s" % (as_json(str(k)), as_json(v)) for k, v in sorted(value.items()))
    if isinstance(value, (list, tuple)):
        return "[%s]" % ", ".join(map(as_json, value))
    text = str(value).encode("utf-16-be", "surrogatepass")
    units = [text[at] << 8 | text[at + 1] for at in range(0, len(text), 2)]
    plain = [32 <= unit < 127 and unit not in (34, 92) for unit in units]
    return '"%s"' % "".join(chr(u) if ok else "\\u%04x" % u for u, ok in zip(units, plain))


def place(code, line=None):
    """A line of a function, by default its first."""
    return "%s:%d in %s" % (code.co_filename, line or code.co_firstlineno, code.co_name)


class Notes:
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
        # Averages that stay what they were, and tensors of which a dataset's rows are parts.
        self.averages = 0
        self.wholes = {}
        self.rows_kept = {}
        self.changed_rows = {}
        # Integers of few bits that were computed again, and checkpoints whose parts are looked for.
        self.sums = 0
        self.checkpoints = []
        self.rows_of_before = 0
        # Whether a loader reads rows in this process, and which pass over its rows it is.
        self.fetches = False
        self.passes = 0
        self.at_pass = lambda loader: None
        # Of optimisers, whether one has made a step, and whether gradients wait for one.
        self.has_stepped = False
        self.unused = False
        self.longest = 0.0
        self.times = {}
        self.last_batch = None
        self.wrong_result = False
        self.overflowed = False
        self.cleared = False
        self.silent_kinds = set()
        self.own_files = {}
        self.asserts_seen = False
        self.leftovers = 0
        self.mappings = 0
        self.timer = None
        self.opened = None
        self.removed = {}
        self.builtins = set(vars(sys.modules["builtins"])) - {"_"}

    def first(self):
        """Whether this is the first process of the run: the program itself, and none of its children."""
        try:
            os.close(os.open(os.path.join(self.notes, "main"), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            return True
        except OSError:
            return False

    def note(self, what, **facts):
        """Notes a fact, once for each process."""
        line = as_json({"what": what, **facts})
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

    def owns(self, file):
        """The same, remembered, for what is asked at each call; code that is in no file is nobody's."""
        if file not in self.own_files:
            self.own_files[file] = not file.startswith("<") and self.is_own(file)
        return self.own_files[file]

    def is_own(self, file):
        """Whether a file is the program's own: neither Python's nor of a package that is installed."""
        file = os.path.abspath(file)
        stdlib = os.path.dirname(os.path.abspath(os.__file__))
        return not file.startswith(stdlib + os.sep) and "-packages" + os.sep not in file and not file.startswith(HERE + os.sep)
