#!/usr/bin/env python3
"""Builds the stand-in for the CUDA runtime, and a tree that looks like an installed torch with its CUDA libraries.

    build.py LIBTORCH HEADERS OUT

LIBTORCH is the directory of libtorch's CUDA build, HEADERS holds cuda.h and crt/. OUT gets `lib` (the stand-ins),
`torch/lib` (links to libtorch's libraries, and in libtorch_cuda.so's place the operators, which bring the real
one along) and `bin`. Nothing is done where OUT was built of the same sources.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ERRORS = HERE.parent.parent / "docs" / "faults.md"
RUNTIME = ["settings", "account", "rules", "errors", "gate", "memory", "device", "stream", "launch", "driver"]
# These make up the account of NVML's stand-in, which is used without the runtime, too.
NVML = ["nvml", "settings", "account"]
OPERATORS = ["operators", "replacements"]
C = ["cc", "-O2", "-g", "-Wall", "-Wextra", "-Wno-unused-parameter", "-fPIC", f"-I{HERE}"]
CPP = ["c++", "-std=c++20", "-O1", "-Wall", "-Wextra", "-Wno-unused-parameter", "-fPIC", f"-I{HERE}"]
LINKS = ["libc10.so", "libc10_cuda.so", "libcaffe2_nvrtc.so", "libgomp.so.1", "libtorch.so", "libtorch_cpu.so"]
LINKS += ["libtorch_cuda_linalg.so", "libtorch_nvshmem.so"]

# Libraries whose symbols carry no version, by the beginning of the symbol.
UNVERSIONED = [
    ("cusparseLt", "libcusparseLt.so.0"),
    ("nccl", "libnccl.so.2"),
    ("cuFile", "libcufile.so.0"),
    ("nvshmem", "libnvshmem_host.so.3"),
    ("cu", "libcuda.so.1"),
]
CUBLAS = ("libcublas.so.13", "libcublasLt.so.13")
PRODUCTS = r"[gG]emm|Matmul$|trsm|dot|gemv|axpy|geam|dgmm|getr|geqrf|gels"
TEXTS = r"(Error|Status|LastError|Result)String$|GetErrorName$|GetString$"


def main(libtorch: Path, headers: Path, out: Path) -> None:
    """Builds beside the place and renames into it, so that whoever looks sees all or nothing."""
    stamp = stamp_of(libtorch)
    if (out / "stamp").is_file() and (out / "stamp").read_text() == stamp:
        return
    print(f"building the stand-in for the CUDA runtime, into {out}", flush=True)
    part = out.with_name(f"{out.name}.part-{os.getpid()}")
    shutil.rmtree(part, ignore_errors=True)
    (part / "lib").mkdir(parents=True)
    try:
        runtime(headers, part)
        for library, names in sorted(wanted(libtorch / "lib", part / "lib").items()):
            stub(library, names, part / "lib")
        run(C + ["-shared", "-Wl,-Bsymbolic,-soname,libnvidia-ml.so.1", "-o", part / "lib" / "libnvidia-ml.so.1"] + sources(NVML))
        tree(libtorch, part)
        programs(libtorch, headers, part)
        (part / "stamp").write_text(stamp)
        old = out.with_name(f"{out.name}.old-{os.getpid()}")
        if out.exists():
            out.rename(old)
        part.rename(out)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def stamp_of(libtorch: Path) -> str:
    """Says of what it is built."""
    digest = hashlib.sha256(str(libtorch).encode())
    parts = [file for file in sorted(HERE.iterdir()) if file.suffix in (".c", ".cpp", ".h", ".map", ".py")]
    for file in [*parts, ERRORS]:
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def sources(names: list) -> list:
    """The C files of these names."""
    return [HERE / f"{name}.c" for name in names]


def run(command: list) -> str:
    """Runs a command; what it prints."""
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def runtime(headers: Path, out: Path) -> None:
    """libcudart, with the project's own table of errors."""
    rows = re.findall(r"^\| (\d+) \| `(cuda\w+)` \| (.*?) \|", ERRORS.read_text(encoding="utf-8"), re.M)
    table = [(0, "cudaSuccess", "no error")] + [(int(code), name, text) for code, name, text in rows]
    (out / "errors.inc").write_text("".join('{%d, "%s", "%s"},\n' % (c, n, t.replace('"', '\\"')) for c, n, t in table))
    command = C + [f"-I{out}", "-isystem", headers, "-shared", "-Wl,-soname,libcudart.so.13"]
    command += [f"-Wl,--version-script={HERE / 'runtime.map'}", "-o", out / "lib" / "libcudart.so.13"]
    run(command + sources(RUNTIME) + ["-lpthread"])


def symbols(library: Path, which: str) -> list:
    """The dynamic symbols of a library, as (name, version or nothing)."""
    listing = run(["nm", "-D", f"--{which}-only", "--with-symbol-versions", library])
    split = (line.split()[-1].partition("@") for line in listing.splitlines())
    return [(name, version.lstrip("@")) for name, _, version in split]


def wanted(torch: Path, lib: Path) -> dict:
    """By library of NVIDIA's that libtorch's load: the symbols that they import from it, with their versions."""
    found: dict = {}
    for library in sorted(torch.glob("*.so")):
        for name, version in symbols(library, "undefined"):
            home = version if re.match(r"lib(cu|nv)", version) else None
            home = home or next((home for begin, home in UNVERSIONED if name.startswith(begin)), None)
            if home:
                found.setdefault(home, {})[name] = version
        for home in re.findall(r"NEEDED.*\[(lib(?:cu|nv|nccl)[^\]]*)\]", run(["readelf", "-d", library])):
            found.setdefault(home, {})
    given = {name for name, _ in symbols(lib / "libcudart.so.13", "defined")}
    driver = found.get("libcuda.so.1", {}).items()
    found["libcuda.so.1"] = {n: v for n, v in driver if re.match("cu[A-Z]", n) and n not in given}
    del found["libcudart.so.13"]
    return found


def line(name: str, library: str) -> str:
    """What a function of the stub does."""
    if name == "cudnnGetErrorString":
        return f"STATUSES({name})"
    if re.search(TEXTS, name):
        return f"TEXT({name})"
    if name == "cudnnGetVersion":
        return f"VERSION({name})"
    if library in CUBLAS:
        return f"LAUNCH({name})" if re.search(PRODUCTS, name) else f"FINE({name})"
    if library.startswith("libcudnn"):
        return f"ANSWERS({name})"
    return f"FAILS({name})"


def stub(library: str, names: dict, lib: Path) -> None:
    """A library with these symbols."""
    cublas = HERE / "cublas.c"
    body = [f"#define LIBRARY_{re.sub(r'[^0-9A-Za-z]', '_', library)}", '#include "stub.h"']
    by_hand = set()
    if library in CUBLAS:
        body.append('#include "cublas.c"')
        by_hand = set(re.findall(r"^HAND\((\w+)", cublas.read_text(), re.M))
    body += [line(name, library) for name in sorted(names) if name not in by_hand]
    versions = sorted({version for version in names.values() if version})
    groups = (" ".join(f"{name};" for name in sorted(names) if names[name] == version) for version in versions)
    script = lib / "script.map"
    script.write_text("".join(f"{version} {{ global: {group} }};\n" for version, group in zip(versions, groups)))
    source = lib / "stub.c"
    source.write_text("\n".join(body) + "\n")
    command = C + ["-shared", f"-Wl,-soname,{library}", "-o", lib / library, source, f"-L{lib}", "-l:libcudart.so.13"]
    # libcuda's functions are the runtime's.
    command += ["-Wl,--no-as-needed"] + ([f"-Wl,--version-script={script}"] if versions else [])
    run(command)
    source.unlink()
    script.unlink()


def torch_headers(libtorch: Path) -> list:
    """Where libtorch's headers are; what a compiler says of them is not ours."""
    include = libtorch / "include"
    return ["-isystem", include, "-isystem", include / "torch" / "csrc" / "api" / "include"]


def tree(libtorch: Path, out: Path) -> None:
    """Libraries of libtorch find NVIDIA's two directories up from where they were opened, links not followed."""
    lib = out / "torch" / "lib"
    lib.mkdir(parents=True)
    for name in LINKS:
        (lib / name).symlink_to(libtorch / "lib" / name)
    (lib / "libtorch_cuda_real.so").symlink_to(libtorch / "lib" / "libtorch_cuda.so")
    (out / "nvidia" / "cu13").mkdir(parents=True)
    (out / "nvidia" / "cu13" / "lib").symlink_to("../../lib")
    # The real library has another soname: the operators are linked against an empty one that has the link's.
    empty = out / "libtorch_cuda_real.so"
    run(["cc", "-shared", "-xc", "/dev/null", "-Wl,-soname,libtorch_cuda_real.so", "-o", empty])
    objects = []
    for name in OPERATORS:
        objects.append(out / f"{name}.o")
        run(CPP + torch_headers(libtorch) + ["-c", HERE / f"{name}.cpp", "-o", objects[-1]])
    command = ["c++", "-shared", "-Wl,-soname,libtorch_cuda.so", "-o", lib / "libtorch_cuda.so", *objects]
    command += [f"-L{lib}", f"-L{out / 'lib'}", "-Wl,--no-as-needed,--disable-new-dtags,-rpath,$ORIGIN", empty]
    run(command + ["-ltorch_cpu", "-lc10_cuda", "-lc10", "-l:libcudart.so.13"])
    for left in [empty, *objects]:
        left.unlink()


def programs(libtorch: Path, headers: Path, out: Path) -> None:
    """The one that compares the operators with the CPU's, and the one that makes single calls."""
    (out / "bin").mkdir()
    libraries = [f"-L{out / 'torch' / 'lib'}", f"-L{out / 'lib'}", "-Wl,--no-as-needed,--allow-shlib-undefined"]
    # It is compiled more often than it runs.
    command = CPP + ["-O0"] + torch_headers(libtorch) + [HERE / "check_operators.cpp", "-o", out / "bin" / "check_operators"]
    run(command + libraries + ["-ltorch_cpu", "-lc10", "-ldl"])
    command = C + ["-isystem", headers, *sources(["try", "settings"]), "-o", out / "bin" / "try"]
    run(command + [f"-L{out / 'lib'}", "-l:libcudart.so.13", "-lpthread"])


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    try:
        main(*(Path(argument).absolute() for argument in sys.argv[1:]))
    except subprocess.CalledProcessError as error:
        sys.exit(f"build.py: {' '.join(map(str, error.cmd[:1]))} failed with {error.returncode}; see above")
