"""The reader: it states an answer from evidence without a model, or abstains.

It states a labelled line ("Price: 49 euros"), the name or the description of a unit, yes or no, or
the one typed value that most of the question's words stand near to. Otherwise it gives the closest
sentence, which is evidence and not an answer.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from ku_rag.retrieval.clues import parted
from ku_rag.text.question import AUXILIARIES, Question, analyse, is_negated
from ku_rag.text.sentences import sentences
from ku_rag.text.stems import stem, stems
from ku_rag.text.tokens import name_key, stop_words, tokenize, words
from ku_rag.text.values import Value, find_values
from ku_rag.types import ClosestSentence, Evidence, Match, Reading

NAME = "extractive"
CERTAIN = 1.0
"""Score of what a labelled line states."""
_MOST_CHARACTERS = 20_000
"""Of one piece of evidence, no more is read."""
_CLEAR = 0.05
"""A stated value has so much more of the question near to it, as a share, than any other."""
_COVERED, _COVERED_NAMED = 0.4, 0.6
"""Share of the question's words that evidence has whose value is stated; where it names a unit."""
_HALF = 12
"""Words so many characters away from a value count half."""
_LINE = re.compile(
    r"^[ \t]*(?:[-*•][ \t]+)?[*_]*(?P<label>[^\W\d_][^:：.!?|\n]{0,80}?)[*_]*[ \t]*[:：](?!//)[*_]*"
    r"[ \t]*(?P<value>\S.*?)[ \t]*$",
    re.MULTILINE,
)
_AMOUNT_LINE = re.compile(
    r"^[ \t]*(?:[-*•][ \t]+)?(?P<label>[^\W\d_][^:：!?|\n]{0,40}?)[ \t]+"
    r"(?:(?:ca|about|approx|some)\.?[ \t]+)?(?P<value>\d[\d.,]*[ \t]*[^\s\d:]{0,15})[ \t]*$",
    re.MULTILINE,
)
"""A line of a label and an amount without a colon: "protein ca 3 gram"."""
_COPULA = re.compile(
    r"(?:The|Its|Their)\s+(?P<label>[^\W\d_][\w' -]{0,60}?)(?:\s+of\s+(?P<owner>[^,;:.]{1,60}?))?"
    r"\s+(?:is|are|was|were)\s+(?:the\s+|an?\s+)?(?P<value>[^,;:.]{1,60})\.?"
)
"""A sentence that says what a labelled line says: "The capital of Sweden is Stockholm."."""
_PREDICATE = re.compile(
    r"[^.]*?\b(?:is|are|isn|aren)(?P<no>['’]t| not)?\s+(?:an? |the |very )?(?P<what>[^.]+)", re.I
)
_TURNING = frozenset(words("by before after above below under over than without from to"))
"""Words of a predicate that a question must have alike."""
_BOUND = re.compile(
    r"\b(?:before|after|until|since|over|under|about|around|nearly|almost|at least|at most|up to|"
    r"(?:less|more|fewer) than)\s+$",
    re.I,
)
"""Words before a value that belong to the answer."""
_LABEL_WORDS = 5
_FRESH = 0.1
"""What a value of the type asked for adds to a sentence's share of the question."""
_ANSWERED_BY = {
    "by": ("person",), "of": (), "for": (), "with": (), "to": (), "in": ("place", "date"),
    "at": ("place", "date"), "on": ("place", "date"), "from": ("place", "date"),
}  # fmt: skip
"""Preposition at the end of a label → types of questions that it answers even without it."""
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

    @property
    def is_line(self) -> bool:
        """Whether it is a labelled line, whose label is a few words."""
        line = _LINE.fullmatch(self.text)
        return line is not None and len(words(line["label"])) < _LABEL_WORDS

    @cached_property
    def tokens(self) -> list[tuple[str, int, int]]:
        return [(stem(word), start, end) for word, start, end in tokenize(self.text)]

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
        label: stems of the label without text in parentheses.
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
        # "The country that borders Spain" is not Spain; only a picture identifies it.
        subject = None
    names = (subject.name, subject.named) if subject else ()
    asked = analyse(main if subject else question, names)
    said = list(_sentences(evidence, units, subject))
    stated = None
    if subject and asked.kind == "identity":
        stated = _identity(subject, said)
    elif subject and asked.kind == "description":
        stated = _description(evidence, subject, said)
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
            said = text[start:end].strip()
            if said:
                start = text.index(said, start)
                named = subject and f" {name_key(subject.name)} " in f" {name_key(said)} "
                about = frozenset(map(stem, words(heading)))
                yield _Sentence(number, start, start + len(said), said, about, own or bool(named))


# ---- names and descriptions ---------------------------------------------------------------------


def _identity(subject: Match, said: Sequence[_Sentence]) -> _Stated:
    """The unit's name, with the sentence that says it if there is one."""
    where = [one for one in said if one.own and subject.name in one.text][:1]
    return subject.name, tuple(where), 0.7


def _description(
    evidence: Sequence[Evidence], subject: Match, said: Sequence[_Sentence]
) -> _Stated | None:
    """The first sentence of the unit's own text, or of one that names it; no labelled line."""
    prose = [one for one in said if one.own and " " in one.text and not one.is_line]

    def place(one: _Sentence) -> tuple[str, int, int]:
        piece = evidence[one.piece]
        return "" if _belongs(piece, subject) else piece.source, piece.chunk, one.start

    prose.sort(key=place)
    return (prose[0].text, (prose[0],), 0.8) if prose else None


# ---- labelled lines -----------------------------------------------------------------------------


def _lines(evidence: Sequence[Evidence], subject: Match | None) -> Iterator[_LabelledLine]:
    for number, piece in enumerate(evidence):
        if not _belongs(piece, subject):
            continue
        first = piece.text.lstrip("# \n").partition("\n")[0].strip()
        heading = stems(first) if len(first) < 80 and first[-1:].isalnum() else frozenset()
        text = piece.text[:_MOST_CHARACTERS]
        for match in (*_LINE.finditer(text), *_AMOUNT_LINE.finditer(text)):
            if match.re is _AMOUNT_LINE and AUXILIARIES.intersection(words(match["label"])):
                continue
            labels, values = [match["label"]], [match["value"]]
            several = re.split(r"\s*,\s", match["value"])
            parts = match["label"].split(" and ")
            if len(parts) == len(several) and " and " not in match["value"]:
                # "Country and volume: Italy, 80 g" is two facts, "Seas and oceans" is one.
                labels, values = parts, several
            for label, value in zip(labels, values, strict=True):
                yield _line(number, match, label, value, heading)


def _copulas(said: Sequence[_Sentence], subject: Match) -> Iterator[_LabelledLine]:
    """Sentences of the form "The LABEL of UNIT is VALUE", read as labelled lines."""
    name = name_key(subject.name)
    for one in said:
        match = _COPULA.fullmatch(one.text) if one.own else None
        if not match or is_negated(one.words) or (_HEDGES | _TURNING).intersection(one.words):
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
    fitting = asked.remaining(line.label, agents=asked.type == "person")
    unit = stems(line.value) if any(map(str.isdigit, line.value)) else frozenset()
    if fitting is None or fitting[1] - unit - (line.heading - line.label):
        return None
    return fitting[0]


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
        *(asked.spoken(way) for way in asked.ways if line.label & frozenset(way.labels))
    )
    said = words(line.value)[:1]
    if line.label <= content and said in (["yes"], ["no"]):
        decided = not asked.negated and not content - line.label
        return (said[0], (line,), CERTAIN) if decided else None
    if not (line.label <= content or spoken):
        return (
            ("yes", (line,), CERTAIN) if value and value == content and not asked.negated else None
        )
    left = content - line.label - spoken
    if asked.negated or is_negated(words(line.value)) or not left:
        return None
    if left <= value:
        return "yes", (line,), CERTAIN
    # A list need not be complete.
    single = not left & value and len(left) == 1 and not re.search(r",| and ", line.value)
    return ("no", (line,), CERTAIN) if single else None


# ---- prose --------------------------------------------------------------------------------------


def _from_prose(asked: Question, said: Sequence[_Sentence]) -> _Stated | None:
    """The typed value that most of the question stands near to, or yes or no."""
    if asked.compares:
        return None
    if asked.kind == "yes-no":
        return next((stated for one in said if (stated := _confirmed(asked, one))), None)
    if asked.negated or asked.type in ("", "name"):
        return None
    if not asked.names and len({one.about for one in said}) > 1:
        # The best value often belongs to another unit than the one in question.
        return None
    rarity = _Rarity(asked, said)
    best: dict[str, tuple[float, _Sentence]] = {}
    most = 0.0
    for one in said:
        if one.is_line or is_negated(one.words) or _HEDGES.intersection(one.words):
            continue
        for value in _fresh(asked, one):
            near = rarity.near(one, value)
            most = max(near, most)
            bound = _BOUND.search(one.text[: value.start])
            text = one.text[bound.start() if bound else value.start : value.end]
            if one.own and near > best.get(text, (0.0,))[0]:
                best[text] = near, one
    ranked = sorted(best, key=lambda text: -best[text][0])
    if not ranked:
        return None
    near, where = best[ranked[0]]
    clear = near - (best[ranked[1]][0] if ranked[1:] else 0.0)
    known = where.about.union(*(one.stems for one in said if one.piece == where.piece))
    least = _COVERED_NAMED if asked.names else _COVERED
    # Where a text of another unit says more, the question may go on from the unit that it names.
    if clear < _CLEAR or near < most - _CLEAR or rarity.share(known) < least:
        return None
    return ranked[0], (where,), round(min(0.9, 0.5 + clear), 3)


def _fresh(asked: Question, sentence: _Sentence) -> list[Value]:
    """Values of the type asked for that neither the question nor the name of its unit holds."""
    passive = "by" in sentence.words and "by" not in asked.said and asked.type == "person"
    return [
        value
        for value in find_values(sentence.text, asked.type or "name")
        if not passive or re.search(r"\bby (?:the )?$", sentence.text[: value.start])
        if not frozenset(map(stem, words(sentence.text[slice(*value)])))
        <= asked.every | asked.names
    ]


class _Rarity:
    """The weights of a question's words among sentences: those that few sentences have count more.

    Args:
        asked: the question.
        said: the sentences.
    """

    def __init__(self, asked: Question, said: Sequence[_Sentence]) -> None:
        counts = Counter(word for one in said for word in one.stems)
        # "How heavy" is answered by "it weighs" and "a weight of".
        meant = {label: 1.0 for way in asked.ways[:1] for label in (*way.labels, *way.extra)}
        self._of = {
            word: weight * math.log(1 + (len(said) + 1) / (counts[word] + 0.5))
            for word, weight in (meant | dict(asked.weights)).items()
        }
        self._said = asked.weights or meant
        if not asked.weights:
            # Of the words of a way of asking, one is enough: "Where does it come from?"
            self._of = meant
        self._total = sum(self._of[word] for word in asked.weights) or 1.0

    def share(self, known: frozenset[str]) -> float:
        """Return the share of the question that stems have."""
        return sum(self._of[word] for word in self._said if word in known) / self._total

    def near(self, sentence: _Sentence, value: Value) -> float:
        """Return the share of the question near to a value, less the further away it stands."""
        found: dict[str, float] = {}
        for word, start, end in sentence.tokens:
            if word in self._of:
                away = max(0, start - value.end, value.start - end)
                found[word] = max(found.get(word, 0.0), self._of[word] / (1 + away / _HALF))
        return sum(found.values()) / self._total


def _confirmed(asked: Question, sentence: _Sentence) -> _Stated | None:
    """Yes or no to "Is it waterproof?", where a sentence says that it is, or that it is not."""
    if not sentence.own or sentence.is_line or _HEDGES.intersection(sentence.words):
        return None
    subject = sentence.words[:1] in (["it"], ["this"], ["they"], ["he"], ["she"]) or (
        frozenset(map(stem, sentence.words[:3])) & (asked.names | sentence.about)
    )
    if not subject or asked.negated or asked.said[:1] not in (("is",), ("are",)):
        return None
    first = re.split(r"[,;:–—]|\b(?:and|but|or|which|that|while)\b", sentence.text)[0]
    match = _PREDICATE.fullmatch(first.strip(" .!"))
    if not match:
        return None
    what = words(match["what"])
    if _TURNING.intersection(what) != _TURNING.intersection(asked.said):
        return None
    if [stem(word) for word in what if word not in stop_words()] != list(asked.content):
        return None
    return "no" if match["no"] else "yes", (sentence,), 0.8


# ---- the closest sentence -----------------------------------------------------------------------


def _closest(
    asked: Question, said: Sequence[_Sentence], evidence: Sequence[Evidence]
) -> ClosestSentence | None:
    """The sentence that shares most with the question, or has a value that it may ask for."""
    rarity = _Rarity(asked, said)
    best, most = None, 0.0
    for one in said:
        share = rarity.share(one.stems | one.about)
        if share:
            share += _FRESH * bool(asked.type and _fresh(asked, one))
        if share > most:
            best, most = one, share
    return ClosestSentence(evidence[best.piece].label, best.text) if best else None
