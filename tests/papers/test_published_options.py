"""Options of a query that published methods do not use, models that they need, and their pages."""

from __future__ import annotations

import pytest
from PIL import Image

from ku_rag import KnowledgeBase, ScriptedMLLM, Unit
from ku_rag.errors import BadInput, NotFound
from ku_rag.evaluation import evaluate
from ku_rag.evaluation.methods import MethodOptions
from ku_rag.papers.graphrag.construction_settings import EvidenceSettings
from tests.conftest import picture

QUESTION = "Who designed the lamp?"
SET = {
    "k": 3,
    "passage": "page.png",
    "kcc": False,
    "units": False,
    "graph": False,
    "method": "evidence",
    "construction": EvidenceSettings(),
    "plan": "parallel",
    "searchers": ("web",),
    "kind": "lamp",
    "where": ("price<3",),
    "unit": "lamp",
}
UNUSED = {
    "kurag": {"graph", "method", "construction", "plan", "searchers", "unit"},
    "mhmmkg": SET.keys(),
    "graphrag": {"passage", "kcc", "units", "graph", "method", "plan", "searchers"},
    "cogplanner": {"passage", "kcc", "units", "graph", "method", "construction", "unit"},
}


@pytest.fixture
def shop(tmp_path):
    photo = picture(tmp_path / "lamp.png", 3)
    with KnowledgeBase.open(tmp_path / "kb", create=True, segmenter="whole") as kb:
        kb.add(Unit("Lamp", id="lamp", images=(photo,), texts=("Lumen designed it.",)))
        yield kb, photo


@pytest.mark.parametrize(
    ("strict", "option"), [(strict, name) for strict in UNUSED for name in sorted(UNUSED[strict])]
)
def test_an_option_without_effect_is_refused(shop, strict, option):
    kb, photo = shop
    words = f"{option}=False (--no-{option})" if SET[option] is False else option
    with pytest.raises(BadInput) as refused:
        kb.query(photo, QUESTION, strict=strict, **{option: SET[option]})
    assert str(refused.value) == f"strict='{strict}' does not use {words}: leave it out"


@pytest.mark.parametrize("strict", ["mhmmkg", "graphrag", "cogplanner"])
def test_a_missing_model_is_noticed_first(shop, strict, tmp_path):
    kb, photo = shop
    with pytest.raises(NotFound, match=f"strict='{strict}' asks a model: name one with --mllm"):
        next(kb.query_events(photo, QUESTION, strict=strict))
    questions = tmp_path / "questions.jsonl"
    questions.write_text('{"question": "Who designed it?"}', encoding="utf-8")
    with pytest.raises(NotFound, match=f"the method {strict} asks a model"):
        evaluate(kb, questions, options=MethodOptions(strict=strict))


def test_an_evaluation_refuses_options_before_the_first_question(shop, tmp_path):
    questions = tmp_path / "questions.jsonl"
    questions.write_text('{"question": "Who designed it?"}', encoding="utf-8")
    with pytest.raises(BadInput, match="does not use graph=False"):
        evaluate(shop[0], questions, options=MethodOptions(strict="kurag", graph=False))
    for method, option in (("plan", "plan"), ("fixed-text", "graph"), ("evidence", "construction")):
        with pytest.raises(BadInput, match=f"does not use .*{option}"):
            evaluate(shop[0], questions, method=method, options=MethodOptions(strict="kurag"))


def test_a_method_without_pages_composes_none(shop):
    kb, photo = shop
    replies = iter(
        [
            {"reason": "Clear.", "queries": [QUESTION], "clear": True},
            {"reason": "Texts say so.", "action": "text"},
            {"reason": "Clear.", "queries": [QUESTION], "clear": True},
            {"reason": "Enough.", "action": "none"},
            {"reason": "It says so.", "answer": "Lumen"},
        ]
    )
    mllm = ScriptedMLLM(lambda request: next(replies))
    with KnowledgeBase.open(kb.path, segmenter="whole", mllm=mllm) as base:
        answer = base.query(photo, QUESTION, strict="cogplanner")
    assert answer.answer == "Lumen"
    assert "passage" not in answer.timings_ms


def test_without_units_the_passage_shows_the_texts(shop, tmp_path):
    kb, photo = shop
    page = tmp_path / "page.png"
    answer = kb.query(photo, QUESTION, strict="kurag", units=False, passage=page)
    assert answer.passage == (str(page),)
    with Image.open(page) as written:
        assert written.width == 772
