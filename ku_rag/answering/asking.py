"""One question from end to end: region, units, chunks, reading, passage, report.

Data flows one way. Every step is timed, and what each one found is in the answer.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from PIL.Image import Image

from ku_rag.answering import extractive
from ku_rag.encoders.base import Encoder
from ku_rag.errors import BadInput
from ku_rag.indexes.vectors import VectorIndex
from ku_rag.pictures import load_picture
from ku_rag.regions.base import Segmenter
from ku_rag.retrieval.matching import UnitMatch, match
from ku_rag.retrieval.paths import search_paths
from ku_rag.retrieval.search import Hit, search_all, search_units
from ku_rag.store.database import Database, check
from ku_rag.store.layout import Layout
from ku_rag.types import Answer, Evidence, Match, Reading, Region

_LONGEST_QUESTION = 100_000
_MOST_PATHS = 5
_THUMBNAIL_SIDE = 160
_LONGEST_SIDE = 1600
"""Larger pictures are looked at in this size; regions are told in the pixels of the original."""


@dataclass(frozen=True, slots=True)
class Retrieval:
    """What a question is asked of: a store, its indexes and its models."""

    database: Database
    layout: Layout
    encoder: Encoder
    segmenter: Segmenter
    images: VectorIndex
    chunks: VectorIndex

    def picture(self, row: int) -> Image:
        """The stored picture of a row, decoded no larger than comparing needs."""
        (file,) = self.database.connection.execute(
            "SELECT file FROM images WHERE row = ?", (row,)
        ).fetchone()
        return load_picture(self.layout.image(file), _THUMBNAIL_SIDE)


class _Clock:
    """Milliseconds by step."""

    def __init__(self) -> None:
        self.times: dict[str, float] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.times[name] = round((time.perf_counter() - started) * 1000, 2)


def ask(
    base: Retrieval,
    *,
    image: str | Path | Image | None,
    question: str,
    k_units: int,
    k_chunks: int,
    passage: Path | None,
    report: Path | None,
) -> Answer:
    """Answer a question about a picture; see `KnowledgeBase.query`.

    Raises:
        BadInput: the picture cannot be read, or the question is empty or too long.
    """
    _check_question(question)
    clock = _Clock()
    started = time.perf_counter()
    with clock.step("picture"):
        picture, scale = _look_at(image)
    with clock.step("match"):
        matches, region = _match(base, picture, question, k_units)
    with clock.step("search"):
        units = _units(base, matches)
        hits = _search(base, question, matches, units, k_chunks)
        evidence = _evidence(
            base, hits, {m.unit: unit.id for m, unit in zip(matches, units, strict=True)}
        )
        paths = search_paths(
            base.database.connection,
            question=question,
            units=[m.unit for m in matches],
            k=_MOST_PATHS,
            first_label=len(evidence) + 1,
        )
    with clock.step("read"):
        reading = _read(question, evidence, matches, units, with_picture=picture is not None)
    answer = Answer(
        question=question,
        image=str(image) if isinstance(image, str | Path) else None,
        region=region and _scaled(region, scale),
        units=tuple(units),
        chunks=tuple(evidence),
        paths=tuple(paths),
        passage=(),
        draft=None,
        reading=reading,
        changed=False,
        models={
            "encoder": base.encoder.fingerprint,
            "segmenter": base.segmenter.fingerprint,
            "reader": extractive.NAME,
        },
        timings_ms=clock.times,
    )
    if passage or report:
        with clock.step("passage"):
            answer = _write_pages(base, answer, passage, report, picture, region)
    clock.times["total"] = round((time.perf_counter() - started) * 1000, 2)
    return replace(answer, timings_ms=dict(clock.times))


def find(
    base: Retrieval, *, image: str | Path | Image | None, text: str, k: int
) -> dict[str, list[dict[str, Any]]]:
    """Units and chunks for a picture, a text, or both; see `KnowledgeBase.search`.

    Raises:
        BadInput: neither was given, or the picture cannot be read.
    """
    if image is None and not text.strip():
        raise BadInput("nothing to search for: give a picture, a text, or both")
    picture, _ = _look_at(image)
    matches, _ = _match(base, picture, text, k)
    units = _units(base, matches)
    if text.strip() and picture is None:
        hits = search_all(
            base.database.connection, question=text, encoder=base.encoder, chunks=base.chunks, k=k
        )
    else:
        hits = _search(base, text, matches, units, k)
    ids = {m.unit: unit.id for m, unit in zip(matches, units, strict=True)}
    evidence = _evidence(base, hits, ids)
    return {
        "units": [{"id": u.id, "name": u.name, "score": u.score} for u in units],
        "chunks": [
            {
                "chunk": e.chunk,
                "unit_ids": list(e.unit_ids),
                "source": e.source,
                "text": e.text,
                "score": e.score,
            }
            for e in evidence
        ],
    }


def _check_question(question: str) -> None:
    if not question.strip():
        raise BadInput('the question is empty: ask something, such as "What is this?"')
    if len(question) > _LONGEST_QUESTION:
        raise BadInput(
            f"the question has {len(question)} characters, at most {_LONGEST_QUESTION} are read: "
            "put long texts into the knowledge base and ask about them"
        )


def _look_at(image: str | Path | Image | None) -> tuple[Image | None, float]:
    """The picture as it is looked at, and how many of its own pixels one of these is."""
    if image is None:
        return None, 1.0
    picture = image.convert("RGB") if isinstance(image, Image) else load_picture(Path(image))
    scale = max(1.0, max(picture.size) / _LONGEST_SIDE)
    if scale > 1:
        width, height = picture.size
        picture = picture.resize((max(1, round(width / scale)), max(1, round(height / scale))))
    return picture, scale


def _match(
    base: Retrieval, picture: Image | None, question: str, k: int
) -> tuple[list[UnitMatch], Region | None]:
    return match(
        base.database.connection,
        image=picture,
        question=question,
        encoder=base.encoder,
        segmenter=base.segmenter,
        images=base.images,
        picture=base.picture,
        k=k,
    )


def _search(
    base: Retrieval,
    question: str,
    matches: Sequence[UnitMatch],
    units: Sequence[Match],
    k: int,
) -> list[Hit]:
    connection = base.database.connection
    if matches:
        named = [(m.unit, unit.name) for m, unit in zip(matches, units, strict=True)]
        return search_units(
            connection,
            question=question,
            units=named,
            encoder=base.encoder,
            chunks=base.chunks,
            k=k,
        )
    return search_all(connection, question=question, encoder=base.encoder, chunks=base.chunks, k=k)


def _units(base: Retrieval, matches: Sequence[UnitMatch]) -> list[Match]:
    connection = base.database.connection
    found = []
    for one in matches:
        unit_id, name = connection.execute(
            "SELECT id, name FROM units WHERE row = ?", (one.unit,)
        ).fetchone()
        file = (
            one.sighting
            and connection.execute(
                "SELECT file FROM images WHERE row = ?", (one.sighting.image_row,)
            ).fetchone()
        )
        image = str(base.layout.image(file[0])) if file else None
        found.append(Match(unit_id, name, one.score, image, one.why))
    return found


def _evidence(base: Retrieval, hits: Sequence[Hit], ids: dict[int, str]) -> list[Evidence]:
    evidence = []
    for number, hit in enumerate(hits, 1):
        source, position, document, digest, text, stored, uri = base.database.connection.execute(
            "SELECT c.source, c.position, c.document, c.hash, c.text, c.checksum, s.uri "
            "FROM chunks c JOIN sources s ON s.row = c.source WHERE c.row = ?",
            (hit.chunk,),
        ).fetchone()
        check(stored, source, position, document, digest, text, what=f"chunk {hit.chunk}")
        listing = tuple(ids[unit] for unit in hit.units) or _listed_by(base, hit.chunk)
        evidence.append(Evidence(f"E{number}", hit.chunk, listing, uri, text, hit.score))
    return evidence


def _listed_by(base: Retrieval, chunk: int) -> tuple[str, ...]:
    rows = base.database.connection.execute(
        "SELECT u.id FROM unit_chunks l JOIN units u ON u.row = l.unit WHERE l.chunk = ? "
        "ORDER BY l.owned DESC, u.id",
        (chunk,),
    )
    return tuple(unit_id for (unit_id,) in rows)


def _read(
    question: str,
    evidence: Sequence[Evidence],
    matches: Sequence[UnitMatch],
    units: Sequence[Match],
    *,
    with_picture: bool,
) -> Reading:
    """Read what is known of the units that the question can be about.

    That is the best match, and whatever the question names: the second best match of a picture is
    another thing, and what holds for it answers nothing.
    """
    if with_picture and not units:
        return Reading("", why="nothing in the picture looks like anything in the knowledge base")
    about = {
        unit.id
        for n, (found, unit) in enumerate(zip(matches, units, strict=True))
        if n == 0 or found.name
    }
    return extractive.read(
        question, [e for e in evidence if not units or about.intersection(e.unit_ids)], units
    )


def _scaled(region: Region, scale: float) -> Region:
    x0, y0, x1, y1 = (round(edge * scale) for edge in region.box)
    return replace(region, box=(x0, y0, x1, y1))


def _write_pages(
    base: Retrieval,
    answer: Answer,
    passage: Path | None,
    report: Path | None,
    picture: Image | None,
    region: Region | None,
) -> Answer:
    from ku_rag.answering.passage import cards, compose

    pictures = {u.id: load_picture(Path(u.image)) for u in answer.units if u.image}
    pages = compose(cards(answer.units, answer.chunks, pictures))
    if passage:
        files = [
            passage,
            *(passage.with_stem(f"{passage.stem}-{n}") for n in range(2, len(pages) + 1)),
        ]
        for file, page in zip(files, pages, strict=False):
            file.parent.mkdir(parents=True, exist_ok=True)
            page.save(file, format="PNG")
        answer = replace(answer, passage=tuple(str(f) for f, _ in zip(files, pages, strict=False)))
    if report:
        from ku_rag.answering.report import render

        html = render(
            replace(answer, region=region), picture=picture, unit_pictures=pictures, pages=pages
        )
        report.parent.mkdir(parents=True, exist_ok=True)
        report.write_text(html, encoding="utf-8")
    return answer
