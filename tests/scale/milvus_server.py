"""A Milvus server of the package milvus, which tests may kill and restart."""

from __future__ import annotations

import os
import shutil
import socket
import warnings
from importlib.util import find_spec
from pathlib import Path
from unittest import mock

import pytest

WITHOUT_LITE = pytest.mark.skipif(
    not (find_spec("pymilvus") and find_spec("milvus_lite")),
    reason="needs pymilvus and milvus-lite, the extra test-all",
)
WITHOUT_SERVER = pytest.mark.skipif(
    not (find_spec("pymilvus") and (find_spec("milvus") or "KU_TEST_MILVUS_URI" in os.environ)),
    reason="needs pymilvus and milvus, the extra test-all; or KU_TEST_MILVUS_URI",
)
ENGINES = [
    pytest.param("lite", marks=[pytest.mark.long, WITHOUT_LITE]),
    pytest.param("server", marks=[pytest.mark.long, WITHOUT_SERVER]),
]

ETCD = """\
listen-client-urls: http://127.0.0.1:{0}
advertise-client-urls: http://127.0.0.1:{0}
listen-peer-urls: http://127.0.0.1:{1}
initial-advertise-peer-urls: http://127.0.0.1:{1}
initial-cluster: default=http://127.0.0.1:{1}
"""


class MilvusServer:
    """A server on free ports, with its files in a new folder; call `start` to run it."""

    def __init__(self, folder: Path) -> None:
        import milvus

        self._folder, self._etcd = folder, folder / "etcd.yaml"
        self._server = milvus.MilvusServer()
        self._server.set_base_dir(str(folder))
        ports = {key: free_port() for key in self._server.config_keys if key.endswith("_port")}
        self._server.config.update(**ports)
        self._server.webservice_port = free_port()
        self._etcd.write_text(ETCD.format(ports["etcd_port"], free_port()))
        self.uri = f"http://127.0.0.1:{ports['proxy_port']}"

    def start(self) -> None:
        with (
            mock.patch.dict(os.environ, ETCD_CONFIG_PATH=str(self._etcd)),
            warnings.catch_warnings(action="ignore", category=ResourceWarning),
        ):
            self._server.start()
        # A restart keeps the ports, even while old connections are being closed.
        self._server.config.resolve = lambda: None

    def kill(self) -> None:
        process = self._server.server_proc
        process.kill()
        process.wait()
        self._server.stop()

    def close(self) -> None:
        """Stop the server and delete its files, at least 250 MB."""
        self._server.stop()
        shutil.rmtree(self._folder)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])
