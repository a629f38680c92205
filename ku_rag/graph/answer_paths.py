"""Answers from relations that have all words of a question.

"Which neighbours of this country use the euro?" asks for what the relation "borders" leads to, if
that leads on to the rest of its words ("euro"). Nothing less is traced: a word that no step covers,
or a negation, and there is no answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ku_rag.graph.model import Entity, Graph, Path, Step
from ku_rag.text.question import Question, analyse, ways_of_label
from ku_rag.text.stems import root, stem, stems
from ku_rag.text.tokens import words

_MOST = 24
"""More entities than this are not listed as an answer."""
_STEPS = 400


@dataclass(frozen=True, slots=True)
class Traced:
    """The answer to a question from relations.

    Args:
        answers: names, each once, in the order in which they were stated; or a count, or "yes".
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
    asked = analyse(question, (start.name,))
    if asked.kind not in ("value", "yes-no") or asked.negated or asked.compares:
        return None
    forward = [step for step in graph.hop(start, _STEPS) if _is_asked(asked, step)]
    if found := _forward(graph, start, asked, forward):
        return found
    if asked.kind == "value" and (found := _inverse(graph, start, asked, question)):
        return found
    return None


def _forward(graph: Graph, start: Entity, asked: Question, steps: Sequence[Step]) -> Traced | None:
    """What relations of the start lead to, and what the rest of the question says of that."""
    chosen: list[Path] = []
    further: list[Path] = []
    for step in steps:
        left = _left(asked, step) - stems(start.kind)
        if left <= stems(f"{step.tail.name} {step.information} {step.condition}"):
            if asked.kind == "value" or left & stems(step.tail.name):
                chosen.append(Path(start, (step,)))
            continue
        for onward in graph.hop(step.tail, _STEPS):
            if onward.tail.row == start.row or not left <= _covered(onward):
                continue
            # "Who use the euro" chooses among neighbours, "where they live" goes on from them.
            named = left & (stems(onward.tail.name) | stems(onward.information))
            (chosen if named else further).append(Path(start, (step, onward)))
    if asked.kind == "yes-no":
        return Traced(("yes",), tuple(chosen[:1])) if chosen else None
    whole = [path for path in chosen if len(path.steps) == 1]
    return _traced(asked, whole or chosen, 1) or _traced(asked, further, 2)


def _inverse(graph: Graph, start: Entity, asked: Question, question: str) -> Traced | None:
    """What has a relation to the start: "What did she make?" where things are "made by" her."""
    said = [stem(word) for word in words(question)]
    own = [at for at, word in enumerate(said) if word in stems(start.name)]
    paths = []
    for step in graph.hop(start, _STEPS, direction="in"):
        relation = stems(step.relation)
        at = [n for n, word in enumerate(said) if word in relation]
        kinds = stems(step.head.kind)
        left = frozenset(asked.content) - relation - kinds - _count_words(asked)
        active = not step.relation.endswith(" by")
        # "What stands in the hall?", but "What does the hall stand in?" asks for the other end.
        if not (own and at and not left and relation) or (at[0] < own[0]) is not active:
            continue
        if asked.type in ("", "name", "number") or (asked.type == "person" and "person" in kinds):
            paths.append(Path(step.head, (step,)))
    return _traced(asked, paths, 0)


def _traced(asked: Question, paths: Sequence[Path], at: int) -> Traced | None:
    """The entities that paths reach by so many of their relations, or how many they are."""
    names = tuple(dict.fromkeys(path.entities[at].name for path in paths))
    if not names or len(names) > _MOST:
        return None
    return Traced((str(len(names)),) if asked.type == "number" else names, tuple(paths))


def _is_asked(asked: Question, step: Step) -> bool:
    """Whether a question asks for a relation: by its words, or in one of the ways for its label."""
    relation = stems(step.relation) or frozenset(map(stem, words(step.relation)))
    if set(map(root, relation)) <= set(map(root, asked.content)) or relation <= asked.every:
        return True
    return any(way in asked.ways for way in ways_of_label(relation) if way.type != "person")


def _left(asked: Question, step: Step) -> frozenset[str]:
    """The words of a question that its first relation does not account for."""
    relation = stems(step.relation)
    roots = set(map(root, relation))
    spoken = set().union(
        *(
            way.extra.union(*(one for one in way.triggers if one <= asked.every))
            for way in ways_of_label(relation)
            if way in asked.ways
        )
    )
    rest = frozenset(one for one in asked.content if root(one) not in roots)
    return rest - spoken - stems(step.tail.kind) - _count_words(asked)


def _count_words(asked: Question) -> frozenset[str]:
    return frozenset({"number", "count"}) if asked.type == "number" else frozenset()


def _covered(step: Step) -> frozenset[str]:
    """The words that a step answers for: its end's, its own, and those of its label."""
    relation = stems(step.relation)
    ways = ways_of_label(relation)
    own = stems(f"{step.tail.name} {step.tail.kind} {step.information} {step.condition}")
    return relation.union(own, *((*way.labels, *way.extra) for way in ways))
