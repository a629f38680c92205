"""Tables in files: CSV without a column "name", and Markdown."""

from ku_rag.types import Cell

PLANETS = """# Planets

Planets go around the sun.

## Large ones

| Planet | Moons | Gas |
| --- | ---: | :-: |
| **Jupiter** | 97 | yes \\| no |
| Saturn | 274 | yes |

After the table.

# Stars

| Star | Colour |
|---|---|
| Sirius | white |
"""


def test_a_markdown_table_belongs_to_its_heading(tmp_path, contents):
    (tmp_path / "sky.md").write_text(PLANETS)
    stored = contents(tmp_path / "sky.md")
    texts = stored.units["Planets"].texts
    assert "After the table." in texts[1]
    assert "Jupiter" not in "".join(texts[:2])
    (table,) = stored.tables["Planets"]
    assert (table.name, table.header) == ("Large ones", ("Planet", "Moons", "Gas"))
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["Jupiter", "97", "yes | no"],
        ["Saturn", "274", "yes"],
    ]
    rows = ("Star: Sirius\nColour: white",)
    assert (stored.tables["Stars"][0].name, stored.units["Stars"].texts) == ("", rows)


def test_rows_of_markdown_keep_cells_beyond_the_header(tmp_path, contents):
    (tmp_path / "sky.md").write_text(
        "| Star | Colour |\n|---|---|\n| Sirius | white | 8.6 |  |\n"
        "Vega | `a \\| b` | 25 | x\n|Sun|\n\n> - | Star |\n>   |---|\n>   | Sirius | 8.6 > 8 |\n"
    )
    table, in_list = contents(tmp_path / "sky.md").tables["sky"]
    assert (in_list.header, in_list.rows) == (
        ("Star", "column 2"),
        ((Cell("Sirius"), Cell("8.6 > 8")),),
    )
    assert table.header == ("Star", "Colour", "column 3", "column 4")
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["Sirius", "white", "8.6", ""],
        ["Vega", "a | b", "25", "x"],
        ["Sun", "", "", ""],
    ]


def test_a_text_file_has_no_tables(tmp_path, contents):
    (tmp_path / "sky.txt").write_text(PLANETS)
    assert contents(tmp_path / "sky.txt").tables == {"Planets": [], "Stars": []}


def test_a_csv_file_without_names_is_one_table(tmp_path, kb):
    rows = "".join(f"{year};winner {year};{year % 7}\n" for year in range(1000))
    (tmp_path / "winners.csv").write_text("Year;Winner;Goals\n" + rows + "1000;short\n")
    kb.ingest(tmp_path / "winners.csv")
    (table,) = kb.tables("winners")
    assert (table.header, len(table.rows)) == (("Year", "Winner", "Goals"), 1001)
    first = kb.query(None, "Who won in the year 517?").chunks[0]
    assert (first.table.row, first.text.splitlines()[2]) == (517, "Winner: winner 517")
    kb.sync(tmp_path)
    (tmp_path / "winners.csv").write_text("Year;Winner\n1;x\n")
    kb.sync(tmp_path)
    assert kb.verify().counts["chunks"] == 1
    assert kb.verify().ok
