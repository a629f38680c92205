"""Words with their places: the one tokeniser that names, keywords and hashed vectors share.

Folding (NFKC, case, diacritics) changes lengths (ß → ss, ﬁ → fi), so text is cut into tokens first
and each token is folded by itself; the offsets stay those of the original text. In scripts that
write no spaces (Han, Kana, Hangul) every character is a token.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from importlib.resources import files
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
# No other ASCII character is part of a word, and this does not depend on its neighbours. So words
# never cross these runs, and each run can be tokenised and folded by itself.
_RUN = re.compile(r"[A-Za-z0-9\x80-\U0010ffff]+")
_REMEMBERED = 1 << 17
_LONGEST_REMEMBERED = 40


class _Runs(dict[str, tuple[str, ...]]):
    """Cache of the folded words of each run; texts repeat few different runs."""

    def __missing__(self, run: str) -> tuple[str, ...]:
        cut = tuple(fold(word) for word in _TOKEN.findall(run))
        if len(run) <= _LONGEST_REMEMBERED:
            if len(self) >= _REMEMBERED:
                self.clear()
            self[run] = cut
        return cut


_RUNS = _Runs()


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
    return [word for run in _RUN.findall(text) for word in _RUNS[run]]


def name_key(name: str) -> str:
    """What two spellings of one name have in common; "" when nothing in it can be matched."""
    return " ".join(words(name))


def is_named(name: str, text: str) -> bool:
    """Return whether a text contains a name as whole words."""
    key = name_key(name)
    return bool(key) and f" {key} " in f" {name_key(text)} "


def is_cjk(token: str) -> bool:
    """Whether a token comes from a script that writes no spaces."""
    return _CJK_CHAR.match(token) is not None


@lru_cache(maxsize=1)
def stop_words() -> frozenset[str]:
    """The words that carry no content, folded; the list is kept in the project."""
    text = files("ku_rag.text").joinpath("stop_words.txt").read_text(encoding="utf-8")
    return frozenset(word for line in text.splitlines() for word in words(line.partition("#")[0]))


def content_words(text: str) -> list[str]:
    """The folded words of `text` that are no stop words, in order, each once."""
    return list(dict.fromkeys(word for word in words(text) if word not in stop_words()))
