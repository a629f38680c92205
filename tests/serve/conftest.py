from __future__ import annotations

import base64
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI
from fastapi.testclient import TestClient

from ku_rag import KnowledgeBase
from ku_rag.serve.access import ServerSettings
from ku_rag.serve.app import create_app


def application(bases: KnowledgeBase | dict[str, KnowledgeBase], **settings: Any) -> FastAPI:
    """The application of a server of one base, or of several by name; `clock` returns its time."""
    bases = bases if isinstance(bases, dict) else {"default": bases}
    clock = settings.pop("clock", time.time)
    return create_app(bases, ServerSettings(**settings), clock=clock)


def serving(bases: KnowledgeBase | dict[str, KnowledgeBase], **settings: Any) -> TestClient:
    """A client of such a server."""
    return TestClient(application(bases, **settings), base_url="http://localhost")


@contextmanager
def listening(app: FastAPI) -> Iterator[str]:
    """Run a server of an application, and yield its address."""
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(10)


def data_uri(file: Path) -> str:
    return f"data:image/png;base64,{base64.b64encode(file.read_bytes()).decode()}"


@pytest.fixture
def served(fruit_base: Path) -> Iterator[KnowledgeBase]:
    """The fruit base, open."""
    with KnowledgeBase.open(fruit_base.with_name("kb"), lock_wait_s=0.5) as base:
        yield base


@pytest.fixture
def client(served: KnowledgeBase) -> Iterator[TestClient]:
    """A client of a server of the fruit base without keys."""
    with serving(served) as client:
        yield client


@pytest.fixture
def guarded(served: KnowledgeBase) -> Iterator[TestClient]:
    """A client of a server with keys: "writer" may write, "reader" may read."""
    with serving(served, keys=["writer"], read_only_keys=["reader"], rate=10) as client:
        yield client
