"""Scanned pages: their words are text of the document, with page, box and confidence."""

from io import BytesIO

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

from ku_rag import KnowledgeBase
from ku_rag.ingest.reading_order import reading_order
from tests.conftest import needs_ocr

SIDES = (1000, 1400)
LEFT = ("The pump is cleaned once", "a week. Its filter is re-", "placed after 90 days of", "use.")
RIGHT = ("The valve opens at 7 bar", "and closes at 5 bar. Its", "spring is made of steel", "wire.")


def page(tilt=0.0):
    """A page with a title and two columns, as a scanner sees it."""
    picture = Image.new("L", SIDES, 255)
    draw = ImageDraw.Draw(picture)
    draw.text((60, 80), "Maintenance", fill=0, font=ImageFont.load_default(64))
    for left, column in ((60, LEFT), (540, RIGHT)):
        for n, line in enumerate(column):
            draw.text((left, 300 + 50 * n), line, fill=0, font=ImageFont.load_default(32))
    noise = np.random.default_rng(1).normal(0, 8, SIDES[::-1])
    tilted = picture.rotate(tilt, Image.Resampling.BICUBIC, fillcolor=255)
    return Image.fromarray(np.clip(np.asarray(tilted) + noise, 0, 255).astype(np.uint8))


def pdf(path, *pages):
    """A PDF file: a text is a page with text, a picture one without, None an empty page."""
    canvas = Canvas(str(path), pagesize=SIDES)
    for content in pages:
        if isinstance(content, str):
            canvas.drawString(100, 1300, content)
        elif content:
            png = BytesIO()
            content.save(png, "PNG")
            canvas.drawImage(ImageReader(BytesIO(png.getvalue())), 0, 0, *SIDES)
        canvas.showPage()
    canvas.save()
    return path


def ingest(folder, recogniser, *files):
    kb = KnowledgeBase.open(folder / "kb", create=True, recogniser=recogniser)
    return kb, [kb.ingest(file) for file in files]


@pytest.mark.ocr
@needs_ocr
@pytest.mark.parametrize("tilt", [0.0, 2.0])
def test_a_scanned_page_is_read_column_by_column(tmp_path, tilt):
    kb, (report,) = ingest(tmp_path, "rapidocr", pdf(tmp_path / "pump.pdf", page(tilt)))
    with kb:
        assert report.quarantined == []
        assert (kb.show("pump").name, kb.show("pump").aliases) == ("Maintenance", ("pump",))
        (text,) = kb.show("pump").texts
        assert "Its filter is replaced after 90 days of" in " ".join(text.split())
        assert text.index("of\nuse.") < text.index("The valve")
        (piece,) = kb.search(text="spring steel valve").chunks
        assert (piece.page, piece.section) == (1, "Maintenance")
        assert 0.8 < piece.confidence <= 1
        assert piece.place.startswith("page 1 (recognised, confidence 0.")
        answer = kb.query(None, "At how many bar does the valve open?")
        (cited,) = (piece for piece in answer.chunks if piece.label in answer.citations)
        # "The valve opens at 7 bar" begins at (540, 300) of the straight page.
        left, top, right, bottom = cited.box
        assert abs(left - 0.54) < 0.03
        assert abs(top - 300 / 1400) < 0.03
        assert right - left < 0.45
        assert bottom - top < 0.2
        image = kb.page_image(cited.chunk, cited.page, cited.box)
        assert (40, 30, 0) in [colour for _, colour in image.getcolors(1 << 24)]  # the outline


@pytest.mark.ocr
@needs_ocr
def test_pages_are_recognised_once(tmp_path):
    file = pdf(tmp_path / "pump.pdf", "Pump of the cellar", page())
    kb, (first, second) = ingest(tmp_path, "rapidocr", file, file)
    with kb:
        assert (first.units_added, second.units_unchanged, second.images_added) == (1, 1, 0)
        texts = kb.show("pump").texts
        assert [text.split()[0] for text in texts] == ["Pump", "Maintenance"]
        assert kb.stats().counts["images"] == 1
        kb.delete("pump")
        assert kb.stats().counts["images"] == 0


def test_pages_that_cannot_be_read_are_listed(tmp_path):
    pages = ("Pump of the cellar", page(), page(1.0), None, "Valve", page(2.0))
    files = pdf(tmp_path / "pump.pdf", *pages), pdf(tmp_path / "scan.pdf", page())
    kb, (partly, nothing) = ingest(tmp_path, "none", *files)
    with kb:
        (left_out,) = partly.quarantined
        assert left_out.reason.startswith(
            "pages 2 to 3, 6 hold no text, and the base has no recogniser"
        )
        (left_out,) = nothing.quarantined
        assert left_out.reason.startswith("page 1 holds no text, and the base has no recogniser")
        assert [unit.id for unit in kb.list()] == ["pump"]
        assert kb.stats().counts["images"] == 0


def box(left, top, right, bottom):
    return left / 100, top / 100, right / 100, bottom / 100


def test_columns_are_read_before_rows_and_rows_before_cells():
    title, wide = box(20, 2, 80, 6), box(10, 40, 90, 44)
    left = [box(10, top, 46, top + 3) for top in (10, 15, 20, 25, 30)]
    right = [box(54, top + 1, 90, top + 4) for top in (10, 15, 20, 25, 30)]
    below = [box(10, 50, 22, 53), box(60, 50, 78, 53), box(10, 55, 28, 58), box(60, 55, 75, 58)]
    order = reading_order([*right, wide, *below, *left, title])
    assert order[0] == [title]
    assert order[1:11] == [[b] for b in (*left, *right)]
    assert order[11:] == [[wide], below[:2], below[2:]]
    assert reading_order([]) == []
