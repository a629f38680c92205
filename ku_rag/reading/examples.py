"""Example questions, made of the facts and pictures of a base."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from ku_rag.store.connection import Connection
from ku_rag.types import SECTION_MARK, Serializable

_FEW = 3
_MOST_FACTS = 2_000
"""Facts that are looked at."""


@dataclass(frozen=True, slots=True)
class Example(Serializable):
    """A question that the base may answer.

    Args:
        question: A sentence.
        image: SHA-256 of the stored picture that it is about; None for a question without one.
    """

    question: str
    image: str | None = None


class _Stated(NamedTuple):
    unit: str
    kind: str
    label: str
    value: str
    number: float | None
    image: str | None


def examples(connection: Connection, count: int) -> list[Example]:
    """Return questions about a base, fewer if it has little to ask about."""
    facts = [
        _Stated(*row)
        for row in connection.execute(
            "SELECT u.name, u.kind, lower(l.label), coalesce(f.value, f.key), f.number, "
            "(SELECT i.hash FROM unit_images s JOIN images i ON i.row = s.image "
            "WHERE s.unit = f.unit LIMIT 1) "
            "FROM facts f JOIN labels l ON l.row = f.label JOIN units u ON u.row = f.unit "
            "WHERE l.origin IN ('metadata', 'text') AND coalesce(f.scope, '') IN ('', u.name) "
            "AND l.label NOT IN ('file_format', 'file_modified', 'file_path') "
            "AND length(l.label) BETWEEN 3 AND 24 "
            "AND length(coalesce(f.value, f.key)) BETWEEN 1 AND 60 LIMIT ?",
            (_MOST_FACTS,),
        )
    ]
    pictured = connection.execute(
        "SELECT i.hash FROM unit_images s JOIN images i ON i.row = s.image LIMIT 1"
    )
    sections = connection.execute(
        "SELECT DISTINCT section FROM text_places WHERE section != '' LIMIT ?", (_MOST_FACTS,)
    )
    headings = (section.rpartition(SECTION_MARK)[2] for (section,) in sections)
    named = (h for h in headings if h.replace(" ", "").isalpha() and 0 < h.count(" ") < _FEW)
    every = (
        *_of_facts(facts),
        *(Example("What is this?", image) for (image,) in pictured),
        *(Example(f"Which documents mention {heading}?") for heading in named),
    )
    return list(islice(dict.fromkeys(every), count))


def _of_facts(facts: Sequence[_Stated]) -> Iterator[Example]:
    """Yield one question of each form, then further values."""
    by_label = defaultdict[str, list[_Stated]](list)
    for fact in facts:
        by_label[fact.label].append(fact)
    every = (of_label for of_label in by_label.values() if len({f.unit for f in of_label}) > 1)
    # "What is the colours?" is no good example.
    labels = sorted(every, key=lambda facts: (facts[0].label.endswith("s"), -len(facts)))
    pictured = next((fact for of_label in labels for fact in of_label if fact.image), None)
    if pictured:
        yield Example(f"What is the {pictured.label}?", pictured.image)
    chosen = [of_label[number % len(of_label)] for number, of_label in enumerate(labels, 1)]
    values = [Example(f"What is the {fact.label} of {fact.unit}?") for fact in chosen]
    yield from values[:1]
    groups = [_of_kind(of_label) for of_label in labels]
    yield from islice((e for group in groups for e in _highest(group)), 1)
    yield from islice((e for group in groups for e in _shared(group)), 1)
    yield from values[1:]


def _of_kind(facts: Sequence[_Stated]) -> list[_Stated]:
    """Return the facts about units of the first kind that was declared."""
    kind = next((fact.kind for fact in facts if fact.kind != "entity"), "")
    return [fact for fact in facts if fact.kind == kind]


def _highest(facts: Sequence[_Stated]) -> Iterator[Example]:
    numbers = {fact.number for fact in facts if fact.number is not None}
    if len(numbers) >= _FEW:
        yield Example(f"Which {facts[0].kind} has the highest {facts[0].label}?")


def _shared(facts: Sequence[_Stated]) -> Iterator[Example]:
    units = defaultdict[str, set[str]](set)
    for fact in facts:
        units[fact.value].add(fact.unit)
    for value, names in units.items():
        if 1 < len(names) < len(facts) / 2 and not value.isdigit():
            fact = facts[0]
            yield Example(f"Which {fact.kind} has the {fact.label} {value}?")
