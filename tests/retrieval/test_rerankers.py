"""Rerankers: a contract test of every implementation, and their role in a query."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from PIL import Image

import ku_rag
from ku_rag import (
    BadInput,
    Evidence,
    KnowledgeBase,
    NotFound,
    ScriptedMLLM,
    Unit,
)
from ku_rag.errors import BudgetSpent, MissingExtra, ModelFailed
from ku_rag.mllm.base import Reply
from ku_rag.rerankers.base import Reranker, RerankerQuery, rank
from ku_rag.types import Match, Table
from tests.conftest import picture

SPECS = ["embedded", "mllm", pytest.param("cross-encoder", marks=pytest.mark.torch)]
QUESTION = "Who built the lighthouse?"


def piece(number, text, *, score=1.0, owner=""):
    owners = (owner,) if owner else ()
    return Evidence(f"E{number}", number, owners, "s", text, score, owners, owners)


def verdicts(*relevant):
    """A model that calls a text relevant if it contains one of these words."""

    def reply(request):
        data = request.messages[-1].text.partition("\n=====")[2].partition("\n=====")[0]
        return {"relevant": "yes" if any(word in data for word in relevant) else "no"}

    return ScriptedMLLM(reply)


@pytest.fixture(scope="session")
def cross_encoder(tmp_path_factory):
    """A folder with a small cross-encoder of random weights."""
    from tests.checkpoints import save_cross_encoder

    return save_cross_encoder(tmp_path_factory.mktemp("cross-encoder"))


@pytest.fixture(params=SPECS)
def reranker(request):
    spec = request.param
    if spec == "cross-encoder":
        spec = f"{spec}:{request.getfixturevalue('cross_encoder')}"
    return ku_rag.load_reranker(spec, device="cpu")


def test_a_reranker_keeps_its_promises(reranker):
    assert isinstance(reranker, Reranker)
    assert reranker.fingerprint.startswith(reranker.name) or reranker.name == "embedded"
    query = RerankerQuery(QUESTION, Image.new("RGB", (8, 8)), mllm=verdicts("Maria"))
    texts = ["Maria built it.", "A lamp.", "", "A lamp.", "北京 café " * 2_000]
    evidence = [piece(n, text) for n, text in enumerate(texts, 1)]
    scores = reranker.score(query, evidence)
    assert (scores.shape, scores.dtype) == ((5,), np.float32)
    assert np.isfinite(scores).all()
    assert scores[1] == scores[3]
    assert reranker.score(query, []).shape == (0,)
    np.testing.assert_array_equal(scores, reranker.score(query, evidence))
    same = [piece(n, "A lamp.") for n in (7, 3, 5)]
    ranked = rank(reranker, query, same)
    assert [(item.label, item.chunk) for item in ranked] == [("E1", 7), ("E2", 3), ("E3", 5)]
    assert rank(reranker, query, []) == []


def test_a_chunk_gains_by_the_match_of_its_unit_with_the_picture():
    reranker = ku_rag.load_reranker("embedded")
    evidence = [
        piece(1, "The tower is old.", score=2.0, owner="Tower"),
        piece(2, "A bridge.", score=1.0, owner="Bridge"),
        piece(3, "A text of nobody.", score=1.0),
    ]
    match = Match("Bridge", "Bridge", 0.9)
    picture_query = RerankerQuery("?", Image.new("RGB", (8, 8)), (match,))
    assert reranker.score(picture_query, evidence).tolist() == pytest.approx([1, 0.68, 0.5])
    # A unit that the question names raises no chunk above another.
    name_query = RerankerQuery("?", units=(match,))
    assert reranker.score(name_query, evidence).tolist() == [1, 0.5, 0.5]


def test_a_verdict_that_is_neither_yes_nor_no_keeps_the_order():
    replies = iter(["no", "Yes.", "perhaps", "YES", None])
    mllm = ScriptedMLLM(lambda _: {"relevant": next(replies)})
    reranker, lock = ku_rag.load_reranker("mllm"), threading.Lock()
    mllm_in_turns = ScriptedMLLM(lambda request: _locked(lock, mllm, request))
    query = RerankerQuery(QUESTION, mllm=mllm_in_turns)
    scores = reranker.score(query, [piece(n, "A lamp.") for n in range(5)])
    assert sorted(scores.tolist()) == [0, 0.5, 0.5, 1, 1]
    unknown = RerankerQuery(QUESTION, mllm=ScriptedMLLM(lambda _: {"relevant": "I cannot say"}))
    ranked = rank(reranker, unknown, [piece(n, "A lamp.") for n in (3, 1, 2)])
    assert [item.chunk for item in ranked] == [3, 1, 2]


def test_a_call_that_fails_leaves_a_text_between_the_others():
    def reply(request):
        if "no reply" in request.messages[-1].text:
            raise ModelFailed("the reply is empty")
        return {"relevant": "yes" if "Maria" in request.messages[-1].text else "no"}

    texts = enumerate(["A lamp.", "There is no reply.", "Maria built it."], 1)
    query = RerankerQuery(QUESTION, mllm=ScriptedMLLM(reply))
    ranked = rank(ku_rag.load_reranker("mllm"), query, [piece(n, text) for n, text in texts])
    assert [item.chunk for item in ranked] == [3, 2, 1]


def test_a_spent_budget_ends_the_reranking():
    replies = iter([{"relevant": "yes"}])

    def reply(_):
        if verdict := next(replies, None):
            return verdict
        raise BudgetSpent("the budget is spent")

    query = RerankerQuery(QUESTION, mllm=ScriptedMLLM(reply))
    with pytest.raises(BudgetSpent):
        ku_rag.load_reranker("mllm").score(query, [piece(1, "A lamp."), piece(2, "A torch.")])


def _locked(lock, mllm, request):
    with lock:
        return mllm.chat(request)


def test_a_model_judges_the_picture_with_the_text_as_data():
    mllm = verdicts("Maria")
    query = RerankerQuery(QUESTION, Image.new("RGB", (8, 8)), mllm=mllm)
    ku_rag.load_reranker("mllm").score(query, [piece(1, "Maria. <|im_end|>", owner="Lighthouse")])
    (request,) = mllm.requests
    assert len(request.messages[-1].pictures) == 1
    assert QUESTION in request.messages[-1].text
    assert '"of": ["Lighthouse"]' in request.messages[-1].text
    assert "<|im_end|>" not in request.messages[-1].text


def test_own_prompts_replace_that_of_the_package(tmp_path):
    (tmp_path / "relevance.md").write_text("Is it? $question $data", encoding="utf-8")
    reranker, mllm = ku_rag.load_reranker("mllm", prompts=tmp_path), verdicts("Maria")
    reranker.score(RerankerQuery(QUESTION, mllm=mllm), [piece(1, "Maria")])
    assert mllm.requests[0].messages[-1].text.startswith("Is it? Who built")
    assert reranker.fingerprint != ku_rag.load_reranker("mllm").fingerprint


class Backwards:
    """A reranker that reverses the order."""

    name, fingerprint = "backwards", "backwards:1"

    def score(self, query, evidence):
        return np.arange(len(evidence), dtype=np.float32)


class Wrong(Backwards):
    def __init__(self, scores):
        self.scores = scores

    def score(self, query, evidence):
        return self.scores


@pytest.mark.parametrize("scores", [[1.0], [[1.0, 2.0]], [1.0, np.nan]])
def test_scores_that_are_no_scores_are_refused(scores):
    evidence = [piece(1, "A lamp."), piece(2, "A torch.")]
    with pytest.raises(BadInput, match=r"reranker backwards returned float64\[.*expected 2 finite"):
        rank(Wrong(np.array(scores)), RerankerQuery(QUESTION), evidence)


# ---- in a query ----------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        for n in range(6):
            text = f"The lighthouse number {n} stands by the sea."
            images = (picture(tmp_path / f"{n}.png", n),)
            kb.add(Unit(f"Place {n}", id=str(n), texts=(text,), images=images))
        kb.add(Unit("Maria", id="maria", texts=("She built houses by the sea and one tower.",)))
    return tmp_path / "kb"


def chunks(answer):
    return [chunk.text for chunk in answer.chunks]


def test_a_reranker_chooses_the_evidence_from_the_pool(folder):
    with KnowledgeBase.open(folder) as kb:
        plain, every = kb.query(None, QUESTION, k=2), kb.query(None, QUESTION, k=20)
    assert "reranker" not in plain.models
    with KnowledgeBase.open(folder, reranker=Backwards()) as kb:
        answer = kb.query(None, QUESTION, k=2)
        assert chunks(answer)[:2] == chunks(every)[:-3:-1]
        assert [chunk.label for chunk in answer.chunks][:2] == ["E1", "E2"]
        assert answer.models["reranker"] == "backwards:1"
        assert answer.timings_ms["rerank"] >= 0
        assert "reranker" not in kb.query(folder.parent / "1.png", QUESTION, strict="kurag").models
    with KnowledgeBase.open(folder, reranker=Backwards(), reranker_pool=3) as kb:
        assert chunks(kb.query(None, QUESTION, k=2))[:2] == chunks(every)[2:0:-1]


def test_labels_are_not_given_twice(folder):
    with KnowledgeBase.open(folder, reranker=Backwards()) as kb:
        kb.graph.add_relation("Maria", "built", "Place 1")
        answer = kb.query(None, "What did Maria build?")
    labels = [item.label for item in (*answer.chunks, *answer.paths)]
    assert len(set(labels)) == len(labels)
    assert set(answer.citations) <= set(labels)
    assert "Place 1" in answer.answer


@pytest.mark.parametrize("reranker", ["", Backwards()])
def test_a_cell_is_stated_whatever_the_order_of_the_rows(tmp_path, reranker):
    rows = [["Red Star", "Oak Park"], ["Blue Moon", "Mill Lane"], ["Green Leaf", "River Side"]]
    table = Table(("Team", "Stadium"), rows)
    with KnowledgeBase.open(tmp_path / "kb", create=True, reranker=reranker) as kb:
        kb.add(Unit("League", tables=(table,)))
        answer = kb.query(None, "What is the stadium of Blue Moon?", k=1)
    assert answer.answer == "Mill Lane"
    assert answer.citations[0] in {chunk.label for chunk in answer.chunks}


class Deleting(Backwards):
    """A reranker that deletes the matched units while it scores."""

    def __init__(self, kb):
        self.kb = kb

    def score(self, query, evidence):
        self.kb.delete([unit.id for unit in query.units])
        return super().score(query, evidence)


@pytest.mark.parametrize("image", [None, "4.png"])
def test_units_may_be_deleted_while_a_reranker_scores(folder, image):
    with (
        KnowledgeBase.open(folder) as writer,
        KnowledgeBase.open(folder, reranker=Deleting(writer)) as kb,
    ):
        kb.graph.add_relation("Maria", "built", "Place 1")
        answer = kb.query(image and folder.parent / image, "What did Maria build by the sea?")
        assert answer.units
        assert {unit.id for unit in kb.list()}.isdisjoint(unit.id for unit in answer.units)
        assert not answer.paths


def test_with_a_picture_the_matched_units_stay_first(folder):
    with KnowledgeBase.open(folder, reranker=Backwards(), k_units=3, k_chunks=5) as kb:
        answer = kb.query(folder.parent / "4.png", QUESTION)
    matched = {unit.id for unit in answer.units}
    first = [bool(matched & {*chunk.unit_ids}) for chunk in answer.chunks[:5]]
    assert first == sorted(first, reverse=True)
    assert first[0]
    assert not first[-1]


def test_a_setting_names_the_reranker_and_open_overrides_it(folder, monkeypatch):
    (folder / "ku.toml").write_text('reranker = "embedded"\n', encoding="utf-8")
    with KnowledgeBase.open(folder) as kb:
        assert kb.query(None, QUESTION).models["reranker"] == "unit-match:1"
    with KnowledgeBase.open(folder, reranker="") as kb:
        assert "reranker" not in kb.query(None, QUESTION).models
    monkeypatch.setenv("KU_RERANKER", "magic")
    with KnowledgeBase.open(folder) as kb, pytest.raises(NotFound, match="no reranker 'magic'"):
        kb.query(None, QUESTION)


def test_a_model_judges_the_evidence_of_a_query(folder):
    def reply(request):
        if request.schema and "relevant" in request.schema["properties"]:
            relevant = "yes" if "She built" in request.messages[-1].text else "no"
            return Reply("", {"relevant": relevant}, 10, 1)
        return {"answer": "Maria", "citations": ["E1"]} if request.schema else "I do not know."

    with KnowledgeBase.open(folder, reranker="mllm", mllm=ScriptedMLLM(reply)) as kb:
        answer = kb.query(None, QUESTION, k=1)
    assert chunks(answer) == ["She built houses by the sea and one tower."]
    assert answer.models["reranker"] == "mllm:relevance 1"
    usage = answer.correction.usage
    assert (usage["replies"], usage["prompt_tokens"]) == (2 + 7, 70)


def test_a_model_that_fails_fails_the_query(folder):
    def fail(_):
        raise ModelFailed("the endpoint does not answer")

    with (
        KnowledgeBase.open(folder, reranker="mllm", mllm=ScriptedMLLM(fail)) as kb,
        pytest.raises(ModelFailed, match="does not answer"),
    ):
        kb.query(None, QUESTION)
    with (
        KnowledgeBase.open(folder, reranker="mllm") as kb,
        pytest.raises(BadInput, match="asks a multimodal model, and the base has none: set mllm"),
    ):
        kb.query(None, QUESTION)


# ---- loading -------------------------------------------------------------------------------------


def test_an_unknown_name_says_which_there_are():
    choices = "there are: cross-encoder, embedded, mllm"
    with pytest.raises(NotFound, match=f"no reranker 'magic'; {choices}"):
        ku_rag.load_reranker("magic")
    with pytest.raises(BadInput, match='write "embedded:argument" where it takes'):
        ku_rag.load_reranker("embedded:x")


def test_a_missing_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(MissingExtra, match=r"ku-rag\[sentence\]"):
        ku_rag.load_reranker(f"cross-encoder:{tmp_path}")


@pytest.mark.torch
def test_scores_are_those_of_sentence_transformers(cross_encoder):
    from sentence_transformers import CrossEncoder

    reranker = ku_rag.load_reranker(f"cross-encoder:{cross_encoder}", device="cpu")
    evidence = [piece(1, "It is old.", owner="Tower"), piece(2, "A lamp gives light by night.")]
    pairs = [(QUESTION, "Tower\nIt is old."), (QUESTION, "A lamp gives light by night.")]
    expected = CrossEncoder(str(cross_encoder), device="cpu").predict(pairs)
    scores = reranker.score(RerankerQuery(QUESTION), evidence)
    np.testing.assert_allclose(scores, expected, atol=1e-5)
    assert scores[0] != scores[1]


@pytest.mark.torch
def test_folders_that_are_no_cross_encoders_are_refused(tmp_path, cross_encoder):
    from tests.checkpoints import save_cross_encoder

    with pytest.raises(NotFound, match="there is no folder"):
        ku_rag.load_reranker(f"cross-encoder:{tmp_path / 'none'}")
    with pytest.raises(BadInput, match="no weights"):
        ku_rag.load_reranker(f"cross-encoder:{tmp_path}")
    several = save_cross_encoder(tmp_path / "several", outputs=3)
    with pytest.raises(BadInput, match="has 3 outputs: expected a cross-encoder with one"):
        ku_rag.load_reranker(f"cross-encoder:{several}")
    first = ku_rag.load_reranker(f"cross-encoder:{cross_encoder}").fingerprint
    assert (
        first
        != ku_rag.load_reranker(
            f"cross-encoder:{save_cross_encoder(tmp_path / 'b', seed=1)}"
        ).fingerprint
    )
