"""Datasets: real records if available, otherwise small files in the official layout."""

from __future__ import annotations

import gzip
import json
import re
from contextlib import suppress
from functools import partial
from pathlib import Path

import openpyxl
import pytest

from ku_rag import ScriptedMLLM
from ku_rag.errors import BadInput, NotFound
from ku_rag.evaluation.datasets import DATASETS, load
from ku_rag.evaluation.measures import measure
from tests.conftest import DATA

needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the shared data is not there")


def lines(folder, *records, name="questions.jsonl"):
    path = folder / name
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    return path


def document(folder, value, name="questions.json"):
    path = folder / name
    path.write_text(json.dumps(value), "utf-8")
    return path


def reasons(dataset):
    return [problem.reason for problem in dataset.left_out]


# ---- real records ------------------------------------------------------------------------------


@needs_data
@pytest.mark.parametrize(
    ("name", "file", "count", "groups"),
    [
        ("infoseek", "kbvqa/infoseek_val_200.jsonl", 200, 2),
        ("oven-entity", "kbvqa/oven_entity_val_200.jsonl", 200, 2),
        ("oven-query", "kbvqa/oven_query_val_200.jsonl", 200, 2),
        ("mh", "monster_hunter/question_list.xlsx", 238, 6),
        ("multimodalqa", "mmqa/MMQA_dev.jsonl.gz", 2441, 16),
        ("ottqa", "ottqa/questions.json", 418, 2),
        ("hotpotqa", "hotpotqa/dev_distractor_100.json", 100, 2),
        ("dynvqa", "dynvqa/DynVQA_en.202502.jsonl", 706, 1),
    ],
)
def test_every_real_record_is_read(name, file, count, groups):
    dataset = load(name, DATA / file)
    assert (dataset.name, len(dataset.questions), dataset.left_out) == (name, count, ())
    assert len({question.group for question in dataset.questions}) == groups
    assert all(question.question and question.answers for question in dataset.questions)
    json.dumps(dataset.questions[0].to_dict())


@needs_data
def test_what_a_measure_needs_is_read():
    dates = load("infoseek", DATA / "kbvqa/infoseek_val_200.jsonl").questions
    [height] = [question for question in dates if question.id == "infoseek_val_00008719"]
    assert height.answers == ("70",)
    assert height.fields["answer_eval"] == [{"wikidata": 70.0, "range": [63.0, 77.0]}]
    [table] = load("ottqa", DATA / "ottqa/questions.json").questions[2:3]
    assert (table.answers, table.group) == (("Malta",), "table")
    assert table.units[1:] == ("Jarrod Sammut", "Sam Stone (rugby league)")
    [two] = load("hotpotqa", DATA / "hotpotqa/dev_distractor_100.json").questions[:1]
    assert (two.id, two.units, two.group) == ("1", ("Scott Derrickson", "Ed Wood"), "comparison")
    question = load("mh", DATA / "monster_hunter/question_list.xlsx").questions[1]
    assert question.routes == (
        ("Zinogre", "Charging Phase", "Thunder Charge B"),
        ("Zinogre", "Stygian Zinogre", "Charging Phase", "Thunder Charge B"),
    )
    assert question.fields["hints"] == "Zinogre is under Charging Phase."
    assert question.question.startswith("What is difference between Zinogre and its subspecies")


@pytest.mark.parametrize("name", DATASETS)
def test_the_measures_of_a_dataset_are_known(name):
    model = ScriptedMLLM([])
    assert [measure(measure_name, model).name for measure_name in DATASETS[name].measures]


# ---- official layouts --------------------------------------------------------------------------


def test_own_questions_name_pictures_relative_to_their_file(tmp_path):
    path = lines(
        tmp_path,
        {"question": "Who built it?", "image": "a/b.png", "answers": ["Ann", " "], "units": ["u"]},
        {"question": "When?", "id": 7, "note": "x"},
    )
    first, second = load("jsonl", path).questions
    assert (first.id, first.answers, first.units) == ("1", ("Ann",), ("u",))
    assert first.image == tmp_path.resolve() / "a" / "b.png"
    assert (second.id, second.image, second.answers) == ("7", None, ())
    assert second.fields == {"note": "x"}
    assert load("jsonl", path, images=tmp_path / "p").questions[0].image.parts[-3:] == (
        *("p", "a", "b.png"),
    )


def test_hotpotqa_is_read_in_the_official_form(tmp_path):
    record = {
        "_id": "5a8b",
        "question": "Who?",
        "answer": "Ed",
        "type": "bridge",
        "supporting_facts": [["Ed Wood", 0], ["Ed Wood", 2], ["Doctor Strange", 1]],
        "context": [["Ed Wood", ["One.", " Two."]]],
    }
    [question] = load("hotpotqa", document(tmp_path, [record])).questions
    assert (question.id, question.units) == ("5a8b", ("Ed Wood", "Doctor Strange"))


def okvqa(folder, annotations):
    questions = [
        {"image_id": 297147, "question": "What sport?", "question_id": 2971475},
        {"image_id": 5, "question": "Why?", "question_id": 55},
    ]
    data = {"data_subtype": "val2014", "questions": questions}
    document(folder, {"annotations": annotations}, "mscoco_val2014_annotations.json")
    return document(folder, data, "OpenEnded_mscoco_val2014_questions.json")


ANSWERS = [
    {"answer_id": n, "answer": answer, "answer_confidence": sure}
    for n, (answer, sure) in enumerate([("race", "yes")] * 9 + [("run", "maybe")], 1)
]


def test_okvqa_joins_questions_and_annotations(tmp_path):
    annotation = {"question_id": 2971475, "answers": ANSWERS, "question_type": "four"}
    dataset = load("okvqa", okvqa(tmp_path, [annotation]), images=tmp_path)
    [question] = dataset.questions
    assert (question.id, question.group) == ("2971475", "four")
    assert question.answers == ("race",) * 9 + ("run",)
    assert question.fields["answer_confidence"] == ["yes"] * 9 + ["maybe"]
    assert question.image == tmp_path / "val2014" / "COCO_val2014_000000297147"
    assert reasons(dataset) == ["the record is not in this format: KeyError('answers')"]


def test_okvqa_names_the_file_that_is_missing(tmp_path):
    path = okvqa(tmp_path, [])
    (tmp_path / "mscoco_val2014_annotations.json").unlink()
    with pytest.raises(NotFound, match=r"mscoco_val2014_annotations\.json is not there"):
        load("okvqa", path)


def test_csv_files_are_read(tmp_path):
    path = tmp_path / "test.csv"
    path.write_text(
        "question,answer,dataset_image_ids,dataset_name,question_type,wikipedia_url,evidence\n"
        '"Where, then?",Ohio|the Ohio state,12ab|34cd,landmarks,2_hop,w/A|w/B,""\n'
        "When?,,5,inaturalist,automatic,w/C,\n",
        "utf-8",
    )
    dataset = load("encyclopedic-vqa", path, images=tmp_path)
    [question] = dataset.questions
    assert question.answers == ("Ohio", "the Ohio state")
    assert question.units == ("w/A", "w/B")
    assert question.image == tmp_path / "landmarks" / "12ab"
    assert dataset.left_out[0].item.endswith("test.csv:3")
    (tmp_path / "landmarks" / "1" / "2" / "a").mkdir(parents=True)
    (stored := tmp_path / "landmarks" / "1" / "2" / "a" / "12ab.jpg").touch()
    assert load("encyclopedic-vqa", path, images=tmp_path).questions[0].image == stored

    path.write_text("question_id,image_id,question,answer\n3,img7,Who won?,Spain\n", "utf-8-sig")
    [question] = load("evqa", path, images=tmp_path).questions
    assert (question.id, question.answers, question.image) == ("3", ("Spain",), tmp_path / "img7")


def test_webqa_leaves_the_training_split_alone(tmp_path):
    record = {
        "Guid": "g1",
        "Q": '"What colour is it?"',
        "A": ['"It is red."'],
        "Qcate": "color",
        "split": "val",
        "img_posFacts": [{"image_id": 30012, "caption": "A car"}],
        "txt_posFacts": [{"snippet_id": "g1_3", "fact": "Cars are red."}],
    }
    training = record | {"Guid": "g2", "split": "train"}
    dataset = load("webqa", document(tmp_path, {"g1": record, "g2": training}))
    [question] = dataset.questions
    assert (question.question, question.answers) == ("What colour is it?", ("It is red.",))
    assert (question.units, question.group) == (("30012", "g1_3"), "color")
    assert question.fields == {"Qcate": "color"}
    assert dataset.left_out == ()


def test_cogbench_is_grouped_by_steps(tmp_path):
    record = {"id": "a", "query": "Who?", "image": "x.png", "answer": "Ann.", "hops": 4}
    path = lines(tmp_path, record, record | {"id": "b", "hops": 2}, record | {"hops": "two"})
    dataset = load("cogbench", path)
    assert [question.group for question in dataset.questions] == ["> 2-hop", "2-hop"]
    assert "the record is not in this format: TypeError" in reasons(dataset)[0]


def workbook(folder, *rows):
    book = openpyxl.Workbook()
    head = ("File", "Video", "Image", "Question", "Monster Name", "Extra Information")
    book.active.append((*head, "Perception", "Search Route", "Answer", "Type"))
    for row in rows:
        book.active.append(row)
    book.save(folder / "question_list.xlsx")
    return folder / "question_list.xlsx"


def test_frames_of_mh_are_found_below_the_pictures(tmp_path):
    row = ("Ox_A", None, "Kick", "What does{} do?", "Ox", None, "A leg.", "Ox>Kick;Ox", "Kick", 1)
    path = workbook(tmp_path, row, (*row[:-1], 9))
    (frames := tmp_path / "p" / "Ox_A" / "Kick").mkdir(parents=True)
    for name in ("2.png", "1.png"):
        (frames / name).touch()
    dataset = load("mh", path, images=tmp_path / "p")
    [question] = dataset.questions
    assert (question.question, question.group) == ("What does Ox do?", "II")
    assert [Path(frame).name for frame in question.fields["frames"]] == ["1.png", "2.png"]
    assert question.image == (frames / "1.png").resolve()
    assert reasons(dataset) == ["the record is not in this format: KeyError('9')"]


@pytest.mark.parametrize("place", ["oven_05001186.jpg", "05/oven_05001186.JPEG"])
def test_pictures_of_oven_are_found_in_both_layouts(tmp_path, place):
    path = lines(tmp_path, OVEN)
    (tmp_path / "05").mkdir()
    (tmp_path / place).touch()
    assert load("oven-entity", path, images=tmp_path).questions[0].image == tmp_path / place


OVEN = {
    "data_id": "oven_entity_val_1",
    "image_id": "oven_05001186",
    "question": "which bird?",
    "entity_id": "Q76471",
    "entity_text": "Long-billed curlew",
    "data_split": "entity_val_unseen",
}
INFOSEEK = {
    **OVEN,
    "answer": ["1965"],
    "answer_eval": ["1965", {"wikidata": 70.0, "range": [63.0, 77.0]}],
}


# ---- bad records -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"question": None}, '"question" is null: expected a text'),
        ({"question": " "}, '"question" is " ": expected a text'),
        ({"question": ["a"]}, '"question" is ["a"]: expected a text'),
        ({"answer": None}, "the record has no answer"),
        ({"answer": []}, "the record has no answer"),
        ({"answer": [None]}, '"answers" is [null]: expected a list of texts'),
        ({"answer": {"a": "b"}}, '"answers" is {"a": "b"}: expected a list of texts'),
        ({"answer_eval": None}, "the record is not in this format"),
        ({"answer_eval": ["1965", None]}, "the record is not in this format"),
        ({"answer_eval": [{"range": ["a", 2]}]}, "could not convert string to float: 'a'"),
        ({"answer_eval": [{"range": [1.0]}]}, "the record is not in this format"),
        ({"image_id": "../../oven_05"}, "is not a relative path of a picture"),
        ({"image_id": [5]}, "the record is not in this format"),
        ({"data_id": "first"}, "the id 'first' is that of an earlier record"),
    ],
)
def test_a_bad_record_is_left_out_with_its_place(tmp_path, change, reason):
    path = lines(tmp_path, INFOSEEK | {"data_id": "first"}, INFOSEEK | change, INFOSEEK)
    dataset = load("infoseek", path, images=tmp_path)
    assert [question.id for question in dataset.questions] == ["first", INFOSEEK["data_id"]]
    [problem] = dataset.left_out
    assert problem.item == f"{path.as_posix()}:2"
    assert reason in problem.reason


def test_lines_that_are_no_records_are_left_out(tmp_path):
    path = tmp_path / "q.jsonl"
    path.write_text('{"question": "A?"\n[1]\n\n{"question": "B?", "image": "../b.png"}\n')
    with path.open("a") as file:
        file.write('{"question": "C?", "answers": "x"}\n{"question": "D?"}\n')
    dataset = load("jsonl", path)
    assert [question.question for question in dataset.questions] == ["D?"]
    assert [problem.item.rpartition(":")[2] for problem in dataset.left_out] == ["1", "2", "4", "5"]


def test_a_list_with_other_values_is_read_without_them(tmp_path):
    path = document(tmp_path, [1, {"question": "A?"}, {"question": "B\0?"}])
    dataset = load("jsonl", path)
    assert [question.question for question in dataset.questions] == ["A?"]
    assert [problem.item[-3:] for problem in dataset.left_out] == ["[0]", "[2]"]


def test_a_cut_file_is_read_as_far_as_it_goes(tmp_path):
    path = tmp_path / "questions.jsonl.gz"
    records = [{"question": f"{n}?", "note": str(n**40)} for n in range(5000)]
    packed = gzip.compress("\n".join(map(json.dumps, records)).encode())
    path.write_bytes(packed)
    assert len(load("jsonl", path).questions) == 5000
    path.write_bytes(packed[: len(packed) // 2])
    dataset = load("jsonl", path)
    assert 500 < len(dataset.questions) < 4000
    assert "the rest of the file cannot be read" in reasons(dataset)[-1]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "no question that can be read as jsonl: it is empty"),
        ("\n\n", "is empty"),
        ('{"answers": []}\n', r"read as jsonl: .*q.jsonl:1: \"question\" is missing"),
    ],
)
def test_a_file_without_questions_is_refused(tmp_path, content, message):
    (path := tmp_path / "q.jsonl").write_text(content)
    with pytest.raises(BadInput, match=message):
        load("jsonl", path)


@pytest.mark.parametrize("name", DATASETS)
@pytest.mark.parametrize("content", [b"", b"\xff\xfe\0", b"not JSON", b"[]", b"7"])
def test_any_damaged_file_is_refused(tmp_path, name, content):
    for suffix in (".json", ".jsonl", ".json.gz", ".csv", ".xlsx"):
        (path := tmp_path / f"q{suffix}").write_bytes(content)
        with pytest.raises((BadInput, NotFound)):
            load(name, path)


def test_unknown_names_and_missing_files_are_refused(tmp_path):
    with pytest.raises(BadInput, match="there is no dataset 'okvqb': expected one of jsonl, okvqa"):
        load("okvqb", tmp_path / "q.json")
    with pytest.raises(NotFound, match="expected a file of a dataset"):
        load("jsonl", tmp_path / "q.jsonl")
    with pytest.raises(BadInput, match="a folder"):
        load("jsonl", tmp_path)


# ---- any value in any field --------------------------------------------------------------------

RECORDS = {
    "jsonl": {
        "id": "a",
        "question": "q",
        "image": "a.png",
        "answers": ["x"],
        "units": ["u"],
        "routes": [["a", "b"]],
        "group": "g",
    },
    "okvqa": {
        "question_id": 1,
        "image_id": 2,
        "question": "q",
        "data_subtype": "val2014",
        "question_type": "a",
        "answers": [{"answer": "a", "answer_confidence": "yes"}],
    },
    "infoseek": OVEN | {"answer": ["x"], "answer_eval": ["x"]},
    "oven-entity": OVEN,
    "oven-query": OVEN,
    "evqa": {"question_id": "1", "image_id": "2", "question": "q", "answer": "a"},
    "encyclopedic-vqa": {
        "question": "q",
        "answer": "a|b",
        "dataset_image_ids": "1|2",
        "dataset_name": "l",
        "wikipedia_url": "w",
        "question_type": "t",
    },
    "mh": {
        "File": "f",
        "Image": "i",
        "Question": "q{}",
        "Monster Name": "m",
        "Extra Information": "e",
        "Perception": "p",
        "Search Route": "m>a",
        "Answer": "a",
        "Type": "1",
    },
    "multimodalqa": {
        "qid": "q",
        "question": "q",
        "answers": [{"answer": "a"}],
        "supporting_context": [{"doc_id": "d"}],
        "metadata": {"type": "t"},
    },
    "webqa": {
        "Guid": "g",
        "Q": "q",
        "A": ["a"],
        "Qcate": "c",
        "split": "val",
        "img_posFacts": [{"image_id": 1}],
        "txt_posFacts": [{"snippet_id": "s"}],
    },
    "ottqa": {
        "question_id": "q",
        "question": "q",
        "answer-text": "a",
        "table_id": "t",
        "answer-node": [["a", [0, 1], "/wiki/x", "passage"]],
    },
    "hotpotqa": {
        "_id": "i",
        "question": "q",
        "answer": "a",
        "type": "t",
        "supporting_facts": [["t", 0]],
    },
    "dynvqa": {
        "question_id": "i",
        "question": "q",
        "answer": ["a"],
        "image_url": "https://a/b/c.jpeg",
        "golden_query": "g",
    },
    "cogbench": {"id": "i", "query": "q", "image": "i.png", "answer": "a", "hops": 1},
}
VALUES = (
    *(None, 5, -5, 1.5, 10**30, True, "x", "", "x" * 5000, "http://[x", "../../etc", "/etc/passwd"),
    *([], {}, [None], [[]], [{}], [["a"]], [[None] * 4], {"title": None}, {"title": [1]}),
    *([{"range": ["a", "b"]}], [{"answer": None}], [{"doc_id": 3}]),
)


@pytest.mark.parametrize("name", DATASETS)
def test_a_value_of_any_type_gives_a_question_or_bad_input(tmp_path, name):
    parse = partial(DATASETS[name].question, number=1, folder=tmp_path, ids=True)
    assert parse(RECORDS[name]).question
    for key in RECORDS[name]:
        absent = {field: value for field, value in RECORDS[name].items() if field != key}
        for data in (absent, *(absent | {key: value} for value in VALUES)):
            with suppress(BadInput):
                question = parse(data)
                assert question.question
                assert not question.image or question.image.is_relative_to(tmp_path)
                assert all(isinstance(text, str) for text in question.answers + question.units)


def test_every_dataset_is_documented():
    page = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text("utf-8")
    section = page.partition("## Datasets")[2].partition("\n## ")[0]
    first_cells = " ".join(re.findall(r"^\| (`.*?) \|", section, re.M))
    assert re.findall(r"`([\w-]+)`", first_cells) == list(DATASETS)
