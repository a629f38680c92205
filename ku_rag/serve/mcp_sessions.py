"""Sessions of MCP over HTTP (streamable HTTP)."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.types import Receive, Scope, Send

from ku_rag.serve.served_base import ServedBase

_IDLE_S, _MOST_SESSIONS = 600, 256
"""A session ends after so many seconds without a request; above that many, a new one gets 503."""


class McpSessions:
    """An ASGI application that creates its server at the first request: MCP is slow to import.

    `AccessMiddleware` has checked host, origin and key.
    """

    def __init__(self, base: ServedBase, *, may_add: bool) -> None:
        self._base, self._may_add = base, may_add
        self._started = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if self._running is None:
            from mcp.server.transport_security import TransportSecuritySettings

            from ku_rag.serve.mcp import create_server

            server = create_server(self._base, may_add=self._may_add)
            checked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
            limits: Any = {"session_idle_timeout": _IDLE_S, "max_sessions": _MOST_SESSIONS}
            server.streamable_http_app(transport_security=checked, **limits)
            self._manager = server.session_manager
            self._running = asyncio.create_task(self._run())
        await self._started.wait()
        await self._manager.handle_request(scope, receive, send)

    async def _run(self) -> None:
        async with self._manager.run():
            self._started.set()
            await asyncio.Event().wait()

    async def close(self) -> None:
        """End all sessions."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
