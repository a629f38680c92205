"""Changes with large pictures and texts, by processes with a limit of memory.

`python -m tests.crash.memory FOLDER SEED TRIALS CHANGES` prints a JSON line for each trial. Every
large buffer is mapped separately, so the remaining address space decides which one is refused.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import random
import resource
import shutil
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import apsw
import numpy as np
from PIL import Image

from ku_rag import KnowledgeBase, Unit
from ku_rag.errors import KuError
from tests.crash import state
from tests.crash.trials import copy_base

_PAGE = os.sysconf("SC_PAGE_SIZE")
_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
_LARGE = 128 << 10
_FEW = 3
_ORJSON = "in as_json"


@dataclass(frozen=True)
class Trial:
    """The result of a change with a limit.

    Args:
        change: its name.
        limit: bytes that the process, or SQLite in it, could use in addition.
        sqlite: the limit applied to SQLite.
        outcome: "done", or the class of the error.
        problem: why the outcome is wrong; "" if it is right.
    """

    change: str
    limit: int
    sqlite: bool
    outcome: str
    problem: str


def draw(path: Path, seed: int, size: tuple[int, int] = (700, 500)) -> Path:
    """A large picture of coarse noise."""
    blocks = np.random.default_rng(seed).integers(0, 256, (12, 16, 3), dtype=np.uint8)
    Image.fromarray(blocks).resize(size, Image.Resampling.BICUBIC).save(path)
    return path


def text(seed: int, sentences: int = 800) -> str:
    """A long text of short sentences."""
    words = ["river", "mill", "stone", "bridge", "ferry", "tower", "field", "harbour"]
    rng = random.Random(seed)
    return " ".join(
        f"{rng.choice(words).title()} {number} {' '.join(rng.choices(words, k=6))}."
        for number in range(sentences)
    )


def write(folder: Path) -> None:
    """Write the files that the changes read."""
    for number in range(_FEW):
        unit = folder / "units" / f"Mill {number}"
        unit.mkdir(parents=True)
        draw(unit / "front.png", number)
        (unit / "about.txt").write_text(text(number, 100))
    draw(folder / "new.png", 90, (1300, 1000))


Change = Callable[[KnowledgeBase, Path], object]

CHANGES: dict[str, Change] = {
    "ingest": lambda kb, folder: kb.ingest(folder / "units"),
    "add": lambda kb, folder: kb.add(
        Unit("Tower", id="tower", texts=(text(50),), images=(folder / "new.png",))
    ),
    "update": lambda kb, folder: kb.update("Mill 1", images=[folder / "new.png"]),
    "delete": lambda kb, _: kb.delete(["Mill 2"]),
    "search": lambda kb, folder: kb.search(image=folder / "new.png", text="the mill"),
    "compact": lambda kb, _: kb.compact(),
}
"""The first creates the base; each of the others changes a copy of it."""


def _limit(limit: int, *, sqlite: bool) -> None:
    if sqlite:
        apsw.hard_heap_limit(apsw.memory_used() + limit)
        return
    used = int(Path("/proc/self/statm").read_text().split()[0]) * _PAGE
    resource.setrlimit(resource.RLIMIT_AS, (used + limit, used + limit))


def _outcome(change: str, kb: Path, folder: Path, limit: int, *, sqlite: bool) -> bytes:
    try:
        with KnowledgeBase.open(kb, encoder="embedded") as base:
            base.list()
            _limit(limit, sqlite=sqlite)
            CHANGES[change](base, folder)
    except (KuError, MemoryError) as error:
        return type(error).__name__.encode()
    except BaseException as error:
        tail = traceback.extract_tb(error.__traceback__)[-3:]
        return f"not refused: {error!r} {tail}".encode()
    return b"done"


def _try(change: str, kb: Path, folder: Path, limit: int, *, sqlite: bool) -> str:
    """Make a change in a separate process; return "done" or the error."""
    reader, writer = os.pipe()
    crashes = os.memfd_create("crashes")
    child = os.fork()
    if child == 0:
        os.close(reader)
        faulthandler.enable(crashes)
        # The stack of the first thread grows with its use; that of another thread is allocated.
        thread = threading.Thread(
            target=lambda: os.write(writer, _outcome(change, kb, folder, limit, sqlite=sqlite))
        )
        thread.start()
        thread.join()
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as heard:
        outcome = heard.read()
    _, status = os.waitpid(child, 0)
    os.lseek(crashes, 0, os.SEEK_SET)
    with os.fdopen(crashes) as file:
        trace = file.read()
    if outcome:
        return outcome
    # orjson does not check that it got the memory for its result.
    if (
        status == signal.SIGSEGV
        and "\n  File" in trace
        and trace.split("\n  File")[1].endswith(_ORJSON)
    ):
        return "orjson"
    return f"ended with status {status}: {trace}"


def _dump(kb: Path) -> dict[str, object]:
    with KnowledgeBase.open(kb, encoder="embedded") as base:
        assert base.verify().problems == ()
        return state.tables(base._database.connection)


def run(root: Path, seed: int, trials: int, changes: int) -> None:
    """Make an ingest and some changes without a limit, then with `trials` limits of each kind."""
    libc = ctypes.CDLL(None)
    libc.mallopt(_M_MMAP_THRESHOLD, _LARGE)
    libc.mallopt(_M_ARENA_MAX, 1)
    folder, rng = root / "content", random.Random(seed)
    write(folder)
    base = root / "base"
    KnowledgeBase.open(base, create=True, encoder="embedded").close()
    first, *others = CHANGES
    for change in (first, *rng.sample(others, changes)):
        after, trial = root / "after", root / "trial"
        before = _dump(base)
        shutil.rmtree(after, ignore_errors=True)
        copy_base(base, after)
        with KnowledgeBase.open(after, encoder="embedded") as kb:
            CHANGES[change](kb, folder)
        expected = _dump(after)
        for number in range(2 * trials):
            sqlite = number % 2 == 1
            limit = int(2 ** rng.uniform(*((12, 21) if sqlite else (16, 27))))
            shutil.rmtree(trial, ignore_errors=True)
            copy_base(base, trial)
            outcome = _try(change, trial, folder, limit, sqlite=sqlite)
            problem = _problem(outcome, trial, folder, change, before, expected)
            report = asdict(Trial(change, limit, sqlite, outcome, problem))
            sys.stdout.write(json.dumps(report) + "\n")
        if change == "ingest":
            base = root / "ingested"
            copy_base(after, base)


def _problem(
    outcome: str, kb: Path, folder: Path, change: str, before: object, expected: object
) -> str:
    if outcome not in ("done", "MemoryError", "orjson") and outcome not in (
        error.__name__ for error in KuError.__subclasses__()
    ):
        return outcome
    try:
        dump = _dump(kb)
        if dump not in ((expected,) if outcome == "done" else (before, expected)):
            return "a half change"
        if dump == before:
            with KnowledgeBase.open(kb, encoder="embedded") as base:
                CHANGES[change](base, folder)
            if _dump(kb) != expected:
                return "the same change again ends elsewhere"
    except (KuError, AssertionError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


if __name__ == "__main__":
    run(Path(sys.argv[1]), *map(int, sys.argv[2:]))
