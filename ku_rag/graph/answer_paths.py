"""Answers from relations that have all words of a question.

"Which neighbours of this country use the euro?" asks for the ends of the relations of its concept,
"border", from which a relation to the rest of its words ("euro") exists. There is no answer if a
word is in no relation, or if the question has a negation or asks for a number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ku_rag.graph.model import Entity, Graph, Path, Step
from ku_rag.graph.query_terms import answer_stems, stems
from ku_rag.text.lexicon import concepts, word_list
from ku_rag.text.question import analyse
from ku_rag.text.tokens import words

_MOST = 24
"""More entities than this are not listed as an answer."""
_STEPS = 400
_NUMBERS = frozenset({"count", "number"})
"""Types of answers that are numbers."""


@dataclass(frozen=True, slots=True)
class Traced:
    """The answer to a question from relations.

    Args:
        answers: names, each once, in the order in which they were stated.
        paths: the paths that lead to them, and on to what they were chosen by.
    """

    answers: tuple[str, ...]
    paths: tuple[Path, ...]


def trace(graph: Graph, start: Entity, question: str) -> Traced | None:
    """Return the entities that a question asks for, or None if relations do not answer it.

    Args:
        graph: the graph.
        start: the entity that the question is about.
        question: a sentence.

    Raises:
        Corrupt: a relation fails its checksum.
    """
    asked = analyse(question, [start.name])
    said = set(words(question))
    if asked.kind != "value" or asked.type in _NUMBERS:
        return None
    if word_list("negations").intersection(said):
        return None
    own = stems(start.name)
    wanted = stems(question) - own
    sought = wanted | answer_stems(question)
    left = frozenset(asked.required) - own
    named = asked.concept is not None and bool(asked.concept.name)
    first = [step for step in graph.hop(start, _STEPS) if _asked_for(step, sought)]
    if not first or not (named or any(stems(step.relation) <= wanted for step in first)):
        return None
    if at_once := [step for step in first if left <= _said_by(step)]:
        further = []
        for step in at_once:
            # What the question says beside the relation may be a second one.
            rest = wanted - stems(f"{start.kind} {step.tail.kind} {step.tail.name}")
            further += _onward(graph, start, step, rest - _asked_by(step), _relation)
        if further:
            return _traced(further, 2)
        return _traced([Path(start, (step,)) for step in at_once], 1)
    # "Who use the euro" chooses among neighbours, "where their makers live" goes on from them.
    chosen, further = [], []
    for step in first:
        rest = left - stems(step.relation) - stems(step.tail.kind)
        found = _onward(graph, start, step, rest, _covered)
        if on := [path for path in found if rest <= _asked_by(path.steps[1])]:
            further += on
        else:
            chosen += found[:1]
    if chosen:
        return _traced(chosen, 1)
    return _traced(further, 2) if further else None


def _onward(
    graph: Graph,
    start: Entity,
    step: Step,
    rest: frozenset[str],
    said: Callable[[Step], frozenset[str]],
) -> list[Path]:
    """The paths on from a step by relations that say the rest of the question, if there is any."""
    return [
        Path(start, (step, onward))
        for onward in (graph.hop(step.tail, _STEPS) if rest else ())
        if onward.tail.row != start.row and rest <= said(onward)
    ]


def _traced(paths: Sequence[Path], at: int) -> Traced | None:
    """The entities that paths reach by so many of their relations."""
    names = dict.fromkeys(path.entities[at].name for path in paths)
    return Traced(tuple(names), tuple(paths)) if len(names) <= _MOST else None


def _asked_for(step: Step, sought: frozenset[str]) -> bool:
    relation = stems(step.relation)
    return bool(relation) and relation <= sought


def _said_by(step: Step) -> frozenset[str]:
    return stems(f"{step.relation} {step.tail.kind} {step.information} {step.condition}")


def _relation(step: Step) -> frozenset[str]:
    return stems(step.relation)


def _asked_by(step: Step) -> frozenset[str]:
    """The words in which a relation is asked for."""
    return stems(step.relation) | _kin(step.relation)


def _covered(step: Step) -> frozenset[str]:
    """The words that a step answers for: its end's, its own, and those of its concept."""
    own = stems(f"{step.relation} {step.tail.name} {step.tail.kind} {step.information}")
    return own | _kin(step.relation)


@lru_cache(maxsize=1024)
def _kin(relation: str) -> frozenset[str]:
    """Stems of the words in which texts say what a relation says: "speak" for "language"."""
    own = stems(relation)
    found = (
        stem
        for concept in concepts()
        if any(own & frozenset(phrase) for phrase in concept.nouns)
        for phrase in (*concept.nouns, *concept.before, *concept.after)
        for stem in phrase
    )
    return frozenset(found)
