"""Records as JSON values, for the pipe between a parser process and the process that started it.

What a parser sends is data of foreign origin: it is decoded by its position and checked by the
types, and never unpickled.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PosixPath
from typing import Any

from ku_rag.ingest.readers.decoding import PartialSource
from ku_rag.types import Cell, Quarantined, Record, Relation, Source, Table, Unit

Item = Record | Quarantined
"""What a reader yields."""


class MemberPath(PosixPath):
    """The path of a picture in a tar file, archive and member, with the place of its bytes.

    Attributes:
        offset: Of its first byte in the archive.
        size: Number of its bytes.
    """

    __slots__ = ("offset", "size")
    offset: int
    size: int

    @classmethod
    def at(cls, path: str, offset: int, size: int) -> MemberPath:
        """Return the path of the member at an offset."""
        member = cls(path)
        member.offset, member.size = offset, size
        return member

    def __reduce__(self) -> tuple[Any, ...]:
        return MemberPath.at, (str(self), self.offset, self.size)


def encode_item(item: Item) -> list[Any]:
    """Return an item as lists, texts and numbers, and the metadata as it is."""
    if isinstance(item, Quarantined):
        return [item.item, item.reason]
    unit = item.unit
    return [
        unit
        and [
            *(unit.name, unit.id, unit.kind, unit.aliases, unit.metadata, unit.match),
            [
                [r.relation, r.target, r.target_kind, r.information, r.condition]
                for r in unit.relations
            ],
        ],
        [
            [
                isinstance(source, PartialSource),
                source.uri,
                source.texts,
                [_encode_path(image) for image in source.images],
                [_encode_table(table) for table in source.tables],
            ]
            for source in item.sources
        ],
    ]


def _encode_path(path: Path) -> str | list[Any]:
    return [str(path), path.offset, path.size] if isinstance(path, MemberPath) else str(path)


def _encode_table(table: Table) -> list[Any]:
    rows = [[[c.text, c.link] if c.link else c.text for c in row] for row in table.rows]
    return [table.header, rows, table.name]


def decode_item(value: Sequence[Any]) -> Item:
    """Return the item of `encode_item`.

    Raises:
        BadInput, TypeError, ValueError: The value is no such item.
    """
    first, second = value
    if isinstance(first, str):
        return Quarantined(first, str(second))
    unit = None
    if first is not None:
        name, identity, kind, aliases, metadata, match, relations = first
        unit = Unit(
            name,
            id=identity,
            kind=kind,
            aliases=tuple(aliases),
            metadata=metadata,
            match=match,
            relations=tuple(Relation(*relation) for relation in relations),
        )
    return Record(unit, tuple(_decode_source(*source) for source in second))


def _decode_source(
    partial: bool,
    uri: str,
    texts: Sequence[str],
    images: Sequence[str | Sequence[Any]],
    tables: Sequence[Sequence[Any]],
) -> Source:
    return (PartialSource if partial else Source)(
        uri,
        tuple(texts),
        tuple(Path(one) if isinstance(one, str) else MemberPath.at(*one) for one in images),
        tuple(_decode_table(*table) for table in tables),
    )


def _decode_table(header: Sequence[str], rows: Sequence[Sequence[Any]], name: str) -> Table:
    cells = [
        tuple(Cell(cell) if isinstance(cell, str) else Cell(*cell) for cell in row) for row in rows
    ]
    return Table(tuple(header), tuple(cells), name)
