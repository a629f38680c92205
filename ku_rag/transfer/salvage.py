"""What is sound of a damaged base, in the layout of an export.

The file is read page by page (`pages`); a row is known by its checksum, wherever it stands. The
rows go into a new store beside the export, which is mended where it names what is lost, and
exported.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ku_rag.store import schema, vectors
from ku_rag.store.connection import Connection
from ku_rag.store.database import checksum
from ku_rag.store.layout import Layout
from ku_rag.text.tokens import name_key
from ku_rag.transfer import atomic_folder, mending, parquet_export
from ku_rag.transfer.pages import Cell, Pages, Value
from ku_rag.transfer.tables import parquet
from ku_rag.types import Quarantined

_META = frozenset({"encoder", "segmenter", "max_tokens", "id"})
_WORK = "salvage.sqlite"


@dataclass(frozen=True, slots=True)
class _Shape:
    """How the rows of a table are told from all others.

    Args:
        table: its name.
        columns: of the record, in order; the first one is the row's number.
        summed: places of the fields that the checksum covers.
        kinds: type of each field: i, t, b (integer, text, blob), capital where it may be NULL.
    """

    table: str
    columns: tuple[str, ...]
    summed: tuple[int, ...]
    kinds: str

    def fits(self, cell: Cell) -> bool:
        """Whether a record has the form of a row of this table."""
        # A later schema may have appended columns; they come after these.
        fields = cell.fields
        return len(fields) > len(self.kinds) and all(map(_is, fields[1:], self.kinds))

    def is_sound(self, cell: Cell) -> bool:
        """Whether a record of this form has its checksum."""
        at = self.columns.index("checksum")
        values: list[Any] = [cell.fields[n] for n in self.summed]
        return checksum(*values) == cell.fields[at]


def _shape(table: str, columns: str, kinds: str, summed: str | None = None) -> _Shape:
    names = ("row", *columns.split())
    wanted = (summed or columns.removesuffix(" checksum")).split()
    return _Shape(table, names, tuple(names.index(name) for name in wanted), kinds)


_SHAPES = (
    _shape("units", "id name kind aliases metadata match checksum", "tttttii"),
    _shape(
        "sources",
        "uri unit origin hash declared chunks images checksum",
        "tItttiii",
        "uri unit origin hash declared",
    ),
    _shape("chunks", "source position document hash text checksum", "iiitti"),
    _shape("images", "hash file width height bytes checksum", "ttiiii"),
    _shape("vectors", "kind item encoder vector checksum", "tiibi"),
    _shape(
        "relations",
        "source head relation target target_key target_kind tail information condition checksum",
        "iitttTITTi",
        "source relation target target_kind information condition",
    ),
)
_ENCODER = ("row", "fingerprint", "dim")
_ENTITY = ("row", "name", "key", "kind", "unit")
_SHOWING = ("source", "position", "image", "unit")
_TYPES: dict[str, type | tuple[type, ...]] = {"i": int, "t": str, "b": bytes}


def _is(value: Value, kind: str) -> bool:
    if value is None:
        return kind.isupper()
    return isinstance(value, _TYPES[kind.lower()])


@dataclass(slots=True)
class _Lost:
    """What was met and is not sound.

    Args:
        failed: rows that fail their checksum, by table.
        names: what they call themselves, by table and row.
    """

    failed: Counter[str] = field(default_factory=Counter)
    names: dict[tuple[str, int], str] = field(default_factory=dict)


def salvage(layout: Layout, folder: Path) -> dict[str, Any]:
    """Write everything that is sound of a base; nothing of the base is opened or changed.

    Args:
        layout: where the damaged base lies.
        folder: of the export: new, empty, or an earlier export.

    Returns:
        What an export returns, and "salvaged": for each table the number of rows "saved", and what
        is "lost", as far as it is known.

    Raises:
        NotFound: there is no store, or it is empty.
        Refused: the folder holds something else.
        ReadOnly: it cannot be written.
        MissingExtra: pyarrow is not installed.
    """
    parquet()
    started = time.monotonic()
    with (
        Pages(layout.database) as pages,
        atomic_folder.beside(folder, replaces=parquet_export.is_export, what="an export") as made,
    ):
        work = made / _WORK
        try:
            with closing(_store(work)) as connection:
                lost, units, sources = _fill(connection, pages)
                found = mending.mend(connection, pages, lost.names, units=units, sources=sources)
                saved = {
                    shape.table: connection.execute(
                        f"SELECT count(*) FROM {shape.table}"
                    ).fetchone()[0]
                    for shape in _SHAPES
                }
                done = parquet_export.write(connection, layout, made, settings={}, salvaged=True)
        finally:
            for one in made.glob(f"{_WORK}*"):
                one.unlink()
    if not pages.free_list_read:
        done.left_out.append(
            Quarantined(
                "free pages",
                "which pages hold what was deleted cannot be read: rows that were deleted since "
                "the last `ku compact` may be among those that were saved",
            )
        )
    done.left_out += [
        Quarantined(f"{table}: {one}", "lost") for table, gone in found.items() for one in gone
    ]
    done.seconds = time.monotonic() - started
    return {
        **done.to_dict(),
        "salvaged": {
            table: {
                "saved": number,
                "lost": found[table],
                "failed_checksum": lost.failed[table],
            }
            for table, number in saved.items()
        },
        "pages": {"read": len(pages), "broken": list(pages.broken)},
    }


def _store(path: Path) -> Connection:
    """An empty store that takes rows in any order; what is left half done is thrown away."""
    connection = Connection(str(path))
    connection.execute("PRAGMA journal_mode = OFF")
    connection.execute("PRAGMA synchronous = OFF")
    schema.migrate(connection, application=0)
    connection.execute("PRAGMA foreign_keys = OFF")
    return connection


def _fill(connection: Connection, pages: Pages) -> tuple[_Lost, mending.Index, mending.Index]:
    """Put every sound row where it belongs; returns what the indexes of ids and uris say."""
    lost = _Lost()
    connection.execute("BEGIN")
    for cell in map(_unfolded, pages.rows()):
        shape = next((shape for shape in _SHAPES if shape.fits(cell)), None)
        if shape is None:
            _put_unsummed(connection, cell)
        elif shape.is_sound(cell):
            values = (cell.row, *cell.fields[1 : len(shape.columns)])
            if shape.table == "vectors":
                _put_vector(connection, values)
            else:
                _put(connection, shape.table, shape.columns, values)
        elif shape.table != "vectors" or cell.fields[1] in ("chunk", "image"):
            lost.failed[shape.table] += 1
            lost.names[shape.table, cell.row or 0] = str(cell.fields[1])
    units = mending.Index(dict(connection.execute("SELECT row, id FROM units")))
    sources = mending.Index(dict(connection.execute("SELECT row, uri FROM sources")))
    for page in pages.entries():
        pairs = [
            (cell.fields[1], cell.fields[0])
            for cell in page
            if len(cell.fields) == 2 and _is(cell.fields[0], "t") and _is(cell.fields[1], "i")
        ]
        units.look_at(pairs)
        sources.look_at(pairs)
        for cell in page:
            _put_entry(connection, cell.fields)
    connection.execute("COMMIT")
    return lost, units, sources


def _unfolded(cell: Cell) -> Cell:
    """A vector as the first schema kept it; the second keeps what it is of in its row's number."""
    match cell.fields:
        case (None, bytes(vector), int(stored)) if cell.row is not None:
            return Cell(cell.row, (None, *vectors.placed(cell.row), vector, stored))
    return cell


def _put_vector(connection: Connection, values: Sequence[Value]) -> None:
    match values:
        case (_, "chunk" | "image" as kind, int(item), int(encoder), vector, stored):
            columns = ("row", "vector", "checksum")
            row = vectors.place(kind, encoder, item)
            _put(connection, "vectors", columns, (row, vector, stored))


def _put_unsummed(connection: Connection, cell: Cell) -> None:
    """Rows of tables without checksums, known by what they hold: encoders and entities."""
    match cell.fields:
        case (None, str(fingerprint), int(dim)) if 0 < dim <= 1 << 20:
            _put(connection, "encoders", _ENCODER, (cell.row, fingerprint, dim))
        case (None, str(name), str(key), str(kind), int() | None as unit) if key == name_key(name):
            _put(connection, "entities", _ENTITY, (cell.row, name, key, kind, unit))


def _put_entry(connection: Connection, fields: Sequence[Value]) -> None:
    match fields:
        case (str(key), str(value)) if key in _META and _is_json(value):
            _put(connection, "meta", ("key", "value"), (key, value))
        case (int(source), int(position), int(image), int() | None as unit):
            _put(connection, "unit_images", _SHOWING, (source, position, image, unit))


def _put(
    connection: Connection, table: str, columns: Sequence[str], values: Sequence[Value]
) -> None:
    marks = ", ".join("?" * len(columns))
    connection.execute(f"REPLACE INTO {table} ({', '.join(columns)}) VALUES ({marks})", values)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
