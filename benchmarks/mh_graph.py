"""The frozen graph of the Monster Hunter benchmark: its contents and the recipe that builds it.

The graph of the MH benchmark is not public, but its questions and their gold routes are. The graph
is built from these:

1. **Gold.** The union of all gold routes. A route that passes another monster continues in the
   sub-graph of that monster, so `Rathalos>Rathian>Fireballs` ends at `Rathian>Fireballs`.
2. **Distractors.** Each entity at the end of a gold route gets `SIBLINGS` siblings, each entity
   that gold routes only pass gets one, and a monster that is itself the answer to a question gets
   `SIBLINGS` attacks. A distractor has the same descendants as its gold sibling, distractors
   included, so that neither degree nor depth distinguishes them. Its name comes from routes of
   other monsters, or is such a name with its first or last word replaced by that of an attack. A
   name is used in proportion to the gold entities with this name or its model, so that neither
   frequency nor length distinguishes them. A monster whose gold routes lead to other monsters is
   linked to further monsters of the benchmark, in the same numbers.
3. **Facts.** All monsters of monsters.json with their sub-species, elements, ailments and
   weaknesses.

Gold routes do not name relations, which follow from rules. An entity whose name ends in "Phase" is
a phase; all other entities of a monster are attacks. A monster `has phase` a phase, and is related
to its own attacks by `attack of`, as in the paper. An attack `continues` with an attack, a phase
`has` attacks, and both `changes` to a phase. Monsters are related by `subspecies` or `main species`
if monsters.json says so or the name of one ends with that of the other, else by `mated pair` if
they are of the same type, else by `rival`. No relation or entity has information, conditions or
captions.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ku_rag.types import Relation, Unit

SEED = 20251
SIBLINGS = 3
PHASE = "Phase"
_FACTS = {
    "subSpecies": ("subspecies", None),
    "elements": ("element", "element"),
    "ailments": ("ailment", "ailment"),
    "weakness": ("weakness", "element"),
}


@dataclass
class Node:
    """An attack or a phase in the tree of a monster during construction."""

    name: str
    phase: bool = False
    ends: bool = False
    children: list[Node] = field(default_factory=list)

    def child(self, name: str) -> Node:
        """Return the gold child of a name; create it if there is none."""
        for child in self.children:
            if child.name == name:
                return child
        self.children.append(Node(name, phase=name.endswith(PHASE)))
        return self.children[-1]


@dataclass(frozen=True)
class Frozen:
    """The graph: (id, name, kind) of entities, (head, relation, tail) of relations, shuffled."""

    entities: tuple[tuple[str, str, str], ...]
    relations: tuple[tuple[str, str, str], ...]

    @property
    def digest(self) -> str:
        """SHA-256 of entities and relations, in their order."""
        text = json.dumps([self.entities, self.relations], ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def units(self, icons: Mapping[str, Sequence[Path]]) -> Iterator[Unit]:
        """Yield the knowledge units of the graph; elements and ailments remain names.

        Args:
            icons: Pictures of each monster, by its name.
        """
        declared = {entity for entity, _, kind in self.entities if kind in _DECLARED}
        kinds = {entity: kind for entity, _, kind in self.entities}
        leaving: dict[str, list[Relation]] = {}
        for head, relation, tail in self.relations:
            kind = None if tail in declared else kinds[tail]
            leaving.setdefault(head, []).append(Relation(relation, tail, target_kind=kind))
        for entity, name, kind in self.entities:
            if entity not in declared:
                continue
            topic = kind == "monster"
            yield Unit(
                name,
                id=entity,
                kind=kind,
                images=tuple(icons.get(entity, ())),
                metadata={"topic": True} if topic else {},
                relations=tuple(leaving.get(entity, ())),
                match=topic,
            )


_DECLARED = ("monster", "phase", "attack")


def build(routes: Iterable[str], monsters: Sequence[Mapping[str, Any]], seed: int = SEED) -> Frozen:
    """Build the graph from gold routes (`A>B>C`) and the records of monsters.json."""
    recipe = _Recipe(monsters, random.Random(seed))
    for route in dict.fromkeys(routes):
        recipe.add_gold(route.split(">"))
    recipe.add_distractors()
    return recipe.frozen()


class _Recipe:
    def __init__(self, monsters: Sequence[Mapping[str, Any]], rng: random.Random) -> None:
        self._rng = rng
        self._monsters = {" ".join(m["name"].split()): m for m in monsters}
        self._trees: dict[str, Node] = {}
        self._links: dict[str, dict[str, bool]] = {}

    def add_gold(self, parts: Sequence[str]) -> None:
        monster = parts[0]
        node = self._trees.setdefault(monster, Node(monster))
        for n, part in enumerate(parts[1:], start=2):
            if part in self._monsters:
                links = self._links.setdefault(monster, {})
                links[part] = links.get(part, False) or n == len(parts)
                monster, node = part, self._trees.setdefault(part, Node(part))
            else:
                node = node.child(part)
        node.ends = True

    def add_distractors(self) -> None:
        gold = [node for tree in self._trees.values() for node in _descendants(tree)]
        for _, tree in sorted(self._trees.items()):
            self._widen(tree)
            tree.children += [Node("") for _ in range(SIBLINGS if tree.ends else 0)]
        attacks = sorted({node.name for node in gold if not node.phase})
        for phase in (False, True):
            self._draw_names(
                phase, Counter(node.name for node in gold if node.phase == phase), attacks
            )
        for monster, linked in sorted(self._links.items()):
            others = sorted(set(self._trees) - {monster, *linked})
            most = sum(SIBLINGS if ends else 1 for ends in linked.values())
            linked.update(dict.fromkeys(self._rng.sample(others, most), False))

    def _draw_names(self, phase: bool, real: Counter[str], attacks: Sequence[str]) -> None:
        """Draw the names of all distractors that are phases, or attacks."""
        bare = [
            (node, child)
            for _, tree in sorted(self._trees.items())
            for node in (tree, *_descendants(tree))
            for child in node.children
            if not child.name and child.phase == phase
        ]
        self._rng.shuffle(bare)
        models = sorted(real)
        pairs = zip(self._new_names(models, attacks), models, strict=True)
        due = dict(real) | {name: real[model] for name, model in pairs}
        share = (len(bare) + sum(real.values())) / sum(due.values())
        remaining = {name: max(share * uses - real[name], 0.0) for name, uses in due.items()}
        for parent, child in bare:
            beside = {frozenset(node.name.split()) for node in (parent, *parent.children)}
            free = [name for name in remaining if frozenset(name.split()) not in beside]
            weights = [remaining[name] + 0.01 for name in free]
            [child.name] = self._rng.choices(free, weights)
            remaining[child.name] = max(remaining[child.name] - 1, 0.0)

    def _new_names(self, real: Sequence[str], attacks: Sequence[str]) -> Iterator[str]:
        """Yield a new name for each real one: the same with a word of an attack."""
        names: set[str] = set()
        for name in real:
            parts = name.split()
            first = name.endswith(PHASE) or (len(parts) > 1 and self._rng.random() < 0.5)
            new = name
            while new in real or new in names or len(set(new.split())) < len(parts):
                attack = self._rng.choice(attacks).split()
                new = " ".join([attack[0], *parts[1:]] if first else [*parts[:-1], attack[-1]])
            names.add(new)
            yield new

    def _widen(self, node: Node) -> None:
        """Add distractors without names beside each gold child, from the leaves upwards."""
        gold = list(node.children)
        for child in gold:
            self._widen(child)
        for child in gold:
            for _ in range(SIBLINGS if child.ends else 1):
                node.children.append(_copy_shape(child))

    def frozen(self) -> Frozen:
        entities: dict[str, tuple[str, str]] = {n: (n, "monster") for n in self._monsters}
        relations: list[tuple[str, str, str]] = []
        for monster, tree in self._trees.items():
            relations += self._tree(monster, tree, entities)
        for monster, linked in self._links.items():
            relations += [
                (monster, self._relation_between(monster, other), other) for other in linked
            ]
        for name, record in self._monsters.items():
            for key, (relation, kind) in _FACTS.items():
                for value in dict.fromkeys(record.get(key) or ()):
                    tail = " ".join(value.split())
                    if kind and tail not in entities:
                        entities[tail] = (tail, kind)
                    if tail in entities:
                        relations.append((name, relation, tail))
        rows = [(entity, name, kind) for entity, (name, kind) in sorted(entities.items())]
        edges = sorted(set(relations))
        self._rng.shuffle(rows)
        self._rng.shuffle(edges)
        return Frozen(tuple(rows), tuple(edges))

    def _tree(
        self, path: str, node: Node, entities: dict[str, tuple[str, str]]
    ) -> Iterator[tuple[str, str, str]]:
        for child in node.children:
            tail = f"{path}>{child.name}"
            phase = child.name.endswith(PHASE)
            entities[tail] = (child.name, "phase" if phase else "attack")
            yield path, _relation(path, phase), tail
            yield from self._tree(tail, child, entities)

    def _relation_between(self, first: str, second: str) -> str:
        sub = [" ".join(name.split()) for name in self._monsters[first].get("subSpecies") or ()]
        main = [" ".join(name.split()) for name in self._monsters[second].get("subSpecies") or ()]
        if second in sub or second.endswith(f" {first}"):
            return "subspecies"
        if first in main or first.endswith(f" {second}"):
            return "main species"
        same = self._monsters[first]["type"] == self._monsters[second]["type"]
        return "mated pair" if same else "rival"


def _relation(head: str, phase: bool) -> str:
    _, _, below = head.partition(">")
    if not below:
        return "has phase" if phase else "attack of"
    if head.endswith(PHASE):
        return "changes" if phase else "has"
    return "changes" if phase else "continues"


def _copy_shape(model: Node) -> Node:
    """Return a copy of a node and its descendants without names."""
    return Node("", phase=model.phase, children=[_copy_shape(child) for child in model.children])


def _descendants(node: Node) -> Iterator[Node]:
    for child in node.children:
        yield child
        yield from _descendants(child)
