"""A base that follows the changes of a folder."""

import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Timer

import pytest

from ku_rag import KnowledgeBase, KuError


def test_changes_of_a_folder_are_synced(tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "lamp.md").write_text("The lamp is green.")
    stop = Event()
    limit = Timer(60, stop.set)
    limit.start()
    with KnowledgeBase.open(folder / "kb", create=True) as kb:
        updates = kb.watch(folder, stop=stop)
        first = next(updates)
        assert (first.files, first.report.units_added) == ((), 1)
        (folder / "cup.md").write_text("The cup is red.")
        second = next(updates)
        assert second.files == (f"added {folder / 'cup.md'}",)
        assert second.report.units_added == 1
        shutil.move(folder / "cup.md", folder / "mug.md")
        third = next(updates)
        assert [line.split()[0] for line in third.files] == ["added", "deleted"]
        assert third.report.units_deleted == ["cup"]
        assert [unit.id for unit in kb.list()] == ["lamp", "mug"]
        (folder / "lamp.md").unlink()
        (folder / "mug.md").unlink()
        (folder / "other.md").write_text("Something else.")
        fourth = next(updates)
        assert "--yes" in fourth.refused
        assert [unit.id for unit in kb.list()] == ["lamp", "mug"]
        stop.set()
        assert list(updates) == []
    limit.cancel()


def test_a_base_below_the_folder_starts_no_sync(tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "lamp.md").write_text("The lamp is green.")
    KnowledgeBase.open(folder / "kb", create=True).close()
    (tmp_path / "link").symlink_to(folder)
    stop = Event()
    with KnowledgeBase.open(tmp_path / "link" / "kb") as kb:
        changes = kb.watch(folder, stop=stop)
        assert next(changes).report.units_added == 1
        Timer(2, stop.set).start()
        assert list(changes) == []


def test_a_sync_waits_until_another_process_has_written(tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "lamp.md").write_text("The lamp is green.")
    with (
        KnowledgeBase.open(tmp_path / "kb", create=True, lock_wait_s=0.1) as kb,
        KnowledgeBase.open(tmp_path / "kb") as writer,
        ThreadPoolExecutor(1) as pool,
    ):
        changes = kb.watch(folder)
        next(changes)
        with writer.transaction():
            (folder / "cup.md").write_text("The cup is red.")
            change = pool.submit(next, changes)
            time.sleep(2)
            assert not change.done()
        assert change.result(60).files == (f"added {folder / 'cup.md'}",)
        assert [unit.id for unit in kb.list()] == ["cup", "lamp"]


def test_a_file_is_not_watched(kb, tmp_path):
    (tmp_path / "a.md").write_text("x")
    with pytest.raises(KuError, match="no folder"):
        next(kb.watch(tmp_path / "a.md"))


def test_the_command_ends_with_an_interrupt(tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "lamp.md").write_text("The lamp is green.")
    command = [sys.executable, "-m", "ku_rag", "sync", str(folder), "--watch"]
    with subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "KU_KB": str(tmp_path / "kb")},
    ) as process:
        lines = []
        while not any("1 added" in line for line in lines):
            lines.append(process.stderr.readline())
            assert lines[-1], lines
        (folder / "cup.md").write_text("The cup is red.")
        while not any("cup.md" in line for line in lines):
            lines.append(process.stderr.readline())
        process.send_signal(signal.SIGINT)
        assert process.wait(30) in (1, 130)
    with KnowledgeBase.open(Path(tmp_path / "kb")) as kb:
        assert "lamp" in [unit.id for unit in kb.list()]
