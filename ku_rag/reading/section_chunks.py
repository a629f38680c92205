"""Chunks of documents with their headings, and answers that they may state."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath

from ku_rag.text.stems import every_stem
from ku_rag.types import SECTION_MARK, Evidence, Reading


@dataclass(frozen=True)
class SectionChunk:
    """A chunk, and the stems of names in the question that other chunks of its document have."""

    evidence: Evidence
    topics: frozenset[str] = frozenset()

    @property
    def text(self) -> str:
        """Its text."""
        return self.evidence.text

    @cached_property
    def headings(self) -> list[str]:
        """The headings above it, the nearest last."""
        return self.evidence.section.split(SECTION_MARK) if self.evidence.section else []

    @cached_property
    def path(self) -> frozenset[str]:
        """Stems of the headings."""
        return every_stem(self.evidence.section)

    @cached_property
    def names(self) -> frozenset[str]:
        """Stems of the names of its document and file."""
        file = PurePath(self.evidence.source.partition("#")[0]).stem
        return every_stem(" ".join((*self.evidence.owner_names, file)))

    @cached_property
    def context(self) -> frozenset[str]:
        """Stems of the headings, of the names of its document, and of its topics."""
        return self.path | self.names | self.topics

    def reading(self, answer: str, start: int, end: int) -> Reading:
        """Return an answer that is stated from a place of the text to another."""
        where = f", in {self.evidence.section!r}" if self.headings else ""
        label = self.evidence.label
        return Reading(answer, (label,), ((start, end),), 0.7, f"{label} states it{where}.")


@dataclass(frozen=True)
class Candidate:
    """An answer that may be stated; several descriptions (`is_text`) in a document agree."""

    rank: tuple[int, ...]
    piece: SectionChunk
    reading: Reading
    text: str
    is_text: bool = False

    @property
    def stated(self) -> str:
        """The stating text, with the headings above and the names of the document."""
        evidence = self.piece.evidence
        return "\n".join((self.text, evidence.section, *evidence.owner_names))


def best(candidates: Iterable[Candidate]) -> Reading | None:
    """Return the only answer of the best rank; documents that differ are cited together."""
    ranked = sorted(candidates, key=lambda candidate: candidate.rank)
    first = [candidate for candidate in ranked if candidate.rank == ranked[0].rank]
    by_answer = {candidate.reading.answer.casefold(): candidate for candidate in reversed(first)}
    distinct = sorted(by_answer.values(), key=lambda c: c.piece.evidence.owner_names)
    if len(distinct) < 2:
        return distinct[0].reading if distinct else None
    owners = [" and ".join(candidate.piece.evidence.owner_names) for candidate in distinct]
    if len({*owners}) == 1 and first[0].is_text:
        return first[0].reading
    if len({*owners}) < len(distinct):
        return None
    readings = [candidate.reading for candidate in distinct]
    return Reading(
        "; ".join(f"{r.answer} ({owner})" for r, owner in zip(readings, owners, strict=True)),
        tuple(label for reading in readings for label in reading.citations),
        tuple(span for reading in readings for span in reading.spans),
        0.5,
        f"{len(readings)} documents state different answers.",
    )
