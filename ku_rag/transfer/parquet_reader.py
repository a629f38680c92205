"""Read an export, or Parquet files of another program: sound rows, and a report of the others.

Parquet verifies a checksum of each page; a row group with a damaged page is reported and left out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ku_rag import arguments
from ku_rag.errors import BadInput, Mismatch, NotFound
from ku_rag.transfer.tables import FORMAT, MANIFEST, TABLES, UNITS, TableFile, parquet
from ku_rag.types import Quarantined

_UNIT_LENGTH = 0.01
"""Tolerance of the length of a vector in half precision, which should be 1."""
_BATCH_ROWS = 1024
"""Rows per batch; their vectors fit in the processor's cache."""

TUNING: Mapping[str, Mapping[str, Any]] = {
    "confidence": {"models": str, "intercept": float, "threshold": float, "slope": float},
    "text_weight": {"encoder": str, "weight": float},
}
"""What `ku tune` has measured on labels: the keys of the table meta, and the fields."""
TUNING_RANGES = {
    "intercept": (-100, 100),
    "threshold": (0, 1),
    "slope": (1e-3, 1e3),
    "weight": (0, 1),
}
_NEEDED = ("format", "sha256")
_MANIFEST: Mapping[str, Any] = {
    "format": int,
    "sha256": {str: str},
    "max_tokens": int,
    "language": str,
    "encoder": {"spec": str | None, "fingerprint": str, "sides": {str: [str, int]}},
    "segmenter": {"spec": str | None},
    "settings": {"max_tokens": int | None},
    **TUNING,
}
"""The types of the fields that are read; all but `_NEEDED` may be missing."""


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Consecutive rows of a table, and the numbers of those that have no vector."""

    columns: Mapping[str, Sequence[Any]]
    vectors: NDArray[np.float16]
    without_vector: Collection[int]

    def column(self, name: str) -> Sequence[Any]:
        """Return the values of a column; None for each row if the table does not have it."""
        return self.columns.get(name) or [None] * len(self.vectors)

    def row(self, number: int) -> dict[str, Any]:
        """Return a row without its vector."""
        return {name: values[number] for name, values in self.columns.items()}


class Export:
    """A folder of Parquet files; whole if every table has the SHA-256 of the manifest."""

    def __init__(self, folder: Path) -> None:
        parquet()
        self.folder = folder
        self.left_out: list[Quarantined] = []
        if not (folder / UNITS.file).is_file():
            raise NotFound(
                f"{folder} is not an export: it has no {UNITS.file}; name the folder that "
                "`ku export` or `ku encode` made, or see docs/transfer.md"
            )
        self.manifest = read_manifest(folder / MANIFEST)
        files = {table.file for table in TABLES}
        for file, expected in self.manifest.get("sha256", {}).items():
            if file in files and not (folder / file).is_file():
                self.leave_out(file, "it is missing, although the manifest names it")
            elif file in files and arguments.file_hash(folder / file) != expected:
                self.leave_out(file, "it is not what was exported; its sound rows were imported")
        self.is_whole = bool(self.manifest) and not self.left_out

    @property
    def encoder(self) -> Mapping[str, Any]:
        """The encoder in the manifest: "spec", "fingerprint", "sides"; or {}."""
        return self.manifest.get("encoder") or {}

    def leave_out(self, item: str, reason: str) -> None:
        """Report an item that is not sound."""
        self.left_out.append(Quarantined(item, reason))

    def rows(self, table: TableFile) -> Iterator[dict[str, Any]]:
        """Yield the sound rows of a table without vectors; see `batches`."""
        for batch in self.batches(table):
            yield from map(batch.row, range(len(batch.vectors)))

    def batches(self, table: TableFile, dim: int = 0) -> Iterator[RowBatch]:
        """Yield the sound rows of a table, with vectors of the length `dim`; 0 for none."""
        pa, _ = parquet()
        path = self.folder / table.file
        if not path.is_file():
            return
        seen: set[str] = set()
        try:
            batches = self._read(table, ["vector"] if dim else [])
            for batch in _one_ahead(batches) if dim else batches:
                yield self._check_rows(table, self._decode(table, batch, dim), seen)
        except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
            raise BadInput(
                f"{path} cannot be read ({error}): copy the export again, or make a new one with "
                "`ku export`"
            ) from error

    def _check_rows(self, table: TableFile, batch: RowBatch, seen: set[str]) -> RowBatch:
        """Return the sound rows of a batch whose keys are not among `seen`; report the others."""
        lengths = np.ones(len(batch.vectors))
        if not self.is_whole:  # the vectors of a whole export are unchanged
            lengths = np.linalg.norm(batch.vectors.astype(np.float32), axis=1)
        off = (lengths != 0) & ~(np.abs(lengths - 1) < _UNIT_LENGTH)
        wrong = set(np.flatnonzero(off).tolist())
        refused: dict[int, str] = {}
        for name, check in _CHECKS.items():
            values = batch.columns.get(name, ())
            reasons = {value: _refusal(check, value, name) for value in set(values)}
            if any(reasons.values()):
                refused |= {n: why for n, value in enumerate(values) if (why := reasons[value])}
        for number, key in enumerate(batch.columns.get(table.key, ())):
            if key in seen:
                refused[number] = "it occurs more than once in the table: the first row is kept"
            elif key is not None and number not in refused:
                seen.add(key)
        for number in sorted(refused.keys() | wrong):
            reason = refused.get(number) or (
                f"its vector has length {lengths[number]:.4g}, expected 1; it was encoded again"
            )
            row = batch.row(number)
            named = map(row.get, ("id", "uri", "source", "hash", "unit", "name"))
            item = next((name for name in named if name is not None), "a row")
            self.leave_out(f"{table.name}: {item}", reason)
        sound = [number for number in range(len(lengths)) if number not in refused]
        without_vector = {*batch.without_vector, *wrong}
        if len(sound) == len(lengths):
            return RowBatch(batch.columns, batch.vectors, without_vector)
        kept = {name: [of[n] for n in sound] for name, of in batch.columns.items()}
        places = {place for place, number in enumerate(sound) if number in without_vector}
        return RowBatch(kept, batch.vectors[sound], places)

    def _read(self, table: TableFile, vectors: Sequence[str]) -> Iterator[Any]:
        """Yield the batches of a file; a row group that cannot be read is reported and skipped."""
        pa, pq = parquet()
        path = self.folder / table.file
        there = set(pq.read_schema(path).names)
        columns = [*table.types(), *vectors]
        owner = [] if {"source", "unit"} & there or "unit" not in columns else ["unit"]
        for name in (*table.required.split(), *owner):
            if name not in there:
                raise BadInput(
                    f"{path} has no column {name!r}, only {', '.join(sorted(there))}; "
                    "docs/transfer.md lists the columns"
                )
        columns = [name for name in columns if name in there]
        with pq.ParquetFile(path, page_checksum_verification=True) as data:
            for group in range(data.num_row_groups):
                try:
                    yield from data.iter_batches(_BATCH_ROWS, row_groups=[group], columns=columns)
                except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
                    count = data.metadata.row_group(group).num_rows
                    item = f"{table.file}: some of {count} rows"
                    self.leave_out(item, f"they are damaged: {error}")

    def _decode(self, table: TableFile, batch: Any, dim: int) -> RowBatch:  # noqa: ANN401 - of pyarrow
        """Return a batch of pyarrow as Python values, in the types of the table."""
        pa, _ = parquet()
        types = table.types()
        columns = {}
        for name in types.keys() & set(batch.schema.names):
            column = batch.column(name)
            same = column.type == types[name]  # a cast to the same type copies
            columns[name] = (column if same else column.cast(types[name])).to_pylist()
        if "vector" not in batch.schema.names:
            none = np.zeros((batch.num_rows, dim), "<f2")
            return RowBatch(columns, none, range(batch.num_rows))
        column = batch.column("vector")
        if not pa.types.is_floating(getattr(column.type, "value_type", pa.null())):
            raise BadInput(
                f"{self.folder / table.file} holds vectors as {column.type}: expected lists of "
                "float16, float32 or float64"
            )
        for size in column.value_lengths().drop_null().unique().to_pylist():
            if size != dim:
                raise BadInput(
                    f"{self.folder} has vectors of {size} numbers for each {table.vectors}, the "
                    f"encoder of the knowledge base makes {dim}: leave the column out, so that "
                    "they are encoded again"
                )
        numbers = column.flatten()
        if numbers.null_count:
            array = numbers.to_numpy(zero_copy_only=False)
        else:  # `to_numpy` imports pandas
            array = np.from_dlpack(numbers)
        array = array.astype("<f2", copy=False).reshape(-1, dim)
        if not column.null_count:
            return RowBatch(columns, array, ())
        present = column.is_valid().to_pylist()
        vectors = np.zeros((batch.num_rows, dim), "<f2")
        vectors[present] = array
        return RowBatch(columns, vectors, [n for n, valid in enumerate(present) if not valid])


def _one_ahead(items: Iterator[Any]) -> Iterator[Any]:
    """Yield items while a thread reads the next one: decoding vectors needs no interpreter lock."""
    with ThreadPoolExecutor(1, "ku-parquet") as pool:
        following = pool.submit(next, items, None)
        while (item := following.result()) is not None:
            following = pool.submit(next, items, None)
            yield item


_CHECKS: Mapping[str, Callable[[object, str], str | None]] = {
    "uri": arguments.identity,
    "source": lambda value, what: None if value is None else arguments.identity(value, what),
    "text": arguments.text,
    "recogniser": arguments.text,
}
"""Column → check of its values."""


def _refusal(check: Callable[[object, str], object], value: object, column: str) -> str | None:
    """Return why a value is not allowed in a column; None if it is."""
    try:
        check(value, f"the {column}")
    except BadInput as error:
        return str(error)
    return None


def settings_of(folder: Path, encoder: str | None = None) -> dict[str, Any]:
    """Return the settings of a new base like that of an export; `Mismatch` if there are none."""
    manifest = read_manifest(folder / MANIFEST)
    if not manifest:
        Export(folder)
        return {"encoder": encoder} if encoder else {}
    exported = manifest.get("encoder") or {}
    spec = encoder or exported.get("spec")
    if exported and not spec:
        raise Mismatch(
            f"{folder} was made with the encoder object {exported['fingerprint']}: "
            "open a base with it and call its `import_`, or name another with --encoder"
        )
    settings: dict[str, Any] = {"encoder": spec, "language": manifest.get("language")}
    if encoder is None:
        settings["segmenter"] = (manifest.get("segmenter") or {}).get("spec")
        settings["max_tokens"] = (manifest.get("settings") or {}).get("max_tokens")
    return {name: value for name, value in settings.items() if value}


def read_manifest(path: Path) -> dict[str, Any]:
    """Return a manifest; {} where there is none."""
    if not path.exists():
        return {}
    try:
        manifest = arguments.STRICT_JSON.decode(path.read_text(encoding="utf-8"))
        if not isinstance(manifest, dict):
            raise ValueError("it holds no object")
        for key, expected in _MANIFEST.items():
            value = manifest.get(key)
            if not _has_type(value, expected) and not (value is None and key not in _NEEDED):
                raise ValueError(f"{key!r} is {value!r:.80}")
    except (OSError, ValueError, RecursionError) as error:
        raise BadInput(
            f"{path} cannot be read ({str(error)[:200]}): copy the export again; without this "
            "file its tables are read like those of another program"
        ) from error
    if manifest["format"] > FORMAT:
        raise Mismatch(
            f"{path.parent} has format {manifest['format']}, this version of ku-rag reads up to "
            f"{FORMAT}: install a newer ku-rag to import it"
        )
    return dict(manifest)


def _has_type(value: object, expected: Any) -> bool:  # noqa: ANN401 - a type, or a structure of types
    if isinstance(expected, dict):
        return isinstance(value, dict) and all(
            _has_type(inner, expected.get(str) or expected[key])
            for key, inner in value.items()
            if str in expected or key in expected
        )
    if isinstance(expected, list):
        return (
            isinstance(value, list)
            and len(value) == len(expected)
            and all(map(_has_type, value, expected))
        )
    return isinstance(value, expected)
