"""Damaged pages, lost commits and foreign writes are reported."""

from __future__ import annotations

import logging
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ku_rag import KnowledgeBase, Unit
from ku_rag.errors import Corrupt, KuError
from ku_rag.store import connection
from tests.conftest import picture

PAGE = 8192


@pytest.fixture
def path(tmp_path) -> Path:
    """A closed base with some units and no free pages."""
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        for n in range(5):
            kb.add(_unit(n))
        kb.compact()
    return tmp_path / "kb"


def _unit(n: int) -> Unit:
    return Unit(f"Lamp {n}", id=f"lamp-{n}", texts=(f"Lamp {n} hangs in street {n}. " * 20,))


def _warnings(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def _killed(path: Path) -> Path:
    """A copy of an open base, the state that a killed process would leave."""
    copy = path.with_name("killed")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(path, copy)
    return copy


def _flip(file: Path, place: int, bit: int = 0) -> None:
    data = bytearray(file.read_bytes())
    data[place] ^= 1 << bit
    file.write_bytes(data)


def test_every_flipped_bit_is_reported_when_it_is_read_and_by_verify(path):
    rng = random.Random(60)
    sound = (path / "ku.sqlite").read_bytes()
    # Bytes of a freed page are never read again.
    with KnowledgeBase.open(path, read_only=True) as kb:
        assert kb._database.connection.execute("PRAGMA freelist_count").fetchone() == (0,)
    missed = []
    for _ in range(60):
        place, bit = rng.randrange(len(sound)), rng.randrange(8)
        _flip(path / "ku.sqlite", place, bit)
        try:
            with KnowledgeBase.open(path, read_only=True) as kb:
                if kb.verify().ok:
                    missed.append((place, bit))
        except KuError:
            pass
        (path / "ku.sqlite").write_bytes(sound)
    assert missed == []


@pytest.mark.parametrize("read_only", [True, False])
def test_a_damaged_page_of_an_index_says_what_to_do(path, read_only):
    entry = re.search(rb"lamp-3[\x01-\x1f]", (path / "ku.sqlite").read_bytes())
    _flip(path / "ku.sqlite", entry.start() + 3)
    with KnowledgeBase.open(path, read_only=read_only) as kb:
        with pytest.raises(Corrupt, match=r"a page fails its checksum.*ku verify.*--salvage"):
            kb.show("lamp-3")
        assert [p for p in kb.verify().problems if "cannot be read any further" in p]


def test_a_write_by_another_program_is_reported(path):
    script = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1])\n"
        "c.execute('UPDATE units SET name = name || 1'); c.commit(); c.close()"
    )
    subprocess.run([sys.executable, "-c", script, str(path / "ku.sqlite")], check=True)
    with (
        pytest.raises(Corrupt, match="damaged, or a program other than ku-rag wrote it"),
        KnowledgeBase.open(path) as kb,
    ):
        list(kb.list())


def test_compacting_does_not_hide_a_damaged_page(path):
    place = (path / "ku.sqlite").read_bytes().find(b"Lamp 3 hangs")
    _flip(path / "ku.sqlite", place)
    with KnowledgeBase.open(path) as kb:
        with pytest.raises(Corrupt):
            kb.compact()
        assert not kb.verify().ok


def test_lost_commits_are_reported_until_compact_accepts_it(path, caplog):
    kb = KnowledgeBase.open(path)
    kb.add(_unit(7))
    kb.add(_unit(8))
    copy = _killed(path)
    kb.close()
    (copy / "ku.sqlite-wal").unlink()
    with KnowledgeBase.open(copy) as kb:
        assert "2 commits were lost: ku.commits names commit" in _warnings(caplog)[0]
        assert [p for p in kb.verify().problems if "2 commits were lost" in p]
        kb.add(_unit(9))
    caplog.clear()
    with KnowledgeBase.open(copy) as kb:
        assert "2 commits were lost" in _warnings(caplog)[0]
        kb.compact()
        assert kb.verify().ok
    caplog.clear()
    KnowledgeBase.open(copy).close()
    assert _warnings(caplog) == []


def test_a_damaged_log_is_reported_as_lost_commits(path, caplog):
    with KnowledgeBase.open(path) as kb:
        kb.add(_unit(7))
        copy = _killed(path)
    log = copy / "ku.sqlite-wal"
    _flip(log, log.read_bytes().find(b"Lamp 7 hangs"))
    with KnowledgeBase.open(copy) as kb:
        assert "1 commit was lost" in _warnings(caplog)[0]
        assert not kb.verify().ok


def test_an_older_copy_of_the_file_is_reported_as_lost_commits(path, caplog):
    shutil.copy(path / "ku.sqlite", path.with_name("older"))
    with KnowledgeBase.open(path) as kb:
        kb.add(_unit(7))
    shutil.copy(path.with_name("older"), path / "ku.sqlite")
    KnowledgeBase.open(path, read_only=True).close()
    (warning,) = _warnings(caplog)
    assert "1 commit was lost" in warning


@pytest.mark.parametrize("content", [None, b"", b"nonsense", b"00000000000000009999 00000000\n"])
def test_a_number_that_is_gone_or_damaged_reports_no_loss(path, caplog, content):
    (path / "ku.commits").unlink()
    if content is not None:
        (path / "ku.commits").write_bytes(content)
    with KnowledgeBase.open(path) as kb:
        kb.add(_unit(7))
        assert kb.verify().ok
    assert _warnings(caplog) == []


def test_a_crash_between_a_commit_and_its_number_is_no_loss(path, caplog):
    before = (path / "ku.commits").read_bytes()
    with KnowledgeBase.open(path) as kb:
        kb.add(_unit(7))
        copy = _killed(path)
    (copy / "ku.commits").write_bytes(before)
    with KnowledgeBase.open(copy) as kb:
        assert kb.show("lamp-7").id == "lamp-7"
        assert kb.verify().ok
    assert _warnings(caplog) == []


def test_the_log_stays_short_while_much_is_written(path, monkeypatch):
    monkeypatch.setattr(connection, "LOG_BYTES", 1 << 20)
    longest = 0
    with KnowledgeBase.open(path) as kb:
        for n in range(60):
            kb.add(_unit(100 + n))
            longest = max(longest, (path / "ku.sqlite-wal").stat().st_size)
    assert (1 << 19) < longest < (2 << 20)
    assert not (path / "ku.sqlite-wal").exists()


def test_a_base_that_nobody_closes_is_complete_when_its_process_ends(path):
    script = (
        "import sys; from ku_rag import KnowledgeBase, Unit\n"
        "kb = KnowledgeBase.open(sys.argv[1]); kb.add(Unit('Left', id='left'))"
    )
    subprocess.run([sys.executable, "-c", script, str(path)], check=True)
    assert not (path / "ku.sqlite-wal").exists()
    with KnowledgeBase.open(path) as kb:
        assert kb.show("left").id == "left"


def test_adding_deleting_and_compacting_again_and_again_stays_silent(tmp_path, rounds, caplog):
    for round_ in range(rounds(4, 100)):
        with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
            for n in range(80):
                kb.add(Unit(f"Lamp {n}", id=f"lamp-{n}", texts=(f"Lamp {n}, round {round_}.",)))
            kb.delete([f"lamp-{n}" for n in range(80)])
            kb.compact()
        assert _warnings(caplog) == []
    with KnowledgeBase.open(tmp_path / "kb") as kb:
        assert kb.verify().ok


def test_a_picture_that_was_changed_is_not_compared_with(tmp_path):
    photo = picture(tmp_path / "lamp.bmp", 3)
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.add(Unit("Lamp", id="lamp", images=(photo,)))
        (stored,) = (tmp_path / "kb" / "images").rglob("*.bmp")
        _flip(stored, stored.stat().st_size // 2)
        with pytest.raises(Corrupt, match="is not the picture that was stored"):
            kb.query(photo, "What is this?")
