"""Reading folders: units, items that are left out and why, always in the same order."""

import os
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from ku_rag.errors import BadInput, NotFound
from ku_rag.ingest.readers.folder import read
from ku_rag.ingest.readers.parser import Parsing
from ku_rag.types import Quarantined, Record
from tests.ingest.conftest import Contents

GROCERY = Path(__file__).parents[2].parent / "shared" / "data" / "grocery"


@pytest.fixture
def folder(tmp_path):
    path = (tmp_path / "knowledge").resolve()
    path.mkdir()
    return path


def picture(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (2, 2), (len(path.name), 0, 0)).save(path)
    return path


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def records(path, units="auto"):
    return [item for item in read(path, Parsing(units=units)) if isinstance(item, Record)]


def summary(contents):
    return [
        (unit.id, unit.name, [source.uri for source in unit.sources])
        for unit in contents.units.values()
    ]


@pytest.mark.parametrize("blank", ["\u200b", "\u2800", "\u3164 \ufe0f"])
def test_names_without_a_visible_character_are_left_out_and_listed(folder, contents, blank):
    write(folder / "Lamp" / "a.txt", "It shines.")
    picture(folder / "Lamp" / "a.png")
    write(folder / "Lamp" / f"{blank}.txt", "A text of the lamp.")
    left_out = [
        write(folder / blank / "a.txt", "Hidden."),
        picture(folder / "Lamp" / blank / "a.png"),
        write(folder / f"{blank}.txt", "A text."),
        write(folder / f"{blank}.html", "<p>A text.</p>"),
        write(folder / f"{blank}.csv", "a,b\n1,2\n"),
    ]
    records_file = write(
        folder / "units.jsonl",
        f'{{"name": "{blank}"}}\n{{"name": "Ball", "id": "{blank}"}}\n'
        f'{{"name": "Chair", "kind": "{blank}", "aliases": ["{blank}"], "relations": '
        f'[{{"relation": "{blank}", "target": "Ball"}}]}}\n',
    )
    stored = contents(folder)
    assert list(stored.units) == ["Chair", "Lamp"]
    reasons = {entry.item: entry.reason for entry in stored.left_out}
    for file in left_out:
        reason = reasons.pop(file.as_posix())
        assert reason == f"its name {blank!a} has no visible character: rename it"
    assert set(reasons) == {f"{records_file.as_posix()}:{line}" for line in (1, 2, 3)}
    alone = contents(left_out[2])
    assert (alone.units, len(alone.left_out)) == ({}, 1)


# ---- units -------------------------------------------------------------------------------------


def test_each_folder_with_pictures_or_texts_is_a_unit(folder, contents):
    front = picture(folder / "Oslo" / "front.PNG")
    text = write(folder / "Oslo" / "about.txt", "Oslo is a city.\r\n")
    stored = contents(folder)
    [oslo] = stored.units.values()
    assert (oslo.id, oslo.name, oslo.texts) == ("Oslo", "Oslo", ("Oslo is a city.\r\n",))
    assert oslo.images == (front.as_posix(),)
    assert [source.uri for source in oslo.sources] == [text.as_posix(), front.as_posix()]
    assert stored.left_out == []


def test_folders_nest_and_folders_of_folders_are_categories(folder, contents):
    for place in ("fruit/Apple", "fruit/Apple/Pink Lady", "fruit/Pear", "Zebra"):
        write(folder / place / "a.md", place)
    assert summary(contents(folder)) == [
        ("Zebra", "Zebra", [f"{folder}/Zebra/a.md"]),
        ("fruit/Apple", "Apple", [f"{folder}/fruit/Apple/a.md"]),
        ("fruit/Apple/Pink Lady", "Pink Lady", [f"{folder}/fruit/Apple/Pink Lady/a.md"]),
        ("fruit/Pear", "Pear", [f"{folder}/fruit/Pear/a.md"]),
    ]


def test_ids_are_composed_characters_whatever_the_disk_holds(folder, contents):
    path = write(folder / "Go\u0308teborg" / "a.txt", "A city.")
    assert summary(contents(folder)) == [("Göteborg", "Göteborg", [path.as_posix()])]


def test_headings_inside_a_units_folder_name_no_units(folder, contents):
    write(folder / "Oslo" / "a.md", "# History\nOld.\n# Climate\nCold.\n")
    assert summary(contents(folder)) == [("Oslo", "Oslo", [f"{folder}/Oslo/a.md"])]


def test_loose_pictures_are_units_with_the_texts_of_their_names(folder, contents):
    picture(folder / "b.png")
    picture(folder / "a.jpg")
    write(folder / "a.txt", "About a.")
    write(folder / "notes.md", "# One\nFirst.\n# Two\nSecond.\n")
    stored = contents(folder)
    assert summary(stored) == [
        ("One", "One", [f"{folder}/notes.md#one"]),
        ("Two", "Two", [f"{folder}/notes.md#two"]),
        ("a", "a", [f"{folder}/a.jpg", f"{folder}/a.txt"]),
        ("b", "b", [f"{folder}/b.png"]),
    ]
    assert stored.left_out == []


def test_record_files_are_read_wherever_they_lie(folder):
    write(folder / "all.jsonl", '{"name": "Oslo", "text": "A city."}\n')
    write(folder / "Bergen" / "more.csv", "name,text\nFlåm,A village.\n")
    write(folder / "Bergen" / "a.txt", "A town.")
    write(folder / "deep" / "er" / "t.tsv", "name\ttext\nVoss\tA place.\n")
    assert [r.unit.name for r in records(folder)] == ["Oslo", "Flåm", "Bergen", "Voss"]


def test_one_file_can_be_read_alone(folder, contents):
    image = picture(folder / "flag.png")
    assert summary(contents(image)) == [("flag", "flag", [image.as_posix()])]
    records_file = write(folder / "a.jsonl", '{"name": "Oslo"}')
    assert summary(contents(records_file)) == [("Oslo", "Oslo", [f"{records_file}#Oslo"])]


@pytest.mark.skipif(not GROCERY.is_dir(), reason="shared/data/grocery is not here")
def test_the_grocery_folders_are_81_units_each():
    units, photos = (list(read(GROCERY / part)) for part in ("units", "kb_photos"))
    assert len(units) == len(photos) == 81
    assert [r.unit for r in units] == [r.unit for r in photos]
    assert {len(r.sources) for r in photos} == {4}


# ---- what is left out --------------------------------------------------------------------------


def test_litter_is_skipped_in_silence(folder, contents):
    for name in (".git/config", ".DS_Store", "__MACOSX/a.png", "a/Thumbs.db", "a/.hidden.txt"):
        write(folder / name, "x")
    write(folder / "a" / "empty.bin", b"")
    assert contents(folder) == Contents({}, {}, [])


def test_what_cannot_be_read_is_named_and_the_rest_goes_on(folder, contents):
    good = picture(folder / "Oslo" / "good.png")
    bad = {
        "paper.odt": (
            b"PK",
            "no reader for .odt: expected pictures, .txt, .md, .html, .docx, .pptx",
        ),
        "LICENSE": (b"MIT", "no reader for files without a suffix"),
        "data.json": (b"[]", "write one object a line and call it .jsonl"),
        "empty.txt": (b"", "the file is empty or blank"),
        "blank.txt": (b" \n\n", "the file is empty or blank"),
        "latin.txt": ("Malmö".encode("latin-1"), "not UTF-8: byte 0xf6 at offset 4"),
        "nul.txt": (b"a\0bcdefgh", "NUL character (character 1)"),
        "wide.txt": ("Oslo".encode("utf-16-le"), "NUL character (character 1)"),
        "wider.txt": ("Oslo".encode("utf-32"), "NUL character (character 0)"),
        "odd.txt": (b"\xff\xfea\0b", "not UTF-16: byte 0x62 at offset 4"),
        "table.csv": (b"a\n1\n", "no column is called \"name\" (the first line is 'a')"),
    }
    for name, (data, _) in bad.items():
        write(folder / "Oslo" / name, data)
    stored = contents(folder)
    reasons = {entry.item: entry.reason for entry in stored.left_out}
    assert set(reasons) == {f"{folder}/Oslo/{name}" for name in bad}
    for name, (_, reason) in bad.items():
        assert reason in reasons[f"{folder}/Oslo/{name}"]
    assert summary(stored) == [("Oslo", "Oslo", [good.as_posix()])]


def test_links_may_not_leave_the_folder(folder, contents, tmp_path):
    secret = write(tmp_path / "secret.txt", "secret")
    inside = write(folder / "a" / "a.txt", "inside")
    os.symlink(secret, folder / "a" / "out.txt")
    os.symlink(tmp_path, folder / "out")
    os.symlink("nowhere", folder / "a" / "gone.txt")
    os.symlink(folder, folder / "a" / "round")
    os.symlink(inside, folder / "a" / "again.txt")
    stored = contents(folder)
    assert {
        entry.item.removeprefix(f"{folder}/"): entry.reason.split(":")[0]
        for entry in stored.left_out
    } == {
        "out": "the link leads out of the ingested folder",
        "a/out.txt": "the link leads out of the ingested folder",
        "a/gone.txt": "the link leads nowhere",
        "a/round": "the link leads to a folder that is read where it stands",
    }
    assert [unit.texts for unit in stored.units.values()] == [("inside",), ("inside",)]


def test_pipes_and_names_that_are_no_text_are_refused(folder, contents):
    os.mkfifo(folder / "pipe.txt")
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff.txt")).write_text("x")
    assert contents(folder).left_out == [
        Quarantined(f"{folder}/pipe.txt", "it is neither a file nor a folder: remove it"),
        Quarantined(f"{folder}/\\xff.txt", "its name is not UTF-8: rename it"),
    ]
    with pytest.raises(BadInput, match="no reader"):
        contents(folder / "pipe.txt")


def test_paths_that_nobody_reads(folder, kb):
    with pytest.raises(NotFound, match="is not there"):
        kb.ingest(folder / "missing")
    with pytest.raises(BadInput, match=r"no reader for \.odt"):
        kb.ingest(write(folder / "a.odt", "x"))
    with pytest.raises(BadInput, match="no column is called"):
        kb.ingest(write(folder / "a.csv", "x,y\n"))


def test_utf16_and_byte_order_marks_are_read(folder, contents):
    picture(folder / "a" / "0.png")
    write(folder / "a" / "1.txt", b"\xef\xbb\xbfMalm\xc3\xb6\r\n")
    write(folder / "a" / "2.txt", "Malmö\r\n".encode("utf-16"))
    write(folder / "a" / "3.txt", b"\xfe\xff" + "Malmö\r\n".encode("utf-16-be"))
    assert contents(folder).units["a"].texts == ("Malmö\r\n",) * 3


# ---- documents ---------------------------------------------------------------------------------


def document(folder, text, name="doc.md"):
    path = write(folder / name, text)
    return {
        (r.unit.name if r.unit else None): [
            (s.uri.removeprefix(path.as_posix()), "".join(s.texts)) for s in r.sources
        ]
        for r in records(path, "heading")
    }


def test_headings_name_units(folder):
    text = "# Cities\n\n## Oslo\nA city.\n### History\nOld.\n## *Bergen* ##\nA town.\n"
    assert document(folder, text) == {
        "Oslo": [("#oslo", "A city.\n### History\nOld.\n")],
        "Bergen": [("#bergen", "A town.\n")],
    }


def test_text_above_the_units_is_kept(folder):
    country = "Read me first.\n\nNorway\n======\nA country.\n\n"
    oslo = "A city.\nNo title, but\n---\na rule.\n\n"
    text = f"{country}Oslo\n----\n{oslo}Bergen\n---\nA town."
    assert document(folder, text, name="a.txt") == {
        None: [("", "Read me first.\n\n")],
        "Norway": [("#norway", "A country.\n\n")],
        "Oslo": [("#oslo", oslo)],
        "Bergen": [("#bergen", "A town.")],
    }


def test_code_lists_rules_and_front_matter_hold_no_headings(folder):
    text = (
        "---\ntitle: Norway\n---\n"
        "# Oslo\n```python\n# no heading\n```\n~~~\n# none\n```\n~~~\n"
        "- item\n---\n| a | b |\n---\n    # indented\n#hashtag\n# Bergen\n````\n# open to the end\n"
    )
    sections = document(folder, text)
    assert list(sections) == ["Oslo", "Bergen"]
    assert sections["Bergen"] == [("#bergen", "````\n# open to the end\n")]


def test_a_heading_that_comes_again_is_more_about_the_same_unit(folder):
    text = "# Oslo\nOne.\n# Bergen\nTwo.\n# oslo!\nThree.\n# Oslo 2\nFour.\n"
    assert document(folder, text) == {
        "Oslo": [("#oslo", "One.\n"), ("#oslo-3", "Three.\n")],
        "Bergen": [("#bergen", "Two.\n")],
        "Oslo 2": [("#oslo-2", "Four.\n")],
    }


def test_a_document_without_headings_is_one_unit(folder):
    assert document(folder, "Just text.\n", name="Oslo.txt") == {"Oslo": [("", "Just text.\n")]}


def test_a_heading_without_text_still_names_a_unit(folder):
    assert document(folder, "# Oslo\n\n# Bergen\n") == {
        "Oslo": [("#oslo", "")],
        "Bergen": [("#bergen", "")],
    }


def test_pictures_in_a_section_are_the_units(folder, contents):
    flag, town = picture(folder / "my flag.png"), picture(folder / "img" / "town(1).jpg")
    text = (
        "![lost](lost.png)\n# Norway\n![Flag](my%20flag.png 'the flag') ![x](<my flag.png>)\n"
        "`![code](a.png)`\n```\n![code](b.png)\n```\n"
        "# Bergen\n<img width=3 src='img/town(1).jpg'> ![](img/town(1).jpg)\n"
        "![out](../../etc/passwd) ![web](https://example.org/a.png)\n"
    )
    path = write(folder / "doc.md", text)
    stored = contents(path)
    images = {unit.name: unit.images for unit in stored.units.values()}
    assert images == {"Norway": (flag.as_posix(),), "Bergen": (town.as_posix(),)}
    places = [entry.item.removeprefix(path.as_posix()) for entry in stored.left_out]
    assert places == [":1", ":10", ":10"]
    assert "before the first heading" in stored.left_out[0].reason
    assert "leads out of the record's folder" in stored.left_out[1].reason
    assert "is an address" in stored.left_out[2].reason


marks = st.sampled_from(
    [
        "# A",
        "## B",
        "### a!",
        "Title\n=====",
        "Two\n---",
        "text",
        "",
        " ",
        "```",
        "- x",
        "#",
        "\r\n",
    ]
)


@given(st.lists(marks, max_size=25).map("\n".join))
def test_documents_lose_nothing_but_headings(text):
    with TemporaryDirectory() as name:
        path = write(Path(name) / "doc.md", text)
        items = list(read(path))
    if not text.strip():
        assert [type(item) for item in items] == [Quarantined]
        return
    parts = [part for record in items for source in record.sources for part in source.texts]
    assert all(part in text for part in parts)
    remaining = Counter("\n".join(parts).split())
    lost = Counter(text.split()) - remaining
    assert remaining - Counter(text.split()) == Counter()
    assert set(lost) <= {"#", "##", "###", "A", "B", "a!", "Title", "=====", "Two", "---"}
    uris = [source.uri for record in items for source in record.sources]
    assert len(uris) == len(set(uris))
    ids = [record.unit.id for record in items if record.unit]
    assert len(ids) == len(set(ids))


def test_pictures_that_records_name_are_no_units_of_their_own(folder, contents):
    picture(folder / "hammer.png")
    picture(folder / "images" / "saw.png")
    picture(folder / "loose.png")
    write(
        folder / "tools.jsonl",
        '{"name": "Claw hammer", "images": ["hammer.png"]}\n'
        '{"name": "Saw", "images": ["images/saw.png"]}\n',
    )
    assert list(contents(folder).units) == ["Claw hammer", "Saw", "loose"]
