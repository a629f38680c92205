"""Questions about units that are not named: which have a value, how many, the one with most.

"Which lamps are waterproof?", "How many tents weigh less than 2 kg?", "What is the cheapest
kettle?", "What is the price of the tent that sleeps four?". Each part of a question is a
constraint: the units with a value, with a flag, with a number, on one side of a limit, or joined to
a named entity by a relation. The units that meet all of them answer, or a fact of the only one that
the rest of the question names. A content word that neither accounts for, and there is no answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from itertools import chain, product
from math import prod

import numpy as np

from ku_rag.graph.model import Graph, Path, Step
from ku_rag.graph.unit_facts import FactReader
from ku_rag.reading.answers import CLASSES, MOST, Traced, fits_type, own_stems
from ku_rag.reading.fact_table import FactTable, FactTest, Label, UnitFact
from ku_rag.reading.limits import NUMBERS, Limit, amount_stems, read_limits
from ku_rag.reading.unread import unread_units
from ku_rag.store.connection import Rows
from ku_rag.store.facts import value_key
from ku_rag.store.relations import ANY_KIND
from ku_rag.text.question import (
    FILLERS,
    GENERIC,
    HYPONYMS,
    LISTING,
    MEANS,
    MOST_CHARACTERS,
    SUMS,
    THINGS,
    TURNS,
    Comparison,
    Question,
    analyse,
    comparison,
    meant_by_label,
)
from ku_rag.text.stems import root, roots, singulars, stem, stems
from ku_rag.text.tokens import Token, stop_words, tokenize, words
from ku_rag.text.values import DIMENSIONS, MONEY, amounts, quantity

_LONGEST_VALUE = 6
"""Words of the longest value that is looked up."""
_MOST_ALTERNATIVES = 64
_CODE = re.compile(r"\d{6}|\d[./-]\d")
"""A number that is a value by itself: "4010180071", "1899.3"."""
_WHO = re.compile(
    r"\s*(?:[Ww]ho(?: is| was|['’]s)(?: [A-Z][\w'’.-]*){2,}|"
    r"[Ww]hat(?: is| was|['’]s)(?: the)?(?: [A-Z][\w'’.-]*)+|[Ww]hy\b.*)\s*[?.]?\s*"
)
"""Asks for no units, but why or what a value is: "Who is Ann Miller?", "What is the Attic?"."""
_FALSE = ("no", "false", "broken", "defective", "faulty")
"""Values of a flag that does not hold, or of a thing that does not work."""
_COUNTING = frozenset(map(stem, ("how", "many", "number")))
_PRICES = stems("price cost fee rent rate value budget salary")


_NUMBER = re.compile(r"\d(?:[\d., \xa0]*\d)?")

UNNAMED = 1 << 20
"""Rank of a label that a question does not name."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """The units that meet a part of a question.

    Args:
        rank: How well the question names the label, 0 is best; UNNAMED if it does not.
        label: Stems of the label.
        joined: Relations that join them to a named entity, by row of the unit.
        unless: What no fact of the units may meet.
    """

    covered: frozenset[str]
    rank: int
    label: frozenset[str]
    test: FactTest | None = None
    joined: dict[int, list[UnitFact]] = field(default_factory=dict)
    unless: FactTest | None = None

    def units(self, table: FactTable) -> Rows:
        """Return the rows of the units."""
        joined = np.array(sorted(self.joined), np.int64)
        units = joined if self.test is None else table.units(self.test)
        return units if self.unless is None else np.setdiff1d(units, table.units(self.unless))

    def facts(self, table: FactTable, units: Rows) -> list[UnitFact]:
        """Return what says that some of the units meet it."""
        if self.test is None:
            return [fact for row in units.tolist() for fact in self.joined.get(row, ())]
        return table.facts(self.test, units)


@dataclass(frozen=True)
class UnitSetReader:
    """Reads one question."""

    table: FactTable
    text: str
    graph: Graph
    named: Sequence[tuple[range, Sequence[Constraint]]] = ()
    _unread: dict[FactTest, Rows | None] = field(default_factory=dict)

    @cached_property
    def _tokens(self) -> list[Token]:
        return tokenize(self.text[:MOST_CHARACTERS])

    @cached_property
    def _question(self) -> Question:
        return analyse(self.text)

    @cached_property
    def _kinds(self) -> dict[str, frozenset[str]]:
        """Kinds that the question names, and their stems."""
        kinds = FactReader(self.table.connection).kinds()
        own = {kind: stems(kind) for kind in kinds if kind != ANY_KIND and stems(kind)}
        named = {kind: noun for kind, noun in own.items() if noun <= self._question.every}
        if not named and not self._thing:
            # "Yachts" are sailing yachts as well, and "mains" are main courses.
            plural = {
                form: word for word in self._question.words for form in [*singulars(word)][1:]
            }
            heads = {kind: frozenset({stem(words(kind)[-1])}) for kind in own}
            named = {kind: head for kind, head in heads.items() if head <= self._question.every}
            spoken = {
                kind: frozenset(stem(plural[word]) for word in words(kind) if word in plural)
                for kind in own
            }
            named = named or {kind: nouns for kind, nouns in spoken.items() if nouns}
            named = named or {
                kind: nouns & self._question.every
                for nouns, members in HYPONYMS
                if nouns & self._question.every and not self._question.counted
                for kind, head in heads.items()
                if head <= members
            }
        stemmed = [stem(word) for word in self._question.words]
        first = {kind: min(map(stemmed.index, own)) for kind, own in named.items()}
        # "Which birds live on heath" asks for birds.
        return {kind: own for kind, own in named.items() if first[kind] == min(first.values())}

    @cached_property
    def _collections(self) -> dict[str, Rows]:
        """The units of the files of records and folders that the question names, by stem."""
        named = self.table.collection_nouns & self._question.every
        units = {noun: self.table.collection(noun) for noun in named}
        return {noun: rows for noun, rows in units.items() if rows is not None}

    @cached_property
    def _thing(self) -> str:
        """The noun of units of many kinds, "boats", if the base has the word; or ""."""
        nouns = (THINGS | self._collections.keys()) - self._question.unsaid
        first = next((word for word in self._question.words if stem(word) in nouns), "")
        is_used = stem(first) in GENERIC | self._collections.keys()
        is_used = is_used or bool(first and self.table.has_word(first))
        return first if is_used or self._has_kinds_of(stem(first)) else ""

    def _has_kinds_of(self, noun: str) -> bool:
        """Whether units are stated to be of a kind of what a noun means: a harp, an instrument."""
        kinds = (kind for nouns, kinds in HYPONYMS if noun in nouns for kind in kinds)
        labels = self.table.labels_of_values({*kinds})
        return any(own_stems(label.label) <= CLASSES for _, label in labels)

    @cached_property
    def _labels(self) -> dict[frozenset[str], list[Label]]:
        """Labels of facts by the stems of their words."""
        labels: dict[frozenset[str], list[Label]] = {}
        for label in self.table.labels:
            if own := own_stems(label.label):
                labels.setdefault(own, []).append(label)
        return labels

    @cached_property
    def _named_labels(self) -> dict[frozenset[str], tuple[int, frozenset[str]]]:
        """The labels that the question names: how well, and the stems that are accounted for."""
        words = frozenset().union(self._question.content, *(w.labels for w in self._question.ways))
        near = (own for own in self._labels if not roots(own).isdisjoint(roots(words)))
        covered = {own: self._covers(own) for own in near}
        return {own: cover for own, cover in covered.items() if cover[0] < UNNAMED}

    @cached_property
    def _noun(self) -> frozenset[str]:
        """Stems of what the units are called: a kind, a generic noun, or what follows "which"."""
        if self._kinds:
            return frozenset().union(*self._kinds.values())
        if self._thing:
            nouns = self._question.every & (THINGS | self._collections.keys())
            covered = (own for _, own in self._named_labels.values())  # "Which lamps work?"
            return nouns.difference(*covered) | {stem(self._thing)}
        noun = frozenset({self._question.counted or stem(self._question.which)})
        # "In which room is the desk?" asks for a label, "Which paintings are large?" for a value.
        is_stated = noun in self._labels or self._is_class(noun)
        return frozenset() if is_stated else noun.intersection(self._question.content)

    def _is_class(self, noun: frozenset[str]) -> bool:
        """Whether a word of a stem begins what units are stated to be: "drum machines"."""
        words = self._question.words
        spans = (
            " ".join(words[at:end])
            for at in range(len(words))
            if stem(words[at]) in noun
            for end in range(at + 1, at + _LONGEST_VALUE)
        )
        keys = {value_key(form) for span in spans for form in singulars(span)}
        labels = self.table.labels_of_values(keys)
        return any(own_stems(label.label) <= CLASSES for _, label in labels)

    @cached_property
    def _asks_fact(self) -> bool:
        """Whether it asks for a fact of a unit: "when", or "in which room"."""
        which = frozenset({stem(self._question.which)})
        # "Which prints are on view?" asks for no fact, though one is "printed by" someone.
        is_label = which in self._labels and not which <= self._noun
        return is_label or self._question.words[0] in ("when", "how", "where")

    @cached_property
    def _negated(self) -> frozenset[str]:
        """Stems of content words after "not", unless it negates a name, limit or comparison."""
        parts = re.split(r"\bnot\b|n['’]t\b", self.text)
        is_open = len(parts) != 2 or self.named or self._comparison or read_limits(parts[1])
        is_unclear = not {*_FALSE, "and", "or"}.isdisjoint(words(parts[-1]))  # "not broken"
        return frozenset() if is_open or is_unclear else self._content & stems(parts[1])

    @cached_property
    def _is_listing(self) -> bool:
        """Whether it asks for all units of a kind: "List all lamps", "Which lamps do you have?"."""
        every, noun = self._question.words, self._noun
        plurals = (word for word in every if stem(word) in noun and word.endswith("s"))
        is_several = not {"every", "each", *plurals}.isdisjoint(every)
        return is_several and len(every) > 2 and self._question.every - noun <= LISTING

    @cached_property
    def _when(self) -> Question:
        """The question as one for a date: "made before 1900" is of the label "year"."""
        return analyse(f"when {self.text}")

    @cached_property
    def _comparison(self) -> Comparison | None:
        return comparison(replace(self._question, unnamed=self._question.words))

    @cached_property
    def _limits(self) -> list[Limit]:
        return read_limits(self.text)

    @cached_property
    def _aggregate(self) -> frozenset[str]:
        """The word that asks for the mean or the sum: "the average price"; or none."""
        words = (MEANS | SUMS) & frozenset(self._question.content)
        is_label = not words.isdisjoint(chain(*self._labels))
        return frozenset() if self._question.counted or is_label else words

    @cached_property
    def _content(self) -> frozenset[str]:
        """Stems of the words that have to be accounted for."""
        content = frozenset(self._question.content) - self._question.unsaid - self._noun
        content -= self._aggregate
        return content - (self._comparison.words if self._comparison else frozenset())

    # ---- answers --------------------------------------------------------------------------------

    def read(self) -> Traced | None:
        """Return the answer; None if facts do not state it."""
        question = self._question
        if (
            (question.negated and not self._negated)
            or question.kind not in ("value", "yes-no")
            or _WHO.fullmatch(self.text)
        ):
            return None
        is_there = question.kind == "yes-no" and question.words[1:2] == ("there",)
        # "Are there fruits among the vegetables?"
        others = self._collections.keys() - {stem(self._thing)}
        if others or not self._negated.isdisjoint(self._collections):
            return None
        turns = question.turns if not self._limits else ()
        if turns or (question.kind == "yes-no" and not is_there):
            return None
        groups = [*self._constraints()]
        compared = self._comparison
        if question.compares and not compared and not self._limits:
            return None
        if compared and compared.of_two and not self._limits:
            return None
        is_open = compared and (self._noun or question.has_question_word)
        # "How many fruits are there?", but not "How many fruits did you sell?".
        is_listed = bool(self._aggregate) or question.every - self._noun <= LISTING | _COUNTING
        is_whole = stem(self._thing) in self._collections and is_listed
        if not (groups or self._kinds or is_open or is_whole):
            return None
        if prod(map(len, groups)) > _MOST_ALTERNATIVES:
            return None
        answers: dict[tuple[int, int], list[Traced]] = {}
        for chosen in product(*groups):
            units = self._common(chosen)
            left = self._content.difference(*(constraint.covered for constraint in chosen))
            answer = self._answer(left, units, chosen, is_there=is_there)
            if answer:
                rank = sum(constraint.rank for constraint in chosen)
                answers.setdefault((len(left), rank), []).append(answer)
        best = answers[min(answers)] if answers else []
        # Two labels that fit equally well, and lead to other units: no answer.
        return best[0] if len({(traced.answers, traced.unlisted) for traced in best}) == 1 else None

    def _answer(
        self,
        left: frozenset[str],
        units: Rows | None,
        chosen: Sequence[Constraint],
        *,
        is_there: bool,
    ) -> Traced | None:
        """The answer from the units that meet the chosen constraints; None for all units."""
        if units is not None and not len(units):
            return None
        if self._comparison and not self._comparison.of_two:
            return self.greatest(self._comparison, left, units, chosen)
        question, counts = self._question, bool(self._question.counted)
        asks_value = self._asks_fact or (
            question.type not in ("", "name", "person", "place") and not question.which
        )
        if units is not None and not is_there and self._is_open(chosen, units):
            return None
        if self._aggregate:
            return self._aggregated(left, units, chosen)
        if left or (asks_value and not counts):
            is_one = units is not None and len(units) == 1 and not is_there
            return self._further(left, units, chosen) if units is not None and is_one else None
        if units is None:
            units = self._every()
            if not len(units) or not (counts or self._is_listing):
                return None
        if is_there or counts:
            steps = self._evidence(units[:MOST], chosen)
            paths = tuple(Path(fact.step.head, (fact.step,)) for fact in steps)
            return Traced(("yes" if is_there else str(len(units)),), paths[:MOST])
        return self._list(units, chosen)

    def _is_open(self, chosen: Sequence[Constraint], units: Rows) -> bool:
        """Whether sentences may say that further units meet all constraints."""
        if not any(c.test and self.table.sentence_labels(c.test) for c in chosen):
            return False
        possible: Rows | None = None
        for constraint in chosen:
            test, meet = constraint.test, constraint.units(self.table)
            if test and test not in self._unread:
                self._unread[test] = unread_units(self.table, test, self._names(constraint.label))
            unread = self._unread[test] if test else meet
            if unread is None:
                return True
            meet = np.union1d(meet, unread)
            possible = meet if possible is None else np.intersect1d(possible, meet)
        return possible is not None and not np.isin(self._members(possible), units).all()

    def _names(self, label: frozenset[str]) -> frozenset[str]:
        """Stems of the words that name a label in a text."""
        return (label - FILLERS or label) | (meant_by_label(label) - self._question.unsaid)

    def _list(self, units: Rows, chosen: Sequence[Constraint]) -> Traced | None:
        """Return the names of the units, or their number if there are too many."""
        if len(units) > MOST:
            return Traced((), (), len(units))
        facts = self._evidence(units, chosen)
        paths = tuple(Path(step.head, (step,)) for step in dict.fromkeys(o.step for o in facts))
        entities = self.graph.of_units(units.tolist())
        names = tuple(dict.fromkeys(entity.name for entity in entities))
        return Traced(names, paths or tuple(map(Path, entities)))

    def _evidence(self, units: Rows, chosen: Sequence[Constraint]) -> list[UnitFact]:
        """What says that units meet the constraints, unit by unit."""
        facts = [fact for constraint in chosen for fact in constraint.facts(self.table, units)]
        return sorted(facts, key=lambda fact: fact.row)

    def _aggregated(
        self, left: frozenset[str], units: Rows | None, chosen: Sequence[Constraint]
    ) -> Traced | None:
        """Return the mean or the sum of an amount that the rest of the question names."""
        if units is None:
            units = self._every()
        fitting = [own for own, (_, covered) in self._named_labels.items() if left <= covered]
        if not fitting:
            return None
        own = min(fitting, key=lambda own: self._named_labels[own])
        has_amount = Constraint(left, 0, own, FactTest.has_amount(self._labels[own]))
        owners = np.intersect1d(units, has_amount.units(self.table))
        first: dict[int, Step] = {}
        for fact in has_amount.facts(self.table, owners):
            first.setdefault(fact.row, fact.step)
        values = [step.tail.name for step in first.values()]
        stated = [amounts(value)[0] for value in values if len(amounts(value)) == 1]
        is_alike = len({amount.unit for amount in stated}) == 1 and len(stated) == len(first)
        if not is_alike or len(first) < 2 or self._is_open([*chosen, has_amount], owners):
            return None
        numbers = [amount.number for amount in stated]
        result = sum(numbers) / (len(numbers) if self._aggregate & MEANS else 1)
        # In the unit of the greatest value: of 900 g and 2 kg, in kilograms.
        greatest = max(numbers)
        value = values[numbers.index(greatest)]
        result *= (quantity(value).number or 0) / (greatest or 1)
        written = _NUMBER.sub(f"{result:.2f}".rstrip("0").rstrip("."), value, count=1)
        paths = tuple(Path(step.head, (step,)) for step in first.values())
        return Traced((written,), paths[:MOST])

    def _further(
        self, left: frozenset[str], unit: Rows, chosen: Sequence[Constraint]
    ) -> Traced | None:
        """The fact of the only unit that the rest of the question names."""
        used = self._evidence(unit, chosen)[0]
        left -= stems(used.unit.name) | stems(used.unit.kind)
        ranked: dict[int, list[Step]] = {}
        for step in FactReader(self.table.connection).of_unit(used.unit):
            answered = self._question.remaining(own_stems(step.relation), agents=True)
            if answered and not answered[1] & left and fits_type(self._question, step, step.tail):
                ranked.setdefault(answered[0], []).append(step)
        best = ranked[min(ranked)] if ranked else []
        if len({stems(step.relation) for step in best}) != 1:
            return None
        values = tuple(dict.fromkeys(step.tail.name for step in best))
        return Traced(values, tuple(Path(used.unit, (used.step, step)) for step in best))

    def greatest(
        self,
        compared: Comparison,
        left: frozenset[str],
        units: Rows | None,
        others: Sequence[Constraint] = (),
        least: int = 2,
    ) -> Traced | None:
        """Return those with the greatest amount of units that meet other constraints.

        At least `least` units must have an amount.
        """
        for group, extra in product(compared.groups, (frozenset[str](), FILLERS)):
            owns = [own for own in self._labels if own & group and own <= group | left | extra]
            labels = [label for own in owns for label in self._labels[own]]
            ways = (way for way in self._question.ways if not group.isdisjoint(way.labels))
            spoken = (self._question.spoken(way) for way in ways)
            rest = left.difference(group, *owns, *spoken)
            if not labels or (rest and extra):
                continue
            among = units
            if among is None:
                among = self._members(self.table.units(FactTest.has_amount(labels)))
            as_age = compared.oldest and group != stems("age")
            test = self.table.of_greatest(labels, compared.sign, among, as_age=as_age, least=least)
            if test:
                has_value = Constraint(group, 0, group, FactTest.has_amount(labels))
                compared_units = np.intersect1d(among, has_value.units(self.table))
                is_set = others or units is None
                if is_set and self._is_open([*others, has_value], compared_units):
                    continue
                best = np.intersect1d(self.table.units(test), among)
                chosen = [Constraint(group, 0, group, test)]
                if not rest:
                    return self._list(best, chosen)
                is_who = self._question.words[0] == "who"
                asks_fact = self._asks_fact or self._question.complement or is_who
                if asks_fact and len(best) == 1 and (answer := self._further(rest, best, chosen)):
                    return answer
        return None

    # ---- constraints ----------------------------------------------------------------------------

    def _common(self, chosen: Sequence[Constraint]) -> Rows | None:
        """The units that meet all constraints and are called as the question says; None for all."""
        if not chosen:
            return None
        every = reduce(np.intersect1d, (constraint.units(self.table) for constraint in chosen))
        members = self._members(every)
        # How many are of a kind that none declares is not known.
        undeclared = not (self._kinds or self._thing or self._question.counted)
        undeclared &= all(c.test is None or not self.table.sentence_labels(c.test) for c in chosen)
        if undeclared and not len(members) and all(c.rank < UNNAMED for c in chosen):
            # "Which monsters drop a toenail?", where no unit declares a kind.
            every = self._among(every)
            return every if self.table.are_plain(every) else members
        return members

    def _among(self, units: Rows) -> Rows:
        among = self.graph.among
        return units if among is None else np.intersect1d(units, np.array([*among], np.int64))

    def _every(self) -> Rows:
        """All units of the kinds, or of the collection, that the question names."""
        collection = self._collections.get(stem(self._thing))
        if collection is None:
            collection = self.table.of_kinds(self._kinds, self._noun)
        return self._among(collection)

    def _members(self, units: Rows) -> Rows:
        """Those that count, and are called what the question asks for."""
        units = self._among(units)
        # "Which lamps do not work?" asks for no works.
        if not self._noun or stem(self._thing) in self._noun:
            collection = self._collections.get(stem(self._thing))
            return units if collection is None else np.intersect1d(units, collection)
        return self.table.called(units, self._kinds, self._noun)

    def _constraints(self) -> Iterator[Sequence[Constraint]]:
        """Yield the alternatives for each part of the question."""
        used = self._negated
        for limit in self._limits:
            if limited := self._apply_limit(limit):
                used |= amount_stems(self.text)
                yield limited
        free = [
            n
            for n, token in enumerate(self._tokens)
            if stem(token.folded) in self._content - used and token.folded not in stop_words()
        ]
        for places, joined in self.named:
            stated = [constraint for _, values in self._values(places) for constraint in values]
            if joined or stated:
                yield _fitting([*joined, *stated])
                free = [n for n in free if n not in places]
        for span_words, alternatives in self._values(free):
            yield alternatives
            free = [n for n in free if n not in span_words]
        unused = self._negated.union(stem(self._tokens[n].folded) for n in free)
        # Units with "waterproof: yes", for each label that the question names.
        for own, (rank, covered) in sorted(self._named_labels.items(), key=lambda o: o[1][0]):
            values = _FALSE if covered & self._negated else ("yes", "true")
            test = FactTest.is_one_of(self._labels[own], values)
            if covered & unused and len(self.table.units(test)):
                yield [Constraint(covered, rank, own, test)]
                unused -= covered
        unused &= self._negated
        negated = [n for n, token in enumerate(self._tokens) if stem(token.folded) in unused]
        yield from ([*map(self._opposite, values)] for _, values in self._values(negated))
        for n in free:
            if numbers := self._with_number(self._tokens[n].folded):
                yield numbers

    def _values(self, free: Sequence[int]) -> list[tuple[set[int], list[Constraint]]]:
        """Spans of words that are values, the longest first, and the units that have them."""
        spans: dict[str, list[tuple[int, int]]] = {}
        for size in range(_LONGEST_VALUE, 0, -1):
            for at in range(len(self._tokens) - size + 1):
                inside = range(at, at + size)
                # "The Netherlands" and "Defence Down" have stop words; a number needs its label.
                unused = {n for n in inside if n in free}
                between = (self._tokens[n].folded for n in inside if n not in unused)
                text = self.text[self._tokens[at].start : self._tokens[inside[-1]].end]
                if stop_words().issuperset(between) and (
                    any(not self._tokens[n].folded.isdigit() for n in unused) or _CODE.search(text)
                ):
                    for form in singulars(text.casefold()):
                        spans.setdefault(value_key(form), []).append((at, at + size))
        stored: dict[tuple[int, int], list[tuple[str, Label]]] = {}
        for key, label in self.table.labels_of_values(spans):
            for span in spans[key]:
                stored.setdefault(span, []).append((key, label))
        chosen: list[tuple[set[int], list[Constraint]]] = []
        taken: set[int] = set()
        for (at, end), values in sorted(stored.items(), key=lambda item: item[0][0] - item[0][1]):
            if taken.isdisjoint(range(at, end)):
                own = frozenset(stem(self._tokens[n].folded) for n in range(at, end))
                taken.update(range(at, end))
                chosen.append((set(range(at, end)), self._by_label(values, own)))
        return chosen

    def _by_label(
        self, values: Sequence[tuple[str, Label]], own: frozenset[str]
    ) -> list[Constraint]:
        by_label: dict[frozenset[str], list[Label]] = {}
        for _, label in values:
            by_label.setdefault(own_stems(label.label), []).append(label)
        keys = {key for key, _ in values}
        constraints = []
        for stated, labels in by_label.items():
            rank, covered = self._covers(stated)
            # The value "Hall 4" does not name the label "hall".
            rank = UNNAMED if stated <= own else rank
            test = FactTest.is_one_of(labels, keys)
            constraints.append(Constraint(own | covered, rank, stated, test))
        return _fitting(constraints)

    def _opposite(self, constraint: Constraint) -> Constraint:
        """Return the units that have other values under the label: "not red"."""
        labels = tuple(label.row for label in self._labels[constraint.label])
        values = constraint.test.values if constraint.test else ()
        same = "EXISTS (SELECT 1 FROM json_each(?) v WHERE instr(f.key, v.value))"
        test, unless = FactTest(labels, "f.key != ''"), FactTest(labels, same, values)
        return replace(constraint, test=test, unless=unless)

    def _with_number(self, word: str) -> list[Constraint]:
        """Units with a number under a label that the question names: "that sleeps four"."""
        number = float(word) if word.isdigit() else NUMBERS.get(word)
        constraints = []
        for own, (rank, covered) in self._named_labels.items() if number is not None else ():
            test = FactTest.has_number(self._labels[own], number or 0)
            if len(self.table.units(test)):
                constraints.append(Constraint(covered | {stem(word)}, rank, own, test))
        return constraints

    def _apply_limit(self, limit: Limit) -> list[Constraint]:
        """Units on one side of a limit, for each label that it may be of."""
        compared, used = self._comparison, amount_stems(self.text)
        wanted = compared.labels if compared and compared.of_two and not limit.sign else frozenset()
        sign = limit.sign or (compared.sign if compared else 0)
        is_date = not TURNS.isdisjoint(self._question.words)
        named, measured = [], []
        for own, labels in self._labels.items() if sign else ():
            rank, covered = self._covers(own, self._when if is_date else self._question)
            fits = own & wanted and own <= wanted | self._content | FILLERS
            # "Available for less than 50 euros" is no number of pieces.
            is_other = limit.amount.unit in MONEY and not own & _PRICES
            test = FactTest.is_beyond(
                labels, limit.amount, sign, inclusive=limit.inclusive, measured=is_other
            )
            if (fits or (rank < UNNAMED and not wanted)) and len(self.table.units(test)):
                named.append(Constraint(covered | used, 0 if fits else rank, own, test))
                continue
            test = FactTest.is_beyond(
                labels, limit.amount, sign, inclusive=limit.inclusive, measured=True
            )
            if not wanted and limit.amount.unit in DIMENSIONS and len(self.table.units(test)):
                measured.append(
                    Constraint(used, 1 if own - FILLERS <= _PRICES else UNNAMED, own, test)
                )
        # "Under 50 euros" needs no label.
        return named or _fitting(measured)

    def _covers(
        self, own: frozenset[str], question: Question | None = None
    ) -> tuple[int, frozenset[str]]:
        """How well the question names a label, and the stems that it accounts for."""
        question = question or self._question
        # The label "supplier" answers "Which things does Ann supply?", not "supply Ann?"
        agents = not {"do", "does", "did", "by"}.isdisjoint(question.words)
        answered = question.remaining(own, agents=agents)
        content = frozenset(question.content)
        if answered is not None:
            return answered[0], content - answered[1]
        same = {word for word in content if root(word) in roots(own)}
        meant = content & meant_by_label(own)
        return UNNAMED, meant | same if agents else meant - same


def _fitting(constraints: list[Constraint]) -> list[Constraint]:
    """Those whose label the question names, or else those of what a unit is, or else all."""
    classes = [c for c in constraints if c.label <= CLASSES]
    return [c for c in constraints if c.rank < UNNAMED] or classes or constraints
