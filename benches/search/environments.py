"""The virtual environments of the peers, made once per machine from PyPI (tests/venv.sh).

Optuna's GP sampler needs PyTorch, whose wheel on PyPI wants 3 GB of CUDA libraries even where it only computes on the
CPU. Nothing of them is called there, so the wheel alone is installed (0.5 GB), and empty libraries with the
functions' names stand in for the CUDA libraries.
"""
import fcntl
import os
import re
import subprocess
import sys
from pathlib import Path

VENV = Path(__file__).resolve().parent.parent.parent / "tests" / "venv.sh"
HOME = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tune" / "venv"

# Environment: what is imported as a proof, and what is installed.
ENVIRONMENTS = {
    "optuna-5.0.0": ("optuna", ["optuna==5.0.0"]),
    "search-bench-gp": (
        "optuna,scipy",
        ["optuna==5.0.0", "scipy==1.17.1", "numpy==2.4.6", "sympy==1.14.0", "networkx==3.6.1", "jinja2==3.1.6",
         "filelock==4.2.11", "fsspec==2026.9.0", "typing-extensions==4.16.0"],
    ),
    "search-bench-smac": ("smac", ["smac==2.4.1", "ConfigSpace==1.2.2", "scikit-learn==1.9.1", "numpy==2.4.6"]),
    "search-bench-hyperopt": ("hyperopt", ["hyperopt==0.3.0", "numpy==2.4.6", "scipy==1.17.1", "setuptools==65.5.0"]),
    "search-bench-tables": ("sklearn", ["scikit-learn==1.7.2", "numpy==2.4.6", "scipy==1.17.1"]),
}  # fmt: skip
TORCH = ["torch==2.11.0", "nvidia-cuda-runtime==13.0.96", "nvidia-cuda-cupti==13.0.85"]
# The libraries that the wheel asks for beside those two, and the prefixes of their functions.
STUBS = (
    "libcusparse.so.12", "libcufft.so.12", "libcufile.so.0", "libcusparseLt.so.0", "libnccl.so.2", "libcurand.so.10",
    "libcublas.so.13", "libcublasLt.so.13", "libcudnn.so.9", "libnvshmem_host.so.3",
)  # fmt: skip
FUNCTIONS = "libtune_no_cuda.so"
PREFIXES = re.compile("cublas|cufft|cudnn|cusparse|nccl|curand|cuFile|nvshmem|cusolver")


def python(name):
    """The interpreter of an environment, which is made if it is not there. Raises RuntimeError if that fails."""
    modules, packages = ENVIRONMENTS[name]
    made = subprocess.run(["sh", VENV, name, modules, *packages], stdout=subprocess.PIPE, text=True)
    if made.returncode != 0:
        raise RuntimeError(f"no environment {name}")
    interpreter = made.stdout.strip()
    if name == "search-bench-gp":
        add_torch(Path(interpreter))
    return interpreter


def add_torch(interpreter):
    """PyTorch for the CPU, without what it would only need on a GPU."""
    home = interpreter.parent.parent
    marker = home / "torch-ready"
    with open(HOME / "search-bench-gp.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if marker.exists():
            return
        print("fetching PyTorch for Optuna's GP sampler (530 MB)", file=sys.stderr)
        try:
            call(interpreter, "-m", "pip", "install", "--quiet", "--no-cache-dir", "--no-deps", *TORCH)
            make_stubs(next(home.glob("lib/python3*/site-packages/torch/lib")))
            call(interpreter, "-c", "import torch; torch.linalg.cholesky(torch.eye(3))")
        except (OSError, StopIteration, subprocess.CalledProcessError) as error:
            raise RuntimeError(f"no PyTorch: {error}") from error
        marker.touch()


def call(*command, **options):
    """Runs a command, its output on stderr."""
    return subprocess.run(command, check=True, stdout=options.pop("stdout", sys.stderr), **options)


def make_stubs(folder):
    """Libraries of the names that are asked for, and one that defines the missing functions; a call of one aborts."""
    users = [str(folder / name) for name in ("libtorch_cuda.so", "libtorch_nvshmem.so", "libtorch_python.so")]
    listing = call("nm", "-D", "--undefined-only", *users, stdout=subprocess.PIPE, text=True).stdout
    names = {words[1].partition("@")[0] for words in map(str.split, listing.splitlines()) if len(words) == 2}
    source = "".join(f"void {name}(void) {{ __builtin_trap(); }}\n" for name in sorted(names) if PREFIXES.match(name))
    # Not in one of the libraries that are asked for: the loader knows which versions of the functions those must have.
    build(folder, FUNCTIONS, source)
    for library in STUBS:
        build(folder, library, "", "-Wl,--no-as-needed", "-Wl,-rpath,$ORIGIN", str(folder / FUNCTIONS))


def build(folder, library, source, *more):
    """One shared library from C."""
    options = ("-w", "-fno-builtin", "-shared", "-fPIC", f"-Wl,-soname,{library}", "-o", str(folder / library))
    call("cc", *options, "-xc", "-", "-xnone", *more, input=source, text=True)
