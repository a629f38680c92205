"""Parts of a query: what refers to a picture, what evidence covers, and where evidence leads."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain

from ku_rag.planning.plan import Hit
from ku_rag.text.question import AUXILIARIES
from ku_rag.text.sentences import sentences
from ku_rag.text.stems import stem, stems
from ku_rag.text.tokens import content_words, stop_words, tokenize, words
from ku_rag.text.values import find_values

_POSSESSIVES = frozenset(words("his her its their"))
_PRONOUNS = frozenset(words("he she it they him her them"))
_TIMES = frozenset(words("time moment day week month year season decade century"))
"""After "this", "last" and "next" they denote a time."""
_IMPERSONAL = frozenset(words("take takes took rain rained rains snow snowed snows"))
"""After "it" without a referent: "How long does it take?"."""
_LINKING = frozenset(words("is are was were s"))
_UNIQUE = frozenset(words("world earth sun moon sky sea universe"))
"""After "the" they are unambiguous."""
_PICTURED = re.compile(
    r"\b(?:the|this|these) (?:(?!(?:the|this|an?|of) )[\w'’-]+ ){1,5}"
    r"(?:in|on|of|from) (?:the|this) (?:picture|image|photo|photograph|painting|scene)s?\b",
    re.IGNORECASE,
)
"""Such as "the person in the image", "the tower that is shown in this picture"."""


Reference = tuple[int, int, str]
"""Start and end of words that refer to a thing; the suffix of the name that replaces them."""


def with_name(question: str, name: str) -> str:
    """Return a question with the name of a thing in place of the first reference to it.

    "How old is this building?" → "How old is the Eiffel Tower?". Further references refer to the
    name. A question without a reference is returned as it is.
    """
    phrases = _Phrases(question)
    for start, end, suffix in chain(phrases.sure(), phrases.definites()):
        return question[:start] + name + suffix + question[end:]
    return question


def refers(question: str, *, named: bool) -> bool:
    """Return whether a question refers to a thing: "this tower"; "it" unless it names one."""
    phrases = _Phrases(question)
    return next(phrases.shown() if named else phrases.sure(), None) is not None


class _Phrases:
    """The words of a question, and the phrases that they form."""

    def __init__(self, question: str) -> None:
        self._text = question
        self._tokens = tokenize(question)
        self._words = [one.folded for one in self._tokens]

    def sure(self) -> Iterator[Reference]:
        """Find references other than "the band", the most certain kind first."""
        yield from chain(self.shown(), self._pronouns())

    def shown(self) -> Iterator[Reference]:
        """Find "the person in the image" and "this building", but not "this year"."""
        yield from ((*one.span(), "") for one in _PICTURED.finditer(self._text))
        for at, word in enumerate(self._words):
            if word in ("this", "these") and self._word(at + 1) not in _TIMES:
                is_one = self._word(at + 1) in ("one", "ones")
                yield self._span(at, at + 2 if is_one else self._phrase_end(at))

    def _pronouns(self) -> Iterator[Reference]:
        """Find "he" and "its", or what they refer to: "When did the company sell its shares?"."""
        for at, word in enumerate(self._words):
            following = self._word(at + 1)
            if self._word(at - 1) in AUXILIARIES - _LINKING:
                yield from self._definite(at)
            is_object = word == "her" and following in stop_words() - {"most", "own"} | {""}
            if word in _POSSESSIVES and not is_object:
                yield self._span(at, at + 1, "'s")
            elif word in _PRONOUNS and not (word == "it" and following in _IMPERSONAL):
                yield self._span(at, at + 1)

    def definites(self) -> Iterator[Reference]:
        """Find "the band" with nothing that says which band, the last one first."""
        for at in reversed(range(len(self._words))):
            yield from self._definite(at)

    def _definite(self, at: int) -> Iterator[Reference]:
        if self._words[at] != "the" or self._word(at + 1) in _UNIQUE:
            return
        end = self._phrase_end(at)
        if end != at + 2:
            return
        specified = self._word(end) == "of" and self._word(end + 2) not in _TIMES
        asked_for = self._word(at - 1) in _LINKING and self._word(end) != "s"
        named = any(self._text[one.start].isupper() for one in self._tokens[at + 1 : end + 1])
        if not (specified or asked_for or named):
            yield self._span(at, end)

    def _phrase_end(self, at: int) -> int:
        """Return the place after the noun phrase that a determiner begins.

        It ends before a stop word, punctuation, a name and a time. After an auxiliary, its last
        word is taken for the verb: "did this dynasty | end".
        """
        end = at + 1
        while end < len(self._words) and self._words[end] not in stop_words():
            gap = self._text[self._tokens[end - 1].end : self._tokens[end].start]
            capital = self._text[self._tokens[end].start].isupper()
            is_name = capital and self._text[self._tokens[end - 1].start].islower()
            is_time = self._words[end] in ("last", "next") and self._word(end + 1) in _TIMES
            if end > at + 1 and (gap.strip(" -") or is_name or is_time):
                break
            end += 1
        return end - (end - at > 2 and not AUXILIARIES.isdisjoint(self._words[:at]))

    def _word(self, at: int) -> str:
        return self._words[at] if 0 <= at < len(self._words) else ""

    def _span(self, start: int, end: int, suffix: str = "") -> Reference:
        return self._tokens[start].start, self._tokens[end - 1].end, suffix


def bridge_name(query: str, hit: Hit) -> str:
    """Return the name in a text that a second search should ask for; "" for none.

    It is the first name that neither the query nor the title has, in the sentence that shares most
    words with the query.
    """
    asked, known = stems(query), stop_words().union(words(query), words(hit.title))
    best, found = 0, ""
    for start, end in sentences(hit.text):
        sentence = hit.text[start:end]
        shared = len(asked & _stems(f"{hit.title} {sentence}"))
        for value in find_values(sentence, "name") if shared > best else ():
            name = sentence[value.start : value.end]
            if not known.issuperset(words(name)):
                best, found = shared, name
                break
    return found


def uncovered(query: str, hits: Sequence[Hit]) -> list[str]:
    """Return the content words of a query whose stems no text or title has."""
    known = frozenset().union(*(_stems(f"{hit.title} {hit.text}") for hit in hits))
    return [word for word in content_words(query) if stem(word) not in known]


def _stems(text: str) -> frozenset[str]:
    # Not `stems`, whose cache is for short texts.
    return frozenset(map(stem, words(text)))
