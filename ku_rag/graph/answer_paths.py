"""Answers from relations and facts that account for all words of a question.

"Which neighbours of this country use the euro?" asks for what the relation "borders" leads to and
"currency" leads on to the euro; "Which countries use the euro?" asks against the direction of the
relation, "Which plants are poisonous?" for the units of a kind with a fact, "Which is heavier, A or
B?" for a comparison of facts. A word that no relation, fact, name or kind accounts for, or a
negation, and there is no answer.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain, pairwise
from math import isclose

from ku_rag.graph import unit_facts
from ku_rag.graph.model import Direction, Entity, Graph, Path, Step
from ku_rag.retrieval.names import NamedSpan
from ku_rag.store.relations import ANY_KIND
from ku_rag.text.question import (
    AUXILIARIES,
    PLACE_NOUNS,
    Comparison,
    Question,
    analyse,
    comparison,
    is_asking,
    is_negated,
    ways_of_label,
)
from ku_rag.text.stems import stem, stems
from ku_rag.text.tokens import name_key, stop_words, words
from ku_rag.text.values import Amount, amounts, find_values

_MOST = 24
"""More entities than this are not listed as an answer."""
_STEPS = 2000
_CLASSES = frozenset(map(stem, words("type kind class category species is a")))
"""Relations to what a thing is: "Which leviathans ..." needs no word for them."""
_IGNORED = frozenset(
    map(stem, words("share common both together number count belong list fewer fewest"))
)
_PREPOSITIONS = frozenset(words("by of for with to in at on from"))
_ANSWERED_BY = {
    "by": ("person",), "of": (), "for": (), "with": (), "to": (), "in": ("place", "date"),
    "at": ("place", "date"), "on": ("place", "date"), "from": ("place", "date"),
}  # fmt: skip
"""Preposition at the end of a label → types of questions that it answers even without it."""


@dataclass(frozen=True, slots=True)
class Traced:
    """The answer to a question from relations and facts.

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
    """A relation or a fact of a mentioned entity.

    Args:
        step: the relation.
        end: the other entity.
        said: whether the question asks for the relation.
        fits: whether it asks in the direction of this end.
        away: words between the mention and the word for the relation.
        left: content words of the question that it does not account for.
        rank: how well its label answers; 0 is best.
    """

    step: Step
    end: Entity
    said: bool
    fits: bool
    away: int
    left: frozenset[str]
    rank: int = 0

    def is_only(self, links: Sequence[_Link]) -> bool:
        """Return whether no other link has the same relation."""
        return [one.step.relation for one in links].count(self.step.relation) == 1


def trace(
    graph: Graph,
    start: Entity | None,
    question: str,
    *,
    names: Sequence[NamedSpan] | None = None,
    among: Collection[str] | None = None,
) -> Traced | None:
    """Return what a question asks for, or None if relations and facts do not answer it.

    Args:
        graph: the graph.
        start: what the picture of the question shows, or the best match; None if there is none.
        question: a sentence.
        names: those in the question, if they are known.
        among: ids of the units that count in a question about units of a kind; None for all.

    Raises:
        Corrupt: a relation fails its checksum.
    """
    mentions = _mentions(graph, graph.names_in(question) if names is None else names)
    is_shown = start and all(start.row != one.row for said in mentions for one in said.entities)
    if start and is_shown:
        mentions.insert(0, _Mention((start,), -1))
    said = [" ".join(one.words) for one in mentions]
    asked = analyse(question, tuple([*said, start.name] if start else said))
    if asked.kind not in ("value", "yes-no") or asked.negated:
        return None
    found = _of_mentions(graph, asked, mentions, question) if mentions else None
    return found or (None if is_shown else _of_kind(graph, question, among))


def _mentions(graph: Graph, spans: Sequence[NamedSpan]) -> list[_Mention]:
    """The entities that spans of a question name, in order."""
    known = graph.with_keys([span.key for span in spans])
    found = [
        _Mention(tuple(known[one.key]), one.at, one.words) for one in spans if one.key in known
    ]
    return sorted(found, key=lambda one: one.at)


def _of_mentions(
    graph: Graph, asked: Question, mentions: Sequence[_Mention], question: str
) -> Traced | None:
    compared = comparison(asked)
    if compared and (len(mentions) > 1 or asked.kind == "yes-no"):
        return _compared(graph, asked, compared, mentions, question)
    if not {"common", "share", "both"}.isdisjoint(asked.said) and not set(asked.content) - _IGNORED:
        return _in_common(graph, mentions)
    links = [_links(graph, asked, one, several=len(mentions) > 1) for one in mentions]
    if asked.kind == "yes-no":
        return _confirmed(graph, asked, mentions, links, question)
    if asked.compares and not {"same", "both"}.intersection(asked.said):
        return None
    if len(links) == 1:
        return _single(graph, asked, links[0])
    return _traced(asked, _common(links), 1)


# ---- what the relations of a mentioned entity account for ---------------------------------------


def _steps(graph: Graph, mention: _Mention, direction: Direction = "out") -> list[Step]:
    """The relations of mentioned entities, and their facts."""
    return [
        step
        for entity in mention.entities
        for step in (
            *graph.hop(entity, _STEPS, direction=direction),
            *unit_facts.of_unit(graph.connection, entity),
        )
    ]


def _links(graph: Graph, asked: Question, mention: _Mention, *, several: bool) -> list[_Link]:
    found = [
        _link(asked, mention, step, entity)
        for entity in mention.entities
        for step in _steps(graph, _Mention((entity,), mention.at), "both")
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
    agents = not step.has_value or asked.type == "person"
    fitting = asked.remaining(relation, agents=agents)
    content = frozenset(asked.content)
    said = fitting is not None or (relation <= asked.every and not step.has_value)
    left = fitting[1] if fitting else content if said else content - _covered(step)
    left -= _kind(end) | _IGNORED
    if step.has_value:
        left -= stems(step.information)
    if any(map(str.isdigit, end.name)):
        left -= stems(end.name)
    spoken = content - left
    places = [n for n, word in enumerate(asked.said) if stem(word) in relation]
    exact = bool(places)
    places = places or [n for n, word in enumerate(asked.said) if stem(word) in spoken]
    at = min(places, key=lambda n: abs(n - mention.at), default=-1)
    out = _asks_for_tail(asked.said, mention, at, step.relation, verb=exact)
    after = {*asked.said[at + 1 : at + 2], *words(step.relation)[-1:]} & _PREPOSITIONS
    if (exact and len(after) > 1) or not _leads(asked, step) or not _fits(asked, step, end):
        # "Made of" is not "made by".
        said, left = False, content
    fits = step.has_value or out == (step.head.row == entity.row)
    rank = fitting[0] if fitting else 0
    return _Link(step, end, said, fits, abs(at - mention.at), left, rank)


def _leads(asked: Question, step: Step) -> bool:
    """Whether a question asks with the preposition that the label of a fact ends with."""
    last = words(step.relation)[-1:]
    known = step.has_value and asked.kind == "value" and last and last[0] in _ANSWERED_BY
    return not known or last[0] in asked.every or asked.type in _ANSWERED_BY[last[0]]


def _fits(asked: Question, step: Step, end: Entity) -> bool:
    """Whether an end can be of the type that is asked for."""
    if asked.kind == "yes-no":
        return True
    if asked.type == "place":
        other = {one for one in (*stems(step.relation), *_kind(end)) if one in PLACE_NOUNS}
        # "Which country is it in?" does not ask for a city.
        if other and asked.noun in PLACE_NOUNS and asked.noun not in other:
            return False
    if not step.has_value or asked.type in ("", "name"):
        return True
    # "Where is the owner?" asks for no owner.
    if asked.type == "place" and step.relation.lower().endswith(("er", "or", "ist")):
        return False
    if asked.type in ("person", "place"):
        return any(map(str.isalpha, end.name))
    return any(map(str.isdigit, end.name)) or (asked.type == "number" and step.line is None)


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
    chosen: list[tuple[int, Path]] = []
    further: list[Path] = []
    for link in links:
        if not link.said:
            continue
        step, start = link.step, link.step.other(link.end)
        if link.left <= stems(f"{link.end.name} {step.information} {step.condition}"):
            chosen.append((link.rank, Path(start, (step,))))
            continue
        for onward in graph.hop(link.end, _STEPS):
            if onward.tail.row == start.row or not link.left <= _covered(onward):
                continue
            # "Who use the euro" chooses among neighbours, "where they live" goes on from them.
            named = link.left & (stems(onward.tail.name) | stems(onward.information))
            path = Path(start, (step, onward))
            if named:
                chosen.append((link.rank, path))
            else:
                further.append(path)
    whole = [one for one in chosen if len(one[1].steps) == 1] or chosen
    best = [path for rank, path in whole if rank == min(whole, key=lambda one: one[0])[0]]
    return _traced(asked, best, 1) or _traced(asked, further, 2)


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


def _in_common(graph: Graph, mentions: Sequence[_Mention]) -> Traced | None:
    """Everything that relations and facts say alike of all mentioned entities."""
    said = [
        {(name_key(one.relation), name_key(one.tail.name)): one for one in _steps(graph, mention)}
        for mention in mentions
    ]
    shared = [key for key in said[0] if all(key in other for other in said[1:])]
    if len(said) == 1 or not 0 < len(shared) <= _MOST:
        return None
    return Traced(
        tuple(f"{said[0][key].relation}: {said[0][key].tail.name}" for key in shared),
        tuple(Path(some[key].head, (some[key],)) for key in shared for some in said),
    )


def _confirmed(
    graph: Graph,
    asked: Question,
    mentions: Sequence[_Mention],
    links: Sequence[Sequence[_Link]],
    question: str,
) -> Traced | None:
    """Yes or no: whether a relation joins two mentioned entities, or a fact says it."""
    if len(links) == 1:
        return _decided(graph, links[0], frozenset(), question)
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
        stated = [one for one in links[this] if one.step.has_value]
        named = frozenset(map(stem, mentions[other].words))
        if named and (decided := _decided(graph, stated, named, question)):
            return decided
    return None


def _decided(
    graph: Graph, links: Sequence[_Link], named: frozenset[str], question: str
) -> Traced | None:
    """Yes or no, as the facts and relations of one entity say.

    Args:
        graph: the graph.
        links: those that the question may ask for.
        named: stems of another name in the question.
        question: a sentence.
    """
    given, numbers = amounts(question), _amount_words(question)
    for one in links:
        value, left = stems(one.end.name), one.left | named
        path = (Path(one.step.head, (one.step,)),)
        if one.end.name in ("yes", "no"):
            if one.said and not left:
                return Traced((one.end.name,), path)
        elif is_negated(words(one.end.name)):
            continue
        elif left <= numbers and len(given) == 1 and (stated := amounts(one.end.name)):
            if len(stated) == 1 and stated[0].unit == given[0].unit and one.is_only(links):
                same = isclose(stated[0].number, given[0].number)
                return Traced(("yes" if same else "no",), path)
        elif (left or (one.step.has_value and not one.said)) and left <= value:
            return Traced(("yes",), path)
        elif one.said and one.step.has_value and left and not left & value:
            # A list in a text need not be complete.
            single = one.is_only(links) and not re.search(r",| and ", one.end.name)
            if single and (len(left) == 1 or left == named):
                return Traced(("no",), path)
            # What metadata of other units have, and those of this unit do not
            others = [stems(other.end.name) for other in links if other.said]
            if not one.step.line and not any(left <= other for other in others):
                known = unit_facts.values(graph.connection, one.step.relation)
                return Traced(("no",), path) if left in map(stems, known) else None
    return None


def _traced(asked: Question, paths: Sequence[Path], at: int) -> Traced | None:
    """The entities that paths reach by so many of their relations, or how many they are."""
    names = tuple(
        {name_key(one.entities[at].name): one.entities[at].name for one in paths}.values()
    )
    # "How many planets does it have?" may be stated as a number.
    stated = [name for name in names if name[:1].isdigit()]
    if names and asked.type == "number" and not (len(names) == 1 and stated):
        return Traced((str(len(names)),), tuple(paths[:_MOST]))
    return Traced(names, tuple(paths)) if 0 < len(names) <= _MOST else None


# ---- comparisons --------------------------------------------------------------------------------


def _compared(
    graph: Graph,
    asked: Question,
    compared: Comparison,
    mentions: Sequence[_Mention],
    question: str,
) -> Traced | None:
    """Which of the mentioned entities has most, or whether one has more than another."""
    if set(asked.content) - compared.words - compared.labels - _IGNORED - _amount_words(question):
        return None
    measured = (_measured(compared, _steps(graph, mention)) for mention in mentions)
    found = [one for one in measured if one]
    if len(found) < len(mentions):
        return None
    if asked.kind == "value":
        best = _extreme(replace(compared, of_two=False), found, None, asked)
        return best if best and len(best.answers) == 1 else None
    values = [*(amount for amount, _ in found), *amounts(question)[:1]]
    if len(values) != 2 or len({o.unit for o in values if o.unit}) > 1 or not compared.of_two:
        return None
    is_so = values[0].number * compared.sign > values[1].number * compared.sign
    paths = tuple(path for _, some in found for path in some)[:_MOST]
    return Traced(("yes" if is_so else "no",), paths)


def _measured(
    compared: Comparison, steps: Sequence[Step]
) -> tuple[Amount, tuple[Path, ...]] | None:
    """The amount that facts state under a compared label, or how many of them there are."""
    met = [one for one in steps if stems(one.relation) and stems(one.relation) <= compared.labels]
    met = [one for one in met if amounts(one.tail.name)] or met
    met = [one for one in met if one.relation == met[0].relation]
    if not met:
        return None
    paths, value = tuple(Path(one.head, (one,)) for one in met), met[0].tail.name
    if compared.oldest and (dates := find_values(value, "date")):
        year = int(re.findall(r"\d+", value[slice(*dates[0])])[-1])
        return Amount(-year, "date"), paths
    if len(met) == 1 and (stated := amounts(value)):
        return stated[0], paths
    return (Amount(len(met), "number of them"), paths) if not compared.oldest else None


def _amount_words(question: str) -> set[str]:
    """The stems of the words of a question that are an amount: "12 mm"."""
    found = re.findall(r"\d[\d.,]*(?: ?[^\W\d_]+)?", question)
    return {stem(word) for one in found for word in words(one)}


# ---- units of a kind ----------------------------------------------------------------------------


def _of_kind(graph: Graph, question: str, among: Collection[str] | None) -> Traced | None:
    """The units of a kind that have the facts of a question, how many, or that with most."""
    asked, kinds = analyse(question), unit_facts.kinds(graph.connection)
    chosen = [kind for kind in kinds if stems(kind) and stems(kind) <= {*asked.content}]
    noun = _head_noun(asked) if kinds == [ANY_KIND] else ""
    # Where no unit has a kind, any noun may mean them.
    chosen, names = (kinds, (noun,)) if noun else (chosen, tuple(chosen))
    if not chosen and asked.said[-1:] and asked.said[-1] in _PREPOSITIONS:
        # "What is Paris the capital of?"
        chosen = kinds
    asked = analyse(question, names)
    compared, content = comparison(asked), set(asked.content) - _IGNORED
    if asked.kind != "value" or not chosen or asked.negated or (asked.compares and not compared):
        return None
    if not content:
        total = among is None and not noun and unit_facts.count(graph.connection, chosen)
        return Traced((str(total),), ()) if total and _counts(asked) else None
    limit = next(iter(amounts(question)), None) if compared and compared.of_two else None
    if compared:
        content -= compared.words | compared.labels | (_amount_words(question) if limit else set())
    needed = [word for word in asked.said if stem(word) in content and not is_asking(stem(word))]
    labels = compared.labels if compared else frozenset()
    fitting: list[tuple[Sequence[Step], Sequence[Step]]] = []
    for entity, steps in unit_facts.of_kinds(graph.connection, chosen, needed, labels):
        covers = {step: covered for step in steps if (covered := _fact_covers(step, content))}
        counts = among is None or entity.unit in among
        if counts and content <= frozenset().union(*covers.values()):
            fitting.append((steps, [*covers]))
    if compared:
        found = [one for steps, _ in fitting if (one := _measured(compared, steps))]
        return _extreme(compared, found, limit, asked)
    return _listed(asked, [Path(step.head, (step,)) for _, used in fitting for step in used])


def _head_noun(asked: Question) -> str:
    """The noun after "which" or "how many", if it can mean several units."""
    after = [word for before, word in pairwise(asked.said) if before in ("which", "what", "many")]
    several = after and after[0] not in stop_words() and after[0].endswith("s")
    return after[0] if several or (after and comparison(asked)) else ""


def _counts(asked: Question) -> bool:
    """Whether a question asks how many there are."""
    return asked.type == "number" or ("how", "many") in pairwise(asked.said)


def _fact_covers(step: Step, content: Collection[str]) -> frozenset[str]:
    """The words of a question that a fact accounts for, if it states what they say."""
    label, value = stems(step.relation), step.tail.name
    if value in ("yes", "no"):
        return label if value == "yes" and label <= set(content) else frozenset()
    parts = [stems(one) for one in re.split(r"[,;/]| and | or ", value)]
    met = [one for one in parts if one and one <= set(content)]
    if not met or is_negated(words(value)):
        return frozenset()
    ways = ways_of_label(label)
    return label.union(*met, *((*way.labels, *way.extra) for way in ways))


def _listed(asked: Question, paths: Sequence[Path]) -> Traced | None:
    """The units that paths start from, or how many they are."""
    names = {path.start.row: path.start.name for path in paths}
    if names and _counts(asked):
        return Traced((str(len(names)),), tuple(paths[:_MOST]))
    listed = tuple(dict.fromkeys(names.values()))
    return Traced(listed, tuple(paths)) if 0 < len(names) <= _MOST else None


def _extreme(
    compared: Comparison,
    found: Sequence[tuple[Amount, tuple[Path, ...]]],
    limit: Amount | None,
    asked: Question,
) -> Traced | None:
    """The units with the greatest amount, or those on one side of a limit."""
    units = {one.unit for one in (*(amount for amount, _ in found), limit) if one and one.unit}
    if len(found) + bool(limit) < 2 or len(units) > 1 or (compared.of_two and not limit):
        return None
    numbers = [one.number * compared.sign for one, _ in found]
    kept = [
        paths
        for number, (_, paths) in zip(numbers, found, strict=True)
        if (number > limit.number * compared.sign if limit else number == max(numbers))
    ]
    return _listed(asked, [path for paths in kept for path in paths])
