"""The reader of documents: it states what a section says, or abstains.

It knows five forms: a labelled line in a section ("Default: false" below "json"), an entry of a
list of terms ("--amend  Replace the last commit."), a default in a sentence ("it defaults to 5"), a
definition ("A reflog is …"), and the commands or steps for "How do I install it?". All content
words of a question must be in what answers it, in the headings above, or in the document's name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from ku_rag.reading.prose import Rarity
from ku_rag.reading.section_chunks import Candidate, SectionChunk, best
from ku_rag.text.question import (
    DEFAULTS,
    ENTRIES,
    MOST_CHARACTERS,
    POINTERS,
    SAYING,
    SECTIONS,
    VALUES,
    Question,
    analyse,
    is_negated,
    names_and_numbers,
)
from ku_rag.text.sentences import sentences
from ku_rag.text.statements import CODE, is_labelled_line, of_text
from ku_rag.text.stems import every_stem, label_stems, stem
from ku_rag.text.tokens import words
from ku_rag.text.values import find_values
from ku_rag.types import Evidence, Reading

_TERM = (
    r"(?P<term>`[^`\n]{1,80}`(?:(?:, | or | / )`[^`\n]{1,80}`)*|\*\*[^*\n]{1,80}\*\*|"
    r"-[^\s,]{1,60}(?:(?:, ?| )[^\s,]{1,40}){0,5}?)"
)
_BETWEEN = r"(?:[ \t]+[-–—][ \t]+|[ \t]*:[ \t]+|\t[ \t]*|[ \t]{2,})"
_BELOW = r"(?P<text>\S.*(?:\n(?P=indent)[ \t]+\S.*)*)$"
"""The text that explains a term; its further lines are indented."""
_ENTRY_LINES = [
    re.compile(rf"^(?P<indent>[ \t]*)(?:[-*•+][ \t]+)?{_TERM}{_BETWEEN}{_BELOW}", re.M),
    re.compile(rf"^(?P<indent>[ \t]*)(?P<term>[-–]{{1,2}}[A-Za-z\[]\S*)[ \t]+{_BELOW}", re.M),
]
_TERM_LINE = re.compile(r"(?P<indent>[ \t]*)(?:[-*•+][ \t]+)?(?P<term>\S[^\n]{0,60})")
_MOST_TERM_WORDS = 6
_STEP = re.compile(r"^[ \t]*\d+[.)][ \t]+(?P<step>\S.*)$", re.MULTILINE)
_IS = re.compile(r"\s+(?:is|are|was|were|means?|stands? for|refers? to)\s+")
_VALUE = r"(?P<value>\d[\d.,]* [^\W\d_]{1,12}(?=[.,;:)]|$)|[^\s,;]+)"
_DEFAULT_FORMS = [
    re.compile(form + _VALUE + end, re.IGNORECASE)
    for form, end in (
        (r"\bdefaults? to ", ""),
        (r"\bdefault(?: value| setting)?\b[^.;]{0,80}? (?:is|are) (?:set to )?", ""),
        (r"\b(?:is|are|to|uses?) ", r",? by default"),
        (r"\bby default,? [^.;]{0,60}? (?:is|are|to|uses?) ", ""),
    )
]
_IDENTIFIER = re.compile(r"-[\w-]+|\w*(?:_\w+|[a-z][A-Z]\w*)")
"""An identifier in code; what answers a question about it contains it as it is written."""
_ARTICLES = (["a"], ["an"], ["the"], ["one"], ["any"], ["normally"], ["usually"])
_LIKELY = 0.65
"""Share of a question that a sentence has which is stated."""
_FEWEST = 2
"""Content words of a question that it has at least."""
_DESCRIBING = (("is",), ("are",), ("does",), ("do",), ("s",))
_NUMBERED = re.compile(r"\b(?P<word>[^\W\d_]+) (?P<number>\d+(?:\.\d+)*)")
"""A word and a number, such as "section 4.2"."""
_LONGEST = 300
"""Characters of the text of a term that are compared with a question."""


def read(question: str, evidence: Sequence[Evidence]) -> Reading | None:
    """State what a section of a document says, from chunks, best first; None to abstain."""
    analysis = analyse(question)
    texts = [piece for piece in evidence if piece.section and piece.owners and not piece.table]
    names = every_stem(" ".join(names_and_numbers(question)))
    pieces = [SectionChunk(piece, names & _others(piece, evidence)) for piece in texts]
    if not (pieces and analysis.content) or analysis.negated or analysis.kind == "yes-no":
        return None
    if number := numbered(question):
        return best(_numbered(analysis, pieces, number))
    forms = [_labelled, _defaults, _definitions, _entries_for, _likely_terms, _typed, _covering]
    if analysis.asks_way:
        forms = [_commands, _entries_for, _covering]
    beginning = question[:MOST_CHARACTERS]
    identifiers = [name.casefold() for name in _IDENTIFIER.findall(beginning)]
    for form in forms:
        candidates = (
            candidate
            for candidate in form(analysis, pieces)
            if all(name in candidate.stated.casefold() for name in identifiers)
        )
        if reading := best(candidates):
            return reading
    return None


def numbered(question: str) -> str:
    """Return the number of the section that "What does section 4.2 say?" asks for, or ""."""
    matches = _NUMBERED.finditer(question)
    return next((m["number"] for m in matches if stem(m["word"].lower()) in SECTIONS), "")


def _numbered(
    question: Question, pieces: Sequence[SectionChunk], number: str
) -> Iterator[Candidate]:
    """Yield the sentences of a numbered section with what the question names, or its first ones."""
    begins = re.compile(rf"{re.escape(number)}[ .:]")
    subject = frozenset(question.content) - SECTIONS - SAYING - every_stem(number)
    for order, piece in enumerate(pieces):
        if not any(begins.match(heading) for heading in piece.headings):
            continue
        content = subject - piece.names
        heading = label_stems(piece.headings[-1])
        for start, end in sentences(piece.text):
            stated = every_stem(piece.text[start:end])
            if content <= stated | piece.path and not stated <= heading:
                text = " ".join(piece.text[start:end].split())
                reading = piece.reading(text, start, end)
                rank = (len(content - stated), order, start)
                yield Candidate(rank, piece, reading, text, is_text=True)


def _others(piece: Evidence, evidence: Sequence[Evidence]) -> frozenset[str]:
    """Return the stems of other chunks of the same document."""
    document = piece.source.partition("#")[0]
    of_document = (other for other in evidence if other.source.partition("#")[0] == document)
    return every_stem(" ".join(other.text for other in of_document if other is not piece))


# ---- labelled lines ------------------------------------------------------------------------------


def _labelled(question: Question, pieces: Sequence[SectionChunk]) -> Iterator[Candidate]:
    """Yield values of labels: "What is the default of json?"."""
    for piece in pieces:
        name = "".join(piece.evidence.owner_names[:1])
        for stated in of_text(piece.text, name, piece.evidence.section):
            value = stated.value or ""
            answered = question.remaining(label_stems(stated.label), agents=False)
            is_typed = question.type not in ("date", "number") or any(map(str.isdigit, value))
            if value and answered and is_typed and answered[1] - ENTRIES <= piece.context:
                is_named = bool(answered[1] & every_stem(piece.headings[-1]))
                unsaid = len(label_stems(piece.headings[-1]) - question.every)
                rank = (not is_named, unsaid if is_named else 0, answered[0])
                reading = piece.reading(value, stated.start, stated.end)
                yield Candidate(rank, piece, reading, stated.label)


# ---- entries of lists ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Entry:
    """A term, the text that explains it, and where that begins in the chunk."""

    term: str
    text: str
    start: int

    @cached_property
    def first(self) -> str:
        """The first sentence of the text that is no labelled line."""
        every = (self.text[start:end].strip() for start, end in sentences(self.text[:_LONGEST]))
        return next((" ".join(s.split()) for s in every if not is_labelled_line(s)), "")


def _entries(piece: SectionChunk) -> Iterator[_Entry]:
    """Yield the terms that a chunk explains: its heading, and those of lists."""
    text, heading = piece.text, piece.headings[-1]
    start = text.find(heading)
    if 0 <= start < _LONGEST:
        start = text.find("\n", start) + 1 or len(text)
        yield _Entry(heading, text[start:].strip(), start)
    for match in (match for form in _ENTRY_LINES for match in form.finditer(text)):
        yield _Entry(_plain(match["term"]), match["text"], match.start("text"))
    lines = list(re.finditer(r"(?m)^.*$", CODE.sub(lambda code: "\n" * code[0].count("\n"), text)))
    terms: list[str] = []
    for line, below in pairwise(lines):
        term = _TERM_LINE.fullmatch(line[0])
        if not term or len(words(term["term"])) > _MOST_TERM_WORDS:
            terms = [] if line[0].strip() and not line[0].startswith(" ") else terms
            continue
        depth = len(below[0]) - len(below[0].lstrip())
        if below[0].strip() and depth > len(term["indent"]):
            yield _Entry(", ".join([*terms, _plain(term["term"])]), below[0].strip(), below.start())
            terms = []
        elif below[0].strip():
            terms.append(_plain(term["term"]))


def _plain(term: str) -> str:
    return term.replace("`", "").strip("* \r")


def _entries_for(question: Question, pieces: Sequence[SectionChunk]) -> Iterator[Candidate]:
    """Yield the text that explains a term, or the term that a text explains."""
    content = frozenset(question.content) - ENTRIES
    noun = _asks_for_entry(question)
    asks_for_term = question.words[:1] == ("how",) or noun
    asks_for_text = question.words[:1] == ("what",) and question.words[1:2] in _DESCRIBING
    for piece in pieces if content else ():
        for entry in _entries(piece):
            context = every_stem(entry.term) | piece.context
            is_heading = entry.term == piece.headings[-1]
            if asks_for_term and not (content <= piece.context or (is_heading and not noun)):
                yield from _term(entry, content, context, piece)
            elif asks_for_text and content <= context and content & every_stem(entry.term):
                unsaid = len(label_stems(entry.term) - question.every)
                if entry.first[:1].isalnum():  # no synopsis
                    end = entry.start + len(entry.first)
                    reading = piece.reading(entry.first, entry.start, end)
                    rank = (unsaid, len(content - every_stem(entry.term)))
                    yield Candidate(rank, piece, reading, entry.term + entry.text, is_text=True)


def _asks_for_entry(question: Question) -> bool:
    """Return whether a question begins with "which option", or "which tar option"."""
    return question.words[:1] in (("which",), ("what",)) and not ENTRIES.isdisjoint(
        map(stem, question.words[1:3])
    )


def _term(
    entry: _Entry, content: frozenset[str], context: frozenset[str], piece: SectionChunk
) -> Iterator[Candidate]:
    """Yield the term of an entry if its text has the rest of the content; options go first."""
    in_text, first = every_stem(entry.text[:_LONGEST]), every_stem(entry.first)
    if content <= in_text | context and content & in_text:
        rank = (not entry.term.startswith("-"), not content <= first | context, len(first))
        reading = piece.reading(entry.term, entry.start, entry.start + len(entry.text))
        yield Candidate(rank, piece, reading, entry.term + entry.text)


# ---- sentences -----------------------------------------------------------------------------------


def _defaults(question: Question, pieces: Sequence[SectionChunk]) -> Iterator[Candidate]:
    """Yield values that sentences state as a default."""
    content = frozenset(question.content)
    if not content & DEFAULTS:
        return
    content -= DEFAULTS | ENTRIES | VALUES
    for piece in pieces:
        for start, end in sentences(piece.text):
            sentence = piece.text[start:end]
            stated = every_stem(sentence)
            matches = (form.search(sentence) for form in _DEFAULT_FORMS)
            value = next(filter(None, matches), None) if stated & DEFAULTS else None
            if value and content <= stated | piece.context and content & (stated | piece.path):
                answer = value["value"].rstrip(".)").strip("`\"'")
                rank = (len(content - stated), len(stated))
                yield Candidate(rank, piece, piece.reading(answer, start, end), sentence)


def _definitions(question: Question, pieces: Sequence[SectionChunk]) -> Iterator[Candidate]:
    """Yield sentences such as "A reflog is …"."""
    if question.words[:1] not in (("what",), ("define",), ("explain",)):
        return
    content = frozenset(question.content) - ENTRIES
    for piece in pieces:
        for start, end in sentences(piece.text):
            sentence = " ".join(piece.text[start:end].split())
            before, *after = _IS.split(sentence.lstrip("#>*- "), maxsplit=1)
            is_noun = after and words(after[0])[:1] in _ARTICLES
            is_defined = content and is_noun and label_stems(before) == content
            if is_defined and not is_negated(words(sentence)):
                reading = piece.reading(sentence, start, end)
                yield Candidate((0,), piece, reading, sentence, is_text=True)


def _typed(question: Question, pieces: Sequence[SectionChunk]) -> Iterator[Candidate]:
    """Yield sentences with most of the question, and a name, date or number that it may ask for."""
    rarity = _rarity(question, pieces)
    is_number = question.words[:1] == ("how",) and not question.asks_way
    if not (is_number or question.type in ("person", "date")):
        return
    for piece in pieces:
        for start, end in sentences(piece.text):
            sentence = piece.text[start:end]
            if is_number:
                values = re.findall(r"\d[\d.,]*", sentence)
            else:
                values = [sentence[slice(*v)] for v in find_values(sentence, question.type)]
            has_new = any(not every_stem(value) <= question.every for value in values)
            share = _share(rarity, every_stem(sentence), piece.context)
            is_about = len(every_stem(sentence).intersection(question.content)) >= _FEWEST
            if has_new and is_about and share >= _LIKELY and not is_negated(words(sentence)):
                answer = " ".join(sentence.split())
                reading = piece.reading(answer, start, end)
                yield Candidate((-round(100 * share),), piece, reading, sentence, is_text=True)


def _covering(question: Question, pieces: Sequence[SectionChunk]) -> Iterator[Candidate]:
    """Yield sentences that have all content words, but for names of the document."""
    content = frozenset(question.content)
    for piece in pieces:
        for start, end in sentences(piece.text):
            sentence = piece.text[start:end]
            stated = every_stem(sentence)
            is_about = len(content & stated) > _FEWEST and words(sentence)[0] not in POINTERS
            if is_about and content <= stated | piece.names:
                answer = " ".join(sentence.split())
                reading = piece.reading(answer, start, end)
                yield Candidate((len(stated),), piece, reading, sentence, is_text=True)


def _likely_terms(question: Question, pieces: Sequence[SectionChunk]) -> Iterator[Candidate]:
    """Yield terms whose text has most of what "Which option …?" says."""
    rarity = _rarity(question, pieces)
    if not _asks_for_entry(question):
        return
    for piece in pieces:
        for entry in _entries(piece):
            if entry.term.startswith(("-", "–")) and not is_negated(words(entry.first)):
                text = f"{entry.term} {entry.text[:_LONGEST]}"
                share = _share(rarity, every_stem(text), piece.context)
                if share >= _LIKELY:
                    end = entry.start + len(entry.text)
                    reading = piece.reading(entry.term, entry.start, end)
                    rank = (-round(20 * share),)
                    yield Candidate(rank, piece, reading, entry.term + entry.text)


def _rarity(question: Question, pieces: Sequence[SectionChunk]) -> Rarity:
    every = (every_stem(piece.text[slice(*s)]) for piece in pieces for s in sentences(piece.text))
    return Rarity(question, list(every))


def _share(rarity: Rarity, stated: frozenset[str], context: frozenset[str]) -> float:
    """Return the share of a question that a text has; words of its context count half."""
    return (rarity.share(stated) + rarity.share(stated | context)) / 2


# ---- commands and steps --------------------------------------------------------------------------


def _commands(question: Question, pieces: Sequence[SectionChunk]) -> Iterator[Candidate]:
    """Yield the code, or the steps, of the section that "How do I install it?" asks for."""
    content = frozenset(question.content)
    for order, piece in enumerate(pieces):
        for number, block in enumerate(CODE.finditer(piece.text)):
            above = piece.text[: block.start()].rstrip()
            lead = every_stem(above[above.rfind("\n") + 1 :])
            near = lead | piece.path
            if content & near and content <= near | piece.context | every_stem(block["code"]):
                unsaid = len(every_stem(piece.headings[-1]) - question.every)
                rank = (len(content - near - piece.context), unsaid, order, number)
                reading = piece.reading(block["code"].strip(), block.start(), block.end())
                yield Candidate(rank, piece, reading, piece.text)
        steps = list(_STEP.finditer(piece.text))
        if content & piece.path and content <= piece.context and len(steps) > 1:
            answer = "\n".join(step["step"].strip() for step in steps)
            reading = piece.reading(answer, steps[0].start(), steps[-1].end())
            yield Candidate((0, 0, order, 0), piece, reading, piece.text)
