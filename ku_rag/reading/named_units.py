"""Answers from relations and facts that account for all words of a question.

"Which neighbours of this country use the euro?" asks for what the relation "borders" leads to and
"currency" leads on to the euro; "Which countries use the euro?" asks against the direction of the
relation, "Which plants are poisonous?" for the units of a kind with a fact, "Which is heavier, A or
B?" for a comparison of facts. A word that no relation, fact, name or kind accounts for, or a
negation, and there is no answer.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain
from math import isclose

from ku_rag.graph.model import NO_ROW, Direction, Entity, Graph, Path, Step
from ku_rag.graph.traversal import step_stems
from ku_rag.graph.unit_facts import FactReader
from ku_rag.reading.answers import CLASSES, IGNORED, MOST, SOFT, Traced, fits_type, own_stems
from ku_rag.reading.unit_sets import Constraint, UnitSetReader, amount_stems
from ku_rag.retrieval.names import NamedSpan, find_names
from ku_rag.text.question import (
    AUXILIARIES,
    Comparison,
    Question,
    analyse,
    comparison,
    is_negated,
    meant_by_label,
)
from ku_rag.text.stems import every_stem, stem, stems
from ku_rag.text.tokens import name_key, words
from ku_rag.text.values import Amount, amounts, find_values, list_items

_STEPS = 2000
_ALIKE = frozenset(words("same share common both"))
_PREPOSITIONS = frozenset(words("by of for with to in at on from"))
_DETERMINERS = frozenset(words("the a an its his her their s what which"))  # "s": "Ann's driver"
_FOR_HEAD = re.compile(r"(whose|^wh\w+ \w+ s|^of wh.* the|(?<!have| has| had) as( \w+)?)$")
_TURNS = frozenset(words("after before"))
_NEEDED = every_stem("need make take require happen must")
"""Words that ask for a condition: "What do I need to make it evolve?"."""


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
        start: the mentioned entity.
        said: whether the question asks for the relation.
        fits: whether it asks in the direction of this end.
        left: content words of the question that it does not account for.
        rank: how well its label answers; 0 is best.
    """

    step: Step
    start: Entity
    said: bool
    fits: bool
    left: frozenset[str]
    rank: int = 0

    @property
    def end(self) -> Entity:
        """The other entity."""
        return self.step.other(self.start)

    @property
    def path(self) -> Path:
        """The relation alone, from its head."""
        return Path(self.step.head, (self.step,))

    def is_only(self, links: Sequence[_Link]) -> bool:
        """Return whether no other link has the same relation."""
        return [one.step.relation for one in links].count(self.step.relation) == 1


def trace(
    graph: Graph,
    start: Entity | None,
    question: str,
    *,
    names: Sequence[NamedSpan] | None = None,
    among: Collection[int] | None = None,
) -> Traced | None:
    """Return what a question asks for, or None if relations and facts do not answer it.

    Args:
        graph: the graph.
        start: what the picture of the question shows, or the best match; None if there is none.
        question: a sentence.
        names: those in the question, if they are known.
        among: rows of the units that count in a question about units of a kind; None for all.

    Raises:
        Corrupt: a relation fails its checksum.
    """
    spans = find_names(graph.connection, question).spans if names is None else names
    known = graph.with_keys([span.key for span in spans])
    mentions = [_Mention((*known[o.key],), o.at, o.words) for o in spans if o.key in known]
    mentions.sort(key=lambda one: one.at)
    is_shown = start and all(start.row != one.row for said in mentions for one in said.entities)
    if start and is_shown:
        mentions.insert(0, _Mention((start,), -1))
    said = [" ".join(one.words) for one in mentions]
    asked = analyse(question, tuple([*said, start.name] if start else said))
    if asked.kind not in ("value", "yes-no") or asked.negated:
        return None
    facts = FactReader(graph.connection)
    tracer = _Tracer(graph, facts, question, asked, mentions)
    found = tracer.of_mentions() if mentions else None
    if not found and not is_shown:
        found = UnitSetReader(facts, question, tracer.joined(), among).read()
    return found and replace(found, note=facts.note)


@dataclass(frozen=True, slots=True)
class _Tracer:
    """A question about mentioned entities, and what it is asked of."""

    graph: Graph
    facts: FactReader
    question: str
    asked: Question
    mentions: Sequence[_Mention]

    def joined(self) -> list[tuple[range, list[Constraint]]]:
        """Return the units that relations join to each mentioned entity, by relation."""
        found = []
        content = frozenset(self.asked.content)
        for mention in self.mentions:
            alternatives: dict[frozenset[str], Constraint] = {}
            for link in self._links(mention):
                label = stems(link.step.relation)
                if link.end.unit is not None:
                    covered = content - link.left | frozenset(map(stem, mention.words))
                    constraint = Constraint({}, covered, link.said, label)
                    units = alternatives.setdefault(label, constraint).facts
                    units.setdefault(link.end.unit, []).append(
                        self.facts.of_end(link.end, link.step)
                    )
            places = range(mention.at, mention.at + len(mention.words))
            found.append((places, [*alternatives.values()]))
        return found

    def of_mentions(self) -> Traced | None:
        """Return what relations and facts of the mentioned entities answer."""
        asked, compared = self.asked, comparison(self.asked)
        if compared and (len(self.mentions) > 1 or asked.kind == "yes-no"):
            return self._compared(compared)
        if not _ALIKE.isdisjoint(asked.said) and not set(asked.content) - IGNORED:
            return self._in_common()
        links = [self._links(one) for one in self.mentions]
        if asked.kind == "yes-no":
            return self._confirmed(links)
        if asked.compares and _ALIKE.isdisjoint(asked.said):
            return None
        if condition := self._condition(links):
            return condition
        if len(links) > 1:
            return _traced(asked, _common(links), 1)
        return self._single(links[0]) or self._cell(self.mentions[0])

    # ---- what the relations of a mentioned entity account for -----------------------------------

    def _steps(self, entity: Entity, direction: Direction = "out") -> list[Step]:
        """The relations of an entity, and its facts."""
        hops = self.graph.hop(entity, _STEPS, direction=direction)
        return [*hops, *self.facts.of_unit(entity)]

    def _links(self, mention: _Mention) -> list[_Link]:
        found = [
            self._link(mention, step, entity)
            for entity in mention.entities
            for step in self._steps(entity, "both")
        ]
        content = frozenset(self.asked.content)
        # "Which monsters have Fire as a weakness?": the kind of the end tells the direction.
        return (
            [one for one in found if one.said and one.fits]
            or [one for one in found if one.said and stems(one.end.kind) & content]
            or [one for one in found if not one.said and one.left < content]
            or [one for one in found if stems(one.step.relation) <= CLASSES]
        )

    def _link(self, mention: _Mention, step: Step, entity: Entity) -> _Link:
        asked, end = self.asked, step.other(entity)
        relation, content = own_stems(step.relation), frozenset(asked.content)
        answered = asked.remaining(relation, agents=not step.has_value or asked.type == "person")
        said = answered is not None or (relation <= asked.every and not step.has_value)
        left = answered[1] if answered else content if said else content - _covered(step)
        is_alike = len(self.mentions) > 1 and not _ALIKE.isdisjoint(asked.said)
        left -= stems(end.kind) | (IGNORED if is_alike else SOFT)
        spoken = content - left
        left |= _TURNS.intersection(asked.said) - self._turns_of(step)
        own, stemmed = [*map(stem, words(step.relation))], [*map(stem, asked.said)]
        places = [n for n in range(len(stemmed)) if stemmed[: n + 1][-len(own) :] == own]
        places = places or [n for n, word in enumerate(stemmed) if word in relation]
        exact = bool(places)
        places = places or [n for n, word in enumerate(stemmed) if word in spoken]
        at = min(places, key=lambda n: abs(n - mention.at), default=-1)
        if "next" in own and asked.said[at + 1 : mention.at] == ("before",):
            left -= {"before"}
        out = _asks_for_tail(asked.said, mention, at, step.relation, verb=exact)
        after = {*asked.said[at + 1 : at + 2], *words(step.relation)[-1:]} & _PREPOSITIONS
        fits = step.has_value or out == (step.head.row == entity.row)
        is_noun = not _DETERMINERS.isdisjoint(asked.said[max(0, at - len(own)) : at])
        if (exact and (len(after) > 1 or (is_noun and not fits))) or not fits_type(
            asked, step, end
        ):
            # "Made of" is not "made by"; "the driver of Ann" is not the person that Ann drives.
            said, left = False, content
        return _Link(step, entity, said, fits, left, answered[0] if answered else 0)

    def _turns_of(self, step: Step) -> frozenset[str]:
        """The words of a relation, and "after" if the question says it of that."""
        label, said = " ".join(words(step.relation)), " ".join(self.asked.said)
        is_after = said.startswith("after ") or f"{label} after" in said
        return frozenset(words(f"{label} after" if is_after else label))

    # ---- answers --------------------------------------------------------------------------------

    def _single(self, links: Sequence[_Link]) -> Traced | None:
        """What the relations of one entity lead to, and what the question says of that."""
        chosen: list[tuple[int, Path]] = []
        further: list[Path] = []
        for link in links:
            step, start = link.step, link.start
            if link.said and link.left <= stems(
                f"{link.end.name} {step.information} {step.condition}"
            ):
                chosen.append((link.rank, Path(start, (step,))))
                continue
            for onward in self._onward(link.end) if link.said else ():
                covered = self._spoken(onward) | self._turns_of(onward)
                left = link.left - stems(link.end.name)
                if onward.tail.row == start.row or not left <= covered:
                    continue
                # "Who use the euro" chooses among neighbours, "where they live" goes on from them.
                path = Path(start, (step, onward))
                if link.left & (stems(onward.tail.name) | stems(onward.information)):
                    chosen.append((link.rank, path))
                else:
                    further.append(path)
        least = min((rank for rank, _ in chosen), default=0)
        best = [path for rank, path in chosen if rank == least]
        labels = {own_stems(path.steps[0].relation) for path in best}
        if len(labels) > 1 and least:  # two labels that fit equally well
            return None
        return _traced(self.asked, best, 1) or _traced(self.asked, further, 2)

    def _onward(self, end: Entity) -> Iterator[Step]:
        """Yield relations and facts of an entity, or of the units that have a value as a name."""
        key = name_key(end.name)
        same = self.graph.with_keys([key]).get(key, []) if end.row <= NO_ROW else [end]
        for entity in same:
            yield from self.graph.hop(entity, _STEPS)
            yield from self.facts.of_unit(entity) if entity.unit else ()

    def _spoken(self, onward: Step) -> frozenset[str]:
        """The words of the question that a relation or a fact accounts for."""
        if not onward.has_value:
            return _covered(onward)
        answered = self.asked.remaining(own_stems(onward.relation), agents=True)
        fits = answered is not None and fits_type(self.asked, onward, onward.tail)
        left = answered[1] if answered and fits else frozenset(self.asked.content)
        return frozenset(self.asked.content) - left

    def _condition(self, links: Sequence[Sequence[_Link]]) -> Traced | None:
        """When the relation holds that the question names: "At what level does it evolve?"."""
        asked, noun = self.asked, frozenset({stem(self.asked.which)})
        ends = {entity.row for mention in self.mentions[1:] for entity in mention.entities}
        needs = _NEEDED.intersection(asked.content)
        found = []
        heads = self.mentions[0].entities
        for step in (step for entity in heads for step in self.graph.hop(entity, _STEPS)):
            own = own_stems(step.relation) - _TURNS
            left = frozenset(asked.content) - own - stems(step.tail.name)
            is_asked = asked.said[0] == "when" or needs or noun <= every_stem(step.condition)
            is_end = not ends or step.tail.row in ends
            is_all = left <= noun | _NEEDED | SOFT and own & asked.every
            if step.condition and is_asked and is_end and is_all:
                found.append(Path(step.head, (step,)))
        answers = tuple(dict.fromkeys(path.steps[0].condition for path in found))
        return Traced(answers, tuple(found)) if 0 < len(answers) <= MOST else None

    def _cell(self, mention: _Mention) -> Traced | None:
        """The only cell of the tables of a unit whose row and column account for the question."""
        said = set(self.asked.said)
        met: dict[tuple[bool, int], list[Path]] = {}
        for entity in (entity for entity in mention.entities if entity.unit):
            for step, others in self.facts.of_tables(entity):
                link = self._link(mention, step, entity)
                if link.said and link.left <= stems(f"{link.end.name} {step.information}"):
                    is_other_row = all(not said.issuperset(words(cell)) for cell in others)
                    met.setdefault((is_other_row, link.rank), []).append(link.path)
        best = met[min(met)] if met else []
        if self.asked.counted and not all(any(map(str.isdigit, p.end.name)) for p in best):
            return None
        return _traced(self.asked, best, 1) if len({path.end.name for path in best}) == 1 else None

    def _in_common(self) -> Traced | None:
        """Everything that relations and facts say alike of all mentioned entities."""
        first, *others = (
            {
                (name_key(one.relation), name_key(one.tail.name)): one
                for entity in mention.entities
                for one in self._steps(entity)
            }
            for mention in self.mentions
        )
        shared = [key for key in first if all(key in other for other in others)]
        if not others or not 0 < len(shared) <= MOST:
            return None
        return Traced(
            tuple(f"{first[key].relation}: {first[key].tail.name}" for key in shared),
            tuple(Path(o[key].head, (o[key],)) for key in shared for o in (first, *others)),
        )

    def _confirmed(self, links: Sequence[Sequence[_Link]]) -> Traced | None:
        """Yes or no: whether a relation joins two mentioned entities, or a fact says it."""
        if len(links) == 1:
            return self._decided(links[0])
        if len(links) != 2:
            return None
        if not _ALIKE.isdisjoint(self.asked.said):
            both = _common(links)
            said = [[one for one in some if one.said and not one.left] for some in links]
            paths = both or [one.path for one in chain(*said)]
            answer = "yes" if both else "no"
            return Traced((answer,), tuple(paths[:MOST])) if all(said) else None
        if self.asked.compares:
            return None
        heads = [one for some in links for one in some if one.said and one.fits and not one.left]
        ends = {entity.row for mention in self.mentions for entity in mention.entities}
        for one in heads:
            if one.end.row in ends:
                return Traced(("yes",), (one.path,))
        for this, other in ((0, 1), (1, 0)):
            mine = next((one for one in links[this] if one in heads), None)
            # The answer is "no" if the relation leads to other entities only.
            if mine and mine.step.relation in {one.step.relation for one in links[other]}:
                return Traced(("no",), (mine.path,))
            stated = [one for one in links[this] if one.step.has_value]
            named = frozenset(map(stem, self.mentions[other].words))
            if named and (decided := self._decided(stated, named)):
                return decided
        return None

    def _decided(
        self, links: Sequence[_Link], named: frozenset[str] = frozenset()
    ) -> Traced | None:
        """Yes or no, as the facts and relations of one entity say.

        Args:
            links: those that the question may ask for.
            named: stems of another name in the question.
        """
        given, numbers = amounts(self.question), amount_stems(self.question)
        for one in (one for one in links if one.left.isdisjoint(_TURNS)):
            said, left, path = one.end.name, one.left | named, (one.path,)
            value = stems(said)
            if said in ("yes", "no"):
                if one.said and not left:
                    return Traced((said,), path)
            elif is_negated(words(said)):
                continue
            elif left <= numbers and len(given) == 1 and (stated := amounts(said)):
                if len(stated) == 1 and stated[0].unit == given[0].unit and one.is_only(links):
                    same = isclose(stated[0].number, given[0].number)
                    return Traced(("yes" if same else "no",), path)
            elif (left or (one.step.has_value and not one.said)) and left <= value:
                return Traced(("yes",), path)
            elif one.said and one.step.has_value and left and not left & value:
                # A list in a text need not be complete.
                single = one.is_only(links) and len(list_items(said)) == 1
                if single and (len(left) == 1 or left == named):
                    return Traced(("no",), path)
                # What metadata of other units have, and those of this unit do not
                others = [stems(other.end.name) for other in links if other.said]
                if not one.step.line and not any(left <= other for other in others):
                    known = self.facts.values(one.step.relation)
                    return Traced(("no",), path) if left in map(stems, known) else None
        return None

    def _compared(self, compared: Comparison) -> Traced | None:
        """Which of the mentioned entities has most, or whether one has more than another."""
        asked, numbers = self.asked, amount_stems(self.question)
        if set(asked.content) - compared.words - compared.labels - IGNORED - numbers:
            return None
        found = [
            one
            for mention in self.mentions
            if (one := _measured(compared, chain(*map(self._steps, mention.entities))))
        ]
        if len(found) < len(self.mentions):
            return None
        if asked.kind == "value":
            return _greatest(compared, found)
        values = [*(amount for amount, _ in found), *amounts(self.question)[:1]]
        if len(values) != 2 or len({o.unit for o in values if o.unit}) > 1 or not compared.of_two:
            return None
        is_so = values[0].number * compared.sign > values[1].number * compared.sign
        paths = tuple(path for _, some in found for path in some)[:MOST]
        return Traced(("yes" if is_so else "no",), paths)


def _asks_for_tail(
    said: Sequence[str], mention: _Mention, at: int, relation: str, *, verb: bool
) -> bool:
    """Whether what a relation of a mentioned entity leads to is asked for, not what leads to it.

    "What does the hall stand in?" and "the height of the hall", but "What stands in the hall?".
    """
    own = words(relation)
    lead = " ".join(said[: max(0, at + 1 - len(own))]) if verb else ""
    if at < 0 or (mention.at < 0 and not verb):
        out = True
    elif _FOR_HEAD.search(lead):
        out = False
    elif at < mention.at:
        joining = AUXILIARIES | {"of", "after"} | (_PREPOSITIONS if lead[-4:] == " the" else set())
        out = not joining.isdisjoint(set(said[at + 1 : mention.at]).difference(own))
    else:
        joined = said[at + 1 : at + 2] if verb and mention.at >= 0 else ()
        out = {"of", "after"}.isdisjoint((*joined, said[-1])) or own[-1] in ("of", "after")
    return not out if verb and own[-1] == "by" and "by" not in said else out


def _covered(step: Step) -> frozenset[str]:
    """The words that a relation answers for: its ends', its own, and those of its label."""
    return step_stems(step) | stems(step.tail.kind) | meant_by_label(stems(step.relation))


def _common(links: Sequence[Sequence[_Link]]) -> list[Path]:
    """The paths between mentions over what relations of all of them lead to, all words used."""
    first, *others = ({one.end.row: one for one in some} for some in links)
    found: list[Path] = []
    for row, link in first.items():
        ends = [some[row] for some in others if row in some]
        every = [link, *ends]
        left = reduce(frozenset.__and__, (one.left for one in every))
        if len(ends) == len(others) and not left and any(one.said for one in every):
            found += (Path(link.start, (link.step, one.step)) for one in ends)
    return found


def _traced(asked: Question, paths: Sequence[Path], at: int) -> Traced | None:
    """The entities that paths reach by so many of their relations, or how many they are."""
    stated = {name_key(name): name for one in paths for name in [one.entities[at].name]}
    names: dict[str, str] = {}
    for key, name in stated.items():
        # "English and French" is a list where "French" is stated as well.
        items = {name_key(item): item for item in list_items(name)}
        names |= items if items.keys() & stated.keys() else {key: name}
    # "How many planets does it have?" may be stated as a number.
    is_number = len(names) == 1 and any(name[:1].isdigit() for name in names.values())
    if names and asked.type == "number" and not is_number:
        return Traced((str(len(names)),), tuple(paths[:MOST]))
    return Traced((*names.values(),), tuple(paths)) if 0 < len(names) <= MOST else None


# ---- comparisons --------------------------------------------------------------------------------

_Measured = tuple[Amount, tuple[Path, ...]]


def _measured(compared: Comparison, steps: Iterable[Step]) -> _Measured | None:
    """The amount that facts state under a compared label, or how many of them there are."""
    met = [one for one in steps if stems(one.relation) and stems(one.relation) <= compared.labels]
    paths = tuple(Path(one.head, (one,)) for one in met)
    for path, value in ((path, path.end.name) for path in paths):
        if compared.oldest and (dates := find_values(value, "date")):
            year = int(re.findall(r"\d+", value[slice(*dates[0])])[-1])
            return Amount(-year, "date"), (path,)
        if stated := amounts(value):
            return stated[0], (path,)
    return (Amount(len(met), "number of them"), paths) if met and not compared.oldest else None


def _greatest(compared: Comparison, found: Sequence[_Measured]) -> Traced | None:
    """The one unit with the greatest amount."""
    units = {amount.unit for amount, _ in found if amount.unit}
    numbers = [amount.number * compared.sign for amount, _ in found]
    if len(found) < 2 or len(units) > 1 or numbers.count(max(numbers)) > 1:
        return None
    _, paths = found[numbers.index(max(numbers))]
    return Traced((paths[0].start.name,), paths)
