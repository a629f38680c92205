"""Tables: rows are documents that know their table, and cells link to units."""

import json
from dataclasses import replace

import pytest

from ku_rag import BadInput, KnowledgeBase, Unit
from ku_rag.types import Cell, Table

GAMES = Table(
    ["Date", "Opponent", "Site"],
    [
        ["October 7", Cell("Ohio Northern", link="ohio"), "Cartier Field"],
        ["October 14", "St. Viator", "Cartier Field"],
        ["November 4"],
    ],
    "Games",
)
SEASON = Unit("1911 season", id="season", texts=("A season of eight games.",), tables=[GAMES])
OHIO = Unit("Northern football", id="ohio", texts=("Its coach was Bill Smith.",))


@pytest.fixture
def kb(tmp_path):
    with KnowledgeBase.open(tmp_path / "kb", create=True) as base:
        yield base


def rows_found(kb, question):
    return [c.table.row for c in kb.query(None, question).chunks if c.table]


def test_a_row_is_found_and_says_where_it_stands(kb):
    kb.add(SEASON)
    first = kb.query(None, "Who was the opponent of October 14?").chunks[0]
    assert first.text == "Games\nDate: October 14\nOpponent: St. Viator\nSite: Cartier Field"
    assert first.to_dict()["table"] == {
        "name": "Games",
        "row": 1,
        "columns": ["Date", "Opponent", "Site"],
    }
    text = next(c for c in kb.query(None, "A season of eight games").chunks if not c.table)
    assert "table" not in text.to_dict()


@pytest.mark.parametrize("order", [(SEASON, OHIO), (OHIO, SEASON)])
def test_a_link_brings_the_text_of_the_linked_unit_in_any_order(kb, order):
    for unit in order:
        kb.add(unit)
    chunks = kb.query(None, "Who coached the opponent of October 7?", k=2).chunks
    assert {chunk.source.partition("/")[0] for chunk in chunks} == {"add:season", "add:ohio"}
    assert kb.verify().ok


def test_a_link_comes_back_with_its_unit(kb):
    kb.add_many([SEASON, OHIO])
    kb.delete(["ohio"])
    assert kb.verify().ok
    kb.add(OHIO)
    kb.update("ohio", name="Northern team")
    assert kb.verify().ok
    row = next(c for c in kb.query(None, "opponent of October 7").chunks if c.table)
    assert set(row.unit_ids) == {"season", "ohio"}


def test_a_renamed_unit_stays_linked_to_the_cells_that_hold_its_name(kb, tmp_path):
    team = Unit("St. Viator", id="viator", texts=("Its coach was Ed Jones.",))
    season = replace(SEASON, texts=("They met St. Viator twice.",))
    kb.add_many([season, team, OHIO])
    kb.update("viator", name="Viator College")
    assert kb.verify().ok
    row = next(c for c in kb.query(None, "opponent of October 14").chunks if c.table)
    assert set(row.unit_ids) == {"season", "viator"}
    assert dict(row.table.cells)["Opponent"] == Cell("St. Viator", link="viator")
    text = next(c for c in kb.query(None, "They met twice").chunks if "twice" in c.text)
    assert set(text.unit_ids) == {"season"}
    assert kb.add_many([season]).units_unchanged == 1
    kb.update("viator", name="St. Viator")
    assert kb.verify().ok


def test_adding_the_same_table_again_changes_nothing(kb):
    kb.add_many([SEASON])
    assert kb.add_many([SEASON]).units_unchanged == 1
    assert kb.verify().counts["chunks"] == 4


def test_a_deleted_unit_takes_its_rows_along(kb):
    kb.add_many([SEASON, OHIO])
    kb.delete(["season"])
    assert rows_found(kb, "opponent of October 7") == []
    assert kb.verify().ok


def test_a_changed_link_in_a_record_replaces_the_old_one(kb, tmp_path):
    record = {"name": "Season", "tables": [GAMES.to_dict()]}
    others = [{"name": "Team A", "id": "ohio"}, {"name": "Team B", "id": "south"}]
    file = tmp_path / "units.jsonl"

    def ingest():
        file.write_text("\n".join(map(json.dumps, [record, *others])))
        return kb.ingest(file)

    ingest()
    assert ingest().units_unchanged == 3
    record["tables"][0]["rows"][0][1]["link"] = "south"
    ingest()
    row = next(c for c in kb.query(None, "opponent of October 7").chunks if c.table)
    assert set(row.unit_ids) == {"Season", "south"}
    assert kb.verify().ok


def test_a_table_that_goes_from_a_record_goes_from_the_base(kb, tmp_path):
    file = tmp_path / "units.jsonl"
    file.write_text(json.dumps({"name": "Season", "text": "Text.", "tables": [GAMES.to_dict()]}))
    kb.ingest(file)
    file.write_text(json.dumps({"name": "Season", "text": "Text."}))
    kb.ingest(file)
    assert kb.verify().counts["chunks"] == 1
    assert kb.verify().ok


def test_rows_and_header_are_filled_and_repeated_columns_stay(kb):
    table = Table(["Score", "", "Score"], [["1", "2", "3", "4"], [], ["5"]])
    assert table.header == ("Score", "column 2", "Score", "column 4")
    assert [len(row) for row in table.rows] == [4, 4, 4]
    assert table.row_text(0) == "Score: 1\ncolumn 2: 2\nScore: 3\ncolumn 4: 4"
    kb.add(Unit("Match", id="match", tables=[table]))
    assert kb.verify().counts["chunks"] == 2  # an empty row is no chunk
    assert kb.verify().ok


def test_a_long_cell_is_cut_and_every_part_knows_its_row(kb):
    long = " ".join(f"word{n}." for n in range(3000))
    kb.add(Unit("Long", id="long", tables=[Table(["Text"], [["short"], [long]])]))
    chunks = kb.query(None, "word17 word2500", k=20).chunks
    parts = [part for part in chunks if "word" in part.text]
    assert len(parts) > 2
    assert {part.table.row for part in parts} == {1}


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ("no table", 'tables[0] is the text "no table"'),
        ({"header": ["a"], "rows": ["b"]}, 'rows[0] is the text "b"'),
        ({"header": ["a"], "rows": [[["b"]]]}, "holds a list as a cell"),
        ({"header": "a", "rows": []}, '"header" is the text "a"'),
    ],
)
def test_a_wrong_table_is_left_out_and_reported(kb, tmp_path, table, reason):
    file = tmp_path / "units.jsonl"
    file.write_text(json.dumps({"name": "A", "text": "B.", "tables": [table]}))
    report = kb.ingest(file)
    assert report.units_added == 1
    assert reason in report.quarantined[0].reason


@pytest.mark.parametrize(
    "build",
    [
        lambda: Table("header", []),
        lambda: Table(["a"], ["cell"]),
        lambda: Table(["a"], [[None]]),
        lambda: Unit("A", tables=GAMES),
        lambda: Unit("A", tables=[{"header": ["a"]}]),
        lambda: Cell("a", link=5),
        lambda: Table(["a"] * 100_000, [["b"]] * 101),
    ],
)
def test_a_wrong_table_in_python_is_one_sentence(build):
    with pytest.raises(BadInput, match=r"^[^\n]+$"):
        build()
