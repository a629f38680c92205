"""Identification: a model chooses one or none of the candidates of an unsure match."""

from __future__ import annotations

import pytest
from PIL import Image

from ku_rag import KnowledgeBase, ScriptedMLLM, Unit
from ku_rag.errors import BudgetSpent, ModelFailed
from tests.conftest import picture
from tests.endpoint import fails, says, serving

QUESTION = "Where does it come from?"
UNSURE = {"confidence_threshold": 1.0}


@pytest.fixture(scope="module")
def lamps(tmp_path_factory):
    """A base of eight lamps, each with a picture and a text."""
    folder = tmp_path_factory.mktemp("lamps")
    with KnowledgeBase.open(folder / "kb", create=True) as kb:
        kb.add_many(
            Unit(
                f"Lamp {n}",
                id=str(n),
                texts=(f"Origin: Land {n}.",),
                images=(picture(folder / f"{n}.png", n, size=(120 + n, 90)),),
            )
            for n in range(8)
        )
    return folder


def names(number, reason="It has the same foot."):
    return {"reason": reason, "candidate": number}


def verdict(answer, *citations):
    return {"reason": "So.", "citations": [*citations], "answer": answer, "changed": True}


def ask(lamps, replies, image="3.png", question=QUESTION, settings=UNSURE, **options):
    mllm = ScriptedMLLM(replies)
    with KnowledgeBase.open(lamps / "kb", read_only=True, mllm=mllm, **settings) as kb:
        image = lamps / image if isinstance(image, str) else image
        return kb.query(image, question, **options), mllm.requests


@pytest.mark.parametrize(
    "options", [{}, {"plan": "parallel"}, {"method": "evidence"}, {"kcc": False}]
)
def test_the_unit_that_a_model_names_comes_first_and_is_sure(lamps, options):
    def play(request):
        fields = request.schema["properties"] if request.schema else {}
        if "candidate" in fields:
            return names(2)
        if "action" in fields:
            return {"action": "image" if not answered else "none"}
        if "queries" in fields:
            return {"queries": [QUESTION], "clear": True}
        if "entity_types" in fields:
            return {"entity_types": ["lamp"]}
        answered.append(fields)
        return {name: verdict("Land").get(name, []) for name in fields} or "Peru"

    answered = []
    before, _ = ask(lamps, ["Peru", verdict("")], settings=UNSURE | {"identify": False})
    answer, _ = ask(lamps, play, **options)
    second, count = before.units[1], 3 if options.get("plan") else 5
    assert (answer.units[0].id, answer.units[1].id) == (second.id, before.units[0].id)
    assert answer.units[0].why == f"{second.why}; a model identified it among {count}"
    assert f"identify 1: of {count} candidates the model names 2" in answer.correction.notes
    assert answer.chunks[0].owners == (second.id,) or options.get("plan")
    assert "identify" in answer.timings_ms
    assert answer.outcome == "answered"


def test_a_model_sees_region_and_numbered_pictures_and_no_text(lamps):
    answer, (request, *_) = ask(lamps, [names(1), "Peru", verdict("Land 3", "E1")])
    (message,) = request.messages
    assert request.temperature == 0
    assert request.needed_pictures == len(message.pictures) == 6
    assert [part for part in message.parts if isinstance(part, str)][:5] == [
        "1:",
        "2:",
        "3:",
        "4:",
        "5:",
    ]
    assert request.schema["properties"]["candidate"] == {
        "type": "integer",
        "enum": [0, 1, 2, 3, 4, 5],
    }
    assert "Lamp" not in message.text
    assert "Land" not in message.text
    widths = [part.image.width for part in message.pictures[1:]]
    assert widths == [120 + int(unit.id) for unit in answer.units[:5]]


def test_the_region_is_shown_as_large_as_in_the_original(lamps):
    scene = Image.new("RGB", (3000, 2000), "white")
    with Image.open(lamps / "3.png") as lamp:
        scene.paste(lamp.resize((1200, 900)), (900, 500))
    answer, (request, *_) = ask(lamps, [names(0)], image=scene)
    x0, y0, x1, y1 = answer.region.box
    assert x1 - x0 < 3000
    assert request.messages[0].pictures[0].image.size == (x1 - x0, y1 - y0)


@pytest.mark.parametrize("options", [{}, {"method": "evidence"}, {"kcc": False}])
@pytest.mark.parametrize(
    ("reply", "note"),
    [
        (names(0), "identify 1: of 5 candidates the model names none"),
        ("The third, surely!", "candidates were not identified: the scripted reply cannot be used"),
        (names(6), "candidates were not identified"),
        (names(True), "candidates were not identified"),
        ('{"candidate": "none of them"}', "candidates were not identified"),
    ],
)
def test_a_model_that_names_none_or_rubbish_yields_unsure(lamps, options, reply, note):
    answer, requests = ask(lamps, [reply], **options)
    assert (answer.outcome, answer.answer, answer.draft) == ("unsure", "", None)
    assert "No unit was identified" in answer.reading.why
    assert answer.units[0].id == "3"
    assert len(answer.units) > 5
    assert any(line.startswith(note) for line in answer.correction.notes)
    assert len(requests) == 1


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        ({}, {}),
        (UNSURE, {"question": "Where does Lamp 5 come from?"}),
        (UNSURE, {"image": None, "question": "Where does Lamp 5 come from?"}),
        (UNSURE, {"unit": "3"}),
        (UNSURE, {"strict": "kurag"}),
        (UNSURE, {"method": "model-only"}),
        (UNSURE | {"identify": False}, {}),
    ],
)
def test_nothing_is_identified_where_the_match_is_sure_or_it_is_switched_off(
    lamps, settings, options
):
    answer, requests = ask(lamps, ["Peru", verdict("Land 3")], settings=settings, **options)
    assert answer.outcome == "answered"
    assert not any(
        "candidate" in (request.schema or {}).get("properties", ()) for request in requests
    )
    assert "identify" not in answer.timings_ms


def test_a_model_that_fails_or_is_spent_ends_the_query(lamps):
    with serving(fails(401, "no key")) as endpoint:
        client = {"mllm": "m-1", "mllm_url": endpoint.url, **UNSURE}
        kb = KnowledgeBase.open(lamps / "kb", read_only=True, **client)
        with kb, pytest.raises(ModelFailed, match="401"):
            kb.query(lamps / "3.png", QUESTION)

    def spent(_):
        raise BudgetSpent("the budget is spent")

    with pytest.raises(BudgetSpent):
        ask(lamps, spent)


def test_a_model_for_vision_identifies_and_one_without_sight_does_not(lamps, tmp_path, monkeypatch):
    monkeypatch.setenv("KU_CACHE", str(tmp_path / "cache"))

    def reads(body):
        if '"image_url"' in str(body).replace("'", '"'):
            return fails(400, "m-1 is not a multimodal model")
        return says('{"answer": "Land 3"}' if "response_format" in body else "Peru")

    def sees(body):
        return says(
            '{"candidate": 1, "reason": "Same."}' if "response_format" in body else "A lamp."
        )

    with serving(by=reads) as endpoint, serving(by=sees) as vision:
        client = {"mllm": "m-1", "mllm_url": endpoint.url, "read_only": True, **UNSURE}
        with KnowledgeBase.open(lamps / "kb", **client) as kb:
            alone = kb.query(lamps / "3.png", QUESTION)
        eyes = {"vision_mllm": "v-1", "vision_mllm_url": vision.url}
        with KnowledgeBase.open(lamps / "kb", **client, **eyes) as kb:
            helped = kb.query(lamps / "3.png", QUESTION)
    assert [answer.outcome for answer in (alone, helped)] == ["unsure", "answered"]
    assert alone.correction.notes[0].startswith("candidates were not identified: the model 'm-1'")
    assert helped.correction.notes[0] == "identify 1: of 5 candidates the model names 1"
    assert helped.correction.usage["replies"] == 4


def test_the_command_switches_it(lamps, ku, tmp_path, monkeypatch):
    monkeypatch.setenv("KU_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("KU_CONFIDENCE_THRESHOLD", "1")

    def plays(body):
        schema = body.get("response_format", {}).get("json_schema", {}).get("schema", {})
        if "candidate" in schema.get("properties", {}):
            return says('{"candidate": 0}')
        return says('{"answer": "Land 3"}' if schema else "Peru")

    with serving(by=plays) as endpoint:
        command = ("query", str(lamps / "3.png"), QUESTION, "--kb", str(lamps / "kb"))
        model = ("--mllm", "m-1", "--mllm-url", endpoint.url)
        outcomes = [
            ku(*command, *model, *more, "--json").json["outcome"]
            for more in ([], ["--identify"], ["--no-identify"])
        ]
    assert outcomes == ["unsure", "unsure", "answered"]
