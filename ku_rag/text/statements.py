"""What metadata, texts and rows of tables state: a label and a value, or several.

A labelled line is "Price: 49 euros", "protein ca 3 gram", or a sentence of the form "The capital of
Sweden is Stockholm.".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ku_rag.text.predicates import predicates
from ku_rag.text.question import AUXILIARIES, FILLERS, HEDGES, STOCKS, TURNING, is_negated
from ku_rag.text.stems import stems
from ku_rag.text.tokens import is_cjk, name_key, words
from ku_rag.text.values import list_items

_MOST_CHARACTERS = 20_000
_LONGEST_HEADING = 80
_LABEL_WORDS = 5
CODE = re.compile(
    r"^[ \t]*(?P<mark>```+|~~~+)[^\n]*\n(?P<code>.*?)(?:^[ \t]*(?P=mark)[^\n]*$|\Z)",
    re.MULTILINE | re.DOTALL,
)
"""A block of code; its lines are no facts."""
_IN_CODE = re.compile(r"[,;{(\[]$| // ")
"""A line of code whose block began in another chunk."""
_LINE_END = re.compile("\n")
_LONGEST_LIST, _ITEM_WORDS = 300, 3
_LINE = re.compile(
    r"^[ \t]*(?:[-*•+][ \t]+)?[*_]*(?P<label>[^\W\d_][^:：.!?|\n]{0,80}?)[*_]*[ \t]*[:：](?!//)"
    r"[*_]*[ \t]*(?P<value>\S.*?)[ \t]*$",
    re.MULTILINE,
)
_BOLD_LINE = re.compile(
    r"^[ \t]*(?:[-*•+][ \t]+)?(?P<mark>\*\*|__)(?P<label>[^\W\d_][^:：.!?|*_\n]{0,80}?)(?P=mark)"
    r"[ \t]+(?![-–—:：])(?P<value>\S.{0,80}?)[ \t]*$",
    re.MULTILINE,
)
_AMOUNT_LINE = re.compile(
    r"^[ \t]*(?:[-*•+][ \t]+)?(?P<label>[^\W\d_][^:：!?|\n]{0,40}?)[ \t]+"
    r"(?:(?:ca|about|approx|some)\.?[ \t]+)?(?P<value>\d[\d.,]*[ \t]*[^\s\d:]{0,15})[ \t]*$",
    re.MULTILINE,
)
_PREDICATIVE = re.compile(
    r"^(?:\w+ed|built|sewn|given|kept|known|shown|sold) (?:of|by|in|from|to|for|at|on|with)\b|"
    r" (?:and|but) (?:is|was|has|weighs|costs)\b|^\d\S* ?\S+ (?:tall|high|wide|long|deep)\b"
)
"""A predicate, which is no value of a label: "The lamp is [45 cm tall]"."""
# The letter comes first, so that the search for it is fast.
_SENTENCE = re.compile(
    r"[TI](?:(?<=^.)|(?<=[.!?] .))(?:(?<=T)he(?:ir)?|(?<=I)ts)\s+(?P<label>[^\W\d_][\w' -]{0,60}?)"
    r"(?:\s+of\s+(?P<owner>[^,;:.\n]{1,60}?))?"
    r"\s+(?:is|are|was|were)\s+(?:the\s+|an?\s+)?(?P<value>(?:[^,;:.\n]|[.,](?=\d)){1,60})"
    r"(?:\.(?=\s|$)|$|;|, (?:including|(?:and|but) (?:it|is|has))\b)",
    re.MULTILINE,
)
IN_STOCK = "in stock"
_STATES = {
    **dict.fromkeys(("yes", "true", "in stock", "available"), "yes"),
    **dict.fromkeys(("no", "false", "sold out", "out of stock", "not in stock"), "no"),
}
_THING = re.compile(r"\b[A-Z][a-z]|\d")
"""In the subject of a sentence, it is the name of a thing and no property."""


class Statement(NamedTuple):
    """A label and a value that a text states, below a heading or in a table of the name `scope`."""

    label: str
    value: str | None
    scope: str = ""
    start: int = 0
    end: int = 0


def of_metadata(metadata: Mapping[str, object]) -> Iterator[Statement]:
    """Yield the fields of metadata, items of lists one by one; a nested one is "outer.inner"."""
    for label, value in sorted(metadata.items()):
        yield from _of_field(label, value)


def _of_field(label: str, value: object) -> Iterator[Statement]:
    if isinstance(value, dict):
        for inner, nested in sorted(value.items()):
            yield from _of_field(f"{label}.{inner}", nested)
    elif isinstance(value, list):
        for item in value:
            yield from _of_field(label, item)
    else:
        text = str(value).lower() if isinstance(value, bool) else str(value)
        yield Statement(label, None if value is None else text)


def of_text(text: str, name: str, section: str | None = None) -> Iterator[Statement]:
    """Yield the labelled lines of a text on something, and sentences that state the same."""
    text = _without_code(text)
    heading = _heading(text) if section is None else section
    matches = _matches(text)
    for match in matches:
        label, value = match["label"], match["value"]
        label_words = words(label)
        is_sentence = AUXILIARIES.intersection(label_words) or value.endswith(".")
        if match.re in (_AMOUNT_LINE, _BOLD_LINE) and is_sentence:
            continue
        if is_negated(label_words) or _IN_CODE.search(value):  # "Not allowed: dogs"
            continue
        if match.re is _SENTENCE:
            sentence, owner = words(match[0]), name_key(match["owner"] or "").removeprefix("the ")
            is_owner = owner in ("", name_key(name).removeprefix("the "))
            # "The lamp 17 is made of brass", "The North Hall is closed": things, not properties.
            if _THING.search(label) or set(label_words) <= set(words(name)):
                continue
            value = re.sub(r"^made (?:of|from) ", "", value)
            if _PREDICATIVE.search(value):
                continue
            if not is_owner or is_negated(sentence) or (HEDGES | TURNING).intersection(sentence):
                continue
        labels, values = [label], [value]
        several, parts = re.split(r"\s*,\s", value), label.split(" and ")
        if len(parts) == len(several) and " and " not in value:
            # "Country and volume: Italy, 80 g" is two facts, "Seas and oceans" is one.
            labels, values = parts, several
        scope = "" if heading in match[0] else heading
        for part, stated in zip(labels, values, strict=True):
            yield Statement(part, stated, scope, *match.span())


def of_sentences(text: str, name: str, section: str | None = None) -> Iterator[Statement]:
    """Yield what the sentences of a text on a thing say of it, unless a heading names another."""
    text = _without_code(text)
    if name_key(_heading(text) if section is None else section) in ("", name_key(name)):
        for label, value, start, end in predicates(text, name):
            yield Statement(label, value, "", start, end)


def _without_code(text: str) -> str:
    """Return the part of a text that is read, with blocks of code blanked."""
    text = text[:_MOST_CHARACTERS]
    if "```" in text or "~~~" in text:
        text = CODE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), text)
    return text


def _heading(text: str) -> str:
    """Return the first line of a text if it is a heading, or ""."""
    first = text.lstrip("# \n").partition("\n")[0].strip()
    is_heading = len(first) < _LONGEST_HEADING and first[-1:].isalnum() and ":" not in first
    return first if is_heading else ""


def _matches(text: str) -> list[re.Match[str]]:
    """Return the labelled lines of a text, then sentences that may state the same."""
    starts = [0, *(end.end() for end in _LINE_END.finditer(text))]
    has_colon = ":" in text or "：" in text
    matches = [
        match
        for pattern in (_LINE, _BOLD_LINE, _AMOUNT_LINE)[not has_colon :]
        for start in starts
        if (match := pattern.match(text, start))
    ]
    if "The" in text or "Its" in text:
        matches += _SENTENCE.finditer(text)
    return matches


def of_row(cells: Sequence[tuple[str, str, str | None]], table: str) -> tuple[str, list[Statement]]:
    """Return the subject of a row (its first cell that links to a unit) and its statements."""
    filled = [cell for cell in cells if cell[1].strip()]
    subject = next((cell for cell in filled if cell[2]), next(iter(filled), None))
    if subject is None:
        return "", []
    stated = [Statement(cell[0], cell[1], table) for cell in filled if cell is not subject]
    return subject[2] or name_key(subject[1]), stated


def parts(statement: Statement) -> list[Statement]:
    """Return the items of a list, "pink and red", and "in stock: no" for "stock: 0"."""
    value = statement.value or ""
    items = list_items(value) if len(value) < _LONGEST_LIST else []
    is_list = len(items) > 1 and all(
        len(words(item)) <= _ITEM_WORDS and not item[0].isdigit() for item in items
    )
    stated = [statement._replace(value=item) for item in items if is_list]
    own, key = stems(statement.label), value.casefold()
    if key.isdecimal() and own != stems("available"):
        key = "yes" if int(key) else "no"
    if own & STOCKS and own <= STOCKS | FILLERS and key in _STATES:
        stated.append(statement._replace(label=IN_STOCK, value=_STATES[key]))
    return stated


def is_labelled_line(sentence: str) -> bool:
    """Return whether a sentence is a labelled line, whose label is a few words."""
    line = _LINE.fullmatch(sentence)
    return line is not None and len(words(line["label"])) < _LABEL_WORDS


def locate(
    quotation: str, text: str, start: int = 0, end: int | None = None
) -> tuple[int, int] | None:
    """Return (start, end) of a quotation in a text, as whole words, or None."""
    parts = quotation.split()
    if not parts:
        return None
    first, last = parts[0][0], parts[-1][-1]
    # "3" is no part of "13" or of "2.3".
    before = r"(?<!\w)(?<!\d[.,])" if first.isalnum() and not is_cjk(first) else ""
    after = r"(?!\w)(?![.,]\d)" if last.isalnum() and not is_cjk(last) else ""
    pattern = re.compile(before + r"\s+".join(map(re.escape, parts)) + after)
    match = pattern.search(text, start, len(text) if end is None else end)
    return match and match.span()
