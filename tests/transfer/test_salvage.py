"""What is sound of a damaged base comes back, and the rest is named."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import ku_rag
from ku_rag import KnowledgeBase, NotFound, Unit
from ku_rag.cli import main
from ku_rag.store.connection import connect
from ku_rag.transfer import salvage
from ku_rag.transfer.pages import Pages
from tests.assets.schemas import Hashed
from tests.conftest import picture, write_records

UNITS = 120
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
                "metadata": {"note": f"{n} " * 60},
                "images": [picture(folder / f"{n % 20}.png", n % 20, (8, 8)).name],
                "relations": [{"relation": "beside", "target": f"u{(n + 1) % UNITS}"}],
            }
            for n in range(UNITS)
        ],
    )
    with KnowledgeBase.open(folder / "kb", create=True, encoder=Hashed()) as kb:
        kb.ingest(folder / "units.jsonl")
        words, word = " ".join(f"word{n}" for n in range(3000)), "".join(map(str, range(7000)))
        kb.add(Unit("Long", id="long", texts=[words, word]))
        kb.delete([f"u{n}" for n in range(0, UNITS, 40)])
    return folder / "kb"


def tables(folder: Path) -> dict[str, list[dict]]:
    return {path.stem: pq.read_table(path).to_pylist() for path in folder.glob("*.parquet")}


def texts(folder: Path) -> set[str]:
    return {row["text"] for row in pq.read_table(folder / "chunks.parquet").to_pylist()}


def leaves(store: Path) -> dict[int, set[str]]:
    """The chunks on each page of the table of chunks, as SQLite itself says."""
    found: dict[int, set[str]] = {}
    with Pages(store) as pages, closing(connect(store)) as connection:
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
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])
    assert store.with_name("ku.sqlite-wal").stat().st_size > 0
    done = KnowledgeBase.salvage(tmp_path / "kb", tmp_path / "saved")
    assert done["left_out"] == []
    saved = texts(tmp_path / "saved")
    assert "This came late." in saved
    assert not any(text.startswith("Thing1 ") for text in saved)
    store.with_name("ku.sqlite-wal").unlink()
    KnowledgeBase.salvage(tmp_path / "kb", tmp_path / "older")
    assert any(text.startswith("Thing1 ") for text in texts(tmp_path / "older"))


@pytest.mark.parametrize("how", ["random", "zero"])
def test_every_row_comes_back_unless_its_page_is_gone(how, whole, tmp_path, long):
    store = whole / "ku.sqlite"
    held = leaves(store)
    every = set().union(*held.values())
    spread = {text for text in every if len(text) > PAGE // 2}
    count = store.stat().st_size // PAGE
    rng = random.Random(5)
    pages = range(2, count + 1) if long else rng.sample(range(2, count + 1), 12)
    for page in pages:
        folder = tmp_path / str(page)
        with damage(whole, folder / "kb").open("r+b") as file:
            file.seek((page - 1) * PAGE)
            file.write(rng.randbytes(PAGE) if how == "random" else bytes(PAGE))
        done = KnowledgeBase.salvage(folder / "kb", folder / "saved")
        saved = texts(folder / "saved")
        assert saved <= every
        # A text that goes on in other pages is gone with each of them.
        assert every - saved <= held.get(page, set()) | spread
        assert (not done["salvaged"]["chunks"]["lost"]) == (saved == every)
        shutil.rmtree(folder)


def test_a_flipped_bit_costs_one_row_and_seldom_a_page(whole, tmp_path, long):
    held = leaves(whole / "ku.sqlite")
    every = set().union(*held.values())
    rng = random.Random(7)
    store = damage(whole, tmp_path / "kb")
    data = store.read_bytes()
    for _ in range(400 if long else 15):
        at = rng.randrange(PAGE, len(data))
        flipped = bytearray(data)
        flipped[at] ^= 1 << rng.randrange(8)
        store.write_bytes(flipped)
        KnowledgeBase.salvage(tmp_path / "kb", tmp_path / "saved")
        lost = every - texts(tmp_path / "saved")
        assert len(lost) <= 1 or at % PAGE < 8, at
        assert len(lost) <= max(map(len, held.values()))


def test_a_row_whose_number_is_damaged_takes_nobodys_place(whole, tmp_path):
    store = damage(whole, tmp_path / "kb")
    page = page_of(store, "units")
    data = bytearray(store.read_bytes())
    start = (page - 1) * PAGE
    cell = start + int.from_bytes(data[start + 8 + 2 * 3 : start + 10 + 2 * 3], "big")
    assert data[cell] > 0x7F
    assert data[cell + 2] < 0x80  # two bytes of length, then the number of the row
    before = {row["id"] for row in exported(whole, tmp_path / "before")["units"]}
    for bit in range(7):
        data[cell + 2] ^= 1 << bit
        store.write_bytes(data)
        data[cell + 2] ^= 1 << bit
        found = exported(tmp_path / "kb", tmp_path / "saved")
        assert {row["id"] for row in found["units"]} == before
        assert {row["unit"] for row in found["sources"]} == before


def exported(folder: Path, target: Path) -> dict[str, list[dict]]:
    KnowledgeBase.salvage(folder, target)
    return tables(target)


@pytest.mark.parametrize("first", [PAGE, 100, 16])
def test_without_its_first_page_a_base_comes_back(first, whole, tmp_path):
    store = damage(whole, tmp_path / "kb")
    with store.open("r+b") as file:
        file.write(b"\x07" * first)
    with pytest.raises(ku_rag.KuError):
        KnowledgeBase.open(tmp_path / "kb", encoder=Hashed())
    done = KnowledgeBase.salvage(tmp_path / "kb", tmp_path / "saved")
    assert "free pages" in {one["item"] for one in done["left_out"]}
    every = set().union(*leaves(whole / "ku.sqlite").values())
    assert every <= texts(tmp_path / "saved")


def test_what_was_deleted_stays_deleted(whole, tmp_path):
    with KnowledgeBase.open(damage(whole, tmp_path / "kb").parent, encoder=Hashed()) as kb:
        kb.delete([unit.id for unit in kb.list() if unit.id > "u3"])
        left = {text for unit in kb.list() for text in kb.show(unit.id).texts}
    with Pages(tmp_path / "kb" / "ku.sqlite") as pages:
        assert pages._free
    KnowledgeBase.salvage(tmp_path / "kb", tmp_path / "saved")
    saved = texts(tmp_path / "saved")
    assert saved
    assert all(any(text in whole for whole in left) for text in saved)


def test_a_truncated_file_gives_what_is_before_the_end(whole, tmp_path):
    held = leaves(whole / "ku.sqlite")
    store = damage(whole, tmp_path / "kb")
    size = store.stat().st_size
    for kept in (size * 3 // 4 + 100, size // 2, PAGE * 3 + 5):
        shutil.copyfile(whole / "ku.sqlite", store)
        with store.open("r+b") as file:
            file.truncate(kept)
        done = KnowledgeBase.salvage(tmp_path / "kb", tmp_path / "saved")
        before = set().union(*(t for page, t in held.items() if page * PAGE <= kept), set())
        assert {t for t in before if len(t) < PAGE // 2} <= texts(tmp_path / "saved")
        assert f"pages {kept // PAGE + 1} to {size // PAGE}" in done["pages"]["broken"]
    store.write_bytes(b"")
    with pytest.raises(NotFound, match="is empty"):
        KnowledgeBase.salvage(tmp_path / "kb", tmp_path / "nothing")


def test_units_keep_their_ids_when_their_rows_are_lost(whole, tmp_path):
    store = damage(whole, tmp_path / "kb")
    page = page_of(store, "units")
    with store.open("r+b") as file:
        file.seek((page - 1) * PAGE)
        file.write(bytes(PAGE))
    done = KnowledgeBase.salvage(tmp_path / "kb", tmp_path / "saved")
    lost = done["salvaged"]["units"]["lost"]
    assert lost
    with KnowledgeBase.open(whole, encoder=Hashed()) as kb:
        expected = {unit.id: without_places(kb.show(unit.id)) for unit in kb.list()}
    with KnowledgeBase.open(tmp_path / "new", create=True, encoder=Hashed()) as kb:
        report = kb.import_(tmp_path / "saved")
        assert report.quarantined == []
        found = {unit.id: without_places(kb.show(unit.id)) for unit in kb.list()}
        assert found == expected
        assert kb.verify().problems == ()


def test_what_lost_its_source_keeps_its_unit(whole, tmp_path):
    store = damage(whole, tmp_path / "kb")
    page = page_of(store, "sources")
    with store.open("r+b") as file:
        file.seek((page - 1) * PAGE)
        file.write(bytes(PAGE))
    done = KnowledgeBase.salvage(tmp_path / "kb", tmp_path / "saved")
    assert done["salvaged"]["sources"]["lost"]
    with KnowledgeBase.open(whole, encoder=Hashed()) as kb:
        expected = {unit.id: kb.show(unit.id).to_dict()["texts"] for unit in kb.list()}
    with KnowledgeBase.open(tmp_path / "new", create=True, encoder=Hashed()) as kb:
        kb.import_(tmp_path / "saved")
        assert {unit.id: kb.show(unit.id).to_dict()["texts"] for unit in kb.list()} == expected
        assert kb.verify().problems == ()
        kb.ingest(whole.parent / "units.jsonl")
        mended = {unit.id: without_places(kb.show(unit.id)) for unit in kb.list()}
    shutil.copytree(whole, tmp_path / "other")
    with KnowledgeBase.open(tmp_path / "other", encoder=Hashed()) as kb:
        kb.ingest(whole.parent / "units.jsonl")
        expected = {unit.id: without_places(kb.show(unit.id)) for unit in kb.list()}
    lost = mended.pop("long"), expected.pop("long")  # added by hand: nothing tells of its source
    assert lost[0]["texts"] == lost[1]["texts"]
    assert mended == expected


def test_without_its_manifest_a_base_is_known_by_its_vectors(whole, tmp_path):
    store = damage(whole, tmp_path / "kb")
    with closing(connect(store)) as connection:
        connection.execute("UPDATE meta SET value = '{' || value")
    KnowledgeBase.salvage(tmp_path / "kb", tmp_path / "saved")
    manifest = json.loads((tmp_path / "saved" / "manifest.json").read_text())
    assert manifest["encoder"]["fingerprint"] == Hashed.fingerprint
    with KnowledgeBase.open(tmp_path / "new", create=True, encoder=Hashed()) as kb:
        assert kb.import_(tmp_path / "saved").quarantined == []
        assert kb.verify().problems == ()


def test_the_command_says_what_is_lost(whole, tmp_path, monkeypatch, capsys):
    store = damage(whole, tmp_path / "kb")
    page = page_of(store, "chunks")
    with store.open("r+b") as file:
        file.seek((page - 1) * PAGE)
        file.write(bytes(PAGE))
    argv = ["ku", "export", str(tmp_path / "saved"), "--salvage", "--kb", str(tmp_path / "kb")]
    for more in ([], ["--json"]):
        monkeypatch.setattr("sys.argv", argv + more)
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 3
        said = capsys.readouterr()
    shape = json.loads(said.out)
    assert set(shape) == {"counts", "pictures", "left_out", "seconds", "salvaged", "pages"}
    assert set(shape["salvaged"]["chunks"]) == {"saved", "lost", "failed_checksum"}
    assert shape["salvaged"]["chunks"]["lost"]


def page_of(store: Path, table: str) -> int:
    """The last page that holds rows of a table."""
    with Pages(store) as pages:
        for number in range(len(pages), 1, -1):
            cells = list(pages._cells(number)) if pages._kind(number) == 0x0D else []
            if cells and any(s.table == table and s.fits(cells[0]) for s in salvage._SHAPES):
                return number
    raise AssertionError(f"there is no page of {table}")


def without_places(unit: dict) -> dict:
    images = sorted(image.rpartition("/")[2] for image in unit["images"])
    named = sorted((one["source"], one["text"]) for one in unit["named_in"])
    return unit | {"images": images, "named_in": named}
