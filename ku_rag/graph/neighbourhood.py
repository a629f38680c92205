"""The entities around one entity: a tree by hops, and the relations that run across it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ku_rag.graph.drawing_layout import Box
from ku_rag.graph.model import Entity, Graph, Path, Step
from ku_rag.graph.traversal import Offer, traverse


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


def neighbourhood(graph: Graph, entity: Entity, *, hops: int, most: int) -> Neighbourhood:
    """Collect the entities within some hops of one, against and along relations.

    If there are more than `most`, the nearest come first. At equal distance, each relation of each
    entity contributes its first neighbour, then its second, and so on.

    Args:
        graph: the graph.
        entity: the root.
        hops: greatest distance, 1 or more.
        most: greatest number of entities, the root included.

    Raises:
        Corrupt: a relation fails its checksum.
    """
    root = Box(entity)
    nodes = {entity.row: root}
    left_out: set[int] = set()

    def choose(level: Sequence[Offer]) -> list[Path]:
        """Add a level to the tree; return the paths to its entities."""
        offers: list[tuple[int, Path, Entity, list[Step]]] = []
        for path, relations in level:
            reached: dict[int, tuple[Entity, list[Step]]] = {}
            for step in relations:
                other = step.other(path.end)
                if other.row not in nodes:
                    reached.setdefault(other.row, (other, []))[1].append(step)
            turns: Counter[tuple[str, bool]] = Counter()
            for other, steps in reached.values():
                way = steps[0].relation, steps[0].tail.row == other.row
                offers.append((turns[way], path, other, steps))
                turns[way] += 1
        found: dict[int, Path] = {}
        for _, path, other, steps in sorted(offers, key=lambda offer: offer[0]):
            if other.row not in nodes and len(nodes) < most:
                nodes[other.row] = Box(other, tuple(steps))
                nodes[path.end.row].children.append(nodes[other.row])
                found[other.row] = path.then(steps[0])
            elif other.row not in nodes:
                left_out.add(other.row)
        parents = [nodes[path.end.row] for path, _ in level]
        for parent in parents:
            words = list(dict.fromkeys(child.steps[0].relation for child in parent.children))
            parent.children.sort(key=lambda child: words.index(child.steps[0].relation))
        return [found[child.entity.row] for parent in parents for child in parent.children]

    for _ in traverse(graph, entity, choose, longest=hops, direction="both"):
        pass
    in_tree = {step.row for node in nodes.values() for step in node.steps}
    across: list[Step] = []
    for row, node in nodes.items():
        steps = [step for step in graph.hop(node.entity) if step.tail.row in nodes]
        node.loops = tuple(step for step in steps if step.tail.row == row)
        across += [step for step in steps if step.tail.row != row and step.row not in in_tree]
    return Neighbourhood(tuple(nodes.values()), tuple(across), len(left_out))
