"""A snapshot is a usable base, also while others write, delete and compact."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from ku_rag import KnowledgeBase, Unit
from ku_rag.cli import main
from ku_rag.errors import Corrupt, Refused
from tests.assets.schemas import Hashed, fill
from tests.conftest import connect, picture

ROOT = Path(__file__).parents[2]


@pytest.fixture
def base(tmp_path):
    (tmp_path / "data").mkdir()
    with KnowledgeBase.open(tmp_path / "kb", create=True, encoder=Hashed()) as kb:
        fill(kb, tmp_path / "data")
        yield kb


def rows(kb: KnowledgeBase) -> dict[str, list[tuple]]:
    """Every row of every table, except those of SQLite and of the keyword index."""
    connection = kb._database.connection
    names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return {
        name: sorted(connection.execute(f'SELECT * FROM "{name}"'), key=repr)
        for (name,) in names
        if not name.startswith("words_")
    }


def test_a_snapshot_of_more_pages_than_the_cache_has_room_for(base, tmp_path):
    connection = base._database.connection
    base.add(Unit("Long", id="long", texts=[" ".join(map(str, range(200_000)))]))
    connection.execute("PRAGMA cache_size = 10")
    assert connection.execute("PRAGMA page_count").fetchone()[0] > 100
    base.snapshot(tmp_path / "copy")
    with KnowledgeBase.open(tmp_path / "copy", encoder=Hashed()) as kb:
        assert kb.verify().problems == ()
        assert rows(kb) == rows(base)


def test_a_snapshot_is_the_base(base, tmp_path):
    (base.path / "ku.toml").write_text("k_chunks = 5\n")
    report = base.snapshot(tmp_path / "copy").to_dict()
    assert (report["pictures"], report["left_out"]) == (2, [])
    assert report["bytes"] == sum(
        path.stat().st_size for path in (tmp_path / "copy").rglob("*") if path.is_file()
    )
    with KnowledgeBase.open(tmp_path / "copy", encoder=Hashed(), read_only=True) as kb:
        assert rows(kb) == rows(base)
        assert kb.settings.k_chunks == 5
    with KnowledgeBase.open(tmp_path / "copy", encoder=Hashed()) as kb:
        assert kb.verify().problems == ()
        assert [unit.id for unit in kb.list()] == [unit.id for unit in base.list()]
        question = "When was the Green Lighthouse built?"
        assert kb.query(None, question).answer == base.query(None, question).answer
        assert all(Path(image).is_relative_to(kb.path) for image in kb.show("rock").images)
        kb.add(Unit("New", id="new", texts=["Only in the copy."]))
        kb.delete("can")
        kb.compact()
        assert kb.verify().problems == ()
    assert "can" in {unit.id for unit in base.list()}
    assert base.verify().problems == ()


def test_a_snapshot_holds_no_text_that_was_deleted(base, tmp_path):
    secret = "The password is swordfish."
    base.add(Unit("Secret", id="secret", texts=[secret]))
    base.delete("secret")
    files = base.path.glob("ku.sqlite*")
    assert secret.encode() in b"".join(path.read_bytes() for path in files)
    base.snapshot(tmp_path / "copy")
    assert secret.encode() not in (tmp_path / "copy" / "ku.sqlite").read_bytes()
    with KnowledgeBase.open(tmp_path / "copy", encoder=Hashed()) as kb:
        before = (kb.path / "ku.sqlite").read_bytes()
        with pytest.raises(Refused, match=r"unchanged copy, .*restored backup, delete .*ku\.copy"):
            kb.compact()
        assert (kb.path / "ku.sqlite").read_bytes() == before
        (kb.path / "ku.copy").unlink()
        kb.compact()  # until then, single words stay in the keyword index, as in the base
    assert b"swordfish" not in (tmp_path / "copy" / "ku.sqlite").read_bytes()


def test_a_full_disk_is_named_by_the_copy_not_by_the_base(base, tmp_path):
    program = (
        "import resource, sys; from ku_rag.cli import main;"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000));"
        "sys.argv[1:] = ['snapshot', 'copy', '--kb', 'kb']; main()"
    )
    # -B: files cannot grow, and an incomplete file of bytecode would remain.
    command = [sys.executable, "-B", "-c", program]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert process.returncode == 1
    assert f"a snapshot cannot be written to {tmp_path}/copy (" in process.stderr
    assert not list(tmp_path.glob("*copy*"))


def test_pictures_are_linked_on_request(base, tmp_path):
    report = base.snapshot(tmp_path / "copy", link=True).to_dict()
    assert report["pictures"] == 2
    for path in (tmp_path / "copy" / "images").glob("*/*"):
        assert path.samefile(base.path / path.relative_to(tmp_path / "copy"))
    base.delete([unit.id for unit in base.list()])
    base.compact()
    with KnowledgeBase.open(tmp_path / "copy", encoder=Hashed()) as kb:
        assert kb.verify().problems == ()


def test_a_folder_that_holds_something_is_refused(base, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(Refused, match="holds other files"):
        base.snapshot(tmp_path / "mine")
    base.snapshot(tmp_path / "copy")
    with pytest.raises(Refused, match="holds other files"):
        base.snapshot(tmp_path / "copy")
    with pytest.raises(Refused):
        base.snapshot(base.path)
    assert sorted(path.name for path in (tmp_path / "mine").iterdir()) == ["thesis.txt"]
    assert list(tmp_path.glob(".*.partial")) == []


def test_a_picture_that_is_missing_or_damaged_is_named(base, tmp_path):
    tower, rock = base.show("rock").to_dict()["images"]
    os.unlink(rock)
    Path(tower).write_bytes(b"something else")
    report = base.snapshot(tmp_path / "copy").to_dict()
    assert report["pictures"] == 0
    assert {item["reason"].rpartition(": ")[2] for item in report["left_out"]} == {
        "No such file or directory",
        "its content has changed",
    }


def test_a_missing_picture_outside_of_the_base_is_named(tmp_path):
    photo = picture(tmp_path / "photos" / "Lamp" / "a.png", 3)
    with KnowledgeBase.open(tmp_path / "kb", create=True, images="link") as kb:
        kb.ingest(tmp_path / "photos")
        assert kb.snapshot(tmp_path / "whole").left_out == []
        photo.unlink()
        (item,) = kb.snapshot(tmp_path / "copy").left_out
    assert item.reason == f"{photo} is not there"


def test_a_damaged_store_is_not_passed_on_as_sound(base, tmp_path):
    for n in range(200):
        base.add(Unit(f"Thing{n}", id=f"t{n}", texts=[f"Number {n} is here. " * 40]))
    base.compact()
    base.close()
    store = tmp_path / "kb" / "ku.sqlite"
    with closing(connect(store)) as connection:
        (root,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'chunks'"
        ).fetchone()
    with store.open("r+b") as file:
        file.seek((root - 1) * 8192)
        file.write(b"\x07" * 64)
    with pytest.raises(Corrupt), KnowledgeBase.open(tmp_path / "kb", encoder=Hashed()) as kb:
        kb.snapshot(tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def writer(folder: Path, loop: str) -> subprocess.Popen:
    """Another process that writes to a base until it is killed."""
    code = (
        "from pathlib import Path\n"
        "from ku_rag import KnowledgeBase, Unit\n"
        "from tests.assets.schemas import Hashed\n"
        "from tests.conftest import picture\n"
        f"kb = KnowledgeBase.open({str(folder)!r}, encoder=Hashed())\n"
        f"data = Path({str(folder.parent / 'more')!r})\n"
        "print('ready', flush=True)\n"
        f"for n in range(10_000):\n{loop}"
    )
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def test_snapshots_are_whole_while_others_add_delete_and_compact(base, tmp_path, rounds):
    process = writer(
        base.path,
        "    kb.add(Unit(f'Late{n}', id=f'late{n}', texts=[f'Number {n}.'],\n"
        "                images=[picture(data / f'{n}.png', n + 10, (8, 8))]))\n"
        "    if n > 3: kb.delete(f'late{n - 3}')\n"
        "    if n % 3 == 0: kb.compact()\n",
    )
    try:
        for n in range(rounds(6, 30)):
            report = base.snapshot(tmp_path / f"copy{n}").to_dict()
            assert report["left_out"] == []
            with KnowledgeBase.open(tmp_path / f"copy{n}", encoder=Hashed()) as kb:
                assert kb.verify().problems == ()
    finally:
        process.kill()
        process.communicate()
    assert list(tmp_path.glob(".*.partial")) == []


def test_a_snapshot_that_is_killed_leaves_no_base(base, tmp_path, rounds):
    for n in range(40):
        base.add(Unit(f"P{n}", id=f"p{n}", images=[picture(tmp_path / "m" / f"{n}.png", n)]))
    code = (
        "from ku_rag import KnowledgeBase\n"
        "from tests.assets.schemas import Hashed\n"
        f"kb = KnowledgeBase.open({str(base.path)!r}, encoder=Hashed(), read_only=True)\n"
        "print('ready', flush=True)\n"
        f"kb.snapshot({str(tmp_path / 'copy')!r})\n"
    )
    for wait in (0.01, 0.03, 0.0, 0.06)[: rounds(2, 4)]:
        process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        if (tmp_path / "copy").exists():
            with KnowledgeBase.open(tmp_path / "copy", encoder=Hashed()) as kb:
                assert kb.verify().problems == ()
            break
    else:
        base.snapshot(tmp_path / "copy")
    assert list(tmp_path.glob(".copy.*.partial")) == []


def test_the_command_copies_a_base(tmp_path, monkeypatch, capsys):
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.add(Unit("Alpha", id="a", texts=["Alpha leads."]))
    argv = ["ku", "snapshot", str(tmp_path / "copy"), "--kb", str(tmp_path / "kb"), "--json"]
    monkeypatch.setattr("sys.argv", argv)
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    report = json.loads(capsys.readouterr().out)
    assert set(report) == {"pictures", "bytes", "left_out", "seconds", "commit", "since"}
    assert (report["commit"] > 0, report["since"]) == (True, None)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    assert "holds other files" in capsys.readouterr().err
    with KnowledgeBase.open(tmp_path / "copy") as kb:
        assert kb.show("a").to_dict()["texts"] == ["Alpha leads."]
