"""A collection that cannot be used is reported, and answers stay those of the base."""

from __future__ import annotations

import base64
import json
import logging
import shutil
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from urllib.parse import urlsplit

import numpy as np
import pytest

from ku_rag import KnowledgeBase, Unit
from ku_rag.errors import BadInput, IndexUnavailable, Refused
from ku_rag.scale import milvus_collection, milvus_index
from tests.scale.milvus_server import ENGINES, WITHOUT_LITE

pytestmark = [pytest.mark.long, WITHOUT_LITE]

UNITS = [
    Unit(f"Bridge {n}", id=f"b{n}", texts=(f"Bridge {n} crosses river {n % 7}.", f"Built in {n}."))
    for n in range(60)
]
QUESTIONS = ["river 3", "built in 17", "which bridge crosses river 5"]


class Server:
    """Milvus behind a proxy that can stop replying."""

    def __init__(self, address):
        from pymilvus import MilvusClient

        target = urlsplit(address)
        self._target = (target.hostname, target.port)
        self.raw = MilvusClient(address)
        self._others = set(self.raw.list_collections())
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.uri = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._sockets = []
        self.frozen = False
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                far = socket.create_connection(self._target)
                self._sockets += [near, far]
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=self._forward, args=pair, daemon=True).start()

    def _forward(self, source, target):
        with suppress(OSError):
            while data := source.recv(1 << 16):
                while self.frozen:
                    time.sleep(0.05)
                target.sendall(data)

    @property
    def chunks(self):
        """The name of the collection of chunks."""
        (name,) = (
            collection for collection in self._collections() if collection.endswith("_chunk")
        )
        return name

    def _collections(self):
        return set(self.raw.list_collections()) - self._others

    def change_state(self, **fields):
        properties = self.raw.describe_collection(self.chunks)["properties"]
        state = json.loads(properties["ku"]) | fields
        self.raw.alter_collection_properties(self.chunks, {"ku": json.dumps(state)})

    def stop(self):
        self.frozen = False
        for connection in (self._listening, *self._sockets):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def close(self):
        self.stop()
        for name in self._collections():
            self.raw.drop_collection(name)
        self.raw.close()


@pytest.fixture(params=ENGINES)
def server(request, milvus, monkeypatch):
    monkeypatch.setattr(milvus_collection, "TIMEOUT_S", 2.0)
    with closing(Server(milvus(request.param))) as server:
        yield server


@pytest.fixture
def path(tmp_path):
    with KnowledgeBase.open(tmp_path / "kb", create=True) as base:
        base.add_many(UNITS)
    return tmp_path / "kb"


def opened(path, uri, unreachable="fail"):
    settings = {"index_uri": uri, "index_unreachable": unreachable}
    return KnowledgeBase.open(path, index_engine="milvus", **settings)


def answers(base):
    results = [base.search(text=question, k=8).chunks for question in QUESTIONS]
    return [[(chunk.chunk, chunk.score) for chunk in chunks] for chunks in results]


def expected(path):
    with KnowledgeBase.open(path) as local:
        return answers(local)


def check_reported(path, uri, caplog, says):
    """The strict setting fails; the other one answers from the base and logs the reason."""
    with opened(path, uri) as base, pytest.raises(IndexUnavailable, match=says):
        answers(base)
    caplog.clear()
    with opened(path, uri, "local") as base, caplog.at_level(logging.WARNING, "ku_rag"):
        assert answers(base) == expected(path)
        (problem,) = {row["problem"] for row in base.stats().indexes if row["name"] == "chunk"}
        assert problem in base.verify().problems
    assert says in caplog.text


def check_repaired(path, uri):
    with opened(path, uri) as base:
        base.sync_index()
        assert answers(base) == expected(path)
        assert base.verify().problems == ()


def test_a_refused_connection(path, server, caplog):
    check_repaired(path, server.uri)
    server.stop()
    check_reported(path, server.uri, caplog, "cannot be used")
    with opened(path, server.uri) as base, pytest.raises(IndexUnavailable):
        base.sync_index()


def test_a_server_that_does_not_answer(path, server, caplog):
    with opened(path, server.uri) as strict, opened(path, server.uri, "local") as base:
        base.sync_index()
        assert answers(base) == answers(strict) == expected(path)
        server.frozen = True
        started = time.monotonic()
        with pytest.raises(IndexUnavailable):
            answers(strict)
        assert answers(base) == expected(path)  # one search waits, the others do not retry
        assert time.monotonic() - started < 5 * milvus_collection.TIMEOUT_S
        assert "the local index is searched" in caplog.text
        server.frozen = False
        assert answers(strict) == expected(path)


def test_an_interrupted_sync_continues(path, server, monkeypatch, caplog):
    monkeypatch.setattr(milvus_index, "BATCH", 20)

    class Interrupted(Exception):
        pass

    def interrupt(rows):
        if rows >= 60:
            raise Interrupted

    with opened(path, server.uri) as base:
        with pytest.raises(Interrupted):
            base.sync_index(progress=interrupt)
        check_reported(path, server.uri, caplog, "has not received all vectors yet")
        images, chunks = base.sync_index()
        assert (images.created, chunks.created, chunks.upserted) == (False, False, 60)
        base.delete([f"b{n}" for n in range(40)])
        with pytest.raises(Interrupted):
            base.sync_index(progress=interrupt)
        assert answers(base) == expected(path)
        assert base.sync_index()[1].deleted == 20
    check_repaired(path, server.uri)


def test_half_a_batch_of_a_later_sync(path, server):
    with opened(path, server.uri) as base:
        base.sync_index()
        base.add(Unit("New bridge", id="new", texts=("The new bridge crosses river 3 and 5.",)))
        base.delete(["b3", "b10"])
        (new,) = base.search(text="the new bridge", k=1).chunks
        vector = np.full(base.encoder.dim, 0.1, np.float32)
        server.raw.upsert(server.chunks, [{"id": new.chunk, "vector": vector}])
        server.raw.delete(server.chunks, ids=[7])
        assert answers(base) == expected(path)
    check_repaired(path, server.uri)


def test_a_dropped_collection(path, server, caplog):
    with opened(path, server.uri) as base:
        base.sync_index()
        server.raw.drop_collection(server.chunks)
        with pytest.raises(IndexUnavailable, match="_chunk at http"):
            answers(base)
        check_reported(path, server.uri, caplog, "does not exist")
        images, chunks = base.sync_index()
        assert (images.created, chunks.created, chunks.upserted) == (False, True, 120)
        assert answers(base) == expected(path)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"encoder": "another"}, "holds vectors of the encoder another"),
        ({"knowledge_base": "another"}, "belongs to another knowledge base"),
        ({"run": "another"}, "is ahead of this knowledge base"),
    ],
)
def test_a_collection_of_something_else(path, server, caplog, fields, says):
    check_repaired(path, server.uri)
    server.change_state(**fields)
    check_reported(path, server.uri, caplog, says)
    check_repaired(path, server.uri)


def test_a_base_restored_from_an_older_copy(path, server, caplog, tmp_path):
    check_repaired(path, server.uri)
    shutil.copytree(path, tmp_path / "copy")
    with opened(path, server.uri) as base:
        base.add(Unit("Old", id="old", texts=("An old tower at river 3.",)))
        base.sync_index()
    shutil.rmtree(path)
    shutil.copytree(tmp_path / "copy", path)
    with KnowledgeBase.open(path) as base:  # the same row numbers with other content
        base.add(Unit("Red", id="red", texts=("A red engine at river 5.",)))
        base.add(Unit("Tall", id="tall", texts=("A tall mast at river 3.",)))
    check_reported(path, server.uri, caplog, "is ahead of this knowledge base")
    check_repaired(path, server.uri)


def test_a_collection_that_is_left_half_made(path, server, caplog):
    check_repaired(path, server.uri)
    name = server.chunks
    server.raw.drop_collection(name)
    server.raw.create_collection(name, dimension=8)
    check_reported(path, server.uri, caplog, "was not completely created")
    check_repaired(path, server.uri)


def test_rows_that_the_base_does_not_have_hide_nothing_and_are_reported(path, server):
    with opened(path, server.uri) as base:
        base.sync_index()
        same = server.raw.get(server.chunks, ids=[1])[0]["vector"]
        server.raw.upsert(server.chunks, [{"id": 900 + n, "vector": same} for n in range(50)])
        assert answers(base) == expected(path)
        (problem,) = base.verify().problems
        assert "holds 50 rows that the knowledge base does not have, such as chunk 900" in problem
        assert [report.created for report in base.sync_index(rebuild=True)] == [True, True]
        assert base.verify().problems == ()
        server.raw.delete(server.chunks, ids=[5])
        (problem,) = base.verify().problems
        assert "lacks 1 rows, such as chunk 5" in problem


def test_what_is_deleted_leaves_the_collection(path, server):
    with opened(path, server.uri) as base:
        base.sync_index()
        rows = [chunk.chunk for chunk in base.search(text="Bridge 8 crosses", k=1).chunks]
        base.delete(["b8"])
        assert "holds 2 rows" in base.verify().problems[0]
        base.sync_index()
        assert base.verify().problems == ()
        assert server.raw.get(server.chunks, ids=rows) == []
        base.delete(["b9"])
        base.compact()
        assert base.verify().problems == ()
        assert answers(base) == expected(path)


def test_changes_that_compact_forgot_are_sent_by_creating_the_collection_anew(path, server, caplog):
    check_repaired(path, server.uri)
    with KnowledgeBase.open(path) as base:
        base.delete(["b8"])
        base.compact()
    check_reported(path, server.uri, caplog, "lacks changes that `ku compact` has removed")
    check_repaired(path, server.uri)


def test_another_encoder(path, server, caplog):
    from tests.assets.schemas import Hashed

    check_repaired(path, server.uri)
    with KnowledgeBase.open(path) as base:
        base.reindex(Hashed())
    with KnowledgeBase.open(path, encoder=Hashed()) as base:
        before = answers(base)
    settings = {"index_engine": "milvus", "index_uri": server.uri, "index_unreachable": "fail"}
    with KnowledgeBase.open(path, encoder=Hashed(), **settings) as base:
        with pytest.raises(IndexUnavailable, match="holds vectors of the encoder"):
            answers(base)
        assert base.sync_index()[1].created
        assert answers(base) == before
        assert base.verify().problems == ()


def test_searches_beside_syncs_find_what_is_stored_all_the_time(path, server):
    """Another session adds, deletes, syncs, and creates the collections anew."""
    finished = threading.Event()
    complete = 0

    def change():
        try:
            with opened(path, server.uri) as writer:
                for number in range(9):
                    text = f"A new bridge {number} crosses river 3."
                    writer.add(Unit(f"New {number}", id="new", texts=(text,)))
                    writer.sync_index(rebuild=number % 3 == 0)
                    writer.delete(["new"])
                    writer.sync_index()
        finally:
            finished.set()

    with opened(path, server.uri) as base:
        base.sync_index()
        (vector,) = base.encoder.encode_texts(["a bridge crosses river 3"])
        stable = {chunk.chunk for chunk in base.search(vector=vector, k=1000).chunks}
        assert len(stable) == 120
        thread = threading.Thread(target=change)
        thread.start()
        while not finished.is_set():
            with suppress(IndexUnavailable):  # while the collection is created anew
                rows = {chunk.chunk for chunk in base.search(vector=vector, k=1000).chunks}
                assert rows >= stable
                complete += 1
        thread.join()
        assert complete > 10
        assert base.verify().problems == ()


def test_settings_that_do_not_fit(path, tmp_path):
    with pytest.raises(BadInput, match="index_uri is empty"):
        KnowledgeBase.open(path, index_engine="milvus")
    with KnowledgeBase.open(path) as base, pytest.raises(Refused, match='index_engine is "local"'):
        base.sync_index()


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("junk.db", "Open local milvus failed"),
        ("missing/m.db", "missing not exists"),
        ("./m", "illegal"),
        ("ftp://host", "illegal"),
        ("http://localhost:port", "'port'"),
        ("http://localhost:1", "Fail connecting to server on localhost:1"),
    ],
)
def test_an_address_that_cannot_be_used(path, monkeypatch, caplog, uri, says):
    monkeypatch.setattr(milvus_collection, "TIMEOUT_S", 2.0)
    (path / "junk.db").write_text("text")
    with opened(path, uri) as base, pytest.raises(IndexUnavailable, match=says) as caught:
        base.sync_index()
    assert "Exception" not in str(caught.value)
    assert caplog.records == []
    check_reported(path, uri, caplog, "index_uri must name a Milvus server that runs")
    assert {record.name for record in caplog.records} == {"ku_rag"}


def test_a_relative_file_is_in_the_folder_of_the_base(path, tmp_path, monkeypatch):
    from milvus_lite.server_manager import server_manager_instance

    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path)
    with opened("kb", "./m.db") as base:
        base.sync_index()
    monkeypatch.chdir("sub")
    with opened("../kb", "./m.db") as base:
        assert answers(base) == expected(path)
        assert base.verify().problems == ()
    assert list(tmp_path.rglob("m.db")) == [path / "m.db"]
    server_manager_instance.release_server(str(path / "m.db"))


def test_the_commands(ku, server, tmp_path):
    assert ku("add", "--name", "Bridge", "--text", "It crosses the river.").code == 0
    with (tmp_path / "kb" / "ku.toml").open("a", encoding="utf-8") as file:
        file.write(f'index_engine = "milvus"\nindex_uri = "{server.uri}"\n')
    assert "run `ku index sync`" in ku("stats").out
    assert "chunks: 1 sent, 0 deleted" in ku("index", "sync").out
    images, chunks = ku("index", "sync", "--rebuild", "--json").json
    assert (images["name"], chunks["name"], chunks["upserted"]) == ("image", "chunk", 1)
    assert "chunk index: milvus, recall 1, 1 vectors" in ku("stats").out
    assert ku("verify").code == 0
    server.stop()
    failed = ku("index", "sync")
    assert (failed.code, failed.out) == (1, "")
    assert failed.err.startswith("error: the collection ku_")


@contextmanager
def recording():
    """A server of gRPC that records the metadata of calls and refuses them; its address."""
    import grpc

    metadata = {}

    class Handler(grpc.GenericRpcHandler):
        def service(self, call):
            metadata.update(call.invocation_metadata, calls=metadata.get("calls", 0) + 1)

    listening = grpc.server(ThreadPoolExecutor(1), handlers=[Handler()])
    port = listening.add_insecure_port("127.0.0.1:0")
    listening.start()
    yield metadata, port
    listening.stop(None).wait()


@pytest.mark.parametrize("variable", ["KU_MILVUS_TOKEN", "MILVUS_TOKEN"])
@pytest.mark.parametrize("way", ["argument", "environment", "configuration"])
def test_the_token_is_sent_to_the_server_that_the_user_names(
    path, tmp_path, monkeypatch, variable, way
):
    monkeypatch.setenv(variable, "user:secret")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with recording() as (metadata, port):
        uri = f"http://127.0.0.1:{port}"
        if way == "environment":
            monkeypatch.setenv("KU_INDEX_URI", uri)
        elif way == "configuration":
            (tmp_path / "ku-rag").mkdir()
            (tmp_path / "ku-rag" / "ku.toml").write_text(f'index_uri = "{uri}"\n')
        # The base names another server, which is ignored.
        (path / "ku.toml").write_text('index_engine = "milvus"\nindex_uri = "http://127.0.0.1:1"\n')
        options = {"index_uri": uri} if way == "argument" else {}
        with KnowledgeBase.open(path, **options) as base, pytest.raises(IndexUnavailable):
            base.sync_index()
    assert base64.b64decode(metadata["authorization"]) == b"user:secret"


def test_no_token_is_sent_to_a_server_that_only_the_base_names(path, monkeypatch, caplog):
    monkeypatch.setenv("KU_MILVUS_TOKEN", "user:secret")
    with recording() as (metadata, port):
        uri = f"http://127.0.0.1:{port}"
        (path / "ku.toml").write_text(f'index_engine = "milvus"\nindex_uri = "{uri}"\n')
        # The user named the same server for models, which get another secret.
        monkeypatch.setenv("OPENAI_BASE_URL", uri)
        for _ in range(2):
            with KnowledgeBase.open(path) as base, pytest.raises(IndexUnavailable):
                base.sync_index()
    assert metadata["calls"] >= 2
    assert "authorization" not in metadata
    [line] = [record.getMessage() for record in caplog.records]
    assert line.startswith(f"{uri!r} does not get KU_MILVUS_TOKEN, because only ku.toml")


def test_a_password_in_the_address_is_not_shown(path):
    base = opened(path, "nonsense://user:secret@127.0.0.1:1")
    with base, pytest.raises(IndexUnavailable) as caught:
        base.sync_index()
    assert "secret" not in str(caught.value)
