"""Names of units and entities in a question, and clauses that identify a unit without its name.

Names match whole words, the longest name first. The question's spans are looked up in the index of
names, so the cost does not depend on the number of names. A word that no text contains may differ
from a name by one or two letters, if no other name is as near.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import NamedTuple

from ku_rag.indexes import keywords
from ku_rag.indexes.name_index import matchable
from ku_rag.store.connection import Connection, as_json
from ku_rag.text.question import ASKING, MOST_CHARACTERS, POINTED
from ku_rag.text.stems import singulars, stem
from ku_rag.text.tokens import Token, is_cjk, name_key, stop_words, tokenize, words

_LONGEST_NAME = 10
_LONGEST_MISSPELT = 4
"""Words of the longest name that may be misspelt."""
_SHORTEST_MISSPELT = 5
_LETTERS = 5
"""One letter in this many may be wrong, and at most two."""
_SIMILAR = 0.7
"""A name this similar to words of a question is suggested."""
_CANDIDATES = 2000
_MARKING = frozenset(words("the this that our my your"))
"""Words before a single word that is a part of a name."""
_MOST_NAMES = 20_000
"""Above this number of names, their parts are not compared: it would take too long."""
_TITLES = frozenset(words("president king queen prince princess pope saint captain sir lady lord"))
_TITLES |= frozenset(words("doctor dr professor mr mrs ms"))
"""Capitalised words before a name that are no part of another one."""
_RELATIVE = frozenset(words("that which who whose whom where with beside behind"))
_VERBS = frozenset(words("have lie use mean cover occupy symbolise symbolize produce make taste"))
_PLAIN = stop_words() | POINTED | _RELATIVE


@dataclass(frozen=True, slots=True)
class NamedSpan:
    """Words of a question that are a name.

    Args:
        key: the name that they are, as it is stored.
        is_partial: whether they are a part of the name.
    """

    at: int
    words: tuple[str, ...]
    key: str
    is_partial: bool = False

    def overlaps(self, start: int, end: int) -> bool:
        """Return whether the span has one of the words from `start` to `end`."""
        return start < self.at + len(self.words) and self.at < end


@dataclass(frozen=True, slots=True)
class NamesFound:
    """The names in a question, and words that are no name → the most similar name."""

    spans: list[NamedSpan] = field(default_factory=list)
    similar: dict[str, str] = field(default_factory=dict)


def find_names(connection: Connection, question: str) -> NamesFound:
    """Find names of units and entities in a question, in the plural too.

    A name inside a longer one does not count, nor one beside a capitalised word that no name of its
    units has: "Heron" in "Night Heron".
    """
    tokens = tokenize(question[:MOST_CHARACTERS])
    folded = [token.folded for token in tokens]
    spans = {
        (at, at + size): " ".join(folded[at : at + size])
        for size in range(min(_LONGEST_NAME, len(folded)), 0, -1)
        for at in range(len(folded) - size + 1)
    }
    rows = connection.column(
        "SELECT n.key FROM json_each(?1) w CROSS JOIN names n ON n.key = w.value UNION "
        "SELECT e.key FROM json_each(?1) w CROSS JOIN entities e ON e.key = w.value",
        (as_json({form for key in spans.values() for form in singulars(key)}),),
    )
    stored = set(filter(matchable, rows))
    names = NamesFound()
    for span, key in spans.items():
        form = next((form for form in singulars(key) if form in stored), None)
        if form and not any(other.overlaps(*span) for other in names.spans):
            names.spans.append(NamedSpan(span[0], tuple(folded[slice(*span)]), form))
    for (at, end), key in spans.items():
        is_free = not any(span.overlaps(at, end) for span in names.spans)
        if is_free and question[tokens[at].start].isupper() and matchable(key):
            written = NamedSpan(at, tuple(folded[at:end]), key)
            names.spans.extend(_qualify(connection, written))
    for place, word in enumerate(folded):
        is_short = len(word) < _SHORTEST_MISSPELT or is_cjk(word) or word in stop_words()
        if is_short or any(word in span.words for span in names.spans):
            continue
        if not keywords.has_word(connection, word):
            _add_similar(connection, question, tokens, place, names)
    for start, end in _find_capitals(question, tokens, names.spans):
        inside = [span for span in names.spans if span.overlaps(start, end)]
        named = {n for span in inside for n in range(span.at, span.at + len(span.words))}
        others = {folded[n] for n in range(start, end) if n not in named}
        if len(inside) != 1 or not others:
            continue
        key = inside[0].key
        keys = connection.column(
            "SELECT key FROM names WHERE unit IN (SELECT unit FROM names WHERE key = ?)", (key,)
        )
        if others.isdisjoint(word for name in keys for word in name.split(" ")):
            names.spans.remove(inside[0])
            names.similar[question[tokens[start].start : tokens[end - 1].end]] = key
    return names


def find_partial_names(connection: Connection, question: str, named: NamesFound) -> None:
    """Add words that only one unit or entity has in its names: "the welder", "the Violetta aster".

    They stand side by side, and each is in a name of the unit or in its kind. A single word has a
    capital, follows a determiner or is a plural.
    """
    tables = ("names", "entities")
    many = (f"SELECT 1 FROM {table} LIMIT 1 OFFSET {_MOST_NAMES}" for table in tables)
    if any(connection.execute(query).fetchone() for query in many):
        return
    tokens = tokenize(question[:MOST_CHARACTERS])
    taken = {n for span in named.spans for n in range(span.at, span.at + len(span.words))}
    forms = {
        n: set(singulars(token.folded))
        for n, token in enumerate(tokens)
        if n not in taken and token.folded not in _PLAIN
    }
    every = as_json(set().union(*forms.values()))
    holders: dict[str, dict[int, str]] = {}
    for word, unit, key in connection.execute(
        "SELECT w.value, n.unit, n.key FROM json_each(?1) w "
        "JOIN names n ON instr(' ' || n.key || ' ', ' ' || w.value || ' ') UNION ALL "
        "SELECT w.value, -min(e.row), e.key FROM json_each(?1) w "
        "JOIN entities e ON instr(' ' || e.key || ' ', ' ' || w.value || ' ') "
        "WHERE e.unit IS NULL GROUP BY w.value, e.key",
        (every,),
    ):
        holders.setdefault(word, {})[unit] = key
    kinds: dict[str, set[int]] = {}
    for word, unit in connection.execute(
        "SELECT w.value, u.row FROM json_each(?) w CROSS JOIN json_each(?) r "
        "CROSS JOIN units u ON u.row = r.value "
        "WHERE instr(' ' || lower(u.kind) || ' ', ' ' || w.value || ' ')",
        (every, as_json({unit for units in holders.values() for unit in units})),
    ):
        kinds.setdefault(word, set()).add(unit)

    def is_marked(at: int, size: int) -> bool:
        before = tokens[at - 1].folded if at else ""
        is_capital = question[tokens[at].start].isupper()
        return size > 1 or is_capital or before in _MARKING or tokens[at].folded not in holders

    for size in range(min(_LONGEST_NAME, len(forms)), 0, -1):
        for at in range(len(tokens) - size + 1):
            inside = range(at, at + size)
            is_free = not any(span.overlaps(at, at + size) for span in named.spans)
            if not (is_free and forms.keys() >= {*inside} and is_marked(at, size)):
                continue
            if all(stem(tokens[n].folded) in ASKING for n in inside):
                continue
            if key := _only_name([forms[n] for n in inside], holders, kinds):
                folded = tuple(tokens[n].folded for n in inside)
                named.spans.append(NamedSpan(at, folded, key, is_partial=True))


def _only_name(
    forms: Sequence[set[str]], holders: dict[str, dict[int, str]], kinds: dict[str, set[int]]
) -> str:
    """Return a name of the only unit whose names and kind have all words, or "".

    `holders` is word → unit → a name of the unit with the word, `kinds` word → units whose kind has
    it.
    """
    named = [
        {unit: key for form in word for unit, key in holders.get(form, {}).items()}
        for word in forms
    ]
    of_kind = [set[int]().union(*(kinds.get(form, ()) for form in word)) for word in forms]
    units = set.intersection(*({*a} | b for a, b in zip(named, of_kind, strict=True)))
    keys = {unit: key for word in named for unit, key in word.items() if unit in units}
    return keys.popitem()[1] if len(units) == len(keys) == 1 else ""


def _qualify(connection: Connection, span: NamedSpan) -> list[NamedSpan]:
    """Return the span of "HMS Suffolk" with the key of "HMS Suffolk (55)", if that is unique."""
    names = connection.execute(
        "SELECT n.key, u.name FROM names n JOIN units u ON u.row = n.unit "
        "WHERE n.key > ?1 || ' ' AND n.key < ?1 || '!' LIMIT ?2",
        (span.key, _CANDIDATES),
    )
    keys = {key for key, name in names if name_key(name.partition(" (")[0]) == span.key}
    return [replace(span, key=key) for key in keys] if len(keys) == 1 else []


def _find_capitals(
    question: str, tokens: Sequence[Token], spans: Sequence[NamedSpan]
) -> Iterator[tuple[int, int]]:
    """Yield ranges of capitalised words and names separated only by spaces; none of a title."""
    plain = stop_words() | _TITLES
    capital = [question[token.start].isupper() and token.folded not in plain for token in tokens]
    if all(capital[n] for n, token in enumerate(tokens) if n and token.folded not in stop_words()):
        return
    for span in spans:
        capital[span.at : span.at + len(span.words)] = [True] * len(span.words)
    capital.append(False)
    start = 1
    for end in range(2, len(tokens) + 1):
        gap = question[tokens[end - 1].end : tokens[end].start] if capital[end] else "."
        if gap.strip() or not capital[end - 1]:
            if capital[end - 1] and end - start > 1:
                yield start, end
            start = end


def _add_similar(
    connection: Connection, question: str, tokens: Sequence[Token], place: int, names: NamesFound
) -> None:
    """Add the name that words around an unknown one are a misspelling of, or suggest it."""
    from rapidfuzz import process
    from rapidfuzz.distance import OSA  # needed only for unknown words

    near: list[tuple[bool, int, float, str, int, tuple[str, ...]]] = []
    for start in range(max(0, place - _LONGEST_MISSPELT + 1), place + 1):
        keys = connection.column(
            "SELECT key FROM names WHERE key BETWEEN ?1 AND ?1 || char(1114111) UNION "
            "SELECT key FROM entities WHERE key BETWEEN ?1 AND ?1 || char(1114111) LIMIT ?2",
            (tokens[start].folded[0], _CANDIDATES),
        )
        keys = keys if tokens[start].folded not in stop_words() else []
        for end in range(place + 1, min(len(tokens), start + _LONGEST_MISSPELT) + 1):
            folded = tuple(token.folded for token in tokens[start:end])
            text = " ".join(folded)
            for key, similar, _ in process.extract(
                text, keys, scorer=OSA.normalized_similarity, score_cutoff=_SIMILAR, limit=2
            ):
                slips = OSA.distance(text, key)
                close = slips <= min(2, len(text) // _LETTERS) and _digits(text) == _digits(key)
                near.append((close, len(text) if close else 0, similar, key, start, folded))
    if not near:
        return
    best = max(near)
    close, _, _, key, start, folded = best
    only = close and {other[3] for other in near if other[:2] == best[:2]} == {key}
    # "How many planets?" does not name Plants.
    capital = question[tokens[start].start].isupper() or question.islower()
    if only and (capital or len(folded) > 1):
        end = start + len(folded)
        names.spans[:] = [span for span in names.spans if not span.overlaps(start, end)]
        names.spans.append(NamedSpan(start, folded, key))
    else:
        names.similar[" ".join(folded)] = key


def _digits(text: str) -> str:
    return "".join(filter(str.isdigit, text))


# ---- clues --------------------------------------------------------------------------------------


class ClueWord(NamedTuple):
    """A word of a clue.

    Args:
        beginning: what its other forms begin with, folded.
        whole: the word itself, folded, where that is to be looked for first: a name or a base form.
            "Niger" is not Nigeria, "euro" is not Europe.
    """

    beginning: str
    whole: str = ""


def parted(question: str) -> tuple[str, list[ClueWord]]:
    """Return a question without its clue, and the words of the clue.

    "What is the capital of the African country that borders Spain?" → ("What is the capital of the
    country", words that begin with "border", "spain" and "afric"). The clause ends before a verb
    that an earlier "does" or "was" waits for.
    """
    tokens = tokenize(question[:MOST_CHARACTERS])
    start, end = _clause(question, tokens)
    clue, main = tokens[start:end], tokens[:start] + tokens[end:]
    terms = []
    for token in clue:
        word, root = token.folded, stem(token.folded)
        if word not in _PLAIN:
            named = question[token.start].isupper()
            beginning = root if len(root) > 3 and word.startswith(root) else word
            terms.append(ClueWord(beginning, word if named or word == root else ""))
    kept = []
    for token, following in zip_longest(main, main[1:]):
        capital = question[token.start].isupper() and token is not main[0]
        if capital and following and following.folded in POINTED:
            # "African" begins as "Africa" does.
            root = token.folded
            terms.append(ClueWord(root[: max(4, len(root) - 2)] if root.endswith("n") else root))
        else:
            kept.append(question[token.start : token.end])
    return " ".join(kept), list({word.beginning: word for word in terms}.values())


def _clause(question: str, tokens: Sequence[Token]) -> tuple[int, int]:
    """Return where the clause of the clue starts and ends."""
    folded = [token.folded for token in tokens]
    capital = [question[token.start].isupper() for token in tokens]
    for at in range(1, len(folded)):
        # "the country in Asia", but not "the country in the picture"
        placed = folded[at] == "in" and any(capital[at + 1 : at + 3])
        if folded[at - 1] not in POINTED or not (placed or folded[at] in _RELATIVE):
            continue
        end = len(folded)
        if {"do", "does", "did"}.intersection(folded[:at]):
            # "Which sea does the country that borders Spain | touch?", "| belong to?"
            tail = end - 1 - (folded[-1] in ("to", "for", "on", "with", "like"))
            waits = folded[tail] == stem(folded[tail]) or folded[tail] in _VERBS
            end = tail if at + 1 < tail and waits and not capital[tail] else end
        elif {"was", "were"}.intersection(folded[:at]) and folded[-1].endswith("ed"):
            end -= 1
        return at, end
    return len(folded), len(folded)
