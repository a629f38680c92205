"""A client of `ku serve` with methods of `KnowledgeBase`: `connect("http://127.0.0.1:8321")`."""

from __future__ import annotations

import inspect
import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import cache, wraps
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Concatenate, ParamSpec, TypeVar, cast, get_origin
from urllib.parse import quote

from PIL import Image

from ku_rag import arguments, errors, pictures
from ku_rag.answering.pipeline import QueryEvent
from ku_rag.graph.entity_view import EntityView, RelationSchema
from ku_rag.graph.neighbourhood import Neighbourhood
from ku_rag.graph_view import GraphView
from ku_rag.knowledge_base import KnowledgeBase
from ku_rag.papers.cogplanner.plan import Plan
from ku_rag.papers.graphrag.construction import EvidenceSearch
from ku_rag.plugins import extra
from ku_rag.store.facts import Fact
from ku_rag.store.stored_answers import StoredAnswer, StoredAnswers
from ku_rag.store.unit_records import UnitRecord
from ku_rag.types import Answer

P = ParamSpec("P")
R = TypeVar("R")
Fields = dict[str, Any]

_STORED = re.compile(r".*/v1/images/([0-9a-f]{64})(?:\?.*)?", re.ASCII)
_TYPES = (EntityView, EvidenceSearch, Neighbourhood, Plan, RelationSchema)
_RESULTS = {kind.__name__: kind for kind in _TYPES}
"""Types of results that the modules of their methods import for type checking only."""


class _Server:
    """Sends requests about a base, and makes objects of the responses."""

    def __init__(self, url: str, key: str, kb: str, timeout: float | None) -> None:
        self._httpx, adapter = extra("client", "httpx"), extra("client", "pydantic").TypeAdapter
        config = {"arbitrary_types_allowed": True}
        self._adapter = cache(lambda kind: adapter(list[kind], config=config))  # type: ignore[valid-type]
        url, params = f"{url.rstrip('/')}/v1", {"kb": kb} if kb else {}
        headers = {"Accept": "application/vnd.ku-rag+json"}
        headers |= {"Authorization": f"Bearer {key}"} if key else {}
        self.http = self._httpx.Client(
            base_url=url, params=params, headers=headers, timeout=timeout
        )

    @contextmanager
    def open(self, route: str, fields: Fields, files: object = None) -> Iterator[Any]:
        """Send a request, such as "GET /units/{unit_id}", and provide the response."""
        verb, path = route.split()
        names = [name for name in fields if f"{{{name}}}" in path]
        path = path.format(**{name: quote(str(fields[name]), safe="") for name in names})
        rest = {k.removesuffix("_id"): v for k, v in fields.items() if k not in names}
        if files or verb in ("GET", "DELETE"):
            sent: Fields = {"params": rest, "files": files}
        else:
            body, kind = json.dumps(rest, default=str), "application/json"
            sent = {"content": body, "headers": {"Content-Type": kind}}
        try:
            with self.http.stream(verb, path, **sent) as response:
                if not response.is_success:
                    is_problem = "problem+json" in response.headers.get("Content-Type", "")
                    detail = f"{response.url} has the status {response.status_code}"
                    raise _error(json.loads(response.read()) if is_problem else {"detail": detail})
                yield response
        except self._httpx.HTTPError as error:
            raise errors.KuError(f"{self.http.base_url} does not answer: {error}") from error
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise errors.KuError(f"{path} sent what this version does not know: {error}") from error

    def call(self, route: str, fields: Fields, kind: Any = Fields, files: object = None) -> Any:  # noqa: ANN401
        """Return the result of a request, of a type."""
        with self.open(route, fields, files) as response:
            return self.restore(json.loads(response.read()), kind)

    def events(self, route: str, fields: Fields) -> Iterator[tuple[str, Fields]]:
        """Yield the kind and the data of each event of a response."""
        kind = ""
        with self.open(route, fields) as response:
            for line in response.iter_lines():
                name, _, text = line.partition(": ")
                if name == "event":
                    kind = text
                elif name == "data":
                    if kind == "error":
                        raise _error(json.loads(text))
                    yield kind, json.loads(text)

    def restore(self, data: Any, kind: Any) -> Any:  # noqa: ANN401 - JSON, and any type
        """Return JSON as an object of a type."""
        if get_origin(kind) is list and isinstance(data, dict):
            data = data["items"]
        if kind is Answer:  # the types of these fields do not name the classes
            for name, part in (("plan", Plan), ("evidence_graph", EvidenceSearch)):
                data[name] = data[name] and self.restore(data[name], part)
        return self._adapter(kind).validate_python([data])[0]


def _error(problem: Fields) -> errors.KuError:
    kind = getattr(errors, problem.get("code", ""), errors.KuError)
    return cast(errors.KuError, kind(problem["detail"]))


def _uri(image: Any) -> str | None:  # noqa: ANN401 - as `check_picture` takes it
    """Return a picture as a data URI, or the address of a stored picture as it is."""
    if image is None or (isinstance(image, str) and _STORED.fullmatch(image)):
        return image
    data = pictures.check_picture(image)
    if isinstance(data, Image.Image):
        data.save(file := BytesIO(), "PNG")
        data = file.getvalue()
    elif isinstance(data, Path):
        data = arguments.regular_file(data, "the picture").read_bytes()
    return f"data:;base64,{b64encode(data or b'').decode()}"


def _fields(values: Fields) -> Fields:
    """Return the arguments of a method as fields of a request."""
    fields = {name: value for name, value in values.items() if value is not None}
    for name in {"kcc", "units", "graph"} & fields.keys():
        fields[f"no_{name}"] = not fields.pop(name)
    for name in {"where", "ids"} & fields.keys():
        texts = [fields[name]] if isinstance(fields[name], str) else fields[name]
        fields[name] = arguments.texts(texts, name)
    if "image" in fields:
        fields["image"] = _uri(fields["image"])
    if "images" in fields:
        fields["images"] = [_uri(image) for image in fields["images"]]
    return fields


def _method(
    function: Callable[Concatenate[Any, P], R], route: str, call: Callable[..., Any] = _Server.call
) -> Callable[Concatenate[Any, P], R]:
    """Return a method with the signature of `function` that sends its arguments to a route."""

    @wraps(function)
    def method(self: Any, /, *values: P.args, **options: P.kwargs) -> R:  # noqa: ANN401
        bound = inspect.signature(function).bind(self, *values, **options).arguments
        fields = _fields({**bound, "self": None, "options": None, **bound.get("options", {})})
        kind = eval(function.__annotations__["return"], function.__globals__, _RESULTS)
        return cast(R, call(self._server, route, fields, kind))

    return method


def _query_events(server: _Server, route: str, fields: Fields, _: object) -> Iterator[QueryEvent]:
    for kind, data in server.events(route, fields | {"stream": True}):
        answer = server.restore(data, Answer) if kind == "answer" else None
        yield QueryEvent(kind, answer.to_dict() if answer else data, answer)


def _list(server: _Server, route: str, fields: Fields, kind: object) -> list[Any]:
    items, limit, following = list[Any](), fields.get("limit"), fields.get("offset", 0)
    while following is not None and (limit is None or len(items) < limit):
        most = 1000 if limit is None else min(1000, limit - len(items))
        with server.open(route, fields | {"limit": most, "offset": following}) as response:
            page = json.loads(response.read())
            items, following = items + server.restore(page["items"], kind), page["next_offset"]
    return items


def _add(server: _Server, route: str, fields: Fields, kind: object) -> object:
    unit = fields.pop("unit")
    if fields:
        raise errors.Refused(f"a server takes no {min(fields)}: leave them out")
    return server.call(route, _fields(asdict(unit)), kind)


def _ingest(server: _Server, route: str, fields: Fields, kind: object) -> object:
    source, progress = arguments.path(fields["path"], "the source"), fields.get("progress")
    root = source if source.is_dir() else arguments.regular_file(source, "the source").parent
    paths = {p.relative_to(root).as_posix(): p for p in sorted(source.rglob("*")) or [source]}
    visible = [(n, p) for n, p in paths.items() if p.is_file() and "/." not in f"/{n}"]
    with ExitStack() as stack:
        files = [("files", (name, stack.enter_context(p.open("rb")))) for name, p in visible]
        job = server.call(route, {}, files=files)
    try:
        for _, state in server.events("GET /jobs/{id}/events", {"id": job["id"]}):
            job = state
            if progress:
                progress(job["records"])
    except BaseException:
        server.call("DELETE /jobs/{id}", {"id": job["id"]})
        raise
    if job["state"] != "done":
        raise _error(job.get("error") or {"detail": f"the ingest is {job['state']}"})
    return server.restore(job["report"], kind)


def _facts(server: _Server, route: str, fields: Fields, _: object) -> list[Fact]:
    return [*server.call(route, fields, UnitRecord).facts]


def _page_image(server: _Server, route: str, fields: Fields, _: object) -> Image.Image:
    with server.open(route, fields) as response:
        return Image.open(BytesIO(response.read()))


def _get_answer(server: _Server, route: str, fields: Fields, _: object) -> StoredAnswer:
    data, picture = server.call(route, fields), None
    if "size" in data:
        with server.open(f"{route}/picture", fields) as response:
            picture = response.read()
    names = StoredAnswer.__slots__[:-2]
    return StoredAnswer(**{name: data[name] for name in names}, data=data, picture=picture)


def _send(server: _Server, route: str, fields: Fields, _: object) -> None:
    with server.open(route, fields):
        pass


def _refuse(self: object, name: str) -> Any:  # noqa: ANN401 - raises always
    raise AttributeError(f"a server does not offer {name!r}: open the knowledge base itself")


class RemoteGraph:
    """The graph of a knowledge base on a server, with methods of `GraphView`."""

    def __init__(self, server: _Server) -> None:
        self._server = server

    show = _method(GraphView.show, "GET /graph/entities/{name}")
    schema = _method(GraphView.schema, "GET /graph/relations")
    paths = _method(GraphView.paths, "GET /graph/paths")
    neighbourhood = _method(GraphView.neighbourhood, "GET /graph/neighbourhood")
    evidence = _method(GraphView.evidence, "POST /evidence-graph")
    __getattr__ = _refuse


class RemoteAnswers:
    """The stored answers of a knowledge base on a server, with methods of `StoredAnswers`."""

    def __init__(self, server: _Server) -> None:
        self._server = server

    list = _method(StoredAnswers.list, "GET /answers", _list)
    get = _method(StoredAnswers.get, "GET /answers/{id}", _get_answer)
    judge = _method(StoredAnswers.judge, "POST /answers/{id}", _send)
    delete = _method(StoredAnswers.delete, "DELETE /answers/{id}", _send)
    export = StoredAnswers.export
    __getattr__ = _refuse


class RemoteKnowledgeBase(ExitStack):
    """A knowledge base that `ku serve` serves.

    Methods have the arguments, results and errors of those of `KnowledgeBase` with the same names.
    Pictures in results are addresses, which `query`, `search` and `picture_hash` take.

    Args:
        url: address of the server, with the prefix of a reverse proxy if there is one.
        key: a key of the server.
        kb: name of the base; "" for the default.
        timeout: seconds to wait for a part of a response; None for no limit.
    """

    def __init__(
        self, url: str, *, key: str = "", kb: str = "", timeout: float | None = None
    ) -> None:
        super().__init__()
        self._server = _Server(url, key, kb, timeout)
        self.graph, self.answers = RemoteGraph(self._server), RemoteAnswers(self._server)
        self.enter_context(self._server.http)
        self._folder = Path(self.enter_context(TemporaryDirectory(prefix="ku-rag-")))

    query = _method(KnowledgeBase.query, "POST /query")
    query_events = _method(KnowledgeBase.query_events, "POST /query", _query_events)
    plan = _method(KnowledgeBase.plan, "POST /plan")
    search = _method(KnowledgeBase.search, "POST /search")
    list = _method(KnowledgeBase.list, "GET /units", _list)
    kinds = _method(KnowledgeBase.kinds, "GET /kinds")
    show = _method(KnowledgeBase.show, "GET /units/{unit_id}")
    facts = _method(KnowledgeBase.facts, "GET /units/{unit_id}", _facts)
    facets = _method(KnowledgeBase.facets, "GET /facets")
    examples = _method(KnowledgeBase.examples, "GET /examples")
    history = _method(KnowledgeBase.history, "GET /history")
    tables = _method(KnowledgeBase.tables, "GET /tables")
    stats = _method(KnowledgeBase.stats, "GET /stats")
    page_image = _method(KnowledgeBase.page_image, "GET /chunks/{chunk}/pages/{page}", _page_image)
    ingest = _method(KnowledgeBase.ingest, "POST /ingest", _ingest)
    add = _method(KnowledgeBase.add, "POST /units", _add)
    update = _method(KnowledgeBase.update, "PATCH /units/{unit_id}")
    undo = _method(KnowledgeBase.undo, "POST /undo")
    merge = _method(KnowledgeBase.merge, "POST /merge")
    delete = _method(KnowledgeBase.delete, "DELETE /units")
    __getattr__ = _refuse

    def picture_hash(self, file: str | Path) -> str:
        """Return the SHA-256 of a stored picture by its address in a result."""
        if (match := _STORED.fullmatch(str(file))) is None:
            raise errors.NotFound(f"{file} is no address of a picture: take it from a result")
        return match[1]

    def picture(self, digest: str) -> Path:
        """Download a stored picture to a file, which `close` deletes."""
        with self._server.open("GET /images/{digest}", {"digest": digest}) as response:
            (self._folder / digest).write_bytes(response.read())
        return self._folder / digest


connect = RemoteKnowledgeBase
