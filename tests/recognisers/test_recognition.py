"""Words printed in pictures, with a recogniser that maps colours to words."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from PIL import Image, ImageDraw

from ku_rag import KnowledgeBase, NotFound, Unit
from ku_rag.cli.commands import cli
from ku_rag.types import Region, Word
from tests.conftest import install_plug_in, picture

COLOURS = {
    (250, 10, 20): "Morgonsol",
    (10, 250, 20): "Morqonsol",  # misread
    (10, 20, 250): "Kvällsro",
    (250, 250, 20): "apelsin 100%",
    (20, 250, 250): "Lighthouse",
}


class Colours:
    """Reads rectangles of known colours as words."""

    fingerprint = "colours:1"
    pictures = 0

    def read(self, image):
        Colours.pictures += 1
        pixels, words = np.asarray(image), []
        for colour, text in COLOURS.items():
            rows, columns = np.nonzero((pixels == colour).all(2))
            if len(rows):
                box = columns.min(), rows.min(), columns.max() + 1, rows.max() + 1
                words.append(Word(text, tuple(int(edge) for edge in box), 0.9))
        return words


class OtherColours(Colours):
    """A later version."""

    fingerprint = "colours:2"


@pytest.fixture(autouse=True)
def plug_in(tmp_path, monkeypatch):
    """Install the recognisers as a plug-in."""
    entries = f"colours = {__name__}:Colours\nothers = {__name__}:OtherColours\n"
    install_plug_in(tmp_path, f"[ku_rag.recognisers]\n{entries}")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("KU_RECOGNISER")
    monkeypatch.setattr(Colours, "pictures", 0)


def carton(path, *words, seed=1, scale=1):
    """A picture of coloured blocks with words below each other."""
    image = Image.open(picture(path, seed, (320, 240)))
    image = image.resize((320 * scale, 240 * scale), Image.Resampling.NEAREST)
    draw = ImageDraw.Draw(image)
    colours = {text: colour for colour, text in COLOURS.items()}
    for n, word in enumerate(words):
        x, y = 40 * scale, (30 + 50 * n) * scale
        box = (x, y, x + 120 * scale - 1, y + 30 * scale - 1)
        draw.rectangle(box, fill=colours[word])
    image.save(path)
    return path


def make_base(tmp_path, recogniser="colours"):
    kb = KnowledgeBase.open(tmp_path / "kb", create=True, recogniser=recogniser)
    for unit, word in (("sun", "Morgonsol"), ("calm", "Kvällsro")):
        image = carton(tmp_path / f"{unit}.png", word, "apelsin 100%")
        kb.add(Unit(f"Juice {unit}", id=unit, images=(image,), texts=(f"Price: 1{unit} kr",)))
    return kb


def test_a_misread_word_decides_between_units_that_look_alike(tmp_path):
    photo = carton(tmp_path / "photo.png", "Morqonsol", "apelsin 100%", scale=8)
    with make_base(tmp_path) as kb:
        answer = kb.query(photo, "What is the price?")
        best, second = answer.units[:2]
        assert (best.id, second.id) == ("sun", "calm")
        assert best.why.endswith("read in the picture: Morqonsol, apelsin 100%")
        assert second.why.endswith("read in the picture: apelsin 100%")
        assert best.evidence > second.evidence
        words = answer.to_dict()["words"]
        assert [(w["evidence"], w["text"], w["confidence"]) for w in words] == [
            ("W1", "Morqonsol", 0.9),
            ("W2", "apelsin 100%", 0.9),
        ]
        # Boxes are in the pixels of the photo. It is matched at a smaller size, which blurs edges.
        assert words[0]["box"] == pytest.approx([320, 240, 1280, 480], abs=4)
        assert words[1]["box"] == pytest.approx([320, 640, 1280, 880], abs=4)


def test_commands_show_words_and_recogniser(tmp_path, ku):
    make_base(tmp_path).close()
    assert (
        "words in pictures, read by colours:1: Morgonsol, apelsin 100%\n" in ku("show", "sun").out
    )
    assert json.loads(ku("show", "sun", "--json").out)["words"] == {
        "colours:1": ["Morgonsol", "apelsin 100%"]
    }
    assert "\nrecogniser: colours; 2 pictures read by colours:1\n" in ku("stats").out
    with KnowledgeBase.open(tmp_path / "none", create=True, recogniser="none") as kb:
        kb.add(Unit("Juice", id="juice", images=(tmp_path / "sun.png",)))
        assert (kb.stats().recogniser, kb.stats().pictures_read) == ("none", {})
        assert kb.show("juice").words == {}


def test_names_and_facts_are_printed_words_too(tmp_path):
    plain = carton(tmp_path / "plain.png")
    units = {
        "name": Unit("Morgonsol", id="name", images=(plain,)),
        "alias": Unit("Juice", id="alias", aliases=("Kvällsro",), images=(plain,)),
        "metadata": Unit("Milk", id="metadata", metadata={"maker": "Lighthouse"}, images=(plain,)),
        "text": Unit("Tea", id="text", texts=("Sort: Apelsin",), images=(plain,)),
    }
    with KnowledgeBase.open(tmp_path / "kb", create=True, recogniser="colours") as kb:
        kb.add_many(units.values())
        for unit, word in zip(
            units, ("Morqonsol", "Kvällsro", "Lighthouse", "apelsin 100%"), strict=True
        ):
            best = kb.query(carton(tmp_path / "photo.png", word), "What is this?").units[0]
            assert (best.id, best.why.partition("read in ")[2]) == (unit, f"the picture: {word}")


def test_words_count_in_the_confidence_the_more_the_rarer_they_are(tmp_path):
    evidence = []
    for recogniser in ("none", "colours"):
        folder = tmp_path / recogniser
        with KnowledgeBase.open(folder, create=True, recogniser=recogniser) as kb:
            for n in range(4):
                words = ("Kvällsro", "apelsin 100%") if n == 2 else ("apelsin 100%",)
                image = carton(tmp_path / f"{n}.png", *words, seed=n)
                kb.add(Unit(f"Juice {n}", id=f"{n}", images=(image,)))
            units = kb.query(tmp_path / "2.png", "What is this?").units
            evidence.append({unit.id: unit.evidence for unit in units})
    # Four of four units have two words, "apelsin" and "100", one of four has the third.
    common = np.log(2) / np.log(5)
    for unit, rarity in (("1", 2 * common), ("2", 2 * common + 1)):
        added = evidence[1][unit] - evidence[0][unit]
        assert added == pytest.approx(0.83 * rarity, abs=1e-6)


class TwoHalves:
    """A cross-modal encoder that tells red from blue, and a segmenter of two halves."""

    dim, max_tokens, cross_modal, fingerprint, name = 4, 50, True, "halves:4", "halves"

    def count_tokens(self, text):
        return len(text.split())

    def encode_texts(self, texts):
        return np.float32([[1, 0, 0, 0] if "red" in text else [0, 0, 1, 0] for text in texts])

    def encode_images(self, images):
        means = [np.asarray(image).reshape(-1, 3).mean(0) for image in images]
        return np.float32([[1, 0, 0, 0] if r > b else [0, 1, 0, 0] for r, _, b in means])

    def propose(self, image):
        middle, height = image.width // 2, image.height
        return [Region((0, 0, middle, height)), Region((middle, 0, image.width, height))]


def test_words_outside_of_the_region_that_is_asked_about_do_not_count(tmp_path):
    image = Image.new("RGB", (600, 200), "darkred")
    image.paste("darkblue", (300, 0, 600, 200))
    draw = ImageDraw.Draw(image)
    colours = {text: colour for colour, text in COLOURS.items()}
    draw.rectangle((40, 80, 100, 100), fill=colours["Morgonsol"])
    draw.rectangle((420, 80, 480, 100), fill=colours["Kvällsro"])
    image.save(tmp_path / "photo.png")
    whys = {}
    both = TwoHalves()
    with KnowledgeBase.open(
        tmp_path / "kb", create=True, encoder=both, segmenter=both, recogniser="colours"
    ) as kb:
        for name in ("Morgonsol", "Kvällsro"):
            kb.add(Unit(name, id=name, images=(carton(tmp_path / f"{name}.png"),)))
        for question in ("the red thing", "the thing"):
            units = kb.query(tmp_path / "photo.png", question).units
            whys[question] = {unit.id for unit in units if "read in the picture" in unit.why}
    assert whys == {"the red thing": {"Morgonsol"}, "the thing": {"Morgonsol", "Kvällsro"}}


def test_each_picture_is_read_once(tmp_path):
    with make_base(tmp_path) as kb:
        assert Colours.pictures == 2
        kb.add(Unit("Third", id="third", images=(tmp_path / "sun.png",)))
        photo = carton(tmp_path / "photo.png", "Morqonsol")
        for question in ("What is this?", "What is the price?"):
            kb.query(photo, question)
        assert Colours.pictures == 3


@pytest.mark.parametrize(
    "question",
    [
        "What does the label say?",
        "What is written on it?",
        "What does it say?",
        "Which words are printed on this carton?",
        "What text is on the package?",
        "Read the label.",
    ],
)
def test_what_the_label_says_is_answered_from_the_words(tmp_path, question):
    photo = carton(tmp_path / "photo.png", "Kvällsro", "apelsin 100%", seed=9)
    with make_base(tmp_path) as kb:
        answer = kb.query(photo, question)
        assert (answer.answer, answer.citations) == ("Kvällsro; apelsin 100%", ("W1", "W2"))
        assert answer.reading.why == "Recognised in the picture."


def test_where_no_words_are_recognised_the_reason_says_so(tmp_path, monkeypatch):
    photo = carton(tmp_path / "photo.png", seed=9)
    with make_base(tmp_path) as kb:
        reading = kb.query(photo, "What does the label say?").reading
        words = carton(tmp_path / "words.png", "Kvällsro", seed=9)
        unmatched = kb.query(words, "What does the label say?", kind="none").reading
    assert reading.why.startswith("No words were recognised in the picture. ")
    assert reading.answer == ""
    assert (unmatched.answer, "No words" in unmatched.why) == ("", False)
    monkeypatch.setenv("KU_RECOGNISER", "none")
    with KnowledgeBase.open(tmp_path / "other", create=True) as kb:
        kb.add(Unit("Sun", images=(photo,)))
        why = kb.query(photo, "What does the label say?").reading.why
    assert why.startswith("The base has no recogniser of words (extra ocr). ")


@pytest.mark.parametrize(
    "question",
    ["What is the price on the label?", "Who wrote it?", "When was it printed?", "What is this?"],
)
def test_other_questions_are_not(tmp_path, question):
    photo = carton(tmp_path / "photo.png", "Kvällsro", seed=9)
    with make_base(tmp_path) as kb:
        assert "W1" not in kb.query(photo, question).citations


def image_words(folder):
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = parquet.read_table(folder / "image_words.parquet").to_pylist()
    return sorted(
        (row["recogniser"], [word["text"] for word in json.loads(row["words"])]) for row in rows
    )


SUN, CALM = ["Morgonsol", "apelsin 100%"], ["Kvällsro", "apelsin 100%"]


def test_words_are_exported_imported_and_deleted_with_their_picture(tmp_path):
    with make_base(tmp_path) as kb:
        kb.export(tmp_path / "all")
        kb.delete("calm")
        kb.export(tmp_path / "rest")
        assert kb.verify().ok
    assert image_words(tmp_path / "all") == [("colours:1", CALM), ("colours:1", SUN)]
    assert image_words(tmp_path / "rest") == [("colours:1", SUN)]
    Colours.pictures = 0
    with KnowledgeBase.open(tmp_path / "copy", create=True, recogniser="none") as kb:
        kb.import_(tmp_path / "all")
        kb.export(tmp_path / "again")
    assert image_words(tmp_path / "again") == [("colours:1", CALM), ("colours:1", SUN)]
    assert Colours.pictures == 0


def test_reindexing_reads_the_words_that_were_not_read(tmp_path, monkeypatch):
    photo = carton(tmp_path / "photo.png", "Morqonsol")
    with make_base(tmp_path, "none") as kb:
        assert "words" not in kb.query(photo, "What is this?").to_dict()
    counts = []
    for recogniser in ("none", "colours", "colours", "others"):
        monkeypatch.setenv("KU_RECOGNISER", recogniser)
        result = CliRunner().invoke(cli, ["reindex", "--kb", str(tmp_path / "kb"), "--json"])
        counts.append(json.loads(result.stdout)["pictures_read"])
    assert counts == [0, 2, 0, 2]
    with KnowledgeBase.open(tmp_path / "kb") as kb:
        assert kb.query(photo, "What is this?").units[0].id == "sun"
        kb.export(tmp_path / "all")
    assert image_words(tmp_path / "all") == [("colours:2", CALM), ("colours:2", SUN)]


def test_a_new_base_records_its_recogniser(tmp_path, monkeypatch):
    with make_base(tmp_path) as kb:
        assert kb.settings.recogniser == "colours"
    with KnowledgeBase.open(tmp_path / "kb") as kb:
        assert kb.settings.recogniser == "colours"
    monkeypatch.setenv("KU_RECOGNISER", "none")
    KnowledgeBase.open(tmp_path / "none", create=True).close()
    monkeypatch.delenv("KU_RECOGNISER")
    with KnowledgeBase.open(tmp_path / "none") as kb:
        assert kb.settings.recogniser == "none"


def test_a_report_draws_the_boxes_of_the_words(tmp_path):
    photo = carton(tmp_path / "photo.png", "Morqonsol")
    with make_base(tmp_path) as kb:
        kb.query(photo, "What does it say?", report=tmp_path / "report.html")
    html = (tmp_path / "report.html").read_text("utf-8")
    assert (
        '<div class="word" id="q1-W1" title="Morqonsol" style="left:12.50%;top:12.50%;width:37.50%;'
        'height:12.50%"></div>'
    ) in html


def test_an_unknown_recogniser_says_which_there_are(tmp_path):
    make_base(tmp_path, "none").close()
    with (
        KnowledgeBase.open(tmp_path / "kb", recogniser="magic") as kb,
        pytest.raises(
            NotFound, match="no recogniser 'magic'; there are: colours, others, rapidocr"
        ),
    ):
        kb.query(tmp_path / "sun.png", "What is this?")


class Failing(Colours):
    """Fails on pictures with red words, and returns rubbish for those with blue ones."""

    fingerprint = "failing"

    def read(self, image):
        words = Colours.read(self, image)
        if any(word.text == "Morgonsol" for word in words):
            raise ZeroDivisionError("a division")
        return ["Kvällsro"] if any(word.text == "Kvällsro" for word in words) else words


def test_a_picture_on_which_the_recogniser_fails_is_kept_without_words(tmp_path, caplog):
    install_plug_in(tmp_path, f"[ku_rag.recognisers]\nfailing = {__name__}:Failing\n")
    with make_base(tmp_path, "failing") as kb:
        assert [unit.id for unit in kb.list()] == ["calm", "sun"]
        answer = kb.query(tmp_path / "sun.png", "What is the price?")
        assert (answer.answer, "words" in answer.to_dict()) == ("1sun kr", False)
        kb.export(tmp_path / "all")
    assert image_words(tmp_path / "all") == []
    assert "failing failed on a picture of 320 x 240 pixels (ZeroDivisionError: a d" in caplog.text


@pytest.mark.parametrize(
    "words",
    ["5", "[" * 100_000, '[{"text": "a"}]',
     '[{"text": null, "box": [0, 0, 1, 1], "confidence": 1}]',
     '[{"text": "a", "box": [0, 0, 1], "confidence": 1}]',
     '[{"text": "a", "box": [0, 0, 1, 1], "confidence": 7}]'],
)  # fmt: skip
def test_words_of_an_export_that_are_none_are_left_out_alone(tmp_path, words):
    with make_base(tmp_path) as kb:
        kb.export(tmp_path / "all")
    file = tmp_path / "all" / "image_words.parquet"
    table = pq.read_table(file)
    column = pa.array([words] * len(table), table.schema.field("words").type)
    pq.write_table(table.set_column(table.schema.get_field_index("words"), "words", column), file)
    with KnowledgeBase.open(tmp_path / "copy", create=True, recogniser="colours") as kb:
        report = kb.import_(tmp_path / "all")
        assert sum("image_words: " in item.item for item in report.quarantined) == 2
        assert kb.query(tmp_path / "sun.png", "What is the price?").answer == "1sun kr"


def test_words_of_an_export_without_a_recogniser_are_left_out(tmp_path):
    with make_base(tmp_path) as kb:
        kb.export(tmp_path / "all")
    file = tmp_path / "all" / "image_words.parquet"
    table = pq.read_table(file)
    field = table.schema.get_field_index("recogniser")
    column = pa.nulls(len(table), pa.string())
    pq.write_table(table.set_column(field, "recogniser", column), file)
    with KnowledgeBase.open(tmp_path / "copy", create=True, recogniser="colours") as kb:
        report = kb.import_(tmp_path / "all")
        assert sum("image_words: " in item.item for item in report.quarantined) == 2
        assert kb.query(tmp_path / "sun.png", "What is the price?").answer == "1sun kr"
