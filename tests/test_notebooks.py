"""Every notebook runs from top to bottom."""

from __future__ import annotations

import warnings
from pathlib import Path

import nbformat
import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path, tmp_path):
    with warnings.catch_warnings():
        # Jupyter's own event loop and paths warn about things that are not ours to change.
        warnings.simplefilter("ignore")
        from nbclient import NotebookClient

        notebook = nbformat.read(path, as_version=4)
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
    assert "'Stockholm'" in answers


def test_there_is_a_notebook():
    assert [path.name for path in NOTEBOOKS] == ["01_first_knowledge_base.ipynb"]
