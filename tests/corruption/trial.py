"""One trial: damage one place of one file, then run all queries and compare the answers."""

from __future__ import annotations

import json
import logging
import os
import random
import shutil
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ku_rag import KnowledgeBase
from ku_rag.errors import KuError
from tests.corruption.base import UNITS, small_caches

KINDS = ("flip", "zero", "truncate")
_LONGEST_RANGE = 4096
_DRAWS = 8
_NEAR = 8


@dataclass(frozen=True)
class Damage:
    """Damage to a place of a file, which can be repeated.

    Args:
        file: path in the folder of the base.
        kind: one of `KINDS`.
        place: offset of the first byte.
        extent: which bit is flipped, or how many bytes are zeroed.
    """

    file: str
    kind: str
    place: int
    extent: int

    def do(self, folder: Path) -> bool:
        """Damage the copy in a folder; its times stay the same, as with bit rot.

        Returns:
            Whether any byte changed.
        """
        path = folder / self.file
        times = path.stat()
        before = path.read_bytes()
        data = bytearray(before)
        if self.kind == "flip":
            data[self.place] ^= 1 << self.extent
        elif self.kind == "zero":
            end = min(len(data), self.place + self.extent)
            data[self.place : end] = bytes(end - self.place)
        else:
            del data[self.place :]
        path.write_bytes(data)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        return bytes(data) != before


def somewhere(folder: Path, file: str, kind: str, rng: random.Random) -> Damage:
    """Choose damage of a kind at a random place of a file, seldom among zeros."""
    data = (folder / file).read_bytes()
    for _ in range(_DRAWS):
        place = rng.randrange(len(data))
        if any(data[place : place + _NEAR]):
            break
    extent = rng.randrange(8) if kind == "flip" else rng.randint(1, _LONGEST_RANGE)
    return Damage(file, kind, place, extent)


@dataclass(frozen=True)
class Outcome:
    """Result of a trial.

    Args:
        damage: the damage.
        result: "same", "warned" (a warning was logged), "error" (every answer that changed is an
            error of ku-rag), "silent" (answers differ without a warning or an error) or "raw" (an
            exception of another kind).
        verified: the result of `verify`, None if it could not run.
        same: whether all answers equal those of the sound base.
        report: warnings, errors, and names of the queries with another answer.
    """

    damage: Damage
    result: str
    verified: bool | None
    same: bool
    report: str


class _Warnings(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


def answers(kb: KnowledgeBase, picture: Path, root: Path) -> dict[str, Any]:
    """Answers of a base to all queries, without times and sizes.

    An error of ku-rag counts as an answer; any other error ends the trial.
    """
    queries: dict[str, Callable[[], Any]] = {
        "list": lambda: [unit.to_dict() for unit in kb.list()],
        "pebbles": lambda: [unit.to_dict() for unit in kb.list(kind="pebble")],
        "counts": lambda: {**kb.stats().to_dict(), "bytes": None, "indexes": None},
        "query picture": lambda: kb.query(picture, "How heavy is this stone?", k=5).to_dict(),
    }
    for n in range(UNITS):
        queries[f"show {n}"] = lambda n=n: kb.show(f"stone-{n}").to_dict()
    for text in ("menhir finder", "hill 28", "carried", "Stone 5", "Menhir 7 weight tons"):
        queries[f"search {text}"] = lambda text=text: kb.search(text=text, k=100).to_dict()
    for question in ("How heavy is Menhir 4?", "Who found Stone 3?", "What is near Stone 9?"):
        queries[f"query {question}"] = lambda question=question: kb.query(
            None, question, k=5
        ).to_dict()
    results = {}
    for name, query in queries.items():
        try:
            answer = query()
        except KuError as error:
            answer = {"error": type(error).__name__, "said": str(error)}
        if isinstance(answer, dict):
            answer.pop("timings_ms", None)
        results[name] = answer
    return json.loads(json.dumps(results, default=str).replace(str(root), "ROOT"))


@small_caches()
def ask_all(folder: Path, picture: Path) -> tuple[dict[str, Any], bool, list[str]]:
    """Answers of a base, whether `verify` reports it sound, and the warnings logged meanwhile."""
    handler = _Warnings()
    logger = logging.getLogger("ku_rag")
    logger.addHandler(handler)
    try:
        with KnowledgeBase.open(folder) as kb:
            return answers(kb, picture, folder), kb.verify().ok, handler.messages
    finally:
        logger.removeHandler(handler)


def run(base: Path, picture: Path, expected: dict[str, Any], damage: Damage) -> Outcome:
    """Copy a base, damage the copy, and compare its answers with those expected."""
    copy = base.with_name(f"trial-{os.getpid()}")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(base, copy)
    damage.do(copy)
    try:
        results, verified, warnings = ask_all(copy, picture)
    except KuError as error:
        return Outcome(damage, "error", None, True, f"{type(error).__name__}: {error}")
    except Exception:
        return Outcome(damage, "raw", None, True, traceback.format_exc())
    differing = {name: results[name] for name in results if results[name] != expected[name]}
    errors = [answer["said"] for answer in differing.values() if _is_error(answer)]
    silent = [name for name, answer in differing.items() if not _is_error(answer)]
    if warnings or (errors and not silent):
        result = "warned" if warnings else "error"
    else:
        result = "silent" if differing else "same"
    return Outcome(
        damage, result, verified, not differing, " / ".join([*warnings, *errors, *silent])
    )


def _is_error(answer: object) -> bool:
    """Whether an answer reports an error; a missing unit is none."""
    return isinstance(answer, dict) and answer.get("error", "NotFound") != "NotFound"
