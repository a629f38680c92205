"""Access control: host names, keys, origins, rate limits; and security headers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from dataclasses import dataclass
from math import ceil
from typing import cast

import apsw
from prometheus_client import Histogram
from starlette.datastructures import Headers, MutableHeaders, State
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ku_rag.addresses import origin
from ku_rag.serve import problems
from ku_rag.serve.keys import Key, Keys, KeyStore
from ku_rag.store.stored_answers import MOST_ANSWERS

COOKIE = "ku_key"  # name of the cookie with the key of a browser
PUBLIC_PATHS = frozenset({"/healthz", "/login", "/static/page.css", "/static/page.js"})
"""Paths that require no key."""

MAX_BODY, MAX_UPLOAD = 32 << 20, 1 << 30  # maximum bytes of a request, and of an upload
NO_KEY = Key("", "read", bases=("",))  # of a request for a public path: it may use no base
_ANYBODY = Key("", "manage")  # of a request to a server that requires no key
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})  # change nothing, except where their routes say so
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_BUCKETS = """  -- tokens of clients, which all processes of a server take from; see --rate
PRAGMA journal_mode = MEMORY;
PRAGMA synchronous = OFF;
CREATE TABLE IF NOT EXISTS buckets (client TEXT PRIMARY KEY, tokens REAL, time REAL) STRICT
"""
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Settings of a server."""

    keys: Collection[str] = ()  # may read and write; without any key, every request may
    read_only_keys: Collection[str] = ()
    read_only: bool = False  # refuse all writes
    hosts: Collection[str] = ("localhost", "127.0.0.1", "::1")  # accepted names, in lower case
    rate: int = 0  # requests a minute by key, or by address without keys; 0 for no limit
    root_path: str = ""  # prefix of paths that a reverse proxy strips, such as "/ku"
    threads: int = 8  # number of threads that call the bases
    waiting: int = 64  # maximum number of requests that wait for a thread
    mcp_add: bool = False  # whether MCP clients whose keys may write can add units
    answers: int = MOST_ANSWERS  # number of answers to store for each base; 0 stores none

    def own_keys(self) -> dict[str, Key]:
        """Return the keys that the server is started with, by secret."""
        keys = {secret: Key(f"key {n}", "manage") for n, secret in enumerate(self.keys, 1)}
        readers = enumerate(self.read_only_keys, 1)
        return {secret: Key(f"read-only key {n}", "read") for n, secret in readers} | keys


class AccessMiddleware:
    """Refuses requests that the settings do not allow, and measures all requests by route."""

    def __init__(self, app: ASGIApp, state: State, rates: str) -> None:
        self._app, self._settings = app, cast(ServerSettings, state.settings)
        self._keys, self._key_store = cast(Keys, state.keys), cast(KeyStore | None, state.key_store)
        self._buckets = apsw.Connection(rates)
        self._buckets.set_busy_timeout(1000)
        self._buckets.transaction_mode = "IMMEDIATE"
        self._buckets.execute(_BUCKETS).fetchall()
        name, labels = "ku_http_request_seconds", ("route", "status")
        self._seconds = Histogram(name, "Seconds of requests.", labels, registry=state.registry)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 0
        await asyncio.sleep(0)  # uvicorn first closes the connection if the body is malformed

        async def send_checked(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        try:
            await self._check(scope)
            await self._app(scope, receive, send_checked)
        except (HTTPException, asyncio.CancelledError) as cause:
            error = cause if isinstance(cause, HTTPException) else problems.UNAVAILABLE
            response = problems.respond(problems.describe(error), error.headers)
            if error.status_code == 401 and "text/html" in Headers(scope=scope).get("accept", ""):
                response = RedirectResponse(f"{self._settings.root_path}/login", 303)
            if not status:
                await response(scope, receive, send_checked)
        finally:
            route, state = getattr(scope.get("route"), "path", ""), scope.get("state", {})
            self._seconds.labels(route, status or 500).observe(time.perf_counter() - started)
            if self._key_store and state.get("is_change") and 0 < status < 400:
                parts = scope["method"], route, state.get("action", "")
                request = " ".join(filter(None, parts))
                change = (state["key"].name, state.get("base", ""), request, status)
                await asyncio.to_thread(self._key_store.log, *change)

    async def _check(self, scope: Scope) -> None:
        """Set `key` and `may_write` in the state of a request, or refuse it."""
        headers, settings = Headers(scope=scope), self._settings
        own = origin(f"{scope['scheme']}://{','.join(headers.getlist('host'))}")
        if own is None or own[1] not in settings.hosts:
            detail = "the Host header names no host of this server: see --allowed-host"
            raise HTTPException(421, detail)
        # Scheme, host and port of the page must be those of the request, which the connection or a
        # trusted proxy and the Host header state. Programs send neither header.
        page, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
        is_same_site = site in ("same-origin", "none") and (page is None or origin(page) == own)
        if scope["method"] not in SAFE and not is_same_site:
            raise HTTPException(403, "the request comes from another site")
        path = scope["path"].removeprefix(settings.root_path)
        limit = MAX_UPLOAD if path == "/v1/ingest" else MAX_BODY
        if int(headers.get("content-length", 0)) > limit:
            raise HTTPException(413, f"the body has more than {limit:,} bytes")
        state = scope.setdefault("state", {})
        state |= {"key": NO_KEY, "may_write": False}
        is_public = path in PUBLIC_PATHS
        if self._keys and is_public:
            return
        secret = read_secret(scope)
        key = await self._keys.find(secret) or (None if self._keys else _ANYBODY)
        if key is None:
            raise await self._keys.refuse(secret, HTTPConnection(scope))
        state |= {"key": key, "may_write": key.role != "read" and not settings.read_only}
        client = key.name or (scope.get("client") or ("",))[0]
        if settings.rate and not is_public and (wait := ceil(self._take_token(client))):
            detail = f"more than {settings.rate} requests a minute: try again in {wait} s"
            raise HTTPException(429, detail, {"Retry-After": str(wait)})

    def _take_token(self, client: str) -> float:
        """Take a token from the bucket of a client, or return the seconds until it has one."""
        most, now = self._settings.rate, time.monotonic()
        with self._buckets as buckets:
            query = "SELECT tokens, time FROM buckets WHERE client = ?"
            row = buckets.execute(query, (client,)).fetchone()
            if row is None:  # buckets without a request for a minute are full
                buckets.execute("DELETE FROM buckets WHERE time < ?", (now - 60,))
            tokens, before = row or (most, now)
            tokens = min(most, tokens + (now - before) * most / 60)
            row = (client, tokens - (tokens >= 1), now)
            buckets.execute("REPLACE INTO buckets VALUES (?, ?, ?)", row)
        return max(0, 1 - tokens) * 60 / most


def read_secret(scope: Scope) -> str:
    """Return the secret of the key of a request, or ""."""
    request = HTTPConnection(scope)
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else request.cookies.get(COOKIE, "")
