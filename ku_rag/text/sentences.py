"""Where sentences end: full-width marks and line structure first, then NLTK's Punkt.

Punkt runs on parameters of our own (abbreviations.txt), so nothing is downloaded and every machine
splits alike. It does not know 。！？, takes a list of facts for one sentence, and leaves the spaces
between sentences out; here a text is first cut at what ends a sentence for certain, and every span
runs to the start of the next, so that the spans tile the text.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise
from types import ModuleType
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from nltk.tokenize.punkt import PunktSentenceTokenizer

Span = tuple[int, int]

_PUNKT_WINDOW = 10_000
"""Characters that Punkt sees at once: its time grows with the square of what it cannot split."""

_CLOSING = "\"'’”»›）」』】》〉〕］｝)\\]}"
_CJK = "\u2e80-\u9fff\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
_CERTAIN_END = re.compile(
    rf"(?:[。！？｡।॥۔؟።។]|(?<![0-9０-９])．|．(?![0-9０-９])|(?<=[{_CJK}])[!?]+(?=[{_CJK}]))"
    rf"[。！？｡．!?…]*[{_CLOSING}]*\s*"
)
"""A mark that ends a sentence without a space after it, what closes with it, and the space."""
_QUOTES = tuple("\"'’”»)")
_PLAIN_QUOTES = str.maketrans("“”„«»‘’", '"""""\'\'')
"""Not every version of NLTK knows the quotation marks that are not ASCII."""
_MAYBE_END = re.compile(r"[.!?]")
_SPACE = re.compile(r"\s*")

_LINE_END = re.compile(r"\r\n|[\n\r\v\f\x85\u2028\u2029]")
_ITEM = re.compile(r"\s*(?:[-*+•‣◦▪·–—]\s|\(?\d{1,3}[.)]\s|\(?[A-Za-z][)]\s|#{1,6}\s|[|>])")
_KEY = re.compile(
    r"\s*(?:[^\W\d]|\d+ )[^\s:：.!?]*(?:[ \t][^\s:：.!?]+){0,4}[ \t]*(?:：|:(?:\s|$))"
)
_NARROWEST_PAGE, _WIDEST_PAGE = 50, 200
"""Lines are taken for wrapped prose only when the longest of them is in this range."""


def sentences(text: str) -> list[Span]:
    """Return the (start, end) of sentences, which tile a text (KU-RAG, section 3.2.2).

    A sentence ends where Punkt says so, after full-width and other marks that need no space after
    them, at a blank line, and at a line break that is not the wrapping of prose: before and after
    list items, "key: value" lines, headings and lines that end before the page does. Each takes the
    space after it along. A sentence of more than 10,000 characters is given in parts.
    """
    return [span for start, end in _segments(text) for span in _punkt_spans(text, start, end)]


def _segments(text: str) -> Iterator[Span]:
    """Cut at certain ends; the space around a cut goes with what stands before it."""
    ends = {m.end() for m in _CERTAIN_END.finditer(text)}
    ends.update(next(_SPACE.finditer(text, end)).end() for end in _line_ends(text))
    start = 0
    for end in sorted(ends):
        if end < len(text) and (start > 0 or text[:end].strip()):
            yield start, end
            start = end
    if start < len(text):
        yield start, len(text)


# ---- lines -------------------------------------------------------------------------------------


def _line_ends(text: str) -> Iterator[int]:
    """Where line breaks end a sentence, paragraph by paragraph."""
    paragraph: list[Span] = []
    start = 0
    for match in _LINE_END.finditer(text):
        if text[start : match.start()].strip():
            paragraph.append((start, match.end()))
        else:
            yield from _ends_within(text, paragraph)
            if paragraph:
                yield paragraph[-1][1]
            paragraph = []
        start = match.end()
    if text[start:].strip():
        paragraph.append((start, len(text)))
    yield from _ends_within(text, paragraph)


def _ends_within(text: str, paragraph: list[Span]) -> Iterator[int]:
    """The line breaks inside a paragraph that are not the wrapping of its prose."""
    if len(paragraph) < 2:
        return
    lines = [text[start:end].rstrip() for start, end in paragraph]
    width = max(map(len, lines))
    runs_on = [_runs_on(line, following, width) for line, following in pairwise(lines)]
    wrapped = _NARROWEST_PAGE <= width <= _WIDEST_PAGE and 2 * sum(runs_on) >= len(runs_on)
    for (_, end), soft in zip(paragraph, runs_on, strict=False):
        if not (wrapped and soft):
            yield end


def _runs_on(line: str, following: str, width: int) -> bool:
    """Whether a line was filled up to the page's width, or the next starts in mid-phrase."""
    if line.endswith((":", "：")) or _ITEM.match(following) or line.lstrip().startswith("#"):
        return False
    word = following.split(maxsplit=1)[0]
    full = len(line) + 1 + len(word) > 0.9 * width
    if _KEY.match(following):
        return full and word[0].islower()
    return full or (len(line) >= 0.6 * width and following[0].islower())


# ---- Punkt -------------------------------------------------------------------------------------


def _punkt_spans(text: str, start: int, end: int) -> Iterator[Span]:
    """Punkt's sentences of text[start:end], tiling it, a window at a time."""
    while start < end:
        whole = end - start <= _PUNKT_WINDOW
        cut = end if whole else _cut_before(text, start, start + _PUNKT_WINDOW)
        ends = _starts_within(text, start, cut)
        if whole or not ends:
            ends.append(cut)
        for stop in ends:
            yield start, stop
            start = stop


def _starts_within(text: str, start: int, end: int) -> list[int]:
    """Where Punkt lets a sentence start behind the first one of text[start:end]."""
    if not _MAYBE_END.search(text, start, end):
        return []
    plain = text[start:end].translate(_PLAIN_QUOTES)
    starts = [start + s for s, _ in _punkt().span_tokenize(plain)]
    return [s for s in starts if s < end and text[start:s].strip() and not _goes_on(text, s)]


def _goes_on(text: str, start: int) -> bool:
    """Whether a sentence is none, but goes on behind a quotation: “Really?” she asked."""
    before = text[max(0, start - 8) : start].rstrip()
    return text[start].islower() and before.endswith(_QUOTES)


def _cut_before(text: str, start: int, limit: int) -> int:
    """The last word start at or before `limit`; `limit` when there is no space to cut at."""
    for cut in range(limit, max(start, limit - 1_000), -1):
        if text[cut - 1].isspace() and not text[cut].isspace():
            return cut
    return limit


_LOWER_CASE_INSIDE = 1 << 5
"""Punkt's flag for a word that is seen in lower case inside sentences."""


class _Abbreviations(set[str]):
    """Known abbreviations and every run of dotted letters, which no list could hold."""

    _DOTTED = re.compile(r"(?:[^\W\d]\.)+[^\W\d]")

    def __contains__(self, word: object) -> bool:
        return super().__contains__(word) or (
            isinstance(word, str) and self._DOTTED.fullmatch(word) is not None
        )


@contextmanager
def _hide(*modules: str) -> Iterator[None]:
    """Let imports of modules that are not loaded yet raise ImportError."""
    hidden = [name for name in modules if name not in sys.modules]
    sys.modules |= dict.fromkeys(hidden, cast(ModuleType, None))
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


@lru_cache(maxsize=1)
def _punkt() -> PunktSentenceTokenizer:
    # NLTK takes a third of a second, so it waits until a text needs it. Punkt needs neither of two
    # packages that NLTK imports if they are there, in most of a second.
    with _hide("scipy.stats", "sklearn"):
        from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer

    lists = _word_lists()
    parameters = PunktParameters()
    parameters.abbrev_types = _Abbreviations(lists["abbreviation"])
    parameters.collocations = {(word, "##number##") for word in lists["before-number"]}
    parameters.collocations |= {("##number##", word) for word in lists["after-number"]}
    parameters.sent_starters = lists["starter"]
    for word in lists["starter"]:
        parameters.add_ortho_context(word, _LOWER_CASE_INSIDE)
    punkt = PunktSentenceTokenizer(parameters)
    # The decision depends on its few words of context only, and texts repeat themselves.
    decide = punkt.text_contains_sentbreak
    remember = lru_cache(maxsize=1 << 14)(decide)

    def text_contains_sentbreak(text: str) -> bool:
        return bool(remember(text) if len(text) < 80 else decide(text))

    punkt.text_contains_sentbreak = text_contains_sentbreak
    return punkt


def _word_lists() -> dict[str, set[str]]:
    lists: dict[str, set[str]] = {}
    text = files("ku_rag.text").joinpath("abbreviations.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        use, colon, listed = line.partition("#")[0].partition(":")
        if colon:
            lists.setdefault(use.strip(), set()).update(listed.split())
    return lists
