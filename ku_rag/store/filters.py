"""Filters of units by kind and facts: `calories<100`, or a function of the metadata.

A condition is SQL over the table of facts. `FIELD` reads what the metadata of units declares, so
that it can be an access rule; `any:FIELD` reads texts, tables and relations as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import numpy as np
import orjson

from ku_rag import arguments
from ku_rag.errors import BadInput
from ku_rag.store.connection import Connection, Rows, array_of, as_json, fetch_rows
from ku_rag.store.facts import METADATA, value_key
from ku_rag.text.values import Quantity, quantity

_CONDITION = re.compile(
    r"\s*([^=!<>]+?)\s*(!=|<=|>=|=|<|>)\s*([^=!<>\s].*?)\s*"
    r"|\s*(\S.*?)\s+(in|contains)\s+(\S.*?)\s*",
    re.DOTALL,
)
_NUMBER = re.compile(r"[-+]?(\d{1,3}(,\d{3})+|\d+)?(\.\d+)?(e[-+]?\d+)?", re.IGNORECASE)
_AMOUNT = re.compile(r"([-+]?\d[\d.,]*)\s*[^\W\d].*", re.DOTALL)
ANY = "any:"
"""Before a field in conditions: texts, tables and relations count as well as metadata."""
_MOST_CONDITIONS = 100
_SHOWN = 5
_RARE = 2_000
"""Facts up to which those that meet a condition are counted, to begin with the rarest."""
_CLOSE = 1e-9
Predicate = Callable[[Mapping[str, Any]], bool]
Where = str | Sequence[str] | Predicate
"""Conditions on a unit; see `UnitFilter.parse`."""
_Test = tuple[str, tuple[object, ...]]
"""A condition on the row `f` of a fact, in SQL, and its parameters."""

_RELATED = (
    "SELECT e.unit, NULL AS subject, casefold(t.name) AS key, t.name AS value, NULL AS number, "
    "NULL AS measure, NULL AS amount, NULL AS upper FROM relations r "
    "JOIN entities e ON e.row = r.head JOIN entities t ON t.row = r.tail "
    "WHERE casefold(r.relation) = ?"
)


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on the facts with a label.

    Args:
        field: The label in lower case.
        of_any_origin: Whether facts of texts, tables and relations count, too.
        operator: One of = != < <= > >= contains.
        values: What is compared with; one of them must be met. Two of a range, both of them.
        is_range: Whether the values are the ends of a range.
    """

    field: str
    of_any_origin: bool
    operator: str
    values: tuple[str, ...]
    is_range: bool = False

    def is_met(self) -> _Test:
        """Return what a fact must meet; for "!=", what none may meet."""
        operators = (">=", "<=") if self.is_range else (self.operator,) * len(self.values)
        tests = [_compare(*pair) for pair in zip(operators, self.values, strict=True)]
        joined = (" AND " if self.is_range else " OR ").join(f"({sql})" for sql, _ in tests)
        return joined, tuple(value for _, values in tests for value in values)

    def labels(self, connection: Connection) -> str:
        """Return the rows of its labels, in JSON."""
        origin = "" if self.of_any_origin else f" AND origin = '{METADATA}'"
        labels = f"SELECT row FROM labels WHERE key = ?{origin}"
        return as_json(connection.column(labels, (self.field,)))

    def rows(self, connection: Connection) -> Rows:
        """Return the rows of the units that pass, ascending."""
        met, values = self.is_met()
        if self.operator != "!=":
            return self._units(connection, met, values)
        return np.setdiff1d(self._units(connection, "1"), self._units(connection, met, values))

    def _units(self, connection: Connection, test: str, values: Sequence[object] = ()) -> Rows:
        facts = "facts f WHERE f.label IN (SELECT value FROM json_each(?))"
        wanted: list[object] = [self.labels(connection)]
        if not self.of_any_origin:
            return fetch_rows(
                connection, f"SELECT f.unit FROM {facts} AND ({test})", *wanted, *values
            )
        columns = "f.unit, f.subject, f.key, f.value, f.number, f.measure, f.amount, f.upper"
        meant = (
            "SELECT f.unit WHERE f.unit NOT NULL UNION SELECT row FROM units WHERE id = f.subject "
            "UNION SELECT unit FROM names WHERE key = f.subject"
        )
        return fetch_rows(
            connection,
            f"SELECT u.row FROM (SELECT {columns} FROM {facts} UNION ALL {_RELATED}) f "
            f"JOIN units u ON u.row IN ({meant}) WHERE {test}",
            *wanted,
            self.field,
            *values,
        )

    def count(self, connection: Connection) -> int:
        """Return how many facts meet it, at most a few thousand; "!=" counts as the most."""
        if self.of_any_origin or self.operator == "!=":
            return _RARE
        met, values = self.is_met()
        (count,) = connection.execute(
            "SELECT count(*) FROM (SELECT 1 FROM facts f WHERE f.label IN "
            f"(SELECT value FROM json_each(?)) AND ({met}) LIMIT {_RARE})",
            (self.labels(connection), *values),
        ).fetchone()
        return int(count)

    def exists(self, connection: Connection) -> _Test:
        """Return the condition on a unit `w.value`, in SQL."""
        labels = self.labels(connection)
        of_unit = (
            "EXISTS (SELECT 1 FROM facts f WHERE f.unit = w.value "
            "AND f.label IN (SELECT value FROM json_each(?))"
        )
        met, values = self.is_met()
        if self.operator == "!=":
            return f"{of_unit}) AND NOT {of_unit} AND ({met}))", (labels, labels, *values)
        return f"{of_unit} AND ({met}))", (labels, *values)


@dataclass(frozen=True, slots=True)
class UnitFilter:
    """What a unit must have to count.

    Args:
        conditions: On its facts, all of which it must meet.
        predicate: A function of its metadata that must return true.
        unit_rows: The rows that pass, once they are read; see `indexes.chunk_selection`.
        chunk_rows: The rows of their own chunks, likewise.
    """

    kind: str | None = None
    conditions: tuple[Condition, ...] = ()
    predicate: Predicate | None = None
    unit_rows: Rows | None = field(default=None, compare=False)
    chunk_rows: Rows | None = field(default=None, compare=False)

    @classmethod
    def parse(cls, kind: str | None = None, where: Where = ()) -> UnitFilter:
        """Make a filter that all of the conditions must pass.

        Args:
            kind: Kind of the units; None for any.
            where: Conditions on the metadata. "FIELD OPERATOR VALUE" has one of the operators
                = != < <= > >=, "FIELD in A, B" allows several values, "FIELD contains TEXT" a part
                of it, and "FIELD=LOW..HIGH" is a range with both ends. A nested field is
                "outer.inner". Case is ignored. A number is compared with the number that the field
                begins with ("49 euros"), an amount ("5 kg") with amounts of its dimension, a date
                ("May 1931") with dates. A list passes if one of its items does; != requires that
                all of them differ. A unit without the field passes no condition; null passes !=
                alone. "any:FIELD" reads texts, tables and relations as well as metadata. Or a
                function that takes the metadata and returns whether the unit passes.

        Raises:
            BadInput: A condition has another form.
        """
        chosen = arguments.optional_text(kind, "kind")
        if callable(where):
            return cls(chosen, predicate=where)
        listed = arguments.texts((where,) if isinstance(where, str) else where, "where")
        if len(listed) > _MOST_CONDITIONS:
            raise BadInput(f"{len(listed)} conditions: at most {_MOST_CONDITIONS} are accepted")
        return cls(chosen, tuple(map(_condition, listed)))

    @property
    def passes_all(self) -> bool:
        """Whether every unit passes."""
        return self.kind is None and not self.conditions and self.predicate is None

    def rows(self, connection: Connection) -> Rows | None:
        """Return the rows of the units that pass, ascending; None for all."""
        if self.passes_all:
            return None
        if self.unit_rows is not None:
            return self.unit_rows
        if self.predicate is not None:
            stored = connection.execute(
                "SELECT row, metadata FROM units WHERE ?1 IS NULL OR kind = ?1 ORDER BY row",
                (self.kind,),
            )
            passing = [row for row, fields in stored if self.predicate(orjson.loads(fields))]
            return np.array(passing, np.int64)
        if not self.conditions:
            return fetch_rows(connection, "SELECT row FROM units WHERE kind = ?", self.kind)
        several = len(self.conditions) > 1
        first, *others = sorted(
            self.conditions, key=lambda condition: condition.count(connection) if several else 0
        )
        rows = first.rows(connection)
        for condition in others:
            if condition.of_any_origin:
                rows = np.intersect1d(rows, condition.rows(connection))
        tests = [c.exists(connection) for c in others if not c.of_any_origin]
        if self.kind is not None:
            kind = "EXISTS (SELECT 1 FROM units u WHERE u.row = w.value AND u.kind = ?)"
            tests.append((kind, (self.kind,)))
        if not tests or not len(rows):
            return rows
        conditions = " AND ".join(sql for sql, _ in tests)
        values = (value for _, values in tests for value in values)
        listed = f"SELECT w.value FROM carray(?) w WHERE {conditions}"
        return fetch_rows(connection, listed, array_of(rows), *values)

    def chunks(self, connection: Connection) -> Rows | None:
        """Return the rows of the own chunks of the units that pass; None for all."""
        if self.chunk_rows is not None:
            return self.chunk_rows
        if (units := self.rows(connection)) is None:
            return None
        if not len(units):
            return units
        listed = "SELECT chunk FROM carray(?) w CROSS JOIN unit_chunks l ON l.unit = w.value"
        return fetch_rows(connection, f"{listed} WHERE l.owned", array_of(units))

    def why_none(self, connection: Connection) -> str:
        """Return why no unit passes; "" if one does."""
        rows = self.rows(connection)
        if rows is None or len(rows):
            return ""
        kinds = connection.column("SELECT DISTINCT kind FROM units")
        if self.kind is None or self.kind in kinds:
            return "no unit passes the conditions: `ku show` prints the facts of a unit"
        from rapidfuzz import process, utils  # only where nothing is found

        near = process.extract(
            self.kind, kinds, processor=utils.default_process, limit=_SHOWN, score_cutoff=0
        )
        nearest = ", ".join(repr(kind) for kind, *_ in near)
        return f"no unit has the kind {self.kind!r}: the nearest kinds are {nearest}"


ALL_UNITS = UnitFilter()
"""The filter that every unit passes."""


def _condition(text: str) -> Condition:
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise BadInput(
            f"{text!r} is no condition: expected FIELD OPERATOR VALUE, such as "
            '"calories<100"; the operators are = != < <= > >= in contains'
        )
    label, sign, value = (part for part in match.groups() if part is not None)
    of_any_origin = label.lower().startswith(ANY)
    if of_any_origin:
        label = label[len(ANY) :].strip()
    ends = tuple(end.strip() for end in value.split("..", 1))
    if sign == "=" and len(ends) > 1 and all(quantity(end) != Quantity() for end in ends):
        return Condition(label.casefold(), of_any_origin, sign, ends, is_range=True)
    values: tuple[str, ...] = (value,)
    if sign == "in":
        values, sign = tuple(part.strip() for part in value.split(",") if part.strip()), "="
    amount = _AMOUNT.fullmatch(value)
    if sign[0] in "<>" and amount and not _is_number(value) and quantity(value).measure is None:
        raise BadInput(
            f"{text!r} compares with an amount of an unknown measure: compare with the number "
            f'alone, "{label}{sign}{amount[1]}"'
        )
    return Condition(label.casefold(), of_any_origin, sign, values)


def _is_number(value: str) -> bool:
    return value[-1].isdigit() and _NUMBER.fullmatch(value) is not None


def _compare(sign: str, value: str) -> _Test:
    """Return the comparison of a fact `f` with a value; for "!=", whether they are equal."""
    key = value_key(value)
    if sign == "contains":
        return "instr(casefold(coalesce(f.value, f.key)), ?)", (value.casefold(),)
    is_equal = sign in ("=", "!=")
    if _is_number(value):
        return f"f.number {'=' if is_equal else sign} ?", (float(value.replace(",", "")),)
    stated = quantity(value)
    if stated.measure is None or stated.amount is None:
        return f"f.key {'=' if is_equal else sign} ?", (key,)
    first = stated.amount
    last = first if stated.upper is None else stated.upper
    if is_equal:
        slack = _CLOSE * abs(first)
        within = "f.measure = ? AND f.amount >= ? AND coalesce(f.upper, f.amount) <= ?"
        return f"f.key = ? OR ({within})", (key, stated.measure, first - slack, last + slack)
    bound = first if sign in ("<", ">=") else last
    compared = "f.amount" if sign[0] == ">" else "coalesce(f.upper, f.amount)"
    test, values = f"f.measure = ? AND {compared} {sign} ?", (stated.measure, bound)
    if stated.measure != "date":
        return test, values
    year = date.fromordinal(int(first)).year
    return f"({test}) OR (f.measure IS NULL AND f.number {sign[0]} ?)", (*values, year)
