"""The closer look: a stored picture is found where it lies, hidden parts and all."""

from __future__ import annotations

import numpy as np
from PIL import Image

from ku_rag.retrieval.alignment import align, look_closer
from ku_rag.retrieval.cutting import box_of, corners, overlap
from ku_rag.retrieval.sighting import Sighting
from ku_rag.types import Region


def blocks(seed, size=(96, 64)):
    grid = np.random.default_rng(seed).integers(0, 256, (3, 4, 3), dtype=np.uint8)
    return Image.fromarray(grid).resize(size, Image.Resampling.NEAREST)


def sighting(row, box, score=1.0, whole=0.0):
    x0, y0, x1, y1 = box
    frame = ((x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0, 0.0, 0.0)
    return Sighting(row, 0.8, score, Region(box, "windows", score), frame, whole)


def scene():
    image = Image.new("RGB", (320, 240), (90, 110, 130))
    image.paste(blocks(1, (120, 80)), (100, 60))
    image.paste((40, 40, 40), (130, 60, 150, 140))  # a post before it
    return image.point(lambda value: value * 0.8)  # and too dark


def test_what_lies_there_goes_before_what_was_taken_for_it():
    pictures = {1: blocks(1), 2: blocks(2), 3: blocks(3)}
    seen = [
        sighting(2, (104, 66, 214, 134), 1.3),
        sighting(1, (90, 50, 205, 130), 1.2),
        sighting(3, (10, 10, 80, 60), 1.1),
    ]
    again = align(scene(), seen, pictures.__getitem__)
    assert again[0].image_row == 1
    found = np.array([again[0].region.box])
    assert overlap(found, np.array([100, 60, 220, 140]))[0] > 0.7
    assert again[0].score == 1.3


def test_a_hidden_part_is_missing_and_not_wrong():
    _, (fit, other) = look_closer(
        scene(),
        [sighting(1, (100, 60, 220, 140)), sighting(2, (100, 60, 220, 140))],
        [blocks(1), blocks(2)],
    )
    assert 0.7 < fit.close < 0.9  # the post hides a sixth
    assert other.close < 0.4


def test_where_nothing_fits_the_whole_picture_decides():
    noise = np.random.default_rng(0).integers(0, 256, (240, 320, 3), dtype=np.uint8)
    seen = [
        sighting(1, (0, 0, 320, 240), 1.2, whole=0.1),
        sighting(2, (0, 0, 320, 240), 1.1, whole=0.6),
    ]
    again = align(Image.fromarray(noise), seen, lambda row: blocks(row))
    assert [s.image_row for s in again] == [2, 1]


def test_the_same_look_gives_the_same_scores():
    seen = [sighting(1, (90, 50, 205, 130)), sighting(2, (104, 66, 214, 134))]
    first, second = (align(scene(), seen, blocks) for _ in range(2))
    assert first == second


def test_one_sighting_or_none_is_left_alone():
    seen = [sighting(1, (90, 50, 205, 130))]
    assert align(scene(), seen, blocks) == seen
    assert align(scene(), [], blocks) == []


def test_frames_turn_about_their_middle():
    frame = np.array([[50.0, 40.0, 20.0, 10.0, np.pi / 2, 0.0]])
    x, y = corners(frame, np.array([[-0.5]]), np.array([[0.0]]))
    np.testing.assert_allclose((x[0, 0], y[0, 0]), (50, 30), atol=1e-9)
    assert box_of(frame[0], (100, 100)) == (45, 30, 55, 50)
