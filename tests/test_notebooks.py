"""Every notebook runs from top to bottom."""

from __future__ import annotations

import warnings
from pathlib import Path

import nbformat
import pytest

FOLDER = Path(__file__).parents[1] / "notebooks"
ANSWERS = {
    "01_first_knowledge_base": ["'Stockholm'"],
    "02_graph_and_evidence": ["'Austria, Denmark, Poland'", "'Pier Park'", "'8,500'", "'blue'"],
    "03_planning_and_evaluation": ["'Stockholm'", "'no'", "6"],
}


@pytest.mark.parametrize("name", ANSWERS)
def test_notebook_runs(name, tmp_path):
    with warnings.catch_warnings():
        # Jupyter's own event loop and paths warn about things that are not ours to change.
        warnings.simplefilter("ignore")
        from nbclient import NotebookClient

        notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
        NotebookClient(
            notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
        ).execute()
    outputs = [
        output
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.output_type == "execute_result"
    ]
    assert outputs[-1].data["text/plain"] == "True"
    answers = [output.data["text/plain"] for output in outputs]
    assert [one for one in ANSWERS[name] if one not in answers] == []


def test_every_notebook_is_run():
    assert sorted(path.stem for path in FOLDER.glob("*.ipynb")) == [*ANSWERS]
