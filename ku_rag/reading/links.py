"""Relations and facts of the entities that a question mentions, and what it asks of each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ku_rag.graph.model import Direction, Entity, Graph, Path, Step
from ku_rag.graph.traversal import step_stems
from ku_rag.graph.unit_facts import FactReader
from ku_rag.reading.answers import CLASSES, IGNORED, fits_type, own_stems
from ku_rag.text.question import AUXILIARIES, THINGS, Question, meant_by_label
from ku_rag.text.stems import stem, stems
from ku_rag.text.tokens import words

_PLACED = 900
"""Rank of a relation if the question has only its preposition: "at the mill"."""
MOST_STEPS = 2000
"""Relations of an entity that are read, in each direction."""
ALIKE = frozenset(words("same share common both"))
_PREPOSITIONS = frozenset(words("by of for with to in at on from"))
_DETERMINERS = frozenset(words("the a an its his her their s what which"))  # "s": "Ann's driver"
_FOR_HEAD = re.compile(r"(whose|^wh\w+ \w+ s|^of wh.* the|(?<!have| has| had) as( \w+)?)$")


@dataclass(frozen=True, slots=True)
class EntityMention:
    """A part of a question that names entities, or what its picture shows, at -1."""

    entities: tuple[Entity, ...]
    at: int
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Link:
    """A relation or a fact of a mentioned entity.

    Args:
        is_asked: whether the question asks for the relation.
        fits: whether it asks in the direction of this end.
        suits: whether the end can be of the type that is asked for.
        left: content words of the question that it does not account for.
        rank: how well its label answers; 0 is best.
        unsaid: words that need not be accounted for, and are not.
        spoken: content words that it accounts for.
    """

    step: Step
    start: Entity
    is_asked: bool
    fits: bool
    suits: bool
    left: frozenset[str]
    rank: int
    unsaid: frozenset[str]
    spoken: frozenset[str]

    @property
    def end(self) -> Entity:
        """The other entity."""
        return self.step.other(self.start)

    @property
    def path(self) -> Path:
        """The relation alone, from its head."""
        return Path(self.step.head, (self.step,))

    def is_only(self, links: Sequence[Link]) -> bool:
        """Return whether no other link has the same relation."""
        return [link.step.relation for link in links].count(self.step.relation) == 1


@dataclass(frozen=True, slots=True)
class LinkReader:
    """Reads the links of one question; its mentions are in order."""

    graph: Graph
    facts: FactReader
    question: Question
    mentions: Sequence[EntityMention]

    def steps(self, entity: Entity, direction: Direction = "out") -> list[Step]:
        """Return the relations of an entity, and its facts."""
        hops = self.graph.hop(entity, MOST_STEPS, direction=direction)
        return [*hops, *self.facts.of_unit(entity)]

    def of_mention(self, mention: EntityMention) -> list[Link]:
        """Return the links that the question asks for, or else those that it may be about."""
        links = [
            self.link(mention, step, entity)
            for entity in mention.entities
            for step in self.steps(entity, "both")
        ]
        content = frozenset(self.question.content)
        # "In charge of" does not tell the direction of "leads".
        outs = {link.step.relation for link in links if link.step.head == link.start}
        links = [
            replace(link, fits=link.step.head == link.start or link.step.relation not in outs)
            if link.rank
            else link
            for link in links
        ]
        # "Which monsters have Fire as a weakness?": the kind of the end tells the direction.
        requested = [link for link in links if link.is_asked and link.fits]
        if any(link.suits for link in requested):
            return requested
        links = [link for link in links if link.suits]
        spoken = {link.step.relation for link in links if link.spoken and not link.is_asked}
        return requested + (
            [link for link in links if link.is_asked and stems(link.end.kind) & content]
            or [link for link in links if not link.is_asked and link.step.relation in spoken]
            or [link for link in links if frozenset() < stems(link.step.relation) <= CLASSES]
        )

    def link(self, mention: EntityMention, step: Step, entity: Entity) -> Link:
        """Return what the question asks of a relation or a fact of a mentioned entity."""
        question, end = self.question, step.other(entity)
        relation, content = own_stems(step.relation), frozenset(question.content)
        before = question.words[max(mention.at, 1) - 1]
        agents = not step.has_value or question.type == "person" or question.kind == "yes-no"
        answered = question.remaining(relation, agents=agents, values=step.has_value)
        if answered and answered[0] and step.has_value and before == "from":
            answered = None  # "What comes from Ann?" does not ask where Ann is
        if answered is None and not step.has_value and self._is_placed(mention, step, entity):
            answered = _PLACED, content
        is_asked = answered is not None or (relation <= question.every and not step.has_value)
        left = answered[1] if answered else content if is_asked else content - covered(step)
        is_alike = len(self.mentions) > 1 and not ALIKE.isdisjoint(question.words)
        left -= stems(end.kind) | stems(step.relation)
        is_named = question.kind == "value" and content - left - question.unsaid - question.verbs
        unsaid = left & (question.unsaid | THINGS | (IGNORED if is_alike else frozenset()))
        unsaid |= left & question.verbs if is_named else frozenset()
        spoken = content - left
        left -= unsaid | stems(f"{entity.name} {entity.kind}")
        unsaid -= THINGS
        left |= question.turns - self.turns_of(step)
        own, stemmed = [*map(stem, words(step.relation))], [*map(stem, question.words)]
        places = [n for n in range(len(stemmed)) if stemmed[: n + 1][-len(own) :] == own]
        places = places or [n for n, word in enumerate(stemmed) if word in relation]
        exact = bool(places)
        places = places or [n for n, word in enumerate(stemmed) if word in spoken]
        at = min(places, key=lambda n: abs(n - mention.at), default=-1)
        if "next" in own and question.words[at + 1 : mention.at] == ("before",):
            left -= {"before"}
        out = _asks_for_tail(question.words, mention, at, step.relation, verb=exact)
        after = {*question.words[at + 1 : at + 2], *words(step.relation)[-1:]} & _PREPOSITIONS
        fits = step.has_value or out == (step.head.row == entity.row)
        is_noun = not _DETERMINERS.isdisjoint(question.words[max(0, at - len(own)) : at])
        if exact and (len(after - {"to"}) > 1 or (is_noun and not fits)):
            # "Made of" is not "made by"; "the driver of Ann" is not the person that Ann drives.
            is_asked, left, spoken = False, content, frozenset[str]()
        suits = fits_type(question, step, end)
        rank = answered[0] if answered else 0
        return Link(step, entity, is_asked, fits, suits, left, rank, unsaid, spoken)

    def _is_placed(self, mention: EntityMention, step: Step, entity: Entity) -> bool:
        """Whether a preposition alone asks for a relation: "at the mill" for "seen at"."""
        before = [word for word in self.question.words[: max(mention.at, 0)][-2:] if word != "the"]
        last = words(step.relation)[-1:]
        return (
            step.tail.row == entity.row and before[-1:] == last != [] and last[0] in _PREPOSITIONS
        )

    def turns_of(self, step: Step) -> frozenset[str]:
        """Return the words of a relation, and "after" if the question says it of that."""
        label, text = " ".join(words(step.relation)), " ".join(self.question.words)
        is_after = text.startswith("after ") or f"{label} after" in text
        return frozenset(words(f"{label} after" if is_after else label))


def _asks_for_tail(
    folded: Sequence[str], mention: EntityMention, at: int, relation: str, *, verb: bool
) -> bool:
    """Whether the end of a relation is asked for: "What does the hall stand in?"."""
    own = words(relation)
    lead = " ".join(folded[: max(0, at + 1 - len(own))]) if verb else ""
    if at < 0 or (mention.at < 0 and not verb):
        out = True
    elif _FOR_HEAD.search(lead):
        out = False
    elif at < mention.at:
        joining = AUXILIARIES | {"of", "after"} | (_PREPOSITIONS if lead[-4:] == " the" else set())
        out = not joining.isdisjoint(set(folded[at + 1 : mention.at]).difference(own))
    else:
        joined = folded[at + 1 : at + 2] if verb and mention.at >= 0 else ()
        out = {"of", "after"}.isdisjoint((*joined, folded[-1])) or own[-1] in ("of", "after")
    return not out if verb and own[-1] == "by" and "by" not in folded else out


def covered(step: Step) -> frozenset[str]:
    """Return the stems that a relation answers for: its ends', its own, and those of its label."""
    return step_stems(step) | stems(step.tail.kind) | meant_by_label(stems(step.relation))
