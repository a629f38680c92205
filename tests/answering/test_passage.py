import random

import numpy as np
import pytest
from PIL import Image

from ku_rag.answering import fonts
from ku_rag.answering.passage import (
    GAP,
    MARGIN,
    PAGE_HEIGHT,
    PAGE_WIDTH,
    PICTURE_WIDTH,
    TEXT_WIDTH,
    Card,
    cards,
    compose,
    wrap,
)
from ku_rag.types import Evidence, Match

RED = Image.new("RGB", (600, 400), (255, 0, 0))
TEXTS = {
    "plain": "The capital of Portugal is Lisbon. " * 20,
    "one word": "x" * 5000,
    "address": "https://example.org/" + "a-very-long-path/" * 60,
    "cjk": "北京是中华人民共和国的首都。" * 60,
    "emoji": "👍🏽 family 👨‍👩‍👧‍👦 flag 🇵🇹 " * 30,
    "marks": ("e" + "\u0301" * 60 + " ") * 40,
    "hebrew": "שלום עולם, this line has both. " * 20,
    "arabic": "مرحبا بالعالم " * 50,
    "lines": "Key: value\n" * 30,
    "control": "a\x00b\x07c\x1b[0m\u202e mirrored \ufeff" * 20,
    "private": "\ue000\U000f0000 " * 40,
    "surrogate": "\ud800 " * 30,
}


def ink(page):
    return np.asarray(page.convert("L")) < 250


@pytest.mark.parametrize("kind", TEXTS)
def test_ink_stays_inside_the_margins_and_columns(kind):
    card = Card(TEXTS[kind][:80].replace("\n", " "), RED, (TEXTS[kind],), ("E1",))
    pages = compose([card, card])
    assert pages
    for page in pages:
        assert page.mode == "RGB"
        assert page.width == PAGE_WIDTH == 772
        assert page.height <= PAGE_HEIGHT
        dark = ink(page)
        assert not dark[:MARGIN].any()
        assert not dark[-MARGIN:].any()
        assert not dark[:, :MARGIN].any()
        assert not dark[:, -MARGIN:].any()
        gutter = slice(MARGIN + PICTURE_WIDTH, MARGIN + PICTURE_WIDTH + GAP)
        rules = dark[:, gutter].all(axis=1)
        assert not dark[~rules, gutter].any()


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("indent", [0, 40, 499])
def test_no_line_is_wider_than_its_column_and_nothing_is_lost(kind, indent):
    text = TEXTS[kind].replace("\n", " ")
    lines = wrap(text, 18, TEXT_WIDTH, indent=indent)
    assert max(fonts.width(line, 18) for line in lines[1:]) <= TEXT_WIDTH
    assert fonts.width(lines[0], 18) <= TEXT_WIDTH - indent
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_words_break_only_where_they_must():
    lines = wrap("one two " + "x" * 200 + " three", 18, 200)
    assert lines[0] == "one two"
    assert lines[-1].endswith("x three")
    assert wrap("", 18, 200) == []


def test_closing_marks_do_not_start_a_line():
    lines = wrap("中" * 9 + "。" + "文" * 40, 18, fonts.width("中" * 9, 18) + 1)
    assert all(not line.startswith("。") for line in lines)


def test_a_mark_stays_with_its_letter():
    lines = wrap("e\u0301" * 200, 18, 100)
    assert all(not line.startswith("\u0301") for line in lines)


def test_pages_hold_picture_name_and_text():
    (page,) = compose([Card("Portugal", RED, ("Its capital is Lisbon.",), ("E1",))])
    pixels = np.asarray(page)
    thumbnail = pixels[MARGIN : MARGIN + 149, MARGIN : MARGIN + PICTURE_WIDTH]
    assert (thumbnail[1:-1, 1:-1] == (255, 0, 0)).all()
    assert len({tuple(thumbnail[at]) for at in ((0, 0), (0, -1), (-1, 0), (-1, -1))}) == 1
    assert tuple(thumbnail[0, 0]) != (255, 0, 0), "a line around it, as flags may be white"
    column = ink(page)[:, MARGIN + PICTURE_WIDTH + GAP :]
    rows = np.flatnonzero(column.any(axis=1))
    assert rows.size > 20
    (without,) = compose([Card("Portugal", None, ("Its capital is Lisbon.",), ("E1",))])
    assert (ink(without)[:, MARGIN + PICTURE_WIDTH + GAP :][rows] == column[rows]).all()


def test_the_name_is_bold_and_a_label_is_drawn():
    (plain,) = compose([Card("", None, ("Portugal",))])
    (labelled,) = compose([Card("", None, ("Portugal",), ("E1",))])
    (titled,) = compose([Card("Portugal", None, ())])
    assert ink(labelled).sum() > 1.3 * ink(plain).sum()
    assert ink(titled).sum() > 1.5 * ink(plain).sum()


def test_a_card_that_fits_on_a_page_is_never_split():
    card = Card("Name", RED, ("word " * 600,))
    height = compose([card])[0].height
    assert PAGE_HEIGHT / 2 < height < PAGE_HEIGHT
    assert [page.height for page in compose([card, card, card])] == [height] * 3


def test_a_long_card_flows_on_and_keeps_every_line():
    words = [f"w{n}" for n in range(9000)]
    text = " ".join(words)
    pages = compose([Card("Portugal", RED, (text,))])
    line_height = 26
    lines = len(wrap(text, 18, TEXT_WIDTH))
    room = (PAGE_HEIGHT - 2 * MARGIN) // line_height
    assert len(pages) == -(-lines // (room - 1))
    for page in pages:
        assert (np.asarray(page)[MARGIN + 1, MARGIN + 1] == (255, 0, 0)).all()


def test_a_hundred_kilobytes_are_set():
    words = random.Random(4).choices(["lorem", "ipsum", "dolor", "consectetur"], k=15_000)
    text = " ".join(words)[:100_000]
    pages = compose([Card("Long", None, (text,))])
    assert len(pages) == 25
    assert all(page.height <= PAGE_HEIGHT for page in pages)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16", "I", "F"])
def test_pictures_of_every_mode_and_shape(mode):
    for size in [(1, 1), (1, 5000), (5000, 1), (224, 224)]:
        (page,) = compose([Card("x", Image.new(mode, size), ("text",))])
        assert page.height < 600


def test_nothing_to_show_gives_no_page():
    assert compose([]) == []
    assert compose([Card("", None, ())]) == []
    assert compose([Card("", None, ("", " \n"))]) == []


def test_cards_merge_the_evidence_of_one_unit():
    units = [Match("pt", "Portugal", 0.9), Match("es", "Spain", 0.5), Match("fr", "France", 0.4)]
    evidence = [
        Evidence("E1", 1, ("es", "pt"), "a", "one", 0.9, ("es", "pt")),
        Evidence("E2", 2, ("es",), "a", "two", 0.8, ("es",)),
        Evidence("E3", 3, ("pt",), "a", "three", 0.7, ("pt",)),
        Evidence("E4", 4, (), "a", "four", 0.6),
    ]
    assert cards(units, evidence, {"pt": RED}) == [
        Card("Portugal", RED, ("three",), ("E3",)),
        Card("Spain", None, ("one", "two"), ("E1", "E2")),
        Card("a", None, ("four",), ("E4",)),
    ]


def test_text_of_another_unit_does_not_stand_under_a_picture():
    """A text that only names a unit is headed by its owner, or by its file."""
    evidence = [
        Evidence("E1", 1, ("pt", "es"), "s", "Spain borders Portugal.", 0.9, ("es",), ("Spain",)),
        Evidence("E2", 2, ("pt",), "/kb/notes.txt", "Portugal is old.", 0.8, ()),
        Evidence("E3", 3, ("pt",), "s", "Its capital is Lisbon.", 0.7, ("pt",)),
        Evidence("E4", 4, ("pt", "es"), "s", "Spain is large.", 0.6, ("es",), ("Spain",)),
    ]
    assert cards([Match("pt", "Portugal", 0.9)], evidence, {"pt": RED}) == [
        Card("Portugal", RED, ("Its capital is Lisbon.",), ("E3",)),
        Card("Spain", None, ("Spain borders Portugal.", "Spain is large."), ("E1", "E4")),
        Card("notes.txt", None, ("Portugal is old.",), ("E2",)),
    ]


# ---- fonts -------------------------------------------------------------------------------------


def test_one_font_sets_latin_greek_and_cyrillic():
    text = "Zażółć gęślą jaźń, Größe, Việt Nam, Ελλάδα, Україна — “€5”…"
    assert [part for part, _ in fonts.runs(text, 18)] == [text]
    assert fonts.missing_characters(text) == ""


def test_missing_characters_are_named_and_drawn():
    assert fonts.missing_characters("a\ue123b\ue123 \u200d\n") == "\ue123"
    ((part, _),) = fonts.runs("\ue123", 18)
    assert part == "[U+E123]"
    (page,) = compose([Card("", None, ("\ue123",))])
    assert ink(page).sum() > 40


def test_invisible_characters_leave_no_box():
    assert "[" not in "".join(part for part, _ in fonts.runs("a\u200b\ufe0fb", 18))


@pytest.mark.parametrize("data", [b"", b"\0" * 40, b"ttcf", b"OTTO\xff\xff" + b"\xff" * 400])
def test_a_broken_font_file_has_no_characters(tmp_path, data):
    path = tmp_path / "broken.ttf"
    path.write_bytes(data)
    assert fonts.characters(path) == frozenset()
    assert fonts.characters(tmp_path / "absent.ttf") == frozenset()
