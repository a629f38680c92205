"""Paths: what the graph says of matched units that bears on the question, one relation far."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from ku_rag.language.tokens import content_words, words
from ku_rag.store.database import check
from ku_rag.types import PathEvidence

_STEM = 4
"""Letters that two words must share from their start to count as one: borders, bordering."""


def search_paths(
    connection: sqlite3.Connection,
    *,
    question: str,
    units: Sequence[int],
    k: int,
    first_label: int,
) -> list[PathEvidence]:
    """Relations of matched units whose words stand in the question, best unit first.

    Args:
        connection: the store.
        question: the question.
        units: rows of the units, best first.
        k: most paths.
        first_label: number of the first path's label.
    """
    asked = content_words(question)
    found: list[tuple[str, str, str, str | None, str | None]] = []
    for unit in units:
        rows = connection.execute(
            "SELECT h.name, r.relation, t.name, r.information, r.condition, r.row, r.source, "
            "r.target, r.target_kind, r.checksum FROM relations r "
            "JOIN entities h ON h.row = r.head JOIN entities t ON t.row = r.tail "
            "WHERE h.unit = ? ORDER BY r.row",
            (unit,),
        )
        found += [row for row in map(_checked, rows) if _bears_on(asked, row)]
    return [
        PathEvidence(
            label=f"E{first_label + n}",
            entities=(head, tail),
            relations=(relation,),
            text=_write(head, relation, tail, information, condition),
        )
        for n, (head, relation, tail, information, condition) in enumerate(found[:k])
    ]


def _checked(row: Sequence[Any]) -> tuple[str, str, str, str | None, str | None]:
    head, relation, tail, information, condition, number, source, target, kind, stored = row
    fields = (source, relation, target, kind, information, condition)
    check(stored, *fields, what=f"relation {number}")
    return head, relation, tail, information, condition


def _bears_on(asked: Sequence[str], row: tuple[str, str, str, str | None, str | None]) -> bool:
    _, relation, tail, information, condition = row
    held = words(" ".join((relation, tail, information or "", condition or "")))
    return any(_same(one, other) for one in asked for other in held)


def _same(one: str, other: str) -> bool:
    shorter, longer = sorted((one, other), key=len)
    return shorter == longer or (len(shorter) >= _STEM and longer.startswith(shorter))


def _write(
    head: str, relation: str, tail: str, information: str | None, condition: str | None
) -> str:
    notes = "; ".join(filter(None, (information, condition and f"when {condition}")))
    return f"{head} —{relation}→ {tail}" + (f" ({notes})" if notes else "")
