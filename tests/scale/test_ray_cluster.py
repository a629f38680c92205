"""Ray on two nodes: a node or a worker is killed during a run, or the disk is full."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from ku_rag import KnowledgeBase, KuError
from ku_rag.errors import ReadOnly
from ku_rag.scale.encoding_run import encode
from tests.assets.schemas import Hashed
from tests.scale.test_encode import contents, imported, write_sources

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not find_spec("ray"), reason='needs Ray: pip install "ku-rag[ray]"'),
    # Warnings about Ray's own threads, sockets and calls.
    pytest.mark.filterwarnings("ignore"),
]
SOURCES = 3


class Slow(Hashed):
    """Is slow, so that both workers get blocks; `workers` has a file for each process."""

    def __init__(self, workers: Path) -> None:
        self.workers = workers

    def encode_texts(self, texts):
        (self.workers / str(os.getpid())).touch()
        time.sleep(0.2)
        return super().encode_texts(texts)


class Failing(Hashed):
    def encode_texts(self, texts):
        raise RuntimeError("out of memory on the device")


class Unloadable(Hashed):
    """Cannot be loaded by a worker."""

    def __init__(self) -> None:
        self.weights = "clip.pt"

    def __setstate__(self, state: dict) -> None:
        raise KuError("the weights clip.pt are not on this machine: copy them")


@pytest.fixture
def cluster():
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    cluster.second = cluster.add_node(num_cpus=1)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture
def sources(tmp_path):
    return [write_sources(tmp_path / f"data{number}") for number in range(SOURCES)]


@pytest.fixture
def expected(sources, tmp_path):
    encode(sources, tmp_path / "local", encoder=Hashed(), block=2)
    return contents(tmp_path / "local")


def run(cluster, sources, out, encoder=None, progress=None):
    options = {"engine": "ray", "workers": 2, "address": cluster.address, "block": 2}
    return encode(sources, out, encoder=encoder or Hashed(), progress=progress, **options)


@pytest.mark.parametrize("victim", ["node", "worker"])
def test_a_run_goes_on_without_a_killed_node_or_worker(
    cluster, sources, expected, tmp_path, victim
):
    workers, killed = tmp_path / "workers", []
    workers.mkdir()

    def kill(units: int) -> None:
        if killed or len(list(workers.iterdir())) < 2:
            return
        killed.append(units)
        if victim == "node":
            cluster.remove_node(cluster.second, allow_graceful=False)
        else:
            os.kill(int(min(workers.iterdir()).name), signal.SIGKILL)

    run(cluster, sources, tmp_path / "out", Slow(workers), kill)
    assert killed
    assert contents(tmp_path / "out") == expected
    again = run(cluster, sources, tmp_path / "out")
    assert again.reused == again.shards
    imported(tmp_path / "out", tmp_path / "kb")
    with KnowledgeBase.open(tmp_path / "kb", encoder=Hashed()) as base:
        base.export(tmp_path / "imported")
    with KnowledgeBase.open(tmp_path / "kb2", create=True, encoder=Hashed()) as base:
        for source in sources:
            base.ingest(source)
        base.export(tmp_path / "ingested")
    assert contents(tmp_path / "imported") == contents(tmp_path / "ingested")


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 160 kB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=160k", "none", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs permission to mount a file system")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_run_ends_when_the_disk_is_full_and_continues_later(
    cluster, sources, expected, small_disk
):
    out = small_disk / "out"
    with pytest.raises(ReadOnly, match=r"No space left on device\): make room on the disk"):
        run(cluster, sources, out)
    written = len(list((out / "shards").iterdir()))
    subprocess.run(["mount", "-o", "remount,size=16m", str(small_disk)], check=True)
    report = run(cluster, sources, out)
    assert 0 < report.reused <= written < report.shards
    assert contents(out) == expected


@pytest.mark.parametrize(
    ("encoder", "message"),
    [(Failing, "out of memory on the device"), (Unloadable, "clip.pt are not on this machine")],
)
def test_an_error_of_an_encoder_ends_the_run(cluster, sources, tmp_path, encoder, message):
    with pytest.raises(KuError, match=message):
        run(cluster, sources, tmp_path / "out", encoder())
