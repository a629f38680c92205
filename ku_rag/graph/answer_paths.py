"""Answers from relations and facts that account for all words of a question.

"Which neighbours of this country use the euro?" asks for what the relation "borders" leads to and
"currency" leads on to the euro; "Which countries use the euro?" asks against the direction of the
relation, "Which plants are poisonous?" for the units of a kind with a fact, "Which is heavier, A or
B?" for a comparison of facts. A word that no relation, fact, name or kind accounts for, or a
negation, and there is no answer.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain, pairwise
from math import isclose

from ku_rag.graph.model import Direction, Entity, Graph, Path, Step
from ku_rag.graph.traversal import step_stems
from ku_rag.graph.unit_facts import FactReader
from ku_rag.retrieval.names import NamedSpan, find_names
from ku_rag.text.question import (
    ASKING,
    AUXILIARIES,
    GENERIC,
    PLACE_NOUNS,
    Comparison,
    Question,
    analyse,
    comparison,
    is_negated,
    meant_by_label,
)
from ku_rag.text.stems import every_stem, label_stems, root, stem, stems
from ku_rag.text.tokens import name_key, words
from ku_rag.text.values import Amount, amounts, find_values, list_items

_MOST = 24
"""More entities than this are not listed as an answer."""
_STEPS = 2000
_CLASSES = every_stem("type kind class category species is a")
"""Relations to what a thing is: "Which leviathans ..." needs no word for them."""
_IGNORED = every_stem("share common both together number count belong list fewer fewest")
_ALIKE = frozenset(words("same share common both"))
_PREPOSITIONS = frozenset(words("by of for with to in at on from"))
_DETERMINERS = frozenset(words("the a an its his her their s what which"))  # "s": "Ann's driver"
_FOR_HEAD = re.compile(r"(whose|^wh\w+ \w+ s|^of wh.* the|(?<!have| has| had) as( \w+)?)$")
_TURNS = frozenset(words("after before"))


@dataclass(frozen=True, slots=True)
class Traced:
    """The answer to a question from relations and facts.

    Args:
        answers: names, each once, in the order in which they were stated; or a count, "yes" or
            "no".
        paths: the paths that lead to them, and on to what they were chosen by.
        note: what was not read, in a sentence, or "".
    """

    answers: tuple[str, ...]
    paths: tuple[Path, ...]
    note: str = ""


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
    found = found or (None if is_shown else _of_kind(facts, question, among))
    return found and replace(found, note=facts.note)


@dataclass(frozen=True, slots=True)
class _Tracer:
    """A question about mentioned entities, and what it is asked of."""

    graph: Graph
    facts: FactReader
    question: str
    asked: Question
    mentions: Sequence[_Mention]

    def of_mentions(self) -> Traced | None:
        """Return what relations and facts of the mentioned entities answer."""
        asked, compared = self.asked, comparison(self.asked)
        if compared and (len(self.mentions) > 1 or asked.kind == "yes-no"):
            return self._compared(compared)
        if not _ALIKE.isdisjoint(asked.said) and not set(asked.content) - _IGNORED:
            return self._in_common()
        links = [self._links(one) for one in self.mentions]
        if asked.kind == "yes-no":
            return self._confirmed(links)
        if asked.compares and _ALIKE.isdisjoint(asked.said):
            return None
        return self._single(links[0]) if len(links) == 1 else _traced(asked, _common(links), 1)

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
            or [one for one in found if stems(one.step.relation) <= _CLASSES]
        )

    def _link(self, mention: _Mention, step: Step, entity: Entity) -> _Link:
        asked, end = self.asked, step.other(entity)
        relation, content = label_stems(step.relation), frozenset(asked.content)
        answered = asked.remaining(relation, agents=not step.has_value or asked.type == "person")
        said = answered is not None or (relation <= asked.every and not step.has_value)
        left = answered[1] if answered else content if said else content - _covered(step)
        left -= stems(end.kind) | _IGNORED
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
        if (exact and (len(after) > 1 or (is_noun and not fits))) or not _fits(asked, step, end):
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
            for onward in self.graph.hop(link.end, _STEPS) if link.said else ():
                covered = _covered(onward) | self._turns_of(onward)
                if onward.tail.row == start.row or not link.left <= covered:
                    continue
                # "Who use the euro" chooses among neighbours, "where they live" goes on from them.
                path = Path(start, (step, onward))
                if link.left & (stems(onward.tail.name) | stems(onward.information)):
                    chosen.append((link.rank, path))
                else:
                    further.append(path)
        least = min((rank for rank, _ in chosen), default=0)
        best = [path for rank, path in chosen if rank == least]
        return _traced(self.asked, best, 1) or _traced(self.asked, further, 2)

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
        if not others or not 0 < len(shared) <= _MOST:
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
            return Traced((answer,), tuple(paths[:_MOST])) if all(said) else None
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
        given, numbers = amounts(self.question), _amount_words(self.question)
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
        asked, numbers = self.asked, _amount_words(self.question)
        if set(asked.content) - compared.words - compared.labels - _IGNORED - numbers:
            return None
        found = [
            one
            for mention in self.mentions
            if (one := _measured(compared, chain(*map(self._steps, mention.entities))))
        ]
        if len(found) < len(self.mentions):
            return None
        if asked.kind == "value":
            best = _extreme(replace(compared, of_two=False), found, None, asked)
            return best if best and len(best.answers) == 1 else None
        values = [*(amount for amount, _ in found), *amounts(self.question)[:1]]
        if len(values) != 2 or len({o.unit for o in values if o.unit}) > 1 or not compared.of_two:
            return None
        is_so = values[0].number * compared.sign > values[1].number * compared.sign
        paths = tuple(path for _, some in found for path in some)[:_MOST]
        return Traced(("yes" if is_so else "no",), paths)


def _fits(asked: Question, step: Step, end: Entity) -> bool:
    """Whether an end can be of the type that is asked for."""
    places = PLACE_NOUNS.intersection(words(f"{step.relation} {end.kind}"))
    if (
        asked.type == "place"
        and places
        and PLACE_NOUNS & {*asked.said}
        and places.isdisjoint(asked.said)
    ):
        # "Which country is it in?" does not ask for a city.
        return False
    if asked.kind == "yes-no" or not step.has_value or asked.type in ("", "name"):
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
        return Traced((str(len(names)),), tuple(paths[:_MOST]))
    return Traced((*names.values(),), tuple(paths)) if 0 < len(names) <= _MOST else None


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


def _amount_words(question: str) -> set[str]:
    """The stems of the words of a question that are an amount: "12 mm"."""
    found = re.findall(r"\d[\d.,]*(?: ?[^\W\d_]+)?", question)
    return {stem(word) for one in found for word in words(one)}


def _extreme(
    compared: Comparison, found: Sequence[_Measured], limit: Amount | None, asked: Question
) -> Traced | None:
    """The units with the greatest amount, or those on one side of a limit."""
    units = {one.unit for one in (*(amount for amount, _ in found), limit) if one and one.unit}
    if len(found) + bool(limit) < 2 or len(units) > 1 or (compared.of_two and not limit):
        return None
    numbers = [one.number * compared.sign for one, _ in found]
    least = limit.number * compared.sign if limit else max(numbers)
    return _listed(
        asked,
        [
            path
            for number, (_, paths) in zip(numbers, found, strict=True)
            if (number > least if limit else number == least)
            for path in paths
        ],
    )


# ---- units of a kind ----------------------------------------------------------------------------


def _of_kind(facts: FactReader, question: str, among: Collection[int] | None) -> Traced | None:
    """The units of a kind that have the facts of a question, how many, or that with most."""
    asked, kinds = analyse(question), facts.kinds()
    chosen = names = tuple(
        kind for kind in kinds if stems(kind) and stems(kind) <= {*asked.content}
    )
    if not chosen and (
        not _PREPOSITIONS.isdisjoint(asked.said[-1:]) or stems(GENERIC) & {*map(stem, asked.said)}
    ):
        # "What is Paris the capital of?", "Which things are red?"
        chosen, names = tuple(kinds), tuple(words(GENERIC))
    asked = analyse(question, names)
    compared, content = comparison(asked), set(asked.content) - _IGNORED
    if asked.kind != "value" or not chosen or asked.negated or (asked.compares and not compared):
        return None
    if not content:
        total = among is None and chosen is names and facts.count(chosen)
        return Traced((str(total),), ()) if total and _counts(asked) else None
    limit = next(iter(amounts(question)), None) if compared and compared.of_two else None
    if compared:
        content -= compared.words | compared.labels | (_amount_words(question) if limit else set())
    needed = [word for word in asked.said if stem(word) in content and stem(word) not in ASKING]
    labels = compared.labels if compared else frozenset()
    # The label "supplier" answers "Which things does Ann supply?", not "Which things supply Ann?"
    agents = not {"do", "does", "did", "by"}.isdisjoint(asked.said)
    fitting: list[tuple[Sequence[Step], Sequence[Step]]] = []
    for steps in facts.of_kinds(chosen, needed, labels, among):
        covered = {step: _fact_covers(step, content, agents=agents) for step in steps}
        covers = {step: some for step, some in covered.items() if some}
        if content <= frozenset().union(*covers.values()):
            fitting.append((steps, [*covers]))
    if compared:
        found = [one for steps, _ in fitting if (one := _measured(compared, steps))]
        return _extreme(compared, found, limit, asked)
    return _listed(asked, [Path(step.head, (step,)) for _, used in fitting for step in used])


def _counts(asked: Question) -> bool:
    """Whether a question asks how many there are."""
    return asked.type == "number" or ("how", "many") in pairwise(asked.said)


def _fact_covers(step: Step, content: Collection[str], *, agents: bool) -> frozenset[str]:
    """The words of a question that a fact accounts for, if it states what they say."""
    label, value = stems(step.relation), step.tail.name
    if value in ("yes", "no"):
        return label if value == "yes" and label <= set(content) else frozenset()
    items = [stems(one) for one in list_items(value)]
    met = [one for one in items if one and one <= set(content)]
    if not met or is_negated(words(value)):
        return frozenset()
    same = {one for one in content if agents and root(one) in map(root, label)}
    return label.union(*met, meant_by_label(label), same)


def _listed(asked: Question, paths: Sequence[Path]) -> Traced | None:
    """The units that paths start from, or how many they are."""
    names = {path.start.row: path.start.name for path in paths}
    if names and _counts(asked):
        return Traced((str(len(names)),), tuple(paths[:_MOST]))
    listed = tuple(dict.fromkeys(names.values()))
    return Traced(listed, tuple(paths)) if 0 < len(names) <= _MOST else None
