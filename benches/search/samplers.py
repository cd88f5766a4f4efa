"""Who takes part: variants of tune, random search, and the peers in virtual environments of their own."""
import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

HERE = Path(__file__).resolve().parent
VENV = HERE.parent.parent / "tests" / "venv.sh"

OPTUNA = ("optuna-5.0.0", "optuna", ["optuna==5.0.0"])
# By name: environment, module, arguments, the most evaluations of a run (None: as many as asked for).
PEERS = {
    "optuna-tpe": (OPTUNA, "optuna_peer", ["tpe-multivariate"], None),
    "optuna-tpe-default": (OPTUNA, "optuna_peer", ["tpe"], None),
}


@dataclass(frozen=True)
class Sampler:
    """`command` None is the random search of this program; `exact`: a run of another length is another run."""

    name: str
    version: str
    command: Optional[tuple] = None
    init: dict = field(default_factory=dict)
    limit: Optional[int] = None
    exact: bool = False
    tells_parallel: bool = False

    def command_for(self, parallel):
        return [*self.command, str(parallel)] if self.tells_parallel else list(self.command)

    def evals(self, wanted):
        return wanted if self.limit is None else min(wanted, self.limit)

    @property
    def key(self):
        """The name of the file of its results."""
        return f"{self.name}-{self.version}"


def random_search():
    return Sampler("random", "1")


def peer(name):
    """A peer, whose environment is made first if it is not there. Raises RuntimeError if that fails."""
    (environment, modules, packages), module, arguments, limit = PEERS[name]
    made = subprocess.run(
        ["sh", str(VENV), environment, modules, *packages], stdout=subprocess.PIPE, text=True, stderr=sys.stderr
    )
    if made.returncode != 0:
        raise RuntimeError(f"{name}: no environment")
    command = (made.stdout.strip(), "-B", str(HERE / "peers" / f"{module}.py"), *arguments)
    # The peer's own program decides how the library is driven: a change of it is another version.
    source = hashlib.sha256((HERE / "peers" / f"{module}.py").read_bytes()).hexdigest()[:6]
    version = f"{packages[0].partition('==')[2]}-{source}"
    return Sampler(name, version, command, limit=limit, tells_parallel=True)


def tune(text, keep):
    """A variant of tune from `PATH[:name[:sampler-json]]`; the binary is copied to `keep`, so that a build
    meanwhile changes nothing. The JSON is a sampler, or an object with `sampler` and `pruner`."""
    path, _, rest = text.partition(":")
    name, _, options = rest.partition(":")
    init = {}
    if options:
        try:
            init = json.loads(options)
        except json.JSONDecodeError:
            init = options
        if not (isinstance(init, dict) and init and set(init) <= {"sampler", "pruner"}):
            init = {"sampler": init}
    binary = Path(path).resolve()
    digest = hashlib.sha256(binary.read_bytes()).hexdigest()
    copy = Path(keep) / f"tune-{digest[:12]}"
    if not copy.exists():
        shutil.copy2(binary, copy)
        os.chmod(copy, 0o755)
    version = f"{digest[:12]}-{hashlib.sha256(json.dumps(init, sort_keys=True).encode()).hexdigest()[:6]}"
    return Sampler(name or "tune", version, (str(copy), "ask-tell"), init, exact=True)
