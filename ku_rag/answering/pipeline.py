"""One question from end to end: region, units, chunks, passage, reading or correction, report.

Data flows one way. Every step is timed, and what each one found is in the answer.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from PIL.Image import Image

from ku_rag.answering import correction, evidence_retrieval, extractive
from ku_rag.answering.correction import Answered, Chain, Material
from ku_rag.answering.evidence_retrieval import Matched
from ku_rag.answering.evidence_retrieval import Retrieval as Retrieval
from ku_rag.encoders.base import Vectors
from ku_rag.errors import BadInput
from ku_rag.mllm.base import MLLM, Reply
from ku_rag.pictures import load_picture
from ku_rag.store.database import snapshot
from ku_rag.types import Answer, Evidence, Reading, Region, SearchResult

_LONGEST_QUESTION = 100_000
_LONGEST_SIDE = 1600
"""Larger pictures are looked at in this size; regions are told in the pixels of the original."""


class _Clock:
    """Milliseconds by step."""

    def __init__(self) -> None:
        self.times: dict[str, float] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.times[name] = round((time.perf_counter() - started) * 1000, 2)


@dataclass(frozen=True, slots=True)
class _Found:
    """What was looked up, pictures of units included: nothing is asked of the store after it."""

    matched: Matched
    evidence: Sequence[Evidence]
    paths: evidence_retrieval.Paths
    pictures: Mapping[str, Image]


@dataclass(frozen=True, slots=True)
class _Most:
    """How much of each is looked up."""

    units: int
    chunks: int
    paths: int


def ask(
    base: Retrieval,
    *,
    image: str | Path | Image | None,
    question: str,
    k_units: int,
    k_chunks: int,
    passage: Path | None,
    report: Path | None,
    mllm: MLLM | None = None,
    kcc: bool = True,
    with_units: bool = True,
    with_paths: bool = True,
    prompts: Path | None = None,
) -> Answer:
    """Answer a question about a picture; see `KnowledgeBase.query`.

    The store is read in one transaction, which is over before a model is shown what was found.

    Args:
        base: what is asked.
        image: a picture or its file; None asks without one.
        question: a sentence.
        k_units: most units.
        k_chunks: most chunks of evidence.
        passage: PNG file for the multimodal passage; further pages get a number.
        report: HTML file for the whole story.
        mllm: answers, and is corrected by what was found; None has the extractive reader answer.
        kcc: False asks the model once, question and evidence together (KU-RAG, section 4.5,
            "w/o KCC").
        with_units: False searches texts alone, by the question and the model's caption of the
            picture, and shows the model no passage ("w/o KU"). Without a model there is no
            caption, and the question alone is searched by.
        with_paths: False leaves out what the graph says of the units.
        prompts: folder of prompts that go before those of the project.

    Raises:
        BadInput: the picture cannot be read, the question is empty or too long, or a prompt is
            none.
        NotFound: the folder of prompts is not there.
        ModelFailed, BudgetSpent: the model did not answer; nothing else answers in its place.
    """
    _check_question(question)
    clock = _Clock()
    started = time.perf_counter()
    with clock.step("picture"):
        picture, scale = _look_at(image)
    chain = Chain(mllm, correction.Prompts.load(prompts)) if mllm else None
    if with_units:
        caption = None
        most = _Most(k_units, k_chunks, evidence_retrieval.MOST_PATHS if with_paths else 0)
        found = _found(base, clock, picture, question, most)
    else:
        with clock.step("caption"):
            caption = chain.describe(picture) if chain and picture else None
        found = _found_in_texts(base, clock, question, caption, k_chunks)
    pages: list[Image] = []
    if passage or report or (chain and with_units):
        from ku_rag.answering.passage import PAGE_HEIGHT, cards, compose

        with clock.step("passage"):
            pages = compose(
                cards(found.matched.units, found.evidence, found.pictures),
                page_height=correction.PAGE_HEIGHT if chain else PAGE_HEIGHT,
            )
    with clock.step("read"):
        if chain:
            shown = pages if with_units else []
            material = _material(question, picture, found, shown, caption)
            answered = chain.correct(material) if kcc else chain.answer_at_once(material)
        else:
            answered = _read(question, found, seen=picture is None or not with_units)
    region = found.matched.region
    answer = Answer(
        question=question,
        image=str(image) if isinstance(image, str | Path) else None,
        region=region and _scaled(region, scale),
        units=tuple(found.matched.units),
        chunks=tuple(found.evidence),
        paths=tuple(found.paths.evidence),
        passage=_write_passage(pages, passage) if passage else (),
        reading=answered.reading,
        models={
            "encoder": base.eyes.encoder.fingerprint,
            "segmenter": base.eyes.segmenter().fingerprint,
            **answered.models,
        },
        timings_ms=clock.times,
        correction=answered.correction,
    )
    clock.times["total"] = round((time.perf_counter() - started) * 1000, 2)
    answer = replace(answer, timings_ms=dict(clock.times))
    if report:
        _write_report(replace(answer, region=region), report, picture, found.pictures, pages)
    return answer


def find(
    base: Retrieval,
    *,
    image: str | Path | Image | None,
    text: str,
    vector: Vectors | None,
    k: int,
) -> SearchResult:
    """Units and chunks for a picture, a text, or both; see `KnowledgeBase.search`.

    Raises:
        BadInput: none was given, or the picture cannot be read.
    """
    if vector is not None:
        return SearchResult((), tuple(evidence_retrieval.evidence_near(base, vector, k)))
    if image is None and not text.strip():
        raise BadInput("nothing to search for: give a picture, a text, or both")
    picture, _ = _look_at(image)
    found = evidence_retrieval.matched(base, picture, text, k)
    if text.strip() and picture is None:
        evidence = evidence_retrieval.evidence_anywhere(base, text, k)
    else:
        evidence = evidence_retrieval.evidence(base, text, found, k)
    return SearchResult(tuple(found.units), tuple(evidence))


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


def _found(
    base: Retrieval, clock: _Clock, picture: Image | None, question: str, most: _Most
) -> _Found:
    """Units, and what bears on the question."""
    with snapshot(base.database.connection):
        with clock.step("match"):
            matched = evidence_retrieval.matched(base, picture, question, most.units)
        with clock.step("search"):
            evidence = evidence_retrieval.evidence(base, question, matched, most.chunks)
        with clock.step("paths"):
            label = len(evidence) + 1
            paths = evidence_retrieval.paths(base, question, matched, most.paths, first_label=label)
        pictures = evidence_retrieval.pictures(base, matched)
    return _Found(matched, evidence, paths, pictures)


def _found_in_texts(
    base: Retrieval, clock: _Clock, question: str, caption: Reply | None, k: int
) -> _Found:
    with snapshot(base.database.connection), clock.step("search"):
        text = f"{question}\n{caption.text}" if caption else question
        return _Found(
            Matched(),
            evidence_retrieval.evidence_anywhere(base, text, k),
            evidence_retrieval.Paths(),
            {},
        )


def _material(
    question: str,
    picture: Image | None,
    found: _Found,
    pages: Sequence[Image],
    caption: Reply | None,
) -> Material:
    region = found.matched.region
    return Material(
        question,
        picture,
        region=region.box if region else None,
        units=found.matched.units,
        evidence=found.evidence,
        paths=found.paths.evidence,
        pages=pages,
        caption=caption,
    )


def _read(question: str, found: _Found, *, seen: bool) -> Answered:
    """Have the extractive reader read what is known of the units that the question can be about."""
    units = found.matched.units
    if not units and not seen:
        why = "nothing in the picture looks like anything in the knowledge base"
        return Answered(Reading("", why=why), models={"reader": extractive.NAME})
    about = found.matched.about
    pieces = [e for e in found.evidence if not units or about.intersection(e.unit_ids)]
    reading = extractive.read(question, pieces, units)
    if found.paths.answers and (found.paths.chosen or not reading.answer):
        reading = _walked(found.paths)
    return Answered(reading, models={"reader": extractive.NAME})


def _walked(found: evidence_retrieval.Paths) -> Reading:
    """The answer that stands in the graph."""
    return Reading(
        ", ".join(found.answers),
        citations=found.cited,
        spans=((0, 0),) * len(found.cited),
        score=1.0,
        why="The graph's relations lead there, as far as it says.",
    )


def _scaled(region: Region, scale: float) -> Region:
    x0, y0, x1, y1 = (round(edge * scale) for edge in region.box)
    return replace(region, box=(x0, y0, x1, y1))


def _write_passage(pages: Sequence[Image], file: Path) -> tuple[str, ...]:
    written = []
    for number, page in enumerate(pages, 1):
        one = file if number == 1 else file.with_stem(f"{file.stem}-{number}")
        one.parent.mkdir(parents=True, exist_ok=True)
        page.save(one, format="PNG")
        written.append(str(one))
    return tuple(written)


def _write_report(
    answer: Answer,
    file: Path,
    picture: Image | None,
    unit_pictures: Mapping[str, Image],
    pages: Sequence[Image],
) -> None:
    from ku_rag.answering.report import render

    html = render(answer, picture=picture, unit_pictures=unit_pictures, pages=pages)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(html, encoding="utf-8")
