"""Questions and captions that exceed the token limit of an encoder."""

from __future__ import annotations

import numpy as np
import pytest

from ku_rag import KnowledgeBase, Unit
from ku_rag.encoders.base import encode_queries, fitting
from ku_rag.encoders.embedded.encoder import EmbeddedEncoder
from ku_rag.errors import BadInput
from tests.conftest import picture


class Limited(EmbeddedEncoder):
    """Refuses texts over its limit, as encoders with a model do."""

    max_tokens = 12

    def encode_texts(self, texts):
        if any(self.count_tokens(text) > self.max_tokens for text in texts):
            raise BadInput("a text is too long")
        return super().encode_texts(texts)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one two", "one two"),
        ("word " * 20, ("word " * 12).strip()),
        ("x" * 1000, "x" * 144),
        ("", ""),
        (" \n ", " \n "),
    ],
)
def test_the_beginning_that_fits_is_encoded(text, expected):
    assert fitting(text, Limited()) == expected
    vectors = encode_queries(Limited(), [text, "other"])
    assert np.array_equal(vectors, Limited().encode_texts([expected, "other"]))


def test_a_long_question_and_a_long_caption_are_answered(tmp_path):
    question = "Where does the desk lamp come from? " + "Please think of it for long. " * 50
    with KnowledgeBase.open(tmp_path / "kb", create=True, encoder=Limited()) as kb:
        photo = picture(tmp_path / "lamp.png", 1)
        kb.add(Unit("Desk lamp", id="lamp", texts=("The lamp comes from Peru.",), images=(photo,)))
        assert kb.search(text=question).chunks
        assert kb.query(None, question).chunks
        assert kb.query(photo, question).chunks
        assert kb.query(photo, question, units=False).chunks
