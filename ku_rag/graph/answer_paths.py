"""Answers from relations that account for all words of a question.

"Which neighbours of this country use the euro?" asks for what the relation "borders" leads to and
"currency" leads on to the euro; "Which countries use the euro?" asks against the direction of the
relation. A word that no relation, name or kind accounts for, or a negation, and there is no answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain

from ku_rag.graph.model import Entity, Graph, Path, Step
from ku_rag.text.question import AUXILIARIES, Question, analyse, ways_of_label
from ku_rag.text.stems import stem, stems
from ku_rag.text.tokens import words

_MOST = 24
"""More entities than this are not listed as an answer."""
_STEPS = 2000
_CLASSES = frozenset(map(stem, words("type kind class category species is a")))
"""Relations to what a thing is: "Which leviathans ..." needs no word for them."""
_IGNORED = frozenset(
    map(stem, words("share common both together number count belong list fewer fewest"))
)
_PREPOSITIONS = frozenset(words("by of for with to in at on from"))
_MORE, _FEWER = frozenset({"more", "most"}), frozenset({"fewer", "fewest", "less", "least"})


@dataclass(frozen=True, slots=True)
class Traced:
    """The answer to a question from relations.

    Args:
        answers: names, each once, in the order in which they were stated; or a count, "yes" or
            "no".
        paths: the paths that lead to them, and on to what they were chosen by.
    """

    answers: tuple[str, ...]
    paths: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class _Mention:
    """A part of a question that names entities, or what its picture shows, at -1."""

    entities: tuple[Entity, ...]
    at: int
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Link:
    """A relation of a mentioned entity.

    Args:
        step: the relation.
        end: the other entity.
        said: whether the question asks for the relation.
        fits: whether it asks in the direction of this end.
        away: words between the mention and the word for the relation.
        left: content words of the question that it does not account for.
    """

    step: Step
    end: Entity
    said: bool
    fits: bool
    away: int
    left: frozenset[str]


def trace(graph: Graph, start: Entity | None, question: str) -> Traced | None:
    """Return the entities that a question asks for, or None if relations do not answer it.

    Args:
        graph: the graph.
        start: what the picture of the question shows, or the best match; None if there is none.
        question: a sentence.

    Raises:
        Corrupt: a relation fails its checksum.
    """
    mentions = _mentions(graph, question)
    if start and all(start.row != one.row for said in mentions for one in said.entities):
        mentions.insert(0, _Mention((start,), -1))
    names = [" ".join(one.words) for one in mentions]
    asked = analyse(question, tuple([*names, start.name] if start else names))
    if not mentions or asked.kind not in ("value", "yes-no") or asked.negated:
        return None
    if _MORE.union(_FEWER).intersection(asked.said):
        return _compared(graph, asked, mentions) if len(mentions) > 1 else None
    links = [_links(graph, asked, one, several=len(mentions) > 1) for one in mentions]
    if asked.kind == "yes-no":
        return _confirmed(asked, mentions, links)
    if asked.compares and not {"same", "both"}.intersection(asked.said):
        return None
    if len(links) == 1:
        return _single(graph, asked, links[0])
    return _traced(asked, _common(links), 1)


def _mentions(graph: Graph, question: str) -> list[_Mention]:
    """The entities that a question names, in order."""
    spans = graph.names_in(question)
    known = graph.with_keys([span.key for span in spans])
    found = [
        _Mention(tuple(known[one.key]), one.at, one.words) for one in spans if one.key in known
    ]
    return sorted(found, key=lambda one: one.at)


# ---- what the relations of a mentioned entity account for ---------------------------------------


def _links(graph: Graph, asked: Question, mention: _Mention, *, several: bool) -> list[_Link]:
    found = [
        _link(asked, mention, step, entity)
        for entity in mention.entities
        for step in (*graph.hop(entity, _STEPS, direction="both"), *graph.stated(entity))
    ]
    fitting = [one for one in found if one.said and one.fits]
    # "Which monsters have Fire as a weakness?": the kind of the end tells the direction.
    # "Followed by" tells it by itself.
    turned = [
        one
        for one in found
        if one.said
        and _kind(one.end) & set(asked.content)
        and words(one.step.relation)[-1:] != ["by"]
    ]
    unsaid = [one for one in found if not one.said and one.left < frozenset(asked.content)]
    classes = [one for one in found if not one.said and stems(one.step.relation) <= _CLASSES]
    chosen = fitting or turned
    # "The element Fire and the weakness Water"
    nearest = min((one.away for one in chosen), default=0) if several else None
    return [one for one in chosen if nearest in (None, one.away)] or unsaid or classes


def _link(asked: Question, mention: _Mention, step: Step, entity: Entity) -> _Link:
    relation = stems(step.relation) or frozenset(map(stem, words(step.relation)))
    end = step.other(entity)
    fitting = asked.remaining(relation, agents=True)
    content = frozenset(asked.content)
    said = fitting is not None or relation <= asked.every
    left = fitting[1] if fitting else content if said else content - _covered(step)
    left -= _kind(end) | _IGNORED
    spoken = content - left
    places = [n for n, word in enumerate(asked.said) if stem(word) in relation]
    exact = bool(places)
    places = places or [n for n, word in enumerate(asked.said) if stem(word) in spoken]
    at = min(places, key=lambda n: abs(n - mention.at), default=-1)
    out = _asks_for_tail(asked.said, mention, at, step.relation, verb=exact)
    after = {*asked.said[at + 1 : at + 2], *words(step.relation)[-1:]} & _PREPOSITIONS
    if exact and len(after) > 1:
        # "Made of" is not "made by".
        said, left = False, content
    return _Link(step, end, said, out == (step.head.row == entity.row), abs(at - mention.at), left)


def _asks_for_tail(
    said: Sequence[str], mention: _Mention, at: int, relation: str, *, verb: bool
) -> bool:
    """Whether what a relation of a mentioned entity leads to is asked for, not what leads to it.

    "What does the hall stand in?" and "the height of the hall", but "What stands in the hall?".
    """
    own = words(relation)
    if mention.at < 0 or at < 0:
        out = True
    elif at < mention.at:
        between = set(said[at + 1 : mention.at]).difference(own)
        out = bool(between & AUXILIARIES.union({"of"}))
    else:
        out = said[-1] != "of" or own[-1] == "of"
    return not out if verb and own[-1] == "by" and "by" not in said else out


def _kind(entity: Entity) -> frozenset[str]:
    return stems(entity.kind)


def _covered(step: Step) -> frozenset[str]:
    """The words that a relation answers for: its ends', its own, and those of its label."""
    relation = stems(step.relation)
    ways = ways_of_label(relation)
    own = stems(f"{step.tail.name} {step.tail.kind} {step.information} {step.condition}")
    return relation.union(own, *((*way.labels, *way.extra) for way in ways))


# ---- answers ------------------------------------------------------------------------------------


def _single(graph: Graph, asked: Question, links: Sequence[_Link]) -> Traced | None:
    """What the relations of one entity lead to, and what the rest of the question says of that."""
    chosen: list[Path] = []
    further: list[Path] = []
    for link in links:
        if not link.said:
            continue
        step, start = link.step, link.step.other(link.end)
        if link.left <= stems(f"{link.end.name} {step.information} {step.condition}"):
            chosen.append(Path(start, (step,)))
            continue
        for onward in graph.hop(link.end, _STEPS):
            if onward.tail.row == start.row or not link.left <= _covered(onward):
                continue
            # "Who use the euro" chooses among neighbours, "where they live" goes on from them.
            named = link.left & (stems(onward.tail.name) | stems(onward.information))
            (chosen if named else further).append(Path(start, (step, onward)))
    whole = [path for path in chosen if len(path.steps) == 1]
    return _traced(asked, whole or chosen, 1) or _traced(asked, further, 2)


def _common(links: Sequence[Sequence[_Link]]) -> list[Path]:
    """The paths between mentions over what relations of all of them lead to, all words used."""
    first, *others = ({one.end.row: one for one in some} for some in links)
    found: list[Path] = []
    for row, link in first.items():
        ends = [some[row] for some in others if row in some]
        every = [link, *ends]
        left = reduce(frozenset.__and__, (one.left for one in every))
        if len(ends) == len(others) and not left and any(one.said for one in every):
            start = link.step.other(link.end)
            found += (Path(start, (link.step, one.step)) for one in ends)
    return found


def _compared(graph: Graph, asked: Question, mentions: Sequence[_Mention]) -> Traced | None:
    """Which of the mentioned entities has more, or fewer, relations of a kind."""
    paths = [
        [
            Path(entity, (step,))
            for entity in mention.entities
            for step in graph.hop(entity, _STEPS)
            if (one := _link(asked, mention, step, entity)).said and not one.left
        ]
        for mention in mentions
    ]
    counts = [len(some) for some in paths]
    best = max(counts) if _MORE.intersection(asked.said) else min(counts)
    if not any(counts) or counts.count(best) != 1:
        return None
    name = mentions[counts.index(best)].entities[0].name
    return Traced((name,), tuple(chain(*paths))[:_MOST])


def _confirmed(
    asked: Question, mentions: Sequence[_Mention], links: Sequence[Sequence[_Link]]
) -> Traced | None:
    """Yes or no: whether a relation joins two mentioned entities, or both have the same."""
    if len(links) == 1:
        for one in links[0]:
            path = (Path(one.step.head, (one.step,)),)
            if one.said and one.end.name in ("yes", "no") and not one.left:
                return Traced((one.end.name,), path)
            if one.said and one.left and one.left <= stems(one.end.name):
                return Traced(("yes",), path)
    if len(links) != 2:
        return None
    if {"same", "share", "common"}.intersection(asked.said):
        both = _common(links)
        said = [[one for one in some if one.said and not one.left] for some in links]
        paths = both or [Path(one.step.other(one.end), (one.step,)) for one in chain(*said)]
        return Traced(("yes" if both else "no",), tuple(paths[:_MOST])) if all(said) else None
    if asked.compares:
        return None
    heads = [one for some in links for one in some if one.said and one.fits and not one.left]
    for one in heads:
        ends = {entity.row for mention in mentions for entity in mention.entities}
        if one.end.row in ends:
            return Traced(("yes",), (Path(one.step.head, (one.step,)),))
    for this, other in ((0, 1), (1, 0)):
        mine = [one for one in links[this] if one in heads]
        # "No" is said of what the relation leads to elsewhere.
        if mine and {one.step.relation for one in links[other]} & {mine[0].step.relation}:
            return Traced(("no",), (Path(mine[0].step.head, (mine[0].step,)),))
    return None


def _traced(asked: Question, paths: Sequence[Path], at: int) -> Traced | None:
    """The entities that paths reach by so many of their relations, or how many they are."""
    names = tuple(dict.fromkeys(path.entities[at].name for path in paths))
    if names and asked.type == "number":
        return Traced((str(len(names)),), tuple(paths[:_MOST]))
    return Traced(names, tuple(paths)) if 0 < len(names) <= _MOST else None
