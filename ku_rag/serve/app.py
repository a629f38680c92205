"""The application: routes, error reports, health checks, and shutdown."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

import ku_rag
from ku_rag.errors import KuError
from ku_rag.knowledge_base import KnowledgeBase
from ku_rag.serve import chat, pages, problems, routes
from ku_rag.serve.access import AccessMiddleware, ServerSettings
from ku_rag.serve.jobs import JobQueue
from ku_rag.serve.keys import Keys
from ku_rag.serve.mcp_sessions import McpSessions
from ku_rag.serve.served_base import ServedBase, WorkerPool

MAX_BODY = 32 << 20
"""Maximum size in bytes of a request other than an upload."""
_CLOSE_S = 1.5
"""Maximum seconds that calls and ingests in progress may take to end."""


def create_app(
    bases: Mapping[str, KnowledgeBase],
    settings: ServerSettings | None = None,
    *,
    clock: Callable[[], float] = time.time,
) -> FastAPI:
    """Create the application that serves open knowledge bases.

    Args:
        bases: the bases by name; the first is the default.
        settings: the settings; None for the defaults.
        clock: returns the time in seconds, for the removal of old jobs.
    """
    settings = settings or ServerSettings()
    pool, registry = WorkerPool(settings.threads, settings.waiting), CollectorRegistry()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        queues = app.state.jobs.values()
        await asyncio.gather(*(queue.start() for queue in queues))
        yield
        await _close(pool, *sessions, *queues)

    reported = {"content": {problems.MEDIA_TYPE: {}}, "description": "A problem (RFC 9457)."}
    app = FastAPI(
        title="ku-rag",
        version=ku_rag.__version__,
        description="Answers questions about pictures from a private knowledge base.",
        docs_url=None,  # the pages of FastAPI load scripts from other servers
        redoc_url=None,
        max_body_size=MAX_BODY,
        form_limits={"max_files": routes.MAX_FILES, "max_fields": routes.MAX_FILES},
        responses={"default": reported},
        lifespan=lifespan,
    )
    app.state.bases = {
        name: ServedBase(name, kb, pool, settings.root_path, is_default=n == 0)
        for n, (name, kb) in enumerate(bases.items())
    }
    app.state.registry = registry
    app.state.keys = Keys([*settings.keys, *settings.read_only_keys])
    served = () if settings.read_only else app.state.bases.values()
    app.state.jobs = {base.name: JobQueue(base, clock) for base in served}
    busy = Gauge("ku_requests_in_progress", "Requests in progress or waiting.", registry=registry)
    busy.set_function(lambda: pool.used)
    access = {"settings": settings, "keys": app.state.keys, "registry": registry}
    app.add_middleware(AccessMiddleware, **access)
    for error in (KuError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(error, _report)
    app.get("/healthz")(healthz)
    app.get("/readyz")(readyz)
    app.get("/metrics", response_class=PlainTextResponse)(metrics)
    for router in (routes.router, chat.router, pages.router):
        app.include_router(router)
    app.mount("/static", pages.files)
    sessions = []
    for n, base in enumerate(app.state.bases.values()):
        sessions.append(McpSessions(base, may_add=settings.mcp_add))
        app.router.routes.append(Route(f"/mcp/{base.name}" if n else "/mcp", sessions[-1]))
    return app


async def _close(pool: WorkerPool, *parts: McpSessions | JobQueue) -> None:
    """End sessions, ingests and calls; those that take longer end with the process."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_CLOSE_S):
            calls = asyncio.to_thread(pool.close)
            await asyncio.gather(calls, *(part.close() for part in parts))


async def _report(request: Request, error: Exception) -> Response:
    """Report an error as a problem document, or as a page for a browser."""
    roots = (base.root for base in request.app.state.bases.values())
    problem = problems.describe(error, *roots)
    if "text/html" in request.headers.get("accept", ""):
        return pages.show_problem(request, problem)
    return problems.respond(problem, getattr(error, "headers", None))


async def healthz() -> dict[str, str]:
    """Check that the process responds; requires no key."""
    return {"status": "ok"}


async def readyz(request: Request) -> dict[str, str]:
    """Check that every knowledge base can be searched."""
    for base in request.app.state.bases.values():
        base.check_folder()
        await base.read(lambda kb: kb.search(text="ready", k=1))
    return {"status": "ready"}


async def metrics(request: Request) -> Response:
    """Return request counts and durations for Prometheus."""
    return Response(generate_latest(request.app.state.registry), media_type=CONTENT_TYPE_LATEST)
