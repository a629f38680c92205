"""The units of documents, and the headings of their texts."""

import os

import pytest

from ku_rag import KnowledgeBase
from tests.conftest import picture

MANUAL = """# Widget

A widget turns wheels. It is used in installation guides.

## Installation

Run the usual installation. An option is needed.

## Options

### `--speed`

Turns faster.

- Default: 3 rpm

### `--colour`

- Default: green
"""
COUNTRIES = """# Countries

## Sweden

- Capital: Stockholm

## Norway

- Capital: Oslo

## Denmark

Danish pastry is sold here.

- Capital: Copenhagen
"""


def ids(kb):
    return sorted(unit.id for unit in kb.list())


def test_a_manual_is_one_unit_and_a_catalogue_has_one_for_each_heading(kb, tmp_path):
    (tmp_path / "docs" / "guide").mkdir(parents=True)
    (tmp_path / "docs" / "widget-manual.md").write_text(MANUAL)
    (tmp_path / "docs" / "guide" / "a.md").write_text(MANUAL.replace("Widget", "Sprocket"))
    (tmp_path / "docs" / "guide" / "b.md").write_text(COUNTRIES)
    kb.ingest(tmp_path / "docs")
    assert ids(kb) == ["Denmark", "Norway", "Sweden", "guide/a", "widget-manual"]
    unit = kb.show("widget-manual")
    assert (unit.name, unit.aliases) == ("Widget", ("widget-manual",))
    facts = [(fact.label, fact.value, fact.scope) for fact in kb.facts("widget-manual")]
    assert ("Default", "3 rpm", "Options > --speed") in facts
    assert ("Default", "green", "Options > --colour") in facts


@pytest.mark.parametrize(
    ("units", "expected"),
    [("file", ["notes"]), ("heading", ["Denmark", "Norway", "Sweden"])],
)
def test_the_setting_decides(tmp_path, units, expected):
    (tmp_path / "notes.md").write_text(COUNTRIES)
    with KnowledgeBase.open(tmp_path / "kb", create=True, units=units) as kb:
        kb.ingest(tmp_path / "notes.md")
        assert ids(kb) == expected
    with KnowledgeBase.open(tmp_path / "kb") as kb:
        assert kb.settings.units == units


def test_evidence_has_the_heading_also_after_an_import(kb, tmp_path):
    (tmp_path / "manual.md").write_text(MANUAL)
    kb.ingest(tmp_path / "manual.md")
    (hit,) = kb.search(text="turns faster", k=1).chunks
    assert hit.section == "Options > --speed"
    kb.export(tmp_path / "out")
    with KnowledgeBase.open(tmp_path / "copy", create=True) as copy:
        copy.import_(tmp_path / "out")
        (again,) = copy.search(text="turns faster", k=1).chunks
        assert (again.section, again.text) == (hit.section, hit.text)
        assert not copy.verify().problems
        assert copy.ingest(tmp_path / "manual.md").units_unchanged == 1


def test_a_changed_heading_replaces_the_place(kb, tmp_path):
    (tmp_path / "manual.md").write_text(
        "# A\n\nText.\n\n## One\n\nIt is blue.\n\n## Two\n\nIt is red.\n"
    )
    kb.ingest(tmp_path / "manual.md")
    (tmp_path / "manual.md").write_text(
        "# A\n\nText.\n\n## One\n\nIt is blue.\n\n## Six\n\nIt is red.\n"
    )
    kb.ingest(tmp_path / "manual.md")
    (hit,) = kb.search(text="red", k=1).chunks
    assert (hit.section, "Two" in hit.text) == ("Six", False)


def test_a_folder_with_a_picture_is_a_unit_and_one_with_several_documents_is_none(kb, tmp_path):
    for name in ("a", "b"):
        for folder in ("lamp", "notes"):
            (tmp_path / "things" / folder).mkdir(parents=True, exist_ok=True)
            (tmp_path / "things" / folder / f"{name}.txt").write_text(f"Text {name} of {folder}.")
    picture(tmp_path / "things" / "lamp" / "lamp.png", 1)
    kb.ingest(tmp_path / "things")
    assert ids(kb) == ["lamp", "notes/a", "notes/b"]


def test_headings_that_were_units_move_to_their_document(kb, tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "manual.md").write_text(MANUAL)
    with KnowledgeBase.open(tmp_path / "earlier", create=True, units="heading") as earlier:
        earlier.ingest(folder)
        assert "Options" in ids(earlier)
        earlier.update("Options", metadata={"owner": "Ann"})
    with KnowledgeBase.open(tmp_path / "earlier", units="auto") as later:
        report = later.sync(folder)
        assert ids(later) == ["Options", "manual"]
        assert sorted(report.units_deleted) == ["Installation", "Widget"]
        (item,) = report.quarantined
        assert (item.item, "update" in item.reason) == ("Options", True)
        assert later.show("Options").metadata == {"owner": "Ann"}
        assert not later.verify().problems
        assert not later.sync(folder).quarantined


NOTE = """---
title: >
  A note
author: Jane Doe
date: 2024-05-01
tags: [lamps, cups]
rating: 4
nested: {a: b}
aliases: [The memo]
---
# Heading

Nothing of note.

See [the manual](guide/b%20c.md#part), [[guide/d|that]], [[e]], ![[e]], `[x](f.md)`,
[itself](note.md), [gone](gone.md), [out](../out.md), [site](https://example.org/f.md)
and [a picture](red.png).

```
[x](f.md)
```
"""


def test_front_matter_is_metadata_and_links_are_relations(kb, tmp_path):
    folder = tmp_path / "docs"
    (folder / "guide").mkdir(parents=True)
    (tmp_path / "out.md").write_text("Out.")
    for name in ("guide/b c", "guide/d", "e", "f"):
        (folder / f"{name}.md").write_text(f"Text of {name}, see [that](../e.md).")
    (folder / "note.md").write_text(NOTE)
    kb.ingest(folder)
    note = kb.show("note")
    assert (note.name, "Jane" in note.texts[0]) == ("Heading", False)
    del note.metadata["file_modified"]
    assert note.metadata == {
        **{
            "file_format": "md",
            "file_path": "note.md",
            "title": "A note\n",
            "author": "Jane Doe",
            "date": "2024-05-01",
        },
        **{"tags": ["lamps", "cups"], "rating": 4, "aliases": ["The memo"]},
    }
    links = [(relation.relation, relation.target) for relation in note.relations]
    assert links == [("links to", target) for target in ("guide/d", "e", "guide/b c")]
    assert [relation.target for relation in kb.show("guide/d").relations] == ["e"]
    assert kb.query(None, "Who is the author of the memo?").answer == "Jane Doe"
    assert kb.ingest(folder).units_unchanged == 5


@pytest.mark.parametrize(
    "front",
    [
        "a: [",
        "- a",
        "date: 2024-13-45",
        "[" * 5_000,
        "&a [&b [*b, *b]]",
        "!!python/object/apply:os.system [exit]",
    ],
)
def test_front_matter_that_is_no_yaml_stays_text(kb, tmp_path, front):
    (tmp_path / "a.md").write_text(f"---\n{front}\n---\n# Lamps\n\nGreen.\n")
    assert kb.ingest(tmp_path / "a.md").quarantined == []
    unit = kb.show("a")
    assert sorted(unit.metadata) == ["file_format", "file_modified", "file_path"]
    assert front in "".join(unit.texts)


def test_headings_that_are_gone_go_also_from_a_document_with_a_missing_picture(kb, tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    text = f"{COUNTRIES}\n![map](missing.png)\n"
    (folder / "countries.md").write_text(text)
    kb.sync(folder)
    assert "Sweden" in ids(kb)
    (folder / "countries.md").write_text(text.replace("Sweden", "Finland"))
    report = kb.sync(folder)
    assert report.units_deleted == ["Sweden"]
    assert "Finland" in ids(kb)
    (folder / "countries.md").write_bytes(b"\xff\xfe\xff")
    kb.sync(folder)
    assert "Finland" in ids(kb)


def test_documents_of_the_same_name_are_units_of_their_own(kb, tmp_path):
    for folder, product in (("one", "Alpha"), ("two", "Beta")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "README.md").write_text(
            f"# {product} tool\n\n- Price: {len(folder + product)} euro\n"
        )
    (tmp_path / "one" / "README.html").write_text("<h1>Gamma tool</h1><p>Price: 3 euro</p>")
    kb.ingest(tmp_path / "one")
    kb.ingest(tmp_path / "two")
    names = {unit.id: unit.name for unit in kb.list()}
    assert names == {"README": "Gamma tool", "README-2": "Alpha tool", "README-3": "Beta tool"}
    assert kb.query(None, "What is the price of the Alpha tool?").answer == "8 euro"
    for folder in ("one", "two"):
        assert kb.sync(tmp_path / folder).units_added == 0
    assert {unit.id: unit.name for unit in kb.list()} == names
    # The same file below another folder stays the same unit.
    assert kb.ingest(tmp_path / "two" / "README.md").units_unchanged == 1
    (tmp_path / "one" / "README.html").unlink()
    assert kb.sync(tmp_path / "one").units_deleted == ["README"]
    assert [unit.id for unit in kb.list()] == ["README-2", "README-3"]


def test_documents_of_a_folder_without_its_picture_are_units_again(kb, tmp_path):
    guide = tmp_path / "docs" / "guide"
    guide.mkdir(parents=True)
    for name in ("install", "usage"):
        (guide / f"{name}.md").write_text(f"How to {name} it.")
    picture(guide / "shot.png", 1)
    kb.ingest(tmp_path / "docs")
    assert ids(kb) == ["guide"]
    (guide / "shot.png").unlink()
    kb.sync(tmp_path / "docs")
    assert ids(kb) == ["guide/install", "guide/usage"]
    assert not kb.verify().problems


def test_pictures_that_documents_name_do_not_make_their_folder_a_unit(kb, tmp_path):
    guide = tmp_path / "docs" / "guide"
    guide.mkdir(parents=True)
    for name in ("install", "usage"):
        (guide / f"{name}.md").write_text(f"# {name.title()}\n\nDo it.\n\n![shot]({name}.png)\n")
        picture(guide / f"{name}.png", len(name))
    kb.ingest(tmp_path / "docs")
    assert ids(kb) == ["guide/install", "guide/usage"]
    assert [kb.show(unit).counts["images"] for unit in ids(kb)] == [1, 1]
    picture(guide / "logo.png", 1)
    kb.sync(tmp_path / "docs")
    assert ids(kb) == ["guide"]
    assert kb.show("guide").counts["images"] == 3
    assert not kb.verify().problems


def test_a_folder_of_one_document_is_that_document(kb, tmp_path):
    for folder in ("my lamps", "cups", "own"):
        (tmp_path / "docs" / folder).mkdir(parents=True)
    (tmp_path / "docs" / "my lamps" / "readme.md").write_text(
        "---\nauthor: Ann\n---\n# Aurora\n\nSee ![it](it.png) and [the rest](../other.md).\n"
    )
    picture(tmp_path / "docs" / "my lamps" / "it.png", 1)
    (tmp_path / "docs" / "cups" / "notes.txt").write_text("Cups are red.")
    (tmp_path / "docs" / "own" / "text.md").write_text("# Titled\n\nIt is small.")
    picture(tmp_path / "docs" / "own" / "photo.png", 2)
    (tmp_path / "docs" / "other.md").write_text("The rest.")
    kb.ingest(tmp_path / "docs")
    units = {unit.id: (unit.name, unit.aliases) for unit in kb.list()}
    assert units == {
        **{"cups": ("cups", ()), "my lamps": ("Aurora", ("my lamps",))},
        **{"other": ("other", ()), "own": ("own", ())},
    }
    for unit, (suffix, path) in {
        "my lamps": ("md", "my lamps/readme.md"),
        "cups": ("txt", "cups/notes.txt"),
    }.items():
        metadata = kb.show(unit).metadata
        assert (metadata["file_format"], metadata["file_path"]) == (suffix, path)
        assert len(metadata["file_modified"]) == len("2026-01-01")
    assert kb.show("my lamps").metadata["author"] == "Ann"
    assert [relation.target for relation in kb.show("my lamps").relations] == ["other"]
    assert kb.show("own").texts == ("# Titled\n\nIt is small.",)
    assert kb.show("own").metadata == {}
    assert kb.ingest(tmp_path / "docs").units_unchanged == 4


def test_a_date_alone_is_no_change(kb, tmp_path):
    (tmp_path / "docs" / "lamp").mkdir(parents=True)
    files = [tmp_path / "docs" / "cup.md", tmp_path / "docs" / "lamp" / "text.md"]
    for file in files:
        file.write_text("It is red.")
        os.utime(file, (1e9, 1e9))

    def dates():
        return [kb.show(unit).metadata["file_modified"] for unit in ("cup", "lamp")]

    kb.ingest(tmp_path / "docs")
    for file in files:
        os.utime(file, (1.1e9, 1.1e9))
    report = kb.sync(tmp_path / "docs")
    assert (report.units_unchanged, report.units_updated) == (2, 0)
    assert dates() == ["2001-09-09"] * 2
    for file in files:
        file.write_text("It is green.")
        os.utime(file, (1.2e9, 1.2e9))
    report = kb.sync(tmp_path / "docs")
    assert (report.units_unchanged, report.units_updated) == (0, 2)
    assert dates() == ["2008-01-10"] * 2


def test_documents_are_filtered_by_path_date_and_format(kb, tmp_path):
    (tmp_path / "docs" / "guide").mkdir(parents=True)
    for number, name in enumerate(["guide/lamp.md", "guide/cup.txt", "chair.md"]):
        (tmp_path / "docs" / name).write_text(f"It is number {number}.")
        os.utime(tmp_path / "docs" / name, (1e9 + 1e8 * number,) * 2)
    kb.ingest(tmp_path / "docs")

    def chosen(*where):
        return sorted(unit.id for unit in kb.list(where=where))

    assert chosen("file_path contains guide/") == ["guide/cup", "guide/lamp"]
    assert chosen("file_path=guide/lamp.md") == ["guide/lamp"]
    assert chosen("file_modified>=2004-01-01") == ["chair", "guide/cup"]
    assert chosen("file_modified<2008-01-01", "file_format=md") == ["guide/lamp"]


def test_a_menu_above_the_first_heading_is_left_out(tmp_path):
    menu = "<ul><li><a href='index.html'>Home</a></li><li><a href='a.html'>About</a></li>"
    menu += "<li><a href='get.html'>Download</a></li></ul>"
    links = menu.replace("About", "Asters")
    page = f"{menu}<h1>Ponds</h1><p>A pond is still water.</p><h2>More</h2>{links}"
    (tmp_path / "ponds.html").write_text(page)
    (tmp_path / "links.html").write_text(menu)
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        for name in ("ponds", "links"):
            kb.ingest(tmp_path / f"{name}.html")
        texts = {
            name: " ".join(" ".join(kb.show(name).texts).split()) for name in ("ponds", "links")
        }
        assert texts == {
            "ponds": "A pond is still water. More Home Asters Download",
            "links": "Home About Download",
        }
