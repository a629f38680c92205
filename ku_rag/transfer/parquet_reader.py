"""What an export, or Parquet written by somebody else, says: each row checked, none trusted.

A row that fails its sum, or holds what it may not, is noted and left out; the rest is read. Chunks
are streamed, everything else is held.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ku_rag.errors import BadInput, Mismatch, NotFound
from ku_rag.transfer import row_checks
from ku_rag.transfer.parquet_writer import file_sum
from ku_rag.transfer.tables import (
    CHUNKS,
    FORMAT,
    IMAGES,
    MANIFEST,
    TABLES,
    UNITS,
    Table,
    parquet,
    row_sum,
)
from ku_rag.types import Quarantined

_ROWS = 8192
_NEEDED: dict[str, tuple[str, ...]] = {
    "units": ("id", "name"),
    "sources": ("uri", "unit"),
    "chunks": ("unit", "text"),
    "images": ("hash", "file"),
    "showings": ("source", "image"),
    "relations": ("source", "relation", "target"),
}
"""What each table must hold at least; without `sources` a relation and a showing name the unit."""

_UNIT_LENGTH = 0.01
"""How far from 1 the length of a vector in half precision may be."""

Halves = NDArray[np.float16]


@dataclass(frozen=True, slots=True)
class Listed:
    """A picture as an export lists it: its file, if there is one, its order, its vector."""

    digest: str
    file: str | None
    order: int
    vector: Halves | None


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk of an export, under the unit and the source that it is of.

    Without a number every text is a document of its own.
    """

    unit: str | None
    source: str | None
    document: int | None
    text: str
    vector: Halves | None


@dataclass(slots=True)
class Found:
    """An export that is being read.

    Args:
        folder: where it lies.
        manifest: its manifest; {} without one.
        left_out: what is not sound, as it is met.
    """

    folder: Path
    manifest: Mapping[str, Any]
    left_out: list[Quarantined] = field(default_factory=list)

    @property
    def encoder(self) -> Mapping[str, Any]:
        """What the manifest says of the encoder: "spec", "fingerprint", "sides"; or {}."""
        return self.manifest.get("encoder") or {}

    def made_with(self, encoder: str | None = None) -> dict[str, Any]:
        """What a new base is opened with to be as the exported one: settings by name.

        Args:
            encoder: its encoder; None takes the one that the export was made with.

        Raises:
            Mismatch: the export was made with an encoder object, which has no name.
        """
        spec = encoder or self.encoder.get("spec")
        if not self.manifest:
            return {"encoder": encoder} if encoder else {}
        if self.encoder and not spec:
            raise Mismatch(
                f"{self.folder} was made with the encoder object {self.encoder['fingerprint']}: "
                "open a base with it and call its `import_`, or name another with --encoder"
            )
        made: dict[str, Any] = {"encoder": spec} if spec else {}
        if encoder is None:
            segmenter = (self.manifest.get("segmenter") or {}).get("spec")
            limit = (self.manifest.get("settings") or {}).get("max_tokens")
            made |= {"segmenter": segmenter} if segmenter else {}
            made |= {"max_tokens": limit} if limit else {}
        return made

    def has(self, table: Table) -> bool:
        """Whether the table is there."""
        return (self.folder / table.file).is_file()

    def rows(self, table: Table) -> Iterator[dict[str, Any]]:
        """The sound rows of a table, without vectors; none of one that is not there."""
        if self.has(table):
            for batch in self._batches(table, self._columns(table)):
                sound = self._sound(table)
                yield from (row for row in batch.to_pylist() if sound(row))

    def pictures(self) -> Iterator[Listed]:
        """The pictures, with their vectors."""
        for row, vector in self._with_vectors(IMAGES) if self.has(IMAGES) else ():
            yield Listed(row["hash"], row["file"], row.get("order") or 0, vector)

    def chunks(self, place: Callable[[str | None, str | None], int]) -> Iterator[Chunk]:
        """The chunks with their vectors, in the order of their places.

        They are streamed if the file has them in that order, and sorted in memory otherwise.

        Args:
            place: number of a chunk's unit, given the unit and the source that it names.
        """
        for row, vector in self._with_vectors(CHUNKS, place):
            unit, source = row.get("unit"), row.get("source")
            yield Chunk(unit, source, row.get("document"), row["text"], vector)

    def leave_out(self, item: str, reason: str) -> None:
        """Note what is not sound."""
        self.left_out.append(Quarantined(item, reason))

    # ---- inside --------------------------------------------------------------------------------

    def _with_vectors(
        self, table: Table, place: Callable[[str | None, str | None], int] | None = None
    ) -> Iterator[tuple[dict[str, Any], Halves | None]]:
        columns = self._columns(table)
        wanted = columns + ["vector"] * self._holds(table, "vector")
        if place and not self._in_order(table, place):
            batches = self._sorted(table, wanted, place)
        else:
            batches = self._batches(table, wanted)
        sound = self._sound(table)
        for batch in batches:
            vectors = _vectors(batch, self.folder / table.file)
            # A vector is tested and handed on as it is: as a list it would be slow.
            listed = batch.select(columns).to_pylist()
            for row, (vector, length) in zip(listed, vectors, strict=True):
                if sound(row):
                    yield row, self._vector(table, row, vector, length)

    def _vector(
        self, table: Table, row: dict[str, Any], vector: Halves | None, length: float
    ) -> Halves | None:
        if vector is None:
            return None
        stored = row.get("vector_checksum")
        if stored is not None and zlib.crc32(vector.tobytes()) != stored:
            wrong = "fails its checksum"
        elif length == 0 or abs(length - 1) < _UNIT_LENGTH:
            return vector
        else:
            wrong = f"has length {length:.4g}, expected 1"
        self.leave_out(_name(table, row), f"its vector {wrong}; it was made anew")
        return None

    def _batches(self, table: Table, columns: list[str], *, quiet: bool = False) -> Iterator[Any]:
        """Record batches of a file; a row group that cannot be read is noted and passed over."""
        pa, pq = parquet()
        path = self.folder / table.file
        try:
            with pq.ParquetFile(path, page_checksum_verification=True) as data:
                for group in range(data.num_row_groups):
                    try:
                        yield from data.iter_batches(_ROWS, row_groups=[group], columns=columns)
                    except (OSError, pa.ArrowException) as error:
                        count = data.metadata.row_group(group).num_rows
                        if not quiet:
                            self.leave_out(
                                f"{table.file}: some of {count} rows",
                                f"they are damaged: {error}",
                            )
        except (OSError, pa.ArrowException) as error:
            raise _unreadable(path, error) from error

    def _in_order(self, table: Table, place: Callable[[str | None, str | None], int]) -> bool:
        last = -1
        names = [name for name in ("unit", "source") if self._holds(table, name)]
        for batch in self._batches(table, names, quiet=True):
            for row in zip(*(batch.column(name).to_pylist() for name in names), strict=True):
                here = place(*_unit_and_source(names, row))
                if here < last:
                    return False
                last = here
        return True

    def _sorted(
        self, table: Table, columns: list[str], place: Callable[[str | None, str | None], int]
    ) -> Iterator[Any]:
        pa, _ = parquet()
        whole = pa.Table.from_batches(list(self._batches(table, columns)))
        names = [name for name in ("unit", "source") if name in columns]
        rows = zip(*(whole.column(name).to_pylist() for name in names), strict=True)
        places = [place(*_unit_and_source(names, row)) for row in rows]
        order = np.argsort(np.array(places), kind="stable")
        for start in range(0, len(order), _ROWS):
            yield from whole.take(order[start : start + _ROWS]).combine_chunks().to_batches()

    def _columns(self, table: Table) -> list[str]:
        """The columns of a table that are there, but for the vectors."""
        there = self._names(table)
        for name in _NEEDED[table.name]:
            if name not in there and not (name == "source" and "unit" in there):
                raise BadInput(
                    f"{self.folder / table.file} has no column {name!r}, only "
                    f"{', '.join(there)}; docs/transfer.md says what is needed"
                )
        return [name for name in table.columns if name in there and name != "vector"]

    def _holds(self, table: Table, column: str) -> bool:
        return column in self._names(table)

    def _names(self, table: Table) -> list[str]:
        pa, pq = parquet()
        path = self.folder / table.file
        try:
            return list(pq.read_schema(path).names)
        except (OSError, pa.ArrowException) as error:
            raise _unreadable(path, error) from error

    def _sound(self, table: Table) -> Callable[[dict[str, Any]], bool]:
        """What tells whether a row of a table is sound, and notes it if not."""
        summed, check = table.summed, row_checks.CHECKS[table.name]
        has_sum = set(self._names(table)) >= {*summed, "checksum"}

        def is_sound(row: dict[str, Any]) -> bool:
            if has_sum and row_sum(row[c] for c in summed) != row["checksum"]:
                self.leave_out(_name(table, row), "the row fails its checksum")
                return False
            try:
                check(row)
            except BadInput as error:
                self.leave_out(_name(table, row), str(error))
                return False
            return True

        return is_sound


def find(folder: Path) -> Found:
    """Look at an export, or at Parquet files written by somebody else.

    Raises:
        NotFound: there is none.
        BadInput: the manifest cannot be read.
        Mismatch: it is of a later format.
    """
    parquet()
    if not (folder / UNITS.file).is_file():
        raise NotFound(
            f"{folder} is no export: it has no {UNITS.file}; name the folder that `ku export` "
            "made, or see docs/transfer.md"
        )
    path = folder / MANIFEST
    if not path.exists():
        return Found(folder, {})
    try:
        manifest = json.loads(path.read_bytes())
        version = manifest["format"]
        sums = dict(manifest["sha256"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(
            f"{path} cannot be read ({error!r}): copy the export again; without that file its "
            "tables are read as if others had written them"
        ) from error
    if not isinstance(version, int) or version > FORMAT:
        raise Mismatch(
            f"{folder} has format {version}, this version of ku-rag reads up to {FORMAT}: "
            "install a newer ku-rag to import it"
        )
    found = Found(folder, manifest)
    for table in TABLES:
        path = folder / table.file
        if table.file in sums and not path.is_file():
            found.leave_out(table.file, "it is not there, although the manifest names it")
        elif table.file in sums and file_sum(path) != sums[table.file]:
            found.leave_out(
                table.file, "it is not what was exported; what is sound of it was taken"
            )
    return found


def _unit_and_source(
    names: Sequence[str], row: tuple[str | None, ...]
) -> tuple[str | None, str | None]:
    named = dict(zip(names, row, strict=True))
    return named.get("unit"), named.get("source")


def _name(table: Table, row: dict[str, Any]) -> str:
    """What a row is called in a report."""
    keys = ("id", "uri", "source", "hash", "unit", "name")
    return f"{table.name}: {next((row[k] for k in keys if row.get(k) is not None), 'a row')}"


def _vectors(
    batch: Any,  # noqa: ANN401 - a RecordBatch
    path: Path,
) -> list[tuple[Halves | None, float]]:
    """The vectors of a batch in half precision, and their lengths; None where there is none."""
    if "vector" not in batch.schema.names:
        return [(None, 0.0)] * batch.num_rows
    column = batch.column("vector")
    there = np.asarray(column.is_valid())
    flat = column.flatten().to_numpy(zero_copy_only=False)
    count = int(there.sum())
    if flat.dtype.kind != "f" or (count and (flat.size == 0 or flat.size % count)):
        raise BadInput(
            f"{path} holds vectors as {column.type}, or of several lengths: expected lists of "
            "float16 or float32, as many numbers in each as the encoder makes"
        )
    if not count:
        return [(None, 0.0)] * len(there)
    halves = flat.astype("<f2").reshape(count, -1)
    wide = halves.astype(np.float32)
    lengths = np.sqrt(np.einsum("ij,ij->i", wide, wide)).tolist()
    found = iter(zip(halves, lengths, strict=True))
    return [next(found) if one else (None, 0.0) for one in there]


def _unreadable(path: Path, error: Exception) -> BadInput:
    return BadInput(
        f"{path} cannot be read ({error}): copy the export again, or make a new one with "
        "`ku export`"
    )
