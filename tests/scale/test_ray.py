"""Ray writes the same bytes as the local engine, also when its workers die."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from ku_rag.errors import BadInput, KuError
from ku_rag.scale.encoding_run import encode
from tests.assets.schemas import Hashed
from tests.scale.test_encode import contents, run, write_sources

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not find_spec("ray"), reason='needs Ray: pip install "ku-rag[ray]"'),
    # Warnings about Ray's own threads, sockets and calls.
    pytest.mark.filterwarnings("ignore"),
]


class Dying(Hashed):
    """Ends its process at the first calls.

    Args:
        folder: Has a file for each call that ended a process.
        deaths: Number of such calls.
    """

    def __init__(self, folder: Path, deaths: int) -> None:
        self.folder, self.deaths = folder, deaths

    def encode_texts(self, texts):
        if len(list(self.folder.iterdir())) < self.deaths:
            (self.folder / str(time.time_ns())).touch()
            os._exit(1)
        return super().encode_texts(texts)


@pytest.fixture(scope="module")
def cluster():
    import ray

    ray.init(num_cpus=2, log_to_driver=False, include_dashboard=False)
    yield
    ray.shutdown()


@pytest.mark.parametrize("workers", [1, 2])
def test_the_bytes_are_those_of_the_local_engine(cluster, tmp_path, workers):
    sources = [write_sources(tmp_path / f"data{number}") for number in range(3)]
    local_out, ray_out = tmp_path / "local", tmp_path / "ray"
    local = encode(sources, local_out, encoder=Hashed(), block=5)
    distributed = encode(sources, ray_out, encoder=Hashed(), block=5, engine="ray", workers=workers)
    assert contents(local_out) == contents(ray_out)
    assert distributed.left_out == local.left_out


def test_a_block_is_encoded_again_when_its_worker_dies(cluster, tmp_path):
    data = write_sources(tmp_path / "data")
    (tmp_path / "deaths").mkdir()
    run(data, tmp_path / "local")
    run(data, tmp_path / "ray", encoder=Dying(tmp_path / "deaths", 2), engine="ray", workers=1)
    assert len(list((tmp_path / "deaths").iterdir())) == 2
    assert contents(tmp_path / "ray") == contents(tmp_path / "local")


def test_a_worker_that_dies_again_and_again_ends_the_run(cluster, tmp_path):
    data = write_sources(tmp_path / "data")
    (tmp_path / "deaths").mkdir()
    with pytest.raises(KuError, match=r"a worker of Ray failed .*same command continues"):
        run(data, tmp_path / "out", encoder=Dying(tmp_path / "deaths", 99), engine="ray", workers=1)
    assert len(list((tmp_path / "deaths").iterdir())) == 4
    run(data, tmp_path / "local")
    run(data, tmp_path / "out", engine="ray", workers=1)
    assert contents(tmp_path / "out") == contents(tmp_path / "local")


def test_a_source_that_cannot_be_read_ends_the_run(cluster, tmp_path):
    (tmp_path / "broken.parquet").write_bytes(b"PAR1")
    with pytest.raises(BadInput, match="the file is damaged"):
        run(tmp_path / "broken.parquet", tmp_path / "out", engine="ray", workers=1)


def test_a_source_without_records_makes_no_shards(cluster, tmp_path):
    (tmp_path / "empty").mkdir()
    report = run(tmp_path / "empty", tmp_path / "out", engine="ray", workers=1)
    assert (report.shards, report.counts["units"]) == (0, 0)


@pytest.fixture
def other_server():
    """The address of a server that is not Ray's, and does not reply."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "nowhere:x", "other"])
def test_an_address_without_a_cluster_is_reported(tmp_path, address, other_server):
    address = address.replace("other", other_server)
    write_sources(tmp_path / "data")
    command = [sys.executable, "-m", "ku_rag", "encode", "data", "--out", "out"]
    command += ["--engine", "ray", "--address", address]
    # Another process: this one may be connected to a cluster.
    process = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
    )
    assert f"no Ray cluster at {address} (" in process.stderr
    assert process.returncode == 1
