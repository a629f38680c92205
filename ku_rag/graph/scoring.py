"""Likelihoods of paths as answers to a question, from weighted features, without a model.

The features compare the question with the last entity of a path, its states (entities of another
kind between the ends, and conditions), its relations, and the kinds of its entities. Words are
compared by their stems, weighted by their rarity in the neighbourhood; names and captions also by
the cosine of their vectors. The weights are fitted by a softmax over the paths from one topic
(`benchmarks/mh.py --fit`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import log

import numpy as np
from numpy.typing import NDArray

from ku_rag.encoders.base import Encoder
from ku_rag.graph.model import Entity, Path
from ku_rag.graph.query_terms import QueryTerms, relation_stems
from ku_rag.text.question import POINTED
from ku_rag.text.stems import stem, stems
from ku_rag.text.tokens import words

WEIGHTS: Mapping[str, float] = {
    "alone": -0.89,
    "alone, nothing asked for": 9.72,
    "alone, something shown": -8.73,
    "end named": 1.87,
    "end seen": 12.6,
    "end covered by what is seen": 0.25,
    "end near the question": -0.13,
    "end near the hints": 0.21,
    "end near what is seen": 0.29,
    "at once, in a state": -0.49,
    "through a state": -0.3,
    "through a state, hinted": 0.87,
    "state named": 1.85,
    "state near the hints": 0.65,
    "relation asked for": 0.5,
    "kind asked for": 1.72,
    "onward": -2.43,
    "onward, asked for": 3.42,
    "onward, inside": 0.83,
    "crossing": -2.81,
    "crossing, compared": 4.63,
    "crossing, asked for": 0.54,
}
"""Weights of the features, in the order of the columns of `features`.

The fitted weight of "relation asked for" is 0.13, because relations are little distinctive in that
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


def score(
    terms: QueryTerms,
    paths: Sequence[Path],
    encoder: Encoder,
    *,
    captions: Mapping[int, str] | None = None,
    weights: Mapping[str, float] = WEIGHTS,
) -> _Numbers:
    """Return the likelihoods that paths answer a question, float64[n], with sum 1.

    Args:
        terms: The words of the query, and the entity where the paths start.
        paths: All candidate paths, from one entity.
        encoder: Encodes texts.
        captions: Captions of pictures, by row of the entity.
        weights: Weights of the features, by name.
    """
    if not paths:
        return np.zeros(0)
    columns = [weights.get(name, 0.0) for name in WEIGHTS]
    sums = features(terms, paths, encoder, captions or {}) @ np.array(columns)
    powers = np.exp(sums - sums.max())
    likely: _Numbers = powers / powers.sum()
    return likely


def features(
    terms: QueryTerms, paths: Sequence[Path], encoder: Encoder, captions: Mapping[int, str]
) -> _Numbers:
    """Return the features of paths, float64[n, len(WEIGHTS)]."""
    around = _PathWords(paths, terms, captions)
    near = _Nearness(paths, terms, around, encoder, captions)
    rows = [around.of(path) | near.of(path) for path in paths]
    return np.array([[row.get(name, 0.0) for name in WEIGHTS] for row in rows], np.float64)


class _PathWords:
    """The words of paths from one topic, and their rarities."""

    def __init__(
        self, paths: Sequence[Path], asked: QueryTerms, captions: Mapping[int, str]
    ) -> None:
        self._asked, self._captions = asked, captions
        steps = {step.row: step for path in paths for step in path.steps}.values()
        self._relations = {step.relation: relation_stems(step.relation) for step in steps}
        self._kinds = {step.tail.kind: stems(step.tail.kind) for step in steps}
        self._kind = asked.topic.kind
        # If all entities are of one kind, kinds do not distinguish them.
        self._apart = self._kind not in _UNTYPED and any(k != self._kind for k in self._kinds)
        self.general = frozenset[str]().union(*self._relations.values(), *self._kinds.values())
        own = stems(asked.topic.name)
        self._names = {}
        for entity in {step.tail.row: step.tail for step in steps}.values():
            name = stems(entity.name)
            self._names[entity.row] = (name - self.general or name) - own
        self._rare = _rareness(self._names.values())
        self._rare_relation = _rareness(self._relations[step.relation] for step in steps)
        known = (*self._relations.values(), *self._kinds.values(), *self._names.values())
        self._asks = any(one and one <= asked.question | asked.small for one in known)
        self._inside = bool(asked.every & _INSIDE)
        self._onward = bool(asked.every & _ONWARD) and not self._inside
        self._compares = bool(asked.every & _COMPARED)

    def of(self, path: Path) -> dict[str, float]:
        asked = self._asked
        if not path.steps:
            return {
                "alone": 1,
                "alone, nothing asked for": not self._asks,
                "alone, something shown": bool(asked.said & _POINTING or asked.hints),
            }
        last = path.steps[-1]
        crossed = sum(step.tail.kind == self._kind for step in path.steps) if self._apart else 0
        kind = self._kinds[last.tail.kind]
        name = self._names[last.tail.row]
        whole = stems(last.tail.name) | stems(last.information)
        shown = stems(self._captions.get(last.tail.row, ""))
        row: dict[str, float] = {
            "end named": _shared(whole, asked.given),
            "end seen": max(_shared(whole, asked.seen), _shared(whole | shown, asked.seen)),
            "end covered by what is seen": self._covered(name, asked.seen),
            "relation asked for": self._relation(path),
            "kind asked for": bool(kind and kind <= asked.question),
            "crossing": crossed,
            "crossing, compared": bool(crossed and self._compares),
            "crossing, asked for": bool(crossed and self._crossing_asked(path)),
            "at once, in a state": len(path.steps) == 1 and bool(asked.hints),
        }
        if states := self._states(path):
            named = sum(self._covered(one, asked.given) for one in states)
            row["state named"] = named / len(states)
        if any(step.tail.kind != last.tail.kind for step in path.steps[:-1]):
            row["through a state"] = 1
            row["through a state, hinted"] = bool(asked.hints)
        away = not self._apart or last.head.kind != self._kind
        if last.tail.kind == last.head.kind and away and len(path.steps) > 1:
            row["onward"] = 1
            row["onward, asked for"] = self._onward
            row["onward, inside"] = self._inside
        return row

    def passed(self, path: Path) -> list[Entity]:
        """Return the entities between the ends of a path, without other topics."""
        between = (step.tail for step in path.steps[:-1])
        return [one for one in between if not (self._apart and one.kind == self._kind)]

    def _states(self, path: Path) -> list[frozenset[str]]:
        """Return the stems of the entities between the ends, and of the conditions."""
        names = [self._names[entity.row] for entity in self.passed(path)]
        return names + [stems(step.condition) for step in path.steps if step.condition]

    def _crossing_asked(self, path: Path) -> bool:
        over = (step.relation for step in path.steps if step.tail.kind == self._kind)
        return any(self._asked.asks_for(self._relations[one]) for one in over)

    def _relation(self, path: Path) -> float:
        relations = (self._relations[step.relation] for step in path.steps)
        return max(
            sum(self._rare_relation(word) for word in one) if self._asked.asks_for(one) else 0.0
            for one in relations
        )

    def _covered(self, wanted: frozenset[str], by: frozenset[str]) -> float:
        total = sum(map(self._rare, wanted))
        return sum(map(self._rare, wanted & by)) / total if total else 0.0


class _Nearness:
    """Cosines of the names and captions of entities to parts of the query.

    Cosines are normalised over the paths: mean 0, standard deviation 1.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        asked: QueryTerms,
        around: _PathWords,
        encoder: Encoder,
        captions: Mapping[int, str],
    ) -> None:
        self._encoder = encoder
        own = stems(asked.topic.name) | around.general
        ends = {path.end.row: path.end.name for path in paths if path.steps}
        self._passed = around.passed
        states = {entity.row: entity.name for path in paths for entity in around.passed(path)}
        ends = {
            row: f"{name}. {captions[row]}" if row in captions else name
            for row, name in ends.items()
        }
        query = asked.query
        question, hints, seen = (
            " ".join(word for word in words(text) if stem(word) not in own)
            for text in (query.question, query.hints, query.perception)
        )
        vectors = self._vectors(ends)
        self._ends = {
            "end near the question": self._near(vectors, question),
            "end near the hints": self._near(vectors, hints),
            "end near what is seen": self._near(vectors, seen),
        }
        self._states = self._near(self._vectors(states), hints) if hints else {}

    def of(self, path: Path) -> dict[str, float]:
        if not path.steps:
            return {}
        row = {name: near.get(path.end.row, 0.0) for name, near in self._ends.items()}
        if between := self._passed(path):
            near = [self._states.get(entity.row, 0.0) for entity in between]
            row["state near the hints"] = sum(near) / len(near)
        return row

    def _vectors(self, texts: Mapping[int, str]) -> dict[int, NDArray[np.float32]]:
        distinct = list(dict.fromkeys(texts.values()))
        if not distinct:
            return {}
        made = dict(zip(distinct, self._encoder.encode_texts(distinct), strict=True))
        return {row: made[text] for row, text in texts.items()}

    def _near(self, vectors: Mapping[int, NDArray[np.float32]], text: str) -> dict[int, float]:
        if not vectors or not text:
            return {}
        [asked] = self._encoder.encode_texts([text])
        cosines = np.stack(list(vectors.values())) @ asked
        spread = float(cosines.std())
        if spread < 1e-6:
            return {}
        comparable = (cosines - cosines.mean()) / spread
        return dict(zip(vectors, comparable.tolist(), strict=True))


def _shared(one: frozenset[str], other: frozenset[str]) -> float:
    """Return the Jaccard similarity of two sets of words."""
    return len(one & other) / len(one | other) if other else 0.0


def _rareness(texts: Iterable[frozenset[str]]) -> Callable[[str], float]:
    every = list(texts)
    counts = Counter(word for one in every for word in one)
    rare = {word: log(1 + len(every) / (1 + count)) for word, count in counts.items()}
    unknown = log(1 + len(every))
    return lambda word: rare.get(word, unknown)
