"""The readable content of a damaged base is restored, and losses are reported."""

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

from ku_rag import KnowledgeBase, NotFound, Unit
from ku_rag.cli import main
from ku_rag.errors import Corrupt
from tests.assets.schemas import Hashed
from tests.conftest import connect, picture, write_records

UNITS = 120
PAGE = 8192


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A closed base of some hundred pages, without a log."""
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


def pages_of(store: Path, table: str) -> list[int]:
    """The pages with rows of a table, without its root, according to SQLite."""
    with closing(connect(store)) as connection:
        rows = connection.execute(
            "SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf' AND path != '/'",
            (table,),
        )
        return [page for (page,) in rows]


def damage(whole: Path, folder: Path, page: int) -> Path:
    """A copy of the base with one page overwritten."""
    shutil.copytree(whole, folder)
    with (folder / "ku.sqlite").open("r+b") as file:
        file.seek((page - 1) * PAGE)
        file.write(random.Random(page).randbytes(PAGE))
    return folder


def import_units(folder: Path, source: Path) -> dict[str, dict]:
    """Import an export; all units, without the path of the base."""
    with KnowledgeBase.open(folder, create=True, encoder=Hashed()) as kb:
        kb.import_(source)
        assert kb.verify().problems == ()
        return units(kb)


def units(kb: KnowledgeBase) -> dict[str, dict]:
    details = {unit.id: kb.show(unit.id).to_dict() for unit in kb.list()}
    return {
        unit_id: unit
        | {
            "images": sorted(image.rpartition("/")[2] for image in unit["images"]),
            "named_in": sorted((n["source"], n["text"]) for n in unit["named_in"]),
            "facts": [fact | {"chunk": None, "source": None} for fact in unit["facts"]],
        }
        for unit_id, unit in details.items()
    }


def test_a_sound_base_comes_back_whole_and_is_not_touched(whole, tmp_path):
    before = (whole / "ku.sqlite").read_bytes()
    report = KnowledgeBase.salvage(whole, tmp_path / "saved")
    assert report.left_out == []
    assert all(table["lost"] == [] for table in report.salvaged.values())
    assert (whole / "ku.sqlite").read_bytes() == before
    with KnowledgeBase.open(whole, encoder=Hashed()) as kb:
        kb.export(tmp_path / "exported")
    assert tables(tmp_path / "saved") == tables(tmp_path / "exported")
    assert json.loads((tmp_path / "saved" / "manifest.json").read_text())["salvaged"]


def test_changes_that_are_only_in_the_log_come_back(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "kb")
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
    assert (tmp_path / "kb" / "ku.sqlite-wal").stat().st_size > 0
    report = KnowledgeBase.salvage(tmp_path / "kb", tmp_path / "saved")
    assert report.left_out == []
    saved = texts(tmp_path / "saved")
    assert "This came late." in saved
    assert not any(text.startswith("Thing1 ") for text in saved)


@pytest.mark.parametrize("table", ["chunks", "images", "vectors", "relations", "unit_images"])
def test_a_damaged_page_costs_its_own_rows(table, whole, tmp_path, rounds):
    every = texts_of(whole)
    pages = pages_of(whole / "ku.sqlite", table)
    for page in pages[-rounds(1, len(pages)) :]:
        kb = damage(whole, tmp_path / f"kb{page}", page)
        report = KnowledgeBase.salvage(kb, tmp_path / f"saved{page}")
        saved = texts(tmp_path / f"saved{page}")
        lost = [item for item in report.left_out if item.item.startswith(f"{table}: row")]
        assert lost
        assert {item.item.partition(":")[0] for item in report.left_out} == {table}
        assert (saved < every) if table == "chunks" else (saved == every)
        assert len(every - saved) < len(every) // 2
        import_units(tmp_path / f"new{page}", tmp_path / f"saved{page}")


def test_the_rows_of_a_damaged_base_of_many_chunks_come_back(tmp_path):
    with KnowledgeBase.open(tmp_path / "kb", create=True, encoder=Hashed()) as kb:
        kb.add_many([Unit(f"N{n}", id=f"n{n}", texts=[f"{n:x>200}"]) for n in range(3000)])
        every = {f"{n:x>200}" for n in range(3000)}
    for page in pages_of(tmp_path / "kb" / "ku.sqlite", "chunks")[::40]:
        kb = damage(tmp_path / "kb", tmp_path / f"kb{page}", page)
        report = KnowledgeBase.salvage(kb, tmp_path / "saved")
        (rows,) = report.salvaged["chunks"]["lost"]
        first, _, last = rows.removeprefix("rows ").partition(" to ")
        lost = every - texts(tmp_path / "saved")
        assert len(lost) == int(last) - int(first) + 1
        assert report.salvaged["chunks"]["saved"] == 3000 - len(lost)
        assert len(lost) < 80


@pytest.mark.parametrize("table", ["units", "sources"])
def test_content_whose_unit_or_source_is_lost_keeps_its_unit(table, whole, tmp_path):
    page = pages_of(whole / "ku.sqlite", table)[-1]
    report = KnowledgeBase.salvage(damage(whole, tmp_path / "kb", page), tmp_path / "saved")
    assert report.salvaged[table]["lost"]
    with KnowledgeBase.open(whole, encoder=Hashed()) as kb:
        expected = units(kb)
    imported = import_units(tmp_path / "new", tmp_path / "saved")
    assert {unit_id: unit["texts"] for unit_id, unit in imported.items()} == {
        unit_id: unit["texts"] for unit_id, unit in expected.items()
    }
    if table == "units":  # sources contain the units
        assert imported == expected
        return
    shutil.copytree(whole, tmp_path / "other")
    mended = []
    for folder in (tmp_path / "new", tmp_path / "other"):
        with KnowledgeBase.open(folder, encoder=Hashed()) as kb:
            kb.ingest(whole.parent / "units.jsonl")
            mended.append(units(kb))
            mended[-1].pop("long")  # added by hand, not in a file
    assert mended[0] == mended[1]


def test_without_its_schema_a_base_cannot_be_saved(whole, tmp_path):
    kb = damage(whole, tmp_path / "kb", 1)
    with pytest.raises(Corrupt, match="restore a snapshot"):
        KnowledgeBase.salvage(kb, tmp_path / "saved")
    assert not (tmp_path / "saved").exists()
    (kb / "ku.sqlite").write_bytes(b"")
    with pytest.raises(NotFound, match="is missing or empty"):
        KnowledgeBase.salvage(kb, tmp_path / "saved")


def test_the_command_says_what_is_lost(whole, tmp_path, monkeypatch, capsys):
    kb = damage(whole, tmp_path / "kb", pages_of(whole / "ku.sqlite", "chunks")[-1])
    argv = ["ku", "export", str(tmp_path / "saved"), "--salvage", "--kb", str(kb)]
    for more in ([], ["--json"]):
        monkeypatch.setattr("sys.argv", argv + more)
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 3
        streams = capsys.readouterr()
    shape = json.loads(streams.out)
    assert set(shape) == {"counts", "pictures", "left_out", "seconds", "salvaged"}
    assert set(shape["salvaged"]["chunks"]) == {"saved", "lost"}
    assert shape["salvaged"]["chunks"]["lost"]


def texts_of(folder: Path) -> set[str]:
    with closing(connect(folder / "ku.sqlite")) as connection:
        return {text for (text,) in connection.execute("SELECT text FROM chunks")}
