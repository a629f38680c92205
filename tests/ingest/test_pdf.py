"""PDF files: pages, boxes, headings, columns, running heads, tables and pictures."""

from io import BytesIO

import pytest
from PIL import Image
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

from ku_rag import KnowledgeBase

WIDTH, HEIGHT = 600, 800


def write(canvas, x, y, text, font="Helvetica", size=10):
    canvas.setFont(font, size)
    canvas.drawString(x, HEIGHT - y, text)


@pytest.fixture(scope="module")
def manual(tmp_path_factory):
    path = tmp_path_factory.mktemp("pdf") / "pump-manual.pdf"
    canvas = Canvas(str(path), pagesize=(WIDTH, HEIGHT))
    write(canvas, 50, 80, "Pump Manual", size=24)
    write(canvas, 50, 120, "Contents", size=16)
    write(canvas, 50, 140, "1 Safety . . . . . . . . . . . . . . 2")
    write(canvas, 50, 155, "2 Service 3")
    write(canvas, 50, 170, "3 Parts 4")
    write(canvas, 50, 200, "Espresso . . . . . . . . . 2.50")
    write(canvas, 50, 215, "Tea . . . . . . . . . . . 1.80")
    write(canvas, 50, 230, "Rotor 11")
    write(canvas, 50, 245, "Rotor")
    canvas.showPage()
    for page in (2, 3, 4):
        write(canvas, 50, 40, "Pump Manual, revision 7")
        write(canvas, 300, 780, str(page))
        if page == 2:
            write(canvas, 50, 100, "1 Safety", size=16)
            write(canvas, 50, 130, "Wear gloves while the pump is open. The lid opens only")
            write(canvas, 50, 142, "after the motor has stop-")
            write(canvas, 50, 154, "ped. The default of the lock time is 30 seconds.")
        if page == 3:
            write(canvas, 50, 100, "2 Service", size=16)
            for n in range(12):  # two columns, written one after the other
                write(canvas, 50, 130 + 12 * n, f"left line {n} of the service column", size=10)
            for n in range(12):
                write(canvas, 320, 130 + 12 * n, f"right line {n} of the service column", size=10)
        if page == 4:
            write(canvas, 50, 100, "3 Parts", size=16)
            write(canvas, 50, 120, "Table 1: Weights of parts")
            canvas.grid([50, 200, 350], [HEIGHT - y for y in (130, 150, 170)])
            write(canvas, 60, 145, "Part")
            write(canvas, 210, 145, "Weight")
            write(canvas, 60, 165, "Rotor")
            write(canvas, 210, 165, "3.5 kg")
            picture = BytesIO()
            Image.new("RGB", (90, 60), (200, 30, 30)).save(picture, "PNG")
            canvas.drawImage(ImageReader(BytesIO(picture.getvalue())), 50, 400, 180, 120)
            write(canvas, 50, 420, "Figure 1: The rotor.")
        canvas.showPage()
    canvas.showPage()  # an empty page
    canvas.save()
    return path


@pytest.fixture(scope="module")
def base(manual):
    with KnowledgeBase.open(manual.parent / "kb", create=True) as kb:
        kb.report = kb.ingest(manual)
        yield kb


def test_a_pdf_is_a_unit_with_its_title_and_picture(base):
    unit = base.show("pump-manual")
    assert (unit.name, len(unit.images)) == ("Pump Manual", 1)
    with Image.open(unit.images[0]) as picture:
        assert (picture.size, picture.convert("RGB").getpixel((5, 5))) == ((90, 60), (200, 30, 30))


def test_running_heads_page_numbers_and_contents_are_left_out(base):
    text = "\n".join(base.show("pump-manual").texts)
    assert "revision" not in text
    assert "Safety . . ." not in text
    assert "Espresso . . . . . . . . . 2.50" in text
    assert "Rotor 11" in text
    assert "2 Service 3" not in text
    assert "\n3\n" not in text
    assert "Rotor 3.5 kg" not in text
    assert "Figure 1: The rotor." in text


def test_columns_are_read_one_after_the_other(base):
    text = " ".join(" ".join(base.show("pump-manual").texts).split())
    left, right = text.index("left line 11"), text.index("right line 0")
    assert text.index("left line 0") < left < right < text.index("right line 11")


def test_a_citation_has_page_and_box(base):
    answer = base.query(None, "What is the default of the lock time?")
    assert answer.answer == "30 seconds"
    (piece,) = (piece for piece in answer.chunks if piece.label in answer.citations)
    assert (piece.page, piece.section) == (2, "1 Safety")
    left, top, right, bottom = piece.box
    assert left == pytest.approx(50 / WIDTH, abs=0.01)
    assert right < 300 / WIDTH
    assert 140 / HEIGHT < top < bottom < 160 / HEIGHT
    (row,) = (piece for piece in base.search(text="weight of the rotor", k=1).chunks)
    assert (row.page, row.table.name) == (4, "Table 1: Weights of parts")
    assert [(column, cell.text) for column, cell in row.table.cells] == [
        ("Part", "Rotor"),
        ("Weight", "3.5 kg"),
    ]
    assert row.box[1] == pytest.approx(130 / HEIGHT, abs=0.01)


def test_an_empty_page_is_not_reported(base):
    assert base.report.quarantined == []


def test_the_same_pdf_again_changes_nothing(base, manual):
    assert base.ingest(manual).units_unchanged == 1
    assert not base.verify().problems


def test_words_are_joined_over_hyphens(tmp_path):
    canvas = Canvas(str(tmp_path / "a.pdf"), pagesize=(WIDTH, HEIGHT))
    text = canvas.beginText(50, 700)
    text.setFont("Times-Roman", 10)
    for line in ("The machine is a mecha\u00ad", "nism for grinding, and its", "noise is low."):
        text.textLine(line)
    canvas.drawText(text)
    canvas.save()
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.ingest(tmp_path / "a.pdf")
        (text,) = kb.show("a").texts
        assert "mechanism for grinding, and its\nnoise" in text


@pytest.mark.parametrize(("degrees", "corner"), [(0, "lt"), (90, "rt"), (180, "rb"), (270, "lb")])
def test_boxes_are_those_of_the_page_as_it_is_shown(tmp_path, degrees, corner):
    canvas = Canvas(str(tmp_path / "a.pdf"), pagesize=(WIDTH, HEIGHT))
    canvas.setPageRotation(degrees)
    write(canvas, 20, 20, "Mark")
    write(canvas, 250, 400, "The middle of the page.")
    canvas.save()
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.ingest(tmp_path / "a.pdf")
        (piece,) = kb.search(text="mark", k=1).chunks
    left, top, right, bottom = piece.box
    assert (left < 0.1, right > 0.9) == ("l" in corner, "r" in corner)
    assert (top < 0.1, bottom > 0.9) == ("t" in corner, "b" in corner)


def test_text_at_the_top_of_pages_is_kept_if_its_numbers_do_not_follow_the_pages(tmp_path):
    canvas = Canvas(str(tmp_path / "prices.pdf"), pagesize=(WIDTH, HEIGHT))
    for page in range(1, 5):
        write(canvas, 50, 20, f"Price list, page {page} of 4")
        for row in range(40):
            write(canvas, 50, 40 + 17 * row, f"Article {100 * page + row}: {7 + row} euro")
        write(canvas, 50, 790, ("i", "ii", "iii", "iv")[page - 1])
        canvas.showPage()
    canvas.save()
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.ingest(tmp_path / "prices.pdf")
        lines = "\n".join(kb.show("prices").texts).splitlines()
        stated = {
            f"Article {100 * page + row}: {7 + row} euro"
            for page in range(1, 5)
            for row in range(40)
        }
        assert {line for line in lines if line} == stated


def test_a_repeated_picture_is_stored_once_and_a_long_title_is_not_used(tmp_path):
    content = BytesIO()
    Image.new("RGB", (90, 60), (200, 30, 30)).save(content, "PNG")
    canvas = Canvas(str(tmp_path / "a.pdf"), pagesize=(WIDTH, HEIGHT))
    canvas.setTitle("The pump " * 300)
    for page in range(3):
        write(canvas, 50, 300, f"The pump is described on page {page}.")
        canvas.drawImage(ImageReader(BytesIO(content.getvalue())), 50, 400, 180, 120)
        canvas.showPage()
    canvas.save()
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.ingest(tmp_path / "a.pdf")
        unit = kb.show("a")
    assert (unit.name, len(unit.images)) == ("a", 1)
