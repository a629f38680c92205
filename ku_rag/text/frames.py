"""The verb of a question and the roles around it: what is asked for, of whom, with what else."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ku_rag.text.clues import AUXILIARIES, FUNCTION, LEADS, RELATIVES, WH
from ku_rag.text.lexicon import Word
from ku_rag.text.question import Question

_BE = {"is", "are", "was", "were"}
_DO = {"do", "does", "did"}
_MODAL = {"can", "could", "must", "should", "may", "might", "will", "would"}
_HAVE = {"has", "have", "had"}
_PRONOUNS = {"it", "they", "he", "she", "you", "i", "we", "them", "him", "her", "one", "people"}
_DETERMINERS = {"the", "a", "an", "this", "that", "these", "those", "its", "their", "his", "her"}
_NO_VERBS = {"first", "last", "ever", "also", "still", "now", "today", "usually", "mainly"}
_ALIKE: dict[str, tuple[str, ...]] = {
    "to": ("to", "against"), "against": ("against", "to"), "from": ("from", "of"),
    "of": ("of", "from"), "in": ("in", "on", "at"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Frame:
    """One way to read a question as a verb with roles.

    Args:
        slot: the role asked for: agent, object, when, where, how long, how often.
        verbs: stems of the verb.
        passive: whether `subject` is what the verb is done to.
        subject: content stems of the other role; none where it is the unit.
        tail: further content stems.
        prep: the preposition that leads to what is asked, or to `subject` when the agent is asked.
        who: whether a person is asked for.
        noun: stems of the word that names the kind of answer: "which planet".
        bare: whether nothing stands in the role of `subject`.
        renamed: whether it asks what something is called.
    """

    slot: str
    verbs: frozenset[str]
    passive: bool
    subject: frozenset[str]
    tail: frozenset[str] = frozenset()
    prep: str = ""
    who: bool = False
    noun: frozenset[str] = frozenset()
    bare: bool = False
    renamed: bool = False

    @property
    def preps(self) -> tuple[str, ...]:
        """The prepositions that may lead to the answer."""
        return _ALIKE.get(self.prep, (self.prep,))


def frames(asked: Question) -> tuple[Frame, ...]:
    """Every way to read a question as a verb with roles; none when it has no verb of its own."""
    return _frames(asked.words, asked.about)


@lru_cache(maxsize=64)
def _frames(words: tuple[Word, ...], about: frozenset[str]) -> tuple[Frame, ...]:
    plain = [w for w in words if w.text[0].isalnum()]
    lower = [w.text.lower() for w in plain]
    at = next((i for i, t in enumerate(lower[:2]) if t in WH), None)
    if at is None or (at == 1 and lower[0] not in LEADS):
        return ()
    reader = _QuestionReader(plain, lower, about)
    lead = lower[0] if at else ""
    return tuple(reader.read(at, lead))


class _QuestionReader:
    def __init__(self, words: list[Word], lower: list[str], about: frozenset[str]) -> None:
        self.words, self.lower, self.about = words, lower, about

    def read(self, wh: int, lead: str) -> list[Frame]:
        slot = self._slot(wh)
        if not slot:
            return []
        at = wh + 1 + (slot in ("how long", "how often"))
        group = at
        asks_noun = self.lower[wh] in ("what", "which")
        while asks_noun and at < len(self.lower) and self.lower[at] not in AUXILIARIES:
            at += 1
        noun = self._content(group, at)
        if at >= len(self.lower):
            # No auxiliary: "what drives it", "which insects pollinate it".
            first = group + (self.lower[wh] == "which")
            return self._acting(slot, group, range(first, len(self.lower)))
        auxiliary = self.lower[at]
        if {"century", "year", "month", "day", "date"} & set(self.lower[group:at]):
            slot = "when"
        if auxiliary in _DO:
            return self._split(slot, at + 1, passive=False, noun=noun, lead=lead)
        if auxiliary in _BE:
            return self._split(slot, at + 1, passive=True, noun=noun, lead=lead)
        if auxiliary in _MODAL | _HAVE and at + 1 < len(self.lower):
            passive = "be" in self.lower or "been" in self.lower
            return self._split(slot, at + 1, passive=passive, noun=noun, lead=lead)
        while self.lower[at] in _NO_VERBS and at + 1 < len(self.lower):
            at += 1
        if slot in ("agent", "object"):
            return self._acting(slot, at, range(at, at + 1))
        return []

    def _slot(self, wh: int) -> str:
        word = self.lower[wh]
        if word == "how":
            after = self.lower[wh + 1] if wh + 1 < len(self.lower) else ""
            return {"long": "how long", "often": "how often"}.get(after, "")
        return {"who": "agent", "whom": "object", "what": "object", "which": "object",
                "when": "when", "where": "where"}.get(word, "")  # fmt: skip

    def _acting(self, slot: str, at: int, places: range) -> list[Frame]:
        """The readings of "who built the bridge", "which insects pollinate it"."""
        found = []
        for verb in places:
            if not self._may_be_verb(verb):
                continue
            rest = verb + 1
            while rest < len(self.words) and self.lower[rest] in _NO_VERBS:
                rest += 1
            prep = ""
            if rest < len(self.words) and self.lower[rest] in LEADS | {"against", "over"}:
                prep, rest = self.lower[rest], rest + 1
            stop = self._phrase_end(rest)
            found.append(
                Frame(
                    "agent",
                    self._verb(verb, base=False),
                    True,
                    self._content(rest, stop),
                    self._content(stop, len(self.words)),
                    prep,
                    who=slot == "agent",
                    noun=self._content(at, verb),
                    bare=rest >= len(self.words),
                )
            )
        return found

    def _split(
        self, slot: str, start: int, *, passive: bool, noun: frozenset[str], lead: str
    ) -> list[Frame]:
        """Every way to part "does the young bird eat" into a subject and a verb."""
        found = []
        if start >= len(self.words):
            return []
        if self.lower[start] in _DETERMINERS:
            pointing = self.lower[start] in ("this", "that", "these", "those")
            alone = pointing and self._inflected(start + 1, passive=passive)
            first = start + (1 if alone else 2)
        else:
            first = start + 1
        for verb in range(first, len(self.words)):
            if not self._may_be_verb(verb):
                continue
            subject = self._content(start, verb)
            prep = lead if lead and slot == "object" else ""
            last = len(self.words)
            if last - 1 > verb and self.lower[last - 1] in LEADS | {"against"}:
                prep, last = self.lower[last - 1], last - 1
            tail = self._content(verb + 1, last)
            asked = slot
            if slot == "agent":
                # "Who was it built by?" asks for the one who acts, "whom did she marry" does not.
                asked = "agent" if passive else "object"
            if slot == "object" and passive and prep == "by":
                asked, prep = "agent", ""
            elif slot == "object" and passive and not prep and self.lower[last - 1] != "called":
                continue
            verbs = self._verb(verb, base=not passive)
            after = self.lower[verb + 1 : verb + 2]
            renamed = (
                asked == "object" and self.words[verb].stem in ("call", "name") and not passive
            )
            if after == ["to"] and last - 1 > verb + 1:
                # "used to store": the inner verb is the one whose object is asked for.
                continue
            prep = "" if asked == "agent" else prep
            found.append(
                Frame(asked, verbs, passive, subject, tail, prep, slot == "agent", noun,
                      renamed=renamed)
            )  # fmt: skip
        return found

    def _inflected(self, at: int, *, passive: bool) -> bool:
        """Whether "this" stands alone before a verb: "where was this found", not "this tower"."""
        if at >= len(self.words):
            return False
        text, root = self.lower[at], self.words[at].stem
        if passive:
            return text.endswith("ed") or root[:4] != text[:4]
        return at + 1 == len(self.words) or self.lower[at + 1] in LEADS

    def _phrase_end(self, at: int) -> int:
        """Where the noun group at `at` ends: before a preposition."""
        end = at
        while end < len(self.words) and self.lower[end] not in LEADS - {"of"}:
            end += 1
        return end

    def _may_be_verb(self, at: int) -> bool:
        text = self.lower[at]
        plain = FUNCTION - {"belong", "use", "used", "call", "find", "found", "contain", "depict"}
        if text == "last" and at == len(self.lower) - 1:
            return True
        if text in plain | RELATIVES | _NO_VERBS | _BE or not text[0].isalpha():
            return text in ("show", "find", "found", "called", "include", "need")
        return not (self.words[at].text[0].isupper())

    def _verb(self, at: int, *, base: bool) -> frozenset[str]:
        if base and self.lower[at] == "found":
            return frozenset({"founded"})
        return frozenset({self.words[at].stem})

    def _content(self, first: int, last: int) -> frozenset[str]:
        return frozenset(
            w.stem
            for w in self.words[first:last]
            if w.stem not in FUNCTION | self.about | LEADS
            and w.text.lower() not in FUNCTION | _NO_VERBS
        )
