"""A base of every earlier schema opens, is brought up to date, and answers."""

from __future__ import annotations

import hashlib
import sqlite3
from contextlib import closing

import pytest

from ku_rag import KnowledgeBase, Mismatch, Unit
from ku_rag.store import schema
from ku_rag.types import Relation
from tests.assets.schemas import FOLDER, Hashed, fill, unpack
from tests.conftest import lists

WRITTEN = [
    "cc521d4f1ec8e24e016ba716beb21f5fe7ee6085b7a449eaf2f831ca92f2b114",
    "ea4706e9131ffa1e6d2c5dabbdd66dec90ec86fbd5719892d5a439a3a5f35265",
    "4cf44bf197036c613999f3ad549909e4f265f103e466743100fe32e068876a16",
]
"""SHA-256 of each step as it was first committed: a step is appended, never changed."""

SCHEMAS = range(1, schema.SCHEMA + 1)


def test_no_step_was_changed_after_it_was_written():
    sums = [hashlib.sha256(step.encode()).hexdigest() for step in schema.STEPS]
    assert sums[: len(WRITTEN)] == WRITTEN, "append a step instead of changing one"
    assert len(sums) == len(WRITTEN), "add the sum of the new step here"


def test_there_is_a_base_of_every_schema_but_the_present_one():
    kept = {int(path.name.split(".")[0]) for path in FOLDER.glob("*.tar.xz")}
    missing = set(SCHEMAS) - kept
    assert missing <= {schema.SCHEMA}, "run `python -m tests.assets.schemas` in that version"


@pytest.mark.parametrize("schema", sorted(p.name.split(".")[0] for p in FOLDER.glob("*.tar.xz")))
def test_an_older_base_opens_is_sound_and_answers(schema, tmp_path):
    folder = unpack(int(schema), tmp_path)
    with closing(sqlite3.connect(folder / "ku.sqlite")) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (int(schema),)
    with KnowledgeBase.open(folder, encoder=Hashed()) as kb:
        assert kb.verify()["problems"] == []
        assert kb.stats()["schema"] == schema.SCHEMA
        assert {unit["id"] for unit in kb.list()} >= {"lighthouse", "rock", "can", "seal"}
        seal = kb.show("seal")
        assert (seal["aliases"], seal["texts"]) == (
            ["Phoca"],
            ["Seals eat fish and sleep on stones."],
        )
        answer = kb.query(None, "When was the Green Lighthouse built?")
        assert answer.units[0].id == "lighthouse"
        assert "1871" in answer.answer
        kb.add(Unit("Buoy", id="buoy", texts=["The buoy floats off Heron Rock."]))
        kb.delete("can")
        kb.compact()
        assert kb.verify()["problems"] == []


@pytest.mark.parametrize("schema", sorted(p.name.split(".")[0] for p in FOLDER.glob("*.tar.xz")))
def test_an_older_base_holds_what_one_made_today_holds(schema, tmp_path):
    (tmp_path / "data").mkdir()
    with KnowledgeBase.open(tmp_path / "new", create=True, encoder=Hashed()) as kb:
        fill(kb, tmp_path / "data")
        expected = lists(kb), [_without_places(kb.show(unit["id"])) for unit in kb.list()]
    with KnowledgeBase.open(unpack(int(schema), tmp_path), encoder=Hashed()) as kb:
        assert lists(kb) == expected[0]
        assert [_without_places(kb.show(unit["id"])) for unit in kb.list()] == expected[1]


def test_what_names_mean_that_several_bear_is_looked_up_again_from_schema_2_on(tmp_path):
    stated = [("a", "sun", None), ("b", "SUN", None), ("c", "sun", "entity"), ("d", "film", None)]
    stated += [("e", "moon", "entity"), ("f", "moon", "film")]
    with KnowledgeBase.open(tmp_path / "kb", create=True, encoder=Hashed()) as kb:
        kb.add(Unit("Sun", id="film"))
        kb.add(Unit("SUN", id="paper"))
        kb.add(Unit("Luna", id="moon-1", kind="satellite", aliases=("Moon",)))
        relations = (Relation(word, target, target_kind=kind) for word, target, kind in stated)
        kb.add(Unit("Earth", id="earth", relations=tuple(relations)))
        meant = _ends(kb)
        with kb._database.change() as connection:
            # As it was: the first by id.
            connection.execute(
                "UPDATE relations SET tail = (SELECT e.row FROM entities e "
                "JOIN units u ON u.row = e.unit WHERE u.id = 'film') WHERE relation != 'f'"
            )
            connection.execute(
                "DELETE FROM entities WHERE row NOT IN "
                "(SELECT head FROM relations UNION SELECT tail FROM relations)"
            )
            connection.execute("CREATE INDEX relations_target ON relations(target)")
            connection.execute("PRAGMA user_version = 2")
        assert [end for _, end in _ends(kb)] == ["film"] * 5 + ["moon"]
    with KnowledgeBase.open(tmp_path / "kb", encoder=Hashed()) as kb:
        assert _ends(kb) == meant
        assert [end for _, end in meant] == [None, "paper", "sun", "film", "moon-1", "moon"]
        assert kb.verify()["problems"] == []


def _ends(kb):
    return kb._database.connection.execute(
        "SELECT r.relation, coalesce(u.id, e.name) FROM relations r "
        "LEFT JOIN entities e ON e.row = r.tail LEFT JOIN units u ON u.row = e.unit ORDER BY r.row"
    ).fetchall()


def test_an_older_base_that_is_only_read_says_what_to_do(tmp_path, monkeypatch):
    folder = unpack(1, tmp_path)
    later = (*schema.STEPS, "CREATE TABLE later (row INTEGER PRIMARY KEY);")
    monkeypatch.setattr(schema, "STEPS", later)
    monkeypatch.setattr(schema, "SCHEMA", len(later))
    monkeypatch.setattr("ku_rag.store.database.SCHEMA", len(later))
    with pytest.raises(Mismatch, match="older schema"):
        KnowledgeBase.open(folder, encoder=Hashed(), read_only=True)
    with KnowledgeBase.open(folder, encoder=Hashed()) as kb:
        assert kb.verify()["problems"] == []


def test_a_step_that_fails_leaves_the_base_as_it_was(tmp_path, monkeypatch):
    folder = unpack(1, tmp_path)
    broken = (*schema.STEPS, "CREATE TABLE half (row INTEGER);\nDROP TABLE no_such_table;")
    with closing(sqlite3.connect(folder / "ku.sqlite", isolation_level=None)) as connection:
        before = connection.execute("SELECT name, sql FROM sqlite_master").fetchall()
        with monkeypatch.context() as patched:
            patched.setattr(schema, "STEPS", broken)
            patched.setattr(schema, "SCHEMA", len(broken))
            with pytest.raises(sqlite3.OperationalError, match="no_such_table"):
                schema.migrate(connection, application=0x4B55_5241)
        assert connection.execute("SELECT name, sql FROM sqlite_master").fetchall() == before
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    with KnowledgeBase.open(folder, encoder=Hashed()) as kb:
        assert kb.verify()["problems"] == []


def _without_places(unit):
    """A unit as shown, without where its base and its sources lie."""
    images = [image.rpartition("/")[2] for image in unit["images"]]
    return unit | {
        "images": images,
        "sources": [source["origin"] for source in unit["sources"]],
        "named_in": sorted(one["text"] for one in unit["named_in"]),
    }
