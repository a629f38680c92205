"""From a record to hashed texts and pictures that can be compared with the store."""

from __future__ import annotations

import base64
import hashlib
import zipfile
import zlib
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ku_rag.arguments import ready_vectors, regular_file
from ku_rag.encoders.base import Encoder, Vectors
from ku_rag.encoders.pair import side
from ku_rag.errors import BadInput, NotFound
from ku_rag.ingest.assembly import Declaration
from ku_rag.ingest.readers.decoding import MAX_PICTURE_BYTES, PartialSource
from ku_rag.ingest.readers.item_codec import EmbeddedPath, MemberPath, UnpackedPath
from ku_rag.pictures import check_all_differ, probe
from ku_rag.store import relations, text_places
from ku_rag.store.connection import as_json
from ku_rag.store.content_rows import content_hash
from ku_rag.store.text_places import PlaceRow
from ku_rag.types import Quarantined, Record, Relation, Table, Unit, Word


@dataclass(slots=True)
class PreparedPicture:
    """A picture file.

    Args:
        digest: SHA-256 of the bytes.
        suffix: Of the file's name, with the dot.
        width: Pixels of the upright picture.
        height: Likewise.
        vector: float32[dim], once encoded.
        printed: Fingerprint of a recogniser and the words that it has read, once it has.
    """

    path: Path
    data: bytes
    digest: str
    suffix: str
    width: int
    height: int
    vector: NDArray[np.float32] | None = None
    printed: tuple[str, Sequence[Word]] | None = None


@dataclass(frozen=True, slots=True)
class ReadyVectors:
    """Vectors that a caller made of one record. Each text is then one chunk.

    Args:
        texts: float32[number of texts, dim]; None to encode the texts.
        images: float32[number of images, dim]; None to encode the images.
    """

    texts: Vectors | None = None
    images: Vectors | None = None


def split_vectors(
    units: Sequence[Unit], vectors: Mapping[str, Vectors] | None, encoder: Encoder
) -> list[ReadyVectors]:
    """Split the vectors of many units into those of each.

    `vectors` are "texts" and/or "images", float32[number of all of them, dim], unit by unit.

    Raises:
        BadInput: The vectors do not fit, or two pictures of one unit are the same.
    """
    if vectors is None:
        return [ReadyVectors()] * len(units)
    texts = [len(documents(unit.texts, unit.tables)) for unit in units]
    images = [len(unit.images) for unit in units]
    ready = ready_vectors(
        vectors,
        expected={
            "texts": (sum(texts), side(encoder, "chunk").dim),
            "images": (sum(images), side(encoder, "image").dim),
        },
    )
    if ready["images"] is not None:
        for unit in units:
            check_all_differ(unit.images)
    parts = _split(ready["texts"], texts), _split(ready["images"], images)
    return [ReadyVectors(*both) for both in zip(*parts, strict=True)]


def _split(vectors: Vectors | None, sizes: Sequence[int]) -> list[Vectors | None]:
    if vectors is None:
        return [None] * len(sizes)
    return list(np.split(vectors, np.cumsum(sizes)[:-1]))


@dataclass(slots=True)
class PreparedSource:
    """One source, ready to be compared with the store, then encoded, then stored.

    Args:
        origin: "ingest", "add", "join" or "update".
        declared: What it declares of its unit; None for text that belongs to no unit.
        texts: Its documents; the rows of its tables come last.
        texts_hash: SHA-256 of the documents.
        pictures_hash: SHA-256 of the pictures.
        file_hash: Of a document with pages, see `Source`.
        first_row: Number of the document that holds the first row of the tables.
        places: Of its documents, see `text_places`.
        partial: Pictures of it could not be read: those that are stored are kept.
        chunks: (number of the document, text) each; None before the documents are cut.
        chunk_vectors: float32 or float16[number of chunks, dim]; None before they are encoded.
        keeps_texts: The stored texts are those of the source.
        keeps_pictures: Likewise the pictures.
        replaces_others: Its texts and pictures, except those that are kept, replace the content of
            all sources of the unit.
    """

    uri: str
    origin: str
    declared: Declaration | None
    texts: Sequence[str]
    pictures: list[PreparedPicture]
    texts_hash: str
    pictures_hash: str
    relations: Sequence[Relation] = ()
    partial: bool = False
    tables: Sequence[Table] = ()
    first_row: int = 0
    places: Sequence[PlaceRow] = ()
    chunks: list[tuple[int, str]] | None = None
    chunk_vectors: Vectors | None = None
    keeps_texts: bool = False
    keeps_pictures: bool = False
    replaces_others: bool = False
    file_hash: str = ""

    @property
    def digest(self) -> str:
        """The hashes, as they are stored and compared."""
        return ":".join(filter(None, (self.texts_hash, self.pictures_hash, self.file_hash)))


def split_digest(digest: str) -> tuple[str, str, str]:
    """Return the hashes of texts, pictures and file of a stored `PreparedSource.digest`.

    One that is not stored is "".
    """
    texts, pictures, file = (*digest.split(":"), "", "")[:3]
    return texts, pictures, file


@dataclass(slots=True)
class PreparedRecord:
    """A record on its way into the store.

    Args:
        unit: Id of the unit that the sources describe; None for text that belongs to no unit.
    """

    unit: str | None
    sources: list[PreparedSource]

    def pictures(self) -> Iterator[PreparedPicture]:
        """Yield the pictures of all sources, without those that are kept as they are stored."""
        for source in self.sources:
            if not source.keeps_pictures:
                yield from source.pictures

    def remove_pictures(self, digests: Container[str]) -> list[PreparedPicture]:
        """Remove pictures, and sources that have nothing else; return the pictures."""
        removed = [picture for picture in self.pictures() if picture.digest in digests]
        for source in list(self.sources):
            kept = [picture for picture in source.pictures if picture.digest not in digests]
            if source.keeps_pictures or len(kept) == len(source.pictures):
                continue
            source.pictures, source.partial = kept, True
            source.pictures_hash = hash_pictures((p.digest for p in kept), partial=True)
            described = source.declared is not None and source.declared.describes_unit
            if not (kept or source.texts or described):
                self.sources = [other for other in self.sources if other is not source]
        return removed


def documents(texts: Sequence[str], tables: Sequence[Table]) -> Sequence[str]:
    """Return what is cut into chunks: texts, then the rows of tables."""
    rows = [table.row_text(n) for table in tables for n in range(len(table.rows))]
    return (*texts, *rows) if rows else texts


def hash_texts(
    texts: Sequence[str], tables: Sequence[Table] = (), places: Sequence[PlaceRow] = ()
) -> str:
    """Return the SHA-256 of texts, and of tables and places if there are any, as a list in JSON."""
    contents = [*texts, *(table.to_dict() for table in tables)]
    return content_hash(as_json([*contents, *places]))


def earlier_texts_hash(texts: Sequence[str]) -> str:
    """Return the SHA-256 of texts as version 0.2.0 computed it, before there were tables."""
    digest = hashlib.sha256()
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(data) + data)
    return digest.hexdigest()


def hash_pictures(digests: Iterator[str], *, partial: bool = False) -> str:
    """Return the SHA-256 of picture digests; `partial` tells a part from a whole."""
    return content_hash("".join(digests) + "and others" * partial)


def prepare(
    record: Record, origin: str, vectors: ReadyVectors | None = None
) -> tuple[PreparedRecord, list[Quarantined]]:
    """Read and hash what a record names; return it, and the pictures that cannot be read.

    The origin is "ingest", "add", "join" or "update"; vectors are of the record's only source.
    """
    unit = record.unit
    sources: list[PreparedSource] = []
    broken: list[Quarantined] = []
    for source in record.sources:
        pictures = []
        for path in source.images:
            try:
                pictures.append(read_picture(path))
            except BadInput as error:
                broken.append(Quarantined(str(path), str(error)))
        stated = unit.relations if unit and not sources else ()
        declared = Declaration.from_unit(unit, relations.digest(stated)) if unit else None
        described = declared is not None and declared.describes_unit
        if pictures or source.texts or source.tables or not source.images or described:
            places = text_places.rows(source.places, source.tables)
            partial = isinstance(source, PartialSource) or len(pictures) < len(source.images)
            sources.append(
                PreparedSource(
                    source.uri,
                    origin,
                    declared,
                    documents(source.texts, source.tables),
                    pictures,
                    hash_texts(source.texts, source.tables, places),
                    hash_pictures((p.digest for p in pictures), partial=partial),
                    stated,
                    partial,
                    source.tables,
                    len(source.texts),
                    places,
                    file_hash=source.file_hash,
                )
            )
    if vectors and sources:
        if vectors.texts is not None:
            sources[0].chunks = list(enumerate(sources[0].texts))
            sources[0].chunk_vectors = vectors.texts
        if vectors.images is not None:
            for picture, vector in zip(sources[0].pictures, vectors.images, strict=False):
                picture.vector = vector
    return PreparedRecord(unit.id if unit else None, sources), broken


def read_picture(path: Path) -> PreparedPicture:
    """Read a picture file and its header.

    Raises:
        BadInput: The file is missing, no picture, or too large.
    """
    try:
        data = _picture_bytes(path)
    except (OSError, NotFound) as error:
        raise BadInput(f"the picture cannot be read ({error}): check {path}") from error
    width, height, kind = probe(data)
    suffix = path.suffix.lower() or f".{kind.lower()}"
    fields = (path.absolute(), data, content_hash(data), suffix, width, height)
    return PreparedPicture(*fields, printed=getattr(path, "printed", None))


def _picture_bytes(path: Path) -> bytes:
    """Read a picture file, or a member of a zip or tar file, `report.docx/word/media/image1.png`.

    Raises:
        NotFound, OSError: It is not there, or cannot be read.
        BadInput: It is no regular file, or too large.
    """
    if isinstance(path, UnpackedPath):
        return _picture_bytes(path.file)
    if isinstance(path, EmbeddedPath):
        return base64.b64decode(path.content, validate=True)
    if isinstance(path, MemberPath):
        archive = next(above for above in path.parents if above.is_file())
        with archive.open("rb") as file:
            file.seek(path.offset)
            return file.read(path.size)
    document = None
    if not path.is_file():
        document = next((above for above in path.parents if above.is_file()), None)
    if document is None:
        return regular_file(path, "a picture file").read_bytes()
    try:
        with (
            zipfile.ZipFile(document) as members,
            members.open(path.relative_to(document).as_posix()) as member,
        ):
            data = member.read(MAX_PICTURE_BYTES + 1)
    except (KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise NotFound(f"{path} is not there ({error}): expected a picture") from error
    if len(data) > MAX_PICTURE_BYTES:
        raise BadInput(
            f"the picture unpacks to more than {MAX_PICTURE_BYTES:,} bytes: make it smaller"
        )
    return data
