"""Typed values in a sentence: dates, amounts with a unit, counts and names."""

from __future__ import annotations

import re
from typing import NamedTuple

from ku_rag.text.tokens import stop_words

_MONTH = "(?:January|February|March|April|May|June|July|August|September|October|November|December)"
_YEAR = r"(?:1\d{3}|20\d{2})"
_DATE = re.compile(
    rf"(?:\d{{1,2}} {_MONTH},? |{_MONTH} \d{{1,2}}(?:st|nd|rd|th)? ?,? |{_MONTH} )?\b{_YEAR}\b"
    rf"(?![,.]\d)(?! ?[-–] ?\d)|\b\d{{1,2}}(?:st|nd|rd|th)[ -]century|\b\d+ BC\b"
)
_NUMBER = r"(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)(?: (?:thousand|million|billion))?"
_UNITS = {
    "length": "mm cm m km millimetres? centimetres? metres? kilometres? millimeters? centimeters? "
    "meters? kilometers? inch(?:es)? in ft feet foot miles? mi yards?",
    "area": "km2 km² m2 m² ha hectares? acres? square kilometres? square kilometers? square miles? "
    "square metres? square meters?",
    "mass": "mg g kg t grams? kilograms? tons? tonnes? pounds? lb ounces? oz",
    "time": "years? months? weeks? days? hours? minutes? seconds? h min s",
    "temperature": "°C °F degrees?",
    "speed": "km/h mph knots? m/s",
    "money": "euros? dollars? pounds? cents? € £ USD EUR",
}
_AMOUNTS = {
    kind: re.compile(
        rf"(?<![\w.]){_NUMBER}[ -]?(?:"
        + "|".join(re.sub(r"(square) ", r"\1_", units).replace("_", "~").split()).replace("~", " ")
        + r")(?!\w)"
        + (rf"|[$€£] ?{_NUMBER}" if kind == "money" else "")
    )
    for kind, units in _UNITS.items()
}
_COUNT = re.compile(rf"(?<![\w.$€£]){_NUMBER}(?![\w%°])")
_CAPITAL = r"[^\W\d_a-zß-öø-ÿ][\w’'&-]*(?:\. ?(?=[A-Z]))?"
_NAME = re.compile(
    rf"\b{_CAPITAL}(?:(?: |(?<=\.))(?:(?:of|the|de|van|von|der|la|le|di|da|du|al) ){{0,2}}"
    rf"{_CAPITAL})*"
)
_PLACE = re.compile(rf"(?:{_NAME.pattern})(?: ?, {_NAME.pattern})*")
_BEFORE_PLACE = re.compile(
    r"\b(?:in|at|near|from|to|of|on|into|is|are|was|were|outside|inside|around)(?: the| an?)? $"
)
_WITHIN = re.compile(r"\b(?:in|at|near|from|into|outside|inside|around) (?:the )?$")
"""Before a name, it is that of no person."""
_CALENDAR = re.compile(
    rf"{_MONTH}|(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day|I|It|He|She|They|The|In|At"
)
_ADJECTIVE = re.compile(r"\w+(?:an|ish|ese|ic)")
"""Before a word in lower case, this is no name: "Indian composer"."""


class Value(NamedTuple):
    """A value in a text: `text[start:end]`."""

    start: int
    end: int


def find_values(text: str, kind: str) -> list[Value]:
    """Return the values of a kind in a sentence, in order.

    Args:
        text: a sentence.
        kind: "date", "number", "person", "place", "name", or kinds of unit such as "mass" or
            "length time".
    """
    if kind == "date":
        found = _DATE.finditer(text)
        return [Value(*match.span()) for match in found]
    if kind == "number":
        # Neither a part of a date nor an amount of something that has a unit.
        taken = [m.span() for one in (_DATE, *_AMOUNTS.values()) for m in one.finditer(text)]
        counts = (m.span() for m in _COUNT.finditer(text))
        return [Value(*n) for n in counts if all(n[1] <= t[0] or t[1] <= n[0] for t in taken)]
    if kind == "place":
        found = (m for m in _PLACE.finditer(text) if _BEFORE_PLACE.search(text[: m.start()]))
        return [value for match in found if (value := _name(match))]
    if kind in ("person", "name"):
        found = _NAME.finditer(text)
        if kind == "person":
            found = (m for m in found if not _WITHIN.search(text[: m.start()]))
        return [value for match in found if (value := _name(match))]
    matches = [m for one in kind.split() for m in _AMOUNTS[one].finditer(text)]
    return [Value(*match.span()) for match in sorted(matches, key=lambda match: match.start())]


def _name(match: re.Match[str]) -> Value | None:
    """A capitalised span without a stop word that a sentence starts with; None for a month."""
    start = match.start()
    while (first := re.match(r"\w+ ?", match.string[start : match.end()])) and (
        first[0].strip().lower() in stop_words()
    ):
        start += first.end()
    said = match.string[start : match.end()].strip(" .,")
    if not said or _CALENDAR.fullmatch(said) or len(said) < 2:
        return None
    if _ADJECTIVE.fullmatch(said) and re.match(r" [a-z]", match.string[start + len(said) :]):
        return None
    return Value(start, start + len(said))
