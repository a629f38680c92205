"""Tables of PDF files: rules in every style, cells of several lines, and boxes without tables."""

import pytest
from reportlab.lib.colors import black, lightgrey, white
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.platypus import Paragraph, Preformatted, SimpleDocTemplate
from reportlab.platypus import Table as PdfTable

from ku_rag import KnowledgeBase

TOP = ("VALIGN", (0, 0), (-1, -1), "TOP")
STYLES = {
    "grid": [TOP, ("GRID", (0, 0), (-1, -1), 0.5, black)],
    "rules between rows": [TOP, ("LINEBELOW", (0, 0), (-1, -2), 0.5, black)],
    "rules around header and end": [
        TOP,
        ("LINEABOVE", (0, 0), (-1, 0), 1, black),
        ("LINEBELOW", (0, 0), (-1, 0), 0.5, black),
        ("LINEBELOW", (0, -1), (-1, -1), 1, black),
    ],
    "shaded rows": [TOP, ("ROWBACKGROUNDS", (0, 0), (-1, -1), (lightgrey, white))],
}
ROWS = (
    ("Part", "Material", "Weight", "Use"),
    ("Rotor", "cast iron", "3.5 kg", "drives the pump while the main valve is open"),
    ("Seal", "rubber", "12 g", ""),
    ("Outer lid", "steel", "1,250 g", "opens upwards"),
)
BODY = getSampleStyleSheet()["BodyText"]
PROSE = "The parts below are replaced after five years, whatever they look like. " * 3


def ingest(folder, *blocks):
    path = folder / "pump.pdf"
    SimpleDocTemplate(str(path)).build(list(blocks))
    with KnowledgeBase.open(folder / "kb", create=True) as kb:
        kb.ingest(path)
        chunks = kb.search(text="pump part rotor seal lid wrench years open", k=100).chunks
        return chunks, kb.query(None, "What is the weight of the rotor?")


def rows_of(chunks):
    """Rows of tables, with their columns."""
    rows = sorted(
        (piece.box[1], piece.table.row, piece.table.cells) for piece in chunks if piece.table
    )
    return [tuple((column, cell.text) for column, cell in cells) for *_, cells in rows]


def table(style, rows=ROWS):
    cells = [[Paragraph(text, BODY) for text in row] for row in rows]
    return PdfTable(cells, colWidths=[90, 90, 90, 150][: len(rows[0])], style=STYLES[style])


@pytest.mark.parametrize("style", STYLES)
def test_cells_are_read_whatever_rules_the_table_has(tmp_path, style):
    chunks, answer = ingest(tmp_path, Paragraph(PROSE, BODY), table(style), Paragraph(PROSE, BODY))
    assert rows_of(chunks) == [tuple(zip(ROWS[0], row, strict=True)) for row in ROWS[1:]]
    (text,) = (piece.text for piece in chunks if not piece.table)
    assert text.split() == (PROSE + PROSE).split()
    assert answer.answer == "3.5 kg"
    (row,) = (piece for piece in answer.chunks if piece.label in answer.citations)
    assert row.page == 1
    assert 0.005 < row.box[3] - row.box[1] < 0.07  # two lines
    (part,) = (piece for piece in chunks if piece.table and piece.table.cells[0][1].text == "Seal")
    assert part.box[1] > row.box[3] - 0.01


def test_tables_of_one_width_below_each_other_are_two(tmp_path):
    first, second = ROWS[:3], [("Tool", "Size", "Hand", "Note"), ("Wrench", "13 mm", "left", "-")]
    blocks = table("rules between rows", first), Paragraph(PROSE, BODY), table("grid", second)
    chunks, _ = ingest(tmp_path, *blocks)
    assert [row[0] for row in rows_of(chunks)] == [
        ("Part", "Rotor"),
        ("Part", "Seal"),
        ("Tool", "Wrench"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        PROSE,
        "int open(char *path,\n         int   flags)\n{\n    return flags;\n}\nint close(int);\n",
        "1 Safety . . . . . . . . . . . . 3\n2 Service . . . . . . . . . . . . 7\n"
        "3 Parts . . . . . . . . . . . . . 9",
    ],
    ids=["prose", "code", "contents"],
)
def test_a_box_around_something_else_is_no_table(tmp_path, text):
    boxed = PdfTable([[Preformatted(text, BODY)]], style=[("BOX", (0, 0), (-1, -1), 1, black)])
    chunks, _ = ingest(tmp_path, Paragraph("A pump.", BODY), boxed, Paragraph(PROSE, BODY))
    assert rows_of(chunks) == []
    assert chunks
