"""Limits in a question: "under 2 kg", "between 50 and 150 euros", "made before 1900"."""

from __future__ import annotations

import re
from typing import NamedTuple

from ku_rag.text.stems import stem
from ku_rag.text.tokens import words
from ku_rag.text.values import Amount, amounts

NUMBERS = {
    word: number
    for number, word in enumerate(
        words("two three four five six seven eight nine ten eleven twelve"), 2
    )
}
"""Words for numbers."""
_AMOUNT = re.compile(
    r"[$€£]? ?\d(?:(?:[\d.,]|[ \xa0](?=\d{3}\b))*\d)?(?: ?[^\W\d_]+[²23]?| ?[€$£%°])?"
)
_BETWEEN = re.compile(
    r"\b(?:between|from) (?P<low>[$€£]? ?\d[\d.,]*\S*) (?:and|to) (?P<high>[$€£]? ?\d)", re.I
)
_SIGNS = (
    (1, True, "at least, no less than, not less than, minimum, from, no earlier than"),
    (-1, True, "at most, up to, no more than, not more than, maximum, within, max"),
    (-1, False, "under, below, less than, fewer than, before, cheaper than, earlier than, until"),
    (1, False, "over, above, more than, after, later than, exceeding, since"),
)
_PHRASES = {
    phrase.strip(): (sign, inclusive)
    for sign, inclusive, phrases in _SIGNS
    for phrase in phrases.split(",")
}


class Limit(NamedTuple):
    """A side of an amount: 1 for greater ones, -1 for less, 0 where a comparison tells."""

    amount: Amount
    sign: int
    inclusive: bool


def in_digits(question: str) -> str:
    """Return a question with number words as digits where a word follows."""
    return re.sub(r"\b[a-z]+(?= [a-z])", lambda m: str(NUMBERS.get(m[0], m[0])), question)


def read_limits(question: str) -> list[Limit]:
    """Return the limits in a question, in order."""
    question = in_digits(question)
    if between := _BETWEEN.search(question):
        low, high = amounts(f"{between['low']} "), amounts(question[between.start("high") :])[:1]
        if len(low) == 1 and high:
            if not low[0].unit:  # "Between 8 and 9 m": the unit stands once.
                second = _AMOUNT.match(question, between.start("high"))
                unit = re.sub(r"[\d.,]", "", second[0]) if second else ""
                low = amounts(f"{between['low']}{unit}")
            first = Amount(low[0].number, high[0].unit)
            return [Limit(first, 1, True), Limit(high[0], -1, True)]
    limits = []
    for match in _AMOUNT.finditer(question):
        before = question[: match.start()].lower().rstrip()
        phrase = next((key for key in _PHRASES if re.search(rf"\b{key}(?: the)?$", before)), None)
        amount = amounts(match[0])[:1]
        if amount and (phrase or before.endswith(" than")):
            sign, inclusive = _PHRASES.get(phrase or "", (0, False))
            limits.append(Limit(amount[0], sign, inclusive))
    return limits


def amount_stems(question: str) -> frozenset[str]:
    """Return the stems of the words of a question that are an amount: "12 mm"."""
    written = re.findall(r"\d[\d.,]*(?: ?[^\W\d_]+)?", in_digits(question))
    numbers = (word for word in words(question) if word in NUMBERS)
    return frozenset(map(stem, [*numbers, *(word for amount in written for word in words(amount))]))
