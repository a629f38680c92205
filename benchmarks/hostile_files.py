"""Files made to exhaust memory and time, and what the parser process costs for ordinary files.

    python -m benchmarks.hostile_files [--earlier CHECKOUT] [--only WORD] [--write]

Each hostile file is ingested into a fresh base by `ku`, at the default limits, beside a text that
must be stored. Given are the size of the file, seconds, the peak memory of `ku` and of the
processes that it started, the exit code and what was reported.

With a checkout of an earlier version, both versions ingest ordinary files in turn, five times,
into fresh bases. The parser may cost a tenth more, beyond half a second for its start.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.record import write_result
from benchmarks.serve import Server, make_base
from tests.ingest.test_documents import word_file
from tests.ingest.test_hostile_files import (
    cells,
    compressed,
    large_docx,
    pdf,
    slow_pdf,
    stream,
    workbook,
)

_ROUNDS = 5
_START_S = 0.5
_POLL_S = 0.01
_MOST_S = 400
_ROOT = Path(__file__).parents[1]
_WORDS = (_ROOT / "benchmarks" / "town_texts.jsonl").read_text().split()
_MB = 1_000_000


def _children(pid: int) -> Iterator[int]:
    for tasks in Path(f"/proc/{pid}/task").iterdir():
        yield from map(int, (tasks / "children").read_text().split())


def _peak_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    peaks = (line.split()[1] for line in lines if line.startswith("VmHWM"))
    return int(next(peaks, "0")) * 1024 / _MB


def run(checkout: Path, folder: Path, *arguments: object) -> dict[str, Any]:
    """Run `ku` of a checkout in a folder.

    Returns:
        Exit code, seconds, processor seconds with children, peak megabytes of `ku` and of the
        largest of its children, what it printed as JSON, and the last line of its messages.
    """
    peaks = {"parent": 0.0, "child": 0.0}
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with (folder / "printed").open("w+") as printed, (folder / "errors").open("w+") as errors:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "ku_rag", *map(str, arguments), "--json"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(checkout)},
            stdout=printed,
            stderr=errors,
        )
        while process.poll() is None:
            try:
                peaks["parent"] = max(peaks["parent"], _peak_mb(process.pid))
                for child in _children(process.pid):
                    peaks["child"] = max(peaks["child"], _peak_mb(child))
            except OSError:
                pass
            if time.perf_counter() - started > _MOST_S:
                process.kill()
            time.sleep(_POLL_S)
        seconds = time.perf_counter() - started
        for file in (printed, errors):
            file.seek(0)
        text, said = printed.read(), errors.read().strip()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "exit": process.returncode,
        "seconds": round(seconds, 2),
        "processor": round(processor, 2),
        **{name: round(peak) for name, peak in peaks.items()},
        "report": json.loads(text) if text.startswith("{") else {},
        "said": said.rpartition("\n")[2],
    }


# ---- hostile files -----------------------------------------------------------------------------


def _nested_filters(path: Path) -> None:
    zeros = zlib.compress(compressed(b" ", 3_000_000_000), 9)
    pdf(path / "a.pdf", stream(zeros, b"/Filter[/FlateDecode/FlateDecode]"))


def _object_streams(path: Path) -> None:
    zeros = zlib.compress(compressed(b" ", 3_000_000_000), 9)
    fields = b"/Type/ObjStm/N 1/First 4/Filter[/FlateDecode/FlateDecode]"
    pdf(path / "a.pdf", stream(b"", b""), stream(zeros, fields), has_table=False)


def _slow_pdf(path: Path) -> None:
    slow_pdf(path / "a.pdf")


def _docx(path: Path) -> None:
    rng = random.Random(1)
    paragraphs = "</w:t></w:r></w:p><w:p><w:r><w:t>".join(
        str(rng.randrange(1_000)) for _ in range(620_000)
    )
    large_docx(path / "a.docx", 1, paragraphs)


def _record(path: Path, value: bytes) -> None:
    (path / "a.jsonl").write_bytes(b'{"name": "A", "x": %s}\n{"name": "B"}\n' % value)


def _nested_record(path: Path) -> None:
    _record(path, b"[" + b"[]," * 6_600_000 + b"0]")


def _long_record(path: Path) -> None:
    _record(path, b'"' + b"word " * 4_000_000 + b'"')


def _deep_record(path: Path) -> None:
    _record(path, b"[" * 10_000_000 + b"]" * 10_000_000)


def _markup(name: str, text: str) -> Callable[[Path], object]:
    return lambda path: (path / name).write_text(text)


def _tar(path: Path, pictures: int) -> None:
    """Write a tar file of pictures of a megabyte, each with a text."""
    pixels = np.random.default_rng(1).integers(0, 256, (600, 600, 3), np.uint8)
    data = io.BytesIO()
    Image.fromarray(pixels).save(data, "PNG")
    with tarfile.open(path / "a.tar", "w") as archive:
        for number in range(pictures):
            picture, text = data.getvalue() + b"%d" % number, f"Picture {number}.".encode()
            for suffix, content in (("png", picture), ("txt", text)):
                member = tarfile.TarInfo(f"{number}.{suffix}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))


_ENTITIES = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
_GRAPHML = f'<!DOCTYPE a [<!ENTITY e0 "words">{_ENTITIES}]><graphml><graph>&e11;</graph></graphml>'
_FILES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "PDF, nested filters": ("ingest", _nested_filters),
    "PDF, object stream": ("ingest", _object_streams),
    "PDF, 300,000 lines": ("ingest", _slow_pdf),
    "DOCX, 620,000 paragraphs": ("ingest", _docx),
    "JSON line, 20 MB of arrays": ("ingest", _nested_record),
    "JSON line, 20 MB of text": ("ingest", _long_record),
    "JSON line, 20 MB deep": ("ingest", _deep_record),
    "HTML, deep": ("ingest", _markup("a.html", "<b>" * 3_000_000 + "deep")),
    "HTML, deep tables": ("ingest", _markup("a.html", "<table><tr><td>" * 300_000 + "deep")),
    "Markdown, deep quotes": ("ingest", _markup("a.md", "> " * 3_000_000 + "deep")),
    "Markdown, deep lists": (
        "ingest",
        _markup("a.md", "".join(f"{'  ' * n}- a\n" for n in range(4_000))),
    ),
    "tar, .25 GB of pictures": ("ingest", lambda path: _tar(path, 230)),
    "tar, 1 GB of pictures": ("ingest", lambda path: _tar(path, 920)),
    "GraphML, entities": ("graph import", _markup("a.graphml", _GRAPHML)),
    "GraphML, deep": (
        "graph import",
        _markup("a.graphml", "<graphml><graph>" + "<a>" * 10_000_000),
    ),
    "workbook, row 4,000,000": ("graph import", lambda path: _sheet(path, [4_000_000])),
    "workbook, 4,000,000 rows": ("graph import", lambda path: _sheet(path, range(2, 4_000_002))),
}
"""What each file is, the command that reads it, and what writes it."""


def _sheet(path: Path, numbers: Any) -> None:  # noqa: ANN401
    folder = path / "Norway"
    folder.mkdir()
    rows = "".join(cells(number, "Oslo", "in", "Norway") for number in numbers)
    workbook(folder / "Relations.xlsx", cells(1, "Head", "Relation", "Tail") + rows)


def hostile(name: str) -> dict[str, Any]:
    """Read a hostile file and a text."""
    command, write = _FILES[name]
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work, "in")
        folder.mkdir()
        write(folder)
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        if command == "ingest":
            (folder / "Bergen.md").write_text("A city in Norway.")
        else:
            run(_ROOT, Path(work), "init")
        path = next(folder.glob("*.graphml"), folder)
        figures = run(_ROOT, Path(work), *command.split(), path)
    report = figures.pop("report")
    if reasons := [one["reason"] for one in report.get("quarantined", ())]:
        figures["said"] = reasons[0]
    return {"megabytes": round(size / _MB, 3), "units": report.get("units_added"), **figures}


# ---- a server ----------------------------------------------------------------------------------


def _job(server: Server, name: str, content: bytes) -> tuple[str, float]:
    """Upload a file; return the address of its job, and seconds until it was accepted."""
    started = time.perf_counter()
    answer = server.client.post("/v1/ingest", files={"files": (name, content)}).raise_for_status()
    return answer.headers["location"], round(time.perf_counter() - started, 3)


def _wait(server: Server, location: str, *states: str) -> Any:  # noqa: ANN401 - JSON
    while (job := server.client.get(location).json())["state"] not in states:
        time.sleep(0.02)
    return job


def served() -> dict[str, Any]:
    """Upload a slow PDF and a text, stop the server meanwhile, and search by eight pictures."""
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        make_base(folder / "kb", 20)
        slow_pdf(folder / "a.pdf")
        command = [sys.executable, "-P", "-m", "ku_rag", "serve", "--kb", str(folder / "kb")]
        first = {"method": "GET", "url": "/readyz"}
        for end in ("SIGTERM", "done"):
            server = Server(command, first)
            slow, figures["slow accepted"] = _job(server, "a.pdf", (folder / "a.pdf").read_bytes())
            _wait(server, slow, "running")
            time.sleep(3)
            small, figures["small accepted"] = _job(server, "b.txt", b"Bergen is a city.")
            started = time.perf_counter()
            if end == "done":
                figures["small stored"] = _wait(server, small, "done", "failed")["state"]
                figures["small seconds"] = round(time.perf_counter() - started, 2)
                figures["slow said"] = server.client.get(slow).json()
                server.stop()
            else:
                server.stop()
                figures["SIGTERM seconds"] = round(time.perf_counter() - started, 2)
                (folder / "kb").rename(folder / "first")
                make_base(folder / "kb", 20)
        for mode in ("RGB", "RGBA"):
            figures[f"megabytes, {mode}"] = _large_pictures(Server(command, first), mode)
    return figures


def _large_pictures(server: Server, mode: str) -> dict[str, Any]:
    """Search by eight PNG files of 39.7 megapixels at the same time."""
    tile = np.random.default_rng(1).integers(0, 256, (64, 64, len(mode)), np.uint8)
    pixels = np.tile(tile, (81, 121, 1))[:5_156, :7_700]
    data = io.BytesIO()
    Image.fromarray(pixels, mode).save(data, "PNG")
    image = "data:image/png;base64," + base64.b64encode(data.getvalue()).decode()
    before, started = server.memory_mb(), time.perf_counter()

    def search(_: int) -> int:
        return server.client.post("/v1/search", json={"image": image}, timeout=400).status_code

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(search, range(8)))
    seconds = round(time.perf_counter() - started, 1)
    peak = _peak_mb(server.pid)
    server.stop()
    size = round(len(data.getvalue()) / _MB, 1)
    return {
        "before": round(before),
        "peak": round(peak),
        "seconds": seconds,
        "answers": answers,
        "file": size,
    }


# ---- ordinary files ----------------------------------------------------------------------------


def _text(number: int, words: int = 60) -> str:
    rng = random.Random(number)
    return " ".join(rng.choices(_WORDS, k=words)).replace("<", "").replace("&", "")


def _texts(path: Path) -> None:
    for number in range(2_000):
        (path / f"{number}.txt").write_text(_text(number))


def _pages(path: Path) -> None:
    for number in range(2_000):
        (path / f"{number}.html").write_text(f"<h1>Page {number}</h1><p>{_text(number)}</p>")


def _word_files(path: Path) -> None:
    for number in range(500):
        heading = ("Heading1", f"Paper {number}")
        word_file(path / f"{number}.docx", [heading, ("Normal", _text(number))])


def _pdf_files(path: Path) -> None:
    for number in range(200):
        words = [one for one in _text(number).split() if one.isalnum()]
        lines = (" ".join(words[n : n + 8]) for n in range(0, len(words), 8))
        shown = "".join(f"({line}) Tj 0 -14 Td\n" for line in lines)
        content = stream(f"BT /F1 11 Tf 50 700 Td\n{shown}ET".encode(), b"")
        pdf(path / f"{number}.pdf", content, has_table=False)
        data = (path / f"{number}.pdf").read_bytes()
        font = b"/Resources<</Font<</F1<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>"
        (path / f"{number}.pdf").write_bytes(data.replace(b"/Resources<<>>", font))


def _records(path: Path) -> None:
    with (path / "a.jsonl").open("w") as file:
        for number in range(20_000):
            record = {"id": f"{number}", "name": f"Unit {number}", "texts": [_text(number, 20)]}
            file.write(json.dumps(record) + "\n")


_ORDINARY: dict[str, Callable[[Path], None]] = {
    "2,000 texts": _texts,
    "2,000 HTML": _pages,
    "500 DOCX": _word_files,
    "200 PDF": _pdf_files,
    "JSONL, 20,000 records": _records,
}


def ordinary(name: str, earlier: Path) -> dict[str, Any]:
    """Ingest ordinary files by both versions in turn; medians."""
    figures: dict[str, list[dict[str, Any]]] = {"now": [], "earlier": []}
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work, "in")
        folder.mkdir()
        _ORDINARY[name](folder)
        for number in range(_ROUNDS):
            for version, checkout in (("earlier", earlier), ("now", _ROOT)):
                base = Path(work, f"{version} {number}")
                done = run(checkout, Path(work), "ingest", folder, "--kb", base)
                assert done["exit"] == 0, done
                figures[version].append(done)
    counts = {one["report"]["units_added"] for runs in figures.values() for one in runs}
    result: dict[str, Any] = {"units": sorted(counts)}
    for version, runs in figures.items():
        for what in ("seconds", "processor", "parent", "child"):
            result[f"{what}, {version}"] = statistics.median(one[what] for one in runs)
    for what in ("seconds", "processor"):
        result[f"{what}, ratio"] = round(
            (result[f"{what}, now"] - _START_S) / result[f"{what}, earlier"], 3
        )
    return result


def main() -> None:
    """Measure, print, and with --write keep the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--earlier", type=Path, help="checkout of an earlier version")
    parser.add_argument("--only", default="", help="part of the name of what is measured")
    parser.add_argument("--write", action="store_true", help="write the result file")
    options = parser.parse_args()
    result: dict[str, Any] = {"hostile": {}, "ordinary": {}}
    for name in filter(lambda one: options.only in one, _FILES):
        result["hostile"][name] = hostile(name)
        print(name, json.dumps(result["hostile"][name])[:600], flush=True)
    for name in filter(lambda one: options.earlier and options.only in one, _ORDINARY):
        result["ordinary"][name] = ordinary(name, options.earlier.resolve())
        print(name, json.dumps(result["ordinary"][name]), flush=True)
    if options.only in "served":
        result["served"] = served()
        print(json.dumps(result["served"]), flush=True)
    if options.write:
        print(write_result("hostile_files", result))


if __name__ == "__main__":
    main()
