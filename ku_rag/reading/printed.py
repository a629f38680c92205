"""Questions for what is printed in a picture: "What does the label say?"."""

from __future__ import annotations

from collections.abc import Sequence

from ku_rag.text.question import CARRIERS, PRINT
from ku_rag.text.stems import stem
from ku_rag.text.tokens import stop_words, words
from ku_rag.types import Reading, Word


def asks_for_print(question: str) -> bool:
    """Whether a question asks for what is printed in a picture, and for nothing else."""
    question_words = {*words(question)}
    content = {stem(word) for word in question_words - (stop_words() - {"say"})}
    # "What does it say?", but not "Say what this is."
    verbs = PRINT if "does" in question_words else PRINT - {"say"}
    is_question = question_words & {"what", "which", "read"}
    return bool(is_question and content & verbs and content <= PRINT | CARRIERS)


def read(question: str, printed: Sequence[Word]) -> Reading | None:
    """Return what is printed in a picture, if the question asks for it and there are words."""
    if not (printed and asks_for_print(question)):
        return None
    labels = tuple(f"W{n}" for n, _ in enumerate(printed, 1))
    text = "; ".join(word.text for word in printed)
    return Reading(text, labels, score=1.0, why="Recognised in the picture.")
