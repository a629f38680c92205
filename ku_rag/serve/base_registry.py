"""The knowledge bases of a server: each with its ingest jobs and MCP sessions."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from starlette.types import Receive, Scope, Send

from ku_rag.errors import BadInput, KuError, NotFound, Refused
from ku_rag.knowledge_base import KnowledgeBase
from ku_rag.serve.access import ServerSettings
from ku_rag.serve.jobs import JobQueue
from ku_rag.serve.keys import Key
from ku_rag.serve.served_base import ServedBase, WorkerPool
from ku_rag.store.layout import refusing

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,59}")
_DELETED = ".deleted-"  # begins the names of folders that no start takes for bases


class BaseRegistry:
    """The bases of a server, by name; those of a folder may be created, renamed and deleted.

    Its arguments are those of `create_app`; `pool` are the threads that call the bases.
    """

    def __init__(
        self,
        bases: Mapping[str, KnowledgeBase],
        settings: ServerSettings,
        clock: Callable[[], float],
        folder: Path | None = None,
        open_base: Callable[[Path], KnowledgeBase] | None = None,
    ) -> None:
        self._settings, self._clock = settings, clock
        self._folder, self._open_base = folder, open_base
        self.pool = WorkerPool(settings.threads, settings.waiting)
        self._bases, self._opened = dict[str, ServedBase](), [*bases.values()]
        self._turn = asyncio.Lock()
        for name, kb in bases.items():
            self._add(name, kb)

    def __iter__(self) -> Iterator[ServedBase]:
        return iter([*self._bases.values()])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request of /mcp or /mcp/NAME with the sessions of its base."""
        base = self.find(scope["path_params"].get("name", ""), scope["state"]["key"])
        if base.sessions is None:
            from ku_rag.serve.mcp import McpSessions  # slow to import, and not needed at the start

            base.sessions = McpSessions(base, may_add=self._settings.mcp_add)
        await base.sessions(scope, receive, send)

    def visible(self, key: Key) -> list[ServedBase]:
        """Return the bases that a key may use."""
        return [base for base in self if key.may_use(base.name)]

    def find(self, name: str, key: Key) -> ServedBase:
        """Return the base of a name, or the first that a key may use for ""."""
        for base in self.visible(key):
            if name in ("", base.name):
                return base
        raise NotFound(f"there is no knowledge base {name[:80]!r}: GET v1/models lists them")

    async def create(self, name: str) -> ServedBase:
        """Create a base."""
        async with self._turn:
            return await self._serve(name, self._free_path(name))

    async def rename(self, name: str, new_name: str) -> ServedBase:
        """Rename a base and its folder; requests about it that have not ended may fail."""
        async with self._turn:
            target = self._free_path(new_name)
            await self._move(name, target)
            return await self._serve(new_name, target)

    async def delete(self, name: str) -> None:
        """Delete a base with all files in its folder; it cannot be restored."""
        async with self._turn:
            if len(self._bases) == 1 and name in self._bases:
                raise Refused("this is the only base of the server: create another one first")
            gone = self._base(name).kb.path.with_name(f"{_DELETED}{name}")
            await asyncio.to_thread(shutil.rmtree, gone, ignore_errors=True)
            await self._move(name, gone)
            with refusing(gone):
                await asyncio.to_thread(shutil.rmtree, gone)

    async def start(self) -> None:
        """Run the jobs of all bases, after the rest of interrupted deletions is deleted."""
        if self._folder is not None and not self._settings.read_only:
            for gone in self._folder.glob(f"{_DELETED}*"):
                await asyncio.to_thread(shutil.rmtree, gone, ignore_errors=True)
        await asyncio.gather(*(base.jobs.start() for base in self if base.jobs))

    async def close(self, limit_s: float) -> None:
        """End sessions, ingests and calls within a time; close bases opened by this server."""
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                calls = asyncio.to_thread(self.pool.close)
                await asyncio.gather(calls, *(base.stop() for base in self))
        for base in self:
            if base.kb not in self._opened:
                base.kb.close()

    def _add(self, name: str, kb: KnowledgeBase) -> ServedBase:
        default = self._folder is None and not self._bases
        base = ServedBase(name, kb, self.pool, self._settings.root_path, is_default=default)
        if not self._settings.read_only:
            base.jobs = JobQueue(base, self._clock)
        self._bases[name] = base
        return base

    def _free_path(self, name: str) -> Path:
        assert self._folder is not None
        if not _NAME.fullmatch(name):
            raise BadInput(f"{name[:80]!r} is no name of a base: use letters, digits, - and _")
        if (path := self._folder / name).exists():
            raise BadInput(f"there is a base or a folder {name!r}: use another name")
        return path

    async def _serve(self, name: str, path: Path) -> ServedBase:
        assert self._open_base is not None
        base = self._add(name, await asyncio.to_thread(self._open_base, path))
        if base.jobs:
            await base.jobs.start()
        return base

    def _base(self, name: str) -> ServedBase:
        if name not in self._bases:
            raise NotFound(f"there is no knowledge base {name[:80]!r}: GET v1/bases lists them")
        return self._bases[name]

    async def _move(self, name: str, target: Path) -> None:
        """Stop serving a base, and rename its folder; serve it again if that fails."""
        base = self._base(name)
        base.check_folder()
        async with base.exclusive():
            del self._bases[name]
            await base.close()
            await base.stop()
        try:
            with refusing(target):
                await asyncio.to_thread(base.kb.path.rename, target)
        except KuError:
            await self._serve(name, base.kb.path)
            raise
