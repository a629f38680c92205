"""The unit that a new one joins depends on the stored content, not on its history."""

from __future__ import annotations

import hashlib
import random
import re
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from ku_rag import KnowledgeBase, Unit
from tests.conftest import picture


class Words:
    """Vectors of bags of words and of colours: close contents have close vectors."""

    dim, max_tokens, cross_modal = 48, 64, False

    def __init__(self, salt: str = "a") -> None:
        self._salt = salt
        self.fingerprint = f"tests/words:{salt}"

    def count_tokens(self, text):
        return len(text.split())

    def encode_texts(self, texts):
        return np.concatenate([np.empty((0, self.dim), np.float32), *map(self._text, texts)])

    def encode_images(self, images):
        pixels = [np.asarray(image.convert("RGB").resize((4, 4)), np.float32) for image in images]
        vectors = np.array(pixels, np.float32).reshape(len(images), self.dim) - 127.5
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def encode_regions(self, image, boxes):
        return self.encode_images([image.crop(box) for box in boxes])

    def _text(self, text):
        seeds = [hashlib.sha256((self._salt + word).encode()).digest()[:8] for word in text.split()]
        rngs = [np.random.default_rng(int.from_bytes(seed, "little")) for seed in seeds]
        vector = np.sum([rng.standard_normal(self.dim) for rng in rngs], axis=0)
        return (vector / np.linalg.norm(vector)).astype(np.float32)[None]


def sentence(number: int, last: str = "end") -> str:
    words = [hashlib.sha256(f"{number} {n}".encode()).hexdigest()[:5] for n in range(11)]
    return " ".join([*words, last]).capitalize() + "."


def opened(folder: Path, encoder: Words | None = None) -> KnowledgeBase:
    return KnowledgeBase.open(folder, create=True, encoder=encoder or Words())


def draw_picture(root: Path, number: int) -> Path:
    """A picture of 4 by 4 colours; numbers 0 and 1, 2 and 3 … differ very little."""
    path = root / f"{number}.png"
    if not path.exists():
        colours = np.random.default_rng(number // 2).integers(8, 248, (4, 4, 3), np.uint8)
        colours[0, 0] += 3 * (number % 2)
        Image.fromarray(colours).save(path)
    return path


def drawn(rng: random.Random, root: Path, name: str, identifier: str | None = None) -> Unit:
    """A unit with contents equal or similar to those of others; a new one has a text or picture."""
    texts = [
        sentence(rng.randrange(2), rng.choice(["end", "stop", "point"]))
        for _ in range(rng.randint(1, 2) if identifier else rng.randrange(2))
    ]
    pictures = [rng.randrange(4) for _ in range(rng.randrange(2) if texts and identifier else 1)]
    images = [draw_picture(root, number) for number in pictures if identifier or not texts]
    return Unit(name, identifier, texts=texts, images=images)


@settings(max_examples=settings.default.max_examples // 2)  # three bases each
@given(seed=st.integers(0, 2**32), many=st.booleans())
def test_history_does_not_change_which_unit_is_joined(seed, many):
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        units = [drawn(rng, root, f"Unit {n}", f"u{n}") for n in range(rng.randint(4, 9))]
        # Enough units to measure the threshold, some of them almost equal.
        units += [
            Unit(f"Other {n}", f"o{n}", texts=[sentence(9 + n // 2, f"last{n}")])
            for n in range(30 * many)
        ]
        new = [drawn(rng, root, f"New {n}") for n in range(10)]
        with opened(root / "kb") as kb:
            kb.add_many(units)
            expected = [outcome(kb, unit) for unit in new]
        rng.shuffle(units)
        with opened(root / "other", Words("b")) as kb:
            gone = Unit("Gone", "gone", texts=[sentence(0), sentence(3)])
            kb.add_many([*units[:1], gone, *units[1:]])
            kb.add(Unit("Elsewhere", texts=[sentence(77)]))
            kb.delete(["gone", "elsewhere"])
            kb.reindex(Words())
            kb.export(root / "out")
            kb.compact()
            assert [outcome(kb, unit) for unit in new] == expected
        with opened(root / "imported") as kb:
            kb.import_(root / "out")
            assert [outcome(kb, unit) for unit in new] == expected


def outcome(kb: KnowledgeBase, unit: Unit) -> tuple:
    added = kb.add(unit)
    # The threshold is measured in single precision: its last digit may differ.
    why = re.sub(r"(at least|needs) [\d.]+", "", added.why)
    return added.id, added.action, added.matched, why


def test_equal_texts_of_two_units_join_neither(tmp_path):
    with opened(tmp_path / "kb") as kb:
        for unit in ("first", "second"):
            kb.add(Unit(unit.title(), unit, texts=[sentence(1), sentence(len(unit))]))
        added = kb.add(Unit("New", texts=[sentence(1)]))
        assert (added.id, added.action, added.matched) == ("new", "added", None)
        assert added.why == (
            "no unit bears its name; texts of 2 units have cosine 1.000: 'first', 'second'"
        )
        assert kb.add(Unit("Other", texts=[sentence(5)])).id == "first"


def test_two_texts_of_one_record_that_are_those_of_two_units_join_neither(tmp_path):
    with opened(tmp_path / "kb") as kb:
        for n in range(5):
            kb.add(Unit(f"Unit {n}", f"u{n}", texts=[sentence(n)]))
        added = kb.add(Unit("New", texts=[sentence(n) for n in range(5)]))
        assert added.action == "added"
        assert added.why.endswith("texts of 5 units have cosine 1.000: 'u0', 'u1', 'u2' and 2 more")


def test_texts_that_differ_less_than_their_rounding_are_equal(tmp_path):
    near = np.zeros((2, 48), np.float32)
    near[:, 0] = 1
    near[1, 1] = 0.04  # cosine .9992
    near /= np.linalg.norm(near, axis=1, keepdims=True)
    with opened(tmp_path / "kb") as kb:
        for n in range(2):
            kb.add(Unit(f"Unit {n}", f"u{n}", texts=[f"Text {n}."]), vectors={"texts": near[[n]]})
        added = kb.add(Unit("New", texts=["Text 2."]), vectors={"texts": near[[0]]})
        assert (added.action, added.why.partition("; ")[2]) == (
            "added",
            "texts of 2 units have cosine 1.000: 'u0', 'u1'",
        )


@pytest.mark.parametrize(("owner", "action"), [("many", "joined"), ("last", "added")])
def test_more_equal_texts_than_the_first_search_asks_for_are_compared(tmp_path, owner, action):
    with opened(tmp_path / "kb") as kb:
        kb.add(Unit("Many", "many", texts=[sentence(1)] * 100))
        kb.add(Unit("Last", owner, texts=[sentence(1)]))
        added = kb.add(Unit("New", texts=[sentence(1)]))
        assert added.action == action, added.why


def test_a_text_that_a_thousand_rows_repeat_joins_no_unit(tmp_path):
    with opened(tmp_path / "kb") as kb:
        kb.add(Unit("Many", "many", texts=[sentence(1)] * 1000))
        added = kb.add(Unit("New", texts=[sentence(1)]))
        assert added.action == "added"
        assert added.why.endswith("1,000 texts or more have cosine 1.000")


def test_a_picture_that_two_units_show_joins_neither(tmp_path):
    same = picture(tmp_path / "same.png", 7)
    with opened(tmp_path / "kb") as kb:
        kb.add(Unit("Lamp", "lamp", images=[same], texts=[sentence(1)]))
        kb.add(Unit("Light", "light", images=[same]))
        added = kb.add(Unit("New", images=[same], texts=[sentence(1)]))
        assert added.action == "added"
        assert added.why.endswith("pictures of 2 units have cosine 1.000: 'lamp', 'light'")


def test_a_name_of_two_units_is_reported(tmp_path):
    with opened(tmp_path / "kb") as kb:
        for unit in ("first", "second"):
            kb.add(Unit("Lamp", unit, texts=[sentence(len(unit))]))
        added = kb.add(Unit("Lamp", texts=[sentence(9)]))
        assert added.action == "added"
        assert added.why.startswith("2 units bear its name; the nearest text has cosine ")


def test_the_threshold_exceeds_the_cosines_of_different_units(tmp_path):
    # One text a unit, of twelve words, all different in the last: each is as close as the others.
    with opened(tmp_path / "kb") as kb:
        kb.add_many(
            Unit(f"Unit {n}", f"u{n}", texts=[sentence(n // 2, f"last{n}")]) for n in range(60)
        )
        added = kb.add(Unit("New", texts=[sentence(3, "stop")]))
        assert added.action == "added", added.why
        assert kb.add(Unit("Same", texts=[sentence(3, "last6")])).id == "u6"
