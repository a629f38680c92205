"""HTML pages; a script reads event streams and sends changes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Form, Query, Request
from jinja2 import Environment, PackageLoader
from markupsafe import Markup
from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response
from starlette.staticfiles import StaticFiles

from ku_rag.answering.pipeline import QueryEvent
from ku_rag.answering.report import mark_text
from ku_rag.errors import BadInput, KuError
from ku_rag.graph.model import Entity
from ku_rag.knowledge_base import KnowledgeBase
from ku_rag.serve import routes
from ku_rag.serve.access import COOKIE
from ku_rag.serve.bodies import QueryBody, SearchBody, UnitChanges, UnitForm, data_uri, fields_of
from ku_rag.serve.problems import describe, without_folders
from ku_rag.serve.routes import WRITES, Base, Name, Offset, QueryFields, tag_of
from ku_rag.serve.served_base import ServedBase
from ku_rag.store.stored_answers import answer_data
from ku_rag.store.table_rows import without_rows
from ku_rag.types import NO_ANSWER

_PAGE = 48  # units on a page of the gallery
_STRIP, _STRIP_AMONG = 8, 200  # pictures on the start page, and units that are searched for them
_FILTERS = {"text", "kind", "where", "like", "least"}  # in addresses of the gallery
_MOST_PATHS, _LONGEST = 5, 8  # paths between two entities that are drawn, and relations of a path

router = APIRouter(include_in_schema=False)
files = StaticFiles(packages=[("ku_rag.serve", "static")])


def mark(piece: Mapping[str, Any], result: Mapping[str, Any]) -> Markup:
    """Return the text of a piece of evidence with its cited or closest words marked."""
    cited = zip(result["citations"], result.get("spans", ()), strict=False)
    spans = [span for label, span in cited if label == piece["evidence"]]
    closest = result["closest"] or {"evidence": "", "text": ""}
    text = closest["text"] if closest["evidence"] == piece["evidence"] else ""
    return Markup(mark_text(piece["text"], spans, text))


def unit_names(result: Mapping[str, Any]) -> dict[str, str]:
    """Return the names of the units that an answer lists, by id."""
    listed = {unit["id"]: unit["name"] for unit in result.get("units", ())}
    for chunk in result.get("chunks", ()):
        listed |= zip(chunk["unit_ids"], chunk.get("unit_names", ()), strict=False)
    return listed


def counted(count: int, noun: str, several: str = "") -> str:
    """Return a count with its noun, such as "1 unit" or "2,000 units"."""
    return f"{count:,} {noun if count == 1 else several or f'{noun}s'}"


def split_path(path: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the entities of a graph path, each with the arrow that leads to it."""
    rest, steps = path["text"], []
    for entity in path["entities"]:
        arrow, _, rest = rest.partition(entity)
        steps.append((arrow, entity))
    return steps


def field_parts(value: object) -> list[str]:
    """Return the parts of a field of a unit, by which two values are compared."""
    if isinstance(value, list):
        rows = ([item] if isinstance(item, str) else item.values() for item in value)
        return [" ".join(filter(None, row)) for row in rows]
    if isinstance(value, dict):
        return [f"{key}: {json.dumps(item, ensure_ascii=False)}" for key, item in value.items()]
    return [str(value)]


def plain(value: object) -> str:
    """Return a value of metadata as text."""
    if isinstance(value, list):
        return ", ".join(map(plain, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


_templates = Environment(loader=PackageLoader("ku_rag.serve"), autoescape=True)
_templates.filters["date"] = lambda seconds: f"{datetime.fromtimestamp(seconds, UTC):%F %R} UTC"
_filters = (split_path, field_parts, plain, counted, unit_names)
_templates.filters |= {function.__name__: function for function in _filters}
_templates.globals |= {"mark": mark, "no_answer": NO_ANSWER}


def _render(request: Request, base: ServedBase, template: str, **values: object) -> str:
    return _templates.get_template(template).render(
        base=base,
        url=base.address,
        sized=f"{'&' if base.parameters else '?'}size=320",
        bases=request.app.state.bases.visible(request.state.key),
        may_manage=request.state.key.role == "manage" and request.app.state.key_store is not None,
        here=getattr(request.scope.get("route"), "path", ""),
        may_write=request.state.may_write,
        **values,
    )


def render_page(
    request: Request, base: ServedBase, template: str, status: int = 200, **values: object
) -> Response:
    """Return a page of a base."""
    html = _render(request, base, template, **values)
    return Response(html, status, {"Cache-Control": "no-store"}, "text/html")


def show_problem(request: Request, problem: Mapping[str, Any]) -> Response:
    """Return the page of a problem; that of a missing key has a form for it."""
    bases = request.app.state.bases
    base: ServedBase = next(iter([*bases.visible(request.state.key), *bases]))
    return render_page(request, base, "problem.html", problem["status"], problem=problem)


class AddressBody(QueryBody, extra="ignore"):
    """The question of an address; `answer` is a stored answer whose picture it is about."""

    question: str = Field("", max_length=10_000)
    answer: str = ""


async def _question(base: Base, form: Annotated[AddressBody, Query()]) -> QueryBody | None:
    """Return the question of an address, or that of the stored answer that it names."""
    fields = form.model_dump(exclude={"answer"}, exclude_defaults=True)
    if form.answer:
        stored = await base.read(lambda kb: kb.answers.get(form.answer))
        earlier = {"question": stored.question, "unit": stored.about}
        fields = earlier | fields | {"image": data_uri(stored.picture or b"")}
    fields = {name: value for name, value in fields.items() if value}
    return QueryBody.model_validate(fields) if fields.get("question", "").strip() else None


class GalleryBody(SearchBody, extra="ignore"):
    """What the gallery shows; "like" is the SHA-256 of a stored picture."""

    like: str = Field("", pattern="^([0-9a-f]{64})?$")
    offset: int = Field(0, ge=0, le=2**40)


AddressQuery = Annotated[QueryBody | None, Depends(_question)]
GalleryQuery = Annotated[GalleryBody, Query()]
GalleryFields = Annotated[GalleryBody, Depends(fields_of(GalleryBody))]
UnitFields = Annotated[UnitForm, Depends(fields_of(UnitForm))]
Hops = Annotated[int, Query(ge=1, le=2)]


@router.get("/")
async def ask(request: Request, base: Base, form: AddressQuery) -> Response:
    """Return the start page, or the answer to the question of the address."""
    if form is not None:
        return await answer(request, base, form)

    def start(kb: KnowledgeBase) -> dict[str, Any]:
        pictured = [unit for unit in kb.list(limit=_STRIP_AMONG) if unit.counts["images"]]
        units = [base.public(kb.show(unit.id)) for unit in pictured[:_STRIP]]
        return {"counts": kb.stats().counts, "units": units, "examples": kb.examples()}

    return render_page(request, base, "ask.html", result={}, start=await base.read(start))


@router.get("/report")
async def report(base: Base, form: AddressQuery) -> Response:
    """Return the report of a question, or of that of a stored answer: one file with pictures."""
    if form is None:
        raise BadInput("the address has no question: expected /report?question=…")

    def write(kb: KnowledgeBase) -> bytes:
        with TemporaryDirectory() as folder:
            file = Path(folder) / "answer.html"
            kb.query(form.picture(kb), form.question, report=file, **form.options())
            return file.read_bytes()

    headers = {"Content-Disposition": 'attachment; filename="answer.html"'}
    return Response(await base.read(write), 200, headers, "text/html")


@router.post("/")
async def answer(request: Request, base: Base, form: QueryFields) -> Response:
    """Return the answer as a page, or to a script as events with the HTML of each step.

    It is stored if the request may write and comes from no page of another site.
    """
    result: dict[str, Any] = {"question": form.question, "rounds": []}
    if not (form.image or "").startswith("data:"):
        result["link"] = form.model_dump(exclude={"stream"}, exclude_defaults=True)
    steps, most = base.stream(form.events), request.app.state.settings.answers
    is_ours = request.method == "POST" or request.headers.get("sec-fetch-site") == "same-origin"
    stores = most and is_ours and request.state.may_write

    async def add(step: QueryEvent) -> tuple[str, object]:
        if step.kind == "round":
            result["rounds"].append(step.data)
        done = step.answer
        result.update(base.public(answer_data(done) if done else {**step.data}))
        if done and stores:
            options: Any = {"about": form.unit or "", "most": most}
            try:
                result["id"] = await base.read(
                    lambda kb: kb.answers.add(done, form.picture(kb), **options)
                )
            except KuError as error:
                reason = without_folders(str(error), base.root)
                result["notes"].append(f"this answer was not stored: {reason}")
        return step.kind, {"html": _render(request, base, "answer.html", result=result)}

    if "text/event-stream" in request.headers.get("accept", ""):
        return await base.events(await add(step) async for step in steps)
    async for step in steps:
        await add(step)
    if "id" in result:
        return RedirectResponse(base.address(f"/answers/{result['id']}"), 303)
    return render_page(request, base, "ask.html", result=result, start={})


@router.get("/answers")
async def list_answers(request: Request, base: Base, offset: Offset = 0) -> Response:
    """Return a page of the stored answers, and counts of all of them by week."""
    answers = await base.read(lambda kb: kb.answers.list())
    return render_page(request, base, "answers.html", answers=answers, limit=_PAGE, offset=offset)


@router.get("/answers/{answer_id}")
async def show_answer(request: Request, base: Base, answer_id: str) -> Response:
    """Return the page of a stored answer."""
    stored = await base.read(lambda kb: kb.answers.get(answer_id))
    result = base.public({**stored.data, **stored.to_dict()})
    return render_page(request, base, "ask.html", result=result, start={})


@router.get("/units")
async def list_units(request: Request, base: Base, form: GalleryQuery) -> Response:
    """Return a page of units by id, or of those that a text or a stored picture finds."""
    fields = request.query_params.multi_items()  # ">=price" and "<=price" are the ends of a range
    ends = [(name[2:] + name[:2], end) for name, end in fields if name[1:2] == "="]
    form.where = [*filter(None, form.where), *(name + end for name, end in ends if end)]
    if ends or not all(value for _, value in fields):  # the address has conditions in their place
        return RedirectResponse(base.address("/units", **form.model_dump(include=_FILTERS)), 303)
    return await _gallery(request, base, form)


@router.post("/units")
async def find_similar(request: Request, base: Base, form: GalleryFields) -> Response:
    """Return the units with pictures like the one that is sent."""
    return await _gallery(request, base, form)


async def _gallery(request: Request, base: ServedBase, form: GalleryBody) -> Response:
    form.image = form.image or (f"/v1/images/{form.like}" if form.like else None)
    form.kind, form.k = form.kind or None, _PAGE
    is_search = bool(form.text.strip() or form.image)

    def find(kb: KnowledgeBase) -> dict[str, Any]:
        chosen: dict[str, Any] = {"kind": form.kind, "where": form.where}
        scores, texts = dict[str, float](), dict[str, str]()
        if is_search:
            result = form.find(kb)
            texts = {unit.id: unit.why for unit in result.units}
            scores = {unit.id: unit.score for unit in result.units if form.image}
            for chunk in result.chunks if form.text else ():
                texts |= {id: texts.get(id) or chunk.text for id in chunk.unit_ids}
        else:
            listed = kb.list(limit=_PAGE, offset=form.offset, **chosen)
            texts = {unit.id: "" for unit in listed}
        fields = {id: {"match": texts[id], "score": scores.get(id)} for id in [*texts][:_PAGE]}
        units = [kb.show(id).to_dict() | match for id, match in fields.items()]
        return {"units": base.public(units), "facets": kb.facets(**chosen), "kinds": kb.kinds()}

    values, page = await base.read(find), form.offset // _PAGE + 1
    last = 1 if is_search else -(-values["facets"].units // _PAGE)
    near = sorted({1, last, *range(page - 2, page + 3)} & {*range(1, last + 1)})
    filters = form.model_dump(include=_FILTERS)
    narrowed = partial(base.address, "/units", **filters)
    values |= {"pages": near, "page": page, "size": _PAGE, "narrowed": narrowed, "unit": {}}
    return render_page(request, base, "units.html", **values, **filters)


@router.get("/units/{name:path}")
async def show_unit(
    request: Request, base: Base, name: str, hops: Hops = 1, other: Name = "", changed: bool = False
) -> Response:
    """Return the page of a unit, or of an entity without one; `other` is a unit to merge with."""

    def link(entity: Entity) -> str:
        return base.address(f"/units/{entity.unit or f'{entity.name} ({entity.kind})'}")

    def show(kb: KnowledgeBase) -> dict[str, Any]:
        entity = kb.graph.show(name).to_dict()
        unit = base.unit(entity["id"]) if entity["id"] else {}
        drawing = Markup(kb.graph.drawing(name, hops=hops, link=link))
        values = {"entity": entity, "unit": unit, "tag": tag_of(unit), "drawing": drawing}
        if not unit:
            return values
        texts = {
            base.public(source.uri, "uri"): without_rows(source.texts, kb.tables(unit["id"]))
            for source in kb.show(unit["id"]).sources
        }
        return values | {"texts": texts, "history": kb.history(unit["id"])}

    values = await base.read(show)
    if other and values["unit"] and request.state.may_write:
        id = values["unit"]["id"]
        values["second"] = await base.read(lambda kb: kb.show(other))
        values["merged"] = await base.change(lambda kb: kb.merge(id, other, dry_run=True))
    values |= {"hops": hops, "other": other, "changed": changed}
    return render_page(request, base, "unit.html", **values)


@router.post("/units/{unit_id:path}", **WRITES)
async def change_unit(request: Request, base: Base, unit_id: str, form: UnitFields) -> Response:
    """Do what a form of the page of a unit says, then show the unit; without an id, add one."""
    by = request.state.key.name
    fields = {name: base.public(getattr(form, name)) for name in UnitChanges.model_fields}

    def edit(_: KnowledgeBase) -> object:
        unit = base.unit(unit_id)
        unit["texts"] = [text.replace("\r\n", "\n") for text in unit["texts"]]
        changes = {name: value for name, value in fields.items() if value != unit[name]}
        return UnitChanges.model_validate(changes).apply(base, unit_id, by)

    if not unit_id:
        record = {name: value for name, value in fields.items() if value}
        added = await routes.add_unit(base, record)
        return RedirectResponse(added.headers["Location"].replace("/v1", "", 1), 303)
    actions: dict[str, routes.Change] = {
        "edit": edit,
        "undo": lambda kb: kb.undo(unit_id, form.number, by=by),
        "merge": lambda kb: kb.merge(unit_id, form.other),
        "delete": lambda kb: kb.delete(unit_id),
    }
    await routes.change_unit(base, unit_id, form.tag, actions[form.operation])
    path = "/units" if form.operation == "delete" else f"/units/{unit_id}"
    changed = form.operation in ("edit", "undo")
    return RedirectResponse(base.address(path, changed=changed), 303)


@router.get("/graph")
async def show_graph(
    request: Request, base: Base, name: Name = "", to: Name = "", relation: Name = ""
) -> Response:
    """Return a drawing of the graph, with an entity marked, or the paths from it to another."""

    def link(entity: Entity) -> str:
        return base.address("/graph", name=entity.unit or entity.name, relation=relation)

    def show(kb: KnowledgeBase) -> dict[str, Any]:
        names, problem = [end for end in (name, to) if end.strip()], ""
        try:
            marked = [kb.graph.show(end, most=0).entity for end in names]
            limits: Any = {"most": _MOST_PATHS, "longest": _LONGEST, "direction": "both"}
            paths = kb.graph.paths(name, to, **limits) if len(names) > 1 else []
        except KuError as error:  # the rest of "not found" names commands
            marked, paths, problem = [], [], str(error).partition(": `ku")[0]
        passed = dict.fromkeys([*marked, *(end for path in paths for end in path.entities)])
        view = kb.graph.overview(relation=relation, include=[*passed])
        drawing = view.draw(paths=paths, marked={end.row for end in marked}, link=link)
        values = {"view": view, "drawing": Markup(drawing), "schema": kb.graph.schema()}
        values |= {"marked": marked, "paths": [path.to_dict() for path in paths]}
        return values | {"problem": problem}

    form: dict[str, Any] = {"name": name, "to": to, "relation": relation}
    if "" in request.query_params.values():  # fields of the form that are blank
        return RedirectResponse(base.address("/graph", **form), 303)
    return render_page(request, base, "graph.html", **form, **await base.read(show))


@router.get("/login")
async def login(request: Request) -> Response:
    """Return a form for a key."""
    detail = "Unknown key." if COOKIE in request.cookies else "A key is required."
    return show_problem(request, describe(HTTPException(401, detail)))


@router.post("/login")
async def store_key(request: Request, key: Annotated[str, Form()]) -> Response:
    """Store a right key in a cookie that scripts cannot read."""
    path = f"{next(iter(request.app.state.bases)).root_path}/"
    keys, response = request.app.state.keys, RedirectResponse(path, 303)
    if not keys:
        return response
    if await keys.find(key) is None:
        error = await keys.refuse(key, request)
        error.detail = "Unknown key." if error.status_code == 401 else error.detail
        return show_problem(request, describe(error))
    is_secure = request.url.scheme == "https"
    response.set_cookie(COOKIE, key, path=path, secure=is_secure, httponly=True, samesite="strict")
    return response
