from __future__ import annotations

import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from fastapi.testclient import TestClient

from ku_rag.errors import ModelFailed
from ku_rag.knowledge_base import KnowledgeBase
from ku_rag.mllm import ScriptedMLLM
from ku_rag.serve.access import ServerSettings
from ku_rag.serve.app import create_app

FILE = ("files", ("Pear/about.txt", b"Title: Pear\nColour: green\n"))


def ended(client, location):
    client.get(location + "/events")
    return client.get(location).json()


def upload(client, *files):
    return client.post("/v1/ingest", files=[*files]).headers["location"]


def test_an_ingest_waits_for_a_writer_in_another_process(client, served):
    with KnowledgeBase.open(served.path) as other:
        with other.transaction():
            location = upload(client, FILE)
            time.sleep(1)
            assert client.get(location).json()["state"] == "running"
            change = client.patch("/v1/units/Mango", json={"kind": "fruit"})
            assert (change.status_code, change.json()["code"]) == (423, "Locked")
            assert change.headers["retry-after"]
            assert client.post("/v1/search", json={"text": "sweet"}).status_code == 200
        assert ended(client, location)["state"] == "done"
    assert client.patch("/v1/units/Mango", json={"kind": "fruit"}).is_success


def test_an_ingest_can_be_cancelled(client, served):
    with KnowledgeBase.open(served.path) as other, other.transaction():
        location = upload(client, FILE)
        assert client.delete(location).status_code == 202
        assert ended(client, location)["state"] == "cancelled"
    assert client.get("/v1/units/Pear").status_code == 404
    assert not (served.path / "uploads").exists()


def test_the_end_of_the_server_cancels_what_waits(served):
    app = create_app({"default": served})
    with (
        KnowledgeBase.open(served.path) as other,
        other.transaction(),
        TestClient(app, base_url="http://localhost") as client,
    ):
        upload(client, FILE)
    assert [unit.id for unit in served.list()] == ["Kiwi", "Mango"]


def test_requests_with_one_key_start_one_job(client):
    def ask(_):
        headers = {"Idempotency-Key": "one"}
        return client.post("/v1/ingest", files=[FILE], headers=headers).json()["id"]

    with ThreadPoolExecutor(4) as threads:
        [id] = {*threads.map(ask, range(4))}
    assert [*client.app.state.jobs] == [id]


def test_a_key_stands_for_the_files_that_it_came_with(client):
    def ask(name, content):
        asked = {"files": {"files": (name, content)}, "headers": {"Idempotency-Key": "one"}}
        return client.post("/v1/ingest", **asked).status_code

    asked = [("a.txt", b"a"), ("a.txt", b"a"), ("a.txt", b"b"), ("b.txt", b"a")]
    assert [ask(*one) for one in asked] == [202, 202, 422, 422]


def test_a_base_whose_folder_is_gone_is_not_ready(client, served):
    shutil.rmtree(served.path)
    assert client.get("/readyz").status_code == 503
    job = ended(client, upload(client, FILE))
    assert (job["state"], job["error"]["code"]) == ("failed", "Closed")
    assert not served.path.exists()


def test_only_so_many_ingests_wait(client, served):
    with KnowledgeBase.open(served.path) as other, other.transaction():
        codes = [client.post("/v1/ingest", files=[FILE]).status_code for _ in range(11)]
    assert codes == [202] * 10 + [429]


@pytest.mark.parametrize(
    "name",
    ["../x.txt", "/etc/x.txt", "a/../../x.txt", "..\\x.txt", "C:x.txt", ".hidden.txt", "a//b.txt",
     "a/" * 20 + "x.txt", "x" * 300 + ".txt", "x\x01.txt", "nul\x7f.txt"],
)  # fmt: skip
def test_names_of_uploads_stay_inside(client, served, name):
    found = client.post("/v1/ingest", files={"files": ("x.txt", b"x")}, data={"names": name})
    assert (found.status_code, found.json()["code"]) == (422, "BadInput")
    assert not [*served.path.parent.glob("x.txt"), *served.path.glob("*.txt")]


def test_an_ingest_that_fails_says_why(client, served):
    location = upload(client, ("files", ("Pear/ku.sqlite", b"no database")))
    assert ended(client, location)["report"]["units_added"] == 0
    assert client.get("/v1/jobs/nothing").status_code == 404
    assert client.post("/v1/ingest").status_code == 422


def test_further_requests_are_refused_when_all_threads_are_busy(fruit_base):
    may_fail = threading.Event()

    def wait(_):
        may_fail.wait(10)
        raise ModelFailed("the model is out of order")

    asked = {"json": {"question": "Which country does the Mango come from?"}}
    with KnowledgeBase.open(fruit_base.with_name("kb"), mllm=ScriptedMLLM(wait)) as base:
        app = create_app({"default": base}, ServerSettings(threads=1, waiting=0))
        with (
            TestClient(app, base_url="http://localhost") as client,
            ThreadPoolExecutor(1) as thread,
        ):
            first = thread.submit(client.post, "/v1/query", **asked)
            while "in_progress 1.0" not in client.get("/metrics").text:
                time.sleep(0.01)
            refused = client.post("/v1/query", **asked)
            stream = client.post("/v1/query/stream", **asked)
            may_fail.set()
            assert [refused.status_code, stream.status_code] == [429, 429]
            assert refused.headers["retry-after"]
            assert (first.result().status_code, first.result().json()["code"]) == (
                502, "ModelFailed",
            )  # fmt: skip
            assert client.get("/readyz").status_code == 200
            events = client.post("/v1/query/stream", **asked).text.strip().split("\n\n")
            assert [one.partition("\n")[0] for one in events] == [
                "event: units", "event: evidence", "event: error",
            ]  # fmt: skip
