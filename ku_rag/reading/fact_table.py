"""Facts of all units, by SQL: which units have a fact that meets a test, and these facts."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import numpy as np

from ku_rag.graph.model import Entity, Step
from ku_rag.graph.unit_facts import FIELDS, FactReader, as_step, is_internal
from ku_rag.indexes import keywords
from ku_rag.indexes.segment import contains
from ku_rag.store.connection import Connection, Rows, array_of, as_json, distinct, fetch_rows
from ku_rag.store.facts import PART, SENTENCE
from ku_rag.store.relations import ANY_KIND
from ku_rag.text.question import CONTAINERS
from ku_rag.text.statements import IN_STOCK
from ku_rag.text.stems import singulars, stem, stems
from ku_rag.text.tokens import name_key, words
from ku_rag.text.values import DIMENSIONS, MONEY, Amount

_UNIT = "u.row, coalesce(e.row, -u.row), u.name, u.kind, u.id"
_MOST_SOURCES = 100
"""The names of so many sources are read."""
_RECORDS = (".csv", ".tsv", ".jsonl")
_MOST_COLLECTIONS = 200
"""Largest number of folders and files of which a question looks at the names."""
_MOST_MEMBERS = 50_000
"""Largest number of sources of a collection."""
_SOURCES_BETWEEN = (
    "SELECT u.row, s.uri, coalesce(u.name, '') FROM sources s LEFT JOIN units u ON u.row = s.unit "
    "WHERE s.uri >= ? AND s.uri < ? ORDER BY s.uri LIMIT ?"
)
_ADDED, _LAST = ("add:", "add;"), "\U0010ffff"
_ONE_OF = "f.key IN (SELECT value FROM json_each(?))"
_COMPARABLE = "coalesce(f.amount, f.number)"
_STOCKED = re.compile(
    r"\b(?:(out of stock|sold out)|in stock|available)\b(?! (?:in|for|from|as|to)\b)"
)
_AGE = "-f.number"
"""Of a year: the earlier, the older."""


class Label(NamedTuple):
    """A label of facts, and its row."""

    row: int
    label: str


class FactTest(NamedTuple):
    """What a fact meets: it has one of some labels, by their rows, and passes a test of row `f`."""

    labels: tuple[int, ...]
    sql: str
    values: tuple[object, ...] = ()

    @property
    def keys(self) -> list[str]:
        """The values of which the fact has one; [] if the test is of numbers."""
        listed = self.values[0] if self.sql == _ONE_OF else "[]"
        keys: list[str] = json.loads(str(listed))
        return keys

    @classmethod
    def is_one_of(cls, labels: Sequence[Label], keys: Collection[str]) -> FactTest:
        """Test that the value is one of some, by their keys (`store.facts.value_key`)."""
        return cls(_rows(labels), _ONE_OF, (as_json(keys),))

    @classmethod
    def has_number(cls, labels: Sequence[Label], number: float) -> FactTest:
        """Test that the value begins with a number."""
        return cls(_rows(labels), "f.number = ?", (number,))

    @classmethod
    def has_amount(cls, labels: Sequence[Label]) -> FactTest:
        """Test that the value begins with an amount, a number or a date."""
        return cls(_rows(labels), "f.number NOT NULL")  # which each amount has

    @classmethod
    def is_beyond(
        cls,
        labels: Sequence[Label],
        limit: Amount,
        sign: int,
        *,
        inclusive: bool = False,
        measured: bool = False,
    ) -> FactTest:
        """Test for amounts greater (`sign` 1) or less (-1), with a unit if `measured`."""
        compared = (">" if sign > 0 else "<") + "=" * inclusive
        test = f"f.measure = ? AND f.amount {compared} ?"
        if measured or limit.unit in DIMENSIONS - MONEY:
            return cls(_rows(labels), test, (limit.unit, limit.number))
        # A number without a unit is compared as written, as are prices and years.
        plain = f"(f.measure IS NULL OR f.measure = 'date') AND f.number {compared} ?"
        values = (limit.unit, limit.number, limit.number)
        return cls(_rows(labels), f"({test}) OR ({plain})", values)


@dataclass(frozen=True, slots=True)
class UnitFact:
    """A fact of a unit, or a relation: row of the unit, its entity, and the fact as a relation."""

    row: int
    unit: Entity
    step: Step


@dataclass(frozen=True)
class FactTable:
    """Reads facts of all units, for one question."""

    connection: Connection
    _units: dict[FactTest, Rows] = field(default_factory=dict)
    _labels_of_values: dict[str, list[Label]] = field(default_factory=dict)
    _rows_of_collections: dict[str, Rows | None] = field(default_factory=dict)

    @cached_property
    def labels(self) -> list[Label]:
        """The labels of facts, without those that describe nodes of the graph."""
        rows = self.connection.execute(
            f"SELECT row, label FROM labels WHERE origin != '{PART}' "
            f"OR label = '{IN_STOCK}' ORDER BY row"
        )
        return [Label(*columns) for columns in rows if not is_internal(columns[1])]

    @cached_property
    def _labels_of_sentences(self) -> dict[int, list[int]]:
        """Rows of labels → rows of all labels of that name, where sentences state such facts."""
        rows: dict[str, list[int]] = {}
        stated = set()
        for row, key, origin in self.connection.execute("SELECT row, key, origin FROM labels"):
            rows.setdefault(key, []).append(row)
            if origin == SENTENCE:
                stated.add(key)
        return {row: rows[key] for key in stated for row in rows[key]}

    def sentence_labels(self, test: FactTest) -> list[int]:
        """Return the rows of all labels named as those of a test, if sentences state such facts."""
        every = (self._labels_of_sentences.get(label, ()) for label in test.labels)
        return [*dict.fromkeys(chain.from_iterable(every))]

    def labels_of_values(self, keys: Collection[str]) -> list[tuple[str, Label]]:
        """Return each key of some values with each label that units have it under."""
        new = {key: list[Label]() for key in keys if key not in self._labels_of_values}
        for key, row, label in self.connection.execute(
            "SELECT w.value, l.row, l.label FROM json_each(?) w CROSS JOIN labels l "
            "WHERE EXISTS (SELECT 1 FROM facts f "
            "WHERE f.label = l.row AND f.key = w.value AND f.unit NOT NULL)",
            (as_json(new),),
        ):
            if not is_internal(label):
                new[key].append(Label(row, label))
        self._labels_of_values.update(new)
        return [(key, label) for key in keys for label in self._labels_of_values[key]]

    def units(self, test: FactTest) -> Rows:
        """Return the rows of the units with a fact that meets a test."""
        if test not in self._units:
            self._units[test] = fetch_rows(
                self.connection,
                "SELECT f.unit FROM json_each(?) w CROSS JOIN facts f ON f.label = w.value "
                f"WHERE f.unit NOT NULL AND ({test.sql})",
                as_json(test.labels),
                *test.values,
            )
        return self._units[test]

    def facts(self, test: FactTest, units: Rows) -> list[UnitFact]:
        """Return the facts of some units that meet a test, unit by unit."""
        rows = self.connection.execute(
            f"SELECT {_UNIT}, {FIELDS} FROM json_each(?) w "
            "CROSS JOIN units u ON u.row = w.value LEFT JOIN entities e ON e.unit = u.row "
            "CROSS JOIN facts f ON f.unit = u.row CROSS JOIN labels l ON l.row = f.label "
            f"WHERE l.row IN (SELECT value FROM json_each(?)) AND ({test.sql}) "
            f"ORDER BY u.row, l.origin = '{PART}', f.row",
            (as_json(units.tolist()), as_json(test.labels), *test.values),
        )
        facts = []
        for row, number, name, kind, unit_id, label, value, heading, *place in rows:
            unit = Entity(number, name, kind, unit_id)
            facts.append(UnitFact(row, unit, as_step(unit, label, value, heading, place)))
        return facts

    def of_greatest(
        self, labels: Sequence[Label], sign: int, units: Rows, *, as_age: bool, least: int = 2
    ) -> FactTest | None:
        """Return the test for the greatest amount (-1: the least), if `least` units have one."""
        if not len(units):
            return None
        amount, measure = (_AGE, "''") if as_age else (_COMPARABLE, "coalesce(f.measure, '')")
        owners, measures, best = self.connection.execute(
            f"SELECT count(DISTINCT f.unit), group_concat(DISTINCT {measure}), max(? * {amount}) "
            "FROM json_each(?) w CROSS JOIN facts f ON f.label = w.value "
            f"WHERE {amount} NOT NULL AND f.unit IN (SELECT value FROM carray(?))",
            (sign, as_json(_rows(labels)), array_of(units)),
        ).fetchone()
        stated = {*(measures or "").split(",")}
        # A price without its currency is in that of the others.
        distinct = stated - {""} if stated - {""} <= MONEY else stated
        if owners < least or len(distinct) > 1:
            return None
        if as_age or stated == {""}:  # these tests use an index
            return FactTest(_rows(labels), "f.number = ?", (sign * best * (-1 if as_age else 1),))
        if len(stated) == 1:
            values = (*stated, sign * best)
            return FactTest(_rows(labels), "f.measure = ? AND f.amount = ?", values)
        return FactTest(_rows(labels), f"? * {amount} = ?", (sign, best))

    def called(self, units: Rows, kinds: Collection[str], noun: frozenset[str]) -> Rows:
        """Return those units that have one of some kinds, or no kind and a noun as last word."""
        if not len(units):
            return units
        of_kind = "SELECT row FROM units WHERE kind IN (SELECT value FROM json_each(?))"
        declared = fetch_rows(self.connection, of_kind, as_json({*kinds} - {ANY_KIND}))
        plain = units[contains(fetch_rows(self.connection, of_kind, as_json([ANY_KIND])), units)]
        names = self.connection.execute(
            "SELECT u.row, u.name FROM json_each(?) w CROSS JOIN units u ON u.row = w.value",
            (as_json(plain.tolist()),),
        )
        called = [row for row, name in names if stem("".join(words(name)[-1:])) in noun]
        return distinct(np.concatenate([units[contains(declared, units)], np.array(called, int)]))

    def are_plain(self, units: Rows) -> bool:
        """Return whether none of some units declares a kind."""
        query = "SELECT 1 FROM carray(?) w JOIN units u ON u.row = w.value WHERE u.kind != ?"
        parameters = (array_of(units), ANY_KIND) if len(units) else None
        return parameters is None or self.connection.execute(query, parameters).fetchone() is None

    def with_stocks(self, question: str) -> str:
        """Return a question for what is "sold out" as one for what is "not stocked"."""
        plain = _STOCKED.sub(lambda match: "not stocked" if match[1] else "stocked", question)
        is_stated = plain != question and any(label.label == IN_STOCK for label in self.labels)
        return plain if is_stated else question

    def has_word(self, word: str) -> bool:
        """Return whether several texts of the base, or the name of a source, have a folded word."""
        if keywords.has_word(self.connection, word, least=2):
            return True
        return any(stem(word) in map(stem, words(uri.rpartition("/")[2])) for uri in self._uris)

    @cached_property
    def _uris(self) -> list[str]:
        """The names of some sources."""
        return self.connection.column(
            "SELECT uri FROM sources ORDER BY row LIMIT ?", (_MOST_SOURCES,)
        )

    @property
    def collection_nouns(self) -> frozenset[str]:
        """Stems of the plural names of files of records and folders, if units declare no kinds."""
        return frozenset(self._collections)

    @cached_property
    def _collections(self) -> dict[str, set[tuple[str, str]]]:
        """Ranges of uris of files of records and folders, by noun; {} if there are too many."""
        if FactReader(self.connection).kinds() != [ANY_KIND]:
            return {}
        ranges: dict[str, set[tuple[str, str]]] = {}
        begin = ""
        for _ in range(_MOST_COLLECTIONS):
            source = self.connection.execute(_SOURCES_BETWEEN, (begin, _LAST, 1)).fetchone()
            if source is None:
                nouns = ranges.keys() - CONTAINERS - {""}
                labels = (stems(label.label) for label in self.labels if nouns)
                return {noun: ranges[noun] for noun in nouns.difference(*labels)}
            _, uri, name = source
            scheme, mark, _ = uri.partition(":")
            if mark and scheme in ("add", "update"):
                begin = f"{scheme};"
                continue
            noun, start, end, is_nested = _collection_of(uri, name)
            ranges.setdefault(noun, set()).add((start, end))
            begin = end if is_nested else f"{uri}!"  # beside a file there may be folders
        return {}

    def collection(self, noun: str) -> Rows | None:
        """Return the units of the files of records or folders of a noun, given as its stem.

        Those of "instruments.csv" are instruments, and of "fruits/Kiwi/about.txt" Kiwi is a fruit.
        None if some of the units may be something else.
        """
        if noun not in self._rows_of_collections:
            self._rows_of_collections[noun] = self._read_collection(noun)
        return self._rows_of_collections[noun]

    def _read_collection(self, noun: str) -> Rows | None:
        units: list[int] = []
        for bounds in (*self._collections.get(noun, ()), _ADDED):
            values = (*bounds, _MOST_MEMBERS + 1)
            sources = self.connection.execute(_SOURCES_BETWEEN, values).fetchall()
            for row, uri, name in sources:
                is_called = stem("".join(words(name)[-1:])) == noun
                if not (
                    is_called if bounds is _ADDED else _collection_of(uri, name)[1:3] == bounds
                ):
                    return None  # a unit that was added, or a folder inside a folder
                units += [row] if row is not None else []
            if len(sources) > _MOST_MEMBERS:
                return None
        return distinct(np.array(units, np.int64)) if units else None

    def rows_of(self, ids: Collection[str]) -> dict[str, int]:
        """Return the rows of units by their ids."""
        query = "SELECT u.id, u.row FROM json_each(?) w CROSS JOIN units u ON u.id = w.value"
        return dict(self.connection.execute(query, (as_json(ids),)))

    def of_kinds(self, kinds: Collection[str], noun: frozenset[str]) -> Rows:
        """Return the units of some kinds, or without a kind and called by a noun."""
        query = "SELECT row FROM units WHERE kind IN (SELECT value FROM json_each(?)) OR kind = ?"
        rows = fetch_rows(self.connection, query, as_json(kinds), ANY_KIND)
        return self.called(rows, kinds, noun) if kinds else rows[:0]


def _collection_of(uri: str, name: str) -> tuple[str, str, str, bool]:
    """Return the file of records or folder of a source whose unit has a name.

    Returns:
        (stem of its last word if that is a plural, else ""; first and end of the range of its uris;
        whether its units are records or have folders of their own).
    """
    file, mark, _ = uri.partition("#")
    folder, _, title = file.rpartition("/")
    is_nested = bool(mark) and file.endswith(_RECORDS)
    if is_nested:
        title, start, end = title.rpartition(".")[0], f"{file}#", f"{file}$"
    else:
        is_nested = name_key(folder.rpartition("/")[2]) == name_key(name)
        folder = folder.rpartition("/")[0] if is_nested else folder
        title, start, end = folder.rpartition("/")[2], f"{folder}/", f"{folder}0"
    parts = words(title)
    last = parts[-1] if parts and "and" not in parts else ""
    is_plural = len([*singulars(last)]) > 1 and not last.endswith(("ss", "us", "is"))
    return stem(last) if is_plural else "", start, end, is_nested


def _rows(labels: Sequence[Label]) -> tuple[int, ...]:
    return tuple(label.row for label in labels)
