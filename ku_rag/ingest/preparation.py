"""From a record to what can be compared and stored: hashed texts, hashed pictures."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image

from ku_rag import arguments
from ku_rag.arguments import regular_file
from ku_rag.encoders.base import Encoder, Vectors
from ku_rag.encoders.pair import side
from ku_rag.errors import BadInput, NotFound
from ku_rag.ingest.image_decoding import LONGEST
from ku_rag.ingest.readers.decoding import PartialSource
from ku_rag.pictures import check_all_differ, open_picture, probe
from ku_rag.store.content_rows import content_hash
from ku_rag.types import IngestReport, Quarantined, Record, Relation, Unit


@dataclass(slots=True)
class Picture:
    """A picture file: its bytes, what its header says, and its vector once it has one."""

    path: Path
    data: bytes
    digest: str
    suffix: str
    width: int
    height: int
    vector: NDArray[np.float32] | None = None

    def decode(self) -> Image:
        """The upright RGB picture.

        Raises:
            BadInput: it cannot be decoded.
        """
        return open_picture(self.data, longest=LONGEST)

    def decode_for(self, encoder: Encoder) -> Image:
        """The picture in the size that an encoder looks at, if it says which.

        Raises:
            BadInput: it cannot be decoded.
        """
        fit: Callable[[Image], Image] | None = getattr(side(encoder, "image"), "fit", None)
        image = self.decode()
        return fit(image) if fit else image


@dataclass(frozen=True, slots=True)
class Given:
    """Ready-made vectors of one record: then each text is one chunk, as it is.

    Args:
        texts: float32[number of texts, dim], or None to encode.
        images: float32[number of images, dim], or None to encode.
    """

    texts: Vectors | None = None
    images: Vectors | None = None


def ready_made(
    units: Sequence[Unit], vectors: Mapping[str, Vectors] | None, encoder: Encoder
) -> list[Given]:
    """Share ready-made vectors out among the units that they belong to.

    Args:
        units: what is added.
        vectors: "texts" and/or "images", float32[number of all of them, dim], unit by unit.
        encoder: of the base.

    Raises:
        BadInput: vectors do not fit, or two pictures of one unit are the same.
    """
    if vectors is None:
        return [Given()] * len(units)
    texts = [len(unit.texts) for unit in units]
    images = [len(unit.images) for unit in units]
    found = arguments.ready_vectors(
        vectors,
        expected={
            "texts": (sum(texts), side(encoder, "chunk").dim),
            "images": (sum(images), side(encoder, "image").dim),
        },
    )
    if found["images"] is not None:
        for unit in units:
            check_all_differ(unit.images)
    parts = _parts(found["texts"], texts), _parts(found["images"], images)
    return [Given(*given) for given in zip(*parts, strict=True)]


def _parts(vectors: Vectors | None, sizes: Sequence[int]) -> list[Vectors | None]:
    """The vectors cut into parts of these sizes."""
    if vectors is None:
        return [None] * len(sizes)
    return list(np.split(vectors, np.cumsum(sizes)[:-1]))


@dataclass(slots=True)
class PreparedSource:
    """One source, ready to be compared with the store, then encoded, then stored.

    Args:
        uri: its place.
        texts: its documents.
        pictures: those that could be read.
        relations: what it states of its unit.
        partial: pictures of it could not be read: then those that are stored stay.
        chunks: (number of the text that it is a part of, chunk).
        chunk_vectors: float32[number of chunks, dim], once encoded.
        known: something is stored of it.
        texts_stay: the texts are stored already, or an update replaced just these.
        pictures_stay: likewise.
    """

    uri: str
    texts: tuple[str, ...]
    pictures: list[Picture]
    relations: tuple[Relation, ...] = ()
    partial: bool = False
    chunks: list[tuple[int, str]] = field(default_factory=list)
    chunk_vectors: Vectors | None = None
    known: bool = False
    texts_stay: bool = False
    pictures_stay: bool = False

    @property
    def hashes(self) -> tuple[str, str]:
        """SHA-256 of its texts and of its pictures."""
        texts, pictures = hashlib.sha256(), hashlib.sha256()
        for text in self.texts:
            data = text.encode("utf-8", "surrogatepass")
            texts.update(b"%d:" % len(data) + data)
        for picture in self.pictures:
            pictures.update(picture.digest.encode())
        if self.partial:
            pictures.update(b"and others")
        return texts.hexdigest(), pictures.hexdigest()

    @property
    def digest(self) -> str:
        """Both hashes, as they are stored and compared."""
        return ":".join(self.hashes)


@dataclass(slots=True)
class Prepared:
    """A record on its way into the store.

    Args:
        unit: its declaration; None for shared text.
        sources: what is left to be stored; one, where vectors are given.
        given: its vectors, as far as they are there already.
    """

    unit: Unit | None
    sources: list[PreparedSource]
    given: Given = Given()

    def pictures(self) -> Iterator[Picture]:
        """The pictures of all sources, without those that stay as they are stored."""
        for source in self.sources:
            if not source.pictures_stay:
                yield from source.pictures

    def leave_out(self, digests: Container[str]) -> list[Picture]:
        """Take pictures out, and sources that had nothing else; returns the pictures."""
        left_out = [picture for picture in self.pictures() if picture.digest in digests]
        kept = []
        for source in self.sources:
            sound = [picture for picture in source.pictures if picture.digest not in digests]
            lost = len(sound) < len(source.pictures)
            source.pictures, source.partial = sound, source.partial or lost
            if sound or source.texts or not lost or _says(self.unit):
                kept.append(source)
        self.sources = kept
        return left_out

    def picture_vectors(self) -> Vectors:
        """float32[number of pictures, dim]; encoded before."""
        found = [p.vector for p in self.pictures() if p.vector is not None]
        return np.stack(found) if found else np.empty((0, 0), np.float32)

    def chunk_vectors(self) -> Vectors:
        """float32[number of chunks, dim]; encoded before."""
        found = [s.chunk_vectors for s in self.sources if s.chunk_vectors is not None]
        return np.concatenate(found) if found else np.empty((0, 0), np.float32)

    @property
    def size(self) -> int:
        """Bytes held."""
        texts = sum(len(text) for source in self.sources for text in source.texts)
        return texts + sum(len(picture.data) for picture in self.pictures())


def prepare(record: Record, *, report: IngestReport | None = None) -> Prepared:
    """Read and hash what a record brings.

    Args:
        record: as a reader yields it.
        report: where broken pictures are noted; without one they raise.

    Raises:
        BadInput: a picture cannot be read, and there is no report.
    """
    sources: list[PreparedSource] = []
    for source in record.sources:
        pictures = []
        for path in source.images:
            try:
                pictures.append(_read_picture(path))
            except BadInput as error:
                if report is None:
                    raise
                report.quarantined.append(Quarantined(str(path), str(error)))
        if pictures or source.texts or not source.images or _says(record.unit):
            stated = record.unit.relations if record.unit and not sources else ()
            partial = isinstance(source, PartialSource) or len(pictures) < len(source.images)
            sources.append(PreparedSource(source.uri, source.texts, pictures, stated, partial))
    return Prepared(record.unit, sources)


def _says(unit: Unit | None) -> bool:
    """Whether anything is said of a unit beside its name: it is kept though pictures are lost."""
    return unit is not None and bool(unit.kind or unit.aliases or unit.metadata or unit.relations)


def _read_picture(path: Path) -> Picture:
    try:
        data = regular_file(path, "a picture file").read_bytes()
    except (OSError, NotFound) as error:
        raise BadInput(f"the picture cannot be read ({error}): check {path}") from error
    width, height, kind = probe(data)
    suffix = path.suffix.lower() or f".{kind.lower()}"
    return Picture(path.absolute(), data, content_hash(data), suffix, width, height)
