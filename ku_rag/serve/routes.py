"""The REST API: one route for each method of a knowledge base."""

from __future__ import annotations

import asyncio
import copy
import io
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Annotated, Any
from uuid import uuid4

from fastapi import APIRouter, Body, Depends, File, Form, Header, Query, Request, UploadFile
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, RedirectResponse, Response

from ku_rag.errors import BadInput, NotFound, ReadOnly
from ku_rag.graph.model import Direction
from ku_rag.knowledge_base import KnowledgeBase
from ku_rag.serve.access import MAX_UPLOAD
from ku_rag.serve.bodies import (
    Feedback,
    MergeBody,
    QueryBody,
    SearchBody,
    UndoBody,
    UnitChanges,
    body,
    fields_of,
    sends,
    unit_of,
)
from ku_rag.serve.jobs import JobQueue
from ku_rag.serve.problems import encode_json
from ku_rag.serve.served_base import ServedBase
from ku_rag.types import Added

MAX_FILES = 1000  # maximum number of files of an upload


async def _base(request: Request, kb: str = "") -> ServedBase:
    """Return the base that the parameter kb names, or the first that the key may use."""
    base: ServedBase = request.app.state.bases.find(kb, request.state.key)
    request.state.base = base.name
    if request.headers.get("accept") == "application/vnd.ku-rag+json":  # of `ku_rag.client`
        base = copy.copy(base)
        base.sends_fields = True
    return base


async def _check_parameters(request: Request) -> None:
    """Refuse parameters of an address that its route does not have."""
    path = request.app.openapi()["paths"][request.scope["route"].path_format]
    parameters = path[request.method.lower()].get("parameters", ())
    names = [parameter["name"] for parameter in parameters if parameter["in"] == "query"]
    if unknown := [name for name in request.query_params if name not in names]:
        raise BadInput(f"{unknown[0][:80]}: expected only {', '.join(names)}")


async def _check_writable(request: Request) -> None:
    request.state.is_change = True
    if not request.state.may_write:
        raise ReadOnly("this server or this key is read-only: nothing was changed")


Base = Annotated[ServedBase, Depends(_base)]
Limit = Annotated[int, Query(ge=1, le=1000)]
Offset = Annotated[int, Query(ge=0, le=2**40)]
Name = Annotated[str, Query(max_length=2000)]  # two of them, percent-encoded, fit into a line
Size = Annotated[int, Query(ge=0, le=2048, description="Greatest width and height; 0 for any.")]
Files = Annotated[list[UploadFile], File()]
IdempotencyKey = Annotated[str, Header(max_length=200)]
FileNames = Annotated[tuple[str, ...], Form(examples=[["Bridge/photo.jpg", "Bridge/about.txt"]])]
Where = Annotated[tuple[str, ...], Query(examples=[["calories<100"]])]
Shares = Annotated[tuple[float, ...], Query()]
IfNoneMatch = Annotated[str, Header()]
IfMatch = Annotated[str, Header(description="The ETag that the unit must have.")]
PLAN = {"question", "image", "kind", "where", "strict", "plan"}
EVIDENCE = {"question", "image", "no_image_matching", "no_visual_evidence", "no_table_mining"}
PlanFields = Annotated[QueryBody, Depends(fields_of(QueryBody, PLAN))]
EvidenceFields = Annotated[QueryBody, Depends(fields_of(QueryBody, EVIDENCE))]
FeedbackFields = Annotated[Feedback, Depends(fields_of(Feedback))]
QueryFields = Annotated[QueryBody, Depends(fields_of(QueryBody))]
SearchFields = Annotated[SearchBody, Depends(fields_of(SearchBody))]
UnitJson = Annotated[dict[str, Any], Body(examples=[{"name": "Lamp", "texts": ["It is red."]}])]
Change = Callable[[KnowledgeBase], object]
WRITES: dict[str, Any] = {"dependencies": [Depends(_check_writable)]}

router = APIRouter(prefix="/v1", dependencies=[Depends(_check_parameters)])


@router.post("/query", **body(QueryBody), **sends("text/event-stream"))
@router.post("/query/stream", deprecated=True, **body(QueryBody), **sends("text/event-stream"))
async def query(request: Request, base: Base, form: QueryFields) -> Response:
    """Answer a question; as a stream: round, region, units, evidence, draft, answer."""
    if form.stream or request.url.path.endswith("/stream"):
        steps = base.stream(form.events)
        return await base.events((step.kind, step.answer or {**step.data}) async for step in steps)
    return await base.reply(lambda kb: kb.query(form.picture(kb), form.question, **form.options()))


@router.post("/plan", **body(QueryBody, PLAN))
async def plan(base: Base, form: PlanFields) -> Response:
    """Plan a question: reformulate it and search in rounds, without answering it."""
    options: dict[str, Any] = form.model_dump(include={"kind", "where", "strict"})
    options["plan"] = form.plan or "sequential"
    return await base.reply(lambda kb: kb.plan(form.picture(kb), form.question, **options))


@router.post("/evidence-graph", **body(QueryBody, EVIDENCE))
async def evidence_graph(base: Base, form: EvidenceFields) -> Response:
    """Build the evidence graph of a question."""
    settings = form.construction()
    return await base.reply(
        lambda kb: kb.graph.evidence(form.question, image=form.picture(kb), construction=settings)
    )


@router.post("/search", **body(SearchBody))
async def search(base: Base, form: SearchFields) -> Response:
    """Find units and chunks for a picture, a text, or both."""
    return await base.reply(form.find)


@router.post("/look", **body(SearchBody))
async def look(base: Base, form: SearchFields) -> Response:
    """Find the units that a picture shows, with the pictures and reasons of the matches."""
    return await base.reply(lambda kb: {"units": form.find(kb).units})


def tag_of(unit: Mapping[str, Any]) -> str:
    """Return the ETag of the JSON of a unit; its facts follow from the rest."""
    stated = {**unit, "facts": ()}
    return f'"{sha256(encode_json(stated)).hexdigest()[:32]}"'


@router.get("/units")
async def list_units(
    base: Base, limit: Limit = 50, offset: Offset = 0, kind: str | None = None, where: Where = ()
) -> Response:
    """List units ordered by id, and the offset of the next page."""

    def units(kb: KnowledgeBase) -> dict[str, Any]:
        listed = kb.list(kind=kind, where=where, limit=limit + 1, offset=offset)
        following = offset + limit if len(listed) > limit else None
        return {"items": listed[:limit], "next_offset": following}

    return await base.reply(units)


@router.post("/units", status_code=201, **WRITES)
async def add_unit(base: Base, unit: UnitJson) -> Response:
    """Add a unit record; without an id it is merged into the unit that it matches, if any."""

    def add(kb: KnowledgeBase) -> Added:
        with unit_of(base, unit) as described:
            return kb.add(described)

    added = await base.change(add)
    return base.respond(added, 201, {"Location": base.address(f"/v1/units/{added.id}")})


@router.delete("/units", **WRITES)
async def delete_units(base: Base, ids: Annotated[tuple[str, ...], Query()]) -> Response:
    """Delete units, or sources by their names, in one change."""
    return base.respond(await base.change(lambda kb: kb.delete(ids)))


@router.get("/units/{unit_id:path}")
async def get_unit(base: Base, unit_id: str) -> Response:
    """Return a unit with its tables, by its id or its unique name."""
    unit = await base.read(lambda _: base.unit(unit_id))
    return Response(encode_json(unit), 200, {"ETag": tag_of(unit)}, "application/json")


@router.put("/units/{unit_id:path}", **WRITES)
async def put_unit(base: Base, unit_id: str, unit: UnitJson, if_match: IfMatch = "") -> Response:
    """Store a unit record under an id; it replaces the unit that has this id."""

    def put(kb: KnowledgeBase) -> object:
        with unit_of(base, unit, unit_id) as described:
            return kb.add_many([described], replace=True)

    return await change_unit(base, unit_id, if_match, put, may_be_new=True)


@router.patch("/units/{unit_id:path}", **WRITES)
async def update_unit(
    request: Request, base: Base, unit_id: str, changes: UnitChanges, if_match: IfMatch = ""
) -> Response:
    """Replace the given fields of a unit."""
    by = request.state.key.name
    return await change_unit(base, unit_id, if_match, lambda _: changes.apply(base, unit_id, by))


@router.delete("/units/{unit_id:path}", **WRITES)
async def delete_unit(base: Base, unit_id: str, if_match: IfMatch = "") -> Response:
    """Delete a unit with all contents that no other source provides."""
    return await change_unit(base, unit_id, if_match, lambda kb: kb.delete(unit_id))


async def change_unit(
    base: ServedBase, unit_id: str, expected: str, change: Change, *, may_be_new: bool = False
) -> Response:
    """Change a unit in one transaction, if it has the expected ETag."""

    def checked(kb: KnowledgeBase) -> object:
        with kb.transaction():
            if expected or not may_be_new:
                kb.tables(unit_id)  # `show` takes names as well, and `delete` takes sources
            if expected not in ("", "*") and tag_of(base.unit(unit_id)) != expected:
                detail = f"the unit {unit_id[:80]!r} was changed meanwhile: get it again"
                raise HTTPException(412, detail)
            return change(kb)

    return base.respond(await base.change(checked))


@router.get("/history")
async def list_history(base: Base, unit: Name) -> Response:
    """List the changes of a unit by hand, the last first."""
    return await base.reply(lambda kb: {"items": kb.history(unit)})


@router.post("/undo", **WRITES)
async def undo(request: Request, base: Base, form: UndoBody, if_match: IfMatch = "") -> Response:
    """Undo a change of a unit by hand."""
    unit, number, by = form.unit, form.number, request.state.key.name
    return await change_unit(base, unit, if_match, lambda kb: kb.undo(unit, number, by=by))


@router.post("/merge", **WRITES)
async def merge(base: Base, form: MergeBody, if_match: IfMatch = "") -> Response:
    """Merge two units: all sources of the other one join the unit, and the other is deleted."""

    def join(kb: KnowledgeBase) -> object:
        return kb.merge(form.unit, form.other, dry_run=form.dry_run)

    if form.dry_run:
        return base.respond(await base.change(join))
    return await change_unit(base, form.unit, if_match, join)


@router.get("/facets")
async def get_facets(base: Base, kind: str | None = None, where: Where = ()) -> Response:
    """Return labels with few values, or with ranges of numbers, of the units that pass."""
    return await base.reply(lambda kb: kb.facets(kind=kind, where=where))


@router.get("/examples")
async def list_examples(base: Base, count: Annotated[int, Query(ge=1, le=100)] = 4) -> Response:
    """List example questions about the base, some with a picture."""
    return await base.reply(lambda kb: {"items": kb.examples(count)})


@router.get("/tables")
async def list_tables(base: Base, unit: Name) -> Response:
    """List the tables of a unit."""
    return await base.reply(lambda kb: {"items": kb.tables(unit)})


@router.get("/kinds")
async def list_kinds(base: Base) -> Response:
    """Return the number of units of each kind, the most frequent first."""
    return await base.reply(lambda kb: kb.kinds())


@router.get("/stats")
async def get_stats(base: Base) -> Response:
    """Return the size of the base, and the models that it was made with."""
    return await base.reply(lambda kb: kb.stats())


@router.get("/images/{digest}", response_class=Response, **sends("image/*"))
async def get_image(
    base: Base, digest: str, size: Size = 0, if_none_match: IfNoneMatch = ""
) -> Response:
    """Return a stored picture by its SHA-256, or a smaller copy."""
    tag = f'"{digest}-{size}"'
    headers = {"ETag": tag, "Cache-Control": "private, max-age=31536000, immutable"}

    def picture(kb: KnowledgeBase) -> Response:
        file = kb.picture(digest)
        if if_none_match == tag:
            return Response(status_code=304, headers=headers)
        if not size:
            return FileResponse(file, headers=headers)
        return Response(base.small_copy(digest, size), 200, headers, "image/jpeg")

    return await base.read(picture)


@router.get("/chunks/{chunk}/pages/{page}", response_class=Response, **sends("image/png"))
async def get_page(
    base: Base, chunk: int, page: int, box: Shares = (), if_none_match: IfNoneMatch = ""
) -> Response:
    """Return a page of the PDF file of a chunk; `box` is left, top, right, bottom, 0 to 1."""

    def picture(kb: KnowledgeBase) -> bytes:
        kb.page_image(chunk, page, box).save(out := io.BytesIO(), "PNG")
        return out.getvalue()

    data = await base.read(picture)
    headers = {"ETag": f'"{sha256(data).hexdigest()}"', "Cache-Control": "private"}
    if if_none_match == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    return Response(data, 200, headers, "image/png")


@router.get("/answers")
async def list_answers(base: Base, limit: Limit = 50, offset: Offset = 0) -> Response:
    """List stored answers and feedback, the newest first, and the offset of the next page."""
    answers = await base.read(lambda kb: kb.answers.list())
    following = offset + limit if len(answers) > offset + limit else None
    return base.respond({"items": answers[offset : offset + limit], "next_offset": following})


@router.get("/answers/{answer_id}")
async def get_answer(base: Base, answer_id: str) -> Response:
    """Return a stored answer."""
    stored = await base.read(lambda kb: kb.answers.get(answer_id))
    return base.respond({**stored.data, **stored.to_dict()})


@router.get("/answers/{answer_id}/picture", response_class=Response, **sends("image/jpeg"))
async def get_picture(base: Base, answer_id: str) -> Response:
    """Return the picture of a stored answer."""
    stored = await base.read(lambda kb: kb.answers.get(answer_id))
    if stored.picture is None:
        raise NotFound(f"the question of the answer {answer_id} has no picture")
    return Response(stored.picture, 200, {"Cache-Control": "no-store"}, "image/jpeg")


@router.post("/answers/{answer_id}", **body(Feedback), **WRITES)
async def judge_answer(
    request: Request, base: Base, answer_id: str, form: FeedbackFields
) -> Response:
    """Store feedback on an answer, and return it; a browser is sent to its page."""
    if form.delete:
        await delete_answer(base, answer_id)
    else:
        fields = form.model_dump(exclude={"delete"})
        await base.read(lambda kb: kb.answers.judge(answer_id, **fields))
    if "text/html" in request.headers.get("accept", ""):
        page = "" if form.delete else f"/{answer_id}"
        return RedirectResponse(base.address(f"/answers{page}"), 303)
    return Response(None, 204) if form.delete else await get_answer(base, answer_id)


@router.delete("/answers/{answer_id}", status_code=204, **WRITES)
async def delete_answer(base: Base, answer_id: str) -> Response:
    """Delete a stored answer with its picture and feedback."""
    await base.read(lambda kb: kb.answers.delete(answer_id))
    return Response(None, 204)


@router.get("/graph/entities/{name:path}")
async def show_entity(base: Base, name: str, most: Limit = 100) -> Response:
    """Return an entity and its relations in both directions."""
    return await base.reply(lambda kb: kb.graph.show(name, most=most))


@router.get("/graph/relations")
async def list_relations(base: Base) -> Response:
    """List the names of relations, most frequent first."""
    return await base.reply(lambda kb: {"items": kb.graph.schema()})


@router.get("/graph/paths")
async def find_paths(
    base: Base,
    start: Name,
    end: Name | None = None,
    most: Limit = 10,
    longest: int = 4,
    direction: Direction = "out",
) -> Response:
    """List the shortest paths between two entities, or from one."""
    limits: dict[str, Any] = {"most": most, "longest": longest, "direction": direction}
    return await base.reply(lambda kb: {"items": kb.graph.paths(start, end, **limits)})


@router.get("/graph/neighbourhood")
async def neighbourhood(base: Base, name: Name, hops: int = 1, most: int = 60) -> Response:
    """Return the entities within one or two hops of an entity."""
    return await base.reply(lambda kb: kb.graph.neighbourhood(name, hops=hops, most=most))


@router.post("/ingest", status_code=202, max_body_size=MAX_UPLOAD, **WRITES)
async def ingest(
    base: Base, files: Files, names: FileNames = (), idempotency_key: IdempotencyKey = ""
) -> Response:
    """Ingest uploaded files, whose `names` have folders. The response describes the job."""
    base.check_copies()
    if names and len(names) != len(files):
        counts = f"{len(files)} files and {len(names)} names"
        raise BadInput(f"{counts}: give one name per file, or none")
    names = names or tuple(file.filename or "" for file in files)
    uploads = [(name, file.file) for name, file in zip(names, files, strict=True)]
    key = sha256(f"{base.name}\n{idempotency_key}".encode()).hexdigest()[:32]
    id, queue = key if idempotency_key else uuid4().hex, base.jobs
    assert queue is not None
    job = await queue.accept(id, uploads)
    return base.respond(job, 202, {"Location": f"{base.root_path}/v1/jobs/{id}"})


async def _queue(request: Request, job_id: str) -> JobQueue:
    bases = request.app.state.bases.visible(request.state.key)
    queues: list[JobQueue] = [base.jobs for base in bases if base.jobs]
    for queue in queues:
        with suppress(NotFound):
            await asyncio.to_thread(queue.show, job_id)
            return queue
    raise NotFound(f"there is no job {job_id[:80]!r}: a job is kept for a day after its end")


Queue = Annotated[JobQueue, Depends(_queue)]


@router.get("/jobs/{job_id}")
async def get_job(queue: Queue, job_id: str) -> Response:
    """Return the state of an ingest, the number of records read, and its report."""
    return queue.base.respond(await asyncio.to_thread(queue.show, job_id))


@router.get("/jobs/{job_id}/events", **sends("text/event-stream"))
async def job_events(queue: Queue, job_id: str) -> Response:
    """Stream the states of an ingest until it ends."""
    return await queue.base.events(queue.events(job_id))


@router.post("/jobs/{job_id}/retry", status_code=202, **WRITES)
async def retry_job(queue: Queue, job_id: str) -> Response:
    """Run an ingest again that failed or left something out, with the files that it kept."""
    return queue.base.respond(await queue.retry(job_id), 202)


@router.delete("/jobs/{job_id}", status_code=202, **WRITES)
async def cancel_job(queue: Queue, job_id: str) -> Response:
    """Cancel an ingest, or delete the files that it kept; committed records stay."""
    return queue.base.respond(await asyncio.to_thread(queue.cancel, job_id), 202)
