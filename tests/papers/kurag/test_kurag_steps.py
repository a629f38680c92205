"""The published method alone: the parts that it uses and those that it omits."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from ku_rag import KnowledgeBase, ScriptedMLLM, Unit
from ku_rag.encoders.embedded.encoder import EmbeddedEncoder
from ku_rag.errors import BadInput
from ku_rag.papers.kurag.content_words import ContentWords, load_content_words
from ku_rag.retrieval.search import rewrite
from ku_rag.types import Relation
from tests.conftest import picture
from tests.endpoint import says, serving
from tests.papers.transcripts import check_transcript

QUESTION = "Who designed the kettle, Lumen or Oslo?"
LAMP = ("The lamp comes from Peru.", "Lumen designed it.", "It costs 20 euros.")
REPLY = {"reason": "So they say.", "changed": True, "answer": "Lumen"}


@pytest.fixture
def photo(tmp_path):
    return picture(tmp_path / "lamp.png", 3, size=(240, 160))


@pytest.fixture
def shop(tmp_path, photo):
    mllm = ScriptedMLLM(lambda request: REPLY if request.schema else "Oslo")
    options = {"create": True, "segmenter": "whole", "mllm": mllm, "k_units": 1}
    with KnowledgeBase.open(tmp_path / "kb", **options) as kb:
        kb.add(
            Unit(
                "Lamp",
                id="lamp",
                images=(photo,),
                texts=LAMP,
                relations=(Relation("designed by", "Lumen", "firm"),),
            )
        )
        kettle = picture(tmp_path / "kettle.png", 9, size=(240, 160))
        kb.add(Unit("Kettle", id="kettle", images=(kettle,), texts=("The kettle is from Oslo.",)))
        yield kb, mllm


def test_pictures_choose_units_and_cosines_rank_their_chunks(shop, photo):
    kb, _ = shop
    ours, answer = kb.query(photo, QUESTION), kb.query(photo, QUESTION, strict="kurag", k=2)
    assert "kettle" in [unit.id for unit in ours.units]
    assert [unit.id for unit in answer.units] == ["lamp"]
    encoder = EmbeddedEncoder()
    texts = kb.show("lamp").texts
    cosines = encoder.encode_texts(texts) @ encoder.encode_texts([rewrite(QUESTION, "Lamp")])[0]
    best = np.argsort(-cosines)[:2]
    assert [chunk.text for chunk in answer.chunks] == [texts[n] for n in best]
    assert [chunk.score for chunk in answer.chunks] == pytest.approx(cosines[best], abs=1e-3)
    about = "Who designed the lamp?"
    assert kb.query(photo, about).paths
    assert kb.query(photo, about, strict="kurag").paths == ()


def test_the_second_turn_shows_pages_alone(shop, photo):
    kb, mllm = shop
    answer = kb.query(photo, QUESTION, strict="kurag")
    assert (answer.draft, answer.answer, answer.citations) == ("Oslo", "Lumen", ())
    last = mllm.requests[1].messages[-1]
    assert [page.sharp for page in last.pictures] == [True]
    assert "Peru" not in last.text
    assert list(mllm.requests[1].schema["properties"]) == ["reason", "answer", "changed"]
    assert answer.models["prompts"] == "draft 1, pages 2"


@pytest.mark.parametrize(
    ("name", "options"),
    [("full", {}), ("without_kcc", {"kcc": False}), ("without_units", {"units": False})],
)
def test_transcripts_of_the_method_and_its_ablations(shop, photo, request, name, options):
    kb, mllm = shop
    answer = kb.query(photo, QUESTION, strict="kurag", **options)
    assert answer.answer == "Lumen"
    check_transcript(mllm, Path(__file__).with_name(f"transcript_{name}.txt"), request)


def test_a_passage_is_one_picture(shop, photo, tmp_path):
    kb, mllm = shop
    kb.add(Unit("Tall", id="tall", images=(photo,), texts=tuple(["word " * 300] * 9)))
    kb.query(photo, QUESTION, strict="kurag", k=9)
    assert len(mllm.requests[1].messages[-1].pictures) == 1


def test_the_passage_is_sent_in_its_size(shop, photo, tmp_path):
    kb, _ = shop
    kb.add(Unit("Tall", id="tall", images=(photo,), texts=tuple(["word " * 300] * 9)))
    passage = tmp_path / "passage.png"
    with serving(by=lambda body: says(json.dumps(REPLY))) as endpoint:
        options = {"mllm": "m", "mllm_url": endpoint.url, "k_units": 2}
        with KnowledgeBase.open(kb.path, segmenter="whole", **options) as base:
            base.query(photo, QUESTION, strict="kurag", k=9, passage=passage)
        (page,) = endpoint.pictures(1)[1:]
    with Image.open(passage) as written:
        assert page.size == written.size
    assert page.height > 2048


def test_a_chunk_stands_under_the_unit_whose_list_brought_it(shop, photo, tmp_path):
    kb, _ = shop
    kb.add(Unit("Vase", id="vase", texts=("The vase stands beside the Lamp in Oslo.",)))
    report = tmp_path / "report.html"
    answer = kb.query(photo, "What stands beside the lamp?", strict="kurag", k=1, report=report)
    assert (answer.chunks[0].owners, answer.chunks[0].unit_ids[0]) == (("vase",), "lamp")


def test_texts_of_units_that_do_not_pass_a_filter_are_left_out(shop, photo):
    kb, _ = shop
    kb.add(Unit("Vase", id="vase", texts=("The vase stands beside the Lamp.",)))
    kb.update("lamp", metadata={"tenant": "north"})
    answer = kb.query(photo, "What stands beside the lamp?", strict="kurag", k=9)
    assert "vase" in {owner for chunk in answer.chunks for owner in chunk.owners}
    answer = kb.query(photo, "What is beside it?", strict="kurag", k=9, where="tenant=north")
    assert {owner for chunk in answer.chunks for owner in chunk.owners} == {"lamp"}


def test_it_needs_a_picture_and_units(shop, photo, ku):
    kb, _ = shop
    with pytest.raises(BadInput, match="give a picture"):
        kb.query(None, QUESTION, strict="kurag")
    with pytest.raises(BadInput, match="expected one of"):
        kb.query(photo, QUESTION, strict="ku-rag")
    run = ku("query", photo, QUESTION, "--strict", "kurag", "--json")
    assert (run.code, [unit["id"] for unit in run.json["units"]]) == (0, ["lamp"])
    assert ku("query", "-", QUESTION, "--strict", "kurag").code == 1


def test_content_words_are_words_of_open_classes():
    tags = {"Who": "PRON", "designed": "VERB", "the": "DET", "red": "ADJ", "kettle": "NOUN"}
    parser = [SimpleNamespace(text=word, pos_=tag) for word, tag in tags.items()]
    parsed = ContentWords("spacy", lambda question: parser)
    assert parsed.select("Who designed the red kettle") == ["designed", "red", "kettle"]
    assert load_content_words().select("Who designed the kettle?") == ["designed", "kettle"]
