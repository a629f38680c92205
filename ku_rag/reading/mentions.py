"""Which documents mention something: the owners of the texts that have its words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from pathlib import PurePath

from ku_rag.indexes import keywords
from ku_rag.reading.answers import MOST
from ku_rag.store.connection import Connection
from ku_rag.text.question import DOCUMENTS, MENTIONING
from ku_rag.text.statements import locate
from ku_rag.text.stems import stem
from ku_rag.text.tokens import stop_words, words

Mentions = list[tuple[str, tuple[int, int, int]]]
"""Name and file of each document, also its id if others are called so; row of a chunk, and start
and end of the words in it."""


def read(connection: Connection, question: str, among: Container[int] | None) -> Mentions | None:
    """Return the documents of "Which documents mention the council?", among units, by row."""
    folded = words(question)
    at = next((n for n, word in enumerate(folded) if word in ("which", "what")), len(folded))
    rest = folded[at + 1 :]
    if at > 1 or not rest or stem(rest[0]) not in DOCUMENTS:
        return None
    verbs = [n for n, word in enumerate(rest) if stem(word) in MENTIONING]
    mentioned = [
        word for n, word in enumerate(rest[1:], 1) if n not in verbs and word not in stop_words()
    ]
    if not (verbs and mentioned):
        return None
    documents: dict[str, tuple[str, tuple[int, int, int]]] = {}  # by the id of the unit
    for _, chunk, text in keywords.chunks_with_all(connection, [" ".join(mentioned)]):
        if len(documents) > MOST:
            break
        for row, unit, name, uri in connection.execute(
            "SELECT u.row, u.id, u.name, s.uri FROM chunks c JOIN sources s ON s.row = c.source "
            "JOIN units u ON u.row = s.unit WHERE c.row = ?",
            (chunk,),
        ):
            if among is None or row in among:
                file = PurePath(uri.partition("#")[0])
                label = file.name if file.suffix else name
                label = label if name in (label, file.stem) else f"{name} ({label})"
                span = locate(" ".join(mentioned), text) or (0, len(text))
                documents.setdefault(unit, (label, (chunk, *span)))
    if not 0 < len(documents) <= MOST:
        return None
    labels = Counter(label for label, _ in documents.values())
    return [
        (label if labels[label] == 1 else f"{label}: {unit}", line)
        for unit, (label, line) in documents.items()
    ]
