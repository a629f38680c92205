"""A Milvus collection written by version 0.3.0 is continued, not rebuilt."""

from __future__ import annotations

import json
from contextlib import closing

import pytest

from ku_rag import KnowledgeBase, Unit
from ku_rag.addresses import Address
from ku_rag.scale.milvus_collection import CollectionState, MilvusCollection
from tests.conftest import connect
from tests.data.bases.stored import unpack
from tests.scale.milvus_server import WITHOUT_LITE

RUN = "4f6c2f0b9d3a4b21a5d0b0f1c2d3e4f5"
STATES = {
    "chunk": '{"knowledge_base": "%s", "encoder": "embedded:hash1+cells3:512", "made": "a1", '
    '"run": "%s", "seq": %d, "uploaded": null}',
    "image": '{"knowledge_base": "%s", "encoder": "embedded:hash1+cells3:512", "made": "b2", '
    '"run": "%s", "seq": %d, "uploaded": null}',
}
"""The states of both collections as 0.3.0 wrote them."""


@pytest.mark.parametrize("engine", [pytest.param("lite", marks=WITHOUT_LITE)])
def test_a_collection_of_0_3_0_is_continued(engine, milvus, tmp_path):
    uri = milvus(engine)
    folder = unpack("0.3.0", tmp_path) / "kb"
    (folder / "ku.toml").write_text(f'index_engine = "milvus"\nindex_uri = "{uri}"\n')
    with KnowledgeBase.open(folder) as kb:
        kb.sync_index()
    with closing(connect(folder / "ku.sqlite")) as connection:
        base = json.loads(
            connection.execute("SELECT value FROM meta WHERE key = 'id'").fetchone()[0]
        )
        (last,) = connection.execute("SELECT max(seq) FROM changes").fetchone()
        for kind, state in STATES.items():
            text = state % (base, RUN, last)
            collection = MilvusCollection(Address(uri, ()), f"ku_{base}_{kind}", 512)
            collection.set_state(CollectionState(**json.loads(text)))
            connection.execute(
                "REPLACE INTO meta VALUES (?, ?)", (f"milvus:{kind}", json.dumps([RUN]))
            )
    KnowledgeBase.upgrade(folder)
    with KnowledgeBase.open(folder) as kb:
        assert kb.query(None, "When did Lumen Works open?").answer == "1920"
        kb.add(Unit("Kettle", id="kettle", texts=("A kettle of copper.",)))
        reports = {report.name: report for report in kb.sync_index()}
    assert (reports["chunk"].created, reports["chunk"].upserted) == (False, 1)
    assert (reports["image"].created, reports["image"].upserted) == (False, 0)
