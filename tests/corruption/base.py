"""The base that is damaged: small, complete, and either closed or with commits in its log."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from ku_rag import KnowledgeBase, Unit
from ku_rag.indexes import vector_index
from ku_rag.types import Relation

UNITS = 12
ASKED = 2
"""The unit in the picture of the questions."""
CACHED_FROM = 8
"""Number of vectors from which a cache is written here, so that a small base has one."""


@dataclass(frozen=True)
class Bases:
    """Folders with the same content.

    Args:
        closed: the base after its last connection was closed.
        logged: the base as a killed process leaves it, with commits in the log.
        picture: the picture of the questions.
    """

    closed: Path
    logged: Path
    picture: Path


@contextmanager
def small_caches() -> Iterator[None]:
    """Write caches of few vectors."""
    before = vector_index.BASE_MIN
    vector_index.BASE_MIN = CACHED_FROM
    try:
        yield
    finally:
        vector_index.BASE_MIN = before


@small_caches()
def make(folder: Path) -> Bases:
    """Make both bases in a folder."""
    suffixes = ("png", "jpg", "bmp")  # formats with and without checksums
    pictures = [_draw(folder / f"{n}.{suffixes[n % 3]}", n) for n in range(UNITS)]
    closed, logged = folder / "closed", folder / "logged"
    with KnowledgeBase.open(closed, create=True) as kb:
        for n in range(UNITS // 2):
            kb.add(_unit(n, pictures))
        kb.delete(["stone-0"])
        kb.add(_unit(0, pictures))
        kb.compact()
        kb.add(_unit(UNITS // 2, pictures))
    with KnowledgeBase.open(closed) as kb:
        for n in range(UNITS // 2 + 1, UNITS):
            kb.add(_unit(n, pictures))
        kb.update("stone-1", aliases=["First stone"])
        # A copy made beside an open connection is the state that a killed process leaves.
        shutil.copytree(closed, logged)
    return Bases(closed, logged, _draw(folder / "asked.png", ASKED, side=56))


def _unit(n: int, pictures: list[Path]) -> Unit:
    text = (
        f"Stone {n} lies beside Stone {(n + 1) % UNITS} on hill {n * 7}. Its weight is {n + 3} "
        f"tons. {'It was carried far. ' * (n % 4)}"
    )
    return Unit(
        f"Stone {n}",
        id=f"stone-{n}",
        kind="rock" if n % 2 else "pebble",
        aliases=(f"Menhir {n}",),
        images=(pictures[n],),
        texts=(text, f"Menhir {n} was found in {1800 + n} by Finder {n}."),
        metadata={"number": n},
        relations=(
            Relation("lies near", f"Stone {(n + 1) % UNITS}", information=f"{n} m"),
            Relation("stands in", f"Town {n % 3}", target_kind="town"),
        ),
    )


def _draw(path: Path, seed: int, side: int = 96) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    blocks = np.random.default_rng(seed).integers(0, 256, (6, 6, 3), dtype=np.uint8)
    Image.fromarray(blocks).resize((side, side), Image.Resampling.NEAREST).save(path)
    return path
