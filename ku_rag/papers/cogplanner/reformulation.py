"""Parts of a query: what refers to a picture, what evidence covers, and where evidence leads."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ku_rag.papers.cogplanner.plan import Hit
from ku_rag.text.question import AUXILIARIES
from ku_rag.text.sentences import sentences
from ku_rag.text.stems import stem, stems
from ku_rag.text.tokens import content_words, stop_words, words
from ku_rag.text.values import find_values


def _match_any(choices: Iterable[str]) -> str:
    """Return a pattern for a whole word that is one of several, in alphabetical order."""
    return f"(?:{'|'.join(sorted(map(re.escape, choices)))})\\b"


_TIME = _match_any(words("time moment day week month year season decade century"))
_UNIQUE = _match_any(words("world earth sun moon sky sea universe"))
_NOUN = rf"(?!{_match_any(stop_words())}|{_TIME})[\w-]+"
_PICTURED = (
    r"\b(?:the|this|these) (?:(?!(?:the|this|an?|of) )[\w'’-]+ ){1,5}"
    r"(?:in|on|of|from) (?:the|this) (?:picture|image|photo|photograph|painting|scene)s?\b"
)
_SHOWN = re.compile(
    rf"{_PICTURED}|\b(?:this|these)(?! {_TIME})( ones?\b|(?: {_NOUN})*)", re.IGNORECASE
)
"""Such as "the person in the image", or, in the group, what follows "this" in "this old tower"."""
_OWNER = rf"his|its|their|her(?= (?!{_match_any(stop_words() - {'most', 'own'})})\w)"
_PRONOUN = re.compile(
    rf"\b(?:({_OWNER})|he|she|they|him|her|them|it(?! (?:takes?|took|rain|snow)))\b", re.IGNORECASE
)
"""Such as "his" or "it", but not "how long does it take"; in the group, those of owners."""
_DEFINITE = re.compile(
    r"(?:(?<!\bis )(?<!\bare )(?<!\bwas )(?<!\bwere )\bthe |\bthe (?=\w+['’]s\b))"
    rf"(?!{_UNIQUE}){_NOUN}(?! of\b)",
    re.IGNORECASE,
)
"""Such as "the band", with nothing that says which band; what follows "is the" is asked for."""


def with_name(question: str, name: str) -> str:
    """Return "How old is the Eiffel Tower?" for "How old is this building?"."""
    start, end, suffix = 0, 0, ""
    if reference := _SHOWN.search(question):
        start, end = reference.span()
        nouns = (reference[1] or "").split()
        # After an auxiliary the last word is taken for the verb: "did this dynasty end".
        if len(nouns) > 1 and not AUXILIARIES.isdisjoint(words(question[:start])):
            end -= len(nouns[-1]) + 1
    elif pronoun := _PRONOUN.search(question):
        start, end = pronoun.span()
        suffix = "'s" if pronoun[1] else ""
    elif definite := list(_DEFINITE.finditer(question)):
        start, end = definite[-1].span()
    return question[:start] + name + suffix + question[end:] if end else question


def refers(question: str, *, named: bool) -> bool:
    """Return whether a question refers to a thing: "this tower"; "it" unless it names one."""
    return bool(_SHOWN.search(question) or not (named or not _PRONOUN.search(question)))


def bridge_name(query: str, hit: Hit) -> str:
    """Return the first new name in the sentence that shares most words with the query, or ""."""
    terms, excluded = stems(query), stop_words().union(words(query), words(hit.title))
    best, bridge = 0, ""
    for start, end in sentences(hit.text):
        sentence = hit.text[start:end]
        shared = len(terms & _stems(f"{hit.title} {sentence}"))
        for value in find_values(sentence, "name") if shared > best else ():
            name = sentence[value.start : value.end]
            if not excluded.issuperset(words(name)):
                best, bridge = shared, name
                break
    return bridge


def uncovered(query: str, hits: Sequence[Hit]) -> list[str]:
    """Return the content words of a query whose stems no text or title has."""
    covered = frozenset().union(*(_stems(f"{hit.title} {hit.text}") for hit in hits))
    return [word for word in content_words(query) if stem(word) not in covered]


def _stems(text: str) -> frozenset[str]:
    # Not `stems`, whose cache is for short texts.
    return frozenset(map(stem, words(text)))
