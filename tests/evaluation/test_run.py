"""Runs: records, resuming, failures, figures, pages."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ku_rag import KnowledgeBase, Relation, ScriptedMLLM, Unit
from ku_rag.errors import BadInput, Locked, ModelFailed, NotFound, Refused
from ku_rag.evaluation import compare, evaluate, query_batch
from ku_rag.evaluation.comparison import compare_runs
from ku_rag.evaluation.methods import MethodOptions
from ku_rag.evaluation.questions import Dataset, EvaluationQuestion
from ku_rag.evaluation.run import to_line
from ku_rag.mllm.base import Reply
from ku_rag.papers.cogplanner.plan import Plan
from tests.conftest import write_fruits
from tests.endpoint import says, serving

QUESTIONS = [
    {"id": "a", "question": "What is the capital of Peru?", "answers": ["Lima"]},
    {
        "id": "b",
        "question": "What is the volume?",
        "image": "fruits/Kiwi/photo.png",
        "answers": ["ca 80g"],
        "units": ["Kiwi"],
    },
    {"id": "c", "question": "Which fruit is it?", "image": "lost.png", "answers": ["Kiwi"]},
]


@pytest.fixture
def base(tmp_path):
    write_fruits(tmp_path)
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.ingest(tmp_path / "fruits")
        yield kb


@pytest.fixture
def questions(tmp_path) -> Path:
    return write(tmp_path / "questions.jsonl", QUESTIONS)


def write(file: Path, records: list[dict[str, object]]) -> Path:
    file.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return file


def records(run: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (run / "records.jsonl").read_text("utf-8").splitlines()]


def test_a_second_run_in_the_same_folder_is_refused(base, questions, tmp_path):
    counts = []

    def resume(count: int, _: object) -> None:
        with pytest.raises(Locked, match=r"is writing to .*/run and did not finish"):
            evaluate(base, questions, out=tmp_path / "run", resume=True)
        counts.append(count)

    evaluate(base, questions, out=tmp_path / "run", progress=resume)
    assert counts == [1, 2, 3]
    assert len(records(tmp_path / "run")) == 3
    evaluate(base, questions, out=tmp_path / "run", resume=True)


def test_a_run_has_a_record_a_question_figures_and_a_page(base, questions, tmp_path):
    counts = []
    run = evaluate(
        base,
        questions,
        out=tmp_path / "run",
        measures=["f1"],
        progress=lambda count, scores: counts.append((count, len(scores["f1"]))),
    )
    assert (run.questions, run.answered, run.failed) == (3, 1, 1)
    assert run.figures["f1"].value == pytest.approx(1 / 3)
    assert run.figures["f1"].questions == 3
    assert counts == [(1, 1), (2, 2), (3, 3)]
    first, second, third = records(tmp_path / "run")
    assert [record["id"] for record in (first, second, third)] == ["a", "b", "c"]
    assert second["prediction"]["answer"] == "ca 80g"
    assert second["prediction"]["units"][0] == "Kiwi"
    assert "lost.png" in third["error"]
    summary = json.loads((tmp_path / "run" / "summary.json").read_text("utf-8"))
    assert summary["figures"]["f1"]["value"] == run.figures["f1"].value
    page = (tmp_path / "run" / "report.html").read_text("utf-8")
    assert "What is the capital of Peru?" in page
    assert "lost.png" in page
    assert "<script" not in page


def test_texts_of_the_page_are_escaped(base, tmp_path):
    file = write(
        tmp_path / "q.jsonl", [{"question": "<script>alert(1)</script>", "answers": ["x"]}]
    )
    evaluate(base, file, out=tmp_path / "run")
    page = (tmp_path / "run" / "report.html").read_text("utf-8")
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_the_page_has_one_title_and_lists_every_question(base, tmp_path):
    entries = [{"question": f"Who painted it in {n}?", "answers": [f"P{n}"]} for n in range(25)]
    evaluate(base, write(tmp_path / "q.jsonl", entries), out=tmp_path / "run")
    page = (tmp_path / "run" / "report.html").read_text("utf-8")
    assert page.count("<h2>") == 20
    assert page.count("ku on q.jsonl") == 2  # the title of the document and the heading
    listed = page.partition("<summary>25 questions</summary>")[2]
    assert all(f"<td>Who painted it in {n}?</td><td>P{n}</td>" in listed for n in range(25))


def test_a_run_is_continued_where_it_stopped(base, questions, tmp_path):
    evaluate(base, questions, out=tmp_path / "run")
    file = tmp_path / "run" / "records.jsonl"
    whole = records(tmp_path / "run")
    first, second, _ = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(first + second[:-20])
    with pytest.raises(Refused, match="--resume"):
        evaluate(base, questions, out=tmp_path / "run")
    evaluate(base, questions, out=tmp_path / "run", resume=True)
    again = records(tmp_path / "run")
    assert again[0] == whole[0]
    for record in (*whole, *again):
        del record["seconds"], record["checksum"]
    assert again == whole


def test_a_question_that_failed_is_asked_again(base, questions, tmp_path):
    evaluate(base, questions, out=tmp_path / "run")
    kiwi = tmp_path / "fruits" / "Kiwi" / "photo.png"
    (tmp_path / "lost.png").write_bytes(kiwi.read_bytes())
    run = evaluate(base, questions, out=tmp_path / "run", resume=True)
    assert run.failed == 0


def test_a_run_with_other_settings_is_refused_and_the_difference_shown(base, questions, tmp_path):
    evaluate(base, questions, out=tmp_path / "run")
    with pytest.raises(BadInput, match=r"method: 'ku' before, 'plain' now"):
        evaluate(base, questions, method="plain", out=tmp_path / "run", resume=True)
    base.add(Unit("Fig"))
    with pytest.raises(BadInput, match=r"commits: \d+ before"):
        evaluate(base, questions, out=tmp_path / "run", resume=True)
    write(questions, QUESTIONS[:2])
    with pytest.raises(BadInput, match="questions: "):
        evaluate(base, questions, out=tmp_path / "run", resume=True)


@pytest.mark.parametrize("damage", [b"", b"[]", b"{}", b"\xff\xfe"])
def test_a_folder_with_a_damaged_summary_is_refused(base, questions, tmp_path, damage):
    evaluate(base, questions, out=tmp_path / "run")
    (tmp_path / "run" / "summary.json").write_bytes(damage)
    with pytest.raises(BadInput, match="holds no run"):
        evaluate(base, questions, out=tmp_path / "run", resume=True)


def test_a_run_ends_when_the_model_does_not_answer_and_is_continued(tmp_path):
    write_fruits(tmp_path)
    many = [{"id": f"{n}", "question": f"Is {n} even?", "answers": ["yes"]} for n in range(20)]
    file = write(tmp_path / "many.jsonl", many)
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.ingest(tmp_path / "fruits")
    dying = ScriptedMLLM(["yes"] * 7)
    with (
        KnowledgeBase.open(tmp_path / "kb", mllm=dying) as base,
        pytest.raises(ModelFailed, match=r"after 12 questions, the last 5.*--resume"),
    ):
        evaluate(base, file, method="model-only", out=tmp_path / "run")
    with KnowledgeBase.open(tmp_path / "kb", mllm=ScriptedMLLM(["yes"] * 13)) as base:
        run = evaluate(base, file, method="model-only", out=tmp_path / "run", resume=True)
    assert (run.questions, run.answered, run.failed) == (20, 20, 0)
    assert run.usage["replies"] == 20


def test_a_full_disk_ends_the_run_with_what_to_do(questions, tmp_path):
    write_fruits(tmp_path)
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.ingest(tmp_path / "fruits")
    program = (
        "import resource, sys; from ku_rag.cli import main;"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000));"
        "sys.argv = ['ku', 'eval', 'questions.jsonl', '--out', 'run']; main()"
    )
    many = [{**QUESTIONS[0], "id": str(n)} for n in range(20)]
    write(questions, many)
    # -B: files cannot grow, and a truncated bytecode file would remain.
    command = [sys.executable, "-B", "-c", program]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "make room" in ended.stderr
    with KnowledgeBase.open(tmp_path / "kb") as base:
        run = evaluate(base, questions, out=tmp_path / "run", resume=True)
    assert run.questions == 20


@pytest.mark.parametrize(
    "method", ["evidence", "fixed-image", "fixed-text", "graph", "ku", "plain", "plan"]
)
def test_every_method_answers_without_a_model(base, tmp_path, method):
    file = write(tmp_path / "one.jsonl", QUESTIONS[1:2])
    run = evaluate(base, file, method=method)
    assert (run.questions, run.failed) == (1, 0)
    assert "Kiwi" in run.records[0]["prediction"]["units"] or method == "graph"


def test_an_unknown_method_or_measure_is_refused(base, questions):
    with pytest.raises(BadInput, match="there is no method 'magic'"):
        evaluate(base, questions, method="magic")
    with pytest.raises(BadInput, match="there is no measure 'magic'"):
        evaluate(base, questions, measures=["magic"])


def test_the_model_alone_is_asked_without_evidence(base, tmp_path):
    with pytest.raises(NotFound, match="asks a model"):
        base.query(None, "Is it sweet?", method="model-only")
    mllm = ScriptedMLLM(["It is sweet."])
    with KnowledgeBase.open(tmp_path / "kb", mllm=mllm) as kb:
        answer = kb.query(None, "Is it sweet?", method="model-only")
    assert (answer.answer, answer.chunks, answer.units) == ("It is sweet.", (), ())
    assert len(mllm.requests) == 1


def test_every_nth_question_is_asked(base, tmp_path):
    many = [{"id": f"{n}", "question": f"Is {n} even?", "answers": ["yes"]} for n in range(10)]
    file = write(tmp_path / "many.jsonl", many)
    run = evaluate(base, file, every=3, limit=3)
    assert [record["id"] for record in run.records] == ["0", "3", "6"]


@pytest.mark.usefixtures("base", "questions")
def test_options_change_how_a_method_answers(ku, tmp_path):
    ku("eval", "questions.jsonl", "-k", "1", "--out", "run")
    assert len(records(tmp_path / "run")[0]["evidence"]) == 1


@pytest.mark.parametrize("measure", ["f1", "cer"])
def test_two_runs_are_compared_by_question(base, questions, tmp_path, ku, measure):
    evaluate(base, questions, out=tmp_path / "ku", measures=[measure])
    evaluate(base, questions, method="plain", out=tmp_path / "plain", measures=[measure])
    compared = ku("eval", "compare", "plain", "ku", "--json").json
    (difference,) = [row for row in compared if row["measure"] == measure]
    counts = (difference["questions"], difference["better"], difference["worse"])
    assert counts == (3, 1, 0)
    gain = difference["second"] - difference["first"]
    assert gain == pytest.approx(1 / 3) if measure == "f1" else gain < 0  # an error rate
    assert 0 < difference["p"] <= 1
    assert "holds no run" in ku("eval", "compare", "ku", ".").err


def test_no_correction_is_measured_by_an_error_rate(base, questions):
    with pytest.raises(BadInput, match="no measure 'helped:cer'"):
        evaluate(base, questions, measures=["helped:cer"])


def test_the_confidence_of_matches_is_calibrated_against_the_main_measure(base, tmp_path):
    file = write(
        tmp_path / "q.jsonl", [QUESTIONS[1], {**QUESTIONS[1], "id": "d", "answers": ["?"]}]
    )
    run = evaluate(base, file, out=tmp_path / "run")
    [sure, _] = [record["prediction"]["confidence"] for record in run.records]
    assert run.calibration == pytest.approx(abs(sure - 1 / 2))
    page = (tmp_path / "run" / "report.html").read_text("utf-8")
    assert f"Expected calibration error: {run.calibration:.3f}. Lower is better." in page
    assert evaluate(base, write(file, QUESTIONS[:1])).calibration is None


def test_an_answer_of_several_parts_has_items(tmp_path):
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        borders = tuple(Relation("borders", end) for end in ("Chile", "Ecuador"))
        kb.add(Unit("Peru", relations=borders))
        file = write(
            tmp_path / "q.jsonl", [{"question": "What does Peru border?", "answers": ["x"]}]
        )
        run = evaluate(kb, file)
    assert run.records[0]["prediction"]["items"] == ["Chile", "Ecuador"]


def test_further_fields_may_hold_any_json(base, tmp_path):
    file = write(tmp_path / "q.jsonl", [QUESTIONS[0] | {"huge": 10**40, "deep": [{"a": None}]}])
    assert evaluate(base, file, out=tmp_path / "run").questions == 1
    assert evaluate(base, file, out=tmp_path / "run", resume=True).questions == 1


def test_questions_without_a_score_are_not_compared(tmp_path):
    for name, scores in (
        ("one", [{"em": 1}, {}, {"em": 0}]),
        ("other", [{"em": 0}, {"em": 1}, {}]),
    ):
        (tmp_path / name).mkdir()
        lines = [{"id": f"{n}", "question": "?", "scores": s} for n, s in enumerate(scores)]
        (tmp_path / name / "records.jsonl").write_bytes(b"".join(map(to_line, lines)))
    [comparison] = compare_runs(tmp_path / "one", tmp_path / "other")
    assert (comparison.measure, comparison.questions, comparison.worse) == ("em", 1, 1)


def test_methods_are_compared_on_one_question(base, tmp_path):
    kiwi = tmp_path / "fruits" / "Kiwi" / "photo.png"
    answers = compare(base, kiwi, "What is the volume?", report=tmp_path / "c.html")
    assert answers["ku"].answer == "ca 80g"
    assert "model-only" not in answers
    assert "method plain" in (tmp_path / "c.html").read_text("utf-8")


def test_a_batch_is_answered_into_a_file_and_continued(base, questions, tmp_path):
    out = tmp_path / "answers.jsonl"
    batch = query_batch(base, questions, out)
    assert (batch.questions, batch.answered, batch.failed) == (3, 1, 1)
    lines = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert [line["id"] for line in lines] == ["a", "b", "c"]
    assert (lines[1]["answer"], lines[1]["seconds"] > 0) == ("ca 80g", True)
    with pytest.raises(Refused, match="--resume"):
        query_batch(base, questions, out)
    (tmp_path / "lost.png").write_bytes((tmp_path / "fruits/Kiwi/photo.png").read_bytes())
    assert query_batch(base, questions, out, resume=True).failed == 0


def test_the_methods_of_the_base_are_deprecated(base, questions, tmp_path):
    with pytest.deprecated_call(match=r"call ku_rag\.evaluation\.evaluate\(kb, \.\.\.\)"):
        assert base.evaluate(questions, limit=1).answered == 0
    with pytest.deprecated_call(match="compare"):
        assert [*base.compare(None, "What is the capital of Peru?", methods=["plain"])] == ["plain"]
    with pytest.deprecated_call(match="query_batch"):
        assert base.query_batch(questions, tmp_path / "answers.jsonl").questions == 3


def test_an_unclear_judge_gives_no_score_and_one_that_dies_ends_the_run(tmp_path):
    entries = [{"id": f"{n}", "question": f"Is {n} even?", "answers": ["yes"]} for n in range(8)]
    file = write(tmp_path / "q.jsonl", entries)
    mllm = ScriptedMLLM(["yes", "Perhaps."])
    with (
        KnowledgeBase.open(tmp_path / "kb", create=True, mllm=mllm) as base,
        pytest.raises(ModelFailed, match="--resume"),
    ):
        evaluate(base, file, method="model-only", measures=["judged"], out=tmp_path / "run")
    first, *others = records(tmp_path / "run")
    assert (first["scores"]["em"], first["scores"]["judged"], first["error"]) == (1.0, None, "")
    assert len(others) == 5
    assert all(record["error"] for record in others)


def test_another_model_judges(tmp_path):
    file = write(tmp_path / "q.jsonl", [{"question": "Is 2 even?", "answers": ["yes"]}])
    models = []

    def say(body):
        models.append(body["model"])
        return says("No.")

    mllm = ScriptedMLLM(["yes"])
    with (
        serving(by=say) as endpoint,
        KnowledgeBase.open(
            tmp_path / "kb",
            create=True,
            mllm=mllm,
            mllm_judge="judge",
            mllm_judge_url=endpoint.url,
            mllm_cache=False,
        ) as base,
    ):
        run = evaluate(base, file, method="model-only", measures=["judged"])
    assert models == ["judge"]
    assert (run.figures["em"].value, run.figures["judged"].value) == (1.0, 0.0)
    assert run.settings["mllm_judge"] == "judge"
    assert (run.usage["replies"], run.judge_usage["replies"]) == (1, 1)


def test_the_knowledgeable_setting_answers_from_the_gold_routes(tmp_path):
    routes = (("Zinogre", "Charged Phase", "Leap Attack"), ("Zinogre", "Bite"))
    fields = {"topic": "Zinogre", "perception": "It glows."}
    gold_questions = [
        EvaluationQuestion(
            route[-1], "What follows?", answers=("x",), routes=(route,), fields=fields
        )
        for route in routes
    ]
    mllm = ScriptedMLLM(["Leap Attack"])
    with KnowledgeBase.open(tmp_path / "kb", create=True, mllm=mllm) as base:
        base.graph.add_relation("Zinogre", "has", "Charged Phase")
        base.graph.add_relation("Charged Phase", "attack", "Leap Attack")
        dataset = Dataset("own", tuple(gold_questions), ("route_recall",))
        options = MethodOptions(setting="knowledgeable")
        run = evaluate(base, dataset, method="graph", options=options)
    assert [record["scores"]["route_recall"] for record in run.records] == [1.0, 0.0]
    assert "the graph has no path Zinogre > Bite" in run.records[1]["error"]
    assert "—attack→ Leap Attack" in mllm.requests[0].messages[-1].text


def test_questions_that_fail_for_one_reason_end_the_run(base, tmp_path):
    entries = [{"id": f"{n}", "question": f"Is {n} even?", "answers": ["yes"]} for n in range(9)]
    file = write(tmp_path / "q.jsonl", entries)
    with pytest.raises(Refused, match=r"give a picture.* the last 5 of which failed"):
        evaluate(base, file, method="fixed-image")
    with pytest.raises(NotFound, match="--mllm"):
        evaluate(base, file, method="model-only")


def test_no_answer_can_be_the_right_one(base, tmp_path):
    entries = [
        {"question": "What is the price of gold?", "answers": []},
        {"question": "Which option is right?", "answers": ["A"]},
        {"question": "What is the price of silver?"},
    ]
    run = evaluate(base, write(tmp_path / "q.jsonl", entries))
    assert [record["scores"]["em"] for record in run.records] == [1.0, 0.0, None]
    assert (run.right, run.wrong, run.declined) == (1, 0, 1)


def test_answers_are_counted_as_right_wrong_or_declined(base, tmp_path):
    weight = {"question": "What is the volume of Kiwi?"}
    entries = [{**weight, "answers": ["ca 80g"]}, {**weight, "answers": ["ca 90 litres"]}]
    entries += [{**weight, "answers": []}, {"question": "Is Oslo old?", "answers": ["yes"]}]
    entries += [weight, {**weight, "image": "lost.png", "answers": ["ca 80g"]}]
    run = evaluate(base, write(tmp_path / "q.jsonl", entries), out=tmp_path / "run")
    assert run.questions == 6
    assert (run.right, run.wrong, run.declined, run.failed) == (1, 2, 1, 1)
    page = (tmp_path / "run" / "report.html").read_text("utf-8")
    assert "1 right, 2 wrong, 1 declined, 1 failed\n  of 6 questions; 0 not read" in page


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'"em":0', b'"em":1'),
        (b'"em":0.0,', b""),
        (b'"checksum":', b'"sum":'),
        (b'"seconds":', b'"seconds:'),
        (b'{"id":"a"', b'[1]\n{"id":"a"'),
    ],
)
def test_changed_records_are_refused(base, questions, tmp_path, ku, before, after):
    evaluate(base, questions, out=tmp_path / "run")
    file = tmp_path / "run" / "records.jsonl"
    content = file.read_bytes()
    assert before in content
    file.write_bytes(content.replace(before, after, 1))
    with pytest.raises(BadInput, match="not a record of a run"):
        evaluate(base, questions, out=tmp_path / "run", resume=True)
    assert "not a record of a run" in ku("eval", "compare", "run", "run").err


def test_a_batch_writes_over_no_other_file_and_keeps_no_old_answers(base, questions, tmp_path):
    notes = tmp_path / "notes.txt"
    notes.write_text("my notes", encoding="utf-8")
    for file in (notes, questions):
        before = file.read_bytes()
        with pytest.raises(BadInput, match="not a record of a run"):
            query_batch(base, questions, file, resume=True)
        assert file.read_bytes() == before
    query_batch(base, questions, tmp_path / "answers.jsonl")
    write(questions, [QUESTIONS[0] | {"question": "What else?"}, *QUESTIONS[1:]])
    with pytest.raises(BadInput, match="another question with the id 'a'"):
        query_batch(base, questions, tmp_path / "answers.jsonl", resume=True)


def test_runs_over_other_questions_are_not_compared(base, questions, tmp_path, ku):
    evaluate(base, questions, out=tmp_path / "one")
    changed = write(
        tmp_path / "other.jsonl", [record | {"question": "Why?"} for record in QUESTIONS]
    )
    evaluate(base, changed, out=tmp_path / "other")
    assert "share no question" in ku("eval", "compare", "one", "other").err


def test_figures_of_plans_are_shares_of_actions_and_ratios_to_the_response(tmp_path):
    def say(request):
        fields = request.schema["properties"] if request.schema else {}
        if "queries" in fields:
            return Reply('{"queries": ["capital of Peru"]}', {"queries": ["capital of Peru"]}, 5, 6)
        if "action" in fields:
            action = "none" if '"done": "text"' in request.messages[0].text else "text"
            return Reply(action, {"action": action}, 5, 4)
        return Reply("Lima", fields and {"reason": "", "citations": [], "answer": "Lima"}, 50, 10)

    gold = {"golden_query": "capital of Peru"}
    gold_questions = tuple(
        EvaluationQuestion(group, "What is it?", answers=("Lima",), group=group, fields=gold)
        for group in ("1-hop", "2-hop")
    )
    with KnowledgeBase.open(tmp_path / "kb", create=True, mllm=ScriptedMLLM(say)) as base:
        base.add(Unit("Peru", texts=("The capital of Peru is Lima.",)))
        options = MethodOptions(plan="parallel")
        dataset = Dataset("asked", gold_questions, ("f1",))
        run = evaluate(base, dataset, method="plan", options=options, out=tmp_path / "run")
    values = {name: figure.value for name, figure in run.figures.items()}
    assert (values["plan_actions"], values["no_search"], values["text_search"]) == (2, 0.5, 0.5)
    assert (values["plan_tokens"], values["plan_tokens_para"]) == (20, 12)
    assert (values["response_tokens"], values["plan_ratio"]) == (20, 1.0)
    assert (values["plan_ratio_para"], values["query_f1"]) == (0.6, 1.0)
    assert run.figures["plan_ratio_para"].groups == {"1-hop": 0.6, "2-hop": 0.6}
    assert run.figures["plan_ratio"].interval is None
    assert run.usage["completion_tokens"] == 2 * (20 + 20)
    [first, _] = records(tmp_path / "run")
    assert Plan.from_dict(first["prediction"]["plan"]).rounds[0].queries == ("capital of Peru",)
