"""Every notebook runs from top to bottom."""

from __future__ import annotations

import warnings
from pathlib import Path

import nbformat
import pytest

from tests.conftest import needs_ocr, needs_pictures

FOLDER = Path(__file__).parents[1] / "notebooks"
ANSWERS = {
    "01_first_knowledge_base": ["'Stockholm'"],
    "02_graph_and_evidence": ["'Austria, Denmark, Poland'", "'Pier Park'", "'8,500'", "'blue'"],
    "03_planning_and_evaluation": ["'Stockholm'", "'no'", "6"],
}
GROCERIES = "04_encoders_on_groceries"


def outputs_of(name, tmp_path):
    """Run a notebook, and return the results of its cells."""
    with warnings.catch_warnings():
        # Jupyter's own event loop and paths cause warnings that we cannot change.
        warnings.simplefilter("ignore")
        from nbclient import NotebookClient

        notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
        NotebookClient(
            notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
        ).execute()
    return [
        output
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.output_type == "execute_result"
    ]


@pytest.mark.parametrize("name", ANSWERS)
def test_notebook_runs(name, tmp_path):
    outputs = outputs_of(name, tmp_path)
    assert outputs[-1].data["text/plain"] == "True"
    answers = [output.data["text/plain"] for output in outputs]
    assert [answer for answer in ANSWERS[name] if answer not in answers] == []


@pytest.mark.ocr
@needs_pictures
@needs_ocr
def test_encoders_on_groceries(tmp_path, shared_data, monkeypatch):
    monkeypatch.setenv("GROCERY", str(shared_data / "grocery"))
    page, is_ordered = outputs_of(GROCERIES, tmp_path)
    assert page.data["image/jpeg"]
    assert is_ordered.data["text/plain"] == "True"


@pytest.mark.parametrize("name", [*ANSWERS, GROCERIES])
def test_stored_outputs_hold_answers_and_pictures(name):
    file = FOLDER / f"{name}.ipynb"
    cells = nbformat.read(file, as_version=4).cells
    stored = [output.get("data", {}) for cell in cells for output in cell.get("outputs", ())]
    texts = [data.get("text/plain") for data in stored]
    assert [answer for answer in ANSWERS.get(name, ()) if answer not in texts] == []
    has_picture = any(key.startswith("image/") for data in stored for key in data)
    assert has_picture or name.startswith("03")  # a plan has no drawing
    assert file.stat().st_size < 1_000_000


def test_every_notebook_is_run():
    names = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
    assert names == [*ANSWERS, GROCERIES]
