"""Questions cut to the clause that asks: what only says which thing is meant is set apart."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from ku_rag.text.lexicon import Word, concepts, read_words, stem, word_list
from ku_rag.text.tokens import fold

WH = frozenset({"who", "whom", "whose", "what", "which", "when", "where", "why", "how"})
LEADS = frozenset(
    {"in", "on", "at", "of", "from", "to", "by", "with", "for", "since", "until", "under"}
)
AUXILIARIES = word_list("auxiliaries")
IMPERATIVES = word_list("imperatives")
_PLAIN = word_list("function words of questions") | AUXILIARIES | WH
FUNCTION = _PLAIN | {stem(word) for word in _PLAIN}
# What a picture may be said to show: "the country" points and asks nothing.
POINTED = word_list("pointed at")
RELATIVES = frozenset({"that", "which", "who", "whose", "whom", "where"})
_PARTICIPLES = word_list("clue participles")
_BARE_VERBS = word_list("verbs that may end a question")
_BE = {"is", "are", "was", "were"}
_PER_UNIT = {"gram", "g", "ml", "kg", "litr", "liter", "l", "portion", "serving", "capita", "year"}
_SIDES = (
    "on the left", "on the right", "in the middle", "in the picture", "in the photo",
    "in the image", "in the foreground", "in the background", "in front", "at the top",
    "at the bottom", "next to", "beside the", "behind the", "to the left", "to the right",
)  # fmt: skip


def interrogative(words: list[Word]) -> list[Word]:
    """The clause that asks: from its question word on, what leads up to it left out."""
    if not words:
        return []
    if len(words) > 3 and words[0].stem in AUXILIARIES and words[1].stem == "you":
        # "Can you tell me the capital?" asks for the capital.
        return _until_end(words[2:])
    starts = [0] + [
        i + 1 for i, w in enumerate(words) if w.text in ",;:.!?—–-" and i + 1 < len(words)
    ]
    for start in reversed(starts):
        at = start + (words[start].stem in LEADS and start + 1 < len(words))
        # A comma before "which" or "who" may open a relative clause, so the first word of the
        # text is asked last and a later one only counts where no question stands before it.
        if words[at : at + 1] and words[at].stem in WH and (start == 0 or not _asks(words[:start])):
            return _until_end(words[start:])
    return _until_end(words)


def _asks(words: list[Word]) -> bool:
    first = words[1 if words[0].stem in LEADS and len(words) > 1 else 0].stem
    return first in WH or first in AUXILIARIES or first in IMPERATIVES


def _until_end(words: list[Word]) -> list[Word]:
    for i, word in enumerate(words):
        if word.text in "?？":
            return words[:i]
    return words


def cut_clue(words: list[Word]) -> tuple[list[Word], list[Word]]:
    """Part the main clause from a clause that only says which thing is meant."""
    for i in range(1, len(words)):
        if not _opens_clue(words, i):
            continue
        end = _clue_end(words, i)
        return words[:i] + words[end:], words[i:end]
    return words, []


def cut_adjectives(words: list[Word]) -> tuple[list[Word], list[Word]]:
    """Part "European" off "the European country": it says which, and names nothing."""
    found = [
        i
        for i in range(1, len(words) - 1)
        if words[i].text[0].isupper()
        and words[i].stem not in FUNCTION
        and (words[i + 1].stem in POINTED or (i + 2 < len(words) and words[i + 2].stem in POINTED))
        and words[i + 1].text[0] not in "'’"
    ]
    return [w for i, w in enumerate(words) if i not in found], [words[i] for i in found]


def cut_rates(words: list[Word]) -> list[Word]:
    """Leave out "per 100 g": tables say it once, above."""
    for i, word in enumerate(words):
        if word.text.lower() in ("per", "in"):
            end = i + 1
            while end < len(words) and (
                words[end].text[0].isdigit() or words[end].stem in _PER_UNIT
            ):
                end += 1
            return words[:i] + words[end:] if end > i + 1 else words
    return words


def _opens_clue(words: list[Word], i: int) -> bool:
    word, before = words[i].text.lower(), words[i - 1]
    if i == 1 and before.stem in LEADS:
        return False
    if word in RELATIVES:
        # "that" after a noun; "does that country" and "is that" point.
        pointing = word == "that" and (before.stem in AUXILIARIES | LEADS | {"and", "of"})
        return not pointing and before.stem not in AUXILIARIES
    if word in _PARTICIPLES:
        return before.stem in POINTED
    if word in (
        "with",
        "beside",
        "behind",
        "between",
        "under",
        "near",
        "in",
        "on",
        "next",
        "to",
        "at",
    ):
        if before.stem not in POINTED:
            return False
        phrase = " ".join(w.text.lower() for w in words[i : i + 3])
        return word in ("with", "beside", "behind", "next") or phrase.startswith(_SIDES)
    return False


def _clue_end(words: list[Word], start: int) -> int:
    """Where the clue ends: before the verb that an earlier "does" or "has" still waits for."""
    commas = [i for i in range(start, len(words)) if words[i].text == ","]
    # The comma of "Washington, D.C." ends nothing.
    commas = [i for i in commas if i + 1 < len(words) and len(words[i + 1].text) > 1]
    comma = commas[0] if commas else len(words)
    if comma < len(words) - 1:
        return comma
    auxiliary = next(
        (i for i, w in enumerate(words[:start]) if w.stem in ("do", "did", "have", "can", "will")),
        None,
    )
    if auxiliary is None:
        passive = any(w.text.lower() in _BE for w in words[:start])
        waiting_for = passive and not any(map(_participle, words[:start]))
        if waiting_for and start + 2 < len(words) and _participle(words[-1]):
            return len(words) - 1
        return _possessive_end(words, start)
    waiting = [w for w in words[auxiliary + 1 : start] if w.stem in _verbs()]
    if waiting:
        return len(words)
    tail = [i for i in range(start + 2, len(words)) if words[i].text.lower() in _BARE_VERBS]
    return tail[-1] if tail else len(words)


def _participle(word: Word) -> bool:
    text = word.text.lower()
    return text.endswith("ed") or (text != word.stem and text.endswith(("en", "wn", "lt", "de")))


def _possessive_end(words: list[Word], start: int) -> int:
    """Where a possessive ends the clue: "the country that borders Spain's capital"."""
    for i in range(start + 1, len(words) - 1):
        if words[i].text in ("'s", "’s"):
            return i
    return len(words)


@lru_cache(maxsize=1)
def _verbs() -> frozenset[str]:
    return frozenset(map(stem, _BARE_VERBS))


def clue_stems(clue: list[Word]) -> list[str]:
    """The stems of the content words of a clue, each once."""
    return list(dict.fromkeys(word.stem for word in _content(clue)))


def _content(clue: list[Word]) -> list[Word]:
    plain = FUNCTION | RELATIVES | POINTED
    return [word for word in clue if word.text[0].isalnum() and word.stem not in plain]


class ClueWord(NamedTuple):
    """A word of what only says which thing is meant.

    Args:
        beginning: what its other forms begin with, folded.
        whole: the word itself, folded, where that is to be looked for first: a name or a base form.
            "Niger" is not Nigeria, "euro" is not Europe.
        kind: whether it says what kind of thing is told, as "border" and "capital" do.
    """

    beginning: str
    whole: str = ""
    kind: bool = False


def parted(question: str) -> tuple[str, list[ClueWord]]:
    """A question without what only says which thing is meant, and the words of that.

    "What is the capital of the African country that borders Spain?" → ("What is the capital of the
    country", words that begin with "border", "spain" and "afric"). An adjective loses its ending:
    it must begin as the noun does.
    """
    words = interrogative(read_words(question))
    main, clause = cut_clue(words)
    main, adjectives = cut_adjectives(main)
    clue = [_clue_word(word) for word in _content(clause)]
    roots = [fold(word.text) for word in _content(adjectives)]
    clue += [ClueWord(r[: max(4, len(r) - 2)] if r.endswith("n") else r) for r in roots]
    return " ".join(w.text for w in main), list({word.beginning: word for word in clue}.values())


def _clue_word(word: Word) -> ClueWord:
    folded, name = fold(word.text), word.text[0].isupper()
    kind = not name and word.stem in _kinds()
    whole = folded if name or (folded == word.stem and not kind) else ""
    return ClueWord(_beginning(word), whole, kind)


@lru_cache(maxsize=1)
def _kinds() -> frozenset[str]:
    """The words with which the lexicon asks for things and texts tell them."""
    return frozenset(
        stem
        for concept in concepts()
        for phrases in (concept.ask, concept.nouns, concept.before, concept.after)
        for phrase in phrases
        for stem in phrase
    )


def _beginning(word: Word) -> str:
    """What a word's other forms begin with: its stem, if that is a part of the word as written."""
    folded = fold(word.text)
    return word.stem if len(word.stem) > 3 and folded.startswith(word.stem) else folded
