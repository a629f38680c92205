"""One writer and many readers, each a process of its own, and what each of them saw and when.

`python -m tests.concurrency.crowd REQUEST` loads everything once, forks them and waits. Each writes
its own log, one JSON object a line; times are of the clock that all processes of a system share.
"""

from __future__ import annotations

import json
import os
import random
import re
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ku_rag import KnowledgeBase, Unit
from ku_rag.errors import Locked
from ku_rag.indexes import vector_index
from ku_rag.ingest import pipeline
from ku_rag.store.connection import snapshot
from tests.conftest import picture, write_records

_MOST_PAIRS = 5
_LEAST = 2
_AFTERWARDS_S = 0.3
_STOP = "stop"
_PAIR = re.compile(r"\b(left|right)[ -](\d+)\b", re.IGNORECASE)
Log = Callable[[dict[str, Any]], None]

WEIGHTS = {"Anvil": "40 kg", "Bellows": "12 kg", "Crucible": "3 kg"}


def prepare(folder: Path) -> Path:
    """A base with a few units that nobody touches, which have the same answers all the time."""
    with KnowledgeBase.open(folder / "kb", create=True) as kb:
        for number, (name, weight) in enumerate(WEIGHTS.items()):
            image = picture(folder / f"{name}.png", number)
            kb.add(Unit(name, texts=(f"The {name} weighs {weight}.",), images=(image,)))
    return folder / "kb"


# ---- writing -----------------------------------------------------------------------------------


class Writer:
    """Adds and deletes pairs, each in one change; the log says which pairs there are when.

    Args:
        folder: where the base lies, and the files that are taken in.
        compacts: compact now and then.
        halves: add each half of a pair by itself, which readers must notice.
    """

    def __init__(self, folder: Path, compacts: bool, halves: bool = False) -> None:
        self._halves = halves
        self._folder = folder
        self._log: Log = lambda _: None
        self._compacts = compacts
        self._pairs: list[int] = []
        self._last = 0

    def run(self, log: Log, seconds: float, seed: int) -> None:
        """Go on for so long, and until every kind of change was made a few times.

        Args:
            log: told of each change "what" it is, when it was "begun" and "done", and the "pairs"
                that there are after it.
            seconds: how long.
            seed: of what is done.
        """
        self._log = log
        rng = random.Random(seed)
        until = time.monotonic() + seconds
        made: Counter[str] = Counter()
        with KnowledgeBase.open(self._folder / "kb") as kb:
            self._log({"what": "nothing yet", "begun": 0, "done": 0, "pairs": []})
            while time.monotonic() < until or not self._enough(made):
                what, change = self.next(kb, rng)
                self._logged(what, change)
                made[what] += 1
                time.sleep(rng.uniform(0, 0.05))
        time.sleep(_AFTERWARDS_S)

    def _enough(self, made: Counter[str]) -> bool:
        wanted = ["ingest", "delete", *(["compact"] if self._compacts else [])]
        return all(made[what] >= _LEAST for what in wanted)

    def next(self, kb: KnowledgeBase, rng: random.Random) -> tuple[str, Callable[[], None]]:
        if self._compacts and rng.random() < 0.2:
            return "compact", lambda: self._compact(kb)
        if (len(self._pairs) < _MOST_PAIRS and rng.random() < 0.6) or not self._pairs:
            self._last += 1
            self._pairs.append(self._last)
            records = self._records(self._last)
            return "ingest", lambda: self._ingest(kb, records)
        gone = [self._pairs.pop(rng.randrange(len(self._pairs)))]
        return "delete", lambda: kb.delete([f"{side}-{n}" for n in gone for side in _SIDES])

    def _compact(self, kb: KnowledgeBase) -> None:
        try:
            kb.compact()
        except Locked:  # somebody reads all the time; all but the emptying of the log was done
            self._log({"what": "busy"})

    def _records(self, number: int) -> Path:
        image = picture(self._folder / f"pair{number}.png", 100 + number)
        return write_records(
            self._folder / f"pair{number}.jsonl",
            [
                {
                    "id": f"{side}-{number}",
                    "name": f"{side} {number}",
                    "texts": [f"The {side} {number} weighs {number} kg."],
                    "images": [image.name],
                    "relations": [{"relation": "belongs to", "target": f"{_other(side)} {number}"}],
                }
                for side in _SIDES
            ],
        )

    def _logged(self, what: str, change: Callable[[], None]) -> None:
        begun = time.monotonic()
        change()
        told = {"what": what, "begun": begun, "done": time.monotonic()}
        self._log({**told, "pairs": sorted(self._pairs)})

    def _ingest(self, kb: KnowledgeBase, records: Path) -> None:
        whole = records.read_bytes()
        if self._halves:
            records.write_bytes(whole.splitlines(keepends=True)[0])
            kb.ingest(records)
            time.sleep(0.1)
            records.write_bytes(whole)
        assert kb.ingest(records).units_added == 2 - self._halves, "a pair was not added"


_SIDES = ("left", "right")


def _other(side: str) -> str:
    return _SIDES[1 - _SIDES.index(side)]


# ---- reading -----------------------------------------------------------------------------------


def read(folder: Path, log: Log, number: int, seed: int, *, stale: bool = False) -> None:
    """Look at the base in every way, again and again; the log says which pairs were there.

    Args:
        folder: where the base lies.
        log: told of each look which way it was, when it "begun" and was "done", and the "pairs".
        number: of the reader.
        seed: of what is looked at.
        stale: stay at the first state, which must be noticed.
    """
    rng = random.Random(seed + number)
    # Pictures take long, and what takes long sees little of what changes: two look at them.
    weights = (6, 6, 3, 3, number < 2)
    with KnowledgeBase.open(folder / "kb", read_only=bool(number % 2)) as kb, ExitStack() as stack:
        if stale:
            stack.enter_context(snapshot(kb._database.connection))
            kb.stats()  # a state is chosen by the first thing that is read
        while not (folder / _STOP).exists():
            way = rng.choices(WAYS, weights=weights)[0]
            begun = time.monotonic()
            pairs = way(kb, folder, rng)
            log({"way": way.__name__, "begun": begun, "done": time.monotonic(), "pairs": pairs})


def _listed(kb: KnowledgeBase, _: Path, __: random.Random) -> list[int]:
    return _whole([unit.id for unit in kb.list()], 2)


def _searched(kb: KnowledgeBase, _: Path, __: random.Random) -> list[int]:
    found = kb.search(text="What weighs how many kg", k=1000).to_dict()
    texts = [chunk["text"] for chunk in found["chunks"]]
    fixed = sorted(text for text in texts if not _PAIR.search(text))
    expected = sorted(f"The {name} weighs {weight}." for name, weight in WEIGHTS.items())
    assert fixed == expected, (fixed, expected)
    return _whole(texts, 2)


def _asked(kb: KnowledgeBase, _: Path, rng: random.Random) -> None:
    name, weight = rng.choice(list(WEIGHTS.items()))
    answer = kb.query(None, f"How much does the {name} weigh?")
    assert weight in answer.answer, (name, answer.answer)


def _looked_up(kb: KnowledgeBase, folder: Path, rng: random.Random) -> None:
    """By picture: those that stay are found; those of pairs may come and go meanwhile."""
    name = rng.choice(list(WEIGHTS))
    found = kb.search(image=folder / f"{name}.png", k=3).to_dict()["units"]
    assert found[0]["id"] == name.lower(), (name, found)
    files = sorted(folder.glob("pair*.png"))
    if files:
        kb.query(rng.choice(files[-3:]), "How much does it weigh?")


def _shown(kb: KnowledgeBase, _: Path, rng: random.Random) -> None:
    """A unit with all that belongs to it, or none."""
    name, weight = rng.choice(list(WEIGHTS.items()))
    unit = kb.show(name.lower()).to_dict()
    assert unit["texts"] == [f"The {name} weighs {weight}."], unit
    assert all(Path(image).is_file() for image in unit["images"])


def _whole(said: list[str], sides: int) -> list[int]:
    """The numbers of pairs, all of whose sides are there."""
    seen: dict[int, set[str]] = {}
    for one in said:
        if found := _PAIR.search(one):
            seen.setdefault(int(found[2]), set()).add(found[1].lower())
    halves = {number: found for number, found in seen.items() if len(found) < sides}
    assert not halves, f"half pairs: {halves}"
    return sorted(seen)


WAYS = (_listed, _searched, _asked, _shown, _looked_up)


# ---- processes ---------------------------------------------------------------------------------


def _process(log: Path, work: Callable[[Log], None]) -> int:
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        with log.open("w", buffering=1, encoding="utf-8") as out:
            try:
                work(lambda told: out.write(json.dumps(told) + "\n"))
                status = 0
            except BaseException:
                out.write(json.dumps({"failed": traceback.format_exc()}) + "\n")
    finally:
        os._exit(status)


def main(request: dict[str, Any]) -> None:
    """Fork `readers` readers and a writer, and wait for them; `seconds` they go on."""
    folder, seed = Path(request["folder"]), request["seed"]
    _warm_up()
    logs = folder / "logs"
    logs.mkdir()
    children = [
        _process(
            logs / f"reader-{n}",
            lambda log, n=n: read(folder, log, n, seed, stale=request.get("stale", False)),
        )
        for n in range(request["readers"])
    ]
    writer = Writer(folder, request["compacts"], request.get("halves", False))
    writing = _process(logs / "writer", lambda log: writer.run(log, request["seconds"], seed))
    os.waitpid(writing, 0)
    (folder / _STOP).touch()
    for child in children:
        os.waitpid(child, 0)


def _warm_up() -> None:
    """Import what is imported at first use, once for all processes."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        prepare(root)
        writer = Writer(root, compacts=False)
        with KnowledgeBase.open(root / "kb") as kb:
            for _ in range(3):
                writer.next(kb, random.Random(0))[1]()
            for way in WAYS:
                way(kb, root, random.Random(0))


if __name__ == "__main__":
    # Caches that are written often, and two records that are never parted by the clock.
    assert hasattr(vector_index, "BASE_MIN")
    assert hasattr(pipeline, "_BATCH_SECONDS")
    vector_index.BASE_MIN = 4
    pipeline._BATCH_SECONDS = 1e9
    main(json.loads(sys.argv[1]))
