"""The six settings, end to end over a scripted endpoint: the data that each agent gets."""

from __future__ import annotations

import json

import pytest
from PIL import Image

from ku_rag import KnowledgeBase
from ku_rag.errors import BadInput, BudgetSpent, ModelFailed
from ku_rag.types import Relation, Unit
from tests.conftest import picture
from tests.endpoint import fails, says, serving
from tests.papers.mhmmkg.test_mllm_agents import data, role

QUESTION = "Which attack follows?"
HINT = "The monster is Rathian."
PEOPLE = "People say that it charges."
SEEN = "The model sees that it charges."
ANOTHER = "Something green runs."
OF_PEOPLE, OFFLINE, ONLINE = "Runs three times.", "A wyvern that runs.", "It runs at the hunter."
BITE = "Rathian —attack of→ Triple Rush —continues→ Bite (when near)"

TO_RUSH = "Rathian —attack of→ "

GOLD = [["Rathian", "Triple Rush", "Bite"]]

SEARCH = ["topic", "validate", "expand", "validate", "expand", "validate", "expand"]


@pytest.fixture
def monsters(kb, tmp_path):
    kb.add_many(
        [
            Unit(
                "Rathian",
                id="Rathian",
                metadata={"topic": True},
                relations=(Relation("attack of", "Rathian>Triple Rush", "attack"),),
            ),
            Unit(
                "Triple Rush",
                id="Rathian>Triple Rush",
                images=(picture(tmp_path / "rush.png", 1),),
                metadata={
                    "caption": OF_PEOPLE,
                    "caption by m-1": OFFLINE,
                    "caption by m-2": ANOTHER,
                },
                relations=(Relation("continues", "Bite", "attack", None, "near"),),
            ),
        ]
    )
    return kb


def plays(enough=("Bite",), stumbles=()):
    """The replies of an endpoint that plays every agent."""

    def say(body):
        content = body["messages"][-1]["content"]
        parts = [content] if isinstance(content, str) else [p.get("text", "") for p in content]
        text = "\n".join(parts)
        playing = role(text)
        if playing in stumbles:
            return fails(400, "this cannot be done")
        if playing == "topic":
            return says(json.dumps({"reason": "It is named.", "topic": "Rathian"}))
        if playing == "expand":
            neighbours = [line["neighbour"] for line in data(text) if "neighbour" in line]
            return says(json.dumps({"reason": "So.", "useful": neighbours}))
        if playing == "validate":
            end = [line for line in data(text) if "entity" in line][-1]["entity"]
            verdict = {"caption": ONLINE, "reason": "So.", "enough": end in enough}
            return says(json.dumps(verdict))
        return says(SEEN if playing == "perceive" else "Bite")

    return say


def ask(kb, setting, endpoint, *, pictures=True, perception=PEOPLE, settings=None, **options):
    images = (Image.new("RGB", (1600, 800), "green"),) if pictures else ()
    settings = {"mllm": "m-1", "mllm_retries": 0, "mllm_cache": False} | (settings or {})
    with KnowledgeBase.open(kb.path, mllm_url=endpoint.url, **settings) as base:
        about = {"images": images, "hints": HINT, "perception": perception}
        return base.graph.search(QUESTION, setting=setting, **about, **options)


def played(endpoint):
    return [role("\n".join(endpoint.texts(n))) for n in range(len(endpoint.bodies))]


@pytest.mark.parametrize(
    ("setting", "agents", "with_pictures", "included"),
    [
        ("vanilla", ["answer"], [True], []),
        ("vanilla+", ["answer"], [False], [PEOPLE]),
        ("knowledgeable", ["answer"], [False], [PEOPLE, BITE, OF_PEOPLE]),
        ("perceptive", [*SEARCH[:-1], "answer"], [False] * 7, [PEOPLE, BITE, OF_PEOPLE]),
        (
            "unaided-offline",
            ["perceive", *SEARCH[:-1], "answer"],
            [True, *[False] * 6, True],
            [SEEN, BITE, OFFLINE],
        ),
        (
            "unaided-online",
            ["perceive", *SEARCH[:-1], "answer"],
            [True, False, False, False, True, False, False, True],
            [SEEN, BITE, ONLINE],
        ),
    ],
)
def test_a_setting_gives_what_table_2_says_and_nothing_else(
    monsters, setting, agents, with_pictures, included
):
    with serving(by=plays()) as endpoint:
        answered = ask(monsters, setting, endpoint, gold=GOLD)
    assert (answered.answer, answered.failed, answered.setting) == ("Bite", "", setting)
    assert played(endpoint) == agents
    assert [bool(endpoint.pictures(n)) for n in range(len(agents))] == with_pictures
    (last,) = endpoint.texts(len(agents) - 1)
    assert QUESTION in last
    assert HINT in last
    every = (PEOPLE, SEEN, BITE, OF_PEOPLE, OFFLINE, ONLINE)
    assert [part for part in every if part in last.replace('\\"', '"')] == included
    others = "".join(text for n in range(len(agents)) for text in endpoint.texts(n))
    assert [part for part in every if part in others] == included
    assert (answered.search is not None) == ("topic" in agents)
    assert answered.usage == {
        "calls": len(agents),
        "cached": 0,
        "prompt_tokens": 11 * len(agents),
        "completion_tokens": 7 * len(agents),
        "cached_tokens": 0,
    }
    assert [path.text for path in answered.paths] == ([BITE] if BITE in included else [])
    assert (answered.trace[-1].agent, answered.trace[-1].said) == ("answer", "Bite")


def test_pictures_are_sent_in_the_size_that_the_paper_has(monsters):
    with serving(by=plays()) as endpoint:
        ask(monsters, "vanilla", endpoint)
        assert [image.size for image in endpoint.pictures(0)] == [(1024, 512)]


def test_the_result_is_told_as_json(monsters):
    with serving(by=plays()) as endpoint:
        answered = ask(monsters, "perceptive", endpoint)
    document = answered.to_dict()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert document["setting"] == "perceptive"
    assert document["perception"] == PEOPLE
    assert document["paths"] == [BITE]
    assert document["found"]["stopped"] == "nothing was left to open"
    assert [entry["agent"] for entry in document["trace"]] == [
        "topic", "validation", "expansion", "validation", "expansion", "validation", "answer",
    ]  # fmt: skip
    assert document["usage"]["calls"] == 7


def test_where_no_path_is_enough_the_best_leaves_are_told(monsters):
    with serving(by=plays(enough=())) as endpoint:
        answered = ask(monsters, "perceptive", endpoint)
    assert not answered.search.enough
    assert [path.text for path in answered.paths] == [BITE]
    assert answered.answer == "Bite"


def test_no_more_paths_are_told_than_alpha(kb):
    names = [f"Move {n}" for n in range(8)]
    relations = [Relation("has", name, "attack") for name in names]
    kb.add(Unit("Rathian", id="Rathian", metadata={"topic": True}, relations=relations))
    with serving(by=plays(enough=names)) as endpoint:
        five = ask(kb, "perceptive", endpoint)
        two = ask(kb, "perceptive", endpoint, most=2)
    assert len(five.paths) == 5
    assert [path.end.name for path in two.paths] == ["Move 0", "Move 1"]


def test_a_question_without_pictures_needs_no_perceiver(monsters):
    with serving(by=plays()) as endpoint:
        answered = ask(monsters, "unaided-online", endpoint, pictures=False)
        assert "perceive" not in played(endpoint)
        assert ask(monsters, "vanilla+", endpoint, pictures=False, perception="").answer == "Bite"
    assert answered.perception == ""


def test_a_topic_that_is_given_is_not_asked_for(monsters):
    with serving(by=plays()) as endpoint:
        answered = ask(monsters, "perceptive", endpoint, topic="Triple Rush")
        assert "topic" not in played(endpoint)
    assert [path.text for path in answered.paths] == [BITE.removeprefix(TO_RUSH)]


def test_depth_first_and_the_longest_path_are_passed_on(monsters):
    with serving(by=plays()) as endpoint:
        deep = ask(monsters, "perceptive", endpoint, depth_first=True)
        short = ask(monsters, "perceptive", endpoint, rounds=1)
    assert [path.text for path in deep.paths] == [BITE]
    assert [path.text for path in short.paths] == ["Rathian —attack of→ Triple Rush"]


def test_the_captions_of_another_model_and_prompts_of_ones_own_are_used(monsters, tmp_path):
    own = tmp_path / "prompts"
    own.mkdir()
    text = "Give the answer in as few words: $question $data HERE"
    (own / "answer.md").write_text(text, encoding="utf-8")
    settings = {"mllm": "m-2", "prompts": str(own)}
    with serving(by=plays()) as endpoint:
        ask(monsters, "unaided-offline", endpoint, settings=settings)
        (last,) = endpoint.texts(-1)
    assert last.endswith("HERE")
    assert ANOTHER in last
    assert OFFLINE not in last


# ---- refusals and failures ----------------------------------------------------------------------


def test_settings_refuse_what_they_cannot_do(monsters):
    with serving(by=plays()) as endpoint:
        with pytest.raises(BadInput, match="expected one of vanilla, vanilla\\+, knowledgeable"):
            ask(monsters, "clairvoyant", endpoint)
        with pytest.raises(BadInput, match="give them as `gold`"):
            ask(monsters, "knowledgeable", endpoint)
        for setting in ("vanilla+", "knowledgeable", "perceptive"):
            with pytest.raises(BadInput, match="give it as the query's `perception`"):
                ask(monsters, setting, endpoint, perception="", gold=GOLD)
        assert endpoint.bodies == []


def test_without_a_search_a_failed_reply_is_an_error(monsters):
    with serving(by=plays(stumbles={"answer"})) as endpoint:
        with pytest.raises(ModelFailed, match="this cannot be done"):
            ask(monsters, "vanilla", endpoint)
        settings = {"mllm": "m-1", "mllm_url": endpoint.url, "mllm_max_calls": 1}
        with KnowledgeBase.open(monsters.path, **settings) as base:
            for error in (ModelFailed, BudgetSpent):
                with pytest.raises(error):
                    base.graph.search(QUESTION, setting="vanilla")


def test_after_a_search_a_failed_reply_loses_nothing(monsters):
    with serving(by=plays(stumbles={"answer"})) as endpoint:
        answered = ask(monsters, "perceptive", endpoint)
    assert answered.answer == ""
    assert "this cannot be done" in answered.failed
    assert [path.text for path in answered.search.paths] == [BITE]
    assert answered.trace[-1].failed


def test_the_budget_may_end_anywhere(monsters):
    with serving(by=plays()) as endpoint:
        for calls, leaves in ((1, []), (3, ["Rathian"]), (5, [BITE.partition(" —c")[0]])):
            answered = ask(monsters, "unaided-online", endpoint, settings={"mllm_max_calls": calls})
            assert answered.usage["calls"] == calls
            assert [
                path.text for path in (answered.search.paths or answered.search.leaves)
            ] == leaves
            assert "the budget of the multimodal model is spent" in answered.search.stopped
            assert "the budget of the multimodal model is spent" in answered.failed


@pytest.mark.parametrize("setting", ["perceptive", "unaided-online"])
@pytest.mark.parametrize("fault", [503, 401, 404, 307])
def test_an_endpoint_that_answers_nothing_is_an_error(monsters, setting, fault):
    with serving(by=lambda _: fails(fault, "no")) as endpoint:
        with pytest.raises(ModelFailed, match=str(fault)):
            ask(monsters, setting, endpoint)
        assert len(endpoint.bodies) == 1


def test_a_blind_perceiver_does_not_end_the_search(monsters):
    with serving(by=plays(stumbles={"perceive"})) as endpoint:
        answered = ask(monsters, "unaided-offline", endpoint)
    assert (answered.answer, answered.perception) == ("Bite", "")
    assert answered.trace[0].agent == "perception"
    assert "this cannot be done" in answered.trace[0].remark
