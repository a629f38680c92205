"""A base of another version is refused; its tables are created in one transaction."""

from __future__ import annotations

from contextlib import closing

import apsw
import pytest

from ku_rag import KnowledgeBase, Mismatch
from ku_rag.store import schema
from ku_rag.store.connection import APPLICATION_ID, connect
from tests.assets.schemas import Hashed

REFUSED = "made by an earlier version of ku-rag: ingest its sources again"


def test_a_base_without_page_checksums_is_refused(tmp_path):
    (tmp_path / "kb").mkdir()
    with closing(apsw.Connection(str(tmp_path / "kb" / "ku.sqlite"), vfs="unix")) as connection:
        connection.execute("PRAGMA page_size = 8192")
        connection.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT)")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("PRAGMA user_version = 3")
    before = (tmp_path / "kb" / "ku.sqlite").read_bytes()
    for how in ({}, {"read_only": True}, {"create": True}):
        with pytest.raises(Mismatch, match=REFUSED):
            KnowledgeBase.open(tmp_path / "kb", encoder=Hashed(), **how)
    assert (tmp_path / "kb" / "ku.sqlite").read_bytes() == before


@pytest.fixture
def file(tmp_path):
    KnowledgeBase.open(tmp_path / "kb", create=True, encoder=Hashed()).close()
    return tmp_path / "kb" / "ku.sqlite"


@pytest.mark.parametrize(
    ("found", "what"), [(1, "ingest its sources again"), (4, "install a newer")]
)
def test_a_base_of_another_schema_is_refused(file, found, what):
    with closing(connect(file)) as connection:
        connection.execute(f"PRAGMA user_version = {found}")
    for how in ({}, {"read_only": True}, {"create": True}):
        with pytest.raises(Mismatch, match=f"has schema {found}.*{what}"):
            KnowledgeBase.open(file.parent, encoder=Hashed(), **how)


def test_tables_are_created_together_or_not_at_all(file, monkeypatch):
    monkeypatch.setattr(schema, "_TABLES", "CREATE TABLE half (row INTEGER); DROP TABLE none_such")
    with closing(apsw.Connection(":memory:")) as connection:
        with pytest.raises(apsw.SQLError, match="none_such"):
            schema.create(connection)
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == []
        assert connection.execute("PRAGMA user_version").fetchone() == (0,)
