"""A base on a medium without write access is opened for reading."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ku_rag import KnowledgeBase, Unit
from ku_rag.errors import ReadOnly


@pytest.fixture
def medium(tmp_path):
    """An empty folder on a separate file system, and a function that makes it read-only."""
    folder = tmp_path / "medium"
    folder.mkdir()

    def mount(*options: str) -> int:
        command = ["mount", *options, "-t", "tmpfs", "tmpfs", str(folder)]
        return subprocess.run(command, capture_output=True).returncode

    if mount():
        pytest.skip("no file system can be mounted here")
    yield folder, lambda: mount("-o", "remount,ro")
    subprocess.run(["umount", str(folder)], check=True)


def test_a_base_on_a_read_only_medium_answers(medium):
    folder, protect = medium
    with KnowledgeBase.open(folder / "kb", create=True) as kb:
        kb.add(Unit("Anvil", id="anvil", texts=("The anvil weighs 90 kilograms.",)))
    assert not (folder / "kb" / "ku.sqlite-shm").exists()
    assert protect() == 0
    with KnowledgeBase.open(folder / "kb", read_only=True) as kb:
        assert kb.show("anvil").id == "anvil"
        assert kb.search(text="anvil", k=1).chunks
        assert "90" in kb.query(None, "How much does the anvil weigh?").answer
        assert kb.verify().ok
        with pytest.raises(ReadOnly, match="opened read-only"):
            kb.delete("anvil")
    with pytest.raises(ReadOnly, match="cannot be written to"):
        KnowledgeBase.open(folder / "kb").add(Unit("Bellows"))


def test_commits_in_the_log_of_a_read_only_medium_are_not_passed_over(medium):
    folder, protect = medium
    kb = KnowledgeBase.open(folder / "kb", create=True)
    kb.add(Unit("Anvil", id="anvil"))
    files = {path: path.read_bytes() for path in (folder / "kb").glob("ku.sqlite*")}
    kb.close()
    for path, data in files.items():  # the state that a killed process leaves
        if path.suffix != ".sqlite-shm":
            path.write_bytes(data)
    assert protect() == 0
    with pytest.raises(ReadOnly, match=r"commits in ku\.sqlite-wal"):
        KnowledgeBase.open(folder / "kb", read_only=True)


def test_a_reader_without_write_permission_follows_a_copy(tmp_path):
    copy, view, increment = tmp_path / "copy", tmp_path / "view", tmp_path / "increment"
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.add(Unit("Anvil", id="anvil", texts=("The anvil weighs 90 kilograms.",)))
        kb.snapshot(copy)
        kb.add(Unit("Bellows", id="bellows", texts=("The bellows weigh 9 kilograms.",)))
        kb.delete("anvil")
        kb.snapshot(increment, since=copy)
    view.mkdir()
    if subprocess.run(["mount", "--bind", copy, view], capture_output=True).returncode:
        pytest.skip("no folder can be mounted here")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", view], check=True)
        with KnowledgeBase.open(view, read_only=True) as reader:
            assert reader.search(text="anvil", k=1).chunks
            apply = ["-m", "ku_rag", "snapshot", increment, "--apply", "--quiet", "--kb", copy]
            subprocess.run([sys.executable, *apply], check=True)
            assert [unit.id for unit in reader.list()] == ["bellows"]
            (chunk,) = reader.search(text="bellows", k=2).chunks
            assert chunk.text == "The bellows weigh 9 kilograms."
        for name in ("ku.sqlite-shm", "ku.sqlite-wal"):
            (copy / name).unlink()
        with pytest.raises(ReadOnly, match="as a copy, may get them: open it once"):
            KnowledgeBase.open(view, read_only=True)
    finally:
        subprocess.run(["umount", view], check=True)
