"""Where in a statement the answer stands: keys, "X is Y", verbs with their objects, amounts."""

from __future__ import annotations

from collections.abc import Iterator

from ku_rag.answering import amounts, values
from ku_rag.answering.agreement import agreement
from ku_rag.answering.clauses import by_clause
from ku_rag.answering.groups import GENERIC, group_at
from ku_rag.answering.keys import NAME_KINDS, RESTRICTING, Span, keyed
from ku_rag.answering.kinds import Kinds
from ku_rag.answering.sentence import COPULAS
from ku_rag.answering.statements import Statement
from ku_rag.answering.values import Value
from ku_rag.text.clues import POINTED
from ku_rag.text.frames import frames
from ku_rag.text.lexicon import Concept, find, word_list
from ku_rag.text.question import Question

_POINTING = word_list("pointing nouns")
_MEASURED = {"quantity", "things", "color", "number"}
# Concepts that are asked for with verbs of many kinds.
_ACTED = {"location", "maker", "length", "creator", "author", "origin"}
_PLACED_VERBS = {"locat", "situat", "live", "liv", "lie", "native", "nativ", "occur"}


def find_values(question: str, asked: Question, statement: Statement, text: str) -> Iterator[Span]:
    """Every value in a statement that may answer the question."""
    concept = asked.concept
    if concept is None:
        yield from by_clause(asked, statement, text)
        return
    if asked.kind == "yes-no":
        yield from agreement(asked, statement)
        return
    if statement.key:
        yield from keyed(question, asked, concept, statement, text)
        return
    reader = _Reader(asked, concept, statement.words, text)
    if not asked.required and concept.name and _of_a_part(asked, concept, statement):
        return
    acts = bool(frames(asked))
    if concept.name in _ACTED or not concept.name:
        yield from by_clause(asked, statement, text)
    if concept.name == "location" and acts and not _merely_is(asked):
        # "Where was it born?" is not answered by where it lives.
        return
    yield from reader.by_noun()
    if concept.name or not acts or asked.type.startswith(("quantity", "number")):
        yield from reader.by_verb()
    yield from reader.by_kind()


def _of_a_part(asked: Question, concept: Concept, statement: Statement) -> bool:
    """Whether a sentence measures a part, and not the whole that is asked about: "the cable is"."""
    words = statement.words
    if asked.type.split()[0] not in _MEASURED or len(words) < 3:
        return False
    if words[0].text.lower() not in ("the", "its", "their", "his", "her", "each", "every", "one"):
        return False
    group = group_at(words, 1, many=True)
    if group is None or not words[group.head].text[0].islower():
        return False
    own = {part for phrase in (*concept.nouns, *concept.ask, *concept.before) for part in phrase}
    head = words[group.head].stem
    stands = head in asked.about | own | POINTED or head in _POINTING or head in GENERIC
    if words[1].stem in asked.about and words[2].stem in own:
        # "The console cost 89 dollars": the verb follows at once.
        return False
    return not stands and group.last < len(words) and words[group.last].text.isalpha()


def _merely_is(asked: Question) -> bool:
    """Whether "where" is asked with a verb that says no more than "is"."""
    return any(w.stem in _PLACED_VERBS for w in asked.words)


# ---- sentences ---------------------------------------------------------------------------------


class _Reader(Kinds):
    """One sentence, searched for the places where a value may stand."""

    # -- by what the value is called

    def by_noun(self) -> Iterator[Span]:
        if self.kind == "color":
            return
        acts = {verb for frame in frames(self.asked) for verb in frame.verbs}
        for noun in self.concept.nouns:
            if not self.concept.name and set(noun) <= acts:
                # What is done is no name of what is asked for: "it was built" names no builder.
                continue
            at = 0
            while (spot := find(self.words, noun, at)) is not None:
                at = spot[0] + 1
                yield from self._around(*spot)

    def _around(self, i: int, j: int) -> Iterator[Span]:
        left = i
        while left > 0 and self.modifies(left - 1):
            left -= 1
        wanted = {w.stem for w in self.asked.words}
        if any(w.stem in RESTRICTING and w.stem not in wanted for w in self.words[left:i]):
            return
        owner, start = self._owner_before(left)
        if self.negated(max(0, start - 3), i):
            return
        after, k = ("", j) if self.kind == "continent" else self._owner_after(j)
        owner = owner or after
        k = self._past_conjunct(start, k)
        yield from self._amount_near(start, j, k, owner)
        if self.kind in ("quantity", "number", "count", "date", "year"):
            return
        if k < len(self.words) and self.lower[k] in COPULAS and not self.negated(k, k + 3):
            yield from self.span(self.read(k + 1), 1.0, owner)
        if self.kind == "quality":
            yield from self.span(self._adjectives(i), 0.9, owner)
            return
        if self.kind in NAME_KINDS and self.lower[max(0, start - 1)] != "as":
            yield from self._beside(i, j, start, k, owner)
        elif self.kind == "noun" and self.lower[k : k + 2] in ([",", "the"], [",", "a"]):
            yield from self.span(values.phrase(self.words, k + 1, short=True), 0.88, owner)
        yield from self._inverse(start, owner)

    def _adjectives(self, end: int) -> Value | None:
        """What stands before the noun: "a sweet, nice taste"; not the "soft pulp" before "and"."""
        start = end
        while start > 0 and self.modifies(start - 1):
            start -= 1
        while start > 1 and self.lower[start - 1] in (",", "and") and start < end:
            first = start - 1
            while first > 0 and self.modifies(first - 1):
                first -= 1
            if not 1 <= start - 1 - first <= 1 + (self.lower[first].endswith("ly")):
                break
            start = first
        return Value(((start, end),), end) if start < end else None

    def _beside(self, i: int, j: int, start: int, k: int, owner: str) -> Iterator[Span]:
        """Names beside the noun: "its capital, Lisbon", "its capital in Lisbon"."""
        if k < len(self.words):
            if self.lower[k] in (",", "("):
                yield from self.span(self.read(k + 1, direct=True), 0.88, owner)
            elif self.lower[k] in ("in", "at") and self.kind == "name":
                yield from self.span(self.read(k + 1, direct=True), 0.9, owner)
            elif self.kind == "continent" and self.lower[k] == "of":
                yield from self.span(self.read(k + 1, direct=True), 0.98, owner)
            elif values.capital(self.words[k]) and k == j:
                yield from self.span(self.read(k, direct=True), 0.86, owner)
        if start > 1 and self.lower[start - 1] == "," and start < i:
            ends = k >= len(self.words) or self.lower[k] in (",", ".", ";", ")")
            if ends:
                value = values.names_before(self.words, start - 1, many=self.kind == "names")
                yield from self.span(value, 0.85, owner)

    def _inverse(self, start: int, owner: str) -> Iterator[Span]:
        """The noun said of the value: "Lisbon is the capital", "with Lisbon as its capital"."""
        if start < 1:
            return
        at = start - 1
        if self.kind == "continent":
            return
        if self.lower[at] == "as":
            if at and self.words[at - 1].stem in ("serv", "act", "function", "use", "know"):
                at -= 1
            if at and self.lower[at] != "as" and self.lower[at - 1] in COPULAS:
                at -= 1
        elif self.lower[at] not in COPULAS - {":", "="}:
            return
        if self.lower[at] == "been" and at and self.words[at - 1].stem == "have":
            at -= 1
        if self.negated(at, start):
            return
        if self.kind in NAME_KINDS:
            value = values.names_before(self.words, at, many=self.kind in ("names", "water"))
        else:
            value = values.phrase_before(self.words, at)
        if self.lower[start - 1] == "as" and at == start - 1 and value is None:
            return
        yield from self.span(value, 0.95, owner)

    def _owner_before(self, left: int) -> tuple[str, int]:
        """(name in the possessive, index of the group's first word)."""
        if left == 0:
            return "", left
        if self.lower[left - 1] in ("'s", "’s", "'", "’"):
            value = values.names_before(self.words, left - 1, many=False)
            if value:
                first = value.parts[0][0]
                return self.slice(first, left - 1), first
            return "", left - 1
        determiner = self.lower[left - 1] in values.ARTICLES | {
            "its",
            "their",
            "this",
            "his",
            "her",
        }
        return "", left - 1 if determiner else left

    def _owner_after(self, j: int) -> tuple[str, int]:
        if j >= len(self.words) or self.lower[j] not in ("of", "for", "in"):
            return "", j
        at = values.skip(self.words, j + 1, 3)
        end = self._double_name(values.name_end(self.words, at))
        if end > at:
            if self.lower[j] == "in" and self.kind == "name":
                return "", j
            return self.slice(at, end), end
        if at < len(self.words) and self.lower[at] in ("this", "that"):
            at += 1
        while at < len(self.words) and self._means_subject(at):
            at += 1
            if at == len(self.words) or self.lower[at] in COPULAS | {",", "(", "."}:
                return "", at
        return "", j

    def _means_subject(self, at: int) -> bool:
        """Whether a noun stands for whom the question is about: "the height of the tower"."""
        return self.lower[at] in _POINTING or self.words[at].stem in self.asked.about

    def _double_name(self, end: int) -> int:
        """Go on over "and Tobago" where the name must be meant whole."""
        if end + 1 < len(self.words) and self.lower[end] == "and":
            further = values.name_end(self.words, end + 1)
            closed = further >= len(self.words) or not self.lower[further][0].isalnum()
            if further > end + 1 and (closed or self.lower[further] in COPULAS):
                return further
        return end

    def _past_conjunct(self, start: int, k: int) -> int:
        """Go on to the verb of a pair: "the capital and largest city is"."""
        if any(w.stem in values.VERBS for w in self.words[self.clause(start) : start]):
            return k
        if k < len(self.words) and self.lower[k] == "and":
            for end in range(k + 1, min(k + 7, len(self.words))):
                if self.lower[end] in COPULAS:
                    return end
                if not self.lower[end][0].isalpha():
                    break
        return k

    # -- by what is done with the value

    def by_verb(self) -> Iterator[Span]:
        dated = self.kind in ("date", "year")
        for before in self.concept.before:
            at = 0
            while (spot := find(self.words, before, at, gap=5 if dated else 0)) is not None:
                at = spot[0] + 1
                if self.negated(max(0, spot[0] - 3), spot[1]):
                    continue
                if self._misses_subject(spot[0]):
                    continue
                value = (
                    amounts.date_near(self.words, *spot, year_only=self.kind == "year")
                    if dated
                    else self.read(spot[1])
                )
                yield from self.span(value, 0.95 - self._loose(spot[0]), self._agent(spot[0]))
        if self.concept.name == "meaning":
            yield from self._elliptic()
        for after in self.concept.after:
            at = 0
            while (spot := find(self.words, after, at)) is not None:
                at = spot[0] + 1
                if self.negated(max(0, spot[0] - 2), spot[1]):
                    continue
                if self.kind in NAME_KINDS:
                    value = values.names_before(self.words, spot[0], many=self.kind == "names")
                else:
                    value = values.phrase_before(self.words, spot[0])
                yield from self.span(value, 0.9, "")

    def _elliptic(self) -> Iterator[Span]:
        """The second half of "green stands for hope and red for courage"."""
        verb = next((i for i, w in enumerate(self.words) if w.stem == "stand"), None)
        if verb is None or not self.asked.required:
            return
        for at in range(verb + 3, len(self.words)):
            near = {w.stem for w in self.words[max(verb + 2, at - 3) : at]}
            if self.lower[at] == "for" and set(self.asked.required) <= near:
                yield from self.span(self.read(at + 1), 0.94, "")

    def _misses_subject(self, verb: int) -> bool:
        """What a part stands for is said of that part: it must be the verb's subject."""
        if self.concept.name != "meaning":
            return False
        subject = {w.stem for w in self.words[self.clause(verb) : verb]}
        return not set(self.asked.required) <= subject

    def _loose(self, verb: int) -> float:
        """How much more the subject says than was asked: "the red star" for "the red"."""
        if self.concept.name != "meaning":
            return 0.0
        wanted = {w.stem for w in self.asked.words}
        subject = [w for w in self.words[self.clause(verb) : verb] if w.text[0].isalpha()]
        extra = [
            w for w in subject if w.stem not in wanted and w.text.lower() not in ("the", "and")
        ]
        return min(0.2, 0.05 * len(extra))

    def _agent(self, verb: int) -> str:
        """The name right before a verb: whom the sentence says it of."""
        if verb == 0:
            return ""
        if self.lower[verb - 1] in ("which", "who", "that", "and"):
            return ""
        if self.concept.name == "meaning":
            return ""
        value = values.names_before(self.words, verb, many=False)
        if value is None:
            return ""
        first = value.parts[0][0]
        if first > 1 and self.lower[first - 1] == "and" and values.capital(self.words[first - 2]):
            double = values.names_before(self.words, first - 1, many=False)
            first = double.parts[0][0] if double else first
        return self.slice(first, verb)

    def _amount_near(self, start: int, j: int, k: int, owner: str) -> Iterator[Span]:
        found: list[tuple[Value | None, float]] = []
        if self.kind in ("number", "count"):
            found.append((amounts.number_before(self.words, j, start), 0.9))
        if self.kind == "number":
            found.append((amounts.number_after(self.words, j), 0.9))
        if self.kind == "quantity":
            found.append((amounts.quantity_from(self.words, j, self.units), 0.95))
            found.append((amounts.quantity_from(self.words, k, self.units), 0.95))
            found.append((amounts.quantity_before(self.words, start, self.units), 0.8))
            found.append((amounts.quantity_before(self.words, j - 1, self.units), 0.9))
        if self.kind in ("date", "year"):
            year_only = self.kind == "year"
            found.append((amounts.date_near(self.words, k, k, year_only=year_only), 0.9))
        for value, score in found:
            if value:
                yield Span(self.slice(*value.parts[0]), score, owner)
                return
