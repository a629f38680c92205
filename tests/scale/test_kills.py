"""Kills, uniformly over encoding and import: nothing is lost or duplicated.

More than half of them end the process at a step that changes the disk, such as a part of writing a
shard or a commit; the others at any time. Then the same calls run again.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ku_rag import KnowledgeBase
from ku_rag.scale.encoding_run import encode
from tests.assets.schemas import Hashed
from tests.conftest import picture, write_records
from tests.crash import durable
from tests.scale.killing import REPOSITORY, killed
from tests.scale.test_encode import contents


def encode_and_import(root: Path) -> None:
    encode([root.parent / "data"], root / "out", encoder=Hashed(), block=300)
    with KnowledgeBase.open(root / "kb", create=True, encoder=Hashed()) as base:
        base.import_(root / "out")


def state(root: Path) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """The shards, and an export of the verified base."""
    with KnowledgeBase.open(root / "kb", encoder=Hashed()) as base:
        assert base.verify().problems == ()
        base.export(root / "exported")
    return contents(root / "out"), contents(root / "exported")


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    """A folder with sources, the final state, the number of steps and the duration in seconds."""
    folder = tmp_path_factory.mktemp("kills")
    records = [
        {"id": f"u{n}", "name": f"Unit {n}", "text": f"Unit {n} borders Unit {n + 1}. It is old."}
        for n in range(2100)
    ]
    for number in range(0, 2100, 150):
        photo = picture(folder / "data" / f"{number}.png", number)
        records[number] |= {"images": [photo.name]}
    write_records(folder / "data" / "units.jsonl", records)
    steps: list[str] = []
    root = folder / "whole"
    script = f"import tests.scale.test_kills as t; t.count({str(root)!r})"
    started = time.monotonic()
    process = subprocess.run(
        [sys.executable, "-c", script], cwd=REPOSITORY, check=True, capture_output=True, text=True
    )
    steps = process.stdout.splitlines()
    return folder, state(root), len(steps), time.monotonic() - started


def count(root: str) -> None:
    durable.watch(lambda step: sys.stdout.write(f"{step!r}\n"), Path(root))
    encode_and_import(Path(root))


def test_every_killed_run_continues_to_the_same_end(story, rounds):
    folder, expected, steps, seconds = story
    chance = random.Random(17)
    trials = [(chance.randint(1, steps), 0.0) for _ in range(rounds(1, 30))]
    trials += [(0, chance.uniform(0, 0.8 * seconds)) for _ in range(rounds(1, 20))]
    for number, (step, moment) in enumerate(trials):
        root = folder / str(number)
        while not killed(__name__, root, step, moment):  # it had ended before
            assert moment
            shutil.rmtree(root)
            moment /= 2
        encode_and_import(root)
        actual = state(root)
        assert actual == expected, f"killed at step {step}, after {moment} s"
        shutil.rmtree(root)


if __name__ == "__main__":
    root, step = Path(sys.argv[1]), int(sys.argv[2])
    durable.watch(durable.die(step), root)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    encode_and_import(root)
