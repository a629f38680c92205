"""Evidence cut into statements: sentences and "key: value" lines, each with whom it speaks of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ku_rag.text.lexicon import Word, read_words, stem, word_list
from ku_rag.text.tokens import is_cjk

_END = re.compile(r"[.!?…]+[\"'”’»)\]]*(?=\s)|[。！？]+[”’」』）]*")
_ABBREVIATIONS = word_list("abbreviations")
_KEY = re.compile(
    r"[ \t]*(?:[-*•|][ \t]+|\|)?(?:\*\*|__)?(?P<key>[^\W\d_][^:：=|\n]{0,58}?)(?:\*\*|__)?[ \t]*"
    r"(?:[:：=|](?!//))(?:\*\*|__)?[ \t]*(?P<value>\S[^\n]*)"
)
_NUMBER = r"\d[\d.,]*[ \t]*"
_AMOUNT = re.compile(
    r"[ \t]*(?:[-*•][ \t]+)?(?P<key>[^\W\d_](?:[^\d\n:]|(?<=[^\W\d_])\d+){0,58}?)[ \t]*"
    r"(?P<value>(?:ca\.?[ \t]*|[<>~≈][ \t]*)?"
    rf"(?:{_NUMBER}[^\W\d][\w/%]*(?:[ \t]*\([^)\n]*\))?|{_NUMBER}%))[ \t]*$",
    re.MULTILINE,
)
_OPENERS = word_list("openers")
_PRONOUNS = {
    "it",
    "its",
    "they",
    "their",
    "he",
    "his",
    "she",
    "her",
    "this",
    "these",
    "that",
    "there",
}
_DETERMINERS = {"the", "a", "an", "this", "these", "that", "its", "their", "our"}
_VERBS = word_list("verbs of subjects")

# "Lisbon is the capital", "Portuguese is spoken": said of a country, not of Lisbon.
_LINKS = {
    "is",
    "are",
    "was",
    "were",
    "serves",
    "serve",
    "remains",
    "have",
    "has",
    "enjoy",
    "became",
}
_COLOURS = word_list("colours") | word_list("shades") | {"and", "the"}
_SAID_OF_OTHERS = word_list("said of others")
# "Red stands for courage" is said of a flag, not of somebody called Red.
_MEANING = {"stand", "represent", "symbolis", "symboliz", "mean", "recall", "refer"}

MAX_KEY_WORDS = 7


@dataclass(frozen=True, slots=True)
class Statement:
    """One sentence or line of evidence.

    Args:
        evidence: index of the piece of evidence.
        start: where it starts in the evidence's text.
        end: where it ends.
        words: its words, with offsets into the evidence's text; of a line, those of the value.
        key: of a "key: value" line, the words of the key; otherwise empty.
        value: of such a line, the (start, end) of its value.
        subject: whom it speaks of, as far as the text says: a name, or "" when unknown.
        heading: the title or heading that it stands under, or "".
    """

    evidence: int
    start: int
    end: int
    words: tuple[Word, ...]
    key: tuple[Word, ...] = ()
    value: tuple[int, int] = (0, 0)
    subject: str = ""
    heading: str = ""


def cut(texts: Sequence[str]) -> list[Statement]:
    """Cut pieces of evidence into statements.

    Args:
        texts: one text a piece of evidence.

    Returns:
        The statements in reading order. A line whose value is prose gives both the line and its
        sentences.
    """
    common = _common_words(texts)
    found: list[Statement] = []
    for index, text in enumerate(texts):
        found.extend(_with_subjects(list(_statements(index, text)), common))
    return found


def _statements(index: int, text: str) -> Iterator[Statement]:
    for line in re.finditer(r"[^\n\r\v\f\u2028\u2029]+", text):
        keyed = _KEY.match(line[0]) or _AMOUNT.match(line[0])
        if keyed and _is_key(keyed["key"]):
            at = line.start()
            start, end = at + keyed.start("key"), at + len(line[0].rstrip())
            value = (at + keyed.start("value"), at + len(line[0].rstrip(" \t|")))
            key = tuple(_words(text, at + keyed.start("key"), at + keyed.end("key")))
            yield Statement(index, start, end, tuple(_words(text, *value)), key, value)
            spans = list(sentences(text, *value))
            if len(spans) > 1 or value[1] - value[0] > 60:
                yield from (Statement(index, a, b, tuple(_words(text, a, b))) for a, b in spans)
        else:
            for start, end in sentences(text, *line.span()):
                yield Statement(index, start, end, tuple(_words(text, start, end)))


def _is_key(key: str) -> bool:
    words = read_words(key)
    verbs = any(w.stem in ("is", "are", "was", "were", "have", "can") for w in words)
    return 0 < len(words) <= MAX_KEY_WORDS and not verbs and not _ends_inside(key)


def _ends_inside(key: str) -> bool:
    """Whether a sentence ends in it; "Max. pressure" is whole."""
    marks = re.finditer(r"(\w*)[.!?;]\s", key)
    return any(mark[1].lower() not in _ABBREVIATIONS for mark in marks)


def sentences(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The sentences of one line, without the white space around them."""
    begin = start
    for mark in _END.finditer(text, start, end):
        if mark[0][0] == "." and not _ends(text, begin, mark.start(), mark.end(), end):
            continue
        if text[begin : mark.end()].strip():
            yield _strip(text, begin, mark.end())
        begin = mark.end()
    if text[begin:end].strip():
        yield _strip(text, begin, end)


def _ends(text: str, begin: int, dot: int, after: int, end: int) -> bool:
    last = text[begin:dot].rsplit(None, 1)[-1:]
    word = last[0].lstrip("([\"'“‘").lower() if last else ""
    rest = text[after:end].lstrip()
    opening = re.match(r"\w*", rest)
    if rest[:1].islower():
        return False
    if opening is not None and opening[0] in _OPENERS and "." in word:
        # After "J." a name goes on; after "D.C." it may not.
        return True
    if rest and word in _ABBREVIATIONS:
        return False
    initial = len(word) == 1 or (word[-2:-1] == "." and word[-1].isalpha())
    return not rest or not (initial and last[0][-1].isupper())


def _strip(text: str, start: int, end: int) -> tuple[int, int]:
    piece = text[start:end]
    left = len(piece) - len(piece.lstrip())
    return start + left, start + len(piece.rstrip())


def _words(text: str, start: int, end: int) -> Iterator[Word]:
    for word in read_words(text[start:end]):
        yield Word(word.text, word.stem, word.start + start, word.end + start)


# ---- whom a statement speaks of ----------------------------------------------------------------


def _common_words(texts: Iterable[str]) -> frozenset[str]:
    """Stems that stand somewhere in lower case: no names, even at the start of a sentence."""
    return frozenset(stem(m) for text in texts for m in re.findall(r"\b[a-zà-ÿ]\w*", text))


def _with_subjects(statements: list[Statement], common: frozenset[str]) -> Iterator[Statement]:
    subject = heading = ""
    for statement in statements:
        if not statement.key:
            title = _heading(statement.words)
            heading = title or heading
            subject = "" if title else _leading_name(statement.words, common) or subject
        elif statement.key[-1].stem in ("titl", "name") and len(statement.key) == 1:
            heading = " ".join(w.text for w in statement.words)
        yield replace(statement, subject=subject, heading=heading)


def _heading(words: tuple[Word, ...]) -> str:
    """What a Markdown heading says."""
    marks = next((i for i, w in enumerate(words) if w.text != "#"), len(words))
    return " ".join(w.text for w in words[marks:]) if marks else ""


def _leading_name(words: tuple[Word, ...], common: frozenset[str]) -> str:
    """The name that a sentence opens with as its subject, when what follows is said of it.

    "Lisbon is the capital" says something of a country, not of Lisbon, and changes no subject.
    """
    start = _past_opening(words)
    start += start < len(words) and words[start].text.lower() == "the"
    while start + 1 < len(words) and words[start].text in ("original", "present", "current", "new"):
        start += 1
    end = start
    while end < len(words) and (_is_name(words[end]) or _links(words, start, end)):
        end += 1
    # Every sentence begins with a capital: its first word alone must be no common one.
    if end == start or end >= len(words) or (end == start + 1 and words[start].stem in common):
        return ""
    name = " ".join(w.text for w in words[start:end])
    if all(w.text.lower() in _COLOURS for w in words[start:end]):
        return ""
    following = [w.text.lower() for w in words[end : end + 3]]
    if following[0] in ("'s", "’s"):
        return name
    if words[end].stem not in _VERBS or words[end].stem in _MEANING:
        return ""
    verb = words[end].text
    plural = words[start].text.endswith("s") and verb == words[end].stem and verb[-1] != "s"
    if end == start + 1 and (plural or verb in ("are", "were")):
        # "Prices are given in euros": a plural, not a name.
        return ""
    linking = following[0] in _LINKS
    return "" if linking and following[1:2] and following[1] in _SAID_OF_OTHERS else name


def _past_opening(words: tuple[Word, ...]) -> int:
    """The index after "In 1962," and the like."""
    if words and words[0].text in ("In", "On", "At", "By", "Since", "After", "Before", "During"):
        comma = next((i for i, w in enumerate(words[:8]) if w.text == ","), None)
        if comma is not None and not any(w.text[0].isupper() for w in words[1:comma]):
            return comma + 1
    return 0


def _is_name(word: Word) -> bool:
    first = word.text[0]
    return first.isupper() and not is_cjk(first) and word.text.lower() not in _PRONOUNS


def _links(words: tuple[Word, ...], start: int, at: int) -> bool:
    if at == start or at + 1 >= len(words):
        return False
    linking = words[at].text.lower() in ("of", "and", "the", "de", "da", "la")
    nxt = words[at + 1]
    if words[at].text.lower() == "of" and nxt.text.lower() == "the":
        return True
    return linking and nxt.text[0].isupper()
