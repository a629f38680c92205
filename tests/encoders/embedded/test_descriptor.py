import numpy as np
import pytest
from PIL import Image

from ku_rag.encoders.embedded.descriptor import DIM, VERSION, describe_boxes, describe_images


def _patches(width: int, height: int, seed: int = 0) -> Image.Image:
    colours = np.random.default_rng(seed).integers(0, 256, (9, 12, 3), dtype=np.uint8)
    return Image.fromarray(colours).resize((width, height), Image.Resampling.BICUBIC)


def test_rows_are_float32_of_length_one() -> None:
    rows = describe_images([_patches(320, 240, seed) for seed in range(3)])
    assert rows.dtype == np.float32
    assert rows.shape == (3, DIM) == (3, 512)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-5)


def test_nothing_to_describe_gives_no_rows() -> None:
    assert describe_images([]).shape == (0, 512)
    assert describe_boxes(_patches(20, 20), []).shape == (0, 512)


def test_version_can_stand_in_a_fingerprint() -> None:
    assert VERSION.isalnum()


@pytest.mark.parametrize("size", [(640, 480), (1600, 900), (97, 61), (16, 16), (5, 300)])
def test_the_whole_box_agrees_with_the_picture(size: tuple[int, int]) -> None:
    image = _patches(*size)
    whole = describe_boxes(image, [(0, 0, *size)])
    assert (whole @ describe_images([image]).T).item() > 0.98


@pytest.mark.parametrize(
    "box", [(0, 0, 200, 160), (311, 47, 390, 110), (600, 400, 640, 480), (9, 9, 19, 29)]
)
def test_a_box_agrees_with_the_crop(box: tuple[int, int, int, int]) -> None:
    image = _patches(640, 480)
    crop = describe_images([image.crop(box)])
    assert (crop @ describe_boxes(image, [box]).T).item() > 0.97


def test_boxes_beyond_the_picture_are_clipped() -> None:
    image = _patches(64, 48)
    rows = describe_boxes(image, [(-20, -20, 500, 500), (0, 0, 64, 48)])
    np.testing.assert_array_equal(rows[0], rows[1])


@pytest.mark.parametrize("size", [(1, 1), (1, 4000), (4000, 1), (17, 2)])
@pytest.mark.parametrize("colour", [(0, 0, 0), (255, 255, 255), (200, 10, 30)])
def test_plain_and_thin_pictures_have_vectors(
    size: tuple[int, int], colour: tuple[int, int, int]
) -> None:
    row = describe_images([Image.new("RGB", size, colour)])
    np.testing.assert_allclose(np.linalg.norm(row, axis=1), 1.0, atol=1e-5)


def test_a_row_does_not_depend_on_its_neighbours() -> None:
    images = [_patches(80, 60, seed) for seed in range(5)]
    together = describe_images(images)
    for row, image in zip(together, images, strict=True):
        np.testing.assert_allclose(describe_images([image])[0], row, atol=1e-6)


def test_exposure_matters_less_than_colour() -> None:
    image = Image.new("RGB", (90, 60), (190, 40, 40))
    image.paste((30, 60, 150), (0, 0, 40, 60))
    dark = image.point(lambda value: round(value * 0.6))
    red_and_blue_swapped = Image.merge("RGB", image.split()[::-1])
    rows = describe_images([image, dark, red_and_blue_swapped])
    assert rows[0] @ rows[1] > rows[0] @ rows[2] + 0.2


def test_colours_in_other_places_are_told_apart() -> None:
    upright = Image.new("RGB", (90, 60), (200, 20, 30))
    upright.paste((20, 40, 160), (0, 0, 45, 60))
    lying = Image.new("RGB", (90, 60), (200, 20, 30))
    lying.paste((20, 40, 160), (0, 0, 90, 30))
    rows = describe_images([upright, lying, upright.resize((45, 30))])
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
    cosines = describe_images(grey) @ describe_images(images).T
    np.testing.assert_array_equal(cosines.argmax(1), np.arange(12))


def test_a_tint_matters_less_than_colour() -> None:
    image = Image.new("RGB", (90, 60), (190, 60, 50))
    image.paste((40, 70, 150), (0, 0, 40, 60))
    red, green, blue = image.split()
    tinted = Image.merge("RGB", [red, green, blue.point(lambda value: round(value * 0.75))])
    turned = Image.merge("RGB", [blue, green, red])
    rows = describe_images([image, tinted, turned])
    assert rows[0] @ rows[1] > rows[0] @ rows[2] + 0.2
