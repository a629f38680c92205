"""What sentences may state beyond the facts that were read from them.

Not every sentence is read (`ku_rag.text.predicates`). A list, a number or a greatest value rests on
facts of sentences only if no other unit has a sentence that may state such a fact.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from ku_rag.indexes import keywords
from ku_rag.reading.fact_table import FactTable, FactTest
from ku_rag.store.connection import Rows
from ku_rag.text.question import is_negated
from ku_rag.text.sentences import sentences
from ku_rag.text.stems import every_stem
from ku_rag.text.tokens import words

_MOST_CHUNKS = 1_000
"""Of more chunks with the words of a value or label, none is read."""
_FLAGS = frozenset({"yes", "no", "true", "false"})


def unread_units(table: FactTable, test: FactTest, names: Collection[str]) -> Rows | None:
    """Return the units whose sentences may state what a test asks for, and no fact does.

    They have no fact of the labels of the test, and a sentence with all words of one of its values;
    if it compares amounts or dates, with one of the `names` of the label, as stems, and a number.
    None if too many texts have these words.
    """
    labels = table.sentence_labels(test)
    if not labels:
        return np.array([], np.int64)
    phrases = [every_stem(key) for key in test.keys if key not in _FLAGS]
    phrases = phrases or [frozenset({name}) for name in names]
    chunks = keywords.chunks_without_facts(table.connection, phrases, labels, _MOST_CHUNKS + 1)
    units = {
        unit
        for unit, text in chunks
        for sentence in (text[slice(*span)] for span in sentences(text))
        if (not is_negated(words(sentence)) if test.keys else any(map(str.isdigit, sentence)))
        if (stated := every_stem(sentence)) and any(phrase <= stated for phrase in phrases)
    }
    return None if len(chunks) > _MOST_CHUNKS else np.array(sorted(units), np.int64)
