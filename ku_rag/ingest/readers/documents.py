"""DOCX and PDF files, converted to HTML. No script or macro is executed."""

from __future__ import annotations

import logging
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from html import escape
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from ku_rag.errors import BadInput
from ku_rag.ingest.readers.decoding import MAX_PICTURE_BYTES
from ku_rag.ingest.readers.hypertext import read_html
from ku_rag.ingest.readers.outline import Outline
from ku_rag.plugins import extra

_MOST_UNPACKED = {".xml": 32 << 20, ".rels": 32 << 20, "": 1 << 30}
"""Bytes of the members of a DOCX file by suffix. Parsed XML takes about 50 times the memory."""
_MOST_MEMBERS = 65_535
"""Of a DOCX file; each takes memory where its pictures are read."""
_NOT_STORED = "word/media/missing"
"""Path of each picture that a DOCX file names but does not contain; it is reported as missing."""
_MOST_PAGE_BYTES = 4 << 20
"""Size of the operators of a PDF page; each takes memory and some microseconds."""
_LARGER = 1.1
"""A line of a PDF is a heading if its letters are larger than most letters by this factor."""


def read_docx(path: Path) -> Outline:
    """Return the outline of a DOCX file; pictures are the members that hold them.

    Raises:
        BadInput: It has too many members, or too large ones.
        MissingExtra: mammoth is not installed.
    """
    mammoth = extra("documents", "mammoth")
    with zipfile.ZipFile(path) as members:
        if len(members.infolist()) > _MOST_MEMBERS:
            raise BadInput(f"it has more than {_MOST_MEMBERS:,} members: save it again")
        sizes = {info.filename: info.file_size for info in members.infolist()}
        for suffix, most in _MOST_UNPACKED.items():
            size = sum(size for name, size in sizes.items() if name.endswith(suffix))
            if size > most:
                raise BadInput(
                    f"its {suffix} members unpack to {size:,} bytes: expected at "
                    f"most {most:,}; split it"
                )
        media = [info for info in members.infolist() if info.filename.startswith("word/media/")]
        names = {(info.CRC, info.file_size): info.filename for info in media}

    def source(picture: Any) -> dict[str, str]:  # noqa: ANN401 - of mammoth, which has no types
        try:
            with picture.open() as file:
                content = file.read(MAX_PICTURE_BYTES + 1)
            return {"src": names.get((zlib.crc32(content), len(content)), _NOT_STORED)}
        except (KeyError, OSError, ValueError):
            return {"src": _NOT_STORED}

    with path.open("rb") as file:
        result = mammoth.convert_to_html(file, convert_image=mammoth.images.img_element(source))
    outline = read_html(path, str(result.value))
    outline.is_archive = True
    return outline


def read_pdf(path: Path) -> Outline:
    """Return the outline of a PDF file: lines, those of larger letters as headings, and tables.

    Raises:
        BadInput: A page is too large.
        MissingExtra: pdfplumber is not installed.
    """
    pdfplumber = extra("documents", "pdfplumber")
    logging.getLogger("pdfminer").setLevel(logging.ERROR)
    with pdfplumber.open(path) as pdf:
        blocks = [block for page in pdf.pages for block in _blocks(page)]
    letters = Counter[float]()
    for size, text in blocks:
        letters[size] += len(text) if size else 0
    usual = max(letters, key=letters.__getitem__, default=0.0)
    larger = sorted((size for size in letters if size > _LARGER * usual), reverse=True)
    levels = {size: f"h{min(level, 6)}" for level, size in enumerate(larger, 1)} | {0.0: ""}
    parts = []
    for tag, group in groupby(blocks, lambda block: levels.get(block[0], "pre")):
        text = "\n".join(map(itemgetter(1), group))
        parts.append(f"<{tag}>{text}</{tag}>" if tag else text)
    html = "".join(parts).replace("\0", " ").encode(errors="replace").decode()
    return read_html(path, html)


def _blocks(page: Any) -> Iterator[tuple[float, str]]:  # noqa: ANN401 - of pdfplumber
    """Yield the lines of a page with the size of their letters, and its tables with size 0."""
    streams = (extra("documents", "pdfminer.pdftypes").resolve1(s) for s in page.page_obj.contents)
    if (size := sum(len(stream.get_data()) for stream in streams)) > _MOST_PAGE_BYTES:
        raise BadInput(
            f"page {page.page_number} unpacks to {size:,} bytes, at most {_MOST_PAGE_BYTES:,} are "
            "read: split it, or save the text by itself"
        )
    tables = [(table.bbox, table.extract()) for table in page.find_tables()]
    tables = [(box, rows) for box, rows in tables if len(rows) > 1 and len(rows[0]) > 1]
    text = page
    for box, _ in tables:
        text = text.outside_bbox(box, strict=False)
    blocks = [
        (line["top"], round(line["chars"][0]["size"], 1), escape(line["text"]))
        for line in text.extract_text_lines()
    ]
    for (_, top, _, _), rows in tables:
        cells = ("".join(f"<td>{escape(cell or '')}</td>" for cell in row) for row in rows)
        blocks.append((top, 0.0, f"<table><tr>{'<tr>'.join(cells)}</table>"))
    page.close()
    yield from ((size, text) for _, size, text in sorted(blocks))
