"""Pictures of the pages that chunks were read from."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path

from PIL.Image import Image

from ku_rag import arguments
from ku_rag.errors import Mismatch, NotFound
from ku_rag.ingest.preparation import split_digest
from ku_rag.ingest.readers.decoding import MAX_TEXT_BYTES
from ku_rag.ingest.readers.parser import Parsing
from ku_rag.pictures import decode
from ku_rag.settings import Settings
from ku_rag.store.connection import Connection

_DOCUMENT = "SELECT s.uri, s.hash FROM chunks c JOIN sources s ON s.row = c.source WHERE c.row = ?"


def render(
    connection: Connection, settings: Settings, chunk: int, page: int, box: Sequence[float] | None
) -> Image:
    """Return a page of the PDF file of a chunk, see `KnowledgeBase.page_image`."""
    try:
        corners = [*map(float, box or ())]
    except (TypeError, ValueError):
        corners = [-1.0]
    is_box = all(0 <= low <= high <= 1 for low, high in zip(corners, corners[2:], strict=False))
    if not is_box or len(corners) not in (0, 4):
        raise arguments.wrong(str(box), "the box", "left, top, right and bottom in shares, 0 to 1")
    uri, hashes = connection.execute(_DOCUMENT, (chunk,)).fetchone() or ("", "")
    *_, digest = split_digest(hashes)
    if not digest:
        raise NotFound(f"no PDF file has the chunk {chunk} now: ingest the file, and ask again")
    path = Path(uri if uri.lower().endswith(".pdf") else uri.rpartition("#")[0])
    arguments.regular_file(path, "the PDF file that was ingested", most=MAX_TEXT_BYTES)
    parsing = Parsing.of(settings)
    rows = [*parsing.rows("pdf_page:render_page", path, page=page, box=corners, digest=digest)]
    if not rows:
        raise Mismatch(f"{path} was changed after it was ingested: ingest it again, then ask again")
    return decode(base64.b64decode(rows[0][1]), lambda image, _: image)
