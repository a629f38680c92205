"""What a question asks for: the concept, the kind of answer, and whom it is about."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ku_rag.text.clues import (
    AUXILIARIES,
    FUNCTION,
    IMPERATIVES,
    LEADS,
    POINTED,
    WH,
    clue_stems,
    cut_adjectives,
    cut_clue,
    cut_rates,
    interrogative,
)
from ku_rag.text.lexicon import Concept, Word, concepts, find, read_words, stem, word_list
from ku_rag.text.tokens import name_key

_MAX_CHARS = 1000
_TYPE_NOUNS = {
    "country": "place", "nation": "place", "stat": "place", "city": "name", "town": "name",
    "continent": "place", "sea": "water", "ocean": "water", "river": "name", "year": "year",
    "date": "date", "day": "date", "month": "date", "century": "date", "person": "person",
    "man": "person", "woman": "person", "company": "phrase", "color": "color", "place": "place",
    "region": "place", "language": "names", "team": "name", "island": "place", "thing": "phrase",
}  # fmt: skip
_PLAIN_TYPES = {
    "who": "person",
    "whom": "person",
    "when": "date",
    "where": "place",
    "why": "reason",
}
# What each question word can ask for, beyond concepts of any type.
_FITTING = {
    "quantity": ("quantity", "number", "date"),
    "date": ("date",),
    "person": ("person", "name", "names"),
    "place": ("place", "continent", "name", "names", "water"),
}
# English function words that other languages write alike.
_SHARED_WORDS = word_list("shared words")
_ASKING_VERBS = word_list("asking verbs")
_IDENTITY = word_list("identity")
_POINTERS = {"this", "that", "these", "it", "they", *POINTED}
_QUANTITY_UNITS = {
    "tall": "length", "high": "length", "long": "length time", "deep": "length", "wide": "length",
    "far": "length", "heavy": "mass", "old": "time", "hot": "temperature", "cold": "temperature",
    "fast": "speed", "expensive": "money", "large": "", "big": "", "much": "",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Question:
    """A question taken apart.

    Args:
        words: those of the main clause, what only identifies left out.
        clue: content stems of the clause that identifies, such as "that borders Spain".
        clue_concept: the concept that the clue speaks of, if it is known.
        kind: "value", "identity" (what is this?), "yes-no", or "" when nothing is asked.
        concept: what is asked for; None when the question holds no word to look for.
        type: the kind of value wanted, which may be narrower than the concept's.
        required: further stems that an answering sentence must hold.
        names: the units that the main clause names.
        strangers: other names in it.
        focus: the words asked about, for messages.
        about: stems that stand for whom the question is about: of units and of what it points at.
    """

    words: tuple[Word, ...]
    clue: tuple[str, ...]
    clue_concept: Concept | None
    kind: str
    concept: Concept | None
    type: str
    required: tuple[str, ...]
    names: tuple[str, ...]
    strangers: tuple[str, ...]
    focus: str
    about: frozenset[str] = frozenset()


def analyse(text: str, unit_names: Sequence[str] = ()) -> Question:
    """Take a question apart.

    Args:
        text: the question; only its first 1,000 characters are read.
        unit_names: names of the units it may be about, which are not looked for as words.
    """
    words = interrogative(read_words(text[:_MAX_CHARS]))
    if words and not any(w.text.lower() in FUNCTION - _SHARED_WORDS for w in words):
        return _foreign(words, unit_names)
    main, clue = cut_clue(words)
    main, described = cut_adjectives(cut_rates(main))
    clue = described + clue
    names, strangers = _names(main, unit_names)
    named = frozenset().union(*map(name_stems, names))
    kind = _kind(main)
    concept, used, type_ = _concept(main, named)
    pointed = _pointed(main)
    content = [
        i
        for i, word in enumerate(main)
        if word.text[0].isalnum()
        and i not in used | pointed
        and not {word.stem, word.text.lower()} & (FUNCTION | named)
    ]
    if kind == "value" and not content and concept is None and _points(main, names):
        kind = "identity"
    strange = frozenset().union(*map(name_stems, strangers))
    if concept is None and kind != "identity":
        concept, typed = _own_concept(main, content, pointed, type_, strange)
        content = [i for i in content if i not in typed]
    elif concept is not None:
        own = _vocabulary(concept)
        content = [i for i in content if main[i].stem not in own | _TYPE_NOUNS.keys()]
    return Question(
        words=tuple(main),
        clue=tuple(clue_stems(clue)),
        clue_concept=_concept(clue, frozenset())[0] if clue else None,
        kind=kind,
        concept=concept,
        type=type_,
        required=tuple(dict.fromkeys(main[i].stem for i in content)),
        names=names,
        strangers=strangers,
        focus=_focus(main, used, content, concept),
        about=frozenset().union(*map(name_stems, unit_names), (main[i].stem for i in pointed)),
    )


def _foreign(words: list[Word], unit_names: Sequence[str]) -> Question:
    """A question in another language: any long word may be the key of a line."""
    named = frozenset().union(*map(name_stems, unit_names))
    stems = [w.stem for w in words if len(w.text) > 3 and w.stem not in named]
    concept = Concept("", "phrase", nouns=tuple((s,) for s in dict.fromkeys(stems)))
    focus = " ".join(w.text for w in words)
    return Question(tuple(words), (), None, "value", concept, "phrase", (), (), (), focus)


def name_stems(name: str) -> frozenset[str]:
    """The stems of a name's words, and of the parts of those with a hyphen."""
    return frozenset(
        [w.stem for w in read_words(name) if w.text[0].isalnum()]
        + [stem(part) for part in re.findall(r"\w+", name)]
    )


# ---- understanding -----------------------------------------------------------------------------


def _kind(words: list[Word]) -> str:
    if not words:
        return ""
    first = [w.stem for w in words if w.text[0].isalnum()][:2]
    if any(s in WH for s in first[:1]) or (len(first) > 1 and first[0] in LEADS and first[1] in WH):
        return "value"
    if first and first[0] in IMPERATIVES:
        return "value"
    if first and words[0].text.lower() in _ASKING_VERBS:
        return "yes-no"
    return "value" if first else ""


def _names(words: list[Word], unit_names: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names in the main clause: those of units, and other runs of capitalised words."""
    text = f" {name_key(' '.join(w.text for w in words))} "
    units = []
    for name in unit_names:
        key = name_key(name)
        if key and f" {key} " in text and not set(key.split()) <= FUNCTION | POINTED:
            units.append(name)
    known = frozenset().union(*map(name_stems, units))
    others: list[str] = []
    run: list[str] = []
    for i, word in enumerate([*words, None]):
        if word and i and _stranger(word) and not {word.stem} & (FUNCTION | known):
            run.append(word.text)
            continue
        if run:
            others.append(" ".join(run))
        run = []
    return tuple(dict.fromkeys(units)), tuple(dict.fromkeys(others))


def _stranger(word: Word) -> bool:
    """Whether a word is a name; the C of "vitamin C" and B12 are none."""
    return word.text[0].isupper() and len(word.text) > 1 and not word.text[-1].isdigit()


def _vocabulary(concept: Concept) -> set[str]:
    groups = (concept.ask, concept.nouns, concept.before, concept.after)
    return {part for group in groups for phrase in group for part in phrase}


def _concept(words: list[Word], named: frozenset[str]) -> tuple[Concept | None, set[int], str]:
    """The concept whose phrase stands first, the longest of those, with the words it used."""
    best: tuple[int, int, int, Concept, tuple[int, int]] | None = None
    wanted_type = _wanted_type(words)
    for order, concept in enumerate(concepts()):
        for wanted in concept.ask:
            spot = find(words, wanted, gap=6 if len(wanted) > 2 else 4)
            if spot is None or any(words[i].stem in named for i in (spot[0], spot[1] - 1)):
                continue
            kind = concept.type.split()[0]
            if kind not in _FITTING.get(wanted_type.split()[0], (kind,)):
                continue
            if kind == "quantity" and _counts_other(words, spot):
                continue
            weak = len(wanted) == 1 and wanted[0] in WH
            key = (-len(wanted), spot[0] + 1000 * weak, order)
            if best is None or _earlier(key, spot, best):
                best = (*key, concept, spot)
    if best is None:
        return None, set(), wanted_type
    concept, spot = best[3], best[4]
    stems = {s for p in concept.ask for s in p}
    used = {i for i in range(*spot) if words[i].stem in stems}
    return concept, used, _narrow(concept.type, wanted_type)


def _counts_other(words: list[Word], spot: tuple[int, int]) -> bool:
    """Whether "how many oranges" counts something else than the concept found at `spot`."""
    many = next((i for i, w in enumerate(words[:-1]) if w.stem == "many"), None)
    return many is not None and not spot[0] <= many + 1 < spot[1]


def _earlier(
    key: tuple[int, int, int],
    spot: tuple[int, int],
    best: tuple[int, int, int, Concept, tuple[int, int]],
) -> bool:
    """Phrases that overlap compete by length, others by place."""
    overlap = spot[0] < best[4][1] and best[4][0] < spot[1]
    if overlap:
        return key[:3] < best[:3]
    return (key[1], key[0], key[2]) < (best[1], best[0], best[2])


def _wanted_type(words: list[Word]) -> str:
    stems = [w.stem for w in words]
    for i, part in enumerate(stems):
        if part in _PLAIN_TYPES:
            return _PLAIN_TYPES[part]
        if part == "how" and i + 1 < len(stems):
            if stems[i + 1] == "many":
                return "number"
            if stems[i + 1] in _QUANTITY_UNITS:
                return f"quantity {_QUANTITY_UNITS[stems[i + 1]]}".strip()
            return "manner"
        if part in ("what", "which"):
            for later in stems[i + 1 : i + 4]:
                if later in _TYPE_NOUNS:
                    return _TYPE_NOUNS[later]
                if later in AUXILIARIES:
                    break
            return "color" if "color" in stems else "phrase"
    return "phrase"


def _narrow(known: str, wanted: str) -> str:
    if known == "date" and wanted in ("year", "date"):
        return wanted
    if wanted == "number" and known in ("names", "name"):
        return "count"
    return known


def _pointed(words: list[Word]) -> set[int]:
    """Nouns that only point: after "this" any, after "the" and in "flag of" those that may."""
    found = set()
    for i, word in enumerate(words):
        before = words[i - 1].text.lower() if i else ""
        if before in ("this", "these", "that", "those") or (word.stem in POINTED and i):
            found.add(i)
            # "this soft drink": everything up to the noun points.
            j = i + 1
            while before in ("this", "these") and j < len(words) and words[j].stem in POINTED:
                found.add(j)
                j += 1
    return found


def _points(words: list[Word], names: tuple[str, ...]) -> bool:
    """Whether a question only points: "what is this", "whose flag is shown here"."""
    stems = {w.stem for i, w in enumerate(words) if i not in _pointed(words)}
    plain = all(s in _IDENTITY or s in _TYPE_NOUNS for s in stems if s[0].isalnum())
    if words[-1].stem in LEADS and len(words) > 1:
        return False
    return plain and not names and bool({w.stem for w in words} & _POINTERS)


def _own_concept(
    words: list[Word],
    content: list[int],
    pointed: set[int],
    type_: str,
    strange: frozenset[str],
) -> tuple[Concept | None, set[int]]:
    """A concept made from the question's own words: its first noun group, and its verbs.

    The word for the kind of answer, as "colour" in "what colour is the peel", is not looked for.
    """
    kind, *units = type_.split()
    plain = [i for i in content if words[i].stem not in strange]
    asked = [i for i in plain if _TYPE_NOUNS.get(words[i].stem) != kind or kind == "phrase"]
    typed = set(plain) - set(asked)
    if not asked:
        asked = sorted(pointed) if kind == "color" else plain
    if not asked and kind == "color":
        return Concept("", kind), typed
    if not asked:
        return _placed(words, content), set()
    group = [asked[0]]
    while group[-1] + 1 in asked:
        group.append(group[-1] + 1)
    verbs = [words[i].stem for i in asked]
    before: list[tuple[str, ...]] = []
    after: list[tuple[str, ...]] = []
    if kind == "person":
        doers = [verb for verb in verbs if len(verb) > 5 and verb.endswith(("er", "or"))]
        before = [(verb, "by") for verb in (*verbs, *(stem(doer[:-2]) for doer in doers))]
        after = [(verb,) for verb in verbs]
    elif kind in ("date", "year"):
        before = [(verb,) for verb in verbs]
    elif kind == "quantity" or (kind == "phrase" and any(w.stem == "do" for w in words)):
        before = [(verbs[-1],)]
    elif kind == "place":
        before = [(verb, to) for verb in verbs for to in ("in", "at", "on", "near", "from")]
    nouns = [tuple(words[i].stem for i in group)]
    if kind == "person":
        # "Supplier" names the one who supplies.
        nouns += [(ending,) for verb in verbs for ending in _doers(verb)]
    concept = Concept("", kind, tuple(units), (), tuple(nouns), tuple(before), tuple(after))
    return concept, typed


def _doers(verb: str) -> tuple[str, ...]:
    """What those who do something may be called: "design" → "designer"."""
    root = verb[:-1] + "i" if verb.endswith("y") else verb
    return (root + "er", root + "or")


def _placed(words: list[Word], content: list[int]) -> Concept | None:
    """What "is it in Paris?" looks for: the name with its preposition."""
    if not content or not content[0] or words[content[0] - 1].stem not in LEADS:
        return None
    noun = tuple(words[i].stem for i in (content[0] - 1, *content))
    return Concept("", "phrase", nouns=(noun,))


def _focus(words: list[Word], used: set[int], content: list[int], concept: Concept | None) -> str:
    places = sorted(used) or content
    if not places and concept is not None and concept.nouns:
        return " ".join(concept.nouns[0])
    return " ".join(words[i].text for i in places)


def related(text: str) -> list[str]:
    """Stems of the words in which texts answer such a question: "pay" for a currency.

    They come from the concept of the lexicon that the question asks for; none if it is unknown.
    """
    concept = analyse(text).concept
    if concept is None or not concept.name:
        return []
    phrases = (*concept.nouns, *concept.before, *concept.after)
    stems = (stem for phrase in phrases for stem in phrase if stem not in FUNCTION)
    return [s for s in dict.fromkeys(stems) if len(s) > 2]
