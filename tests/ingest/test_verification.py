"""Problems that `verify` reports, and errors of the disk and of other processes."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import closing

import apsw
import pytest

from ku_rag import KnowledgeBase, Unit
from ku_rag.errors import Corrupt, Locked, NotFound, ReadOnly
from ku_rag.ingest import verification
from ku_rag.store import connection, content_rows, unit_records
from ku_rag.store.connection import snapshot
from ku_rag.store.database import Database
from ku_rag.store.filters import UnitFilter
from ku_rag.store.layout import write_durably
from tests.conftest import connect, picture, write_records


@pytest.fixture
def filled(kb, tmp_path):
    for number in range(3):
        picture(tmp_path / f"{number}.png", number)
    stated = [
        {"relation": "near", "target": "Beta"},
        {"relation": "capital", "target": "Gammaville", "target_kind": "city"},
        {"relation": "far from", "target": "nobody"},
    ]
    records = [
        {
            "id": "a", "name": "Alpha", "aliases": ["Aleph"], "text": "Alpha leads Beta.",
            "images": ["0.png", "1.png"], "relations": stated,
        },
        {"id": "b", "name": "Beta", "text": "Beta follows.", "images": ["2.png"]},
        {"id": "c", "name": "Gamma"},
    ]  # fmt: skip
    kb.ingest(write_records(tmp_path / "u.jsonl", records))
    assert problems_of(kb) == []
    return kb


def problems_of(kb):
    report = verification.verify(
        kb._database, kb._layout, kb._session.encoding.rows, (kb._session.encoding.images,)
    )
    assert report.ok == (not report.problems)
    return list(report.problems)


DAMAGE = {
    "tail elsewhere": (
        "UPDATE relations SET tail = head WHERE row = 1",
        "relation row 1 does not end at what its target 'Beta' means",
    ),
    "open end": ("UPDATE relations SET tail = NULL WHERE row = 2", "relation row 2 does not end"),
    "end where there is none": (
        "UPDATE relations SET tail = 1 WHERE row = 3", "relation row 3 does not end",
    ),
    "head elsewhere": (
        "UPDATE relations SET head = 2 WHERE row = 1", "relation row 1 does not start at the unit",
    ),
    "key": (
        "UPDATE relations SET target_key = 'x' WHERE row = 1",
        "relation row 1 is not looked up under",
    ),
    "relation deleted": ("DELETE FROM relations WHERE row = 3", "u.jsonl#a are not those that it"),
    "entity renamed": ("UPDATE entities SET name = 'x' WHERE row = 1", "entity row 1 is not named"),
    "entity unlinked": (
        "UPDATE entities SET unit = NULL WHERE unit > 1", "relation row 1 does not end",
    ),
    "entity unmentioned": (
        "INSERT INTO entities (name, key, kind) VALUES ('x', 'x', 'y')", "is in no relation",
    ),
    "picture elsewhere": (
        "UPDATE unit_images SET unit = 3 WHERE image = 1", "listed under unit row 3",
    ),
    "picture gone": (
        "DELETE FROM unit_images WHERE image = 1", "u.jsonl#a has 1 images, 2 were stored of it",
    ),
    "name gone": ("DELETE FROM names WHERE key = 'aleph'", "the names of unit 'a' are not"),
    "name come": ("INSERT INTO names VALUES ('zeta', 1)", "the names of unit 'a' are not"),
    "dim": ("UPDATE encoders SET dim = 7", "its encoder makes 7 halves"),
    "sequence": (
        "UPDATE sqlite_sequence SET seq = 1 WHERE name = 'chunks'", "chunks holds row 2 but would",
    ),
    "index gone": ("DROP INDEX relations_tail", "index relations_tail is missing"),
    "table gone": ("DROP TABLE changes", "table changes is missing"),
    "table with data gone": ("DROP TABLE names", "table names is missing"),
    "table too many": ("CREATE TABLE x (y)", "table x does not belong"),
    "manifest gone": ("DELETE FROM meta WHERE key = 'encoder'", "does not say 'encoder'"),
    "manifest no JSON": ("UPDATE meta SET value = '{' WHERE key = 'segmenter'", "that is no JSON"),
    "id no JSON": ("UPDATE meta SET value = '{' WHERE key = 'id'", "that is no JSON"),
    "declared no JSON": ("UPDATE sources SET declared = '{'", "units cannot be read any further"),
    "text no text": ("UPDATE chunks SET text = x'ff'", "chunk 1 is not the text that was stored"),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE)
def test_verify_finds_damage_and_always_ends_with_a_report(filled, damage):
    statement, expected = DAMAGE[damage]
    filled._database.connection.execute("PRAGMA foreign_keys = OFF")
    filled._database.connection.execute(statement)
    assert [problem for problem in problems_of(filled) if expected in problem]


def test_verify_finds_a_unit_that_is_not_what_its_sources_declare(filled):
    with filled._database.change() as connection:
        connection.execute("UPDATE units SET name = 'Alphabet' WHERE id = 'a'")
    assert "unit 'a' is not what its sources declare" in problems_of(filled)


def test_verify_finds_a_chunk_that_went_without_a_trace(filled):
    with filled._database.change() as connection:
        content_rows.drop_chunks(connection, [1])
        connection.execute("UPDATE sources SET chunks = 1 WHERE row = 1")
    (problem,) = problems_of(filled)
    assert problem.endswith("u.jsonl#a has 0 chunks, 1 were stored of it")


def test_verify_survives_a_file_that_is_cut(filled):
    filled.compact()
    path = filled._database.path
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2 // 8192 * 8192] + b"\xff" * (len(data) // 2))
    filled._database.connection.execute("PRAGMA shrink_memory")
    assert problems_of(filled)


def test_units_are_read_in_one_state_beside_a_writer(filled):
    reader = Database(filled._database.path, read_only=True)

    def ids():
        chosen = UnitFilter.parse(None, ())
        return [unit.id for unit in unit_records.list_units(reader.connection, chosen)]

    with snapshot(reader.connection):
        assert ids() == ["a", "b", "c"]
        filled.delete(["b"])
        assert ids() == ["a", "b", "c"]
    assert ids() == ["a", "c"]
    assert not reader.connection.in_transaction
    reader.close()


def test_compact_says_when_a_reader_holds_deleted_text_back(filled):
    path = filled.path / "ku.sqlite"
    filled.delete(["a"])
    with closing(connect(path)) as reader, KnowledgeBase.open(filled.path, lock_wait_s=0.05) as kb:
        reader.execute("BEGIN; SELECT count(*) FROM units").fetchall()
        kb.delete(["b"])
        with pytest.raises(Locked, match=r"compact again .*ku\.sqlite-wal"):
            kb.compact()
        reader.execute("END")
        kb.compact()
        assert path.with_name("ku.sqlite-wal").stat().st_size == 0
    assert problems_of(filled) == []


def test_another_writer_that_does_not_let_go_is_named_in_one_sentence(filled):
    with KnowledgeBase.open(filled.path, lock_wait_s=0.05) as kb:
        with closing(connect(filled.path / "ku.sqlite")) as writer:
            writer.execute("BEGIN IMMEDIATE")
            with pytest.raises(Locked, match="did not release it") as raised:
                kb.delete(["a"])
            assert raised.value.exit_code == 5
        assert kb.delete(["a"]).to_dict()["units"] == ["a"]


def test_a_full_disk_is_one_sentence_and_loses_nothing(filled, tmp_path):
    connection = filled._database.connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    records = [{"id": f"n{n}", "name": f"N {n}", "text": "word " * 2000} for n in range(20)]
    path = write_records(tmp_path / "more.jsonl", records)
    with pytest.raises(ReadOnly, match=r"is full.*committed before is safe.*make room"):
        filled.ingest(path)
    connection.execute("PRAGMA max_page_count = 1000000")
    assert problems_of(filled) == []
    assert filled.ingest(path).units_added == 20


def test_a_picture_that_cannot_be_written_is_one_sentence_and_loses_nothing(tmp_path):
    (tmp_path / "ab").write_text("no folder")
    with pytest.raises(ReadOnly, match=r"c\.png cannot be written .*committed before is safe"):
        write_durably([(tmp_path / "ab" / "c.png", b"data")])
    (tmp_path / "cd.png").mkdir()
    with pytest.raises(ReadOnly, match=r"cd\.png cannot be written"):
        write_durably([(tmp_path / "cd.png", b"data of another length" * 999)])
    assert sorted(file.name for file in tmp_path.iterdir()) == ["ab", "cd.png"]


def test_a_damaged_file_is_one_sentence(filled):
    filled.compact()
    filled.close()
    path = filled.path / "ku.sqlite"
    data = path.read_bytes()
    path.write_bytes(data[:100] + b"\xff" * (len(data) - 100))
    with pytest.raises(Corrupt, match=r"is damaged.*nothing was changed"):
        KnowledgeBase.open(filled.path)


def test_two_makers_of_one_base_both_get_it(tmp_path):
    start = threading.Barrier(4)
    bases = []

    def make():
        start.wait()
        bases.append(KnowledgeBase.open(tmp_path / "kb", create=True))

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(kb.verify().ok for kb in bases)
    for kb in bases:
        kb.close()


@pytest.mark.parametrize("read_only", [False, True])
def test_a_connection_to_an_empty_file_reads_what_another_makes_of_it(tmp_path, read_only):
    path = tmp_path / "ku.sqlite"
    path.touch()
    early = connection.connect(path, read_only=read_only)
    Database(path, create=True).connection.close()  # its log goes with the last connection
    assert early.execute("PRAGMA application_id").fetchone() == (connection.APPLICATION_ID,)
    early.close()


def test_a_base_whose_making_was_killed_is_finished_by_the_next(tmp_path):
    path = tmp_path / "kb"
    script = (
        "import os, sys, ku_rag\n"
        "from ku_rag.store import schema\n"
        "schema.create = lambda _: os._exit(9)\n"
        "ku_rag.KnowledgeBase.open(sys.argv[1], create=True)\n"
    )
    assert subprocess.run([sys.executable, "-c", script, str(path)], check=False).returncode == 9
    for state in ("killed", "empty"):
        if state == "empty":
            (path / "ku.sqlite").write_bytes(b"")
        with pytest.raises(NotFound, match=r"was not finished: run `ku init`"):
            KnowledgeBase.open(path)
        with KnowledgeBase.open(path, create=True) as kb:
            kb.add(Unit("Lamp"))


def test_what_sqlite_does_not_blame_on_the_file_is_left_as_it_is(tmp_path):
    with pytest.raises(apsw.SQLError, match="syntax"), connection.explained(tmp_path):
        apsw.Connection(":memory:").execute("SELEKT")
