"""The contract of the commands: output and exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from ku_rag.cli import commands
from tests.conftest import connect, picture, write_fruits, write_records


@pytest.fixture
def fruits(tmp_path):
    return write_fruits(tmp_path)


def shape(value):
    """The types of a JSON value; a list is represented by its first item."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__


def test_init_makes_an_empty_base_once(ku):
    assert ku("init", "--json").json["created"] is True
    assert ku("init", "--json").json["created"] is False
    assert ku("stats", "--json").json["counts"] == {
        "units": 0, "chunks": 0, "images": 0, "sources": 0, "entities": 0, "relations": 0,
    }  # fmt: skip


def test_ingest_prints_what_it_did(ku, fruits):
    result = ku("ingest", fruits, "--json")
    assert result.code == 0
    assert shape(result.json) == {
        "units_added": "int",
        "units_updated": "int",
        "units_unchanged": "int",
        "chunks_added": "int",
        "images_added": "int",
        "relations_added": "int",
        "quarantined": [],
        "seconds": "float",
    }
    assert result.json["units_added"] == 2


def test_broken_items_are_listed_and_exit_3(ku, fruits):
    (fruits / "Kiwi" / "broken.jpg").write_bytes(b"")
    result = ku("ingest", fruits, "--json")
    assert result.code == 3
    ((item, reason),) = [tuple(q.values()) for q in result.json["quarantined"]]
    assert item.endswith("broken.jpg")
    assert "empty" in reason
    assert result.json["units_added"] == 2


def test_query_answers_with_everything_that_led_to_it(ku, fruit_base):
    result = ku(
        "query", fruit_base / "Kiwi" / "photo.png", "Which country does it come from?", "--json"
    )
    assert result.code == 0
    answer = result.json
    assert (answer["answer"], answer["citations"]) == ("Italy", ["E1"])
    assert answer["units"][0]["id"] == "Kiwi"
    assert {key: shape(answer[key]) for key in answer if key not in ("timings_ms", "models")} == {
        "question": "str",
        "image": "str",
        "region": {"box": ["int"], "source": "str", "score": "float", "why": "str"},
        "units": [
            {
                "id": "str",
                "name": "str",
                "score": "float",
                "confidence": "float",
                "image": "str",
                "why": "str",
                "signals": {"region": "float", "registration": "float"},
            }
        ],
        "chunks": [
            {
                "evidence": "str",
                "chunk": "int",
                "owners": ["str"],
                "unit_ids": ["str"],
                "source": "str",
                "text": "str",
                "score": "float",
                "unit_names": ["str"],
            }
        ],
        "paths": [],
        "passage": [],
        "outcome": "str",
        "draft": "NoneType",
        "answer": "str",
        "closest": "NoneType",
        "changed": "bool",
        "citations": ["str"],
        "why": "str",
        "reason": "str",
        "believed": "NoneType",
        "dropped_citations": [],
        "caption": "NoneType",
        "notes": [],
        "usage": {},
    }
    assert set(answer["models"]) == {"encoder", "segmenter", "reader"}
    assert {"match", "search", "read", "total"} <= set(answer["timings_ms"])


def test_query_writes_passage_and_report(ku, fruit_base, tmp_path):
    result = ku(
        "query", fruit_base / "Kiwi" / "photo.png", "Is it sweet?", "--json",
        "--passage", "out/pages.png", "--report", "out/why.html",
    )  # fmt: skip
    assert result.json["passage"] == ["out/pages.png"]
    assert (tmp_path / "out" / "pages.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "out" / "why.html").read_text(encoding="utf-8")
    assert "Is it sweet?" in page
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_a_question_without_a_picture(ku, fruit_base):
    for image in ([], ["-"]):
        answer = ku("query", *image, "Which country does the Mango come from?", "--json").json
        assert (answer["image"], answer["region"], answer["answer"]) == (None, None, "Peru")


def test_show_takes_a_name_that_one_unit_has(ku):
    for unit in ("a", "b"):
        ku("add", "--name", "Lamp", "--id", unit, "--alias", f"Light {unit}")
    assert ku("show", "light B", "--json").json["id"] == "b"
    run = ku("show", "lamp")
    assert (run.code, "several units: use one of the ids 'a', 'b'" in run.err) == (1, True)
    assert "there is no unit 'torch'" in ku("show", "torch").err


def test_add_update_show_list_delete(ku, tmp_path):
    picture(tmp_path / "lamp.png", 3)
    (tmp_path / "more.txt").write_text("It hangs.", encoding="utf-8")
    added = ku(
        "add", "--name", "Lamp", "--id", "lamp", "--kind", "thing", "--alias", "Light",
        "--image", "lamp.png", "--text", "It shines.", "--text-file", "more.txt",
        "--metadata", '{"year": 1920}', "--json",
    ).json  # fmt: skip
    assert {k: v for k, v in added.items() if k != "why"} == {
        "id": "lamp", "action": "added", "matched": None, "chunks": 2, "images": 1,
    }  # fmt: skip
    joined = ku("add", "--name", "light", "--text", "Bright.", "--json").json
    assert (joined["action"], joined["matched"]) == ("joined", {"id": "lamp", "score": 1.0})
    ku("update", "lamp", "--kind", "device")
    (listed,) = ku("list", "--json").json
    assert (listed["id"], listed["kind"], listed["counts"]["chunks"]) == ("lamp", "device", 3)
    assert ku("list", "--kind", "thing", "--json").json == []
    unit = ku("show", "lamp", "--json").json
    assert unit["texts"] == ["It shines.", "It hangs.", "Bright."]
    laid_out = ku("show", "lamp").out.splitlines()
    assert laid_out[:3] == ["Lamp  [lamp]  (device)", "also called: Light, light", "year: 1920"]
    assert laid_out[3] == f"image: {unit['images'][0]}"
    assert laid_out[4:10] == ["", "  It shines.", "", "  It hangs.", "", "  Bright."]
    assert laid_out[10:] == ["", *(f"source: {source['uri']}" for source in unit["sources"])]
    assert unit["metadata"] == {"year": 1920}
    assert shape(ku("delete", "lamp", "--json").json) == {
        "units": ["str"], "chunks": ["int"], "images": ["str"], "relations": [],
    }  # fmt: skip
    assert ku("list", "--json").json == []


def test_search_verify_stats_compact(ku, fruit_base):
    result = ku(
        "search", "--image", fruit_base / "Mango" / "photo.png", "--text", "sweet", "--json"
    )
    assert shape(result.json) == {
        "units": [
            {
                "id": "str",
                "name": "str",
                "score": "float",
                "confidence": "float",
                "why": "str",
                "signals": {"region": "float", "registration": "float"},
            }
        ],
        "chunks": [
            {
                "chunk": "int",
                "owners": ["str"],
                "unit_ids": ["str"],
                "source": "str",
                "text": "str",
                "score": "float",
                "unit_names": ["str"],
            }
        ],
    }
    assert result.json["units"][0]["id"] == "Mango"
    assert ku("search", "--text", "Kiwi", "--json").json["chunks"][0]["unit_ids"] == ["Kiwi"]
    verified = ku("verify", "--json")
    assert (verified.code, verified.json["ok"], verified.json["problems"]) == (0, True, [])
    assert set(ku("stats", "--json").json) == {
        "counts", "bytes", "encoder", "segmenter", "recogniser", "pictures_read", "indexes",
        "schema",
    }  # fmt: skip
    assert shape(ku("compact", "--json").json) == {"bytes_before": "int", "bytes_after": "int"}


MANUAL = "# Widget\n\nIt turns.\n\n## Options\n\n### --speed\n\nFast.\n\n## Use\n\nTurn it.\n"


def test_a_dry_run_prints_the_units_as_a_tree_and_stores_nothing(ku, fruits, tmp_path):
    (fruits / "widget.md").write_text(MANUAL)
    (fruits / "things.jsonl").write_text(
        '{"id": "a", "name": "A", "texts": ["x", "y"], "tables": [{"header": ["b"], '
        '"rows": [["1"]]}]}\n{"id": "b", "name": "B"}\n{"broken\n'
    )
    run = ku("ingest", fruits, "--dry-run")
    assert (run.code, run.out.splitlines()) == (
        3,
        [
            "A (record, texts: 2, tables: 1)",
            "B (record)",
            "Widget (document, texts: 3)",
            "  Options > --speed",
            "  Use",
            "Kiwi (files, texts: 1, pictures: 1)",
            "Mango (files, texts: 1, pictures: 1)",
        ],
    )
    assert "things.jsonl:3" in run.err
    assert not (tmp_path / "kb").exists()
    plan = ku("ingest", fruits, "--dry-run", "--units", "heading", "--json").json
    assert [unit["name"] for unit in plan["units"] if unit["origin"] == "heading"] == [
        *("Widget", "Options", "Use"),
    ]
    assert plan["units"][0] == {
        **{"id": "a", "name": "A", "origin": "record"},
        **{"counts": {"texts": 2, "tables": 1, "pictures": 0}, "sections": []},
    }
    assert [left_out["item"].rpartition("/")[2] for left_out in plan["quarantined"]] == [
        "things.jsonl:3"
    ]


def test_a_dry_run_prints_at_most_forty_lines(ku, tmp_path):
    (tmp_path / "docs").mkdir()
    for number in range(50):
        (tmp_path / "docs" / f"n{number:02}.txt").write_text(f"Number {number}.")
    lines = ku("ingest", "docs", "--dry-run").out.splitlines()
    assert len(lines) == 40
    assert lines[38:] == ["n38 (document, texts: 1)", "… and 11 more units; --json lists all"]
    assert len(ku("ingest", "docs", "--dry-run", "--json").json["units"]) == 50
    sections = "".join(f"## {number}. Part\n\nText.\n\n" for number in range(60))
    (tmp_path / "long.md").write_text(f"# Long\n\n{sections}")
    lines = ku("ingest", "long.md", "--dry-run").out.splitlines()
    assert lines[0] == "Long (document, texts: 60)"
    assert lines[39:] == ["… and 22 more sections; --json lists all"]


@pytest.mark.parametrize("command", ["ingest", "sync"])
def test_the_units_of_an_existing_base_are_recorded(ku, tmp_path, command):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "widget.md").write_text(MANUAL)

    def ids():
        return [unit["id"] for unit in ku("list", "--json").json]

    ku("ingest", "docs")
    assert ids() == ["widget"]
    ku("sync", "docs", "--dry-run", "--units", "heading")
    ku("sync", "docs")
    assert ids() == ["widget"]
    ku(command, "docs", "--units", "heading")
    ku("sync", "docs", "--yes")
    assert ids() == ["Options", "Use", "Widget"]
    assert 'units = "heading"\n' in (tmp_path / "kb" / "ku.toml").read_text()


def test_sync_tells_what_it_deleted(ku, fruits):
    ku("ingest", fruits)
    for file in (fruits / "Kiwi").iterdir():
        file.unlink()
    (fruits / "Kiwi").rmdir()
    assert ku("sync", fruits, "--dry-run", "--json").json["units_deleted"] == ["Kiwi"]
    assert ku("sync", fruits, "--json").json["units_deleted"] == ["Kiwi"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["query", "nowhere.png", "What?"], 1, "nowhere.png"),
        (["query", "fruits/Kiwi/photo.png", "  "], 1, "question is empty"),
        (["query", "fruits/Kiwi/photo.png", "x" * 100_001], 1, "100001 characters"),
        (["show", "nobody"], 1, "no unit 'nobody'"),
        (["delete", "nobody"], 1, "nothing was deleted"),
        (["update", "nobody", "--name", "x"], 1, "no unit 'nobody'"),
        (["ingest", "nowhere"], 1, "nowhere"),
        (["stats", "--kb", "nowhere"], 1, "no knowledge base in"),
        (["stats", "--kb", "fruits"], 1, "no knowledge base in"),
        (["init", "--kb", "fruits"], 4, "holds other files"),
        (["init", "--encoder", "magic"], 1, "no encoder 'magic'"),
        (["sync", "nowhere"], 1, "--yes"),
        (["add", "--name", " "], 1, "name is empty"),
        (["add"], 2, "--name"),
        (["add", "--name", "x", "--metadata", "{"], 2, "JSON"),
        (["query", "-"], 2, "QUESTION"),
        (["query", "fruits/Kiwi/photo.png"], 2, "QUESTION"),
        (["query", "nowhere.png"], 2, "QUESTION"),
        (["search"], 2, "--image"),
        (["fly"], 2, "fly"),
        (["list", "--limit", "0"], 2, "limit"),
        (["add", "--name", "x", "--metadata", '{"a": NaN}'], 2, "NaN is no JSON number"),
        (["add", "--name", "x", "--metadata", '{"a": "\\ud800"}'], 1, "not UTF-8"),
        (["add", "--name", "\udcff"], 1, "'\\udcff' holds bytes that are not UTF-8"),
        (["add", "--name", "x", "--id", " "], 1, "the id is empty"),
        (["show", "\udcff"], 1, "not UTF-8"),
        (["delete", "\ud800"], 1, "not UTF-8"),
        (["add", "--name", "x", "--text-file", "fruits"], 1, "fruits is a folder"),
        (["add", "--name", "x", "--text-file", "/dev/zero"], 1, "/dev/zero is a device"),
        (["add", "--name", "x", "--text-file", "nowhere.txt"], 1, "nowhere.txt is not there"),
        (["add", "--name", "x", "--image", "/dev/zero"], 1, "/dev/zero is a device"),
        (["query", "/dev/zero", "What?"], 1, "/dev/zero is a device"),
        (["query", "-", "What?", "--passage", "a.jpg"], 2, "ending in .png"),
        (["query", "-", "What?", "--report", "a.txt"], 2, "ending in .html"),
        (["query", "-", "What?", "--report", "fruits"], 1, "is a folder"),
        (["query", "-", "What?", "--report", ""], 2, "the path is empty"),
        (["query", "-", "What?", "--passage", "."], 1, "is a folder"),
        (
            ["query", "-", "What?", "--passage", "kb/ku.toml/a.png"],
            1,
            "is not a folder that is writable",
        ),
        (["sync", "fruits/Kiwi/photo.png"], 1, "sync takes a folder"),
        (["init", "--kb", "new", "--encoder", "embedded:foo"], 1, "'embedded:foo' cannot be made"),
    ],
)
def test_what_goes_wrong_is_said_in_one_sentence(ku, fruit_base, arguments, code, message):
    result = ku(*arguments)
    assert result.code == code
    assert message in result.err
    assert result.out == ""
    assert "Traceback" not in result.err


def test_fts_syntax_in_a_question_is_only_words(ku, fruit_base):
    for question in ('" OR NEAR( *', "title:sweet AND", "^sweet*", "'; DROP TABLE units; --"):
        result = ku("query", fruit_base / "Kiwi" / "photo.png", question, "--json")
        assert result.code == 0
        assert result.json["units"][0]["id"] == "Kiwi"


def test_a_long_question_is_answered(ku, fruit_base):
    question = "Which country does it come from? " * 3000
    assert ku("query", fruit_base / "Kiwi" / "photo.png", question[:100_000], "--json").code == 0


def test_every_command_has_help(ku):
    for name, command in commands.cli.commands.items():
        assert command.help, name
        for option in command.params:
            if option.param_type_name == "option":
                assert option.help or name == "search", (name, option.name)
        assert ku(name, "--help").code == 0


def test_kb_comes_from_the_environment_and_settings_from_the_file(ku, tmp_path, monkeypatch):
    monkeypatch.setenv("KU_KB", str(tmp_path / "elsewhere"))
    ku("init")
    assert (tmp_path / "elsewhere" / "ku.sqlite").is_file()
    (tmp_path / "elsewhere" / "ku.toml").write_text('encoder = "embedded"\nk_chunk = 4\n')
    result = ku("stats")
    assert (result.code, "no setting 'k_chunk'" in result.err) == (1, True)


def test_a_locked_base_exits_5_and_names_the_holder(ku, tmp_path, monkeypatch):
    ku("init")
    monkeypatch.setenv("KU_LOCK_WAIT_S", "0.1")
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import fcntl, os, sys\n"
            "f = os.open('kb/writer.lock', os.O_RDWR | os.O_CREAT)\n"
            "fcntl.flock(f, fcntl.LOCK_EX)\n"
            "os.ftruncate(f, 0)\n"
            "os.write(f, str(os.getpid()).encode())\n"
            "print('held', flush=True)\nsys.stdin.read()",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with holder:
        holder.stdout.readline()
        result = ku("add", "--name", "x")
        holder.stdin.close()
    assert result.code == 5
    assert f"process {holder.pid} is writing" in result.err
    assert ku("add", "--name", "x").code == 0


def test_another_encoder_exits_4_with_the_remedy(ku, tmp_path):
    ku("init")
    connection = connect(tmp_path / "kb" / "ku.sqlite")
    connection.execute(
        "UPDATE meta SET value = ? WHERE key = 'encoder'",
        (json.dumps({"spec": "embedded", "fingerprint": "other:512", "sides": {}}),),
    )
    connection.close()
    result = ku("stats")
    assert result.code == 4
    assert "ku reindex --encoder" in result.err


def test_a_newer_schema_exits_4(ku, tmp_path):
    ku("init")
    connection = connect(tmp_path / "kb" / "ku.sqlite")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    result = ku("stats")
    assert (result.code, "install a newer ku-rag" in result.err) == (4, True)


def test_a_file_that_is_no_base_exits_4(ku, tmp_path):
    (tmp_path / "kb").mkdir()
    (tmp_path / "kb" / "ku.sqlite").write_bytes(b"not a database at all, " * 100)
    result = ku("stats")
    assert (result.code, "is not a knowledge base" in result.err) == (4, True)


def test_records_from_a_file(ku, tmp_path):
    path = write_records(tmp_path / "u.jsonl", [{"id": "a", "name": "A thing", "text": "x."}])
    assert ku("ingest", path, "--json").json["units_added"] == 1


def test_a_pipe_is_no_text_file(ku, tmp_path):
    os.mkfifo(tmp_path / "p.txt")
    result = ku("add", "--name", "x", "--text-file", "p.txt")
    assert (result.code, "p.txt is a pipe" in result.err) == (1, True)


def test_a_setting_out_of_range_is_said_with_its_source(ku, monkeypatch):
    monkeypatch.setenv("KU_JOIN_THRESHOLD", "nan")
    result = ku("init")
    assert (result.code, "KU_JOIN_THRESHOLD is nan" in result.err) == (1, True)


def test_json_is_strict_json(ku, tmp_path):
    ku("add", "--name", "Lamp", "--id", "lamp")
    connection = connect(tmp_path / "kb" / "ku.sqlite")
    connection.execute("UPDATE units SET metadata = '{\"a\": NaN}'")
    connection.close()
    result = ku("list", "--json")
    assert (result.code, result.out, "what JSON cannot" in result.err) == (1, "", True)


def test_python_m_is_the_command(tmp_path):
    process = subprocess.run(
        [sys.executable, "-m", "ku_rag", "stats", "--kb", str(tmp_path / "kb")],
        capture_output=True,
        text=True,
    )
    assert (process.returncode, "there is no knowledge base" in process.stderr) == (1, True)


@pytest.mark.parametrize("arguments", [["--help"], ["list", "--help"], ["list", "--json"]])
def test_nobody_reading_on_is_no_failure(ku, tmp_path, arguments):
    for number in range(3):
        ku("add", "--name", f"Lamp {number}", "--text", "It shines.")
    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.run(
        [sys.executable, "-m", "ku_rag", *arguments], stdout=writer, stderr=subprocess.PIPE
    )
    os.close(writer)
    assert (process.returncode, process.stderr) == (0, b"")


def test_doctor_sees_that_a_database_is_gone(ku, tmp_path):
    picture(tmp_path / "p.png", 1)
    ku("add", "--name", "Lamp", "--image", "p.png")
    for file in (tmp_path / "kb").glob("ku.sqlite*"):
        file.unlink()
    result = ku("doctor", "--json")
    assert (result.code, result.json[-1]["ok"]) == (1, False)
    assert "restore ku.sqlite" in result.json[-1]["seen"]
    assert ku("add", "--name", "x").code == 4


def test_the_help_begins_with_what_to_type(ku):
    assert "Begin with:  ku demo\n" in ku("--help").out


def test_a_base_that_is_made_on_the_way_is_told(ku, fruits):
    assert "created " in (first := ku("ingest", fruits).err)
    assert "encoder embedded" in first
    assert ku("ingest", fruits).err == ""


def test_the_nearest_unit_is_suggested(ku):
    ku("add", "--name", "Dragon fruit", "--text", "It is red.")
    for command in (
        ("show", "Dragon frut"),
        ("delete", "dragon FRUIT"),
        ("update", "Dragon Fruit"),
    ):
        result = ku(*command)
        assert (result.code, result.err.count("did you mean 'dragon-fruit'")) == (1, 1)
    ku("graph", "add", "--relation", "dragon-fruit", "grows in", "Vietnam")
    for command in (
        ("graph", "show", "Vietnm"),
        ("graph", "paths", "Dragon fruit", "viet nam"),
        ("graph", "delete", "Vietnamm"),
    ):
        assert ku(*command).err.endswith("did you mean 'Vietnam'?\n")
    assert "did you mean 'dragon-fruit'?" in ku("show", "dragonfruit").err
    assert "`ku list` prints the ids" in ku("show", "Banana").err


def test_several_folders_and_files_are_ingested(ku, tmp_path):
    write_fruits(tmp_path)
    (tmp_path / "fig.md").write_text("# Fig\n\nFigs grow in Turkey.\n", encoding="utf-8")
    run = ku("ingest", "fruits", "fig.md", "--json")
    assert (run.code, run.json["units_added"]) == (0, 3)
    assert ku("ingest", "fruits", "nothing").code == 1
