"""The search of a graph by agents: rounds, loops, repeated entities, and why it ends."""

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
    """A graph of tuples (head, relation, tail[, information[, condition]])."""
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
        helps: names of the entities that are useful; None for all.
        calls: number of replies until its budget is spent; None for no limit.
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
        hint_text = " ".join(line.get("known", "") for line in lines)
        return next((name for name in lines[-1]["topics"] if name in hint_text), "")

    def useful(self, lines):
        neighbours = [line["neighbour"] for line in lines if "neighbour" in line]
        return [name for name in neighbours if self.helps is None or name in self.helps]

    def enough(self, lines):
        (path,) = (line["path"] for line in lines if "path" in line)
        return path in self.paths


def explored(graph, query, script, limits=None, **options):
    agents = ModelAgents(ScriptedMLLM(script), graph)
    return explore(graph, query, agents, limits or SearchLimits(), **options)


def subjects(result, agent):
    """The subjects of an agent's decisions, by call."""
    calls = itertools.groupby(result.trace, key=lambda entry: (entry.agent, entry.round))
    return [[entry.about for entry in some] for (name, _), some in calls if name == agent]


def validated(result):
    return subjects(result, "validation")


def expanded(result):
    """The last entities of the paths that were extended."""
    return [[text.rpartition("→ ")[2] for text in texts] for texts in subjects(result, "expansion")]


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
    result = explored(graph_of(kb, RATHIAN), QUERY, agents)
    assert result.topic.name == "Rathian"
    assert texts(result.paths) == [BITE]
    assert texts(result.leaves) == [SWING]
    assert validated(result) == [["Rathian"], [RUSH, SWING], [BITE]]
    assert expanded(result) == [["Rathian"], ["Triple Rush", "Tail Swing"]]
    assert [entity.name for entity in result.entities] == [
        "Rathian", "Triple Rush", "Tail Swing", "Bite",
    ]  # fmt: skip
    assert [step.text for step in result.steps] == [
        "—attack of→ Triple Rush", "—attack of→ Tail Swing", "—continues→ Bite",
    ]  # fmt: skip
    assert result.stopped == "nothing was left to open"


def test_the_topic_entity_may_be_enough_by_itself(kb):
    agents = Script(enough=["Rathian"])
    result = explored(graph_of(kb, RATHIAN), QUERY, agents)
    assert (texts(result.paths), result.leaves, result.steps) == (["Rathian"], (), ())
    assert expanded(result) == []
    assert result.stopped == "the topic entity is enough by itself"


def test_what_does_not_help_is_not_gone_to(kb):
    agents = Script(helps={"Tail Swing"})
    result = explored(graph_of(kb, RATHIAN), QUERY, agents)
    assert validated(result) == [["Rathian"], [SWING]]
    assert texts(result.leaves) == [SWING]
    assert not result.enough
    assert texts(result.paths or result.leaves) == [SWING]
    assert result.stopped == "nothing was left to open; no path was enough"


def test_behind_what_is_enough_nothing_is_opened(kb):
    agents = Script(enough=[RUSH])
    result = explored(graph_of(kb, RATHIAN), QUERY, agents)
    assert expanded(result) == [["Rathian"], ["Tail Swing"]]
    assert texts(result.paths) == [RUSH]
    assert texts(result.paths or result.leaves) == [RUSH]


def test_as_many_paths_as_are_wanted_end_the_search(kb):
    star = [("Rathian", "has", f"a{n}") for n in range(6)] + [("a5", "has", "b")]
    enough = [f"Rathian —has→ a{n}" for n in range(4)]
    agents = Script(enough)
    result = explored(graph_of(kb, star), QUERY, agents, SearchLimits(max_paths=3))
    assert texts(result.paths) == enough[:3]
    assert expanded(result) == [["Rathian"]]
    assert result.stopped == "3 paths are enough, as many as were wanted"


def test_a_search_that_is_never_enough_ends_at_its_longest_path(kb):
    chain = [("Rathian", "has", "a"), ("a", "has", "b"), ("b", "has", "c")]
    graph = graph_of(kb, chain)
    result = explored(graph, QUERY, Script(), SearchLimits(max_rounds=2))
    assert texts(result.leaves) == ["Rathian —has→ a —has→ b"]
    assert result.stopped == (
        "paths are to have no more than 2 relations, and one entity was still open; "
        "no path was enough"
    )
    deep = explored(graph, QUERY, Script(), SearchLimits(max_rounds=2, depth_first=True))
    assert (deep.leaves, deep.stopped) == (result.leaves, result.stopped)
    for alone in (False, True):
        limits = SearchLimits(max_rounds=0, depth_first=alone)
        result = explored(graph, QUERY, Script(), limits)
        assert (validated(result), expanded(result)) == ([["Rathian"]], [])


# ---- loops -------------------------------------------------------------------------------------


def test_a_path_that_closes_a_loop_is_kept_and_asked_about_but_not_opened(kb):
    loop = [("Rathian", "changes to", "Flying"), ("Flying", "changes to", "Rathian")]
    closing = "Rathian —changes to→ Flying —changes to→ Rathian"
    agents = Script(enough=[closing])
    result = explored(graph_of(kb, loop), QUERY, agents)
    assert expanded(result) == [["Rathian"], ["Flying"]]
    assert validated(result)[-1] == [closing]
    assert texts(result.paths) == [closing]
    assert len(set(result.paths[0].entities)) < len(result.paths[0].entities)

    endless = Script()
    result = explored(graph_of(kb, loop), QUERY, endless)
    assert expanded(result) == [["Rathian"], ["Flying"]]
    assert texts(result.leaves) == [closing]
    assert result.stopped == "nothing was left to open; no path was enough"


def test_a_relation_to_itself_is_a_loop(kb):
    agents = Script()
    result = explored(graph_of(kb, [("Rathian", "rival of", "Rathian")]), QUERY, agents)
    assert expanded(result) == [["Rathian"]]
    assert texts(result.leaves) == ["Rathian —rival of→ Rathian"]


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
    result = explored(graph_of(kb, diamond), QUERY, agents)
    assert expanded(result) == [["Rathian"], ["left", "right"], ["Bite"], ["Roar"]]
    assert validated(result)[2:] == [[left, right], [f"{left} —continues→ Roar"]]
    assert texts(result.leaves) == [right, f"{left} —continues→ Roar"]

    closed = Script(enough=[right])
    result = explored(graph_of(kb, diamond), QUERY, closed)
    assert texts(result.paths) == [right]
    assert expanded(result) == [["Rathian"], ["left", "right"]]


def test_what_was_reached_before_is_not_opened_again(kb):
    late = [
        ("Rathian", "has", "Bite"),
        ("Rathian", "has", "left"),
        ("left", "continues", "Bite"),
    ]
    agents = Script()
    result = explored(graph_of(kb, late), QUERY, agents)
    assert expanded(result) == [["Rathian"], ["Bite", "left"]]
    assert texts(result.leaves) == ["Rathian —has→ Bite", "Rathian —has→ left —continues→ Bite"]


def test_several_relations_between_a_pair_are_paths_of_their_own(kb):
    pair = [
        ("Rathian", "weak to", "Dragon"),
        ("Rathian", "fights", "Dragon"),
        ("Dragon", "has", "Roar"),
    ]
    agents = Script(enough=["Rathian —fights→ Dragon"])
    result = explored(graph_of(kb, pair), QUERY, agents)
    assert validated(result)[1] == ["Rathian —weak to→ Dragon", "Rathian —fights→ Dragon"]
    assert expanded(result) == [["Rathian"]]
    assert len(result.steps) == 2


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
    result = explored(graph_of(kb, loop), QUERY, agents, SearchLimits(depth_first=True))
    assert expanded(result) == [["Rathian"], ["a"], ["b"]]
    assert texts(result.leaves) == [
        "Rathian —has→ b",
        "Rathian —has→ a —has→ b —has→ Rathian",
    ]
    assert result.stopped == "nothing was left to open; no path was enough"


def test_depth_first_goes_in_the_order_that_the_agents_give(kb):
    tree = [
        ("Rathian", "has", "a"),
        ("Rathian", "has", "b"),
        ("a", "has", "a1"),
        ("a", "has", "a2"),
    ]
    result = explored(graph_of(kb, tree), QUERY, Script(), SearchLimits(depth_first=True))
    assert expanded(result) == [["Rathian"], ["a"], ["a1"], ["a2"], ["b"]]


def test_depth_first_opens_nothing_behind_what_is_enough(kb):
    late = [
        ("Rathian", "has", "Bite"),
        ("Rathian", "has", "left"),
        ("left", "continues", "Bite"),
        ("Bite", "continues", "Roar"),
    ]
    agents = Script(["Rathian —has→ Bite"])
    result = explored(graph_of(kb, late), QUERY, agents, SearchLimits(depth_first=True))
    assert expanded(result) == [["Rathian"], ["left"]]
    assert texts(result.leaves) == ["Rathian —has→ left —continues→ Bite"]


# ---- the topic ---------------------------------------------------------------------------------


def test_without_a_topic_nothing_is_searched(kb):
    agents = Script()
    result = explored(graph_of(kb, RATHIAN), Query("Which attack follows?"), agents)
    assert (result.topic, result.paths, result.leaves, result.entities) == (None, (), (), ())
    assert validated(result) == []
    assert result.stopped == "no topic entity was found in the question"


def test_a_topic_that_is_given_is_not_asked_for(kb):
    graph = graph_of(kb, RATHIAN)
    rush = graph.hop(graph.topics(1)[0])[0].tail
    result = explored(graph, Query("Which attack follows?"), Script(), topic=rush)
    assert texts(result.leaves) == ["Triple Rush —continues→ Bite"]
    assert {entry.agent for entry in result.trace} == {"expansion", "validation"}


# ---- the budget --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("calls", "leaves"),
    [(0, []), (1, ["Rathian"]), (2, ["Rathian"]), (3, [RUSH, SWING])],
)
def test_where_the_budget_ends_what_was_found_is_returned(kb, calls, leaves):
    agents = Script(calls=calls)
    result = explored(graph_of(kb, RATHIAN), QUERY, agents)
    assert texts(result.leaves) == leaves
    assert result.stopped.startswith("the budget is spent")


def test_depth_first_ends_with_the_budget_too(kb):
    result = explored(graph_of(kb, RATHIAN), QUERY, Script(calls=5), SearchLimits(depth_first=True))
    assert texts(result.leaves) == [SWING, BITE]
    assert result.stopped == "the budget is spent; no path was enough"


def test_paths_found_before_the_budget_ended_are_kept(kb):
    graph = graph_of(kb, [*RATHIAN, ("Tail Swing", "continues", "Roar")])
    result = explored(graph, QUERY, Script([RUSH], calls=5))
    assert texts(result.paths) == [RUSH]
    assert result.stopped == "the budget is spent"


# ---- limits ------------------------------------------------------------------------------------


def test_a_star_is_ranked_and_cut_before_an_agent_sees_it(kb):
    star = [("Rathian", "attack of", f"Move {n}") for n in range(3_000)]
    star[2_500:2_500] = [("Rathian", "attack of", "Poison Follow-up", "", "attacked")]
    graph = graph_of(kb, star)
    agents = Script()
    query = Query("Which poison attack follows?", hints="Rathian")
    result = explored(graph, query, agents, SearchLimits(most_neighbours=20, most_open=10))
    expansion = next(entry for entry in result.trace if entry.agent == "expansion")
    assert expansion.remark == (
        "20 of 3,001 relations were used: those that share most words with the query"
    )
    assert len(validated(result)[1]) == 10
    assert "Rathian —attack of→ Poison Follow-up (when attacked)" in validated(result)[1]
    (cut,) = (entry for entry in result.trace if entry.about == "the whole round")
    assert cut.remark == "10 of 20 paths were used: those that share most words with the query"


def test_leaves_are_ranked_by_words_shared(kb):
    three = [("Rathian", "has", "a"), ("Rathian", "has", "Poison"), ("Rathian", "has", "c")]
    result = explored(graph_of(kb, three), Query("Rathian's poison?"), Script())
    assert texts(result.leaves) == [f"Rathian —has→ {name}" for name in ("Poison", "a", "c")]


# ---- the trace ---------------------------------------------------------------------------------


class Costly(Script):
    """Counts tokens for its replies, and its replies on relations cannot be used."""

    def __call__(self, request):
        reply = super().__call__(request)
        if "useful" in reply:
            raise ModelFailed("the reply holds no JSON object")
        return Reply("", reply, 10 * ("topic" in reply), 2, cached="enough" in reply)


def test_the_trace_tells_who_said_what_and_what_it_cost(kb):
    result = explored(graph_of(kb, RATHIAN), QUERY, Costly())
    assert [(e.round, e.agent, e.about, e.said, e.remark) for e in result.trace] == [
        (0, "topic", "Which attack follows?", "Rathian", ""),
        (0, "validation", "Rathian", "not enough", ""),
        (1, "expansion", "Rathian", "none", "the reply holds no JSON object"),
    ]
    assert usage(result.trace) == {
        "calls": 3, "cached": 1,
        "prompt_tokens": 10, "completion_tokens": 2, "cached_tokens": 2,
    }  # fmt: skip
    assert result.stopped == (
        "nothing was left to open; no path was enough; one of the agents' replies could not be used"
    )


def test_steps_that_were_not_offered_and_steps_said_twice_are_left_out(kb):
    class Straying(Script):
        def useful(self, lines):
            return ["Tail Swing", "Triple Rush", "Tail Swing"]

    result = explored(graph_of(kb, RATHIAN), QUERY, Straying())
    assert validated(result) == [["Rathian"], [SWING, RUSH]]
    assert texts(result.leaves) == [SWING, RUSH]


def test_the_result_is_told_as_json(kb):
    result = explored(graph_of(kb, RATHIAN), QUERY, Script([SWING], calls=5))
    document = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert document == result.to_dict()
    assert document["topic"] == "Rathian"
    assert document["entities"] == ["Rathian", "Triple Rush", "Tail Swing"]
    assert document["relations"][0] == ["Rathian", "attack of", "Triple Rush"]
    assert document["enough"]
    assert document["paths"] == [
        {"entities": ["Rathian", "Tail Swing"], "relations": ["attack of"], "text": SWING}
    ]
    assert [leaf["text"] for leaf in document["leaves"]] == [RUSH]
    assert result.trace[0].to_dict() == {
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
