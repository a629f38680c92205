"""Any sequence of changes leaves the base equal to a plain model with the same changes."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ku_rag import KnowledgeBase, Unit
from tests.conftest import picture
from tests.model import FILES, Model, Source

IDS = st.sampled_from(["a", "b", "c"])
NAMES = st.sampled_from(["Alpha", "Beta", "Gamma", "Delta Epsilon"])
TEXTS = st.sampled_from(["Alpha leads.", "Beta and Gamma follow.", "delta epsilon ends", "Nobody."])
FOLDERS = st.sampled_from(FILES)


class Machine(RuleBasedStateMachine):
    """A base and its model."""

    def __init__(self):
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.folder = self.root / "folder"
        self.folder.mkdir()
        self.pictures = [picture(self.root / f"p{n}.png", n) for n in range(3)]
        self.kb = KnowledgeBase.open(self.root / "kb", create=True)
        self.model = Model()

    def teardown(self):
        self.kb.close()
        shutil.rmtree(self.root)

    def _draw_unit(self, data):
        return data.draw(st.sampled_from(sorted(self.model.units)))

    @rule(unit_id=IDS, name=NAMES, text=TEXTS, number=st.integers(0, 2))
    def add(self, unit_id, name, text, number):
        self.kb.add(Unit(name, id=unit_id, texts=(text,), images=(self.pictures[number],)))
        source = Source(name, [text], {self.pictures[number].read_bytes()})
        self.model.add(unit_id, (text, number), source)

    @precondition(lambda self: self.model.units)
    @rule(data=st.data(), text=TEXTS)
    def update_texts(self, data, text):
        unit_id = self._draw_unit(data)
        self.kb.update(unit_id, texts=[text])
        self.model.update_texts(unit_id, [text])

    @precondition(lambda self: self.model.units)
    @rule(data=st.data(), name=NAMES)
    def rename(self, data, name):
        unit_id = self._draw_unit(data)
        self.kb.update(unit_id, name=name)
        self.model.rename(unit_id, name)

    @precondition(lambda self: self.model.units)
    @rule(data=st.data())
    def delete(self, data):
        unit_id = self._draw_unit(data)
        self.kb.delete([unit_id])
        self.model.delete(unit_id)

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
        self.model.sync(self.folder)

    @rule()
    def reopen(self):
        self.kb.close()
        self.kb = KnowledgeBase.open(self.root / "kb")

    @rule()
    def compact(self):
        self.kb.compact()

    @invariant()
    def same_as_the_model(self):
        self.model.check(self.kb)

    @invariant()
    def sound(self):
        assert self.kb.verify().problems == ()


Machine.TestCase.settings = settings(max_examples=settings.default.max_examples // 2)
TestAnySequence = Machine.TestCase
