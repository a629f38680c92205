"""The client of multimodal models against a real server on this machine."""

from __future__ import annotations

import json
import logging
import re
import socket
import socketserver
import subprocess
import sys
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

from ku_rag import KnowledgeBase, RecordedMLLM, ScriptedMLLM
from ku_rag.errors import BadInput, BudgetSpent, MissingExtra, ModelFailed, NotFound
from ku_rag.mllm import Message, Picture, Request
from tests.endpoint import Said, fails, model_at, says, serving

KEY = "sk-very-secret-0123456789"
SCHEMA = {
    "type": "object",
    "properties": {
        "colour": {"type": "string", "enum": ["red", "blue"]},
        "count": {"type": "integer", "minimum": 0},
    },
    "required": ["colour", "count"],
    "additionalProperties": False,
}
FITS = {"colour": "red", "count": 2}
UNFIT = "the reply does not fit the schema ({})"


@pytest.fixture(autouse=True)
def surroundings(monkeypatch, tmp_path):
    for name in ("OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("KU_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def ask(text="What is this?", *pictures, **more):
    return talk((*pictures, text), **more)


def talk(*turns, **more):
    """A request whose turns alternate between user and model; an image becomes a picture."""
    messages = [
        Message(
            ("user", "assistant")[n % 2],
            tuple(Picture(part) if isinstance(part, Image.Image) else part for part in parts),
        )
        for n, parts in enumerate(turns)
    ]
    return Request(tuple(messages), **more)


def page(image):
    """A picture of text, which is sent at full sharpness."""
    return Picture(image, sharp=True)


def replies(tmp_path):
    """The files of cached replies."""
    return list((tmp_path / "cache" / "replies").rglob("*.json"))


def client(endpoint, **more):
    """A client that records in `waits` the pauses that it would make."""
    waits = []
    mllm = model_at(endpoint.url, **({"wait": waits.append} | more))
    mllm.waits = waits
    return mllm


def failure(endpoint, request=None, **more):
    """The message of a failed call, after a check that its traceback does not contain the key."""
    with pytest.raises(ModelFailed) as caught:
        client(endpoint, **more).chat(request or ask())
    assert KEY not in "".join(traceback.format_exception(caught.value))
    return str(caught.value)


# ---- requests and replies ----------------------------------------------------------------------


def test_a_question_and_its_reply():
    with serving(says("A lamp.")) as endpoint:
        reply = client(endpoint).chat(ask(temperature=0.0))
    assert (reply.text, reply.parsed, reply.model, reply.cached) == ("A lamp.", None, "m-1", False)
    assert (reply.prompt_tokens, reply.completion_tokens) == (11, 7)
    assert endpoint.paths == ["/v1/chat/completions"]
    assert endpoint.bodies == [
        {
            "model": "m-1",
            "messages": [{"role": "user", "content": "What is this?"}],
            "temperature": 0.0,
            "max_tokens": 4096,
        }
    ]
    assert endpoint.headers[0]["authorization"] == f"Bearer {KEY}"


def test_a_conversation_keeps_its_turns_and_the_order_of_parts():
    image = Image.new("RGB", (8, 8))
    request = talk((image, "Look.", "What?"), ("A lamp.",), ("Sure?", image))
    with serving(says("Yes.")) as endpoint:
        client(endpoint).chat(request)
    first, second, third = endpoint.bodies[0]["messages"]
    assert [part["type"] for part in first["content"]] == ["image_url", "text", "text"]
    assert second == {"role": "assistant", "content": "A lamp."}
    assert [part["type"] for part in third["content"]] == ["text", "image_url"]


def test_pictures_are_made_smaller_and_keep_their_shape():
    noise = np.random.default_rng(1).integers(0, 256, (100, 400, 3), dtype=np.uint8)
    pictures = Image.fromarray(noise), page(Image.fromarray(noise[:, :50]))
    with serving(says("x"), says("y"), says("z")) as endpoint:
        client(endpoint, image_side=200).chat(ask("?", *pictures))
        photo, text = endpoint.pictures(0)
        client(endpoint, image_side=100).chat(ask("?", *pictures))
        assert [image.size for image in endpoint.pictures(1)] == [(100, 25), (50, 100)]
        client(endpoint, image_side=64).chat(ask("?", *pictures))
        assert [image.size for image in endpoint.pictures(2)] == [(64, 16), (50, 100)]
    assert (photo.format, photo.size) == ("JPEG", (200, 50))
    assert (text.format, text.size) == ("PNG", (50, 100))
    assert np.array_equal(np.asarray(text), noise[:, :50])


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "CMYK"])
def test_pictures_of_other_modes(mode):
    with serving(says("x")) as endpoint:
        client(endpoint).chat(ask("?", Image.new(mode, (9, 5))))
        assert endpoint.pictures(0)[0].size == (9, 5)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("  A lamp.\n", "A lamp."),
        ("<think>It is red {so}</think>\n\nA lamp.", "A lamp."),
        ("First: a tree.</think> No.</THINK>A lamp.", "A lamp."),
        ("A lamp. <think>Or is it", "A lamp."),
        ([{"type": "text", "text": "A "}, {"type": "text", "text": "lamp."}], "A lamp."),
        ("A\x1b[31m lamp.\x00", "A[31m lamp."),
        ("A \ud800 lamp", "A ? lamp"),
    ],
)
def test_words_are_cleaned(content, text):
    with serving(says(content)) as endpoint:
        assert client(endpoint).chat(ask()).text == text


def test_questions_that_no_encoding_takes_are_sent():
    with serving(says("x")) as endpoint:
        client(endpoint).chat(ask("photo\udcff.jpg\x00?"))
    assert endpoint.texts(0) == ["photo?.jpg?"]


def test_tokens_are_guessed_where_none_are_told():
    with serving(says("A lamp.", usage=False)) as endpoint:
        reply = client(endpoint).chat(ask("What?", Image.new("RGB", (8, 8))))
    assert (reply.prompt_tokens, reply.completion_tokens) == (1002, 3)


# ---- objects -----------------------------------------------------------------------------------


def test_an_object_is_held_to_its_schema():
    with serving(says(json.dumps(FITS))) as endpoint:
        reply = client(endpoint).chat(ask(schema=SCHEMA))
    assert reply.parsed == FITS
    assert endpoint.bodies[0]["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "reply", "strict": True, "schema": SCHEMA},
    }


@pytest.mark.parametrize(
    "refusal",
    [
        fails(400, "'response_format.type' must be 'json_object' or 'text'"),
        fails(422, "unknown field", param="response_format"),
        fails(500, 'type must be one of "text" or "json_object", but got: json_schema'),
        Said({"error": "response_format is not supported"}, 400),
    ],
)
def test_a_server_without_schemas_is_asked_in_words_from_then_on(refusal):
    fitting = says(f"Here you are:\n```json\n{json.dumps(FITS)}\n```")
    with serving(refusal, fitting, fitting) as endpoint:
        mllm = client(endpoint)
        assert mllm.chat(ask(schema=SCHEMA)).parsed == FITS
        assert mllm.chat(ask("Again?", schema=SCHEMA)).parsed == FITS
    assert mllm.waits == []
    formats = [body["response_format"]["type"] for body in endpoint.bodies]
    assert formats == ["json_schema", "json_object", "json_object"]
    for at in (1, 2):
        assert json.dumps(SCHEMA) in endpoint.texts(at)[-1]
    assert mllm.object_format == "json_object"


@pytest.mark.parametrize("status", [400, 422, 500])
def test_words_ask_where_no_format_is_supported(status):
    with serving(
        fails(status, "bad"), fails(status, "bad"), says(json.dumps(FITS)), says("x")
    ) as endpoint:
        mllm = client(endpoint)
        assert mllm.chat(ask(schema=SCHEMA)).parsed == FITS
        assert "response_format" not in endpoint.bodies[2]
        assert json.dumps(SCHEMA) in endpoint.texts(2)[-1]
        assert mllm.object_format == "words"
        assert mllm.chat(ask("Another?")).text == "x"


def test_an_error_that_is_none_of_formats_changes_nothing():
    bad = fails(400, "too long")
    with serving(bad, bad, bad, says(json.dumps(FITS))) as endpoint:
        mllm = client(endpoint)
        with pytest.raises(ModelFailed, match="status 400"):
            mllm.chat(ask(schema=SCHEMA))
        assert mllm.chat(ask("Short?", schema=SCHEMA)).parsed == FITS
        assert endpoint.bodies[3]["response_format"]["type"] == "json_schema"


def test_all_properties_are_requested_and_only_some_required():
    schema = {**SCHEMA, "required": ["colour"]}
    with serving(says('{"colour": "red"}')) as endpoint:
        assert client(endpoint).chat(ask(schema=schema)).parsed == {"colour": "red"}
    sent = endpoint.bodies[0]["response_format"]["json_schema"]["schema"]
    assert sent["required"] == ["colour", "count"]


@pytest.mark.parametrize(
    "refusal",
    [
        fails(400, "At most 1 image(s) may be provided in one request."),
        fails(500, "vision model only supports a single image per message"),
    ],
)
def test_an_endpoint_that_takes_one_picture_is_shown_the_one_of_the_last_message(refusal):
    text, crop, whole = (Image.new("RGB", (n, 9)) for n in (5, 6, 7))
    turns = (whole, "What?"), ("A tree.",), (crop, page(text), "Sure?")
    with serving(refusal, says("A lamp."), says("A lamp.")) as endpoint:
        mllm = client(endpoint)
        assert mllm.chat(talk(*turns)).text == "A lamp."
        assert mllm.chat(talk(*turns[:1])).text == "A lamp."
        assert [[p.size[0] for p in endpoint.pictures(n)] for n in range(3)] == [
            [7, 6, 5],
            [6],
            [7],
        ]
    assert [("takes one picture" in text) for text in endpoint.texts(1)] == [True, False, True]


def test_the_length_of_replies_is_limited():
    with serving(says("x"), says("y")) as endpoint:
        mllm = client(endpoint, max_reply_tokens=9)
        mllm.chat(ask())
        mllm.chat(ask(max_tokens=3))
    assert [body["max_tokens"] for body in endpoint.bodies] == [9, 3]


def test_a_reply_that_does_not_fit_is_asked_for_once_more():
    wrong, right = says('{"colour": "green", "count": 2}'), says(json.dumps(FITS))
    with serving(wrong, right, right) as endpoint:
        mllm = client(endpoint)
        reply = mllm.chat(ask(schema=SCHEMA))
        mllm.chat(ask("Again?", schema=SCHEMA))
    assert reply.parsed == FITS
    assert (reply.prompt_tokens, reply.completion_tokens) == (22, 14)
    question, answered, repaired = endpoint.bodies[1]["messages"]
    assert question["content"] == "What is this?"
    assert answered == {"role": "assistant", "content": '{"colour": "green", "count": 2}'}
    assert "$.colour: 'green' is not one of ['red', 'blue']" in repaired["content"]
    assert json.dumps(SCHEMA) in repaired["content"]
    formats = [body.get("response_format", {}).get("type") for body in endpoint.bodies]
    assert formats == ["json_schema", None, "json_schema"]


def test_after_three_replies_in_a_row_that_do_not_fit_objects_are_requested_in_words():
    fits, prose = says(json.dumps(FITS)), says("It is red.")
    with serving(prose, fits, prose, fits, fits, *[prose, fits] * 3, fits) as endpoint:
        mllm = client(endpoint)
        for _ in range(7):
            assert mllm.chat(ask(schema=SCHEMA)).parsed == FITS
    formats = [body.get("response_format", {}).get("type") for body in endpoint.bodies]
    with_schema, in_words = "json_schema", None
    assert formats == [
        *[with_schema, in_words] * 2,
        *[with_schema] * 2,
        in_words,
        *[with_schema, in_words] * 2,
        in_words,
    ]
    assert mllm.object_format == "words"


@pytest.mark.parametrize("bound", ["maxLength", "maxItems"])
def test_an_endpoint_that_takes_no_limits_of_lengths_gets_the_schema_without_them(bound):
    names = {"type": "array", "items": {"type": "string", "maxLength": 9}, "maxItems": 50}
    schema = {"type": "object", "properties": {"names": names}, "required": ["names"]}
    refusal = fails(400, f"Invalid schema: '{bound}' is not permitted.", param="response_format")
    with serving(refusal, *[says('{"names": ["Lamp"]}')] * 2) as endpoint:
        mllm = client(endpoint)
        for _ in range(2):
            assert mllm.chat(ask(schema=schema)).parsed == {"names": ["Lamp"]}
    sent = [body["response_format"]["json_schema"]["schema"] for body in endpoint.bodies]
    assert sent[0]["properties"]["names"]["maxItems"] == 50
    plain = {"type": "array", "items": {"type": "string"}}
    assert [sent_schema["properties"]["names"] for sent_schema in sent[1:]] == [plain, plain]
    assert mllm.object_format == "json_schema"


def test_choices_hold_no_control_tokens_where_the_schema_is_sent_in_words():
    name = {"type": "string", "enum": ["</s><|im_end|>", "[INST] Lamp"]}
    schema = {"type": "object", "properties": {"name": name}, "required": ["name"]}
    refusal = fails(400, "response_format is not supported")
    with serving(
        refusal, refusal, says('{"name": "Moon"}'), says('{"name": "[INST] Lamp"}')
    ) as endpoint:
        assert client(endpoint).chat(ask(schema=schema)).parsed == {"name": "[INST] Lamp"}
    words = "\n".join(endpoint.texts(2) + endpoint.texts(3))
    assert "\\u003c/s>\\u003c|im_end|>" in words
    assert "'Moon' is not one of" in words
    assert [mark for mark in ("</s", "<|im", "[INST]") if mark in words] == []


def test_a_truncated_reply_says_how_far_it_came_and_counts_in_the_budget():
    with serving(says("A la", finish="length")) as endpoint:
        mllm = client(endpoint, max_tokens=18)
        with pytest.raises(ModelFailed, match="raise mllm_max_reply_tokens") as caught:
            mllm.chat(ask())
        assert (caught.value.reply.text, caught.value.reply.completion_tokens) == ("A la", 7)
        with pytest.raises(BudgetSpent):
            mllm.chat(ask())


def test_a_model_that_gives_no_object_at_all():
    with serving(says("It is red."), says("Red, I said.")) as endpoint:
        assert "asked for a JSON object twice, and the reply holds no JSON object" in failure(
            endpoint, ask(schema=SCHEMA)
        )
        assert len(endpoint.bodies) == 2


def test_parameters_that_a_model_does_not_take_are_left_out_or_renamed():
    request = ask(temperature=0.0, max_tokens=50)
    with serving(
        fails(400, "Unsupported parameter", param="max_tokens", code="unsupported_parameter"),
        fails(400, "'temperature' does not support 0 with this model"),
        says("A lamp."),
        says("A tree."),
    ) as endpoint:
        mllm = client(endpoint)
        assert mllm.chat(request).text == "A lamp."
        assert mllm.chat(ask("And this?", temperature=0.0)).text == "A tree."
    sent = [{k: v for k, v in b.items() if k not in ("model", "messages")} for b in endpoint.bodies]
    assert sent == [
        {"temperature": 0.0, "max_tokens": 50},
        {"temperature": 0.0, "max_completion_tokens": 50},
        {"max_completion_tokens": 50},
        {"max_completion_tokens": 4096},
    ]


def test_a_refusal_about_something_else_changes_nothing():
    with serving(fails(400, "temperature: fine; messages: too long", param="messages")) as endpoint:
        message = failure(endpoint, ask(temperature=0.0))
        assert (
            "status 400 to a request for 'm-1' (temperature: fine; messages: too long): change"
            in message
        )
        assert len(endpoint.bodies) == 1


# ---- failures ----------------------------------------------------------------------------------


def test_nothing_listens():
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{reserved.getsockname()[1]}/v1"
        with pytest.raises(ModelFailed, match=r"nothing answers at .* start it, or set mllm_url"):
            model_at(url, "m", wait=pytest.fail).chat(ask())


def test_a_key_that_is_refused_is_not_repeated():
    with serving(fails(401, f"Incorrect API key provided: {KEY}.")) as endpoint:
        message = failure(endpoint)
        assert (
            "status 401 to a request for 'm-1' (Incorrect API key provided: [key].): set" in message
        )
        assert len(endpoint.bodies) == 1


def test_a_key_that_is_wanted(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    with serving(fails(401, "no")) as endpoint:
        assert "set OPENAI_API_KEY to a valid key" in failure(endpoint)


def test_a_busy_endpoint_is_left_alone_as_long_as_it_asks():
    with serving(fails(429, "slow down", {"Retry-After": "2"}), says("A lamp.")) as endpoint:
        mllm = client(endpoint)
        assert mllm.chat(ask()).text == "A lamp."
    (first,) = mllm.waits
    assert 2 < first <= 2.25


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (fails(429, "later", {"Retry-After": "3600"}), "asks for a pause of 3,600 s"),
        (fails(429, "no money", code="insufficient_quota"), "check the account's plan"),
        (fails(404, "no such model"), "or the complete address, often ending in /v1"),
        (fails(413, "big"), "lower mllm_image_side"),
        (Said(b"<html>Bad</html>", 400), "status 400 to a request for 'm-1': change the request"),
        (Said(b"<html>Hello</html>"), "replied with a web page: give the complete address"),
    ],
)
def test_what_no_further_try_would_mend(response, expected):
    with serving(response) as endpoint:
        assert expected in failure(endpoint, wait=pytest.fail)


def test_failures_of_the_moment_are_tried_again():
    whole = says("A lamp.")
    with serving(
        fails(500, "out of memory"),
        Said(whole.body, cut=40),
        Said(b'{"choices": [{"mess'),
        whole,
    ) as endpoint:
        mllm = client(endpoint)
        assert mllm.chat(ask()).text == "A lamp."
    assert len(mllm.waits) == 3
    assert all(0.25 * 2**n <= wait <= 0.5 * 2**n for n, wait in enumerate(mllm.waits))


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (
            fails(503, "loading"),
            "(loading): try later, or check the endpoint's log (tried 3 times)",
        ),
        (Said(says("A lamp.").body, cut=40), "the connection to "),
        (Said(b"lamp, of course"), "is not JSON (it starts with 'lamp, of course')"),
        (Said(b"[" * 100_000), "is not JSON"),
    ],
)
def test_tries_come_to_an_end(response, expected):
    with serving(response, response, response) as endpoint:
        message = failure(endpoint, retries=2)
        assert expected in message
        assert "(tried 3 times)" in message
        assert endpoint.says == []


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (
            says("A la", finish="length"),
            "was truncated at its maximum length (it ends with 'A la')",
        ),
        (says("", finish="length"), "was truncated at its maximum length"),
        (says(""), "the model's reply is empty: check whether"),
        (says(None), "the model's reply is empty"),
        (says(" \n "), "the model's reply is empty"),
        (says("", reasoning_content="Hm."), "is empty, it holds only reasoning"),
        (says("<think>A lamp."), "is empty, it holds only reasoning"),
        (says("", finish="content_filter"), "content filter withheld"),
        (says(None, refusal="I will not."), "refuses to reply: I will not."),
        (Said({"choices": []}), "holds no choices[0].message"),
        (Said([]), "holds no choices[0].message"),
        (Said({"choices": [{"message": 3}]}), "the model's reply is empty"),
    ],
)
def test_replies_that_are_none(response, expected):
    with serving(response) as endpoint:
        message = failure(endpoint)
        assert expected in message
        assert f"model 'm-1' at {endpoint.url}" in message


def test_a_reply_that_does_not_come():
    never = threading.Event()
    with serving(Said({}, gate=lambda: never.wait(20))) as endpoint:
        assert "did not reply within 0.2 s" in failure(endpoint, timeout_s=0.2, retries=0)
        never.set()


def test_a_reply_that_comes_in_drops():
    over = threading.Event()
    with serving(Said({}, drip=over)) as endpoint:
        assert "did not reply within 0.3 s" in failure(endpoint, timeout_s=0.3, retries=0)
        over.set()


def test_headers_that_come_in_drops():
    over = threading.Event()

    class Dripping(socketserver.BaseRequestHandler):
        def handle(self):
            self.request.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
            while not over.wait(0.02):
                self.request.sendall(b"x")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Dripping) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        with pytest.raises(ModelFailed, match=r"did not reply within 0\.3 s"):
            model_at(url, "m", timeout_s=0.3, retries=0).chat(ask())
        over.set()
        server.shutdown()


def test_redirects_are_not_followed():
    with serving(says("A lamp.")) as target:
        with serving(Said({}, 307, {"Location": f"{target.url}/chat/completions"})) as endpoint:
            assert (
                "307 to a request for 'm-1': redirects are not followed; set mllm_url"
                in failure(endpoint)
            )
        assert target.bodies == []


def test_a_reply_without_end(monkeypatch):
    monkeypatch.setattr("ku_rag.mllm.client._MAX_BYTES", 1000)
    with serving(Said(b" " * 100_000)) as endpoint:
        assert "sent over 1,000 bytes" in failure(endpoint)


# ---- addresses and keys ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("localhost:11434/v1", "is not an http:// or https:// address"),
        ("file:///etc/passwd", "is not an http"),
        ("http://", "is not an http"),
        ("http://[half/v1", "is not an http"),
        ("http://host:99999/v1", "is not an http"),
        ("http://ho st/v1", "is not an http"),
        ("http://host/v1\n", "is not an http"),
        (f"http://me:{KEY}@host/v1", "without a name, a password and a query"),
        (f"http://host/v1?key={KEY}", "without a name, a password and a query"),
    ],
)
def test_addresses_that_are_none(url, expected):
    with pytest.raises(ModelFailed, match=expected) as caught:
        model_at(url, "m")
    assert KEY not in str(caught.value)


def test_without_address_and_key(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(ModelFailed, match="set OPENAI_API_KEY to use OpenAI, or mllm_url"):
        model_at("", "gpt-5")


def test_a_key_alone_means_openai():
    assert model_at("", "gpt-5").url == "https://api.openai.com/v1"


def test_a_server_of_ones_own_needs_no_key(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    with serving(says("A lamp.")) as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
        assert model_at("", "m").chat(ask()).text == "A lamp."
    assert "authorization" not in endpoint.headers[0]


def test_an_address_that_only_the_transport_refuses():
    with pytest.raises(ModelFailed, match=r"no request can be sent to http://☃/v1 \(InvalidURL"):
        model_at("http://☃/v1", "m").chat(ask())


@pytest.mark.parametrize("key", ["x", "EMPTY", "ollama"])
def test_a_placeholder_is_no_secret(monkeypatch, key):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with serving(says(f"{key}, exactly")) as endpoint:
        assert client(endpoint).chat(ask()).text == f"{key}, exactly"


@pytest.mark.parametrize("key", ["sk-a\nb", "sk-a b", "sk-ä"])
def test_a_key_that_no_header_takes(monkeypatch, key):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(ModelFailed, match="copy the key into it again") as caught:
        model_at("", "m")
    assert key not in str(caught.value)


def test_the_key_is_in_no_log_and_no_file(caplog, tmp_path):
    caplog.set_level(logging.DEBUG)
    with serving(fails(500, "hm"), says(f"Your key is {KEY}")) as endpoint:
        recorded = RecordedMLLM(tmp_path / "r.jsonl", client(endpoint, is_cached=True))
        assert recorded.chat(ask()).text == "Your key is [key]"
    assert len(caplog.records) > 3
    assert KEY not in caplog.text
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 2
    for path in files:
        assert KEY not in path.read_text(encoding="utf-8")


# ---- limits ------------------------------------------------------------------------------------


def test_no_more_calls_at_once_than_allowed():
    pair, lock, inside, most = threading.Barrier(2), threading.Lock(), [0], [0]

    def gate():
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        pair.wait(20)
        with lock:
            inside[0] -= 1

    def by(_):
        return Said(says("A lamp.").body, gate=gate)

    with serving(by=by) as endpoint:
        mllm = client(endpoint, concurrency=2)
        with ThreadPoolExecutor(6) as pool:
            replies = list(pool.map(mllm.chat, [ask(f"{n}?") for n in range(6)]))
    assert [reply.text for reply in replies] == ["A lamp."] * 6
    assert most == [2]


def test_a_call_that_waits_for_its_next_try_holds_no_place():
    with serving(fails(500, "hm"), says("second"), says("first")) as endpoint:
        mllm = client(
            endpoint, concurrency=1, wait=lambda _: followups.append(mllm.chat(ask("2?")))
        )
        followups = []
        assert mllm.chat(ask("1?")).text == "first"
    assert [reply.text for reply in followups] == ["second"]


def test_a_budget_of_calls_counts_every_try():
    with serving(fails(500, "hm"), says("A lamp.")) as endpoint:
        mllm = client(endpoint, max_calls=2)
        mllm.chat(ask())
        with pytest.raises(
            BudgetSpent, match=r"2 calls of 2, 18 tokens of any number\): raise mllm_max_calls"
        ):
            mllm.chat(ask("Another?"))
        assert len(endpoint.bodies) == 2


def test_a_budget_of_tokens():
    with serving(says("A lamp."), says("A lamp.")) as endpoint:
        mllm = client(endpoint, max_tokens=20)
        mllm.chat(ask("1?"))
        mllm.chat(ask("2?"))
        with pytest.raises(BudgetSpent, match=r"2 calls of .* 36 tokens of 20\): raise mllm_max_"):
            mllm.chat(ask("3?"))


# ---- the cache ---------------------------------------------------------------------------------


def test_a_reply_is_paid_for_once():
    request = ask("?", Image.new("RGB", (8, 8), "red"), schema=SCHEMA)
    with serving(says(json.dumps(FITS))) as endpoint:
        mllm = client(endpoint, is_cached=True, max_calls=1)
        first, again = mllm.chat(request), mllm.chat(request)
    assert not first.cached
    assert again.cached
    assert (again.text, again.parsed, again.prompt_tokens) == (first.text, FITS, 11)


def test_a_reply_from_the_cache_needs_no_package_and_no_endpoint():
    with serving(says("A lamp.")) as endpoint:
        client(endpoint, is_cached=True).chat(ask())
    code = (
        "import sys\n"
        "from ku_rag.mllm import Message, Request, load_mllm\n"
        "from ku_rag.settings import Settings\n"
        f"mllm = load_mllm(Settings(mllm='m-1', mllm_url={endpoint.url!r}))\n"
        "print(mllm.chat(Request((Message('user', ('What is this?',)),))).text)\n"
        "print({'httpx', 'jsonschema'} & set(sys.modules))\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert process.stdout.split("\n") == ["A lamp.", "set()", ""]


def test_every_part_of_a_request_counts():
    red, blue = (Image.new("RGB", (8, 8), colour) for colour in ("red", "blue"))
    requests = [
        ask(),
        ask("What is that?"),
        ask("What is this?", red),
        ask("What is this?", blue),
        ask(temperature=0.0),
        ask(max_tokens=5),
    ]
    with serving(by=lambda _: says("x")) as endpoint:
        for request in requests * 2:
            client(endpoint, is_cached=True).chat(request)
        assert len(endpoint.bodies) == len(requests)
        model_at(endpoint.url, "m-2", is_cached=True).chat(ask())
        model_at(f"{endpoint.url}/b", is_cached=True).chat(ask())
        assert len(endpoint.bodies) == len(requests) + 2


def test_only_whole_replies_are_kept():
    with serving(says("A la", finish="length"), says("A lamp.")) as endpoint:
        failure(endpoint, is_cached=True)
        assert client(endpoint, is_cached=True).chat(ask()).text == "A lamp."


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:-9],
        lambda data: b"[" * 100_000,
        lambda data: b'{"reply": {}}',
    ],
)
def test_a_damaged_entry_is_asked_for_again(tmp_path, damage):
    with serving(says("A lamp."), says("A lamp again.")) as endpoint:
        client(endpoint, is_cached=True).chat(ask())
        (file,) = replies(tmp_path)
        file.write_bytes(damage(file.read_bytes()))
        assert client(endpoint, is_cached=True).chat(ask()).text == "A lamp again."
        assert client(endpoint, is_cached=True).chat(ask()).cached


def test_a_cache_that_cannot_be_written_is_as_good_as_none(tmp_path):
    (tmp_path / "cache").touch()
    with serving(says("A lamp.")) as endpoint:
        assert client(endpoint, is_cached=True).chat(ask()).text == "A lamp."


def test_where_the_cache_is(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    folders = tmp_path / "cache" / "replies", tmp_path / "xdg" / "ku-rag" / "replies"
    with serving(says("A lamp."), says("A lamp.")) as endpoint:
        client(endpoint, is_cached=True).chat(ask())
        assert [len(list(folder.rglob("*.json"))) for folder in folders] == [1, 0]
        monkeypatch.delenv("KU_CACHE")
        client(endpoint, is_cached=True).chat(ask())
        assert [len(list(folder.rglob("*.json"))) for folder in folders] == [1, 1]


# ---- settings and extras -----------------------------------------------------------------------


def test_settings_make_a_client(kb):
    assert kb.mllm is None
    with serving(says("A lamp."), says("A tree.")) as endpoint:
        settings = {"mllm_url": endpoint.url, "mllm_max_calls": 2, "mllm_cache": False}
        with KnowledgeBase.open(kb.path, mllm="m", **settings) as base:
            assert [base.mllm.chat(ask()).text for _ in range(2)] == ["A lamp.", "A tree."]
            with pytest.raises(BudgetSpent):
                base.mllm.chat(ask())


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(MissingExtra, match=r'pip install "ku-rag\[mllm\]"'):
        model_at("", "m").chat(ask())


# ---- requests and schemas ----------------------------------------------------------------------


def test_requests_that_are_none():
    with pytest.raises(BadInput, match="ends with a message of the role user"):
        Request(())
    with pytest.raises(BadInput, match="ends with a message of the role user"):
        Request((Message("assistant", ("Hm.",)),))


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(FITS),
        f"Sure! {json.dumps(FITS)} Was that right?",
        f"```json\n{json.dumps(FITS, indent=1)}\n```",
        '{"colour": "green"} no, rather {"colour": "red", "count": 2}',
        '{{"a": {"colour": "red", "count": 2}',
    ],
)
def test_objects_are_found_in_text(text):
    assert ScriptedMLLM([text]).chat(ask(schema=SCHEMA)).parsed == FITS


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "the reply holds no JSON object"),
        ("red, 2", "the reply holds no JSON object"),
        ("{" * 100_000, "the reply holds no JSON object"),
        ('{"a":' * 100_000, "the reply holds no JSON object"),
        ('{"colour": "red", "count": NaN}', "the reply holds no JSON object"),
        ('{"colour": "red"}', UNFIT.format("$: 'count' is a required property")),
        (
            '{"colour": "red", "count": true}',
            UNFIT.format("$.count: True is not of type 'integer'"),
        ),
        (
            '{"colour": "red", "count": -1}',
            UNFIT.format("$.count: -1 is less than the minimum of 0"),
        ),
    ],
)
def test_objects_that_do_not_fit(text, wrong):
    with pytest.raises(ModelFailed, match=re.escape(f"cannot be used: {wrong}")):
        ScriptedMLLM([text]).chat(ask(schema=SCHEMA))


def test_what_a_reply_says_beyond_what_was_asked_is_left_out():
    mllm = ScriptedMLLM(['{"colour": "red", "count": 2, "x": 1}'])
    assert mllm.chat(ask(schema=SCHEMA)).parsed == FITS


# ---- stand-ins ---------------------------------------------------------------------------------


def test_a_script_says_its_lines():
    reply = ScriptedMLLM(["whole"], model="x").chat(ask())
    mllm = ScriptedMLLM(["A lamp.", FITS, reply])
    assert mllm.chat(ask()).text == "A lamp."
    assert mllm.chat(ask(schema=SCHEMA)).parsed == FITS
    assert mllm.chat(ask()) is reply
    with pytest.raises(ModelFailed, match="the script is at its end"):
        mllm.chat(ask())
    assert len(mllm.requests) == 4


def test_a_script_may_be_a_function():
    mllm = ScriptedMLLM(lambda request: request.messages[-1].text.upper())
    assert mllm.chat(ask("red?")).text == "RED?"
    with pytest.raises(ModelFailed, match="scripted reply cannot be used: the reply holds no JSON"):
        mllm.chat(ask(schema=SCHEMA))


def _photo(change=0):
    rng = np.random.default_rng(5)
    pixels = rng.integers(20, 230, (6, 9, 3), dtype=np.uint8).repeat(10, 0).repeat(10, 1) + change
    return Image.fromarray(pixels)


def test_what_was_said_is_said_again(tmp_path):
    path = tmp_path / "new" / "r.jsonl"
    model = ScriptedMLLM(["A lamp.", FITS, "Über\u2028zwei Zeilen\x85."])
    recorded = RecordedMLLM(path, model)
    requests = [ask("What?", _photo()), ask(schema=SCHEMA), ask("Ünï\u2028code?")]
    first_replies = [recorded.chat(request) for request in requests * 2]
    assert len(model.requests) == 3
    again = RecordedMLLM(path)
    assert [again.chat(request) for request in requests * 2] == first_replies


def test_other_decoders_do_not_make_other_pictures(tmp_path):
    path = tmp_path / "r.jsonl"
    RecordedMLLM(path, ScriptedMLLM(["A lamp."])).chat(ask("What?", _photo()))
    replay = RecordedMLLM(path)
    assert replay.chat(ask("What?", _photo(change=3))).text == "A lamp."
    for picture in (_photo(change=25), _photo().resize((91, 60))):
        with pytest.raises(ModelFailed, match="does not hold this request"):
            replay.chat(ask("What?", picture))


def test_what_was_not_said_is_not_made_up(tmp_path):
    path = tmp_path / "r.jsonl"
    RecordedMLLM(path, ScriptedMLLM(["A lamp."])).chat(ask())
    replay = RecordedMLLM(path)
    for request in (ask("What?"), ask(temperature=1.0), ask(schema=SCHEMA), ask("What?", _photo())):
        with pytest.raises(ModelFailed, match="record it again with a model"):
            replay.chat(request)


def test_recordings_that_are_none(tmp_path):
    with pytest.raises(NotFound, match="give a model to record it with"):
        RecordedMLLM(tmp_path / "r.jsonl")
    for line in ("{", "[]", '{"request": {}, "pictures": [], "reply": {"text": 3}}'):
        (tmp_path / "r.jsonl").write_text(f"{line}\n", encoding="utf-8")
        with pytest.raises(BadInput, match="line 1 is not a recorded reply"):
            RecordedMLLM(tmp_path / "r.jsonl")
