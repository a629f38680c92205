"""Whole units of an export into the store, one transaction for a batch of them.

New units are written many rows to a statement; those that add to something known go one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np

from ku_rag.ingest import assembly
from ku_rag.ingest.assembly import Born, Declaration
from ku_rag.ingest.preparation import Picture
from ku_rag.ingest.unit_writer import Rows, Storing, add_up, image_row, show, unit_row
from ku_rag.store import content_rows, relations, vectors
from ku_rag.store.connection import Connection
from ku_rag.store.content_rows import Dropped, Texts
from ku_rag.store.vectors import Kind
from ku_rag.transfer.import_units import Part, Whole
from ku_rag.types import IngestReport


@dataclass(slots=True)
class Batch:
    """Units on their way in.

    Args:
        wholes: with the parts that are not stored already.
        pictures: those that the base does not have yet, by content hash.
        order: when each of them was stored, compared with the others.
        known: uris of the parts of which the base has something.
        size: bytes held.
    """

    wholes: list[Whole] = field(default_factory=list)
    pictures: dict[str, Picture] = field(default_factory=dict)
    order: dict[str, int] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)
    size: int = 0

    def parts(self) -> Iterator[Part]:
        """The parts of all units."""
        for whole in self.wholes:
            yield from whole.parts


class Committing:
    """Writes batches whose chunks and pictures have vectors; the caller holds the writer lock.

    Args:
        storing: the transaction, and the lists that follow.
        encoder_rows: rows of the encoder in the store, for chunks and for images.
        load_again: brings a picture that the base had when the batch was made.
    """

    def __init__(
        self,
        storing: Storing,
        encoder_rows: Mapping[Kind, int],
        *,
        load_again: Callable[[str], Picture],
    ) -> None:
        self._storing = storing
        self._encoder_rows = encoder_rows
        self._load_again = load_again

    def commit(self, batch: Batch, report: IngestReport) -> None:
        """Store a batch whose pictures are written, and add to the report."""
        counted = IngestReport()
        with self._storing.change() as connection:
            # Names first: the chunks of this batch are then looked through for all of them.
            rows = list(self._put_units(connection, batch, counted))
            pairs = [
                (part, unit, source)
                for whole, (unit, sources) in zip(batch.wholes, rows, strict=True)
                for part, source in zip(whole.parts, sources, strict=True)
            ]
            # In the order in which they came into the exported base: it tells equal scores apart.
            pairs.sort(key=lambda pair: pair[0].text_order)
            fresh = self._put_texts(connection, batch, pairs)
            counted.chunks_added = len(fresh)
            self._add_images(connection, batch)
            for part, unit, source in pairs:
                if part.images or part.uri in batch.known:
                    counted.images_added += self._show(connection, part, source, unit)
            self._storing.inverted.add_chunks(fresh)
            pairs.sort(key=lambda pair: pair[0].relation_order)
            for part, unit, source in pairs:
                if part.uri in batch.known:
                    relations.drop_of_source(connection, source)
                if unit is not None:
                    stated = relations.add(connection, source=source, unit=unit, stated=part.stated)
                    counted.relations_added += len(stated)
        add_up(report, counted)

    # ---- units and sources ---------------------------------------------------------------------

    def _put_units(
        self, connection: Connection, batch: Batch, counted: IngestReport
    ) -> Iterator[Rows]:
        """Write units and sources in the order in which they stand."""

        def is_new(whole: Whole) -> bool:
            return (
                whole.unit is not None
                and unit_row(connection, whole.unit) is None
                and len({part.origin for part in whole.parts}) == 1
                and not any(part.uri in batch.known for part in whole.parts)
            )

        for new, wholes in groupby(batch.wholes, key=is_new):
            if not new:
                yield from (self._put_unit(connection, whole, counted) for whole in wholes)
                continue
            born = [
                Born(
                    place,
                    whole.unit or "",
                    whole.parts[0].origin,
                    [
                        (part.uri, part.digest, Declaration.from_json(part.declared))
                        for part in whole.parts
                    ],
                )
                for place, whole in enumerate(wholes)
            ]
            counted.units_added += len(born)
            yield from assembly.settle_new(connection, born, self._storing.inverted)

    def _put_unit(self, connection: Connection, whole: Whole, counted: IngestReport) -> Rows:
        said = [(part.uri, part.origin, part.digest, part.declared) for part in whole.parts]
        return self._storing.put_one(connection, whole.unit, said, counted)

    # ---- texts and pictures --------------------------------------------------------------------

    def _put_texts(
        self,
        connection: Connection,
        batch: Batch,
        pairs: list[tuple[Part, int | None, int]],
    ) -> dict[int, str]:
        """Replace the chunks of all parts, with their vectors; returns them by row."""
        for part, _, source in pairs:
            if part.uri in batch.known:
                content_rows.drop_source_chunks(connection, source, Dropped())
        fresh = content_rows.add_texts(
            connection, [Texts(source, unit, part.chunks) for part, unit, source in pairs]
        )
        halves = [v for part, *_ in pairs for v in part.vectors if v is not None]
        if halves:
            made = np.stack(halves).astype(np.float32)
            vectors.put(connection, "chunk", self._encoder_rows["chunk"], list(fresh), made)
        return fresh

    def _show(
        self,
        connection: Connection,
        part: Part,
        source: int,
        unit: int | None,
    ) -> int:
        """Let a source show its pictures; returns how many it did not show before."""
        shown = []
        for digest in part.images:
            row = image_row(connection, digest)
            shown.append(row or self._storing.add_image(connection, self._load_again(digest)))
        return show(connection, source, unit, shown)

    def _add_images(self, connection: Connection, batch: Batch) -> None:
        shown = {digest for part in batch.parts() for digest in part.images}
        for picture in sorted(batch.pictures.values(), key=lambda one: batch.order[one.digest]):
            if picture.digest in shown and image_row(connection, picture.digest) is None:
                self._storing.add_image(connection, picture)
