"""Set the weight of an encoder's cosines of texts beside keywords (`ku tune --texts`)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ku_rag import arguments
from ku_rag.encoders.pair import side
from ku_rag.errors import BadInput
from ku_rag.retrieval.base import Retrieval
from ku_rag.retrieval.matching import match
from ku_rag.retrieval.search import search
from ku_rag.store.connection import as_json, snapshot
from ku_rag.store.unit_records import known_row
from ku_rag.types import Match, Serializable

WEIGHTS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
"""Weights that are tried; 0 is keywords alone."""
_FEWEST = 20
_DEPTH = 20
"""Chunks among which a unit is looked for."""


@dataclass(frozen=True, slots=True)
class TextTuning(Serializable):
    """The weights of an encoder's cosines of texts, measured by questions.

    Args:
        weight: the weight with the best ranks; of equal ones the present or the smallest.
        reciprocal_rank: mean reciprocal rank of the first chunk of a right unit, 0 to 1.
        tried: (weight, mean reciprocal rank).
    """

    questions: int
    weight: float
    weight_before: float
    reciprocal_rank: float
    reciprocal_rank_before: float
    tried: tuple[tuple[float, float], ...]


def tune_text_weight(
    base: Retrieval, records: Iterable[tuple[str, Mapping[str, Any] | BadInput]]
) -> TextTuning:
    """Search for the units of questions with several weights, and store the best one.

    A record is "file:line" and {"question": text, "units": [ids]}, as for `ku eval`, or the error
    of a line. Records without units, and those with an image, are skipped.

    Raises:
        NotFound: the base has no unit of an id.
        BadInput: a record cannot be read, or fewer than 20 have units.
    """
    connection, before = base.database.connection, base.chunk_search.text_weight
    weights = sorted({*WEIGHTS, before})
    ranks: list[list[float]] = []
    for where, record in records:
        if isinstance(record, BadInput):
            raise BadInput(f"{where}: {record}")
        question = arguments.text(record.get("question"), f"{where}: question")
        if not question.strip():
            raise BadInput(f"{where}: the question is empty")
        units = arguments.texts(record.get("units", ()), f"{where}: units")
        if units and not record.get("image"):
            with snapshot(connection):
                right = connection.column(
                    "SELECT chunk FROM json_each(?) JOIN unit_chunks ON unit = value WHERE owned",
                    (as_json(known_row(connection, unit) for unit in units),),
                )
                matched = match(base, None, question, 0).units
                ranks.append([_rank(base, question, matched, set(right), w) for w in weights])
    if len(ranks) < _FEWEST:
        raise BadInput(
            f"{len(ranks)} records have units and no image: expected at least {_FEWEST} of "
            '{"question": text, "units": [ids]}'
        )
    means = [round(sum(column) / len(ranks), 4) for column in zip(*ranks, strict=True)]
    if not any(means):
        raise BadInput(
            f"of {len(ranks)} questions none finds a text of its units among the first {_DEPTH}: "
            "nothing was changed; check that the ids of the units are right"
        )
    best = max(range(len(means)), key=lambda n: (means[n], weights[n] == before, -n))
    encoder = side(base.chunk_search.encoder, "chunk").fingerprint
    base.database.set_meta("text_weight", {"encoder": encoder, "weight": weights[best]})
    return TextTuning(
        questions=len(ranks),
        weight=weights[best],
        weight_before=before,
        reciprocal_rank=means[best],
        reciprocal_rank_before=means[weights.index(before)],
        tried=tuple(zip(weights, means, strict=True)),
    )


def _rank(
    base: Retrieval, question: str, matched: Sequence[Match], right: Collection[int], weight: float
) -> float:
    """Return the reciprocal rank of the first right chunk; 0 if it is not among the first 20."""
    chunks = replace(base.chunk_search, text_weight=weight)
    units = [(unit.row, unit.name) for unit in matched]
    hits = search(chunks, question, units, _DEPTH, units_first=False)
    return next((1 / place for place, (row, _) in enumerate(hits, 1) if row in right), 0.0)
