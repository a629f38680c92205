"""Values read from a sentence at a given word: names, quantities, dates, colours, noun phrases."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ku_rag.text.lexicon import Word, word_list
from ku_rag.text.tokens import is_cjk


@dataclass(frozen=True, slots=True)
class Value:
    """A value found in a statement.

    Args:
        parts: (first, last + 1) word indices of its members, in order.
        end: index of the word after it.
    """

    parts: tuple[tuple[int, int], ...]
    end: int


_OWNING = {"its", "their", "his", "her"}
ARTICLES = {"the", "a", "an"}
_PARTICLES = word_list("particles")
_DIRECTIONS = word_list("directions")
_TO = {"to", "on", "in", "at", "the", "its", "along", "from", "far"}
SKIPPED = word_list("skipped before a value")
_CLAUSE = word_list("clause openers")
_STOPS = set(".;:!?()[]{}—–…。！？；：（）|") | {'"', "“", "”"}
VERBS = word_list("verbs that end a phrase")
PREPOSITIONS = word_list("prepositions")
PRONOUNS = word_list("pronouns")
_OPENERS = word_list("openers")
_ADJECTIVE = re.compile(r".*(?:ish|[ai]an|ese|ch|ic|[^t]i)$")
_WATER = word_list("waters")
_CONTINENTS = word_list("continents")
_COLOURS = word_list("colours")
_SHADES = word_list("shades")


def skip(words: Sequence[Word], at: int, limit: int = 6) -> int:
    """The index after adverbs, articles and the like."""
    end = min(at + limit, len(words))
    while at < end and words[at].text.lower() in SKIPPED and not _proper_the(words, at):
        at += 1
    return at


def _proper_the(words: Sequence[Word], at: int) -> bool:
    return words[at].text == "The"


def capital(word: Word) -> bool:
    """Whether a word may be (part of) a name: it starts with a capital, or its script has none."""
    first = word.text[0]
    return first.isupper() or (first.isalpha() and not first.islower()) or is_cjk(first)


# ---- names -------------------------------------------------------------------------------------


def name_end(words: Sequence[Word], at: int) -> int:
    """The index after the one name at `at`; `at` itself when there is none."""
    if at < len(words) and words[at].text == "The" and at + 1 < len(words):
        inner = name_end(words, at + 1)
        return inner if inner > at + 1 else at
    if at >= len(words) or not capital(words[at]):
        return at
    end = at + 1
    while end < len(words):
        word = words[end]
        if (
            capital(word)
            or (word.text[0].isdigit() and _touches(words, end))
            or (word.text == "," and _initials(words, end + 1))
            or (word.text == "." and len(words[end - 1].text) <= 2 and _more(words, end))
            or (word.text.lower() in _PARTICLES - {"and"} and _particle(words, end))
        ):
            end += 1
        else:
            break
    return end


def _touches(words: Sequence[Word], at: int) -> bool:
    return words[at].start == words[at - 1].end


def _initials(words: Sequence[Word], at: int) -> bool:
    """Whether "D.C." stands at `at`."""
    return (
        at + 1 < len(words)
        and len(words[at].text) == 1
        and words[at].text.isupper()
        and words[at + 1].text == "."
    )


def _more(words: Sequence[Word], dot: int) -> bool:
    return dot + 1 < len(words) and capital(words[dot + 1]) and words[dot - 1].text[0].isupper()


def _particle(words: Sequence[Word], at: int) -> bool:
    after = words[at + 1] if at + 1 < len(words) else None
    if after and after.text.lower() == "the" and words[at].text.lower() == "of":
        after = words[at + 2] if at + 2 < len(words) else None
    return after is not None and capital(after)


def names(words: Sequence[Word], at: int, *, many: bool = True) -> Value | None:
    """One name, or a list of names, from `at` on; what says where each lies is left out."""
    parts: list[tuple[int, int]] = []
    at = skip(words, at)
    while at < len(words):
        at = _past_place(words, at)
        start = at
        while (
            start < len(words)
            and words[start].text.lower() in ("the", "both", "also", "with", "by")
            and words[start].text[0].islower()
        ):
            start += 1
        end = name_end(words, start)
        if end == start or _is_adjective(words, start, end):
            break
        parts.append((start, end))
        at = _past_place(words, end)
        after = _separator(words, at)
        if not many or after == at:
            break
        at = after
    return Value(tuple(parts), at) if parts else None


def _separator(words: Sequence[Word], at: int) -> int:
    start = at
    while at < len(words) and words[at].text.lower() in (
        ",",
        "and",
        "or",
        "&",
        "/",
        "plus",
        "、",
        "，",
    ):
        at += 1
    if at + 2 < len(words) and [w.text.lower() for w in words[at : at + 3]] == ["as", "well", "as"]:
        at += 3
    return at if at > start else start


def _past_place(words: Sequence[Word], at: int) -> int:
    """Skip "to the north", "in the north and east", "(north)"."""
    probe = at
    while probe < len(words) and words[probe].text in _TO | {"(", "and", ")"}:
        probe += 1
    if probe == at or probe >= len(words) or words[probe].text not in _DIRECTIONS:
        return at
    while probe < len(words) and words[probe].text in _DIRECTIONS | {")"}:
        probe += 1
    following = words[probe].text.lower() if probe < len(words) else ""
    nxt = words[probe + 1].text.lower() if probe + 1 < len(words) else ""
    if following in ("and", "of") and nxt in _DIRECTIONS | {"the"}:
        further = _past_place(words, probe)
        return further if further > probe else probe
    return probe


def _is_adjective(words: Sequence[Word], start: int, end: int) -> bool:
    """Whether a noun follows: "from Swedish milk" names no place."""
    if end >= len(words) or not words[end].text[0].islower():
        return False
    following = words[end].text.lower()
    plain = following in PREPOSITIONS | _CLAUSE | _PARTICLES | {"and", "or", "that", "s"}
    if plain or words[end].stem in VERBS:
        return False
    return _ADJECTIVE.match(words[end - 1].text.lower()) is not None


def names_before(words: Sequence[Word], end: int, *, many: bool = True) -> Value | None:
    """The name or list of names that ends right before `end`."""
    parts: list[tuple[int, int]] = []
    at = end
    while at > 0:
        start = at
        while start > 0 and (capital(words[start - 1]) or _inner(words, start - 1, at)):
            start -= 1
        while start < at and words[start].text in _OPENERS:
            start += 1
        if start == at:
            break
        parts.insert(0, (start, at))
        at = start
        while at > 0 and words[at - 1].text.lower() == "the":
            at -= 1
        joined = at
        while joined > 0 and words[joined - 1].text.lower() in (",", "and", "or", "&"):
            joined -= 1
        if not many or joined == at:
            break
        at = joined
    first = parts[0][0] if len(parts) > 1 else 0
    if first and words[first - 1].text.lower() in PREPOSITIONS | {"the"}:
        # "In Kenya, English and Swahili are …": the place is not part of the list.
        parts = parts[1:]
    return Value(tuple(parts), end) if parts else None


def _inner(words: Sequence[Word], at: int, end: int) -> bool:
    if at == 0 or at + 1 >= end:
        return words[at].text == "." and at > 0 and len(words[at - 1].text) <= 2 and at + 1 < end
    inside = words[at].text.lower() in _PARTICLES - {"and", "the"} or words[at].text == "'s"
    return inside and capital(words[at - 1])


# ---- phrases -----------------------------------------------------------------------------------


def phrase(words: Sequence[Word], at: int, *, short: bool = False) -> Value | None:
    """A noun phrase from `at` on, up to where another clause begins.

    Args:
        words: of the statement.
        at: where it starts; a leading article is left out.
        short: stop at prepositions other than "of" too.
    """
    while at < len(words) and words[at].text.lower() in SKIPPED - {"one", "more", "single"}:
        at += 1
    if at < len(words) and words[at].text.lower() in _CLAUSE:
        return None
    end = at
    while end < len(words) and not _stops(words, end, at, short):
        end += 1
    while end > at and words[end - 1].text.lower() in ARTICLES | {"and", "or", ",", "also", "as"}:
        end -= 1
    return Value(((at, end),), end) if end > at else None


def _stops(words: Sequence[Word], at: int, start: int, short: bool) -> bool:
    text = words[at].text.lower()
    if text in _STOPS:
        return True
    if text == ",":
        return short or not _goes_on(words, at + 1)
    if (
        short
        and (text in PREPOSITIONS | _CLAUSE | {"that"} or words[at].stem in VERBS)
        and at > start
    ):
        return True
    if text in ("and", "but", "or", "while"):
        return _new_clause(words, at + 1)
    return (
        text in _CLAUSE - {"who", "whose", "where", "which", "when", "before", "after"}
        and at > start
    )


def _goes_on(words: Sequence[Word], at: int) -> bool:
    """Whether a list goes on after a comma: a short member, then another separator or the end."""
    for end in range(at, min(at + 7, len(words))):
        text = words[end].text.lower()
        if text in (",", "and", "or") and end > at:
            return True
        if text in ("and", "or"):
            return not _new_clause(words, end + 1)
        if text in _CLAUSE | PRONOUNS or words[end].stem in VERBS or text in _STOPS:
            return False
    return False


def _new_clause(words: Sequence[Word], at: int) -> bool:
    """Whether a subject and its verb begin at `at`: "and its capital is", "and the red for"."""
    if at >= len(words):
        return False
    if words[at].text.lower() in (PRONOUNS - _OWNING) | _CLAUSE or words[at].stem in VERBS:
        return True
    for i in range(at, min(at + 6, len(words))):
        text = words[i].text.lower()
        if text in (",", "and", "or") or text in _STOPS:
            return False
        if words[i].stem in VERBS and text not in ("border", "borders", "shares", "use", "share"):
            return True
        if text == "for" and i - at <= 3 and (words[at].text == "the" or _colour_word(words[at])):
            return True
    return False


def phrase_before(words: Sequence[Word], end: int) -> Value | None:
    """The noun phrase that ends right before `end`, without its article."""
    start = end
    while start > 0:
        word = words[start - 1]
        text = word.text.lower()
        if text in _STOPS or text == "," or text in ARTICLES | PRONOUNS | _CLAUSE:
            break
        if text in PREPOSITIONS or (word.stem in VERBS and start < end):
            break
        start -= 1
    return Value(((start, end),), end) if start < end else None


# ---- kinds of names, colours ------------------------------------------------------------------


def colours(words: Sequence[Word], start: int, end: int) -> list[tuple[int, int]]:
    """Every colour between two indices with its shade, as (first, last + 1)."""
    found = []
    at = start
    while at < end:
        if _colour_word(words[at]):
            first = at
            while first > start and words[first - 1].text.lower() in _SHADES:
                first -= 1
            last = at + 1
            while last < end and _colour_word(words[last]):
                last += 1
            found.append((first, last))
            at = last
        else:
            at += 1
    return found


def _colour_word(word: Word) -> bool:
    text = word.text.lower()
    return text in _COLOURS or ("-" in text and text.rsplit("-", 1)[1] in _COLOURS)


def is_water(words: Sequence[Word], part: tuple[int, int]) -> bool:
    """Whether a name is that of a sea, an ocean or a lake."""
    return any({word.text.lower(), word.stem} & _WATER for word in words[part[0] : part[1]])


def continent(words: Sequence[Word], part: tuple[int, int]) -> tuple[int, int] | None:
    """The continent inside a name: all of "South America", the second word of "West Africa"."""
    for at in range(part[0], part[1]):
        if words[at].text.lower() in _CONTINENTS:
            halved = at > part[0] and words[at - 1].text.lower() in ("north", "south")
            if words[at].text.lower() == "america" and at > part[0] and not halved:
                return None
            return (
                (at - 1, at + 1) if halved and words[at].text.lower() == "america" else (at, at + 1)
            )
    return None
