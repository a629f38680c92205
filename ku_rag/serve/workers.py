"""Several processes that serve on one socket: one writes, the others read.

The parent writes. It serves the application on a socket in a private folder, and starts the readers
again when they end. A reader opens the bases read-only, answers what only reads, and forwards every
other request to the parent. A commit is visible to all processes before it is confirmed.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from socket import AF_INET, AF_INET6, create_server, socket
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI
from prometheus_client.multiprocess import mark_process_dead
from starlette.requests import ClientDisconnect, Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from ku_rag.errors import BadInput
from ku_rag.knowledge_base import KnowledgeBase
from ku_rag.serve import problems
from ku_rag.serve.access import SAFE, ServerSettings, read_secret
from ku_rag.serve.app import create_app

_READS = frozenset({
    *("/v1/query", "/v1/query/stream", "/v1/search", "/v1/look", "/v1/plan", "/v1/evidence-graph"),
    *("/v1/chat/completions", "/v1/embeddings", "/units"),
})  # fmt: skip
"""Paths of POST requests that change nothing."""
_WRITER_PATHS = ("/v1/jobs/", "/mcp")  # prefixes of paths whose GET requests need the writer
_OF_A_CONNECTION = frozenset({
    *(b"connection", b"keep-alive", b"transfer-encoding", b"expect"),
    *(b"x-forwarded-for", b"x-forwarded-proto"),
})  # fmt: skip
"""Headers that are not forwarded."""
_SOCKET, _RATES, _URL = "writer", "rates", "http://writer/"
_LONGEST = 70  # maximum bytes of the path of the folder of sockets; a socket may have 107
_END_S = 2.5  # maximum seconds that readers may take to end

_log = logging.getLogger("ku_rag.serve")


class Forwarder:
    """An ASGI application of a reader: forwards to the writer what may write or has a wrong key."""

    def __init__(self, app: FastAPI, folder: Path) -> None:
        self._app, self._root_path = app, app.state.settings.root_path
        path, limits = str(folder / _SOCKET), httpx.Limits(max_connections=None)
        self._writer = httpx.AsyncHTTPTransport(uds=path, limits=limits)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] == "http" and not await self._only_reads(scope):
            # Uvicorn cancels what outlasts its shutdown, and logs a cancelled request as an error.
            with suppress(ClientDisconnect, asyncio.CancelledError):
                await self._forward(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _only_reads(self, scope: Scope) -> bool:
        path = scope["path"].removeprefix(self._root_path)
        # With a query, the pages of a question and of a unit store an answer or try a merge.
        is_page = bool(scope["query_string"]) and (path == "/" or path.startswith("/units/"))
        gets = scope["method"] in SAFE and not is_page and not path.startswith(_WRITER_PATHS)
        keys = self._app.state.keys
        is_read = gets or (scope["method"] == "POST" and path in _READS)
        return is_read and (not keys or await keys.find(read_secret(scope)) is not None)

    async def _forward(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [
            *((name, value) for name, value in scope["headers"] if name not in _OF_A_CONNECTION),
            (b"x-forwarded-proto", scope["scheme"].encode()),
            (b"x-forwarded-for", scope["client"][0].encode()),
        ]
        path = scope["raw_path"].removeprefix(self._root_path.encode())
        target = b"?".join(filter(None, (path, scope["query_string"])))
        body: dict[str, Any] = {"headers": headers, "content": Request(scope, receive).stream()}
        request = httpx.Request(scope["method"], _URL, **body, extensions={"target": target})
        try:
            reply = await self._writer.handle_async_request(request)
        except (httpx.TransportError, asyncio.CancelledError):
            await problems.respond(problems.describe(problems.UNAVAILABLE))(scope, receive, send)
            return
        response = StreamingResponse(reply.aiter_raw(), reply.status_code)
        pairs = ((name.lower(), value) for name, value in reply.headers.raw)
        response.raw_headers = [pair for pair in pairs if pair[0] not in _OF_A_CONNECTION]
        try:
            await response(scope, receive, send)
        finally:
            await reply.aclose()


def run_reader(
    bases: Mapping[str, Path],
    settings: ServerSettings,
    folder: Path,
    models: Mapping[str, Any],
    options: Mapping[str, Any],
    listener: socket,
) -> None:
    """Serve bases as a reader until the parent ends; see `Writer`."""

    def end_with_parent() -> None:
        if parent := multiprocessing.parent_process():
            parent.join()
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets it, too, and ends this process
    opened = {
        name: KnowledgeBase.open(path, read_only=True, **models) for name, path in bases.items()
    }
    app = create_app(opened, settings, rates=str(folder / _RATES))
    for base in app.state.bases:
        base.jobs = None
    uvicorn.Server(uvicorn.Config(Forwarder(app, folder), **options)).run([listener])


class Writer(uvicorn.Server):
    """The server of the process that writes and that starts the readers.

    Each reader has a socket of the same address; the system divides connections among them. This
    process has them, too, so that connections wait while a reader starts again. `folder` is private
    to the processes; `models` are options of `KnowledgeBase.open`, and `options` of uvicorn.
    """

    def __init__(
        self,
        app: FastAPI,
        address: tuple[str, int],
        readers: int,
        folder: Path,
        models: Mapping[str, Any],
        options: Mapping[str, Any],
    ) -> None:
        if len(os.fsencode(folder)) > _LONGEST:
            remedy = "set TMPDIR to a shorter path, such as /tmp"
            raise BadInput(f"{folder} is too long a path for sockets: {remedy}")
        own = {"uds": str(folder / _SOCKET), "forwarded_allow_ips": "*", "date_header": False}
        super().__init__(uvicorn.Config(app, **{**options, **own}))
        host, port = address  # it must be free: other servers could share it, too
        uvicorn.Config(app, host=host, port=port, log_level="warning").bind_socket().close()
        family = AF_INET6 if ":" in host else AF_INET
        self._readers: dict[socket, ForkServerProcess | None] = {
            create_server(address, family=family, backlog=2048, reuse_port=True): None
            for _ in range(readers)
        }
        bases = {base.name: base.kb.path for base in app.state.bases}
        self._read = partial(run_reader, bases, app.state.settings, folder, models, options)
        self._folder = folder
        multiprocessing.set_forkserver_preload([__name__])  # readers start without imports
        tempfile.tempdir = str(folder)  # for the socket of the process that forks readers

    async def on_tick(self, counter: int) -> bool:
        """Start the readers that do not run, each second; return whether the server ends."""
        for listener, reader in [*self._readers.items()]:
            if counter % 10 or self.should_exit or (reader and reader.is_alive()):
                continue
            if reader:
                _log.warning("a reader ended with code %s: starting another", reader.exitcode)
                mark_process_dead(reader.pid, self._folder)  # type: ignore[no-untyped-call]
            reader = ForkServerProcess(target=self._read, args=(listener,), daemon=True)
            reader.start()
            self._readers[listener] = reader
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        """End the readers and this server at the same time."""
        readers = [reader for reader in self._readers.values() if reader]
        for listener in self._readers:
            listener.close()
        for reader in readers:
            reader.terminate()
        ends = (asyncio.to_thread(reader.join, _END_S) for reader in readers)
        await asyncio.gather(super().shutdown(sockets), *ends)
        for reader in readers:
            reader.kill()
        shutil.rmtree(self._folder, ignore_errors=True)  # a signal ends the process next
