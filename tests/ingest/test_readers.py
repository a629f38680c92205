"""The registry of readers, and the recipe of CONTRIBUTING.md for a new one."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ku_rag
from ku_rag.ingest.readers.registry import GRAPH_READERS, READERS, load_reader
from tests.conftest import picture

ROOT = Path(__file__).parents[2]
TEXT = """= Lamps

image::lamp.png[]

The Aurora lamp was presented in 1964.

= Cups

== Details

Cups are won.
"""
INGEST = """
from ku_rag import KnowledgeBase
with KnowledgeBase.open("kb", create=True) as kb:
    report = kb.ingest("guides")
    for unit in map(kb.show, ("Lamps", "Cups")):
        print(unit.counts["images"], " ".join(" ".join(unit.texts).split()))
    for left_out in report.quarantined:
        print(left_out.reason)
"""


@pytest.mark.parametrize(
    "function", sorted({*GRAPH_READERS.values(), *(reader.function for reader in READERS.values())})
)
def test_every_reader_can_be_loaded(function):
    assert callable(load_reader(function))


def test_the_recipe_of_a_reader_takes_one_module_and_one_line(tmp_path):
    recipe = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    recipe = recipe[recipe.index("**Add a reader") : recipe.index("**Add a command")]
    module, line = re.findall(r"```python\n(.*?)```", recipe, re.DOTALL)
    (name,) = re.findall(r"(ku_rag/ingest/readers/asciidoc\.py)", recipe)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(ku_rag.__file__).parent, tmp_path / "ku_rag", ignore=ignored)
    (tmp_path / name).write_text(module)
    registry = tmp_path / "ku_rag" / "ingest" / "readers" / "registry.py"
    start = "READERS: Mapping[str, Reader] = {\n"
    assert start in registry.read_text()
    registry.write_text(registry.read_text().replace(start, start + line, 1))
    guides = tmp_path / "guides"
    guides.mkdir()
    picture(guides / "lamp.png", 1)
    (guides / "house.adoc").write_text(TEXT)
    (guides / "empty.adoc").write_text("")
    process = subprocess.run(
        [sys.executable, "-c", INGEST],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert process.stdout.splitlines() == [
        "1 image::lamp.png[] The Aurora lamp was presented in 1964.",
        "0 == Details Cups are won.",
        "the file is empty or blank: write its text, or remove it",
    ]
