from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from ku_rag import BadInput
from ku_rag.encoders.base import fitting
from ku_rag.encoders.embedded.encoder import EmbeddedEncoder
from ku_rag.regions.crops import FILL, crop
from ku_rag.regions.selection import choose
from ku_rag.types import Region

RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)
HALF = np.zeros((40, 40), bool)
HALF[:, :20] = True


@dataclass(frozen=True)
class Colours:
    """A cross-modal encoder of colours: those that a text names, and the mean of a picture."""

    max_tokens: int = 6
    cross_modal = True
    dim = 3
    fingerprint = "colours:3"

    def count_tokens(self, text):
        return len(text.split())

    def encode_texts(self, texts):
        assert all(self.count_tokens(text) <= self.max_tokens for text in texts)
        names = ("red", "green", "blue")
        return self._unit([[text.lower().count(name) for name in names] for text in texts])

    def encode_images(self, images):
        return self._unit([np.asarray(image, float).mean((0, 1)) for image in images])

    def encode_regions(self, image, boxes):
        return self.encode_images([image.crop(box) for box in boxes])

    def _unit(self, rows):
        rows = np.asarray(rows, np.float32).reshape(-1, 3)
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


@pytest.fixture
def scene():
    """A grey picture with a red, a green and a half red, half blue square, from left to right."""
    image = Image.new("RGB", (200, 60), (90, 90, 90))
    image.paste(RED, (10, 10, 50, 50))
    image.paste(GREEN, (80, 10, 120, 50))
    image.paste(RED, (150, 10, 170, 50))
    image.paste(BLUE, (170, 10, 190, 50))
    regions = [
        Region((10, 10, 50, 50), "yolo", why="a square, confidence 0.90"),
        Region((80, 10, 120, 50), "yolo"),
        Region((150, 10, 190, 50), "yolo", mask=HALF),
    ]
    return image, regions


def test_the_only_region_that_passes_is_chosen(scene):
    image, regions = scene
    region = choose(image, "Who made the green one?", regions, Colours(), threshold=0.5)
    assert (region.box, region.source, region.score) == ((80, 10, 120, 50), "yolo", 1.0)
    assert region.why == (
        "1 of 3 regions passes the threshold 0.5; the best cosine to the question is 1.000"
    )
    alone = choose(image, "red", regions[:1], Colours(), threshold=0.5)
    assert alone.box == (10, 10, 50, 50)
    assert alone.why == (
        "a square, confidence 0.90; 1 of 1 regions passes the threshold 0.5; "
        "the best cosine to the question is 1.000"
    )


def test_a_cosine_that_equals_the_threshold_does_not_pass(scene):
    image, regions = scene
    assert choose(image, "green", regions, Colours(), threshold=1.0).source == "whole"


def test_none_or_several_take_the_whole_picture(scene):
    image, regions = scene
    none = choose(image, "blue", regions, Colours(), threshold=0.8)
    assert (none.box, none.source, none.score) == ((0, 0, 200, 60), "whole", None)
    assert none.why == (
        "0 of 3 regions pass the threshold 0.8; the best cosine to the question is 0.707: "
        "the whole picture"
    )
    several = choose(image, "red", regions, Colours(), threshold=0.5)
    assert (several.box, several.source, several.score) == ((0, 0, 200, 60), "whole", None)
    assert several.why == (
        "2 of 3 regions pass the threshold 0.5; the best cosine to the question is 1.000: "
        "the whole picture"
    )


def test_without_regions_or_a_question_the_whole_picture_is_taken(scene):
    image, regions = scene
    region = choose(image, "red", [], Colours())
    assert (region.box, region.why) == (
        (0, 0, 200, 60),
        "no region was proposed: the whole picture",
    )
    region = choose(image, "  ", regions, Colours())
    assert region.why == "there is no question to choose a region by: the whole picture"


def test_a_background_that_is_masked_out_has_no_say(scene):
    image, regions = scene
    unmasked = choose(image, "blue", regions, Colours(), threshold=0.5, background="keep")
    assert (unmasked.box, unmasked.score) == ((150, 10, 190, 50), 0.7071)
    masked = choose(image, "blue", regions, Colours(), threshold=0.5, background="mask")
    assert masked.source == "whole"
    assert masked.why.startswith("0 of 3 regions pass ")


def test_a_question_that_is_too_long_is_cut_for_the_comparison(scene):
    image, regions = scene
    question = "is it the green one there " + "or perhaps the red one " * 50
    region = choose(image, question, regions, Colours(), threshold=0.5)
    assert region.box == (80, 10, 120, 50)


def test_more_regions_than_are_held_at_once_are_compared_alike(scene):
    image, regions = scene
    many = [regions[0]] * 130 + [regions[1]]
    assert choose(image, "green", many, Colours(), threshold=0.5).box == regions[1].box


def test_an_encoder_that_cannot_compare_texts_and_pictures_is_refused(scene):
    image, regions = scene
    with pytest.raises(BadInput, match="cannot compare a question with a picture"):
        choose(image, "red", regions, EmbeddedEncoder())


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=9)), st.integers(0, 12))
def test_a_text_is_cut_to_the_longest_beginning_that_fits(words, limit):
    text = " ".join(words)
    encoder = Colours(max_tokens=limit)
    cut = fitting(text, encoder)
    assert text.startswith(cut)
    assert cut.split() == text.split()[:limit]


def test_a_word_that_is_too_long_by_itself_is_cut_inside():
    class Letters(Colours):
        def count_tokens(self, text):
            return len(text)

    assert fitting("北京是中华人民共和国的首都", Letters(max_tokens=5)) == "北京是中华"
    assert fitting("ab cdef", Letters(max_tokens=4)) == "ab"


def test_crops_keep_or_mask_the_background(scene):
    image, regions = scene
    cropped = np.asarray(crop(image, regions[2]))
    np.testing.assert_array_equal(cropped, np.asarray(image)[10:50, 150:190])
    masked = np.asarray(crop(image, regions[2], "mask"))
    assert masked.shape == (40, 40, 3)
    assert (masked[:, :20] == RED).all()
    assert (masked[:, 20:] == FILL).all()
    for unmasked in (regions[0], Region(regions[0].box, mask=np.zeros((40, 40), bool))):
        np.testing.assert_array_equal(crop(image, unmasked, "mask"), crop(image, unmasked))


def test_a_mask_is_neither_compared_nor_printed():
    box = (0, 0, 40, 40)
    assert Region(box, mask=HALF) == Region(box)
    assert hash(Region(box, mask=HALF)) == hash(Region(box))
    assert "mask" not in repr(Region(box, mask=HALF))
