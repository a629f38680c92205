"""A knowledge base that is served: worker threads, one change at a time, and public JSON."""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlencode

from fastapi.sse import EventSourceResponse, format_sse_event
from prometheus_client import Gauge
from starlette.exceptions import HTTPException
from starlette.responses import Response

from ku_rag import pictures
from ku_rag.errors import Closed, KuError, Locked, Refused
from ku_rag.graph.model import VIDEOS
from ku_rag.knowledge_base import KnowledgeBase
from ku_rag.serve.problems import describe, encode_json, without_folders
from ku_rag.store import table_rows
from ku_rag.store.layout import Layout

if TYPE_CHECKING:
    from ku_rag.serve.jobs import JobQueue
    from ku_rag.serve.mcp import McpSessions

T = TypeVar("T")

_FILES = frozenset({"source", "uri", "item", VIDEOS})
"""Keys of results whose values may be paths of files that the server does not offer."""
_MESSAGES = frozenset({"error", "reason", "why"})  # keys of messages that may name files


class WorkerPool:
    """Worker threads with a bounded queue; `busy` measures calls in progress or waiting."""

    def __init__(self, threads: int, waiting: int) -> None:
        self._threads = ThreadPoolExecutor(threads, "ku-serve")
        self._most, self._used = threads + waiting, 0
        name, about = "ku_requests_in_progress", "Requests in progress or waiting."
        self.busy = Gauge(name, about, registry=None, multiprocess_mode="livesum")

    def submit(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Call a function in a thread, unless too many calls are waiting."""
        if self._used >= self._most:
            raise HTTPException(429, "the server is busy: try again in a few seconds")
        self._count(1)
        future = asyncio.wrap_future(self._threads.submit(function))
        future.add_done_callback(lambda _: self._count(-1))
        return future

    def _count(self, change: int) -> None:
        self._used += change
        self.busy.set(self._used)

    def close(self) -> None:
        """Wait for the calls in progress; cancel those that wait."""
        self._threads.shutdown(cancel_futures=True)


class ServedBase:
    """A knowledge base that requests share.

    Args:
        is_default: whether addresses without the parameter kb are about this base.

    Attributes:
        write_lock: held by the change or ingest of this server that is in progress.
        parameters: query parameters of every address about this base.
        sends_fields: whether responses have all fields of results, for `ku_rag.client`.
        jobs: the ingest jobs; None on a read-only server.
    """

    sends_fields = False
    jobs: JobQueue | None = None
    sessions: McpSessions | None = None

    def __init__(
        self,
        name: str,
        kb: KnowledgeBase,
        pool: WorkerPool,
        root_path: str = "",
        *,
        is_default: bool = True,
    ) -> None:
        self.name, self.kb, self._pool, self.root_path = name, kb, pool, root_path
        self.parameters = {} if is_default else {"kb": name}
        self._calls, self._is_closed = set[asyncio.Future[Any]](), False
        self.write_lock, self.root = asyncio.Lock(), str(kb.path)
        folder = kb.path if kb.path.name != "kb" else kb.path.parent
        self.title = folder.name if is_default else name
        self.uploads, self._upload_root = Layout(kb.path).uploads, kb.upload_root

    def address(self, path: str, **query: object) -> str:
        """Return the address of a path of the server, without empty query parameters."""
        parameters = self.parameters | {name: value for name, value in query.items() if value}
        encoded = urlencode(parameters, doseq=True, quote_via=quote)
        return f"{self.root_path}{quote(path)}{'?' * bool(encoded)}{encoded}"

    async def read(self, function: Callable[[KnowledgeBase], T]) -> T:
        """Call a function with the base in a worker thread; see `_submit`."""
        return await self._submit(lambda: function(self.kb))

    async def change(self, function: Callable[[KnowledgeBase], T]) -> T:
        """Call a function that changes the base, one at a time; see `exclusive`."""
        async with self.exclusive():
            return await self.read(function)

    @asynccontextmanager
    async def exclusive(self) -> AsyncIterator[None]:
        """Hold the lock of changes; wait for it at most as long as for that of the writer."""
        try:
            async with asyncio.timeout(self.kb.settings.lock_wait_s):
                await self.write_lock.acquire()
        except TimeoutError:
            raise Locked(f"another request writes to {self.name}: try again later") from None
        try:
            yield
        finally:
            self.write_lock.release()

    async def stream(self, function: Callable[[KnowledgeBase], Iterator[T]]) -> AsyncIterator[T]:
        """Yield the items of an iterator in a worker thread, until the client disconnects."""
        loop, items = asyncio.get_running_loop(), asyncio.Queue[list[T]]()
        has_left = threading.Event()

        def produce() -> None:
            try:
                for item in function(self.kb):
                    if has_left.is_set():
                        return
                    loop.call_soon_threadsafe(items.put_nowait, [item])
            finally:
                loop.call_soon_threadsafe(items.put_nowait, [])

        produced = self._submit(produce)
        try:
            while item := await items.get():
                yield item[0]
            await produced
        finally:
            has_left.set()

    def _submit(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Call a function in a worker thread; raise `Closed` after `close`."""
        if self._is_closed:
            raise Closed(f"{self.name} was renamed or deleted: nothing was changed")
        call = self._pool.submit(function)
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        return call

    async def close(self) -> None:
        """Close the base; calls in progress end before, unless they take too long."""
        self._is_closed = True
        if self._calls:
            await asyncio.wait(self._calls, timeout=self.kb.settings.lock_wait_s)
        await asyncio.to_thread(self.kb.close)

    def unit(self, unit_id: str) -> dict[str, Any]:
        """Return the public JSON of a unit and its tables, without the rows among its texts."""
        unit: Any = self.kb.show(unit_id)
        if not self.sends_fields:
            tables = self.kb.tables(unit.id)
            texts = table_rows.without_rows(unit.texts, tables)
            unit = unit.to_dict() | {"texts": texts, "tables": tables}
        data: dict[str, Any] = self.public(unit)
        return data

    def small_copy(self, digest: str, size: int) -> bytes:
        """Return a stored picture as JPEG, at most `size` pixels wide and high."""
        smaller = pictures.load_picture(self.kb.picture(digest), size)
        smaller.thumbnail((size, size))
        smaller.save(out := io.BytesIO(), "JPEG", quality=85)
        return out.getvalue()

    async def reply(self, function: Callable[[KnowledgeBase], object]) -> Response:
        """Return the result of a function as JSON."""
        return self.respond(await self.read(function))

    def respond(
        self, value: object, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> Response:
        """Return a value as JSON without paths of this machine."""
        return Response(encode_json(self.public(value)), status, headers, "application/json")

    async def events(self, events: AsyncIterator[tuple[str | None, object]]) -> Response:
        """Send events, each a kind and data; an error becomes an event of the kind "error".

        The first event is awaited, so that an earlier error becomes a problem document.
        """
        first = await anext(events)

        def format_event(kind: str | None, data: object) -> bytes:
            text = data if isinstance(data, str) else encode_json(self.public(data)).decode()
            return format_sse_event(data_str=text, event=kind)

        async def sent() -> AsyncIterator[bytes]:
            yield format_event(*first)
            try:
                async for event in events:
                    yield format_event(*event)
            except KuError as error:
                yield format_event("error", describe(error, self.root))

        return EventSourceResponse(sent(), headers={"Cache-Control": "no-store"})

    def public(self, value: Any, key: str = "") -> Any:  # noqa: ANN401 - any result
        """Convert a value to JSON with addresses of pictures and names of other files.

        Texts and tables are returned as stored, and so is metadata, except an entity's videos.
        `key` is the key of the value in an object.
        """
        if key == "metadata" and isinstance(value, dict):
            return value | {k: self.public(item, k) for k, item in value.items() if k == VIDEOS}
        if self.sends_fields and is_dataclass(value):  # masks are not compared, and not sent
            value = {f.name: getattr(value, f.name) for f in fields(value) if f.compare}
        if isinstance(value, Mapping):
            return {k: self.public(item, k) for k, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.public(item, key) for item in value]
        if hasattr(value, "to_dict"):
            return self.public(value.to_dict(), key)
        value = str(value) if isinstance(value, Path) else value
        if not isinstance(value, str):
            return value
        if key in ("image", "images") and value.startswith("/"):
            file = Path(value)  # a linked picture is known by its path
            is_copy = file.is_relative_to(self.kb.path)
            digest = file.stem if is_copy else self.kb.picture_hash(file)
            return self.address(f"/v1/images/{digest}")
        if key in _FILES and value.startswith("/"):
            path, mark, record = value.partition("#")
            inside = path.removeprefix(f"{self._upload_root}/")
            return (inside if inside != path else "/".join(path.split("/")[-2:])) + mark + record
        if key in _MESSAGES and self.root in value:
            return without_folders(value, self.root)
        return value

    async def stop(self) -> None:
        """End the MCP sessions and the ingest jobs."""
        parts = (self.sessions, self.jobs)
        await asyncio.gather(*(part.close() for part in parts if part is not None))

    def check_folder(self) -> None:
        """Check that the folder exists: its open files stay readable when it is deleted."""
        if not self.kb.path.is_dir():
            gone = f"the folder of {self.name} was deleted"
            raise Closed(f"{gone}: restore it and restart the server")

    def check_copies(self) -> None:
        """Check that the base stores copies of pictures."""
        if self.kb.settings.images == "link":
            raise Refused("this base links pictures and stores no copies: use `ku ingest`")
