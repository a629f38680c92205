"""Runs of `ku encode --engine ray` are killed, and the same call continues to the same bytes.

Half of the kills are at a step of writing a shard and end its worker as well; the others are at
any time. Other trials end workers only.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import random
import signal
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.assets.schemas import Hashed
from tests.crash import durable
from tests.scale.test_encode import contents, run, write_sources

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not find_spec("ray"), reason='needs Ray: pip install "ku-rag[ray]"'),
    # Warnings about Ray's own threads, sockets and calls.
    pytest.mark.filterwarnings("ignore"),
]
STEPS_A_SHARD = 12
"""Approximate number of steps that change the disk."""
# Drivers are forked from a process that has imported Ray.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["ray.data", __name__])


class Killing(Hashed):
    """Kills its worker at a step, and the driver before it.

    Args:
        root: Has deaths/, with a file for each worker that was killed.
        step: The step of a worker that writes shards; 0 for none.
        driver: Number of the process that called `encode`; 0 to let it live.
        deaths: Number of workers to kill.
    """

    def __init__(self, root: Path, step: int, driver: int, deaths: int) -> None:
        self.root, self.step, self.driver, self.deaths = root, step, driver, deaths

    def __setstate__(self, state: dict) -> None:
        """Watch the steps: this runs in the worker that loads the encoder."""
        self.__dict__.update(state)
        steps = itertools.count(1)
        durable.watch(lambda _: self._kill(next(steps)), self.root / "out" / "shards")

    def _kill(self, step: int) -> None:
        deaths = self.root / "deaths"
        if step == self.step and len(list(deaths.iterdir())) < self.deaths:
            (deaths / str(os.getpid())).touch()
            for process in filter(None, (self.driver, os.getpid())):
                os.kill(process, signal.SIGKILL)


def encode(root: Path, step: int = 0, *, driver: int = 0, deaths: int = 99) -> None:
    (root / "deaths").mkdir(parents=True, exist_ok=True)
    encoder, data = Killing(root, step, driver, deaths), root.parent / "data"
    run(data, root / "out", encoder=encoder, block=2, engine="ray", workers=1)


def drive(root: Path, step: int) -> None:
    encode(root, step, driver=os.getpid())


def killed(root: Path, step: int, seconds: float | None = None) -> bool:
    """Encode in a process that is killed at a step or after a time; return whether it was."""
    process = FORKS.Process(target=drive, args=(root, step))
    process.start()
    process.join(seconds)
    process.kill()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with sources; Ray runs until the tests end, so that a run only connects."""
    import ray

    folder = tmp_path_factory.mktemp("kills")
    write_sources(folder / "data")
    ray.init(num_cpus=2, log_to_driver=False, include_dashboard=False)
    os.environ["RAY_ADDRESS"] = ray.get_runtime_context().gcs_address
    yield folder
    del os.environ["RAY_ADDRESS"]
    ray.shutdown()


@pytest.fixture(scope="module")
def expected(folder):
    run(folder / "data", folder / "local", block=2)
    return contents(folder / "local")


def test_every_killed_run_continues_to_the_same_bytes(folder, expected, rounds):
    chance = random.Random(23)
    assert not killed(folder / "first", 0)  # Ray is slower at its first start
    started = time.monotonic()
    assert not killed(folder / "whole", 0)
    seconds = time.monotonic() - started
    kills = [True, False] * rounds(1, 25)  # at a step, or at any time
    number = 0
    while kills:
        root, ended = folder / str(number), False
        while kills and not ended:  # successive runs are killed until one ends before
            if kills[-1]:
                ended = not killed(root, chance.randint(1, STEPS_A_SHARD))
            else:
                ended = not killed(root, 0, chance.uniform(0, seconds))
            if not ended:
                kills.pop()
        if not ended:
            encode(root)
        assert contents(root / "out") == expected, f"chain {number}, {len(kills)} kills left"
        number += 1


def test_killed_workers_are_replaced(folder, expected, rounds):
    chance = random.Random(29)
    for number in range(rounds(1, 6)):
        root = folder / f"workers{number}"
        encode(root, chance.randint(1, 3 * STEPS_A_SHARD), deaths=2)
        assert list((root / "deaths").iterdir())
        assert contents(root / "out") == expected
