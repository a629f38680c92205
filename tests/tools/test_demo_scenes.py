import numpy as np
import pytest
from PIL import Image, ImageChops

from ku_rag.demo.dataset import SCENES
from ku_rag.demo.tour import STOPS
from ku_rag.pictures import load_picture
from tools.demo_data.__main__ import tour_scenes
from tools.demo_data.flags import COUNTRIES, difference
from tools.demo_data.scenes import benchmark_scene, make_scene
from tools.demo_data.scenes.backdrops import BACKDROPS, make_backdrop
from tools.demo_data.scenes.camera import Shot, photograph
from tools.demo_data.scenes.cloth import (
    Pose,
    Wave,
    hang,
    homography,
    polygon_area,
    turned_quad,
)
from tools.demo_data.scenes.occluders import OCCLUDERS, hide

STILL = Wave(height=0, count=1, phase=0, slant=0, shading=0)
PLAIN = Shot(exposure=0, red=1, blue=1, blur=0, noise=0, vignette=0, quality=95)


@pytest.fixture(scope="module")
def scenes(rounds):
    return [benchmark_scene(seed) for seed in range(10_200, 10_200 + rounds(30, 60))]


def test_a_seed_gives_the_same_scene_every_time():
    scene, again = benchmark_scene(10_003), benchmark_scene(10_003)
    assert ImageChops.difference(scene.image, again.image).getbbox() is None
    assert (scene.country, scene.box, scene.shot) == (again.country, again.box, again.shot)


def test_a_third_is_small_and_three_tenths_are_hidden_or_have_a_distractor(scenes):
    assert sum(s.share < 0.1 for s in scenes) == len(scenes) // 3
    assert sum(s.hidden > 0 for s in scenes) == 3 * len(scenes) // 10
    assert sum(s.distractor is not None for s in scenes) == 3 * len(scenes) // 10
    assert all(0.01 <= s.share < 0.43 for s in scenes)
    assert all(0.1 <= s.hidden <= 0.4 for s in scenes if s.hidden)


def test_every_scene_varies_perspective_waving_tilt_exposure_and_quality(scenes):
    sides = [s.pose.quad[1] - s.pose.quad[0] for s in scenes]
    tilts = [np.degrees(np.arctan2(dy, dx)) for dx, dy in sides]
    assert len({round(tilt, 3) for tilt in tilts}) == len(scenes)
    assert len({s.shot.exposure for s in scenes}) == len(scenes)
    assert all(-35 <= tilt <= 35 for tilt in tilts)
    assert all(s.pose.wave.height > 0 for s in scenes)
    assert len({s.shot.quality for s in scenes}) > len(scenes) // 3
    assert {s.backdrop for s in scenes} == set(BACKDROPS)


def test_a_distractor_is_another_design_of_comparable_size_elsewhere(scenes):
    for scene in scenes:
        if scene.distractor:
            assert difference(scene.country, scene.distractor) > 60
            x0, y0, x1, y1 = scene.box
            a0, b0, a1, b1 = scene.distractor_box
            assert x1 <= a0 + 12 or a1 <= x0 + 12
            assert 0.2 < (a1 - a0) * (b1 - b0) / ((x1 - x0) * (y1 - y0)) < 5


def test_flags_stay_inside_the_picture(scenes):
    for scene in scenes:
        x0, y0, x1, y1 = scene.box
        assert 0 <= x0 < x1 <= 640
        assert 0 <= y0 < y1 <= 480


def test_what_is_asked_for_is_made():
    scene = make_scene(
        np.random.default_rng(5), "japan", share=0.1, distractor="brazil", backdrop="sky", tilt=12.0
    )
    assert (scene.country, scene.distractor, scene.backdrop) == ("japan", "brazil", "sky")
    assert scene.image.size == (640, 480)
    assert scene.share == pytest.approx(0.1, abs=0.02)


def test_a_still_flag_covers_its_quad_with_its_own_colours():
    picture = Image.new("RGB", (200, 100), "white")
    quad = np.array([[50.0, 20], [150, 20], [150, 80], [50, 80]])
    pose = Pose(quad, STILL)
    cover = hang(picture, Image.new("RGB", (100, 60), "#204060"), pose, 1.0)
    assert cover.sum() == pytest.approx(100 * 60, rel=0.01)
    assert picture.getpixel((100, 50)) == (0x20, 0x40, 0x60)
    assert picture.getpixel((40, 50)) == (255, 255, 255)


def test_homography_takes_the_unit_square_to_the_quad():
    quad = np.array([[10.0, 20], [110, 5], [120, 90], [0, 70]])
    matrix = homography(quad)
    for corner, expected in zip(((0, 0), (1, 0), (1, 1), (0, 1)), quad, strict=True):
        x, y, depth = matrix @ np.array([*corner, 1.0])
        assert (x / depth, y / depth) == pytest.approx(tuple(expected))


def test_turning_in_the_plane_keeps_the_area():
    assert polygon_area(turned_quad(1.5, 0, 0, 20)) == pytest.approx(1.5)
    assert polygon_area(turned_quad(1.5, 35, 0, 0)) < 1.4


@pytest.mark.parametrize("kind", OCCLUDERS)
def test_occluders_hide_what_they_are_told(kind):
    picture = Image.new("RGB", (320, 240), "#336699")
    cover = np.zeros((240, 320), dtype=np.float32)
    cover[80:160, 100:220] = 1
    before = picture.copy()
    share = hide(picture, cover, np.random.default_rng(3), kind, 0.25)
    assert share == pytest.approx(0.25, abs=0.03)
    changed = np.asarray(ImageChops.difference(before, picture)).max(axis=2) > 0
    assert changed[80:160, 100:220].mean() == pytest.approx(share, abs=0.03)


def test_exposure_brightens_and_darkens():
    grey = Image.new("RGB", (64, 64), (120, 120, 120))
    rng = np.random.default_rng(0)
    dark = photograph(grey, Shot(-1, 1, 1, 0, 0, 0, 95), rng).getpixel((32, 32))
    same = photograph(grey, PLAIN, rng).getpixel((32, 32))
    bright = photograph(grey, Shot(0.5, 1, 1, 0, 0, 0, 95), rng).getpixel((32, 32))
    assert dark[0] < 95
    assert same[0] == pytest.approx(120, abs=2)
    assert bright[0] > 135


@pytest.mark.parametrize("kind", BACKDROPS)
def test_backdrops_are_pictures_with_some_detail(kind):
    picture = make_backdrop(np.random.default_rng(1), kind)
    assert (picture.size, picture.mode) == ((640, 480), "RGB")
    assert np.asarray(picture).std() > 3


def test_all_countries_come_up(scenes):
    assert {scene.country for scene in scenes} <= set(COUNTRIES)
    assert len({scene.country for scene in scenes}) > len(scenes) // 2


def test_the_scenes_of_the_demo_are_those_that_are_made():
    generated = list(tour_scenes())
    assert [scene.country for scene in generated] == [stop.country for stop in STOPS]
    stored = [load_picture(path) for path in sorted(SCENES.iterdir())]
    for scene, picture in zip(generated, stored, strict=True):
        # JPEG libraries differ in the last bits.
        assert np.asarray(ImageChops.difference(scene.image, picture)).mean() < 1
