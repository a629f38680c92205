"""Likelihoods of paths as answers to a question, from weighted features, without a model.

The features compare the question with the last entity of a path, its states (entities of another
kind between the ends, and conditions), its relations, and the kinds of its entities. Words are
compared by their stems, weighted by their rarity in the neighbourhood. The weights are fitted by a
softmax over the paths from one topic (`benchmarks/mh.py --fit`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray

from ku_rag.graph.model import Entity, Path
from ku_rag.graph.search_types import Query
from ku_rag.text.question import POINTED, label_words
from ku_rag.text.stems import label_stems, stem, stems
from ku_rag.text.tokens import stop_words, words

WEIGHTS: Mapping[str, float] = {
    "alone, nothing asked for": 9.01,
    "alone, something shown": -7.7,
    "end named": 2.57,
    "end seen": 18.3,
    "state named": 3.19,
    "relation asked for": 0.5,
    "onward": -2.21,
    "onward, asked for": 3.15,
    "crossing": -2.23,
    "crossing, compared": 3.8,
}
"""Weights of the features, in the order of the columns of `features`.

The fitted weight of "relation asked for" is 0.14, because relations are little distinctive in that
graph. With 0.5 the result on that graph is the same, and a relation that a question names counts.
"""

_ONWARD = frozenset(
    {"next", "after", "follow", "then", "continu", "subsequent", "later", "previous", "befor"}
)
_INSIDE = frozenset({"within", "insid"})
_COMPARED = frozenset(
    {"same", "similar", "differ", "compar", "comparison", "versus", "unlik", "both"}
)
"""Stems of English words that ask for what comes next, for a part, and for two things at once."""
_POINTING = frozenset({"this", "that", "these", "those", *POINTED})
_UNTYPED = frozenset({"", "entity"})
_Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class QueryTerms:
    """The words of a query, as stems; the topic's name and kind say nothing of where paths go.

    Args:
        topic: Where the paths start.
        said: Every word of the question, as it is written but for case.
        every: Stems of these.
        small: Stems of those without content: a relation may be called "near".
        question: Content stems of the question.
        hints: Those of the hints.
        seen: Those of what the pictures show.
        related: Stems of the question, and of the labels under which texts answer it.
    """

    topic: Entity
    said: frozenset[str]
    every: frozenset[str]
    small: frozenset[str]
    question: frozenset[str]
    hints: frozenset[str]
    seen: frozenset[str]
    related: frozenset[str]

    @classmethod
    def of(cls, query: Query, topic: Entity) -> QueryTerms:
        """Return the words of a query whose paths start at a topic."""
        said = frozenset(words(query.question))
        own = stems(topic.name) | stems(topic.kind)
        question = stems(query.question) - own
        return cls(
            topic=topic,
            said=said,
            every=frozenset(map(stem, said)),
            small=frozenset(map(stem, said & stop_words())),
            question=question,
            hints=stems(query.hints) - own,
            seen=stems(query.perception) - own,
            related=question | frozenset(label_words(query.question)),
        )

    @property
    def wanted(self) -> frozenset[str]:
        """Every word for which a relation may be followed."""
        return self.related | self.small | self.hints | self.seen


def score(
    terms: QueryTerms,
    paths: Sequence[Path],
    *,
    captions: Mapping[int, str] | None = None,
) -> _Numbers:
    """Return the likelihoods that paths answer a question, float64[n], with sum 1.

    Args:
        terms: The words of the query, and the entity where the paths start.
        paths: All candidate paths, from one entity.
        captions: Captions of pictures, by row of the entity.
    """
    if not paths:
        return np.zeros(0)
    sums = features(terms, paths, captions or {}) @ np.array(list(WEIGHTS.values()))
    powers = np.exp(sums - sums.max())
    likely: _Numbers = powers / powers.sum()
    return likely


def features(terms: QueryTerms, paths: Sequence[Path], captions: Mapping[int, str]) -> _Numbers:
    """Return the features of paths, float64[n, len(WEIGHTS)]."""
    around = _PathWords(paths, terms, captions)
    rows = [around.of(path) for path in paths]
    return np.array([[row.get(name, 0.0) for name in WEIGHTS] for row in rows], np.float64)


class _PathWords:
    """The words of paths from one topic, and their rarities."""

    def __init__(
        self, paths: Sequence[Path], asked: QueryTerms, captions: Mapping[int, str]
    ) -> None:
        self._asked, self._captions = asked, captions
        self._given = asked.question | asked.hints
        steps = {step.row: step for path in paths for step in path.steps}.values()
        self._relations = {step.relation: label_stems(step.relation) for step in steps}
        self._kinds = {step.tail.kind: stems(step.tail.kind) for step in steps}
        self._kind = asked.topic.kind
        # If all entities are of one kind, kinds do not distinguish them.
        self._apart = self._kind not in _UNTYPED and any(k != self._kind for k in self._kinds)
        general = frozenset[str]().union(*self._relations.values(), *self._kinds.values())
        own = stems(asked.topic.name)
        self._names = {}
        for entity in {step.tail.row: step.tail for step in steps}.values():
            name = stems(entity.name)
            self._names[entity.row] = (name - general or name) - own
        self._rare = _rareness(self._names.values())
        self._rare_relation = _rareness(self._relations[step.relation] for step in steps)
        known = (*self._relations.values(), *self._kinds.values(), *self._names.values())
        self._asks = any(one and one <= asked.question | asked.small for one in known)
        self._onward = bool(asked.every & _ONWARD) and not asked.every & _INSIDE
        self._compares = bool(asked.every & _COMPARED)

    def of(self, path: Path) -> dict[str, float]:
        asked = self._asked
        if not path.steps:
            return {
                "alone, nothing asked for": not self._asks,
                "alone, something shown": bool(asked.said & _POINTING or asked.hints),
            }
        last = path.steps[-1]
        crossed = sum(step.tail.kind == self._kind for step in path.steps) if self._apart else 0
        whole = stems(last.tail.name) | stems(last.information)
        shown = stems(self._captions.get(last.tail.row, ""))
        row: dict[str, float] = {
            "end named": _shared(whole, self._given),
            "end seen": max(_shared(whole, asked.seen), _shared(whole | shown, asked.seen)),
            "relation asked for": self._relation(path),
            "crossing": crossed,
            "crossing, compared": bool(crossed and self._compares),
        }
        if states := self._states(path):
            named = sum(self._covered(one, self._given) for one in states)
            row["state named"] = named / len(states)
        away = not self._apart or last.head.kind != self._kind
        if last.tail.kind == last.head.kind and away and len(path.steps) > 1:
            row["onward"] = 1
            row["onward, asked for"] = self._onward
        return row

    def _states(self, path: Path) -> list[frozenset[str]]:
        """Return the stems of the entities between the ends but other topics, and of conditions."""
        between = (step.tail for step in path.steps[:-1])
        names = [
            self._names[one.row] for one in between if not (self._apart and one.kind == self._kind)
        ]
        return names + [stems(step.condition) for step in path.steps if step.condition]

    def _relation(self, path: Path) -> float:
        # The question, or an answer to it, has all words of a relation that it asks for.
        words_asked = self._asked.related | self._asked.small
        relations = (self._relations[step.relation] for step in path.steps)
        asked = (one for one in relations if one and one <= words_asked)
        return max((sum(map(self._rare_relation, one)) for one in asked), default=0.0)

    def _covered(self, wanted: frozenset[str], by: frozenset[str]) -> float:
        total = sum(map(self._rare, wanted))
        return sum(map(self._rare, wanted & by)) / total if total else 0.0


def _shared(one: frozenset[str], other: frozenset[str]) -> float:
    """Return the Jaccard similarity of two sets of words."""
    return len(one & other) / len(one | other) if other else 0.0


def _rareness(texts: Iterable[frozenset[str]]) -> Callable[[str], float]:
    every = list(texts)
    counts = Counter(word for one in every for word in one)
    rare = {word: log(1 + len(every) / (1 + count)) for word, count in counts.items()}
    unknown = log(1 + len(every))
    return lambda word: rare.get(word, unknown)
