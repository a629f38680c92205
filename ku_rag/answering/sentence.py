"""One sentence asked for one concept: how values are read from it and written down."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from ku_rag.answering import amounts, values
from ku_rag.answering.groups import group_at
from ku_rag.answering.keys import NAME_KINDS, Span
from ku_rag.answering.values import Value
from ku_rag.text.lexicon import Concept, Word, word_list
from ku_rag.text.question import Question

COPULAS = word_list("copulas")
NEGATIONS = word_list("negations")
_DIRECTED = word_list("directed")
_PAST = word_list("past")
_LANDS = word_list("lands")
_FIRST_OF_LIST = ("name", "place", "person")


class Sentence:
    """A sentence with its words, and the reading and writing of values in it.

    Args:
        asked: the question.
        concept: what it asks for.
        words: of the sentence.
        text: of the evidence, which the words' offsets count in.
    """

    def __init__(self, asked: Question, concept: Concept, words: Sequence[Word], text: str) -> None:
        self.asked, self.concept = asked, concept
        self.words, self.text = list(words), text
        self.kind = asked.type.split()[0]
        self.units = tuple(asked.type.split()[1:]) or concept.units
        self.lower = [w.text.lower() for w in words]

    def modifies(self, at: int) -> bool:
        """Whether the word at `at` may belong to the noun group that follows it."""
        word = self.words[at]
        text = self.lower[at]
        if not text[0].isalpha() or text in values.ARTICLES | values.PRONOUNS | values.PREPOSITIONS:
            return False
        return not (
            text in ("and", "or", "of", "which", "who")
            or word.stem in values.VERBS
            or text in COPULAS
            or values.capital(word)
        )

    def clause(self, verb: int) -> int:
        """The index where the clause of the word at `verb` begins."""
        for at in range(verb - 1, -1, -1):
            if self.lower[at] in (";", ",", ":") or (
                self.lower[at] in ("and", "while")
                and any(w.stem in values.VERBS for w in self.words[:at])
            ):
                return at + 1
        return 0

    def read(self, at: int, *, direct: bool = False) -> Value | None:
        """The value of the wanted kind that begins at `at`; `direct`: with no word before it."""
        if self.kind == "quantity":
            return amounts.quantity_from(self.words, at, self.units)
        if self.kind in ("number",):
            probe = values.skip(self.words, at)
            return amounts.number(self.words, probe)
        if self.kind in NAME_KINDS or self.kind == "count":
            return self.read_names(at, direct)
        if self.kind == "things":
            group = group_at(self.words, at, many=True)
            return Value(((group.first, group.last),), group.last) if group else None
        if self.kind in ("phrase", "noun", "quality", "manner", "reason"):
            return values.phrase(self.words, at, short=self.concept.type == "noun")
        return None

    def read_names(self, at: int, direct: bool) -> Value | None:
        """The names that begin at `at`."""
        if not direct:
            after = values.skip(self.words, at)
            # "with a single country, North Korea"
            at = after + (after > at and self.lower[after : after + 1] == [","])
        first = at
        while (
            self.kind in ("place", "continent")
            and at < len(self.words)
            and self.words[at].text in _DIRECTED | {"the"}
        ):
            at += 1
        if self.kind == "person":
            at = self._past_title(at)
        if self.kind == "water" and self.lower[at : at + 1] in (["on"], ["along"], ["by"], ["in"]):
            at += 1
        value = values.names(self.words, at, many=self.kind not in _FIRST_OF_LIST)
        if value is None and self.concept.name == "location":
            group = group_at(self.words, at, many=True, place=True)
            return Value(((group.first, group.last),), group.last) if group else None
        if value and self.kind == "place" and self._names_land(value.end):
            value = Value(((value.parts[0][0], value.end + 1),), value.end + 1)
        if value and self.kind == "place" and first < at and self.lower[first] != "the":
            head = (first, value.parts[0][1])
            value = Value((head, *value.parts[1:]), value.end)
        return value

    def _names_land(self, at: int) -> bool:
        """Whether a name goes on in lower case: "the Aldo valley"."""
        return at < len(self.words) and self.words[at].stem in _LANDS

    def _past_title(self, at: int) -> int:
        """The index of the name in "the engineer Gustave Eiffel"."""
        for end in range(at, min(at + 4, len(self.words))):
            if values.capital(self.words[end]):
                return end
            if not self.modifies(end) and self.lower[end] not in values.ARTICLES:
                break
        return at

    def span(self, value: Value | None, score: float, owner: str) -> Iterator[Span]:
        """The value as a possible answer; nothing when it is not of the wanted kind."""
        if value is None:
            return
        parts = self._kept(value.parts)
        if not parts:
            return
        if self.kind == "count":
            yield Span(str(len(parts)), score - 0.15, owner)
            return
        answer = self.join(parts)
        if answer:
            # Of two lists in a sentence, the fuller one is the answer.
            yield Span(answer, score - self._past(parts[0][0]) + 0.004 * min(len(parts), 9), owner)

    def _kept(self, parts: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        if self.kind == "water":
            return [p for p in parts if values.is_water(self.words, p)]
        if self.kind == "continent":
            found = [values.continent(self.words, p) for p in parts]
            return [p for p in found if p is not None]
        if self.concept.name == "border":
            return [p for p in parts if not values.is_water(self.words, p)]
        return list(parts)

    def _past(self, at: int) -> float:
        """What was once so is a poorer answer than what is, unless the question asks for it."""
        asked = {w.text.lower() for w in self.asked.words}
        told = {word for word in self.lower[self.clause(at) : at] if word in _PAST}
        if asked & _PAST:
            return 0.0 if told else 0.5
        return 0.35 if told else 0.0

    def join(self, parts: Sequence[tuple[int, int]]) -> str:
        """The words as they stand; a list with anything between its members is put together."""
        between = [w for a, b in pairwise(parts) for w in self.lower[a[1] : b[0]]]
        if all(w in (",", "and", "or", "&", "the", "/") for w in between):
            return self.slice(parts[0][0], parts[-1][1])
        members = list(dict.fromkeys(self.slice(*part) for part in parts))
        return members[0] if len(members) == 1 else f"{', '.join(members[:-1])} and {members[-1]}"

    def slice(self, first: int, last: int) -> str:
        """The words from `first` up to `last` as they stand, white space made single."""
        return " ".join(self.text[self.words[first].start : self.words[last - 1].end].split())

    def negated(self, start: int, end: int) -> bool:
        """Whether a word from `start` up to `end` denies."""
        return any(word in NEGATIONS for word in self.lower[start:end])
