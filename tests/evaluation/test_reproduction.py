"""Tables of the papers by one command, with stand-ins for the authors' files."""

from __future__ import annotations

import json

import pytest

from ku_rag import KnowledgeBase, Unit
from tests.conftest import picture
from tests.endpoint import says, serving
from tests.evaluation.test_datasets import ANSWERS, okvqa


@pytest.fixture
def data(tmp_path):
    okvqa(
        tmp_path,
        [
            {"question_id": 2971475, "answers": ANSWERS, "question_type": "one"},
            {"question_id": 55, "answers": ANSWERS, "question_type": "two"},
        ],
    )
    (tmp_path / "val2014").mkdir()
    for number in (297147, 5):
        picture(tmp_path / "val2014" / f"COCO_val2014_{number:012}.jpg", number % 100)
    return tmp_path


@pytest.fixture
def base(tmp_path):
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        photo = tmp_path / "race.png"
        kb.add(Unit("Race", images=(picture(photo, 7),), texts=("A race is a sport.",)))
    return tmp_path / "kb"


def reply(body):
    is_structured = "response_format" in body
    return says(json.dumps({"reason": "", "answer": "race"}) if is_structured else "run")


def test_a_table_is_made_by_one_command_and_goes_on(data, base, ku, tmp_path):
    words = ("eval", "reproduce", "kurag-okvqa", "--data", data, "--kb", base, "--no-cache")
    with serving(by=reply) as endpoint:
        model = ("--mllm", "m", "--mllm-url", endpoint.url, "--out", tmp_path / "runs")
        run = ku(*words, *model, "--json")
        assert run.code == 0, (run.out[:800], run.err[:1500])
        requests = len(endpoint.bodies)
        again = ku(*words, *model)
        assert len(endpoint.bodies) == requests
    rows = {row["name"]: row for row in run.json}
    assert list(rows) == ["model", "without-kcc", "kurag"]
    assert rows["kurag"]["published"] == 0.7723
    assert [row["questions"] for row in rows.values()] == [2, 2, 2]
    assert rows["kurag"]["measured"] == rows["without-kcc"]["measured"] > 0
    note = "2 of 5,046 questions of OpenEnded_mscoco_val2014_questions.json: 5,044 are missing"
    assert note in again.err
    assert "KU-RAG, tables 1 and 3, GPT-4o: kurag_accuracy" in again.out
    summary = json.loads((tmp_path / "runs/kurag-okvqa/kurag/summary.json").read_text())
    assert (summary["settings"]["strict"], summary["settings"]["mllm"]) == ("kurag", "m")
    assert summary["note"] == note


def test_every_nth_question_is_asked(data, base, ku, tmp_path):
    words = ("eval", "reproduce", "kurag-okvqa", "--data", data, "--kb", base, "--every", 2)
    with serving(by=reply) as endpoint:
        model = ("--mllm", "m", "--mllm-url", endpoint.url, "--out", tmp_path / "runs")
        run = ku(*words, *model, "--json")
    assert [row["questions"] for row in run.json] == [1, 1, 1]


@pytest.mark.parametrize(
    ("name", "file", "published"),
    [
        ("graphrag-hotpotqa", "hotpot_dev_distractor_v1.json", 0.3120),
        ("graphrag-drop", "drop.jsonl", 0.3320),
    ],
)
def test_questions_on_texts_alone(base, ku, tmp_path, name, file, published):
    pytest.importorskip("sacrebleu")
    question = {"_id": "1", "question": "What is a race?", "answer": "race", "type": "bridge"}
    question |= {"supporting_facts": [["Race", 0]], "context": [["Race", ["A race is a sport."]]]}
    if file == "drop.jsonl":
        question = {"question": "What is a race?", "answers": ["race"]}
    (tmp_path / file).write_text(json.dumps([question] if "hotpot" in file else question))

    def graph_reply(body):
        if "entity_types" not in str(body.get("response_format")):
            return reply(body)
        pattern = {"entity_types": ["event"], "relations": [], "keywords": ["race"]}
        return says(json.dumps(pattern))

    words = ("eval", "reproduce", name, "--data", tmp_path, "--kb", base, "--no-cache")
    with serving(by=graph_reply) as endpoint:
        model = ("--mllm", "m", "--mllm-url", endpoint.url, "--out", tmp_path / "runs")
        run = ku(*words, *model, "--json")
    (row,) = run.json
    assert (row["published"], row["questions"], row["measured"]) == (published, 1, 1.0)


def test_rows_of_a_figure_say_so(ku):
    tables = {table["name"]: table for table in ku("eval", "reproduce", "--json").json}
    of_figure = {name for name, table in tables.items() if "without-ku: figure 4" in table["table"]}
    assert of_figure == {
        name for name, table in tables.items() if "without-ku" in [row[0] for row in table["rows"]]
    }


def test_files_that_are_missing_are_named(ku, base, tmp_path):
    run = ku("eval", "reproduce", "mhmmkg", "--data", tmp_path, "--kb", base)
    assert (run.code, "question_list.xlsx" in run.err) == (1, True)
    run = ku("eval", "reproduce", "kurag-x", "--data", tmp_path, "--kb", base)
    assert "expected one of kurag-oven" in run.err
    assert ku("eval", "reproduce", "mhmmkg", "--kb", base).code == 2
    assert "cogplanner: CogPlanner, table 4" in ku("eval", "reproduce").out
