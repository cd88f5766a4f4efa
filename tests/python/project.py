"""A project directory in which the real program runs scripts. `TUNE` names the program."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TUNE = os.environ.get("TUNE", "tune")
PACKAGE = ROOT / "src" / "python"


def environment(**more):
    """That of a program of a user's: nothing of a run around this one."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("TUNE_", "HPO_"))}
    return {**kept, "PYTHONPATH": str(PACKAGE), "PYTHONDONTWRITEBYTECODE": "1", "TUNE_TORCH_LIBRARY": "none", **more}


class InProject(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.dir = Path(directory.name)

    def task(self, script, space='x = { low = -1.0, high = 1.0, default = 0.5 }', more="", metric="loss"):
        (self.dir / "script.py").write_text("import tune\n" + script)
        run = json.dumps([sys.executable, "script.py"])
        (self.dir / "mine.toml").write_text(
            f'[task]\nkind = "command"\nrun = {run}\n[objective]\nmetric = "{metric}"\ndirection = "minimize"\n'
            f"[space]\n{space}\n{more}"
        )

    def tune(self, *arguments, expected=0, **more):
        done = subprocess.run(
            [TUNE, *arguments, "-C", str(self.dir)], env=environment(**more), capture_output=True, text=True, timeout=120
        )
        self.assertEqual(done.returncode, expected, done.stderr + done.stdout)
        return done.stdout

    def run_task(self, trials, *arguments):
        self.tune(str(self.dir / "mine.toml"), "--trials", str(trials), "--plain", *arguments)
        return json.loads(self.tune("trials", "--json"))
