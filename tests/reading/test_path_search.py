"""Graph search without a model: its topic and the paths that it finds."""

from __future__ import annotations

import pytest

from ku_rag import KnowledgeBase, Relation, Unit
from ku_rag.graph.model import Graph
from ku_rag.graph.search_types import Query
from ku_rag.graph.traversal import rank_paths
from ku_rag.reading.path_search import select_topic


def unit(identity, kind, *relations, **fields):
    name = identity.rpartition(">")[2]
    return Unit(
        name,
        id=identity,
        kind=kind,
        relations=tuple(Relation(relation, target) for relation, target in relations),
        metadata={"topic": True} if ">" not in identity else {},
        **fields,
    )


MACHINES = [
    unit("Loom", "machine", ("has", "Loom>Idle"), ("has", "Loom>Weaving"), ("pair", "Red Loom")),
    unit("Loom>Idle", "state", ("action", "Loom>Idle>Oil Drip")),
    unit(
        "Loom>Weaving",
        "state",
        ("action", "Loom>Weaving>Shuttle Throw"),
        ("action", "Loom>Weaving>Thread Cut"),
    ),
    unit("Loom>Idle>Oil Drip", "action"),
    unit("Loom>Weaving>Shuttle Throw", "action", ("continues", "Loom>Weaving>Shuttle Throw>Beat")),
    unit("Loom>Weaving>Shuttle Throw>Beat", "action"),
    unit("Loom>Weaving>Thread Cut", "action", ("continues", "Loom>Weaving>Thread Cut>Knot")),
    unit("Loom>Weaving>Thread Cut>Knot", "action"),
    unit("Red Loom", "machine", ("action", "Red Loom>Steam Burst"), aliases=("Old Rosie",)),
    unit("Red Loom>Steam Burst", "action"),
]


@pytest.fixture
def machines(kb):
    kb.add_many(MACHINES)
    return kb


@pytest.fixture
def graph(machines):
    return Graph(machines._database.connection, machines._layout)


def search(kb, question, **options):
    """The result of a search without a model."""
    return kb.graph.search(question, **options).search


def ends(result):
    return [path.end.unit for path in result.paths]


@pytest.mark.parametrize(
    ("question", "hints", "expected"),
    [
        ("What does the Loom do?", "", "Loom"),
        ("How do the Loom and Red Loom differ?", "Red Loom is hot", "Red Loom"),
        ("Is Red Loom like the Loom?", "", "Red Loom"),
        ("What is old rosie doing?", "", "Red Loom"),
        ("What is it doing?", "The Loom is weaving", "Loom"),
        ("Who throws the shuttle?", "", None),
    ],
)
def test_the_topic_is_what_is_named_most(machines, question, hints, expected):
    topic = search(machines, question, hints=hints).topic
    assert (topic.unit if topic else None) == expected


def test_the_topic_comes_from_the_picture_where_none_is_named(graph):
    [loom], [drip] = graph.find("Loom"), graph.find("Oil Drip")
    calls = []

    def sight(pictures):
        calls.append(pictures)
        return [drip, loom]

    picture = object()
    assert select_topic(graph, Query("What is it?", (picture,)), sight) == loom
    assert select_topic(graph, Query("What is Red Loom?", (picture,)), sight).unit == "Red Loom"
    assert select_topic(graph, Query("What is it?"), sight) is None
    assert calls == [(picture,)]


def test_a_question_of_nothing_in_the_graph_is_one_about_the_topic(machines):
    result = search(machines, "What is the nickname of the Loom?")
    assert [path.text for path in result.paths] == ["Loom"]
    assert result.stopped == "no path shares words with the question"


def test_a_state_that_is_hinted_at_is_walked_through(machines):
    result = search(machines, "Which action does the Loom perform?", hints="Loom is idle.")
    assert result.paths[0].end.unit == "Loom>Idle>Oil Drip"
    result = search(machines, "Which action does the Loom perform?", hints="Loom is weaving.")
    assert set(ends(result)[:2]) == {"Loom>Weaving>Shuttle Throw", "Loom>Weaving>Thread Cut"}


def test_what_is_seen_chooses_among_what_could_be(machines):
    perception = "A shuttle is thrown to the left."
    result = search(machines, "Which action is this, Loom?", perception=perception, most=1)
    assert ends(result) == ["Loom>Weaving>Shuttle Throw"]


def test_what_follows_is_one_step_further(machines):
    question = "Which action does the Loom continue with next, after Thread Cut?"
    assert ends(search(machines, question, most=1)) == ["Loom>Weaving>Thread Cut>Knot"]


def test_no_path_that_is_enough_is_a_piece_of_another(machines):
    for text in ("Which action next, Loom?", "Which action is like that of the Loom?"):
        rows = [tuple(s.row for s in path.steps) for path in search(machines, text).paths]
        assert len(rows) > 1
        for piece in rows:
            assert not any(piece != whole and whole[: len(piece)] == piece for whole in rows)


def test_as_many_paths_as_are_wanted_at_most(machines):
    assert len(search(machines, "Which action, Loom?", most=2).paths) == 2


def test_paths_are_no_longer_than_the_rounds(machines):
    question, hints = "Which action does the Loom perform?", "Loom is weaving."
    for rounds in range(4):
        result = search(machines, question, hints=hints, rounds=rounds)
        assert max(len(path.steps) for path in result.paths) <= rounds


def test_no_path_comes_back(tmp_path):
    around = [unit(str(n), "stop", ("to", str((n + 1) % 4)), ("to", str(n))) for n in range(4)]
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.add_many(around)
        graph = Graph(kb._database.connection, kb._layout)
        [start] = graph.find("0")
        ranked = rank_paths(graph, start, frozenset({"to"}), longest=9, most=100)
    assert ["".join(e.name for e in path.entities) for _, path in ranked] == ["01", "012", "0123"]


def test_captions_count_as_what_the_end_shows(kb):
    units = [
        unit("Loom", "machine", ("action", "Loom>A"), ("action", "Loom>B")),
        Unit("A", id="Loom>A", kind="action", metadata={"caption": "A lever is pulled."}),
        Unit("B", id="Loom>B", kind="action", metadata={"caption": "Dust settles quietly."}),
    ]
    kb.add_many(units)
    question, perception = "Which action of the Loom is this?", "Dust settles everywhere."
    assert search(kb, question, perception=perception).paths[0].end.name == "B"


def test_a_path_into_another_topic_comes_after_its_own(graph):
    [loom] = graph.find("Loom")
    ranked = rank_paths(graph, loom, frozenset({"action"}), longest=2, most=100)
    texts = [path.text for _, path in ranked]
    assert texts.index("Loom —pair→ Red Loom —action→ Steam Burst") > texts.index(
        "Loom —has→ Idle —action→ Oil Drip"
    )


def test_facts_are_walked_as_relations_are(kb):
    kb.add(unit("Loom", "machine", ("pair", "Mill"), texts=("Loom is red.\n\nWeight: 3 kg",)))
    answered = search(kb, "How heavy is the Loom?")
    assert [path.text for path in answered.paths] == ["Loom —Weight→ 3 kg"]
    assert answered.stopped == "facts and relations answer the question"
    near = search(kb, "Is the weight of the Loom a wonder?")
    assert [path.text for path in near.paths] == ["Loom —Weight→ 3 kg"]
    assert near.stopped == "no other path shares words with the question"


@pytest.fixture
def places(kb):
    """Units of a single kind, so that the kind distinguishes none of them."""
    for name, word, target in (("Aaa", "near", "Bbb"), ("Bbb", "leads to", "Ccc")):
        kb.add(Unit(name, id=name, kind="place", relations=(Relation(word, target),)))
    kb.add(Unit("Ccc", id="Ccc", kind="place"))
    return kb


def test_a_relation_of_small_words_is_asked_for(places):
    assert search(places, "What is near Aaa?").paths[0].text == "Aaa —near→ Bbb"


def test_a_topic_that_is_not_named_leads_to_what_is(machines):
    result = search(machines, "What happens after the Thread Cut?")
    assert result.topic.name == "Loom"
    assert search(machines, "Who throws it?").topic is None


def test_what_follows_is_not_what_is_named(kb):
    bite = Relation("continues", "Bite", target_kind="attack")
    attacks = (("attack of", f"Rathian>{name}") for name in ("Triple Rush", "Fireball"))
    moves = [
        unit("Rathian", "monster", *attacks),
        unit("Rathian>Fireball", "attack"),
        Unit("Triple Rush", id="Rathian>Triple Rush", kind="attack", relations=(bite,)),
    ]
    kb.add_many(moves)
    for text in ("Which attack of Rathian follows Triple Rush?", "What follows Triple Rush?"):
        result = search(kb, text)
        assert result.paths[0].text == "Rathian —attack of→ Triple Rush —continues→ Bite"
