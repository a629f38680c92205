from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import cache

import pytest

from tests.scale.milvus_server import MilvusServer


@pytest.fixture(scope="session")
def milvus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """Start Milvus Lite or a Milvus server, each once, and return its address."""
    with ExitStack() as stack:

        @cache
        def start(engine: str) -> str:
            folder = tmp_path_factory.mktemp(engine)
            if engine == "lite":
                from milvus_lite.server_manager import server_manager_instance

                path = str(folder / "milvus.db")
                stack.callback(server_manager_instance.release_server, path)
                return str(server_manager_instance.start_and_get_uri(path))
            if uri := os.environ.get("KU_TEST_MILVUS_URI"):
                return uri
            server = stack.enter_context(closing(MilvusServer(folder)))
            server.start()
            return server.uri

        yield start
