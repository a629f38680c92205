from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from ku_rag import KnowledgeBase
from ku_rag.serve.access import ServerSettings
from ku_rag.serve.app import create_app


def data_uri(file: Path) -> str:
    return f"data:image/png;base64,{base64.b64encode(file.read_bytes()).decode()}"


@pytest.fixture
def served(fruit_base: Path) -> Iterator[KnowledgeBase]:
    """The base of fruits, open."""
    with KnowledgeBase.open(fruit_base.with_name("kb"), lock_wait_s=0.5) as base:
        yield base


@pytest.fixture
def client(served: KnowledgeBase) -> Iterator[TestClient]:
    """A client of a server of the base of fruits, which everyone may ask."""
    with TestClient(create_app({"default": served}), base_url="http://localhost") as client:
        yield client


@pytest.fixture
def guarded(served: KnowledgeBase) -> Iterator[TestClient]:
    """A client of a server with keys: "writer" may write, "reader" may read."""
    settings = ServerSettings(keys=["writer"], read_only_keys=["reader"], rate_limit=5)
    app = create_app({"default": served}, settings)
    with TestClient(app, base_url="http://localhost") as client:
        yield client
