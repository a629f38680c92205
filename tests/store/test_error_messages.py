"""Errors of SQLite, files and threads become errors that name a remedy."""

from __future__ import annotations

import errno
import os
import subprocess
import sys

import pytest

from ku_rag import KnowledgeBase, Unit
from ku_rag.errors import ReadOnly
from tests.conftest import picture

WITHOUT_MEMORY = """
import sys
import apsw
from ku_rag import KnowledgeBase, Unit

with KnowledgeBase.open(sys.argv[1]) as kb:
    apsw.hard_heap_limit(apsw.memory_used() + 4096)
    try:
        kb.add(Unit("Oak", id="oak", texts=("It is old. " * 500,)))
    except MemoryError as error:
        print(error)
    apsw.hard_heap_limit(0)
    print([unit.id for unit in kb.list()], kb.verify().problems)
    kb.add(Unit("Oak", id="oak", texts=("It is old.",)))
    print([unit.id for unit in kb.list()])
"""


def test_sqlite_without_memory_is_a_memory_error_and_changes_nothing(tmp_path):
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.add(Unit("Elm", id="elm", texts=("It is tall.",)))
    process = subprocess.run(
        [sys.executable, "-c", WITHOUT_MEMORY, str(tmp_path / "kb")], capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr
    reason, before, after = process.stdout.splitlines()
    assert reason == f"SQLite ran out of memory for {tmp_path}/kb/ku.sqlite: nothing was changed"
    assert (before, after) == ("['elm'] ()", "['elm', 'oak']")


WITHOUT_THREADS = """
import sys
import threading
from ku_rag import KnowledgeBase

with KnowledgeBase.open(sys.argv[1], create=True) as kb:
    threading.stack_size(1 << 46)
    try:
        kb.ingest(sys.argv[2])
    except MemoryError as error:
        print(error)
    threading.stack_size(0)
    print(len(kb.list()), kb.ingest(sys.argv[2]).units_added)
"""


def test_threads_that_cannot_start_are_a_memory_error(tmp_path):
    (tmp_path / "oak.txt").write_text("It is old.")
    arguments = [str(tmp_path / "kb"), str(tmp_path / "oak.txt")]
    process = subprocess.run(
        [sys.executable, "-c", WITHOUT_THREADS, *arguments], capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr
    reason, after = process.stdout.splitlines()
    assert reason == "the system has no room for another thread: can't start new thread"
    assert after == "0 1"


def test_a_picture_that_cannot_be_deleted_is_named_by_compact(tmp_path, monkeypatch):
    unlink = os.unlink

    def fail(path, *args, **options):
        if "/images/" in os.fspath(path):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        unlink(path, *args, **options)

    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.add(Unit("Elm", id="elm", images=(picture(tmp_path / "elm.png", 1),)))
        (image,) = (tmp_path / "kb" / "images").glob("*/*")
        kb.delete("elm")
        monkeypatch.setattr(os, "unlink", fail)
        with pytest.raises(ReadOnly, match=f"{image} cannot be written or deleted"):
            kb.compact()
        monkeypatch.undo()
        kb.compact()
        assert not image.exists()
