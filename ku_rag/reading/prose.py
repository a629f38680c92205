"""The reader of sentences: it states an answer from evidence, or abstains.

It states the name or the description of a unit, yes or no, or the one typed value that most of the
question's words stand near to. Otherwise it gives the closest sentence, which is evidence and no
answer. What relations, metadata and labelled lines state is found by `named_units` before.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from ku_rag.retrieval.names import parted
from ku_rag.text.question import (
    HEDGES,
    HELPING,
    PLACE_NOUNS,
    THINGS,
    TURNING,
    TYPE_NOUNS,
    Question,
    analyse,
    is_negated,
)
from ku_rag.text.sentences import sentences
from ku_rag.text.statements import is_labelled_line
from ku_rag.text.stems import every_stem, stem
from ku_rag.text.tokens import is_named, stop_words, tokenize, words
from ku_rag.text.values import Value, find_kind, find_values
from ku_rag.types import ClosestSentence, Evidence, Match, Reading

NAME = "extractive"
_MOST_CHARACTERS = 20_000
"""Of one piece of evidence, no more is read."""
_CLEAR = 0.05
"""A stated value has so much more of the question near to it, as a share, than any other."""
_COVERED = 0.4
"""Share of the question's words that evidence has whose value is stated."""
_HALF = 12
"""Words so many characters away from a value count half."""
_PREDICATE = re.compile(
    r"[^.]*?\b(?:is|are|isn|aren)(?P<no>['’]t| not)?\s+(?:an? |the |very )?(?P<what>[^.]+)", re.I
)
_SEEMS = re.compile(
    r"\b(?:was|were|(?:look|seem|appear|feel|sound)s?) (?!\w+(?:\wed|wn|ught)\b|made|built)(\w+)"
)
"""What something was or seems, which it may not be: "looks [waterproof]"."""
_BOUND = re.compile(
    r"\b(?:before|after|until|since|over|under|about|around|nearly|almost|at least|at most|up to|"
    r"(?:less|more|fewer) than)\s+$",
    re.I,
)
"""Words before a value that belong to the answer."""
_OTHERS = re.compile(r"\W*(?:his|her|its|their|an?) (\w+)", re.IGNORECASE)
"""Begins a clause about something else: "her father died in 1940", "a loaf costs 3 euros"."""
_MAY = re.compile(r"(?<=.)\b(?:May|Will)\b")
"""A month or a name, and no auxiliary verb."""
_BESIDE = re.compile(
    r"\b(?:on|beside|near|above|behind|below|under|in|at|from) (?:an?|the)(?: [\w-]+){1,3},? $"
)
"""Before an amount, it is that of something else: "on a hill 200 m high"."""
_OTHER_SUBJECT = re.compile(
    r"\W*(?:The|An?) ([\w-]+)(?:['’]s?\b| (?:[\w-]+ ){0,2}?(?:beside|near|behind|above|below|"
    r"opposite|next|on|in|at|of|that|which)\b)"
)
"""Begins a clause about something else: "the bridge beside it", "the keeper's house"."""
_POSSESSED = re.compile(r"\W*(?:[A-Z][\w-]* )*[A-Z][\w-]*['’]s? ([a-z][\w-]*)")
"""Begins a clause about something else: "Rosa Lind's brother"."""
_PLANNED = re.compile(
    r"\b(?:is|are|was|were) to be\b|\b[Pp]lan(?:s|ned)? to\b|\bused to (?:be|have)\b"
)
"""A plan, which may have failed, or what is so no longer."""
_RATE = re.compile(r" ?(?:/|an? |per |each |every )(?:hour|day|night|week|month|year|h\b)")
_RATED = every_stem("per rent hire rental lease hour day night week month year")
"""After a price, it is one by the hour; words that ask for one."""
_SUBJECT = re.compile(r"\W*(?:it|he|she|they|this|the)\b", re.IGNORECASE)
"""Begins a clause about the unit of the text."""
_AGENT = re.compile(r"\bby (?:(?:the|an?) (?:(?!of\b)[\w-]+ ){0,3})?$")
"""Before the name of who did it: "by the British writer Terence Rattigan"."""
_CLAUSE = re.compile(
    r"(?s)(?:\A(?:In|On|At|By|Since|Until|Around|About) [^,]{1,40},)?.+?(?:\Z|[;:–—]|"
    r"(?:,|(?<!ed )\b(?:and|or)\b|\b(?:but|nor)\b)(?=,? [a-z])|"
    r"\b(?:who|whose|which|that|where|when|while|"
    r"because|although|after|before|until|since)\b(?= [a-z]))"
)
"""Up to where another verb may follow. A name or a number after "and" goes on with a list."""
_ALONE = ("date", "number", "person", "place")
"""Types of which no value is stated where a clause has two."""
_ENDS_RELATIVE = re.compile(r",? (?:who|which|that)$")
"""Ends with the pronoun of a relative clause."""
_INFINITIVE = re.compile(r"(?<!first)(?<!last)(?<!used)(?<!began)(?<!helped)(?<!managed) to $")
"""Before a verb whose action may not have happened: "hired a man to [repair] it"."""
_OBJECT = re.compile(
    r" (?:(?P<the>the (?=[a-z]))|(?:an?|the|its|his|her|their) |(?=[A-Z]|it\b))"
    r"(?P<what>[^,.;:()\d]+?)(?=[,.;:()]|\Z| (?:in|on|at|by|from|of|to|for|with|near|and|but)\b)"
)
"""The object of an active verb: "burned [the town] in 1632"."""
_BEFORE_PARTICIPLE = re.compile(
    r"(?:(?<!,)(?<! of) (?:an?|its|with|(?P<the>the)) (?:[\w-]+ ){0,2}?|"
    r"\bha(?:s|d|ve) (?:[\w-]+ )*?(?=[\w-]+s $))(?P<what>[a-z-]+)(?<! and) $"
)
"""The noun before a participle: "beside a [bell] cast in 1702", "has [legs] made of brass"."""
_IS_A = re.compile(
    r"\b(?:is|are|was|were|became) (?:an?|the|one of the) (?:(?!with|at)\S+ ?){1,4}$"
)
"""Before a relative clause, what the unit is: "It is a villa that was built by Ann Roe"."""
_RELATIVE = re.compile(r"\b(?:who|whose|which|that|where|when|while|because|although)\b")
"""Begins a clause that may be about something else."""
_FEWEST = 2
"""Content words of a question for a unit, of which a sentence has all."""
_PHRASE = re.compile(
    r" (?:(?:an?|the) )?(?P<what>[^,.;:()]+?)(?=[,.;:()]|\Z| (?:in|on|at|by|since|until|with|for|"
    r"to|when|where|which|that|who|as|because|from|but|"
    r"and (?:is|was|has|it|the|\w+(?:s|ed) (?:\d+|an?|the)|(?:\w{3,}ed|sold) (?:since|in)))\b)"
)
"""What a preposition belongs to: "carved from [bone] in 1806"."""
_TIME = re.compile(
    r"\b(?:every|daily|weekly|monthly|yearly|(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)days?|"
    r"\d{1,2}(?::\d\d)? ?[ap]\.?m|\d{1,2}:\d\d)\b"
)
"""A day of the week, a time of day, or how often."""
_PLACED = re.compile(
    r"\b(?:in|at|on|near|behind|beside|next|under|above|below|from|between|opposite|along|outside|"
    r"inside)\b(?! \d)"
)
"""Begins a place, and no year."""
_OF_OTHER = re.compile(r"\W*(?:The|An?) [\w -]+? of (?:the )?([A-Z]\w+)\b")
"""Begins a clause about something of another name: "the mayor of Hopeville"."""
_PRONOUNS = every_stem("it they he she")
_PASSIVE = re.compile(r"\b(?:is|are|was|were|be|been|being) (?:\w+ )?$")
"""Before a verb in the passive voice."""
_DONE_BY = re.compile(r"\b(?:is|are|was|were|been) (?:\w+ ){1,2}by\b")
"""A passive verb and its agent: "[was built by] Ann"."""
_FRESH = 0.1
"""What a value of the type asked for adds to a sentence's share of the question."""
_CLOSE = 0.5
"""The least share of a question in a sentence that is shown as close, where neither a picture nor a
name in the question tells what it is about. Of 115 sentences with the answer one is not shown, of
330 for questions about another base 273 are not (both sets of `benchmarks.prose`)."""


@dataclass(frozen=True)
class _Sentence:
    """A sentence of the evidence, and whether it is `own`: of the unit asked about."""

    piece: int
    start: int
    end: int
    text: str
    about: frozenset[str]
    own: bool

    @cached_property
    def words(self) -> list[str]:
        return words(self.text)

    @property
    def is_line(self) -> bool:
        """Whether it is a labelled line, whose label is a few words."""
        return is_labelled_line(self.text)

    @property
    def is_hedged(self) -> bool:
        """Whether it leaves something open; the month of May and names of its units do not."""
        hedges = HEDGES.intersection(words(_MAY.sub("", self.text)))
        is_planned = _PLANNED.search(self.text) is not None
        return is_planned or any(stem(word) not in self.about for word in hedges)

    @property
    def is_vague(self) -> bool:
        """Whether it denies something, or leaves it open."""
        return self.is_hedged or is_negated(self.words)

    @cached_property
    def tokens(self) -> list[tuple[str, int, int]]:
        return [(stem(word), start, end) for word, start, end in tokenize(self.text)]

    @cached_property
    def stems(self) -> frozenset[str]:
        return frozenset(map(stem, self.words))


def read(question: str, evidence: Sequence[Evidence], units: Sequence[Match]) -> Reading:
    """State the answer to a question about the unit that it names, or the first, or abstain."""
    main, clue = parted(question)
    named = [unit for unit in units if unit.named or is_named(unit.name, main)]
    subject = None if len(named) > 1 else next(iter([*named, *units]), None)
    if clue and subject and not subject.image:
        # "The country that borders Spain" is not Spain; only a picture identifies it.
        subject = None
    names = (subject.name, subject.named) if subject else ()
    analysis = analyse(main if subject else question, names)
    candidates = list(_sentences(evidence, units, subject))
    stated: _Stated | None = None
    if subject and analysis.kind == "identity":
        stating = [s for s in candidates if s.own and subject.name in s.text][:1]
        stated = subject.name, tuple(stating), 0.7
    elif subject and analysis.kind == "description":
        stated = _description(evidence, subject, candidates)
    elif analysis.content or analysis.ways:
        stated = _from_prose(analysis, candidates)
    is_known = named or any(unit.image for unit in units)
    if not stated and not is_known:
        stated = _unit_that(analysis, candidates, evidence)
    stated = stated or _whole_sentence(analysis, candidates, evidence, is_named=bool(named))
    if stated:
        answer, where, score = stated
        label = tuple(evidence[sentence.piece].label for sentence in where)
        why = f"{label[0]} states it." if label else "It is the name of the best match."
        return Reading(answer, label, tuple((o.start, o.end) for o in where), score, why)
    about = f" about {subject.name}" if subject else ""
    # A labelled line of another unit says nothing of this one.
    close = [sentence for sentence in candidates if sentence.own or not sentence.is_line]
    closest = _closest(analysis, close, evidence, 0.0 if is_known else _CLOSE)
    why = f"No text{about} answers it" + ("; the closest sentence may help." if closest else ".")
    return Reading("", why=why if evidence else "No evidence was found.", closest=closest)


_Stated = tuple[str, tuple[_Sentence, ...], float]
"""An answer, where it stands, and how sure it is."""


def _belongs(piece: Evidence, subject: Match | None) -> bool:
    return subject is None or subject.id in piece.owners


def _sentences(
    evidence: Sequence[Evidence], units: Sequence[Match], subject: Match | None
) -> Iterator[_Sentence]:
    names = {unit.id: unit.name for unit in units}
    for number, piece in enumerate(evidence):
        text = piece.text[:_MOST_CHARACTERS]
        matched = [names[unit] for unit in piece.unit_ids if unit in names]
        heading = " ".join((*piece.owner_names, *matched))
        own = _belongs(piece, subject)
        for start, end in sentences(text):
            sentence = text[start:end].strip()
            if sentence:
                start = text.index(sentence, start)
                about = frozenset(map(stem, words(heading)))
                about_it = own or (subject is not None and is_named(subject.name, sentence))
                yield _Sentence(number, start, start + len(sentence), sentence, about, about_it)


# ---- names and descriptions ---------------------------------------------------------------------


def _description(
    evidence: Sequence[Evidence], subject: Match, candidates: Sequence[_Sentence]
) -> _Stated | None:
    """The first sentence of the unit's own text, or of one that names it; no labelled line."""
    prose = [s for s in candidates if s.own and " " in s.text and not s.is_line]

    def place(sentence: _Sentence) -> tuple[str, int, int]:
        piece = evidence[sentence.piece]
        return "" if _belongs(piece, subject) else piece.source, piece.chunk, sentence.start

    prose.sort(key=place)
    return (prose[0].text, (prose[0],), 0.8) if prose else None


# ---- prose --------------------------------------------------------------------------------------


def _from_prose(question: Question, candidates: Sequence[_Sentence]) -> _Stated | None:
    """The typed value that most of the question stands near to, or yes or no."""
    if question.compares:
        return None
    if question.kind == "yes-no":
        return next((stated for s in candidates if (stated := _confirm(question, s))), None)
    is_open = question.type in ("", "name") and not question.which and not question.complement
    # "How do I show which patches apply?" asks for no patch.
    if question.negated or is_open or question.asks_way:
        return None
    if not question.names and len({s.about for s in candidates}) > 1:
        # The best value often belongs to another unit than the one in question.
        return None
    # "Which country is it in?": the name of a place does not tell what kind of place it is.
    is_typed = any(
        word in ("what", "which") and noun in PLACE_NOUNS for word, noun in pairwise(question.words)
    )
    if is_typed and "from" not in question.words:
        return None
    rarity = Rarity(question, [s.stems for s in candidates])
    best: dict[str, tuple[float, _Sentence]] = {}
    for sentence in candidates:
        for clause in _clauses(question, sentence):
            values = [v for v in _fresh(question, clause) if _may_state(question, clause, v)]
            # Of amounts, the nearest counts: "120 m long and 8 m wide".
            for value in values if len(values) == 1 or question.type not in _ALONE else ():
                near = rarity.near(clause, value)
                bound = _BOUND.search(clause.text[: value.start])
                text = clause.text[bound.start() if bound else value.start : value.end]
                if sentence.own and near > best.get(text, (0.0,))[0]:
                    best[text] = near, sentence
    ranked = sorted(best, key=lambda text: -best[text][0])
    if not ranked:
        return None
    near, where = best[ranked[0]]
    clear = near - (best[ranked[1]][0] if ranked[1:] else 0.0)
    context = where.about.union(*(s.stems for s in candidates if s.piece == where.piece))
    share = rarity.share(question.implied(context))
    if clear < _CLEAR or share < _COVERED:
        return None
    return ranked[0], (where,), round(min(0.9, 0.5 + clear), 3)


def _unit_that(
    question: Question, candidates: Sequence[_Sentence], evidence: Sequence[Evidence]
) -> _Stated | None:
    """The only unit of which a sentence says all that "Which clock was built in Graz?" asks."""
    is_open = question.negated or question.compares or question.which.endswith("s")
    is_short = len(question.content) < _FEWEST
    if is_open or is_short or question.words[:1] not in (("which",), ("what",)):
        return None
    noun = stem(question.which)
    # "What did Ann build?": the unit was built.
    is_object = not noun and not HELPING.isdisjoint(question.words[1:2])
    by_owner: dict[str, _Sentence] = {}
    for sentence in candidates:
        piece = evidence[sentence.piece]
        context = sentence.about.union(*(o.stems for o in candidates if o.piece == sentence.piece))
        is_kind = not noun or noun in THINGS | context
        has_all = every_stem(_RELATIVE.split(sentence.text)[0]) | {noun} >= set(question.content)
        is_owned = len(piece.owner_names) == 1 and not (piece.table or piece.section)
        # "What was the Blue Room before?" asks for no unit.
        has_order = TURNING.intersection(question.words) <= {*sentence.words}
        fits = is_kind and has_all and has_order and not sentence.is_vague
        if is_owned and fits and (not is_object or _DONE_BY.search(sentence.text)):
            by_owner.setdefault(piece.owner_names[0], sentence)
    if len(by_owner) != 1:
        return None
    ((name, where),) = by_owner.items()
    return name, (where,), 0.6


def _whole_sentence(
    question: Question,
    candidates: Sequence[_Sentence],
    evidence: Sequence[Evidence],
    *,
    is_named: bool,
) -> _Stated | None:
    """The sentence that says all that the question does, with a value of its type.

    It may say it in other words if the question names its unit.
    """
    content = frozenset(question.content) - question.unsaid
    if question.words[:1] == ("how",):  # the value answers "how long"
        content -= every_stem("".join(question.words[1:2]))
    content -= TYPE_NOUNS.intersection({stem(question.which)})  # and "on which day"
    is_short = len(content) < (1 if is_named else _FEWEST)
    # "Which is the largest cup?" asks for a unit.
    is_open = not question.which or not (is_named or stem(question.which) in TYPE_NOUNS)
    is_open = question.words[:1] == ("why",) or (is_open and "which" in question.words)
    if question.negated or question.compares or question.asks_way or is_short or is_open:
        return None

    def states(sentence: _Sentence) -> bool:
        is_vague = sentence.is_hedged if question.kind == "yes-no" else sentence.is_vague
        if not sentence.own or sentence.is_line or is_vague:
            return False
        stated = sentence.stems | sentence.about
        if question.kind == "yes-no":
            seems = _SEEMS.findall(sentence.text) if question.words[0] in ("is", "are") else ()
            return bool(content & sentence.stems) and content <= stated.difference(map(stem, seems))
        subject = question.every | question.names | sentence.about
        for clause in _clauses(question, sentence):
            other = _OF_OTHER.match(clause.text)
            is_about = content & clause.stems and not (
                other and not every_stem(other[1]) <= subject
            )
            if is_about and _has_value(question, clause, sentence):
                return content <= (question.implied(stated) if is_named else stated)
        return False

    stating = [sentence for sentence in candidates if states(sentence)]
    if len({evidence[sentence.piece].owner_names for sentence in stating}) != 1:
        return None
    best = max(stating, key=lambda sentence: len({*sentence.words}.intersection(question.words)))
    return best.text, (best,), 0.5


def _has_value(question: Question, clause: _Sentence, sentence: _Sentence) -> bool:
    """Whether a clause of a sentence can have what is asked for, whatever its form."""
    if _fresh(question, clause):
        return True
    first = question.words[0]
    if first == "when" or question.type == "date" or question.words[:2] == ("how", "often"):
        return _TIME.search(clause.text) is not None
    if first == "where":
        return _PLACED.search(clause.text) is not None
    if first == "who":
        verb = next((start for word, start, _ in clause.tokens if word == question.verb), 0)
        before, after = clause.text[:verb], clause.text[verb:]
        by, is_passive = after.partition(" by ")[2], _PASSIVE.search(before)
        agent = every_stem(by or ("" if is_passive else before))
        is_main = sentence.text.startswith(clause.text)
        return is_main and not agent <= question.every | question.names | _PRONOUNS
    complement = question.complement or ("", "")
    return first != "how" and question.type != "number" and complement[1] in ("", *clause.words)


def _clauses(question: Question, sentence: _Sentence) -> Iterator[_Sentence]:
    """The clauses of a sentence that are about the unit, as sentences."""
    if sentence.is_vague:
        return
    before, begins_other = "", False
    # "Carved from bone and horn" is one phrase.
    parts = [sentence.text] if question.complement else _CLAUSE.findall(sentence.text)
    for part in parts:
        subject = _OTHERS.match(part) or _OTHER_SUBJECT.match(part) or _POSSESSED.match(part)
        if subject:
            other = stem(subject[1]) not in question.every | question.names | question.answer_stems
        else:
            own = _SUBJECT.match(part) or not question.names.isdisjoint(map(stem, words(part)[:1]))
            other = (begins_other and not own) or _is_of_other(question, before)
        is_about = _is_verb_of_unit(question, before, part)
        other = other if is_about is None else not is_about
        begins_other = other and (begins_other or not before)
        if not other:
            yield replace(sentence, text=part)
        before += part


def _is_of_other(question: Question, before: str) -> bool:
    """Whether a relative clause is about another thing than the unit: "Karl Lind, who [died]"."""
    relative = _ENDS_RELATIVE.search(before)
    antecedent = before[: relative.start()] if relative else ""
    subject = question.every | question.names | question.answer_stems | _PRONOUNS
    *_, first, last = ["", "", *re.findall(r"[\w-]+", antecedent)]
    # "The Olt dam, which" is not the Tarn dam.
    is_named_else = first[:1].isupper() and every_stem(first).isdisjoint(subject)
    is_known = not every_stem(last).isdisjoint(subject) and not is_named_else
    return relative is not None and not is_known and not _IS_A.search(antecedent)


def _is_verb_of_unit(question: Question, before: str, part: str) -> bool | None:
    """Whether a part of a sentence says the verb of a question of its unit; None if undecided."""
    is_who = question.words[0] == "who"
    verb = question.complement[0] if question.complement else question.verb
    token = next((token for token in tokenize(part) if stem(token.folded) == verb), None)
    is_noun = not is_who and question.words[-2:-1] in (("the",), ("a",))  # "Where is the mill?"
    if not token or is_noun or {"do", "does", "can", "may"} & {*question.words}:
        return None
    before, after = before + part[: token.start], part[token.end :]
    if _INFINITIVE.search(before) and "to" not in question.words:
        return False
    done_to = _OBJECT.match(after) or _BEFORE_PARTICIPLE.search(before)
    if not done_to or "did" in question.words or _PASSIVE.search(before) or _IS_A.search(before):
        return None
    subject = question.names | _PRONOUNS | {*question.content}
    what = " ".join(re.findall(r"[A-Z]\w+", done_to["what"])) or done_to["what"]
    if not subject.isdisjoint(every_stem(what)):
        return (done_to.re is _OBJECT and not is_who) or None
    # "Soldiers burned the town" may be about the town of the text.
    return None if done_to["the"] and subject.isdisjoint(every_stem(before)) else False


def _may_state(question: Question, clause: _Sentence, value: Value) -> bool:
    """Whether a value in a clause may answer: it is about the unit, and about all that is asked."""
    # "How heavy?" is answered by "it weighs".
    rest = clause.text[: value.start] + clause.text[value.end :]
    covered = clause.stems | clause.about | question.implied(frozenset(map(stem, words(rest))))
    # "When did Ann visit the mill?" ends with no verb.
    is_whole = question.names or not HELPING.isdisjoint(question.words[1:2])
    needed = question.weights.keys() & (question.content if is_whole else {question.verb})
    return covered.issuperset(needed) and not clause.stems.isdisjoint(question.answer_stems)


def _fresh(question: Question, sentence: _Sentence) -> list[Value]:
    """Values of the type asked for that neither the question nor the name of its unit holds."""
    passive = "by" in sentence.words and "by" not in question.words and question.type == "person"
    # "Who hated Ann?": the name stands before the verb.
    verb = question.verb if question.words[:1] == ("who",) and not passive else ""
    last = max((start for word, start, _ in sentence.tokens if word == verb), default=None)
    rated = question.type == "money" and question.every.isdisjoint(_RATED)
    return [
        value
        for value in _values(question, sentence.text)
        if not passive or _AGENT.search(sentence.text[: value.start])
        if not passive or not re.match(r",? (?:and |& )?[A-Z]", sentence.text[value.end :])
        if last is None or value.start < last
        if not _BESIDE.search(sentence.text[: value.start])
        if not (rated and _RATE.match(sentence.text, value.end))
        if question.type != "person" or not sentence.text[: value.end].endswith(("'s", "’s"))
        # "40 passengers", "40 small boats"
        if question.counted in ("", *map(stem, words(sentence.text[value.end :])[:2]))
        if not frozenset(map(stem, words(sentence.text[slice(*value)])))
        <= question.every | question.names | question.answer_stems
    ]


def _values(question: Question, text: str) -> list[Value]:
    if question.complement:
        verb, preposition = question.complement
        tokens = [(stem(token.folded), token.folded, token.end) for token in tokenize(text)]
        return [
            Value(phrase.start("what"), phrase.end())
            for (before, _, _), (_, after, end) in pairwise(tokens)
            if (before, after) == (verb, preposition) and (phrase := _PHRASE.match(text, end))
        ]
    of_kind = find_kind(text, question.which) if question.which else []
    if of_kind or (question.type in ("", "name") and question.which):
        return of_kind
    return find_values(text, question.type or "name")


class Rarity:
    """The weights of a question's words among sentences, given as stems: rare words count more."""

    def __init__(self, question: Question, texts: Sequence[frozenset[str]]) -> None:
        counts = Counter(word for stems in texts for word in stems)
        # "How heavy" is answered by "it weighs" and "a weight of".
        meant = {label: 1.0 for way in question.ways[:1] for label in (*way.labels, *way.extra)}
        self._of = {
            word: weight * math.log(1 + (len(texts) + 1) / (counts[word] + 0.5))
            for word, weight in (meant | dict(question.weights)).items()
        }
        self._words = question.weights or meant
        if not question.weights:
            # Of the words of a way of asking, one is enough: "Where does it come from?"
            self._of = meant
        self._total = sum(self._of[word] for word in question.weights) or 1.0

    def share(self, covered: frozenset[str]) -> float:
        """Return the share of the question that stems have."""
        return sum(self._of[word] for word in self._words if word in covered) / self._total

    def near(self, sentence: _Sentence, value: Value) -> float:
        """Return the share of the question near to a value, less the further away it stands."""
        shares: dict[str, float] = {}
        for word, start, end in sentence.tokens:
            if word in self._of:
                away = max(0, start - value.end, value.start - end)
                shares[word] = max(shares.get(word, 0.0), self._of[word] / (1 + away / _HALF))
        return sum(shares.values()) / self._total


def _confirm(question: Question, sentence: _Sentence) -> _Stated | None:
    """Yes or no to "Is it waterproof?", where a sentence says that it is, or that it is not."""
    if not sentence.own or sentence.is_line or sentence.is_hedged:
        return None
    subject = sentence.words[:1] in (["it"], ["this"], ["they"], ["he"], ["she"]) or (
        frozenset(map(stem, sentence.words[:3])) & (question.names | sentence.about)
    )
    if not subject or question.negated or question.words[:1] not in (("is",), ("are",)):
        return None
    first = re.split(r"[,;:–—]|\b(?:and|but|or|which|that|while)\b", sentence.text)[0]
    match = _PREDICATE.fullmatch(first.strip(" .!"))
    if not match:
        return None
    what = words(match["what"])
    if TURNING.intersection(what) != TURNING.intersection(question.words):
        return None
    if [stem(word) for word in what if word not in stop_words()] != list(question.content):
        return None
    return "no" if match["no"] else "yes", (sentence,), 0.8


def _passages(candidates: Sequence[_Sentence], evidence: Sequence[Evidence]) -> Iterator[_Sentence]:
    """Yield sentences; those of documents with the one before and the one after."""
    for number, sentence in enumerate(candidates):
        piece = evidence[sentence.piece]
        if not piece.section:
            yield sentence
            continue
        beside = candidates[max(0, number - 1) : number + 2]
        near = [other for other in beside if other.piece == sentence.piece]
        start, end = near[0].start, near[-1].end
        text = " ".join(piece.text[start:end].split())
        yield replace(sentence, start=start, end=end, text=text)


# ---- the closest sentence -----------------------------------------------------------------------


def _closest(
    question: Question, candidates: Sequence[_Sentence], evidence: Sequence[Evidence], least: float
) -> ClosestSentence | None:
    """The sentence that shares most with the question, or has a value that it may ask for."""
    rarity = Rarity(question, [s.stems for s in candidates])
    best, most = None, 0.0
    for sentence in _passages(candidates, evidence):
        share = rarity.share(sentence.stems | sentence.about)
        if share:
            share += _FRESH * bool(question.type and _fresh(question, sentence))
        if share >= least and share > most:
            best, most = sentence, share
    return ClosestSentence(evidence[best.piece].label, best.text) if best else None
