"""The closer look: a stored picture is found where it lies, hidden parts and all."""

from __future__ import annotations

import numpy as np
from PIL import Image

from ku_rag.retrieval.alignment import _FEATURES, WEIGHTS, align, look_closer
from ku_rag.retrieval.cutting import Cutter, box_of, corners, overlap
from ku_rag.retrieval.laying import Levels, lay, thumbnail
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


def stripes(*colours, size=(90, 60)):
    return Image.fromarray(np.array([[c] for c in colours], np.uint8)).resize(
        size, Image.Resampling.NEAREST
    )


def columns(image, box, *pictures):
    """The features of pictures that were all sighted at one place, by name."""
    seen = [sighting(row, box) for row in range(len(pictures))]
    features, _ = look_closer(image, seen, pictures)
    return dict(zip(_FEATURES, features.T, strict=True))


def test_every_feature_has_its_weight():
    image = scene()
    features, fits = look_closer(image, [sighting(1, (100, 60, 220, 140))] * 2, [blocks(1)] * 2)
    assert features.shape == (2, len(WEIGHTS))
    assert np.isfinite(features).all()
    assert len(fits) == 2


def test_a_picture_seen_at_an_angle_is_laid_over_it():
    """Its left side is a third higher than its right side."""
    corners_of = (100, 40, 100, 140, 220, 125, 220, 55)  # of the stored picture, in the scene
    stored = blocks(1, (120, 100))
    shape = np.array([[0, 0, 1], [0, 100, 1], [120, 100, 1], [120, 0, 1]], float)
    x, y = np.array(corners_of, float).reshape(4, 2).T
    rows = [[a, b, 1, 0, 0, 0, -a * u, -b * u] for (u, _, _), a, b in zip(shape, x, y, strict=True)]
    rows += [
        [0, 0, 0, a, b, 1, -a * v, -b * v] for (_, v, _), a, b in zip(shape, x, y, strict=True)
    ]
    to_stored = np.linalg.solve(np.array(rows), np.concatenate([shape[:, 0], shape[:, 1]]))
    hung = stored.convert("RGBA").transform((320, 240), Image.Transform.PERSPECTIVE, to_stored)
    image = Image.new("RGB", (320, 240), (90, 110, 130))
    image.paste(hung.convert("RGB"), (0, 0), hung.getchannel("A"))
    start = np.array([[160.0, 90.0, 120.0, 85.0, 0.0, 0.0]])
    levels = Levels.of(Cutter(image).levels)
    fit = lay(levels, thumbnail(stored), start, np.random.default_rng(0))
    assert fit.close > 0.75
    found = np.array([box_of(fit.frame, image.size)])
    assert overlap(found, np.array([100, 40, 220, 140]))[0] > 0.7


def test_edges_tell_a_thing_from_another_in_its_colours():
    red, white, blue = (200, 20, 40), (245, 245, 245), (20, 40, 150)
    image = Image.new("RGB", (320, 240), (120, 130, 110))
    image.paste(stripes(red, white, blue, size=(120, 80)), (100, 60))
    found = columns(
        image, (100, 60, 220, 140), stripes(red, white, blue), stripes(blue, white, red)
    )
    assert found["same edges"][0] > 0.7 > found["same edges"][1] + 0.2
    assert found["edges"][0] > found["edges"][1]


def test_colours_that_are_nowhere_else_are_no_chance():
    red, white = (200, 20, 40), (245, 245, 245)
    image = Image.new("RGB", (320, 240), white)
    image.paste(stripes(red, white, size=(120, 80)), (100, 60))
    found = columns(image, (100, 60, 220, 140), stripes(red, white), stripes(white, white))
    assert found["rare"][0] > 1.5 > 0.5 > found["rare"][1]
