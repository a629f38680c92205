"""Files that would exhaust memory or time: each is left out by a limit, the rest is ingested."""

import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
import zlib
from pathlib import Path

import pytest

from ku_rag import BadInput, KnowledgeBase
from ku_rag.ingest.readers.folder import read
from ku_rag.ingest.readers.parser import Limits, Parsing
from tests.ingest.test_documents import REPORT, red, word_file

SMALL = {"parse_memory": 160, "parse_output": 1}
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def compressed(unit: bytes, count: int) -> bytes:
    packer = zlib.compressobj(9)
    parts = [packer.compress(unit * 10_000) for _ in range(count // 10_000)]
    return b"".join(parts) + packer.flush()


def pdf(path: Path, *objects: bytes, has_table: bool = True) -> None:
    """Write a PDF of one page; the objects begin with number 4, the page's content."""
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R/Resources<<>>>>"
    first = (b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[3 0 R]/Count 1>>", page)
    data, offsets = b"%PDF-1.5\n", []
    for number, body in enumerate((*first, *objects), 1):
        offsets.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start, size = len(data), len(offsets) + 1
    if has_table:
        lines = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
        data += b"xref\n0 %d\n0000000000 65535 f \n%s" % (size, lines)
    data += b"trailer\n<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (size, start)
    path.write_bytes(data)


def stream(data: bytes, fields: bytes = b"/Filter/FlateDecode") -> bytes:
    return b"<</Length %d%s>>\nstream\n%s\nendstream" % (len(data), fields, data)


def slow_pdf(path: Path) -> None:
    """Write a PDF of 9 KB with 300,000 lines on one page."""
    pdf(path, stream(compressed(b"0 0 m 9 9 l S\n", 290_000)))


def large_docx(path: Path, count: int, text: str = "x") -> None:
    word_file(path, REPORT)
    with zipfile.ZipFile(path) as members:
        parts = {name: members.read(name) for name in members.namelist()}
    body = f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>" * count
    parts["word/document.xml"] = (
        f'<w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>'
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as members:
        for name, data in parts.items():
            members.writestr(name, data)


def workbook(path: Path, rows: str) -> None:
    kinds = "application/vnd.openxmlformats"
    office = f"{kinds}-officedocument.spreadsheetml"
    relation = f'<Relationships xmlns="{RELATIONS.replace("officeDocument", "package")}">'
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as members:
        members.writestr(
            "[Content_Types].xml",
            '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
            f'<Default Extension="rels" ContentType="{kinds}-package.relationships+xml"/>'
            f'<Override PartName="/xl/workbook.xml" ContentType="{office}.sheet.main+xml"/>'
            f'<Override PartName="/xl/a.xml" ContentType="{office}.worksheet+xml"/></Types>',
        )
        members.writestr(
            "_rels/.rels",
            f'{relation}<Relationship Id="r1" Type="{RELATIONS}/officeDocument" '
            'Target="xl/workbook.xml"/></Relationships>',
        )
        members.writestr(
            "xl/workbook.xml",
            f'<workbook xmlns="{SHEET}" xmlns:r="{RELATIONS}"><sheets>'
            '<sheet name="a" sheetId="1" r:id="r1"/></sheets></workbook>',
        )
        members.writestr(
            "xl/_rels/workbook.xml.rels",
            f'{relation}<Relationship Id="r1" Type="{RELATIONS}/worksheet" Target="a.xml"/>'
            "</Relationships>",
        )
        sheet = f'<worksheet xmlns="{SHEET}"><sheetData>{rows}</sheetData></worksheet>'
        members.writestr("xl/a.xml", sheet)


def cells(number: int, *texts: str) -> str:
    inside = "".join(f'<c t="inlineStr"><is><t>{text}</t></is></c>' for text in texts)
    return f'<row r="{number}">{inside}</row>'


def parsers() -> set[int]:
    """Return the processes that this one started and that still run a parser."""
    running = set()
    for tasks in Path("/proc/self/task").iterdir():
        for child in (tasks / "children").read_text().split():
            if b"parser_process" in Path("/proc", child, "cmdline").read_bytes():
                running.add(int(child))
    return running


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# ---- documents ---------------------------------------------------------------------------------


def test_hostile_documents_are_left_out_and_the_rest_is_ingested(ku, tmp_path, monkeypatch):
    folder = tmp_path / "in"
    folder.mkdir()
    zeros = compressed(b" ", 200_000_000)
    pdf(folder / "filters.pdf", stream(zlib.compress(zeros, 9), b"/Filter[/FlateDecode/Fl]"))
    objects = stream(zeros, b"/Type/ObjStm/N 1/First 4/Filter/FlateDecode")
    pdf(folder / "objects.pdf", stream(b"", b""), objects, has_table=False)
    large_docx(folder / "elements.docx", 120_000)
    large_docx(folder / "text.docx", 12, "Words and words. " * 10_000)
    (folder / "Bergen.md").write_text("A city in Norway.")
    monkeypatch.setenv("KU_PARSE_MEMORY", "128")
    monkeypatch.setenv("KU_PARSE_OUTPUT", "1")
    result = ku("ingest", folder, "--json")
    assert result.code == 3
    left_out = {Path(item["item"]).name: item["reason"] for item in result.json["quarantined"]}
    memory = (
        "takes more than 128 MiB of memory to parse: split or simplify it, or raise the setting"
    )
    ended = (
        "ended its parser (SIGABRT; its limit of memory is 128 MiB): check it, or raise the setting"
    )
    assert left_out == {
        "filters.pdf": f"filters.pdf {ended} parse_memory",
        "objects.pdf": f"objects.pdf {ended} parse_memory",
        "elements.docx": f"elements.docx {memory} parse_memory",
        "text.docx": "text.docx gives more than 1 MiB of text and tables: split it, or raise the "
        "setting parse_output",
    }
    assert result.json["units_added"] == 1
    assert (
        ku("search", "--text", "city in Norway", "--json").json["chunks"][0]["text"]
        == "A city in Norway."
    )


def test_a_document_that_takes_too_long_is_left_out_and_the_next_is_read(tmp_path, contents):
    slow_pdf(tmp_path / "a.pdf")
    (tmp_path / "b.md").write_text("# Bergen\nA city.")
    stored = contents(tmp_path, parse_seconds=0.5)
    assert [entry.reason for entry in stored.left_out] == [
        "a.pdf takes more than 0.5 s to parse: split or simplify it, or raise the setting "
        "parse_seconds"
    ]
    assert list(stored.units) == ["Bergen"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("quotes.md", "> " * 50_000 + "deep"),
        ("lists.md", "".join(f"{'  ' * n}- a\n" for n in range(1_500))),
        ("tags.html", "<b>" * 300_000 + "deep"),
    ],
)
def test_deep_nesting_ends_in_a_record_or_a_reason(tmp_path, contents, name, content):
    (tmp_path / name).write_text(content)
    (tmp_path / "z.md").write_text("# Bergen\nA city.")
    stored = contents(tmp_path, **SMALL)
    assert "Bergen" in stored.units
    assert len(stored.units) + len(stored.left_out) == 2


def test_nested_xml_and_arrays_are_left_out(tmp_path, contents):
    word_file(tmp_path / "a.docx", [("Normal", "<w:t>" * 50_000 + "</w:t>" * 50_000)])
    pdf(tmp_path / "b.pdf", stream(b"", b""), b"[" * 200_000 + b"]" * 200_000, has_table=False)
    stored = contents(tmp_path, **SMALL)
    assert (stored.units, len(stored.left_out)) == ({}, 2)


def test_a_picture_that_unpacks_to_too_much_is_left_out_of_its_document(kb, tmp_path):
    word_file(tmp_path / "a.docx", [*REPORT, None], red())
    with zipfile.ZipFile(tmp_path / "a.docx") as members:
        parts = {name: members.read(name) for name in members.namelist()}
    with zipfile.ZipFile(tmp_path / "a.docx", "w", zipfile.ZIP_DEFLATED) as members:
        for name, data in parts.items():
            with members.open(name, "w") as file:
                file.write(data)
                if name.startswith("word/media/"):
                    for _ in range(65):
                        file.write(bytes(1 << 20))
    report = kb.ingest(tmp_path / "a.docx")
    assert (report.images_added, report.chunks_added > 0) == (0, True)
    assert "a.docx/word/media/missing" in report.quarantined[0].item


# ---- files of many records ---------------------------------------------------------------------


NESTED = b"[" + b"[]," * 1_500_000 + b"0]"


def test_a_hostile_line_is_left_out_and_the_next_is_read(tmp_path, contents):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"name": "A"}\n{"name": "B", "x": %s}\n{"name": "C"}\n' % NESTED)
    for memory, reason in (
        (128, "a.jsonl takes more than 128 MiB of memory"),
        (1024, "metadata has more than 1,000,000 values"),
    ):
        stored = contents(path, parse_memory=memory)
        assert list(stored.units) == ["A", "C"]
        (left_out,) = stored.left_out
        assert left_out.item == f"{path}:2"
        assert left_out.reason.startswith(reason)


def test_a_hostile_member_is_left_out_and_the_next_is_read(tmp_path, contents):
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as archive:
        for key, value in (("a", b"1"), ("b", NESTED), ("c", b"3"), ("d", NESTED), ("e", b"5")):
            data = b'{"name": "%s", "x": %s}' % (key.upper().encode(), value)
            member = tarfile.TarInfo(f"{key}.json")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    stored = contents(path, parse_memory=128)
    assert list(stored.units) == ["A", "C", "E"]
    assert [entry.item for entry in stored.left_out] == [f"{path}:2", f"{path}:4"]
    reason = "record 2: a.tar takes more than 128 MiB of memory"
    assert stored.left_out[0].reason.startswith(reason)


def test_a_hostile_row_of_a_table_is_left_out_and_the_next_is_read(tmp_path, contents):
    path = tmp_path / "a.csv"
    path.write_text(f"name,text\nA,a\nB,{'word ' * 300_000}\nC,c\n")
    stored = contents(path, **SMALL)
    assert list(stored.units) == ["A", "C"]
    reason = "record 2: a.csv gives more than 1 MiB of text and tables"
    assert stored.left_out[0].reason.startswith(reason)


def test_a_hostile_row_of_parquet_is_left_out_and_the_next_is_read(tmp_path, contents):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    rows = [
        {"name": "A", "text": "a"},
        {"name": "B", "text": "b" * 2_000_000},
        {"name": "C", "text": "c"},
    ]
    parquet.write_table(arrow.Table.from_pylist(rows), path)
    stored = contents(path, parse_output=1)
    assert (list(stored.units), len(stored.left_out)) == (["A", "C"], 1)


def test_rows_that_a_sheet_cannot_have_are_left_out(ku, tmp_path):
    folder = tmp_path / "graph" / "Norway"
    folder.mkdir(parents=True)
    rows = cells(1, "Head", "Relation", "Tail") + cells(2, "Oslo", "in", "Norway")
    workbook(folder / "Relations.xlsx", rows + cells(4_000_000, "Bergen", "in", "Norway"))
    ku("init")
    result = ku("graph", "import", tmp_path / "graph", "--json")
    assert result.code == 3
    assert any(
        "Relations.xlsx has more than 1,048,576 rows or 16,777,216 cells" in item["reason"]
        for item in result.json["quarantined"]
    )
    assert ku("graph", "paths", "Oslo", "Norway", "--json").code == 0


def test_a_graph_that_takes_too_much_memory_is_named(tmp_path):
    path = tmp_path / "a.graphml"
    path.write_text("<graphml><graph>" + "<node id='1'/>" * 10 + "<a>" * 2_000_000)
    with (
        KnowledgeBase.open(tmp_path / "kb", create=True, parse_memory=128) as kb,
        pytest.raises(BadInput, match=r"a\.graphml takes more than 128 MiB of memory"),
    ):
        kb.graph.import_file(path)


# ---- the process -------------------------------------------------------------------------------


class Stop(Exception):
    """Raised by the progress callback of a caller."""


def test_an_exception_of_progress_ends_all_parsers_at_once(kb, tmp_path):
    for name in "abc":
        slow_pdf(tmp_path / f"{name}.pdf")
    running = []

    def progress(count):
        running.append(parsers())
        raise Stop

    with pytest.raises(Stop):
        kb.ingest(tmp_path, progress=progress)
    assert len(running[0]) == min(3, os.cpu_count())
    assert not running[0] & parsers()
    for name in "abc":
        (tmp_path / f"{name}.pdf").write_text("no PDF")
    reasons = [item.reason for item in kb.ingest(tmp_path).quarantined]
    assert len(reasons) == 3
    assert all(reason.startswith("the document is damaged") for reason in reasons)


def test_documents_that_end_their_parsers_leave_order_and_others_unharmed(tmp_path):
    for number in range(40):
        text = f"Text {number}. " * (200_000 if number % 7 == 3 else 1)
        (tmp_path / f"{number:02}.md").write_text(text)
    items = list(read(tmp_path, Parsing(Limits(output=1 << 20))))
    assert len(items) == 40
    for number, item in enumerate(items):
        if number % 7 == 3:
            assert item.reason.startswith(f"{number:02}.md gives more than 1 MiB of text")
        else:
            assert item.unit.id == f"{number:02}"


def test_closing_the_iterator_ends_the_parser(tmp_path):
    (tmp_path / "a.csv").write_text("name,text\n" + "".join(f"{n},a\n" for n in range(50_000)))
    items = read(tmp_path, Parsing(Limits(seconds=58)))
    assert next(items).unit.name == "0"
    (before,) = parsers()
    items.close()
    assert before not in parsers()


def test_many_files_are_parsed_by_few_processes(tmp_path, monkeypatch, contents):
    started = []

    class Counted(subprocess.Popen):
        def __init__(self, *args, **options):
            started.append(args)
            super().__init__(*args, **options)

    monkeypatch.setattr(subprocess, "Popen", Counted)
    for number in range(60):
        (tmp_path / f"{number}.md").write_text(f"Text {number}.")
    large = b"x" * (300 << 20)  # the parser does not count the memory of this process
    for _ in range(2):
        stored = contents(tmp_path, parse_seconds=57)
        assert sorted(stored.units) == sorted(map(str, range(60)))
    assert len(started) == min(4, os.cpu_count())
    del large


def test_documents_with_long_paths_and_texts_are_requested_ahead(tmp_path):
    """Requests and answers larger than a pipe: neither process waits for the other."""
    folder = tmp_path
    while len(os.fsencode(folder / ("ж" * 120) / ("ж" * 100))) < 4000:
        folder /= "ж" * 120
    folder.mkdir(parents=True)
    paths = [folder / f"{number}{'ж' * 90}.md" for number in range(10)]
    for path in paths:
        path.write_text("Words and words. " * 20_000)
    parsed = list(Parsing(Limits()).documents(paths, "whole"))
    assert [path for path, _ in parsed] == paths
    assert all(len(items) == 1 for _, items in parsed)


def test_where_the_system_sets_no_limit_memory_is_measured(tmp_path, monkeypatch, contents):
    monkeypatch.setattr(sys, "platform", "darwin")
    pdf(tmp_path / "a.pdf", stream(compressed(b" ", 300_000_000)))
    (left_out,) = contents(tmp_path / "a.pdf", parse_memory=150).left_out
    assert left_out.reason.startswith("a.pdf takes more than 150 MiB of memory")


SCRIPT = """
import sys
from pathlib import Path
from ku_rag import KnowledgeBase
print("started", flush=True)
with KnowledgeBase.open(sys.argv[1], create=True) as kb:
    def progress(count):
        tasks = Path("/proc/self/task").iterdir()
        children = [c for t in tasks for c in (t / "children").read_text().split()]
        print("parser", *children, flush=True)
    kb.ingest(sys.argv[2], progress=progress)
"""


def test_the_parser_ends_with_its_parent_and_runs_no_script_of_the_user(tmp_path):
    (tmp_path / "in").mkdir()
    slow_pdf(tmp_path / "in" / "a.pdf")
    (tmp_path / "script.py").write_text(SCRIPT)
    # A module of this name in the current folder must not be imported by the parser.
    (tmp_path / "markdown_it.py").write_text("raise SystemExit('imported')")
    command = [sys.executable, "script.py", "kb", "in"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "started\n"
        word, parser = process.stdout.readline().split()
        assert word == "parser"
        assert is_running(int(parser))
        os.kill(process.pid, signal.SIGKILL)
        assert "started" not in process.stdout.read()
    deadline = time.monotonic() + 30
    while is_running(int(parser)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_running(int(parser))


def test_the_parser_loads_no_index_and_no_model():
    modules = "documents", "graphml_elements", "jsonl", "sheet", "table", "webdataset"
    code = "import sys, " + ", ".join(
        f"ku_rag.ingest.readers.{name}" for name in ("parser_process", *modules)
    )
    code += "\nprint([m for m in ('faiss', 'torch', 'numpy', 'PIL') if m in sys.modules])"
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert process.stdout == "[]\n"


# ---- whole limits ------------------------------------------------------------------------------

PEAKS = """
import json, resource, sys
from ku_rag import KnowledgeBase
with KnowledgeBase.open(sys.argv[1], create=True) as kb:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    report = kb.ingest(sys.argv[2])
    processes = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    peaks = [resource.getrusage(process).ru_maxrss for process in processes]
print(json.dumps([peaks[0] - before, peaks[1], len(report.quarantined), report.units_added]))
"""


@pytest.mark.slow
def test_the_default_limits_bound_the_memory_of_both_processes(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    zeros = compressed(b" ", 3_000_000_000)
    pdf(folder / "filters.pdf", stream(zlib.compress(zeros, 9), b"/Filter[/FlateDecode/Fl]"))
    large_docx(folder / "elements.docx", 760_000)
    slow_pdf(folder / "lines.pdf")
    (folder / "Bergen.md").write_text("A city in Norway.")
    command = [sys.executable, "-c", PEAKS, str(tmp_path / "kb"), str(folder)]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    parent, child, left_out, added = json.loads(process.stdout)
    assert (left_out, added) == (3, 1)
    assert child < 1_100 << 10
    assert parent < 200 << 10
