"""Search for chunks and units by words, names and pictures."""

from __future__ import annotations

import time

import numpy as np
import pytest
from PIL import Image

from ku_rag import BadInput, Relation, Unit
from ku_rag.indexes import keywords
from ku_rag.ingest import unit_resolution
from ku_rag.retrieval.names import ClueWord, parted
from ku_rag.retrieval.search import rewrite
from tests.conftest import picture


def best_text(kb, text):
    return [chunk.text for chunk in kb.search(text=text, k=5).chunks][:1]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("我们住在北京的郊区。", "北京"),
        ("我们住在北京的郊区。", "京"),
        ("The Café on the corner.", "cafe"),
        ("A CAFE on the hill.", "Café"),
        ("Die Straße ist lang.", "STRASSE"),
        ("東京タワーは高い。", "タワー"),
        ("서울은 크다", "서울"),
    ],
)
def test_words_are_found_across_scripts_case_and_diacritics(kb, text, query):
    kb.add(Unit("one", id="1", texts=(text,)))
    kb.add(Unit("two", id="2", texts=("Something else entirely, 上海 and tea.",)))
    assert keywords.term_scores(kb._database.connection, query).rows.tolist() == [1]
    assert best_text(kb, query) == [text]


def test_rare_words_weigh_more_than_common_ones(kb):
    for n in range(8):
        kb.add(Unit(f"Unit {n}", id=str(n), texts=(f"A common sentence number {n}.",)))
    kb.add(Unit("Odd", id="odd", texts=("A common quokka.",)))
    matches = keywords.term_scores(kb._database.connection, "common quokka")
    scores = dict(zip(matches.rows.tolist(), matches.scores.sum(0).tolist(), strict=True))
    assert max(scores, key=scores.__getitem__) == 9
    assert scores[9] > scores[1] == scores[2] > 0


def test_the_words_of_a_unit_with_many_chunks_are_looked_up_in_one_go(kb, rounds):
    """Looking the chunks of one unit up one by one would take minutes."""
    many = rounds(6_000, 20_000)
    kb.add(Unit("a", id="a", texts=tuple(f"a lamp burns oil {n}" for n in range(many))))
    kb.add(Unit("b", id="b", texts=("a torch burns wood 0", "a torch burns wood 1")))
    connection = kb._database.connection
    units = [row for (row,) in connection.execute("SELECT row FROM units ORDER BY row")]
    started = time.process_time()
    assert keywords.units_with(connection, "lamp", units) == {units[0]}
    assert keywords.units_with(connection, "burns", units) == set(units)
    assert keywords.count_units_with(connection, "burns") == 2
    assert len(list(keywords.chunks_with_all(connection, ["lamp oil"]))) == many
    assert time.process_time() - started < many / 4_000


def test_very_common_words_count_where_there_are_rarer_ones(kb, monkeypatch):
    texts = tuple(f"A common sentence number {n}." for n in range(9))
    texts += ("A rare sentence.", "A quokka.", "A quokka in a sentence of the same length.")
    kb.add(Unit("Many", id="many", texts=texts))
    connection = kb._database.connection
    monkeypatch.setattr(keywords, "_LARGE", 5)
    terms = keywords.term_scores(connection, "sentence quokka")
    assert terms.rows.tolist() == [11, 12]
    (of_quokka, of_sentence) = terms.scores
    assert of_quokka.all()
    assert of_sentence[0] == 0 < of_sentence[1]
    # If all words are common, the rarest one selects.
    assert len(keywords.term_scores(connection, "common sentence").rows) == 9
    assert len(keywords.term_scores(connection, "absent sentence").rows) == 11
    among = np.array([3, 12], np.int64)
    assert keywords.term_scores(connection, "sentence quokka", among=among).rows.tolist() == [12]
    # If very many chunks contain even the rarest word, the first chunks with all words are scored.
    monkeypatch.setattr(keywords, "_MOST_READ", 5)
    terms = keywords.term_scores(connection, "common sentence")
    assert terms.rows.tolist() == [1, 2, 3, 4, 5]
    assert terms.scores.all()
    assert len(keywords.term_scores(connection, "absent common sentence").rows) == 5


def test_a_whole_word_is_not_the_beginning_of_another(kb):
    kb.add(Unit("A", id="a", texts=("It borders Niger.", "They paid three pesos.")))
    kb.add(Unit("B", id="b", texts=("It borders Nigeria.",)))
    connection = kb._database.connection
    rows = dict(connection.execute("SELECT id, row FROM units"))
    both = list(rows.values())
    assert keywords.units_with(connection, "niger", both) == set(both)
    assert keywords.units_with(connection, "niger", both, whole=True) == {rows["a"]}
    assert keywords.units_with(connection, "peso", both, whole=True) == {rows["a"]}
    assert keywords.count_units_with(connection, "niger") == 2
    assert keywords.count_units_with(connection, "niger", whole=True) == 1


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (
            "What is the capital of the country that borders Niger?",
            [ClueWord("border", ""), ClueWord("niger", "niger")],
        ),
        ("How large is the country where people pay with the euro?",
            [ClueWord("people"), ClueWord("pay", "pay"), ClueWord("euro", "euro")]),
        ("How large is the African country?", [ClueWord("afric")]),
        ("What do people pay with in the country in Asia?", [ClueWord("asia", "asia")]),
        ("What do people pay with in the country in the picture?", []),
        ("Which sea does the country whose capital is Bamako touch?",
            [ClueWord("capit"), ClueWord("bamako", "bamako")]),
        ("What do people pay with in the country whose capital is Bamako?",
            [ClueWord("capit"), ClueWord("bamako", "bamako")]),
        ("How large is the country with red bicycles?",
            [ClueWord("red", "red"), ClueWord("bicycl")]),
    ],
)  # fmt: skip
def test_a_clue_says_which_words_stand_for_themselves(question, words):
    assert parted(question)[1] == words


@pytest.mark.parametrize(("neighbour", "unit"), [("Niger", "a"), ("Nigeria", "b")])
def test_a_clue_chooses_between_two_things_seen(kb, tmp_path, neighbour, unit):
    scene = Image.new("RGB", (320, 200), (90, 110, 130))
    for n, (name, border) in enumerate((("a", "Niger"), ("b", "Nigeria"))):
        path = picture(tmp_path / f"{name}.png", n)
        kb.add(Unit(f"Land {n}", id=name, texts=(f"It borders {border}.",), images=(path,)))
        scene.paste(Image.open(path).resize((120, 80)), (20 + 160 * n, 60))
    for n in range(2, 8):
        kb.add(Unit(f"Land {n}", id=str(n), images=(picture(tmp_path / f"{n}.png", n),)))
    scene.save(tmp_path / "scene.png")
    question = f"How large is the country that borders {neighbour}?"
    assert kb.query(tmp_path / "scene.png", question).units[0].id == unit


def test_a_question_is_rewritten_with_the_unit_and_its_content_words():
    assert rewrite("Who built this bridge?", "Karnin") == (
        "Who built this bridge? [SEP] Karnin [SEP] built, bridge"
    )


def test_a_unit_that_the_question_names_is_kept_beyond_k(kb, tmp_path):
    for n in range(5):
        kb.add(Unit(f"Thing {n}", id=f"t{n}", images=(picture(tmp_path / f"{n}.png", n),)))
    kb.add(Unit("Zanzibar Lamp", id="z", texts=("The Zanzibar Lamp burns oil.",)))
    answer = kb.query(tmp_path / "2.png", "What does the Zanzibar lamp burn?")
    assert answer.units[0].id in ("t2", "z")
    assert {"t2", "z"} <= {unit.id for unit in answer.units}
    (lamp,) = [unit for unit in answer.units if unit.id == "z"]
    assert "the question names it ('zanzibar lamp')" in lamp.why


def test_the_longest_name_in_the_question_is_the_one_meant(kb):
    kb.add(Unit("York", id="york", texts=("York lies in England.",)))
    kb.add(Unit("New York", id="ny", texts=("New York lies in America.",)))
    assert [u.id for u in kb.query(None, "Where does New York lie?").units] == ["ny"]


def test_relations_that_bear_on_the_question_are_paths(kb):
    kb.add(Unit("France", id="fr", kind="country"))
    kb.add(
        Unit(
            "Spain",
            id="es",
            kind="country",
            texts=("Spain is a country.",),
            relations=(
                Relation("borders", "France", information="in the north"),
                Relation("capital", "Madrid", target_kind="city"),
            ),
        )
    )
    answer = kb.query(None, "Which countries border Spain?")
    assert [(p.label, p.text) for p in answer.paths] == [
        ("E2", "Spain —borders→ France (in the north)")
    ]
    assert answer.to_dict()["paths"][0]["entities"] == ["Spain", "France"]


def test_without_a_match_a_picture_is_not_answered(kb, tmp_path):
    kb.add(Unit("Lamp", id="lamp", texts=("It comes from Peru.",)))
    answer = kb.query(picture(tmp_path / "p.png", 1), "Which country does it come from?")
    assert (answer.answer, answer.units) == ("", ())
    assert "Nothing in the picture matches a unit" in answer.reading.why
    assert answer.region.source == "whole"


def test_an_empty_base_answers_nothing(kb, tmp_path):
    answer = kb.query(picture(tmp_path / "p.png", 1), "What is this?")
    assert (answer.answer, answer.units, answer.chunks) == ("", (), ())
    assert kb.search(text="anything").to_dict() == {"units": [], "chunks": []}


def test_searching_for_nothing_is_refused(kb):
    with pytest.raises(BadInput, match="nothing to search for"):
        kb.search(text=" ")


def test_the_join_threshold_is_measured_on_the_bases_own_vectors(kb, tmp_path):
    index = kb._session.encoding.images
    for n in range(40):
        kb.add(Unit(f"U{n}", id=str(n), images=(picture(tmp_path / f"{n}.png", n),)))
        if n == 2:
            assert unit_resolution.measure(kb._database, index) == unit_resolution._UNMEASURED
    measured = unit_resolution.measure(kb._database, index)
    assert unit_resolution._LOWEST <= measured < 1


def test_pictures_can_be_left_where_they_are(tmp_path):
    from ku_rag import KnowledgeBase

    photo = picture(tmp_path / "photos" / "Lamp" / "a.png", 3)
    with KnowledgeBase.open(tmp_path / "kb", create=True, images="link") as kb:
        kb.ingest(tmp_path / "photos")
        assert kb.show("Lamp").to_dict()["images"] == [str(photo)]
        assert not [f for f in (kb.path / "images").rglob("*") if f.is_file()]
        kb.compact()
        assert photo.exists()
        assert kb.verify().ok
        assert kb.query(photo, "What is this?").units[0].id == "Lamp"


def test_a_question_sees_one_state_of_the_base(kb, monkeypatch):
    """A commit between matching and reading is visible to the next question only."""
    from ku_rag import KnowledgeBase
    from ku_rag.answering import pipeline

    kb.add(Unit("Lamp", id="lamp", texts=("The lamp comes from Peru.",)))
    original = pipeline.match

    def match_and_then_delete(*arguments):
        matches = original(*arguments)
        with KnowledgeBase.open(kb.path) as writer:
            writer.delete(["lamp"])
        return matches

    with KnowledgeBase.open(kb.path, read_only=True) as reader:
        monkeypatch.setattr(pipeline, "match", match_and_then_delete)
        assert reader.query(None, "Where does the lamp come from?").answer == "Peru"
        monkeypatch.setattr(pipeline, "match", original)
        assert reader.query(None, "Where does the lamp come from?").answer == ""


def test_two_linked_chunks_that_cover_a_question_together_go_before_chunks_that_cover_half(kb):
    kb.add_many(
        [
            Unit(
                "Ohio Queen",
                id="ship",
                texts=("A steamer that Mary Turing designed on the river.",),
            ),
            Unit("Mary Turing", id="mary", texts=("She was born in Leeds.",)),
            *(
                Unit(f"Person {n}", id=f"p{n}", texts=("She was born on a river in a town.",))
                for n in range(8)
            ),
        ]
    )
    chunks = kb.query(None, "Where was the designer of the steamer born?", k=2).chunks
    assert {name for chunk in chunks for name in chunk.owner_names} == {"Ohio Queen", "Mary Turing"}


def test_as_many_chunks_are_found_as_are_asked_for(kb):
    kb.add_many(Unit(f"U{n}", id=f"u{n}", texts=(f"Text {n}.",)) for n in range(150))
    for k in (1, 100, 101, 150):
        assert len(kb.search(text="unrelated words", k=k).chunks) == k
