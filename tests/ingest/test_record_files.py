"""Parquet files of records and WebDataset shards give the same units as JSON lines."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ku_rag import BadInput, KnowledgeBase
from ku_rag.ingest.readers.folder import read
from ku_rag.types import Quarantined
from tests.assets.schemas import Hashed
from tests.conftest import picture, write_records

RECORDS = [
    {"id": "m", "name": "Mango", "aliases": ["Mangue"], "texts": ["Sweet."], "images": ["m.png"],
     "relations": [{"relation": "grows in", "target": "Peru"}], "metadata": {"calories": 60}},
    {"id": "k", "name": "Kiwi", "texts": ["Green."], "metadata": {"calories": 42}},
]  # fmt: skip


def write_tar(path: Path, members: dict[str, bytes], **fields) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            for field, value in fields.get(name, {}).items():
                setattr(member, field, value)
            archive.addfile(member, io.BytesIO(content))
    return path


def items(path: Path):
    entries = list(read(path))
    left_out = [entry for entry in entries if isinstance(entry, Quarantined)]
    return [entry for entry in entries if not isinstance(entry, Quarantined)], left_out


def test_a_parquet_file_gives_the_units_of_the_same_json_lines(tmp_path):
    picture(tmp_path / "m.png", 1)
    pq.write_table(pa.Table.from_pylist(RECORDS), tmp_path / "units.parquet")
    write_records(tmp_path / "units.jsonl", RECORDS)
    (parquet, left_out), (lines, _) = (
        items(tmp_path / f"units.{suffix}") for suffix in ("parquet", "jsonl")
    )
    assert left_out == []
    assert [entry.unit for entry in parquet] == [entry.unit for entry in lines]
    texts = [[entry.sources[0].texts for entry in entries] for entries in (parquet, lines)]
    assert texts[0] == texts[1]
    assert parquet[0].sources[0].images == (tmp_path / "m.png",)


def test_broken_rows_and_files_of_parquet_are_reported(tmp_path):
    rows = [{"name": "Kiwi", "text": "Green.\0"}, {"name": ""}, {"name": "Mango", "text": "Sweet."}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "units.parquet")
    entries, left_out = items(tmp_path / "units.parquet")
    assert [entry.unit.id for entry in entries] == ["Mango"]
    assert [item.item.rpartition("/")[2] for item in left_out] == [
        "units.parquet:1",
        "units.parquet:2",
    ]
    content = (tmp_path / "units.parquet").read_bytes()
    (tmp_path / "units.parquet").write_bytes(content[:-20])
    with pytest.raises(BadInput, match="damaged"):
        items(tmp_path / "units.parquet")
    pq.write_table(pa.table({"title": ["Kiwi"]}), tmp_path / "units.parquet")
    with pytest.raises(BadInput, match='no column "name", only title'):
        items(tmp_path / "units.parquet")
    pq.write_table(
        pa.table({"name": ["a"], "added": [pa.scalar(0, pa.timestamp("s"))]}),
        tmp_path / "t.parquet",
    )
    assert len(items(tmp_path / "t.parquet")[1]) == 1


def test_a_webdataset_shard_gives_units_with_their_pictures(tmp_path):
    photo = picture(tmp_path / "shown.png", 1).read_bytes()
    (tmp_path / "data").mkdir()
    mango = {"name": "Mango", "text": "Sweet.", "calories": 60}
    members = {
        "./fruits/a.png": photo,
        "./fruits/a.json": json.dumps(mango).encode(),
        "b.txt": b"It is green.",
        "b.mp4": b"film",
        "c.seg.png": picture(tmp_path / "other.png", 2).read_bytes(),
    }
    write_tar(tmp_path / "data" / "000.tar", members)
    with KnowledgeBase.open(tmp_path / "kb", create=True, encoder=Hashed()) as kb:
        report = kb.ingest(tmp_path / "data")
        assert [item.item for item in report.quarantined] == [f"{tmp_path}/data/000.tar/b.mp4"]
        units = [(unit.id, unit.name) for unit in kb.list()]
        assert units == [("b", "b"), ("c", "c"), ("fruits/a", "Mango")]
        assert kb.show("fruits/a").metadata == {"calories": 60}
        assert Path(kb.show("fruits/a").images[0]).read_bytes() == photo
        assert len(kb.show("c").images) == 1
        assert kb.ingest(tmp_path / "data").units_unchanged == 3
        assert kb.sync(tmp_path / "data").units_deleted == []


@pytest.mark.parametrize(
    "name", ["/etc/passwd.png", "../out.png", "a/../../out.png", "pipe:touch ran.txt"]
)
def test_names_of_members_lead_nowhere(tmp_path, name, monkeypatch):
    monkeypatch.chdir(tmp_path)
    picture(tmp_path / "out.png", 1)
    (tmp_path / "data").mkdir()
    write_tar(tmp_path / "data" / "0.tar", {name: b"x", "b.txt": b"Green."})
    with KnowledgeBase.open(tmp_path / "kb", create=True, encoder=Hashed()) as kb:
        kb.ingest(tmp_path / "data")
        assert all(not kb.show(unit.id).images for unit in kb.list())
    assert not (tmp_path / "ran").exists()


def test_links_and_damaged_archives_are_reported(tmp_path):
    link = {"a.png": {"type": tarfile.SYMTYPE, "linkname": "/etc/hostname"}}
    path = write_tar(tmp_path / "0.tar", {"a.png": b"", "b.txt": b"Green.", "c.json": b"{"}, **link)
    entries, left_out = items(path)
    assert [entry.unit.id for entry in entries] == ["b"]
    assert [item.item.rpartition("/")[2] for item in left_out] == ["a", "c"]
    content = path.read_bytes()
    for size in (len(content) - 10_240 + 600, 512 * 4, 100, 0):
        path.write_bytes(content[:size])
        with pytest.raises(BadInput):
            items(path)
