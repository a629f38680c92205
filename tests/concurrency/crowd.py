"""One writer and many readers, each a process of its own, and a log of the state that each saw.

`python -m tests.concurrency.crowd REQUEST` loads everything once, forks the processes and waits.
Each writes its own log, one JSON object a line; times are of the clock that all processes share.
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
    """A base with a few units that do not change, whose answers are always the same."""
    with KnowledgeBase.open(folder / "kb", create=True) as kb:
        for number, (name, weight) in enumerate(WEIGHTS.items()):
            image = picture(folder / f"{name}.png", number)
            kb.add(Unit(name, texts=(f"The {name} weighs {weight}.",), images=(image,)))
    return folder / "kb"


# ---- writing -----------------------------------------------------------------------------------


class Writer:
    """Adds and deletes pairs, each in one change; the log lists the pairs after each change.

    Args:
        folder: the folder of the base and of the files that are ingested.
        compacts: compact at times.
        halves: add each half of a pair separately, which readers must notice.
    """

    def __init__(self, folder: Path, compacts: bool, halves: bool = False) -> None:
        self._halves = halves
        self._folder = folder
        self._log: Log = lambda _: None
        self._compacts = compacts
        self._pairs: list[int] = []
        self._last = 0

    def run(self, log: Log, seconds: float, seed: int) -> None:
        """Change the base for some time, and until each kind of change was made `_LEAST` times.

        Args:
            log: gets the kind of each change as "what", its times as "begun" and "done", and the
                "pairs" after it.
            seconds: how long.
            seed: of the choice of changes.
        """
        self._log = log
        rng = random.Random(seed)
        until = time.monotonic() + seconds
        counts: Counter[str] = Counter()
        with KnowledgeBase.open(self._folder / "kb") as kb:
            self._log({"what": "nothing yet", "begun": 0, "done": 0, "pairs": []})
            while time.monotonic() < until or not self._enough(counts):
                kind, change = self.next(kb, rng)
                self._logged(kind, change)
                counts[kind] += 1
                time.sleep(rng.uniform(0, 0.05))
        time.sleep(_AFTERWARDS_S)

    def _enough(self, counts: Counter[str]) -> bool:
        kinds = ["ingest", "delete", *(["compact"] if self._compacts else [])]
        return all(counts[kind] >= _LEAST for kind in kinds)

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
        except Locked:  # readers are always active; only the log is not emptied
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
                    "relations": [
                        {"relation": "belongs to", "target": f"{_opposite(side)} {number}"}
                    ],
                }
                for side in _SIDES
            ],
        )

    def _logged(self, kind: str, change: Callable[[], None]) -> None:
        begun = time.monotonic()
        change()
        entry = {"what": kind, "begun": begun, "done": time.monotonic()}
        self._log({**entry, "pairs": sorted(self._pairs)})

    def _ingest(self, kb: KnowledgeBase, records: Path) -> None:
        whole = records.read_bytes()
        if self._halves:
            records.write_bytes(whole.splitlines(keepends=True)[0])
            kb.ingest(records)
            time.sleep(0.1)
            records.write_bytes(whole)
        assert kb.ingest(records).units_added == 2 - self._halves, "a pair was not added"


_SIDES = ("left", "right")


def _opposite(side: str) -> str:
    return _SIDES[1 - _SIDES.index(side)]


# ---- reading -----------------------------------------------------------------------------------


def read_states(folder: Path, log: Log, number: int, seed: int, *, stale: bool = False) -> None:
    """Read the base in every way, repeatedly; the log lists the pairs of each state.

    Args:
        folder: the folder of the base.
        log: gets the "way" of each look, its times as "begun" and "done", and the "pairs".
        number: of the reader.
        seed: of the choice of ways.
        stale: stay at the first state, which must be noticed.
    """
    rng = random.Random(seed + number)
    # Queries by picture are slow and see few of the changes: only two readers make them.
    weights = (6, 6, 3, 3, number < 2)
    with KnowledgeBase.open(folder / "kb", read_only=bool(number % 2)) as kb, ExitStack() as stack:
        if stale:
            stack.enter_context(snapshot(kb._database.connection))
            kb.stats()  # the first read chooses the state
        while not (folder / _STOP).exists():
            way = rng.choices(WAYS, weights=weights)[0]
            begun = time.monotonic()
            pairs = way(kb, folder, rng)
            log({"way": way.__name__, "begun": begun, "done": time.monotonic(), "pairs": pairs})


def _list_units(kb: KnowledgeBase, _: Path, __: random.Random) -> list[int]:
    return _whole([unit.id for unit in kb.list()], 2)


def _search_texts(kb: KnowledgeBase, _: Path, __: random.Random) -> list[int]:
    result = kb.search(text="What weighs how many kg", k=1000).to_dict()
    texts = [chunk["text"] for chunk in result["chunks"]]
    fixed = sorted(text for text in texts if not _PAIR.search(text))
    expected = sorted(f"The {name} weighs {weight}." for name, weight in WEIGHTS.items())
    assert fixed == expected, (fixed, expected)
    return _whole(texts, 2)


def _ask_question(kb: KnowledgeBase, _: Path, rng: random.Random) -> None:
    name, weight = rng.choice(list(WEIGHTS.items()))
    answer = kb.query(None, f"How much does the {name} weigh?")
    assert weight in answer.answer, (name, answer.answer)


def _search_pictures(kb: KnowledgeBase, folder: Path, rng: random.Random) -> None:
    """By picture: permanent units are found; those of pairs may come and go meanwhile."""
    name = rng.choice(list(WEIGHTS))
    units = kb.search(image=folder / f"{name}.png", k=3).to_dict()["units"]
    assert units[0]["id"] == name.lower(), (name, units)
    files = sorted(folder.glob("pair*.png"))
    if files:
        kb.query(rng.choice(files[-3:]), "How much does it weigh?")


def _show_unit(kb: KnowledgeBase, _: Path, rng: random.Random) -> None:
    """A unit is complete."""
    name, weight = rng.choice(list(WEIGHTS.items()))
    unit = kb.show(name.lower()).to_dict()
    assert unit["texts"] == [f"The {name} weighs {weight}."], unit
    assert all(Path(image).is_file() for image in unit["images"])


def _whole(texts: list[str], sides: int) -> list[int]:
    """The numbers of the pairs; each must have all of its sides."""
    sides_of: dict[int, set[str]] = {}
    for text in texts:
        if match := _PAIR.search(text):
            sides_of.setdefault(int(match[2]), set()).add(match[1].lower())
    halves = {number: names for number, names in sides_of.items() if len(names) < sides}
    assert not halves, f"half pairs: {halves}"
    return sorted(sides_of)


WAYS = (_list_units, _search_texts, _ask_question, _show_unit, _search_pictures)


# ---- processes ---------------------------------------------------------------------------------


def _process(log: Path, work: Callable[[Log], None]) -> int:
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        with log.open("w", buffering=1, encoding="utf-8") as out:
            try:
                work(lambda entry: out.write(json.dumps(entry) + "\n"))
                status = 0
            except BaseException:
                out.write(json.dumps({"failed": traceback.format_exc()}) + "\n")
    finally:
        os._exit(status)


def main(request: dict[str, Any]) -> None:
    """Fork `readers` readers, and a writer that runs for `seconds`, and wait for them."""
    folder, seed = Path(request["folder"]), request["seed"]
    _warm_up()
    logs = folder / "logs"
    logs.mkdir()
    children = [
        _process(
            logs / f"reader-{n}",
            lambda log, n=n: read_states(folder, log, n, seed, stale=request.get("stale", False)),
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
    """Import the modules that are loaded at first use, once for all processes."""
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
    # Caches are written often, and the clock never separates two records.
    assert hasattr(vector_index, "BASE_MIN")
    assert hasattr(pipeline, "_BATCH_SECONDS")
    vector_index.BASE_MIN = 4
    pipeline._BATCH_SECONDS = 1e9
    main(json.loads(sys.argv[1]))
