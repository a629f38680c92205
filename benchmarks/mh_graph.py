"""The frozen graph of the Monster Hunter benchmark: what it is made of, and by which recipe.

The graph of the MH benchmark is not public, its questions with their gold routes are. From them:

1. **Gold.** The union of all gold routes. A route that passes another monster goes on in that
   monster's own sub-graph, so `Rathalos>Rathian>Fireballs` ends at `Rathian>Fireballs`.
2. **Distractors.** Every entity that a gold route ends at gets `SIBLINGS` others beside it, every
   entity that gold routes only pass gets one, and a monster that a question is answered with by
   itself gets `SIBLINGS` attacks. A distractor has below it what its gold sibling has, distractors
   included, so that neither degree nor depth tells them apart. Its name comes from routes of other
   monsters, or is such a name with its first or last word exchanged for that of an attack; a name
   is used in proportion to the gold entities that bear it or its model, so that neither frequency
   nor length tells. A monster from which gold routes go over to others is linked to further
   monsters of the benchmark, by the same numbers.
3. **Facts.** All monsters of monsters.json with their sub-species, elements, ailments and
   weaknesses.

Gold routes do not name relations. By rule: what ends in "Phase" is a phase, and everything else
that belongs to a monster an attack; a monster `has phase` a phase; what an attack or phase leads to
it `continues` (an attack) or `changes` to (a phase); a phase `has` attacks, and an attack of the
monster itself is `attack of`, as the paper writes it. Between monsters: `subspecies` and `main
species` if monsters.json says so or the one's name ends with the other's, `mated pair` if they are
of one type otherwise, else `rival`. Nothing carries information, conditions or captions.
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
    """An attack or a phase in a monster's tree, while it is being built."""

    name: str
    phase: bool = False
    ends: bool = False
    children: list[Node] = field(default_factory=list)

    def child(self, name: str) -> Node:
        """The gold child of that name, made if there is none."""
        for one in self.children:
            if one.name == name:
                return one
        self.children.append(Node(name, phase=name.endswith(PHASE)))
        return self.children[-1]


@dataclass(frozen=True)
class Frozen:
    """The graph: entities as (id, name, kind), relations as (head, relation, tail), shuffled."""

    entities: tuple[tuple[str, str, str], ...]
    relations: tuple[tuple[str, str, str], ...]

    @property
    def digest(self) -> str:
        """SHA-256 of all of it, order included."""
        said = json.dumps([self.entities, self.relations], ensure_ascii=False)
        return hashlib.sha256(said.encode()).hexdigest()

    def units(self, icons: Mapping[str, Sequence[Path]]) -> Iterator[Unit]:
        """As knowledge units; elements and ailments remain names.

        Args:
            icons: name of a monster → its pictures.
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
        gold = [node for tree in self._trees.values() for node in _below(tree)]
        for _, tree in sorted(self._trees.items()):
            self._widen(tree)
            tree.children += [Node("") for _ in range(SIBLINGS if tree.ends else 0)]
        attacks = sorted({node.name for node in gold if not node.phase})
        for phase in (False, True):
            self._name(phase, Counter(node.name for node in gold if node.phase == phase), attacks)
        for monster, linked in sorted(self._links.items()):
            others = sorted(set(self._trees) - {monster, *linked})
            most = sum(SIBLINGS if ends else 1 for ends in linked.values())
            linked.update(dict.fromkeys(self._rng.sample(others, most), False))

    def _name(self, phase: bool, real: Counter[str], attacks: Sequence[str]) -> None:
        """Draw the names of all distractors that are phases, or attacks."""
        bare = [
            (node, child)
            for _, tree in sorted(self._trees.items())
            for node in (tree, *_below(tree))
            for child in node.children
            if not child.name and child.phase == phase
        ]
        self._rng.shuffle(bare)
        models = sorted(real)
        made = zip(self._made(models, attacks), models, strict=True)
        due = dict(real) | {name: real[model] for name, model in made}
        share = (len(bare) + sum(real.values())) / sum(due.values())
        left = {name: max(share * uses - real[name], 0.0) for name, uses in due.items()}
        for parent, child in bare:
            beside = {frozenset(node.name.split()) for node in (parent, *parent.children)}
            free = [name for name in left if frozenset(name.split()) not in beside]
            weights = [left[name] + 0.01 for name in free]
            [child.name] = self._rng.choices(free, weights)
            left[child.name] = max(left[child.name] - 1, 0.0)

    def _made(self, real: Sequence[str], attacks: Sequence[str]) -> Iterator[str]:
        """As many new names as there are real ones: each is one of them with an attack's word."""
        made: set[str] = set()
        for name in real:
            parts = name.split()
            first = name.endswith(PHASE) or (len(parts) > 1 and self._rng.random() < 0.5)
            new = name
            while new in real or new in made or len(set(new.split())) < len(parts):
                other = self._rng.choice(attacks).split()
                new = " ".join([other[0], *parts[1:]] if first else [*parts[:-1], other[-1]])
            made.add(new)
            yield new

    def _widen(self, node: Node) -> None:
        """Put distractors without names beside every gold child, from the leaves upwards."""
        gold = list(node.children)
        for child in gold:
            self._widen(child)
        for child in gold:
            for _ in range(SIBLINGS if child.ends else 1):
                node.children.append(_bare(child))

    def frozen(self) -> Frozen:
        entities: dict[str, tuple[str, str]] = {n: (n, "monster") for n in self._monsters}
        relations: list[tuple[str, str, str]] = []
        for monster, tree in self._trees.items():
            relations += self._tree(monster, tree, entities)
        for monster, linked in self._links.items():
            relations += [(monster, self._between(monster, other), other) for other in linked]
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

    def _between(self, one: str, other: str) -> str:
        sub = [" ".join(name.split()) for name in self._monsters[one].get("subSpecies") or ()]
        main = [" ".join(name.split()) for name in self._monsters[other].get("subSpecies") or ()]
        if other in sub or other.endswith(f" {one}"):
            return "subspecies"
        if one in main or one.endswith(f" {other}"):
            return "main species"
        same = self._monsters[one]["type"] == self._monsters[other]["type"]
        return "mated pair" if same else "rival"


def _relation(head: str, phase: bool) -> str:
    _, _, below = head.partition(">")
    if not below:
        return "has phase" if phase else "attack of"
    if head.endswith(PHASE):
        return "changes" if phase else "has"
    return "changes" if phase else "continues"


def _bare(model: Node) -> Node:
    """A node of the model's shape, names to be drawn."""
    return Node("", phase=model.phase, children=[_bare(child) for child in model.children])


def _below(node: Node) -> Iterator[Node]:
    for child in node.children:
        yield child
        yield from _below(child)
