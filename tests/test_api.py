"""Arguments that the Python methods refuse: one sentence each, and nothing is lost."""

from __future__ import annotations

import multiprocessing
import os

import numpy as np
import pytest
from PIL import Image

from ku_rag import KnowledgeBase, Relation, Unit
from ku_rag.errors import BadInput, Closed, Mismatch, NotFound, ReadOnly
from tests.conftest import picture


def unit_vectors(rows, dim=512):
    vectors = np.zeros((rows, dim), np.float32)
    vectors[np.arange(rows), np.arange(rows)] = 1.0
    return vectors


# ---- units ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"texts": "hello"}, r"texts is 'hello', one where .* write texts=\['hello'\]"),
        ({"aliases": "hello"}, "aliases is 'hello', one where several"),
        ({"images": "p.png"}, "images is 'p.png', one where several"),
        ({"images": (3,)}, r"images\[0\] is 3: expected a path"),
        ({"texts": ("a", None)}, r"texts\[1\] is None: expected a text"),
        ({"texts": ("a\0b",)}, r"texts\[0\] .* a NUL character"),
        ({"name": 7}, "name is 7: expected a text"),
        ({"name": "\ud800"}, "not UTF-8"),
        ({"id": 7}, "id is 7: expected a text"),
        ({"id": "a\0"}, "NUL"),
        ({"kind": ["thing"]}, "kind is a list: expected a text"),
        ({"match": 1}, "match is 1: expected True or False"),
        ({"metadata": [1]}, "metadata is a list: expected a mapping"),
        ({"metadata": {1: 2}}, "a key of metadata is 1"),
        ({"metadata": {"a": float("nan")}}, r"metadata\['a'\] is nan: expected a finite number"),
        ({"metadata": {"a": [{"b": float("inf")}]}}, "is inf"),
        ({"metadata": {"a": {1, 2}}}, "is a set: expected what JSON can hold"),
        ({"metadata": {"a": 10**5000}}, "a number of 16,610 bits"),
        ({"metadata": {"a": "\udcff"}}, "not UTF-8"),
        ({"relations": [("borders", "France")]}, r"relations\[0\] is .* expected a Relation"),
        ({"relations": Relation("borders", "France")}, "one Relation where several"),
    ],
)
def test_a_unit_is_checked_where_it_is_made(fields, message):
    with pytest.raises(BadInput, match=message):
        Unit(**({"name": "Lamp"} | fields))


def test_metadata_that_holds_itself_is_refused():
    around: list[object] = []
    around += [around, around]
    with pytest.raises(BadInput, match="nested more than 100 deep"):
        Unit("Lamp", metadata={"a": around})


@pytest.mark.parametrize("fields", [("", "b"), ("a", " "), (1, "b"), ("a", "b", "\0")])
def test_a_relation_is_checked_where_it_is_made(fields):
    with pytest.raises(BadInput):
        Relation(*fields)


def test_lists_become_tuples_and_texts_paths(tmp_path):
    photo = picture(tmp_path / "p.png", 1)
    unit = Unit("Lamp", aliases=["Light"], images=[str(photo)], texts=iter(["It shines."]))
    assert (unit.aliases, unit.images, unit.texts) == (("Light",), (photo,), ("It shines.",))


def test_a_base_adds_units_only_and_no_blank_ids(kb):
    for unit in ("Lamp", {"name": "Lamp"}, None):
        with pytest.raises(BadInput, match="expected a Unit"):
            kb.add(unit)
    with pytest.raises(BadInput, match="the id is empty"):
        kb.add(Unit("Lamp", id=" "))


# ---- update and delete ---------------------------------------------------------------------------


def test_one_id_is_no_list_of_letters(kb):
    for unit_id in ("a", "b", "ab"):
        kb.add(Unit(unit_id, id=unit_id))
    assert kb.delete("ab").to_dict()["units"] == ["ab"]
    with pytest.raises(NotFound, match="'ab'"):
        kb.delete("ab")
    assert [unit.id for unit in kb.list()] == ["a", "b"]
    for ids in (5, None, [5], {"a": 1}):
        with pytest.raises(BadInput):
            kb.delete(ids)


@pytest.mark.parametrize(
    "fields",
    [
        {"texts": "abc"},
        {"aliases": "abc"},
        {"images": "p.png"},
        {"name": 5},
        {"kind": 5},
        {"metadata": {"a": float("nan")}},
        {"metadata": []},
    ],
)
def test_update_takes_what_a_unit_takes(kb, fields):
    kb.add(Unit("Lamp", id="lamp", texts=("It shines.",)))
    before = kb.show("lamp")
    with pytest.raises(BadInput):
        kb.update("lamp", **fields)
    assert kb.show("lamp") == before


# ---- ready-made vectors --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        (unit_vectors(1), "vectors is a ndarray: expected a mapping"),
        ({"text": unit_vectors(1)}, "has 'text': expected 'texts' or 'images'"),
        ({"texts": unit_vectors(2)}, r"shape \(2, 512\), expected \(1, 512\)"),
        ({"texts": unit_vectors(1)[0]}, r"shape \(512,\)"),
        ({"texts": [["1.0"] * 512]}, "holds <U3"),
        ({"texts": [[1.0], [1.0, 2.0]]}, "is no array"),
        ({"texts": unit_vectors(1) * 2}, r"vectors\['texts'\]\[0\] has length 2: expected 1"),
        ({"texts": unit_vectors(1) * 0}, "has length 0"),
        ({"texts": unit_vectors(1) * np.nan}, "NaN or infinity"),
        ({"texts": unit_vectors(1).astype(np.float64) * 1e300}, r"has length"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow")
def test_ready_made_vectors_are_checked(kb, vectors, message):
    with pytest.raises(BadInput, match=message):
        kb.add(Unit("Lamp", id="lamp", texts=("It shines.",)), vectors=vectors)
    assert kb.stats().counts["units"] == 0


def test_ready_made_vectors_may_be_lists_or_none(kb):
    vectors = {"texts": unit_vectors(1).tolist(), "images": None}
    assert kb.add(Unit("Lamp", id="lamp", texts=("It shines.",)), vectors=vectors).chunks == 1
    assert kb.verify().ok


def test_one_picture_twice_has_no_two_vectors(kb, tmp_path):
    photo = picture(tmp_path / "p.png", 1)
    (tmp_path / "q.png").write_bytes(photo.read_bytes())
    unit = Unit("Lamp", id="lamp", images=(photo, tmp_path / "q.png"))
    with pytest.raises(BadInput, match="images 0 and 1 are the same picture"):
        kb.add(unit, vectors={"images": unit_vectors(2)})
    assert kb.add(unit).images == 1


# ---- queries -------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [0, -1, True, 2.7, "3", pytest.param(10**5000, id="huge")])
def test_k_is_a_whole_number_from_one_on(kb, k):
    with pytest.raises(BadInput, match=r"k is .*: expected a whole number from 1"):
        kb.query(None, "What is it?", k=k)
    with pytest.raises(BadInput, match=r"k is .*: expected a whole number from 1"):
        kb.search(text="lamp", k=k)


def test_a_limit_is_a_whole_number_from_zero_on(kb):
    kb.add(Unit("Lamp", id="lamp"))
    assert list(kb.list(limit=0)) == []
    for limit in (-1, True, 1.5, 10**30):
        with pytest.raises(BadInput, match="limit is"):
            kb.list(limit=limit)


@pytest.mark.parametrize("mode", ["La", "LA", "P", "PA", "RGBa", "CMYK", "HSV", "LAB", "I;16", "F"])
def test_pictures_in_memory_may_be_of_any_mode(kb, mode):
    kb.add(Unit("Lamp", id="lamp", texts=("It shines.",)))
    assert kb.query(Image.new(mode, (64, 64)), "Does the lamp shine?").units[0].id == "lamp"


@pytest.mark.parametrize("image", [Image.new("RGB", (0, 5)), np.zeros((9, 9, 3)), 5, "", "a\0"])
def test_what_is_no_picture_is_refused(kb, image):
    with pytest.raises(BadInput):
        kb.query(image, "What is it?")


def test_questions_are_texts(kb):
    for question in (None, 5, "\ud800"):
        with pytest.raises(BadInput, match="the question"):
            kb.query(None, question)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("folder.png", "is not a file"),
        ("pipe.png", "is not a file"),
        ("p.jpg", "ending in .png"),
        ("", "empty"),
    ],
)
def test_pages_go_into_files_only(kb, tmp_path, name, message):
    (tmp_path / "folder.png").mkdir()
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(BadInput, match=message):
        kb.query(None, "What is it?", passage=tmp_path / name if name else "")


def test_a_page_is_not_written_over_the_picture_that_was_asked_about(kb, tmp_path):
    photo = picture(tmp_path / "p.png", 1)
    before = photo.read_bytes()
    with pytest.raises(BadInput, match="written over the picture"):
        kb.query(photo, "What is it?", passage=photo)
    assert photo.read_bytes() == before


def test_a_report_is_written_through_a_link(kb, tmp_path):
    kb.add(Unit("Lamp", id="lamp", texts=("It shines.",)))
    (tmp_path / "real.html").write_text("old", encoding="utf-8")
    (tmp_path / "link.html").symlink_to("real.html")
    kb.query(None, "Does the lamp shine?", report=tmp_path / "link.html")
    assert (tmp_path / "link.html").is_symlink()
    assert "It shines." in (tmp_path / "real.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_only_files_are_pictures(kb, tmp_path, kind):
    os.mkfifo(tmp_path / "p.png")
    image = {"pipe": tmp_path / "p.png", "device": "/dev/zero", "folder": tmp_path}[kind]
    kb.add(Unit("Lamp", id="lamp"))
    for ask in (
        lambda: kb.query(image, "What is it?"),
        lambda: kb.search(image=image),
        lambda: kb.add(Unit("Torch", images=(image,))),
        lambda: kb.update("lamp", images=[image]),
    ):
        with pytest.raises(BadInput, match=f"is a {kind}"):
            ask()


def test_a_picture_file_has_a_largest_size(kb, tmp_path):
    with (tmp_path / "p.png").open("wb") as file:
        file.truncate((512 << 20) + 1)
    with pytest.raises(BadInput, match="536,870,913 bytes"):
        kb.search(image=tmp_path / "p.png")


# ---- opening, creating, closing ------------------------------------------------------------------


def test_a_closed_base_says_so(tmp_path):
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.add(Unit("Lamp", id="lamp"))
        kb.add(Unit("Torch", id="torch"))
    kb.close()
    for use in (
        kb.stats,
        kb.verify,
        kb.compact,
        kb.list,
        lambda: kb.show("lamp"),
        lambda: kb.add(Unit("Bell")),
        lambda: kb.update("lamp", name="x"),
        lambda: kb.delete(["lamp"]),
        lambda: kb.ingest(tmp_path),
        lambda: kb.sync(tmp_path),
        lambda: kb.query(None, "What?"),
        lambda: kb.search(text="lamp"),
    ):
        with pytest.raises(Closed, match="is closed: open it again"):
            use()


@pytest.mark.parametrize("path", ["", None, 5, "a\0b"])
def test_a_base_lies_at_a_path(path):
    with pytest.raises(BadInput, match="the knowledge base"):
        KnowledgeBase.open(path, create=True)


LONG = "x" * 300


@pytest.mark.parametrize("path", [LONG, f"{LONG}/kb", "y/" * 3_000])
def test_a_path_that_is_too_long_is_refused(kb, path):
    for use in (
        lambda: KnowledgeBase.open(path, create=True),
        lambda: kb.ingest(path),
        lambda: kb.sync(path),
        lambda: kb.export(path),
        lambda: kb.import_(path),
        lambda: kb.snapshot(path),
        lambda: kb.query(path, "What is it?"),
        lambda: kb.query(None, "What is it?", passage=path),
        lambda: kb.search(image=path),
        lambda: kb.graph.import_file(path),
        lambda: kb.graph.export(path),
        lambda: kb.graph.draw("A", path),
        lambda: kb.graph.add_entity("A", images=[path]),
        lambda: Unit("Lamp", images=[path]),
    ):
        with pytest.raises(BadInput, match="is too long"):
            use()


@pytest.mark.parametrize("name", ["encoder", "segmenter", "mllm"])
def test_a_model_is_a_name_or_an_object(tmp_path, name):
    with pytest.raises(BadInput, match=f"{name} is 5: expected a name, or an object with"):
        KnowledgeBase.open(tmp_path / "kb", create=True, **{name: 5})
    assert not (tmp_path / "kb").exists()


@pytest.mark.parametrize("encoder", [None, 5, []])
def test_a_base_is_brought_over_to_an_encoder_only(kb, encoder):
    with pytest.raises(BadInput, match=r"encoder is .*: expected a name, or an object"):
        kb.reindex(encoder)


@pytest.mark.parametrize("units", [None, 5, "Lamp", {"name": "Lamp"}, [None], [{"name": "Lamp"}]])
def test_many_units_are_a_list_of_units(kb, units):
    with pytest.raises(BadInput, match="unit"):
        kb.add_many(units)


def test_too_little_memory_is_no_broken_picture(kb, tmp_path, monkeypatch):
    photo = picture(tmp_path / "p.png", 1)

    def exhausted(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", exhausted)
    with pytest.raises(MemoryError):
        kb.query(photo, "What is it?")


def test_an_encoder_that_takes_nothing_is_given_nothing(tmp_path):
    with pytest.raises(BadInput, match="'embedded:foo' cannot be made"):
        KnowledgeBase.open(tmp_path / "kb", create=True, encoder="embedded:foo")


def test_a_base_whose_database_is_gone_is_not_begun_anew(tmp_path):
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.add(Unit("Lamp", id="lamp", images=(picture(tmp_path / "p.png", 1),)))
    for file in (tmp_path / "kb").glob("ku.sqlite*"):
        file.unlink()
    with pytest.raises(Mismatch, match=r"ku.sqlite is gone, but images/ hold"):
        KnowledgeBase.open(tmp_path / "kb", create=True)
    assert not (tmp_path / "kb" / "ku.sqlite").exists()


@pytest.mark.parametrize("database", [False, True])
def test_what_a_stopped_maker_left_is_finished(tmp_path, database):
    root = tmp_path / "kb"
    for folder in ("images", "indexes"):
        (root / folder).mkdir(parents=True)
    for file in ("ku.toml.partial", "writer.lock", *(["ku.sqlite"] if database else [])):
        (root / file).touch()
    with KnowledgeBase.open(root, create=True) as kb:
        kb.add(Unit("Lamp", id="lamp"))
        assert kb.verify().ok


def test_a_database_without_a_manifest_is_finished(tmp_path):
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb._database.connection.execute("DELETE FROM meta WHERE key != 'commits'")
        kb._database.connection.execute("DELETE FROM encoders")
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.add(Unit("Lamp", id="lamp"))
        assert kb.verify().ok


def _first_user(path, number, begin):
    begin.wait()
    with KnowledgeBase.open(path, create=True) as kb:
        kb.add(Unit(f"Unit {number}", id=str(number)))


def test_several_first_users_wait_for_each_other(tmp_path, rounds):
    context = multiprocessing.get_context("spawn")
    count = rounds(2, 3)
    begin = context.Barrier(count)
    users = [
        context.Process(target=_first_user, args=(tmp_path / "kb", n, begin)) for n in range(count)
    ]
    for user in users:
        user.start()
    for user in users:
        user.join()
    assert [user.exitcode for user in users] == [0] * count
    with KnowledgeBase.open(tmp_path / "kb") as kb:
        assert [unit.id for unit in kb.list()] == [*map(str, range(count))]


def test_a_lock_that_cannot_be_opened_makes_a_base_read_only(tmp_path):
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb._layout.lock.unlink()
        kb._layout.lock.mkdir()
        with pytest.raises(ReadOnly, match="use it read-only"):
            kb.add(Unit("Lamp"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_of_somebody_else_is_read_only(tmp_path):
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        (tmp_path / "kb").chmod(0o555)
        try:
            with pytest.raises(ReadOnly, match="use it read-only"):
                kb.add(Unit("Lamp"))
        finally:
            (tmp_path / "kb").chmod(0o755)


def test_sync_takes_a_folder(kb, tmp_path):
    (tmp_path / "u.jsonl").write_text('{"name": "Lamp"}\n', encoding="utf-8")
    with pytest.raises(BadInput, match="is a file: sync takes a folder"):
        kb.sync(tmp_path / "u.jsonl")
