"""What is sound of a damaged base comes back, and the rest is named."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ku_rag import KnowledgeBase, NotFound, Unit
from ku_rag.exchange.pages import Pages
from tests.assets.schemas import Hashed
from tests.conftest import picture, write_records

UNITS = 300
PAGE = 8192


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A base of some hundred pages, closed: its log is folded in."""
    folder = tmp_path_factory.mktemp("salvage")
    write_records(
        folder / "units.jsonl",
        [
            {
                "id": f"u{n}",
                "name": f"Thing{n}",
                "texts": [
                    f"Thing{n} stands near Thing{(n + 1) % UNITS}. Its number is {n}. "
                    f"It was made of {n * 7} parts by people who are not known any more.",
                    f"A second text says of number {n} that it is {n * 31} days old.",
                ],
                "metadata": {"note": f"{n} " * 40},
                "images": [picture(folder / f"{n % 40}.png", n % 40, (8, 8)).name],
                "relations": [{"relation": "beside", "target": f"u{(n + 1) % UNITS}"}],
            }
            for n in range(UNITS)
        ],
    )
    with KnowledgeBase.open(folder / "kb", create=True, encoder=Hashed()) as kb:
        kb.ingest(folder / "units.jsonl")
        kb.add(Unit("Long", id="long", texts=["word " * 30_000]))
        kb.delete([f"u{n}" for n in range(0, UNITS, 50)])
    return folder / "kb"


def tables(folder: Path) -> dict[str, list[dict]]:
    return {path.stem: pq.read_table(path).to_pylist() for path in folder.glob("*.parquet")}


def texts(folder: Path) -> set[str]:
    return {row["text"] for row in pq.read_table(folder / "chunks.parquet").to_pylist()}


def leaves(store: Path) -> dict[int, set[str]]:
    """The chunks on each page of the table of chunks, as SQLite itself says."""
    found: dict[int, set[str]] = {}
    with Pages(store) as pages, closing(sqlite3.connect(store)) as connection:
        rows = dict(connection.execute("SELECT row, text FROM chunks"))
        for number in range(1, len(pages) + 1):
            if pages._kind(number) == 0x0D:
                held = {
                    rows[cell.row]
                    for cell in pages._cells(number)
                    if len(cell.fields) == 7 and cell.fields[5] == rows.get(cell.row)
                }
                if held:
                    found[number] = held
    return found


def damage(whole: Path, folder: Path) -> Path:
    """A copy of the base that may be damaged."""
    shutil.copytree(whole, folder)
    return folder / "ku.sqlite"


def test_a_sound_base_comes_back_whole_and_is_not_touched(whole, tmp_path):
    before = {path: path.read_bytes() for path in whole.rglob("*") if path.is_file()}
    done = KnowledgeBase.salvage(whole, tmp_path / "saved")
    assert done["left_out"] == []
    assert all(one["lost"] == [] for one in done["salvaged"].values())
    assert {path: path.read_bytes() for path in whole.rglob("*") if path.is_file()} == before
    with KnowledgeBase.open(whole, encoder=Hashed()) as kb:
        kb.export(tmp_path / "exported")
    assert tables(tmp_path / "saved") == tables(tmp_path / "exported")
    assert json.loads((tmp_path / "saved" / "manifest.json").read_text())["salvaged"]


def test_changes_that_are_only_in_the_log_come_back(whole, tmp_path):
    store = damage(whole, tmp_path / "kb")
    code = (
        "import os, sys; sys.path.insert(0, '.')\n"
        "from ku_rag import KnowledgeBase, Unit\n"
        "from tests.assets.schemas import Hashed\n"
        f"kb = KnowledgeBase.open({str(tmp_path / 'kb')!r}, encoder=Hashed())\n"
        "kb.add(Unit('Late', id='late', texts=['This came late.']))\n"
        "kb.delete('u1')\n"
        "os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[1])
    assert store.with_name("ku.sqlite-wal").stat().st_size > 0
    done = KnowledgeBase.salvage(tmp_path / "kb", tmp_path / "saved")
    assert done["left_out"] == []
    saved = texts(tmp_path / "saved")
    assert "This came late." in saved
    assert not any(text.startswith("Thing1 ") for text in saved)
    store.with_name("ku.sqlite-wal").unlink()
    KnowledgeBase.salvage(tmp_path / "kb", tmp_path / "older")
    assert any(text.startswith("Thing1 ") for text in texts(tmp_path / "older"))


def test_every_row_comes_back_unless_its_page_is_gone(whole, tmp_path):
    store = whole / "ku.sqlite"
    held = leaves(store)
    every = set().union(*held.values())
    count = store.stat().st_size // PAGE
    rng = random.Random(5)
    for page in rng.sample(range(1, count + 1), 25):
        folder = tmp_path / str(page)
        with damage(whole, folder / "kb").open("r+b") as file:
            file.seek((page - 1) * PAGE)
            file.write(rng.randbytes(PAGE))
        KnowledgeBase.salvage(folder / "kb", folder / "saved")
        saved = texts(folder / "saved")
        assert saved <= every
        assert every - saved <= held.get(page, set()) | {t for t in every if len(t) > 2000}
        shutil.rmtree(folder)


def test_a_flipped_bit_costs_one_row_at_most(whole, tmp_path):
    held = leaves(whole / "ku.sqlite")
    every = set().union(*held.values())
    rng = random.Random(7)
    store = damage(whole, tmp_path / "kb")
    data = store.read_bytes()
    lost = []
    for round_ in range(40):
        at = rng.randrange(len(data))
        flipped = bytearray(data)
        flipped[at] ^= 1 << rng.randrange(8)
        store.write_bytes(flipped)
        KnowledgeBase.salvage(tmp_path / "kb", tmp_path / "saved")
        lost.append(len(every - texts(tmp_path / "saved")))
        assert lost[-1] <= 1 or at % PAGE < 12, (round_, at)
    assert sum(lost) < 10
