"""When, where, how long and how often: what a clause says around its verb."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ku_rag.answering import amounts, values
from ku_rag.answering.groups import Group, group_at, is_date
from ku_rag.text.lexicon import Word

_PLACED = {"in", "on", "at", "near", "across", "throughout", "under", "over", "along", "around"}
_PLACED |= {"beneath", "below", "inside", "beside", "behind", "above", "between", "among", "off"}
_DAYS = {"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"}


@dataclass(frozen=True, slots=True)
class Clause:
    """A verb of the sentence and what stands in its roles."""

    verb: int
    passive: bool
    subject: Group | None
    after: int
    end: int


class Adjuncts:
    """A sentence with its words, and the reading of times and places in its clauses.

    Args:
        words: of the sentence.
        year_only: whether of a date only the year is wanted.
    """

    def __init__(self, words: Sequence[Word], *, year_only: bool) -> None:
        self.words, self.year_only = words, year_only
        self.lower = [w.text.lower() for w in words]

    def when(self, clause: Clause) -> Group | None:
        """The date in a clause, or the one that its sentence opens with."""
        year_only = self.year_only
        last = min(clause.after + 14, clause.end)
        for at in range(clause.after, last):
            value = amounts.date(self.words, at, year_only=year_only)
            if value:
                return self._range(at, value, year_only)
            if self.lower[at] in _DAYS:
                relative = self.lower[at - 1] in ("last", "next", "this")
                return Group(at - relative, at + 1, at)
        fronted = self.lower[0] in ("in", "on", "around", "since", "between", "from", "by")
        value = amounts.date(self.words, 1, year_only=year_only) if fronted else None
        if value and not any(
            amounts.date(self.words, i) for i in range(value.end, len(self.words))
        ):
            return Group(value.parts[0][0], value.parts[0][1], value.parts[0][0])
        return None

    def _range(self, at: int, value: values.Value, year_only: bool) -> Group:
        first, last = value.parts[0]
        before = self.lower[at - 1] if at else ""
        joined = self.lower[value.end : value.end + 1]
        if joined and joined[0] in ("and", "or", "to", "-", "–", "until"):
            second = amounts.date(self.words, value.end + 1, year_only=year_only)
            if second:
                opened = before == "between"
                return Group(first - opened, second.parts[0][1], first)
        return Group(first, last, first)

    def where(self, clause: Clause) -> Group | None:
        """The place in a clause."""
        for at in range(clause.after, clause.end):
            if self.lower[at] == "," and at > clause.after:
                return None
            if self.lower[at] not in _PLACED:
                continue
            found = group_at(self.words, at + 1, many=True, place=True)
            if found and not is_date(self.words, found) and not self._amount(found.first):
                return found
        return None

    def _amount(self, at: int) -> bool:
        return amounts.quantity(self.words, at) is not None

    def how_long(self, clause: Clause) -> Group | None:
        """The stretch of time in a clause."""
        for at in range(clause.after, min(clause.after + 8, clause.end)):
            first = at
            worded = amounts.number(self.words, at)
            value = amounts.quantity(self.words, at, ("time",))
            if value is None and worded:
                end = amounts.unit_end(self.words, worded.end, ("time",))
                value = values.Value(((first, end),), end) if end > worded.end else None
            if value:
                return Group(value.parts[0][0], value.parts[0][1], first)
        return None

    def how_often(self, clause: Clause) -> Group | None:
        """What follows "every" in a clause."""
        for at in range(clause.after, clause.end):
            if self.lower[at] == "every":
                found = group_at(self.words, at + 1)
                return found and Group(at, found.last, at)
        return None
