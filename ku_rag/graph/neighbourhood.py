"""The entities around one entity, and the relations between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ku_rag import arguments
from ku_rag.graph.model import Entity, Graph, Step


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """Entities, nearest first, all relations between them, and by row the row that led to each."""

    entities: tuple[Entity, ...]
    parents: Mapping[int, int]
    steps: tuple[Step, ...]
    left_out: int

    def to_dict(self) -> dict[str, Any]:
        """The nodes by row, the root first; the relations between them; how many were left out."""
        return {
            "nodes": [
                {"row": e.row, "id": e.unit, "name": e.name, "kind": e.kind} for e in self.entities
            ],
            "edges": [
                {"head": s.head.row, "relation": s.relation, "tail": s.tail.row, "notes": s.notes}
                for s in self.steps
            ],
            "left_out": self.left_out,
        }


def neighbourhood(graph: Graph, entity: Entity, *, hops: int, most: int) -> Neighbourhood:
    """Collect the entities within some hops of one, 1 or 2, against and along relations.

    If there are more than `most`, 1 to 200 with the first, the nearest come first. At equal
    distance, each relation of each entity contributes its first neighbour, then its second …
    """
    arguments.count(hops, "hops", least=1, most=2)
    arguments.count(most, "most", least=1, most=200)
    entities, parents = {entity.row: entity}, dict[int, int]()
    left_out: set[int] = set()
    level = [entity]
    for _ in range(hops):
        offers: list[tuple[int, tuple[int, int], Entity, Entity]] = []
        for place, near in enumerate(level):
            reached: dict[int, tuple[Entity, Step]] = {}
            for step in graph.hop(near, direction="both"):
                other = step.other(near)
                if other.row not in entities:
                    reached.setdefault(other.row, (other, step))
            turns: Counter[tuple[str, bool]] = Counter()
            words = list(dict.fromkeys(step.relation for _, step in reached.values()))
            for other, step in reached.values():
                way = step.relation, step.tail.row == other.row
                offers.append((turns[way], (place, words.index(step.relation)), near, other))
                turns[way] += 1
        chosen: list[tuple[tuple[int, int], Entity]] = []
        for _, order, near, other in sorted(offers, key=lambda offer: offer[0]):
            if other.row in entities:
                continue
            if len(entities) == most:
                left_out.add(other.row)
                continue
            entities[other.row], parents[other.row] = other, near.row
            chosen.append((order, other))
        level = [other for _, other in sorted(chosen, key=lambda pair: pair[0])]
        entities |= {other.row: entities.pop(other.row) for other in level}
    steps = (step for near in entities.values() for step in graph.hop(near))
    inside = tuple(step for step in steps if step.tail.row in entities)
    return Neighbourhood(tuple(entities.values()), parents, inside, len(left_out))
