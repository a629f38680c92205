"""Matching: from a picture and a question to knowledge units (KU-RAG, section 3.3.2, eq. 7).

Units are matched by their pictures, each with the probability that it is right, and by names in the
question, which are certain. When several things are seen, the clause that only says which one is
meant ("the country that borders Spain") decides between them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from PIL.Image import Image

from ku_rag.encoders.embedded.window_matching import RegionMatch
from ku_rag.errors import KuError, NotFound
from ku_rag.indexes import keywords
from ku_rag.indexes.segment import Rows
from ku_rag.retrieval.base import Matched, Retrieval
from ku_rag.retrieval.image_matching import evidence, match_image
from ku_rag.retrieval.names import ClueWord, NamesFound, find_names, find_partial_names, parted
from ku_rag.store.connection import Connection, as_json
from ku_rag.store.unit_records import fields_of, find_row
from ku_rag.text.tokens import words
from ku_rag.types import Match, Region

_RIVAL_SCORE = 2.5
"""A clue decides between things whose picture scores are no further apart."""
_RIVALS = 16
_CLUE_WEIGHT = 4.0


def match(base: Retrieval, image: Image | None, question: str, k: int) -> Matched:
    """Return the matched units, the region of the picture, and the names in the question.

    `image` is RGB and upright, and the question may be empty. There are at most k units and those
    that the question names.
    """
    connection = base.database.connection
    among = base.units.rows(connection)
    asking, clue = parted(question)
    seen: dict[int, RegionMatch] = {}
    search, chosen = base.image_search, None
    recogniser = search.recogniser() if image else None
    printed = recogniser.read(image) if image and recogniser else []
    if image:
        seen, chosen = match_image(connection, image, question, search, words=printed, among=among)
    ranked = list(seen)
    rivals = [u for u in ranked[:_RIVALS] if seen[ranked[0]].score - seen[u].score < _RIVAL_SCORE]
    fitting = _fitting(connection, rivals, clue)
    # "The country that borders Spain" is not Spain.
    names = find_names(connection, question)
    if image is None:
        find_partial_names(connection, question, names)
    mentioned = _find_units(connection, names, among)
    named = _find_units(connection, find_names(connection, asking), among) if clue else mentioned
    for unit in mentioned.keys() - named.keys():
        fitting.pop(unit, None)
    ranked.sort(key=lambda unit: -(seen[unit].score + _CLUE_WEIGHT * fitting.get(unit, 0.0)))
    most = 1.0  # a unit is no more probable than those that are ranked before it
    for unit in ranked:
        if (confidence := seen[unit].confidence) is not None:
            most = min(most, confidence)
            seen[unit] = replace(seen[unit], confidence=most)
    # A name in the clue says which of the things seen is meant; it is not what is asked about.
    named = named if seen else mentioned
    order = [unit for unit in ranked if unit in named]
    # "This country or Mali?" asks about what is seen, even where that looks a little like Mali.
    points = not {"this", "these"}.isdisjoint(words(asking))
    if ranked and seen[ranked[0]].sure and (points or not order):
        order.insert(0, ranked[0])
    order = list(dict.fromkeys((*order, *named, *ranked)))
    matches = [
        unit_match(
            base,
            unit,
            seen.get(unit),
            name=named.get(unit, ""),
            why=_why(seen.get(unit), named.get(unit), fitting.get(unit, 0.0)),
        )
        for place, unit in enumerate(order)
        if place < k or unit in named
    ]
    best = next((seen[m.row] for m in matches if m.image_row is not None), None)
    region = chosen or _region(image, best, chosen_by_clue=bool(fitting))
    return Matched(matches, region, names, words=printed)


def choose_unit(base: Retrieval, matched: Matched, unit_name: str) -> Matched:
    """Return the matched units with one that the question is about, whatever the picture shows.

    Of the others, those that the question names are kept. The name is the id of the unit, or a name
    that no other unit has.

    Raises:
        NotFound: there is no such unit, or it does not pass the filter.
        BadInput: several units have the name.
    """
    among = base.units.rows(base.database.connection)
    try:
        row = find_row(base.database.connection, unit_name)
    except KuError:
        if among is None:  # else the message would name units that do not pass
            raise
        row = -1
    if among is not None and row not in among:
        raise NotFound(f"no unit {unit_name!r} passes the filter: choose one that does, by its id")
    unit = next((match for match in matched.units if match.row == row), None)
    unit = unit or unit_match(base, row, None, why="")
    why = "; ".join(filter(None, (unit.why, "the question was asked about it")))
    unit = replace(unit, score=1.0, confidence=1.0, why=why, sure=True)
    named = [match for match in matched.units if match.named and match.row != row]
    return replace(matched, units=[unit, *named], chosen=True)


def unit_match(
    base: Retrieval,
    unit: int,
    seen: RegionMatch | None,
    *,
    why: str,
    name: str = "",
) -> Match:
    """Return the match of a unit that a picture shows, a question names, or both.

    The score is 1 for a named unit, else the confidence, or the similarity without one.
    """
    connection = base.database.connection
    unit_id, unit_name, *_ = fields_of(connection, unit)
    if seen is None:
        return Match(unit_id, unit_name, 1.0, 1.0, why=why, named=name, row=unit)
    confidence = 1.0 if name else seen.confidence
    score = seen.similarity if confidence is None else confidence
    [(file,)] = connection.execute("SELECT file FROM images WHERE row = ?", (seen.image_row,))
    return Match(
        unit_id,
        unit_name,
        round(score, 4),
        confidence if confidence is None else round(confidence, 4),
        str(base.layout.image(file)),
        why,
        name,
        unit,
        seen.image_row,
        evidence(seen),
        sure=bool(name) or seen.sure,
        signals=_signals(seen),
    )


def _signals(seen: RegionMatch) -> dict[str, float]:
    """Return the evidence for a match: cosine of its region, confirmed edges, network, words."""
    signals = {"region": seen.cosine, "registration": seen.edges, "network": seen.network}
    signals["words"] = seen.rarity
    return {name: round(value, 4) for name, value in signals.items() if value}


def _why(seen: RegionMatch | None, name: str | None, fits: float) -> str:
    """Return the reasons for a match, in words."""
    parts = []
    if seen:
        part = "the whole picture" if seen.region.source == "whole" else "a region"
        numbers = {"cosine": seen.cosine} | _signals(seen) | {"confidence": seen.confidence}
        stated = ", ".join(
            f"{name} {value:.2f}"
            for name, value in numbers.items()
            if value is not None and name != "region"
        )
        parts.append(f"{part} looks like its picture ({stated})")
        if seen.is_contradicted:
            parts.append("the picture as a whole looks more like that of another unit")
        if fits > 0:
            parts.append("its text fits what the question says of the thing")
    if seen and seen.words:
        parts.append(f"read in the picture: {', '.join(seen.words)}")
    if name:
        parts.append(f"the question names it ({name!r})")
    return "; ".join(parts)


def _find_units(connection: Connection, names: NamesFound, among: Rows | None) -> dict[int, str]:
    """The units that a question names, of those that count: unit row → words of the question."""
    phrases: dict[str, str] = {}
    for span in names.spans:
        phrases.setdefault(span.key, " ".join(span.words))
    rows = connection.execute(
        "SELECT n.key, n.unit FROM json_each(?) w CROSS JOIN names n ON n.key = w.value "
        "ORDER BY w.key, n.unit",
        (as_json(phrases),),
    )
    named: dict[int, str] = {}
    for key, unit in rows:
        if among is None or unit in among:
            named.setdefault(unit, phrases[key])
    return named


def _fitting(
    connection: Connection, units: Sequence[int], clue: Sequence[ClueWord]
) -> dict[int, float]:
    """How well each unit's own text fits the clue, 0 to 1, for those units that it tells apart.

    A word counts the more the fewer units of the base have it. Words that no unit has are left out
    of account; those that only others have say that none of these is meant.
    """
    if not units:
        return {}
    weights: dict[str, float] = {}
    holders: dict[str, set[int]] = {}
    total = connection.execute("SELECT count(*) FROM units").fetchone()[0]
    for beginning, whole in clue:
        everywhere = keywords.count_units_with(connection, whole, whole=True) if whole else 0
        is_word = everywhere > 0
        everywhere = everywhere or keywords.count_units_with(connection, beginning)
        if everywhere:
            weights[beginning] = math.log(1 + total / everywhere)
            wanted = whole if is_word else beginning
            holders[beginning] = keywords.units_with(connection, wanted, units, whole=is_word)
    most = sum(weights.values())
    if all(len(holding) in (0, len(units)) for holding in holders.values()):
        return {}
    return {
        unit: sum(weight for word, weight in weights.items() if unit in holders[word]) / most
        for unit in units
    }


def _region(
    image: Image | None, best: RegionMatch | None, *, chosen_by_clue: bool
) -> Region | None:
    if image is None:
        return None
    if best is None:
        return Region(
            (0, 0, *image.size), "whole", None, "nothing in it looks like a stored picture"
        )
    why = f"the clearest match among the regions of the picture (cosine {best.cosine:.2f})"
    if chosen_by_clue:
        why += ", weighed with what the question says of the thing"
    return Region(best.region.box, best.region.source, round(best.score, 4), why)
