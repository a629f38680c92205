"""Shards of the local engine equal an ingest, are resumable, and are checked at import."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ku_rag import BadInput, KnowledgeBase, Mismatch, Unit, manifest
from ku_rag.errors import Refused
from ku_rag.scale.encoding_run import encode
from ku_rag.settings import Settings
from ku_rag.store.layout import Layout
from tests.assets.schemas import Hashed
from tests.conftest import picture, write_records
from tests.transfer.test_parquet import Other


def write_sources(data: Path) -> Path:
    """A folder with units that have every field, and with broken items."""
    picture(data / "tower.png", 1)
    (data / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nno picture")
    table = {"name": "Lamps", "header": ["Year", "Lamp"]}
    table["rows"] = [["1871", {"text": "Oil", "link": "u3"}], ["1990", "LED"]]
    records = [
        {
            "id": f"u{n}",
            "name": f"Unit {n}",
            "texts": [f"Unit {n} is old. " * 5, "It is by the sea."],
        }
        for n in range(20)
    ]
    records[1] |= {"images": ["tower.png", "broken.png"], "kind": "tower", "height": 41.5}
    records[2] |= {"relations": [{"relation": "faces", "target": "Unit 3"}], "tables": [table]}
    write_records(data / "units.jsonl", [*records, records[0], {"id": "nameless"}])
    (data / "Harbour").mkdir()
    picture(data / "Harbour" / "view.png", 2)
    (data / "Harbour" / "about.txt").write_text("The harbour of Unit 3 is deep. It never freezes.")
    return data


@pytest.fixture
def data(tmp_path):
    return write_sources(tmp_path / "data")


def run(data: Path, out: Path, **options):
    return encode([data], out, **{"encoder": Hashed(), "block": 5} | options)


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def imported(out: Path, kb: Path, encoder=None, **options):
    with KnowledgeBase.open(kb, create=True, encoder=encoder or Hashed()) as base:
        report = base.import_(out, **options)
        assert base.verify().problems == ()
        return report


def shards(out: Path) -> list[Path]:
    return sorted((out / "shards").iterdir())


# ---- the same base -----------------------------------------------------------------------------


@pytest.mark.parametrize("block", [1, 5, 100])
def test_import_of_shards_makes_the_base_that_ingest_makes(data, tmp_path, block):
    encoded = run(data, tmp_path / "out", block=block)
    report = imported(tmp_path / "out", tmp_path / "kb")
    with KnowledgeBase.open(tmp_path / "kb2", create=True, encoder=Hashed()) as base:
        expected = base.ingest(data)
        base.export(tmp_path / "expected")
    with KnowledgeBase.open(tmp_path / "kb", encoder=Hashed()) as base:
        base.export(tmp_path / "found")
        again = base.ingest(data)
    assert contents(tmp_path / "found") == contents(tmp_path / "expected")
    assert (report.chunks_added, report.units_added) == (expected.chunks_added, 21)
    assert {item.item for item in encoded.left_out} == {item.item for item in expected.quarantined}
    assert (again.chunks_added, again.units_unchanged) == (0, 21)
    assert imported(tmp_path / "out", tmp_path / "kb").units_unchanged >= 21


def test_a_picture_that_became_unreadable_does_not_delete_the_stored_one(data, tmp_path):
    (data / "broken.png").unlink()
    picture(data / "broken.png", 5)
    with KnowledgeBase.open(tmp_path / "kb", create=True, encoder=Hashed()) as base:
        base.ingest(data)
        assert len(base.show("u1").images) == 2
    (data / "broken.png").write_bytes(b"")
    run(data, tmp_path / "out")
    imported(tmp_path / "out", tmp_path / "kb")
    with KnowledgeBase.open(tmp_path / "kb", encoder=Hashed()) as base:
        assert len(base.show("u1").images) == 2


# ---- the same bytes ----------------------------------------------------------------------------


def test_equal_runs_write_equal_bytes(data, tmp_path):
    first = run(data, tmp_path / "one")
    second = run(data, tmp_path / "two", workers=2)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert first.left_out == second.left_out
    assert [item.item for item in first.left_out if "broken.png" in item.item]


def test_a_run_continues_and_writes_damaged_shards_again(data, tmp_path):
    first = run(data, tmp_path / "out")
    expected = contents(tmp_path / "out")
    shutil.rmtree(shards(tmp_path / "out")[0])
    (shards(tmp_path / "out")[0] / "chunks.parquet").write_bytes(b"PAR1")
    (tmp_path / "out" / "shards" / ".abc.partial").mkdir()
    again = run(data, tmp_path / "out")
    assert (again.shards, again.reused) == (first.shards, first.shards - 2)
    assert again.left_out == first.left_out
    assert contents(tmp_path / "out") == expected
    assert len(shards(tmp_path / "out")) == first.shards


def test_a_changed_source_renews_its_shards_only(data, tmp_path):
    first = run(data, tmp_path / "out")
    (data / "Harbour" / "about.txt").write_text("The harbour is shallow.")
    again = run(data, tmp_path / "out")
    assert (again.shards, again.reused) == (first.shards, first.shards - 1)
    assert imported(tmp_path / "out", tmp_path / "kb").units_added == 21


# ---- refused -----------------------------------------------------------------------------------


def test_a_folder_of_another_run_is_refused(data, tmp_path):
    run(data, tmp_path / "out")
    before = contents(tmp_path / "out")
    with pytest.raises(Refused, match="encoder"):
        run(data, tmp_path / "out", encoder=Other())
    with pytest.raises(Refused, match="max_tokens"):
        run(data, tmp_path / "out", settings=Settings(max_tokens=3))
    with pytest.raises(Refused, match="sources"):
        encode([data / "units.jsonl"], tmp_path / "out", encoder=Hashed(), block=5)
    assert contents(tmp_path / "out") == before
    with pytest.raises(Refused, match="other files"):
        run(data, tmp_path)
    with pytest.raises(BadInput, match="is inside"):
        encode([data, data / "units.jsonl"], tmp_path / "new", encoder=Hashed())
    with pytest.raises(BadInput, match="is inside"):
        run(data, data / "out")


def test_shards_of_another_encoder_or_version_are_refused(data, tmp_path):
    run(data, tmp_path / "out")
    for partial in (False, True):
        with pytest.raises(Mismatch, match=r"tests/hashed:8.*tests/other:4"):
            imported(tmp_path / "out", tmp_path / "other", Other(), partial=partial)
    with (
        KnowledgeBase.open(tmp_path / "kb", create=True, encoder=Hashed(), max_tokens=5) as base,
        pytest.raises(Mismatch, match="KU_MAX_TOKENS=5"),
    ):
        base.import_(tmp_path / "out")
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    (tmp_path / "out" / "manifest.json").write_text(json.dumps(manifest | {"format": 99}))
    with pytest.raises(Mismatch, match="format 99"):
        imported(tmp_path / "out", tmp_path / "later")


def test_a_run_that_is_not_finished_is_not_imported(data, tmp_path):
    run(data, tmp_path / "out")
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    for changed in (manifest | {"finished": False}, None):
        (tmp_path / "out" / "manifest.json").unlink()
        if changed:
            (tmp_path / "out" / "manifest.json").write_text(json.dumps(changed))
        with pytest.raises(BadInput, match="not finished"):
            imported(tmp_path / "out", tmp_path / "kb", partial=True)


# ---- damaged shards ----------------------------------------------------------------------------


def remove(shard: Path) -> None:
    shutil.rmtree(shard)


def truncate(shard: Path) -> None:
    file = shard / "chunks.parquet"
    file.write_bytes(file.read_bytes()[:-10])


def change(shard: Path) -> None:
    file = shard / "chunks.parquet"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def exchange(shard: Path) -> None:
    shutil.copytree(shards(shard.parent.parent)[-1], shard, dirs_exist_ok=True)


@pytest.mark.parametrize("damage", [remove, truncate, change, exchange])
def test_damaged_shards_are_reported_and_the_rest_imported_if_asked(data, tmp_path, damage):
    run(data, tmp_path / "out")
    name = shards(tmp_path / "out")[1].name
    damage(shards(tmp_path / "out")[1])
    with pytest.raises(BadInput, match=rf"1 of 5 shards .*{name[:16]}.*--partial"):
        imported(tmp_path / "out", tmp_path / "kb")
    report = imported(tmp_path / "out", tmp_path / "kb", partial=True)
    assert [item.item for item in report.quarantined] == [name]
    run(data, tmp_path / "out")
    imported(tmp_path / "out", tmp_path / "kb")
    with KnowledgeBase.open(tmp_path / "kb", encoder=Hashed()) as base:
        assert len(base.list()) == 21


def test_doubled_shards_are_reported_and_stored_once(data, tmp_path):
    encoded = run(data, tmp_path / "out")
    first = shards(tmp_path / "out")[0]
    shutil.copytree(first, first.with_name("copy"))
    with pytest.raises(BadInput, match="copy: the manifest does not name it"):
        imported(tmp_path / "out", tmp_path / "kb")
    report = imported(tmp_path / "out", tmp_path / "kb", partial=True)
    assert [item.item for item in report.quarantined] == ["copy"]
    assert report.chunks_added == encoded.counts["chunks"]


def test_other_files_beside_the_shards_are_ignored(data, tmp_path):
    encoded = run(data, tmp_path / "out")
    shards(tmp_path / "out")[0].with_name("Thumbs.db").touch()
    report = imported(tmp_path / "out", tmp_path / "kb")
    assert report.chunks_added == encoded.counts["chunks"]


# ---- the command -------------------------------------------------------------------------------


def test_the_command_lists_what_was_left_out_and_import_takes_the_rest(ku, data):
    result = ku("encode", data, "--out", "shards", "--block", "5", "--json")
    assert result.code == 3
    assert list(result.json) == ["shards", "reused", "counts", "left_out", "seconds"]
    assert (result.json["shards"], result.json["counts"]["units"]) == (5, 21)
    assert len(result.json["left_out"]) == 3
    assert ku("import", "shards", "--json").json["units_added"] == 21
    assert ku("verify").code == 0
    truncate(shards(Path("shards"))[0])
    assert ku("import", "shards", "--kb", "new").code == 1
    assert not Path("new").exists()
    assert ku("import", "shards", "--kb", "new", "--partial").code == 3


def test_a_source_without_records_makes_no_shards(ku):
    Path("empty").mkdir()
    Path("empty.jsonl").touch()
    assert ku("encode", "empty", "--out", "shards").out.startswith("0 units, 0 chunks")
    result = ku("encode", "empty.jsonl", "--out", "others", "--json")
    assert (result.code, result.json["shards"], result.json["counts"]["units"]) == (0, 0, 0)
    assert ku("import", "others", "--json").json["units_added"] == 0


def test_a_mistyped_source_leaves_the_output_free(ku, data):
    (data / "notes.xyz").touch()
    for wrong in ("nowhere", "data/notes.xyz"):
        assert ku("encode", wrong, "--out", "shards").code == 1
    assert not Path("shards").exists()
    assert ku("encode", data, "--out", "shards").code == 3


def test_an_output_that_is_a_file_is_refused(ku, data):
    file = data / "tower.png"
    Path("units").mkdir()
    before = file.read_bytes()
    for out in (file.rename("tower.png"), Path("tower.png/shards")):
        result = ku("encode", "units", "--out", out)
        assert (result.code, "tower.png is not a folder: name a new" in result.err) == (1, True)
    assert Path("tower.png").read_bytes() == before


def test_a_refused_import_makes_no_base(ku, data):
    ku("encode", data, "--out", "set")
    result = ku("import", "set/shards")
    assert (result.code, "name the folder that `ku export` or `ku encode` made" in result.err) == (
        1,
        True,
    )
    written = json.loads(Path("set/manifest.json").read_text())
    Path("set/manifest.json").write_text(json.dumps(written | {"finished": False}))
    result = ku("import", "set")
    assert (result.code, "set is not finished" in result.err) == (1, True)
    assert "made" not in result.err
    assert not Path("kb").exists()


@pytest.mark.parametrize("there", [(), ("ku.toml",)])
def test_an_import_that_fails_while_it_reads_leaves_no_base(ku, data, there):
    ku("encode", data, "--out", "set")
    change(shards(Path("set"))[-1])
    for name in there:
        Path("kb").mkdir()
        Path("kb", name).write_text("k_chunks = 5\n")
    result = ku("import", "set")
    assert result.code == 1
    assert "its tables have changed since they were written" in result.err
    assert Path("kb").exists() == bool(there)
    assert [path.name for path in Path("kb").glob("*")] == [*there]


def test_a_failed_import_leaves_a_base_that_others_use_or_fill(ku, data, tmp_path):
    ku("encode", data, "--out", "set")
    change(shards(Path("set"))[-1])
    layout = Layout(tmp_path / "other")
    with KnowledgeBase.open(layout.root, create=True) as base:
        manifest.discard(layout, ())
        base.add(Unit("Pier", texts=["A pier."]))
    manifest.discard(layout, ())
    ku("import", "set", "--kb", "other")
    with KnowledgeBase.open(layout.root) as base:
        assert [unit.name for unit in base.list()] == ["Pier"]
        assert base.verify().ok


def test_shards_whose_manifest_names_no_encoder_are_refused(ku, data):
    ku("encode", data, "--out", "set")
    content = json.loads(Path("set/manifest.json").read_text())
    Path("set/manifest.json").write_text(json.dumps(content | {"encoder": None}))
    assert ku("import", "set").code == 4
    assert not Path("kb").exists()
