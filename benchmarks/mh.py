"""Paths that answer a question: the search without a model on the graph of the MH benchmark.

    python -m benchmarks.mh [--write]

The 238 questions of the MH benchmark are asked about the frozen graph of `benchmarks.mh_graph`,
stored in a knowledge base. A query is the question with the name of the monster inserted, as in the
paper, and the extra information as hints; the perceptive setting adds a human description of the
scene. The monsters are split by the first byte of the SHA-256 of their name: those with an odd byte
("held out") were not used when the ranking was chosen.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from benchmarks.mh_graph import SEED, SIBLINGS
from benchmarks.mh_questions import (
    Route,
    build_query,
    frozen_graph,
    is_held_out,
    load_questions,
    open_graph,
)
from benchmarks.record import mean, write_result
from ku_rag.evaluation.measures.official import consistency
from ku_rag.evaluation.questions import EvaluationQuestion
from ku_rag.graph import model
from ku_rag.graph.model import Entity, Graph
from ku_rag.graph.search_types import Query, SearchLimits
from ku_rag.reading.path_search import search_without_model, select_topic
from ku_rag.text.tokens import content_words, words

PATHS = 5
DRAWS = 200
OTHER_SEEDS = (1, 2, 3, 4)
"""Seeds of further graphs by the same recipe, for comparison."""


class Field:
    """All paths of the monsters, and baselines that choose among them."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._hops: dict[int, list[model.Step]] = {}
        self._paths: dict[str, list[model.Path]] = {}
        self._words: dict[str, list[set[str]]] = {}

    def hop(self, entity: Entity) -> list[model.Step]:
        """Return the steps from an entity, which are read once."""
        return self._hops.setdefault(entity.row, self.graph.hop(entity))

    def paths_of(self, monster: str) -> list[model.Path]:
        """Return every path in the sub-graph of a monster, shortest first."""
        if monster not in self._paths:
            [start] = [e for e in self.graph.find(monster) if e.unit == monster]
            paths, frontier = [model.Path(start)], [model.Path(start)]
            while frontier:
                frontier = [
                    path.then(step)
                    for path in frontier
                    for step in self.hop(path.end)
                    if path.end == start or path.end.kind != start.kind
                ]
                paths += frontier
            self._paths[monster] = paths
        return self._paths[monster]

    def has_route(self, route: Route) -> bool:
        """Return whether the graph contains a route."""
        ends = [self.paths_of(route[0])[0].start]
        for name in route[1:]:
            ends = [s.tail for entity in ends for s in self.hop(entity) if s.tail.name == name]
        return bool(ends)

    def sibling_scores(self, question: EvaluationQuestion) -> Scores:
        """Return the expected scores if everything is known except which sibling is gold.

        Siblings are targets of the same entity that have the same kind; the choice among them is
        random. Of several gold paths, the one with the fewest siblings counts.
        """
        counts = []
        for route in question.routes:
            ends = [self.paths_of(route[0])[0].start]
            count = 1
            for name in route[1:]:
                leaving = [step for entity in ends for step in self.hop(entity)]
                ends = [step.tail for step in leaving if step.tail.name == name]
                count = sum(step.tail.kind == ends[0].kind for step in leaving)
            counts.append(count)
        count = min(counts)
        return min(1.0, PATHS / count), 1 / count, 1 / count

    def draw_paths(self, question: EvaluationQuestion, rng: random.Random) -> list[Route]:
        """Return random paths of the monster."""
        paths = self.paths_of(question.units[0])
        return [route_of(path) for path in rng.sample(paths, PATHS)]

    def rank_paths(
        self, question: EvaluationQuestion, perceptive: bool, by: str, rng: random.Random
    ) -> list[Route]:
        """Return the paths of the monster that share most words with the query, ties at random."""
        monster = question.units[0]
        paths = self.paths_of(monster)
        if monster not in self._words:
            self._words[monster] = [set(words(" ".join(route_of(path)))) for path in paths]
        query_words = set(content_words(build_query(question, perceptive).text))
        shares = [
            SHARED[by](len(query_words & path_words), len(path_words), len(query_words))
            for path_words in self._words[monster]
        ]
        order = sorted((-share, rng.random(), n) for n, share in enumerate(shares))
        return [route_of(paths[n]) for *_, n in order[:PATHS]]


SHARED: Mapping[str, Callable[[int, int, int], float]] = {
    "count": lambda both, path, query: both,
    "share of the path": lambda both, path, query: both / path,
    "Jaccard": lambda both, path, query: both / (path + query - both),
}
"""Rankings by shared words: their number, or their share of the words of the path or of all."""


def route_of(path: model.Path) -> Route:
    """Return the route of a path."""
    return tuple(entity.name for entity in path.entities)


def search_paths(
    graph: Graph, question: EvaluationQuestion, perceptive: bool, most: int
) -> list[Route]:
    """Return the routes that the search without a model finds; it also selects the topic."""
    query, limits = build_query(question, perceptive), SearchLimits(max_paths=most)
    result = search_without_model(graph, query, limits)
    return [route_of(path) for path in result.paths]


Scores = tuple[float, float, float]
"""Recall and precision with five paths, precision with one."""


def measure(question: EvaluationQuestion, five: Sequence[Route], single: Sequence[Route]) -> Scores:
    """Compare the routes retrieved for a question with its gold routes."""
    many, first = consistency(question.routes, five), consistency(question.routes, single)
    return many.recall, many.precision, first.precision


def baseline(
    choose: Callable[[random.Random], list[Route]], question: EvaluationQuestion
) -> Scores:
    """Return the mean scores of many random choices."""
    rng = random.Random(f"{SEED} {question.units[0]} {question.question}")
    draws = [choose(rng) for _ in range(DRAWS)]
    rows = [measure(question, routes, routes[:1]) for routes in draws]
    return tuple(np.mean(rows, 0).tolist())


def summary(rows: Sequence[Scores]) -> dict[str, object]:
    """Return the means of the scores and their intervals."""
    columns = list(zip(*rows, strict=True))
    measures = ("recall_at_5", "precision_at_5", "precision_at_1")
    return {
        name: dict(zip(("mean", "interval"), mean(column), strict=True))
        for name, column in zip(measures, columns, strict=True)
    }


def compare(field: Field, questions: Sequence[EvaluationQuestion]) -> dict[str, list[Scores]]:
    """Return the scores of each way to find paths, one for each question."""
    graph = field.graph
    rows: dict[str, list[Scores]] = {}

    def add(name: str, question: EvaluationQuestion, scores: Scores) -> None:
        rows.setdefault(name, []).append(scores)

    for q in questions:
        add("oracle", q, measure(q, gold := [r for r in q.routes if field.has_route(r)], gold[:1]))
        add("who knows all but which sibling", q, field.sibling_scores(q))
        add("random paths", q, baseline(partial(field.draw_paths, q), q))
        broad = [route_of(path) for path in field.paths_of(q.units[0])[:PATHS]]
        add("breadth-first, no agents", q, measure(q, broad, broad[:1]))
        for perceptive, suffix in ((False, ""), (True, ", perceptive")):
            for by in SHARED:
                choose = partial(field.rank_paths, q, perceptive, by)
                add(f"shared words, {by}{suffix}", q, baseline(choose, q))
            five, single = (search_paths(graph, q, perceptive, k) for k in (PATHS, 1))
            add(f"agents{suffix}", q, measure(q, five, single))
    return rows


def margins(rows: Mapping[str, list[Scores]], suffix: str) -> dict[str, object]:
    """Compare the agents with random paths and with two rankings by shared words.

    The rankings are the plain one, by number, and the best one.
    """
    agents = np.array(rows[f"agents{suffix}"])
    random_means = np.array(rows["random paths"]).mean(0)
    rankings = {by: np.array(rows[f"shared words, {by}{suffix}"]) for by in SHARED}
    margin: dict[str, object] = {}
    for name, column in (("recall_at_5", 0), ("precision_at_1", 2)):
        times = round(float(agents[:, column].mean() / random_means[column]), 2)
        figures: dict[str, object] = {"times_random": times}
        best = max(rankings, key=lambda by: rankings[by][:, column].mean())
        for by, label in (("count", "plain shared words"), (best, "the best by shared words")):
            above = agents[:, column] - rankings[by][:, column]
            figures[f"above {label}"] = dict(zip(("mean", "interval"), mean(above), strict=True))
        margin[name] = figures
    return margin


def all_margins(rows: Mapping[str, list[Scores]]) -> dict[str, dict[str, object]]:
    """Return the margins of the agents in both settings."""
    return {f"agents{suffix}": margins(rows, suffix) for suffix in ("", ", perceptive")}


def margins_of_seeds(questions: Sequence[EvaluationQuestion]) -> dict[str, object]:
    """Return the held-out margins on graphs of other seeds, which show the effect of the seed."""
    results: dict[str, object] = {}
    for seed in OTHER_SEEDS:
        with open_graph(frozen_graph(questions, seed)) as graph:
            rows = compare(Field(graph), [q for q in questions if is_held_out(q)])
        results[f"seed {seed}"] = all_margins(rows)
    return results


def topics_found(field: Field, questions: Sequence[EvaluationQuestion]) -> dict[str, float]:
    """Return how often the topic is found by the text of a question that names it."""
    naming = [q for q in questions if q.units[0] in q.question]
    topics = [select_topic(field.graph, Query(q.question)) for q in naming]
    hits = [e is not None and e.unit == q.units[0] for e, q in zip(topics, naming, strict=True)]
    return {
        "questions": len(naming),
        "topics": len(field.graph.topics(100_000)),
        "found": round(float(np.mean(hits)), 3),
    }


FEATURES: Mapping[str, Callable[[model.Step, Field, Mapping[str, int]], float]] = {
    "order of the relations": lambda step, field, uses: step.row,
    "relations that leave it": lambda step, field, uses: len(field.hop(step.tail)),
    "uses of its name": lambda step, field, uses: uses[step.tail.name],
    "letters of its name": lambda step, field, uses: len(step.tail.name),
}
"""Features of an entity, independent of the question. None should distinguish gold entities."""


def leaks(field: Field, questions: Sequence[EvaluationQuestion]) -> dict[str, float]:
    """Return how often a feature ranks a gold end above its distractors; .5 is no information.

    Ties count as half.
    """
    gold = {route for q in questions for route in q.routes}
    steps: dict[int, tuple[model.Step, bool]] = {}
    for monster in sorted({q.units[0] for q in questions}):
        for path in field.paths_of(monster)[1:]:
            if path.end.unit:
                steps[path.steps[-1].row] = (path.steps[-1], route_of(path) in gold)
    uses: dict[str, int] = {}
    for step, _ in steps.values():
        uses[step.tail.name] = uses.get(step.tail.name, 0) + 1
    beside: dict[tuple[int, str], list[tuple[model.Step, bool]]] = {}
    for step, is_gold in steps.values():
        beside.setdefault((step.head.row, step.tail.kind), []).append((step, is_gold))
    shares = {}
    for name, feature in FEATURES.items():
        wins = []
        for group in beside.values():
            values = [(feature(step, field, uses), is_gold) for step, is_gold in group]
            gold_values = [value for value, is_gold in values if is_gold]
            others = [value for value, is_gold in values if not is_gold]
            wins += [(a > b) + (a == b) / 2 for a in gold_values for b in others]
        shares[name] = round(float(np.mean(wins)), 3)
    return shares


def main() -> None:
    """Measure, print, and with --write write the result."""
    questions = load_questions()
    frozen = frozen_graph(questions)
    with open_graph(frozen) as graph:
        field = Field(graph)
        figures: dict[str, object] = {}
        for half, held_out in (("tuning", False), ("held out", True)):
            rows = compare(field, part := [q for q in questions if is_held_out(q) == held_out])
            ways = {name: summary(scores) for name, scores in rows.items()}
            figures[half] = {"questions": len(part), "ways": ways, "margins": all_margins(rows)}
        size = {"entities": len(frozen.entities), "relations": len(frozen.relations)}
        recipe = {"seed": SEED, "siblings": SIBLINGS, "sha256": frozen.digest, **size}
        topics, looks = topics_found(field, questions), leaks(field, questions)
    result = {"graph": recipe, **figures, "topics": topics, "looks": looks}
    print(json.dumps(result, indent=1))
    if "--write" in sys.argv:
        result["other seeds"] = margins_of_seeds(questions)
        print(write_result("mh", result, packages=("openpyxl",)))


if __name__ == "__main__":
    main()
