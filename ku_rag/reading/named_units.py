"""Answers from relations and facts that account for all words of a question.

"Which neighbours of this country use the euro?" asks for what the relation "borders" leads to and
"currency" leads on to the euro; "Which is heavier, A or B?" for a comparison of facts. A word that
no relation, fact, name or kind accounts for, or a negation, and there is no answer. What no
mentioned entity answers is read as a question about units that are not named (`unit_sets`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import chain
from math import isclose

import numpy as np

from ku_rag.graph.model import NO_ROW, Entity, Graph, Path, Step
from ku_rag.graph.unit_facts import FactReader
from ku_rag.reading.answers import IGNORED, MOST, Traced, fits_type, own_stems
from ku_rag.reading.fact_table import FactTable, UnitFact
from ku_rag.reading.limits import amount_stems
from ku_rag.reading.links import ALIKE, MOST_STEPS, EntityMention, Link, LinkReader, covered
from ku_rag.reading.unit_sets import UNNAMED, Constraint, UnitSetReader
from ku_rag.retrieval.names import NamedSpan, find_names, find_partial_names
from ku_rag.text.question import (
    MOST_CHARACTERS,
    QUESTION_WORDS,
    THINGS,
    TURNS,
    Comparison,
    Question,
    analyse,
    comparison,
    is_negated,
)
from ku_rag.text.stems import every_stem, stem, stems
from ku_rag.text.tokens import is_named, name_key, words
from ku_rag.text.values import Amount, amounts, list_items

_WHICH_IS_IT = re.compile(
    r"\bwhich (?:of (?:ours|yours|these|those|them)|(\w+)) is (?:that|this|it)\b[?. ]*$",
    re.IGNORECASE,
)
"""Asks for the name of a unit, of which the question has an alias."""
_LAST_SENTENCE = re.compile(r"(?<=[.!?:;–-] )[^.!?]+\?\s*$")
"""A question after another sentence."""
_UNSAID = 500
"""Rank of a relation of which the question does not have the words."""
_NEEDED = every_stem("need require happen must")
"""Words that ask for a condition: "What has to happen before it evolves?"."""
_CAUSING = every_stem("make take give")
"""Words beside them: "What do I need to make it evolve?"."""


def trace(
    graph: Graph, start: Entity | None, question: str, *, names: Sequence[NamedSpan] | None = None
) -> Traced | None:
    """Return what a question asks for; `start` is what its picture shows, or the best match."""
    table = FactTable(graph.connection)
    original, question = question, table.with_stocks(question[:MOST_CHARACTERS])
    if names is None or question != original:
        names = _names(graph, question, start)
    last = _LAST_SENTENCE.search(question)
    is_question = last and not QUESTION_WORDS.isdisjoint(words(last[0])[:1])
    if last and is_question and (own := _names(graph, last[0], start)):
        # "I have a dog. Is the oleander poisonous?"
        return trace(graph, start, last[0], names=own)
    if not start and (named := _named_by_alias(graph, question, names)):
        return named
    exact = [span for span in names if not span.is_partial]
    traced = _trace(graph, table, start, question, exact)
    if not (traced and traced.answers) and len(exact) < len(names):
        traced = _trace(graph, table, start, question, names) or traced
    return traced


def _names(graph: Graph, question: str, start: Entity | None) -> list[NamedSpan]:
    """Return the names; beside a picture, "the lamp" is what it shows and no part of a name."""
    named = find_names(graph.connection, question)
    if start is None:
        find_partial_names(graph.connection, question, named)
    return named.spans


def _named_by_alias(graph: Graph, question: str, names: Sequence[NamedSpan]) -> Traced | None:
    """Return the unit that "Tadorna tadorna, which bird is that?" asks for."""
    match = _WHICH_IS_IT.search(question)
    if not match or len(names) != 1 or (match[1] and stem(match[1]) not in THINGS):
        return None
    units = graph.with_keys([names[0].key]).get(names[0].key, [])
    is_alias = len(units) == 1 and not is_named(" ".join(names[0].words), units[0].name)
    return Traced((units[0].name,), (Path(units[0]),)) if is_alias else None


def _trace(
    graph: Graph, table: FactTable, start: Entity | None, text: str, spans: Sequence[NamedSpan]
) -> Traced | None:
    by_key = graph.with_keys([span.key for span in spans])
    mentions = [EntityMention((*by_key[o.key],), o.at, o.words) for o in spans if o.key in by_key]
    mentions.sort(key=lambda mention: mention.at)
    is_shown = start and start.row not in {e.row for m in mentions for e in m.entities}
    if start and is_shown:
        mentions.insert(0, EntityMention((start,), -1))
    names = [" ".join(mention.words) for mention in mentions]
    question = analyse(text, tuple([*names, start.name] if start else names))
    if question.kind not in ("value", "yes-no"):
        return None
    facts = FactReader(graph.connection, graph.among)
    tracer = _Tracer(text, LinkReader(graph, facts, question, mentions), table)
    traced = tracer.of_mentions() if mentions and not question.negated else None
    return traced or (None if is_shown else tracer.sets.read())


@dataclass(frozen=True)
class _Tracer:
    """A question about mentioned entities, and what it is asked of."""

    text: str
    reader: LinkReader
    table: FactTable

    @property
    def question(self) -> Question:
        return self.reader.question

    @property
    def mentions(self) -> Sequence[EntityMention]:
        return self.reader.mentions

    @cached_property
    def links(self) -> list[list[Link]]:
        return [self.reader.of_mention(mention) for mention in self.mentions]

    @cached_property
    def sets(self) -> UnitSetReader:
        """The same question, as one about units that are not named."""
        return UnitSetReader(self.table, self.text, self.reader.graph, self._joined())

    def _joined(self) -> list[tuple[range, list[Constraint]]]:
        """Return the units that relations join to each mentioned entity, by relation."""
        rows = self.table.rows_of({link.end.unit for link in chain(*self.links) if link.end.unit})
        groups = []
        for mention, links in zip(self.mentions, self.links, strict=True):
            by_relation: dict[frozenset[str], Constraint] = {}
            for link in links:
                if link.end.unit is None:
                    continue
                row, relation = rows[link.end.unit], stems(link.step.relation)
                own = link.spoken - stems(link.end.name) | frozenset(map(stem, mention.words))
                constraint = by_relation.setdefault(
                    relation, Constraint(own, link.rank if link.is_asked else UNNAMED, relation)
                )
                constraint.joined.setdefault(row, []).append(UnitFact(row, link.end, link.step))
            places = range(mention.at, mention.at + len(mention.words))
            groups.append((places, [*by_relation.values()]))
        return groups

    def of_mentions(self) -> Traced | None:
        """Return what relations and facts of the mentioned entities answer."""
        question, compared = self.question, comparison(self.question)
        if compared and (len(self.mentions) > 1 or question.kind == "yes-no"):
            return self._compare(compared)
        links = self.links
        if question.kind == "yes-no":
            return self._confirm(links)
        if question.compares and ALIKE.isdisjoint(question.words):
            return None
        if condition := self._condition():
            return condition
        if len(links) > 1:
            return _list_ends(question, _common(links), 1)
        return self._single(links[0]) or self._cell(self.mentions[0])

    # ---- answers --------------------------------------------------------------------------------

    def _single(self, links: Sequence[Link]) -> Traced | None:
        """What the relations of one entity lead to, and what the question says of that."""
        # Of readings, those count that leave least unsaid, then the shorter ones.
        ranked: dict[tuple[int, int, int], list[tuple[int, Path]]] = {}
        for link in (link for link in links if link.is_asked):
            step, start = link.step, link.start
            notes = f"{link.end.name} {step.information} {step.condition}"
            # A word of the question does not answer it.
            end, content = stems(link.end.name), frozenset(self.question.content)
            is_new = not (
                end & content and end <= (content if step.has_value else self.question.every)
            )
            is_answer = link.suits and is_new and link.left <= stems(notes)
            if is_answer:
                score = len(link.unsaid), 0, link.rank
                ranked.setdefault(score, []).append((1, Path(start, (step,))))
            if is_answer and not link.unsaid:
                continue
            for onward in self._onward(link.end):
                rank, covered = self._rate(onward)
                covered |= self.reader.turns_of(onward)
                left = link.left - stems(link.end.name)
                is_spoken = not covered.isdisjoint(self.question.content)
                if onward.tail.row == start.row or not (is_spoken and left <= covered):
                    continue
                if onward.has_value and not fits_type(self.question, onward, onward.tail):
                    continue
                # "Who use the euro" chooses among neighbours, "where they live" goes on from them.
                told = stems(f"{onward.tail.name} {onward.information}")
                chooses = link.left & told - own_stems(onward.relation)
                score = len(link.unsaid - covered), 1 if chooses else 2, link.rank + rank
                path = Path(start, (step, onward))
                ranked.setdefault(score, []).append((1 if chooses else 2, path))
        if not ranked:
            return None
        (_, hops, rank), best = min(ranked.items(), key=lambda item: item[0])
        last = {own_stems(path.steps[-1].relation) for _, path in best}
        if len(last) > 1 and (rank or hops == 2):  # two labels that fit equally well
            return None
        return _list_ends(self.question, [path for _, path in best], best[0][0])

    def _onward(self, end: Entity) -> Iterator[Step]:
        """Yield relations and facts of an entity, or of the units that have a value as a name."""
        key = name_key(end.name)
        same = self.reader.graph.with_keys([key]).get(key, []) if end.row <= NO_ROW else [end]
        for entity in same:
            yield from self.reader.graph.hop(entity, MOST_STEPS)
            yield from self.reader.facts.of_unit(entity) if entity.unit else ()

    def _rate(self, onward: Step) -> tuple[int, frozenset[str]]:
        """How well a relation or a fact answers, and the words that it accounts for."""
        if not onward.has_value:
            is_said = own_stems(onward.relation) <= self.question.every
            return 0 if is_said else _UNSAID, covered(onward)
        answered = self.question.remaining(own_stems(onward.relation), agents=True)
        if answered is None or not fits_type(self.question, onward, onward.tail):
            return 0, frozenset()
        return answered[0], frozenset(self.question.content) - answered[1]

    def _condition(self) -> Traced | None:
        """When the relation holds that the question names: "At what level does it evolve?"."""
        question, noun = self.question, frozenset({stem(self.question.which)})
        ends = {entity.row for mention in self.mentions[1:] for entity in mention.entities}
        causes = "what" in question.words or "which" in question.words
        needs = not (_NEEDED | _CAUSING if causes else _NEEDED).isdisjoint(question.every)
        paths = []
        heads = self.mentions[0].entities
        for step in (
            step for entity in heads for step in self.reader.graph.hop(entity, MOST_STEPS)
        ):
            own = own_stems(step.relation) - TURNS
            left = frozenset(question.content) - own - stems(step.tail.name)
            is_asked = question.words[0] == "when" or needs or noun <= every_stem(step.condition)
            is_end = not ends or step.tail.row in ends
            is_all = left <= noun | _NEEDED | _CAUSING | question.unsaid and own & question.every
            if step.condition and is_asked and is_end and is_all:
                paths.append(Path(step.head, (step,)))
        answers = tuple(dict.fromkeys(path.steps[0].condition for path in paths))
        return Traced(answers, tuple(paths)) if 0 < len(answers) <= MOST else None

    def _cell(self, mention: EntityMention) -> Traced | None:
        """The only cell of the tables of a unit whose row and column account for the question."""
        folded = set(self.question.words)
        met: dict[tuple[bool, int], list[Path]] = {}
        for entity in (entity for entity in mention.entities if entity.unit):
            for step, others in self.reader.facts.of_tables(entity):
                link = self.reader.link(mention, step, entity)
                if (
                    link.is_asked
                    and link.suits
                    and link.left <= stems(f"{link.end.name} {step.information}")
                ):
                    is_other_row = all(not folded.issuperset(words(cell)) for cell in others)
                    met.setdefault((is_other_row, link.rank), []).append(link.path)
        best = met[min(met)] if met else []
        if self.question.counted and not all(any(map(str.isdigit, p.end.name)) for p in best):
            return None
        return _list_ends(self.question, best, 1) if len({p.end.name for p in best}) == 1 else None

    def _confirm(self, links: Sequence[Sequence[Link]]) -> Traced | None:
        """Yes or no: whether a relation joins two mentioned entities, or a fact says it."""
        if len(links) == 1:
            return self._decide(links[0])
        if len(links) != 2:
            return None
        if not ALIKE.isdisjoint(self.question.words):
            both = _common(links)
            full = [[link for link in some if link.is_asked and not link.left] for some in links]
            paths = both or [link.path for link in chain(*full)]
            answer = "yes" if both else "no"
            return Traced((answer,), tuple(paths[:MOST])) if all(full) else None
        if self.question.compares:
            return None
        heads = [link for link in chain(*links) if link.is_asked and link.fits and not link.left]
        ends = {entity.row for mention in self.mentions for entity in mention.entities}
        for link in heads:
            if link.end.row in ends:
                return Traced(("yes",), (link.path,))
        for this, other in ((0, 1), (1, 0)):
            mine = next((link for link in links[this] if link in heads), None)
            # The answer is "no" if the relation leads to other entities only.
            if mine and mine.step.relation in {link.step.relation for link in links[other]}:
                return Traced(("no",), (mine.path,))
            stated = [link for link in links[this] if link.step.has_value]
            named = frozenset(map(stem, self.mentions[other].words))
            if named and (decided := self._decide(stated, named)):
                return decided
        return None

    def _decide(self, links: Sequence[Link], named: frozenset[str] = frozenset()) -> Traced | None:
        """Yes or no, as the facts and relations of one entity say; `named` is another name."""
        wanted, numbers = amounts(self.text), amount_stems(self.text)
        for link in (link for link in links if link.left.isdisjoint(TURNS)):
            name, left, path = link.end.name, link.left | named, (link.path,)
            value = stems(name)
            if name in ("yes", "no"):
                if link.is_asked and not left:
                    return Traced((name,), path)
            elif is_negated(words(name)) or {"until"} & {*words(name)} - {*self.question.words}:
                continue
            elif left <= numbers and len(wanted) == 1 and (stated := amounts(name)):
                if len(stated) == 1 and stated[0].unit == wanted[0].unit and link.is_only(links):
                    same = isclose(stated[0].number, wanted[0].number)
                    return Traced(("yes" if same else "no",), path)
            elif left <= value and (left or (link.spoken and not link.is_asked)):
                return Traced(("yes",), path)
            elif link.is_asked and link.step.has_value and left and not left & value:
                # A list in a text need not be complete.
                if link.is_only(links) and len(list_items(name)) == 1:
                    return Traced(("no",), path)
                # What metadata of other units have, and those of this unit do not
                others = [stems(other.end.name) for other in links if other.is_asked]
                if not link.step.line and not any(left <= other for other in others):
                    values = self.reader.facts.values(link.step.relation)
                    return Traced(("no",), path) if left in map(stems, values) else None
        return None

    def _compare(self, compared: Comparison) -> Traced | None:
        """Which of the mentioned entities has most, or whether one has more than another."""
        question = self.question
        accounted = compared.words | compared.labels | IGNORED | question.unsaid | THINGS
        if not accounted | amount_stems(self.text) >= set(question.content):
            return None
        every = [
            [
                Path(step.head, (step,))
                for step in chain(*map(self.reader.steps, mention.entities))
                if own_stems(step.relation) & compared.labels
            ]
            for mention in self.mentions
        ]
        if len(every) == 1:
            return _compare_with(amounts(self.text), every[0], compared)
        ids = [entity.unit or "" for mention in self.mentions for entity in mention.entities]
        rows = np.array([*self.sets.table.rows_of(ids).values()], np.int64)
        traced = self.sets.greatest(compared, frozenset(), rows, least=len(ids))
        has_amounts = any(amounts(path.end.name) for path in chain(*every))
        if traced is None and all(every) and not (compared.oldest or has_amounts):
            # "more weaknesses"
            most = max(len(paths) * compared.sign for paths in every)
            best = [paths for paths in every if len(paths) * compared.sign == most]
            traced = Traced(tuple(paths[0].start.name for paths in best), tuple(chain(*best)))
        if traced is None:
            return None
        if question.kind == "value" or "or" in question.words:
            return traced if len(traced.answers) == 1 else None
        is_so = traced.answers == (self.mentions[0].entities[0].name,)
        is_of_two = len(ids) == 2 and compared.of_two
        return Traced(("yes" if is_so else "no",), traced.paths) if is_of_two else None


def _compare_with(
    limits: Sequence[Amount], paths: Sequence[Path], compared: Comparison
) -> Traced | None:
    """Whether the only amount that paths lead to is beyond a limit: "heavier than 3 kg"."""
    stated = [(amount, path) for path in paths for amount in amounts(path.end.name)]
    units = {amount.unit for amount in (*limits, *(amount for amount, _ in stated)) if amount.unit}
    if len(limits) != 1 or len(stated) != 1 or len(units) > 1:
        return None
    is_so = (stated[0][0].number - limits[0].number) * compared.sign > 0
    return Traced(("yes" if is_so else "no",), (stated[0][1],))


def _common(links: Sequence[Sequence[Link]]) -> list[Path]:
    """The paths between mentions over what relations of all of them lead to, all words used."""
    first, *others = ({link.end.row: link for link in some} for some in links)
    paths: list[Path] = []
    for row, link in first.items():
        ends = [some[row] for some in others if row in some]
        every = [link, *ends]
        left = reduce(frozenset.__and__, (each.left for each in every))
        if len(ends) == len(others) and not left and any(each.is_asked for each in every):
            paths += (Path(link.start, (link.step, end.step)) for end in ends)
    return paths


def _list_ends(question: Question, paths: Sequence[Path], at: int) -> Traced | None:
    """The entities that paths reach by so many of their relations, or how many they are."""
    stated = {name_key(name): name for path in paths for name in [path.entities[at].name]}
    names: dict[str, str] = {}
    for key, name in stated.items():
        # "English and French" is a list where "French" is stated as well.
        items = {name_key(item): item for item in list_items(name)}
        names |= items if items.keys() & stated.keys() else {key: name}
    # "How many planets does it have?" may be stated as a number.
    is_number = len(names) == 1 and any(name[:1].isdigit() for name in names.values())
    if names and question.counted and not is_number:
        return Traced((str(len(names)),), tuple(paths[:MOST]))
    return Traced((*names.values(),), tuple(paths)) if 0 < len(names) <= MOST else None
