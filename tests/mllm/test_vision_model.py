"""A vision model behind the transformers server in every role: requests and refusals.

The model has random weights: none of its replies fits a schema, and all rubbish has to be detected.
"""

from __future__ import annotations

import subprocess
import sys

import pytest
from PIL import Image

from ku_rag.errors import ModelFailed
from ku_rag.mllm import Message, Picture, Request
from ku_rag.mllm.call_errors import TruncatedReply
from tests import vision_model
from tests.endpoint import model_at
from tests.mllm.model_calls import LIMIT, QUERIES, QUESTION, LampBase
from tests.vision_model import IS_INSTALLED, PATCHES, save_vision_model

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(
        not IS_INSTALLED, reason="needs transformers[serving], as installed by `make test-all`"
    ),
    pytest.mark.usefixtures("own_surroundings"),
]
NO_OBJECT = "was asked for a JSON object twice, and the reply holds no JSON object"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_vision_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def url(folder, tmp_path_factory):
    log = tmp_path_factory.mktemp("server") / "log.txt"
    command = [sys.executable, vision_model.__file__, str(folder)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with log.open("wb") as errors, subprocess.Popen(command, stderr=errors, **pipes) as server:
        try:
            address = server.stdout.readline().strip()
            assert address, log.read_text("utf-8", "replace")[-2_000:]
            yield f"{address}/v1"
        finally:
            server.kill()


@pytest.fixture
def lamp(tmp_path, folder, url):
    return LampBase(tmp_path, str(folder), url)


def test_a_ping_learns_that_it_replies_and_that_it_names_no_colour(folder, url, ku):
    run = ku("models", "ping", "--mllm", folder, "--mllm-url", url, "--json")
    assert (run.code, run.json["replies"], run.json["pictures"]) == (0, True, False)
    assert (run.json["models"], run.json["object_format"]) == ([str(folder)], "")
    assert NO_OBJECT in run.json["problems"][0]


def test_it_is_sent_every_picture(folder, url):
    mllm = model_at(url, str(folder), max_reply_tokens=LIMIT)
    looked = [Picture(Image.new("RGB", (90, width), "red")) for width in (60, 90)]
    lengths = [
        mllm.chat(Request((Message("user", (*pictures, "Which?")),))).prompt_tokens
        for pictures in ([], looked[:1], looked)
    ]
    assert [length - lengths[0] for length in lengths] == [0, PATCHES, 2 * PATCHES]
    assert mllm.sees_pictures


@pytest.mark.parametrize("call", [*QUERIES, "extraction"])
def test_rubbish_in_place_of_an_object_ends_a_query_and_an_extraction(lamp, call):
    with pytest.raises(ModelFailed, match=NO_OBJECT):
        lamp.call(call)
    assert lamp.extracted() == 0


def test_rubbish_identifies_no_candidate(lamp):
    answer = lamp.call("identification")
    assert (answer.outcome, answer.answer, answer.draft) == ("unsure", "", None)
    assert answer.correction.notes[0].startswith("candidates were not identified: the model")
    assert NO_OBJECT in answer.correction.notes[0]
    assert answer.units[0].id == "lamp"


def test_a_draft_that_reaches_the_limit_goes_on_and_the_second_turn_is_an_error(lamp):
    events = []
    with lamp.opened(mllm_max_reply_tokens=3) as kb, pytest.raises(TruncatedReply):
        events.extend(kb.query_events(None, QUESTION))
    assert events[-1].kind == "draft"
    assert events[-1].data["draft"]


def test_the_embedded_planner_decides_in_place_of_rubbish(lamp):
    plan = lamp.call("plan")
    assert [step.action for step in plan.rounds] == ["text", "none"]
    for step in plan.rounds:
        assert step.queries == (QUESTION,)
        assert all(note.startswith("decided by the embedded planner") for note in step.notes)
    assert plan.stopped


def test_rubbish_of_agents_opens_nothing(lamp):
    answer = lamp.call("agents")
    assert answer.search.steps == ()
    assert answer.search.topic.name == "Brass lamp"  # the question names it
    assert all(entry.failed and NO_OBJECT in entry.remark for entry in answer.search.trace)
    assert all(entry.completion_tokens <= LIMIT for entry in answer.trace)


def test_its_captions_are_texts_of_bounded_length(lamp):
    assert lamp.call("captions").units_updated == 2
    with lamp.opened() as kb:
        caption = kb.show("lamp").metadata[f"caption by {lamp.model}"]
    assert 0 < len(caption) <= LIMIT
    assert lamp.call("captions").units_updated == 0
