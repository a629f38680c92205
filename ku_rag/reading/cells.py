"""The reader of tables: it states a cell, or abstains.

The row is the one that covers the question best, clearly before rows that say something else. The
column is the one whose header names what is asked for: "Which stadium …?", "What is the price of
…?", "How many seats …?", "When …?". In a table of two columns, the first may hold the names:
"weight | 3 kg".
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from ku_rag.text.question import MEANS, SUMS, analyse, comparison, names_and_numbers
from ku_rag.text.stems import every_stem, label_stems, stem
from ku_rag.text.tokens import content_words, is_named, words
from ku_rag.types import Evidence, Reading

_LEAD = 0.04
"""By how much the score of the row exceeds that of the best one with another value."""
_SKIPPED = frozenset({"is", "was", "were", "are", "the", "a", "an", "s"})
_ENDS = _SKIPPED | frozenset(
    {"that", "who", "whom", "which", "whose", "when", "where", "and", "of", "in", "on", "at"}
    | {"from", "for", "with", "by", "to", "as", "during", "under", "does", "did", "do", "has"}
    | {"have", "had", "can", "could", "will", "would", "named", "called", "located", "this"}
)
"""Words that end the phrase that is asked for."""


def read(question: str, rows: Sequence[Evidence], evidence: Sequence[Evidence]) -> Reading | None:
    """State the cell of rows, best first, that answers a question; None to abstain."""
    target = _find_target(question)
    analysis = analyse(question)
    # "The most seats", "not from Oakton": several rows would have to be compared.
    if not rows or not target or analysis.negated or analysis.compares or comparison(analysis):
        return None
    best = rows[0]
    every = every_stem(question)
    # The last word may be a verb: "Which club plays …?"
    ways = [way for way in (target, target[:-1]) if way]
    answer = next((cell for way in ways if (cell := _column(best, way, every))), None)
    said = label_stems(question) - {"time"} <= label_stems(best.text)
    if said and target in (["when"], ["time"]):
        answer = answer or _time(best, every)
    counts = target[0] == analysis.counted
    # A cell without a number does not tell how many.
    if answer is None or (counts and not any(map(str.isdigit, answer[1]))):
        return None
    column, value = answer
    if (MEANS | SUMS) & {*target} - label_stems(column):  # of several rows
        return None
    if not is_about(best, question, {*target, *label_stems(column)}, evidence):
        return None
    others = [row for row in rows[1:] if (column, value) not in _cells(row)]
    # "Which train uses this engine?": each row that holds as much of it fits as well.
    shared = label_stems(best.text) & every if {"this", "it"}.intersection(analysis.words) else {""}
    if any(best.score - row.score < _LEAD or shared <= label_stems(row.text) for row in others):
        return None
    return Reading(
        value,
        citations=(best.label,),
        spans=(cell_span(best, column, value),),
        score=1.0,
        why=f"{best.label} states it, in the column {column!r}.",
    )


def cell_span(row: Evidence, column: str, value: str) -> tuple[int, int]:
    """Return where a cell is in the text of a row; (0, 0) if a part of a long row lacks it."""
    at = f"\n{row.text}\n".find(f"\n{column}: {value}\n")
    start = at + len(column) + 2
    return (start, start + len(value)) if at >= 0 else (0, 0)


def is_about(row: Evidence, question: str, target: Set[str], evidence: Sequence[Evidence]) -> bool:
    """Return whether a row and texts of what it names hold names, numbers and another word."""
    links = {cell.link for _, cell in row.table.cells} if row.table else set()
    texts = [
        piece.text
        for piece in evidence
        if not links.isdisjoint(piece.owners)
        or any(is_named(name, row.text) for name in piece.owner_names)
    ]
    context = label_stems(" ".join([row.text, *row.owner_names, *texts]))
    exact = names_and_numbers(question)
    rest = frozenset(map(stem, content_words(question))) - target
    return label_stems(" ".join(exact)) - target <= context and (not rest or bool(rest & context))


def _find_target(question: str) -> list[str]:
    """The stems of what is asked for: "when", or the phrase after "which", "how many", "who is"."""
    folded = words(question)
    if folded[:1] == ["when"]:
        return folded[:1]
    many = 2 if folded[:2] == ["how", "many"] else len(folded)
    at = next((n + 1 for n, word in enumerate(folded) if word in ("which", "what")), many)
    if folded[:1] == ["who"] and folded[1:2] in (["is"], ["was"]):
        at = 1
    while at < len(folded):
        while folded[at : at + 1] and folded[at] in _SKIPPED:
            at += 1
        end = next((n for n in range(at, len(folded)) if folded[n] in _ENDS), len(folded))
        if folded[at:end] not in (["name"], ["names"]) or folded[end : end + 1] != ["of"]:
            return [stem(word) for word in folded[at:end]]
        at = end + 1  # "What is the name of the county that …?" asks for the county
    return []


def _column(row: Evidence, target: Sequence[str], every: frozenset[str]) -> tuple[str, str] | None:
    """The cell whose header has the noun asked for, the last stem of the target; it says more."""
    cells = _cells(row)
    if len(cells) == 2 and frozenset(target) == label_stems(cells[0][1]):
        return cells[1] if cells[1][1] else None
    ranked = []
    for place, (column, text) in enumerate(cells):
        header = label_stems(column)
        if text and target[-1] in header and not label_stems(text) <= every:
            shared = len(header.intersection(target))
            ranked.append((shared / len(header), shared, -place))
    return cells[-max(ranked)[2]] if ranked else None


def _time(row: Evidence, every: frozenset[str]) -> tuple[str, str] | None:
    """The only cell with digits whose header is "Date" or in the question: "Leaves Hull"."""
    times = [
        (column, text)
        for column, text in _cells(row)
        if any(map(str.isdigit, text)) and not label_stems(text) <= every
        if label_stems(column) <= every | {stem("date")}
    ]
    return times[0] if len(times) == 1 else None


def _cells(row: Evidence) -> list[tuple[str, str]]:
    return [(column, cell.text.strip()) for column, cell in row.table.cells] if row.table else []
