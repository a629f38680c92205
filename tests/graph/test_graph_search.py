"""Graph search from Python and from the shell, with and without a model."""

from __future__ import annotations

import json

import pytest

from ku_rag import KnowledgeBase, Relation, ScriptedMLLM, Unit
from ku_rag.errors import BadInput, NotFound
from tests.conftest import picture, write_records

QUESTION = "Which attack of Rathian continues Triple Rush?"
POISONS = "Which attack of Rathian poisons?"
FLIP = "Rathian —attack of→ Tail Flip (poisons)"
RUSH = {"head": "Rathian", "relation": "attack of", "tail": "Triple Rush"}
BITE = "Rathian —attack of→ Triple Rush —continues→ Bite (when near)"


@pytest.fixture
def folder(tmp_path):
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.add_many(
            [
                Unit(
                    "Rathian",
                    id="Rathian",
                    kind="monster",
                    images=(picture(tmp_path / "rathian.png", 2),),
                    metadata={"topic": True},
                    relations=(
                        Relation("attack of", "Rathian>Triple Rush", "attack"),
                        Relation("attack of", "Tail Flip", "attack", "poisons"),
                    ),
                ),
                Unit(
                    "Triple Rush",
                    id="Rathian>Triple Rush",
                    kind="attack",
                    relations=(Relation("continues", "Bite", "attack", None, "near"),),
                ),
            ]
        )
    return tmp_path / "kb"


def plays(request):
    """A model in every role; the fields of the reply's schema identify the role."""
    fields = set((request.schema or {}).get("properties", ()))
    text = request.messages[-1].text
    if "topic" in fields:
        return {"reason": "", "topic": "Rathian"}
    if "useful" in fields:
        return {"reason": "", "useful": ["Triple Rush" if "Tail Flip" in text else "Bite"]}
    if "enough" in fields:
        caption = {"caption": ""} if "caption" in fields else {}
        return {"reason": "", "enough": "Bite" in text} | caption
    return "Bite"


def test_without_a_model_the_embedded_agents_search(folder):
    with KnowledgeBase.open(folder, read_only=True) as kb:
        result = kb.graph.search(POISONS).to_dict()
        assert result["setting"] == "embedded"
        assert result["found"]["topic"] == "Rathian"
        assert FLIP in result["paths"]
        assert len(kb.graph.search(POISONS, most=1).to_dict()["paths"]) == 1
        assert result["usage"]["calls"] == 0
        agents = [entry["agent"] for entry in result["trace"]]
        assert agents[:2] == ["topic", "validation"]
        from_topic = kb.graph.search("Which attack continues it?", topic="Triple Rush").to_dict()
        assert from_topic["found"]["topic"] == "Triple Rush"


def test_a_picture_says_where_to_start(folder, tmp_path):
    with KnowledgeBase.open(folder, read_only=True) as kb:
        result = kb.graph.search(
            "Which attack of this poisons?", images=[tmp_path / "rathian.png"]
        ).to_dict()
    assert result["found"]["topic"] == "Rathian"
    assert FLIP in result["paths"]


def test_nothing_is_found_where_nothing_is_named(folder):
    with KnowledgeBase.open(folder, read_only=True) as kb:
        result = kb.graph.search("Which attack follows?").to_dict()
    assert (result["paths"], result["found"]["topic"]) == ([], None)
    assert "no topic entity" in result["found"]["stopped"]


def test_a_model_plays_the_agents_and_answers(folder):
    mllm = ScriptedMLLM(plays)
    with KnowledgeBase.open(folder, read_only=True, mllm=mllm) as kb:
        result = kb.graph.search(QUESTION).to_dict()
        assert (result["setting"], result["answer"]) == ("unaided-online", "Bite")
        assert result["paths"] == [BITE]
        assert result["usage"]["calls"] == len(mllm.requests) > 4
        before = len(mllm.requests)
        assert kb.graph.search(QUESTION, setting="embedded").to_dict()["answer"] == ""
        assert len(mllm.requests) == before
        assert kb.graph.search(QUESTION, perception="It runs.").to_dict()["setting"] == "perceptive"
        plain = kb.graph.search(QUESTION, setting="vanilla").to_dict()
        assert (plain["paths"], plain["found"]) == ([], None)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"question": " "}, BadInput, "the question is empty"),
        ({"question": QUESTION, "topic": "Nobody"}, NotFound, "Nobody"),
        ({"question": QUESTION, "setting": "vanilla"}, BadInput, "there is none: name one"),
        ({"question": QUESTION, "most": 0}, BadInput, "most"),
        ({"question": QUESTION, "images": ["no.png"]}, NotFound, r"no\.png"),
    ],
)
def test_what_cannot_be_searched(folder, arguments, error, message):
    with KnowledgeBase.open(folder, read_only=True) as kb, pytest.raises(error, match=message):
        kb.graph.search(**arguments)


def test_captions_are_made_once_and_kept_apart(folder, tmp_path):
    mllm = ScriptedMLLM(lambda _: "A wyvern.", model="m-1")
    with KnowledgeBase.open(folder, mllm=mllm) as kb:
        report = kb.graph.caption()
        assert (report.units_updated, report.quarantined) == (1, [])
        assert kb.graph.caption().units_updated == 0
        assert len(mllm.requests) == 1
        kb.update("Rathian", texts=["Queen of the land."])
        details = kb.graph.show("Rathian").to_dict()
        assert "A wyvern." in json.dumps(details)
        (uri,) = [
            s["uri"]
            for s in kb.show("Rathian").to_dict()["sources"]
            if s["uri"].startswith("caption")
        ]
        assert kb.verify().problems == ()
        kb.delete(uri)
        assert "A wyvern." not in json.dumps(kb.graph.show("Rathian").to_dict())
    with KnowledgeBase.open(folder) as kb, pytest.raises(NotFound, match="no model"):
        kb.graph.caption()


def test_a_topic_that_is_in_no_relation_is_searched_and_captioned(tmp_path):
    mllm = ScriptedMLLM(lambda _: "A wyvern.", model="m-1")
    with KnowledgeBase.open(tmp_path / "kb", create=True, mllm=mllm) as kb:
        images = (picture(tmp_path / "kirin.png", 3),)
        kb.add(Unit("Kirin", id="Kirin", kind="monster", images=images, metadata={"topic": True}))
        kb.add(Unit("Bazelgeuse", id="Bazelgeuse", kind="monster", metadata={"topic": True}))
        assert kb.graph.caption().units_updated == 1
        result = kb.graph.search("What is Kirin?", setting="embedded").to_dict()
        assert result["paths"] == ["Kirin"]
        assert "A wyvern." in json.dumps(kb.graph.show("Kirin").to_dict())


def test_from_the_shell(ku, folder):
    run = ku("graph", "search", POISONS, "--kb", folder)
    assert run.code == 0
    assert FLIP in run.out.splitlines()
    assert "embedded agents" in run.err
    run = ku("graph", "search", POISONS, "--json", "--kb", folder)
    assert FLIP in json.loads(run.out)["paths"]
    run = ku("graph", "caption", "--kb", folder)
    assert run.code == 1
    assert "there is no model" in run.err


def test_an_entity_is_drawn(ku, folder, tmp_path):
    run = ku("graph", "show", "Rathian", "--svg", "rathian.svg", "--hops", "2", "--kb", folder)
    assert run.code == 0
    assert "rathian.svg" in run.err
    drawn = (tmp_path / "rathian.svg").read_text(encoding="utf-8")
    assert drawn.startswith("<svg")
    assert all(name in drawn for name in ("Rathian", "Triple Rush", "Bite", "continues"))
    assert ku("graph", "show", "Rathian", "--svg", "rathian.txt", "--kb", folder).code == 2
    with KnowledgeBase.open(folder, read_only=True) as kb:
        with pytest.raises(BadInput, match=r"\.svg"):
            kb.graph.draw("Rathian", tmp_path / "rathian.txt")
        with pytest.raises(NotFound, match="Nobody"):
            kb.graph.draw("Nobody", tmp_path / "nobody.svg")
    assert not (tmp_path / "nobody.svg").exists()


def test_a_unit_whose_last_text_goes_stays_while_relations_start_there(tmp_path):
    bare = write_records(tmp_path / "a.jsonl", [{"entity": "Rathian"}, RUSH])
    described = write_records(
        tmp_path / "b.jsonl", [{"id": "Rathian", "name": "Rathian", "text": "Old."}]
    )
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.graph.import_file(bare)
        kb.ingest(described)
        (uri,) = [s.uri for s in kb.show("Rathian").sources if "b.jsonl" in s.uri]
        assert kb.delete(uri).to_dict()["units"] == []
        assert [relation.relation for relation in kb.show("Rathian").relations] == ["attack of"]
        kb.graph.delete(relation=("Rathian", "attack of", "Triple Rush"))
        assert kb.verify().problems == ()
