"""Whom a question is about, and whether a statement speaks of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ku_rag.answering.statements import Statement
from ku_rag.text.lexicon import read_words, stem
from ku_rag.text.question import Question
from ku_rag.text.tokens import name_key
from ku_rag.types import Evidence, Match

_BACK = {"it", "its", "they", "their", "he", "his", "she", "her", "this", "these", "there"}
_EMPTY = {"the", "of", "a", "an", "and"}


@dataclass(frozen=True, slots=True)
class Subject:
    """Whom a question is about.

    Args:
        name: what they are called, "" when nobody in particular.
        id: the unit, "" for a name that is no unit.
        others: names of the other units at hand.
    """

    name: str = ""
    id: str = ""
    others: tuple[str, ...] = ()


def choose(asked: Question, units: Sequence[Match]) -> Subject:
    """Find out whom the question is about.

    A unit named in the main clause; else a name there that is no unit; else the best unit that the
    identifying clause does not merely mention ("the country that borders Spain" is not Spain).
    """
    for unit in units:
        if unit.name in asked.names:
            return _subject(unit, units)
    if asked.strangers and not units:
        return Subject(asked.strangers[0])
    mentioned = []
    if asked.clue_concept is not None and asked.clue_concept.name == "border":
        mentioned = [u for u in units if _mentions(asked.clue, u.name)]
    rest = [u for u in units if u not in mentioned]
    for unit in rest or units:
        return _subject(unit, units)
    return Subject()


def _mentions(clue: Sequence[str], name: str) -> bool:
    words = [w.stem for w in read_words(name) if w.text[0].isalnum()]
    return bool(words) and set(words) <= set(clue)


def _subject(unit: Match, units: Sequence[Match]) -> Subject:
    return Subject(unit.name, unit.id, tuple(u.name for u in units if u.id != unit.id))


def speaks_of(
    owner: str,
    statement: Statement,
    subject: Subject,
    texts: Sequence[str],
    evidence: Sequence[Evidence],
    *,
    said: bool,
    told: bool = False,
) -> bool:
    """Whether a statement is about the subject.

    Args:
        owner: the name that the statement, or the text before it, gives; "" for none.
        statement: where it stands.
        subject: whom the question is about.
        texts: of the evidence.
        evidence: to know which unit a text belongs to.
        said: the statement itself names the owner, rather than an earlier one.
        told: the statement itself says of whom or what the question asks.
    """
    if not subject.name:
        return True
    piece, text = evidence[statement.evidence], texts[statement.evidence]
    listed = not subject.id or not piece.unit_ids or subject.id in piece.unit_ids
    own = bool(subject.id) and _owns(piece, subject)
    if own and listed and told and not said:
        return True
    if own and not said and not _refers_back(owner, statement, text):
        # "The bridge was reopened" continues no sentence about somebody else.
        owner = ""
    if not owner:
        if not subject.id:
            return name_key(subject.name) in name_key(text)
        # A text is listed for a unit because it names it, or because it is the unit's own.
        mine = own or name_key(subject.name) not in name_key(text) or not statement.heading
        return listed and (mine or _same(statement.heading, subject, "", own))
    same = _same(owner, subject, text[: statement.start], own)
    if not same and own and not said and owner == _first_name(owner, text):
        # A text of the unit's own that opens with another name calls it by an alias.
        return listed and not any(_stems(owner) == _stems(name) for name in subject.others)
    return same and (listed or said)


def _refers_back(owner: str, statement: Statement, text: str) -> bool:
    """Whether a statement opens with the owner, or with a pronoun that may stand for them."""
    opening = text[statement.start : statement.start + len(owner) + 40]
    first = [w.text.lower() for w in statement.words[:3]]
    return owner[:12] in opening or bool(_BACK & set(first))


def _same(owner: str, subject: Subject, before: str, own: bool) -> bool:
    mine, theirs = _stems(subject.name), _stems(owner)
    if mine == theirs or not theirs:
        return True
    if any(_stems(name) == theirs for name in subject.others):
        return False
    if not mine & theirs:
        return any(_alike(m, t) for m in mine for t in theirs)
    if own:
        return True
    if len(mine) == len(theirs) and all(any(_alike(m, t) for t in theirs) for m in mine):
        return True
    if mine < theirs:
        # "Anjou pear" is Anjou; "Equatorial Guinea" is not Guinea.
        ordered = [s for s in map(stem, re.findall(r"\w+", owner)) if s not in _EMPTY]
        return ordered[0] in mine
    if theirs < mine:
        return name_key(subject.name) in name_key(before)
    return False


def _alike(a: str, b: str) -> bool:
    """Whether two stems differ by one letter at the end, as "korea" and "korean" do."""
    short, long = sorted((a, b), key=len)
    return a == b or (len(short) >= 5 and long.startswith(short) and len(long) - len(short) <= 1)


def _owns(piece: Evidence, subject: Subject) -> bool:
    """Whether the text came from the unit's own record or folder, by the name of its source."""
    names = {name_key(subject.name), name_key(subject.id)}
    parts = re.split(r"[/#\\]", piece.source)
    return any(name_key(re.sub(r"\.\w{1,5}$", "", part)) in names for part in parts if part)


def _first_name(owner: str, text: str) -> str:
    head = text.lstrip().removeprefix("The ").removeprefix("the ")
    return owner if head.startswith(owner.split()[0]) else ""


def _stems(name: str) -> set[str]:
    return {s for s in map(stem, re.findall(r"\w+", name)) if s not in _EMPTY}
