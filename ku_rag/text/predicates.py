"""What sentences say of the thing that a text is about, such as "It is made of oak".

A sentence is on the thing if its subject is the name, "the" and the noun that the thing was called
before, or a pronoun after such a sentence. Its clauses are read one after the other. What is
negated, hedged or approximate is no fact.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ku_rag.text.clauses import (
    AGENT,
    AMOUNT,
    CAPITALISED,
    END,
    FINITE,
    SMALL,
    WORD,
    LabelledValues,
    agent_labels,
    is_fit,
    read_adjuncts,
    read_clauses,
)
from ku_rag.text.question import HEDGES, THINGS
from ku_rag.text.stems import stem
from ku_rag.text.tokens import words
from ku_rag.text.values import DATE

_SENTENCE = re.compile(
    r"\S[^\n]*?(?:(?<!\b[A-Z])(?<!\b(?:Mr|Ms|Dr|St))(?<!\b(?:Mrs|Col|Rev|Gen))(?<!\bCapt)"
    r"[.!?](?=\s)|$)",
    re.MULTILINE,
)
_ACTIVE = re.compile(
    rf"(?P<agent>{AGENT}|He|She|We)(?:, [^,]+,)?(?: has)? "
    r"(?P<verb>[a-z]+ed|built|made|cast|bought|found|cut) "
)
"""Begins a sentence whose object is the thing: "Ann Roe built it in 1901."."""
_FOR_SALE = re.compile(rf"We sell (?P<thing>[^,.;]+?) (?:for|at) (?P<price>{AMOUNT}){END}")
_BEFORE_SUBJECT = r"(?=(?:it|he|she|they|the|this|[A-Z])\b)"
_AT_AMOUNT = re.compile(rf"At (?P<amount>{AMOUNT}),? {_BEFORE_SUBJECT}")
_PARTICIPIAL = re.compile(
    r"(?P<phrase>(?:Made|Built|Cast|Carved|Woven|Written|Bought|Found|Given|Standing|Weighing|"
    rf"Measuring|Growing|[A-Z][a-z]+ed) [^;:.]*?[^;:,]*), {_BEFORE_SUBJECT}"
)
_GERUNDS = {"Standing": "stands", "Weighing": "weighs", "Measuring": "measures", "Growing": "grows"}
_FRONTED = re.compile(
    r"(?!(?:When|If|Unlike|Once|While|Until|Unless|Except|According)\b)"
    rf"(?:(?:In|On) (?P<when>{DATE.pattern}),?|[^,.;:]{{1,60}},|"
    rf"(?:In|At|On|For|After|Under) [^,.;:]{{1,40}}(?= it\b)) {_BEFORE_SUBJECT}"
)
_APPOSITION = re.compile(rf",( an? [^,]+),(?= {FINITE}\b)")
_PRONOUN = re.compile(r"(?:It|He|She|They)\b", re.IGNORECASE)
_THIS = re.compile(
    rf"[Tt]his (?P<class>(?:{WORD} ){{0,2}}?{WORD})(?= {FINITE}\b| {SMALL}\b|[,.;]|$)"
)
_AS_WHOLE = re.compile(
    rf"[Tt]he (?P<class>(?:{WORD} ){{1,2}}?{WORD})(?= {FINITE}\b)"
    r"(?=.* (?:weighs|costs|sells for|designed by) )"
)
"""Begins a sentence on the whole thing, not on a part: "The desk lamp is grey and costs 9 €"."""
_INTRODUCES = re.compile(
    r"(?:The (?:[\w’'-]+ ){0,5}?[\w’'-]+(?:,[^,]+,)? (?:is|are|was|were|has|have|had)|"
    r"An?|Another|One|Two|Three|Some|Many|Other|Those|These|His|Her|"
    r"(?:The|Its) (?:earlier|older?|newer?|first|second|last|former|larger|smaller|original|other|"
    r"previous|later|predecessor|successor|copy|copies)\b|(?!(?:The|Its?|We|You)\b)"
    rf"{CAPITALISED} (?:{CAPITALISED}|are|were|(?:is|was) (?:an?|the))) "
)
"""Begins a sentence on something else, which "it" means afterwards."""
_HEDGES = HEDGES - {"only"}
_MONTH = re.compile(r"(?<=. )May\b")
_PRONOUNS_OF_AGENTS = ("He", "She", "We")
_LONGEST_NOUN = 30
_OF_NAME = 2
"""Nouns that a thing is called by its name alone."""


class Predicate(NamedTuple):
    """What a sentence says: a label, a value, and the place of the sentence in the text."""

    label: str
    value: str
    start: int
    end: int


def predicates(text: str, name: str) -> Iterator[Predicate]:
    """Yield what the sentences of a text on a thing of a name say of it."""
    nouns, is_own = [name.removeprefix("The "), *words(name)[-1:]], True
    for match in _SENTENCE.finditer(text):
        sentence = match[0].lstrip("# ")
        if not sentence[:1].isupper():
            continue
        facts, is_on_thing = _of_sentence(sentence, nouns, is_pronoun=is_own)
        is_named = re.search(rf"\b{re.escape(nouns[0])}\b", sentence) is not None
        is_named &= not sentence.startswith(("A ", "An ", "Another ", "The "))
        is_own = is_on_thing or is_named or (is_own and not _INTRODUCES.match(sentence))
        if facts and _HEDGES.isdisjoint(words(_MONTH.sub("", sentence))):
            nouns += (value for label, value in facts if label == "is a")
            yield from (Predicate(label, value, *match.span()) for label, value in facts)


def _of_sentence(
    sentence: str, nouns: Sequence[str], *, is_pronoun: bool
) -> tuple[LabelledValues, bool]:
    """Return what a sentence says of the thing, and whether it is on the thing."""
    opening, begin, when, facts = "", 0, "", list[tuple[str, str]]()
    if match := _PARTICIPIAL.match(sentence):
        first, _, rest = match["phrase"].partition(" ")
        opening, begin = f" {_GERUNDS.get(first, first.lower())} {rest}", match.end()
    elif match := _AT_AMOUNT.match(sentence):
        amount, begin = match["amount"], match.end()
        facts = [(label, amount) for label in ("weight", "price") if is_fit(label, amount)]
    elif _subject(sentence, nouns, is_pronoun=is_pronoun) is None and (
        match := _FRONTED.match(sentence)
    ):
        when, begin = match["when"] or "", match.end()
        if sentence.startswith("With "):
            opening = f" w{sentence[1 : begin - 2]}"
    start = sentence[begin:]
    end = _subject(start, nouns, is_pronoun=is_pronoun)
    has_class = len(nouns) > _OF_NAME
    if end is None and is_pronoun and not has_class and (match := _AS_WHOLE.match(start)):
        end = match.end()
    if end is None:
        return _active(sentence, nouns, is_pronoun=is_pronoun)
    rest = start[end:].removeprefix(" itself")
    if match := _THIS.match(start) or (None if has_class else _AS_WHOLE.match(start)):
        facts += read_clauses(f" is a {match['class']}.")
    if match := _APPOSITION.match(rest):
        facts += read_clauses(f" is{match[1]}.")
        rest = rest[match.end() :]
    return [*facts, *read_clauses(opening), *read_clauses(rest, when)], True


def _subject(sentence: str, nouns: Sequence[str], *, is_pronoun: bool) -> int | None:
    """Return the end of the subject of a sentence on the thing, or None."""
    bare = re.sub(r"^(?:The|the|This|this) ", "", sentence)
    begin = len(sentence) - len(bare)
    for noun in nouns if begin else nouns[:1]:
        if re.match(rf"{re.escape(noun)}(?!\w)", bare, re.IGNORECASE):
            return begin + len(noun)
    if begin and is_pronoun and stem("".join(words(bare[:_LONGEST_NOUN])[:1])) in THINGS:
        return begin + len(bare.partition(" ")[0])  # "The object", "the plant"
    pronoun = (_PRONOUN.match(sentence) or _THIS.match(sentence)) if is_pronoun else None
    return pronoun.end() if pronoun else None


def _active(
    sentence: str, nouns: Sequence[str], *, is_pronoun: bool
) -> tuple[LabelledValues, bool]:
    """Return what a sentence with an agent says, "Ann Roe built it in 1901.", and if it is own."""
    match = _FOR_SALE.match(sentence)
    if match and _subject(match["thing"], nouns, is_pronoun=is_pronoun):
        return [("price", match["price"])], True
    match = _ACTIVE.match(sentence)
    begin = match.end() if match else 0
    end = _subject(sentence[begin:], nouns, is_pronoun=is_pronoun) if match else None
    if match is None or end is None:
        return [], False
    facts = read_adjuncts(sentence, begin + end, match["verb"])[0]
    if this := _THIS.match(sentence, begin):
        facts += read_clauses(f" is a {this['class']}.")
    if match["agent"] not in _PRONOUNS_OF_AGENTS:
        facts += agent_labels(match["verb"], match["agent"])
    return facts, True
