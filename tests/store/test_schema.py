"""A base of an earlier version is refused, and a step that fails leaves a base as it was."""

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


def test_an_older_schema_that_is_only_read_says_what_to_do(file, monkeypatch):
    later = (*schema.STEPS, "CREATE TABLE later (row INTEGER PRIMARY KEY);")
    monkeypatch.setattr(schema, "STEPS", later)
    monkeypatch.setattr(schema, "SCHEMA", len(later))
    with pytest.raises(Mismatch, match="older schema"):
        KnowledgeBase.open(file.parent, encoder=Hashed(), read_only=True)
    with KnowledgeBase.open(file.parent, encoder=Hashed()) as kb:
        assert kb.verify().problems == ()


def test_a_step_that_fails_leaves_the_base_as_it_was(file, monkeypatch):
    broken = (*schema.STEPS, "CREATE TABLE half (row INTEGER);\nDROP TABLE no_such_table;")
    with closing(connect(file)) as connection:
        before = connection.execute("SELECT name, sql FROM sqlite_master").fetchall()
        with monkeypatch.context() as patched:
            patched.setattr(schema, "STEPS", broken)
            patched.setattr(schema, "SCHEMA", len(broken))
            with pytest.raises(apsw.SQLError, match="no_such_table"):
                schema.migrate(connection, application=APPLICATION_ID)
        assert connection.execute("SELECT name, sql FROM sqlite_master").fetchall() == before
        assert connection.execute("PRAGMA user_version").fetchone() == (schema.SCHEMA,)
    with KnowledgeBase.open(file.parent, encoder=Hashed()) as kb:
        assert kb.verify().problems == ()
