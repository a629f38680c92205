"""Amounts read from a sentence at a given word: quantities with units, numbers, dates."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ku_rag.answering.values import SKIPPED, Value
from ku_rag.text.lexicon import Word, word_list

_MONTHS = word_list("months")
_MAGNITUDES = word_list("magnitudes")
NUMBER_WORDS = word_list("numbers")
_TOWARDS = {"of", "is", "are", "was", ":", "size", "total"}
_BETWEEN = {"-", "–", "—", "to", "and", "or"}
_CUTS = {";", "and", "but"}
_KINDS = (
    "area",
    "length",
    "mass",
    "volume",
    "energy",
    "time",
    "temperature",
    "speed",
    "money",
    "part",
)
_UNIT_KINDS: dict[str, tuple[str, ...]] = {}
for _kind in _KINDS:
    for _name in word_list(f"units of {_kind}"):
        _UNIT_KINDS[_name] = (*_UNIT_KINDS.get(_name, ()), _kind)


def same_unit(asked: Sequence[Word], given: Sequence[Word]) -> bool | None:
    """Whether a value is given in the unit that the question names; None when it names none."""
    wanted = {_unit_key(w.stem) for w in asked if w.stem in _UNIT_KINDS and len(w.stem) > 2}
    if not wanted:
        return None
    found = {_unit_key(w.stem) for w in given}
    return any(a in b or b in a for a in wanted for b in found if len(b) > 2)


def _unit_key(unit: str) -> str:
    return unit.replace("kal", "cal").removeprefix("kilo").rstrip("yi")


def quantity(words: Sequence[Word], at: int, kinds: Sequence[str] = ()) -> Value | None:
    """A number with its unit that starts at `at`."""
    if at + 1 < len(words) and words[at].text in "€$£¥₹" and words[at + 1].text[0].isdigit():
        fits = not kinds or "money" in kinds
        end = at + 2
        while end < len(words) and words[end].stem in _MAGNITUDES:
            end += 1
        return Value(((at, end),), end) if fits else None
    if at >= len(words) or not words[at].text[0].isdigit():
        return None
    end = at + 1
    joins = end + 1 < len(words) and words[end].text.lower() in _BETWEEN
    if joins and words[end + 1].text[0].isdigit():
        end += 2
    while end < len(words) and words[end].stem in _MAGNITUDES and not _is_unit(words, end, kinds):
        end += 1
    after = unit_end(words, end, kinds)
    return Value(((at, after),), after) if after > end else None


def _is_unit(words: Sequence[Word], at: int, kinds: Sequence[str]) -> bool:
    return any(kind in kinds for kind in _UNIT_KINDS.get(words[at].stem, ()))


def unit_end(words: Sequence[Word], at: int, kinds: Sequence[str] = ()) -> int:
    """The index after the unit at `at`; `at` itself when none of the kinds stands there."""
    if at >= len(words):
        return at
    found = _UNIT_KINDS.get(words[at].text) or _UNIT_KINDS.get(words[at].stem, ())
    squared = words[at].stem in ("squar", "sq")
    if squared or words[at].stem == "cubic":
        end = at + 2 if at + 1 < len(words) and words[at + 1].text != "." else at + 3
        return min(end, len(words)) if not kinds or "area" in kinds else at
    if not found or (kinds and not set(kinds) & set(found)):
        return at
    if words[at].stem == "per":
        return at + 2 if at + 1 < len(words) and words[at + 1].stem == "cent" else at
    if words[at].text == "°":
        return min(at + 2, len(words))
    return at + 1


def number(words: Sequence[Word], at: int) -> Value | None:
    """A number in digits or words at `at`, with "million" and the like."""
    if at >= len(words):
        return None
    if not words[at].text[0].isdigit() and words[at].text.lower() not in NUMBER_WORDS:
        return None
    end = at + 1
    while end < len(words) and words[end].stem in _MAGNITUDES:
        end += 1
    return Value(((at, end),), end)


def date(words: Sequence[Word], at: int, *, year_only: bool = False) -> Value | None:
    """A date or year that starts at `at`."""
    for first, last, year in _dates(words):
        if first == at:
            return Value(((year, year + 1) if year_only and year >= 0 else (first, last),), last)
    return None


def _dates(words: Sequence[Word]) -> list[tuple[int, int, int]]:
    found = []
    at = 0
    while at < len(words):
        end, year = _date_at(words, at)
        if end > at:
            found.append((at, end, year))
        at = max(end, at + 1)
    return found


def _date_at(words: Sequence[Word], at: int) -> tuple[int, int]:
    """(index after the date at `at`, index of its year or -1)."""
    texts = [w.text for w in words[at : at + 5]]
    if not texts:
        return at, -1
    day = re.fullmatch(r"[0-3]?\d", texts[0]) is not None
    offset = 1 if day else 0
    if day and len(texts) > 1 and texts[1].lower() in ("st", "nd", "rd", "th"):
        offset = 2
    if len(texts) > offset and texts[offset].lower() in _MONTHS and texts[offset][0].isupper():
        i = offset + 1
        if not day and len(texts) > i and re.fullmatch(r"[0-3]?\d", texts[i]):
            i += 1
            day = True
        if len(texts) > i + 1 and texts[i] == "," and _is_year(texts[i + 1]):
            return at + i + 2, at + i + 1
        if len(texts) > i and _is_year(texts[i]):
            return at + i + 1, at + i
        return (at + i, -1) if day else (at, -1)
    if _is_year(texts[0]) and not _counted(words, at):
        if at > 0 and words[at - 1].text in "€$£¥₹#":
            return at, -1
        return at + 1, at
    if re.fullmatch(r"\d{3,4}s", texts[0]):
        return at + 1, at
    ordinal = re.fullmatch(r"\d{1,2}(?:st|nd|rd|th)?", texts[0])
    if ordinal and "century" in [t.lower() for t in texts[1:3]]:
        return at + 1 + [t.lower() for t in texts[1:3]].index("century") + 1, -1
    return at, -1


def _is_year(text: str) -> bool:
    return re.fullmatch(r"1[0-9]{3}|20[0-9]{2}|21[0-4][0-9]", text) is not None


def _counted(words: Sequence[Word], at: int) -> bool:
    """Whether a unit follows: "1500 metres" is no year."""
    after = words[at + 1] if at + 1 < len(words) else None
    if after is None:
        return False
    return unit_end(words, at + 1) > at + 1 or after.stem in (
        "people",
        "inhabitant",
        "foot",
        *_MAGNITUDES,
    )


# ---- amounts near a word -----------------------------------------------------------------------


def quantity_from(words: Sequence[Word], at: int, kinds: Sequence[str]) -> Value | None:
    """The quantity that "of about", "is some" and the like lead to."""
    for probe in range(at, min(at + 6, len(words))):
        value = quantity(words, probe, kinds)
        if value:
            return value
        if words[probe].text.lower() not in SKIPPED | _TOWARDS:
            return None
    return None


def quantity_before(words: Sequence[Word], end: int, kinds: Sequence[str]) -> Value | None:
    """The quantity that ends at `end`, or at most two words before it: "12 percent of fat"."""
    for first in range(end - 2, max(-1, end - 7), -1):
        value = quantity(words, first, kinds)
        if value and value.end >= end - 2:
            return value
    return None


def number_before(words: Sequence[Word], end: int, start: int) -> Value | None:
    """The number right before `end`, at most three words before `start`: "10 million people"."""
    for at in range(end - 1, max(-1, start - 4), -1):
        value = number(words, at)
        if value and value.end <= end:
            lower = number(words, at - 2) if at > 1 and words[at - 1].text in _BETWEEN else None
            return Value(((at - 2, value.end),), value.end) if lower else value
        if not words[at].text[0].isalnum():
            return None
    return None


def number_after(words: Sequence[Word], at: int) -> Value | None:
    """The number in digits within five words, before any mark: "a population of 10 million"."""
    for probe in range(at, min(at + 8, len(words))):
        if words[probe].text in ",;.":
            return None
        value = number(words, probe)
        if value and words[probe].text[0].isdigit():
            return value
    return None


def date_near(words: Sequence[Word], start: int, end: int, *, year_only: bool) -> Value | None:
    """The date that belongs to the words from `start` to `end`: after them, or else before."""
    for at in range(start, min(end + 9, len(words))):
        if at > end and words[at].text.lower() in _CUTS:
            break
        value = date(words, at, year_only=year_only)
        if value:
            return _span_of_time(words, at, value, year_only)
    for at in range(start - 1, max(-1, start - 9), -1):
        if words[at].text.lower() in _CUTS:
            return None
        value = date(words, at, year_only=year_only)
        if value:
            whole = date(words, at - 1, year_only=year_only) if at else None
            return whole or value
    return None


def _span_of_time(words: Sequence[Word], at: int, value: Value, year_only: bool) -> Value:
    """Go on to the second date of "from 1887 to 1889"."""
    opened = at > 0 and words[at - 1].text.lower() in ("from", "between")
    end = value.end
    if end + 1 < len(words) and (opened or words[end].text in "-–") and words[end].text in _BETWEEN:
        second = date(words, end + 1, year_only=year_only)
        if second:
            return Value(((value.parts[0][0], second.end),), second.end)
    return value
