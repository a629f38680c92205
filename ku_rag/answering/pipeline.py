"""One question from end to end: region, units, chunks, passage, reading or correction, report.

Every step is timed, and the answer holds what each step found.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from PIL.Image import Image

from ku_rag import arguments
from ku_rag.answering import correction, evidence_retrieval
from ku_rag.answering.correction import Answered, Chain, Material
from ku_rag.encoders.base import Vectors
from ku_rag.errors import BadInput, NotFound
from ku_rag.mllm.base import MLLM, MeteredMLLM, Reply
from ku_rag.mllm.prompts import load_prompts
from ku_rag.pictures import MATCHED_SIDE, decode, fit_picture, scaled
from ku_rag.reading import cells, printed, prose
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
    Match,
    PathEvidence,
    Reading,
    Region,
    SearchResult,
    Serializable,
)

if TYPE_CHECKING:
    from ku_rag.graph.evidence.construction import EvidenceSearch
    from ku_rag.graph.evidence.construction_settings import EvidenceSettings

_LONGEST_QUESTION = 100_000
_MOST_CANDIDATES = 5


@contextmanager
def _measure(times: dict[str, float], step: str) -> Iterator[None]:
    """Note the milliseconds that a step takes."""
    started = time.perf_counter()
    yield
    times[step] = round((time.perf_counter() - started) * 1000, 2)


@dataclass(frozen=True, slots=True)
class _Context:
    """What was read from the store, with the pictures of units, and the evidence graph, if any.

    Args:
        models: the reranker, if there is one.
        is_empty_plan: whether a plan found nothing.
    """

    matched: Matched
    evidence: Sequence[Evidence]
    paths: evidence_retrieval.Paths = field(default_factory=evidence_retrieval.Paths)
    pictures: Mapping[str, Image] = field(default_factory=dict)
    own: Sequence[Evidence] = ()
    rest: Sequence[Evidence] = ()
    search: EvidenceSearch | None = None
    models: Mapping[str, str] = field(default_factory=dict)
    is_empty_plan: bool = False


@dataclass(frozen=True, slots=True)
class QueryInput:
    """What is asked, and how it is to be answered; see `KnowledgeBase.query`.

    Raises:
        BadInput: the text is empty or too long, or the published method is to do what it does not.
    """

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
    strict: str = ""
    method: str = ""
    construction: EvidenceSettings | None = None
    unit: str = ""

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
        if self.strict not in ("", "kurag"):
            raise BadInput(f'the method is {self.strict!r}: expected "kurag" or ""')
        if self.method not in ("", "evidence", "model-only") or (self.method and self.strict):
            raise BadInput(
                f'the method is {self.method!r}: expected "evidence", "model-only", or "" with '
                "strict"
            )
        if self.construction is not None and self.method != "evidence":
            raise BadInput('construction is for method="evidence": give this as well, or neither')
        if self.unit and (self.strict or self.method == "model-only" or not self.with_units):
            raise BadInput(
                f"the question is about the unit {self.unit!r}: leave out strict, "
                'method="model-only" and units=False, or the unit'
            )
        if self.strict and (self.image is None or not self.with_units):
            raise BadInput("the published method matches a picture with units: give a picture")


@dataclass(frozen=True, slots=True)
class Planned:
    """Evidence that a plan collected, in place of one search.

    Args:
        matched: the units that its searches matched.
        evidence: chunks and texts of searchers, best first.
        paths: graph paths and parts of evidence graphs.
        queries: the last queries, which are answered beside the question.
        plan: the plan.
        milliseconds: time of the plan.
        replies: of the model that planned, which count in the usage.
    """

    matched: Matched
    evidence: Sequence[Evidence]
    paths: Sequence[PathEvidence]
    queries: Sequence[str]
    plan: Serializable
    milliseconds: float = 0.0
    replies: Sequence[Reply] = ()


@dataclass(frozen=True, slots=True)
class QueryEvent:
    """A step of a query that has ended.

    Args:
        kind: "round", a round of a plan; then "region", "units", "evidence", "draft" and "answer".
        data: the keys of `Answer.to_dict` that are known now; for "round", those of a round.
        answer: the answer, with the last event.
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
) -> Iterator[QueryEvent]:
    """Answer a question about a picture, step by step; the last event has the answer.

    No transaction is open while a model is asked, so the store may be read several times.

    Args:
        base: what is asked.
        question: with the picture.
        mllm: answers, and is corrected by what was found; None has the reader answer.
        planned: evidence to answer from, where a plan collected it.
        vision: sees pictures in place of the model that answers, which is shown none.

    Raises:
        BadInput: the picture cannot be read, a prompt is none, or the reranker cannot score.
        NotFound: the folder of prompts does not exist, or there is no model to ask.
        ModelFailed, BudgetSpent: the model did not answer; nothing else answers in its place.
    """
    times = {"plan": planned.milliseconds} if planned else {}
    started = time.perf_counter() - sum(times.values()) / 1000
    with _measure(times, "picture"):
        picture, scale = query_picture(question.image)
    chain = _chain(question, mllm, planned, vision)
    context, caption = _find(base, times, question, picture, chain, planned)
    region = context.matched.region
    region = region and replace(region, box=scaled(region.box, scale))
    yield from _report_context(context, region)
    pages: list[Image] = []
    sent, most = context, question.sent_chunks
    if chain and (count := len(context.evidence)) > most:
        chain.notes.append(f"{most} of {count} chunks were sent: raise mllm_chunks to send more")
        sent = replace(context, evidence=context.evidence[:most])
    is_shown = chain and chain.sees_pictures and question.with_units
    if question.passage or question.report or is_shown:
        with _measure(times, "passage"):
            pages = _compose(sent, for_model=chain is not None)
    with _measure(times, "read"):
        if chain and context.matched.none_identified:
            answered = chain.decline(f"The model names none: {_decline(context.matched.units)}.")
        elif chain:
            material = _material(question, picture, sent, pages, caption, planned)
            answered = yield from _correct(chain, material, question.kcc)
        else:
            reading = _read(base, question, context, with_picture=bool(picture or question.unit))
            if planned and not reading.answer:
                context, reading = _read_last_query(base, question, context, reading, planned)
            answered = Answered(reading, {"reader": prose.NAME})
    answer = _assemble(base, question, context, answered, pages)
    times["total"] = round((time.perf_counter() - started) * 1000, 2)
    answer = replace(answer, timings_ms=times, plan=planned.plan if planned else None)
    if question.report:  # in pixels of the picture that was matched
        _write_report(answer, question.report, picture, context, pages)
    words = tuple(replace(word, box=scaled(word.box, scale)) for word in answer.words)
    answer = replace(answer, region=region, words=words)
    yield QueryEvent("answer", answer.to_dict(), answer)


def _correct(chain: Chain, material: Material, kcc: bool) -> Generator[QueryEvent, None, Answered]:
    """Return the answer of the model, and yield its draft."""
    if chain.vision and material.picture and not material.caption:
        seen = material.crop or material.picture
        material = replace(material, caption=chain.describe(seen))
    draft = chain.draft(material) if kcc else None
    if draft:
        yield QueryEvent("draft", {"draft": draft.text})
    return chain.answer(material, draft)


def _find(
    base: Retrieval,
    times: dict[str, float],
    question: QueryInput,
    picture: Image | None,
    chain: Chain | None,
    planned: Planned | None,
) -> tuple[_Context, Reply | None]:
    """Return what the question is answered from, and the caption that was searched with, if any."""
    caption = None
    if not question.with_units:
        with _measure(times, "caption"):
            caption = chain.describe(picture) if chain and picture else None
    matched = _identify(base, times, question, picture, chain, planned)
    if planned:
        planned = replace(planned, matched=matched or planned.matched)
        context = _from_plan(base, times, question, planned, chain)
    else:
        context = _gather(base, times, picture, question, caption, chain, matched)
    return _with_graph(base, times, question, context, chain), caption


def _identify(
    base: Retrieval,
    times: dict[str, float],
    question: QueryInput,
    picture: Image | None,
    chain: Chain | None,
    planned: Planned | None,
) -> Matched | None:
    """Match units, and have a model identify one if the match is unsure; None if none is asked."""
    is_possible = question.with_units and question.method != "model-only" and not question.strict
    if question.unit or not (chain and picture and question.identify and is_possible):
        return None
    with _measure(times, "match"), snapshot(base.database.connection):
        matched = planned.matched if planned else None
        matched = matched or match(base, picture, question.text, question.k_units)
        seen = [unit for unit in matched.units if unit.image_row is not None][:_MOST_CANDIDATES]
        if matched.about or not seen:
            return matched
        pictures = evidence_retrieval.pictures(base, replace(matched, units=seen))
    with _measure(times, "identify"):
        shown = _crop(question, picture, matched.region) or picture
        number = chain.identify(shown, [pictures[unit.id] for unit in seen])
    if not number:
        return replace(matched, none_identified=number == 0)
    best = seen[number - 1]
    others = (unit for unit in matched.units if unit.id != best.id)
    best = replace(best, sure=True, why=f"{best.why}; a model identified it among {len(seen)}")
    return replace(matched, units=[best, *others])


def _report_context(context: _Context, region: Region | None) -> Iterator[QueryEvent]:
    if region:
        yield QueryEvent("region", {"region": region.to_dict()})
    yield QueryEvent("units", {"units": [unit.to_dict() for unit in context.matched.units]})
    chunks = [{"evidence": piece.label, **piece.to_dict()} for piece in context.evidence]
    paths = [{"evidence": path.label, **path.to_dict()} for path in context.paths.evidence]
    yield QueryEvent("evidence", {"chunks": chunks, "paths": paths})


def _assemble(
    base: Retrieval,
    question: QueryInput,
    context: _Context,
    answered: Answered,
    pages: Sequence[Image],
) -> Answer:
    """Return the answer with the evidence; the passage is written."""
    reading = answered.reading
    cited = {*reading.citations, reading.closest.evidence if reading.closest else ""}
    return Answer(
        question=question.text,
        image=str(question.image) if isinstance(question.image, Path) else None,
        region=context.matched.region,
        units=tuple(context.matched.units),
        chunks=(*context.evidence, *(piece for piece in context.own if piece.label in cited)),
        paths=tuple(context.paths.evidence),
        passage=_write_passage(pages, question.passage) if question.passage else (),
        reading=reading,
        models={
            "encoder": base.image_search.encoder.fingerprint,
            "segmenter": base.image_search.segmenter().fingerprint,
            **context.models,
            **answered.models,
        },
        timings_ms={},
        correction=answered.correction,
        evidence_graph=context.search,
        words=tuple(context.matched.words),
    )


def _from_plan(
    base: Retrieval,
    times: dict[str, float],
    question: QueryInput,
    planned: Planned,
    chain: Chain | None,
) -> _Context:
    """Take the evidence that a plan collected, and add what the graph says of the question."""
    if not (planned.evidence or planned.paths or planned.matched.units):
        return _Context(planned.matched, (), is_empty_plan=True)
    with snapshot(base.database.connection):
        evidence = [replace(piece, label=f"E{n}") for n, piece in enumerate(planned.evidence, 1)]
        context = _with_pictures(base, question, _Context(planned.matched, evidence), chain)
        context = _with_paths(base, times, question, context)
    texts = {path.text for path in context.paths.evidence}
    more = [path for path in planned.paths if path.text not in texts]
    first = len(context.evidence) + len(context.paths.evidence) + len(context.own) + 1
    more = [replace(path, label=f"E{n}") for n, path in enumerate(more, first)]
    paths = replace(context.paths, evidence=[*context.paths.evidence, *more])
    return replace(context, paths=paths)


def _read_last_query(
    base: Retrieval, question: QueryInput, context: _Context, reading: Reading, planned: Planned
) -> tuple[_Context, Reading]:
    """Read an answer to the last query, if it asks for the same as the question.

    Returns:
        The evidence and the reading; the given ones if it has no answer.
    """
    weights = analyse(question.text).weights
    heaviest = {word for word, weight in weights.items() if weight == max(weights.values())}
    queries = planned.queries
    if len(queries) != 1 or queries[0] == question.text or not heaviest <= stems(queries[0]):
        return context, reading
    last = replace(question, text=queries[0])
    with snapshot(base.database.connection):
        matched = match(base, None, last.text, question.k_units)
        tried = replace(context, matched=matched, is_empty_plan=False)
        tried = _with_paths(base, {}, last, tried)
        read = _read(base, last, tried, with_picture=False)
    if not read.answer:
        return context, reading
    why = f"{read.why} The plan reformulated the question: {last.text}"
    # The answer is still of the picture's units.
    context = replace(tried, matched=context.matched)
    return context, replace(read, why=why)


def _chain(
    question: QueryInput, mllm: MLLM | None, planned: Planned | None, vision: MLLM | None
) -> Chain | None:
    if mllm is not None:
        metered = MeteredMLLM(mllm, list(planned.replies) if planned else [])
        return Chain(metered, load_prompts("ku_rag.answering", question.prompts), vision)
    if question.method == "model-only":
        raise NotFound('method "model-only" asks a model, and there is none: name one with --mllm')
    return None


def find(
    base: Retrieval,
    *,
    image: Path | bytes | Image | None,
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


def _gather(
    base: Retrieval,
    times: dict[str, float],
    picture: Image | None,
    question: QueryInput,
    caption: Reply | None,
    chain: Chain | None,
    matched: Matched | None,
) -> _Context:
    """Retrieve what bears on the question; a reranker is asked between two reads of the store."""
    reranker = None if question.strict or question.method == "model-only" else base.reranker()
    pool = max(base.pool, question.k_chunks) if reranker else 0
    with snapshot(base.database.connection):
        context = _retrieve(base, times, picture, question, caption, pool, matched)
        context = _with_pictures(base, question, context, chain)
        if reranker is None:
            return _with_paths(base, times, question, context)
    every, k = [*context.evidence, *context.rest], question.k_chunks
    mllm, units = chain.mllm if chain else None, tuple(context.matched.units)
    with _measure(times, "rerank"):
        query = RerankerQuery(question.text, picture, units, mllm)
        every = [*rank(reranker, query, every[:pool]), *every[pool:]]
    context = replace(
        context,
        evidence=every[:k],
        rest=every[k:],
        models={"reranker": reranker.fingerprint},
    )
    with snapshot(base.database.connection):
        return _with_paths(base, times, question, context)


def _retrieve(
    base: Retrieval,
    times: dict[str, float],
    picture: Image | None,
    question: QueryInput,
    caption: Reply | None,
    pool: int,
    identified: Matched | None,
) -> _Context:
    """Match units, and find the evidence that bears on the question, at least a pool of it."""
    if question.method == "model-only":
        return _Context(Matched(), ())
    if question.strict and picture:
        with _measure(times, "search"):
            matched, evidence = evidence_retrieval.published(
                base, picture, question.text, question.k_units, question.k_chunks
            )
        return _Context(matched, evidence)
    text, matched = question.text, identified or Matched()
    if question.with_units and not identified:
        with _measure(times, "match"):
            matched = match(base, picture, text, question.k_units)
            if question.unit:
                matched = choose_unit(base, matched, question.unit)
    elif caption:
        text = f"{text}\n{caption.text}"
    with _measure(times, "search"):
        evidence, rest = evidence_retrieval.evidence(base, text, matched, question.k_chunks, pool)
    return _Context(matched, evidence, rest=rest)


def _with_pictures(
    base: Retrieval, question: QueryInput, context: _Context, chain: Chain | None
) -> _Context:
    """Add the pictures of the matched units where pages will show them."""
    if not (chain or question.passage or question.report):
        return context
    return replace(context, pictures=evidence_retrieval.pictures(base, context.matched))


def _with_paths(
    base: Retrieval, times: dict[str, float], question: QueryInput, context: _Context
) -> _Context:
    """Add the graph's paths that bear on the question, and further chunks of the units."""
    if not question.with_units or question.strict:
        return context
    matched, evidence, paths = context.matched, context.evidence, context.paths
    with _measure(times, "paths"):
        if question.with_paths:
            first = len(evidence) + 1
            paths = evidence_retrieval.paths(base, question.text, matched, first_label=first)
        first = len(evidence) + len(paths.evidence) + 1
        rows = [piece for piece in context.rest if piece.table]
        own = evidence_retrieval.own_evidence(
            base, matched, evidence, rows, paths.lines, first_label=first
        )
    return replace(context, paths=paths, own=own)


def _with_graph(
    base: Retrieval,
    times: dict[str, float],
    question: QueryInput,
    context: _Context,
    chain: Chain | None,
) -> _Context:
    """Build an evidence graph if the method says so.

    Its nodes and edges are added to the paths, and it ranks the evidence, unless a picture does.
    """
    if question.method != "evidence" or context.matched.none_identified:
        return context
    from ku_rag.answering import graph_evidence

    mllm = chain.mllm if chain else None
    with _measure(times, "evidence graph"):
        search = graph_evidence.build_graph(
            base, question.text, context.matched, mllm, question.prompts, question.construction
        )
    k, first = len(context.evidence), len(context.evidence) + len(context.paths.evidence) + 1
    if context.matched.region is None:
        every = graph_evidence.ranked(search, (*context.evidence, *context.rest))
        best = [replace(piece, label=f"E{n}") for n, piece in enumerate(every[:k], 1)]
        chunks = {piece.chunk for piece in best}
        own = [piece for piece in (*context.evidence, *context.own) if piece.chunk not in chunks]
        own = [replace(piece, label=f"E{n}") for n, piece in enumerate(own, first)]
        context = replace(context, evidence=best, own=own, rest=every[k:])
    stated = graph_evidence.statements(search.graph, first_label=first + len(context.own))
    cited = (*context.paths.cited, *(path.label for path in stated if mllm))
    paths = replace(context.paths, evidence=[*context.paths.evidence, *stated], cited=cited)
    return replace(context, paths=paths, search=search)


def _compose(context: _Context, *, for_model: bool) -> list[Image]:
    """The pages of the multimodal passage."""
    from ku_rag.answering.passage import PAGE_HEIGHT, cards, compose

    return compose(
        cards(context.matched.units, context.evidence, context.pictures),
        page_height=correction.PAGE_HEIGHT if for_model else PAGE_HEIGHT,
    )


def _material(
    question: QueryInput,
    picture: Image | None,
    context: _Context,
    pages: Sequence[Image],
    caption: Reply | None,
    planned: Planned | None,
) -> Material:
    region = context.matched.region
    crop = None if question.strict or picture is None else _crop(question, picture, region)
    return Material(
        question.text,
        picture,
        region=region.box if region else None,
        crop=crop,
        units=context.matched.units,
        evidence=context.evidence,
        paths=context.paths.evidence,
        leading=context.paths.cited,
        pages=pages if question.with_units else (),
        pages_only=bool(question.strict),
        caption=caption,
        queries=planned.queries if planned else (),
    )


def _crop(question: QueryInput, picture: Image, region: Region | None) -> Image | None:
    """Return the region of the original picture; None if it is the whole."""
    if region is None or question.image is None or region.box == (0, 0, *picture.size):
        return None

    def crop(whole: Image, _: object) -> Image:
        return whole.crop(scaled(region.box, max(1.0, max(whole.size) / MATCHED_SIDE)))

    return decode(question.image, crop)


def _read(
    base: Retrieval, question: QueryInput, context: _Context, *, with_picture: bool
) -> Reading:
    """Have the extractive reader read the evidence of the units that the question can be about."""
    units, about = context.matched.units, context.matched.about
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
    rows = [piece for piece in every if piece.table and piece.score and wanted <= {*piece.unit_ids}]
    rows.sort(key=lambda row: -row.score)  # a reranker may have ordered them otherwise
    texts = [piece for piece in (*context.evidence, *context.rest) if wanted <= {*piece.unit_ids}]
    if stated := cells.read(question.text, rows, texts):
        return stated
    pieces = [e for e in every if not e.table and (not units or about & {*e.unit_ids})]
    reading = prose.read(question.text, pieces, units)
    if not reading.answer and context.search and not with_picture:
        from ku_rag.answering.graph_evidence import read_wanted

        reading = read_wanted(question.text, context.search, every) or reading
    if not reading.answer and every and not pieces:
        closest = ClosestSentence(rows[0].label, rows[0].text) if rows else None
        reading = replace(reading, why="No cell or sentence states it.", closest=closest)
    if not reading.answer:
        for words, name in context.matched.names.similar.items():
            why = f"{reading.why} {words!r} is no name that is known: did you mean {name!r}?"
            reading = replace(reading, why=why)
    return reading


def _decline(units: Sequence[Match]) -> str:
    """Return why no fact is stated about a picture."""
    if not units:
        return "nothing in the picture matches a unit of the knowledge base"
    best = units[0]
    return (
        f"not sure: the picture looks most like {best.name} (confidence {best.confidence:.2f}), "
        "but it may show something that is not in the knowledge base"
    )


def _from_paths(context: _Context) -> Reading:
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
    answer: Answer, file: Path, picture: Image | None, context: _Context, pages: Sequence[Image]
) -> None:
    from ku_rag.answering.report import Section, render

    html = render([Section(answer, picture, context.pictures, pages)])
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(html, encoding="utf-8")
