import re

import numpy as np
import pytest
from PIL import Image

import ku_rag

ENCODER = ku_rag.load_encoder("embedded")


def _patches(width: int, height: int, seed: int = 0) -> Image.Image:
    colours = np.random.default_rng(seed).integers(0, 256, (9, 12, 3), dtype=np.uint8)
    return Image.fromarray(colours).resize((width, height), Image.Resampling.BICUBIC)


def test_rows_are_float32_of_length_one() -> None:
    rows = ENCODER.encode_images([_patches(320, 240, seed) for seed in range(3)])
    assert rows.dtype == np.float32
    assert rows.shape == (3, 512)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-5)


def test_nothing_to_describe_gives_no_rows() -> None:
    assert ENCODER.encode_images([]).shape == (0, 512)
    assert ENCODER.encode_regions(_patches(20, 20), []).shape == (0, 512)


def test_the_fingerprint_names_versions_and_length() -> None:
    assert re.fullmatch(r"embedded:\w+\+\w+:512", ENCODER.fingerprint)


@pytest.mark.parametrize("size", [(640, 480), (1600, 900), (97, 61), (16, 16), (5, 300)])
def test_the_whole_box_agrees_with_the_picture(size: tuple[int, int]) -> None:
    image = _patches(*size)
    whole = ENCODER.encode_regions(image, [(0, 0, *size)])
    assert (whole @ ENCODER.encode_images([image]).T).item() > 0.98


@pytest.mark.parametrize(
    "box", [(0, 0, 200, 160), (311, 47, 390, 110), (600, 400, 640, 480), (9, 9, 19, 29)]
)
def test_a_box_agrees_with_the_crop(box: tuple[int, int, int, int]) -> None:
    image = _patches(640, 480)
    crop = ENCODER.encode_images([image.crop(box)])
    assert (crop @ ENCODER.encode_regions(image, [box]).T).item() > 0.97


def test_boxes_beyond_the_picture_are_clipped() -> None:
    image = _patches(64, 48)
    rows = ENCODER.encode_regions(image, [(-20, -20, 500, 500), (0, 0, 64, 48)])
    np.testing.assert_array_equal(rows[0], rows[1])


@pytest.mark.parametrize("size", [(1, 1), (1, 4000), (4000, 1), (17, 2)])
@pytest.mark.parametrize("colour", [(0, 0, 0), (255, 255, 255), (200, 10, 30)])
def test_plain_and_thin_pictures_have_vectors(
    size: tuple[int, int], colour: tuple[int, int, int]
) -> None:
    row = ENCODER.encode_images([Image.new("RGB", size, colour)])
    np.testing.assert_allclose(np.linalg.norm(row, axis=1), 1.0, atol=1e-5)


def test_a_row_does_not_depend_on_its_neighbours() -> None:
    images = [_patches(80, 60, seed) for seed in range(5)]
    together = ENCODER.encode_images(images)
    for row, image in zip(together, images, strict=True):
        np.testing.assert_allclose(ENCODER.encode_images([image])[0], row, atol=1e-6)


def test_exposure_matters_less_than_colour() -> None:
    image = Image.new("RGB", (90, 60), (190, 40, 40))
    image.paste((30, 60, 150), (0, 0, 40, 60))
    dark = image.point(lambda value: round(value * 0.6))
    red_and_blue_swapped = Image.merge("RGB", image.split()[::-1])
    rows = ENCODER.encode_images([image, dark, red_and_blue_swapped])
    assert rows[0] @ rows[1] > rows[0] @ rows[2] + 0.2


def test_colours_in_other_places_are_told_apart() -> None:
    upright = Image.new("RGB", (90, 60), (200, 20, 30))
    upright.paste((20, 40, 160), (0, 0, 45, 60))
    lying = Image.new("RGB", (90, 60), (200, 20, 30))
    lying.paste((20, 40, 160), (0, 0, 90, 30))
    rows = ENCODER.encode_images([upright, lying, upright.resize((45, 30))])
    assert rows[0] @ rows[2] > 0.93
    assert rows[0] @ rows[1] < 0.7


def test_a_grey_picture_is_told_by_its_shape() -> None:
    images = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        light, hue = rng.integers(40, 256, (9, 12, 1)), rng.uniform(0.3, 1.0, (3, 4, 3))
        colours = (light * hue.repeat(3, 0).repeat(3, 1)).astype(np.uint8)
        images.append(Image.fromarray(colours).resize((120, 90), Image.Resampling.BICUBIC))
    grey = [image.convert("L").convert("RGB") for image in images]
    cosines = ENCODER.encode_images(grey) @ ENCODER.encode_images(images).T
    np.testing.assert_array_equal(cosines.argmax(1), np.arange(12))


def test_a_tint_matters_less_than_colour() -> None:
    image = Image.new("RGB", (90, 60), (190, 60, 50))
    image.paste((40, 70, 150), (0, 0, 40, 60))
    red, green, blue = image.split()
    tinted = Image.merge("RGB", [red, green, blue.point(lambda value: round(value * 0.75))])
    turned = Image.merge("RGB", [blue, green, red])
    rows = ENCODER.encode_images([image, tinted, turned])
    assert rows[0] @ rows[1] > rows[0] @ rows[2] + 0.2
