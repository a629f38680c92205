"""Example questions about the facts, pictures and headings of a base."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import NamedTuple

from ku_rag.store.connection import Connection
from ku_rag.types import SECTION_MARK, Serializable

_FEW = 3
"""Values of a label to ask for the highest; words at most of a heading to ask about."""
_MOST_ROWS = 2_000
"""Facts that are read, and headings."""


@dataclass(frozen=True, slots=True)
class Example(Serializable):
    """A question that the base may be able to answer, and the SHA-256 of its picture, if any."""

    question: str
    image: str | None = None


class _FactRow(NamedTuple):
    unit: str
    kind: str
    label: str
    value: str
    number: float | None
    image: str | None


def examples(connection: Connection, count: int) -> list[Example]:
    """Return at most `count` questions."""
    facts = [
        _FactRow(*row)
        for row in connection.execute(
            "SELECT u.name, u.kind, lower(l.label), coalesce(f.value, f.key), f.number, "
            "(SELECT i.hash FROM unit_images s JOIN images i ON i.row = s.image "
            "WHERE s.unit = f.unit LIMIT 1) "
            "FROM facts f JOIN labels l ON l.row = f.label JOIN units u ON u.row = f.unit "
            "WHERE l.origin IN ('metadata', 'text') AND coalesce(f.scope, '') IN ('', u.name) "
            "AND l.label NOT IN ('file_format', 'file_modified', 'file_path') "
            "AND length(l.label) BETWEEN 3 AND 24 "
            "AND length(coalesce(f.value, f.key)) BETWEEN 1 AND 60 LIMIT ?",
            (_MOST_ROWS,),
        )
    ]
    pictured = connection.column(
        "SELECT i.hash FROM unit_images s JOIN images i ON i.row = s.image LIMIT 1"
    )
    sections = connection.column(
        "SELECT DISTINCT section FROM text_places WHERE section != '' LIMIT ?", (_MOST_ROWS,)
    )
    headings = (section.rpartition(SECTION_MARK)[2] for section in sections)
    named = (h for h in headings if h.replace(" ", "").isalpha() and 0 < h.count(" ") < _FEW)
    questions = (
        *_fact_questions(facts),
        *(Example("What is this?", image) for image in pictured),
        *(Example(f"Which documents mention {heading}?") for heading in named),
    )
    return list(islice(dict.fromkeys(questions), count))


def _fact_questions(facts: Sequence[_FactRow]) -> Iterator[Example]:
    """Yield one question of each form, then further questions for values."""
    by_label = defaultdict[str, list[_FactRow]](list)
    for fact in facts:
        by_label[fact.label].append(fact)
    # A value that all units have, such as a licence, is a poor example.
    groups = [group for group in by_label.values() if len({fact.value for fact in group}) > 1]
    # "What is the colours?" is a poor example.
    groups.sort(key=lambda group: (group[0].label.endswith("s"), -len(group)))
    pictured = next((fact for fact in chain.from_iterable(groups) if fact.image), None)
    if pictured:
        yield Example(f"What is the {pictured.label}?", pictured.image)
    chosen = [group[number % len(group)] for number, group in enumerate(groups, 1)]
    values = [Example(f"What is the {fact.label} of {fact.unit}?") for fact in chosen]
    yield from values[:1]
    # Of the facts of a label, those about units of the first declared kind.
    kinds = [next((f.kind for f in group if f.kind != "entity"), "") for group in groups]
    groups = [
        [f for f in group if f.kind == kind] for kind, group in zip(kinds, groups, strict=True)
    ]
    yield from islice(chain.from_iterable(map(_highest, groups)), 1)
    yield from islice(chain.from_iterable(map(_shared, groups)), 1)
    yield from values[1:]


def _highest(facts: Sequence[_FactRow]) -> Iterator[Example]:
    numbers = {fact.number for fact in facts if fact.number is not None}
    if len(numbers) >= _FEW:
        yield Example(f"Which {facts[0].kind} has the highest {facts[0].label}?")


def _shared(facts: Sequence[_FactRow]) -> Iterator[Example]:
    units = defaultdict[str, set[str]](set)
    for fact in facts:
        units[fact.value].add(fact.unit)
    for value, names in units.items():
        if 1 < len(names) < len(facts) / 2 and not value.isdigit():
            fact = facts[0]
            yield Example(f"Which {fact.kind} has the {fact.label} {value}?")
