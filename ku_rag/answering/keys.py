"""Answers in "key: value" lines, compound keys included."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ku_rag.answering.amounts import NUMBER_WORDS
from ku_rag.answering.statements import Statement
from ku_rag.text.lexicon import Concept, Phrase, Word, word_list
from ku_rag.text.question import Question

RESTRICTING = word_list("restricting")
NAME_KINDS = ("name", "names", "place", "water", "continent", "person")


@dataclass(frozen=True, slots=True)
class Span:
    """A possible answer.

    Args:
        answer: the words.
        score: 0 to 1, by how the statement puts it.
        owner: the name that the statement says it of, "" when it says none.
        told: whether the statement names whom or what the question is about, so that the sentences
            before it do not matter.
        acted: whether it fills a role of the question's own verb.
    """

    answer: str
    score: float
    owner: str = ""
    told: bool = False
    acted: bool = False


def keyed(
    question: str, asked: Question, concept: Concept, statement: Statement, text: str
) -> Iterator[Span]:
    """The parts of a line whose key names what is asked."""
    groups = _groups(statement.key)
    for index, group in enumerate(groups):
        fit = max((_fits(group, noun, asked) for noun in concept.nouns), default=0.0)
        if not fit and _literal(question, text[group[0].start : group[-1].end]):
            fit = 0.9
        if not fit:
            continue
        answer = _piece(text[slice(*statement.value)], index, len(groups))
        if answer and _valid(answer, asked, concept):
            small = asked.type.split()[0] in NAME_KINDS and answer[0].islower()
            yield Span(answer, fit - 0.1 * small)


def _groups(key: Sequence[Word]) -> list[list[Word]]:
    """The parts of a compound key: "Country and volume" → country, volume."""
    groups: list[list[Word]] = [[]]
    for word in key:
        if word.text.lower() in ("and", "&", "/", ",", "och", "und", "et", "y"):
            groups.append([])
        else:
            groups[-1].append(word)
    return [group for group in groups if group]


def _fits(group: Sequence[Word], noun: Phrase, asked: Question) -> float:
    """How well a key names what is asked: 1 when it says just that."""
    stems = [w.stem for w in group if w.text[0].isalnum()]
    if stems[:2] == ["of", "which"]:
        stems = stems[2:]
    if tuple(stems) == noun:
        return 1.0
    head = next(
        (i for i, s in enumerate(stems) if i and s in ("of", "in", "per", "for")), len(stems)
    )
    at = head - len(noun)
    if at < 0 or tuple(stems[at:head]) != noun:
        return 0.0
    words = {w.stem for w in asked.words}
    extra = [s for s in stems[:at] if s not in words]
    if any(s in RESTRICTING for s in extra):
        return 0.6
    return max(0.6, 0.95 - 0.05 * len(extra))


def _literal(question: str, key: str) -> bool:
    """Whether a key in a script without spaces stands in the question."""
    return len(key) >= 2 and not key.isascii() and key.casefold() in question.casefold()


def _piece(value: str, index: int, count: int) -> str:
    value = value.strip().strip("*_").strip()
    if count == 1:
        return value.rstrip(".") if value.count(". ") == 0 else value
    pieces = [piece.strip() for piece in value.replace("、", ", ").replace("; ", ", ").split(",")]
    if len(pieces) > 1 and any(a[-1:].isdigit() and b[:1].isdigit() for a, b in pairwise(pieces)):
        pieces = [piece.strip() for piece in value.split(", ")]
    if index == 0:
        return pieces[0]
    if index == count - 1 and len(pieces) >= count:
        return pieces[-1]
    return pieces[index] if index < len(pieces) else (value if len(pieces) == 1 else "")


def _valid(answer: str, asked: Question, concept: Concept) -> bool:
    kind = asked.type.split()[0]
    digits = any(c.isdigit() for c in answer)
    if kind == "quantity":
        return digits and len(answer) < 80
    if kind in ("number", "count", "date", "year"):
        return digits or (kind in ("number", "count") and answer.split()[0].lower() in NUMBER_WORDS)
    if kind in NAME_KINDS or concept.type == "noun":
        return not answer[0].isdigit() and not answer.lower().startswith("ca ")
    return True
