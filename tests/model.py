"""A plain Python model of a knowledge base, and its comparison with a base."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ku_rag import KnowledgeBase

FILES = ("Beta", "Zeta")
"""Units that a folder may contain: their names are their ids."""


@dataclass
class Source:
    """The statements of a source about a unit: its name, texts, and the content of pictures."""

    name: str | None = None
    texts: list[str] = field(default_factory=list)
    pictures: set[bytes] = field(default_factory=set)


@dataclass
class ModelUnit:
    """A unit: its sources, and the values that an update has replaced."""

    sources: dict[Any, Source] = field(default_factory=dict)
    renamed: str | None = None
    metadata: dict[str, Any] | None = None

    @property
    def names(self) -> set[str]:
        """All its names."""
        if self.renamed:
            return {self.renamed}
        return {source.name for source in self.sources.values() if source.name}

    @property
    def texts(self) -> list[str]:
        """Its texts, sorted."""
        return sorted(text for source in self.sources.values() for text in source.texts)

    @property
    def pictures(self) -> set[bytes]:
        """The content of its pictures."""
        return set().union(*(source.pictures for source in self.sources.values()))


class Model:
    """The expected content of a base after the same changes.

    Attributes:
        units: by id.
        entities: the relations that start at an entity, by its name: (relation, target).
        files: content of the files that the last sync read, by unit.
    """

    def __init__(self) -> None:
        self.units: dict[str, ModelUnit] = {}
        self.entities: dict[str, set[tuple[str, str]]] = {}
        self.files: dict[str, bytes] = {}

    # ---- changes -------------------------------------------------------------------------------

    def add(self, unit_id: str, key: Any, source: Source) -> None:
        """Add a source to a unit, which may be new; `key` names the source."""
        self.units.setdefault(unit_id, ModelUnit()).sources[key] = source

    def _update(self, unit_id: str) -> Source:
        return self.units[unit_id].sources.setdefault("update", Source())

    def update_texts(self, unit_id: str, texts: list[str]) -> None:
        """Replace the texts of all sources of a unit."""
        self._update(unit_id)
        for source in self.units[unit_id].sources.values():
            source.texts = []
        self._update(unit_id).texts = texts

    def update_pictures(self, unit_id: str, pictures: set[bytes]) -> None:
        """Replace the pictures of all sources of a unit."""
        self._update(unit_id)
        for source in self.units[unit_id].sources.values():
            source.pictures = set()
        self._update(unit_id).pictures = pictures

    def rename(self, unit_id: str, name: str) -> None:
        """Replace all names of a unit by one."""
        self._update(unit_id)
        self.units[unit_id].renamed = name

    def update_metadata(self, unit_id: str, metadata: dict[str, Any]) -> None:
        """Replace the metadata of a unit."""
        self._update(unit_id)
        self.units[unit_id].metadata = metadata

    def delete(self, unit_id: str) -> None:
        """Delete a unit."""
        del self.units[unit_id]
        self.files.pop(unit_id, None)

    def sync(self, folder: Path) -> None:
        """Read the folder of files as `sync` does."""
        paths = {name: folder / name / "about.txt" for name in FILES}
        # New content is added before old content is deleted: a new text may name, and keep, a unit.
        for name, path in paths.items():
            data = path.read_bytes() if path.exists() else None
            if data is not None and self.files.get(name) != data:
                self.files[name] = data
                self.add(name, "file", Source(name, [data.decode()]))
        # All deleted sources are removed at once: their texts keep no unit.
        gone = [name for name in self.files if not paths[name].exists()]
        for name in gone:
            del self.files[name]
            self.units[name].sources.pop("file", None)
        for name in gone:
            self._drop_if_empty(name)

    def _drop_if_empty(self, unit_id: str) -> None:
        """Delete a unit without content, unless another unit's text names it."""
        unit = self.units[unit_id]
        is_kept = unit.texts or unit.pictures or self._is_named(unit_id)
        if not unit.sources or not is_kept:
            del self.units[unit_id]

    def _is_named(self, unit_id: str) -> bool:
        names = self.units[unit_id].names or {unit_id}
        return any(
            name.lower() in text.lower()
            for owner_id, unit in self.units.items()
            if owner_id != unit_id
            for text in unit.texts
            for name in names
        )

    def relate(self, head: str, relation: str, target: str) -> None:
        """Add a relation; its head becomes an entity."""
        self.entities.setdefault(head, set()).add((relation, target))

    def delete_entity(self, name: str) -> None:
        """Delete an entity and every relation that starts or ends there."""
        del self.entities[name]
        for relations in self.entities.values():
            relations -= {(relation, target) for relation, target in relations if target == name}

    # ---- comparison ----------------------------------------------------------------------------

    def check(self, kb: KnowledgeBase) -> None:
        """Compare the content that a base lists, shows and counts.

        Raises:
            AssertionError: it differs.
        """
        details = {unit.id: kb.show(unit.id).to_dict() for unit in kb.list()}
        assert sorted(details) == sorted([*self.units, *self.entities])
        for unit_id, unit in self.units.items():
            fields = details[unit_id]
            assert sorted(fields["texts"]) == unit.texts
            assert {Path(image).read_bytes() for image in fields["images"]} == unit.pictures
            assert {fields["name"], *fields["aliases"]} == (unit.names or {unit_id})
            if unit.metadata is not None:
                assert fields["metadata"] == unit.metadata
        for name, relations in self.entities.items():
            stated = details[name]["relations"]
            assert {(relation["relation"], relation["target"]) for relation in stated} == relations
        counts = kb.stats().counts
        assert counts["units"] == len(details)
        assert counts["chunks"] == sum(len(unit.texts) for unit in self.units.values())
        pictures = set().union(*(unit.pictures for unit in self.units.values()))
        assert counts["images"] == len(pictures)
        assert counts["relations"] == sum(len(stated) for stated in self.entities.values())

    def check_search(self, kb: KnowledgeBase, word: str) -> None:
        """Compare the units whose texts contain a word that no text contains for another reason.

        Raises:
            AssertionError: they differ.
        """
        chunks = kb.search(text=word, k=100).to_dict()["chunks"]
        hits = [chunk for chunk in chunks if word in chunk["text"]]
        owners = {chunk["unit_ids"][0] for chunk in hits}
        listed = {unit_id for chunk in hits for unit_id in chunk["unit_ids"]}
        expected = set(self._with_word(word))
        assert owners <= expected <= listed

    def _with_word(self, word: str) -> Iterator[str]:
        for unit_id, unit in self.units.items():
            if any(word in text for text in unit.texts):
                yield unit_id
