"""HTML, DOCX and PDF files: headings are units, tables are tables, pictures are pictures."""

import time
import zipfile
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

from ku_rag import KnowledgeBase
from ku_rag.ingest.readers.outline import Outline

ASSETS = Path(__file__).parents[1] / "assets"

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
CUPS = """<!doctype html><title>Site</title><script>alert("<h1>No</h1>")</script>
<style>p { color: red }</style>
<h1><img src="green.png"> Lamps</h1>
<p>The <b>Aurora</b> lamp was presented in 1964.<br>Country: Peru</p>
<img src="red.png"><img src="https://example.org/a.png">
<h1>Cups &amp; balls</h1><p>Cups are won.</p>
<table><caption>Finals</caption>
<tr><th rowspan=2>Year<th colspan="2">Result</tr><tr><th>Winner<th>Goals</tr>
<tr><td rowspan="2">1990<td>Ajax | Brann<td>3 <table><tr><td>after</td><td>time</td></table></tr>
<tr><td>Cel<b>tic</b><i> town</i><td>5</tr><tr><td>1991</table>
<p>After the table.</p>
"""


def red(size=(40, 30), colour="red"):
    data = BytesIO()
    Image.new("RGB", size, colour).save(data, "PNG")
    return data.getvalue()


def word_file(path, paragraphs, picture=None):
    """Write a DOCX file of (style, text), of tables (lists of rows), and None for the picture."""
    body = ""
    for block in paragraphs:
        if block is None:
            body += (
                "<w:p><w:r><w:drawing><wp:inline><a:graphic><a:graphicData><pic:pic><pic:blipFill>"
                '<a:blip r:embed="rId1"/></pic:blipFill></pic:pic></a:graphicData></a:graphic>'
                "</wp:inline></w:drawing></w:r></w:p>"
            )
        elif isinstance(block, list):
            cells = (
                "".join(f"<w:tc><w:p><w:r><w:t>{c}</w:t></w:r></w:p></w:tc>" for c in row)
                for row in block
            )
            body += f"<w:tbl>{''.join(f'<w:tr>{row}</w:tr>' for row in cells)}</w:tbl>"
        else:
            style, text = block
            body += (
                f'<w:p><w:pPr><w:pStyle w:val="{style}"/></w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>'
            )
    spaces = (
        f'xmlns:w="{WORD}" xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
        'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships" '
        'xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing" '
        'xmlns:pic="http://schemas.openxmlformats.org/drawingml/2006/picture"'
    )
    package = "http://schemas.openxmlformats.org/package/2006"
    with zipfile.ZipFile(path, "w") as members:
        members.writestr(
            "[Content_Types].xml",
            f'<Types xmlns="{package}/content-types"><Default Extension="png" '
            'ContentType="image/png"/></Types>',
        )
        members.writestr(
            "_rels/.rels",
            f'<Relationships xmlns="{package}/relationships"><Relationship Id="rId1" Type="http://'
            'schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" '
            'Target="word/document.xml"/></Relationships>',
        )
        members.writestr(
            "word/document.xml", f"<w:document {spaces}><w:body>{body}</w:body></w:document>"
        )
        if picture:
            members.writestr("word/media/image1.png", picture)
            members.writestr(
                "word/_rels/document.xml.rels",
                f'<Relationships xmlns="{package}/relationships"><Relationship Id="rId1" '
                'Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/image" '
                'Target="media/image1.png"/></Relationships>',
            )


REPORT = [
    ("Heading1", "Lamps"),
    ("Normal", "The Aurora lamp was presented in 1964."),
    None,
    ("Heading1", "Cups"),
    [["Year", "Winner"], ["1990", "Ajax"], ["1991", "Brann"]],
]


def cells(table):
    return [[cell.text for cell in row] for row in table.rows]


def test_html_has_units_tables_and_local_pictures(tmp_path, contents):
    for name in ("red.png", "green.png"):
        (tmp_path / name).write_bytes(red(colour=name.removesuffix(".png")))
    (tmp_path / "site.html").write_text(CUPS)
    stored = contents(tmp_path / "site.html")
    lamps, cups = stored.units["Lamps"], stored.units["Cups & balls"]
    assert len(stored.units) == 2
    lines = ["The Aurora lamp was presented in 1964.", "Country: Peru"]
    assert lamps.texts[0].rstrip().split("\n") == lines
    assert lamps.images == (str(tmp_path / "green.png"), str(tmp_path / "red.png"))
    (picture,) = stored.left_out
    assert picture.reason.startswith("'https://example.org/a.png' is an address")
    assert picture.item.endswith("site.html:5")
    (table,) = stored.tables["Cups & balls"]
    assert (table.name, table.header) == ("Finals", ("Year", "Result Winner", "Result Goals"))
    assert cells(table) == [
        ["1990", "Ajax | Brann", "3 after time"],
        ["1990", "Celtic town", "5"],
        ["1991", "", ""],
    ]
    assert " ".join(cups.texts[0].split()) == "Cups are won. After the table."


def test_tables_of_names_and_values_become_labelled_lines(tmp_path, contents):
    page = "<table><tr><th>Country<td>Peru<tr><th>Price<td>49 euros</table>"
    (tmp_path / "lamp.html").write_text(page)
    lamp = contents(tmp_path / "lamp.html").units["lamp"]
    assert lamp.texts[0].split("\n")[1:] == ["Country: Peru", "Price: 49 euros"]


def test_a_long_merged_cell_is_repeated_in_all_its_rows(tmp_path, contents):
    rows = "".join(f"<tr><td>winner {n}" for n in range(600))
    page = f"<tr><td>Country<td>Winner<tr><td rowspan=601>Peru<td>first{rows}"
    (tmp_path / "cups.html").write_text(f"<table>{page}</table>")
    (table,) = contents(tmp_path / "cups.html").tables["cups"]
    assert {row[0].text for row in table.rows} == {"Peru"}
    assert len(table.rows) == 601


def test_html_tables_in_markdown(tmp_path, contents):
    text = "# Cups\n\n<table>\n<tr><td>Year</td><td>Winner</td></tr>\n\n<tr><td>1990</td>\n\n"
    text += "    <td>Ajax</td></tr></table>\n\nAfter.\n\n# Balls\n\n<table><tr><td>open\n"
    (tmp_path / "cups.md").write_text(text)
    stored = contents(tmp_path / "cups.md")
    (table,) = stored.tables["Cups"]
    assert (table.header, cells(table)) == (("Year", "Winner"), [["1990", "Ajax"]])
    assert stored.units["Cups"].texts[0].split() == ["After."]
    assert "<td>open" in stored.units["Balls"].texts[0]


def test_word_files_keep_their_pictures_at_the_second_ingest(tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    word_file(folder / "report.docx", REPORT, red())
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        report = kb.ingest(folder)
        assert (report.units_added, report.images_added, report.quarantined) == (2, 1, [])
        assert kb.ingest(folder).units_unchanged == 2
        row = kb.query(None, "Who was the winner in 1991?").chunks[0]
        assert (row.table.row, row.text.splitlines()[-1]) == (1, "Winner: Brann")
        assert row.source == f"{folder.as_posix()}/report.docx#cups"
        word_file(folder / "report.docx", REPORT[:2])
        kb.sync(folder, yes=True)
        assert kb.verify().ok
        counts = kb.verify().counts
        assert (counts["units"], counts["chunks"]) == (1, 1)


def test_linked_pictures_of_word_files_are_copied(tmp_path):
    word_file(tmp_path / "report.docx", REPORT, red())
    with KnowledgeBase.open(tmp_path / "kb", create=True, images="link") as kb:
        assert kb.ingest(tmp_path / "report.docx").images_added == 1
        assert kb.verify().ok
        result = kb.search(image=kb.show("Lamps").images[0])
        assert result.units[0].name == "Lamps"


def test_pdf_lines_of_larger_letters_are_headings(contents):
    stored = contents(ASSETS / "lamps.pdf")
    assert set(stored.units) == {"Lamps", "Cups"}
    assert "It is made of\nbrass and has a green shade" in stored.units["Lamps"].texts[0]
    (table,) = stored.tables["Cups"]
    assert (table.name, table.header) == ("Finals", ("Year", "Winner", "Goals"))
    assert cells(table) == [["1990", "Ajax", "3"], ["1991", "Brann", "5"]]
    assert "Ajax" not in stored.units["Cups"].texts[0]


def test_documents_in_a_folder_of_a_unit_are_its_texts(tmp_path, contents):
    (tmp_path / "base" / "Lamp").mkdir(parents=True)
    (tmp_path / "base" / "Lamp" / "page.html").write_text("<h1>Any</h1><p>It is green.</p>")
    (lamp,) = contents(tmp_path / "base").units.values()
    assert (lamp.id, lamp.name) == ("Lamp", "Any")
    assert lamp.texts[0].split() == ["It", "is", "green."]
    (tmp_path / "base" / "Lamp" / "red.png").write_bytes(red())
    (lamp,) = contents(tmp_path / "base").units.values()
    assert (lamp.id, lamp.name) == ("Lamp", "Lamp")
    assert lamp.texts[0].split() == ["Any", "It", "is", "green."]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.pdf", b"%PDF-1.4 broken", "damaged or encrypted"),
        ("locked.pdf", None, "Incorrect password"),
        ("a.docx", b"\xd0\xcf\x11\xe0 old or encrypted", "damaged or encrypted"),
        ("a.docx", b"PK\5\6" + bytes(18), "damaged or encrypted"),
        ("a.pptx", b"PK\5\6" + bytes(18), "damaged or encrypted"),
        ("a.epub", b"PK\5\6" + bytes(18), "damaged or encrypted"),
        ("a.html", b"<p>Malm\xf6</p>", "not UTF-8"),
        ("a.html", b"<script>x()</script>", "holds no text"),
        ("a.html", b"<p></p><title>Lamps<p>Text", "after <title> is left out: expected </title>"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(tmp_path, contents, name, content, reason):
    path = ASSETS / name
    if content:
        path = tmp_path / name
        path.write_bytes(content)
    stored = contents(path)
    (left_out,) = stored.left_out
    assert reason in left_out.reason
    assert "\n" not in left_out.reason
    assert stored.units == {}


@pytest.mark.parametrize(("name", "library"), [("a.docx", "mammoth"), ("a.pdf", "pypdfium2")])
def test_the_extra_is_named_where_it_is_missing(tmp_path, monkeypatch, contents, name, library):
    (tmp_path / f"{library}.py").write_text("raise ModuleNotFoundError")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / name).write_bytes(b"x")
    # A parser with other limits is a new process.
    (left_out,) = contents(tmp_path / name, parse_seconds=70 + len(library)).left_out
    assert left_out.reason.endswith('pip install "ku-rag[documents]"')


@pytest.mark.parametrize(
    "page",
    [
        "<div>" * 100_000 + "deep",
        "<table><tr><td>" * 20_000 + "deep",
        "<table><tr>" + "<td colspan=1000 rowspan=65000>deep" * 50 + "<tr><td>x" * 500,
        f"<table><tr><td>a<td>b<tr><td colspan=1000>{'deep ' * 40_000}<td>b</table>",
        "<!--" * 50_000 + "<p>deep</p>",
        "<" * 50_000 + "<p>deep</p>",
        "<h1>" * 1000 + "deep",
    ],
)
def test_hostile_html_is_read_quickly(tmp_path, contents, page):
    (tmp_path / "a.html").write_text(page)
    stored = contents(tmp_path / "a.html")
    assert "deep" in str(stored)


@pytest.mark.parametrize("tag", ["title", "script", "style"])
def test_text_after_an_element_without_an_end_is_reported(tmp_path, contents, tag):
    (tmp_path / "a.html").write_text(f"<h1>Lamps</h1>\n<p>Green.\n<{tag}>x <p>Red.</p>")
    stored = contents(tmp_path / "a.html")
    (left_out,) = stored.left_out
    assert stored.units["Lamps"].texts[0].split() == ["Green."]
    assert left_out.item.endswith("a.html:3")
    assert left_out.reason == f"the text after <{tag}> is left out: expected </{tag}>; add it"
    table = f"<table><tr><td>a<td>b<tr><td>c<{tag}><td>Red</table>"
    (tmp_path / "a.md").write_text(f"# Lamps\n\n{table}\n")
    stored = contents(tmp_path / "a.md")
    assert (stored.tables, "Red" in stored.units["Lamps"].texts[0]) == ({"Lamps": []}, True)


def test_text_of_a_table_that_is_in_no_cell_follows_the_table(tmp_path, contents):
    page = "<table>Before<tr><td>a<td>b</tr><tr><td>1<td>2</td></tr><p>After <b>it</b>.<h2>More"
    (tmp_path / "a.html").write_text(f"<h1>Lamps</h1>{page}")
    stored = contents(tmp_path / "a.html")
    (table,) = stored.tables["Lamps"]
    assert (table.header, cells(table)) == (("a", "b"), [["1", "2"]])
    assert stored.units["Lamps"].texts[0].split() == ["Before", "After", "it.", "More"]
    (tmp_path / "a.md").write_text(f"# Lamps\n\n{page.partition('<p>')[0]}</table>\n")
    stored = contents(tmp_path / "a.md")
    assert (stored.tables, "Before" in stored.units["Lamps"].texts[0]) == ({"Lamps": []}, True)


@pytest.mark.parametrize("name", ["word/document.xml", "word/_rels/document.xml.rels"])
def test_a_word_file_that_unpacks_to_too_much_is_refused(tmp_path, contents, name):
    word_file(tmp_path / "report.docx", REPORT)
    with zipfile.ZipFile(tmp_path / "report.docx", "a", zipfile.ZIP_DEFLATED) as members:
        members.writestr("word/more.xml" if "rels" not in name else name, b" " * ((32 << 20) + 1))
    assert (tmp_path / "report.docx").stat().st_size < 100_000
    (left_out,) = contents(tmp_path / "report.docx").left_out
    assert "members unpack to 33,55" in left_out.reason
    assert left_out.reason.endswith("expected at most 33,554,432; split it")


def test_many_sections_with_tables_are_read_in_linear_time(tmp_path, rounds):
    count = rounds(5_000, 20_000)
    outline = Outline(tmp_path / "a.md", "x\n|\n" * count)
    for n in range(count):
        outline.add_heading(1, f"Section {n}", 4 * n, 4 * n + 2)
        outline.add_table(4 * n + 2, 4 * n + 4, "", [["a", "b"], [f"{n}", ""]])
    started = time.process_time()
    records = list(outline.units("heading"))
    assert time.process_time() - started < count / 2_000
    assert len(records) == count
    assert {record.sources[0].tables[0].rows[0][0].text for record in records} == {
        str(n) for n in range(count)
    }


@pytest.mark.parametrize("name", ["lamps.html", "lamps.md"])
@pytest.mark.parametrize("folder", ["docs", "docs/site"])
def test_a_picture_that_a_document_names_is_no_unit_of_its_own(tmp_path, contents, name, folder):
    images = ["images/red.png", "blue.png"]
    (tmp_path / folder / "images").mkdir(parents=True)
    for picture in images:
        (tmp_path / folder / picture).write_bytes(red(colour=Path(picture).stem))
    text = "".join(
        f'<img src="{image}">' if "html" in name else f"![]({image})\n" for image in images
    )
    heading = "<h1>Lamps</h1>" if "html" in name else "# Lamps\n"
    (tmp_path / folder / name).write_text(f"{heading}{text}")
    (unit,) = contents(tmp_path / "docs").units.values()
    assert {Path(image).name for image in unit.images} == {"red.png", "blue.png"}
    assert (unit.name, unit.id) == ("Lamps", "lamps" if folder == "docs" else "site")


def test_a_text_beside_a_picture_may_name_another_one(tmp_path, contents):
    for name in ("red.png", "blue.png"):
        (tmp_path / name).write_bytes(red(colour=name.removesuffix(".png")))
    (tmp_path / "red.md").write_text("It looks like this: ![](blue.png)")
    (unit,) = contents(tmp_path).units.values()
    assert unit.name == "red"
    assert {Path(image).name for image in unit.images} == {"red.png", "blue.png"}


def test_a_word_file_without_one_of_its_pictures_keeps_its_text(tmp_path):
    word_file(tmp_path / "whole.docx", REPORT, red())
    with (
        zipfile.ZipFile(tmp_path / "whole.docx") as whole,
        zipfile.ZipFile(tmp_path / "report.docx", "w") as part,
    ):
        for name in whole.namelist():
            if not name.startswith("word/media/"):
                part.writestr(name, whole.read(name))
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        report = kb.ingest(tmp_path / "report.docx")
        assert report.chunks_added
        assert [item.item.rpartition("/")[2] for item in report.quarantined] == ["missing"]
        assert kb.verify().ok


def test_a_list_of_links_that_says_more_is_no_table_of_contents(tmp_path, contents):
    items = "".join(f"<li><a href='#{n}'>Tea {n}</a>{{}}</li>" for n in "abc")
    for name, after in (("prices", " 5"), ("contents", "")):
        page = f"<h1>Drinks</h1><ul>{items.format(*[after] * 3)}</ul><p>All are hot.</p>"
        (tmp_path / f"{name}.html").write_text(page)
        (unit,) = contents(tmp_path / f"{name}.html").units.values()
        assert ("Tea b" in "".join(unit.texts)) == bool(after)


def test_the_title_of_a_word_file_names_one_unit(tmp_path):
    word_file(tmp_path / "minutes.docx", [("Title", "Minutes of May"), *REPORT], red())
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.ingest(tmp_path / "minutes.docx")
        assert [unit.name for unit in kb.list()] == ["Minutes of May"]
