import pytest
from PIL import Image, ImageChops

from ku_rag.demo.dataset import FLAGS
from tools.demo_data.facts import countries
from tools.demo_data.flags import COUNTRIES, difference, draw, proportions, twins


def rgb(text):
    return tuple(int(text[i : i + 2], 16) for i in (1, 3, 5))


def test_there_is_a_design_for_every_country_and_none_besides():
    assert len(COUNTRIES) >= 60
    assert tuple(countries()) == COUNTRIES


@pytest.mark.parametrize(
    ("country", "proportion"),
    [("france", 3 / 2), ("switzerland", 1), ("qatar", 28 / 11), ("monaco", 5 / 4)],
)
def test_proportions_are_official(country, proportion):
    assert proportions(country) == pytest.approx(proportion)
    width, height = draw(country, 320).size
    assert (width, height) == (320, round(320 / proportion))


@pytest.mark.parametrize(
    ("country", "at", "colour"),
    [
        ("france", (20, 100), "#000091"),
        ("france", (160, 100), "#ffffff"),
        ("france", (300, 100), "#e1000f"),
        ("japan", (160, 106), "#bc002d"),
        ("bangladesh", (144, 96), "#f42a41"),
        ("sweden", (110, 10), "#fecc02"),
        ("norway", (116, 116), "#00205b"),
        ("chile", (20, 20), "#0032a0"),
        ("south-africa", (10, 106), "#000000"),
        ("south-africa", (200, 106), "#007749"),
        ("jamaica", (160, 80), "#fed100"),
        ("canada", (160, 80), "#d80621"),
        ("seychelles", (300, 150), "#007a39"),
        ("united-kingdom", (160, 80), "#c8102e"),
        ("australia", (300, 150), "#012169"),
    ],
)
def test_colours_stand_where_the_design_has_them(country, at, colour):
    assert draw(country, 320).getpixel(at) == rgb(colour)


def test_edges_are_anti_aliased():
    colours = {c for _, c in draw("japan", 160).getcolors(10_000)}
    assert len(colours) > 10


def test_a_drawn_flag_may_be_changed_by_the_caller():
    draw("japan", 64).putpixel((0, 0), (1, 2, 3))
    assert draw("japan", 64).getpixel((0, 0)) == (255, 255, 255)


def test_identical_designs_are_twins_and_look_alikes_are_not():
    assert twins("chad") == {"romania"}
    assert twins("romania") == {"chad"}
    assert twins("indonesia") == {"monaco"}
    assert twins("monaco") == {"indonesia"}
    assert [c for c in COUNTRIES if twins(c)] == ["chad", "indonesia", "monaco", "romania"]
    assert difference("netherlands", "luxembourg") > 60
    assert difference("ireland", "ivory-coast") > 100
    assert difference("japan", "japan") == 0


def test_the_flags_of_the_demo_are_those_that_are_drawn():
    assert {path.stem for path in FLAGS.glob("*.png")} == set(COUNTRIES)
    for country in COUNTRIES:
        with Image.open(FLAGS / f"{country}.png") as stored:
            assert ImageChops.difference(stored, draw(country, 320)).getbbox() is None
