"""Settings: their sources and their valid values."""

from __future__ import annotations

import os

import pytest

from ku_rag import KnowledgeBase, Unit
from ku_rag.errors import BadInput, Mismatch


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch):
    import os

    for name in [name for name in os.environ if name.startswith("KU_")]:
        monkeypatch.delenv(name)


def test_arguments_go_before_the_environment_and_that_before_the_file(kb, monkeypatch):
    file = kb.path / "ku.toml"
    file.write_text("k_units = 4\nk_chunks = 4\nmax_tokens = 4\n", encoding="utf-8")
    monkeypatch.setenv("KU_K_CHUNKS", "5")
    monkeypatch.setenv("KU_MAX_TOKENS", "5")
    with KnowledgeBase.open(kb.path, max_tokens=6, max_memory=None) as base:
        settings = base.settings
    assert (settings.k_units, settings.k_chunks, settings.max_tokens) == (4, 5, 6)
    assert settings.max_memory == 1024


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("KU_JOIN_THRESHOLD", "nan"),
        ("KU_JOIN_THRESHOLD", "1.5"),
        ("KU_LOCK_WAIT_S", "inf"),
        ("KU_LOCK_WAIT_S", "-1"),
        ("KU_K_UNITS", "-1"),
        ("KU_K_UNITS", "0"),
        ("KU_K_UNITS", "true"),
        ("KU_K_CHUNKS", "2.7"),
        ("KU_MAX_TOKENS", "-5"),
        ("KU_MAX_MEMORY", "9"),
        ("KU_MAX_MEMORY", ""),
        ("KU_IMAGES", "move"),
        ("KU_ENCODER", " "),
    ],
)
def test_a_variable_out_of_range_is_named(tmp_path, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(BadInput, match=f"^{name} is "):
        KnowledgeBase.open(tmp_path)


@pytest.mark.parametrize(
    "line",
    [
        "k_units = -1",
        "k_units = true",
        "k_units = 2.7",
        'k_units = "3"',
        "k_chunks = 1001",
        "max_tokens = -5",
        "region_threshold = 9",
        "lock_wait_s = inf",
        "lock_wait_s = false",
        "join_threshold = nan",
        "encoder = 5",
        "images = []",
    ],
)
def test_a_line_out_of_range_is_named_with_its_file(tmp_path, line):
    path = tmp_path / "ku.toml"
    path.write_text(line, encoding="utf-8")
    with pytest.raises(BadInput, match=rf"ku\.toml: {line.split()[0]} is "):
        KnowledgeBase.open(tmp_path)


@pytest.mark.parametrize(
    "options",
    [
        {"k_units": True},
        {"k_units": 2.7},
        {"k_chunks": "3"},
        {"join_threshold": float("nan")},
        {"images": 5},
    ],
)
def test_an_argument_out_of_range_is_named(tmp_path, options):
    with pytest.raises(BadInput, match=f"^argument {next(iter(options))} is "):
        KnowledgeBase.open(tmp_path, **options)


def test_an_unknown_setting_is_named_with_its_place(tmp_path):
    with pytest.raises(BadInput, match="argument k_chunk: there is no setting"):
        KnowledgeBase.open(tmp_path, k_chunk=4)


def test_what_is_written_is_read_again(tmp_path):
    model = 'C:\\new\\"weights".gguf'
    KnowledgeBase.open(tmp_path / "kb", create=True, mllm=model, device="cpu", k_units=9).close()
    with KnowledgeBase.open(tmp_path / "kb") as kb:
        assert (kb.settings.mllm, kb.settings.device, kb.settings.k_units) == (model, "auto", 9)


@pytest.mark.parametrize("kind", ["brackets", "braces", "folder", "pipe", "large"])
def test_a_file_that_holds_no_settings_is_named(tmp_path, kind):
    path = tmp_path / "ku.toml"
    match kind:
        case "brackets":
            path.write_text("a = " + "[" * 100_000)
        case "braces":
            path.write_text("a = " + "{b = " * 100_000)
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "large":
            path.write_text("#" * (2 << 20))
    reasons = {"folder": "is a folder", "pipe": "is a pipe", "large": "2,097,152 bytes"}
    with pytest.raises(BadInput, match=rf"ku\.toml .*{reasons.get(kind, 'nested too deep')}"):
        KnowledgeBase.open(tmp_path)


def test_a_language_that_was_changed_is_reported_with_what_to_do(tmp_path):
    with KnowledgeBase.open(tmp_path / "kb", create=True, language="german") as kb:
        kb.add(Unit("Katze", texts=["Katzen schlafen."]))
    with KnowledgeBase.open(tmp_path / "kb") as kb:
        assert [chunk.text for chunk in kb.search(text="schlafende").chunks] == ["Katzen schlafen."]
    toml = tmp_path / "kb" / "ku.toml"
    toml.write_text(toml.read_text().replace('"german"', '"english"'))
    with pytest.raises(
        Mismatch, match=r"filled with language = 'german'.*'english': change it back"
    ):
        KnowledgeBase.open(tmp_path / "kb", read_only=True)
