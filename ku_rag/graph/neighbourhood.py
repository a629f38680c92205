"""What lies around an entity, as far as a drawing has room for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import zip_longest

from ku_rag.graph.model import Entity, Graph, Step


@dataclass(slots=True)
class Node:
    """An entity of a neighbourhood, and those that it brings in.

    Args:
        entity: which.
        steps: the relations between it and the one that brings it in, in both directions.
        nodes: those that it brings in, in the order in which the relations were stated.
        loops: relations from it to itself.
        left_out: how many it would bring in by a kind of relation, and does not.
    """

    entity: Entity
    steps: tuple[Step, ...] = ()
    nodes: list[Node] = field(default_factory=list)
    loops: tuple[Step, ...] = ()
    left_out: Counter[tuple[str, bool]] = field(default_factory=Counter)

    def all(self) -> Iterator[Node]:
        """This one and all below it."""
        yield self
        for node in self.nodes:
            yield from node.all()


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """A tree of entities around one, and the relations that run across it.

    Args:
        root: the entity in the middle.
        across: relations between entities of the tree neither of which brings in the other.
        left_out: how many entities were found and had no room.
    """

    root: Node
    across: tuple[Step, ...]
    left_out: int

    @property
    def relations(self) -> int:
        """How many relations are drawn."""
        return len(self.across) + sum(len(n.steps) + len(n.loops) for n in self.root.all())


def way(step: Step, here: Entity) -> tuple[str, bool]:
    """How a relation looks from one of its ends: (relation, whether it leaves)."""
    return step.relation, step.head.row == here.row


def around(graph: Graph, entity: Entity, *, hops: int, most: int) -> Neighbourhood:
    """The entities within some relations of one, whichever way these run.

    Where there are more than `most`, those nearest come first, and of the equally near each kind of
    relation of each entity has its turn.

    Args:
        graph: the graph.
        entity: the one in the middle.
        hops: 1 or 2 relations.
        most: entities, this one among them.

    Raises:
        Corrupt: a relation fails its checksum.
    """
    root = Node(entity)
    leaving = cache(graph.hop)
    there = {entity.row: root}
    found: set[int] = set()
    level = [root]
    for _ in range(hops):
        offers = [
            _offers(node, leaving(node.entity), graph.into(node.entity), there) for node in level
        ]
        chosen = _choose(list(zip(level, offers, strict=True)), most - len(there))
        for node, offered in zip(level, offers, strict=True):
            for row, steps in offered.items():
                if chosen.get(row) is node:
                    there[row] = Node(_other(steps[0], node.entity), tuple(steps))
                    node.nodes.append(there[row])
        for node, offered in zip(level, offers, strict=True):
            left = [(row, steps) for row, steps in offered.items() if row not in there]
            node.left_out.update(way(steps[0], node.entity) for _, steps in left)
            found.update(row for row, _ in left)
        level = [inner for node in level for inner in node.nodes]
    return Neighbourhood(root, _across(leaving, root, there), len(found - there.keys()))


def _other(step: Step, here: Entity) -> Entity:
    return step.tail if step.head.row == here.row else step.head


_Offers = dict[int, list[Step]]
"""Row of an entity → the relations between it and the one that would bring it in."""


def _offers(
    node: Node, leaving: Sequence[Step], coming: Sequence[Step], there: Mapping[int, Node]
) -> _Offers:
    found: _Offers = {}
    for step in (*leaving, *coming):
        row = _other(step, node.entity).row
        if row not in there:
            found.setdefault(row, []).append(step)
    return found


def _choose(offers: Sequence[tuple[Node, _Offers]], room: int) -> dict[int, Node]:
    """Row of an entity → who brings it in; each kind of relation of each has its turn."""
    turns = []
    for node, offered in offers:
        kinds: dict[tuple[str, bool], list[tuple[int, Node]]] = {}
        for row, steps in offered.items():
            kinds.setdefault(way(steps[0], node.entity), []).append((row, node))
        turns.append(_in_turn(kinds.values()))
    chosen: dict[int, Node] = {}
    for row, node in _in_turn(turns):
        if len(chosen) >= room:
            break
        chosen.setdefault(row, node)
    return chosen


def _in_turn(lists: Iterable[Iterable[tuple[int, Node]]]) -> Iterator[tuple[int, Node]]:
    """One of each list, then the next of each, until all are through."""
    for tier in zip_longest(*lists):
        yield from (one for one in tier if one is not None)


def _across(
    leaving: Callable[[Entity], Sequence[Step]], root: Node, there: Mapping[int, Node]
) -> tuple[Step, ...]:
    """Fill in the loops of all nodes; returns what the tree itself does not hold."""
    held = {step.row for node in root.all() for step in node.steps}
    across = []
    for node in root.all():
        steps = [step for step in leaving(node.entity) if step.tail.row in there]
        node.loops = tuple(step for step in steps if step.tail.row == node.entity.row)
        across += [
            step for step in steps if step.row not in held and step.tail.row != node.entity.row
        ]
    return tuple(across)
