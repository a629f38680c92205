"""Whether a statement says yes or no to a question."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ku_rag.answering import values
from ku_rag.answering.keys import Span
from ku_rag.answering.sentence import NEGATIONS
from ku_rag.answering.statements import Statement
from ku_rag.text.lexicon import Word
from ku_rag.text.question import Question, name_stems


def agreement(asked: Question, statement: Statement) -> Iterator[Span]:
    """Yes where one statement holds every word of the question, no where it denies them."""
    concept = asked.concept
    assert concept is not None
    if statement.key and len(statement.words) > 30:
        # A paragraph behind a key; its sentences are statements of their own.
        return
    words = list(statement.words)
    stems = {w.stem for w in (*statement.key, *words)}
    fitting = [n for n in (*concept.nouns, *concept.before, *concept.ask) if set(n) <= stems]
    wanted = {s for name in asked.strangers for s in name_stems(name)} | set(asked.required)
    if not fitting or not wanted <= stems | {w.text.lower() for w in words}:
        return
    places = [i for i, w in enumerate(words) if w.stem in wanted | set(fitting[0])]
    if not places:
        return
    last = places[-1]
    if not wanted and not concept.name and _describes_other(words, last):
        return
    denied = any(w.text.lower() in NEGATIONS for w in words[max(0, places[0] - 4) : last])
    yield Span("no" if denied else "yes", 0.8)


def _describes_other(words: Sequence[Word], at: int) -> bool:
    """Whether a noun follows, so that the word is said of it: "sweet desserts"."""
    if at + 1 >= len(words):
        return False
    after = words[at + 1]
    if not after.text[0].islower() or after.stem in values.VERBS:
        return False
    plain = values.PREPOSITIONS | {"and", "or", "but", "that", "too", "as"}
    return after.text not in plain and after.stem not in ("tast", "taste", "flavor", "color")
