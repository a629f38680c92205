"""Questions about real documents: `python -m benchmarks.documents FOLDER`.

The folder contains the documents in `files/`, and `questions.jsonl`: {"question", "answers":
accepted texts, [] if no document answers, "document": name of the file, "page": number or null}.
Such documents are not part of this repository; docs/performance.md names those that were used.

An answer is right if it contains an accepted text and is not longer than a few lines. The document
counts as retrieved if one of the first three chunks comes from it. The page counts as right if a
chunk cited for a right answer begins on it.

`--scan` asks the questions again with the PDF files as scans: 150 dpi, rotated by 2 degrees, with
noise. The character error of a scan is its edit distance to the text of the PDF file, divided by
the length of that text (needs rapidfuzz and the extra ocr).
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from importlib import import_module
from pathlib import Path, PurePath

import numpy as np
from PIL import Image
from pypdfium2 import PdfDocument
from reportlab.lib.colors import black, lightgrey, white
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.platypus import Paragraph, SimpleDocTemplate
from reportlab.platypus import Table as PdfTable

from benchmarks.record import write_result
from ku_rag import KnowledgeBase
from ku_rag.ingest.readers.pdf import read_pdf
from ku_rag.types import Answer

_LONGEST = 600
"""Most characters of a right answer; a longer one only repeats the text."""
_DPI, _TILT, _NOISE = 150, 2.0, 12.0
"""Resolution, rotation in degrees, and standard deviation of the grey values of scans."""
_TOP = ("VALIGN", (0, 0), (-1, -1), "TOP")
_STYLES = {
    "grid": [_TOP, ("GRID", (0, 0), (-1, -1), 0.5, black)],
    "rules between rows": [_TOP, ("LINEBELOW", (0, 0), (-1, -2), 0.5, black)],
    "rules around header and end": [
        _TOP,
        ("LINEABOVE", (0, 0), (-1, 0), 1, black),
        ("LINEBELOW", (0, 0), (-1, 0), 0.5, black),
        ("LINEBELOW", (0, -1), (-1, -1), 1, black),
    ],
    "shaded rows": [_TOP, ("ROWBACKGROUNDS", (0, 0), (-1, -1), (lightgrey, white))],
}
"""Styles of generated tables, for reportlab."""
_WORDS = [f"{begin}{end}" for begin in ("lam", "tor", "bri", "pel", "sca") for end in ("pen", "ga")]


def _plain(text: str) -> str:
    return " ".join(re.sub(r"[`*_\"']", "", text.casefold()).split())


def verdict(answer: str, accepted: list[str]) -> str:
    """Return "right", "wrong" or "declined"; without accepted texts "stated" or "abstained"."""
    if not accepted:
        return "stated" if answer else "abstained"
    if not answer:
        return "declined"
    is_right = any(_plain(text) in _plain(answer) for text in accepted)
    return "right" if is_right and len(answer) <= _LONGEST else "wrong"


def _file(uri: str) -> str:
    return PurePath(uri.partition("#")[0]).name


def ask(folder: Path, *, verbose: bool) -> tuple[dict[str, float], dict[str, str]]:
    """Ask the questions of a folder; return counts and shares, and the texts of PDF files."""
    counts: Counter[str] = Counter()
    with (
        tempfile.TemporaryDirectory() as base,
        KnowledgeBase.open(f"{base}/kb", create=True) as kb,
    ):
        started = time.process_time()
        report = kb.ingest(folder / "files")
        counts["left_out"] = len(report.quarantined)
        seconds = time.process_time() - started
        for line in (folder / "questions.jsonl").read_text("utf-8").splitlines():
            question = json.loads(line)
            answer = kb.query(None, question["question"])
            result = verdict(answer.answer, question["answers"])
            counts[result] += 1
            if result == "declined" and (closest := answer.reading.closest):
                counts["closest_has_answer"] += (
                    verdict(closest.text, question["answers"]) == "right"
                )
            if question["answers"]:
                _count_places(counts, answer, question, is_right=result == "right")
            if verbose:
                print(f"{result:9} {question['question']} -> {answer.answer[:100]!r}")
                print(
                    f"          {question['answers']} {question['document']} | {answer.reading.why}"
                )
        pdf_units = [unit.id for unit in kb.list(where=["file_format=pdf"])]
        texts = {unit: " ".join(" ".join(kb.show(unit).texts).split()) for unit in pdf_units}
    answerable = sum(counts[key] for key in ("right", "wrong", "declined"))
    shares = {
        **counts,
        "right_share": round(counts["right"] / answerable, 3),
        "document_share": round(counts["document_in_3"] / answerable, 3),
        "ingest_processor_s": round(seconds, 1),
    }
    return shares, texts


def ask_scans(
    folder: Path, texts: dict[str, str], *, verbose: bool
) -> dict[str, float | dict[str, float]]:
    """Ask the questions of a folder whose PDF files are scans; return character errors as well."""
    distance = import_module("rapidfuzz.distance").Levenshtein.distance
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name) / "scans"
        shutil.copytree(folder, copy)
        _scan_files(copy / "files")
        result, recognised = ask(copy, verbose=verbose)
    errors = {
        unit: round(distance(text, recognised.get(unit, "")) / len(text), 4)
        for unit, text in texts.items()
    }
    return {**result, "character_error": errors}


def _scan_files(folder: Path) -> None:
    """Replace PDF files by scans."""
    rng = np.random.default_rng(1)
    for path in folder.glob("*.pdf"):
        pages = []
        with PdfDocument(path) as document:
            for page in document:
                picture = page.render(scale=_DPI / 72, grayscale=True).to_pil()
                tilted = picture.rotate(_TILT, Image.Resampling.BICUBIC, fillcolor=255)
                noise = rng.normal(0, _NOISE, (tilted.height, tilted.width))
                noisy = np.clip(np.asarray(tilted) + noise, 0, 255)
                pages.append(Image.fromarray(noisy.astype(np.uint8)))
        pages[0].save(path, "PDF", save_all=True, append_images=pages[1:], resolution=_DPI)


def _count_places(
    counts: Counter[str], answer: Answer, question: dict[str, object], *, is_right: bool
) -> None:
    files = [_file(piece.source) for piece in answer.chunks[:3]]
    counts["document_in_3"] += question["document"] in files
    if is_right and question.get("page"):
        cited = [piece for piece in answer.chunks if piece.label in answer.citations]
        counts["pages"] += 1
        counts["pages_right"] += any(piece.page == question["page"] for piece in cited)


def pages_per_second(folder: Path) -> dict[str, float]:
    """Return the pages of each PDF file that are read in a second of processor time."""
    speeds = {}
    for path in sorted((folder / "files").glob("*.pdf")):
        started = time.process_time()
        lines = read_pdf(path.resolve()).lines
        pages = len({page for _, page, *_ in lines})
        speeds[path.name] = round(pages / (time.process_time() - started), 1)
    return speeds


def generated_tables(count: int) -> dict[str, float]:
    """Return the share of cells of tables in PDF files that are read as written, by style.

    A fifth of the texts takes two lines. A table that is not read, or is read with another number
    of columns, has no right cell.
    """
    rng = random.Random(2)
    right, total = Counter[str](), Counter[str]()
    with tempfile.TemporaryDirectory() as name:
        for number in range(count):
            style = list(_STYLES)[number % len(_STYLES)]
            rows = _random_rows(rng)
            path = Path(name) / f"{number}.pdf"
            body = getSampleStyleSheet()["BodyText"]
            cells = [
                [Paragraph(text, body) if " " in text else text for text in row] for row in rows
            ]
            table = PdfTable(cells, colWidths=480 / len(rows[0]), style=_STYLES[style])
            texts = (Paragraph(f"The {word} is described below. " * 6, body) for word in _WORDS[:2])
            SimpleDocTemplate(str(path)).build([next(texts), table, next(texts)])
            total[style] += len(rows) * len(rows[0])
            for _, _, _, parsed_rows in read_pdf(path.resolve()).tables[:1]:
                if len(parsed_rows[0]) == len(rows[0]):
                    pairs = zip(rows, parsed_rows, strict=False)
                    right[style] += sum(
                        a == b for pair in pairs for a, b in zip(*pair, strict=True)
                    )
    return {style: round(right[style] / total[style], 3) for style in total}


def _random_rows(rng: random.Random) -> list[list[str]]:
    columns = rng.randint(2, 6)

    def text() -> str:
        if rng.random() < 0.4:
            return f"{rng.uniform(1, 5000):,.1f}"
        return " ".join(rng.choice(_WORDS) for _ in range(rng.choice((1, 1, 1, 2, 6))))

    header = [rng.choice(_WORDS).capitalize() for _ in range(columns)]
    keys = rng.sample(_WORDS, rng.randint(3, 9))
    return [header, *([key, *(text() for _ in range(columns - 1))] for key in keys)]


def small_files(count: int) -> float:
    """Return the seconds that a folder of Markdown files of three sections takes to ingest."""
    rng = random.Random(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "notes"
        folder.mkdir()
        for number in range(count):
            sections = (
                f"## Part {part}\n\n{' '.join(rng.choice(_WORDS) for _ in range(60))}.\n"
                for part in range(3)
            )
            (folder / f"note-{number}.md").write_text(f"# Note {number}\n\n{''.join(sections)}")
        with KnowledgeBase.open(Path(name) / "kb", create=True) as kb:
            started = time.perf_counter()
            kb.ingest(folder)
            return round(time.perf_counter() - started, 1)


def main() -> None:
    """Ask, print, and with --write write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--small", type=int, default=0, help="ingest so many small files as well")
    parser.add_argument("--tables", type=int, default=0, help="read so many generated tables")
    parser.add_argument("--write", action="store_true", help="write the result file")
    parser.add_argument("--verbose", action="store_true", help="print each answer")
    parser.add_argument("--scan", action="store_true", help="ask once more with scans")
    options = parser.parse_args()
    result: dict[str, object] = {}
    for folder in options.folders:
        answers, texts = ask(folder, verbose=options.verbose)
        speeds = {"pdf_pages_per_processor_s": pages_per_second(folder)}
        result[folder.name] = {**answers, **speeds}
        if options.scan:
            scans = ask_scans(folder, texts, verbose=options.verbose)
            result[f"{folder.name} scanned"] = scans
    if options.tables:
        result["cells_right"] = generated_tables(options.tables)
    if options.small:
        result[f"{options.small}_small_files_s"] = small_files(options.small)
    json.dump(result, sys.stdout, indent=1)
    print()
    if options.write:
        write_result("documents", result)


if __name__ == "__main__":
    main()
