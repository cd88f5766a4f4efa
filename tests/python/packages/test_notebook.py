"""The notebook of the documentation runs from its first cell to its last (pytest)."""

import os
from pathlib import Path

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[3]


def test_the_notebook_runs_and_finds_what_it_searches(tmp_path, monkeypatch):
    # As where the wheel is installed: the command is on the search path.
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "tune").symlink_to(os.environ["TUNE"])
    monkeypatch.setenv("PATH", f"{tmp_path}/bin{os.pathsep}{os.environ['PATH']}")
    notebook = nbformat.read(ROOT / "docs/examples/tune.ipynb", as_version=4)
    NotebookClient(notebook, timeout=180, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    said = [output["data"]["text/plain"] for output in outputs if "data" in output]
    states = next(text for text in said if "COMPLETE" in text)
    assert "PRUNED" in states
    best = said[-1].split()
    assert float(best[best.index("value") + 1]) < 0.5, said[-1]
