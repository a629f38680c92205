"""Which paths answer a question? The search without a model on the graph of the MH benchmark.

    python -m benchmarks.mh [--write]

The 238 questions of the MH benchmark are asked on the frozen graph of `benchmarks.mh_graph`, built
in a real knowledge base. A query is the question with the monster's name put in, as the paper
gives it, and the extra information as hints; in the perceptive setting people's description of the
scene comes with it. The monsters are parted by the first byte of SHA-256 of their name: those with
an odd one ("held out") were not looked at when a way to rank was chosen.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from benchmarks.mh_graph import SEED, SIBLINGS
from benchmarks.mh_questions import Route, frozen_graph, is_held_out, opened, query, questions
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
"""Of further graphs by the same recipe, whose results are shown beside."""


class Field:
    """What can be found around the monsters: all their paths, and baselines that choose of them."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._hops: dict[int, list[model.Step]] = {}
        self._own: dict[str, list[model.Path]] = {}
        self._words: dict[str, list[set[str]]] = {}

    def hop(self, entity: Entity) -> list[model.Step]:
        """What leaves an entity, read once."""
        return self._hops.setdefault(entity.row, self.graph.hop(entity))

    def own(self, monster: str) -> list[model.Path]:
        """Every path in a monster's own sub-graph, shortest first, itself alone included."""
        if monster not in self._own:
            [start] = [e for e in self.graph.find(monster) if e.unit == monster]
            found, opened = [model.Path(start)], [model.Path(start)]
            while opened:
                opened = [
                    path.then(step)
                    for path in opened
                    for step in self.hop(path.end)
                    if path.end == start or path.end.kind != start.kind
                ]
                found += opened
            self._own[monster] = found
        return self._own[monster]

    def holds(self, route: Route) -> bool:
        """Whether a route can be walked."""
        at = [self.own(route[0])[0].start]
        for name in route[1:]:
            at = [s.tail for entity in at for s in self.hop(entity) if s.tail.name == name]
        return bool(at)

    def beside(self, asked: EvaluationQuestion) -> Measured:
        """What is to be expected of who knows all but which: draws among the gold path's siblings.

        Siblings are what the same entity leads to, of the same kind. Several gold paths count by
        the one with fewest.
        """
        fewest = []
        for route in asked.routes:
            ends = [self.own(route[0])[0].start]
            count = 1
            for name in route[1:]:
                leaving = [step for entity in ends for step in self.hop(entity)]
                ends = [step.tail for step in leaving if step.tail.name == name]
                count = sum(step.tail.kind == ends[0].kind for step in leaving)
            fewest.append(count)
        count = min(fewest)
        return min(1.0, PATHS / count), 1 / count, 1 / count

    def drawn(self, asked: EvaluationQuestion, rng: random.Random) -> list[Route]:
        """Paths of the monster in any order."""
        paths = self.own(asked.units[0])
        return [names(path) for path in rng.sample(paths, PATHS)]

    def ranked(
        self, asked: EvaluationQuestion, perceptive: bool, by: str, rng: random.Random
    ) -> list[Route]:
        """Paths of the monster by the words that they share with the query, equals in any order."""
        paths = self.own(asked.units[0])
        if asked.units[0] not in self._words:
            self._words[asked.units[0]] = [set(words(" ".join(names(path)))) for path in paths]
        wanted = set(content_words(query(asked, perceptive).text))
        scored = [
            (-SHARED[by](len(wanted & said), len(said), len(wanted)), rng.random(), n)
            for n, said in enumerate(self._words[asked.units[0]])
        ]
        return [names(paths[n]) for *_, n in sorted(scored)[:PATHS]]


SHARED: Mapping[str, Callable[[int, int, int], float]] = {
    "count": lambda both, path, query: both,
    "share of the path": lambda both, path, query: both / path,
    "Jaccard": lambda both, path, query: both / (path + query - both),
}
"""Ways to rank by shared words: how many, or as a share of those of the path or of all."""


def names(path: model.Path) -> Route:
    """The route of a path."""
    return tuple(entity.name for entity in path.entities)


def searched(graph: Graph, asked: EvaluationQuestion, perceptive: bool, most: int) -> list[Route]:
    """What the search without a model finds, the topic included."""
    found = search_without_model(graph, query(asked, perceptive), SearchLimits(max_paths=most))
    return [names(path) for path in found.paths]


Measured = tuple[float, float, float]
"""Recall and precision with five paths, precision with one."""


def measure(asked: EvaluationQuestion, five: Sequence[Route], one: Sequence[Route]) -> Measured:
    """Compare what was retrieved for a question with its gold routes."""
    many, first = consistency(asked.routes, five), consistency(asked.routes, one)
    return many.recall, many.precision, first.precision


def baseline(choose: Callable[[random.Random], list[Route]], asked: EvaluationQuestion) -> Measured:
    """The mean of many draws."""
    rng = random.Random(f"{SEED} {asked.units[0]} {asked.question}")
    drawn = [choose(rng) for _ in range(DRAWS)]
    rows = [measure(asked, found, found[:1]) for found in drawn]
    return tuple(np.mean(rows, 0).tolist())


def told(rows: Sequence[Measured]) -> dict[str, object]:
    """Means and their intervals."""
    columns = list(zip(*rows, strict=True))
    measures = ("recall_at_5", "precision_at_5", "precision_at_1")
    return {
        name: dict(zip(("mean", "interval"), mean(column), strict=True))
        for name, column in zip(measures, columns, strict=True)
    }


def compare(field: Field, asked: Sequence[EvaluationQuestion]) -> dict[str, list[Measured]]:
    """Every way to find paths → what it reaches with each of the questions."""
    graph = field.graph
    rows: dict[str, list[Measured]] = {}

    def add(name: str, question: EvaluationQuestion, measured: Measured) -> None:
        rows.setdefault(name, []).append(measured)

    for q in asked:
        add("oracle", q, measure(q, gold := [r for r in q.routes if field.holds(r)], gold[:1]))
        add("who knows all but which sibling", q, field.beside(q))
        add("random paths", q, baseline(partial(field.drawn, q), q))
        broad = [names(path) for path in field.own(q.units[0])[:PATHS]]
        add("breadth-first, no agents", q, measure(q, broad, broad[:1]))
        for perceptive, suffix in ((False, ""), (True, ", perceptive")):
            for by in SHARED:
                ranked = partial(field.ranked, q, perceptive, by)
                add(f"shared words, {by}{suffix}", q, baseline(ranked, q))
            five, one = (searched(graph, q, perceptive, k) for k in (PATHS, 1))
            add(f"agents{suffix}", q, measure(q, five, one))
    return rows


def margins(rows: Mapping[str, list[Measured]], suffix: str) -> dict[str, object]:
    """What agents reach against random paths and rankings by shared words: plain, and the best."""
    own = np.array(rows[f"agents{suffix}"])
    drawn = np.array(rows["random paths"]).mean(0)
    ranked = {by: np.array(rows[f"shared words, {by}{suffix}"]) for by in SHARED}
    margin: dict[str, object] = {}
    for name, column in (("recall_at_5", 0), ("precision_at_1", 2)):
        times = round(float(own[:, column].mean() / drawn[column]), 2)
        said: dict[str, object] = {"times_random": times}
        best = max(ranked, key=lambda by: ranked[by][:, column].mean())
        for by, other in (("count", "plain shared words"), (best, "the best by shared words")):
            above = own[:, column] - ranked[by][:, column]
            said[f"above {other}"] = dict(zip(("mean", "interval"), mean(above), strict=True))
        margin[name] = said
    return margin


def against(rows: Mapping[str, list[Measured]]) -> dict[str, dict[str, object]]:
    """The margins of the agents in both settings."""
    return {f"agents{suffix}": margins(rows, suffix) for suffix in ("", ", perceptive")}


def elsewhere(asked: Sequence[EvaluationQuestion]) -> dict[str, object]:
    """The held-out margins on graphs of other seeds, for how much hangs on the draw."""
    found: dict[str, object] = {}
    for seed in OTHER_SEEDS:
        with opened(frozen_graph(asked, seed)) as graph:
            rows = compare(Field(graph), [q for q in asked if is_held_out(q)])
        found[f"seed {seed}"] = against(rows)
    return found


def topics_found(field: Field, asked: Sequence[EvaluationQuestion]) -> dict[str, float]:
    """How often the topic is found by the question's text alone, where that names it."""
    naming = [q for q in asked if q.units[0] in q.question]
    found = [select_topic(field.graph, Query(q.question)) for q in naming]
    right = [e is not None and e.unit == q.units[0] for e, q in zip(found, naming, strict=True)]
    return {
        "questions": len(naming),
        "topics": len(field.graph.topics(100_000)),
        "found": round(float(np.mean(right)), 3),
    }


LOOKS: Mapping[str, Callable[[model.Step, Field, Mapping[str, int]], float]] = {
    "order of the relations": lambda step, field, uses: step.row,
    "relations that leave it": lambda step, field, uses: len(field.hop(step.tail)),
    "uses of its name": lambda step, field, uses: uses[step.tail.name],
    "letters of its name": lambda step, field, uses: len(step.tail.name),
}
"""Looks at an entity that know nothing of a question: they should tell no gold from distractors."""


def leaks(field: Field, asked: Sequence[EvaluationQuestion]) -> dict[str, float]:
    """How often a look puts a gold end before a distractor beside it (equals half); .5 is none."""
    gold = {route for q in asked for route in q.routes}
    steps: dict[int, tuple[model.Step, bool]] = {}
    for monster in sorted({q.units[0] for q in asked}):
        for path in field.own(monster)[1:]:
            if path.end.unit:
                steps[path.steps[-1].row] = (path.steps[-1], names(path) in gold)
    uses: dict[str, int] = {}
    for step, _ in steps.values():
        uses[step.tail.name] = uses.get(step.tail.name, 0) + 1
    beside: dict[tuple[int, str], list[tuple[model.Step, bool]]] = {}
    for step, right in steps.values():
        beside.setdefault((step.head.row, step.tail.kind), []).append((step, right))
    found = {}
    for name, look in LOOKS.items():
        wins = []
        for group in beside.values():
            valued = [(look(step, field, uses), right) for step, right in group]
            wins += [
                (a > b) + (a == b) / 2 for a, one in valued if one for b, two in valued if not two
            ]
        found[name] = round(float(np.mean(wins)), 3)
    return found


def main() -> None:
    """Measure and print; see the module's text."""
    asked = questions()
    frozen = frozen_graph(asked)
    with opened(frozen) as graph:
        field = Field(graph)
        figures: dict[str, object] = {}
        for half, held_out in (("tuning", False), ("held out", True)):
            rows = compare(field, chosen := [q for q in asked if is_held_out(q) == held_out])
            ways = {name: told(measured) for name, measured in rows.items()}
            figures[half] = {"questions": len(chosen), "ways": ways, "margins": against(rows)}
        size = {"entities": len(frozen.entities), "relations": len(frozen.relations)}
        recipe = {"seed": SEED, "siblings": SIBLINGS, "sha256": frozen.digest, **size}
        topics, looks = topics_found(field, asked), leaks(field, asked)
    result = {"graph": recipe, **figures, "topics": topics, "looks": looks}
    print(json.dumps(result, indent=1))
    if "--write" in sys.argv:
        result["other seeds"] = elsewhere(asked)
        print(write_result("mh", result, packages=("openpyxl",)))


if __name__ == "__main__":
    main()
