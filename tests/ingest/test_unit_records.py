"""Unit records and tables: they are streamed, and broken ones are left out by line."""

import csv
import io
import json
import re
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from ku_rag.errors import BadInput
from ku_rag.ingest.readers import decoding as reader
from ku_rag.ingest.readers.folder import read
from ku_rag.ingest.readers.table import read_table
from ku_rag.types import Quarantined, Record, Relation, Source, Unit
from tests.conftest import write_records


@pytest.fixture
def folder(tmp_path):
    path = (tmp_path / "knowledge").resolve()
    path.mkdir()
    Image.new("RGB", (2, 2)).save(path / "a.png")
    return path


def read_lines(folder, *lines, name="units.jsonl"):
    path = folder / name
    path.write_bytes(b"".join(line if isinstance(line, bytes) else line.encode() for line in lines))
    return list(read(path))


def read_record(folder, **fields):
    return read_lines(folder, json.dumps(fields) + "\n")


def problems(items):
    return [
        (item.item.rpartition(":")[2], item.reason)
        for item in items
        if isinstance(item, Quarantined)
    ]


# ---- JSON lines --------------------------------------------------------------------------------


def test_a_full_record(folder):
    (record,) = read_record(
        folder,
        id="oslo",
        name=" Oslo ",
        kind="city",
        aliases=["Christiania", "Kristiania", "Christiania", " "],
        images=["a.png", "./a.png"],
        text="A city.\r\n",
        texts=["It is old.", " "],
        metadata={"area": 480},
        relations=[
            {"relation": "lies in", "target": "Norway", "target_kind": "country"},
            {"relation": "twin", "target": "Madison", "information": "i", "condition": "c"},
        ],
        match=False,
        founded=1048,
    )
    assert record == Record(
        Unit(
            "Oslo",
            id="oslo",
            kind="city",
            aliases=("Christiania", "Kristiania"),
            metadata={"founded": 1048, "area": 480},
            relations=(
                Relation("lies in", "Norway", "country"),
                Relation("twin", "Madison", None, "i", "c"),
            ),
            match=False,
        ),
        (Source(f"{folder}/units.jsonl#oslo", ("A city.\r\n", "It is old."), (folder / "a.png",)),),
    )


def test_a_record_needs_only_a_name(folder):
    everything = dict.fromkeys(
        ["id", "kind", "aliases", "images", "text", "texts", "metadata", "relations", "match"]
    )
    for fields in ({}, everything):
        assert read_record(folder, name="New  York", **fields) == [
            Record(Unit("New York", id="New York"), (Source(f"{folder}/units.jsonl#New York"),))
        ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{}", '"name" is missing: every record needs a name; it has no fields'),
        ('{"id": "x", "name": " "}', "\"name\" is empty: every record needs a name; it has 'id'"),
        ('{"name": 5}', '"name" is the number 5: expected a text'),
        ('{"name": "%s"}' % ("x" * 1001), '"name" has 1,001 characters'),
        ('{"name": "A", "id": 5}', '"id" is the number 5: expected a text'),
        ('{"name": "A", "id": ""}', 'the "id" is empty'),
        ('{"name": "A", "aliases": "B"}', '"aliases" is the text "B": expected a list'),
        ('{"name": "A", "aliases": [true]}', '"aliases" holds true: expected a list of texts'),
        ('{"name": "A", "text": ["x"]}', '"text" is a list: expected a text'),
        ('{"name": "A", "texts": {}}', '"texts" is an object: expected a list'),
        ('{"name": "A", "images": "a.png"}', '"images" is the text "a.png": expected a list'),
        ('{"name": "A", "metadata": []}', '"metadata" is a list: expected an object'),
        ('{"name": "A", "relations": {}}', '"relations" is an object: expected a list'),
        ('{"name": "A", "match": "no"}', '"match" is the text "no": expected true or false'),
        ("[1]", "the line holds a list: expected an object"),
        ('"A"', 'the line holds the text "A": expected an object'),
        ('{"name": "A"', "the line is no JSON (Expecting ',' delimiter at character 14)"),
        ('{"name": "A", "metadata": {"a": NaN}}', "NaN is no JSON number"),
        ('{"name": "A", "metadata": {"a": %s}}' % ("9" * 5000), "no JSON that can be read"),
        ("[" * 100_000, "the line is no JSON that can be read"),
        ('{"name": "\\ud800"}', "half a surrogate pair"),
        ('{"name": "A", "metadata": {"a": ["\\u0000"]}}', "holds a NUL character"),
        (b'{"name": "A\0"}', "the line holds a NUL byte (at 11)"),
        (b'{"name": "Malm\xf6"}', "the line is not UTF-8: byte 0xf6 at offset 14"),
    ],
)  # fmt: skip
def test_a_broken_record_is_left_out_by_its_line(folder, line, reason):
    good = '{"name": "Good"}\n'
    line = line if isinstance(line, bytes) else line.encode()
    before, broken, after = read_lines(folder, good, b"\n", line + b"\n", good)
    assert (
        before == after == Record(Unit("Good", id="Good"), (Source(f"{folder}/units.jsonl#Good"),))
    )
    assert broken.item == f"{folder}/units.jsonl:3"
    assert reason in broken.reason


def test_a_pair_of_surrogates_is_a_character(folder):
    (record,) = read_lines(folder, '{"name": "\\ud83d\\ude00", "text": "\\u0041\\\\u0000"}')
    assert (record.unit.name, record.sources[0].texts) == ("😀", ("A\\u0000",))


def test_a_broken_part_is_left_out_and_the_record_goes_on(folder):
    items = read_record(
        folder,
        name="Oslo",
        images=["../../etc/passwd", "/etc/passwd", "a.png", "no.png"],
        relations=[
            {"relation": "in"},
            {"target": "Norway"},
            "in Norway",
            {"relation": "in", "target": 5},
            {"relation": " ", "target": "Norway"},
            {"relation": "in", "target": "Norway"},
        ],
    )
    assert [re.split(r": | leads| is ab| is not", reason)[0] for _, reason in problems(items)] == [
        'relations[0] has no "target"',
        'relations[1] has no "relation"',
        'relations[2] is the text "in Norway"',
        'relations[3] "target" is the number 5',
        'relations[4] has no "relation"',
        "images[0] '../../etc/passwd'",
        "images[1] '/etc/passwd'",
        "images[3] 'no.png'",
    ]
    assert {line for line, _ in problems(items)} == {"1"}
    assert items[-1].unit.relations == (Relation("in", "Norway"),)
    assert items[-1].sources[0].images == (folder / "a.png",)


def test_the_same_id_twice_gives_the_same_uri(folder):
    items = read_lines(folder, '{"id": "a", "name": "A"}\n', '{"id": "a", "name": "B"}\n')
    assert [item.sources[0].uri for item in items] == [f"{folder}/units.jsonl#a"] * 2


def test_byte_order_marks_and_line_ends(folder):
    items = read_lines(folder, b"\xef\xbb\xbf", '{"name": "A"}\r\n\r\n{"name": "B"}')
    assert [item.unit.name for item in items] == ["A", "B"]
    with pytest.raises(BadInput, match="the records are in UTF-16: expected UTF-8"):
        read_lines(folder, '{"name": "A"}'.encode("utf-16"))
    assert read_lines(folder, b"") == []


def test_long_lines_are_read_and_longer_ones_skipped_unheld(folder, monkeypatch):
    text = "x" * 5_000_000
    (record,) = read_record(folder, name="Long", text=text)
    assert record.sources[0].texts == (text,)
    monkeypatch.setattr(reader, "MAX_LINE", 1 << 20)
    path = folder / "long.jsonl"
    with path.open("wb") as file:
        file.write(b'{"name": "A"}\n')
        for _ in range(64):
            file.write(b" " * (1 << 20))
        file.write(b'\n{"name": "B"}\n')
    tracemalloc.start()
    items = list(read(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [getattr(item, "unit", None) and item.unit.name for item in items] == ["A", None, "B"]
    assert items[1].item == f"{path}:2"
    assert "the line is longer than 1 MiB" in items[1].reason
    assert peak < 8 << 20


def test_what_was_read_is_not_held(folder):
    path = folder / "many.jsonl"
    with path.open("w") as file:
        for number in range(5_000):
            file.write(json.dumps({"name": f"Unit {number}", "text": "x" * 200}) + "\n")
    tracemalloc.start()
    assert sum(1 for _ in read(path)) == 5_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
field_names = st.sampled_from(
    ["id", "name", "kind", "aliases", "images", "text", "texts", "metadata", "relations", "match"]
)


@given(st.dictionaries(field_names | st.text(max_size=3), json_values, max_size=6))
def test_any_object_is_a_record_or_left_out(tmp_path_factory, fields):
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    path.write_text(json.dumps(fields) + '\n{"name": "Last"}\n')
    *items, last = read(path)
    assert last.unit.name == "Last"
    assert len([item for item in items if isinstance(item, Record)]) <= 1
    assert items
    assert {item.item for item in items if isinstance(item, Quarantined)} <= {f"{path.resolve()}:1"}


# ---- tables ------------------------------------------------------------------------------------


def test_named_columns(folder):
    (record,) = read_lines(
        folder,
        "ID,Name,Kind,Aliases,Images,Image,Text,Texts,Description,Match,area,empty\n",
        'oslo,Oslo,city,"Christiania;Kristiania",a.png;./a.png,a.png,One; two.,'
        'Three.|Four; five.,"Six\nseven.",no,480,\n',
        name="units.csv",
    )
    assert record == Record(
        Unit(
            "Oslo",
            id="oslo",
            kind="city",
            aliases=("Christiania", "Kristiania"),
            metadata={"area": "480"},
            match=False,
        ),
        (
            Source(
                f"{folder}/units.csv#oslo",
                ("One; two.", "Three.", "Four; five.", "Six\nseven."),
                (folder / "a.png",),
            ),
        ),
    )


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found(folder, delimiter, suffix):
    text = f"name{delimiter}aliases{delimiter}text\nOslo{delimiter}A{delimiter}Old.\n"
    (record,) = read_lines(folder, text, name=f"units.{suffix}")
    assert (record.unit.aliases, record.sources[0].texts) == (("A",), ("Old.",))


def test_tables_from_spreadsheets(folder):
    text = "name\ttext\r\nMalmö\tA town.\r\n"
    for data in (text.encode("utf-16"), b"\xef\xbb\xbf" + text.encode()):
        (record,) = read_lines(folder, data, name="units.tsv")
        assert (record.unit.name, record.sources[0].texts) == ("Malmö", ("A town.",))


def test_broken_rows_are_left_out_by_their_line(folder, monkeypatch):
    monkeypatch.setattr(reader, "MAX_LINE", 100)
    lines = (
        "name,text,images\n",
        '"Two\nlines",a,\n',
        ",no name,\n",
        "\n,,\n",
        "A,one,two,three\n",
        b"Malm\xf6,x,\n",
        f"B,{'x' * 100},\n",
        "C,kept,../a.png\n",
        'D,"never closed,\nE,lost,\n',
    )
    path = folder / "units.csv"
    path.write_bytes(b"".join(line if isinstance(line, bytes) else line.encode() for line in lines))
    # Called here, not in a parser process, which has the usual bound.
    items = [item for _, item in read_table(path)]
    assert [(line, re.split(r"[;:(]", reason)[0].strip()) for line, reason in problems(items)] == [
        ("4", '"name" is missing'),
        ("7", "the row has 4 cells, the header 3"),
        ("8", "column 'name' holds bytes that are not UTF-8, or NUL"),
        ("9", "the row cannot be read"),
        ("10", "images[0] '../a.png' leads out of the record's folder"),
        ("11", "the row cannot be read"),
    ]
    assert [item.unit.name for item in items if isinstance(item, Record)] == ["Two lines", "C"]


def test_a_table_needs_a_name_column_or_a_row(folder):
    with pytest.raises(
        BadInput, match=r"no column is called \"name\" \(the first line is 'a, b'\)"
    ):
        read_lines(folder, "a,b\n", name="units.csv")
    with pytest.raises(BadInput, match="no column is called"):
        read_lines(folder, "", name="units.csv")


def test_large_cells_and_columns_of_one_name(folder):
    text = "x" * 1_000_000
    lines = f"name,text,area,area,\nOslo,{text},1,2,3\n"
    (record,) = read_lines(folder, lines, name="units.csv")
    assert record.sources[0].texts == (text,)
    assert record.unit.metadata == {"area": ["1", "2"], "column 5": "3"}


cells = st.text(
    st.characters(exclude_categories=("Cs", "Cc")) | st.sampled_from('",;|\n'), max_size=8
)


@given(st.lists(st.tuples(cells, cells), max_size=6))
def test_rows_come_back_as_they_were_written(tmp_path_factory, rows):
    # A name of invisible characters only is refused.
    rows = [(f"n{name}" if name.strip() else name, text) for name, text in rows]
    file = io.StringIO()
    writer = csv.writer(file, quoting=csv.QUOTE_ALL)
    writer.writerow(["name", "text"])
    writer.writerows(rows)
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_bytes(file.getvalue().encode())
    read_back = [item.sources[0].texts for item in read(path) if isinstance(item, Record)]
    assert read_back == [((text,) if text.strip() else ()) for name, text in rows if name.strip()]


def test_control_characters_in_names_become_spaces(kb, tmp_path):
    line = {"name": "Desk\u001b[31m\u2028Lamp", "id": "l\u0085m", "aliases": ["A\u0007B"]}
    assert kb.ingest(write_records(tmp_path / "u.jsonl", [line])).quarantined == []
    (unit,) = kb.list()
    assert (unit.id, unit.name, unit.aliases) == ("l m", "Desk [31m Lamp", ("A B",))
