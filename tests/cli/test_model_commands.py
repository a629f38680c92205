"""The commands that ask a model: options, failures, interrupts, and `ku models ping`."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

from ku_rag import KnowledgeBase, Unit
from ku_rag.types import Relation
from tests.conftest import picture
from tests.endpoint import Said, fails, says, serving

COMMANDS = [
    ("query", "-", "Where does the lamp come from?"),
    ("graph", "search", "Who designed the lamp?"),
    ("graph", "search", "Who designed the lamp?", "--topic", "lamp", "--setting", "vanilla"),
    ("graph", "caption"),
]


@pytest.fixture(autouse=True)
def base(tmp_path, own_surroundings):
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.add(
            Unit(
                "Lamp",
                id="lamp",
                texts=("The lamp comes from Peru.",),
                images=(picture(tmp_path / "lamp.png", 1),),
                metadata={"topic": True},
                relations=(Relation("designed by", "Lumen", "firm"),),
            )
        )


def plays(body):
    """A model that replies to every request."""
    properties = body.get("response_format", {}).get("json_schema", {}).get("schema", {})
    values = {
        "answer": "Peru", "topic": "Lamp", "useful": ["Lumen"], "enough": True, "colour": "red",
    }  # fmt: skip
    fields = {name: values[name] for name in properties.get("properties", ()) if name in values}
    return says(json.dumps(fields) if fields else "Red")


# ---- failures ----------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS[:3])
def test_a_dead_endpoint_is_one_sentence_and_exit_1(ku, command):
    run = ku(*command, "--mllm", "m-1", "--mllm-url", "http://127.0.0.1:9/v1")
    assert (run.code, run.out) == (1, "")
    assert run.err.startswith(
        "error: nothing answers at http://127.0.0.1:9/v1 (connection refused)"
    )
    assert run.err.count("\n") == 1


@pytest.mark.parametrize("command", COMMANDS, ids=[" ".join(c[:2]) for c in COMMANDS])
def test_an_interrupt_ends_a_waiting_command(tmp_path, command):
    waiting, over = threading.Event(), threading.Event()

    def gate():
        waiting.set()
        over.wait(60)

    script = "from ku_rag.cli import main; main()"
    with serving(by=lambda _: Said({}, gate=gate)) as endpoint:
        running = subprocess.Popen(
            [sys.executable, "-c", script, *command, "--mllm", "m-1", "--mllm-url", endpoint.url],
            cwd=tmp_path,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert waiting.wait(60)
        time.sleep(0.1)
        begun = time.monotonic()
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=30)
        took = time.monotonic() - begun
        over.set()
    assert running.returncode == 130
    assert "Traceback" not in err
    assert took < 2 * max(1, os.getloadavg()[0])


# ---- options -----------------------------------------------------------------------------------


def test_options_of_a_model_reach_its_calls(ku):
    command = (*COMMANDS[0], "--mllm", "m-1", "--max-reply-tokens", "77")
    with serving(by=plays) as endpoint:
        first = ku(*command, "--mllm-url", endpoint.url)
        assert first.out.startswith("Peru\n")
        assert "m-1: 2 replies, 0 of them from the cache; 22 + 14 tokens\n" in first.err
        assert {body["max_tokens"] for body in endpoint.bodies} == {77}
        again = ku(*command, "--mllm-url", endpoint.url)
        assert "m-1: 2 replies, 2 of them from the cache; 0 + 0 tokens\n" in again.err
        assert len(endpoint.bodies) == 2
        ku(*command, "--mllm-url", endpoint.url, "--no-cache")
        assert len(endpoint.bodies) == 4
        usage = ku(*command, "--mllm-url", endpoint.url, "--json").json["usage"]
    assert usage == {
        "replies": 2, "cached": 2, "prompt_tokens": 0, "completion_tokens": 0, "cached_tokens": 36,
    }  # fmt: skip


def test_the_cost_is_told_where_prices_are_set(ku, monkeypatch):
    monkeypatch.setenv("KU_MLLM_PROMPT_PRICE", "2.5")
    monkeypatch.setenv("KU_MLLM_REPLY_PRICE", "10")
    with serving(by=plays) as endpoint:
        run = ku("graph", "search", "Who?", "--mllm", "m-1", "--mllm-url", endpoint.url)
    replies = len(endpoint.bodies)
    cost = replies * (11 * 2.5 + 7 * 10) / 1e6
    assert f"{replies} replies, 0 of them from the cache; " in run.err
    assert f"cost {cost:.6f}\n" in run.err


def test_a_timeout_is_obeyed(ku):
    over = threading.Event()
    with serving(by=lambda _: Said({}, gate=lambda: over.wait(30))) as endpoint:
        url = ("--mllm-url", endpoint.url)
        run = ku(*COMMANDS[0], "--mllm", "m-1", *url, "--mllm-timeout", "0.2")
        over.set()
    assert (run.code, len(endpoint.bodies)) == (1, 1)
    assert "did not reply within 0.2 s" in run.err


def test_a_terminal_shows_that_the_model_is_asked(tmp_path):
    script = "from ku_rag.cli import main; main()"
    with serving(by=lambda body: Said(plays(body).body, gate=lambda: time.sleep(0.3))) as endpoint:
        ours, theirs = pty.openpty()
        process = subprocess.run(
            [sys.executable, "-c", script, *COMMANDS[0], "--mllm", "m-1"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=theirs,
            env={**os.environ, "OPENAI_BASE_URL": endpoint.url, "TERM": "xterm"},
        )
        os.close(theirs)
        output = os.read(ours, 100_000).decode()
        os.close(ours)
    assert process.stdout.startswith(b"Peru\n")
    assert "m-1" in output


def test_a_folder_of_prompts_serves_the_graph_as_well(ku, tmp_path, monkeypatch):
    (tmp_path / "kb" / "mine").mkdir()
    (tmp_path / "kb" / "mine" / "answer.md").write_text("Published: $question $data")
    monkeypatch.setenv("KU_PROMPTS", "mine")
    with serving(by=plays) as endpoint:
        ku("graph", "search", "Who made it?", "--mllm", "m-1", "--mllm-url", endpoint.url)
    assert endpoint.texts(len(endpoint.bodies) - 1)[0].startswith("Published: Who made it?")


# ---- ku models ping ----------------------------------------------------------------------------


def ping(ku, by, *options):
    with serving(by=by) as endpoint:
        endpoint.listed = says("").body | {"data": [{"id": "m-1"}, {"id": "m-2"}, {"no": 1}]}
        return ku("models", "ping", "--mllm-url", endpoint.url, *options)


def test_ping_tells_what_a_model_supports(ku):
    run = ping(ku, plays, "--mllm", "m-1", "--json")
    assert run.code == 0
    assert {key: value for key, value in run.json.items() if key != "url"} == {
        "model": "m-1",
        "models": ["m-1", "m-2"],
        "replies": True,
        "pictures": True,
        "object_format": "json_schema",
        "problems": [],
    }
    lines = ping(ku, plays, "--mllm", "m-1").out.split("\n")
    assert lines[0].endswith("/v1 answers")
    assert lines[1:5] == [
        "models: m-1, m-2",
        "m-1 replies",
        "pictures: seen",
        "objects: json_schema",
    ]


def test_ping_tells_what_a_model_does_not_support(ku):
    def blind(body):
        if isinstance(body["messages"][0]["content"], list):
            return fails(400, "no pictures")
        if "response_format" in body:
            return fails(400, "unknown field", param="response_format")
        return says('{"colour": "red"}')

    report = ping(ku, blind, "--mllm", "m-1", "--json").json
    assert (report["replies"], report["pictures"]) == (True, False)
    assert report["object_format"] == "words"
    (problem,) = report["problems"]
    assert "no pictures" in problem


def test_ping_without_a_model_lists_those_of_the_endpoint(ku):
    expected = ["models: m-1, m-2", "no model was tried: name one with --mllm MODEL", ""]
    assert ping(ku, plays).out.split("\n")[1:] == expected


def test_an_endpoint_without_a_model_is_refused(ku):
    ku("add", "--name", "Lamp", "--text", "It shines.")
    run = ku("query", "-", "Does it shine?", "--mllm-url", "http://127.0.0.1:9/v1")
    assert (run.code, "--mllm-url needs a model: add --mllm MODEL" in run.err) == (2, True)


def test_ping_fails_where_nothing_answers(ku):
    run = ku("models", "ping", "--mllm", "m-1", "--mllm-url", "http://127.0.0.1:9/v1")
    assert run.code == 1
    assert run.err.startswith("error: nothing answers at")
    failing = ping(ku, lambda _: fails(404, "no such model"), "--mllm", "m-1")
    assert failing.code == 1
    assert "m-1 does not reply" in failing.out


def test_a_model_reads_facts_whose_words_are_in_the_text(ku, tmp_path):
    stated = {
        "unit": "Lamp", "label": "comes from", "value": "Peru",
        "sentence": "The lamp comes from Peru.",
    }  # fmt: skip
    facts = [stated, stated | {"value": "Chile"}]
    with serving(by=lambda _: says(json.dumps({"facts": facts}))) as endpoint:
        model = ("--mllm", "m-1", "--mllm-url", endpoint.url)
        planned = ku("extract", *model, "--dry-run")
        assert re.fullmatch(r"1 chunk to read, about \d+ \+ 150 tokens\n", planned.out)
        assert endpoint.bodies == []
        run = ku("extract", *model)
        assert run.out == "1 fact from 1 chunk\n"
        assert "1 proposed facts were not stored: the value is not in the sentence\n" in run.err
        assert "m-1: 1 replies, 0 of them from the cache; 11 + 7 tokens\n" in run.err
        passing = ku("list", "--where", "any:comes from=Peru", "--json").json
        assert [unit["id"] for unit in passing] == ["lamp"]
        # Facts from two models stay when the facts of one are deleted.
        assert ku("extract", "--mllm", "m-2", *model[2:]).out == "1 fact from 1 chunk\n"
        assert ku("extract", "--mllm", "m-1", "--remove", "--dry-run").code == 2
        assert ku("extract", "--remove").code == 2
        assert ku("extract", "--mllm", "m-1", "--remove").out == "removed 1 fact\n"
        assert ku("list", "--where", "any:comes from=Peru", "--json").json == passing


def test_ingest_has_a_model_read_facts(ku, tmp_path, monkeypatch):
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "lock.txt").write_text("The lock was made in Chile.\n")
    fact = {"label": "made in", "value": "Chile", "sentence": "The lock was made in Chile."}
    with serving(
        by=lambda body: says(
            json.dumps({"facts": [fact | {"unit": "lock"}] if "Chile" in str(body) else []})
        )
    ) as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
        run = ku("ingest", str(tmp_path / "more"), "--extract", "m-1")
    assert (run.code, len(endpoint.bodies)) == (0, 2)
    assert "1 fact from 2 chunks\n" in run.err
    assert ku("query", "-", "Where does the lamp come from?").code == 0, "asks no model"
    output = ku("show", "lock").out
    assert "\n  made in: Chile  (extracted by m-1)\n" in output
