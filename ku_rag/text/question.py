"""What a question asks: its kind, its content words, and the labels under which answers stand."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise
from typing import NamedTuple

from ku_rag.text.stems import root, roots, stem, stems
from ku_rag.text.tokens import Token, stop_words, tokenize, words

MOST_CHARACTERS = 1000
"""So much of a question is read."""
_WH = frozenset(words("who whom whose what which when where why how"))
AUXILIARIES = frozenset(
    words("is are was were do does did has have had can could will would may must")
)
POINTED = frozenset(
    words("thing unit item object product country nation state flag one picture photo image scene")
)
"""Nouns that a picture may be said to show: "the country" points and asks nothing."""
POINTERS = frozenset(words("this that these those it its they them their he she his her here"))
_NEGATIONS = frozenset(
    words("not no never nor neither without none nothing nobody hardly cannot former")
)
_NEGATIONS |= frozenset(words("formerly except unlike"))
_COMMANDS = frozenset(words("describe explain define introduce"))
_DESCRIBING = frozenset(words("what who is are was were s the a an this tell me about do you know"))
"""All words beside the name in "What is X?", "Who is X?", "Tell me about X"."""
_TELLING = frozenset(
    words("know suggest advise tell show give list name say explain describe recommend find")
)
"""After "can you", these ask for more than yes or no."""
HELPING = frozenset(words("do does did can could should will would must may"))
"""Verbs before the subject of a question for an object: "What does Ann keep?"."""
_PARTICIPLE = re.compile(r"(ed|wn|ught|ung|made|built)$")
_LISTING = {("are", "there"), ("do", "you"), ("do", "we"), ("have", "you"), ("have", "we")}
"""Questions for yes or no that a list answers: "Do you have red lamps?"."""
_HAVING = frozenset(words("have sell stock offer carry keep got own"))
"""Verbs of such questions after "do you"."""
_OF_THEM = frozenset(words("of the our your my these those"))
_ASKERS = frozenset(words("i we you us"))
_NAMING = frozenset(words("name kind sort type pictur imag photo thing object scene"))
_NAMING |= frozenset(words("describ explain defin introduc"))
_COMPARING = frozenset(words("than same more most less least either older younger"))
HEDGES = frozenset(words("may might could would if unless almost nearly some claimed said only"))
HEDGES |= frozenset(
    words("should will shall scheduled planned intended supposed refused failed wanted")
)
HEDGES |= frozenset(words("legend believe believed claims allegedly reportedly probably perhaps"))
HEDGES |= frozenset(words("disagree unknown meant doubt doubts"))
"""Words that leave open whether a sentence is so."""
_PREPOSITIONS = frozenset(words("of from with for as on by"))
TURNING = frozenset(words("by before after above below under over than without from to"))
"""Words of a predicate that a question must have alike."""
_DEGREES = {"more": 1, "most": 1, "less": -1, "least": -1, "fewer": -1, "fewest": -1}
_LOW = frozenset(
    map(stem, words("weak cheap light small short young low slow cold narrow shallow near early"))
) | {stem("new"), stem("hardy")}
"""Adjectives of which the least value has most: "the lightest"."""
_SHORTEST_ADJECTIVE = 3
_PLAIN = frozenset(words("high low great large big small strong weak"))
"""Adjectives that only tell the direction where a noun follows: "the highest price"."""
_PLAIN_STEMS = frozenset(map(stem, _PLAIN))
_DATED = frozenset(
    map(stem, words("built born founded opened published publication released date year"))
)
"""Labels of dates that tell which is older."""
_AGE = frozenset({stem("age")})
MEANS, SUMS = stems("average"), stems("total sum")
"""Stems of words that ask for the mean or the sum of an amount, unless a label has them."""
_OF_ENTITIES = ("", "name", "person", "place", "date")
TURNS = frozenset({"after", "before"})
"""Words of order: an answer must have them alike."""
_FILLED = 1000
"""Rank of a label of which the question has all words but fillers."""
_NEAR = 4
"""Words no further from the question word tell what it asks for."""
_NEAR_WEIGHT, _NAME_WEIGHT = 2.5, 0.5
"""Weights of these words, and of capitalised ones, which tell of what it is asked."""
_TYPES = {"who": "person", "whom": "person", "whose": "person", "when": "date", "where": "place"}
_NOUNS = {
    "date": "year date day month birthday",
    "place": "city country state town county region province nation district village island "
    "continent",
    "number": "population number capacity score age",
}
"""Type of value → nouns after "which" or "what" that ask for it."""
_TYPE_NOUNS = frozenset(" ".join(_NOUNS.values()).split())
TYPE_NOUNS = frozenset(map(stem, _TYPE_NOUNS))
"""Stems of nouns that only tell the type of the answer: "in which year"."""
PLACE_NOUNS = frozenset(_NOUNS["place"].split())


class Wording(NamedTuple):
    """A way of asking, and where its answer stands.

    Args:
        triggers: stems of words, one set of which the question has, question words included.
        labels: stems of the labels that answer it, the most fitting first.
        extra: stems that a question may have beside them without asking something else.
        type: the kind of value; see `ku_rag.text.values`. "" is any.
    """

    triggers: tuple[frozenset[str], ...]
    labels: tuple[str, ...]
    extra: frozenset[str]
    type: str


_TABLE = [
    row.split(":")
    for row in files("ku_rag.text").joinpath("wording.txt").read_text("utf-8").splitlines()
    if row and not row.startswith("#")
]


def _word_list(name: str) -> frozenset[str]:
    return frozenset(
        stem(word) for row in _TABLE if len(row) == 2 and row[0] == name for word in words(row[1])
    )


SOFT, FILLERS, _ADJECTIVES = map(_word_list, ("soft", "fillers", "adjectives"))
"""Stems of words that need not be accounted for, and of those that labels add."""
PRINT, CARRIERS = map(_word_list, ("print", "carriers"))
"""Stems of words that ask for what is printed in a picture, and of what it may be printed on."""
QUESTION_WORDS = _WH | AUXILIARIES
"""Words that begin a question."""
GENERIC, LISTING, STOCKS = map(_word_list, ("generic", "listing", "stocks"))
"""Stems of nouns for any unit, of words that ask for all units of a kind, of labels of stocks."""
DOCUMENTS, MENTIONING = map(_word_list, ("documents", "mentioning"))
"""Stems of nouns for documents, and of verbs for what they have to do with a subject."""
SECTIONS, SAYING = map(_word_list, ("sections", "saying"))
"""Stems of nouns for parts of documents, and of words that ask what these say."""
WAYS = _word_list("ways")
"""Stems of words after "how" in questions for a way: "How do I install it?"."""
DEFAULTS, VALUES = map(_word_list, ("defaults", "values"))
"""Stems of words that ask for a default, and of words beside it."""
ENTRIES = _word_list("entries")
"""Stems of nouns for terms of a document, and of words that ask for what it says of them."""
CONTAINERS = _word_list("containers")
"""Stems of names of files and folders that say nothing of the units in them."""
THINGS = _word_list("things") | GENERIC
"""Stems of nouns for units of many kinds; the generic ones fit any unit."""
HYPONYMS = [
    tuple(frozenset(map(stem, words(part))) for part in row[1].split("="))
    for row in _TABLE
    if row[0] == "kinds"
]
"""Stems of nouns, and of the kinds that are called so as well."""
_WAYS = tuple(
    Wording(
        tuple(frozenset(map(stem, phrase.split())) for phrase in triggers.split(",")),
        tuple(dict.fromkeys(map(stem, labels.split()))),
        frozenset(map(stem, extra.split())),
        kind.strip(),
    )
    for triggers, labels, extra, kind in (row for row in _TABLE if len(row) > 2)
)
ASKING = frozenset().union(*(phrase for way in _WAYS for phrase in (*way.triggers, way.extra)))
"""Stems that only tell what is asked for: "cost", "live", "make"."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question taken apart.

    Args:
        kind: "identity" (what is this?), "description" (what is X?), "yes-no" or "value".
        weights: stems of all its content words → how much each tells what is asked: more near the
            question word and at the end, less in names.
        light: stems of verbs of who asks: "can I bring", "you sell".
        verbs: stems of verbs after a name or "which noun"; a label that is named by other words
            need not say them.
    """

    words: tuple[str, ...]
    kind: str
    content: tuple[str, ...]
    weights: Mapping[str, float]
    names: frozenset[str]
    every: frozenset[str]
    unnamed: tuple[str, ...]
    ways: tuple[Wording, ...]
    type: str
    negated: bool
    compares: bool
    light: frozenset[str] = frozenset()
    verbs: frozenset[str] = frozenset()

    @property
    def unsaid(self) -> frozenset[str]:
        """Stems that need not be accounted for."""
        return SOFT | (frozenset() if self.kind == "yes-no" else self.light)

    @property
    def has_question_word(self) -> bool:
        """Whether it has a word such as "which" or "how"."""
        return not _WH.isdisjoint(self.words)

    @property
    def asks_way(self) -> bool:
        """Whether it asks how something is done, and for no amount."""
        return self.words[:1] == ("how",) and stem("".join(self.words[1:2])) in WAYS

    @property
    def turns(self) -> frozenset[str]:
        """Words of order that an answer must have alike; that of "look after" is none."""
        triggers = (phrase for way in self.ways for phrase in way.triggers if phrase <= self.every)
        return TURNS.intersection(self.words).difference(*triggers)

    @property
    def answer_stems(self) -> frozenset[str]:
        """Stems of content words and of the way of asking; an answering clause has one of them."""
        ways = (label for way in self.ways[:1] for label in (*way.labels, *way.extra))
        return frozenset((*self.content, *ways))

    @property
    def verb(self) -> str:
        """The stem of the verb after "who", of the last word if it asks when or where; or ""."""
        at = {"who": 1, "where": -1}.get("".join(self.words[:1]), -(self.type == "date"))
        verb = self.words[at] if at and self.words[1:] else ""
        return "" if verb in stop_words() else stem(verb)

    @property
    def which(self) -> str:
        """The noun after "which" or "what", folded: "which prize"; or ""."""
        after = (b for a, b in pairwise(self.words) if a in ("which", "what"))
        noun = next(after, "")
        return "" if noun in stop_words() else noun

    @property
    def complement(self) -> tuple[str, str] | None:
        """The stem of the verb and the preposition at the end of "What is it made of?"."""
        is_asked = self.words[:1] == ("what",) and self.words[-1] in _PREPOSITIONS
        verb = self.words[-2] if is_asked and len(self.words) > 2 else ""
        return (stem(verb), self.words[-1]) if verb and verb not in stop_words() else None

    def implied(self, stems: frozenset[str]) -> frozenset[str]:
        """Return stems of a text with those of the words that it answers: "heavy" for "weigh"."""
        met = (way for way in self.ways if not stems.isdisjoint((*way.labels, *way.extra)))
        return stems.union(*(phrase for way in met for phrase in way.triggers))

    @property
    def counted(self) -> str:
        """The stem of what is counted: "how many passengers"; or ""."""
        phrases = {("how", "many"), ("number", "of"), ("count", "of")}
        pairs = enumerate(pairwise(self.words[:-1]))
        at = next((n for n, pair in pairs if pair in phrases), None)
        # "The order number of the pump"
        if at and self.words[at] == "number" and self.words[at - 1] not in stop_words():
            return ""
        rest = () if at is None else self.words[at + 2 :]
        return stem(next((word for word in rest if word not in _OF_THEM), "")) if rest else ""

    def remaining(
        self, label: frozenset[str], *, agents: bool, values: bool = True
    ) -> tuple[int, frozenset[str]] | None:
        """Return how well a label answers, 0 is best, and the content words that it leaves over.

        `label` is stems. With `agents`, "designer" and "design" are one; without `values`, the
        label is of entities. None if the label does not answer.
        """
        content = frozenset(self.content)
        agents = agents and not _asks_for_thing(self.words)
        met = frozenset(word for word in content if agents and root(word) in roots(label))
        if label and (roots(label) == roots(met) or label <= content):
            ways = _ways_of_label(label)
            is_typed = values and any(way.type == self.type for way in ways)
            nouns = TYPE_NOUNS if is_typed else frozenset()
            return 0, content.difference(label, met, nouns, *(way.extra for way in ways))
        core = label - FILLERS
        candidates: list[tuple[int, int, frozenset[str]]] = []
        for number, way in enumerate(self.ways):
            if not values and way.type not in _OF_ENTITIES:
                continue
            shared = [at for at, word in enumerate(way.labels) if word in label]
            if shared and core <= {*way.labels, *way.extra, *content}:
                is_typed = values and way.type in ("", self.type)
                nouns = TYPE_NOUNS if is_typed else frozenset()
                left = content.difference(label, self.spoken(way), nouns)
                candidates.append((len(left - self.unsaid), 1 + 20 * number + shared[0], left))
        if candidates:  # the way that accounts for most
            _, rank, left = min(candidates, key=lambda candidate: candidate[:2])
            return rank, left
        if core and core <= content:
            return _FILLED, content - label
        return None

    def spoken(self, way: Wording) -> frozenset[str]:
        """Return the stems of the question that one of its ways of asking accounts for."""
        return frozenset().union(way.extra, *filter(self.every.issuperset, way.triggers))


def _asks_for_thing(folded: Sequence[str]) -> bool:
    """Whether a question asks for a thing and not a person: "What is it made of?"."""
    return folded[:1] == ("what",) and folded[-1] in _PREPOSITIONS - {"by"}


def analyse(text: str, names: tuple[str, ...] = ()) -> Question:
    """Take the first 1,000 characters of a question apart; it may be about units of these names."""
    tokens = tokenize(text[:MOST_CHARACTERS])
    folded = tuple(token.folded for token in tokens)
    own = frozenset(stem(word) for name in names for word in words(name))
    inside = _inside_names(folded, [tuple(words(name)) for name in names])
    asking = [n for n, word in enumerate(folded) if word in _WH]
    # Not a word that begins a relative clause.
    leading = [n for n in asking if n == 0 or (n == 1 and folded[0] in stop_words())]
    at = next(iter([*leading, *reversed(asking)]), None)
    asking = [n for n, word in enumerate(folded) if word not in _WH or n == at]
    every = frozenset(stem(folded[n]) for n in asking)
    outside = frozenset(stem(folded[n]) for n in asking if n not in inside)
    contents = _contents(text, tokens, inside, at)
    # "Alpha or Beta", not "seas or oceans"
    choice = re.search(r"\bor (?:the )?[A-Z]", text) is not None
    ways = [
        way
        for way in _WAYS
        if any(phrase <= outside for phrase in way.triggers)
        and not (_asks_for_thing(folded) and way.type == "person")
    ]
    # "Where keep" tells more than "where".
    ways.sort(key=lambda way: -max(len(phrase) for phrase in way.triggers if phrase <= outside))
    unnamed = tuple(word for n, word in enumerate(folded) if n not in inside)
    kind = _kind(folded, set(contents.content), set(unnamed) - _DESCRIBING, named=bool(every & own))
    return Question(
        words=folded,
        kind=kind,
        content=tuple(contents.content),
        weights=contents.weights,
        names=own,
        every=frozenset(map(stem, folded)),
        unnamed=unnamed,
        ways=tuple(ways),
        type=_type(folded, at, ways),
        # "Isn't it waterproof?" asks what "Is it waterproof?" asks.
        negated=is_negated(folded[2:] if kind == "yes-no" and folded[1:2] == ("t",) else folded),
        compares=bool(_COMPARING.intersection(folded))
        or choice
        or (kind == "yes-no" and "or" in folded),
        light=frozenset(contents.light),
        verbs=frozenset(contents.verbs),
    )


class _ContentWords(NamedTuple):
    """The content words of a question; see `Question`."""

    weights: dict[str, float]
    content: dict[str, None]
    light: set[str]
    verbs: set[str]


def _contents(
    text: str, tokens: Sequence[Token], inside: set[int], at: int | None
) -> _ContentWords:
    """Return the content words; `inside` are words of names, `at` is the question word."""
    folded = [token.folded for token in tokens]
    contents = _ContentWords({}, {}, set(), set())
    for n, (word, begin, _) in enumerate(tokens):
        before = folded[max(0, n - 2) : n]
        # "This lamp", or "the country", only points; "the country of Ann" is asked for.
        is_pointed = word in POINTED and not {"the", "this", "that"}.isdisjoint(before)
        is_pointed &= folded[n + 1 : n + 2] != ["of"]
        # "What does this cost?" ends with a verb.
        is_verb = n == len(folded) - 1 and before[:1] in (["do"], ["does"], ["did"])
        is_shown = before[-1:] in (["this"], ["these"]) and not is_verb
        # "Name the tallest tree", "the name of the keeper"
        is_order = (n == 0 and word in _TELLING) or folded[n : n + 2] == ["name", "of"]
        is_rate = word == "per" or before[-1:] == ["per"]  # the label "rent_per_day" is "rent"
        if word in stop_words() or is_pointed or is_shown or is_order or is_rate:
            continue
        weight = _NAME_WEIGHT if n and text[begin].isupper() else 1.0
        near = at is not None and abs(n - at) <= _NEAR
        weight *= _NEAR_WEIGHT if near or n == len(folded) - 1 else 1.0
        stemmed = stem(word)
        # "Which year" and "what year" only say that a date is asked for.
        if folded[n - 1] not in ("what", "which") or word not in _TYPE_NOUNS:
            contents.weights[stemmed] = max(weight, contents.weights.get(stemmed, 0.0))
        if n not in inside:
            contents.content[stemmed] = None
        if n and folded[n - 1] in _ASKERS:
            contents.light.add(stemmed)
        # "What scale is the map drawn at?", "Which dealer did Ann buy it from?"
        follows = (n - 1 in inside and n not in inside) or (
            n > 1 and folded[n - 2] in ("which", "what")
        )
        if follows and (_PARTICIPLE.search(word) or not HELPING.isdisjoint(folded[:n])):
            contents.verbs.add(stemmed)
    return contents


def _inside_names(folded: tuple[str, ...], names: Sequence[tuple[str, ...]]) -> set[int]:
    """Places of the words of names; where a name is not said in full, each of its words counts."""
    inside: set[int] = set()
    for name in names:
        size = len(name)
        starts = [n for n in range(len(folded)) if size and folded[n : n + size] == name]
        part = set(map(stem, name)) if not starts else ()
        inside.update(place for n in starts for place in range(n, n + size))
        inside.update(n for n, word in enumerate(folded) if stem(word) in part)
    return inside


def _type(folded: Sequence[str], at: int | None, ways: Sequence[Wording]) -> str:
    """The kind of value that is asked for."""
    if at is None:
        return ""
    spoken = folded[at : at + 2 + _NEAR]
    near = tuple(word for before, word in pairwise(("", *spoken)) if before != "per")
    around = frozenset(map(stem, (*near, *folded[max(0, at - 1) : at], *folded[-2:])))
    way_type = next((way.type for way in ways if any(map(around.issuperset, way.triggers))), "")
    if folded[at] in _TYPES:
        return _TYPES[folded[at]]
    if folded[at] in ("what", "which"):
        for kind, nouns in _NOUNS.items():
            if not set(nouns.split()).isdisjoint(near[1 : 2 if kind == "place" else None]):
                return kind
    noun = near[1] if folded[at] in ("what", "which") and near[1:] else ""
    if not noun or noun in stop_words():
        return way_type
    # "What inscription does it bear?" asks for no date of birth.
    own = (way.type for way in ways if any(stem(noun) in phrase for phrase in way.triggers))
    return next(own, "") or "name"


def names_and_numbers(text: str) -> list[str]:
    """Return the words of a question that have a capital or a digit, without the first word."""
    return [w for w in text.split()[1:] if w[:1].isupper() or any(map(str.isdigit, w))]


def is_negated(folded: Sequence[str]) -> bool:
    """Whether folded words hold a negation: "not", "never", "isn't"."""
    return any(
        (word in _NEGATIONS and not (word == "no" and after[:1].isdigit()))  # "lamp no. 7"
        or (after == "t" and word.endswith("n"))
        for word, after in pairwise((*folded, ""))
    )


def _kind(folded: tuple[str, ...], content: set[str], rest: set[str], *, named: bool) -> str:
    first = folded[0] if folded else ""
    first = first.removesuffix("n") if folded[1:2] == ("t",) else first
    has = folded[:1] in (("are",), ("have",)) or not _HAVING.isdisjoint(folded[2:3])
    if folded[:2] in _LISTING and has and not named:
        return "value"
    if first in AUXILIARIES and _TELLING.isdisjoint(folded[1:4]):
        return "yes-no"
    if first == "whose" and folded[-1] in POINTERS:
        return "identity"
    if {"when", "where", "why", "how"}.intersection(folded) or content - _NAMING:
        return "value"
    if named and rest and _COMMANDS.isdisjoint(folded):
        return "value"
    return "description" if named or _COMMANDS.intersection(folded) else "identity"


@dataclass(frozen=True, slots=True)
class Comparison:
    """What "heavier", "the cheapest" or "more planets" compares.

    Args:
        groups: stems of the labels of the values, the likeliest first.
        of_two: whether it compares with something named: "heavier than".
        oldest: whether a date counts as an age.
    """

    groups: tuple[frozenset[str], ...]
    sign: int
    words: frozenset[str]
    of_two: bool
    oldest: bool

    @property
    def labels(self) -> frozenset[str]:
        """Stems of all the labels."""
        return frozenset().union(*self.groups)


def comparison(question: Question) -> Comparison | None:
    """Return what a question compares, if anything."""
    folded = question.unnamed
    if folded[:2] == ("how", "much"):  # "How much taller is it?"
        return None
    for n, word in enumerate(folded):
        following = folded[n + 1] if n + 1 < len(folded) else ""
        # "Which weighs more?", "What costs less than 5 euros?"
        is_last = following in stop_words() or not following
        before = next((w for w in reversed(folded[:n]) if w not in stop_words()), "")
        qualified = (before if stem(before) in ASKING else "") if is_last else following
        sign, base, used = _DEGREES.get(word, 0), qualified, [word, qualified]
        if not sign:
            base, used = _positive(word), [word]
            sign = -1 if stem(base) in _LOW else 1
        noun = following if base in _PLAIN and following not in stop_words() else ""
        base, used = (noun, [word, noun]) if noun and stem(noun) in ASKING else (base, used)
        named = [stem(noun), *question.content] if stem(base) in _PLAIN_STEMS else []
        if not base or base in stop_words():
            continue
        base_stem = stem(base)
        ways = [w for w in _WAYS if base_stem in w.extra or any(base_stem in t for t in w.triggers)]
        ways = ways if base_stem in ASKING else [*_ways_of_label(frozenset({base_stem}))]
        # "The longest to cook": ways with other words of the question first.
        content = frozenset(question.content)
        ways.sort(key=lambda way: -len((way.extra & content) - {base_stem}))
        spoken = {base_stem, *map(stem, used), *(extra for way in ways for extra in way.extra)}
        of_two = "than" in folded or word.endswith("er") or word in ("more", "less", "fewer")
        # "Who has been here longer?" asks for the earlier date.
        oldest = stem("old") in spoken or (base == "long" and "been" in folded)
        groups = [frozenset({base_stem, *named})]
        groups += [frozenset(way.labels) for way in ways]
        if oldest:
            # "The oldest film" is no person.
            dated = _DATED if "who" in folded else _DATED - {stem("born")}
            groups = [group.union(dated) - _AGE for group in groups] + [_AGE]
        return Comparison(tuple(groups), sign, frozenset(spoken), of_two, oldest)
    return None


def _positive(word: str) -> str:
    """The adjective of a comparative or superlative: "heaviest" → "heavy"; "" for another word."""
    base = next((word.removesuffix(end) for end in ("est", "er") if word.endswith(end)), "")
    if len(base) < _SHORTEST_ADJECTIVE:
        return ""
    forms = (base, base + "e", base[:-1] + "y" * base.endswith("i"), base[:-1])
    return next((form for form in forms if stem(form) in _ADJECTIVES), "")


@lru_cache(maxsize=1 << 14)
def _ways_of_label(label: frozenset[str]) -> tuple[Wording, ...]:
    """The ways of asking for what a label, given as stems, names."""
    return tuple(way for way in _WAYS if label.intersection(way.labels))


@lru_cache(maxsize=1 << 14)
def meant_by_label(label: frozenset[str]) -> frozenset[str]:
    """Return the stems of words with which a question may ask for a label, given as stems."""
    return frozenset().union(*((*way.labels, *way.extra) for way in _ways_of_label(label)))


@lru_cache(maxsize=64)
def label_words(text: str) -> tuple[str, ...]:
    """Return stems of words with which texts answer a question: "how heavy" → "weigh", "mass"."""
    return tuple(word for way in analyse(text).ways for word in (*way.labels, *sorted(way.extra)))
