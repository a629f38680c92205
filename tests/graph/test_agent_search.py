"""The walk through the graph: rounds, loops, what is opened again, and why it ends."""

from __future__ import annotations

import json

import pytest

from ku_rag.errors import BudgetSpent
from ku_rag.graph.agent_search import explore
from ku_rag.graph.model import Graph
from ku_rag.graph.search_types import Query, SearchLimits, TraceEntry, usage
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


class Agents:
    """Agents that say what a script says; what they were asked is kept.

    Args:
        helps: names of the entities that are worth going to; None for all.
        enough: texts of paths that are enough.
    """

    def __init__(self, enough=(), helps=None, spent_after=None):
        self.enough, self.helps = set(enough), helps
        self.spent_after = spent_after
        self.expanded: list[list[str]] = []
        self.validated: list[list[str]] = []

    def _spend(self, asked):
        if self.spent_after is not None:
            self.spent_after -= asked
            if self.spent_after < 0:
                raise BudgetSpent("the budget is spent")

    def topic(self, query, among):
        self._spend(1)
        return next((entity for entity in among if entity.name in query.text), None)

    def expand(self, query, opened):
        self._spend(len(opened))
        self.expanded.append([path.end.name for path, _ in opened])
        return [
            [s for s in steps if self.helps is None or s.tail.name in self.helps]
            for _, steps in opened
        ]

    def validate(self, query, paths):
        self._spend(len(paths))
        self.validated.append([path.text for path in paths])
        return [p.text in self.enough for p in paths]

    def notes(self):
        return ()


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
    agents = Agents(enough=[BITE])
    found = explore(graph_of(kb, RATHIAN), QUERY, agents)
    assert found.topic.name == "Rathian"
    assert texts(found.paths) == [BITE]
    assert texts(found.leaves) == [SWING]
    assert agents.validated == [["Rathian"], [RUSH, SWING], [BITE]]
    assert agents.expanded == [["Rathian"], ["Triple Rush", "Tail Swing"]]
    assert [entity.name for entity in found.entities] == [
        "Rathian", "Triple Rush", "Tail Swing", "Bite",
    ]  # fmt: skip
    assert [step.text for step in found.steps] == [
        "—attack of→ Triple Rush", "—attack of→ Tail Swing", "—continues→ Bite",
    ]  # fmt: skip
    assert found.stopped == "nothing was left to open"


def test_the_topic_entity_may_be_enough_by_itself(kb):
    agents = Agents(enough=["Rathian"])
    found = explore(graph_of(kb, RATHIAN), QUERY, agents)
    assert (texts(found.paths), found.leaves, found.steps) == (["Rathian"], (), ())
    assert agents.expanded == []
    assert found.stopped == "the topic entity is enough by itself"


def test_what_does_not_help_is_not_gone_to(kb):
    agents = Agents(helps={"Tail Swing"})
    found = explore(graph_of(kb, RATHIAN), QUERY, agents)
    assert agents.validated == [["Rathian"], [SWING]]
    assert texts(found.leaves) == [SWING]
    assert not found.enough
    assert texts(found.paths or found.leaves) == [SWING]
    assert found.stopped == "nothing was left to open; no path was enough"


def test_behind_what_is_enough_nothing_is_opened(kb):
    agents = Agents(enough=[RUSH])
    found = explore(graph_of(kb, RATHIAN), QUERY, agents)
    assert agents.expanded == [["Rathian"], ["Tail Swing"]]
    assert texts(found.paths) == [RUSH]
    assert texts(found.paths or found.leaves) == [RUSH]


def test_as_many_paths_as_are_wanted_end_the_search(kb):
    star = [("Rathian", "has", f"a{n}") for n in range(6)] + [("a5", "has", "b")]
    enough = [f"Rathian —has→ a{n}" for n in range(4)]
    agents = Agents(enough)
    found = explore(graph_of(kb, star), QUERY, agents, SearchLimits(max_paths=3))
    assert texts(found.paths) == enough[:3]
    assert agents.expanded == [["Rathian"]]
    assert found.stopped == "3 paths are enough, as many as were wanted"


def test_a_search_that_is_never_enough_ends_at_its_longest_path(kb):
    chain = [("Rathian", "has", "a"), ("a", "has", "b"), ("b", "has", "c")]
    graph = graph_of(kb, chain)
    found = explore(graph, QUERY, Agents(), SearchLimits(max_rounds=2))
    assert texts(found.leaves) == ["Rathian —has→ a —has→ b"]
    assert found.stopped == (
        "paths are to have no more than 2 relations, and one entity was still open; "
        "no path was enough"
    )
    deep = explore(graph, QUERY, Agents(), SearchLimits(max_rounds=2, depth_first=True))
    assert (deep.leaves, deep.stopped) == (found.leaves, found.stopped)
    for alone in (False, True):
        agents = Agents()
        explore(graph, QUERY, agents, SearchLimits(max_rounds=0, depth_first=alone))
        assert (agents.validated, agents.expanded) == ([["Rathian"]], [])


# ---- loops -------------------------------------------------------------------------------------


def test_a_path_that_closes_a_loop_is_kept_and_asked_about_but_not_opened(kb):
    loop = [("Rathian", "changes to", "Flying"), ("Flying", "changes to", "Rathian")]
    closing = "Rathian —changes to→ Flying —changes to→ Rathian"
    agents = Agents(enough=[closing])
    found = explore(graph_of(kb, loop), QUERY, agents)
    assert agents.expanded == [["Rathian"], ["Flying"]]
    assert agents.validated[-1] == [closing]
    assert texts(found.paths) == [closing]
    assert len(set(found.paths[0].entities)) < len(found.paths[0].entities)

    endless = Agents()
    found = explore(graph_of(kb, loop), QUERY, endless)
    assert endless.expanded == [["Rathian"], ["Flying"]]
    assert texts(found.leaves) == [closing]
    assert found.stopped == "nothing was left to open; no path was enough"


def test_a_relation_to_itself_is_a_loop(kb):
    agents = Agents()
    found = explore(graph_of(kb, [("Rathian", "rival of", "Rathian")]), QUERY, agents)
    assert agents.expanded == [["Rathian"]]
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
    agents = Agents()
    found = explore(graph_of(kb, diamond), QUERY, agents)
    assert agents.expanded == [["Rathian"], ["left", "right"], ["Bite"], ["Roar"]]
    assert agents.validated[2:] == [[left, right], [f"{left} —continues→ Roar"]]
    assert texts(found.leaves) == [right, f"{left} —continues→ Roar"]

    closed = Agents(enough=[right])
    assert texts(explore(graph_of(kb, diamond), QUERY, closed).paths) == [right]
    assert closed.expanded == [["Rathian"], ["left", "right"]]


def test_what_was_reached_before_is_not_opened_again(kb):
    late = [
        ("Rathian", "has", "Bite"),
        ("Rathian", "has", "left"),
        ("left", "continues", "Bite"),
    ]
    agents = Agents()
    found = explore(graph_of(kb, late), QUERY, agents)
    assert agents.expanded == [["Rathian"], ["Bite", "left"]]
    assert texts(found.leaves) == ["Rathian —has→ Bite", "Rathian —has→ left —continues→ Bite"]


def test_several_relations_between_a_pair_are_paths_of_their_own(kb):
    pair = [
        ("Rathian", "weak to", "Dragon"),
        ("Rathian", "fights", "Dragon"),
        ("Dragon", "has", "Roar"),
    ]
    agents = Agents(enough=["Rathian —fights→ Dragon"])
    found = explore(graph_of(kb, pair), QUERY, agents)
    assert agents.validated[1] == ["Rathian —weak to→ Dragon", "Rathian —fights→ Dragon"]
    assert agents.expanded == [["Rathian"]]
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
    broad = explore(graph, QUERY, Agents([SHORT, LONG]))
    deep = explore(graph, QUERY, Agents([SHORT, LONG]), SearchLimits(depth_first=True))
    assert texts(broad.paths) == [SHORT, LONG]
    assert texts(deep.paths) == [LONG, SHORT]

    agents = Agents([SHORT, LONG])
    first = explore(graph, QUERY, agents, SearchLimits(depth_first=True, max_paths=1))
    assert texts(first.paths) == [LONG]
    assert [SHORT] not in agents.validated
    assert texts(explore(graph, QUERY, Agents([SHORT, LONG]), SearchLimits(max_paths=1)).paths) == [
        SHORT
    ]


def test_depth_first_opens_nothing_twice_either(kb):
    loop = [
        ("Rathian", "has", "a"),
        ("Rathian", "has", "b"),
        ("a", "has", "b"),
        ("b", "has", "Rathian"),
    ]
    agents = Agents()
    found = explore(graph_of(kb, loop), QUERY, agents, SearchLimits(depth_first=True))
    assert agents.expanded == [["Rathian"], ["a"], ["b"]]
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
    agents = Agents()
    explore(graph_of(kb, tree), QUERY, agents, SearchLimits(depth_first=True))
    assert agents.expanded == [["Rathian"], ["a"], ["a1"], ["a2"], ["b"]]


def test_depth_first_opens_nothing_behind_what_is_enough(kb):
    late = [
        ("Rathian", "has", "Bite"),
        ("Rathian", "has", "left"),
        ("left", "continues", "Bite"),
        ("Bite", "continues", "Roar"),
    ]
    agents = Agents(["Rathian —has→ Bite"])
    found = explore(graph_of(kb, late), QUERY, agents, SearchLimits(depth_first=True))
    assert agents.expanded == [["Rathian"], ["left"]]
    assert texts(found.leaves) == ["Rathian —has→ left —continues→ Bite"]


# ---- the topic ---------------------------------------------------------------------------------


def test_without_a_topic_nothing_is_searched(kb):
    agents = Agents()
    found = explore(graph_of(kb, RATHIAN), Query("Which attack follows?"), agents)
    assert (found.topic, found.paths, found.leaves, found.entities) == (None, (), (), ())
    assert agents.validated == []
    assert found.stopped == "no topic entity was found in the question"


def test_a_topic_that_is_given_is_not_asked_for(kb):
    graph = graph_of(kb, RATHIAN)
    rush = graph.hop(graph.topics(1)[0])[0].tail
    found = explore(graph, Query("Which attack follows?"), Agents(), topic=rush)
    assert texts(found.leaves) == ["Triple Rush —continues→ Bite"]
    assert {entry.agent for entry in found.trace} == {"expansion", "validation"}


# ---- the budget --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("calls", "leaves"),
    [(0, []), (1, ["Rathian"]), (2, ["Rathian"]), (3, [RUSH, SWING])],
)
def test_where_the_budget_ends_what_was_found_is_returned(kb, calls, leaves):
    agents = Agents(spent_after=calls)
    found = explore(graph_of(kb, RATHIAN), QUERY, agents)
    assert texts(found.leaves) == leaves
    assert found.stopped.startswith("the budget is spent")


def test_depth_first_ends_with_the_budget_too(kb):
    found = explore(
        graph_of(kb, RATHIAN), QUERY, Agents(spent_after=5), SearchLimits(depth_first=True)
    )
    assert texts(found.leaves) == [SWING, BITE]
    assert found.stopped == "the budget is spent; no path was enough"


def test_paths_found_before_the_budget_ended_are_kept(kb):
    found = explore(graph_of(kb, RATHIAN), QUERY, Agents([RUSH], spent_after=5))
    assert texts(found.paths) == [RUSH]
    assert found.stopped == "the budget is spent"


# ---- what is cut -------------------------------------------------------------------------------


def test_a_star_is_ranked_and_cut_before_an_agent_sees_it(kb):
    star = [("Rathian", "attack of", f"Move {n}") for n in range(3_000)]
    star[2_500:2_500] = [("Rathian", "attack of", "Poison Follow-up", "", "attacked")]
    graph = graph_of(kb, star)
    agents = Agents()
    query = Query("Which poison attack follows?", hints="Rathian")
    found = explore(graph, query, agents, SearchLimits(most_neighbours=20, most_open=10))
    shown = next(entry for entry in found.trace if entry.agent == "expansion")
    assert shown.remark == (
        "of 3,001 relations the 20 that share most words with the query went on"
    )
    assert len(agents.validated[1]) == 10
    assert "Rathian —attack of→ Poison Follow-up (when attacked)" in agents.validated[1]
    (cut,) = (entry for entry in found.trace if entry.about == "the whole round")
    assert cut.remark == "of 20 paths the 10 that share most words with the query went on"


def test_leaves_are_ranked_by_words_shared(kb):
    three = [("Rathian", "has", "a"), ("Rathian", "has", "Poison"), ("Rathian", "has", "c")]
    found = explore(graph_of(kb, three), Query("Rathian's poison?"), Agents())
    assert texts(found.leaves) == [f"Rathian —has→ {name}" for name in ("Poison", "a", "c")]


# ---- the trace ---------------------------------------------------------------------------------


class Noted(Agents):
    """Agents that tell what each question cost."""

    def notes(self):
        return self.told

    def topic(self, query, among):
        self.told = [TraceEntry(said="Rathian, of course", calls=1, prompt_tokens=10)]
        return super().topic(query, among)

    def expand(self, query, opened):
        self.told = [TraceEntry(calls=1, completion_tokens=2, failed=True) for _ in opened]
        return super().expand(query, opened)

    def validate(self, query, paths):
        spent = "that was the last call" if len(paths) > 1 else ""
        self.told = [TraceEntry(calls=1, cached=1, spent=spent) for _ in paths]
        return super().validate(query, paths)


def test_the_trace_tells_who_said_what_and_what_it_cost(kb):
    found = explore(graph_of(kb, RATHIAN), QUERY, Noted([SWING]))
    assert [(e.round, e.agent, e.about, e.said) for e in found.trace] == [
        (0, "topic", "Which attack follows?", "Rathian, of course"),
        (0, "validation", "Rathian", "not enough"),
        (1, "expansion", "Rathian", "Triple Rush, Tail Swing"),
        (1, "validation", RUSH, "not enough"),
        (1, "validation", SWING, "enough"),
    ]
    tokens = {"prompt_tokens": 10, "completion_tokens": 2, "cached_tokens": 0}
    assert usage(found.trace) == {"calls": 5, "cached": 3, **tokens}
    assert found.stopped == ("that was the last call; one of the agents' replies could not be used")


def test_what_agents_told_before_the_budget_ended_is_told_once(kb):
    class Ending(Noted):
        def validate(self, query, paths):
            raise BudgetSpent("the budget is spent")

    found = explore(graph_of(kb, RATHIAN), QUERY, Ending())
    assert usage(found.trace)["calls"] == 1
    assert [entry.said for entry in found.trace] == ["Rathian, of course", "not enough"]


def test_steps_that_were_not_offered_and_steps_said_twice_are_left_out(kb):
    class Straying(Agents):
        def expand(self, query, opened):
            super().expand(query, opened)
            if len(opened) == 1:
                self.first = list(opened[0][1])
                return [[self.first[1], self.first[0], self.first[1]]]
            return [self.first for _ in opened]

    agents = Straying()
    found = explore(graph_of(kb, RATHIAN), QUERY, agents)
    assert agents.validated == [["Rathian"], [SWING, RUSH]]
    assert texts(found.leaves) == [SWING, RUSH]


def test_the_result_is_told_as_json(kb):
    found = explore(graph_of(kb, RATHIAN), QUERY, Noted([SWING]))
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
        "said": "Rathian, of course",
        "remark": "",
        "calls": 1,
        "cached": 0,
        "prompt_tokens": 10,
        "completion_tokens": 0,
        "failed": False,
        "spent": "",
    }
