"""The weight of an encoder's text cosines relative to keywords."""

from __future__ import annotations

import numpy as np
import pytest

from ku_rag import BadInput, KnowledgeBase, NotFound, Unit
from tests.conftest import write_records

COLOURS = ("red", "green", "blue", "white", "black")
THINGS = ("boat", "lamp", "chair", "wheel", "glove")
SYNONYMS = {"vessel": "boat", "light": "lamp", "seat": "chair", "disc": "wheel", "mitten": "glove"}


class Synonyms:
    """Texts that name the same thing, or a synonym of it, have the same vector."""

    dim, max_tokens, fingerprint, cross_modal = 8, 64, "synonyms", False

    def count_tokens(self, text):
        return len(text.split())

    def encode_texts(self, texts):
        vectors = np.full((len(texts), self.dim), 1e-3, np.float32)
        for vector, text in zip(vectors, texts, strict=True):
            for word in text.lower().strip("?.").split():
                if SYNONYMS.get(word, word) in THINGS:
                    vector[THINGS.index(SYNONYMS.get(word, word))] = 1
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def encode_images(self, images):
        return self.encode_texts([""] * len(images))

    def encode_regions(self, image, boxes):
        return self.encode_texts([""] * len(boxes))


class Misleading(Synonyms):
    """Each text is nearest to texts about another thing."""

    fingerprint, text_weight = "misleading", 1.0

    def encode_texts(self, texts):
        vectors = Synonyms.encode_texts(self, texts)
        is_question = [text.endswith("?") or "[SEP]" in text for text in texts]
        return np.where(np.array(is_question)[:, None], np.roll(vectors, 1, axis=1), vectors)


def fill(folder, encoder):
    kb = KnowledgeBase.open(folder, create=True, encoder=encoder)
    kb.add_many(
        Unit(f"{n}", id=f"{colour} {thing}", texts=(f"A {thing} of {colour} wood.",))
        for n, (colour, thing) in enumerate((c, t) for c in COLOURS for t in THINGS)
    )
    return kb


def questions(folder, words):
    return write_records(
        folder / "questions.jsonl",
        [
            {
                "question": f"A {word} in {colour}?",
                "units": [f"{colour} {SYNONYMS.get(word, word)}"],
            }
            for word in words
            for colour in COLOURS
        ],
    )


def test_an_encoder_that_helps_gets_a_weight(tmp_path):
    with fill(tmp_path / "kb", Synonyms()) as kb:
        tuning = kb.tune_texts(questions(tmp_path, SYNONYMS))
        assert (tuning.questions, tuning.reciprocal_rank) == (25, 1.0)
        by_weight = dict(tuning.tried)
        assert by_weight[0.0] < 0.6
        best = [weight for weight, rank in by_weight.items() if rank == 1.0]
        assert 0.0 not in best
        assert tuning.weight == (tuning.weight_before if tuning.weight_before in best else best[0])


def test_an_encoder_that_misleads_gets_none_and_the_weight_is_kept(tmp_path):
    file = questions(tmp_path, THINGS)
    with fill(tmp_path / "kb", Misleading()) as kb:
        tuning = kb.tune_texts(file)
        assert (tuning.weight, tuning.reciprocal_rank) == (0.0, 1.0)
        assert tuning.reciprocal_rank_before < 1.0
    with KnowledgeBase.open(tmp_path / "kb", encoder=Misleading()) as kb:
        assert kb.search(text="A lamp in blue?", k=1).chunks[0].owners == ("blue lamp",)
        assert kb.tune_texts(file).reciprocal_rank_before == 1.0
        kb.reindex(Synonyms())  # a weight belongs to the encoder that it was measured with
        assert kb.tune_texts(questions(tmp_path, SYNONYMS)).reciprocal_rank_before == 1.0


@pytest.mark.parametrize(
    ("record", "error", "message"),
    [
        ({"question": "A lamp?", "units": ["a lamp"]}, NotFound, "no unit 'a lamp'"),
        ({"question": "A lamp?"}, BadInput, "0 records have units and no image"),
        ({"question": "A lamp?", "units": ["x"], "image": "a.jpg"}, BadInput, "0 records have"),
        ({"question": " ", "units": []}, BadInput, "questions.jsonl:1: the question is empty"),
        ({"question": 3, "units": []}, BadInput, "questions.jsonl:1: question"),
    ],
)
def test_questions_that_say_nothing_change_nothing(tmp_path, record, error, message):
    file = write_records(tmp_path / "questions.jsonl", [record])
    with fill(tmp_path / "kb", Synonyms()) as kb:
        commits = kb.commits
        with pytest.raises(error, match=message):
            kb.tune_texts(file)
        assert kb.commits == commits


def test_the_command_prints_ranks_before_and_after(tmp_path, ku):
    with KnowledgeBase.open("kb", create=True) as kb:
        kb.add_many(Unit(f"{n}", id=f"{n}", texts=(f"It is item {n}.",)) for n in range(20))
        kb.add(Unit("Silent", id="silent"))
    file = write_records(
        tmp_path / "q.jsonl", [{"question": f"item {n}?", "units": [f"{n}"]} for n in range(20)]
    )
    run = ku("tune", "--texts", str(file))
    assert run.out.startswith(
        "weight 0.1: mean reciprocal rank 1.000 of 20 questions (1.000 before"
    )
    labels = [{"question": "Which item?", "units": ["silent"]}] * 20
    write_records(file, labels)
    run = ku("tune", "--texts", str(file))
    assert "of 20 questions none finds a text of its units" in run.err
    assert ku("tune", "--texts", str(file), "--confidence", str(file)).code == 2
    assert ku("tune", "--texts", str(file), "--recall", "0.9").code == 2
