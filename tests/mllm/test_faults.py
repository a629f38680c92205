"""The client against faulty servers: a usable reply or a message of one line, in bounded time."""

from __future__ import annotations

import gzip
import itertools
import json
import time

import pytest

from ku_rag.errors import ModelFailed
from ku_rag.mllm import Message, Request
from ku_rag.mllm.base import LONGEST_TEXT
from tests.endpoint import model_at
from tests.faulty_server import completion, response, serving_faults

TIMEOUT_S = 0.5
SCHEMA = {
    "type": "object",
    "properties": {
        "reason": {"type": "string"},
        "names": {"type": "array", "items": {"type": "string"}},
        "changed": {"type": "boolean"},
        "side": {"type": "string", "enum": ["left", "right"]},
        "answer": {"type": "string"},
    },
    "required": ["answer"],
}
GOOD = completion("A lamp.")
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def error(status, message="hm", **more):
    return response({"error": {"message": message, **more}}, status)


def inside(status=None, **error):
    """An error inside a response with status 200."""
    return response({"error": {"message": "overloaded", "code": status, **error}})


def forever(piece):
    return itertools.repeat(piece)


def chat(server, schema=None, **options):
    """The reply or the message of the error."""
    options = {"timeout_s": TIMEOUT_S, "wait": lambda _: None} | options
    mllm = model_at(server.url, **options)
    request = Request((Message("user", ("What is this?",)),), schema=schema)
    try:
        reply = mllm.chat(request)
    except ModelFailed as failed:
        return str(failed)
    return reply.text if schema is None else reply.parsed


# Responses of the server in order; part of the reply or of the message; number of requests.
TEXT_FAULTS = {
    "closed at once": ([b""], "the connection to", 4),
    "no answer": ([forever(b"")], "did not reply within 0.5 s", 1),
    "not HTTP": ([b"220 mail ready\r\n\r\n"], "the connection to", 4),
    "status without end": ([forever(b"HTTP/1.1 ")], "did not", 1),
    "headers without end": ([itertools.chain([HEAD], forever(b"X-A: b\r\n"))], "did not", 1),
    "one header without end": ([itertools.chain([HEAD, b"X: "], forever(b"x"))], "did not", 1),
    "informational responses without end": ([forever(b"HTTP/1.1 100 Go\r\n\r\n")], "did not", 1),
    "body in drops": (
        [itertools.chain([HEAD + b"Content-Length: 999999\r\n\r\n"], forever(b" "))],
        "did not reply within 0.5 s",
        1,
    ),
    "body without end": (
        [itertools.chain([HEAD + b"\r\n"], forever(b" " * (1 << 20)))],
        "sent over 16,777,216 bytes",
        1,
    ),
    "truncated body": ([GOOD[:-9], GOOD], "A lamp.", 2),
    "length too long": ([response({}, length=99)], "the connection to", 4),
    "truncated chunks": ([HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab"], "the conn", 4),
    "broken gzip": ([response(b"no gzip", Content_Encoding="gzip")], "the connection to", 4),
    "gzip": (
        [response(gzip.compress(GOOD.partition(b"\r\n\r\n")[2]), Content_Encoding="gzip")],
        "A lamp.",
        1,
    ),
    "wrong content type": ([GOOD.replace(b"application/json", b"image/png")], "A lamp.", 1),
    "web page": ([response(b"<html>")], "replied with a web page", 1),
    "no JSON": ([response(b"lamp")], "is not JSON (it starts with 'lamp')", 4),
    "empty body": ([response(b"")], "is not JSON", 4),
    "deep JSON": ([response(b"[" * 100_000)], "is not JSON", 4),
    "Latin-1": ([GOOD.replace(b"lamp", b"l\xe4mp")], "A l\ufffdmp.", 1),
    "JSON null": ([response(None)], "holds no choices[0].message", 1),
    "choices of a wrong type": ([response({"choices": "x"})], "holds no choices", 1),
    "number as content": ([completion(7)], "is empty", 1),
    "redirect": (
        [response({}, 302, Location="http://127.0.0.1:9/x")],
        "redirects are not followed",
        1,
    ),
    "permanent redirect": ([response({}, 308, Location="/v2")], "redirects are not followed", 1),
    "redirect without address": ([response({}, 301)], "redirects are not followed", 1),
    "no such model": ([error(404)], "status 404 to a request for 'm-1'", 1),
    "overloaded, then well": ([error(503), error(529), GOOD], "A lamp.", 3),
    "rate limit": ([response({}, 429, Retry_After="1"), GOOD], "A lamp.", 2),
    "rate limit for an hour": ([response({}, 429, Retry_After="3600")], "pause of 3,600 s", 1),
    "rate limit until never": ([response({}, 429, Retry_After="never"), GOOD], "A lamp.", 2),
    "error inside, then well": ([inside(), inside(503), inside(429), GOOD], "A lamp.", 4),
    "error inside": ([inside(400)], "status 400 to a request for 'm-1' (overloaded)", 1),
    "error inside a choice": ([response({"choices": [{"error": {"message": "x"}}]})], "x", 4),
    "error as a text": ([response({"error": "no memory"}), GOOD], "A lamp.", 2),
    "error without its object": (
        [response({"message": "x", "code": 401})],
        "401 to a request for 'm-1' (x)",
        1,
    ),
    "error with control characters": ([error(400, "a\x1b[31m\nb\ud800")], "a[31m b?", 1),
    "reasoning": ([completion("A tree.</think>A lamp.")], "A lamp.", 1),
    "only reasoning": ([completion("<thinking>A tree.")], "only reasoning", 1),
    "NUL and lone surrogate": ([completion("A\0 lam\udc80p.")], "A lam?p.", 1),
    "10 MB": ([completion("lamp " * 2_000_000)], "lamp " * (LONGEST_TEXT // 5), 1),
}


@pytest.mark.parametrize("fault", TEXT_FAULTS)
def test_texts(fault):
    scripts, expected, requests = TEXT_FAULTS[fault]
    begun = time.monotonic()
    with serving_faults(*scripts) as server:
        reply = chat(server, timeout_s=TIMEOUT_S if "did not" in expected else 30)
        assert time.monotonic() - begun < 20
        assert "\n" not in reply
        assert expected in reply
        assert len(server.requests) == requests
        assert len(reply) <= LONGEST_TEXT


A = {"answer": "a"}
CHANGED = {"changed": True, "answer": "a"}
REJECTED = error(400, "response_format json_schema is not supported")
# Responses of the server in order; the object or part of the message; number of requests.
OBJECT_FAULTS = {
    "schema not known": ([REJECTED, completion('{"answer": "a"}')], A, 2),
    "schema an internal error": ([error(500), completion('{"answer": "a"}')], A, 2),
    "schema an error inside": ([inside(400), completion('{"answer": "a"}')], A, 2),
    "schema not routed": (
        [error(404, "no endpoint supports response_format"), completion('{"answer": "a"}')],
        A,
        2,
    ),
    "no format at all": ([error(422), error(400), completion('{"answer": "a"}')], A, 3),
    "key not accepted": ([error(401)], "set OPENAI_API_KEY", 1),
    "several objects": ([completion('{"answer": "b"} or {"answer": "a"} {"x": 1}')], A, 1),
    "object while reasoning": ([completion('{"answer": "b"}</think>{"answer": "a"}')], A, 1),
    "fence": ([completion('```json\n{"answer": "a"}\n```')], A, 1),
    "trailing comma": ([completion('{"names": [], "answer": "a",\n}')], {"names": [], **A}, 1),
    "line end in a text": ([completion('{"answer": "a\n"}')], {"answer": "a\n"}, 1),
    "number for a text": ([completion('{"answer": 7.5}')], {"answer": "7.5"}, 1),
    "null for a text": ([completion('{"answer": null}')], {"answer": ""}, 1),
    "list for a text": ([completion('{"answer": ["a", 1]}')], {"answer": "a, 1"}, 1),
    "text for a list": ([completion('{"answer": "a", "names": "x"}')], {"names": ["x"], **A}, 1),
    "numbers in a list": ([completion('{"answer": "a", "names": [1]}')], {"names": ["1"], **A}, 1),
    "text for a boolean": ([completion('{"changed": "True", "answer": "a"}')], CHANGED, 1),
    "no boolean": ([completion('{"answer": "a", "changed": "perhaps"}')], A, 1),
    "unknown choice": ([completion('{"answer": "a", "side": "both"}')], A, 1),
    "control characters": ([completion('{"answer": "\\u0000\\ud800"}')], {"answer": "?"}, 1),
    "more than asked": ([completion('{"answer": "a", "x": {"y": 1}}')], A, 1),
    "no object, then one": ([completion("a"), completion('{"answer": "a"}')], A, 2),
    "no object": ([completion("a")], "twice, and the reply holds no JSON object", 2),
    "answer missing": ([completion('{"reason": "a"}')], "'answer' is a required property", 2),
    "braces": ([completion("{" * 1_000_000)], "holds no JSON object", 2),
    "nested braces": ([completion('{"a":' * 100_000)], "holds no JSON object", 2),
    "not a number": ([completion('{"answer": NaN}')], "holds no JSON object", 2),
    "10 MB": (
        [completion(json.dumps({"answer": "lamp " * 2_000_000}))],
        {"answer": "lamp " * (LONGEST_TEXT // 5)},
        1,
    ),
}


@pytest.mark.parametrize("fault", OBJECT_FAULTS)
def test_objects(fault, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    scripts, expected, requests = OBJECT_FAULTS[fault]
    begun = time.process_time()
    with serving_faults(*scripts) as server:
        reply = chat(server, SCHEMA, timeout_s=30)
        if isinstance(expected, str):
            assert expected in reply
        else:
            assert reply == expected
        assert len(server.requests) == requests
    assert time.process_time() - begun < 5


def test_a_call_without_end_is_not_repeated_and_its_connection_closed():
    with serving_faults(forever(b""), GOOD) as server:
        assert "did not reply" in chat(server)
        assert len(server.requests) == 1
        assert chat(server) == "A lamp."
