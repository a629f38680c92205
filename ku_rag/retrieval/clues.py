"""Clues: the words of a question that identify one of several units in a picture."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

from ku_rag.text.question import POINTED
from ku_rag.text.stems import stem
from ku_rag.text.tokens import Token, stop_words, tokenize, words

_MOST_CHARACTERS = 1000
_RELATIVE = frozenset(words("that which who whose whom where with beside behind"))


class ClueWord(NamedTuple):
    """A word of a clue.

    Args:
        beginning: what its other forms begin with, folded.
        whole: the word itself, folded, where that is to be looked for first: a name or a base form.
            "Niger" is not Nigeria, "euro" is not Europe.
    """

    beginning: str
    whole: str = ""


def parted(question: str) -> tuple[str, list[ClueWord]]:
    """Return a question without its clue, and the words of the clue.

    "What is the capital of the African country that borders Spain?" → ("What is the capital of the
    country", words that begin with "border", "spain" and "afric"). The clause ends before a verb
    that an earlier "does" or "was" waits for.
    """
    tokens = tokenize(question[:_MOST_CHARACTERS])
    start, end = _clause(question, tokens)
    clue, main = tokens[start:end], tokens[:start] + tokens[end:]
    found = [_clue_word(question, token) for token in clue if token.folded not in _PLAIN]
    kept = []
    for token, following in zip_longest(main, main[1:]):
        capital = question[token.start].isupper() and token is not main[0]
        if capital and following and following.folded in POINTED:
            # "African" begins as "Africa" does.
            root = token.folded
            found.append(ClueWord(root[: max(4, len(root) - 2)] if root.endswith("n") else root))
        else:
            kept.append(question[token.start : token.end])
    return " ".join(kept), list({word.beginning: word for word in found}.values())


def _clause(question: str, tokens: Sequence[Token]) -> tuple[int, int]:
    """Return where the clause of the clue starts and ends."""
    said = [token.folded for token in tokens]
    capital = [question[token.start].isupper() for token in tokens]
    for at in range(1, len(said)):
        # "the country in Asia", but not "the country in the picture"
        placed = said[at] == "in" and any(capital[at + 1 : at + 3])
        if said[at - 1] not in POINTED or not (placed or said[at] in _RELATIVE):
            continue
        end = len(said)
        if {"do", "does", "did"}.intersection(said[:at]):
            # "Which sea does the country that borders Spain | touch?", "| belong to?"
            tail = end - 1 - (said[-1] in ("to", "for", "on", "with", "like"))
            waits = said[tail] == stem(said[tail]) or said[tail] in _VERBS
            end = tail if at + 1 < tail and waits and not capital[tail] else end
        elif {"was", "were"}.intersection(said[:at]) and said[-1].endswith("ed"):
            end -= 1
        return at, end
    return len(said), len(said)


def _clue_word(question: str, token: Token) -> ClueWord:
    word, root = token.folded, stem(token.folded)
    named = question[token.start].isupper()
    beginning = root if len(root) > 3 and word.startswith(root) else word
    return ClueWord(beginning, word if named or word == root else "")


_VERBS = frozenset(words("have lie use mean cover occupy symbolise symbolize produce make taste"))
_PLAIN = stop_words() | POINTED | _RELATIVE
