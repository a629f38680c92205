"""Long random sequences of changes, restarts and copies of a base, compared with a plain model.

A failure names its seed; `KU_SEED=N` runs one sequence with it.
"""

from __future__ import annotations

import os
import random
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from ku_rag import KnowledgeBase, Unit
from ku_rag.errors import NotFound
from tests.conftest import picture
from tests.crash.encoder import FIRST, SECOND
from tests.model import FILES, Model, Source

SEED = 20240617
IDS = ("a", "b", "c", "d")
NAMES = ("Alpha", "Beta", "Gamma", "Delta Epsilon")
WORDS = ("zqone", "zqtwo", "zqthree", "zqfour", "zqfive", "zqsix")
TEXTS = [f"{name} {word}." for name in (*NAMES, "Nobody") for word in WORDS]
NODES = ("Node 1", "Node 2", "Node 3")
RARE = ("compact", "reindex", "reopen", "snapshot", "export")


class Sequence:
    """A base and its model, changed by the same random operations."""

    def __init__(self, root, rng):
        self.root, self.rng, self.model = root, rng, Model()
        self.folder = root / "folder"
        self.folder.mkdir()
        self.pictures = [picture(root / f"p{n}.png", n, (24, 16)) for n in range(4)]
        self.encoder = FIRST
        self.kb = KnowledgeBase.open(root / "kb", create=True, encoder=FIRST)
        self.common = [name for name in vars(type(self)) if name.startswith("do_")]
        self.common = [name for name in self.common if name[3:] not in RARE]

    def step(self):
        name = self.rng.choice(self.common)
        if self.rng.random() < 0.03:
            name = f"do_{self.rng.choice(RARE)}"
        getattr(self, name)()
        return name

    def check(self, *, whole):
        # Another thread reads with a connection of its own.
        with ThreadPoolExecutor(1) as pool:
            pool.submit(self.model.check, self.kb).result()
        self.model.check_search(self.kb, self.rng.choice(WORDS))
        if whole:
            assert self.kb.verify().problems == ()

    def _some_unit(self):
        return self.rng.choice(sorted(self.model.units)) if self.model.units else None

    def _new_unit(self):
        name, text = self.rng.choice(NAMES), self.rng.choice(TEXTS)
        image = self.rng.choice(self.pictures)
        unit = Unit(name, id=self.rng.choice(IDS), texts=(text,), images=(image,))
        return unit, (text, image.name), Source(name, [text], {image.read_bytes()})

    def do_add(self):
        unit, key, source = self._new_unit()
        self.kb.add(unit)
        self.model.add(unit.id, key, source)

    def do_add_many(self):
        replace = self.rng.random() < 0.5
        units = {unit.id: (unit, key, source) for unit, key, source in [self._new_unit()] * 2}
        for _ in range(2):
            unit, key, source = self._new_unit()
            units[unit.id] = unit, key, source
        self.kb.add_many([unit for unit, _, _ in units.values()], replace=replace)
        for unit_id, (_, key, source) in units.items():
            if replace and unit_id in self.model.units:
                self.model.delete(unit_id)
            self.model.add(unit_id, key, source)

    def do_update(self):
        if (unit_id := self._some_unit()) is None:
            return
        field = self.rng.choice(["texts", "images", "name", "metadata"])
        if field == "texts":
            texts = self.rng.sample(TEXTS, self.rng.randint(0, 2))
            self.kb.update(unit_id, texts=texts)
            self.model.update_texts(unit_id, texts)
        elif field == "images":
            images = self.rng.sample(self.pictures, self.rng.randint(0, 2))
            self.kb.update(unit_id, images=images)
            self.model.update_pictures(unit_id, {image.read_bytes() for image in images})
        elif field == "name":
            name = self.rng.choice(NAMES)
            self.kb.update(unit_id, name=name)
            self.model.rename(unit_id, name)
        else:
            metadata = {"number": self.rng.randint(0, 9)}
            self.kb.update(unit_id, metadata=metadata)
            self.model.update_metadata(unit_id, metadata)

    def do_delete(self):
        if unit_id := self._some_unit():
            self.kb.delete([unit_id])
            self.model.delete(unit_id)

    def do_delete_nothing(self):
        before = self.kb.stats().counts
        with pytest.raises(NotFound):
            self.kb.delete([self._some_unit() or "a", "no such unit"])
        assert self.kb.stats().counts == before

    def do_sync(self):
        for name in FILES:
            if self.rng.random() < 0.5:
                (self.folder / name).mkdir(exist_ok=True)
                (self.folder / name / "about.txt").write_text(self.rng.choice(TEXTS))
            elif self.rng.random() < 0.4:
                shutil.rmtree(self.folder / name, ignore_errors=True)
        self.kb.sync(self.folder, yes=True)
        self.model.sync(self.folder)

    def do_ingest(self):
        name = self.rng.choice(FILES)
        (self.folder / name).mkdir(exist_ok=True)
        text = self.rng.choice(TEXTS)
        (self.folder / name / "about.txt").write_text(text)
        self.kb.ingest(self.folder)
        self.kb.sync(self.folder, yes=True)
        self.model.sync(self.folder)

    def do_relate(self):
        head, target = self.rng.choice(NODES), self.rng.choice(NODES)
        relation = self.rng.choice(["leads to", "borders"])
        self.kb.graph.add_relation(head, relation, target)
        self.model.relate(head, relation, target)

    def do_delete_relation(self):
        stated = [(h, r, t) for h, pairs in self.model.entities.items() for r, t in sorted(pairs)]
        if stated:
            head, relation, target = self.rng.choice(stated)
            self.kb.graph.delete(relation=(head, relation, target))
            self.model.entities[head].discard((relation, target))

    def do_delete_entity(self):
        if self.model.entities:
            name = self.rng.choice(sorted(self.model.entities))
            self.kb.graph.delete(name)
            self.model.delete_entity(name)

    def do_compact(self):
        self.kb.compact()

    def do_reindex(self):
        self.encoder = SECOND if self.encoder is FIRST else FIRST
        self.kb.reindex(self.encoder)

    def do_reopen(self):
        self.kb.close()
        self.kb = KnowledgeBase.open(self.root / "kb", encoder=self.encoder)

    def do_snapshot(self):
        self.kb.snapshot(self.root / "copy")
        with closing(KnowledgeBase.open(self.root / "copy", encoder=self.encoder)) as copy:
            self.model.check(copy)
        shutil.rmtree(self.root / "copy")

    def do_export(self):
        self.kb.export(self.root / "export")
        path = self.root / "imported"
        with closing(KnowledgeBase.open(path, create=True, encoder=self.encoder)) as imported:
            imported.import_(self.root / "export")
            self.model.check(imported)
            assert imported.verify().problems == ()
        shutil.rmtree(self.root / "export")
        shutil.rmtree(path)


@pytest.mark.parametrize("part", range(4))
def test_a_base_equals_its_model(tmp_path, rounds, part):
    steps = rounds(25, 25_000)
    seed = int(os.environ.get("KU_SEED", SEED + part))
    sequence = Sequence(tmp_path, random.Random(seed))
    history = []
    try:
        for number in range(1, steps + 1):
            history.append(sequence.step())
            if number % 5 == 0:
                sequence.check(whole=number % 25 == 0)
    except Exception as error:
        raise AssertionError(
            f"KU_SEED={seed}, step {len(history) + 1} after {history[-8:]}: {error}"
        ) from error
    finally:
        sequence.kb.close()
