"""Scanned pages: their words are text of the document, with page, box and confidence."""

import zipfile
from io import BytesIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image, ImageDraw, ImageFont
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

from ku_rag import KnowledgeBase
from ku_rag.ingest.reading_order import reading_order
from ku_rag.types import Word
from tests.conftest import install_plug_in, needs_ocr

SIDES = (1000, 1400)
LEFT = ("The pump is cleaned once", "a week. Its filter is re-", "placed after 90 days of", "use.")
RIGHT = ("The valve opens at 7 bar", "and closes at 5 bar. Its", "spring is made of steel", "wire.")


def page(tilt=0.0):
    """A page with a title and two columns, as scanned."""
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
    """A PDF file: a text gives a page with text, a picture one without, None an empty page."""
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


def test_a_page_that_cannot_be_read_is_listed_and_the_others_are_read(tmp_path):
    file = pdf(tmp_path / "pump.pdf", "Pump of the cellar", "Valve", "Motor of the pump")
    first, second, *rest = file.read_bytes().split(b"/Type /Page\n")
    file.write_bytes(b"/Type /Page\n".join([first, second + b"/Type /Pagx\n" + rest[0], *rest[1:]]))
    kb, (report,) = ingest(tmp_path, "none", file)
    with kb:
        (left_out,) = report.quarantined
        assert left_out.reason.startswith("page 2 cannot be read (Failed to load page.)")
        (text,) = kb.show("pump").texts
        assert text.split("\n\n")[:2] == ["Pump of the cellar", "Motor of the pump"]


class Reader:
    """Reads the same line on each page."""

    fingerprint = "reader:1"

    def read(self, image):
        return [Word("The pump is heavy.", (100, 100, 900, 140), 0.9)]


class Offline(Reader):
    """A recogniser whose server is not reachable."""

    fingerprint = "offline:1"

    def read(self, image):
        raise ConnectionError("no server")


@pytest.fixture
def plug_ins(tmp_path, monkeypatch):
    """Install the recognisers as plug-ins."""
    entries = f"reader = {__name__}:Reader\noffline = {__name__}:Offline\n"
    install_plug_in(tmp_path, f"[ku_rag.recognisers]\n{entries}")
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.parametrize("later", ["none", "offline"])
@pytest.mark.usefixtures("plug_ins")
def test_recognised_text_stays_when_the_recogniser_is_gone(tmp_path, later):
    file = pdf(tmp_path / "pump.pdf", "Pump of the cellar", page())
    kb, _ = ingest(tmp_path, "reader", file)
    with kb:
        before = kb.show("pump").texts
    assert before[1].strip() == "The pump is heavy."
    with KnowledgeBase.open(tmp_path / "kb", recogniser=later) as kb:
        assert kb.ingest(file).quarantined == []
        assert kb.show("pump").texts == before
        pdf(file, "Pump of the attic", page())
        kb.ingest(file)
        assert [text.strip() for text in kb.show("pump").texts] == [
            "Pump of the attic", "The pump is heavy."
        ]  # fmt: skip


@pytest.mark.parametrize("write", [KnowledgeBase.export, "salvage"])
@pytest.mark.usefixtures("plug_ins")
def test_recognised_text_survives_an_export_and_a_salvage(tmp_path, write):
    file = pdf(tmp_path / "pump.pdf", "Pump of the cellar", page())
    kb, _ = ingest(tmp_path, "reader", file)
    with kb:
        before = kb.show("pump")
        if write != "salvage":
            kb.export(tmp_path / "export")
    if write == "salvage":
        KnowledgeBase.salvage(tmp_path / "kb", tmp_path / "export")
    with KnowledgeBase.open(tmp_path / "copy", create=True, recogniser="none") as kb:
        kb.import_(tmp_path / "export")
        report = kb.ingest(file)
        assert (report.units_unchanged, report.quarantined) == (1, [])
        after = kb.show("pump")
        assert (after.texts, after.words) == (before.texts, before.words)
        (piece,) = kb.search(text="pump heavy", k=1).chunks
        assert (piece.page, piece.confidence) == (2, 0.9)
        assert kb.verify().problems == ()


def test_a_place_that_is_no_number_is_not_imported(tmp_path):
    kb, _ = ingest(tmp_path, "none", pdf(tmp_path / "pump.pdf", "Pump of the cellar"))
    with kb:
        kb.export(tmp_path / "export")
    file = tmp_path / "export" / "text_places.parquet"
    table = pq.read_table(file)
    column = pa.array(["[[0,1,NaN,0.1,0.2,0.3]]"])
    pq.write_table(table.set_column(table.schema.get_field_index("lines"), "lines", column), file)
    with KnowledgeBase.open(tmp_path / "copy", create=True) as kb:
        _, left_out = kb.import_(tmp_path / "export").quarantined  # the file, and the row
        assert "expected a list of character, page and box" in left_out.reason
        (piece,) = kb.search(text="pump").chunks
        assert piece.box is None


@pytest.mark.usefixtures("plug_ins")
def test_pages_on_which_the_recogniser_fails_are_listed(tmp_path):
    file = pdf(tmp_path / "pump.pdf", "Pump of the cellar", page())
    kb, (report,) = ingest(tmp_path, "offline", file)
    with kb:
        (left_out,) = report.quarantined
        assert left_out.reason.startswith(
            "page 2 holds no text, and the base has no recogniser, or it failed"
        )
        assert len(kb.show("pump").texts) == 1


@pytest.mark.slow
def test_scans_without_room_are_one_remark(tmp_path):
    noise = np.random.default_rng(1).integers(0, 256, (1600, 1143), np.uint8)
    pages = [Image.fromarray(np.roll(noise, 60 * number, 0)) for number in range(70)]
    kb, (report,) = ingest(tmp_path, "none", pdf(tmp_path / "noise.pdf", *pages))
    with kb:
        first, second = sorted(left_out.reason for left_out in report.quarantined)
        assert first.startswith("pages 1 to ")
        assert second.endswith(".webp on are left out: split the file")


def test_a_scan_in_an_archive_is_listed_by_its_name(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as members:
        members.write(pdf(tmp_path / "pump.pdf", page()), "pump.pdf")
    kb, (report,) = ingest(tmp_path, "none", tmp_path / "a.zip")
    with kb:
        assert [left_out.item for left_out in report.quarantined] == [
            f"{tmp_path.as_posix()}/a.zip/pump.pdf"
        ]


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


def test_lines_of_a_tilted_page_are_read_one_after_the_other():
    lines = [box(10, 10, 90, 20), box(11, 14, 91, 24), box(11, 20, 40, 25), box(12, 22, 92, 32)]
    assert reading_order(lines[::-1]) == [[line] for line in lines]
