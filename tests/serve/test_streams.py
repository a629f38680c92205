"""Answers as server-sent events, over a connection that a client may close."""

from __future__ import annotations

import json
import threading
import time

import httpx
import pytest

from ku_rag import KnowledgeBase, ScriptedMLLM
from ku_rag.mllm.base import Reply
from tests.serve.conftest import application, data_uri, listening, serving

QUESTION = "Which country does it come from?"
WITHOUT_PICTURE = {"question": "Which country does the Mango come from?"}


def events(text):
    pairs = [event.split("\n") for event in text.strip().split("\n\n")]
    return [(kind.removeprefix("event: "), json.loads(data[6:])) for kind, data in pairs]


@pytest.fixture
def query(fruit_base):
    return {"question": QUESTION, "image": data_uri(fruit_base / "Mango" / "photo.png")}


def test_a_query_streams_its_steps_if_the_request_says_so(client, query):
    answer = client.post("/v1/query", json=query).json()
    for path, body in (("query", query | {"stream": True}), ("query/stream", query)):
        response = client.post(f"/v1/{path}", json=body)
        assert response.headers["content-type"].startswith("text/event-stream")
        steps = events(response.text)
        assert [kind for kind, _ in steps] == ["region", "units", "evidence", "answer"]
        last = steps[-1][1]
        assert last["answer"] == answer["answer"] == "Peru"
        assert last.keys() == answer.keys()
    form = client.post("/v1/query", data={"question": QUESTION, "stream": "true"})
    assert events(form.text)[-1][0] == "answer"


def test_the_last_event_has_the_tokens_of_the_model(fruit_base):
    final = {"reason": "E1 says so.", "citations": ["E1"], "changed": True, "answer": "Peru"}
    replies = [
        Reply("Chile", prompt_tokens=100, completion_tokens=1),
        Reply(json.dumps(final), final, prompt_tokens=900, completion_tokens=20),
    ]
    mllm = ScriptedMLLM(replies)
    with KnowledgeBase.open(fruit_base.with_name("kb"), mllm=mllm) as kb, serving(kb) as client:
        steps = events(client.post("/v1/query", json=WITHOUT_PICTURE | {"stream": True}).text)
    assert [kind for kind, _ in steps] == ["units", "evidence", "draft", "answer"]
    assert (steps[-2][1], steps[-1][1]["answer"]) == ({"draft": "Chile"}, "Peru")
    counts = {"replies": 2, "cached": 0, "cached_tokens": 0}
    assert steps[-1][1]["usage"] == counts | {"prompt_tokens": 1000, "completion_tokens": 21}


def test_a_client_that_disconnects_cancels_the_query(fruit_base):
    is_asked, may_reply = threading.Event(), threading.Event()

    def reply(_):
        is_asked.set()
        may_reply.wait(10)
        return "Chile"

    mllm = ScriptedMLLM(reply)
    with (
        KnowledgeBase.open(fruit_base.with_name("kb"), mllm=mllm) as kb,
        listening(application(kb)) as address,
    ):
        body = WITHOUT_PICTURE | {"stream": True}
        with httpx.stream("POST", f"{address}/v1/query", json=body) as response:
            lines = response.iter_lines()  # the connection closes with this iterator
            assert next(lines) == "event: units"
            assert is_asked.wait(10)
        time.sleep(0.2)  # time for the server to notice the closed connection
        may_reply.set()
        deadline = time.monotonic() + 10
        while "in_progress 0.0" not in httpx.get(f"{address}/metrics").text:
            assert time.monotonic() < deadline
        assert len(mllm.requests) == 1
