"""The application: routes, error reports, health checks, and shutdown."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.multiprocess import MultiProcessCollector
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

import ku_rag
from ku_rag.errors import KuError
from ku_rag.knowledge_base import KnowledgeBase
from ku_rag.serve import management, openai_api, pages, problems, routes
from ku_rag.serve.access import MAX_BODY, AccessMiddleware, ServerSettings
from ku_rag.serve.base_registry import BaseRegistry
from ku_rag.serve.keys import Keys, KeyStore

_PROBLEM = {"content": {problems.MEDIA_TYPE: {}}, "description": "A problem (RFC 9457)."}
_CLOSE_S = 1.0  # maximum seconds that calls and ingests in progress may take to end


def create_app(
    bases: Mapping[str, KnowledgeBase],
    settings: ServerSettings | None = None,
    *,
    clock: Callable[[], float] = time.time,
    folder: Path | None = None,
    open_base: Callable[[Path], KnowledgeBase] | None = None,
    rates: str = ":memory:",
) -> FastAPI:
    """Create the application that serves open knowledge bases.

    Args:
        bases: the bases by name; the first is the default.
        settings: the settings; None for the defaults.
        clock: returns the time in seconds, for the removal of old jobs.
        folder: the folder whose sub-folders the bases are, if bases and keys may be created while
            the server runs.
        open_base: opens or creates the base in a sub-folder of `folder`.
        rates: the file with the rates of clients, which the processes of a server share.
    """
    settings, collected = settings or ServerSettings(), CollectorRegistry()
    registry = BaseRegistry(bases, settings, clock, folder, open_base)
    collected.register(registry.pool.busy)
    store = KeyStore(folder / "keys.sqlite", clock) if folder else None
    keys = Keys(settings.own_keys(), store)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await registry.start()
        yield
        await registry.close(_CLOSE_S)
        if store is not None:
            store.close()

    app = FastAPI(
        title="ku-rag",
        version=ku_rag.__version__,
        description="Answers questions about pictures from a private knowledge base.",
        docs_url=None,  # the pages of FastAPI load scripts from other servers
        redoc_url=None,
        max_body_size=MAX_BODY,
        form_limits={"max_files": routes.MAX_FILES, "max_fields": routes.MAX_FILES},
        responses={"default": _PROBLEM},
        lifespan=lifespan,
    )
    app.max_body_size = None  # the router checks the size: its errors become problems
    app.state.bases, app.state.registry = registry, collected
    app.state.keys, app.state.key_store, app.state.settings = keys, store, settings
    app.add_middleware(AccessMiddleware, state=app.state, rates=rates)
    for error in (KuError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(error, _report)
    app.get("/healthz")(healthz)
    app.get("/readyz")(readyz)
    app.get("/metrics", response_class=PlainTextResponse)(metrics)
    for router in (routes.router, openai_api.router, pages.router, management.router):
        app.include_router(router)
    app.mount("/static", pages.files)
    for path in ("/mcp", "/mcp/{name}"):
        app.router.routes.append(Route(path, registry))
    return app


async def _report(request: Request, error: Exception) -> Response:
    problem = problems.describe(error, *(base.root for base in request.app.state.bases))
    if "text/html" in request.headers.get("accept", ""):
        return pages.show_problem(request, problem)
    return problems.respond(problem, getattr(error, "headers", None))


async def healthz() -> dict[str, str]:
    """Check that the process responds; requires no key."""
    return {"status": "ok"}


async def readyz(request: Request) -> dict[str, str]:
    """Check that every knowledge base can be searched."""
    try:
        for base in request.app.state.bases:
            base.check_folder()
            await base.read(lambda kb: kb.search(text="ready", k=1))
    except KuError as error:
        logging.getLogger("ku_rag.serve").error("not ready: %s", error)
        raise HTTPException(503, "a knowledge base cannot be searched: the log says why") from error
    return {"status": "ready"}


async def metrics(request: Request) -> Response:
    """Return request counts and durations for Prometheus."""
    registry = request.app.state.registry
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:  # of all processes of this server
        MultiProcessCollector(registry := CollectorRegistry())  # type: ignore[no-untyped-call]
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)
