"""The confidence of matches by an encoder that brings no calibration."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from ku_rag import KnowledgeBase, Unit


class Blocks:
    """Encodes a picture as its twelve blocks of colour."""

    dim, max_tokens, fingerprint, cross_modal = 36, 64, "blocks", False

    def count_tokens(self, text):
        return len(text.split())

    def encode_texts(self, texts):
        return np.full((len(texts), self.dim), 1 / 6, np.float32)

    def encode_images(self, images):
        vectors = np.array([np.asarray(image.resize((4, 3))).ravel() for image in images])
        vectors = vectors.astype(np.float32) - 127.5
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def encode_regions(self, image, boxes):
        return self.encode_images([image.crop(box) for box in boxes])


def blocks(seed, noise=0):
    grid = np.random.default_rng(seed).integers(0, 256, (3, 4, 3))
    grid += np.random.default_rng(seed + 1000).integers(-noise, noise + 1, grid.shape)
    colours = np.clip(grid, 0, 255).astype(np.uint8)
    return Image.fromarray(colours).resize((64, 48), Image.Resampling.NEAREST)


@pytest.fixture
def lamps(tmp_path):
    def create(number, encoder):
        kb = KnowledgeBase.open(tmp_path / f"kb {number}", create=True, encoder=encoder)
        files = [tmp_path / f"{seed}.png" for seed in range(number)]
        for seed, file in enumerate(files):
            blocks(seed).save(file)
        texts = (f"Origin: Land {n}" for n in range(number))
        kb.add_many(
            Unit(f"Lamp {n}", id=f"{n}", images=(file,), texts=(text,))
            for n, (file, text) in enumerate(zip(files, texts, strict=True))
        )
        return kb

    return create


def test_known_things_are_sure_and_most_unknown_ones_are_not(lamps):
    with lamps(60, Blocks()) as kb:
        known_answers = [
            kb.query(blocks(seed, noise=40), "Where is it from?") for seed in range(60)
        ]
        unknown_answers = [kb.query(blocks(seed), "Where is it from?") for seed in range(100, 160)]
        assert [answer.answer for answer in known_answers] == [f"Land {seed}" for seed in range(60)]
        outcomes = [answer.outcome for answer in unknown_answers]
        assert set(outcomes) == {"answered", "unsure"}
        assert 0.8 <= outcomes.count("unsure") / 60 < 1
        assert all(a.units[0].confidence < 0.4 for a in unknown_answers if a.outcome == "unsure")


def test_the_calibration_follows_the_base(lamps):
    with lamps(60, Blocks()) as kb:
        before = kb.search(image=blocks(200)).units[0]
        kb.delete([f"{n}" for n in range(45) if f"{n}" != before.id])
        after = kb.search(image=blocks(200)).units[0]
        assert after.id == before.id
        assert after.confidence is None  # too few pictures remain for a comparison


def test_few_pictures_say_nothing(lamps):
    with lamps(19, Blocks()) as kb:
        answer = kb.query(blocks(3, noise=40), "Where is it from?")
        assert (answer.outcome, answer.answer, answer.units[0].confidence) == (
            "answered",
            "Land 3",
            None,
        )
