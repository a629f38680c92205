"""A base of a later version is refused; tables are created in one transaction."""

from __future__ import annotations

from contextlib import closing

import apsw
import pytest

from ku_rag import KnowledgeBase, Mismatch
from ku_rag.store import schema
from tests.assets.schemas import Hashed
from tests.conftest import connect


@pytest.fixture
def file(tmp_path):
    KnowledgeBase.open(tmp_path / "kb", create=True, encoder=Hashed()).close()
    return tmp_path / "kb" / "ku.sqlite"


def test_a_base_of_a_later_schema_is_refused(file):
    with closing(connect(file)) as connection:
        connection.execute(f"PRAGMA user_version = {schema.SCHEMA + 1}")
    for options in ({}, {"read_only": True}, {"create": True}):
        with pytest.raises(Mismatch, match=f"has schema {schema.SCHEMA + 1}.*install a newer"):
            KnowledgeBase.open(file.parent, encoder=Hashed(), **options)
    before = file.read_bytes()
    with pytest.raises(Mismatch, match="install a newer"):
        KnowledgeBase.upgrade(file.parent)
    assert file.read_bytes() == before


def test_tables_are_created_together_or_not_at_all(file, monkeypatch):
    broken = ("CREATE TABLE half (row INTEGER); DROP TABLE none_such",)
    monkeypatch.setattr(schema, "STEPS", broken)
    with closing(apsw.Connection(":memory:")) as connection:
        with pytest.raises(apsw.SQLError, match="none_such"):
            schema.create(connection)
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == []
        assert connection.execute("PRAGMA user_version").fetchone() == (0,)
