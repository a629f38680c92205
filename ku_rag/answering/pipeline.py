"""One question from end to end: region, units, chunks, passage, reading or correction, report.

Every step is timed, and the answer holds what each step found.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from PIL.Image import Image

from ku_rag import arguments
from ku_rag.answering import correction, evidence_retrieval
from ku_rag.answering.correction import Answered, Chain, Material
from ku_rag.encoders.base import Vectors
from ku_rag.errors import BadInput, KuError, NotFound
from ku_rag.mllm.base import MLLM, MeteredMLLM, Reply
from ku_rag.mllm.prompts import Prompt, load_prompts
from ku_rag.pictures import MATCHED_SIDE, decode, fit_picture, scaled
from ku_rag.reading import cells, printed, prose, sections
from ku_rag.rerankers.base import RerankerQuery, rank
from ku_rag.retrieval.base import Matched, Retrieval
from ku_rag.retrieval.matching import choose_unit, match
from ku_rag.store.connection import snapshot
from ku_rag.text.question import analyse
from ku_rag.text.stems import stems
from ku_rag.types import (
    Answer,
    ClosestSentence,
    Evidence,
    Illustrated,
    Match,
    PathEvidence,
    Reading,
    Region,
    SearchResult,
)

_LONGEST_QUESTION = 100_000
_MOST_CANDIDATES = 5
_MOST_PLACES = 3
"""Cited pages that a report shows."""


@contextmanager
def measure(times: dict[str, float], step: str) -> Iterator[None]:
    """Note the milliseconds that a step takes."""
    started = time.perf_counter()
    yield
    times[step] = round((time.perf_counter() - started) * 1000, 2)


@dataclass(frozen=True, slots=True)
class Context:
    """What was read from the store, with pictures of units, and a reading that came with it."""

    matched: Matched
    evidence: Sequence[Evidence]
    paths: evidence_retrieval.Paths = field(default_factory=evidence_retrieval.Paths)
    pictures: Mapping[str, Image] = field(default_factory=dict)
    own: Sequence[Evidence] = ()
    rest: Sequence[Evidence] = ()
    evidence_graph: Illustrated | None = None
    models: Mapping[str, str] = field(default_factory=dict)
    is_empty_plan: bool = False
    reading: Reading | None = None


@dataclass(frozen=True, slots=True)
class QueryInput:
    """A question and how to answer it; see `query` and `page_image` of `KnowledgeBase`."""

    text: str
    image: Path | bytes | Image | None = None
    k_units: int = 10
    k_chunks: int = 10
    sent_chunks: int = 10
    identify: bool = True
    passage: Path | None = None
    report: Path | None = None
    kcc: bool = True
    with_units: bool = True
    with_paths: bool = True
    prompts: Path | None = None
    method: str = ""
    construction: object = None
    unit: str = ""
    page_image: Callable[..., Image] | None = None

    def __post_init__(self) -> None:
        """Check the text and the switches."""
        switches = {"kcc": self.kcc, "units": self.with_units, "graph": self.with_paths}
        for name, value in switches.items():
            arguments.check(value, name, bool)
        if not self.text.strip():
            raise BadInput('the question is empty: ask something, such as "What is this?"')
        if len(self.text) > _LONGEST_QUESTION:
            raise BadInput(
                f"the question has {len(self.text)} characters, at most {_LONGEST_QUESTION} are "
                "read: put long texts into the knowledge base and ask about them"
            )
        if self.method not in ("", "evidence", "model-only"):
            raise BadInput(
                f'the method is {self.method!r}: expected "evidence", "model-only", or ""'
            )
        if self.unit and (self.method == "model-only" or not self.with_units):
            raise BadInput(
                f"the question is about the unit {self.unit!r}: leave out "
                'method="model-only" and units=False, or the unit'
            )


@dataclass(frozen=True, slots=True)
class Planned:
    """Evidence that a plan collected, best first, in place of one search, and the last queries."""

    matched: Matched
    evidence: Sequence[Evidence]
    paths: Sequence[PathEvidence]
    queries: Sequence[str]
    plan: Illustrated
    milliseconds: float = 0.0
    replies: Sequence[Reply] = ()


@dataclass(frozen=True, slots=True)
class QueryEvent:
    """A step of a query that has ended.

    Args:
        kind: "round", a round of a plan; then "region", "units", "evidence", "draft" and "answer".
        data: the keys of `Answer.to_dict` that are known now; for "round", those of a round.
    """

    kind: str
    data: Mapping[str, object]
    answer: Answer | None = None

    def to_dict(self) -> dict[str, object]:
        """The kind and the data."""
        return {"kind": self.kind, **self.data}


def ask(
    base: Retrieval,
    question: QueryInput,
    mllm: MLLM | None = None,
    planned: Planned | None = None,
    vision: MLLM | None = None,
    steps: type[QuerySteps] | None = None,
) -> Iterator[QueryEvent]:
    """Answer a question about a picture, step by step; the last event has the answer.

    No transaction is open while a model is asked, so the store may be read several times. `vision`
    sees pictures in place of `mllm`. `planned` is evidence in place of a search, and `steps` are
    those of another method.
    """
    times = {"plan": planned.milliseconds} if planned else {}
    started = time.perf_counter() - sum(times.values()) / 1000
    with measure(times, "picture"):
        picture, scale = query_picture(question.image)
    steps = steps or QuerySteps
    chain = _chain(question, mllm, planned, vision, steps.packages)
    query = steps(base, question, picture, chain, planned, times)
    context, caption = query.find()
    region = context.matched.region
    region = region and replace(region, box=scaled(region.box, scale))
    yield from _report_context(context, region)
    pages: list[Image] = []
    sent = query.limit_chunks(context)
    needs_pages = chain and chain.sees_pictures and question.with_units
    if not steps.needs_model and (question.passage or question.report or needs_pages):
        with measure(times, "passage"):
            pages = query.compose(sent)
    with measure(times, "read"):
        if chain:
            answered = yield from query.correct(chain, sent, pages, caption)
        else:
            reading = query.read(context)
            if planned and not reading.answer:
                context, reading = query.read_last_query(context, reading, planned.queries)
            answered = Answered(reading, {"reader": prose.NAME})
    answer = query.assemble(context, answered, pages)
    times["total"] = round((time.perf_counter() - started) * 1000, 2)
    if question.report:  # in pixels of the picture that was matched
        _write_report(answer, question.report, query, context, pages)
    words = tuple(replace(word, box=scaled(word.box, scale)) for word in answer.words)
    answer = replace(answer, region=region, words=words)
    yield QueryEvent("answer", answer.to_dict(), answer)


def _chain(
    question: QueryInput,
    mllm: MLLM | None,
    planned: Planned | None,
    vision: MLLM | None,
    packages: Sequence[str],
) -> Chain | None:
    if mllm is not None:
        metered = MeteredMLLM(mllm, list(planned.replies) if planned else [], vision)
        prompts: dict[str, Prompt] = {}
        for package in packages:
            prompts |= load_prompts(package, question.prompts)
        return Chain(metered, prompts)
    if question.method == "model-only":
        raise NotFound('method "model-only" asks a model, and there is none: name one with --mllm')
    return None


def _report_context(context: Context, region: Region | None) -> Iterator[QueryEvent]:
    if region:
        yield QueryEvent("region", {"region": region.to_dict()})
    yield QueryEvent("units", {"units": [unit.to_dict() for unit in context.matched.units]})
    chunks = [{"evidence": piece.label, **piece.to_dict()} for piece in context.evidence]
    paths = [{"evidence": path.label, **path.to_dict()} for path in context.paths.evidence]
    yield QueryEvent("evidence", {"chunks": chunks, "paths": paths})


def find(
    base: Retrieval,
    *,
    image: Path | bytes | Image | None,
    text: str,
    vector: Vectors | None,
    k: int,
) -> SearchResult:
    """Units and chunks for a picture, a text, or both; see `KnowledgeBase.search`."""
    if vector is not None:
        return SearchResult((), tuple(evidence_retrieval.evidence_near(base, vector, k)))
    if image is None and not text.strip():
        raise BadInput("nothing to search for: give a picture, a text, or both")
    picture, _ = query_picture(image)
    matched = match(base, picture, text, k)
    evidence, _ = evidence_retrieval.evidence(base, text, matched, k)
    return SearchResult(tuple(matched.units), tuple(evidence))


def query_picture(image: Path | bytes | Image | None) -> tuple[Image | None, float]:
    """Return the RGB picture that is matched, and how many of its own pixels one of these is."""
    if image is None:
        return None, 1.0
    picture, size = fit_picture(image)
    return picture, max(1.0, max(size) / MATCHED_SIDE)


@dataclass(frozen=True)
class QuerySteps:
    """The steps of one query, which add their milliseconds to `times`."""

    packages: ClassVar[Sequence[str]] = ("ku_rag.answering",)
    """The packages whose prompts the chain has."""
    most: ClassVar[int | None] = None
    """Most units and most chunks, if the method has a number of its own."""
    actions: ClassVar[Sequence[str]] = ()
    """The actions of a plan, if the method plans."""
    needs_model: ClassVar[bool] = False
    """Whether only a model answers, which is shown no pages."""
    drafts: ClassVar[bool] = True
    """Whether the model first answers without evidence."""

    base: Retrieval
    question: QueryInput
    picture: Image | None
    chain: Chain | None
    planned: Planned | None
    times: dict[str, float]

    # ---- retrieval -----------------------------------------------------------------------------

    def find(self) -> tuple[Context, Reply | None]:
        """Return what the question is answered from, and the caption that was searched with."""
        caption = None
        if not self.question.with_units:
            with measure(self.times, "caption"):
                if self.chain and self.picture:
                    caption = self.chain.describe(self.picture)
        matched = self.identify()
        if self.planned:
            context = self.from_plan(self.planned, matched or self.planned.matched)
        else:
            context = self.gather(caption, matched)
        return self.with_graph(context), caption

    def match(self) -> Matched:
        """Match units with the picture and the question."""
        return match(self.base, self.picture, self.question.text, self.question.k_units)

    def identify(self) -> Matched | None:
        """Match units; if the match is unsure, a model identifies one. None if no model may."""
        question = self.question
        is_possible = question.with_units and question.method != "model-only"
        is_possible = is_possible and not question.unit
        if not (self.chain and self.picture and question.identify and is_possible):
            return None
        with measure(self.times, "match"), snapshot(self.base.database.connection):
            matched = self.planned.matched if self.planned else self.match()
            candidates = [unit for unit in matched.units if unit.image_row is not None]
            candidates = candidates[:_MOST_CANDIDATES]
            if matched.about or not candidates:
                return matched
            pictures = evidence_retrieval.pictures(self.base, replace(matched, units=candidates))
        with measure(self.times, "identify"):
            view = self.crop(matched.region) or self.picture
            number = self.chain.identify(view, [pictures[unit.id] for unit in candidates])
        if not number:
            return replace(matched, none_identified=True)
        best = candidates[number - 1]
        others = (unit for unit in matched.units if unit.id != best.id)
        why = f"{best.why}; a model identified it among {len(candidates)}"
        return replace(matched, units=[replace(best, sure=True, why=why), *others])

    def from_plan(self, planned: Planned, matched: Matched) -> Context:
        """Take the evidence that a plan collected, and add the graph's paths."""
        if not (planned.evidence or planned.paths or matched.units):
            return Context(matched, (), is_empty_plan=True)
        with snapshot(self.base.database.connection):
            every = [replace(piece, label=f"E{n}") for n, piece in enumerate(planned.evidence, 1)]
            context = self.with_paths(self.with_pictures(Context(matched, every)))
        texts = {path.text for path in context.paths.evidence}
        more = [path for path in planned.paths if path.text not in texts]
        first = len(context.evidence) + len(context.paths.evidence) + len(context.own) + 1
        more = [replace(path, label=f"E{n}") for n, path in enumerate(more, first)]
        paths = replace(context.paths, evidence=[*context.paths.evidence, *more])
        return replace(context, paths=paths)

    def gather(self, caption: Reply | None, matched: Matched | None) -> Context:
        """Retrieve the evidence; a reranker is asked between two reads of the store."""
        base, question, reranker = self.base, self.question, None
        if question.method != "model-only":
            reranker = base.reranker()
        k, pool = question.k_chunks, max(base.pool, question.k_chunks) if reranker else 0
        with snapshot(base.database.connection):
            context = self.with_pictures(self.retrieve(caption, pool, matched))
            if reranker is None:
                return self.with_paths(context)
        every = [*context.evidence, *context.rest]
        mllm, units = self.chain.mllm if self.chain else None, tuple(context.matched.units)
        with measure(self.times, "rerank"):
            query = RerankerQuery(question.text, self.picture, units, mllm)
            every = [*rank(reranker, query, every[:pool]), *every[pool:]]
        models = {"reranker": reranker.fingerprint}
        context = replace(context, evidence=every[:k], rest=every[k:], models=models)
        with snapshot(base.database.connection):
            return self.with_paths(context)

    def retrieve(self, caption: Reply | None, pool: int, identified: Matched | None) -> Context:
        """Match units unless they were identified, and search for evidence, at least a pool."""
        base, question = self.base, self.question
        text, k = question.text, question.k_chunks
        if question.method == "model-only":
            return Context(Matched(), ())
        matched = identified or Matched()
        if question.with_units and not identified:
            with measure(self.times, "match"):
                matched = self.match()
                if question.unit:
                    matched = choose_unit(base, matched, question.unit)
        elif caption:
            text = f"{text}\n{caption.text}"
        with measure(self.times, "search"):
            evidence, rest = evidence_retrieval.evidence(base, text, matched, k, pool)
        return Context(matched, evidence, rest=rest)

    def with_pictures(self, context: Context) -> Context:
        """Add the pictures of the matched units where pages will show them."""
        if not (self.chain or self.question.passage or self.question.report):
            return context
        return replace(context, pictures=evidence_retrieval.pictures(self.base, context.matched))

    def with_paths(self, context: Context) -> Context:
        """Add the graph's paths that bear on the question, and further chunks of the units."""
        question = self.question
        if not question.with_units:
            return context
        matched, evidence, paths = context.matched, context.evidence, context.paths
        with measure(self.times, "paths"):
            first = len(evidence) + 1
            if question.with_paths:
                paths = evidence_retrieval.paths(
                    self.base, question.text, matched, first_label=first
                )
            first += len(paths.evidence)
            rows = [piece for piece in context.rest if piece.table]
            own = evidence_retrieval.own_evidence(
                self.base, question.text, matched, evidence, rows, paths.lines, first_label=first
            )
        return replace(context, paths=paths, own=own)

    def with_graph(self, context: Context) -> Context:
        """Add a graph that was built for the question; this method builds none."""
        return context

    # ---- answering -----------------------------------------------------------------------------

    def limit_chunks(self, context: Context) -> Context:
        """Return the evidence with no more chunks than may be sent to the model."""
        count, most = len(context.evidence), self.question.sent_chunks
        if self.chain and count > most:
            note = f"{most} of {count} chunks were sent: raise mllm_chunks to send more"
            self.chain.notes.append(note)
            context = replace(context, evidence=context.evidence[:most])
        return context

    def correct(
        self, chain: Chain, context: Context, pages: Sequence[Image], caption: Reply | None
    ) -> Generator[QueryEvent, None, Answered]:
        """Return the answer of the model, and yield its draft."""
        if context.matched.none_identified:
            return chain.decline(f"No unit was identified: {_decline(context.matched.units)}.")
        material = self.material(context, pages, caption)
        if chain.mllm.vision and material.picture and not material.caption:
            caption = chain.describe(material.crop or material.picture)
            material = replace(material, caption=caption)
        draft = chain.draft(material) if self.drafts and self.question.kcc else None
        if draft:
            yield QueryEvent("draft", {"draft": draft.text})
        return self.answer(chain, context, material, draft)

    def answer(
        self, chain: Chain, context: Context, material: Material, draft: Reply | None
    ) -> Answered:
        """Return the answer of the model with the evidence."""
        return chain.answer(material, draft)

    def material(self, context: Context, pages: Sequence[Image], caption: Reply | None) -> Material:
        """Return what is sent to the model."""
        question, region = self.question, context.matched.region
        return Material(
            question.text,
            self.picture,
            region=region.box if region else None,
            crop=self.crop(region),
            units=context.matched.units,
            evidence=context.evidence,
            paths=context.paths.evidence,
            leading=context.paths.cited,
            pages=pages if question.with_units else (),
            caption=caption,
            queries=self.planned.queries if self.planned else (),
        )

    def compose(self, context: Context) -> list[Image]:
        """Return the pages of the multimodal passage."""
        from ku_rag.answering.passage import PAGE_HEIGHT, cards, compose

        return compose(
            cards(context.matched.units, context.evidence, context.pictures),
            page_height=correction.PAGE_HEIGHT if self.chain else PAGE_HEIGHT,
        )

    def crop(self, region: Region | None) -> Image | None:
        """Return the region of the original picture; None if it is the whole."""
        image = self.question.image
        is_whole = region and self.picture and region.box == (0, 0, *self.picture.size)
        if region is None or image is None or is_whole:
            return None

        def crop(whole: Image, _: object) -> Image:
            return whole.crop(scaled(region.box, max(1.0, max(whole.size) / MATCHED_SIDE)))

        return decode(image, crop)

    def read(self, context: Context) -> Reading:
        """Return the extractive reader's answer, or why there is none."""
        reading = self.read_evidence(context)
        is_read = reading.answer or context.matched.words or not self.picture
        if not is_read and printed.asks_for_print(self.question.text):
            why = "The base has no recogniser of words (extra ocr)"
            if self.base.image_search.recogniser():
                why = "No words were recognised in the picture"
            reading = replace(reading, why=f"{why}. {reading.why}")
        return reading

    def read_evidence(self, context: Context) -> Reading:
        """Return the extractive reader's answer about the units that the question can be about."""
        base, question, units = self.base, self.question, context.matched.units
        about, with_picture = context.matched.about, bool(self.picture or question.unit)
        if not units and (none := base.units.why_none(base.database.connection)):
            return Reading("", why=none)
        if context.is_empty_plan:
            return Reading("", why="The plan found nothing.")
        if with_picture and (recognised := printed.read(question.text, context.matched.words)):
            return recognised
        if with_picture and question.with_units and not about:
            return Reading("", why=_decline(units), unanswered="unsure" if units else "not_found")
        if context.paths.answers:
            return _from_paths(context)
        every = (*context.evidence, *context.own)
        wanted = about if with_picture else frozenset()
        rows = [p for p in every if p.table and p.score and wanted <= {*p.unit_ids}]
        rows.sort(key=lambda row: -row.score)  # a reranker may have ordered them otherwise
        texts = [p for p in (*context.evidence, *context.rest) if wanted <= {*p.unit_ids}]
        if stated := cells.read(question.text, rows, texts):
            return stated
        pieces = [e for e in every if not e.table and (not units or about & {*e.unit_ids})]
        if not with_picture and (stated := sections.read(question.text, every)):
            return stated
        reading = prose.read(question.text, pieces, units)
        if not reading.answer and not with_picture:
            reading = self.read_graph(context, every) or reading
        if not reading.answer and every and not pieces:
            closest = ClosestSentence(rows[0].label, rows[0].text) if rows else None
            reading = replace(reading, why="No cell or sentence states it.", closest=closest)
        if not reading.answer:
            reading = replace(reading, why=context.paths.why or reading.why)
            for words, name in context.matched.names.similar.items():
                why = f"{reading.why} No unit is called {words!r}: did you mean {name!r}?"
                reading = replace(reading, why=why)
        return reading

    def read_graph(self, context: Context, evidence: Sequence[Evidence]) -> Reading | None:
        """Return what a graph of the question states; None without one."""
        return None

    def read_last_query(
        self, context: Context, reading: Reading, queries: Sequence[str]
    ) -> tuple[Context, Reading]:
        """Read an answer to the last query of a plan, if it asks for the same as the question."""
        weights = analyse(self.question.text).weights
        heaviest = {word for word, weight in weights.items() if weight == max(weights.values())}
        is_other = len(queries) == 1 and queries[0] != self.question.text
        if not is_other or not heaviest <= stems(queries[0]):
            return context, reading
        last = replace(
            self, question=replace(self.question, text=queries[0]), picture=None, times={}
        )
        with snapshot(self.base.database.connection):
            tried = replace(context, matched=last.match(), is_empty_plan=False)
            tried = last.with_paths(tried)
            read = last.read(tried)
        if not read.answer:
            return context, reading
        why = f"{read.why} The plan reformulated the question: {last.question.text}"
        # The answer is still of the picture's units.
        return replace(tried, matched=context.matched), replace(read, why=why)

    def assemble(self, context: Context, answered: Answered, pages: Sequence[Image]) -> Answer:
        """Return the answer with the evidence; the passage is written."""
        base, question, reading = self.base, self.question, answered.reading
        cited = {*reading.citations, reading.closest.evidence if reading.closest else ""}
        models = {
            "encoder": base.image_search.encoder.fingerprint,
            "segmenter": base.image_search.segmenter().fingerprint,
        }
        chunks = [*context.evidence, *(piece for piece in context.own if piece.label in cited)]
        return Answer(
            question=question.text,
            image=str(question.image) if isinstance(question.image, Path) else None,
            region=context.matched.region,
            units=tuple(context.matched.units),
            chunks=tuple(evidence_retrieval.place_citations(base, chunks, reading)),
            paths=tuple(context.paths.evidence),
            passage=_write_passage(pages, question.passage) if question.passage else (),
            reading=reading,
            models={**models, **context.models, **answered.models},
            timings_ms=self.times,
            correction=answered.correction,
            evidence_graph=context.evidence_graph,
            plan=self.planned.plan if self.planned else None,
            words=tuple(context.matched.words),
        )


def _decline(units: Sequence[Match]) -> str:
    """Return why no fact is stated about a picture."""
    if not units:
        return "Nothing in the picture matches a unit of the knowledge base."
    best = units[0]
    return (
        f"The picture looks most like {best.name} (confidence {best.confidence:.2f}), "
        "but it may show something that is not in the knowledge base."
    )


def _from_paths(context: Context) -> Reading:
    """The answer that relations, metadata and labelled lines lead to."""
    paths = context.paths
    labels = {piece.chunk: piece.label for piece in (*context.own, *context.evidence)}
    lines = [labels[chunk] for chunk, *_ in paths.lines]
    alone = len(lines) == 1 and not paths.cited
    return Reading(
        ", ".join(paths.answers),
        citations=(*lines, *paths.cited),
        spans=(*((start, end) for _, start, end in paths.lines), *((0, 0),) * len(paths.cited)),
        score=1.0,
        why=f"{lines[0]} states it." if alone else paths.why,
        items=paths.answers,
    )


def _write_passage(pages: Sequence[Image], file: Path) -> tuple[str, ...]:
    written = []
    for number, page in enumerate(pages, 1):
        path = file if number == 1 else file.with_stem(f"{file.stem}-{number}")
        path.parent.mkdir(parents=True, exist_ok=True)
        page.save(path, format="PNG")
        written.append(str(path))
    return tuple(written)


def _write_report(
    answer: Answer, file: Path, query: QuerySteps, context: Context, pages: Sequence[Image]
) -> None:
    from ku_rag.answering.report import Section, render

    places: dict[str, Image] = {}
    cited = [p for p in answer.chunks if p.page and p.label in answer.reading.citations]
    for piece in cited[:_MOST_PLACES]:
        with suppress(KuError):  # such as a changed file
            if page_image := query.question.page_image:
                places[piece.label] = page_image(piece.chunk, piece.page, piece.box)
    html = render([Section(answer, query.picture, context.pictures, pages, places=places)])
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(html, encoding="utf-8")
