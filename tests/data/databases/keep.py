"""Keeps a database as the checked-out version writes one, for the versions to come: `keep.py TUNE`, before a release is tagged.

Writes VERSION.sql beside this file: a study of task.toml with faults, prunings, repeats and a test, without names of the machine.
"""

import pathlib
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile

tune = pathlib.Path(sys.argv[1]).resolve()
here = pathlib.Path(__file__).resolve().parent
version = subprocess.run([tune, "--version"], check=True, text=True, capture_output=True).stdout.split()[1]
with tempfile.TemporaryDirectory() as project:
    (pathlib.Path(project) / "configs").mkdir()
    shutil.copy(here / "task.toml", pathlib.Path(project) / "configs/kept.toml")
    run = [tune, "kept", "--trials", "12", "--parallel", "2", "--repeats", "2", "--inject", "abort:0.2", "--plain"]
    subprocess.run(run, check=True, cwd=project)
    database = sqlite3.connect(pathlib.Path(project) / "tune.db")
    dump = "".join(f"{line}\n" for line in database.iterdump())
    database.close()
for word, instead in [(project, "/project"), (socket.gethostname(), "host"), (str(tune), "tune")]:
    dump = dump.replace(word, instead)
(here / f"{version}.sql").write_text(dump)
