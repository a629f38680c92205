"""The documents say what the code does."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [
    *ROOT.glob("*.md"),
    *(ROOT / "docs").rglob("*.md"),
]


def test_the_reference_is_up_to_date():
    made = runpy.run_path(str(ROOT / "docs" / "make_reference.py"))
    written = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert written == made["reference"](), "run `make docs`"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_commands_in_the_readme_exist():
    from ku_rag.cli.commands import cli

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^(?:\$ )?ku ([a-z]+)", text, re.MULTILINE))
    named |= set(re.findall(r"`ku ([a-z]+)", text))
    assert named
    assert named <= set(cli.commands)


def test_every_room_is_on_the_architecture_page():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    for room in (ROOT / "ku_rag").iterdir():
        if room.is_dir() and (room / "__init__.py").exists():
            assert f"{room.name}/" in text, room.name
