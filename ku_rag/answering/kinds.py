"""Values found by their kind alone: colours of things, places that things are in, reasons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ku_rag.answering import amounts, values
from ku_rag.answering.groups import BE, described, group_before
from ku_rag.answering.keys import Span
from ku_rag.answering.sentence import COPULAS, Sentence
from ku_rag.text.lexicon import find, phrase

_PLACING = {"location": ("in", "on", "at", "near", "off"), "origin": ("from",)}


class Kinds(Sentence):
    """One sentence, searched for values that no word names but their kind gives away."""

    def by_kind(self) -> Iterator[Span]:
        """Colours said of the noun, places that things are in, reasons."""
        if self.kind == "reason":
            yield from self._reason()
        if self.concept.name in _PLACING:
            yield from self._placed(_PLACING[self.concept.name])
        if self.concept.name == "sort" and (group := described(self.words, self.asked.about)):
            yield Span(self.slice(group.first, group.last), 0.8)
        if self.concept.name == "area" and self.lower[:1] in (["with"], ["at"]):
            value = amounts.quantity_from(self.words, 1, self.units)
            if value:
                yield Span(self.slice(*value.parts[0]), 0.8)
        if self.kind == "continent":
            for at, word in enumerate(self.lower[:-1]):
                if word in ("in", "on", "of"):
                    yield from self.span(self.read_names(at + 1, direct=True), 0.72, "")
        if self.kind == "color":
            yield from self._colours()

    def _colours(self) -> Iterator[Span]:
        """The colour of a part, or of the thing itself: "they are brown"."""
        if not {s for noun in self.concept.nouns for s in noun} - self.asked.about:
            for at in range(1, len(self.words) - 1):
                group = group_before(self.words, at) if self.lower[at] in BE else None
                subject = group and self.words[group.head]
                if subject and (subject.stem in self.asked.about | {"it", "they"}):
                    end = self._next_thing(at + 1)
                    stop = next((i for i in range(at + 1, end) if self._ends(i)), end)
                    found = values.colours(self.words, at + 1, stop)
                    if found and found[0][0] <= at + 3:
                        yield Span(self.join(found), 0.9)
        for noun in self.concept.nouns:
            spot = find(self.words, noun)
            if spot:
                yield from self._coloured(*spot)

    def _reason(self) -> Iterator[Span]:
        for because in ("because of", "because", "due to", "owing to", "thanks to"):
            spot = find(self.words, phrase(because))
            content = {part for noun in self.concept.nouns for part in noun}
            if spot and content & {w.stem for w in self.words}:
                rest = self.words[spot[1] :]
                stop = next((i for i, w in enumerate(rest) if w.text in ".;"), len(rest))
                if stop:
                    yield Span(self.slice(spot[1], spot[1] + stop), 0.85)
                return

    def _placed(self, prepositions: Sequence[str]) -> Iterator[Span]:
        """Where something is that "is a stadium in Notre Dame, Indiana"."""
        copula = next((i for i, w in enumerate(self.lower[:12]) if w in ("is", "was", "are")), None)
        if copula is None:
            return
        for at in range(copula + 1, min(copula + 14, len(self.words) - 1)):
            if self.lower[at] in (",", ";", ".", "which", "that", "who"):
                return
            end = values.name_end(self.words, values.skip(self.words, at + 1))
            if self.lower[at] not in prepositions or end <= at + 1:
                continue
            first = values.skip(self.words, at + 1)
            yield Span(self.slice(first, self._place_end(end)), 0.9)
            return

    def _place_end(self, end: int) -> int:
        """Go on over "in Paris, France"."""
        while end + 1 < len(self.words) and self.lower[end] in (",", "in"):
            further = values.name_end(self.words, end + 1)
            if further == end + 1:
                break
            end = further
        return end

    def _coloured(self, i: int, j: int) -> Iterator[Span]:
        left = i
        while left > 0 and (self.modifies(left - 1) or self.lower[left - 1] in ("and", "or", ",")):
            left -= 1
        found = values.colours(self.words, left, i)
        score = 0.85
        told = j < len(self.words) and (self.lower[j] in COPULAS or self.words[j].stem == "vary")
        if not found and told:
            value = values.phrase(self.words, j + 1)
            found = values.colours(self.words, j, value.end) if value else []
            score = 0.95
        if not found:
            every = values.colours(self.words, j, self._next_thing(j))
            found = list({self.slice(*part): part for part in every}.values())
            score = 0.7
        if found:
            yield Span(self.join(found), score)

    def _ends(self, at: int) -> bool:
        return self.lower[at] in values.PREPOSITIONS or self.words[at].stem in values.VERBS

    def _next_thing(self, at: int) -> int:
        """Where something else is spoken of: ", the back is brown"."""
        for i in range(at, len(self.words) - 1):
            other = self.lower[i + 1] in ("the", "its", "their")
            if self.lower[i] in (",", ";", "and", "while") and other:
                return i
        return len(self.words)
