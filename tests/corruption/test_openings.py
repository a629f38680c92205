"""Opening a base beside a writer never reports damage that does not exist."""

from __future__ import annotations

import logging
import multiprocessing
import time
from contextlib import suppress
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path

from ku_rag import KnowledgeBase, Unit
from ku_rag.errors import Locked
from ku_rag.store import connection
from ku_rag.store.database import Database

READERS = 3
SHORT_S, LONG_S, START_S = 2, 60, 120.0


def _open_again_and_again(file: Path, number: int, ready: Barrier, stop: Event, results) -> None:
    """Open and close repeatedly, every other time for writing; keep an older state at times."""
    warnings: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: warnings.append(record.getMessage())
    logging.getLogger("ku_rag").addHandler(handler)
    opened = 0
    ready.wait(START_S)
    while not stop.is_set():
        database = Database(file, read_only=(opened + number) % 2 == 0)
        if opened % 5 == 0:
            warnings += filter(None, [database.lost_commits()])
        if opened % 7 == 0:
            database.connection.execute("BEGIN")
            database.connection.execute("SELECT count(*) FROM chunks").fetchone()
            time.sleep(0.02)
        database.close()
        opened += 1
    results.put((opened, warnings))


def test_nobody_is_told_of_damage_beside_a_writer(tmp_path, rounds, caplog, monkeypatch):
    # Frequent checkpoints could be mistaken for damage.
    monkeypatch.setattr(connection, "LOG_BYTES", 200_000)
    context = multiprocessing.get_context("spawn")
    ready, stop, results = context.Barrier(READERS + 1), context.Event(), context.Queue()
    folder = tmp_path / "kb"
    KnowledgeBase.open(folder, create=True).close()
    readers = [
        context.Process(
            target=_open_again_and_again, args=(folder / "ku.sqlite", number, ready, stop, results)
        )
        for number in range(READERS)
    ]
    for reader in readers:
        reader.start()
    # A process takes seconds to start while the tests of other cores run.
    ready.wait(START_S)
    until = time.monotonic() + rounds(SHORT_S, LONG_S)
    changes = 0
    while time.monotonic() < until:
        with KnowledgeBase.open(folder, lock_wait_s=60) as kb:
            for n in range(12):
                text = f"Lamp {changes} hangs in street {n}. " * 30
                kb.add(Unit(f"Lamp {n}", id=f"lamp-{changes}", texts=(text,)))
                changes += 1
            kb.delete(f"lamp-{changes - 1}")
            kb.delete(f"lamp-{changes - 5}")
            if changes % 36 == 0:
                _compact(kb)
    stop.set()
    outcomes = [results.get(timeout=60) for _ in readers]
    for reader in readers:
        reader.join()
    assert [warnings for _, warnings in outcomes] == [[]] * READERS
    assert min(opened for opened, _ in outcomes) >= 3
    assert [record.getMessage() for record in caplog.records if record.levelno > 20] == []
    with KnowledgeBase.open(folder) as kb:
        assert kb.verify().ok
    assert not (folder / "ku.sqlite-wal").exists()


def _compact(kb: KnowledgeBase) -> None:
    kb._database.connection.set_busy_timeout(100)
    with suppress(Locked):  # by a reader of an older state; only the log is not emptied
        kb.compact()


def test_a_base_that_many_close_at_once_is_sound(tmp_path, caplog):
    folder = tmp_path / "kb"
    context = multiprocessing.get_context("spawn")
    with KnowledgeBase.open(folder, create=True) as kb:
        kb.add(Unit("Lamp", id="lamp"))
        closers = [
            context.Process(target=_open_and_close, args=(folder / "ku.sqlite", n))
            for n in range(4)
        ]
        for process in closers:
            process.start()
        kb.add(Unit("Lantern", id="lantern"))
        for process in closers:
            process.join()
            assert process.exitcode == 0
    with KnowledgeBase.open(folder) as kb:
        assert kb.verify().ok
    assert [record.getMessage() for record in caplog.records if record.levelno > 20] == []


def _open_and_close(file: Path, number: int) -> None:
    for _ in range(20):
        database = Database(file, read_only=number == 0)
        assert database.lost is None
        database.close()
