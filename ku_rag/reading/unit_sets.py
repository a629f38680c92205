"""Questions about units that are not named: which have a value, how many, the one with most.

"Which lamps are waterproof?", "How many tents weigh less than 2 kg?", "What is the cheapest
kettle?", "What is the price of the tent that sleeps four?". Each part of a question is a
constraint: the units with a value, with a flag, with a number, on one side of a limit, or joined to
a named entity by a relation. The units that meet all of them answer, or a fact of the only one that
the rest of the question names. A content word that neither accounts for, and there is no answer.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

from ku_rag.graph.model import Path, Step
from ku_rag.graph.unit_facts import FactReader, Label, Numbers, UnitFact
from ku_rag.reading.answers import CLASSES, MOST, SOFT, Traced, fits_type, own_stems
from ku_rag.store.relations import ANY_KIND
from ku_rag.text.question import (
    GENERIC,
    Comparison,
    Question,
    analyse,
    comparison,
    meant_by_label,
)
from ku_rag.text.stems import root, stem, stems
from ku_rag.text.tokens import Token, stop_words, tokenize, words
from ku_rag.text.values import amounts

_LONGEST_VALUE = 6
"""Words of the longest value that is looked up."""
_MOST_ALTERNATIVES = 64
_NUMBERS = {
    word: number
    for number, word in enumerate(words("zero one two three four five six seven eight nine ten"))
}
_LIMITS = {"under": -1, "below": -1, "over": 1, "above": 1, "before": -1, "after": 1}
_GENERIC = stems(GENERIC)
_TURNS = frozenset({"before", "after"})


@dataclass(frozen=True, slots=True)
class Constraint:
    """The units that meet a part of a question.

    Args:
        facts: Facts that meet it, by id of the unit.
        covered: Stems of the question that it accounts for.
        said: Whether the question names the label.
        label: Stems of the label.
    """

    facts: dict[str, list[UnitFact]]
    covered: frozenset[str]
    said: bool
    label: frozenset[str]


@dataclass(frozen=True)
class UnitSetReader:
    """Reads one question.

    Args:
        facts: Of the base.
        question: A sentence.
        named: Places of the words of each name in it, and the units that relations join to it.
        among: Rows of the units that count; None for all.
    """

    facts: FactReader
    question: str
    named: Sequence[tuple[range, Sequence[Constraint]]] = ()
    among: Collection[int] | None = None

    @cached_property
    def _tokens(self) -> list[Token]:
        return tokenize(self.question)

    @cached_property
    def _asked(self) -> Question:
        return analyse(self.question)

    @cached_property
    def _kinds(self) -> dict[str, frozenset[str]]:
        """Kinds that the question names, and their stems."""
        found = {kind: stems(kind) for kind in self.facts.kinds() if kind != ANY_KIND}
        return {kind: own for kind, own in found.items() if own and own <= self._asked.every}

    @cached_property
    def _labels(self) -> dict[frozenset[str], list[Label]]:
        """Labels of facts by the stems of their words."""
        found: dict[frozenset[str], list[Label]] = {}
        for label in self.facts.labels:
            if own := own_stems(label.label):
                found.setdefault(own, []).append(label)
        return found

    @cached_property
    def _noun(self) -> frozenset[str]:
        """Stems of what the units are called: a kind, a generic noun, or what follows "which"."""
        if self._kinds:
            return frozenset().union(*self._kinds.values())
        if self._asked.every & _GENERIC:
            return _GENERIC
        noun = frozenset({self._asked.counted or stem(self._asked.which)})
        # "In which room is the desk?" asks for a label.
        return frozenset() if noun in self._labels else noun.intersection(self._asked.content)

    @cached_property
    def _dated(self) -> Question:
        """The question as one for a date: "made before 1900" is of the label "year"."""
        return analyse(f"when {self.question}")

    @cached_property
    def _compared(self) -> Comparison | None:
        return comparison(replace(self._asked, unnamed=self._asked.said))

    @cached_property
    def _content(self) -> frozenset[str]:
        """Stems of the words that have to be accounted for."""
        content = frozenset(self._asked.content) - SOFT - self._noun
        return content - (self._compared.words if self._compared else frozenset())

    # ---- answers --------------------------------------------------------------------------------

    def read(self) -> Traced | None:
        """Return the answer; None if facts do not state it."""
        asked = self._asked
        if asked.negated or asked.kind not in ("value", "yes-no"):
            return None
        is_there = asked.kind == "yes-no" and asked.said[1:2] == ("there",)
        turns = _TURNS.intersection(asked.said) if not amounts(self.question) else ()
        if turns or (asked.kind == "yes-no" and not is_there):
            return None
        groups = [*self._constraints()]
        compared = self._compared
        if asked.compares and not compared and not any(w in _LIMITS for w in asked.said):
            return None
        if not groups and not (self._kinds or (compared and self._noun)):
            return None
        answers: dict[tuple[int, int], list[Traced]] = {}
        for chosen in self._choices(groups):
            units = self._common(chosen)
            left = self._content.difference(*(one.covered for one in chosen))
            if units or not chosen:
                answer = self._answer(left, units, bool(groups), is_there=is_there)
                if answer:
                    rank = sum(not one.said for one in chosen)
                    answers.setdefault((len(left), rank), []).append(answer)
        best = answers[min(answers)] if answers else []
        # Two labels that fit equally well, and lead to other units: no answer.
        return best[0] if len({one.answers for one in best}) == 1 else None

    def _answer(
        self,
        left: frozenset[str],
        units: Mapping[str, Sequence[UnitFact]],
        is_limited: bool,
        *,
        is_there: bool,
    ) -> Traced | None:
        asked, compared = self._asked, self._compared
        of_two = compared is not None and compared.of_two
        if compared and not of_two:
            return self._extreme(compared, left, units if is_limited else None)
        if left:
            return self._further(left, units) if units and not is_there else None
        if is_there:
            return self._listed(units, "yes") if units else None
        if not is_limited:
            counts = _counts(asked) and self.among is None
            total = self.facts.count([*self._kinds]) if counts else 0
            return Traced((str(total),), ()) if total else None
        return self._listed(units, str(len(units)) if _counts(asked) else "")

    def _listed(self, units: Mapping[str, Sequence[UnitFact]], answer: str) -> Traced | None:
        steps = [fact.step for facts in units.values() for fact in facts]
        paths = tuple(Path(step.head, (step,)) for step in dict.fromkeys(steps))
        if answer:
            return Traced((answer,), paths[:MOST])
        names = tuple(dict.fromkeys(facts[0].unit.name for facts in units.values() if facts))
        return Traced(names, paths) if 0 < len(names) <= MOST else None

    def _further(
        self, left: frozenset[str], units: Mapping[str, Sequence[UnitFact]]
    ) -> Traced | None:
        """The fact of the only unit that the rest of the question names."""
        if len(units) != 1:
            return None
        ((used, *_),) = units.values()
        left -= stems(used.unit.name) | stems(used.unit.kind)
        ranked: dict[int, list[Step]] = {}
        for step in self.facts.of_unit(used.unit):
            answered = self._asked.remaining(own_stems(step.relation), agents=True)
            if answered and not answered[1] & left and fits_type(self._asked, step, step.tail):
                ranked.setdefault(answered[0], []).append(step)
        best = ranked[min(ranked)] if ranked else []
        if len({stems(step.relation) for step in best}) != 1:
            return None
        values = tuple(dict.fromkeys(step.tail.name for step in best))
        return Traced(values, tuple(Path(used.unit, (used.step, step)) for step in best))

    def _extreme(
        self,
        compared: Comparison,
        left: frozenset[str],
        units: Mapping[str, Sequence[UnitFact]] | None,
    ) -> Traced | None:
        """The units with the greatest amount."""
        owns = [own for own in self._labels if _is_measured(own, compared, left)]
        if left.difference(compared.labels, *owns):
            return None
        measured = [
            fact
            for fact in self._with_labels(*owns)
            if (units is None or fact.id in units) and self._is_member(fact)
        ]
        if compared.oldest:
            measured = [replace(one, numbers=_as_age(one.numbers)) for one in measured]
        measured = [one for one in measured if one.numbers.comparable is not None]
        scales = {one.numbers.measure for one in measured}
        if len({one.id for one in measured}) < 2 or len(scales) != 1:
            return None
        best = max(compared.sign * (one.numbers.comparable or 0) for one in measured)
        met = [one for one in measured if compared.sign * (one.numbers.comparable or 0) == best]
        return self._listed({one.id: [one] for one in met}, "")

    # ---- constraints ----------------------------------------------------------------------------

    def _choices(self, groups: Sequence[Sequence[Constraint]]) -> Iterator[tuple[Constraint, ...]]:
        size = 1
        for group in groups:
            size *= len(group)
        if size <= _MOST_ALTERNATIVES:
            yield from product(*groups)

    def _common(self, chosen: Sequence[Constraint]) -> dict[str, list[UnitFact]]:
        """The units that meet all constraints and are called as the question says, with facts."""
        if not chosen:
            return {}
        ids = set.intersection(*(set(one.facts) for one in chosen))
        every = {unit: [fact for one in chosen for fact in one.facts[unit]] for unit in ids}
        every = dict(sorted(every.items(), key=lambda one: one[1][0].row))
        found = {unit: facts for unit, facts in every.items() if self._is_member(facts[0])}
        # How many are of a kind that none declares is not known.
        undeclared = not (self._kinds or self._noun & _GENERIC or _counts(self._asked))
        if undeclared and not found and all(one.said for one in chosen):
            # "Which monsters drop a toenail?", where no unit declares a kind.
            is_plain = all(facts[0].unit.kind == ANY_KIND for facts in every.values())
            found = every if is_plain else {}
        return found

    def _is_plain(self, place: int) -> bool:
        return self._tokens[place].folded in stop_words()

    def _is_member(self, fact: UnitFact) -> bool:
        """Whether a unit counts, and is called what the question asks for."""
        if self.among is not None and fact.row not in self.among:
            return False
        if not self._noun or self._noun & _GENERIC or fact.unit.kind in self._kinds:
            return True
        last = [stem(word) for word in words(fact.unit.name)][-1:]
        return fact.unit.kind == ANY_KIND and not self._noun.isdisjoint(last)

    def _constraints(self) -> Iterator[Sequence[Constraint]]:
        """Yield the alternatives for each part of the question."""
        limited, used = self._limits()
        if limited:
            yield limited
        free = [
            n
            for n, token in enumerate(self._tokens)
            if stem(token.folded) in self._content - used and token.folded not in stop_words()
        ]
        for places, joined in self.named:
            stated = [one for _, values in self._values(places) for one in values]
            if joined or stated:
                yield _fitting([*joined, *stated])
                free = [n for n in free if n not in places]
        for span_words, alternatives in self._values(free):
            yield alternatives
            free = [n for n in free if n not in span_words]
        yield from self._flags(frozenset(stem(self._tokens[n].folded) for n in free))
        for n in free:
            if numbers := self._with_number(self._tokens[n].folded):
                yield numbers

    def _values(self, free: Sequence[int]) -> list[tuple[set[int], list[Constraint]]]:
        """Spans of words that are values, the longest first, and the units that have them."""
        spans: dict[str, list[tuple[int, int]]] = {}
        for size in range(_LONGEST_VALUE, 0, -1):
            for at in range(len(self._tokens) - size + 1):
                inside = range(at, at + size)
                held = [n for n in inside if n in free]
                # "The Netherlands" and "Defence Down" have stop words; a number needs its label.
                is_free = all(n in free or self._is_plain(n) for n in inside)
                if is_free and any(not self._tokens[n].folded.isdigit() for n in held):
                    text = self.question[self._tokens[at].start : self._tokens[inside[-1]].end]
                    for form in _forms(text.casefold()):
                        spans.setdefault(form, []).append((at, at + size))
        by_span: dict[tuple[int, int], list[UnitFact]] = {}
        for key, fact in self.facts.with_values([*spans]):
            for span in spans[key]:
                by_span.setdefault(span, []).append(fact)
        found: list[tuple[set[int], list[Constraint]]] = []
        taken: set[int] = set()
        for (at, end), facts in sorted(by_span.items(), key=lambda one: one[0][0] - one[0][1]):
            if taken.isdisjoint(range(at, end)):
                own = frozenset(stem(self._tokens[n].folded) for n in range(at, end))
                taken.update(range(at, end))
                found.append((set(range(at, end)), self._by_label(facts, own)))
        return found

    def _by_label(self, facts: Sequence[UnitFact], own: frozenset[str]) -> list[Constraint]:
        by_label: dict[frozenset[str], list[UnitFact]] = {}
        for fact in facts:
            by_label.setdefault(own_stems(fact.step.relation), []).append(fact)
        found = []
        for label, some in by_label.items():
            said, covered = self._covers(label)
            found.append(Constraint(_by_unit(some), own | covered, said, label))
        return _fitting(found)

    def _with_labels(self, *owns: frozenset[str]) -> list[UnitFact]:
        return self.facts.with_labels(label.row for own in owns for label in self._labels[own])

    def _flags(self, free: frozenset[str]) -> Iterator[list[Constraint]]:
        """Units with "waterproof: yes", for each label that the question names."""
        for own in self._labels:
            if own <= free:
                met = [one for one in self._with_labels(own) if one.step.tail.name == "yes"]
                if met:
                    yield [Constraint(_by_unit(met), own, True, own)]

    def _with_number(self, word: str) -> list[Constraint]:
        """Units with a number under a label that the question names: "that sleeps four"."""
        number = float(word) if word.isdigit() else _NUMBERS.get(word)
        found = []
        for own in self._labels if number is not None else ():
            said, covered = self._covers(own)
            met = [one for one in self._with_labels(own) if one.numbers.number == number and said]
            if met:
                found.append(Constraint(_by_unit(met), covered | {stem(word)}, True, own))
        return found

    def _limits(self) -> tuple[list[Constraint], frozenset[str]]:
        """Units on one side of a limit, by label, and the stems of the limit."""
        compared, stated = self._compared, amounts(self.question)
        signs = [_LIMITS[word] for word in self._asked.said if word in _LIMITS]
        if len(stated) != 1 or not (signs or (compared and compared.of_two)):
            return [], frozenset()
        sign, used = signs[0] if signs else 1, amount_stems(self.question)
        labels: frozenset[str] = frozenset()
        is_date = not _TURNS.isdisjoint(self._asked.said)
        if compared and compared.of_two:
            sign, labels = compared.sign, compared.labels
        found = []
        for own in self._labels:
            said, covered = self._covers(own, self._dated if is_date else self._asked)
            fits = own & labels and own <= labels | self._content
            if fits or (said and not labels):
                met = [one for one in self._with_labels(own) if one.is_beyond(stated[0], sign)]
                if met:
                    found.append(Constraint(_by_unit(met), covered | used, True, own))
        return found, used

    def _covers(
        self, own: frozenset[str], asked: Question | None = None
    ) -> tuple[bool, frozenset[str]]:
        """Whether the question names a label, and the stems that it accounts for."""
        asked = asked or self._asked
        # The label "supplier" answers "Which things does Ann supply?", not "supply Ann?"
        agents = not {"do", "does", "did", "by"}.isdisjoint(asked.said)
        answered = asked.remaining(own, agents=agents)
        content = frozenset(asked.content)
        if answered is not None:
            return True, content - answered[1]
        same = {word for word in content if root(word) in set(map(root, own))}
        meant = content & meant_by_label(own)
        return False, meant | same if agents else meant - same


def _counts(asked: Question) -> bool:
    return bool(asked.counted)


def _fitting(found: list[Constraint]) -> list[Constraint]:
    """Those whose label the question names, or else those of what a unit is, or else all."""
    classes = [one for one in found if one.label <= CLASSES]
    return [one for one in found if one.said] or classes or found


def _forms(text: str) -> Iterator[str]:
    """Yield a value as written in a question, and its possible singulars."""
    yield text
    for ending, singular in (("ies", "y"), ("es", ""), ("s", "")):
        if text.endswith(ending) and len(text) > len(ending) + 2:
            yield text.removesuffix(ending) + singular


def amount_stems(question: str) -> frozenset[str]:
    """Return the stems of the words of a question that are an amount: "12 mm"."""
    found = re.findall(r"\d[\d.,]*(?: ?[^\W\d_]+)?", question)
    return frozenset(stem(word) for one in found for word in words(one))


def _as_age(numbers: Numbers) -> Numbers:
    if numbers.number is None:
        return numbers
    return Numbers(-numbers.number, None, None)


def _is_measured(own: frozenset[str], compared: Comparison, left: frozenset[str]) -> bool:
    return bool(own & compared.labels) and own <= compared.labels | left


def _by_unit(facts: Sequence[UnitFact]) -> dict[str, list[UnitFact]]:
    found: dict[str, list[UnitFact]] = {}
    for fact in facts:
        found.setdefault(fact.id, []).append(fact)
    return found
