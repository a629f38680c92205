"""The walk through the graph: rounds, loops, what is opened again, and why it ends."""

from __future__ import annotations

import itertools
import json

import pytest

from ku_rag import ScriptedMLLM
from ku_rag.errors import BudgetSpent, ModelFailed
from ku_rag.graph.model import Graph
from ku_rag.graph.search_types import Query, SearchLimits, usage
from ku_rag.mllm import Reply
from ku_rag.papers.mhmmkg.agent_search import explore
from ku_rag.papers.mhmmkg.mllm_agents import ModelAgents
from ku_rag.types import Relation, Unit


def graph_of(kb, relations, topics=("Rathian",)):
    """A graph of (head, relation, tail) with what may follow of (information, condition)."""
    heads: dict[str, list[Relation]] = {topic: [] for topic in topics}
    for head, relation, tail, *notes in relations:
        heads.setdefault(head, []).append(Relation(relation, tail, "attack", *notes))
        heads.setdefault(tail, [])
    kb.add_many(
        Unit(name, id=name, relations=stated, metadata={"topic": True} if name in topics else {})
        for name, stated in heads.items()
    )
    return Graph(kb._database.connection, kb._layout)


class Script:
    """A model that plays the agents of a search.

    Args:
        enough: texts of paths that are enough.
        helps: names of the entities that are worth going to; None for all.
        calls: how often it replies before its budget is spent; None for always.
    """

    def __init__(self, enough=(), helps=None, calls=None):
        self.paths, self.helps = set(enough), helps
        self.calls = itertools.count() if calls is None else iter(range(calls))

    def __call__(self, request):
        if next(self.calls, None) is None:
            raise BudgetSpent("the budget is spent")
        text = request.messages[-1].text
        lines = [json.loads(line) for line in text.split("\n") if line.startswith("{")]
        (role,) = {"topic", "useful", "enough"}.intersection(request.schema["properties"])
        return {role: getattr(self, role)(lines)}

    def topic(self, lines):
        known = " ".join(line.get("known", "") for line in lines)
        return next((name for name in lines[-1]["topics"] if name in known), "")

    def useful(self, lines):
        shown = [line["neighbour"] for line in lines if "neighbour" in line]
        return [name for name in shown if self.helps is None or name in self.helps]

    def enough(self, lines):
        (path,) = (line["path"] for line in lines if "path" in line)
        return path in self.paths


def explored(graph, query, script, limits=None, **options):
    agents = ModelAgents(ScriptedMLLM(script), graph)
    return explore(graph, query, agents, limits or SearchLimits(), **options)


def asked(found, agent):
    """What an agent was asked about, call by call."""
    calls = itertools.groupby(found.trace, key=lambda entry: (entry.agent, entry.round))
    return [[entry.about for entry in some] for (name, _), some in calls if name == agent]


def validated(found):
    return asked(found, "validation")


def expanded(found):
    """The last entities of the paths that were extended."""
    return [[text.rpartition("→ ")[2] for text in texts] for texts in asked(found, "expansion")]


QUERY = Query("Which attack follows?", hints="The monster is Rathian.")
RATHIAN = (
    ("Rathian", "attack of", "Triple Rush"),
    ("Rathian", "attack of", "Tail Swing"),
    ("Triple Rush", "continues", "Bite"),
)
RUSH = "Rathian —attack of→ Triple Rush"
SWING = "Rathian —attack of→ Tail Swing"
BITE = f"{RUSH} —continues→ Bite"


def texts(paths):
    return [path.text for path in paths]


# ---- rounds ------------------------------------------------------------------------------------


def test_the_papers_example_is_found_in_two_rounds(kb):
    agents = Script(enough=[BITE])
    found = explored(graph_of(kb, RATHIAN), QUERY, agents)
    assert found.topic.name == "Rathian"
    assert texts(found.paths) == [BITE]
    assert texts(found.leaves) == [SWING]
    assert validated(found) == [["Rathian"], [RUSH, SWING], [BITE]]
    assert expanded(found) == [["Rathian"], ["Triple Rush", "Tail Swing"]]
    assert [entity.name for entity in found.entities] == [
        "Rathian", "Triple Rush", "Tail Swing", "Bite",
    ]  # fmt: skip
    assert [step.text for step in found.steps] == [
        "—attack of→ Triple Rush", "—attack of→ Tail Swing", "—continues→ Bite",
    ]  # fmt: skip
    assert found.stopped == "nothing was left to open"


def test_the_topic_entity_may_be_enough_by_itself(kb):
    agents = Script(enough=["Rathian"])
    found = explored(graph_of(kb, RATHIAN), QUERY, agents)
    assert (texts(found.paths), found.leaves, found.steps) == (["Rathian"], (), ())
    assert expanded(found) == []
    assert found.stopped == "the topic entity is enough by itself"


def test_what_does_not_help_is_not_gone_to(kb):
    agents = Script(helps={"Tail Swing"})
    found = explored(graph_of(kb, RATHIAN), QUERY, agents)
    assert validated(found) == [["Rathian"], [SWING]]
    assert texts(found.leaves) == [SWING]
    assert not found.enough
    assert texts(found.paths or found.leaves) == [SWING]
    assert found.stopped == "nothing was left to open; no path was enough"


def test_behind_what_is_enough_nothing_is_opened(kb):
    agents = Script(enough=[RUSH])
    found = explored(graph_of(kb, RATHIAN), QUERY, agents)
    assert expanded(found) == [["Rathian"], ["Tail Swing"]]
    assert texts(found.paths) == [RUSH]
    assert texts(found.paths or found.leaves) == [RUSH]


def test_as_many_paths_as_are_wanted_end_the_search(kb):
    star = [("Rathian", "has", f"a{n}") for n in range(6)] + [("a5", "has", "b")]
    enough = [f"Rathian —has→ a{n}" for n in range(4)]
    agents = Script(enough)
    found = explored(graph_of(kb, star), QUERY, agents, SearchLimits(max_paths=3))
    assert texts(found.paths) == enough[:3]
    assert expanded(found) == [["Rathian"]]
    assert found.stopped == "3 paths are enough, as many as were wanted"


def test_a_search_that_is_never_enough_ends_at_its_longest_path(kb):
    chain = [("Rathian", "has", "a"), ("a", "has", "b"), ("b", "has", "c")]
    graph = graph_of(kb, chain)
    found = explored(graph, QUERY, Script(), SearchLimits(max_rounds=2))
    assert texts(found.leaves) == ["Rathian —has→ a —has→ b"]
    assert found.stopped == (
        "paths are to have no more than 2 relations, and one entity was still open; "
        "no path was enough"
    )
    deep = explored(graph, QUERY, Script(), SearchLimits(max_rounds=2, depth_first=True))
    assert (deep.leaves, deep.stopped) == (found.leaves, found.stopped)
    for alone in (False, True):
        limits = SearchLimits(max_rounds=0, depth_first=alone)
        found = explored(graph, QUERY, Script(), limits)
        assert (validated(found), expanded(found)) == ([["Rathian"]], [])


# ---- loops -------------------------------------------------------------------------------------


def test_a_path_that_closes_a_loop_is_kept_and_asked_about_but_not_opened(kb):
    loop = [("Rathian", "changes to", "Flying"), ("Flying", "changes to", "Rathian")]
    closing = "Rathian —changes to→ Flying —changes to→ Rathian"
    agents = Script(enough=[closing])
    found = explored(graph_of(kb, loop), QUERY, agents)
    assert expanded(found) == [["Rathian"], ["Flying"]]
    assert validated(found)[-1] == [closing]
    assert texts(found.paths) == [closing]
    assert len(set(found.paths[0].entities)) < len(found.paths[0].entities)

    endless = Script()
    found = explored(graph_of(kb, loop), QUERY, endless)
    assert expanded(found) == [["Rathian"], ["Flying"]]
    assert texts(found.leaves) == [closing]
    assert found.stopped == "nothing was left to open; no path was enough"


def test_a_relation_to_itself_is_a_loop(kb):
    agents = Script()
    found = explored(graph_of(kb, [("Rathian", "rival of", "Rathian")]), QUERY, agents)
    assert expanded(found) == [["Rathian"]]
    assert texts(found.leaves) == ["Rathian —rival of→ Rathian"]


def test_what_two_open_entities_reach_at_once_is_opened_once(kb):
    diamond = [
        ("Rathian", "has", "left"),
        ("Rathian", "has", "right"),
        ("left", "continues", "Bite"),
        ("right", "continues", "Bite"),
        ("Bite", "continues", "Roar"),
    ]
    left = "Rathian —has→ left —continues→ Bite"
    right = "Rathian —has→ right —continues→ Bite"
    agents = Script()
    found = explored(graph_of(kb, diamond), QUERY, agents)
    assert expanded(found) == [["Rathian"], ["left", "right"], ["Bite"], ["Roar"]]
    assert validated(found)[2:] == [[left, right], [f"{left} —continues→ Roar"]]
    assert texts(found.leaves) == [right, f"{left} —continues→ Roar"]

    closed = Script(enough=[right])
    found = explored(graph_of(kb, diamond), QUERY, closed)
    assert texts(found.paths) == [right]
    assert expanded(found) == [["Rathian"], ["left", "right"]]


def test_what_was_reached_before_is_not_opened_again(kb):
    late = [
        ("Rathian", "has", "Bite"),
        ("Rathian", "has", "left"),
        ("left", "continues", "Bite"),
    ]
    agents = Script()
    found = explored(graph_of(kb, late), QUERY, agents)
    assert expanded(found) == [["Rathian"], ["Bite", "left"]]
    assert texts(found.leaves) == ["Rathian —has→ Bite", "Rathian —has→ left —continues→ Bite"]


def test_several_relations_between_a_pair_are_paths_of_their_own(kb):
    pair = [
        ("Rathian", "weak to", "Dragon"),
        ("Rathian", "fights", "Dragon"),
        ("Dragon", "has", "Roar"),
    ]
    agents = Script(enough=["Rathian —fights→ Dragon"])
    found = explored(graph_of(kb, pair), QUERY, agents)
    assert validated(found)[1] == ["Rathian —weak to→ Dragon", "Rathian —fights→ Dragon"]
    assert expanded(found) == [["Rathian"]]
    assert len(found.steps) == 2


# ---- depth first -------------------------------------------------------------------------------


TREE = [
    ("Rathian", "has", "a"),
    ("Rathian", "has", "b"),
    ("a", "has", "a1"),
    ("a1", "has", "a2"),
]
SHORT, LONG = "Rathian —has→ b", "Rathian —has→ a —has→ a1 —has→ a2"


def test_breadth_first_finds_short_paths_first_and_depth_first_long_ones(kb):
    graph = graph_of(kb, TREE)
    broad = explored(graph, QUERY, Script([SHORT, LONG]))
    deep = explored(graph, QUERY, Script([SHORT, LONG]), SearchLimits(depth_first=True))
    assert texts(broad.paths) == [SHORT, LONG]
    assert texts(deep.paths) == [LONG, SHORT]

    agents = Script([SHORT, LONG])
    first = explored(graph, QUERY, agents, SearchLimits(depth_first=True, max_paths=1))
    assert texts(first.paths) == [LONG]
    assert [SHORT] not in validated(first)
    assert texts(
        explored(graph, QUERY, Script([SHORT, LONG]), SearchLimits(max_paths=1)).paths
    ) == [SHORT]


def test_depth_first_opens_nothing_twice_either(kb):
    loop = [
        ("Rathian", "has", "a"),
        ("Rathian", "has", "b"),
        ("a", "has", "b"),
        ("b", "has", "Rathian"),
    ]
    agents = Script()
    found = explored(graph_of(kb, loop), QUERY, agents, SearchLimits(depth_first=True))
    assert expanded(found) == [["Rathian"], ["a"], ["b"]]
    assert texts(found.leaves) == [
        "Rathian —has→ b",
        "Rathian —has→ a —has→ b —has→ Rathian",
    ]
    assert found.stopped == "nothing was left to open; no path was enough"


def test_depth_first_goes_in_the_order_that_the_agents_give(kb):
    tree = [
        ("Rathian", "has", "a"),
        ("Rathian", "has", "b"),
        ("a", "has", "a1"),
        ("a", "has", "a2"),
    ]
    found = explored(graph_of(kb, tree), QUERY, Script(), SearchLimits(depth_first=True))
    assert expanded(found) == [["Rathian"], ["a"], ["a1"], ["a2"], ["b"]]


def test_depth_first_opens_nothing_behind_what_is_enough(kb):
    late = [
        ("Rathian", "has", "Bite"),
        ("Rathian", "has", "left"),
        ("left", "continues", "Bite"),
        ("Bite", "continues", "Roar"),
    ]
    agents = Script(["Rathian —has→ Bite"])
    found = explored(graph_of(kb, late), QUERY, agents, SearchLimits(depth_first=True))
    assert expanded(found) == [["Rathian"], ["left"]]
    assert texts(found.leaves) == ["Rathian —has→ left —continues→ Bite"]


# ---- the topic ---------------------------------------------------------------------------------


def test_without_a_topic_nothing_is_searched(kb):
    agents = Script()
    found = explored(graph_of(kb, RATHIAN), Query("Which attack follows?"), agents)
    assert (found.topic, found.paths, found.leaves, found.entities) == (None, (), (), ())
    assert validated(found) == []
    assert found.stopped == "no topic entity was found in the question"


def test_a_topic_that_is_given_is_not_asked_for(kb):
    graph = graph_of(kb, RATHIAN)
    rush = graph.hop(graph.topics(1)[0])[0].tail
    found = explored(graph, Query("Which attack follows?"), Script(), topic=rush)
    assert texts(found.leaves) == ["Triple Rush —continues→ Bite"]
    assert {entry.agent for entry in found.trace} == {"expansion", "validation"}


# ---- the budget --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("calls", "leaves"),
    [(0, []), (1, ["Rathian"]), (2, ["Rathian"]), (3, [RUSH, SWING])],
)
def test_where_the_budget_ends_what_was_found_is_returned(kb, calls, leaves):
    agents = Script(calls=calls)
    found = explored(graph_of(kb, RATHIAN), QUERY, agents)
    assert texts(found.leaves) == leaves
    assert found.stopped.startswith("the budget is spent")


def test_depth_first_ends_with_the_budget_too(kb):
    found = explored(graph_of(kb, RATHIAN), QUERY, Script(calls=5), SearchLimits(depth_first=True))
    assert texts(found.leaves) == [SWING, BITE]
    assert found.stopped == "the budget is spent; no path was enough"


def test_paths_found_before_the_budget_ended_are_kept(kb):
    graph = graph_of(kb, [*RATHIAN, ("Tail Swing", "continues", "Roar")])
    found = explored(graph, QUERY, Script([RUSH], calls=5))
    assert texts(found.paths) == [RUSH]
    assert found.stopped == "the budget is spent"


# ---- what is cut -------------------------------------------------------------------------------


def test_a_star_is_ranked_and_cut_before_an_agent_sees_it(kb):
    star = [("Rathian", "attack of", f"Move {n}") for n in range(3_000)]
    star[2_500:2_500] = [("Rathian", "attack of", "Poison Follow-up", "", "attacked")]
    graph = graph_of(kb, star)
    agents = Script()
    query = Query("Which poison attack follows?", hints="Rathian")
    found = explored(graph, query, agents, SearchLimits(most_neighbours=20, most_open=10))
    shown = next(entry for entry in found.trace if entry.agent == "expansion")
    assert shown.remark == (
        "20 of 3,001 relations were used: those that share most words with the query"
    )
    assert len(validated(found)[1]) == 10
    assert "Rathian —attack of→ Poison Follow-up (when attacked)" in validated(found)[1]
    (cut,) = (entry for entry in found.trace if entry.about == "the whole round")
    assert cut.remark == "10 of 20 paths were used: those that share most words with the query"


def test_leaves_are_ranked_by_words_shared(kb):
    three = [("Rathian", "has", "a"), ("Rathian", "has", "Poison"), ("Rathian", "has", "c")]
    found = explored(graph_of(kb, three), Query("Rathian's poison?"), Script())
    assert texts(found.leaves) == [f"Rathian —has→ {name}" for name in ("Poison", "a", "c")]


# ---- the trace ---------------------------------------------------------------------------------


class Costly(Script):
    """What it replies has a price, and its replies on relations cannot be used."""

    def __call__(self, request):
        said = super().__call__(request)
        if "useful" in said:
            raise ModelFailed("the reply holds no JSON object")
        return Reply("", said, 10 * ("topic" in said), 2, cached="enough" in said)


def test_the_trace_tells_who_said_what_and_what_it_cost(kb):
    found = explored(graph_of(kb, RATHIAN), QUERY, Costly())
    assert [(e.round, e.agent, e.about, e.said, e.remark) for e in found.trace] == [
        (0, "topic", "Which attack follows?", "Rathian", ""),
        (0, "validation", "Rathian", "not enough", ""),
        (1, "expansion", "Rathian", "none", "the reply holds no JSON object"),
    ]
    assert usage(found.trace) == {
        "calls": 3, "cached": 1,
        "prompt_tokens": 10, "completion_tokens": 2, "cached_tokens": 2,
    }  # fmt: skip
    assert found.stopped == (
        "nothing was left to open; no path was enough; one of the agents' replies could not be used"
    )


def test_steps_that_were_not_offered_and_steps_said_twice_are_left_out(kb):
    class Straying(Script):
        def useful(self, lines):
            return ["Tail Swing", "Triple Rush", "Tail Swing"]

    found = explored(graph_of(kb, RATHIAN), QUERY, Straying())
    assert validated(found) == [["Rathian"], [SWING, RUSH]]
    assert texts(found.leaves) == [SWING, RUSH]


def test_the_result_is_told_as_json(kb):
    found = explored(graph_of(kb, RATHIAN), QUERY, Script([SWING], calls=5))
    told = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert told == found.to_dict()
    assert told["topic"] == "Rathian"
    assert told["entities"] == ["Rathian", "Triple Rush", "Tail Swing"]
    assert told["relations"][0] == ["Rathian", "attack of", "Triple Rush"]
    assert told["enough"]
    assert told["paths"] == [
        {"entities": ["Rathian", "Tail Swing"], "relations": ["attack of"], "text": SWING}
    ]
    assert [leaf["text"] for leaf in told["leaves"]] == [RUSH]
    assert found.trace[0].to_dict() == {
        "round": 0,
        "agent": "topic",
        "about": "Which attack follows?",
        "said": "Rathian",
        "remark": "",
        "calls": 1,
        "cached": 0,
        "prompt_tokens": 0,
        "completion_tokens": 0,
        "failed": False,
        "spent": "",
    }
