"""Records as JSON values, for the pipe between a parser process and the process that started it.

What a parser sends is data of foreign origin: it is made of the types below, which check it, and
never unpickled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path, PosixPath
from typing import Any

from ku_rag.ingest.readers.decoding import PartialSource
from ku_rag.types import Cell, Quarantined, Record, Relation, Source, Table, TextPlace, Unit, Word

Item = Record | Quarantined
"""What a reader yields."""


class MemberPath(PosixPath):
    """The path of a picture in a tar file, with the offset and the number of its bytes."""

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


class EmbeddedPath(PosixPath):
    """The path of a picture that is part of a document, with its file in base 64."""

    __slots__ = ("content",)
    content: str

    @classmethod
    def of(cls, path: str, content: str) -> EmbeddedPath:
        """Return the path of a picture."""
        picture = cls(path)
        picture.content = content
        return picture

    def __reduce__(self) -> tuple[Any, ...]:
        return EmbeddedPath.of, (str(self), self.content)


class UnpackedPath(PosixPath):
    """The path of a picture in an archive, with a file that exists until the next item is read."""

    __slots__ = ("file",)
    file: Path


class ScannedPage(EmbeddedPath):
    """The path of the picture of a page without text, its tilt, and what was read in it."""

    __slots__ = ("page", "printed", "tilt")
    page: int
    tilt: float
    printed: tuple[str, list[Word]]

    @classmethod
    def numbered(cls, path: str, content: str, page: int, tilt: float) -> ScannedPage:
        """Return the path of the picture of a page."""
        picture = cls(path)
        picture.content, picture.page, picture.tilt = content, page, tilt
        return picture

    def __reduce__(self) -> tuple[Any, ...]:
        return ScannedPage.numbered, (str(self), self.content, self.page, self.tilt)


_FIELDS: Mapping[type, list[str]] = {
    kind: [field.name for field in fields(kind)]
    for kind in (Cell, PartialSource, TextPlace, Quarantined, Record, Relation, Source, Table, Unit)
}
_BUILDERS: Mapping[str, Callable[..., object]] = {
    **{kind.__name__: kind for kind in _FIELDS},
    "tuple": lambda *values: values,
    "Path": Path,
    "MemberPath": MemberPath.at,
    "EmbeddedPath": EmbeddedPath.of,
    "ScannedPage": ScannedPage.numbered,
}


def encode_item(value: object) -> Any:  # noqa: ANN401 - any JSON value
    """Return an item, or a part of one, as a list of the name of its type and its fields."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Cell) and value.link is None:
        return value.text
    if isinstance(value, tuple):
        return ["tuple", *map(encode_item, value)]
    if (names := _FIELDS.get(type(value))) is not None:
        return [type(value).__name__, *(encode_item(getattr(value, name)) for name in names)]
    if isinstance(value, MemberPath | EmbeddedPath):
        return [type(value).__name__, *value.__reduce__()[1]]
    if isinstance(value, Path):
        return ["Path", str(value)]
    return value


def decode_item(value: object) -> Item:
    """Return the item of `encode_item`."""
    item = _decode(value)
    if isinstance(item, Record | Quarantined):
        return item
    raise TypeError(f"expected a record, not {type(item).__name__}")


def _decode(value: object) -> object:
    if not isinstance(value, list):
        return value
    kind, *parts = value
    return _BUILDERS[kind](*map(_decode, parts))
