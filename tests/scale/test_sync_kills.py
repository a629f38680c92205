"""A sync is killed at any point, and the next one continues: nothing is lost, nothing is doubled.

Half of the kills come at a step that changes the disk of Milvus Lite or of the base, such as a part
of a write; the others at any time.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from ku_rag import KnowledgeBase, Unit
from ku_rag.scale import milvus_index
from tests.crash import durable
from tests.scale.killing import REPOSITORY, killed

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not (find_spec("pymilvus") and find_spec("milvus_lite")),
        reason="needs pymilvus and milvus-lite, the extra test-all",
    ),
]


def opened(root: Path) -> KnowledgeBase:
    settings = {"index_uri": str(root / "milvus.db"), "index_unreachable": "fail"}
    return KnowledgeBase.open(root / "kb", index_engine="milvus", **settings)


def sync(root: Path) -> None:
    milvus_index.BATCH = 200
    with opened(root) as base:
        base.sync_index()


def count_steps(root: Path) -> tuple[int, float]:
    """The number of steps of a whole sync, and how long it takes."""
    script = f"import tests.scale.test_sync_kills as t; t.count({str(root)!r})"
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=REPOSITORY, check=True, capture_output=True, text=True
    )
    return done.stdout.count("step "), time.monotonic() - started


def count(root: str) -> None:
    durable.watch(lambda step: sys.stdout.write(f"step {step!r}\n"), Path(root))
    sync(Path(root))


def units(numbers):
    return [
        Unit(f"Tower {n}", id=f"t{n}", texts=(f"Tower {n} stands at river {n % 9}.", f"Year {n}."))
        for n in numbers
    ]


@pytest.fixture(scope="module")
def roots(tmp_path_factory):
    """Folders with a base: one that was never synced, and one with changes since a sync."""
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


@pytest.mark.parametrize("which", [0, 1], ids=["first sync", "sync of changes"])
def test_every_killed_sync_continues(roots, which, tmp_path, long):
    from milvus_lite.server_manager import server_manager_instance

    chance = random.Random(which)
    shutil.copytree(roots[which], tmp_path / "whole")
    steps, seconds = count_steps(tmp_path / "whole")
    kills = 25 if long else 2
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
        with opened(root) as base, KnowledgeBase.open(root / "kb") as local:
            base.sync_index()
            assert base.verify().problems == (), f"killed at step {step}, after {moment} s"
            (vector,) = local.encoder.encode_texts(["a tower at river 7"])
            here, there = (one.search(vector=vector, k=5000).chunks for one in (base, local))
            scores = {one.chunk: one.score for one in there}
            assert len(here) == base.stats().counts["chunks"]
            assert {one.chunk: one.score for one in here} == pytest.approx(scores, abs=1e-3)
            check_rows(base, root)
        server_manager_instance.release_server(str(root / "milvus.db"))
        shutil.rmtree(root)


def check_rows(base: KnowledgeBase, root: Path) -> None:
    """The collection holds each chunk once."""
    from pymilvus import MilvusClient

    client = MilvusClient(str(root / "milvus.db"))
    (name,) = (one for one in client.list_collections() if one.endswith("_chunk"))
    held = [one["id"] for one in client.query(name, filter="id >= 0", output_fields=["id"])]
    assert len(held) == base.stats().counts["chunks"] == len(np.unique(held))
    client.close()


if __name__ == "__main__":
    durable.watch(durable.die(int(sys.argv[2])), Path(sys.argv[1]))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sync(Path(sys.argv[1]))
