"""DOCX files, converted to HTML. No macro is executed."""

from __future__ import annotations

import zipfile
import zlib
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
