"""The planner without a model: reformulation of queries and choice of actions."""

from __future__ import annotations

import pytest
from PIL import Image

from ku_rag.papers.cogplanner.plan import Hit, PlannedSearch, Round
from ku_rag.papers.cogplanner.planner import Choice, PlanState, Reformulation
from ku_rag.papers.cogplanner.reformulation import refers, with_name
from ku_rag.papers.cogplanner.rule_planner import decide_by_rule
from ku_rag.types import Match

PICTURE = Image.new("RGB", (8, 8))
TOWER = Match("u1", "Fire Tower", 0.9, 0.95)
QUESTION = "How tall is this tower?"


def searched(query: str, *texts: tuple[str, str], action: str = "text") -> Round:
    """A round that found texts, given as title and text."""
    hits = tuple(Hit(f"chunk:{title}", title, text) for title, text in texts)
    return Round((query,), action, searches=(PlannedSearch(query, hits),))


def state(
    *queries: str,
    rounds: tuple[Round, ...] = (),
    units: tuple[Match, ...] = (),
    sure: bool = True,
    picture: Image.Image | None = PICTURE,
) -> PlanState:
    about = frozenset(unit.id for unit in units if sure)
    return PlanState(queries[0], queries, picture, rounds, units, about)


def reformulate(before: PlanState) -> Reformulation:
    return decide_by_rule(before)[0]


def choose(before: PlanState) -> Choice:
    return decide_by_rule(before)[1]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("How old is this building?", "How old is Ada?"),
        ("When did this old dynasty end?", "When did Ada end?"),
        ("Which company released this small green game?", "Which company released Ada?"),
        ("Who is the woman in the picture?", "Who is Ada?"),
        ("Who built the tower that is shown in this photo?", "Who built Ada?"),
        ("What is his first book?", "What is Ada's first book?"),
        ("What is her most recent book?", "What is Ada's most recent book?"),
        ("Where does she live?", "Where does Ada live?"),
        ("Did the company sell its shares?", "Did the company sell Ada's shares?"),
        ("Who married her?", "Who married Ada?"),
        ("What is the team's nickname?", "What is Ada's nickname?"),
        ("Who sold these?", "Who sold Ada?"),
        ("Which countries border this one?", "Which countries border Ada?"),
        ("In what year did Rome leave the league?", "In what year did Rome leave Ada?"),
    ],
)
def test_the_first_reference_becomes_the_name(question: str, expected: str) -> None:
    assert with_name(question, "Ada") == expected


@pytest.mark.parametrize(
    "question",
    [
        "Who was elected this year?",
        "What is the capital?",
        "Who is the queen of Denmark?",
        "What is the oldest city in the world?",
        "How long does it take to boil an egg?",
        "Who wrote Emma?",
        "",
    ],
)
def test_a_question_without_a_reference_stays(question: str) -> None:
    assert with_name(question, "Ada") == question
    assert not refers(question, named=False)


def test_a_picture_is_identified_then_asked_about_by_name() -> None:
    first = reformulate(state(QUESTION))
    assert (first.queries, first.clear) == ((QUESTION,), False)
    assert choose(state(QUESTION)).action == "image"
    rounds = (searched(QUESTION, ("Fire Tower", "A tower for fires."), action="image"),)
    second = reformulate(state(QUESTION, rounds=rounds, units=(TOWER,)))
    assert second.queries == ("How tall is Fire Tower?",)
    assert (second.clear, second.why) == (True, "The picture shows Fire Tower.")
    choice = choose(state(*second.queries, rounds=rounds, units=(TOWER,)))
    assert (choice.action, choice.why) == ("text", "The evidence lacks: tall.")


def test_evidence_with_all_words_is_sufficient() -> None:
    rounds = (searched(QUESTION, ("Fire Tower", "It is 40 m high."), action="image"),)
    choice = choose(state(QUESTION, rounds=rounds, units=(TOWER,)))
    assert (choice.action, choice.why) == ("none", "The evidence covers all words of the query.")


def test_a_thing_that_is_not_sure_is_neither_named_nor_searched() -> None:
    rounds = (searched(QUESTION, ("Fire Tower", "A building."), action="image"),)
    unsure = state(QUESTION, rounds=rounds, units=(TOWER,), sure=False)
    assert reformulate(unsure).queries == (QUESTION,)
    assert choose(unsure).action == "none"


def test_what_the_picture_shows_is_not_the_thing_that_is_named() -> None:
    question = "Is this tower taller than the Mill?"
    rounds = (searched(question, ("Mill", "A building."), action="image"),)
    mill = Match("u2", "Mill", 1.0, 1.0, named="mill")
    reformulation = reformulate(state(question, rounds=rounds, units=(mill,)))
    assert (reformulation.queries, reformulation.clear) == ((question,), False)
    question = "Did the Mill lose its roof?"
    reformulation = reformulate(state(question, rounds=rounds, units=(mill,)))
    assert (reformulation.queries, reformulation.clear) == ((question,), True)


def test_a_query_that_names_the_thing_is_clear() -> None:
    question = "Did this company sell its shares?"
    rounds = (searched(question, ("Acme", "A company."), action="image"),)
    units = (Match("u1", "Acme", 0.9, 0.95),)
    reformulation = reformulate(state(question, rounds=rounds, units=units))
    again = state(*reformulation.queries, rounds=rounds, units=units)
    assert reformulation.queries == ("Did Acme sell its shares?",)
    assert reformulate(again).queries == reformulation.queries
    assert choose(again).action == "text"


def test_a_comparison_with_the_picture_has_a_query_for_each_unit() -> None:
    question = "Is this tower older than the Mill?"
    rounds = (searched(question, ("Fire Tower", "A tower."), action="image"),)
    units = (TOWER, Match("u2", "Mill", 1.0, 1.0, named="mill"))
    reformulation = reformulate(state(question, rounds=rounds, units=units))
    assert reformulation.queries == ("Fire Tower older", "Mill older")
    assert choose(state(*reformulation.queries, rounds=rounds, units=units)).action == "text"


def test_a_second_search_follows_the_best_evidence() -> None:
    question = "Where was the builder of Fire Tower born?"
    rounds = (
        searched(
            question,
            ("Fire Tower", "It was built by Ada Stone. It is in Kent."),
        ),
    )
    led = reformulate(state(question, rounds=rounds, picture=None))
    assert led.queries == (f"{question} Ada Stone",)
    assert led.why == "Fire Tower leads to Ada Stone."
    assert choose(state(*led.queries, rounds=rounds, picture=None)).action == "text"
    rounds = (*rounds, searched(led.queries[0], ("Ada Stone", "Ada Stone was a builder.")))
    after = state(*led.queries, rounds=rounds, picture=None)
    assert reformulate(after).queries == led.queries
    assert choose(after).action == "none"


def test_no_search_is_repeated() -> None:
    question = "Who wrote Emma?"
    assert choose(state(question, picture=None)).action == "text"
    for texts in ((), (("Emma", "a novel."),)):
        rounds = (searched(question, *texts),)
        choice = choose(state(question, rounds=rounds, picture=None))
        assert (choice.action, choice.why) == ("none", "There is nothing else to search for.")


@pytest.mark.parametrize("passage", [("Fire Tower", "A building."), ("Fire Tower", "40 m high.")])
def test_both_modellings_choose_alike(passage: tuple[str, str]) -> None:
    """The action is chosen for the last query, or for the one that follows from it."""
    rounds = (searched(QUESTION, passage, action="image"),)
    before = state(QUESTION, rounds=rounds, units=(TOWER,))
    queries = reformulate(before).queries
    after = state(*queries, rounds=rounds, units=(TOWER,))
    assert choose(before) == choose(after)


@pytest.mark.parametrize("modelling", ["parallel", "sequential"])
def test_three_rounds_identify_a_picture_then_search_twice(games, luigi, modelling: str) -> None:
    """The worked case of CogPlanner, figure 2, without a model."""
    question = "What is the population of the city where he was arrested?"
    rewritten = "What is the population of the city where Luigi was arrested?"
    plan = games.plan(luigi, question, modelling)
    assert [(*round_.queries, round_.action) for round_ in plan.rounds] == [
        (question, "image"),
        (rewritten, "text"),
        (f"{rewritten} Altoona", "text"),
    ]
    reasons = [round_.why for round_ in plan.rounds[1:]]
    assert reasons == [
        ("The picture shows Luigi.", "The evidence lacks: population."),
        ("Luigi leads to Altoona.", "The evidence lacks: population."),
    ]


def test_a_comparison_that_the_evidence_covers_takes_one_search(games, astro_bot) -> None:
    plan = games.plan(astro_bot, "Did this game sell more copies than Black Myth Wukong?")
    queries = ("Did Astro Bot sell more copies than Black Myth Wukong?",)
    assert [round_.action for round_ in plan.rounds] == ["image", "none"]
    assert plan.queries == queries


def test_results_of_searches_are_merged_in_turn(games) -> None:
    question = "How large is the city in which Luigi was arrested?"
    answer = games.query(None, question, plan="sequential", k=4)
    first, second = (round_.searches[0].hits for round_ in answer.plan.rounds[:2])
    ids = [hit.id for pair in zip(first, second, strict=True) for hit in pair]
    assert [f"chunk:{chunk.chunk}" for chunk in answer.chunks[:4]] == list(dict.fromkeys(ids))
