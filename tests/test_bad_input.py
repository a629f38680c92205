"""Bad input, end to end: one clear sentence each; the rest continues, nothing is lost."""

from __future__ import annotations

import io
import json
import os
import struct
import time
import zlib

import pytest
from PIL import Image

from ku_rag import BadInput, KnowledgeBase, Unit
from ku_rag.arguments import STRICT_JSON
from ku_rag.errors import Mismatch, ReadOnly
from tests.conftest import picture, write_records


def png_of(width, height):
    """A PNG whose header states a size that nobody should decode."""

    def block(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + block(b"IHDR", header)
        + block(b"IDAT", zlib.compress(b"\0" * 100))
        + block(b"IEND", b"")
    )


def saved(image, **options):
    data = io.BytesIO()
    image.save(data, **options)
    return data.getvalue()


def jpeg():
    return saved(Image.radial_gradient("L").convert("RGB"), format="JPEG")


BROKEN_PICTURES = {
    "empty.jpg": (b"", "empty"),
    "cut.jpg": (jpeg()[:400], "broken"),
    "huge.png": (png_of(60_000, 60_000), "at most 64,000,000 pixels"),
    "text.png": (b"this is no picture", "not a readable picture"),
}


@pytest.mark.parametrize("name", BROKEN_PICTURES)
def test_a_broken_picture_is_left_out_and_its_unit_stays(kb, tmp_path, name):
    data, reason = BROKEN_PICTURES[name]
    folder = tmp_path / "things" / "Lamp"
    picture(folder / "good.png", 1)
    (folder / "about.txt").write_text("It shines.", encoding="utf-8")
    (folder / name).write_bytes(data)
    for _ in range(2):
        report = kb.ingest(tmp_path / "things")
        (left_out,) = report.quarantined
        assert left_out.item == str(folder / name)
        assert reason in left_out.reason
    assert report.units_unchanged == 1
    assert kb.show("Lamp").counts == {
        "chunks": 1,
        "named_in": 0,
        "images": 1,
        "relations": 0,
    }
    assert kb.verify().ok
    (folder / name).write_bytes(jpeg())
    assert kb.ingest(tmp_path / "things").images_added == 1
    (folder / name).write_bytes(data)
    with pytest.raises(BadInput, match=reason):
        kb.add(Unit("Torch", id="t", images=(folder / name,)))
    assert kb.stats().counts["units"] == 1


def test_odd_pictures_are_taken_in_and_found_again(kb, tmp_path):
    base = Image.open(picture(tmp_path / "base.png", 5, (300, 200))).convert("RGB")
    second = Image.open(picture(tmp_path / "other.png", 6, (300, 200))).convert("RGB")
    turned = base.transpose(Image.Transpose.ROTATE_90)
    exif = Image.Exif()
    exif[0x0112] = 6
    kinds = {
        "animated": saved(base, format="GIF", save_all=True, append_images=[second]),
        "cmyk": saved(base.convert("CMYK"), format="JPEG"),
        "turned": saved(turned, format="JPEG", exif=exif),
        "palette": saved(base.quantize(32), format="PNG"),
    }
    for name, data in kinds.items():
        suffix = ".gif" if name == "animated" else ".png" if name == "palette" else ".jpg"
        (tmp_path / "u" / name).mkdir(parents=True)
        (tmp_path / "u" / name / f"p{suffix}").write_bytes(data)
    sixteen = Image.frombytes("I;16", (64, 64), bytes(range(128)) * 64)
    (tmp_path / "u" / "grey").mkdir()
    (tmp_path / "u" / "grey" / "p.png").write_bytes(saved(sixteen, format="PNG"))
    report = kb.ingest(tmp_path / "u")
    assert (report.units_added, report.quarantined) == (5, [])
    ids = {unit.id for unit in kb.search(image=base, k=4).units}
    assert ids == set(kinds)


def test_texts_that_are_no_text_are_left_out(kb, tmp_path):
    folder = tmp_path / "things" / "Lamp"
    folder.mkdir(parents=True)
    files = {
        "latin.txt": ("Caf\xe9 lamp".encode("latin-1"), "UTF-8"),
        "nul.txt": (b"a lamp with \0 in its text", "NUL"),
        "none.txt": (b"", "empty"),
    }
    for name, (data, _) in files.items():
        (folder / name).write_bytes(data)
    (folder / "wide.txt").write_bytes("It shines.".encode("utf-16"))
    picture(folder / "lamp.png", 1)
    report = kb.ingest(tmp_path / "things")
    reasons = {os.path.basename(q.item): q.reason for q in report.quarantined}
    assert set(reasons) == set(files)
    for name, (_, expected) in files.items():
        assert expected in reasons[name]
    assert kb.show("Lamp").to_dict()["texts"] == ["It shines."]


@pytest.mark.parametrize(
    ("part", "count"),
    [("word ", 200_000), ("x", 1_000_000), ("a. ", 60_000), ("北", 60_000)],
    ids=["a 1 MB line", "no space", "a full stop a word", "CJK without a stop"],
)
def test_long_texts_are_cut_and_kept_whole(kb, tmp_path, rounds, part, count):
    folder = tmp_path / "things" / "Lamp"
    folder.mkdir(parents=True)
    # The bound shrinks with the length; at a quarter, an ingest takes a tenth of it.
    text = part * rounds(count // 4, count)
    share = len(text) / len(part * count)
    (folder / "about.txt").write_text(text, encoding="utf-8")
    started = time.process_time()
    assert kb.ingest(tmp_path / "things").quarantined == []
    assert time.process_time() - started < 24 * share
    assert kb.show("Lamp").to_dict()["texts"] == [text]


def test_records_that_are_broken_are_named_by_their_line(kb, tmp_path):
    picture(tmp_path / "in" / "good.png", 1)
    (tmp_path / "outside.png").write_bytes((tmp_path / "in" / "good.png").read_bytes())
    lines = [
        '{"id": "a", "name": "Alpha", "images": ["good.png", "../outside.png", "/etc/passwd"]}',
        "{not json",
        '{"id": "b"}',
        '{"id": "a", "name": "Alpha again"}',
        '{"id": "c", "name": "Gamma", "relations": [{"relation": "near", "target": "nobody"}]}',
        '{"id": "d", "name": "Delta", "images": ["../../etc/passwd"], "text": "Kept."}',
        '["a list"]',
        '{"id": "e", "name": "Epsilon", "relations": [{"relation": "near", "target": ""}]}',
    ]
    path = tmp_path / "in" / "u.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    report = kb.ingest(path)
    messages = [f"{q.item}: {q.reason}" for q in report.quarantined]
    assert report.units_added == 4
    assert len(messages) == 8
    for expected in (
        "../outside.png",
        "/etc/passwd",
        "u.jsonl:2",
        "u.jsonl:3",
        "'a' stands more than once",
        "../../etc/passwd",
        "u.jsonl:7",
        "u.jsonl:8",
    ):
        assert any(expected in message for message in messages), expected
    assert kb.show("a").counts["images"] == 1
    assert kb.show("a").name == "Alpha"
    assert kb.show("d").to_dict()["texts"] == ["Kept."]
    assert kb.verify().ok


def test_a_repeated_key_of_a_large_object_is_found_soon():
    keys = [f'"key{n}": 0' for n in range(30_000)]
    started = time.process_time()
    with pytest.raises(ValueError, match="'key29999' stands more than once"):
        STRICT_JSON.decode(f"{{{', '.join([*keys, keys[-1]])}}}")
    assert time.process_time() - started < 2


def test_a_file_of_a_million_records_is_streamed(tmp_path):
    """Reading holds one record at a time: the file is 30 times larger than the memory used."""
    import tracemalloc

    from ku_rag.ingest.readers.folder import read

    path = tmp_path / "big.jsonl"
    line = json.dumps({"name": "x", "text": "y" * 10_000})
    with path.open("w", encoding="utf-8") as file:
        for number in range(3_000):
            file.write(line.replace('"x"', f'"x{number}"') + "\n")
    tracemalloc.start()
    count = sum(1 for _ in read(path))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 3_000
    assert peak < path.stat().st_size / 30


def test_a_base_that_may_only_be_read_answers_and_refuses_changes(tmp_path):
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.add(Unit("Lamp", id="lamp", texts=("The lamp comes from Peru.",)))
    with KnowledgeBase.open(tmp_path / "kb", read_only=True) as kb:
        assert kb.query(None, "Which country does the lamp come from?").answer == "Peru"
        assert kb.verify().ok
        with pytest.raises(ReadOnly, match="opened read-only"):
            kb.add(Unit("Torch", id="t"))
        assert kb.stats().counts["units"] == 1


def test_a_folder_that_cannot_be_written_to_is_read_as_it_lies(tmp_path):
    """SQLite's own view of a read-only folder, which root does not have: no log can be created."""
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.add(Unit("Lamp", id="lamp", texts=("It shines.",)))
    for folder in (tmp_path / "kb", *(tmp_path / "kb").rglob("*")):
        folder.chmod(0o555 if folder.is_dir() else 0o444)
    try:
        with KnowledgeBase.open(tmp_path / "kb", read_only=True) as kb:
            assert kb.stats().counts["units"] == 1
    finally:
        for folder in (tmp_path / "kb", *(tmp_path / "kb").rglob("*")):
            folder.chmod(0o755)


def test_a_folder_with_other_things_in_it_is_not_made_a_base(tmp_path):
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "thesis.tex").write_text("mine")
    with pytest.raises(Mismatch, match=r"holds other files \(thesis.tex"):
        KnowledgeBase.open(tmp_path / "papers", create=True)
    assert [f.name for f in (tmp_path / "papers").iterdir()] == ["thesis.tex"]


def test_an_interrupted_ingest_keeps_what_was_committed_and_goes_on(kb, tmp_path, monkeypatch):
    from ku_rag.ingest import pipeline

    monkeypatch.setattr(pipeline, "_BATCH_RECORDS", 10)
    records = [{"id": f"u{n}", "name": f"Unit {n}", "text": f"Text {n}."} for n in range(50)]
    path = write_records(tmp_path / "u.jsonl", records)

    def stop(count):
        if count == 35:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kb.ingest(path, progress=stop)
    assert kb.stats().counts["units"] == 30
    assert kb.verify().ok
    report = kb.ingest(path)
    assert (report.units_added, report.units_unchanged) == (20, 30)


def test_rows_that_were_changed_by_sql_are_found_by_verify(kb, tmp_path):
    kb.ingest(
        write_records(
            tmp_path / "u.jsonl",
            [{"id": "a", "name": "Alpha", "text": "First things."}, {"id": "b", "name": "Beta"}],
        )
    )
    with kb._database.change() as connection:
        connection.execute("UPDATE chunks SET text = 'Worst things.'")
        connection.execute("UPDATE units SET name = 'Bets' WHERE id = 'b'")
    problems = kb.verify().problems
    assert any("chunk 1 is not the text that was stored" in p for p in problems)
    assert any("unit 'b'" in p for p in problems)


def test_a_missing_picture_is_found_by_verify(kb, tmp_path):
    kb.add(Unit("Lamp", id="lamp", images=(picture(tmp_path / "p.png", 1),)))
    (stored,) = [f for f in (kb.path / "images").rglob("*") if f.is_file()]
    stored.write_bytes(b"something else")
    (problem,) = kb.verify().problems
    assert "its content has changed" in problem
    stored.unlink()
    (problem,) = kb.verify().problems
    assert "cannot be read" in problem


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda kb, _: kb.query(None, "What is this?", kcc="x"), "kcc is 'x'"),
        (lambda kb, _: kb.query(None, "What is this?", graph=1), "graph is 1"),
        (lambda kb, folder: kb.ingest(folder, progress="x"), "progress is 'x'"),
        (lambda kb, _: kb.add_many([], progress=3), "progress is 3"),
        (lambda kb, folder: kb.sync(folder, yes="no"), "yes is 'no'"),
        (lambda kb, folder: kb.sync(folder, dry_run="no"), "dry_run is 'no'"),
    ],
)
def test_switches_and_callbacks_are_checked(kb, tmp_path, call, message):
    with pytest.raises(BadInput, match=f"^{message}: expected "):
        call(kb, tmp_path)


def test_compact_removes_a_picture_file_that_a_killed_process_left_unfinished(kb, tmp_path):
    kb.add(Unit("Lamp", images=(picture(tmp_path / "lamp.png", 1),)))
    (whole,) = (file for file in (kb.path / "images").rglob("*") if file.is_file())
    (whole.with_name(f"{whole.name}.tmp")).write_bytes(whole.read_bytes()[:40])
    (kb.path / "images" / "zz").mkdir()
    kb.compact()
    assert list((kb.path / "images").rglob("*")) == [whole.parent, whole]
    assert kb.verify().ok
