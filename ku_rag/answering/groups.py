"""Noun groups of a sentence: where one begins and ends, its head, and what kind of thing it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from ku_rag.answering import amounts, values
from ku_rag.text.lexicon import Word, read_words, word_list

BE = frozenset({"is", "are", "was", "were", "be", "been", "being"})
_MARKS = set(".;:!?()[]{}—–…") | {'"', "“", "”"}
_CLAUSE = word_list("clause openers") | {"that"}
_PRONOUNS = {"it", "they", "he", "she", "them", "him", "her", "this", "these"}
_OWNING = {"its", "their", "his", "her", "our"}
_PREPOSITIONS = values.PREPOSITIONS - {"than", "like"} | {"of", "towards", "onto", "upon", "below"}
_PREPOSITIONS |= {"around", "above", "behind", "beside", "beneath", "throughout", "inside"}
_PREPOSITIONS |= {"outside", "via", "despite", "unlike", "toward", "after", "before"}
_TIMES = {"night", "day", "dawn", "dusk", "noon", "summer", "winter", "spring", "autumn", "first"}
# What anything may be called when it is pointed at: "the object", "the creature".
GENERIC = word_list("words for any kind of thing")
_AUXILIARY = BE | {"has", "have", "had", "can", "must", "will", "may", "should", "do", "does"}


@dataclass(frozen=True, slots=True)
class Group:
    """A noun group as word indices.

    Args:
        first: its first word, without article.
        last: the index after its last word.
        head: the noun that it is about.
    """

    first: int
    last: int
    head: int


def group_at(
    words: Sequence[Word], at: int, *, many: bool = False, place: bool = False
) -> Group | None:
    """The noun group that begins at `at`.

    Args:
        words: of the sentence.
        at: where it begins; articles and "about" are left out.
        many: go on over a list: "insects, worms and berries".
        place: go on over further places: "a tomb near Kaesong".
    """
    at = _begin(words, at)
    if at >= len(words):
        return None
    text = words[at].text.lower()
    if text in _PRONOUNS and not (text in _OWNING and _noun_at(words, at + 1)):
        return Group(at, at + 1, at)
    at += text in _OWNING
    if not _noun_at(words, at):
        return None
    end = head = _single_end(words, at)
    head -= 1
    while end < len(words):
        joined = words[end].text.lower()
        if joined == "of" or (place and joined in ("in", "near", "at", "on")):
            start = end + 1
            while start < len(words) and words[start].text.lower() in values.ARTICLES | _OWNING:
                start += 1
            timed = start < len(words) and words[start].text.lower() in _TIMES
            if timed or amounts.date(words, start) or not _noun_at(words, start):
                break
            end = _single_end(words, start)
        elif many and joined in (",", "and", "or", "&"):
            further = _member_end(words, end)
            if further == end:
                break
            end = further
        else:
            break
    return Group(at, end, head)


def _begin(words: Sequence[Word], at: int) -> int:
    """The index after articles and the like, and after "what is now"."""
    while at < len(words) and words[at].text.lower() in (values.SKIPPED - {"one"} | {"all"}):
        at += 1
    past = [w.text.lower() for w in words[at : at + 3]] == ["what", "is", "now"]
    return at + 3 if past else at


def _noun_at(words: Sequence[Word], at: int) -> bool:
    if at >= len(words):
        return False
    text = words[at].text.lower()
    plain = text[0].isalnum() and text not in _PREPOSITIONS | _CLAUSE | _AUXILIARY | values.ARTICLES
    return plain and text not in ("and", "or", "not", "no")


def _single_end(words: Sequence[Word], at: int) -> int:
    end = at + 1
    while end < len(words):
        text = words[end].text.lower()
        dotted = text == "." and end + 1 < len(words) and len(words[end - 1].text) == 1
        company = text == "&" and end + 1 < len(words) and values.capital(words[end + 1])
        if company or text in ("'s", "’s") or (dotted and values.capital(words[end + 1])):
            end += 1
            continue
        if text in _MARKS | _PREPOSITIONS | _CLAUSE | _AUXILIARY | {",", "and", "or", "to", "&"}:
            break
        if text in values.ARTICLES | _PRONOUNS | {"then", "there", "today", "every", "by"}:
            break
        if not text[0].isalnum():
            break
        if _participle(words, end) and not values.capital(words[end]):
            break
        end += 1
    return end


def _participle(words: Sequence[Word], at: int) -> bool:
    """Whether a clause without its verb follows: "a maid pouring", "a bridge built in"."""
    text = words[at].text.lower()
    after = words[at + 1].text.lower() if at + 1 < len(words) else "."
    irregular = not text.endswith("s") and words[at].stem[:4] != text[:4] and "our" not in text
    ending = text.endswith(("ed", "en")) or words[at].stem in values.VERBS or irregular
    counted = after[0].isdigit() or after in amounts.NUMBER_WORDS
    if text.endswith(("s", "ed")) and (after in values.ARTICLES | _OWNING | _PRONOUNS or counted):
        # "the mirror weighs 640 grams", "it closed the port"
        return True
    if text.endswith("s") and values.capital(words[at - 1]) and after in _PREPOSITIONS:
        # "The Slime King attacks with"
        return True
    return ending and (after in _PREPOSITIONS | values.ARTICLES | {".", ",", "it"})


def _member_end(words: Sequence[Word], at: int) -> int:
    """Where the next member of a list ends; `at` itself when no member follows."""
    start = at
    comma = words[start].text == ","
    while start < len(words) and words[start].text.lower() in (",", "and", "or", "&"):
        start += 1
    while start < len(words) and words[start].text.lower() in values.ARTICLES | _OWNING:
        start += 1
    if not _noun_at(words, start) or words[start].text.lower() in _PRONOUNS:
        return at
    if words[start].stem in values.VERBS and not values.capital(words[start]):
        return at
    end = _single_end(words, start)
    after = words[end].text.lower() if end < len(words) else "."
    if after in _AUXILIARY or (end < len(words) and words[end].stem in values.VERBS):
        return at
    if after in values.ARTICLES | _PRONOUNS | {"every"}:
        # "and won the prize", "and breathes it".
        return at
    first = words[start].text.lower()
    single = not words[at - 1].text.endswith("s")
    if end > start + 1 and single and first.endswith("s") and not first.endswith("ss"):
        # "acid and summons slimes": another verb.
        return at
    if first.endswith("ed") and end == start + 1 and after in _PREPOSITIONS:
        return at
    if first.endswith("s") and after in _PREPOSITIONS and not words[at - 1].text.endswith("s"):
        return at
    if comma and words[at].text == "," and not _list_goes_on(words, at, end):
        return at
    return end


def _list_goes_on(words: Sequence[Word], comma: int, end: int) -> bool:
    """Whether commas part a list: an "and" or "or" must close it."""
    if words[comma + 1].text.lower() in ("and", "or"):
        return True
    while end < len(words) and words[end].text == ",":
        start = end + 1
        if start < len(words) and words[start].text.lower() in ("and", "or"):
            return True
        if not _noun_at(words, start):
            return False
        end = _single_end(words, start)
    return end < len(words) and words[end].text.lower() in ("and", "or")


def group_before(words: Sequence[Word], end: int, *, nearest: bool = False) -> Group | None:
    """The noun group that ends right before `end`: the subject of the verb there.

    Args:
        words: of the sentence.
        end: index of the word after it.
        nearest: whether "by X, who" means X alone, and not the whole that X belongs to.
    """
    start = end
    while start > 0:
        text = words[start - 1].text.lower()
        if text in _MARKS | {","} or text in _CLAUSE or text in BE:
            break
        if text in ("and", "or") and _verb_before(words, start - 1):
            break
        if nearest and start < end and text in _PREPOSITIONS - {"of"}:
            break
        start -= 1
    if start == end:
        return None
    if words[end - 1].text.lower() in _PRONOUNS:
        return Group(end - 1, end, end - 1)
    articles = [
        i
        for i in range(start + 1, end)
        if words[i].text.lower() in values.ARTICLES
        and words[i - 1].text.lower() not in _PREPOSITIONS | {"and", "or"}
    ]
    if articles:
        # "Every August the town celebrates": the time before it is no part of the subject.
        start = articles[-1]
    if words[start].text.lower() in _PREPOSITIONS:
        # "On 14 March 2024 the Elbe burst": what leads up to the subject is left out.
        starts = [i for i in range(start, end) if words[i].text.lower() in values.ARTICLES]
        if not starts:
            return None
        start = starts[-1]
    return group_at(words[:end], start, many=True)


def _verb_before(words: Sequence[Word], at: int) -> bool:
    return any(w.stem in values.VERBS or w.text.lower().endswith("ed") for w in words[:at])


def is_date(words: Sequence[Word], group: Group) -> bool:
    """Whether a group only says when."""
    return amounts.date(words, group.first) is not None


def kinds_of(text: str, about: frozenset[str]) -> frozenset[str]:
    """What kinds of thing a text says that its subject is: "Foxglove is a biennial plant"."""
    return _kinds(text[:400], about)


@lru_cache(maxsize=64)
def _kinds(text: str, about: frozenset[str]) -> frozenset[str]:
    words = read_words(text)
    group = described(words, about)
    return frozenset({words[group.head].stem}) if group else frozenset()


def described(words: Sequence[Word], about: frozenset[str]) -> Group | None:
    """The group that says what kind of thing the subject is: "a biennial plant"."""
    for at, word in enumerate(words[:-2]):
        if word.text.lower() in ("is", "are", "was", "were") and at and at < 14:
            article = words[at + 1].text.lower() in ("a", "an", "the", "one")
            subject = {w.stem for w in words[:at]}
            return group_at(words, at + 1) if article and subject & about else None
    return None


def stands_for(stem: str, kinds: frozenset[str]) -> bool:
    """Whether "the bird" may mean something of one of the kinds, such as a songbird."""
    return stem in GENERIC or any(kind.endswith(stem) and len(stem) > 2 for kind in kinds)
