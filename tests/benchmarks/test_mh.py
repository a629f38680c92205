"""The Monster Hunter benchmark: its graph follows the recipe and does not reveal gold entities."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks import mh, mh_questions
from benchmarks.mh_graph import SIBLINGS, build
from benchmarks.mh_questions import is_held_out
from ku_rag.evaluation.measures.official import consistency

ROUTES = ["Ox", "Ox>Kick", "Ox>Wet Phase>Splash", "Ox>Cow", "Ox>Cow>Long Moo", "Ox>Kick>Head Butt"]
HERD = [
    {"name": name, "type": kind, "subSpecies": sub, "elements": ["Water"], "weakness": ["Fire"]}
    for name, kind, sub in (
        ("Ox", "cattle", ["Cow"]),
        ("Cow", "cattle", []),
        ("Hen", "bird", []),
        ("Yak", "cattle", []),
        ("Duck", "bird", []),
    )
] + [{"name": "Stray", "type": "cat", "ailments": ["Fleas"]}]
ROUTES += ["Hen>Peck", "Yak>Sharp Horn", "Duck>Dive Bite", "Duck>Quack Swim", "Hen>Wing Beat"]

needs_data = pytest.mark.skipif(
    not (mh_questions.DATA / "question_list.xlsx").is_file(), reason="the shared data is not there"
)


@pytest.fixture(scope="module")
def herd():
    return build(ROUTES, HERD)


def test_every_gold_route_and_fact_is_in_the_graph(herd):
    relations = set(herd.relations)
    assert {
        ("Ox", "attack of", "Ox>Kick"),
        ("Ox>Kick", "continues", "Ox>Kick>Head Butt"),
        ("Ox", "has phase", "Ox>Wet Phase"),
        ("Ox>Wet Phase", "has", "Ox>Wet Phase>Splash"),
        ("Ox", "subspecies", "Cow"),
        ("Cow", "attack of", "Cow>Long Moo"),
        ("Stray", "ailment", "Fleas"),
        ("Hen", "weakness", "Fire"),
    } <= relations


def test_what_a_route_ends_at_has_siblings_of_its_shape(herd):
    below = Counter(head for head, *_ in herd.relations)
    attacks = [t for h, r, t in herd.relations if (h, r) == ("Ox", "attack of")]
    assert len(attacks) == 1 + SIBLINGS + SIBLINGS  # a kick, its siblings, those of the ox alone
    assert sorted(below[t] for t in attacks) == [0] * SIBLINGS + [1 + SIBLINGS] * (1 + SIBLINGS)
    splashes = [t for h, _, t in herd.relations if h == "Ox>Wet Phase"]
    assert len(splashes) == 1 + SIBLINGS
    phases = [t for h, r, t in herd.relations if (h, r) == ("Ox", "has phase")]
    assert [below[t] for t in phases] == [1 + SIBLINGS] * 2


def test_names_beside_each_other_differ(herd):
    assert len({entity for entity, *_ in herd.entities}) == len(herd.entities)
    assert all(name for _, name, _ in herd.entities)


def test_the_graph_is_frozen_and_shuffled(herd):
    assert build(ROUTES, HERD).digest == herd.digest
    assert build(ROUTES[::-1], HERD).entities != tuple(sorted(herd.entities))
    assert build(ROUTES, HERD, seed=1).digest != herd.digest
    assert list(herd.relations) != sorted(herd.relations)


@pytest.fixture(scope="module")
def questions():
    return mh_questions.load_questions()


@pytest.fixture(scope="module")
def field(questions):
    with mh_questions.open_graph(mh_questions.frozen_graph(questions)) as graph:
        yield mh.Field(graph)


@needs_data
def test_questions_are_read_whole(questions):
    assert len(questions) == 238
    assert not any("{}" in q.question + q.fields["hints"] for q in questions)
    halves = {
        half: {q.units[0] for q in questions if is_held_out(q) == half} for half in (False, True)
    }
    assert {half: len(monsters) for half, monsters in halves.items()} == {False: 11, True: 11}


@needs_data
def test_every_gold_route_can_be_walked(field, questions):
    assert all(field.has_route(route) for q in questions for route in q.routes)
    assert not field.has_route(("Zinogre", "Nothing"))


@needs_data
def test_no_feature_tells_gold_from_distractors(field, questions):
    shares = mh.leaks(field, questions)
    assert set(shares) == set(mh.FEATURES)
    assert all(0.44 < share < 0.56 for share in shares.values()), shares


@needs_data
def test_topics_are_found_by_the_questions_text(field, questions):
    assert mh.topics_found(field, questions)["found"] >= 0.95


@needs_data
def test_agents_find_more_than_drawing_and_than_shared_words(field, questions):
    held_out = [q for q in questions if is_held_out(q)]
    rng = mh.random.Random(0)
    recall = {"agents": 0.0, "drawn": 0.0, "ranked": 0.0}
    for q in held_out:
        for name, routes in (
            ("agents", mh.search_paths(field.graph, q, True, mh.PATHS)),
            ("drawn", field.draw_paths(q, rng)),
            ("ranked", field.rank_paths(q, True, "Jaccard", rng)),
        ):
            recall[name] += consistency(q.routes, routes).recall / len(held_out)
    assert recall["agents"] >= 3 * recall["drawn"]
    assert recall["agents"] >= recall["ranked"] + 0.05
