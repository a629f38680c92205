"""One trial: damage one place of one file, then ask everything and compare."""

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
    """What is done to a file, and where: enough to do it again.

    Args:
        file: below the folder of the base.
        kind: one of `KINDS`.
        place: of the first byte.
        extent: which bit is flipped, or how many bytes are zeroed.
    """

    file: str
    kind: str
    place: int
    extent: int

    def do(self, folder: Path) -> bool:
        """Damage the copy in a folder as rot does, which leaves times as they are.

        Returns:
            Whether any byte is another now.
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
    """Damage of a kind at a random place of a file, seldom where there is nothing."""
    data = (folder / file).read_bytes()
    for _ in range(_DRAWS):
        place = rng.randrange(len(data))
        if any(data[place : place + _NEAR]):
            break
    extent = rng.randrange(8) if kind == "flip" else rng.randint(1, _LONGEST_RANGE)
    return Damage(file, kind, place, extent)


@dataclass(frozen=True)
class Outcome:
    """How a trial ended.

    Args:
        damage: what was done.
        result: "same", "warned" (a warning was logged), "error" (every answer that is not as
            before is an error of ours), "silent" (answers differ and nothing was said) or "raw"
            (an exception that is none of ours).
        verified: what `verify` said, None if it could not be asked.
        same: whether all that was answered is as from the sound base.
        said: warnings, errors, and what was answered in another way.
    """

    damage: Damage
    result: str
    verified: bool | None
    same: bool
    said: str


class _Warnings(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


def answers(kb: KnowledgeBase, picture: Path, root: Path) -> dict[str, Any]:
    """What a base answers to everything that can be asked of it, without times and sizes.

    An error of ours is an answer, too; any other ends the trial.
    """
    asked: dict[str, Callable[[], Any]] = {
        "list": lambda: [unit.to_dict() for unit in kb.list()],
        "pebbles": lambda: [unit.to_dict() for unit in kb.list(kind="pebble")],
        "counts": lambda: {**kb.stats().to_dict(), "bytes": None, "indexes": None},
        "query picture": lambda: kb.query(picture, "How heavy is this stone?", k=5).to_dict(),
    }
    for n in range(UNITS):
        asked[f"show {n}"] = lambda n=n: kb.show(f"stone-{n}").to_dict()
    for text in ("menhir finder", "hill 28", "carried", "Stone 5", "Menhir 7 weight tons"):
        asked[f"search {text}"] = lambda text=text: kb.search(text=text, k=100).to_dict()
    for question in ("How heavy is Menhir 4?", "Who found Stone 3?", "What is near Stone 9?"):
        asked[f"query {question}"] = lambda question=question: kb.query(
            None, question, k=5
        ).to_dict()
    found = {}
    for name, ask in asked.items():
        try:
            answer = ask()
        except KuError as error:
            answer = {"error": type(error).__name__, "said": str(error)}
        if isinstance(answer, dict):
            answer.pop("timings_ms", None)
        found[name] = answer
    return json.loads(json.dumps(found, default=str).replace(str(root), "ROOT"))


@small_caches()
def ask_all(folder: Path, picture: Path) -> tuple[dict[str, Any], bool, list[str]]:
    """What a base answers, whether `verify` finds it sound, and what was logged meanwhile."""
    heard = _Warnings()
    logger = logging.getLogger("ku_rag")
    logger.addHandler(heard)
    try:
        with KnowledgeBase.open(folder) as kb:
            return answers(kb, picture, folder), kb.verify().ok, heard.said
    finally:
        logger.removeHandler(heard)


def run(base: Path, picture: Path, expected: dict[str, Any], damage: Damage) -> Outcome:
    """Copy a base, damage the copy, and see what comes of it."""
    copy = base.with_name(f"trial-{os.getpid()}")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(base, copy)
    damage.do(copy)
    try:
        found, verified, said = ask_all(copy, picture)
    except KuError as error:
        return Outcome(damage, "error", None, True, f"{type(error).__name__}: {error}")
    except Exception:
        return Outcome(damage, "raw", None, True, traceback.format_exc())
    differing = {name: found[name] for name in found if found[name] != expected[name]}
    errors = [one["said"] for one in differing.values() if _is_error(one)]
    unsaid = [name for name, one in differing.items() if not _is_error(one)]
    if said or (errors and not unsaid):
        result = "warned" if said else "error"
    else:
        result = "silent" if differing else "same"
    return Outcome(damage, result, verified, not differing, " / ".join([*said, *errors, *unsaid]))


def _is_error(answer: object) -> bool:
    """Whether an answer says that something is wrong; that a unit is not there says nothing."""
    return isinstance(answer, dict) and answer.get("error", "NotFound") != "NotFound"
