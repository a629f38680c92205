"""The documentation agrees with the code."""

from __future__ import annotations

import re
import runpy
import shlex
import sys
import tomllib
from collections.abc import Iterator
from configparser import ConfigParser
from importlib.metadata import version
from pathlib import Path

import click
import pytest

import ku_rag
from ku_rag.cli.commands import cli

ROOT = Path(__file__).parents[1]
FOLDERS = ("docs", ".github", "skills")
PAGES = [*ROOT.glob("*.md"), *(path for f in FOLDERS for path in (ROOT / f).rglob("*.md"))]
LINK = re.compile(r"\]\(([^)\s]+)\)")


def commands(group: click.Group = cli, above: str = "ku") -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        yield f"{above} {name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{above} {name}")


def anchors(page: Path) -> set[str]:
    """The addresses of the headings of a Markdown page, as on GitHub."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


@pytest.mark.parametrize(("name", "command"), list(commands()), ids=str)
def test_every_command_and_option_has_help_and_documentation(name, command):
    assert command.help
    assert command.help.partition("\n")[0].endswith(".")
    options = [option for option in command.params if isinstance(option, click.Option)]
    assert [option.name for option in options if not option.help] == []
    reference = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert f"\n## {name}\n" in reference


@pytest.mark.parametrize(
    ("page", "function"),
    [("cli.md", "reference"), ("decisions/README.md", "decisions"), ("site/llms.txt", "llms")],
)
def test_generated_pages_are_up_to_date(page, function):
    text = runpy.run_path(str(ROOT / "docs" / "make_reference.py"))[function]()
    assert (ROOT / "docs" / page).read_text(encoding="utf-8") == text, "run `make docs`"


def test_every_page_is_listed_twice_in_the_index():
    """In its text, which llms.txt repeats, and in the navigation of the site."""
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    navigation = "".join(re.findall(r"```{toctree}.*?```", index, re.DOTALL)).split()
    for page in (*(ROOT / "docs").glob("*.[mr]*"), *(ROOT / "notebooks").glob("*.ipynb")):
        if page.name not in ("index.md", "make_reference.py", "make_gallery.py"):
            assert f"{page.name}): " in index, page.name
            assert page.stem in {Path(entry).name for entry in navigation}, page.name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_resolve(page):
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" in target or target.startswith("mailto:"):
            continue
        path, _, anchor = target.partition("#")
        leads_to = page.parent / path if path else page
        assert leads_to.exists(), target
        if anchor:
            assert anchor in anchors(leads_to), target


def test_commands_in_the_readme_exist():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    names = set(re.findall(r"(?:^(?:\$ )?|`)ku ([a-z]+)", text, re.MULTILINE))
    assert names
    assert names <= set(cli.commands)


def resolve(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command in the words after "ku", and its arguments."""
    command: click.Command = cli
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        _, subcommand, words = command.resolve_command(click.Context(command), words)
        assert subcommand
        command = subcommand
    return command, words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_and_their_options_exist(page):
    for line in re.findall(r"(?:^(?:\$ )?|`)ku ([a-z][^`\n]*)", page.read_text("utf-8"), re.M):
        command, words = resolve(line.split())
        options = {name for option in command.params for name in option.opts} | {"--help"}
        assert {word for word in words if re.fullmatch(r"--[a-z-]+", word)} <= options, line


def test_commands_of_the_tables_of_the_papers_are_valid():
    text = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    written = re.findall(r"^ku (.+)$", text, re.M)
    options = re.findall(r"`(--[^`]+)`", "".join(re.findall(r"^\|.*", text, re.M)))
    assert min(len(written), len(options)) > 15
    for line in (*written, *(f"eval mh --path q {option}" for option in options)):
        command, words = resolve(shlex.split(line.replace("--every N", "--every 9")))
        command.make_context(line, words, parent=click.Context(cli, **cli.context_settings))


def test_make_targets_in_the_documentation_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    for page in PAGES:
        if page.name != "CHANGELOG.md":
            text = page.read_text(encoding="utf-8")
            names = set(re.findall(r"(?:^|`)make ([a-z-]+)", text, re.MULTILINE))
            assert names <= targets, page


def test_every_folder_is_on_the_architecture_page():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    for folder in (ROOT / "ku_rag").iterdir():
        if (folder / "__init__.py").exists():
            assert f"{folder.name}/" in text, folder.name


def test_the_version_stands_in_one_place(ku):
    config = ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    assert config["metadata"]["version"] == "attr: ku_rag.__version__"
    assert version("ku-rag") == ku_rag.__version__
    assert ku("--version").out == f"ku, version {ku_rag.__version__}\n"


def test_the_oldest_python_is_the_same_everywhere():
    config = ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    oldest = config["options"]["python_requires"].removeprefix(">=")
    ruff = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]
    assert ruff["target-version"] == f"py{oldest.replace('.', '')}"
    workflow = (ROOT / ".github" / "workflows" / "check.yml").read_text()
    tested = re.search(r"python: \[(.+)\]", workflow)
    assert tested
    assert tested[1].split(", ")[0] == f'"{oldest}"'
    assert sys.version_info >= tuple(map(int, oldest.split(".")))
