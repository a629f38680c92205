"""Answers from relations and facts, and what both kinds of questions share."""

from __future__ import annotations

import re
from calendar import month_name
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from ku_rag.graph.model import Entity, Path, Step
from ku_rag.text.question import Question
from ku_rag.text.stems import every_stem, label_stems, stem, stems
from ku_rag.text.tokens import words
from ku_rag.text.values import find_values, quantity, unit_of_label

CLASSES = every_stem("type kind class category species is a")
"""Labels of what a thing is: "Which leviathans …" needs no word for them."""
MOST = 24
"""More entities than this are not listed as an answer."""
IGNORED = every_stem("share common both together fewer fewest")
"""Stems that need not be accounted for where units have something in common, or more of it."""

_ROOMS = frozenset(words("drawer corner tower quarter floor sector shelter door manor"))
"""Labels of places that end as agents do."""
_MONTHS = frozenset(words(" ".join(month_name)))
_WITHIN = re.compile(r"^[a-z].* (?:in|on|at|near) ")
"""A clause that holds a place: "a workshop in Delft"."""


@dataclass(frozen=True, slots=True)
class Traced:
    """The answer from relations and facts, and the paths that lead to it.

    `unlisted` is the number of units that fit if an answer cannot list them all, or else 0.
    """

    answers: tuple[str, ...]
    paths: tuple[Path, ...]
    unlisted: int = 0


def fits_type(question: Question, step: Step, end: Entity) -> bool:
    """Return whether an end can be of the type that is asked for."""
    if not step.has_value and question.type not in ("", "name", "person", "place", "number"):
        # "When does it evolve?" does not ask what it evolves into.
        return any(map(str.isdigit, end.name))
    if question.kind == "yes-no" or not step.has_value:
        return True
    if end.name in ("yes", "no") or (question.type == "money" and not _fits_rate(question, step)):
        return False
    if question.type in ("", "name"):
        return True
    # "Where is the owner?" asks for no owner.
    last = "".join(words(step.relation)[-1:])
    if question.type == "place" and last.endswith(("er", "or", "ist")) and last not in _ROOMS:
        return False
    if question.type == "place" and _WITHIN.search(end.name):
        return False
    if question.type in ("person", "place"):
        return quantity(end.name).measure is None and any(map(str.isalpha, end.name))
    if question.type == "date":
        is_date = quantity(end.name).measure == "date" or find_values(end.name, "date")
        return bool(is_date or _MONTHS.intersection(words(end.name)))
    return any(map(str.isdigit, end.name)) or (question.type == "number" and step.line is None)


def _fits_rate(question: Question, step: Step) -> bool:
    """Whether a price is one by the day where the question asks for that, and only there."""
    rate = stems(step.relation.partition("_per_")[2])
    # "What does it cost?" does not ask for "rent_per_day".
    if rate and question.every.isdisjoint(rate | own_stems(step.relation)):
        return False
    # "What does it cost per day?" does not ask for its price.
    unit = {stem(after) for before, after in pairwise(question.words) if before == "per"}
    return unit <= every_stem(f"{step.relation} {step.tail.name}")


@lru_cache(maxsize=1 << 14)
def own_stems(label: str) -> frozenset[str]:
    """Return the stems of a label, without its unit; of a nested field, of its last part."""
    plain = unit_of_label(label)[0]
    return label_stems(plain.rpartition(".")[2] or plain)
