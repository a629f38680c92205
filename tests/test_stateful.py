"""Any sequence of changes leaves the knowledge base equal to a plain dict that saw the same."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ku_rag import Unit
from ku_rag.knowledge_base import KnowledgeBase
from tests.conftest import picture

IDS = st.sampled_from(["a", "b", "c"])
NAMES = st.sampled_from(["Alpha", "Beta", "Gamma", "Delta Epsilon"])
TEXTS = st.sampled_from(["Alpha leads.", "Beta and Gamma follow.", "delta epsilon ends", "Nobody."])
FOLDERS = st.sampled_from(["Beta", "Zeta"])


class Machine(RuleBasedStateMachine):
    """The model: id → (names heard, texts by source, number of pictures by source)."""

    def __init__(self):
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.folder = self.root / "folder"
        self.folder.mkdir()
        self.pictures = [picture(self.root / f"p{n}.png", n) for n in range(3)]
        self.kb = KnowledgeBase.open(self.root / "kb", create=True)
        self.model: dict[str, dict] = {}
        self.stored_files: dict[tuple[str, str], bytes] = {}

    def teardown(self):
        self.kb.close()
        shutil.rmtree(self.root)

    def _unit(self, unit_id):
        return self.model.setdefault(unit_id, {"name": None, "sources": {}, "renamed": None})

    @rule(unit_id=IDS, name=NAMES, text=TEXTS, number=st.integers(0, 2))
    def add(self, unit_id, name, text, number):
        self.kb.add(Unit(name, id=unit_id, texts=(text,), images=(self.pictures[number],)))
        self._unit(unit_id)["sources"][("add", text, number)] = (
            name,
            [text],
            {self.pictures[number].read_bytes()},
        )

    @precondition(lambda self: self.model)
    @rule(data=st.data(), text=TEXTS)
    def update_texts(self, data, text):
        unit_id = data.draw(st.sampled_from(sorted(self.model)))
        self.kb.update(unit_id, texts=[text])
        unit = self.model[unit_id]
        before = unit["sources"].get("update", (None, [], set()))
        unit["sources"] = {k: (n, [], p) for k, (n, _, p) in unit["sources"].items()}
        unit["sources"]["update"] = (None, [text], before[2])

    @precondition(lambda self: self.model)
    @rule(data=st.data(), name=NAMES)
    def rename(self, data, name):
        unit_id = data.draw(st.sampled_from(sorted(self.model)))
        self.kb.update(unit_id, name=name)
        unit = self.model[unit_id]
        unit["renamed"] = name
        unit["sources"].setdefault("update", (None, [], set()))

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def delete(self, data):
        unit_id = data.draw(st.sampled_from(sorted(self.model)))
        self.kb.delete([unit_id])
        del self.model[unit_id]
        self.stored_files = {k: v for k, v in self.stored_files.items() if k[0] != unit_id}

    @rule(name=FOLDERS, text=TEXTS)
    def write_file(self, name, text):
        (self.folder / name).mkdir(exist_ok=True)
        (self.folder / name / "about.txt").write_text(text, encoding="utf-8")

    @rule(name=FOLDERS)
    def remove_file(self, name):
        shutil.rmtree(self.folder / name, ignore_errors=True)

    @rule()
    def sync(self):
        self.kb.sync(self.folder, yes=True)
        there = {name: self.folder / name / "about.txt" for name in ("Beta", "Zeta")}
        # What came is taken in before what is gone goes: a new text may name, and keep, a unit.
        for name, path in there.items():
            data = path.read_bytes() if path.exists() else None
            if data is not None and self.stored_files.get((name, "about")) != data:
                self.stored_files[name, "about"] = data
                self._unit(name)["sources"]["file"] = (name, [data.decode()], set())
        for name, path in there.items():
            if not path.exists() and (name, "about") in self.stored_files:
                del self.stored_files[name, "about"]
                unit = self.model[name]
                unit["sources"].pop("file", None)
                held = any(t or p for _, t, p in unit["sources"].values())
                if not unit["sources"] or not (held or self._named(name)):
                    del self.model[name]

    def _names(self, unit):
        if unit["renamed"]:
            return {unit["renamed"]}
        return {name for name, _, _ in unit["sources"].values() if name}

    def _named(self, unit_id):
        """Whether another unit's text holds a name of this one, which keeps it alive."""
        names = self._names(self.model[unit_id])
        return any(
            name.lower() in text.lower()
            for other, unit in self.model.items()
            if other != unit_id
            for _, texts, _ in unit["sources"].values()
            for text in texts
            for name in names
        )

    @rule()
    def reopen(self):
        self.kb.close()
        self.kb = KnowledgeBase.open(self.root / "kb")

    @rule()
    def compact(self):
        self.kb.compact()

    @invariant()
    def same_as_the_model(self):
        shown = {unit.id: self.kb.show(unit.id).to_dict() for unit in self.kb.list()}
        assert sorted(shown) == sorted(self.model)
        for unit_id, unit in self.model.items():
            found = shown[unit_id]
            texts = [text for _, texts, _ in unit["sources"].values() for text in texts]
            pictures = set().union(*(p for _, _, p in unit["sources"].values()))
            assert sorted(found["texts"]) == sorted(texts)
            assert {Path(image).read_bytes() for image in found["images"]} == pictures
            assert {found["name"], *found["aliases"]} == (self._names(unit) or {unit_id})

    @invariant()
    def sound(self):
        assert self.kb.verify().problems == ()


Machine.TestCase.settings = settings(max_examples=settings.default.max_examples // 2)
TestAnySequence = Machine.TestCase
