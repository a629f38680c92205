"""The documentation site builds without a warning and loads nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import ku_rag

ROOT = Path(__file__).parents[1]
LOADS = {"src", "srcset", "poster", "data", "action"}
"""Attributes whose address a page loads; `href` only in a <link>."""
STYLE_ADDRESS = re.compile(r"""(?:url\(|@import)\s*["']?((?:https?:)?//[^)"']+)""")

pytestmark = pytest.mark.slow


class Loads(HTMLParser):
    """The addresses that a page loads."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.addresses: list[str] = STYLE_ADDRESS.findall(page)
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        names = LOADS | ({"href"} if tag in ("link", "image", "use") else set())
        self.addresses += [value for name, value in attributes if name in names and value]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site."""
    for package in ("furo", "myst_nb"):
        pytest.importorskip(package, reason="the extra docs is not installed")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-c", "docs"]
    process = subprocess.run(
        [*command, "-d", str(folder / "doctrees"), ".", str(folder / "html")],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr[-5000:]
    return folder / "html"


def test_pages_and_styles_load_nothing_from_elsewhere(site):
    pages, styles = [*site.rglob("*.html")], [*site.rglob("*.css")]
    assert len(pages) > 30
    assert styles
    loaded = {
        (page.name, address)
        for page in pages
        for address in Loads(page.read_text(encoding="utf-8")).addresses
    }
    assert len(loaded) > len(pages)
    assert {pair for pair in loaded if re.match(r"(?:https?:)?//", pair[1])} == set()
    written = "".join(style.read_text(encoding="utf-8") for style in styles)
    assert STYLE_ADDRESS.findall(written) == []


def test_the_site_has_every_page_and_public_name(site):
    for source in (ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("notebooks/*.ipynb")):
        assert (site / source.relative_to(ROOT)).with_suffix(".html").exists(), source
    assert "(docs/tour.html)" in (site / "llms.txt").read_text(encoding="utf-8")
    assert "docs/index.html" in (site / "index.html").read_text(encoding="utf-8")
    reference = (site / "docs" / "reference.html").read_text(encoding="utf-8")
    documented = set(re.findall(r'id="ku_rag\.([\w.]+)"', reference))
    assert {*ku_rag.__all__} <= {name.rpartition(".")[2] for name in documented}
    assert "KnowledgeBase.query" in documented


def test_notebooks_show_their_results(site):
    page = (site / "notebooks" / "01_first_knowledge_base.html").read_text(encoding="utf-8")
    assert "Stockholm" in page
    assert page.count('src="../_images/') >= 3


def test_the_manual_page_lists_commands_and_options(tmp_path):
    pytest.importorskip("myst_nb", reason="the extra docs is not installed")
    page = ["-D", "include_patterns=docs/cli.md", "-D", "root_doc=docs/cli"]
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "-b", "man", "-c", "docs", *page]
    subprocess.run(
        [*command, "-d", str(tmp_path / "doctrees"), ".", str(tmp_path)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        check=True,
    )
    written = (tmp_path / "ku.1").read_text(encoding="utf-8")
    assert ".SH KU QUERY" in written
    assert r"\-\-report" in written
