"""Looking at what there is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ku_rag import arguments
from ku_rag.knowledge_base.held import Held
from ku_rag.store import unit_records
from ku_rag.store.schema import SCHEMA

_MOST_ROWS = 2**63 - 1


class Looking(Held):
    """What a knowledge base says of itself."""

    def list(
        self, *, kind: str | None = None, limit: int | None = None
    ) -> Iterator[dict[str, Any]]:
        """Units as records with counts, by id.

        Args:
            kind: only units of this kind.
            limit: most units, from 0 on; None for all.

        Raises:
            BadInput: the limit is no such number.
        """
        arguments.optional_text(kind, "kind")
        if limit is not None:
            arguments.count(limit, "limit", least=0, most=_MOST_ROWS)
        units = unit_records.units(self._database.connection, kind=kind, limit=limit)
        return self._while_open(units)

    def show(self, unit_id: str) -> dict[str, Any]:
        """One unit as a record, with its pictures, texts, relations and sources.

        Raises:
            NotFound: there is no such unit.
        """
        return unit_records.unit(
            self._database.connection, self._layout, arguments.text(unit_id, "the id")
        )

    def stats(self) -> dict[str, Any]:
        """How much there is, made with what."""
        return {
            "counts": unit_records.counts(self._database.connection),
            "bytes": self._layout.bytes(),
            "encoder": self.encoder.fingerprint,
            "segmenter": self._segmenter_fingerprint(),
            "indexes": [self._images.describe(), self._chunks.describe()],
            "schema": SCHEMA,
        }

    def _segmenter_fingerprint(self) -> str:
        """As it was written down, if it is still the same one: a network need not be loaded."""
        made = self._database.meta("segmenter")
        runs_model = ":" in self.settings.segmenter
        if runs_model and made["spec"] == self.settings.segmenter:
            return str(made["fingerprint"])
        return self.segmenter.fingerprint

    def _while_open(self, units: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        while self._database and (unit := next(units, None)) is not None:
            yield unit
