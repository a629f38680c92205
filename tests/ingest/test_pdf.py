"""PDF files: pages, boxes, headings, columns, running heads, tables and pictures."""

import base64
import re
from io import BytesIO

import pytest
from PIL import Image, ImageChops
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

from ku_rag import BadInput, KnowledgeBase, Mismatch, NotFound

WIDTH, HEIGHT = 600, 800


def write(canvas, x, y, text, font="Helvetica", size=10):
    canvas.setFont(font, size)
    canvas.drawString(x, HEIGHT - y, text)


def pixels(image, box):
    part = image.crop(box)
    return [part.getpixel((x, y)) for x in range(part.width) for y in range(part.height)]


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
    assert 155 / HEIGHT < row.box[1] < row.box[3] < 170 / HEIGHT


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


def test_a_cited_page_is_shown_with_the_place_in_a_box(base):
    answer = base.query(None, "What is the default of the lock time?")
    (piece,) = (piece for piece in answer.chunks if piece.label in answer.citations)
    image = base.page_image(piece.chunk, piece.page, piece.box)
    plain = base.page_image(piece.chunk, piece.page)
    assert (image.mode, image.size) == ("RGB", (834, 1112))  # 100 pixels an inch, rounded up
    left, top, right, bottom = ImageChops.difference(image, plain).getbbox()
    sides = [share * side for share, side in zip(piece.box, image.size * 2, strict=True)]
    assert (left, top) == pytest.approx((sides[0] - 4, sides[1] - 4), abs=1)
    assert (right, bottom) == pytest.approx((sides[2] + 4, sides[3] + 4), abs=1)
    assert set(pixels(image, (left, top, right, top + 2))) == {(40, 30, 0)}
    assert set(pixels(image, (left + 2, top + 2, left + 3, bottom - 2))) == {(255, 241, 169)}
    assert min(map(sum, pixels(image, (left + 4, top + 4, right - 4, bottom - 4)))) < 200  # letters


@pytest.mark.parametrize(
    ("page", "box", "message"),
    [
        (9, None, "pump-manual.pdf has 5 pages, and no page 9"),
        (0, None, "the page is 0"),
        (2, (0.1, 0.2), "the box is .*: expected left, top, right and bottom"),
        (2, (0, 0, 1, 1.5), "the box is"),
        (2, 3, "the box is"),
        (2, (float("nan"),) * 4, "the box is"),
    ],
)
def test_a_page_or_box_that_does_not_exist_is_refused(base, page, box, message):
    chunk = base.search(text="lock time", k=1).chunks[0].chunk
    with pytest.raises(BadInput, match=message):
        base.page_image(chunk, page, box)


def test_chunks_of_other_files_have_no_page(tmp_path):
    (tmp_path / "note.md").write_text("The lid is red.")
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.ingest(tmp_path / "note.md")
        (piece,) = kb.search(text="lid", k=1).chunks
        for chunk in (piece.chunk, 10**6):
            with pytest.raises(NotFound, match=f"no PDF file has the chunk {chunk} now"):
                kb.page_image(chunk, 1)


def test_a_changed_file_is_shown_after_it_is_ingested_again(tmp_path, manual):
    """Also if its text is the same, so that its chunks stay."""
    file = tmp_path / "#1 copy.PDF"
    file.write_bytes(manual.read_bytes())
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.ingest(file)
        (piece,) = kb.search(text="lock time", k=1).chunks
        before = kb.page_image(piece.chunk, 2)
        file.write_bytes(manual.read_bytes() + b"\n% saved again\n")
        with pytest.raises(Mismatch, match=r"copy\.PDF was changed after it was ingested"):
            kb.page_image(piece.chunk, 2)
        assert kb.ingest(file).units_updated == 1
        assert kb.ingest(file).units_unchanged == 1
        assert kb.page_image(piece.chunk, 2) == before
        file.unlink()
        with pytest.raises(NotFound, match=r"copy\.PDF is not there"):
            kb.page_image(piece.chunk, 2)


def test_pages_of_sections_that_are_units_and_of_an_imported_base_are_shown(tmp_path, manual):
    with KnowledgeBase.open(tmp_path / "kb", create=True, units="heading") as kb:
        kb.ingest(manual)
        (piece,) = kb.search(text="lock time", k=1).chunks
        assert piece.source == f"{manual.as_posix()}#1-safety"
        page = kb.page_image(piece.chunk, piece.page, piece.box)
        kb.export(tmp_path / "export")
    with KnowledgeBase.open(tmp_path / "copy", create=True, units="heading") as kb:
        kb.import_(tmp_path / "export")
        (piece,) = kb.search(text="lock time", k=1).chunks
        assert kb.page_image(piece.chunk, piece.page, piece.box) == page
        assert kb.ingest(manual).units_updated == 0


def test_a_large_page_is_scaled_down_and_one_beyond_a_limit_is_refused(tmp_path):
    canvas = Canvas(str(tmp_path / "plan.pdf"), pagesize=(14_000, 14_000))
    canvas.setFont("Helvetica", 300)
    canvas.drawString(1_000, 3_000, "The hall is 40 m long.")
    canvas.save()
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.ingest(tmp_path / "plan.pdf")
        (piece,) = kb.search(text="hall", k=1).chunks
        assert kb.page_image(piece.chunk, 1).size == (4_000, 4_000)
    with (
        KnowledgeBase.open(tmp_path / "kb", read_only=True, parse_memory=128) as kb,
        pytest.raises(BadInput, match=r"plan\.pdf .* memory"),
    ):
        kb.page_image(piece.chunk, 1)


@pytest.mark.parametrize("is_changed", [False, True])
def test_a_report_shows_the_cited_page(tmp_path, manual, is_changed):
    file = tmp_path / "manual.pdf"
    file.write_bytes(manual.read_bytes())
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.ingest(file)
        file.write_bytes(file.read_bytes() + b"%" * is_changed)
        kb.query(None, "What is the default of the lock time?", report=tmp_path / "why.html")
    report = (tmp_path / "why.html").read_text("utf-8")
    assert "manual.pdf, page 2, 1 Safety" in report
    pictures = re.findall(r'<figure class="page"><img src="data:image/jpeg;base64,([^"]+)', report)
    assert len(pictures) == (not is_changed)
    for picture in pictures:
        with Image.open(BytesIO(base64.b64decode(picture))) as image:
            assert image.size == (750, 1000)
            red, _, blue = image.convert("RGB").getpixel((322, 182))
            assert red > 240 > 200 > blue
    assert ('alt="page 2 of manual.pdf, the cited place in a box"' in report) is not is_changed


def test_a_report_shows_three_pages_at_most(tmp_path):
    (tmp_path / "files").mkdir()
    for name in ("north", "east", "south", "west"):
        canvas = Canvas(str(tmp_path / "files" / f"{name}.pdf"), pagesize=(WIDTH, HEIGHT))
        write(canvas, 50, 80, f"The {name} wing has a Zephyr fan.")
        canvas.save()
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.ingest(tmp_path / "files")
        report = tmp_path / "why.html"
        answer = kb.query(None, "Which documents mention Zephyr?", report=report)
    assert len(answer.citations) == 4
    assert report.read_text("utf-8").count('<figure class="page">') == 3


@pytest.mark.parametrize(("degrees", "corner"), [(0, "lt"), (90, "rt"), (180, "rb"), (270, "lb")])
def test_boxes_are_those_of_the_page_as_it_is_shown(tmp_path, degrees, corner):
    # reportlab exchanges width and height of a page that is turned by 90 or 270 degrees.
    size = (WIDTH, HEIGHT) if degrees in (0, 180) else (HEIGHT, WIDTH)
    canvas = Canvas(str(tmp_path / "a.pdf"), pagesize=size)
    canvas.setPageRotation(degrees)
    write(canvas, 20, 20, "Mark")
    write(canvas, 250, 400, "The middle of the page.")
    canvas.save()
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.ingest(tmp_path / "a.pdf")
        (piece,) = kb.search(text="mark", k=1).chunks
        image = kb.page_image(piece.chunk, 1)
    assert (image.width > image.height) == (degrees in (90, 270))
    sides = [share * side for share, side in zip(piece.box, image.size * 2, strict=True)]
    assert min(map(sum, pixels(image, tuple(map(round, sides))))) < 200  # letters
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


def test_a_declined_question_shows_the_closest_passage_with_its_place(base, manual, ku):
    question = "Why do people wear gloves while the pump is open?"
    out = ku("query", "-", question, "--kb", str(manual.parent / "kb")).out
    assert re.search(r"closest, no answer: .*Wear gloves while the pump is open\.", out)
    assert f"    [{manual.as_posix()}, page 2, 1 Safety]" in out
