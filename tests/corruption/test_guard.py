"""The guard: what it takes for damage, and what it must never take for it."""

from __future__ import annotations

import logging
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from ku_rag import KnowledgeBase, Unit
from ku_rag.errors import Corrupt
from ku_rag.store import guard, guarding, pages, wal
from ku_rag.store.database import Database
from tests.conftest import picture


@pytest.fixture
def path(tmp_path) -> Path:
    """A closed base with some units, and a guard that knows all its pages."""
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        for n in range(5):
            kb.add(_unit(n))
    return tmp_path / "kb"


def _unit(n: int) -> Unit:
    return Unit(f"Lamp {n}", id=f"lamp-{n}", texts=(f"Lamp {n} hangs in street {n}. " * 20,))


def _said(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def _killed(path: Path) -> Path:
    """A copy as it lies, which is what a process that was killed now would leave."""
    copy = path.with_name("killed")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(path, copy)
    return copy


def _flip(file: Path, place: int) -> None:
    data = bytearray(file.read_bytes())
    data[place] ^= 1
    file.write_bytes(data)


def _place_of(file: Path, text: bytes) -> int:
    place = file.read_bytes().find(text)
    assert place > 0
    return place


# ---- what the guard knows ----------------------------------------------------------------------


def test_a_closed_base_has_the_sums_of_its_pages_and_nothing_in_the_log(path):
    stored = guard.read(path / "ku.sqlite")
    data = (path / "ku.sqlite").read_bytes()
    size = stored.page_size
    found = [zlib.crc32(data[n : n + size]) for n in range(0, len(data), size)]
    assert (list(stored.sums), stored.whole, stored.between) == (found, True, {})
    assert stored.commits == 6  # the manifest, and five units
    assert not (path / "ku.sqlite-wal").exists()


def test_a_base_without_a_guard_gets_one_and_nobody_complains(path, caplog):
    (path / "ku.guard").unlink()
    with KnowledgeBase.open(path, read_only=True) as kb:
        assert kb.verify()["ok"]
    assert not (path / "ku.guard").exists()
    with KnowledgeBase.open(path) as kb:
        kb.add(_unit(9))
    assert _said(caplog) == []
    stored = guard.read(path / "ku.sqlite")
    assert stored.whole
    assert stored.commits == 7


def test_changes_that_change_nothing_are_no_commits(path):
    with KnowledgeBase.open(path) as kb:
        kb.add(_unit(1))
        assert guard.last_commit(path / "ku.sqlite") == 6


def test_a_base_that_nobody_closes_is_folded_when_its_process_ends(path):
    script = (
        "import sys; from ku_rag import KnowledgeBase, Unit\n"
        "kb = KnowledgeBase.open(sys.argv[1]); kb.add(Unit('Left', id='left'))"
    )
    subprocess.run([sys.executable, "-c", script, str(path)], check=True)
    assert not (path / "ku.sqlite-wal").exists()
    assert guard.read(path / "ku.sqlite").commits == 7


def test_the_log_stays_short_while_much_is_written(path, monkeypatch):
    monkeypatch.setattr(guarding, "LONG_LOG_BYTES", 1 << 20)
    longest = 0
    with KnowledgeBase.open(path) as kb:
        for n in range(60):
            kb.add(_unit(100 + n))
            longest = max(longest, wal.bytes_in_log(path / "ku.sqlite"))
    assert (1 << 19) < longest < (2 << 20)


# ---- what is no damage -------------------------------------------------------------------------


def _stop_before(what: str):
    def stop(*_: object, **__: object) -> None:
        raise OSError(f"stopped before {what}")

    return stop


@pytest.mark.parametrize("step", ["begin_fold", "end_fold", "_checkpoint"])
def test_a_fold_that_stops_anywhere_is_no_damage(path, monkeypatch, caplog, step):
    with KnowledgeBase.open(path) as kb:
        kb.add(_unit(7))
        kb.delete("lamp-1")
        with monkeypatch.context() as patch:
            if step == "_checkpoint":
                patch.setattr(guarding.Guarded, step, _stop_before(step))
            else:
                patch.setattr(guard, step, _stop_before(step))
            with pytest.raises(OSError, match="stopped before"):
                kb._database.fold()
        copy = _killed(path)
    with KnowledgeBase.open(copy) as kb:
        assert kb.verify()["ok"]
        assert "lamp-7" in [unit["id"] for unit in kb.list()]
    with KnowledgeBase.open(copy) as kb:
        assert kb.verify()["ok"]
    assert _said(caplog) == []


def test_a_fold_that_a_reader_holds_back_is_no_damage(path, caplog):
    with KnowledgeBase.open(path) as kb:
        kb.add(_unit(7))
        with KnowledgeBase.open(path, read_only=True) as reader:
            connection = reader._database.connection
            connection.execute("BEGIN")
            connection.execute("SELECT count(*) FROM units").fetchone()
            kb.add(_unit(8))
            kb.delete("lamp-1")
            assert not kb._database.fold()
            assert KnowledgeBase.open(_killed(path)).verify()["ok"]
            kb.add(_unit(9))
            assert not kb._database.fold()
            connection.execute("ROLLBACK")
    with KnowledgeBase.open(path) as kb:
        assert kb.verify()["ok"]
    assert _said(caplog) == []
    assert not (path / "ku.sqlite-wal").exists()


def test_a_reader_that_closes_last_while_another_holds_the_lock_folds_nothing(path):
    with KnowledgeBase.open(path) as writer:
        writer.add(_unit(7))
        copy = _killed(path)
    reader = Database(copy / "ku.sqlite")
    script = (
        "import fcntl, sys; f = open(sys.argv[1]); fcntl.flock(f, 2); print(flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(copy / "writer.lock")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as holder:  # fmt: skip
        holder.stdout.readline()
        before = (copy / "ku.sqlite").read_bytes()
        reader.close()
        assert (copy / "ku.sqlite").read_bytes() == before
        assert wal.bytes_in_log(copy / "ku.sqlite") > 0
        holder.communicate(b"\n")


# ---- what is damage ----------------------------------------------------------------------------


@pytest.mark.parametrize("read_only", [True, False])
def test_a_flipped_bit_in_an_index_is_told_at_opening_and_named_by_verify(path, caplog, read_only):
    entry = re.search(rb"lamp-3[\x01-\x1f]", (path / "ku.sqlite").read_bytes())
    _flip(path / "ku.sqlite", entry.start() + 3)
    before = (path / "ku.guard").read_bytes()
    with KnowledgeBase.open(path, read_only=read_only) as kb:
        (said,) = _said(caplog)
        assert "1 page was not written so in" in said
        assert "ku export --salvage DIR" in said
        (problem, *_) = kb.verify()["problems"]
    assert "of sqlite_autoindex_units_1" in problem
    assert (path / "ku.guard").read_bytes() == before


def test_of_a_large_file_a_window_is_read(path, monkeypatch):
    monkeypatch.setattr(pages, "CHECKED_BYTES", 1 << 16)
    file = path / "ku.sqlite"
    assert file.stat().st_size > 4 * (1 << 16)
    _flip(file, file.stat().st_size - 5)
    random.seed(7)
    doubted = []
    for _ in range(60):
        database = Database(file, read_only=True)
        doubted.append(bool(database.doubts))
        assert len(list(database.problems())) == 1
        database.close()
    assert 0 < sum(doubted) < 60


def test_compact_accepts_what_is_sound_and_refuses_what_is_not(path, caplog):
    foreign = sqlite3.connect(path / "ku.sqlite")
    foreign.execute("UPDATE units SET name = name")
    foreign.execute("INSERT INTO meta VALUES ('note', '1')")
    foreign.commit()
    foreign.close()
    with KnowledgeBase.open(path) as kb:
        assert [problem for problem in kb.verify()["problems"] if "not written so" in problem]
        kb.compact()
        assert kb.verify()["ok"]
    caplog.clear()
    with KnowledgeBase.open(path) as kb:
        assert kb.verify()["ok"]
    assert _said(caplog) == []
    _flip(path / "ku.sqlite", _place_of(path / "ku.sqlite", b"Lamp 3 hangs"))
    with KnowledgeBase.open(path) as kb:
        with pytest.raises(Corrupt, match="would hide it"):
            kb.compact()
        assert not kb.verify()["ok"]


def test_lost_commits_are_told_until_compact_accepts_it(path, caplog):
    kb = KnowledgeBase.open(path)
    kb.add(_unit(7))
    kb.add(_unit(8))
    copy = _killed(path)
    kb.close()
    (copy / "ku.sqlite-wal").unlink()
    with KnowledgeBase.open(copy) as kb:
        assert "2 commits were lost: ku.guard knows of commit 8" in _said(caplog)[0]
        assert [p for p in kb.verify()["problems"] if "2 commits were lost" in p]
        kb.add(_unit(9))
        assert guard.last_commit(copy / "ku.sqlite") == 9  # no number comes twice
    caplog.clear()
    with KnowledgeBase.open(copy) as kb:
        assert "2 commits were lost" in _said(caplog)[0]
        kb.compact()
        assert kb.verify()["ok"]
    caplog.clear()
    KnowledgeBase.open(copy).close()
    assert _said(caplog) == []


def test_an_older_copy_of_the_file_is_told_as_lost_commits(path, caplog):
    shutil.copy(path / "ku.sqlite", path.with_name("older"))
    with KnowledgeBase.open(path) as kb:
        kb.add(_unit(7))
    shutil.copy(path.with_name("older"), path / "ku.sqlite")
    KnowledgeBase.open(path, read_only=True).close()
    (said,) = _said(caplog)
    assert "1 commit was lost" in said


def test_damage_to_the_log_while_it_is_in_use_is_not_made_sound(path, caplog):
    with KnowledgeBase.open(path) as kb:
        kb.add(_unit(7))
        log = path / "ku.sqlite-wal"
        place = _place_of(log, b"Lamp 7 hangs") + 2
        with log.open("r+b") as file:
            file.seek(place)
            byte = file.read(1)[0]
            file.seek(place)
            file.write(bytes([byte ^ 1]))
    assert "was damaged while it was in use" in _said(caplog)[0]
    with KnowledgeBase.open(path) as kb:
        assert not kb.verify()["ok"]


def test_a_picture_that_was_changed_is_not_compared_with(tmp_path):
    shown = picture(tmp_path / "lamp.bmp", 3)
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.add(Unit("Lamp", id="lamp", images=(shown,)))
        (stored,) = (tmp_path / "kb" / "images").rglob("*.bmp")
        _flip(stored, stored.stat().st_size // 2)
        with pytest.raises(Corrupt, match="is not the picture that was stored"):
            kb.query(shown, "What is this?")


# ---- SQLite's log ------------------------------------------------------------------------------


def test_a_damaged_log_is_read_as_far_as_sqlite_reads_it(tmp_path):
    rng = random.Random(11)
    made = tmp_path / "made" / "ku.sqlite"
    made.parent.mkdir()
    connection = sqlite3.connect(made, isolation_level=None)
    connection.execute("PRAGMA page_size = 8192")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    connection.execute("CREATE TABLE t (x)")
    for _ in range(20):
        connection.execute("BEGIN")
        for _ in range(rng.randint(1, 6)):
            connection.execute("INSERT INTO t VALUES (?)", (rng.randbytes(3000),))
        connection.execute("COMMIT")
    sound = wal.log_of(made).read_bytes()
    for trial in range(60):
        copy = tmp_path / str(trial) / "ku.sqlite"
        copy.parent.mkdir()
        shutil.copy(made, copy)
        damaged = bytearray(sound)
        damaged[rng.randrange(len(sound))] ^= 1 << rng.randrange(8)
        if trial % 3 == 0:
            del damaged[rng.randrange(len(sound)) :]
        wal.log_of(copy).write_bytes(damaged if trial else sound)
        log = wal.read(copy)
        sums = log.sums()
        other = sqlite3.connect(copy, isolation_level=None)
        other.execute("PRAGMA wal_autocheckpoint = 0")
        other.execute("SELECT count(*) FROM sqlite_master").fetchone()
        _, frames, _ = other.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        data = copy.read_bytes()
        other.close()
        assert log.frames == max(0, frames)
        for page, found in sums.items() if frames > 0 else ():
            assert zlib.crc32(data[(page - 1) * 8192 : page * 8192]) == found
    connection.close()


def test_the_handle_of_the_file_goes_with_the_last_connection(path):
    first, second = Database(path / "ku.sqlite"), Database(path / "ku.sqlite", read_only=True)
    assert _handles(path / "ku.sqlite") >= 3  # one each of SQLite's, and ours
    first.close()
    assert pages._held
    second.close()
    assert not pages._held
    assert _handles(path / "ku.sqlite") == 0


def _handles(path: Path) -> int:
    return sum(
        os.path.realpath(f"/proc/self/fd/{number}") == str(path.resolve())
        for number in os.listdir("/proc/self/fd")
    )
