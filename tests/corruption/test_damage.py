"""Damage is always noticed: no answer changes silently."""

from __future__ import annotations

import multiprocessing
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from ku_rag.store import connection
from tests.corruption.base import Bases, make
from tests.corruption.trial import KINDS, Damage, Outcome, ask_all, run, somewhere

SEED = 20240731
SHORT, LONG = 1, 60
"""Trials of each kind for a small file; large ones get more, in proportion to their size."""
MOST = 12
_STEP_BYTES = 64 << 10
_USERS_OWN = {"ku.toml"}
"""Settings belong to the user: damage to a value looks like a new setting."""


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> Bases:
    return make(tmp_path_factory.mktemp("corruption"))


@pytest.fixture(scope="module")
def pool(rounds: Callable[[int, int], int]) -> Iterator[ProcessPoolExecutor]:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(rounds(1, 2), mp_context=context) as pool:
        yield pool


def plan(folder: Path, trials: int, most: int, rng: random.Random) -> list[Damage]:
    """Plan damage of every kind to every file, and to one picture of each format.

    Args:
        folder: the base.
        trials: number of trials of each kind, for a small file.
        most: factor by which a large file has more trials.
        rng: chooses the places.
    """
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    pictures = [path for path in files if path.parent.parent.name == "images"]
    damages = []
    for path in files:
        if path.name in _USERS_OWN or (path in pictures and not _is_first(path, pictures)):
            continue
        many = trials * min(most, 1 + path.stat().st_size // _STEP_BYTES)
        name = str(path.relative_to(folder))
        damages += [somewhere(folder, name, kind, rng) for kind in KINDS for _ in range(many)]
    return damages


def _is_first(path: Path, pictures: list[Path]) -> bool:
    """Whether a picture is the first of its format."""
    return path == next(picture for picture in pictures if picture.suffix == path.suffix)


def table(outcomes: list[Outcome]) -> str:
    """Format the number of trials by file, kind of damage and result."""
    results = ("same", "warned", "error", "raw", "silent")
    counted = Counter((_kind_of(o.damage.file), o.damage.kind, o.result) for o in outcomes)
    lines = [f"{'':22}{'':10}" + "".join(f"{result:>8}" for result in results)]
    for file, kind in sorted({key[:2] for key in counted}):
        row = "".join(f"{counted[file, kind, result]:8}" for result in results)
        lines.append(f"{file:22}{kind:10}{row}")
    return "\n".join(lines)


def _kind_of(file: str) -> str:
    return f"{Path(file).parts[0]}/*" if "/" in file else file


@pytest.mark.parametrize("state", ["closed", "logged"])
def test_no_damage_changes_an_answer_without_a_word(bases, pool, state, rounds, capsys):
    folder = getattr(bases, state)
    rng = random.Random(SEED)
    damages = plan(folder, rounds(SHORT, LONG), rounds(1, MOST), rng)
    damages = rng.sample(damages, rounds(len(damages) // 2, len(damages)))
    copy = folder.with_name(f"sound-{state}")
    expected, verified, warnings = pool.submit(_ask_copy, folder, copy, bases.picture).result()
    assert verified
    assert warnings == []
    # A worker that dies breaks the pool, and the test with it.
    trial = partial(run, folder, bases.picture, expected)
    outcomes = list(pool.map(trial, damages, chunksize=4))
    with capsys.disabled():
        print(f"\n{state}\n{table(outcomes)}")  # noqa: T201 - the result of the test
    assert [o for o in outcomes if o.result == "silent"] == []
    assert [o for o in outcomes if o.result == "raw"] == []
    assert [o for o in outcomes if o.verified and not o.same] == []


def _ask_copy(folder: Path, copy: Path, picture: Path):
    shutil.copytree(folder, copy)
    return ask_all(copy, picture)


def test_the_trials_notice_what_is_not_verified(bases, tmp_path, monkeypatch):
    """Without page checksums, damage to an index changes answers silently."""
    expected, _, warnings = _ask_copy(bases.closed, tmp_path / "sound", bases.picture)
    assert warnings == []
    place = (bases.closed / "ku.sqlite").read_bytes().index(b"stone 9")  # in the table of names
    damage = Damage("ku.sqlite", "flip", place, extent=0)
    assert run(bases.closed, bases.picture, expected, damage).result == "error"
    monkeypatch.setattr(connection, "_VFS", "unix")
    assert run(bases.closed, bases.picture, expected, damage).result == "silent"
