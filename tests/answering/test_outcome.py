"""The outcome of a question, the owners of chunks, and the numbers of units and chunks."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from ku_rag import BadInput, KnowledgeBase, NotFound, Relation, ScriptedMLLM, Unit
from ku_rag.evaluation import evaluate
from tests.conftest import write_records
from tests.serve.conftest import serving

ORIGIN = "Where does it come from?"


def blocks(seed: int) -> Image.Image:
    grid = np.random.default_rng(seed).integers(0, 256, (3, 4, 3), dtype=np.uint8)
    return Image.fromarray(grid).resize((120, 90), Image.Resampling.NEAREST)


@pytest.fixture(scope="module")
def lamps(tmp_path_factory):
    """A base of twelve lamps, each with a picture and a text."""
    folder = tmp_path_factory.mktemp("lamps")
    units = []
    for number in range(12):
        file = folder / f"{number}.png"
        blocks(number).save(file)
        text = f"Lamp {number} is a lamp of brass.\nOrigin: Land {number}"
        units.append(Unit(f"Lamp {number}", id=str(number), texts=(text,), images=(file,)))
    units[0] = Unit(
        "Lamp 0",
        id="0",
        texts=units[0].texts,
        images=units[0].images,
        relations=(Relation("hangs beside", "Lamp 1"),),
    )
    with KnowledgeBase.open(folder / "kb", create=True) as kb:
        kb.add_many(units)
        yield kb


@pytest.fixture
def opened(lamps):
    """Returns a function that opens the base of lamps with settings."""
    bases = []

    def open_base(**settings):
        bases.append(KnowledgeBase.open(lamps.path, **settings))
        return bases[-1]

    yield open_base
    for base in bases:
        base.close()


def verdict(answer, *citations):
    reply = {"reason": "It says so.", "citations": [*citations], "answer": answer}
    return reply | {"changed": True}


def photo(lamps, number=3):
    return lamps.path.parent / f"{number}.png"


# ---- without a model ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "options", "outcome"),
    [
        (ORIGIN, {}, "answered"),
        (ORIGIN, {"plan": "sequential"}, "answered"),
        (ORIGIN, {"method": "evidence"}, "answered"),
        ("What is this?", {"strict": "kurag"}, "answered"),
        ("Who stole it?", {}, "not_found"),
        ("Who stole it?", {"plan": "parallel"}, "not_found"),
        ("Who stole it?", {"method": "evidence"}, "not_found"),
        ("Who stole it?", {"units": False}, "not_found"),
        (ORIGIN, {"kind": "river"}, "not_found"),
    ],
)
def test_a_picture_that_is_recognised(lamps, question, options, outcome):
    answer = lamps.query(photo(lamps), question, **options)
    assert (answer.outcome, answer.to_dict()["outcome"]) == (outcome, outcome)
    assert bool(answer.answer) == (outcome == "answered")


@pytest.mark.parametrize("options", [{}, {"plan": "sequential"}, {"method": "evidence"}])
def test_a_picture_below_the_threshold_has_candidates(lamps, opened, options):
    answer = opened(confidence_threshold=1.0).query(photo(lamps), ORIGIN, **options)
    assert (answer.outcome, answer.answer, answer.units[0].id) == ("unsure", "", "3")


def test_a_chosen_unit_answers_whatever_the_picture_shows(lamps, opened, ku):
    kb = opened(confidence_threshold=1.0)
    for unit in kb.query(photo(lamps), ORIGIN).units[:3]:
        answer = kb.query(photo(lamps), ORIGIN, unit=unit.id)
        assert (answer.answer, answer.units[0].id) == (f"Land {unit.id}", unit.id)
    run = ku(
        "query", "-", "Which lamp does it hang beside?", "--unit", "Lamp 0", "--kb", lamps.path
    )
    assert run.out.startswith("Lamp 1\n")
    assert "the question was asked about it" in run.out
    answer = kb.query(None, "Does Lamp 7 come from there?", unit="3")
    assert [match.id for match in answer.units] == ["3", "7"]


def test_a_unit_cannot_be_chosen_where_nothing_is_matched(lamps):
    with pytest.raises(NotFound, match="there is no unit 'Lamp'"):
        lamps.query(None, ORIGIN, unit="Lamp")
    with pytest.raises(BadInput, match="strict='kurag' does not use unit: leave it out"):
        lamps.query(photo(lamps), ORIGIN, unit="3", strict="kurag")
    for options in ({"method": "model-only"}, {"units": False}):
        with pytest.raises(BadInput, match="leave out"):
            lamps.query(photo(lamps), ORIGIN, unit="3", **options)
    for unit in ("3", "Lamp 3", "Lamp"):
        with pytest.raises(NotFound, match=f"^no unit '{unit}' passes the filter"):
            lamps.query(None, ORIGIN, unit=unit, kind="river")
    with pytest.raises(BadInput, match="plan cannot be combined"):
        lamps.query(None, ORIGIN, unit="3", plan="sequential")


def test_an_unsure_command_says_how_to_choose(lamps, ku, monkeypatch):
    monkeypatch.setenv("KU_CONFIDENCE_THRESHOLD", "1")
    picture = str(photo(lamps))
    run = ku("query", picture, ORIGIN, "--kb", lamps.path)
    assert "ask with --unit ID: 3, " in run.out


def test_a_name_in_the_question_is_sure(lamps, opened):
    kb = opened(confidence_threshold=1.0)
    assert kb.query(photo(lamps), "Where does Lamp 5 come from?").outcome == "answered"
    assert kb.query(photo(lamps), "Who stole Lamp 5?").outcome == "not_found"


def test_a_picture_that_matches_nothing_is_not_found(lamps, tmp_path):
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        assert kb.query(None, "What is a lamp?").outcome == "not_found"
        kb.add(Unit("Note", texts=("It is a note.",)))
        answer = kb.query(photo(lamps), ORIGIN)
    assert (answer.outcome, answer.units) == ("not_found", ())


def test_the_closest_sentence_is_no_answer(lamps):
    answer = lamps.query(None, "Who polished Lamp 4 of brass?")
    assert answer.reading.closest
    assert (answer.outcome, answer.answer) == ("not_found", "")


# ---- with a model ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("replies", "options", "outcome"),
    [
        (["Land 3", verdict("Land 3", "E1")], {}, "answered"),
        (["Peru", verdict("Land 3", "E1")], {}, "answered"),
        (["Peru", verdict("Land 3", "E99")], {}, "answered"),
        (["Peru", verdict("")], {}, "refused"),
        ([verdict("")], {"kcc": False}, "refused"),
        (["A lamp.", "Peru", verdict("")], {"units": False}, "refused"),
        (["Peru"], {"method": "model-only"}, "answered"),
        ([""], {"method": "model-only"}, "refused"),
    ],
)
def test_a_model_answers_or_refuses(lamps, opened, replies, options, outcome):
    kb = opened(mllm=ScriptedMLLM(replies), confidence_threshold=1.0, identify=False)
    answer = kb.query(photo(lamps), ORIGIN, **options)
    assert answer.outcome == outcome
    assert bool(answer.answer) == (outcome == "answered")


# ---- output ------------------------------------------------------------------------------------


def test_the_command_prints_the_outcome(lamps, ku):
    command = ("query", photo(lamps), ORIGIN, "--kb", lamps.path)
    assert ku(*map(str, command), "--json").json["outcome"] == "answered"
    stolen = ("query", "-", "Who stole Lamp 5?", "--kb", lamps.path)
    assert ku(*map(str, stolen)).out.startswith("No answer was found in the knowledge base.\n")


def test_a_command_names_three_units_and_counts_the_rest(lamps, ku):
    run = ku("query", str(photo(lamps)), ORIGIN, "--kb", str(lamps.path))
    assert run.out.count("\n  unit: ") == 3
    assert "and 7 more units" in run.out


def test_pages_reports_and_chat_say_that_a_match_is_unsure(lamps, opened, tmp_path):
    kb = opened(confidence_threshold=1.0)
    report = tmp_path / "why.html"
    kb.query(photo(lamps), ORIGIN, report=report)
    assert "It may be one of the matched units." in report.read_text("utf-8")
    picture = {"image": ("a.png", photo(lamps).read_bytes()), "question": (None, ORIGIN)}
    with serving(kb) as client:
        assert client.post("/v1/query", files=picture).json()["outcome"] == "unsure"
        chosen = client.post("/v1/query", files=picture | {"unit": (None, "Lamp 5")}).json()
        assert (chosen["outcome"], chosen["answer"]) == ("answered", "Land 5")
        assert (
            "<h2>It may be one of the matched units.</h2>" in client.post("/", files=picture).text
        )
        request = {"model": "default", "messages": [{"role": "user", "content": "Who is Eve?"}]}
        reply = client.post("/v1/chat/completions", json=request).json()
    assert reply["ku"]["outcome"] == "not_found"
    message = reply["choices"][0]["message"]["content"]
    assert message == "No answer was found in the knowledge base."


def test_a_run_counts_outcomes(lamps, tmp_path):
    questions = [
        {"question": "Where does Lamp 5 come from?", "answers": ["Land 5"]},
        {"question": "Who stole Lamp 5?", "answers": []},
        {"question": ORIGIN, "image": "missing.png"},
    ]
    file = write_records(tmp_path / "asked.jsonl", questions)
    run = evaluate(lamps, file, out=tmp_path / "run")
    assert [record["outcome"] for record in run.records] == ["answered", "not_found", ""]
    assert run.outcomes == {"answered": 1, "unsure": 0, "not_found": 1, "refused": 0}
    assert run.records[0]["evidence"][0]["owners"] == ["5"]
    assert "1 not found" in " ".join((tmp_path / "run" / "report.html").read_text("utf-8").split())


def test_a_graph_search_states_an_answer_only_by_a_model(lamps, opened):
    answer = lamps.graph.search("What does Lamp 0 hang beside?")
    assert (answer.paths[0].text, answer.to_dict()["outcome"]) == (
        "Lamp 0 —hangs beside→ Lamp 1",
        "not_found",
    )
    kb = opened(mllm=ScriptedMLLM(["Lamp 1"]))
    answer = kb.graph.search("What hangs there?", setting="vanilla")
    assert answer.to_dict()["outcome"] == "answered"


# ---- owners ------------------------------------------------------------------------------------


@pytest.fixture
def rivers(tmp_path):
    shared = tmp_path / "folder"
    (shared / "Mill Bridge").mkdir(parents=True)
    (shared / "Oker").mkdir()
    (shared / "Mill Bridge" / "a.txt").write_text("It was built over the Oker in 1901.")
    (shared / "Oker" / "b.txt").write_text("The Oker is 128 km long.")
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.ingest(shared)
        yield kb


def test_owners_come_first_and_a_named_unit_does_not_own(rivers):
    question = "When was something built over the Oker?"
    for result in (rivers.query(None, question), rivers.search(text=question)):
        chunks = {chunk["text"]: chunk for chunk in result.to_dict()["chunks"]}
        bridge = chunks["It was built over the Oker in 1901."]
        assert bridge["owners"] == ["Mill Bridge"]
        assert bridge["unit_ids"] == ["Mill Bridge", "Oker"]
        assert chunks["The Oker is 128 km long."]["owners"] == ["Oker"]


def test_owners_are_in_responses_pages_and_plans(rivers):
    question = "When was something built over the Oker?"
    with serving(rivers) as client:
        chunks = client.post("/v1/search", json={"text": question}).json()["chunks"]
        page = client.post("/", files={"question": (None, question)}).text
    assert {chunk["owners"][0] for chunk in chunks} == {"Mill Bridge", "Oker"}
    text = " ".join(page.split())
    assert '<a href="/units/Mill%20Bridge">Mill Bridge</a> <small>' in text
    assert 'names <a href="/units/Oker">Oker</a>' in text
    hits = rivers.plan(None, question).rounds[0].searches[0].hits
    assert {hit.owners for hit in hits} == {("Mill Bridge",), ("Oker",)}


# ---- numbers -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "units", "chunks"),
    [({}, 10, 10), ({"k": 2}, 2, 2), ({"k": 12}, 12, 12), ({"strict": "kurag"}, 3, 3)],
)
def test_k_bounds_units_and_chunks(lamps, options, units, chunks):
    answer = lamps.query(photo(lamps), ORIGIN, **options)
    assert (len(answer.units), len(answer.chunks)) == (units, chunks)
    assert answer.units[0].id == "3"


def test_settings_bound_them_where_k_is_not_given(lamps, opened):
    answer = opened(k_units=4, k_chunks=5).query(photo(lamps), ORIGIN)
    assert (len(answer.units), len(answer.chunks)) == (4, 5)
