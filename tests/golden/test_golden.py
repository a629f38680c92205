"""The JSON keys and exit codes of every command are those of golden.json.

`pytest tests/golden --update --long` rewrites golden.json; review its diff.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ku_rag.cli.commands import cli
from tests.golden.scenarios import SCENARIOS, Recorder

GOLDEN = Path(__file__).with_name("golden.json")


SLOW = {"demo"}


@pytest.mark.parametrize(
    "scenario",
    [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in SCENARIOS],
)
def test_keys_and_exit_codes_are_golden(scenario, ku, tmp_path, monkeypatch, request):
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "KU_ENCODER", "HF_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KU_CACHE", str(tmp_path / "cache"))
    run = Recorder(ku, tmp_path, monkeypatch)
    SCENARIOS[scenario](run)
    golden = json.loads(GOLDEN.read_text(encoding="utf-8")) if GOLDEN.exists() else {}
    if request.config.getoption("--update"):
        golden[scenario] = run.results
        golden = {name: golden[name] for name in SCENARIOS if name in golden}
        GOLDEN.write_text(json.dumps(golden, indent=1) + "\n", encoding="utf-8")
    assert run.results == golden[scenario]


def test_every_command_is_run():
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    names = {name for runs in golden.values() for name in runs}
    commands = [
        *(name for name in cli.commands if name not in ("graph", "models")),
        *(f"graph {name}" for name in cli.commands["graph"].commands),
        *(f"models {name}" for name in cli.commands["models"].commands),
    ]
    missing = [
        command
        for command in commands
        if not any(name.removeprefix("ku ").startswith(command) for name in names)
    ]
    assert missing == []
