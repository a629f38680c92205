"""Filters of units by kind and metadata: `calories<100`, or a function of the metadata."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from ku_rag import arguments
from ku_rag.errors import BadInput
from ku_rag.store.connection import Connection, as_json

_CONDITION = re.compile(r"\s*([^=!<>]+?)\s*(!=|<=|>=|=|<|>)\s*([^=!<>\s].*?)\s*", re.DOTALL)
_IS_NUMBER = re.compile(r"[-+]?(\d{1,3}(,\d{3})+|\d+)?(\.\d+)?(e[-+]?\d+)?", re.IGNORECASE)
_LEADING_NUMBER = re.compile(r"-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[-+]?\d+)?", re.IGNORECASE)
_MOST_CONDITIONS = 100
_IS_AMOUNT = re.compile(r"([-+]?\d[\d.,]*)\s*[^\W\d].*", re.DOTALL)
_SHOWN = 5
Predicate = Callable[[Mapping[str, Any]], bool]
Where = str | Sequence[str] | Predicate
"""Conditions on the metadata of a unit; see `UnitFilter.parse`."""
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "!=": operator.ne,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on a field of the metadata; see `UnitFilter.parse`."""

    field: str
    operator: str
    value: str | float

    def is_met(self, metadata: Mapping[str, object]) -> bool:
        """Return whether metadata passes."""
        is_number = isinstance(self.value, float)
        compare, found = _COMPARISONS[self.operator], list[bool]()
        for one in _values(metadata, self.field):
            value = number(one) if is_number else _folded(one)
            ordered = value is not None or self.operator in ("=", "!=")
            found.append(ordered and compare(value, self.value))
        return bool(found) and (all(found) if self.operator == "!=" else any(found))


@dataclass(frozen=True, slots=True)
class UnitFilter:
    """What a unit must have to count.

    Args:
        kind: Its kind; None for any.
        conditions: Functions of its metadata, all of which must return true.
        known: The rows that pass, once they are read; see `resolved`.
    """

    kind: str | None = None
    conditions: tuple[Predicate, ...] = ()
    known: tuple[int, ...] | None = None

    @classmethod
    def parse(cls, kind: str | None = None, where: Where = ()) -> UnitFilter:
        """Make a filter that all of the conditions must pass.

        Args:
            kind: Kind of the units; None for any.
            where: Conditions on the metadata, "FIELD OPERATOR VALUE", with one of the operators
                = != < <= > >=. Case is ignored. If VALUE is a number, the field is compared as a
                number, a text such as "49 euros" by the number at its beginning. A list passes if
                one of its items does; != requires that all of them differ. A unit without the
                field passes no condition; null passes != alone. Or a function that takes the
                metadata and returns whether the unit passes.

        Raises:
            BadInput: A condition has another form.
        """
        chosen = arguments.optional_text(kind, "kind")
        if callable(where):
            return cls(chosen, (where,))
        listed = arguments.texts((where,) if isinstance(where, str) else where, "where")
        if len(listed) > _MOST_CONDITIONS:
            raise BadInput(f"{len(listed)} conditions: at most {_MOST_CONDITIONS} are accepted")
        return cls(chosen, tuple(_condition(one).is_met for one in listed))

    @property
    def passes_all(self) -> bool:
        """Whether every unit passes."""
        return self.kind is None and not self.conditions

    def resolved(self, connection: Connection) -> UnitFilter:
        """Return the filter with the rows that pass in one state of the store."""
        rows = self.rows(connection)
        return self if rows is None else replace(self, known=tuple(rows))

    def rows(self, connection: Connection) -> list[int] | None:
        """Return the rows of the units that pass, in the order of their ids; None for all."""
        if self.passes_all:
            return None
        if self.known is not None:
            return [*self.known]
        found = connection.execute(
            "SELECT row, metadata FROM units WHERE ?1 IS NULL OR kind = ?1 ORDER BY id",
            (self.kind,),
        )
        read = ((row, orjson.loads(stored) if self.conditions else {}) for row, stored in found)
        return [row for row, known in read if all(is_met(known) for is_met in self.conditions)]

    def chunks(self, connection: Connection) -> NDArray[np.int64] | None:
        """Return the rows of the own chunks of the units that pass; None for all."""
        if (units := self.rows(connection)) is None:
            return None
        found = connection.execute(
            "SELECT chunk FROM json_each(?) w CROSS JOIN unit_chunks l ON l.unit = w.value "
            "WHERE l.owned",
            (as_json(units),),
        )
        return np.array([row for (row,) in found], np.int64)

    def why_none(self, connection: Connection) -> str:
        """Return why no unit passes; "" if one does."""
        if self.passes_all or self.rows(connection):
            return ""
        kinds = [kind for (kind,) in connection.execute("SELECT DISTINCT kind FROM units")]
        if self.kind is None or self.kind in kinds:
            return "no unit passes the conditions: `ku show` prints the metadata of a unit"
        from rapidfuzz import process, utils  # only where nothing is found

        near = process.extract(
            self.kind, kinds, processor=utils.default_process, limit=_SHOWN, score_cutoff=0
        )
        shown = ", ".join(repr(kind) for kind, *_ in near)
        return f"no unit has the kind {self.kind!r}: the nearest kinds are {shown}"


ALL_UNITS = UnitFilter()
"""The filter that every unit passes."""


def _condition(text: str) -> Condition:
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise BadInput(
            f"{text!r} is no condition: expected FIELD OPERATOR VALUE, such as "
            '"calories<100"; the operators are = != < <= > >='
        )
    field, sign, value = found.groups()
    if value[-1].isdigit() and _IS_NUMBER.fullmatch(value):
        return Condition(field, sign, float(value.replace(",", "")))
    if sign[0] in "<>" and (amount := _IS_AMOUNT.fullmatch(value)):
        raise BadInput(
            f"{text!r} compares with an amount; units are not converted: compare with "
            f'the number alone, "{field}{sign}{amount[1]}"'
        )
    return Condition(field, sign, value.casefold())


def _values(metadata: Mapping[str, object], field: str) -> Iterator[object]:
    """Yield the values of a field; a list has several."""
    for key, value in metadata.items():
        if key.casefold() == field.casefold():
            yield from value if isinstance(value, list) else [value]


def number(value: object) -> float | None:
    """Return a value as a number; None for a text that does not begin with one."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str):
        found = _LEADING_NUMBER.match(value)
        return float(found[0].replace(",", "")) if found else None
    return float(value)


def _folded(value: object) -> str | None:
    """Return a value as a text without case; None for null."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else str(value).casefold()
