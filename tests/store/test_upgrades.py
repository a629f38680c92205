"""Bases of earlier versions are upgraded with all content, and can then be changed."""

from __future__ import annotations

import fcntl
import json
import shutil
from collections import namedtuple
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from ku_rag import KnowledgeBase, Unit
from ku_rag.errors import Corrupt, Locked, Mismatch, Outdated, ReadOnly
from ku_rag.store import schema
from tests.conftest import connect
from tests.data.bases.stored import FOLDER, MADE_IN, OUTDATED, VERSIONS, unpack


@pytest.fixture(params=VERSIONS)
def unpacked(request, tmp_path):
    """A folder with the base of a version, the answers of that version, and two pictures."""
    lamps = FOLDER / "content" / "lamps"
    shutil.copy(lamps / "Brass Lamp" / "photo.png", tmp_path / "brass.png")
    shutil.copy(lamps / "Paper Lantern" / "photo.png", tmp_path / "lantern.png")
    return unpack(request.param, tmp_path)


@pytest.fixture(params=OUTDATED)
def outdated(request, tmp_path):
    return unpack(request.param, tmp_path) / "kb"


@pytest.fixture
def oldest(tmp_path):
    return unpack("0.1.0", tmp_path) / "kb"


def contents(folder: Path) -> dict[str, bytes]:
    """Every file except those that SQLite creates for each connection."""
    files = (f for f in folder.rglob("*") if f.is_file() and f.suffix[-4:] not in ("-shm", "-wal"))
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


def test_all_content_is_kept_and_the_same_questions_are_answered(unpacked):
    answers = json.loads((unpacked / "answers.json").read_text())
    KnowledgeBase.upgrade(unpacked / "kb")
    with KnowledgeBase.open(unpacked / "kb", read_only=True) as kb:
        assert kb.verify().problems == ()
        assert {unit.id for unit in kb.list()} == answers["units"].keys()
        for unit_id, before in answers["units"].items():
            after = kb.show(unit_id).to_dict()
            for field in before.keys() - {"images", "sources"}:
                assert after[field] == before[field], (unit_id, field)
            assert list(map(_name, after["images"])) == list(map(_name, before["images"]))
            assert len(after["sources"]) == len(before["sources"])
        for image, question, before in answers["queries"]:
            after = kb.query(None if image == "-" else unpacked / image, question)
            if before["answer"] or "Iceland" in question:
                assert after.answer == before["answer"], question
            assert {unit["id"] for unit in before["units"]} <= {unit.id for unit in after.units}
        for text, before in answers["searches"]:
            texts = {chunk.text for chunk in kb.search(text=text).chunks}
            assert before["chunks"][0]["text"] in texts
        paths = kb.graph.paths("Anna Holm", "Brass Lamp")
        assert [path.text for path in paths] == [path["text"] for path in answers["paths"]]


def _name(path: str) -> str:
    return Path(path).name


def test_vectors_and_row_numbers_are_kept(outdated):
    def rows() -> list[tuple]:
        with closing(connect(outdated / "ku.sqlite")) as connection:
            return [
                connection.execute(sql).fetchall()
                for sql in (
                    "SELECT row, vector FROM vectors ORDER BY row",
                    "SELECT row, source, position, text FROM chunks ORDER BY row",
                    "SELECT * FROM sqlite_sequence WHERE name NOT IN ('entities', 'changes') "
                    "ORDER BY name",
                    "SELECT key, value FROM meta WHERE key IN ('id', 'encoder', 'max_tokens')",
                )
            ]

    before = rows()
    assert len(before[0]) == 12
    KnowledgeBase.upgrade(outdated)
    assert rows() == before


def test_what_is_ingested_and_added_again_changes_nothing(unpacked):
    kb_folder, content = unpacked / "kb", unpacked / "content"
    shutil.copytree(FOLDER / "content", content)
    shutil.rmtree(content / "lamps" / "Old Stool")  # it was deleted
    KnowledgeBase.upgrade(kb_folder)
    with closing(connect(kb_folder / "ku.sqlite")) as connection:
        connection.execute(
            "UPDATE sources SET uri = replace(uri, ?, ?)", (MADE_IN, content.as_posix())
        )
    with KnowledgeBase.open(kb_folder) as kb:
        before = kb.verify().counts
        files = [content / "lamps", content / "people.jsonl", content / "notes.txt"]
        if "prices" in {unit.id for unit in kb.list()}:
            files.append(content / "tables.jsonl")
        for file in files:
            report = kb.ingest(file)
            # A document declares its format and date since 0.4.0.
            is_document = file.suffix == ".txt"
            assert (report.units_added, report.chunks_added, report.quarantined) == (0, 0, [])
            assert (report.units_updated, report.units_unchanged > 0) == (
                is_document,
                not is_document,
            )
        desk = Unit("Desk", id="desk", texts=("The Desk has two drawers.",), metadata={"price": 80})
        assert kb.add(desk).chunks == 0
        assert not kb.graph.add_relation("Desk", "belongs to", "Karl Berg").added
        report = kb.verify()
        assert (report.problems, report.counts) == ((), before)


def test_an_upgraded_base_takes_changes(unpacked):
    with KnowledgeBase.open(unpacked / "kb") as kb:  # upgrades it
        added = kb.add(Unit("Copper Kettle", texts=("It stands beside the Brass Lamp.",)))
        assert added.action == "added"
        kb.update("holm", name="Anna Holm-Berg")
        assert kb.delete(["lumen"]).units == ("lumen",)
        assert kb.verify().problems == ()
        assert kb.query(None, "Where was Anna Holm-Berg born?").answer == "Vienna"
        kb.compact()
        assert kb.verify().problems == ()
        kb.export(unpacked / "export")
        kb.snapshot(unpacked / "copy")
    with KnowledgeBase.open(unpacked / "new", create=True) as kb:
        kb.import_(unpacked / "export")
        assert kb.verify().problems == ()
        assert kb.query(None, "Where was Anna Holm-Berg born?").answer == "Vienna"


def test_reading_names_the_command_and_changes_nothing(outdated, ku):
    before = contents(outdated)
    for arguments in (("query", "-", "When did Lumen Works open?"), ("verify",), ("list",)):
        result = ku(*arguments, "--kb", outdated)
        assert result.code == 4
        assert result.err.count("\n") == 1
        assert f"run `ku upgrade --kb {outdated}`" in result.err
    assert contents(outdated) == before


def test_the_command_upgrades_once(outdated, ku):
    result = ku("upgrade", "--kb", outdated, "--json")
    assert (result.code, result.json["upgraded"], result.json["schema"]) == (0, True, schema.SCHEMA)
    assert sorted(path.name for path in outdated.iterdir()) == [
        "images", "indexes", "ku.commits", "ku.sqlite", "ku.toml", "writer.lock",
    ]  # fmt: skip
    before = contents(outdated)
    result = ku("upgrade", "--kb", outdated, "--json")
    assert (result.code, result.json["upgraded"]) == (0, False)
    assert contents(outdated) == before
    assert ku("query", "-", "When did Lumen Works open?", "--kb", outdated, "--json").json[
        "answer"
    ] == ("1920")


def test_the_first_command_that_writes_upgrades(outdated, ku, caplog):
    result = ku("add", "--name", "Kettle", "--text", "A kettle.", "--kb", outdated)
    assert result.code == 0
    assert f"{outdated} was made by an earlier version: it is upgraded" in caplog.messages
    assert ku("verify", "--kb", outdated).code == 0


def test_there_must_be_a_base(tmp_path, ku):
    result = ku("upgrade", "--kb", tmp_path / "none")
    assert (result.code, "there is no knowledge base in" in result.err) == (1, True)


def test_room_is_checked_first(outdated, monkeypatch):
    before = contents(outdated)
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(1 << 30, 1 << 30, 100_000))
    with pytest.raises(ReadOnly, match=r"room for 100,000 bytes.*nothing was changed; make room"):
        KnowledgeBase.upgrade(outdated)
    assert contents(outdated).keys() == before.keys() | {"writer.lock"}
    assert contents(outdated)["ku.sqlite"] == before["ku.sqlite"]
    monkeypatch.undo()
    assert KnowledgeBase.upgrade(outdated).upgraded


def test_another_writer_is_waited_for_and_named(outdated):
    (outdated / "ku.toml").write_text("lock_wait_s = 0\n")
    with (outdated / "writer.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(Locked, match="is writing to"):
            KnowledgeBase.upgrade(outdated)
        with pytest.raises(Locked, match="is writing to"):
            KnowledgeBase.open(outdated)
    assert KnowledgeBase.upgrade(outdated).upgraded


def test_a_reader_keeps_its_state_during_an_upgrade_in_place(tmp_path):
    folder = unpack("0.2.0", tmp_path) / "kb"
    progress = []
    with closing(connect(folder / "ku.sqlite")) as reader:
        reader.execute("BEGIN")
        before = reader.execute("SELECT text, hash FROM chunks").fetchall()
        KnowledgeBase.upgrade(folder, progress=progress.append)
        assert reader.execute("SELECT text, hash FROM chunks").fetchall() == before
    assert progress
    with KnowledgeBase.open(folder, read_only=True) as kb:
        assert kb.verify().problems == ()


def test_a_base_that_is_copied_has_no_other_users(oldest):
    path, before = str(oldest / "ku.sqlite"), contents(oldest)
    with closing(apsw.Connection(path, vfs="unix")) as reader:
        reader.execute("BEGIN; SELECT count(*) FROM chunks").fetchall()
        with pytest.raises(Locked, match="another process uses"):
            KnowledgeBase.upgrade(oldest)
    assert contents(oldest)["ku.guard"] == before["ku.guard"]
    refused = []

    def read_chunks(_: int) -> None:
        with closing(apsw.Connection(path, vfs="unix")) as reader:
            try:
                reader.execute("SELECT count(*) FROM chunks").fetchall()
            except apsw.BusyError as error:
                refused.append(error)

    KnowledgeBase.upgrade(oldest, progress=read_chunks)
    assert refused
    with KnowledgeBase.open(oldest, read_only=True) as kb:
        assert kb.verify().problems == ()


def test_damaged_rows_are_not_copied(oldest):
    file = oldest / "ku.sqlite"
    damaged = file.read_bytes().replace(
        b"Karl Berg collected clocks", b"Karl Berg collected ducks!"
    )
    file.write_bytes(damaged)
    with pytest.raises(Corrupt, match=r"row 6 of chunks fails its checksum.*nothing was changed"):
        KnowledgeBase.upgrade(oldest)
    with pytest.raises(Outdated):
        KnowledgeBase.open(oldest, read_only=True)
    assert not (oldest / "ku.upgrade").exists()


def test_rows_of_outdated_bases_are_salvaged(outdated, tmp_path):
    report = KnowledgeBase.salvage(outdated, tmp_path / "saved")
    assert [table["lost"] for table in report.salvaged.values()] == [[]] * 6
    with KnowledgeBase.open(tmp_path / "new", create=True) as kb:
        kb.import_(tmp_path / "saved")
        assert kb.verify().problems == ()
        assert kb.query(None, "When did Lumen Works open?").answer == "1920"


def test_a_copy_becomes_a_base_of_its_own_only_by_its_own_upgrade(outdated):
    (outdated / "ku.copy").touch()
    with pytest.raises(Outdated, match="ku upgrade"):
        KnowledgeBase.open(outdated)
    KnowledgeBase.upgrade(outdated)
    with KnowledgeBase.open(outdated) as kb:
        kb.add(Unit("Kettle"))
        kb.compact()


def test_an_upgraded_copy_does_not_take_increments_of_an_earlier_version(tmp_path):
    unpack("0.3.0-increments", tmp_path)
    KnowledgeBase.upgrade(tmp_path / "copy")
    with KnowledgeBase.open(tmp_path / "copy") as kb:
        with pytest.raises(Mismatch, match="replace the copy by a whole snapshot"):
            kb.apply_increments(tmp_path / "increments")
        assert "Old Stool" in {unit.id for unit in kb.list()}
        assert kb.verify().problems == ()


@pytest.mark.parametrize("version", VERSIONS)
def test_exports_are_imported(tmp_path, version):
    unpack(version, tmp_path)
    unpack(f"{version}-export", tmp_path)
    answers = json.loads((tmp_path / "answers.json").read_text())
    with KnowledgeBase.open(tmp_path / "new", create=True) as kb:
        kb.import_(tmp_path / "export")
        assert kb.verify().problems == ()
        for unit_id, before in answers["units"].items():
            after = kb.show(unit_id).to_dict()
            fields = before.keys() - {"images", "sources", "relations", "named_in"}
            assert {name: after[name] for name in fields} == {name: before[name] for name in fields}
        for image, question, before in answers["queries"]:
            if image == "-" and before["answer"]:
                assert kb.query(None, question).answer == before["answer"]
        assert not kb.import_(tmp_path / "export").units_added


# ---- numbered steps ------------------------------------------------------------------------------


@pytest.fixture
def steps(monkeypatch):
    """Add steps, as a later version would."""

    def set_steps(*more: str) -> None:
        monkeypatch.setattr(schema, "STEPS", (*schema.STEPS, *more))
        monkeypatch.setattr(schema, "SCHEMA", schema.SCHEMA + len(more))

    return set_steps


NOTES = "CREATE TABLE notes (row INTEGER PRIMARY KEY AUTOINCREMENT, unit INTEGER NOT NULL)"
TEXTS = "ALTER TABLE notes ADD COLUMN text TEXT; INSERT INTO notes (unit) SELECT row FROM units"


def test_steps_that_are_missing_are_taken(unpacked, steps):
    KnowledgeBase.upgrade(unpacked / "kb")
    steps(NOTES, TEXTS)
    with pytest.raises(Outdated, match="ku upgrade"):
        KnowledgeBase.open(unpacked / "kb", read_only=True)
    assert KnowledgeBase.upgrade(unpacked / "kb").upgraded
    with KnowledgeBase.open(unpacked / "kb") as kb:
        assert kb.verify().problems == ()
        count = len(kb.list())
    with closing(connect(unpacked / "kb" / "ku.sqlite")) as connection:
        assert connection.execute("SELECT count(*) FROM notes").fetchone() == (count,)
        assert schema.version(connection) == schema.SCHEMA


def test_a_step_that_fails_is_rolled_back_and_those_before_it_stay(tmp_path, steps, monkeypatch):
    folder = unpack("0.3.0", tmp_path) / "kb"
    first = schema.SCHEMA
    with monkeypatch.context():
        steps(NOTES, "DROP TABLE notes; DROP TABLE none_such")
        with pytest.raises(apsw.SQLError, match="none_such"):
            KnowledgeBase.upgrade(folder)
    with closing(connect(folder / "ku.sqlite")) as connection:
        assert schema.version(connection) == first + 1
        assert connection.execute("SELECT count(*) FROM notes").fetchone() == (0,)
