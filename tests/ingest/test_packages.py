"""PPTX, EPUB and RST files."""

import zipfile
from io import BytesIO

import pytest
from PIL import Image
from pptx import Presentation
from pptx.util import Inches

from ku_rag import KnowledgeBase


def picture_file(colour=(200, 30, 30)):
    content = BytesIO()
    Image.new("RGB", (60, 40), colour).save(content, "PNG")
    return content.getvalue()


def slides(path):
    presentation = Presentation()
    presentation.core_properties.title = "Pump course"
    first = presentation.slides.add_slide(presentation.slide_layouts[1])
    first.shapes.title.text = "Safety"
    first.placeholders[1].text = "Wear gloves & goggles."
    first.notes_slide.notes_text_frame.text = "Show the gloves."
    second = presentation.slides.add_slide(presentation.slide_layouts[6])
    box = (Inches(1), Inches(1), Inches(4), Inches(1))
    table = second.shapes.add_table(2, 2, *box).table
    for row, texts in enumerate((("Part", "Weight"), ("Rotor", "3.5 kg"))):
        for column, text in enumerate(texts):
            table.cell(row, column).text = text
    group = second.shapes.add_group_shape()
    group.shapes.add_textbox(*box).text_frame.text = "Turn the valve first."
    second.shapes.add_picture(BytesIO(picture_file()), *box[:2])
    presentation.save(str(path))


CONTAINER = (
    '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="OPS/book.opf"/></rootfiles></container>'
)
PACKAGE = (
    '<package xmlns="http://www.idpf.org/2007/opf"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/">'
    '<dc:title>Harbour walks</dc:title></metadata><manifest><item id="a" href="text/one.xhtml"/>'
    '<item id="b" href="text/two%20b.xhtml"/></manifest><spine><itemref idref="b"/>'
    '<itemref idref="a"/></spine></package>'
)


def book(path, package=PACKAGE):
    with zipfile.ZipFile(path, "w") as members:
        members.writestr("META-INF/container.xml", CONTAINER)
        members.writestr("OPS/book.opf", package)
        members.writestr("OPS/text/one.xhtml", "<html><body><h1>The pier</h1><p>It is long.</p>")
        html = '<html><body><h1>The mole</h1><p>It is short.</p><img src="../pictures/mole.png"/>'
        members.writestr("OPS/text/two b.xhtml", html)
        members.writestr("OPS/pictures/mole.png", picture_file())


RST = """
======
Pumps
======

.. include:: /etc/passwd
.. raw:: html

   <b>raw</b>

Installing
==========

.. code:: sh

   pip install pumps

Options
=======

--speed   Turn faster.

lid
  Closes the pump.
"""


SPHINX = f"""
:Author: Jane Doe
:Version: 1.2

.. py:function:: turn(x)

   Turns a widget.

See :ref:`wheels`. {"Long line. " * 2_000}
"""


def test_slides_are_sections_with_notes_tables_and_pictures(kb, tmp_path):
    slides(tmp_path / "course.pptx")
    kb.ingest(tmp_path / "course.pptx")
    unit = kb.show("course")
    assert (unit.name, len(unit.images)) == ("Pump course", 1)
    (safety,) = kb.search(text="gloves goggles", k=1).chunks
    assert (safety.section, "Wear gloves & goggles." in safety.text) == ("Safety", True)
    assert "Show the gloves." in safety.text
    assert "Turn the valve first." in "".join(unit.texts)
    (row,) = kb.search(text="weight rotor", k=1).chunks
    assert (row.table.name, row.table.cells[1][1].text) == ("Slide 2", "3.5 kg")
    with Image.open(unit.images[0]) as picture:
        assert picture.size == (60, 40)


def test_a_deck_has_the_name_of_its_title_slide_and_no_footers(kb, tmp_path):
    presentation = Presentation()
    presentation.core_properties.title = "PowerPoint Presentation"
    first = presentation.slides.add_slide(presentation.slide_layouts[0])
    first.shapes.title.text = "Pump course"
    for footer in first.slide_layout.placeholders:
        if footer.placeholder_format.idx >= 10:
            first.shapes.clone_placeholder(footer)
            first.placeholders[footer.placeholder_format.idx].text = "Page footer"
    presentation.save(str(tmp_path / "course.pptx"))
    kb.ingest(tmp_path / "course.pptx")
    unit = kb.show("course")
    assert (unit.name, "footer" in "".join(unit.texts)) == ("Pump course", False)


def test_the_documents_of_a_book_are_read_in_the_order_of_its_spine(kb, tmp_path):
    book(tmp_path / "walks.epub")
    kb.ingest(tmp_path / "walks.epub")
    unit = kb.show("walks")
    text = "\n".join(unit.texts)
    assert (unit.name, len(unit.images)) == ("Harbour walks", 1)
    assert text.index("It is short.") < text.index("The pier") < text.index("It is long.")


def test_rst_has_headings_code_and_terms_and_includes_nothing(kb, tmp_path):
    (tmp_path / "pumps.rst").write_text(RST)
    kb.ingest(tmp_path / "pumps.rst")
    text = "\n".join(kb.show("pumps").texts)
    assert "root:" not in text
    assert "raw" not in text
    assert kb.query(None, "How do I install pumps?").answer == "pip install pumps"
    assert kb.query(None, "What does lid do in pumps?").answer == "Closes the pump."
    assert kb.query(None, "What does --speed do?").answer == "Turn faster."


def test_fields_of_rst_are_facts_and_unknown_directives_stay(kb, tmp_path):
    (tmp_path / "widget.rst").write_text(SPHINX)
    assert kb.ingest(tmp_path / "widget.rst").quarantined == []
    facts = [(fact.label, fact.value) for fact in kb.facts("widget") if fact.label == "Author"]
    assert facts == [("Author", "Jane Doe")]
    text = "\n".join(kb.show("widget").texts)
    assert ".. py:function:: turn(x) Turns a widget." in text
    assert "See :ref:`wheels`. Long line. Long line." in text


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"{'  ' * n}- a\n\n" for n in range(1_500)),
        ".. |a| replace:: deep |b| |b|\n.. |b| replace:: |a| |a|\n\nBefore |a|\n",
        "*" * 50_000,
        "+--+\n|\n" * 5_000,
    ],
)
def test_hostile_rst_ends_in_a_record_or_a_reason(tmp_path, contents, text):
    (tmp_path / "a.rst").write_text(text)
    (tmp_path / "b.rst").write_text("Bergen is a city.")
    stored = contents(tmp_path, parse_seconds=5)
    assert len(stored.left_out) == 1 or stored.units["a"].texts
    assert "b" in stored.units


@pytest.mark.parametrize("address", ["../../../etc/passwd", "text/gone.xhtml"])
def test_a_chapter_that_is_not_in_the_book_is_reported(tmp_path, contents, address):
    book(tmp_path / "a.epub", PACKAGE.replace("text/one.xhtml", address))
    stored = contents(tmp_path / "a.epub")
    (left_out,), (unit,) = stored.left_out, stored.units.values()
    assert "It is short." in unit.texts[0]
    assert left_out.reason.startswith("the chapter ")
    assert "passwd" not in unit.texts[0]


def test_pictures_of_a_book_come_from_the_book_alone(kb, tmp_path):
    outside = tmp_path / "outside.png"
    outside.write_bytes(picture_file())
    book(tmp_path / "a.epub")
    with zipfile.ZipFile(tmp_path / "a.epub") as members:
        parts = {name: members.read(name) for name in members.namelist()}
    addresses = (str(outside), f"../../../{outside}", "../../outside.png", "https://example.org/a")
    images = "".join(f'<img src="{address}"/>' for address in addresses)
    parts["OPS/text/one.xhtml"] = f"<h1>The pier</h1>{images}".encode()
    with zipfile.ZipFile(tmp_path / "a.epub", "w") as members:
        for name, content in parts.items():
            members.writestr(name, content)
    report = kb.ingest(tmp_path / "a.epub")
    assert (report.images_added, len(report.quarantined)) == (1, 4)


def test_entities_of_a_book_are_not_expanded(tmp_path, contents):
    entity = '<!DOCTYPE p [<!ENTITY x SYSTEM "file:///etc/passwd">]>'
    book(tmp_path / "a.epub", entity + PACKAGE.replace("Harbour walks", "&x;"))
    stored = contents(tmp_path / "a.epub")
    assert (stored.units, len(stored.left_out)) == ({}, 1)


def test_the_packages_are_read_within_a_folder(tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    slides(folder / "course.pptx")
    book(folder / "walks.epub")
    (folder / "pumps.rst").write_text(RST)
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        report = kb.ingest(folder)
        assert not report.quarantined
        assert [unit.id for unit in kb.list()] == ["course", "pumps", "walks"]
        assert kb.ingest(folder).units_unchanged == 3
