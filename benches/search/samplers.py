"""Who takes part: variants of tune, random search, and the peers in virtual environments of their own."""
import hashlib
import json
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

import environments
from functions import KINDS

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Peer:
    """How a peer is started, the most evaluations of a run, and the kinds of functions that it is for."""

    environment: str
    module: str
    arguments: tuple
    limit: Optional[int] = None
    kinds: tuple = KINDS


PEERS = {
    "optuna-tpe": Peer("optuna-5.0.0", "optuna_peer", ("tpe-multivariate",)),
    "optuna-tpe-default": Peer("optuna-5.0.0", "optuna_peer", ("tpe",)),
    "optuna-tpe-univariate": Peer("optuna-5.0.0", "optuna_peer", ("tpe-univariate",)),
    "optuna-tpe+median": Peer("optuna-5.0.0", "optuna_peer", ("tpe+median",), kinds=("curves",)),
    "optuna-tpe+hyperband": Peer("optuna-5.0.0", "optuna_peer", ("tpe+hyperband",), kinds=("curves",)),
    "hyperopt": Peer("search-bench-hyperopt", "hyperopt_peer", ("tpe",)),
    "optuna-gp": Peer("search-bench-gp", "optuna_peer", ("gp",), limit=100),
    "smac": Peer("search-bench-smac", "smac_peer", ("hpo",), limit=100),
}


@dataclass(frozen=True)
class Sampler:
    """`command` None is the random search of this program; `exact`: a run of another length is another run."""

    name: str
    version: str
    command: Optional[tuple] = None
    init: dict = field(default_factory=dict)
    limit: Optional[int] = None
    kinds: tuple = KINDS
    exact: bool = False
    tells_parallel: bool = False

    def command_for(self, parallel):
        return [*self.command, str(parallel)] if self.tells_parallel else list(self.command)

    def evals(self, wanted):
        return wanted if self.limit is None else min(wanted, self.limit)

    @property
    def shown(self):
        """The version, for people."""
        return f"with SHA-256 {self.version[:12]}..." if self.exact else self.version.partition("-")[0]

    @property
    def key(self):
        """The name of the file of its results."""
        return f"{self.name}-{self.version}"


def random_search():
    return Sampler("random", "1")


def version_of(one):
    """A peer's version. Its own program decides how the library is driven: a change of it is another version."""
    source = (HERE / "peers" / f"{one.module}.py").read_bytes() + " ".join(one.arguments).encode()
    version = environments.ENVIRONMENTS[one.environment][1][0].partition("==")[2]
    return f"{version}-{hashlib.sha256(source).hexdigest()[:6]}"


def key_of(name):
    """The name of the file of a peer's results."""
    return f"{name}-{version_of(PEERS[name])}"


def peer(name):
    """A peer, whose environment is made first if it is not there. Raises RuntimeError if that fails."""
    one = PEERS[name]
    script = HERE / "peers" / f"{one.module}.py"
    command = (environments.python(one.environment), "-B", str(script), *one.arguments)
    return Sampler(name, version_of(one), command, limit=one.limit, kinds=one.kinds, tells_parallel=True)


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
