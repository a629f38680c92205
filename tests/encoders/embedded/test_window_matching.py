import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from ku_rag.encoders.base import Vectors
from ku_rag.encoders.embedded.encoder import EmbeddedEncoder
from ku_rag.encoders.embedded.window_matching import RegionMatch, Search, match_windows
from ku_rag.encoders.embedded.windows import WindowsSegmenter
from ku_rag.types import Box

COLOURS = {
    "red": (190, 30, 40),
    "blue": (20, 50, 150),
    "white": (245, 245, 245),
    "yellow": (250, 210, 30),
    "green": (20, 120, 60),
    "black": (15, 15, 15),
}


def _flag(*names: str, upright: bool = False) -> Image.Image:
    stripes = np.array([[COLOURS[name]] for name in names], np.uint8)
    if upright:
        stripes = stripes.transpose(1, 0, 2)
    return Image.fromarray(stripes).resize((180, 120), Image.Resampling.NEAREST)


STORED = [
    _flag("black", "red", "yellow"),
    _flag("blue", "white", "red", upright=True),
    _flag("green", "white", "red", upright=True),
    _flag("red", "white", "red"),
    _flag("blue", "yellow"),
    _flag("white", "red"),
    _flag("yellow", "green", "red", upright=True),
    _flag("black", "white", "green"),
    _flag("blue", "white", "green"),
    _flag("green", "yellow", "black"),
]


def _scene(*flags: tuple[Image.Image, Box]) -> Image.Image:
    scene = Image.new("RGB", (480, 360), (160, 195, 230))
    draw = ImageDraw.Draw(scene)
    draw.rectangle((0, 260, 480, 360), fill=(95, 125, 70))
    draw.polygon([(0, 260), (120, 150), (260, 260)], fill=(110, 105, 100))
    for flag, (x0, y0, x1, y1) in flags:
        draw.line((x0, y0, x0, 360), fill=(80, 70, 60), width=4)
        scene.paste(flag.resize((x1 - x0, y1 - y0)), (x0, y0))
    return scene


def _search(pictures: list[Image.Image]) -> Search:
    stored = EmbeddedEncoder().encode_images(pictures)

    def search(queries: Vectors, k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        cosines = queries @ stored.T
        rows = np.argsort(-cosines, axis=1, kind="stable")[:, :k]
        best = np.take_along_axis(cosines, rows, 1)
        short = ((0, 0), (0, k - rows.shape[1]))
        if k > rows.shape[1]:
            rows, best = np.pad(rows, short, constant_values=-1), np.pad(best, short)
        return rows.astype(np.int64), best.astype(np.float32)

    return search


def _match(
    scene: Image.Image,
    pictures: list[Image.Image] = STORED,
    units: dict[int, int] | None = None,
    **options: float,
) -> list[RegionMatch]:
    return match_windows(
        scene,
        encoder=EmbeddedEncoder(),
        windows=WindowsSegmenter().propose(scene),
        search=_search(pictures),
        owners=lambda rows: {row: frozenset([(units or {}).get(row, row)]) for row in rows},
        **options,
    )


def _overlap(a: Box, b: Box) -> float:
    across = min(a[2], b[2]) - max(a[0], b[0])
    down = min(a[3], b[3]) - max(a[1], b[1])
    both = max(0, across) * max(0, down)
    areas = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (a, b))
    return both / (areas - both)


def test_a_stored_picture_matches_itself_as_a_whole() -> None:
    for row in (0, 4, 9):
        assert _match(STORED[row])[0].image_row == row


def test_a_small_flag_in_a_landscape_matches_where_it_is() -> None:
    box = (300, 60, 360, 100)
    first = _match(_scene((STORED[0], box)))[0]
    assert first.image_row == 0
    assert _overlap(first.region.box, box) > 0.5
    assert first.region.source == "windows"
    assert first.region.score == first.score


def test_two_flags_come_out_each_in_its_place() -> None:
    left, right = (60, 60, 150, 120), (300, 80, 390, 140)
    matches = _match(_scene((STORED[2], left), (STORED[0], right)))
    assert {s.image_row for s in matches[:2]} == {0, 2}
    places = {s.image_row: s.region.box for s in matches[:2]}
    assert _overlap(places[2], left) > 0.4
    assert _overlap(places[0], right) > 0.4


def test_matches_are_ordered_and_each_picture_comes_once() -> None:
    matches = _match(_scene((STORED[7], (200, 50, 320, 130))))
    scores = [s.score for s in matches]
    assert scores == sorted(scores, reverse=True)
    assert len({s.image_row for s in matches}) == len(matches)


def test_nothing_stored_gives_no_match() -> None:
    assert _match(_scene(), []) == []


def test_nothing_below_the_lowest_cosine_is_reported() -> None:
    matches = _match(_scene((STORED[0], (300, 60, 390, 120))), lowest_cosine=0.7)
    assert matches[0].image_row == 0
    assert all(s.cosine >= 0.7 for s in matches)


def test_look_alikes_match_at_one_place_with_near_scores() -> None:
    twin = STORED[0].point(lambda value: min(255, value + 4))
    matches = _match(_scene((STORED[0], (150, 60, 270, 140))), [*STORED, twin])
    assert {s.image_row for s in matches[:2]} == {0, len(STORED)}
    assert abs(matches[0].score - matches[1].score) < 0.1


def test_pictures_of_one_unit_do_not_compete() -> None:
    pictures = [*STORED, STORED[0].resize((90, 60))]
    scene = _scene((STORED[0], (150, 60, 270, 140)))
    together = _match(scene, pictures, {len(STORED): 0})[0].score
    assert together > _match(scene, pictures)[0].score + 0.05


def test_the_same_picture_gives_the_same_matches() -> None:
    scene = _scene((STORED[3], (200, 50, 320, 130)))
    assert _match(scene) == _match(scene)
