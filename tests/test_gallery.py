"""The examples of docs/gallery.md have the documented answers."""

from __future__ import annotations

import os
import re
import runpy
import shutil
from pathlib import Path

import pytest

from ku_rag import KnowledgeBase
from tests.conftest import DATA, needs_ocr, needs_pictures

DOCS = Path(__file__).parents[1] / "docs"
SCRIPT = runpy.run_path(str(DOCS / "make_gallery.py"))
MOST_BYTES = 60_000
ANSWER = re.compile(r"make_gallery\.py (\w+)\n```\n\n\*(.+)\* (.+)$", re.MULTILINE)
ANSWERS = {
    name: (question, answer)
    for name, question, answer in ANSWER.findall((DOCS / "gallery.md").read_text("utf-8"))
}

SLOW = [pytest.mark.slow, pytest.mark.ocr, needs_ocr, needs_pictures]


@pytest.mark.parametrize(
    "name",
    ["flags", "museum", "documents", "monsters", pytest.param("groceries", marks=SLOW)],
)
def test_an_example_is_answered_as_the_page_says(name, tmp_path, monkeypatch):
    if name == "documents" and not shutil.which(SCRIPT["CHROMIUM"]):
        pytest.skip("no chromium or google-chrome is installed, which writes the PDF file")
    if name == "groceries":
        if not (DATA / "grocery").is_dir():
            pytest.skip(f"{DATA / 'grocery'} is not there")
        monkeypatch.setitem(os.environ, "GROCERY", str(DATA / "grocery"))
        for setting in SCRIPT["EMBEDDED"]:
            monkeypatch.delenv(setting)
    picture, question = SCRIPT["EXAMPLES"][name](tmp_path)
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.ingest(tmp_path / "data")
        answer = kb.query(None if picture == "-" else picture, question)
    assert (question, answer.answer) == ANSWERS[name]


def test_every_picture_is_small_and_on_the_page():
    pictures = [*(DOCS / "gallery").iterdir()]
    assert {path.stem for path in pictures} == {*SCRIPT["EXAMPLES"]} - {"groceries"}
    page = (DOCS / "gallery.md").read_text("utf-8")
    for path in pictures:
        assert path.stat().st_size <= MOST_BYTES
        assert f"](gallery/{path.name})" in page
