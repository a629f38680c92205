"""Typed values in a sentence: dates, amounts with a unit, counts and names; values of fields."""

from __future__ import annotations

import re
from calendar import month_name, monthrange
from datetime import date
from functools import cache, lru_cache
from typing import NamedTuple

from ku_rag.text.tokens import stop_words

_MODEL = re.compile(r"\w [A-Z][\w-]* $")
"""Before a number, it is that of a model: "the Embraer 190"."""
_MONTH = "(?:January|February|March|April|May|June|July|August|September|October|November|December)"
_YEAR = r"(?:1\d{3}|20\d{2})"
DATE = re.compile(
    rf"(?:\d{{1,2}} {_MONTH},? |{_MONTH} \d{{1,2}}(?:st|nd|rd|th)? ?,? |{_MONTH} )?\b{_YEAR}\b"
    rf"(?![,.]\d)(?! ?[-–] ?\d)|\b\d{{1,2}}(?:st|nd|rd|th)[ -]century|\b\d+ BC\b"
    rf"|(?<=\bin )(?:early |late |mid-)?{_MONTH}\b"
)
_PERIOD = re.compile(rf"\b(?:between {_YEAR} and|from {_YEAR} (?:to|until)) {_YEAR}\b")
_PRICE = (
    r"(?:\d{1,3}(?:(?:\.\d{3})+|(?:[ \xa0\u202f]\d{3})+)(?:,\d\d?)?"
    r"(?=[ \xa0\u202f]?(?:[€$£]|(?i:euros?|eur|usd|gbp|dollars?|pounds?)\b))"
    r"|(?:(?<=€)|(?<=[€R] ))\d{1,3}(?:\.\d{3})+(?:,\d\d?)?(?!\d))(?!\D{0,7}(?:/|per) ?l)"
)
"""A sum with points or spaces between thousands: "1.200 euros"; no price by the litre."""
_IS_PRICE = re.compile(_PRICE)
_NUMBER = (
    rf"(?:{_PRICE}|\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?|\d+,\d\d?(?!\d)|\d+(?:\.\d+)?)"
    r"(?: (?:thousand|million|billion))?"
)
_TENS = "twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety"
_ONES = "two|three|four|five|six|seven|eight|nine"
_TEENS = "ten|eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen"
_IN_WORDS = (
    rf"(?i:\b(?:(?:{_TENS})(?:-(?:one|{_ONES}))?|{_TEENS}|{_ONES}))(?:(?: hundred| thousand)\b)?"
)
_UNITS = {
    "length": "mm cm m km millimetres? centimetres? metres? kilometres? millimeters? centimeters? "
    "meters? kilometers? inch(?:es)? in ft feet foot miles? mi yards?",
    "area": "km2 km² m2 m² ha hectares? acres? square kilometres? square kilometers? square miles? "
    "square metres? square meters?",
    "mass": "mg g kg t grams? kilograms? tons? tonnes? pounds? lb ounces? oz",
    "time": "years? months? weeks? days? hours? minutes? seconds? h min s",
    "temperature": "°C °F degrees?",
    "speed": "km/h mph knots? m/s rpm",
    "money": "euros? dollars? pounds? cents? € £ USD EUR",
    "volume": "ml cl l litres? liters? gallons? pints?",
}
_ONE = rf"(?:(?<![\w.$€£]){_NUMBER}|{_IN_WORDS})"
_RANGE = rf"(?:between {_ONE} and |{_ONE} ?(?:to|or|-|–) ?)?{_ONE}"
_COUNT = re.compile(rf"(?<!-){_RANGE}(?![\w%°-])")
_CAPITAL = r"[^\W\d_a-zß-öø-ÿ][\w’'&-]*(?:\. ?(?=[A-Z]))?"
_NAME = re.compile(
    rf"\b{_CAPITAL}(?:(?: |(?<=\.))(?:(?:of|the|de|van|von|der|la|le|di|da|du|al) ){{0,2}}"
    rf"{_CAPITAL})*(?: \d{{1,3}}[A-Z]?\b(?![.,]\d| (?!(?:of|in|on|at|and|is|was|by|for)\b)\w))?"
)
_PLACE = re.compile(rf"(?:{_NAME.pattern})(?: ?, {_NAME.pattern})*")
_BEFORE_PLACE = re.compile(
    r"\b(?:in|at|near|from|of|on|into|is|are|was|were|outside|inside|around)(?: the| an?)? $"
)
_WITHIN = re.compile(r"\b(?:in|at|near|from|into|outside|inside|around) (?:the )?$")
"""Before a name, it is that of no person, and of a place rather than that of a name after "of"."""
_AWAY = re.compile(r"\d \w+ (?:\w+ )?(?:from|of|to) (?:the )?$")
"""Before a name, it is that of a place somewhere else: "20 miles from Hull"."""
_CALENDAR = re.compile(
    rf"(?:{_MONTH}|(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day|I|It|He|She|They|The|In|At)?"
    r"(?: ?\d+)?"
)
_ADJECTIVE = re.compile(r"\w+(?:an|ish|ese|ic)|French|Dutch|Greek|Swiss|Welsh|Czech|Thai")
"""Before a word in lower case, this is no name: "Indian composer"."""
_BODY = re.compile(
    r" (?:family|brothers|sisters|company|firm|workshop|studio|factory|team|group|foundation|"
    r"institute|university|school|museum|gallery|society|council|church)\b"
)
"""After a name that follows "the", it belongs to it: "the Harker family"."""


_IN = {
    "length": "mm .001 millimet .001 cm .01 centimet .01 m 1 met 1 km 1000 kilomet 1000 "
    "in .0254 inch .0254 inche .0254 ft .3048 feet .3048 foot .3048 yard .9144 mi 1609.34 "
    "mile 1609.34",
    "mass": "mg .001 g 1 gram 1 kg 1000 kilogram 1000 t 1e6 ton 1e6 tonne 1e6 lb 453.59 "
    "pound 453.59 oz 28.35 ounce 28.35",
    "volume": "ml .001 millilit .001 cl .01 dl .1 l 1 lit 1",
    "area": "mm² 1e-6 cm² 1e-4 m² 1 m2 1 km² 1e6 km2 1e6 ha 1e4 hecta 1e4 acre 4046.86",
    "euro": "€ 1 eur 1 euro 1",
    "dollar": "$ 1 usd 1 dollar 1",
    "pound": "£ 1 gbp 1",
    "power": "w 1 watt 1 kw 1000 hp 745.7",
    "voltage": "v 1 volt 1 kv 1000",
    "energy": "kcal 4184 kj 1000 kwh 3.6e6",
    "level": "db 1 decibel 1",
    "time": "s 1 second 1 min 60 minute 60 h 3600 hour 3600 day 86400 week 604800",
}
_FACTORS = {
    unit: (kind, float(factor))
    for kind, listed in _IN.items()
    for unit, factor in zip(listed.split()[::2], listed.split()[1::2], strict=True)
}
DIMENSIONS = frozenset(_IN)
"""Dimensions of amounts whose units are known."""
MONEY = frozenset({"euro", "dollar", "pound"})
_AMOUNT = re.compile(rf"(?P<sign>[$€£-]? ?)(?P<number>{_NUMBER})[ -]?(?P<unit>[^\s\d,;:]*)")
_TIMES = {"thousand": 1e3, "million": 1e6, "billion": 1e9}


class Value(NamedTuple):
    """A value in a text: `text[start:end]`."""

    start: int
    end: int


@cache
def _amount_pattern(kind: str) -> re.Pattern[str]:
    """Return what matches amounts of a kind; compiled at its first use."""
    units = "|".join(_UNITS[kind].replace("square ", "square~").split()).replace("~", " ")
    sums = rf"|[$€£] ?{_NUMBER}" if kind == "money" else ""
    return re.compile(rf"{_RANGE}[ -]?(?:{units})(?!\w){sums}")


def find_values(text: str, kind: str) -> list[Value]:
    """Return the values of a kind, such as "date", "person" or "length time", in a sentence."""
    if kind == "date":
        periods = [Value(*match.span()) for match in _PERIOD.finditer(text)]
        dates = (Value(*match.span()) for match in DATE.finditer(text))
        alone = [day for day in dates if all(not p.start < day.start < p.end for p in periods)]
        return sorted(periods + alone)
    if kind == "number":
        # Neither a part of a date nor an amount of something that has a unit.
        taken = [m.span() for p in (DATE, *map(_amount_pattern, _UNITS)) for m in p.finditer(text)]
        counts = (m.span() for m in _COUNT.finditer(text))
        free = [n for n in counts if all(n[1] <= t[0] or t[1] <= n[0] for t in taken)]
        return [Value(*n) for n in free if not _MODEL.search(text[: n[0]])]
    if kind == "place":
        places = [m for m in _PLACE.finditer(text) if _BEFORE_PLACE.search(text[: m.start()])]
        places = [m for m in places if not _AWAY.search(text[: m.start()])]
        within = [m for m in places if _WITHIN.search(text[: m.start()])]
        return [value for match in within or places if (value := _name(match))]
    if kind in ("person", "name"):
        names = list(_NAME.finditer(text))
        if kind == "person":
            names = [m for m in names if not _WITHIN.search(text[: m.start()])]
        return [value for match in names if (value := _name(match))]
    matches = [m for measure in kind.split() for m in _amount_pattern(measure).finditer(text)]
    return [Value(*match.span()) for match in sorted(matches, key=lambda match: match.start())]


def find_kind(text: str, noun: str) -> list[Value]:
    """Return what is called by a noun: for "room", "room 4" and "Baxter Room"."""
    numbered = re.finditer(rf"\b(?i:{re.escape(noun)}) (?:\d+\w?|[A-Z])\b(?! [A-Z])", text)
    values = [Value(*match.span()) for match in numbered]
    names = (value for value in find_values(text, "name") if " " in text[slice(*value)])
    return values or [name for name in names if text[slice(*name)].lower().split()[-1] == noun]


class Amount(NamedTuple):
    """A number in the base unit of its dimension, or in a unit that has none, such as "euro"."""

    number: float
    unit: str


def amounts(text: str) -> list[Amount]:
    """Return the numbers in a text with their units: "12 mm" → .012 of "length"."""
    numbers = []
    for match in _AMOUNT.finditer(text):
        times = _TIMES.get(match["number"].rpartition(" ")[2], 1.0)
        value = _float(match) * times * (-1 if match["sign"] == "-" else 1)
        unit = _bare(match["unit"] or match["sign"].strip("- "))
        kind, factor = _FACTORS.get(unit, (unit, 1.0))
        numbers.append(Amount(value * factor, kind))
    return numbers


def _float(match: re.Match[str]) -> float:
    """Return the number of a match: "1,200" is 1200, "5,20" is 5.2, "1.299,00" is 1299."""
    number = re.sub(" ?[a-z]{3,}$", "", match["number"])
    is_price = _IS_PRICE.match(match.string, match.start("number"))
    if is_price or re.fullmatch(r"-?[\d.]+,\d\d?", number):
        return float(re.sub(r"[.\s]", "", number).replace(",", "."))
    return float(number.replace(",", ""))


def list_items(text: str) -> list[str]:
    """Return the items of a list in words: "pink and red" → "pink", "red"."""
    return [item.strip() for item in re.split(r"[,;/](?!\d)| and | or ", text) if item.strip()]


def _bare(unit: str) -> str:
    """A unit without the endings of its plural and of its spellings."""
    unit = unit.strip(".?!)").lower()
    return unit if len(unit) < 3 else re.sub(r"(?:er|re)?s?$", "", unit)


def _name(match: re.Match[str]) -> Value | None:
    """A capitalised span without a stop word that a sentence starts with; None for a month."""
    start = match.start()
    while (first := re.match(r"\w+ ?", match.string[start : match.end()])) and (
        first[0].strip().lower() in stop_words()
    ):
        start += first.end()
    name = match.string[start : match.end()].strip(" .,")
    if not name or _CALENDAR.fullmatch(name) or len(name) < 2:
        return None
    if _ADJECTIVE.fullmatch(name) and re.match(r" [a-z]", match.string[start + len(name) :]):
        return None
    end = start + len(name)
    body = _BODY.match(match.string, end)
    if body and match.string[:start].lower().endswith("the "):
        end = body.end()
    return Value(start, end)


# ---- values of fields ----------------------------------------------------------------------------

_LEADING_NUMBER = re.compile(
    rf"-?(?:{_PRICE}|\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?|\d{{1,3}}(?:\.\d{{3}})+,\d\d?(?!\d)|"
    r"\d+,\d\d?(?![\d,])|\d+(?:\.\d+)?(?:e[-+]?\d+)?)",
    re.IGNORECASE,
)
_HOURS = re.compile(r"(?P<hours>\d+) ?h(?:ours?)? ?(?P<minutes>\d+) ?m(?:in)?\b")
_FIELD_AMOUNT = re.compile(
    rf"(?P<sign>(?:[$€£]|(?:EUR|USD|GBP)\b)? ?)(?P<number>{_LEADING_NUMBER.pattern})"
    r"(?: (?P<times>thousand|million|billion)\b)?[ -]?(?P<unit>(?!in .)[^\s\d,;:()]*[²23]?)",
    re.IGNORECASE,
)
_FIELD_DATE = re.compile(
    r"(?P<year>\d{4})-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2})(?:[T ]\d{1,2}:\d\d\S*)?)?"
    r"|(?P<day2>\d{1,2})\.(?P<month2>\d{1,2})\.(?P<year2>\d{4})"
    rf"|(?:(?P<day3>\d{{1,2}})(?:st|nd|rd|th)? )?(?P<name3>{_MONTH}),? (?P<year3>\d{{4}})"
    rf"|(?P<name4>{_MONTH}) (?P<day4>\d{{1,2}})(?:st|nd|rd|th)?,? (?P<year4>\d{{4}})",
    re.IGNORECASE,
)
_MONTHS = {name.lower(): number for number, name in enumerate(month_name)}


class Quantity(NamedTuple):
    """What the value of a field says in numbers.

    Args:
        amount: The number in the base unit of the dimension (m, g, l, m², s); of a date, the number
            of its first day (`datetime.date.toordinal`).
        upper: Of a date, the number of its last day: "May 1931" has 31.
    """

    number: float | None = None
    measure: str | None = None
    amount: float | None = None
    upper: float | None = None


def quantity(value: str, unit: str = "") -> Quantity:
    """Return what a value says in numbers: "1,200 m" is 1200 of "length"."""
    match = _FIELD_AMOUNT.match(value)
    if match is None:
        return _date(value) if value[:1].isalpha() else Quantity()
    if span := _HOURS.match(value):
        seconds = 3600 * float(span["hours"]) + 60 * float(span["minutes"])
        return Quantity(float(span["hours"]), "time", seconds)
    stated = _float(match) * _TIMES.get((match["times"] or "").lower(), 1)
    if not value.isdigit() and (day := _date(value, stated)).measure:
        return day
    word = match["unit"] or match["sign"].strip() or unit
    measure, factor = _FACTORS.get(_bare(word), (None, 1.0)) if word else (None, 1.0)
    return Quantity(stated, measure, stated * factor if measure else None)


def _date(value: str, leading: float | None = None) -> Quantity:
    match = _FIELD_DATE.fullmatch(value.strip())
    if match is None:
        return Quantity(leading)
    part = {name.rstrip("234"): text for name, text in match.groupdict().items() if text}
    month = _MONTHS[part["name"].lower()] if "name" in part else int(part["month"])
    try:
        last = monthrange(int(part["year"]), month)[1]
        days = int(part["day"]), int(part["day"])
    except KeyError:
        days = 1, last
    except ValueError:
        return Quantity(leading)
    try:
        first, upper = (date(int(part["year"]), month, day).toordinal() for day in days)
    except ValueError:
        return Quantity(leading)
    return Quantity(float(part["year"]), "date", float(first), float(upper))


@lru_cache(4096)
def unit_of_label(label: str) -> tuple[str, str]:
    """Return a label without its unit, and the unit: "Weight (kg)", "weight_kg" → "kg"."""
    plain, _, unit = label.rstrip(")").partition("(")
    if unit:
        return plain.strip(), unit
    cut = re.split(r"[ _]", label)
    if cut[-2:-1] == ["per"]:  # "rent_gbp_per_month"
        cut = cut[:-2]
        label = label[: len("_".join(cut))]
    if len(cut) > 1 and cut[-1] != "in" and _bare(cut[-1]) in _FACTORS:
        return label[: -len(cut[-1]) - 1], cut[-1]
    return label, ""
