"""The reader: it states an answer from evidence without a model, or abstains.

It states a labelled line ("Price: 49 euros"), the name or the description of a unit, yes or no, or
the one typed value of a sentence that shares nearly all words with the question. Otherwise it gives
the closest sentence, which is evidence and not an answer.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from ku_rag.retrieval.clues import parted
from ku_rag.text.question import Asked, Question, analyse, is_negated, ways_of_label
from ku_rag.text.sentences import sentences
from ku_rag.text.stems import root, stem, stems
from ku_rag.text.tokens import name_key, words
from ku_rag.text.values import Value, find_values
from ku_rag.types import ClosestSentence, Evidence, Match, Reading

NAME = "extractive"
CERTAIN = 1.0
"""Score of what a labelled line states."""
_MOST_CHARACTERS = 20_000
"""Of one piece of evidence, no more is read."""
_COVERED = 0.8
"""Share of the question's words, weighted by rarity, that a sentence has whose value answers."""
_LINE = re.compile(
    r"^[ \t]*(?:[-*•][ \t]+)?[*_]*(?P<label>[^\W\d_][^:：.!?|\n]{0,80}?)[*_]*[ \t]*[:：](?!//)[*_]*"
    r"[ \t]*(?P<value>\S.*?)[ \t]*$",
    re.MULTILINE,
)
_COPULA = re.compile(
    r"(?:The|Its|Their)\s+(?P<label>[^\W\d_][\w' -]{0,60}?)(?:\s+of\s+(?P<owner>[^,;:.]{1,60}?))?"
    r"\s+(?:is|are|was|were)\s+(?:the\s+|an?\s+)?(?P<value>[^,;:.]{1,60})\.?"
)
"""A sentence that says what a labelled line says: "The capital of Sweden is Stockholm."."""
_NAMED, _FRESH = 0.3, 0.2
"""What the names in the question, and a value of the type asked for, add to a sentence's share."""
_ANSWERED_BY = {
    "by": ("person",), "of": (), "for": (), "with": (), "to": (), "in": ("place", "date"),
    "at": ("place", "date"), "on": ("place", "date"), "from": ("place", "date"),
}  # fmt: skip
"""Preposition at the end of a label → types of questions that it answers even without it."""
_WH = frozenset(words("who what which when where how"))
_HEDGES = frozenset(words("may might could would if unless almost nearly some claimed said only"))


@dataclass(frozen=True)
class _Sentence:
    """A sentence of the evidence, `evidence.text[start:end]`.

    Args:
        piece: index of the evidence.
        about: stems of the names of the units that its evidence belongs to.
        own: whether its evidence belongs to the unit that is asked about, or names it here.
    """

    piece: int
    start: int
    end: int
    text: str
    about: frozenset[str]
    own: bool

    @cached_property
    def words(self) -> list[str]:
        return words(self.text)

    @cached_property
    def stems(self) -> frozenset[str]:
        return frozenset(map(stem, self.words))


@dataclass(frozen=True, slots=True)
class _LabelledLine:
    """A labelled line of the evidence.

    Args:
        piece: index of the evidence.
        start: of the line.
        end: of the line.
        label: stems of the label, what stands in parentheses left out.
        preposition: that the label ends with, as "Made by" does; "" if it ends with none.
        value: what stands after the colon, with the unit in the parentheses of the label.
        heading: stems of the first line of the evidence, if it is a heading.
    """

    piece: int
    start: int
    end: int
    label: frozenset[str]
    preposition: str
    value: str
    heading: frozenset[str]


def read(question: str, evidence: Sequence[Evidence], units: Sequence[Match]) -> Reading:
    """State the answer to a question, or abstain.

    Args:
        question: a sentence.
        evidence: chunks, best first.
        units: the matched units, best first. The question is about the one that it names, or else
            about the first.

    Returns:
        The answer with the evidence that holds it; or "" with a reason and the closest sentence.
    """
    main, clue = parted(question)
    named = [unit for unit in units if _is_named(unit, main)]
    subject = None if len(named) > 1 else next(iter([*named, *units]), None)
    if clue and subject and not subject.image:
        # "The country that borders Spain" is not Spain; a picture tells which one is meant.
        subject = None
    names = (subject.name, subject.named) if subject else ()
    asked = analyse(main if subject else question, names)
    said = list(_sentences(evidence, units, subject))
    stated = None
    if subject and asked.kind == "identity":
        stated = _identity(subject, said)
    elif subject and asked.kind == "description":
        stated = _description(evidence, said)
    elif asked.content or asked.ways:
        stated = _from_lines(asked, evidence, subject, said) or _from_prose(asked, said)
    if stated:
        answer, where, score = stated
        label = tuple(evidence[one.piece].label for one in where)
        why = f"{label[0]} states it." if label else "It is the name of the best match."
        return Reading(answer, label, tuple((o.start, o.end) for o in where), score, why)
    about = f" about {subject.name}" if subject else ""
    why = f"No line or sentence{about} states it." if evidence else "No evidence was found."
    return Reading("", why=why, closest=_closest(asked, said, evidence))


_Stated = tuple[str, tuple[_Sentence | _LabelledLine, ...], float]
"""An answer, where it stands, and how sure it is."""


def _is_named(unit: Match, question: str) -> bool:
    return bool(unit.named) or f" {name_key(unit.name)} " in f" {name_key(question)} "


def _belongs(piece: Evidence, subject: Match | None) -> bool:
    owners = piece.unit_ids if piece.owners is None else piece.owners
    return subject is None or subject.id in owners


def _sentences(
    evidence: Sequence[Evidence], units: Sequence[Match], subject: Match | None
) -> Iterator[_Sentence]:
    names = {unit.id: unit.name for unit in units}
    for number, piece in enumerate(evidence):
        text = piece.text[:_MOST_CHARACTERS]
        heading = " ".join(names.get(one, one) for one in piece.unit_ids)
        own = _belongs(piece, subject)
        for start, end in sentences(text):
            said = text[start:end].rstrip()
            if said and not _LINE.fullmatch(said):
                named = subject and f" {name_key(subject.name)} " in f" {name_key(said)} "
                about = frozenset(map(stem, words(heading)))
                yield _Sentence(number, start, start + len(said), said, about, own or bool(named))


# ---- names and descriptions ---------------------------------------------------------------------


def _identity(subject: Match, said: Sequence[_Sentence]) -> _Stated:
    """The unit's name, with the sentence that says it if there is one."""
    where = [one for one in said if one.own and subject.name in one.text][:1]
    return subject.name, tuple(where), 0.7


def _description(evidence: Sequence[Evidence], said: Sequence[_Sentence]) -> _Stated | None:
    """The first sentence of the unit's text that is no labelled line."""
    prose = [one for one in said if one.own and " " in one.text and not _LINE.match(one.text)]
    prose.sort(key=lambda one: (evidence[one.piece].chunk, one.start))
    return (prose[0].text, (prose[0],), 0.8) if prose else None


# ---- labelled lines -----------------------------------------------------------------------------


def _lines(evidence: Sequence[Evidence], subject: Match | None) -> Iterator[_LabelledLine]:
    for number, piece in enumerate(evidence):
        if not _belongs(piece, subject):
            continue
        first = piece.text.lstrip("# \n").partition("\n")[0].strip()
        heading = stems(first) if len(first) < 80 and first[-1:].isalnum() else frozenset()
        for match in _LINE.finditer(piece.text[:_MOST_CHARACTERS]):
            labels, values = [match["label"]], [match["value"]]
            if len(parts := match["label"].split(" and ")) == len(match["value"].split(", ")):
                # "Country and volume: Italy, 80 g" is two facts.
                labels, values = parts, match["value"].split(", ")
            for label, value in zip(labels, values, strict=True):
                yield _line(number, match, label, value, heading)


def _copulas(said: Sequence[_Sentence], subject: Match) -> Iterator[_LabelledLine]:
    """Sentences of the form "The LABEL of UNIT is VALUE", read as labelled lines."""
    name = name_key(subject.name)
    for one in said:
        match = _COPULA.fullmatch(one.text) if one.own else None
        if not match or is_negated(one.words) or _HEDGES.intersection(one.words):
            continue
        owner = name_key(match["owner"] or "")
        if owner.removeprefix("the ") in ("", name) or f"the {name}" == owner:
            yield _LabelledLine(
                one.piece,
                one.start,
                one.end,
                stems(match["label"]),
                "",
                match["value"],
                frozenset(),
            )


def _line(
    piece: int, match: re.Match[str], label: str, value: str, heading: frozenset[str]
) -> _LabelledLine:
    label, _, unit = label.rstrip(")").partition("(")
    if unit and value.replace(",", "").replace(".", "").isdigit():
        value = f"{value} {unit}"
    last = words(label)[-1:]
    found = stems(label) or frozenset(map(stem, last))
    preposition = last[0] if last and last[0] in _ANSWERED_BY else ""
    return _LabelledLine(piece, match.start(), match.end(), found, preposition, value, heading)


def _from_lines(
    asked: Question,
    evidence: Sequence[Evidence],
    subject: Match | None,
    said: Sequence[_Sentence],
) -> _Stated | None:
    """The value of the labelled line, or of the sentence like one, that fits best."""
    if subject is None:
        return None
    lines = [*_lines(evidence, subject), *_copulas(said, subject)]
    if asked.kind == "yes-no":
        return next((stated for one in lines if (stated := _decided(asked, one))), None)
    if asked.negated or asked.compares:
        return None
    ranked = [(rank, line) for line in lines if (rank := _rank(asked, line)) is not None]
    if not ranked:
        return None
    _, first = min(ranked, key=lambda one: one[0])
    same = [line for _, line in ranked if line.label == first.label and line.piece == first.piece]
    return ", ".join(dict.fromkeys(line.value for line in same)), tuple(same), CERTAIN


def _rank(asked: Question, line: _LabelledLine) -> int | None:
    """How well a label answers a question, 0 is best; None if it does not."""
    if not _fits(line.value, asked.type) or not _leads(asked, line):
        return None
    unit = stems(line.value) if any(map(str.isdigit, line.value)) else frozenset()
    content = frozenset(asked.content) - (line.heading - line.label)
    if line.label and line.label <= content:
        extra = {one for way in ways_of_label(line.label) for one in way.extra}
        if not content - line.label - extra - unit:
            return 0
    if asked.type == "person" and content and set(map(root, content)) == set(map(root, line.label)):
        return 0
    for number, way in enumerate(asked.ways):
        shared = [at for at, one in enumerate(way.labels) if one in line.label]
        if not shared or not line.label <= {*way.labels, *way.extra, *content}:
            continue
        if not content - line.label - _spoken(way, asked) - unit:
            return 1 + 20 * number + shared[0]
    return None


def _spoken(way: Asked, asked: Question) -> frozenset[str]:
    """Stems of the question that its way of asking accounts for."""
    triggers = [one for one in way.triggers if one <= asked.every]
    return frozenset().union(way.extra, *triggers)


def _leads(asked: Question, line: _LabelledLine) -> bool:
    """Whether a question asks with the preposition that a label ends with."""
    kinds = _ANSWERED_BY.get(line.preposition, ())
    return not line.preposition or line.preposition in asked.every or asked.type in kinds


def _fits(value: str, kind: str) -> bool:
    """Whether the value of a line can be of a kind."""
    if kind == "date":
        return any(map(str.isdigit, value))
    if kind in ("", "name", "person", "place"):
        return kind in ("", "name") or any(map(str.isalpha, value))
    return any(map(str.isdigit, value))


def _decided(asked: Question, line: _LabelledLine) -> _Stated | None:
    """Yes or no, as a labelled line says it."""
    if asked.compares or not _leads(asked, line):
        return None
    content, value = frozenset(asked.content), stems(line.value)
    spoken = frozenset().union(
        *(_spoken(way, asked) for way in asked.ways if line.label & frozenset(way.labels))
    )
    said = words(line.value)[:1]
    if line.label <= content and said in (["yes"], ["no"]):
        return (said[0], (line,), CERTAIN) if not content - line.label else None
    if not (line.label <= content or spoken):
        return (
            ("yes", (line,), CERTAIN) if value and value == content and not asked.negated else None
        )
    left = content - line.label - spoken
    if asked.negated or is_negated(words(line.value)) or not left:
        return None
    if left <= value:
        return "yes", (line,), CERTAIN
    return ("no", (line,), CERTAIN) if not left & value and len(left) == 1 else None


# ---- prose --------------------------------------------------------------------------------------


def _from_prose(asked: Question, said: Sequence[_Sentence]) -> _Stated | None:
    """The one typed value of the sentence that shares most with the question, or yes or no."""
    if not said or asked.compares:
        return None
    if asked.kind == "yes-no":
        return next((stated for one in said if (stated := _confirmed(asked, one))), None)
    if asked.negated or not asked.type:
        return None
    weigh = _rarity(said)
    shares = [(_coverage(asked, one, weigh), -at, one) for at, one in enumerate(said) if one.own]
    if not shares:
        return None
    share, _, best = max(shares, key=lambda one: one[:2])
    if share < _COVERED or is_negated(best.words):
        return None
    found = _candidates(asked, best)
    if len(found) != 1:
        return None
    return best.text[slice(*found[0])], (best,), round(0.9 * share, 3)


def _candidates(asked: Question, sentence: _Sentence) -> list[Value]:
    """Values of the type asked for that the question and the name of the unit do not hold."""
    known = asked.every | sentence.about
    found = find_values(sentence.text, asked.type or "name")
    fresh = [
        value
        for value in found
        if not frozenset(map(stem, words(sentence.text[slice(*value)]))) <= known
    ]
    return list({sentence.text[slice(*value)]: value for value in fresh}.values())


def _coverage(asked: Question, sentence: _Sentence, weigh: Counter[str]) -> float:
    """The share of the question's words that a sentence has, by rarity.

    Words of the way of asking may be replaced by a word for what it asks: "heavy" by "weight".
    """
    known = {*map(root, sentence.stems), *map(root, sentence.about)}
    spoken = frozenset[str]()
    for way in asked.ways[:1]:
        said = [one - _WH for one in way.triggers if one <= asked.every]
        if any(one and one <= sentence.stems for one in said) or (
            way.type != "person" and known.intersection(map(root, way.labels))
        ):
            spoken = _spoken(way, asked).union(way.labels)
    wanted = [one for one in asked.content if one not in spoken]
    if not wanted:
        return 1.0 if spoken else 0.0
    total = sum(_weight(one, weigh) for one in wanted)
    return sum(_weight(one, weigh) for one in wanted if root(one) in known) / total


def _share(wanted: Sequence[str], known: frozenset[str], weigh: Counter[str]) -> float:
    total = sum(_weight(one, weigh) for one in wanted)
    return sum(_weight(one, weigh) for one in wanted if one in known) / total if total else 0.0


def _rarity(said: Sequence[_Sentence]) -> Counter[str]:
    """How many sentences have each stem; "" counts the sentences."""
    counts = Counter(word for one in said for word in one.stems)
    counts[""] = len(said)
    return counts


def _weight(word: str, weigh: Counter[str]) -> float:
    return math.log(1 + (weigh[""] + 1) / (weigh[word] + 0.5))


def _confirmed(asked: Question, sentence: _Sentence) -> _Stated | None:
    """Yes or no, where a sentence of the unit has all words of the question; a negation flips."""
    if not sentence.own or not asked.content or _HEDGES.intersection(sentence.words):
        return None
    subject = sentence.words[:1] in (["it"], ["this"], ["they"], ["he"], ["she"]) or (
        frozenset(map(stem, sentence.words[:3])) & (asked.names | sentence.about)
    )
    clauses = re.split(r"[,;:–—]|\b(?:and|but|or|which|that|while)\b", sentence.text)
    whole = [one for one in clauses if frozenset(asked.content) <= stems(one)]
    if not subject or not whole or asked.negated:
        return None
    return "no" if is_negated(words(whole[0])) else "yes", (sentence,), 0.8


# ---- the closest sentence -----------------------------------------------------------------------


def _closest(
    asked: Question, said: Sequence[_Sentence], evidence: Sequence[Evidence]
) -> ClosestSentence | None:
    """The sentence that shares most with the question, weighted by rarity; the first of equals."""
    weigh = _rarity(said)
    best, most = None, 0.0
    for one in said:
        share = _share(asked.content, one.stems, weigh)
        share += _NAMED * _share([*asked.names], one.stems | one.about, weigh)
        if share:
            share += _FRESH * bool(_candidates(asked, one))
        if share > most:
            best, most = one, share
    return ClosestSentence(evidence[best.piece].label, best.text) if best else None
