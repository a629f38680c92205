"""The pipeline: damaged pictures are rewritten; names are checked in every reader."""

import gc
from pathlib import Path

import pytest

from ku_rag import Unit
from ku_rag.errors import BadInput
from tests.conftest import picture, write_records

# ---- stored pictures ---------------------------------------------------------------------------


@pytest.mark.parametrize("harm", ["missing", "same size", "cut off"])
@pytest.mark.parametrize("how", ["ingest", "add", "sync"])
def test_a_damaged_stored_picture_is_written_again(harm, how, kb, tmp_path):
    photo = picture(tmp_path / "things" / "Lamp" / "photo.png", 1)

    def bring():
        if how == "add":
            kb.add(Unit("Lamp", id="Lamp", images=[photo]))
        else:
            (kb.ingest if how == "ingest" else kb.sync)(tmp_path / "things")

    bring()
    (stored,) = (Path(image) for image in kb.show("Lamp").images)
    data = stored.read_bytes()
    match harm:
        case "missing":
            stored.unlink()
        case "same size":
            stored.write_bytes(data[:-20] + bytes(20))
        case "cut off":
            stored.write_bytes(data[:50])
    assert not kb.verify().ok
    bring()
    assert stored.read_bytes() == data
    assert kb.verify().problems == ()
    assert kb.stats().counts["images"] == 1


def test_a_picture_is_repaired_under_the_name_that_it_is_stored_by(kb, tmp_path):
    photo = picture(tmp_path / "photo.png", 1)
    kb.add(Unit("Lamp", id="lamp", images=[photo]))
    (stored,) = (Path(image) for image in kb.show("lamp").images)
    stored.unlink()
    kb.add(Unit("Light", id="light", images=[photo.rename(tmp_path / "photo.PNM")]))
    assert stored.is_file()
    assert kb.verify().problems == ()


# ---- names -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["\u200b\u200d\ufeff", " \u2060 ", "\u3164", "\u2800", "\ufe0f"])
def test_a_name_holds_a_visible_character(name, kb, tmp_path):
    lines = write_records(tmp_path / "u.jsonl", [{"name": name}, {"name": "Lamp"}])
    table = tmp_path / "u.csv"
    table.write_text(f"name\n{name}\nChair\n", encoding="utf-8")
    for path in (lines, table):
        assert len(kb.ingest(path).quarantined) == 1
    with pytest.raises(BadInput, match="is empty"):
        kb.add(Unit(name))
    assert [unit.id for unit in kb.list()] == ["Chair", "Lamp"]


def test_names_are_limited_and_keys_stand_once(kb, tmp_path):
    with pytest.raises(BadInput, match="3,000,000 characters, at most 1,000"):
        Unit("x" * 3_000_000)
    (tmp_path / "u.jsonl").write_text(
        '{"name": "A", "name": "B"}\n{"name": "C", "metadata": {"k": 1, "k": 2}}\n{"name": "D"}\n'
    )
    report = kb.ingest(tmp_path / "u.jsonl")
    assert report.units_added == 1
    assert all("stands more than once" in item.reason for item in report.quarantined)
    assert len(report.quarantined) == 2


# ---- garbage collection ------------------------------------------------------------------------


@pytest.mark.parametrize("frozen", [False, True])
def test_garbage_collection_is_left_as_it_was(frozen, kb):
    during = []
    if frozen:
        gc.freeze()
    try:
        kb.add_many(
            [Unit("Lamp", id="lamp")], progress=lambda _: during.append(gc.get_freeze_count())
        )
        assert during[0] > 0
        assert (gc.get_freeze_count() > 0) == frozen
    finally:
        gc.unfreeze()
