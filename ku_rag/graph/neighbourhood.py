"""The entities around one entity: a tree by hops, and the relations that run across it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from ku_rag import arguments
from ku_rag.graph.drawing_layout import Box
from ku_rag.graph.model import Entity, Graph, Step


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """A tree of entities.

    Args:
        nodes: the root, then the others, nearest first.
        across: relations between two of the entities that are not part of the tree.
        left_out: number of further entities within the same distance.
    """

    nodes: tuple[Box, ...]
    across: tuple[Step, ...]
    left_out: int

    def to_dict(self) -> dict[str, Any]:
        """The nodes by row, the root first; the relations between them; how many were left out."""
        steps = [step for node in self.nodes for step in (*node.steps, *node.loops)]
        return {
            "nodes": [
                {"row": e.row, "id": e.unit, "name": e.name, "kind": e.kind}
                for e in (node.entity for node in self.nodes)
            ],
            "edges": [
                {"head": s.head.row, "relation": s.relation, "tail": s.tail.row, "notes": s.notes}
                for s in (*steps, *self.across)
            ],
            "left_out": self.left_out,
        }


def neighbourhood(graph: Graph, entity: Entity, *, hops: int, most: int) -> Neighbourhood:
    """Collect the entities within some hops of one, against and along relations.

    If there are more than `most`, 1 to 200 with the root, the nearest come first. At equal
    distance, each relation of each entity contributes its first neighbour, then its second, and so
    on. `hops` is 1 or 2.
    """
    arguments.count(hops, "hops", least=1, most=2)
    arguments.count(most, "most", least=1, most=200)
    root = Box(entity)
    nodes = {entity.row: root}
    left_out: set[int] = set()

    level = [root]
    for _ in range(hops):
        offers: list[tuple[int, Box, Entity, list[Step]]] = []
        for node in level:
            reached: dict[int, tuple[Entity, list[Step]]] = {}
            for step in graph.hop(node.entity, direction="both"):
                other = step.other(node.entity)
                if other.row not in nodes:
                    reached.setdefault(other.row, (other, []))[1].append(step)
            turns: Counter[tuple[str, bool]] = Counter()
            for other, steps in reached.values():
                way = steps[0].relation, steps[0].tail.row == other.row
                offers.append((turns[way], node, other, steps))
                turns[way] += 1
        for _, node, other, steps in sorted(offers, key=lambda offer: offer[0]):
            if other.row not in nodes and len(nodes) < most:
                nodes[other.row] = Box(other, tuple(steps))
                node.children.append(nodes[other.row])
            elif other.row not in nodes:
                left_out.add(other.row)
        for node in level:
            words = list(dict.fromkeys(child.steps[0].relation for child in node.children))
            node.children.sort(key=lambda child: words.index(child.steps[0].relation))
        level = [child for node in level for child in node.children]
    in_tree = {step.row for node in nodes.values() for step in node.steps}
    across: list[Step] = []
    for row, node in nodes.items():
        steps = [step for step in graph.hop(node.entity) if step.tail.row in nodes]
        node.loops = tuple(step for step in steps if step.tail.row == row)
        across += [step for step in steps if step.tail.row != row and step.row not in in_tree]
    return Neighbourhood(tuple(nodes.values()), tuple(across), len(left_out))
