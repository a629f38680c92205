"""Independent implementation of equations 4 to 10 of KU-RAG, compared to the steps."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from ku_rag import KnowledgeBase, Unit
from ku_rag.types import Region

COLOURS = {"red": (220, 20, 20), "green": (20, 200, 20), "blue": (20, 20, 220)}
TEXTS = {
    "Ruby": ("Rubies are red.", "A ruby is hard."),
    "Emerald": ("Emeralds are green.", "Ruby and Emerald are gems."),
    "Sapphire": ("Sapphires are blue.",),
    "Pearl": ("Pearls are white and no stone.",),
}
QUESTION = "What is the green stone?"
SIZE = (120, 80)
LEFT, RIGHT = (0, 0, 60, 80), (60, 0, 120, 80)


def unit_length(rows):
    rows = np.asarray(rows, np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


class ColourEncoder:
    """Texts and pictures in one space: amounts of red, green and blue, and hashed words."""

    dim, max_tokens, cross_modal, fingerprint = 32, 60, True, "colours:1"

    def count_tokens(self, text):
        return len(text.split())

    def encode_texts(self, texts):
        rows = np.full((len(texts), self.dim), 0.01)
        for row, text in zip(rows, texts, strict=True):
            for word in text.lower().replace("?", " ").replace(".", " ").split():
                if word in COLOURS:
                    row[list(COLOURS).index(word)] += 2
                else:
                    row[3 + sum(map(ord, word)) % (self.dim - 3)] += 0.3
        return unit_length(rows)

    def encode_images(self, images):
        rows = np.full((len(images), self.dim), 0.01)
        for row, image in zip(rows, images, strict=True):
            row[:3] += np.asarray(image.convert("RGB"), float).mean(axis=(0, 1)) / 255
        return unit_length(rows)

    def encode_regions(self, image, boxes):
        return self.encode_images([image.crop(box) for box in boxes])


class Halves:
    """Proposes the left and the right half."""

    name, fingerprint = "halves", "halves:1"

    def propose(self, image):
        return [Region(LEFT, "halves", 0.9), Region(RIGHT, "halves", 0.8)]


def plain(colour, shade=0):
    return Image.new("RGB", SIZE, tuple(max(0, part - shade) for part in colour))


def stored_pictures():
    """Thirty pictures of the ruby, more than any search for the nearest few returns."""
    pictures = {"Ruby": [plain((120, 110, 20), shade) for shade in range(30)]}
    pictures |= {"Emerald": [plain(COLOURS["green"])], "Sapphire": [plain(COLOURS["blue"])]}
    return pictures | {"Pearl": [plain((250, 250, 250))]}


@pytest.fixture
def gems(tmp_path):
    for name, pictures in stored_pictures().items():
        for number, picture in enumerate(pictures):
            picture.save(tmp_path / f"{name} {number}.png")
    options = {"encoder": ColourEncoder(), "segmenter": Halves(), "region_threshold": 0.5}
    with KnowledgeBase.open(tmp_path / "kb", create=True, **options) as kb:
        for name, texts in TEXTS.items():
            files = sorted(tmp_path.glob(f"{name} *.png"))
            kb.add(Unit(name, id=name, images=tuple(files), texts=texts))
        yield kb


def scene(left, right):
    image = plain(COLOURS[left])
    image.paste(plain(COLOURS[right]), RIGHT[:2])
    return image


@pytest.mark.parametrize(
    ("picture", "question", "box"),
    [
        (scene("blue", "green"), QUESTION, RIGHT),
        (scene("green", "blue"), QUESTION, LEFT),
        (scene("green", "green"), QUESTION, (0, 0, *SIZE)),  # several
        (scene("blue", "red"), QUESTION, (0, 0, *SIZE)),  # none
    ],
)
def test_the_region_is_the_only_object_above_the_threshold(gems, picture, question, box):
    encoder = ColourEncoder()
    objects = encoder.encode_images([picture.crop(LEFT), picture.crop(RIGHT)])  # eq. 4
    similarity = objects @ encoder.encode_texts([question])[0]  # eq. 5
    above = [place for place, s in zip((LEFT, RIGHT), similarity, strict=True) if s > 0.5]
    expected = above[0] if len(above) == 1 else (0, 0, *SIZE)  # eq. 6
    assert expected == box
    assert gems.query(picture, question, strict="kurag").region.box == box


def test_all_pictures_decide_which_three_units_match(gems):
    picture = scene("blue", "green")
    region = ColourEncoder().encode_images([picture.crop(RIGHT)])[0]
    cosines = {
        name: max(ColourEncoder().encode_images(pictures) @ region)
        for name, pictures in stored_pictures().items()
    }
    best = sorted(cosines, key=cosines.get, reverse=True)[:3]  # eq. 7
    answer = gems.query(picture, QUESTION, strict="kurag")
    assert [unit.id for unit in answer.units] == best
    scores = [unit.score for unit in answer.units]
    assert scores == pytest.approx([cosines[name] for name in best], abs=2e-3)
    assert gems.query(picture, QUESTION, strict="kurag", k=1).chunks[0].unit_ids[0] in best


def test_the_rewritten_question_ranks_the_chunks_of_the_matched_units(gems):
    answer = gems.query(scene("blue", "green"), QUESTION, strict="kurag")
    encoder, score = ColourEncoder(), {}
    for unit in answer.units:
        listed = set(TEXTS[unit.id])  # eq. 8: the unit's own texts and those that name it
        listed |= {text for texts in TEXTS.values() for text in texts if unit.name in text}
        rewritten = f"{QUESTION} [SEP] {unit.name} [SEP] green, stone"  # eq. 9
        query = encoder.encode_texts([rewritten])[0]
        for text in listed:
            score[text] = max(score.get(text, -1), float(encoder.encode_texts([text])[0] @ query))
    best = sorted(score, key=lambda text: -score[text])[:3]  # eq. 10
    assert [chunk.text for chunk in answer.chunks] == best
    expected = [score[text] for text in best]
    assert [chunk.score for chunk in answer.chunks] == pytest.approx(expected, abs=2e-3)
    assert answer.models["content words"] == "stop list"


def test_the_strict_method_passes_a_filter(gems):
    answer = gems.query(scene("blue", "green"), QUESTION, strict="kurag", where=["missing=1"])
    assert (answer.units, answer.chunks) == ((), ())
