"""RapidOCR, on pictures that these tests draw."""

from __future__ import annotations

from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from resource import RUSAGE_SELF, getrusage

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

import ku_rag
from ku_rag import KnowledgeBase, Unit
from ku_rag.recognisers import CachedRecogniser
from tests.conftest import needs_ocr

pytestmark = [pytest.mark.ocr, needs_ocr]


def label(*lines, size=(640, 400)):
    """A label with lines of print, in Aileron, the font of Pillow."""
    image = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(image)
    for n, line in enumerate(lines):
        draw.text((60, 50 + 110 * n), line, fill="black", font=ImageFont.load_default(56))
    return image


def test_the_recogniser_keeps_its_promises():
    recogniser = CachedRecogniser("rapidocr")
    assert recogniser.fingerprint == f"rapidocr:{version('rapidocr')}"
    words = recogniser.read(label("MORGONSOL", "Apelsin 100%"))
    assert [word.text for word in words] == ["MORGONSOL", "Apelsin 100%"]
    for word, top in zip(words, (50, 160), strict=True):
        x0, y0, x1, y1 = word.box
        assert 40 <= x0 <= 70
        assert top - 10 <= y0 < y1 <= top + 80
        assert 300 <= x1 <= 640
        assert 0.8 < word.confidence <= 1
    assert recogniser.read(Image.new("RGB", (200, 100), "white")) == []
    assert recogniser.read(Image.new("RGB", (1, 1))) == []


def test_a_new_base_reads_words_where_the_extra_is_installed(tmp_path, monkeypatch):
    monkeypatch.delenv("KU_RECOGNISER")
    label("MORGONSOL").save(tmp_path / "sun.png")
    label("KVALLSRO").save(tmp_path / "calm.png")
    photo = label("KVALLSRO", size=(900, 300)).rotate(3, fillcolor="grey")
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        for name in ("sun", "calm"):
            image, text = tmp_path / f"{name}.png", f"Price: {len(name)} kr"
            kb.add(Unit(name, id=name, images=(image,), texts=(text,)))
        answer = kb.query(photo, "What does the label say?")
        assert (answer.answer, answer.citations) == ("KVALLSRO", ("W1",))
        assert answer.units[0].id == "calm"
        assert "read in the picture: KVALLSRO" in answer.units[0].why


@pytest.mark.skipif(not find_spec("ultralytics"), reason='needs the extra "yolo", too')
def test_both_builds_of_opencv_work_in_one_environment():
    """Extra yolo brings opencv-python, extra ocr opencv-python-headless: they share `cv2`."""
    import cv2

    builds = [version(name) for name in ("opencv-python", "opencv-python-headless")]
    assert cv2.__version__.split(".")[:2] == builds[0].split(".")[:2]
    yolo = Path(__file__).parents[1] / "assets" / "shapes-seg.pt"
    image = label("MORGONSOL")
    ku_rag.load_segmenter(f"yolo:{yolo}").propose(image)
    assert [word.text for word in CachedRecogniser("rapidocr").read(image)] == ["MORGONSOL"]
    grey = cv2.cvtColor(np.asarray(image), cv2.COLOR_RGB2GRAY)
    assert grey.shape == (400, 640)


def test_a_narrow_picture_is_read_without_a_huge_one(caplog):
    recogniser = CachedRecogniser("rapidocr")
    recogniser.read(label("MORGONSOL"))
    before = getrusage(RUSAGE_SELF).ru_maxrss  # the most so far, kB
    assert recogniser.read(Image.new("RGB", (2, 1600), "white")) == []
    assert recogniser.read(Image.new("RGB", (1600, 1), "white")) == []
    (word,) = recogniser.read(label("MORGONSOL", size=(1600, 160)))
    assert word.text == "MORGONSOL"
    assert caplog.records == []  # a failure would be logged
    assert getrusage(RUSAGE_SELF).ru_maxrss - before < 500_000
