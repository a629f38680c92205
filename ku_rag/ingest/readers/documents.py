"""HTML, DOCX and PDF files. Nothing is fetched, and no script or macro is executed."""

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

from ku_rag.arguments import regular_file
from ku_rag.errors import BadInput, MissingExtra
from ku_rag.ingest.readers.decoding import MAX_PICTURE_BYTES, MAX_TEXT_BYTES, read_text
from ku_rag.ingest.readers.hypertext import read_html
from ku_rag.ingest.readers.item_codec import Item
from ku_rag.ingest.readers.markdown import read_markdown
from ku_rag.ingest.readers.outline import TEXT_SUFFIXES, Outline
from ku_rag.plugins import extra
from ku_rag.types import Record

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


def read_units(path: Path, *, whole: bool) -> Iterator[tuple[int, Item]]:
    """Read a text or document as units, or as one source without a unit.

    Args:
        path: Resolved.
        whole: Whether all of it is one source; else its headings name units.

    Yields:
        0 and an item.

    Raises:
        BadInput: See `read_document` and `read_markdown`.
    """
    is_text = path.suffix.lower() in TEXT_SUFFIXES
    outline = read_markdown(path) if is_text else read_document(path)
    if whole:
        yield 0, Record(None, (outline.source(path.as_posix(), 0, len(outline.text)),))
        yield from ((0, item) for item in outline.quarantined)
    else:
        yield from ((0, item) for item in outline.units())


def read_document(path: Path) -> Outline:
    """Read an HTML, DOCX or PDF file by its resolved path.

    Raises:
        BadInput: The file is encrypted, damaged, too large, or holds no text; or the library for
            that kind of file is not installed.
    """
    convert = {".docx": _docx_html, ".pdf": _pdf_html}.get(path.suffix.lower(), read_text)
    try:
        html = convert(regular_file(path, "a document", most=MAX_TEXT_BYTES))
    except MissingExtra as error:
        raise BadInput(str(error)) from error
    except (BadInput, MemoryError):
        raise
    except Exception as error:  # the libraries raise errors of many kinds for such files
        reason = " ".join(str(error).split())[:200] or type(error.__context__ or error).__name__
        raise BadInput(
            f"the document is damaged or encrypted ({reason}): save it again, without a password"
        ) from error
    outline = read_html(path, html)
    if not (outline.text.strip() or outline.shown or outline.tables):
        reason = "the document holds no text: if it is a scan, recognise its text first"
        raise BadInput(next((one.reason for one in outline.quarantined), reason))
    return outline


def _docx_html(path: Path) -> str:
    """Return a DOCX file as HTML; pictures have the names of the members that hold them."""
    mammoth = extra("documents", "mammoth")
    with zipfile.ZipFile(path) as members:
        if len(members.infolist()) > _MOST_MEMBERS:
            raise BadInput(f"it has more than {_MOST_MEMBERS:,} members: save it again")
        sizes = {one.filename: one.file_size for one in members.infolist()}
        for suffix, most in _MOST_UNPACKED.items():
            size = sum(size for name, size in sizes.items() if name.endswith(suffix))
            if size > most:
                raise BadInput(
                    f"its {suffix} members unpack to {size:,} bytes: expected at "
                    f"most {most:,}; split it"
                )
        media = [one for one in members.infolist() if one.filename.startswith("word/media/")]
        names = {(one.CRC, one.file_size): one.filename for one in media}

    def source(picture: Any) -> dict[str, str]:  # noqa: ANN401 - of mammoth, which has no types
        try:
            with picture.open() as file:
                content = file.read(MAX_PICTURE_BYTES + 1)
            return {"src": names.get((zlib.crc32(content), len(content)), _NOT_STORED)}
        except (KeyError, OSError, ValueError):
            return {"src": _NOT_STORED}

    with path.open("rb") as file:
        made = mammoth.convert_to_html(file, convert_image=mammoth.images.img_element(source))
    return str(made.value)


def _pdf_html(path: Path) -> str:
    """Return a PDF file as HTML: lines, those of larger letters as headings, and ruled tables."""
    pdfplumber = extra("documents", "pdfplumber")
    logging.getLogger("pdfminer").setLevel(logging.ERROR)
    with pdfplumber.open(path) as pdf:
        blocks = [block for page in pdf.pages for block in _pdf_blocks(page)]
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
    return "".join(parts).replace("\0", " ").encode(errors="replace").decode()


def _pdf_blocks(page: Any) -> Iterator[tuple[float, str]]:  # noqa: ANN401 - of pdfplumber
    """Yield the lines of a page with the size of their letters, and its tables with size 0."""
    streams = (extra("documents", "pdfminer.pdftypes").resolve1(s) for s in page.page_obj.contents)
    if (size := sum(len(stream.get_data()) for stream in streams)) > _MOST_PAGE_BYTES:
        raise BadInput(
            f"page {page.page_number} unpacks to {size:,} bytes, at most {_MOST_PAGE_BYTES:,} are "
            "read: split it, or save the text by itself"
        )
    tables = [(found.bbox, found.extract()) for found in page.find_tables()]
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
