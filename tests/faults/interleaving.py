"""Two writers and a reader of one base, each with its own session, in an order that a seed decides.

`python -m tests.faults.interleaving FOLDER SEED COUNT` plays COUNT orders and prints a JSON line
for each, and for the first a second time: the seed, a hash of the order, the number of switches,
and the problem, if any.
"""

from __future__ import annotations

import json
import shutil
import sys
import zlib
from pathlib import Path
from typing import Any

from ku_rag import KnowledgeBase, Unit
from tests.conftest import picture
from tests.crash.encoder import FIRST
from tests.faults import scheduler

PAIRS = 3
LONG_WAIT = {"lock_wait_s": 3600.0}
"""Sleeps take no time here, so the waiting time of a thread is meaningless."""


def open_base(path: Path, **options: Any) -> KnowledgeBase:
    """A separate session, as another process would have."""
    return KnowledgeBase.open(path, encoder=FIRST, **LONG_WAIT, **options)


def pair(writer: str, number: int, image: Path) -> list[Unit]:
    """Two units that are added and deleted together."""
    return [
        Unit(
            f"{writer.title()} {number} {side}",
            id=f"{writer}-{number}-{side}",
            texts=(f"The {side} half of pair {number} is zq{writer}.",),
            images=(image,),
        )
        for side in ("left", "right")
    ]


def write_pairs(kb: KnowledgeBase, writer: str, image: Path) -> None:
    """Add pairs; delete the first of them in the transaction that adds the last."""
    for number in range(PAIRS - 1):
        kb.add_many(pair(writer, number, image))
    with kb.transaction():
        for unit in pair(writer, PAIRS - 1, image):
            kb.add(unit)
        kb.delete([unit.id for unit in pair(writer, 0, image)])


def read_pairs(kb: KnowledgeBase, reads: int = 6) -> None:
    """Read repeatedly; each state contains whole pairs and no state is older than the one before.

    Raises:
        AssertionError: a state violates this.
    """
    last: dict[str, set[int]] = {"north": set(), "south": set()}
    for _ in range(reads):
        listed = {unit.id for unit in kb.list()}
        for writer, before in last.items():
            sides = [
                {
                    int(unit_id.split("-")[1])
                    for unit_id in listed
                    if unit_id.startswith(writer) and unit_id.endswith(side)
                }
                for side in ("left", "right")
            ]
            assert sides[0] == sides[1], f"half a pair: {sorted(listed)}"
            numbers = sides[0]
            assert (0 in numbers) != (PAIRS - 1 in numbers) or not numbers, sorted(numbers)
            assert max(numbers, default=-1) >= max(before, default=-1), "an older state"
            last[writer] = numbers
        for writer in last:
            hits = kb.search(text=f"zq{writer}", k=20).to_dict()["chunks"]
            words = [hit["unit_ids"][0] for hit in hits if f"zq{writer}" in hit["text"]]
            assert len(words) % 2 == 0, words


def play(root: Path, template: Path, image: Path, seed: int) -> dict[str, Any]:
    """Play one order on a copy of a base; return its report."""
    path = root / "trial"
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(template, path)
    order = scheduler.Scheduler(seed)
    problem = ""
    with open_base(path) as north, open_base(path) as south, open_base(path) as reader:
        scheduler.current = order
        try:
            order.run(
                [
                    lambda: write_pairs(north, "north", image),
                    lambda: (write_pairs(south, "south", image), south.compact()),
                    lambda: read_pairs(reader),
                ]
            )
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        finally:
            scheduler.current = None
    with open_base(path) as kb:
        expected = sorted(
            unit.id
            for writer in ("north", "south")
            for number in range(1, PAIRS)
            for unit in pair(writer, number, image)
        )
        listed = [unit.id for unit in kb.list()]
        if not problem and listed != [*expected, "zero"]:
            problem = f"the base holds {listed}"
        if problems := kb.verify().problems:
            problem += f" {problems}"
    points = json.dumps(order.trace).encode()
    return {
        "seed": seed,
        "order": zlib.crc32(points),
        "switches": len(order.trace),
        "problem": problem,
    }


def run(root: Path, seed: int, count: int) -> None:
    """Play `count` orders, from a seed on, and the first of them a second time."""
    vfs = scheduler.install()
    image = picture(root / "image.png", 1, (24, 16))
    with open_base(root / "template", create=True) as kb:
        kb.add(Unit("Zero", id="zero", texts=("Nothing happens to it.",)))
        write_pairs(kb, "warm", image)  # imports what the threads would import
        kb.search(text="zqwarm")
        kb.delete([unit.id for number in range(1, PAIRS) for unit in pair("warm", number, image)])
        kb.compact()
    for number in (*range(seed, seed + count), seed):
        report = play(root, root / "template", image, number)
        sys.stdout.write(json.dumps(report) + "\n")
        sys.stdout.flush()
    del vfs


if __name__ == "__main__":
    run(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
