"""Who did what to whom: the verb of a question looked for in a sentence, with its roles.

"Who built it?" asks for the one who acts, and finds it before an active verb ("Demag built it") or
after "by" ("it was built by Demag"). Each role that the question fills must be filled alike in the
sentence; the role that it leaves open is the answer.
"""

from __future__ import annotations

from collections.abc import Iterator

from ku_rag.answering import amounts, values
from ku_rag.answering.adjuncts import Adjuncts, Clause
from ku_rag.answering.groups import BE, Group, group_at, group_before, is_date, kinds_of
from ku_rag.answering.keys import Span
from ku_rag.answering.statements import Statement
from ku_rag.text.frames import Frame, frames
from ku_rag.text.lexicon import word_list
from ku_rag.text.question import Question

_NEGATIONS = word_list("negations")
_SUBJECT_PRONOUNS = {"it", "they", "he", "she", "this", "these", "which", "who", "that"}
_OBJECT_PRONOUNS = {"it", "them", "him", "her", "this", "these", "which", "that"}
_RELATIVE = {"which", "who", "that", "whom"}
_ADVERBS = {
    "sometimes",
    "always",
    "rarely",
    "soon",
    "later",
    "once",
    "again",
    "seldom",
    "first",
    "also",
    "now",
    "then",
    "still",
    "only",
    "not",
    "never",
    "today",
    "often",
}
_HAVE = {"has", "have", "had"}
_MODALS = {"can", "could", "must", "should", "may", "might", "will", "would"}
_EVENTS = word_list("events")
_SCORE = 0.93


def by_clause(asked: Question, statement: Statement, text: str) -> Iterator[Span]:
    """The answers that the clauses of a sentence give to the verb of a question."""
    wanted = frames(asked)
    if not wanted or statement.key:
        return
    reader = _Clauses(asked, statement, text)
    for frame in wanted:
        yield from reader.answers(frame)


class _Clauses(Adjuncts):
    """One sentence with its words."""

    def __init__(self, asked: Question, statement: Statement, text: str) -> None:
        super().__init__(statement.words, year_only=asked.type == "year")
        self.text = text
        self.kinds = asked.about | kinds_of(text, asked.about)
        self.stems = {w.stem for w in self.words}

    def answers(self, frame: Frame) -> Iterator[Span]:
        for verb, word in enumerate(self.words):
            if word.stem not in frame.verbs or self._is_noun(verb):
                continue
            clause = self._clause(verb)
            if clause is None:
                continue
            for value, score in self._values(frame, clause):
                answer = self._write(self._past_noun(frame, value))
                if answer:
                    yield Span(answer, score, told=self._told(frame, clause), acted=True)

    # -- the sentence's side

    def _is_noun(self, at: int) -> bool:
        before = self.lower[at - 1] if at else ""
        text = self.lower[at]
        if text.endswith("ing"):
            return not (at and before in BE)
        if at and self.words[at].text[0].isupper():
            return True
        return before in values.ARTICLES | {"its", "their", "his", "this", "of", "no"}

    def _clause(self, verb: int) -> Clause | None:
        first = verb
        passive = False
        while first > 0:
            text = self.lower[first - 1]
            if text in _NEGATIONS:
                return None
            if text in BE:
                passive = True
            elif text not in _HAVE | _MODALS | _ADVERBS and not text.endswith("ly"):
                break
            first -= 1
        after = verb + 1
        reduced = not passive and after < len(self.words) and self._reduced(verb, first)
        subject = self._subject(first, reduced=reduced)
        end = self._end(after)
        return Clause(verb, passive or reduced, subject, after, end)

    def _reduced(self, verb: int, first: int) -> bool:
        """Whether a participle stands without "was": "directed by", "Built in 1579, it"."""
        text = self.lower[verb]
        if text.endswith("s") or self.lower[verb] == self.words[verb].stem:
            return False
        before = self.lower[first - 1] if first else ","
        by = self.lower[verb + 1] == "by"
        return by or (before == "," and self.lower[verb + 1] in values.PREPOSITIONS)

    def _end(self, at: int) -> int:
        """Where the clause ends: at a mark, or before another clause."""
        for i in range(at, len(self.words)):
            text = self.lower[i]
            if text in ";:.()" or text in ("while", "but", "because", "although"):
                return i
            if text in ("which", "who", "where", "whose", "when") and i > at:
                return i
            if text == "and" and self._verb_follows(i + 1):
                return i
        return len(self.words)

    def _verb_follows(self, at: int) -> bool:
        if at + 1 >= len(self.words):
            return False
        here, nxt = self.lower[at], self.lower[at + 1]
        if self.words[at].stem in values.VERBS or here in _SUBJECT_PRONOUNS | BE | _HAVE:
            return True
        opening = nxt in values.ARTICLES | {"it", "its", "their", "his", "her", "them"}
        opening = opening or nxt[0].isdigit() or nxt in amounts.NUMBER_WORDS
        if here.endswith("ed") or (here.endswith("s") and self.words[at].text[0].islower()):
            plural = at > 1 and self.lower[at - 2].endswith("s")
            return opening or (nxt in values.PREPOSITIONS and not (here.endswith("s") and plural))
        return here != self.words[at].stem and opening and here.islower()

    def _subject(self, first: int, *, reduced: bool) -> Group | None:
        if first == 0:
            # "Built in 1579, it stands": the subject follows the comma.
            comma = next((i for i, t in enumerate(self.lower[:12]) if t == ","), None)
            return group_at(self.words, comma + 1) if reduced and comma is not None else None
        before = self.lower[first - 1]
        if before in _RELATIVE:
            at = first - 1 - (first > 1 and self.lower[first - 2] == ",")
            return group_before(self.words, at, nearest=True)
        if before == ",":
            apposed = self._apposed(first - 1)
            return apposed or group_at(self.words, 0)
        if before in ("and", "but", "or"):
            return self._main_subject(first - 1)
        found = group_before(self.words, first)
        if found and reduced:
            # "a stone bridge built by": said of what the sentence is about as well.
            head = self._main_subject(first)
            copula = {t for t in self.lower[: found.first] if t in BE}
            return head if head and copula else found
        return found

    def _main_subject(self, before: int) -> Group | None:
        at = 0
        if self.lower[0] in values.PREPOSITIONS:
            comma = next((i for i, t in enumerate(self.lower[:8]) if t == ","), None)
            if comma is not None:
                at = comma + 1
            else:
                pronoun = next(
                    (i for i, t in enumerate(self.lower[:before]) if t in _SUBJECT_PRONOUNS), None
                )
                return group_at(self.words, pronoun) if pronoun is not None else None
        return group_at(self.words, at)

    def _apposed(self, comma: int) -> Group | None:
        """The subject before ", Joe Finch," with its apposition."""
        opening = next((i for i in range(comma - 1, 0, -1) if self.lower[i] == ","), None)
        if opening is None or any(self.words[i].stem in values.VERBS for i in range(opening)):
            return None
        head = group_at(self.words, 0)
        return head and Group(head.first, comma, head.head)

    # -- the roles

    def _fits(self, wanted: frozenset[str], group: Group | None) -> bool:
        """Whether a group of the sentence is what the question has in this role."""
        if group is None:
            return not wanted
        text = self.lower[group.first]
        stems = {w.stem for w in self.words[group.first : group.last]}
        wanted = frozenset(s for s in wanted if s not in self.kinds)
        if wanted:
            return wanted <= stems
        if group.last == group.first + 1 and text in _SUBJECT_PRONOUNS | _OBJECT_PRONOUNS:
            return True
        if self.words[group.head].stem not in self.kinds and not stems <= self.kinds:
            return False
        # "the other bridge", "a second pump" are not the one that is meant.
        return not {"other", "another", "second", "next", "similar", "most"} & set(
            self.lower[group.first : group.last]
        )

    def _values(self, frame: Frame, clause: Clause) -> Iterator[tuple[Group, float]]:
        if not self._tail_fits(frame, clause):
            return
        if frame.slot == "agent":
            yield from self._agent(frame, clause)
        elif frame.slot == "object":
            yield from self._object(frame, clause)
        elif self._holder_fits(frame, clause):
            found = {
                "when": self.when,
                "where": self.where,
                "how long": self.how_long,
                "how often": self.how_often,
            }[frame.slot](clause)
            if found:
                yield found, _SCORE

    def _told(self, frame: Frame, clause: Clause) -> bool:
        """Whether the sentence itself says whom it speaks of, instead of a pronoun for them."""
        if frame.subject - self.kinds:
            return True
        subject = clause.subject
        pronoun = subject is not None and self.lower[subject.first] in _SUBJECT_PRONOUNS
        return not pronoun

    def _tail_fits(self, frame: Frame, clause: Clause) -> bool:
        """Whether the sentence holds all else that the question says."""
        return frame.tail <= self.stems | self.kinds

    def _holder_fits(self, frame: Frame, clause: Clause) -> bool:
        if frame.passive and not clause.passive:
            given = group_at(self.words, clause.after)
            intransitive = given is None and self._fits(frame.subject, clause.subject)
            return intransitive or (given is not None and self._fits(frame.subject, given))
        if not frame.passive and clause.passive:
            by = self._by(clause)
            return by is not None and self._fits(frame.subject, by)
        return self._fits(frame.subject, clause.subject)

    def _by(self, clause: Clause) -> Group | None:
        for at in range(clause.after, clause.end):
            if self.lower[at] == "by":
                every = group_at(self.words, at + 1, many=True)
                one = group_at(self.words, at + 1)
                named = every and all(
                    values.capital(w) or w.text.lower() in (",", "and", "&", "the")
                    for w in self.words[every.first : every.last]
                )
                return every if named else one
        return None

    def _agent(self, frame: Frame, clause: Clause) -> Iterator[tuple[Group, float]]:
        person = frame.who
        if clause.passive:
            by = self._by(clause)
            patient = clause.subject
            if by and not is_date(self.words, by) and self._fits(frame.subject, patient):
                yield self._person(by) if person else by, _SCORE
            return
        given = group_at(self.words, clause.after)
        if frame.prep:
            given = next(
                (
                    group_at(self.words, i + 1)
                    for i in range(clause.after, clause.end)
                    if self.lower[i] == frame.prep
                ),
                None,
            )
            if given is None:
                return
        elif not frame.subject and frame.bare:
            given = None
        if not (given is None and frame.bare) and not self._fits(frame.subject, given):
            return
        subject = clause.subject
        if subject is None or self.lower[subject.first] in _SUBJECT_PRONOUNS:
            return
        if person and self._happens(subject):
            return
        if self._fits(frozenset(), subject) and not frame.noun:
            # A thing is never the answer to who did something with it.
            return
        yield self._person(subject) if person else subject, _SCORE - 0.03

    def _happens(self, group: Group) -> bool:
        """Whether a group tells of an event, which is nobody: "the eruption closed it"."""
        head = self.lower[group.head]
        return head.endswith(("tion", "sion", "ness", "ity")) or head in _EVENTS

    def _object(self, frame: Frame, clause: Clause) -> Iterator[tuple[Group, float]]:
        if frame.prep:
            given = clause.subject
            if frame.passive and not clause.passive:
                given = group_at(self.words, clause.after)
            if not self._fits(frame.subject, given):
                return
            for at in range(clause.after, min(clause.after + 8, clause.end)):
                if self.lower[at] in frame.preps:
                    found = group_at(self.words, at + 1, many=True)
                    if found and not is_date(self.words, found):
                        yield found, _SCORE
                    return
            return
        if clause.passive or not self._fits(frame.subject, clause.subject):
            return
        at = clause.after
        if frame.renamed:
            # "Hunters call her the Queen": what it is called comes after whom they call so.
            who = group_at(self.words, at)
            at = who.last if who and self._fits(frozenset(), who) else len(self.words)
        found = group_at(self.words, at, many=True)
        if found and not is_date(self.words, found):
            single = found.last == found.first + 1
            if any(t.endswith("ing") for t in self.lower[found.first + 1 : found.last]):
                # "a maid pouring milk into a bowl" goes on to where it is poured.
                found = self._with_place(found)
            if not (single and self.lower[found.first] in _OBJECT_PRONOUNS):
                yield found, _SCORE

    def _with_place(self, group: Group) -> Group:
        at = group.last
        if at < len(self.words) and self.lower[at] in values.PREPOSITIONS:
            further = group_at(self.words, at + 1)
            return Group(group.first, further.last, group.head) if further else group
        return group

    # -- writing

    def _person(self, group: Group) -> Group:
        """The name in "the Irish writer Nora Quinn"; the whole group when it holds none."""
        last = group.last
        first = last
        if "and" in self.lower[group.first : last]:
            return group
        while first > group.first and (
            values.capital(self.words[first - 1])
            or self.lower[first - 1] in ("de", "van", "von", "&")
        ):
            first -= 1
        return Group(first, last, last - 1) if first < last else group

    def _past_noun(self, frame: Frame, group: Group) -> Group:
        """The name alone of "the band Night Ferry" when a band is asked for."""
        after = group.first + 1
        if after < group.last and self.words[group.first].stem in frame.noun:
            return Group(after, group.last, group.head) if self._capital(after) else group
        return group

    def _capital(self, at: int) -> bool:
        return values.capital(self.words[at])

    def _write(self, group: Group) -> str:
        if group.last <= group.first:
            return ""
        start, end = self.words[group.first].start, self.words[group.last - 1].end
        return " ".join(self.text[start:end].split())
