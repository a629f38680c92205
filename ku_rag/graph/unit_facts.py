"""Facts of units: their metadata and the labelled lines of their texts, as relations to values.

A labelled line is "Price: 49 euros", "protein ca 3 gram", or a sentence of the form "The capital of
Sweden is Stockholm.".
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ku_rag.graph.model import (
    CAPTION,
    MACHINE_CAPTION,
    NO_ROW,
    TOPIC,
    VIDEOS,
    Entity,
    Step,
)
from ku_rag.indexes import keywords
from ku_rag.store.connection import Connection, as_json
from ku_rag.text.question import AUXILIARIES, HEDGES, TURNING, is_negated
from ku_rag.text.stems import query_terms
from ku_rag.text.tokens import name_key, words
from ku_rag.text.values import is_unit

_MOST_CHUNKS = 50
"""Chunks of a unit whose lines are read."""
_MOST_UNITS, _MOST_LINES = 20_000, 2_000
"""Units of a kind, and chunks of theirs, that are read for a question about the kind."""
_NO_ROW = "(c.source, c.document) NOT IN (SELECT source, document FROM table_rows)"
"""The lines of a row of a table say nothing of the unit that owns the table."""
_MOST_CHARACTERS = 20_000
_LONGEST_HEADING = 80
_LABEL_WORDS = 5
_LINE = re.compile(
    r"^[ \t]*(?:[-*•][ \t]+)?[*_]*(?P<label>[^\W\d_][^:：.!?|\n]{0,80}?)[*_]*[ \t]*[:：](?!//)[*_]*"
    r"[ \t]*(?P<value>\S.*?)[ \t]*$",
    re.MULTILINE,
)
_AMOUNT_LINE = re.compile(
    r"^[ \t]*(?:[-*•][ \t]+)?(?P<label>[^\W\d_][^:：!?|\n]{0,40}?)[ \t]+"
    r"(?:(?:ca|about|approx|some)\.?[ \t]+)?(?P<value>\d[\d.,]*[ \t]*[^\s\d:]{0,15})[ \t]*$",
    re.MULTILINE,
)
_SENTENCE = re.compile(
    r"(?:^|(?<=[.!?] ))(?:The|Its|Their)\s+(?P<label>[^\W\d_][\w' -]{0,60}?)"
    r"(?:\s+of\s+(?P<owner>[^,;:.\n]{1,60}?))?"
    r"\s+(?:is|are|was|were)\s+(?:the\s+|an?\s+)?(?P<value>(?:[^,;:.\n]|[.,](?=\d)){1,60})(?:\.(?=\s|$)|$)",
    re.MULTILINE,
)
_TRUTH = {"true": "yes", "false": "no"}


@dataclass
class FactReader:
    """Reads facts of units, for one question.

    Args:
        connection: To the store.
        note: What was not read, in a sentence; "" if everything was.
    """

    connection: Connection
    note: str = ""

    def of_unit(self, entity: Entity) -> list[Step]:
        """Return the facts of a unit, in the order in which they are stated; [] for no unit."""
        row = self.connection.execute(
            "SELECT row, metadata FROM units WHERE id = ?", (entity.unit,)
        ).fetchone()
        if row is None:
            return []
        chunks = self._first(
            _MOST_CHUNKS,
            "chunks of a unit",
            "SELECT c.row, c.text FROM unit_chunks l JOIN chunks c ON c.row = l.chunk "
            f"WHERE l.unit = ? AND l.owned AND {_NO_ROW} ORDER BY c.row",
            row[0],
        )
        found = _of_metadata(entity, row[1])
        for chunk, text in chunks:
            found += _of_text(entity, chunk, text)
        # Reversed: of facts that are stated twice, the first.
        unique = {(name_key(one.relation), one.tail.row): one for one in reversed(found)}
        return [*unique.values()][::-1]

    def of_kinds(
        self,
        kinds: Sequence[str],
        words_: Sequence[str],
        labels: Collection[str],
        among: Collection[int] | None,
    ) -> list[list[Step]]:
        """Return the metadata and labelled lines of the units of some kinds, unit by unit.

        Args:
            kinds: Their kinds.
            words_: Folded words, all of which a chunk has whose lines are read.
            labels: Stems, one of which it has; none for any chunk.
            among: Rows of the units that count; None for all.
        """
        listed = as_json(kinds)
        found = {
            row: _of_metadata(Entity(*fields), metadata)
            for row, metadata, *fields in self._first(
                _MOST_UNITS,
                "units",
                "SELECT u.row, u.metadata, coalesce(e.row, -u.row), u.name, u.kind, u.id "
                "FROM units u LEFT JOIN entities e ON e.unit = u.row WHERE u.metadata != '{}' "
                "AND u.kind IN (SELECT value FROM json_each(?)) ORDER BY u.row",
                listed,
            )
        }
        terms = query_terms(words_, keywords.language_of(self.connection))
        parts = [" AND ".join(f'"{one}"' for one in terms), " OR ".join(f'"{o}"' for o in labels)]
        query = " AND ".join(f"({one})" for one in parts if one)
        rows = self._first(
            _MOST_LINES,
            "chunks",
            "SELECT u.row, c.row, c.text, coalesce(e.row, -u.row), u.name, u.kind, u.id FROM words "
            "CROSS JOIN unit_chunks l ON l.chunk = words.rowid AND l.owned "
            "CROSS JOIN units u ON u.row = l.unit CROSS JOIN chunks c ON c.row = l.chunk "
            "LEFT JOIN entities e ON e.unit = u.row "
            f"WHERE words MATCH ? AND {_NO_ROW} "
            "AND u.kind IN (SELECT value FROM json_each(?))",
            query or '""',
            listed,
        )
        for row, chunk, text, *fields in rows:
            found.setdefault(row, []).extend(_of_text(Entity(*fields), chunk, text))
        return [found[row] for row in sorted(found) if among is None or row in among]

    def values(self, key: str) -> list[str]:
        """Return the values that units have under a key of their metadata."""
        rows = self.connection.execute(
            "SELECT DISTINCT v.value FROM units u, json_each(u.metadata) m, json_each("
            "iif(m.type = 'array', m.value, json_array(m.value))) v "
            "WHERE u.metadata != '{}' AND m.key = ? LIMIT ?",
            (key, _MOST_UNITS),
        )
        return [str(value) for (value,) in rows]

    def kinds(self) -> list[str]:
        """Return the kinds of the units."""
        rows = self.connection.execute(
            "WITH RECURSIVE k(kind) AS (SELECT min(kind) FROM units UNION ALL "
            "SELECT (SELECT min(u.kind) FROM units u WHERE u.kind > k.kind) FROM k "
            "WHERE k.kind IS NOT NULL) SELECT kind FROM k WHERE kind IS NOT NULL"
        )
        return [kind for (kind,) in rows]

    def count(self, kinds: Sequence[str]) -> int:
        """Return the number of units of some kinds."""
        query = "SELECT count(*) FROM units WHERE kind IN (SELECT value FROM json_each(?))"
        return int(self.connection.execute(query, (as_json(kinds),)).fetchone()[0])

    def _first(self, most: int, what: str, query: str, *values: object) -> list[Any]:
        """The first rows of a query; that there are more is noted."""
        rows = list(self.connection.execute(f"{query} LIMIT ?", (*values, most + 1)))
        if len(rows) > most:
            self.note = f"Only the first {most:,} {what} were read: there may be more."
        return rows[:most]


def is_labelled_line(sentence: str) -> bool:
    """Return whether a sentence is a labelled line, whose label is a few words."""
    line = _LINE.fullmatch(sentence)
    return line is not None and len(words(line["label"])) < _LABEL_WORDS


def _of_metadata(entity: Entity, metadata: str) -> list[Step]:
    """The fields of metadata; none of nested ones."""
    found = []
    for key, value in json.loads(metadata).items() if metadata != "{}" else ():
        if key in (TOPIC, CAPTION, VIDEOS, "aliases") or key.startswith(MACHINE_CAPTION):
            continue
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, str | int | float) and str(one).strip():
                found.append(_fact(entity, key, str(one)))
    return found


def _of_text(entity: Entity, chunk: int, text: str) -> Iterator[Step]:
    """The labelled lines of a text, and sentences that say the same."""
    text = text[:_MOST_CHARACTERS]
    first = text.lstrip("# \n").partition("\n")[0].strip()
    is_heading = len(first) < _LONGEST_HEADING and first[-1:].isalnum() and ":" not in first
    heading = first if is_heading else ""
    for match in (*_LINE.finditer(text), *_AMOUNT_LINE.finditer(text), *_SENTENCE.finditer(text)):
        label, value = match["label"], match["value"]
        is_sentence = AUXILIARIES.intersection(words(label)) or value.endswith(".")
        if match.re is _AMOUNT_LINE and is_sentence:
            continue
        if is_negated(words(label)):  # "Not allowed: dogs"
            continue
        if match.re is _SENTENCE:
            said, owner = words(match[0]), name_key(match["owner"] or "").removeprefix("the ")
            of_it = owner in ("", name_key(entity.name).removeprefix("the "))
            if not of_it or is_negated(said) or (HEDGES | TURNING).intersection(said):
                continue
        labels, values = [label], [value]
        several, parts = re.split(r"\s*,\s", value), label.split(" and ")
        if len(parts) == len(several) and " and " not in value:
            # "Country and volume: Italy, 80 g" is two facts, "Seas and oceans" is one.
            labels, values = parts, several
        for one, said_of_it in zip(labels, values, strict=True):
            place = (chunk, match.start(), match.end())
            about = "" if heading in match[0] else heading
            yield _fact(entity, one, said_of_it, about, place)


def _fact(
    entity: Entity,
    label: str,
    value: str,
    heading: str = "",
    line: tuple[int, int, int] | None = None,
) -> Step:
    """A fact; the unit of "Weight (kg): 3" goes to the value."""
    plain, _, unit = label.rstrip(")").partition("(")
    cut = re.split(r"[ _]", label)
    if not unit and len(cut) > 1 and cut[-1] != "in" and is_unit(cut[-1]):
        plain, unit = label[: -len(cut[-1]) - 1], cut[-1]
    if unit and value.replace(",", "").replace(".", "").isdigit():
        label, value = plain.strip(), f"{value} {unit}"
    value = _TRUTH.get(value.lower(), value)
    tail = Entity(NO_ROW - zlib.crc32(name_key(value).encode()), value, "")
    return Step(tail.row, entity, label, tail, heading, line=line)
