"""The metadata for registries and agents agrees with the package."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click
import pytest

import ku_rag
from ku_rag.cli.commands import cli

ROOT = Path(__file__).parents[1]
SERVER = json.loads((ROOT / "server.json").read_text("utf-8"))
SKILL = ROOT / "skills" / "ku-rag" / "SKILL.md"


def test_server_json_names_the_version_and_the_readme_names_the_server():
    (package,) = SERVER["packages"]
    assert SERVER["version"] == package["version"] == ku_rag.__version__.removesuffix(".dev0")
    assert len(SERVER["description"]) <= 100
    # The registry accepts a package from PyPI only with this line in its description.
    assert f"mcp-name: {SERVER['name']} " in (ROOT / "README.md").read_text("utf-8")


def test_the_arguments_of_server_json_start_the_server(tmp_path):
    name, *options = SERVER["packages"][0]["packageArguments"]
    words = [word for option in options for word in (option["name"], str(tmp_path))]
    command = cli.commands[name["value"]]
    context = command.make_context("mcp", words, parent=click.Context(cli, **cli.context_settings))
    assert context.params["folders"] == (tmp_path,)


def test_the_skill_has_the_fields_of_its_specification():
    yaml = pytest.importorskip("yaml", reason="the extra documents is not installed")
    _, front, _ = SKILL.read_text("utf-8").split("---\n", 2)
    fields = yaml.safe_load(front)
    assert fields["name"] == SKILL.parent.name
    assert 1 <= len(fields["description"]) <= 1024
    assert len(fields["compatibility"]) <= 500


def test_the_actions_of_the_release_are_pinned_to_commits():
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8")
    used = re.findall(r"uses: \S+@(\S+)", workflow)
    assert len(used) >= 5
    assert [reference for reference in used if not re.fullmatch(r"[0-9a-f]{40}", reference)] == []
