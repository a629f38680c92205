"""A sync is killed at any point, and the next one continues: nothing is lost or duplicated.

Half of the kills are at a step that changes the disk of Milvus Lite or of the base, such as a part
of a write, or before, during or after a call that changes a Milvus server; the others at any time.
The server is killed as well.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

from ku_rag import KnowledgeBase, Unit
from ku_rag.errors import IndexUnavailable
from ku_rag.scale import milvus_index
from ku_rag.store.database import Database
from tests.crash import durable
from tests.scale.killing import REPOSITORY, killed
from tests.scale.milvus_server import WITHOUT_LITE, WITHOUT_SERVER, MilvusServer

pytestmark = pytest.mark.long
BATCH = 200
CALLS = (
    "drop_collection", "create_collection", "upsert", "delete", "flush",
    "alter_collection_properties",
)  # fmt: skip


def uri(root: Path) -> str:
    return os.environ.get("KU_INDEX_URI", str(root / "milvus.db"))


def opened(root: Path) -> KnowledgeBase:
    settings = {"index_uri": uri(root), "index_unreachable": "fail"}
    return KnowledgeBase.open(root / "kb", index_engine="milvus", **settings)


def sync(root: Path) -> None:
    milvus_index.BATCH = BATCH
    with opened(root) as base:
        base.sync_index()


def watch(watcher: durable.Watcher, root: Path) -> None:
    """Report the steps on the disk, and the steps of each call that changes a Milvus server."""
    from pymilvus import MilvusClient

    def watched(name, call):
        def calling(*arguments, **options):
            watcher(f"before {name}")
            with ThreadPoolExecutor(1) as pool:
                future = pool.submit(call, *arguments, **options)
                time.sleep(random.uniform(0, 0.01))
                watcher(f"during {name}")
                result = future.result()
            watcher(f"after {name}")
            return result

        return calling

    durable.watch(watcher, root)
    if "KU_INDEX_URI" in os.environ:
        for name in CALLS:
            setattr(MilvusClient, name, watched(name, getattr(MilvusClient, name)))


def count_steps(root: Path) -> tuple[int, float]:
    """The number of steps of a whole sync, and its duration in seconds."""
    script = f"import tests.scale.test_sync_kills as t; t.count({str(root)!r})"
    started = time.monotonic()
    process = subprocess.run(
        [sys.executable, "-c", script], cwd=REPOSITORY, check=True, capture_output=True, text=True
    )
    return process.stdout.count("step "), time.monotonic() - started


def count(root: str) -> None:
    watch(lambda step: sys.stdout.write(f"step {step!r}\n"), Path(root))
    sync(Path(root))


def units(numbers):
    return [
        Unit(f"Tower {n}", id=f"t{n}", texts=(f"Tower {n} stands at river {n % 9}.", f"Year {n}."))
        for n in numbers
    ]


@pytest.fixture(scope="module")
def roots(tmp_path_factory):
    """Folders with a base: one without a sync, and one with changes since a sync."""
    new = tmp_path_factory.mktemp("new")
    with KnowledgeBase.open(new / "kb", create=True) as base:
        base.add_many(units(range(600)))
    changed = tmp_path_factory.mktemp("changed")
    shutil.copytree(new, changed, dirs_exist_ok=True)
    assert not killed(__name__, changed, 0, 0)
    with KnowledgeBase.open(changed / "kb") as base:
        for start in range(600, 1000, 50):
            base.add_many(units(range(start, start + 50)))
            base.delete([f"t{n}" for n in range(start - 600, start - 575)])
    return [new, changed]


@WITHOUT_LITE
@pytest.mark.parametrize("which", [0, 1], ids=["first sync", "sync of changes"])
def test_every_killed_sync_continues(roots, which, tmp_path, rounds):
    from milvus_lite.server_manager import server_manager_instance

    chance = random.Random(which)
    shutil.copytree(roots[which], tmp_path / "whole")
    steps, seconds = count_steps(tmp_path / "whole")
    kills = rounds(2, 25)
    trials = [(chance.randint(1, steps), 0.0) for _ in range(kills - kills // 2)]
    trials += [(0, chance.uniform(0, 0.8 * seconds)) for _ in range(kills // 2)]
    for number, (step, moment) in enumerate(trials):
        root = tmp_path / str(number)
        shutil.copytree(roots[which], root)
        while not killed(__name__, root, step, moment):  # it had ended before
            assert moment
            shutil.rmtree(root)
            shutil.copytree(roots[which], root)
            moment /= 2
        sync_and_check(root, f"killed at step {step}, after {moment} s")
        server_manager_instance.release_server(str(root / "milvus.db"))
        shutil.rmtree(root)


def sync_and_check(root: Path, message: str) -> None:
    """Sync; the collection then has each chunk once, and a search finds all with their scores."""
    from pymilvus import MilvusClient

    with opened(root) as base, KnowledgeBase.open(root / "kb") as local:
        base.sync_index()
        assert base.verify().problems == (), message
        (vector,) = local.encoder.encode_texts(["a tower at river 7"])
        here, there = (kb.search(vector=vector, k=5000).chunks for kb in (base, local))
        scores = {hit.chunk: hit.score for hit in there}
        assert len(here) == base.stats().counts["chunks"], message
        assert {hit.chunk: hit.score for hit in here} == pytest.approx(scores, abs=1e-3), message
        with closing(MilvusClient(uri(root))) as client:
            ids = [
                row["id"]
                for row in client.query(chunks(root), filter="id >= 0", output_fields=["id"])
            ]
        assert len(ids) == len(here) == len(np.unique(ids)), message


def chunks(root: Path) -> str:
    """The name of the collection of chunks."""
    with closing(Database(root / "kb" / "ku.sqlite")) as database:
        return f"ku_{database.meta('id')}_chunk"


@pytest.fixture
def root(tmp_path):
    """A folder with a base."""
    with KnowledgeBase.open(tmp_path / "kb", create=True) as base:
        base.add_many(units(range(600)))
    return tmp_path


def change(root: Path, number: int) -> None:
    with KnowledgeBase.open(root / "kb") as base:
        base.add_many(units(range(600 + number * 100, 700 + number * 100)))
        base.delete([f"t{n}" for n in range(number * 50, number * 50 + 25)])


@WITHOUT_SERVER
def test_killed_syncs_to_a_server_continue(milvus, root, rounds, monkeypatch):
    """Every second series of kills starts without the collection."""
    from pymilvus import MilvusClient

    monkeypatch.setenv("KU_INDEX_URI", milvus("server"))
    chance = random.Random(5)
    kills = [True, False] * rounds(1, 25)
    client, number = MilvusClient(uri(root)), 0
    while kills:
        if number % 2:
            change(root, number)
            steps, seconds = 40, 3.0
        else:
            client.drop_collection(chunks(root))
            steps, seconds = 90, 12.0
        ended = False
        while kills and not ended:  # successive syncs are killed until one ends before
            step = chance.randint(1, steps) if kills[-1] else 0
            ended = not killed(__name__, root, step, 0.0 if step else chance.uniform(0, seconds))
            if not ended:
                kills.pop()
        sync_and_check(root, f"round {number}, {len(kills)} kills left")
        number += 1
    client.close()


def sync_again_and_again(base: KnowledgeBase) -> NoReturn:
    while True:
        base.sync_index(rebuild=True)


@WITHOUT_SERVER
def test_a_killed_server_and_a_dropped_collection(root, rounds, tmp_path_factory, monkeypatch):
    from pymilvus import MilvusClient

    monkeypatch.setattr(milvus_index, "BATCH", BATCH)
    chance = random.Random(6)
    with closing(MilvusServer(tmp_path_factory.mktemp("server"))) as server:
        server.start()
        monkeypatch.setenv("KU_INDEX_URI", server.uri)
        for number in range(rounds(1, 5)):
            change(root, number)
            timer = threading.Timer(chance.uniform(0.1, 15), server.kill)
            with opened(root) as base:
                timer.start()
                with pytest.raises(IndexUnavailable):
                    sync_again_and_again(base)
                timer.join()
                with pytest.raises(IndexUnavailable):
                    base.sync_index()
            server.start()
            started = time.monotonic()
            while True:
                try:
                    sync_and_check(root, f"round {number}")
                    break
                except IndexUnavailable:  # it answers some seconds later
                    assert time.monotonic() - started < 120
        with opened(root) as base, closing(MilvusClient(server.uri)) as client:
            name = chunks(root)
            with suppress(IndexUnavailable):
                base.sync_index(rebuild=True, progress=lambda _: client.drop_collection(name))
            with pytest.raises(IndexUnavailable):
                base.search(text="tower")
        sync_and_check(root, "dropped")


if __name__ == "__main__":
    watch(durable.die(int(sys.argv[2])), Path(sys.argv[1]))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sync(Path(sys.argv[1]))
