"""Registration and edge check: a stored picture is located, even with hidden parts."""

from __future__ import annotations

import numpy as np
from PIL import Image

from ku_rag.encoders.embedded.registration import (
    Pyramid,
    box_of,
    confirmed_edges,
    register,
    rescore,
    template,
)
from ku_rag.encoders.embedded.window_matching import RegionMatch
from ku_rag.types import Region

PLACE = (100, 60, 220, 140)


def blocks(seed, size=(96, 64)):
    grid = np.random.default_rng(seed).integers(0, 256, (3, 4, 3), dtype=np.uint8)
    return Image.fromarray(grid).resize(size, Image.Resampling.NEAREST)


def template_of(seed):
    return template(blocks(seed))


def stripes(*colours, size=(90, 60)):
    return Image.fromarray(np.array([[c] for c in colours], np.uint8)).resize(
        size, Image.Resampling.NEAREST
    )


def match(row, box, score=1.0):
    return RegionMatch(row, 0.8, score, Region(box, "windows", score))


def scene():
    image = Image.new("RGB", (320, 240), (90, 110, 130))
    image.paste(blocks(1, (120, 80)), (100, 60))
    image.paste((40, 40, 40), (130, 60, 150, 140))  # a post in front of it
    return image.point(lambda value: value * 0.8)  # underexposed


def overlap(a, b):
    across, down = (min(a[i + 2], b[i + 2]) - max(a[i], b[i]) for i in (0, 1))
    both = max(0, across) * max(0, down)
    areas = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (a, b))
    return both / (areas - both)


def registered(image, picture, box=PLACE):
    [registration] = register(Pyramid.of(image), template(picture)[None], np.array([[box]]))
    return registration


def test_what_is_there_ranks_before_what_was_taken_for_it():
    matches = [
        match(2, (104, 66, 214, 134), 1.3),
        match(1, (90, 50, 205, 130), 1.2),
        match(3, (10, 10, 80, 60), 1.1),
    ]
    first = rescore(scene(), matches, template_of)[0]
    assert first.image_row == 1
    assert overlap(first.region.box, PLACE) > 0.7
    assert first.region.score == first.score > 1.2


def test_a_hidden_part_is_missing_and_not_wrong():
    present, absent = (registered(scene(), blocks(seed)) for seed in (1, 2))
    assert 0.7 < present.agreement < 0.9  # the post hides a sixth
    assert absent.agreement < 0.4


def test_a_rotated_and_stretched_picture_is_found():
    stored = blocks(1, (120, 80))
    image = Image.new("RGB", (320, 240), (90, 110, 130))
    turned = stored.convert("RGBA").resize((140, 80)).rotate(12, expand=True)
    image.paste(turned.convert("RGB"), (90, 50), turned.getchannel("A"))
    registration = registered(image, stored, (110, 60, 215, 150))
    assert registration.agreement > 0.75
    truth = (90, 50, 90 + turned.width, 50 + turned.height)
    assert overlap(box_of(registration.frame, image.size), truth) > 0.7


def test_edges_tell_a_thing_from_another_in_its_colours():
    red, white, blue = (200, 20, 40), (245, 245, 245), (20, 40, 150)
    image = Image.new("RGB", (320, 240), (120, 130, 110))
    image.paste(stripes(red, white, blue, size=(120, 80)), (100, 60))
    present, absent = (
        confirmed_edges(registered(image, stripes(*colours)))
        for colours in ((red, white, blue), (blue, white, red))
    )
    assert present > 2 * absent > 0


def test_where_nothing_agrees_the_box_of_the_window_stays():
    noise = np.random.default_rng(0).integers(0, 256, (240, 320, 3), dtype=np.uint8)
    matches = [match(1, (10, 10, 150, 110), 1.2), match(2, PLACE, 1.1)]
    rescored = rescore(Image.fromarray(noise), matches, template_of)
    assert {m.image_row: m.region.box for m in rescored} == {1: (10, 10, 150, 110), 2: PLACE}


def test_the_same_matches_get_the_same_scores():
    matches = [match(1, (90, 50, 205, 130)), match(2, (104, 66, 214, 134))]
    assert rescore(scene(), matches, template_of) == rescore(scene(), matches, template_of)


def test_no_match_and_no_picture_to_register_is_fine():
    assert rescore(scene(), [], template_of) == []


def test_frames_rotate_about_their_centre():
    frame = np.array([50.0, 40.0, 20.0, 10.0, np.pi / 2, 0.0])
    assert box_of(frame, (100, 100)) == (45, 30, 55, 50)
    assert box_of(frame, (52, 100)) == (45, 30, 52, 50)


def test_a_single_match_is_registered_too():
    [rescored] = rescore(scene(), [match(1, (90, 50, 205, 130))], template_of)
    assert rescored.edges > 0
    assert rescored.score > 1.0
