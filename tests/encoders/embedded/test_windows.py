import numpy as np
import pytest
from PIL import Image

import ku_rag
from ku_rag.types import Box


def _landscape(width: int = 640, height: int = 480) -> Image.Image:
    rows = np.linspace(0, 1, height)[:, None, None]
    top, bottom = np.array([150, 190, 230]), np.array([90, 130, 60])
    pixels = np.broadcast_to(top + (bottom - top) * rows, (height, width, 3))
    return Image.fromarray(pixels.astype(np.uint8))


def _overlap(a: Box, b: Box) -> float:
    across = min(a[2], b[2]) - max(a[0], b[0])
    down = min(a[3], b[3]) - max(a[1], b[1])
    both = max(0, across) * max(0, down)
    areas = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (a, b))
    return both / (areas - both)


def test_its_fingerprint_names_its_parameters() -> None:
    prints = [ku_rag.load_segmenter("windows", min_side=side).fingerprint for side in (50, 40)]
    assert prints == ["windows1:50:300", "windows1:40:300"]


@pytest.mark.parametrize(
    "box", [(300, 200, 368, 245), (20, 30, 98, 69), (560, 400, 620, 460), (100, 50, 500, 350)]
)
def test_a_thing_of_a_hundredth_of_the_picture_gets_a_close_window(box: Box) -> None:
    scene = _landscape()
    scene.paste((200, 30, 40), box)
    regions = ku_rag.load_segmenter("windows").propose(scene)
    assert max(_overlap(box, region.box) for region in regions) > 0.7


@pytest.mark.parametrize("size", [(1, 1), (1, 3000), (5000, 7), (60, 60), (640, 480), (3000, 2000)])
def test_windows_are_few_and_inside_whatever_the_size(size: tuple[int, int]) -> None:
    regions = ku_rag.load_segmenter("windows").propose(Image.new("RGB", size, (9, 90, 9)))
    assert len(regions) <= 300
    for region in regions:
        x0, y0, x1, y1 = region.box
        assert 0 <= x0 < x1 <= size[0]
        assert 0 <= y0 < y1 <= size[1]
        assert region.source == "windows"
        assert region.box != (0, 0, *size)


def test_no_window_is_smaller_than_asked() -> None:
    regions = ku_rag.load_segmenter("windows", min_side=80).propose(_landscape())
    areas = [(r.box[2] - r.box[0]) * (r.box[3] - r.box[1]) for r in regions]
    assert min(areas) >= 79 * 79


def test_the_same_picture_gets_the_same_windows() -> None:
    segmenter = ku_rag.load_segmenter("windows")
    assert segmenter.propose(_landscape()) == segmenter.propose(_landscape())
