"""Stored answers: content, feedback, and deletion with their sources."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import pytest
from PIL import Image

from ku_rag import KnowledgeBase, Unit
from ku_rag.errors import BadInput, Corrupt, Mismatch, NotFound, ReadOnly
from ku_rag.evaluation import evaluate
from tests.conftest import picture, write_records

QUESTION = "Where does the Mango grow?"


@pytest.fixture
def fruits(tmp_path):
    """A base with a text, metadata, a relation and a picture of a unit, and another unit."""
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.add(
            Unit(
                "Mango",
                id="mango",
                texts=["The Mango is sweet. It grows in Peru."],
                images=[picture(tmp_path / "mango.png", 0)],
                metadata={"calories": 60},
            )
        )
        kb.add(Unit("Kiwi", id="kiwi", texts=["The Kiwi is green. It grows in Italy."]))
        kb.graph.add_relation("mango", "ripens before", "Papaya")
        yield kb


def store(kb, question=QUESTION, image=None, **options):
    return kb.answers.add(kb.query(image, question), image, **options)


def test_an_answer_is_the_same_after_the_base_was_moved_and_opened_again(fruits, tmp_path):
    answer = fruits.query(tmp_path / "mango.png", "Where does it grow?")
    id = fruits.answers.add(answer, tmp_path / "mango.png")
    fruits.close()
    (tmp_path / "kb").rename(tmp_path / "moved")
    with KnowledgeBase.open(tmp_path / "moved", read_only=True) as kb:
        stored = kb.answers.get(id)
        [listed] = kb.answers.list()
        assert (listed.id, listed.question, listed.answer) == (id, "Where does it grow?", "Peru")
        expected = answer.to_dict()
        assert stored.data["chunks"] == json.loads(json.dumps(expected["chunks"]))
        assert stored.data["citations"] == expected["citations"]
        image = kb.picture(kb.picture_hash(stored.data["units"][0]["image"]))
        assert image.read_bytes() == (tmp_path / "mango.png").read_bytes()
        with pytest.raises(ReadOnly, match="read-only"):
            kb.answers.add(answer)
        with pytest.raises(ReadOnly):
            kb.answers.judge(id, "right")


def test_a_large_picture_is_stored_small_and_without_metadata(fruits):
    exif = Image.Exif()
    exif[0x010E] = "taken at home"
    Image.new("RGB", (3200, 800), "red").save(buffer := io.BytesIO(), "JPEG", exif=exif)
    stored = fruits.answers.get(store(fruits, "What is this?", buffer.getvalue()))
    copy = Image.open(io.BytesIO(stored.picture))
    assert (copy.size, copy.format, stored.data["size"]) == ((1600, 400), "JPEG", [3200, 800])
    assert b"taken at home" not in stored.picture


def test_the_oldest_answers_without_feedback_go_first(fruits):
    first = store(fruits)
    fruits.answers.judge(first, "right")
    ids = [store(fruits, most=3) for _ in range(4)]
    assert [stored.id for stored in fruits.answers.list()] == [ids[3], ids[2], first]
    fruits.answers.delete(ids[3])
    with pytest.raises(NotFound, match=f"no stored answer '{ids[3]}'"):
        fruits.answers.get(ids[3])


@pytest.mark.parametrize(
    ("question", "change"),
    [
        (QUESTION, lambda kb: kb.delete("mango")),
        (QUESTION, lambda kb: kb.update("mango", texts=["It grows in Chile."])),
        (QUESTION, lambda kb: kb.add_many([Unit("Mango", id="mango")], replace=True)),
        ("How many calories has the Mango?", lambda kb: kb.delete("mango")),
        ("What does the Mango ripen before?", lambda kb: kb.graph.delete(
            relation=("mango", "ripens before", "Papaya"))),
    ],
)  # fmt: skip
def test_an_answer_ends_with_the_change_of_what_it_rests_on(fruits, tmp_path, question, change):
    id = store(fruits, question)
    assert fruits.answers.get(id).answer
    # Another session reads the answers, as if this process ended right after the commit.
    with KnowledgeBase.open(tmp_path / "kb", read_only=True) as reader:
        assert reader.answers.get(id).id == id
        change(fruits)
        assert id not in {stored.id for stored in reader.answers.list()}
        with pytest.raises(NotFound):
            reader.answers.get(id)
    with pytest.raises(NotFound):
        fruits.answers.judge(id, "right")


def test_an_answer_about_another_unit_stays(tmp_path):
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.add(Unit("Mango", id="mango", texts=["The Mango grows in Peru."]))
        stored = store(kb)
        kb.add(Unit("Lamp", id="lamp", texts=["It shines."]))
        kb.delete("lamp")
        assert [answer.id for answer in kb.answers.list()] == [stored]


def test_an_answer_from_an_older_state_is_not_stored(fruits):
    answer = fruits.query(None, QUESTION)
    fruits.delete("mango")
    with pytest.raises(Mismatch, match="was deleted meanwhile: ask again"):
        fruits.answers.add(answer)


def test_an_answer_to_a_stored_picture_ends_with_it(fruits, tmp_path):
    lamp = picture(tmp_path / "lamp.png", 5)
    fruits.add(Unit("Lamp", id="lamp", images=[lamp]))
    id = store(fruits, QUESTION, lamp)
    fruits.delete("lamp")
    with pytest.raises(NotFound):
        fruits.answers.get(id)


def test_a_killed_deletion_leaves_no_answer(fruits, tmp_path):
    """The process ends between the commit and the deletion of the answer's row."""
    id = store(fruits)
    fruits.close()
    script = (
        "import os, sys; from ku_rag import KnowledgeBase\n"
        "kb = KnowledgeBase.open(sys.argv[1])\n"
        "with kb.transaction():\n"
        "    kb.delete('mango')\n"
        "    sys.setprofile(lambda frame, *_: os._exit(9) if frame.f_code.co_name =="
        " 'remove_invalid' else None)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "kb")]
    assert subprocess.run(command, check=False).returncode == 9
    assert b"grows in Peru" in (tmp_path / "kb" / "answers.sqlite").read_bytes()
    with KnowledgeBase.open(tmp_path / "kb") as kb:
        assert [unit.id for unit in kb.list()] == ["kiwi"]
        with pytest.raises(NotFound):
            kb.answers.get(id)
        kb.compact()
    assert all(
        b"grows in Peru" not in file.read_bytes() for file in (tmp_path / "kb").glob("answers*")
    )


# ---- feedback ----------------------------------------------------------------------------------


def test_feedback_becomes_questions_that_are_evaluated(fruits, tmp_path, ku):
    image = tmp_path / "mango.png"
    right, wrong = store(fruits, "Where does it grow?", image), store(fruits)
    declined, followed = store(fruits, "Who built the Mango?"), store(fruits, about="mango")
    store(fruits)  # without feedback
    fruits.answers.judge(right, "right")
    fruits.answers.judge(wrong, "", right_answer="Chile", unit="Kiwi")
    fruits.answers.judge(declined, "right")
    fruits.answers.judge(followed, "right")
    results = [stored.result for stored in fruits.answers.list()]
    assert results == ["", "right", "right", "wrong", "right"]
    assert ku("feedback", tmp_path / "f.jsonl").out.strip() == "questions: 3"
    records = [json.loads(line) for line in (tmp_path / "f.jsonl").read_text().splitlines()]
    assert records == [
        {"id": right, "question": "Where does it grow?", "answers": ["Peru"], "units": ["mango"],
         "image": f"f-pictures/{right}.jpg"},
        {"id": wrong, "question": QUESTION, "answers": ["Chile"], "units": ["kiwi"]},
        {"id": declined, "question": "Who built the Mango?", "answers": []},
    ]  # fmt: skip
    result = evaluate(fruits, tmp_path / "f.jsonl")
    assert (result.right, result.wrong, result.failed, result.left_out) == (2, 1, 0, ())


def test_feedback_is_tuned_with(fruits, tmp_path):
    for _ in range(20):
        fruits.answers.judge(store(fruits), "right")
    assert fruits.answers.export(tmp_path / "f.jsonl") == 20
    assert fruits.tune_texts(tmp_path / "f.jsonl").questions == 20


def test_feedback_is_checked_and_goes_with_its_unit(fruits):
    id = store(fruits)
    with pytest.raises(BadInput, match="the verdict is 'maybe': expected right or wrong"):
        fruits.answers.judge(id, "maybe")
    with pytest.raises(BadInput, match="the verdict is 'right'"):
        fruits.answers.judge(id, "right", right_answer="Chile")
    with pytest.raises(NotFound, match="no unit 'Lamp'"):
        fruits.answers.judge(id, "wrong", unit="Lamp")
    fruits.add(Unit("Lamp", id="lamp"))
    fruits.answers.judge(id, "wrong", unit="Lamp")
    assert fruits.answers.get(id).unit == "lamp"
    fruits.delete("lamp")
    assert fruits.answers.list() == []


# ---- the file ----------------------------------------------------------------------------------


def test_copies_contain_no_answers(fruits, tmp_path):
    store(fruits)
    fruits.snapshot(tmp_path / "copy")
    fruits.export(tmp_path / "export")
    for folder in ("copy", "export"):
        assert not [*(tmp_path / folder).rglob("answers*")]


def test_a_damaged_file_is_reported_and_the_base_is_whole(fruits, tmp_path):
    store(fruits)
    fruits.close()
    file = tmp_path / "kb" / "answers.sqlite"
    data = bytearray(file.read_bytes())
    for page in range(0, len(data), 8192):
        data[page + 8000] ^= 1
    file.write_bytes(data)
    with KnowledgeBase.open(tmp_path / "kb") as kb:
        with pytest.raises(Corrupt, match=r"answers.sqlite is damaged .*: delete this file"):
            kb.answers.list()
        kb.add(Unit("Lamp", id="lamp", texts=["It shines."]))
        assert kb.verify().ok
        assert kb.show("lamp").name == "Lamp"


def test_records_of_a_folder_end_answers(tmp_path):
    records = tmp_path / "records" / "r.jsonl"
    write_records(records, [{"id": "mango", "name": "Mango", "text": "The Mango grows in Peru."}])
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.sync(records.parent)
        store(kb)
        kb.sync(records.parent)
        assert len(kb.answers.list()) == 1
        write_records(records, [{"id": "mango", "name": "Mango", "text": "It grows in Chile."}])
        kb.sync(records.parent)
        assert kb.answers.list() == []
