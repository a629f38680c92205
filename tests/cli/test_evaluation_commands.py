"""The commands eval and compare, and batches of queries."""

from __future__ import annotations

import json

import pytest

from ku_rag.demo import tour
from tests.conftest import write_fruits
from tests.endpoint import says, serving

ASKED = {
    "question": "What is the volume?",
    "image": "fruits/Kiwi/photo.png",
    "answers": ["ca 80g"],
}


@pytest.fixture
def fruits_ku(ku, tmp_path):
    write_fruits(tmp_path)
    (tmp_path / "q.jsonl").write_text(json.dumps(ASKED) + "\n", encoding="utf-8")
    ku("ingest", "fruits")
    return ku


def test_one_command_measures_a_file_of_questions(fruits_ku, tmp_path):
    run = fruits_ku("eval", "q.jsonl", "--out", "run")
    assert run.code == 0
    assert run.out.startswith("1 questions: 1 right, 0 wrong, 0 declined, 0 failed; ")
    assert (tmp_path / "run" / "report.html").exists()
    assert fruits_ku("eval", "q.jsonl", "--out", "run").code == 1
    assert fruits_ku("eval", "q.jsonl", "--out", "run", "--resume").code == 0


def test_runs_are_compared(fruits_ku):
    fruits_ku("eval", "q.jsonl", "--out", "first", "--method", "plain")
    fruits_ku("eval", "q.jsonl", "--out", "second", "--no-expand", "--no-rerank", "--no-region")
    run = fruits_ku("eval", "compare", "first", "second", "--json")
    assert run.code == 0
    assert {row["measure"] for row in run.json} >= {"f1", "em"}


def test_a_reranker_is_left_out(fruits_ku, tmp_path):
    (tmp_path / "kb" / "ku.toml").write_text('reranker = "embedded"\n', encoding="utf-8")
    with_reranker = fruits_ku("eval", "q.jsonl", "--json").json
    assert with_reranker["settings"]["reranker"] == "embedded"
    assert fruits_ku("eval", "q.jsonl", "--no-rerank", "--json").json["settings"]["reranker"] == ""
    (tmp_path / "kb" / "ku.toml").write_text('reranker = "magic"\n', encoding="utf-8")
    assert fruits_ku("eval", "q.jsonl", "--json").json["failed"] == 1
    assert fruits_ku("eval", "q.jsonl", "--no-rerank", "--json").json["failed"] == 0


def test_evidence_graphs_with_other_steps_and_limits(ku, tmp_path):
    for name, seats in {"Oak Park": "12,000", "Mill Lane": "9,500"}.items():
        text = f"{name} is a stadium in Ambleford. It has {seats} seats."
        (tmp_path / "league" / name).mkdir(parents=True)
        (tmp_path / "league" / name / "about.txt").write_text(text, encoding="utf-8")
    rows = "Team,Stadium\nRed Star,Oak Park\nBlue Moon,Mill Lane\nGreen Leaf,River Side\n"
    (tmp_path / "league" / "teams.csv").write_text(rows, encoding="utf-8")
    question = "How many seats does the stadium of Red Star have?"
    record = json.dumps({"question": question, "answers": ["12,000"]})
    (tmp_path / "q.jsonl").write_text(record, encoding="utf-8")
    ku("ingest", "league")
    command = ("eval", "q.jsonl", "--method", "evidence", "--measure", "graph_nodes", "--json")
    whole = ku(*command).json["figures"]
    assert whole["em"]["value"] == 1.0
    assert whole["graph_nodes"]["value"] > 1
    assert ku(*command, "--no-visual-evidence").json["figures"]["em"]["value"] == 1.0
    without = ku(*command, "--no-table-mining").json
    assert without["figures"]["em"]["value"] == 0.0
    assert without["settings"]["construction"]["table_mining"] is False
    limits = ("--evidence-limit", "t_max=1", "--evidence-limit", "image_distance=.5")
    built = ku(*command, *limits).json["settings"]["construction"]
    assert (built["t_max"], built["image_distance"], built["k"]) == (1, 0.5, 5)


def test_the_demo_runs_every_method_without_a_model(ku, tmp_path, monkeypatch, rounds):
    monkeypatch.setattr(tour, "STOPS", tour.STOPS[: rounds(1, 3)])
    run = ku("eval", "demo", "demo", "--json")
    assert run.code == 0
    names = ("ku", "plain", "evidence", "fixed-text", "fixed-image", "plan", "graph")
    assert tuple(run.json) == names
    assert run.json["ku"]["figures"]["f1"]["value"] > 0.9
    assert run.json["ku"]["figures"]["recall@5"]["value"] == 1.0
    assert (tmp_path / "demo" / "runs" / "graph" / "report.html").exists()


def test_accepted_plans_become_records(fruits_ku, tmp_path):
    planned = fruits_ku("query", "-", "What is the volume?", "--plan", "parallel", "--json").json
    for name in ("good", "open"):
        accepted = {"accepted": True} if name == "good" else {}
        (tmp_path / f"{name}.json").write_text(json.dumps(planned | accepted), encoding="utf-8")
    run = fruits_ku("plan", "export", "good.json", "open.json", "--out", "records.json")
    records = json.loads((tmp_path / "records.json").read_text("utf-8"))
    assert (run.code, run.out) == (3, f"{len(records)} records of 1 plans\n")
    assert "open.json:1" in run.err
    run = fruits_ku("plan", "export", "good.json", "--out", "records.json", "--least", "f1")
    assert (run.code, "f1=0.5" in run.err) == (2, True)
    assert fruits_ku("plan", "export", "good.json", "--out", "records.txt").code == 1


def test_methods_are_compared_side_by_side(fruits_ku):
    run = fruits_ku("compare", "fruits/Kiwi/photo.png", "What is the volume?", "--report", "c.html")
    assert run.code == 0
    assert "ku           ca 80g" in run.out


def test_the_replies_of_a_judge_are_shown_apart(fruits_ku, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("KU_CACHE", str(tmp_path / "cache"))
    with serving(by=lambda _: says("Yes.")) as endpoint:
        judge = ("--judge", "strict", "--judge-url", endpoint.url)
        run = fruits_ku("eval", "q.jsonl", "--measure", "judged", "--out", "run", *judge)
    assert run.code == 0
    assert "judge: 1 replies, 0 of them from the cache" in run.err
    assert "judge: replies" in (tmp_path / "run" / "report.html").read_text("utf-8")


def test_a_batch_of_queries(fruits_ku, tmp_path):
    run = fruits_ku("query", "--batch", "q.jsonl", "--out", "a.jsonl")
    assert (run.code, run.out) == (0, "1 question, 1 answered, 0 failed\n")
    assert json.loads((tmp_path / "a.jsonl").read_text("utf-8"))["answer"] == "ca 80g"


def test_failed_questions_of_a_batch_exit_3_as_those_of_a_run_do(fruits_ku, tmp_path):
    (tmp_path / "q.jsonl").write_text(json.dumps({**ASKED, "image": "lost.png"}), encoding="utf-8")
    for arguments in (("query", "--batch", "q.jsonl", "--out", "b.jsonl"), ("eval", "q.jsonl")):
        run = fruits_ku(*arguments)
        assert run.code == 3
        assert "lost.png" in run.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("query",),
        ("query", "--batch", "q.jsonl"),
        ("query", "--batch", "q.jsonl", "--out", ""),
        ("eval", "q.jsonl", "--out", ""),
        ("query", "-", "What?", "--batch", "q.jsonl", "--out", "a"),
        ("eval", "q.jsonl", "--resume"),
        ("eval", "q.jsonl", "--method", "magic"),
        ("eval", "q.jsonl", "--judge-url", "http://127.0.0.1:1/v1"),
    ],
)
def test_wrong_usage_exits_2(fruits_ku, arguments):
    run = fruits_ku(*arguments)
    assert (run.code, run.out) == (2, "")
