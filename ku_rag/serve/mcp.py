"""A knowledge base for the Model Context Protocol (MCP): tools, resources, a prompt, sessions."""

from __future__ import annotations

import asyncio
import os
from base64 import b64encode
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError
from mcp.server.mcpserver.resources import ResourceSecurity
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import CallToolResult, ContentBlock, ImageContent, TextContent, ToolAnnotations
from pydantic import BaseModel, BeforeValidator, Field, ValidationInfo
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

import ku_rag
from ku_rag.errors import BadInput, KuError, NotFound, ReadOnly
from ku_rag.pictures import read_data_uri
from ku_rag.serve.bodies import STORED, unit_of
from ku_rag.serve.problems import without_folders
from ku_rag.serve.served_base import ServedBase
from ku_rag.types import Outcome

T = TypeVar("T")

_IDLE_S, _MOST_SESSIONS = 600, 256  # an idle session ends; above that many, a new one gets 503


def _picture_uri(file: str | None, info: ValidationInfo) -> str | None:
    """Return the resource address of a stored picture; the context is the base."""
    if not file or not info.context:
        return file
    stored = STORED.fullmatch(file)
    return f"ku://picture/{stored[1] if stored else info.context.picture_hash(file)}"


PictureUri = Annotated[str | None, BeforeValidator(_picture_uri)]
Picture = Annotated[str, Field(description="A data URI: data:image/png;base64,… or the like.")]
Count = Annotated[int, Field(ge=1, le=100, description="Maximum number of results.")]
_RECORD = '{"name", "id"?, "kind"?, "aliases"?, "texts"?: [], "images"?: [data URI], "metadata"?}'
UnitJson = Annotated[dict[str, Any], Field(description=_RECORD)]


class FoundUnit(BaseModel, from_attributes=True):
    """A matching unit and its best matching picture."""

    id: str
    name: str
    confidence: float | None = Field(description="0 to 1; null if unknown.")
    image: PictureUri


class FoundText(BaseModel, from_attributes=True):
    """A text, a table row or a graph path, and the unit or file that it comes from."""

    label: str = Field(description="The label that citations use, such as E1.")
    text: str
    origin: str = ""
    owners: list[str] = Field([], description="Ids of the units whose own text it is.")


class SearchAnswer(BaseModel, from_attributes=True):
    """Units and texts, best first; pictures of the first units follow as content."""

    units: list[FoundUnit]
    chunks: list[FoundText]


class QuestionAnswer(SearchAnswer):
    """An answer and its evidence: units, chunks and graph paths."""

    outcome: Outcome = Field(description="unsure: it may be about one of the units.")
    answer: str = Field(description="Empty unless the outcome is answered.")
    why: str = Field(description="How it was found, or why there is none.")
    citations: list[str] = Field(description="Labels of chunks and paths.")
    paths: list[FoundText]


class UnitAnswer(BaseModel):
    """A unit; its first pictures follow as content."""

    id: str
    name: str
    kind: str
    aliases: list[str]
    texts: list[str]
    tables: list[dict[str, Any]]
    relations: list[dict[str, Any]]
    metadata: dict[str, Any]
    images: list[PictureUri]


class UnitTools:
    """The tools and resources of a knowledge base; clients see the docstrings.

    Pictures in `folders` may be opened by path, relative or absolute.
    """

    def __init__(self, base: ServedBase, folders: Sequence[Path]) -> None:
        self._base, self._kb = base, base.kb
        self._folders = [folder.resolve() for folder in folders]

    def ask(
        self,
        question: str,
        picture: Picture = "",
        k: Count | None = None,
        unit: str | None = None,
        kind: str | None = None,
        where: Sequence[str] = (),
        method: Literal["", "evidence", "model-only"] = "",
    ) -> Annotated[CallToolResult, QuestionAnswer]:
        """Answer a question, about a picture, the unit of an id, or units by kind and metadata."""
        image = self._picture(picture) if picture else None
        options: Any = {"k": k, "unit": unit, "kind": kind, "where": where, "method": method}
        answer = self._kb.query(image, question, **options)
        parts = ("outcome", "answer", "citations", "units", "chunks", "paths")
        fields = {name: getattr(answer, name) for name in parts} | {"why": answer.reading.why}
        return self._result(QuestionAnswer, fields)

    def look(
        self, picture: Picture, k: Count = 5, kind: str | None = None, where: Sequence[str] = ()
    ) -> Annotated[CallToolResult, SearchAnswer]:
        """Find the units that a picture shows, and their texts."""
        image = self._picture(picture)
        return self._result(SearchAnswer, self._kb.search(image=image, k=k, kind=kind, where=where))

    def search(
        self, text: str, k: Count = 5, kind: str | None = None, where: Sequence[str] = ()
    ) -> Annotated[CallToolResult, SearchAnswer]:
        """Find units and texts by words, kind and metadata, such as "calories<100"."""
        return self._result(SearchAnswer, self._kb.search(text=text, k=k, kind=kind, where=where))

    def unit(self, id: str) -> Annotated[CallToolResult, UnitAnswer]:
        """Show a unit, by its id or its unique name."""
        return self._result(UnitAnswer, self._base.unit(id))

    def graph_paths(self, start: str, end: str | None = None, k: Count = 10) -> list[str]:
        """List the shortest paths of relations between two units, or from one."""
        return [path.text for path in self._kb.graph.paths(start, end, most=k)]

    def add(self, record: UnitJson, context: Context) -> Annotated[CallToolResult, UnitAnswer]:
        """Add a unit; without an id it is merged into the unit with the same name or picture."""
        request = context.request_context.request
        if request is not None:
            if not request.state.may_write:
                raise ReadOnly("this key is read-only: nothing was changed")
            change = {"is_change": True, "base": self._base.name, "action": "MCP add"}
            request.scope["state"] |= change
        with unit_of(self._base, record) as unit:
            return self.unit(self._kb.add(unit).id)

    def read_unit(self, id: str) -> UnitAnswer:
        """A unit with its texts, tables, relations and pictures."""
        return UnitAnswer.model_validate(self._base.unit(id), context=self._kb)

    def read_picture(self, digest: str) -> bytes:
        """A stored picture, at most 1,024 pixels wide and high."""
        return self._base.small_copy(digest, 1024)

    def _picture(self, picture: str) -> bytes | Path:
        if not self._folders or picture.startswith("data:"):
            return read_data_uri(picture)
        files = [(folder / picture).resolve() for folder in (Path.cwd(), *self._folders)]
        inside = [file for file in files if any(map(file.is_relative_to, self._folders))]
        if not inside:
            raise BadInput(f"{Path(picture).name!r} is in no folder of --pictures")
        return next(filter(os.path.exists, inside), inside[0])

    def _result(self, model: type[BaseModel], result: object) -> CallToolResult:
        """Return a result as text and as JSON, with up to three pictures."""
        answer = model.model_validate(result, context=self._kb)
        content = answer.model_dump(mode="json")
        uris = content.get("images", [unit["image"] for unit in content.get("units", ())])
        blocks: list[ContentBlock] = [TextContent(type="text", text=answer.model_dump_json())]
        for uri in [*filter(None, uris)][:3]:
            data = b64encode(self._base.small_copy(uri.rpartition("/")[2], 512)).decode()
            blocks.append(ImageContent(type="image", data=data, mime_type="image/jpeg"))
        return CallToolResult(content=blocks, structured_content=content)


def answer_from_evidence(question: str) -> str:
    """Answer a question only from the knowledge base, with citations."""
    return (
        f"{question}\n\nAnswer with the tool `ask`, and cite its evidence by label and origin. "
        "If its answer is empty, say that the knowledge base has no answer; add nothing else."
    )


def create_server(
    base: ServedBase, *, may_add: bool = False, folders: Sequence[Path] = ()
) -> MCPServer[Any]:
    """Create the MCP server of a knowledge base; see `UnitTools` and `McpSessions`."""
    server = MCPServer[Any]("ku-rag", version=ku_rag.__version__, log_level="WARNING")
    tools, reads = UnitTools(base, folders), ToolAnnotations(read_only_hint=True)
    for tool in (tools.ask, tools.look, tools.search, tools.unit, tools.graph_paths):
        server.tool(annotations=reads)(_in_worker(base, base.read, tool))
    if may_add:
        adds = ToolAnnotations(read_only_hint=False, destructive_hint=False)
        server.tool(annotations=adds)(_in_worker(base, base.change, tools.add))
    free = ResourceSecurity(exempt_params={"id"})  # no path is made of it
    unit = server.resource("ku://unit/{+id}", mime_type="application/json", security=free)
    unit(_in_worker(base, base.read, tools.read_unit))
    picture = server.resource("ku://picture/{digest}", mime_type="image/jpeg")
    picture(_in_worker(base, base.read, tools.read_picture))
    server.prompt()(answer_from_evidence)
    return server


def _in_worker(
    base: ServedBase, run: Callable[..., Awaitable[T]], function: Callable[..., T]
) -> Callable[..., Coroutine[Any, Any, T]]:
    """Run a function in a worker thread of the base; errors name no folders."""

    @wraps(function)
    async def call(*args: object, **named: object) -> T:
        try:
            return await run(lambda _: function(*args, **named))
        except KuError as error:
            kind = ResourceNotFoundError if isinstance(error, NotFound) else ResourceError
            raise kind(without_folders(str(error), base.root)) from error
        except HTTPException as error:
            raise ResourceError(error.detail) from error

    return call


class McpSessions:
    """Sessions of streamable HTTP; `AccessMiddleware` has checked host, origin and key."""

    def __init__(self, base: ServedBase, *, may_add: bool) -> None:
        server = create_server(base, may_add=may_add)
        checked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
        limits: Any = {"session_idle_timeout": _IDLE_S, "max_sessions": _MOST_SESSIONS}
        server.streamable_http_app(transport_security=checked, **limits)
        self._manager, self._started = server.session_manager, asyncio.Event()
        self._running = asyncio.create_task(self._run())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        await self._started.wait()
        await self._manager.handle_request(scope, receive, send)

    async def _run(self) -> None:
        async with self._manager.run():
            self._started.set()
            await asyncio.Event().wait()

    async def close(self) -> None:
        """End all sessions."""
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)
