"""Words with their places: the one tokeniser that names, keywords and hashed vectors share.

Folding (NFKC, case, diacritics) changes lengths (ß → ss, ﬁ → fi), so text is cut into tokens first
and each token is folded by itself; the offsets stay those of the original text. In scripts that
write no spaces (Han, Kana, Hangul) every character is a token.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise
from typing import NamedTuple

_CJK = (
    "\u1100-\u11ff\u2e80-\u2fdf\u3005-\u3007\u3031-\u3035\u3040-\u30ff\u3130-\u318f"
    "\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff"
    "\uf900-\ufaff\uff66-\uff9f\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
_MARKS = "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u064b-\u065f\u0900-\u0903\u093a-\u094f"
_TOKEN = re.compile(rf"[{_CJK}][{_MARKS}\u3099\u309a]*|(?:(?![{_CJK}_])[\w{_MARKS}])+")
_ASCII = "".join(chr(n).lower() if chr(n).isalnum() else " " for n in range(128)).encode() * 2
"""Byte table for `bytes.translate`: ASCII letters in lower case, digits, all else a space."""
_VOICED = "\u3099\u309a"  # part of the letter in Kana: ガ is not カ
_CJK_CHAR = re.compile(rf"[{_CJK}]")


class Token(NamedTuple):
    """A folded word and where it stands: `text[start:end]` is the word as written."""

    folded: str
    start: int
    end: int


@lru_cache(maxsize=1 << 16)
def fold(word: str) -> str:
    """Fold case, compatibility forms and diacritics: "Café" → "cafe", "ﬁ" → "fi", "ß" → "ss"."""
    if word.isascii():
        return word.lower()
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", word).casefold())
    # One word stays one word: some ligatures decompose into several (U+FDFA into four).
    solid = "".join(c for c in decomposed if not c.isspace())
    bare = "".join(c for c in solid if c in _VOICED or not unicodedata.combining(c))
    return unicodedata.normalize("NFC", bare) or unicodedata.normalize("NFC", solid)


def tokenize(text: str) -> list[Token]:
    """Cut `text` into folded tokens with the offsets of the originals."""
    return [Token(fold(m[0]), m.start(), m.end()) for m in _TOKEN.finditer(text)]


def spans(text: str) -> list[tuple[int, int]]:
    """Where the tokens of `text` stand, unfolded: the cheapest look at a text."""
    return [m.span() for m in _TOKEN.finditer(text)]


def words(text: str) -> list[str]:
    """The folded tokens of `text` without their places."""
    if text.isascii():
        return text.encode().translate(_ASCII).decode().split()
    return [fold(word) for word in _TOKEN.findall(text)]


def name_key(name: str) -> str:
    """What two spellings of one name have in common; "" when nothing in it can be matched."""
    return " ".join(words(name))


def is_cjk(token: str) -> bool:
    """Whether a token comes from a script that writes no spaces."""
    return _CJK_CHAR.match(token) is not None


def terms(text: str) -> Iterator[str]:
    """The words of `text` as a keyword index stores them: CJK runs become overlapping bigrams.

    The last character of a run is given once more by itself, so that a single character can be
    found by prefix wherever it stands.
    """
    for run in _runs(text):
        if len(run) > 1:
            yield from map("".join, pairwise(run))
        yield run[-1]


def indexed(text: str) -> str:
    """What a keyword index is given for `text`: its terms, or itself where that is the same.

    FTS5 cuts and folds plain ASCII as `words` does.
    """
    return text if text.isascii() else " ".join(terms(text))


def search_terms(text: str) -> list[str]:
    """The terms to look for when a keyword index is asked for `text`, each once.

    A CJK character that stands alone is returned as it is; it is found as a prefix.
    """
    found: dict[str, None] = {}
    for run in _runs(text):
        found.update(dict.fromkeys(map("".join, pairwise(run)) if len(run) > 1 else run))
    return list(found)


def _runs(text: str) -> Iterator[list[str]]:
    """Neighbouring CJK characters together, every other word by itself.

    Spaces and punctuation do not end a run: names are matched on tokens, whatever lies between.
    """
    run: list[str] = []
    for word in words(text):
        if is_cjk(word):
            run.append(word)
            continue
        if run:
            yield run
            run = []
        yield [word]
    if run:
        yield run


@lru_cache(maxsize=1)
def stop_words() -> frozenset[str]:
    """The words that carry no content, folded; the list is kept in the project."""
    text = files("ku_rag.text").joinpath("stop_words.txt").read_text(encoding="utf-8")
    return frozenset(word for line in text.splitlines() for word in words(line.partition("#")[0]))


def content_words(text: str) -> list[str]:
    """The folded words of `text` that are no stop words, in order, each once."""
    return list(dict.fromkeys(word for word in words(text) if word not in stop_words()))
