"""Relations and facts of the entities that a question mentions, and what it asks of each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ku_rag.graph.model import Direction, Entity, Graph, Path, Step
from ku_rag.graph.traversal import step_stems
from ku_rag.graph.unit_facts import FactReader
from ku_rag.reading.answers import CLASSES, IGNORED, SOFT, TURNS, fits_type, own_stems
from ku_rag.text.question import AUXILIARIES, Question, meant_by_label
from ku_rag.text.stems import stem, stems
from ku_rag.text.tokens import words

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
        step: the relation.
        start: the mentioned entity.
        is_asked: whether the question asks for the relation.
        fits: whether it asks in the direction of this end.
        left: content words of the question that it does not account for.
        rank: how well its label answers; 0 is best.
    """

    step: Step
    start: Entity
    is_asked: bool
    fits: bool
    left: frozenset[str]
    rank: int = 0

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
        return [one.step.relation for one in links].count(self.step.relation) == 1


@dataclass(frozen=True, slots=True)
class LinkReader:
    """Reads the links of one question.

    Args:
        graph: The graph.
        facts: Of the same base.
        asked: The question.
        mentions: What it mentions, in order.
    """

    graph: Graph
    facts: FactReader
    asked: Question
    mentions: Sequence[EntityMention]

    def steps(self, entity: Entity, direction: Direction = "out") -> list[Step]:
        """Return the relations of an entity, and its facts."""
        hops = self.graph.hop(entity, MOST_STEPS, direction=direction)
        return [*hops, *self.facts.of_unit(entity)]

    def of_mention(self, mention: EntityMention) -> list[Link]:
        """Return the links that the question asks for, or else those that it may be about."""
        found = [
            self.link(mention, step, entity)
            for entity in mention.entities
            for step in self.steps(entity, "both")
        ]
        content = frozenset(self.asked.content)
        # "Which monsters have Fire as a weakness?": the kind of the end tells the direction.
        return (
            [one for one in found if one.is_asked and one.fits]
            or [one for one in found if one.is_asked and stems(one.end.kind) & content]
            or [one for one in found if not one.is_asked and one.left < content]
            or [one for one in found if stems(one.step.relation) <= CLASSES]
        )

    def link(self, mention: EntityMention, step: Step, entity: Entity) -> Link:
        """Return what the question asks of a relation or a fact of a mentioned entity."""
        asked, end = self.asked, step.other(entity)
        relation, content = own_stems(step.relation), frozenset(asked.content)
        answered = asked.remaining(relation, agents=not step.has_value or asked.type == "person")
        is_asked = answered is not None or (relation <= asked.every and not step.has_value)
        left = answered[1] if answered else content if is_asked else content - covered(step)
        is_alike = len(self.mentions) > 1 and not ALIKE.isdisjoint(asked.said)
        left -= stems(end.kind) | (IGNORED if is_alike else SOFT)
        spoken = content - left
        left |= TURNS.intersection(asked.said) - self.turns_of(step)
        own, stemmed = [*map(stem, words(step.relation))], [*map(stem, asked.said)]
        places = [n for n in range(len(stemmed)) if stemmed[: n + 1][-len(own) :] == own]
        places = places or [n for n, word in enumerate(stemmed) if word in relation]
        exact = bool(places)
        places = places or [n for n, word in enumerate(stemmed) if word in spoken]
        at = min(places, key=lambda n: abs(n - mention.at), default=-1)
        if "next" in own and asked.said[at + 1 : mention.at] == ("before",):
            left -= {"before"}
        out = _asks_for_tail(asked.said, mention, at, step.relation, verb=exact)
        after = {*asked.said[at + 1 : at + 2], *words(step.relation)[-1:]} & _PREPOSITIONS
        fits = step.has_value or out == (step.head.row == entity.row)
        is_noun = not _DETERMINERS.isdisjoint(asked.said[max(0, at - len(own)) : at])
        if (exact and (len(after) > 1 or (is_noun and not fits))) or not fits_type(
            asked, step, end
        ):
            # "Made of" is not "made by"; "the driver of Ann" is not the person that Ann drives.
            is_asked, left = False, content
        return Link(step, entity, is_asked, fits, left, answered[0] if answered else 0)

    def turns_of(self, step: Step) -> frozenset[str]:
        """Return the words of a relation, and "after" if the question says it of that."""
        label, said = " ".join(words(step.relation)), " ".join(self.asked.said)
        is_after = said.startswith("after ") or f"{label} after" in said
        return frozenset(words(f"{label} after" if is_after else label))


def _asks_for_tail(
    said: Sequence[str], mention: EntityMention, at: int, relation: str, *, verb: bool
) -> bool:
    """Whether what a relation of a mentioned entity leads to is asked for, not what leads to it.

    "What does the hall stand in?" and "the height of the hall", but "What stands in the hall?".
    """
    own = words(relation)
    lead = " ".join(said[: max(0, at + 1 - len(own))]) if verb else ""
    if at < 0 or (mention.at < 0 and not verb):
        out = True
    elif _FOR_HEAD.search(lead):
        out = False
    elif at < mention.at:
        joining = AUXILIARIES | {"of", "after"} | (_PREPOSITIONS if lead[-4:] == " the" else set())
        out = not joining.isdisjoint(set(said[at + 1 : mention.at]).difference(own))
    else:
        joined = said[at + 1 : at + 2] if verb and mention.at >= 0 else ()
        out = {"of", "after"}.isdisjoint((*joined, said[-1])) or own[-1] in ("of", "after")
    return not out if verb and own[-1] == "by" and "by" not in said else out


def covered(step: Step) -> frozenset[str]:
    """Return the stems that a relation answers for: its ends', its own, and those of its label."""
    return step_stems(step) | stems(step.tail.kind) | meant_by_label(stems(step.relation))
