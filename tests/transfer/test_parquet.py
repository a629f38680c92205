"""Export and import: the same base comes back; damage is named and left out."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ku_rag import BadInput, KnowledgeBase, Mismatch, NotFound, Relation, Unit
from ku_rag.cli import main
from ku_rag.errors import Corrupt, Refused
from ku_rag.transfer import atomic_folder
from tests.assets.schemas import Hashed, fill
from tests.conftest import lists, picture, write_records
from tests.transfer.test_salvage import damage, pages_of

ROOT = Path(__file__).parents[2]
TABLES = [
    "chunks",
    "entities",
    "extracted_facts",
    "image_words",
    "images",
    "relations",
    "showings",
    "sources",
    "table_rows",
    "text_places",
    "units",
]


class Other(Hashed):
    """Another encoder, with a smaller limit of tokens, which records the content it encodes."""

    dim, max_tokens, fingerprint = 4, 6, "tests/other:4"

    def __init__(self):
        self.encoded = []

    def encode_texts(self, texts):
        self.encoded += texts
        return super().encode_texts(texts)

    def encode_images(self, images):
        self.encoded += images
        return super().encode_images(images)

    def _vectors(self, contents):
        vectors = super()._vectors(contents)[:, :4]
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture
def base(tmp_path):
    (tmp_path / "data").mkdir()
    with KnowledgeBase.open(tmp_path / "kb", create=True, encoder=Hashed()) as kb:
        fill(kb, tmp_path / "data")
        yield kb


def opened(folder, encoder=None):
    return KnowledgeBase.open(folder, create=True, encoder=encoder or Hashed())


def tables(folder: Path) -> dict[str, list[dict]]:
    return {path.stem: pq.read_table(path).to_pylist() for path in folder.glob("*.parquet")}


def unit_details(kb: KnowledgeBase) -> dict[str, dict]:
    """All units as shown, without the path of the base and row numbers."""
    return {
        unit.id: {
            **kb.show(unit.id).to_dict(),
            "images": sorted(i.rpartition("/")[2] for i in kb.show(unit.id).images),
            "named_in": sorted(
                (n["source"], n["text"]) for n in kb.show(unit.id).to_dict()["named_in"]
            ),
            "facts": [{**f, "chunk": 0} for f in kb.show(unit.id).to_dict()["facts"]],
        }
        for unit in kb.list()
    }


def sorted_lists(kb: KnowledgeBase) -> dict[str, list[tuple[str, int]]]:
    return {unit: sorted(listed) for unit, listed in lists(kb).items()}


def query_results(kb: KnowledgeBase, question: str, image: Path | None = None) -> tuple:
    # All chunks: their rows decide which of two equally good chunks is among the first.
    answer = kb.query(image, question, k=100)
    result = kb.search(text=question, image=image, k=100).to_dict()
    return (
        answer.answer,
        [(unit.id, unit.score, unit.why) for unit in answer.units],
        # Scores depend on which of two chunks with equal texts was stored first.
        sorted(chunk.text for chunk in answer.chunks),
        [(path.entities, path.relations, path.text) for path in answer.paths],
        [(unit["id"], unit["score"]) for unit in result["units"]],
        sorted(chunk["text"] for chunk in result["chunks"]),
    )


def edit(path: Path, change) -> None:
    """Rewrite a table of an export with changed rows."""
    old = pq.read_table(path)
    pq.write_table(pa.Table.from_pylist(change(old.to_pylist()), old.schema), path)


# ---- export and import --------------------------------------------------------------------------


def test_a_base_comes_back_as_it_was(base, tmp_path):
    exported = base.export(tmp_path / "out").to_dict()
    assert exported["left_out"] == []
    assert exported["counts"]["units"] == 6
    with opened(tmp_path / "new") as kb:
        report = kb.import_(tmp_path / "out")
        assert (report.units_added, report.quarantined) == (6, [])
        assert kb.verify().problems == ()
        assert unit_details(kb) == unit_details(base)
        assert lists(kb) == lists(base)
        for question in ("When was the Green Lighthouse built?", "What stands on Heron Rock?"):
            assert query_results(kb, question) == query_results(base, question)
        rock = tmp_path / "data" / "rock.png"
        expected = query_results(base, "What is this?", rock)
        assert query_results(kb, "What is this?", rock) == expected
        again = kb.import_(tmp_path / "out")
        assert (again.units_unchanged, again.units_updated, again.chunks_added) == (6, 0, 0)
        kb.export(tmp_path / "out2")
        assert kb.ingest(tmp_path / "data" / "units.jsonl").chunks_added == 0
    assert tables(tmp_path / "out2") == tables(tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir() if "partial" in path.name] == []


NAMES = st.sampled_from(["Alpha", "Beta", "Gamma", "Delta Epsilon"])
TEXTS = st.lists(
    st.sampled_from(
        ["Alpha leads. Beta follows it.", "delta epsilon ends", "Nobody.", "", "Ünï ß"]
    ),
    max_size=2,
)
IDS = st.sampled_from(["a", "b", "c"])
STATED = st.lists(
    st.builds(
        Relation,
        st.sampled_from(["beside", "part of"]),
        st.sampled_from(["Alpha", "b", "Nowhere", "Oil"]),
        st.sampled_from([None, "substance"]),
        st.sampled_from([None, "so it is said"]),
    ),
    max_size=2,
)
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("add"), IDS, NAMES, TEXTS, st.lists(st.integers(0, 2), max_size=2), STATED
        ),
        st.tuples(st.just("join"), NAMES, TEXTS),
        st.tuples(st.just("update"), IDS, st.none() | NAMES, st.none() | TEXTS),
        st.tuples(st.just("file"), NAMES, TEXTS),
        st.tuples(st.just("delete"), IDS),
    ),
    max_size=8,
)


def follow(kb: KnowledgeBase, root: Path, steps) -> None:
    """Apply the steps; skip those whose unit does not exist."""
    for number, (verb, *how) in enumerate(steps):
        there = {unit.id for unit in kb.list()}
        match verb, *how:
            case "add", unit, name, texts, images, stated:
                photos = [root / f"{n}.png" for n in dict.fromkeys(images)]
                aliases = [f"also {name}"] if images else []
                kb.add(
                    Unit(
                        name, id=unit, texts=texts, images=photos, relations=stated, aliases=aliases
                    )
                )
            case "join", name, texts:
                kb.add(Unit(name, texts=texts))
            case "update", unit, name, texts if unit in there:
                kb.update(unit, name=name, texts=texts, kind="rule")
            case "file", name, texts:
                path = root / f"{number}.md"
                path.write_text(f"Before all, Alpha.\n\n# {name}\n\n" + "\n\n".join(texts))
                kb.ingest(path)
            case "delete", unit if unit in there:
                kb.delete(unit)


BESIDE = [Relation("beside", "b")]


@given(steps=STEPS, later=STEPS)
@example(
    steps=[
        ("add", "a", "Alpha", [], [], []),
        ("add", "b", "Alpha", [], [], BESIDE),
        ("add", "a", "Alpha", [], [], BESIDE),
    ],
    later=[],
)
def test_any_base_comes_back_and_goes_on_alike(steps, later):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for n in range(3):
            picture(root / f"{n}.png", n, (8, 8))
        with opened(root / "kb") as old, opened(root / "new") as new:
            follow(old, root, steps)
            old.export(root / "out")
            assert new.import_(root / "out").quarantined == []
            assert new.verify().problems == ()
            assert unit_details(new) == unit_details(old)
            assert sorted_lists(new) == sorted_lists(old)
            for question in ("Who leads?", "What is beside Alpha?"):
                assert query_results(new, question) == query_results(old, question)
            new.export(root / "out2")
            assert tables(root / "out2") == tables(root / "out")
            again = new.import_(root / "out")
            assert (again.units_added, again.units_updated, again.chunks_added) == (0, 0, 0)
            follow(old, root, later)
            follow(new, root, later)
            assert unit_details(new) == unit_details(old)
            assert new.verify().problems == ()


def test_a_base_of_another_encoder_encodes_anew_and_cuts_anew(base, tmp_path):
    base.export(tmp_path / "out")
    with opened(tmp_path / "other", Other()) as expected:
        expected.ingest(tmp_path / "data" / "units.jsonl")
        expected.ingest(tmp_path / "data" / "coast.md")
    encoder = Other()
    with opened(tmp_path / "new", encoder) as kb:
        report = kb.import_(tmp_path / "out")
        assert report.quarantined == []
        assert kb.verify().problems == ()
        assert {u: unit["texts"] for u, unit in unit_details(kb).items()} == {
            u: unit["texts"] for u, unit in unit_details(base).items()
        }
        assert all(
            kb.encoder.count_tokens(text) <= 6 for texts in lists(kb).values() for text, _ in texts
        )
        assert len(encoder.encoded) == len({t for t in encoder.encoded if isinstance(t, str)}) + 2
        assert kb.import_(tmp_path / "out").units_unchanged == 6


def test_the_same_encoder_encodes_nothing(base, tmp_path):
    class Counting(Hashed):
        def _vectors(self, contents):
            raise AssertionError("nothing has to be encoded")

    base.export(tmp_path / "out")
    with opened(tmp_path / "new", Counting()) as kb:
        kb.import_(tmp_path / "out")
        assert kb.verify().problems == ()


def test_what_was_tuned_is_imported_into_an_empty_base(tmp_path):
    units = [Unit(f"Item {n}", id=f"{n}", texts=(f"It is item {n}.",)) for n in range(20)]
    labels = [{"question": f"item {n}?", "units": [f"{n}"]} for n in range(20)]
    questions = write_records(tmp_path / "questions.jsonl", labels)
    tuned = {"encoder": "other", "weight": 0.5}
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.add_many(units)
        assert kb.tune_texts(questions).reciprocal_rank_before == 1.0
        kb.export(tmp_path / "export")
    manifest = json.loads((tmp_path / "export/manifest.json").read_text())
    assert (manifest["text_weight"]["weight"], manifest["confidence"]) == (0.1, None)
    encoder = manifest["text_weight"]["encoder"]
    for number, written, expected in (
        (0, {"encoder": encoder, "weight": 7.0}, 0.1),
        (1, {"encoder": encoder, "weight": 0.7}, 0.7),
        (2, {"weight": 0.7}, 0.1),
        (3, tuned, 0.1),
    ):
        copy = shutil.copytree(tmp_path / "export", tmp_path / f"export {number}")
        (copy / "manifest.json").write_text(json.dumps(manifest | {"text_weight": written}))
        with KnowledgeBase.open(tmp_path / f"kb {number}", create=True) as kb:
            kb.import_(copy)
            assert kb.tune_texts(questions).weight_before == expected
    with KnowledgeBase.open(tmp_path / "filled", create=True) as kb:
        kb.add(Unit("Else"))
        kb.import_(tmp_path / "export 1")
        assert kb.tune_texts(questions).weight_before == 0.1


def test_a_repeated_import_has_what_was_tuned(tmp_path):
    units = [Unit(f"Item {n}", id=f"{n}", texts=(f"It is item {n}.",)) for n in range(1000)]
    labels = [{"question": f"item {n}?", "units": [f"{n}"]} for n in range(20)]
    questions = write_records(tmp_path / "questions.jsonl", labels)
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.add_many(units)
        kb.tune_texts(questions)
        kb.export(tmp_path / "out")
    file = tmp_path / "out" / "manifest.json"
    manifest = json.loads(file.read_text())
    manifest["text_weight"]["weight"] = 0.7
    file.write_text(json.dumps(manifest))

    def interrupt(count):
        if count == len(units):
            raise KeyboardInterrupt

    with KnowledgeBase.open(tmp_path / "new", create=True, max_memory=64) as kb:
        with pytest.raises(KeyboardInterrupt):
            kb.import_(tmp_path / "out", progress=interrupt)
        assert 0 < kb.stats().counts["units"] < len(units)
    with KnowledgeBase.open(tmp_path / "new") as kb:
        kb.import_(tmp_path / "out")
        assert kb.stats().counts["units"] == len(units)
        assert kb.tune_texts(questions).weight_before == 0.7


def test_what_is_imported_joins_what_is_there_as_at_ingest(base, tmp_path):
    base.export(tmp_path / "out")
    with opened(tmp_path / "new") as kb:
        kb.ingest(tmp_path / "data" / "units.jsonl")
        kb.add(Unit("Rock", id="rock", texts=["The rock is old."]))
        kb.add(Unit("Else", id="else", texts=["Else is near Phoca."]))
        report = kb.import_(tmp_path / "out")
        assert report.units_added == 3
        rock = kb.show("rock").to_dict()
        assert "The rock is old." in rock["texts"]
        assert set(base.show("rock").to_dict()["texts"]) < set(rock["texts"])
        assert [mention.text for mention in kb.show("seal").named_in] == ["Else is near Phoca."]
        assert kb.verify().problems == ()


# ---- one state ----------------------------------------------------------------------------------


def test_an_export_is_one_state_while_others_write(tmp_path):
    folder = tmp_path / "kb"
    with opened(folder) as kb:
        kb.add(Unit("Pair 0", id="left0", texts=["Number 0."]))
    code = (
        "import sys\n"
        "from ku_rag import KnowledgeBase, Unit\n"
        "from tests.assets.schemas import Hashed\n"
        f"kb = KnowledgeBase.open({str(folder)!r}, encoder=Hashed())\n"
        "print('ready', flush=True)\n"
        "for n in range(10_000):\n"
        "    with kb._session.write() as pipeline, pipeline.writer.change():\n"
        "        kb.add(Unit(f'Left{n}', id=f'left{n}', texts=[f'Number {n}.']))\n"
        "        kb.add(Unit(f'Right{n}', id=f'right{n}', texts=[f'Number {n}.']))\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE)
    try:
        assert writer.stdout
        assert writer.stdout.readline() == b"ready\n"
        with KnowledgeBase.open(folder, encoder=Hashed(), read_only=True) as kb:
            for _ in range(6):
                kb.export(tmp_path / "out")
                exported = tables(tmp_path / "out")
                ids = {row["id"] for row in exported["units"]}
                assert {i for i in ids if i.startswith("right")} == {
                    i.replace("left", "right") for i in ids if i.startswith("left") if i != "left0"
                } | ({"right0"} & ids)
                assert {row["unit"] for row in exported["chunks"]} == ids
    finally:
        writer.kill()
        writer.communicate()


def test_an_export_that_is_killed_leaves_nothing_that_looks_finished(base, tmp_path):
    base.export(tmp_path / "out")
    before = tables(tmp_path / "out")
    code = (
        "import os\n"
        "from ku_rag import KnowledgeBase\n"
        "from ku_rag.transfer import parquet_export as exporting\n"
        "from tests.assets.schemas import Hashed\n"
        "whole = exporting.write_table\n"
        "def write_table(folder, table, rows, dim):\n"
        "    if table.name == 'relations': os._exit(9)\n"
        "    return whole(folder, table, rows, dim)\n"
        "exporting.write_table = write_table\n"
        f"kb = KnowledgeBase.open({str(base.path)!r}, encoder=Hashed())\n"
        "kb.delete('can')\n"
        f"kb.export({str(tmp_path / 'out')!r})\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False)
    assert ended.returncode == 9
    assert tables(tmp_path / "out") == before
    partial = list(tmp_path.glob(".out.*.partial"))
    assert len(partial) == 1
    with pytest.raises(NotFound, match="is not an export"), opened(tmp_path / "new") as kb:
        kb.import_(tmp_path / "data")
    base.export(tmp_path / "out")
    assert {row["id"] for row in tables(tmp_path / "out")["units"]} == {
        row["id"] for row in before["units"]
    } - {"can"}
    assert list(tmp_path.glob(".out.*.partial")) == []


def test_a_stop_between_two_names_loses_neither(base, tmp_path):
    base.export(tmp_path / "out")
    partial = tmp_path / ".out.0123456789ab.partial"
    partial.mkdir()
    (tmp_path / "out").rename(partial / "before")
    with atomic_folder.create(tmp_path / "out", replaces=lambda _: True, what="an export"):
        assert tables(tmp_path / "out").keys() == set(TABLES)
    assert not partial.exists()


def test_another_folder_is_never_replaced(base, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(Refused, match="is inside the knowledge base"):
        base.snapshot(base.path / "copy")
    with pytest.raises(Refused, match="holds other files"):
        base.export(tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"
    base.export(tmp_path / "out")
    (tmp_path / "out" / "thesis.txt").write_text("put here later")
    with pytest.raises(Refused, match="holds other files"):
        base.export(tmp_path / "out")
    (tmp_path / "file").write_text("")
    with pytest.raises(Refused, match="is not a folder"):
        base.export(tmp_path / "file")
    (tmp_path / "empty").mkdir()
    assert base.export(tmp_path / "empty").to_dict()["left_out"] == []


def test_a_picture_that_is_missing_or_damaged_is_named(base, tmp_path):
    rock, tower = (base.show("rock").to_dict()["images"][n] for n in (1, 0))
    os.unlink(rock)
    Path(tower).write_bytes(b"something else")
    exported = base.export(tmp_path / "out").to_dict()
    assert {item["reason"].rpartition(": ")[2] for item in exported["left_out"]} == {
        "No such file or directory",
        "its content has changed",
    }
    assert exported["pictures"] == 0
    with opened(tmp_path / "new") as kb:
        report = kb.import_(tmp_path / "out")
        assert {item.reason for item in report.quarantined} == {
            "the picture was not exported: add it to its unit again"
        }
        assert kb.stats().counts["images"] == 0
        assert kb.verify().problems == ()
        assert kb.import_(tmp_path / "out").units_unchanged == 6
        again = kb.ingest(tmp_path / "data" / "units.jsonl")
        assert again.images_added == 3
        assert kb.verify().problems == ()


def test_a_damaged_page_stops_an_export_and_names_salvage(tmp_path):
    with opened(tmp_path / "kb") as kb:
        kb.add_many([Unit(f"N{n}", id=f"n{n}", texts=[f"{n:x>200}"]) for n in range(200)])
    page = pages_of(tmp_path / "kb" / "ku.sqlite", "chunks")[1]
    damage(tmp_path / "kb", tmp_path / "damaged", page)
    with KnowledgeBase.open(tmp_path / "damaged", encoder=Hashed(), read_only=True) as kb:
        with pytest.raises(Corrupt, match=r"a page fails its checksum.*--salvage"):
            kb.export(tmp_path / "out")
        assert not (tmp_path / "out").exists()


# ---- damaged exports ----------------------------------------------------------------------------


def test_a_table_that_was_edited_is_reported_and_its_sources_count_as_changed(base, tmp_path):
    base.export(tmp_path / "out")

    def damage(rows):
        rows[0]["text"] = rows[0]["text"].replace("1871", "1971")
        rows[2]["vector"][0] += 0.5
        return rows

    edit(tmp_path / "out" / "chunks.parquet", damage)
    with opened(tmp_path / "new") as kb:
        report = kb.import_(tmp_path / "out")
        assert [item.reason for item in report.quarantined] == [
            "it is not what was exported; its sound rows were imported",
            "its vector has length 1.243, expected 1; it was encoded again",
        ]
        assert report.units_added == 6
        assert "1971" in kb.show("lighthouse").to_dict()["texts"][0]
        assert kb.verify().problems == ()
        assert kb.import_(tmp_path / "out").units_unchanged == 6
        kb.ingest(tmp_path / "data" / "units.jsonl")
        assert "1871" in kb.show("lighthouse").to_dict()["texts"][0]


@pytest.mark.parametrize("table", TABLES)
def test_a_flipped_bit_anywhere_is_noticed(table, base, tmp_path):
    base.export(tmp_path / "out")
    path = tmp_path / "out" / f"{table}.parquet"
    data = path.read_bytes()
    rng = np.random.default_rng(3)
    for at in rng.integers(0, len(data), 12):
        flipped = bytearray(data)
        flipped[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(flipped)
        with opened(tmp_path / f"kb{at}") as kb:
            try:
                noticed = kb.import_(tmp_path / "out").quarantined != []
            except BadInput:  # the file cannot even be parsed
                noticed = True
            assert noticed
            assert kb.verify().problems == ()
        shutil.rmtree(tmp_path / f"kb{at}")


@pytest.mark.parametrize(
    "file", ["../secret.png", "/etc/hostname", "images/../../secret.png", "a\\b"]
)
def test_a_path_does_not_leave_the_export(file, base, tmp_path):
    secret = picture(tmp_path / "secret.png", 9)
    digest = atomic_folder.copy_file(secret, tmp_path / "copy.png")
    base.export(tmp_path / "out")
    rows = [{"hash": digest, "file": file}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "out" / "images.parquet")
    shows = [{"unit": "can", "image": digest}]
    pq.write_table(pa.Table.from_pylist(shows), tmp_path / "out" / "showings.parquet")
    (tmp_path / "out" / "manifest.json").unlink()
    with opened(tmp_path / "new") as kb:
        report = kb.import_(tmp_path / "out")
        assert [item.item for item in report.quarantined] == [f"images: {digest}"]
        assert kb.stats().counts["images"] == 0


def test_a_link_does_not_lead_out_of_the_export(base, tmp_path):
    base.export(tmp_path / "out")
    for path in (tmp_path / "out" / "images").glob("*/*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
        path.unlink()
        path.symlink_to(tmp_path / path.name)
    with opened(tmp_path / "new") as kb:
        reasons = {item.reason for item in kb.import_(tmp_path / "out").quarantined}
        assert len(reasons) == 2
        assert all("leads out of" in reason for reason in reasons)


def test_strange_values_are_left_out(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    units = [
        {"id": "a", "name": "Alpha", "metadata": '{"n": NaN}'},
        {"id": "", "name": "Blank", "metadata": None},
        {"id": "c", "name": "Gamma", "metadata": '{"n": 1}'},
        {"id": "d", "name": None, "metadata": None},
        {"id": "e", "name": "E\0", "metadata": None},
    ]
    pq.write_table(pa.Table.from_pylist(units), out / "units.parquet")
    chunks = [{"unit": "c", "text": "Gamma is last."}, {"unit": "z", "text": "Nobody's."}]
    pq.write_table(pa.Table.from_pylist(chunks), out / "chunks.parquet")
    with opened(tmp_path / "new") as kb:
        report = kb.import_(out)
        assert [item.item for item in report.quarantined] == [
            "units: a",
            "units: ",
            "units: d",
            "units: e",
            "chunks: z",
        ]
        assert [(unit.id, unit.metadata) for unit in kb.list()] == [("c", {"n": 1})]


# ---- exports of other programs ------------------------------------------------------------------


def test_units_and_chunks_alone_are_enough(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    rows = [{"id": "a", "name": "Alpha"}, {"id": "b", "name": "Beta"}]
    pq.write_table(pa.Table.from_pylist(rows), out / "units.parquet")
    rows = [
        {"unit": "b", "text": "Beta has a first text."},
        {
            "unit": "a",
            "text": "Alpha has a text that is longer than what the encoder takes at once.",
        },
        {"unit": "b", "text": "Beta has a second one, which names Alpha."},
    ]
    pq.write_table(pa.Table.from_pylist(rows), out / "chunks.parquet")
    with opened(tmp_path / "new") as kb:
        report = kb.import_(out)
        assert (report.units_added, report.quarantined) == (2, [])
        assert kb.show("a").to_dict()["texts"] == [rows[1]["text"]]
        assert kb.show("a").counts["chunks"] == 2
        assert kb.show("b").to_dict()["texts"] == [rows[0]["text"], rows[2]["text"]]
        assert [mention.text for mention in kb.show("a").named_in] == [rows[2]["text"]]
        assert kb.verify().problems == ()
        assert kb.import_(out).units_unchanged == 2


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()])
@pytest.mark.parametrize("fixed", [True, False])
def test_vectors_of_others_are_taken_as_they_are(kind, fixed, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    units = pa.table({"id": ["a"], "name": ["Alpha"]})
    pq.write_table(units, out / "units.parquet")
    vectors = np.eye(8, dtype=np.float32)[[2, 5]]
    column = pa.array([list(v) for v in vectors], pa.list_(pa.float32()))
    column = column.cast(pa.list_(kind, 8) if fixed else pa.list_(kind))
    chunks = pa.table({"unit": ["a", "a"], "text": ["one " * 40, "two"], "vector": column})
    pq.write_table(chunks, out / "chunks.parquet")
    with opened(tmp_path / "new") as kb:
        assert kb.import_(out).quarantined == []
        stored = kb._database.connection.execute("SELECT vector FROM vectors ORDER BY item")
        assert [np.frombuffer(blob, "<f2").argmax() for (blob,) in stored] == [2, 5]
        assert kb.verify().problems == ()
    with opened(tmp_path / "other", Other()) as kb:
        with pytest.raises(BadInput, match=r"vectors of 8 numbers .* makes 4"):
            kb.import_(out)
        assert kb.stats().counts["units"] == 0


def test_what_is_no_export_is_said(base, tmp_path):
    with opened(tmp_path / "new") as kb:
        with pytest.raises(NotFound, match="is not an export"):
            kb.import_(tmp_path / "data")
        base.export(tmp_path / "out")
        manifest = tmp_path / "out" / "manifest.json"
        content = json.loads(manifest.read_text())
        manifest.write_text(json.dumps(content | {"format": 99}))
        with pytest.raises(Mismatch, match="format 99"):
            kb.import_(tmp_path / "out")
        manifest.write_text("{")
        with pytest.raises(BadInput, match="cannot be read"):
            kb.import_(tmp_path / "out")
        manifest.unlink()
        (tmp_path / "out" / "units.parquet").write_bytes(b"PAR1 is not enough PAR1")
        with pytest.raises(BadInput, match="cannot be read"):
            kb.import_(tmp_path / "out")


def foreign(out: Path, **rows: list[dict]) -> Path:
    out.mkdir(exist_ok=True)
    for table, listed in rows.items():
        pq.write_table(pa.Table.from_pylist(listed), out / f"{table}.parquet")
    return out


def test_what_stands_twice_is_left_out_and_named(tmp_path):
    rock = picture(tmp_path / "out" / "rock.png", 1)
    digest = atomic_folder.copy_file(rock, tmp_path / "copy.png")
    out = foreign(
        tmp_path / "out",
        units=[{"id": "a", "name": "Alpha"}, {"id": "a", "name": "Again"}],
        sources=[{"uri": "s", "unit": "a"}, {"uri": "s", "unit": "b"}],
        images=[{"hash": digest, "file": "rock.png"}, {"hash": digest, "file": "other.png"}],
        showings=[
            {"unit": "a", "source": "s", "image": digest},
            {"unit": "z", "source": None, "image": digest},
            {"unit": None, "source": None, "image": digest},
        ],
        relations=[{"unit": "a", "relation": " ", "target": "b"}],
    )
    with opened(tmp_path / "new") as kb:
        report = kb.import_(out)
        assert sorted(item.item for item in report.quarantined) == [
            f"images: {digest}",
            "relations: a",
            "showings: a row",
            "showings: z",
            "sources: s",
            "units: a",
        ]
        assert [(unit.id, unit.name) for unit in kb.list()] == [("a", "Alpha")]
        assert kb.stats().counts["images"] == 1
        assert kb.verify().problems == ()


def test_names_of_others_are_checked_as_everywhere(tmp_path):
    units = [{"id": "a", "name": "x" * 3_000_000, "metadata": None}]
    units += [{"id": "b", "name": "\u200b\u200d", "metadata": None}]
    units += [{"id": "c", "name": "Gamma", "metadata": '{"k": 1, "k": 2}'}]
    units += [{"id": "d", "name": "Delta", "metadata": "[" * 100_000}]
    units += [{"id": "e", "name": "Epsilon", "metadata": "{}"}]
    with opened(tmp_path / "new") as kb:
        report = kb.import_(foreign(tmp_path / "out", units=units))
        assert [item.item for item in report.quarantined] == [f"units: {n}" for n in "abcd"]
        assert [unit.id for unit in kb.list()] == ["e"]


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"format": 1, "sha256": ' + "[" * 100_000,
        "[]",
        '{"format": 1}',
        '{"format": "1", "sha256": {}}',
        '{"format": 1, "sha256": []}',
        '{"format": 1, "sha256": {"units.parquet": 5}}',
        '{"format": 1, "sha256": {}, "encoder": 5}',
        '{"format": 1, "sha256": {}, "encoder": {"sides": []}}',
        '{"format": 1, "sha256": {}, "encoder": {"sides": {"chunk": null}}}',
        '{"format": 1, "sha256": {}, "max_tokens": "many"}',
        '{"format": 1, "sha256": {}, "segmenter": [1]}',
        '{"format": 1, "format": 1, "sha256": {}}',
    ],
)
def test_a_damaged_manifest_is_one_sentence(text, tmp_path, monkeypatch, capsys):
    out = foreign(tmp_path / "out", units=[{"id": "a", "name": "Alpha"}])
    (out / "manifest.json").write_text(text)
    with opened(tmp_path / "new") as kb, pytest.raises(BadInput, match="cannot be read"):
        kb.import_(out)


def test_an_import_writes_damaged_pictures_again(base, tmp_path):
    base.export(tmp_path / "out")
    (stored, *_) = (Path(image) for image in base.show("rock").images)
    stored.unlink()
    assert base.import_(tmp_path / "out").units_unchanged == 6
    assert base.verify().problems == ()


# ---- the commands ------------------------------------------------------------------------------


def ku(monkeypatch, capsys, *arguments: object) -> tuple[int, dict]:
    monkeypatch.setattr("sys.argv", ["ku", *map(str, arguments), "--json"])
    with pytest.raises(SystemExit) as ended:
        main()
    out = capsys.readouterr().out
    return int(ended.value.code or 0), json.loads(out) if out else {}


def test_the_commands_move_a_base(tmp_path, monkeypatch, capsys):
    write_records(
        tmp_path / "u.jsonl",
        [
            {
                "id": "a",
                "name": "Alpha",
                "text": "Alpha leads.",
                "images": [picture(tmp_path / "a.png", 1).name],
            }
        ],
    )
    old, new, out = tmp_path / "old", tmp_path / "new", tmp_path / "out"
    assert ku(monkeypatch, capsys, "ingest", tmp_path / "u.jsonl", "--kb", old)[0] == 0
    code, exported = ku(monkeypatch, capsys, "export", out, "--kb", old)
    assert (code, set(exported)) == (0, {"counts", "pictures", "left_out", "seconds", "salvaged"})
    code, report = ku(monkeypatch, capsys, "import", out, "--kb", new)
    assert (code, report["units_added"], report["quarantined"]) == (0, 1, [])
    with KnowledgeBase.open(old) as first, KnowledgeBase.open(new) as second:
        assert first.encoder.fingerprint == second.encoder.fingerprint
        assert first.settings.max_tokens == second.settings.max_tokens
        assert unit_details(first) == unit_details(second)
    for path in (out / "images").glob("*/*"):
        path.unlink()
    code, report = ku(monkeypatch, capsys, "import", out, "--kb", tmp_path / "third")
    assert code == 3
    assert len(report["quarantined"]) == 1
    assert ku(monkeypatch, capsys, "import", tmp_path / "nowhere", "--kb", new)[0] == 1
    assert ku(monkeypatch, capsys, "export", tmp_path, "--kb", old)[0] == 1


def test_a_base_of_an_encoder_object_needs_a_name_to_become_a_new_one(
    base, tmp_path, monkeypatch, capsys
):
    base.export(tmp_path / "out")
    assert ku(monkeypatch, capsys, "import", tmp_path / "out", "--kb", tmp_path / "new")[0] == 4
    assert not (tmp_path / "new").exists()
    arguments = ("import", tmp_path / "out", "--kb", tmp_path / "new", "--encoder", "embedded")
    code, report = ku(monkeypatch, capsys, *arguments)
    assert (code, report["units_added"]) == (0, 6)


def test_relations_of_a_changed_source_keep_their_place(tmp_path):
    shown_file = picture(tmp_path / "p.png", 1)
    with opened(tmp_path / "old") as old, opened(tmp_path / "new") as new:
        old.add(Unit("Alpha", id="a"))
        noted = Relation("beside", "Beta", None, "so it is said")
        old.add(Unit("Alpha", id="a", images=(shown_file,), relations=(noted,)))
        old.add(Unit("Alpha", id="a", relations=(Relation("beside", "Beta"),)))
        old.export(tmp_path / "out")
        new.import_(tmp_path / "out")
        paths = [[path.text for path in kb.graph.paths("Alpha", "Beta")] for kb in (old, new)]
        assert paths[0] == paths[1]
        assert len(paths[0]) == 2


def test_a_relation_to_a_renamed_unit_means_it_after_an_import(tmp_path):
    with opened(tmp_path / "kb") as old, opened(tmp_path / "new") as new:
        old.add(Unit("Beta", id="a", relations=(Relation("beside", "Alpha"),)))
        old.add(Unit("Alpha", id="b"))
        old.update("b", name="Gamma")
        old.export(tmp_path / "out")
        new.import_(tmp_path / "out")
        assert [fact.value for fact in new.facts("a") if fact.label == "beside"] == ["Gamma"]
        assert unit_details(new) == unit_details(old)
        assert not new.verify().problems
