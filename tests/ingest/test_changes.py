"""Add, update, delete, sync: the changes, the content that stays, and the reports."""

from __future__ import annotations

import shutil

import pytest

from ku_rag import KnowledgeBase, NotFound, Relation, Unit
from ku_rag.errors import BadInput, Refused
from tests.conftest import everywhere, lists, picture, write_records


def counts(kb):
    return kb.stats().counts


def folder_of(tmp_path, **texts):
    folder = tmp_path / "things"
    for number, (name, text) in enumerate(texts.items()):
        picture(folder / name / "photo.png", number)
        (folder / name / "about.txt").write_text(text, encoding="utf-8")
    return folder


def test_ingesting_a_folder_twice_adds_nothing_the_second_time(kb, tmp_path):
    folder = folder_of(tmp_path, Lamp="A lamp gives light.", Chair="A chair stands under the Lamp.")
    first = kb.ingest(folder)
    assert (first.units_added, first.chunks_added, first.images_added) == (2, 2, 2)
    before = counts(kb)
    second = kb.ingest(folder).to_dict()
    del second["seconds"]
    assert second == {
        "units_added": 0,
        "units_updated": 0,
        "units_unchanged": 2,
        "chunks_added": 0,
        "images_added": 0,
        "relations_added": 0,
        "quarantined": [],
    }
    assert counts(kb) == before
    assert kb.verify().ok


def test_a_changed_file_replaces_its_own_content_only(kb, tmp_path):
    folder = folder_of(tmp_path, Lamp="A lamp gives light.")
    (folder / "Lamp" / "more.txt").write_text("It hangs.", encoding="utf-8")
    kb.ingest(folder)
    (folder / "Lamp" / "about.txt").write_text("A lamp gives warm light.", encoding="utf-8")
    report = kb.ingest(folder)
    assert (report.units_updated, report.chunks_added, report.images_added) == (1, 1, 0)
    assert kb.show("Lamp").to_dict()["texts"] == ["A lamp gives warm light.", "It hangs."]


def test_a_metadata_change_alone_lands(kb, tmp_path):
    record = {"id": "lamp", "name": "Lamp", "text": "Light.", "metadata": {"year": 1920}}
    path = write_records(tmp_path / "units.jsonl", [record])
    kb.ingest(path)
    write_records(path, [{**record, "metadata": {"year": 1921}}])
    report = kb.ingest(path)
    assert (report.units_updated, report.chunks_added) == (1, 0)
    assert kb.show("lamp").metadata == {"year": 1921}


def test_two_sources_of_one_unit_add_up(kb, tmp_path):
    kb.ingest(write_records(tmp_path / "a.jsonl", [{"id": "x", "name": "Ex", "text": "One."}]))
    kb.ingest(write_records(tmp_path / "b.jsonl", [{"id": "x", "name": "Iks", "text": "Two."}]))
    unit = kb.show("x").to_dict()
    assert (unit["name"], unit["aliases"], unit["texts"]) == ("Ex", ["Iks"], ["One.", "Two."])


def test_deleting_a_unit_leaves_no_trace_of_it(kb, tmp_path):
    records = [
        {
            "id": "zyxw-1",
            "name": "Quibbleton",
            "text": "The xylotome of Quibbleton cuts wood.",
            "images": ["q.png"],
            "relations": [{"relation": "cuts", "target": "wood"}],
        },
        {"id": "wood", "name": "Wood", "text": "Wood is cut. Quibbleton cuts it."},
        {
            "id": "saw",
            "name": "Saw",
            "text": "A saw.",
            "relations": [{"relation": "rival of", "target": "zyxw-1"}],
        },
    ]
    picture(tmp_path / "q.png", 1)
    kb.ingest(write_records(tmp_path / "u.jsonl", records))
    deleted = kb.delete(["zyxw-1"]).to_dict()
    assert deleted["units"] == ["zyxw-1"]
    assert (len(deleted["chunks"]), len(deleted["images"]), len(deleted["relations"])) == (1, 1, 2)
    traces = ("zyxw-1", "xylotome")
    tables = {table for table, text in everywhere(kb) for trace in traces if trace in text}
    # The keyword index keeps deleted words in its own segments until compaction.
    assert tables <= {"words_data"}
    assert kb.verify().to_dict() == {"ok": True, "problems": [], "counts": counts(kb)}
    assert counts(kb) == {
        "units": 2, "chunks": 2, "images": 0, "sources": 2, "entities": 0, "relations": 0,
    }  # fmt: skip
    kb.compact()
    kb.close()
    for file in kb.path.rglob("*"):
        assert not file.is_file() or b"xylotome" not in file.read_bytes()
    assert not [f for f in (kb.path / "images").rglob("*") if f.is_file()]


def test_deleting_takes_an_owned_chunk_out_of_other_units_lists(kb, tmp_path):
    records = [
        {"id": "a", "name": "Alpha", "text": "Alpha leads Beta."},
        {"id": "b", "name": "Beta", "text": "Beta follows."},
    ]
    kb.ingest(write_records(tmp_path / "u.jsonl", records))
    assert lists(kb)["b"] == [("Alpha leads Beta.", 0), ("Beta follows.", 1)]
    kb.delete(["a"])
    assert lists(kb) == {"b": [("Beta follows.", 1)]}


def test_shared_text_goes_when_the_last_unit_that_lists_it_goes(kb, tmp_path):
    file = tmp_path / "notes.md"
    file.write_text("Alpha and Beta meet.\n\n# Alpha\nOne.\n\n# Beta\nTwo.\n", encoding="utf-8")
    kb.ingest(file)
    assert counts(kb)["chunks"] == 3
    kb.delete(["alpha" if "alpha" in {u.id for u in kb.list()} else "Alpha"])
    assert counts(kb)["chunks"] == 2
    (remaining,) = [u.id for u in kb.list()]
    kb.delete([remaining])
    assert counts(kb) == dict.fromkeys(counts(kb), 0)


def test_deleting_what_is_not_there_deletes_nothing(kb):
    kb.add(Unit("Lamp", id="lamp", texts=("Light.",)))
    with pytest.raises(NotFound, match="no unit or source 'chair'"):
        kb.delete(["lamp", "chair"])
    assert counts(kb)["units"] == 1


def test_adding_the_same_twice_changes_nothing(kb):
    unit = Unit("Lamp", id="lamp", texts=("Light.",))
    assert kb.add(unit).to_dict() == {
        "id": "lamp",
        "action": "added",
        "matched": None,
        "chunks": 1,
        "images": 0,
        "why": "a record with an id of its own never joins",
    }
    assert kb.add(unit).chunks == 0
    assert counts(kb)["chunks"] == 1


def test_units_of_many_batches_are_linked_and_one_that_comes_again_is_added_once(kb):
    """Names are found in texts of earlier and later batches, in any script."""
    count = 2_100
    again = Unit("Station 5", id="5", texts=("The next stop is station 1500.",))
    units = [
        Unit(f"Station {n}", id=f"{n}", texts=(f"Change at stations {n}, Station {count - n}.",))
        for n in range(count)
    ]
    units[10] = Unit("東京 Houses", id="10", texts=("Near station 2090.",))
    units[2090] = Unit("Last", id="2090", texts=("Far from 東京 houses and station 11.",))
    report = kb.add_many([again, *units, again])
    assert (report.units_added, report.chunks_added) == (count, count + 1)
    assert kb.verify().problems == ()
    mentions = {n: len(kb.show(n).named_in) for n in ("5", "1500", "10", "11")}
    assert mentions == {"5": 1, "1500": 2, "10": 1, "11": 2}


def test_a_name_joins_the_unit_that_bears_it_and_deleting_the_source_undoes_it(kb):
    kb.add(Unit("Lamp", id="lamp", aliases=("Light",), texts=("It shines.",)))
    joined = kb.add(Unit("light", texts=("It is bright.",)))
    assert (joined.id, joined.action, joined.matched) == ("lamp", "joined", ("lamp", 1.0))
    unit = kb.show("lamp").to_dict()
    assert unit["texts"] == ["It shines.", "It is bright."]
    (source,) = [s["uri"] for s in unit["sources"] if s["origin"] == "join"]
    kb.delete([source])
    assert kb.show("lamp").to_dict()["texts"] == ["It shines."]


def test_a_picture_joins_the_unit_whose_picture_it_is(kb, tmp_path):
    photo = picture(tmp_path / "a.png", 7)
    kb.add(Unit("Lamp", id="lamp", images=(photo,)))
    joined = kb.add(Unit("Thing of brass", images=(picture(tmp_path / "b.png", 7, (192, 128)),)))
    assert (joined.id, joined.action) == ("lamp", "joined")
    assert "picture has cosine" in joined.why
    assert kb.show("lamp").to_dict()["aliases"] == ["Thing of brass"]
    chair = kb.add(Unit("Chair", images=(picture(tmp_path / "c.png", 8),)))
    assert (chair.id, chair.action, chair.matched) == ("chair", "added", None)
    assert "joining needs" in chair.why


def test_an_explicit_id_never_joins(kb):
    kb.add(Unit("Lamp", id="one", texts=("It shines.",)))
    assert kb.add(Unit("Lamp", id="two", texts=("It shines.",))).action == "added"
    assert counts(kb)["units"] == 2


def test_update_replaces_what_is_named_and_keeps_the_rest(kb, tmp_path):
    folder = folder_of(tmp_path, Lamp="A lamp gives light.", Chair="The Lamp stands by the Torch.")
    kb.ingest(folder)
    assert lists(kb)["Lamp"] == [("A lamp gives light.", 1), ("The Lamp stands by the Torch.", 0)]
    kb.update("Lamp", name="Torch", texts=["It burns."], metadata={"old": True})
    unit = kb.show("Lamp").to_dict()
    assert (unit["name"], unit["aliases"], unit["texts"]) == ("Torch", [], ["It burns."])
    assert unit["metadata"] == {"old": True}
    assert unit["counts"]["images"] == 1
    assert lists(kb)["Lamp"] == [("It burns.", 1), ("The Lamp stands by the Torch.", 0)]
    assert kb.ingest(folder).units_unchanged == 2
    assert kb.show("Lamp").to_dict()["texts"] == ["It burns."]
    kb.update("Lamp", images=[])
    assert kb.show("Lamp").counts["images"] == 0
    assert kb.show("Lamp").to_dict()["texts"] == ["It burns."]
    assert kb.verify().ok


def test_updating_a_unit_that_is_not_there_or_without_a_name_fails(kb):
    with pytest.raises(NotFound, match="no unit 'x'"):
        kb.update("x", name="X")
    kb.add(Unit("Lamp", id="lamp"))
    with pytest.raises(BadInput, match="the name is empty"):
        kb.update("lamp", name=" ")


def test_sync_adds_replaces_and_deletes_below_its_folder_only(kb, tmp_path):
    folder = folder_of(tmp_path, Lamp="Light.", Chair="Wood.", Table="Oak.")
    kb.ingest(folder)
    kb.add(Unit("Bell", id="bell", texts=("It rings.",)))
    shutil.rmtree(folder / "Chair")
    (folder / "Table" / "about.txt").write_text("Pine.", encoding="utf-8")
    picture(folder / "Stool" / "photo.png", 9)
    planned = kb.sync(folder, dry_run=True)
    assert counts(kb)["units"] == 4
    actual = kb.sync(folder)
    for report in (planned, actual):
        assert (report.units_added, report.units_updated, report.units_deleted) == (1, 1, ["Chair"])
    assert [u.id for u in kb.list()] == ["Lamp", "Stool", "Table", "bell"]
    assert kb.show("Table").to_dict()["texts"] == ["Pine."]
    assert kb.verify().ok


def test_sync_keeps_what_is_broken_on_disk(kb, tmp_path):
    folder = folder_of(tmp_path, Lamp="Light.", Chair="Wood.")
    kb.ingest(folder)
    (folder / "Lamp" / "photo.png").write_bytes(b"")
    report = kb.sync(folder)
    assert [q.item for q in report.quarantined] == [str(folder / "Lamp" / "photo.png")]
    assert report.units_deleted == []
    assert kb.show("Lamp").counts["images"] == 1


def test_sync_keeps_what_is_broken_whatever_its_name_ends_in(kb, tmp_path):
    folder = folder_of(tmp_path, **{"Genesis 1:2": "Void.", "Chair": "Wood.", "Lamp": "Light."})
    file = folder / "Genesis 1:2" / "verse:3.txt"
    file.write_text("Let there be light.", encoding="utf-8")
    (folder / "Chair").rename(folder / "Chair:1")
    kb.ingest(folder)
    file.write_bytes(b"\0")
    shutil.rmtree(folder / "Chair:1")
    (folder / "Chair:1").symlink_to("nowhere")
    report = kb.sync(folder)
    assert [q.item for q in report.quarantined] == [str(folder / "Chair:1"), str(file)]
    assert report.units_deleted == []
    assert kb.show("Genesis 1:2").to_dict()["texts"] == ["Void.", "Let there be light."]


def test_a_knowledge_base_below_the_folder_is_passed_over(tmp_path):
    folder = folder_of(tmp_path, Lamp="Light.")
    with KnowledgeBase.open(folder / "deep" / "kb", create=True) as kb:
        kb.ingest(folder)
        again = kb.ingest(folder)
        assert (again.units_added, again.units_unchanged, again.quarantined) == (0, 1, [])
        assert [unit.id for unit in kb.list()] == ["Lamp"]
        with pytest.raises(BadInput, match="is a knowledge base itself"):
            kb.ingest(kb.path)


def pictured(tmp_path):
    photos = [picture(tmp_path / name, seed) for seed, name in enumerate(["o.png", "p.png"])]
    record = {"id": "lamp", "name": "Lamp", "text": "Light.", "images": ["o.png", "p.png"]}
    path = write_records(tmp_path / "u.jsonl", [record])
    return path, record, photos


@pytest.mark.parametrize("damage", ["empty", "cut", "missing"])
def test_a_stored_picture_stays_while_its_file_is_broken(kb, tmp_path, damage):
    path, record, (_, broken) = pictured(tmp_path)
    kb.ingest(path)
    whole = broken.read_bytes()
    if damage == "missing":
        broken.unlink()
    else:
        broken.write_bytes(whole[: 0 if damage == "empty" else -40])
    write_records(path, [{**record, "text": "Warm light."}])
    for _ in range(2):
        report = kb.ingest(path)
        assert len(report.quarantined) == 1
    assert report.units_unchanged == 1
    unit = kb.show("lamp").to_dict()
    assert (unit["texts"], unit["counts"]["images"]) == (["Warm light."], 2)
    assert kb.verify().problems == ()
    broken.write_bytes(whole)
    kb.ingest(path)
    assert kb.show("lamp").counts["images"] == 2
    broken.unlink()
    kb.ingest(path)
    write_records(path, [{**record, "images": ["o.png"]}])
    assert kb.ingest(path).quarantined == []
    assert kb.show("lamp").counts["images"] == 1


def test_a_picture_of_a_document_stays_while_its_file_is_missing(kb, tmp_path):
    photo = picture(tmp_path / "p.png", 1)
    file = tmp_path / "notes.md"
    file.write_text("# Lamp\nLight.\n![](p.png)\n\n# Chair\nWood.\n", encoding="utf-8")
    kb.ingest(file)
    photo.unlink()
    assert [q.item for q in kb.ingest(file).quarantined] == [f"{file}:3"]
    assert kb.show("Lamp").counts["images"] == 1


@pytest.mark.parametrize("state", ["absent", "empty", "most of it gone"])
def test_sync_refuses_to_delete_too_much_without_yes(kb, tmp_path, state):
    folder = folder_of(tmp_path, Lamp="Light.", Chair="Wood.", Table="Oak.")
    kb.ingest(folder)
    before = counts(kb)
    for name in ("Lamp", "Chair", "Table")[: 2 if state == "most of it gone" else 3]:
        shutil.rmtree(folder / name)
    if state == "absent":
        folder.rmdir()
    with pytest.raises(Refused, match="--yes"):
        kb.sync(folder)
    assert counts(kb) == before
    kb.sync(folder, yes=True)
    assert counts(kb)["units"] == (1 if state == "most of it gone" else 0)


def test_a_target_that_no_unit_describes_is_an_entity(kb, tmp_path):
    stated = [{"relation": "near", "target": "Chair"}]
    first = kb.ingest(
        write_records(tmp_path / "a.jsonl", [{"id": "l", "name": "Lamp", "relations": stated}])
    )
    assert (first.relations_added, first.quarantined) == (1, [])

    def tail():
        (step,) = kb.graph.show("l").out
        return step.tail.unit, step.tail.name, step.tail.kind

    undescribed = (None, "Chair", "entity")
    assert tail() == undescribed
    kb.add(Unit("Chair", id="c", kind="seat"))
    assert tail() == ("c", "Chair", "seat")
    kb.update("c", name="Stool")
    assert tail() == ("c", "Stool", "seat")
    kb.update("c", name="Chair")
    kb.ingest(write_records(tmp_path / "b.jsonl", [{"name": "Armchair", "aliases": ["chair"]}]))
    assert tail() == ("c", "Chair", "seat")
    kb.delete(["c"])
    assert (counts(kb)["relations"], counts(kb)["entities"]) == (0, 0)
    kb.ingest(tmp_path / "a.jsonl")
    assert tail() == ("Armchair", "Armchair", "entity")
    assert kb.verify().problems == ()


def test_a_name_that_several_bear_is_no_target_unless_one_is_spelt_so(kb):
    kb.add(Unit("Earth", id="earth", relations=(Relation("circles", "sun"),)))
    kb.add(Unit("Moon", id="moon", relations=(Relation("mirrors", "Sun"),)))

    def ends():
        rows = kb._database.connection.execute(
            "SELECT r.target, e.name, u.id FROM relations r LEFT JOIN entities e ON e.row = r.tail "
            "LEFT JOIN units u ON u.row = e.unit ORDER BY r.row"
        )
        assert kb.verify().problems == ()
        return [(target, unit) for target, _, unit in rows]

    kb.add(Unit("Sun", id="star"))
    assert ends() == [("sun", "star"), ("Sun", "star")]
    kb.add(Unit("SUN", id="paper"))
    assert ends() == [("sun", None), ("Sun", "star")]
    kb.add(Unit("Sun", id="film"))
    assert ends() == [("sun", None), ("Sun", None)]
    kb.add(Unit("Star", id="sun"))
    assert ends() == [("sun", "sun"), ("Sun", None)]
    kb.delete(["film"])
    kb.delete(["sun"])
    assert ends() == [("Sun", "star")]


def test_a_relation_deleted_with_its_target_comes_back_with_the_next_ingest(kb, tmp_path):
    stated = [{"relation": "near", "target": "q"}, {"relation": "is", "target": "p"}]
    records = [{"id": "p", "name": "P1", "text": "One.", "relations": stated}]
    path = write_records(tmp_path / "u.jsonl", [*records, {"id": "q", "name": "Q1"}])
    kb.ingest(path)
    kb.delete(["q"])
    assert [r.target for r in kb.show("p").relations] == ["p"]
    assert kb.verify().problems == ()
    assert [value for _, value in everywhere(kb) if value in ("q", "Q1", "q1")] == []
    report = kb.ingest(path)
    assert (report.units_added, report.units_updated, report.chunks_added) == (1, 1, 0)
    assert [r.target for r in kb.show("p").relations] == ["q", "p"]
    assert kb.ingest(path).units_unchanged == 2


def test_what_an_update_replaced_stays_replaced_when_other_parts_of_its_source_change(kb, tmp_path):
    path, record, _ = pictured(tmp_path)
    kb.ingest(path)
    kb.update("lamp", texts=["It burns."], images=[])
    write_records(path, [{**record, "metadata": {"year": 1921}}])
    assert kb.ingest(path).units_updated == 1
    unit = kb.show("lamp").to_dict()
    assert (unit["texts"], unit["images"], unit["metadata"]) == (["It burns."], [], {"year": 1921})
    write_records(path, [{**record, "text": "Warm light."}])
    kb.ingest(path)
    unit = kb.show("lamp").to_dict()
    assert (unit["texts"], unit["images"]) == (["Warm light.", "It burns."], [])


def test_an_id_that_is_blank_is_refused(kb):
    with pytest.raises(BadInput, match="blank"):
        kb.add(Unit("Lamp", id=" "))


def test_a_declared_target_is_an_entity_of_its_kind(kb):
    kb.add(
        Unit(
            "Luxembourg",
            id="lu",
            kind="country",
            relations=(Relation("capital", "Luxembourg", target_kind="city"),),
        )
    )
    rows = kb._database.connection.execute("SELECT name, kind FROM entities ORDER BY kind")
    assert rows.fetchall() == [("Luxembourg", "city"), ("Luxembourg", "country")]


def test_ready_made_vectors_are_stored_as_given(kb):
    import numpy as np

    vector = np.zeros((1, 512), np.float32)
    vector[0, 3] = 1.0
    kb.add(Unit("Lamp", id="lamp", texts=("One chunk, as it is.",)), vectors={"texts": vector})
    rows, cosines = kb._session.encoding.chunks.search(vector, 1)
    assert (rows.shape, cosines[0, 0]) == ((1, 1), 1.0)
    with pytest.raises(BadInput, match=r"shape \(2, 512\)"):
        kb.add(
            Unit("Bell", id="b", texts=("x",)), vectors={"texts": np.zeros((2, 512), np.float32)}
        )


def test_units_are_replaced_in_one_transaction(kb, tmp_path):
    image = picture(tmp_path / "a.png", 1)
    kb.add_many([Unit("A", id="a", texts=("Old.",), images=(image,)), Unit("B", id="b")])
    kb.graph.add_relation("b", "near", "a")
    report = kb.add_many([Unit("A2", id="a", texts=("New.",)), Unit("C", id="c")], replace=True)
    assert (report.units_added, [unit.id for unit in kb.list()]) == (2, ["a", "b", "c"])
    unit_a = kb.show("a")
    assert (unit_a.name, unit_a.texts, unit_a.images) == ("A2", ("New.",), ())
    assert kb.verify().ok
    with pytest.raises(BadInput, match="has no id"):
        kb.add_many([Unit("A3", id="a"), Unit("D")], replace=True)
    assert kb.show("a").texts == ("New.",)


def test_a_picture_that_moves_to_another_unit_in_one_run_stays_stored(kb, tmp_path):
    for number in range(3):
        picture(tmp_path / f"{number}.png", number)

    def ingest(lamp, chair):
        records = [
            {"id": "lamp", "name": "Lamp", "images": [lamp]},
            {"id": "chair", "name": "Chair", "images": [chair]},
        ]
        return kb.ingest(write_records(tmp_path / "units.jsonl", records))

    assert ingest("0.png", "1.png").images_added == 2
    report = ingest("2.png", "0.png")
    assert (report.images_added, counts(kb)["images"]) == (2, 2)
    assert kb.verify().ok
    assert kb.query(tmp_path / "0.png", "What is this?").to_dict()["units"][0]["id"] == "chair"
