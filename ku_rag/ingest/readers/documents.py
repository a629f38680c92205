"""DOCX, PPTX, EPUB and RST files, converted to HTML. No macro is executed, no file included."""

from __future__ import annotations

import posixpath
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from defusedxml.ElementTree import fromstring

from ku_rag.errors import BadInput
from ku_rag.ingest.readers.decoding import (
    MAX_LINE,
    MAX_PICTURE_BYTES,
    clean_name,
    decode_text,
    read_text,
)
from ku_rag.ingest.readers.hypertext import read_html
from ku_rag.ingest.readers.outline import Outline
from ku_rag.plugins import extra

_MOST_UNPACKED = {".xml": 32 << 20, ".rels": 32 << 20, "html": 32 << 20, "": 1 << 30}
"""Bytes of the members of a package by suffix. Parsed XML takes about 50 times the memory."""
_MOST_MEMBERS = 65_535
"""Of a package; each takes memory where its pictures are read."""
_CONTAINER = "{urn:oasis:names:tc:opendocument:xmlns:container}"
_PACKAGE = "{http://www.idpf.org/2007/opf}"
_DUBLIN_CORE = "{http://purl.org/dc/elements/1.1/}"
_SOURCE = re.compile(
    r"""(<img\b[^>]*?\bsrc=["']|<image\b[^>]*?\bhref=["'])(?![a-z]+:)([^"']+)""", re.IGNORECASE
)
_RST_ERROR = 3
"""Level of messages of docutils about what it cannot parse; they hold its source."""
_NOT_STORED = "word/media/missing"
"""Path of each picture that a DOCX file names but does not contain; it is reported as missing."""


def read_docx(path: Path) -> Outline:
    """Return the outline of a DOCX file; pictures are the members that hold them."""
    mammoth = extra("documents", "mammoth")
    with zipfile.ZipFile(path) as members:
        _check_members(members)
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
        result = mammoth.convert_to_html(
            file,
            convert_image=mammoth.images.img_element(source),
            style_map="p.Title => title:fresh\np[style-name='Title'] => title:fresh",
        )
    outline = read_html(path, str(result.value))
    outline.is_archive, outline.is_document = True, bool(outline.title)
    return outline


def read_pptx(path: Path) -> Outline:
    """Return the outline of a PPTX file: each slide is a section, its notes follow its text."""
    pptx = extra("documents", "pptx")
    with zipfile.ZipFile(path) as members:
        _check_members(members)
    pictures = Outline(path)
    parts = list[str]()
    presentation = pptx.Presentation(str(path))
    deck_title = presentation.core_properties.title  # often that of the program or of a template
    for number, slide in enumerate(presentation.slides, 1):
        title = slide.shapes.title
        name = title.text_frame.text.strip() if title is not None else ""
        parts.append(f"<h2>{escape(name or f'Slide {number}')}</h2>")
        if number == 1 and name and _placeholder(title) == "CENTER_TITLE":
            deck_title = name
        for shape in _shapes(slide.shapes):
            if shape.has_text_frame and shape.shape_id != getattr(title, "shape_id", None):
                texts = (paragraph.text for paragraph in shape.text_frame.paragraphs)
                parts += [f"<p>{escape(text)}</p>" for text in texts if text.strip()]
            elif getattr(shape, "has_table", False):
                rows = (
                    "".join(f"<td>{escape(c.text)}</td>" for c in r.cells) for r in shape.table.rows
                )
                parts.append(f"<table><tr>{'<tr>'.join(rows)}</table>")
            elif isinstance(shape, extra("documents", "pptx.shapes.picture").Picture):
                with suppress(KeyError, ValueError):  # it is linked
                    name = f"slide-{number}-{shape.shape_id}"
                    if address := pictures.embed(name, shape.image.blob):
                        parts.append(f'<img src="{address}">')
        if slide.has_notes_slide and (notes := slide.notes_slide.notes_text_frame):
            parts.append(f"<p>{escape(notes.text)}</p>")
    outline = read_html(path, "".join(parts))
    outline.title, outline.is_document = clean_name(deck_title), True
    outline.embedded, outline.quarantined = pictures.embedded, pictures.quarantined
    return outline


def _shapes(shapes: Any) -> Iterator[Any]:  # noqa: ANN401 - of python-pptx, which has no types
    """Yield the shapes of a slide, and those of its groups, without footers."""
    for shape in shapes:
        if hasattr(shape, "shapes"):
            yield from _shapes(shape.shapes)
        elif _placeholder(shape) not in ("DATE", "FOOTER", "SLIDE_NUMBER"):
            yield shape


def _placeholder(shape: Any) -> str:  # noqa: ANN401 - of python-pptx
    """Return the kind of a placeholder, or ""."""
    return str(shape.placeholder_format.type.name) if shape.is_placeholder else ""


def read_epub(path: Path) -> Outline:
    """Return the outline of an EPUB file: the documents of its spine, in order."""
    with zipfile.ZipFile(path) as members:
        _check_members(members)
        container = fromstring(members.read("META-INF/container.xml"))
        (package, *_) = (e.get("full-path") for e in container.iter(f"{_CONTAINER}rootfile"))
        root = fromstring(members.read(package))
        titles = [element.text or "" for element in root.iter(f"{_DUBLIN_CORE}title")]
        files = {item.get("id"): item.get("href", "") for item in root.iter(f"{_PACKAGE}item")}
        parts, left_out = list[str](), list[str]()
        for reference in root.iter(f"{_PACKAGE}itemref"):
            address = unquote(files[reference.get("idref")])
            file = posixpath.normpath(posixpath.join(posixpath.dirname(package), address))
            try:
                html = decode_text(members.read(file))
            except (BadInput, KeyError) as error:
                left_out.append(f"the chapter {file!r} is left out: {error}")
                continue
            parts.append(_with_member_paths(html, posixpath.dirname(file)))
    outline = read_html(path, "\n".join(parts))
    outline.title = clean_name(next(iter(titles), ""))
    outline.is_document = outline.is_archive = True
    for reason in left_out:
        outline.quarantine(0, reason)
    return outline


def _with_member_paths(html: str, folder: str) -> str:
    """Return a document of a package with paths of pictures from its root."""

    def from_root(source: re.Match[str]) -> str:
        return source[1] + posixpath.normpath(posixpath.join(folder, unquote(source[2])))

    return _SOURCE.sub(from_root, html)


def read_rst(path: Path) -> Outline:
    """Return the outline of an RST file; nothing that it includes is read."""
    core, nodes = (extra("documents", f"docutils.{name}") for name in ("core", "nodes"))
    settings = {
        "file_insertion_enabled": False,
        "raw_enabled": False,
        "report_level": _RST_ERROR,
        "halt_level": 5,
        "warning_stream": False,
        "line_length_limit": MAX_LINE,
        "docinfo_xform": False,
        "doctitle_xform": False,
        "stylesheet_path": "",
        "syntax_highlight": "none",
        "_disable_config": True,
    }
    document = core.publish_doctree(read_text(path), settings_overrides=settings)
    for message in list(document.findall(nodes.system_message)):
        source = message.findall(nodes.literal_block) if message["level"] >= _RST_ERROR else ()
        message.parent.replace(message, [nodes.paragraph(text=block.astext()) for block in source])
    for fields in list(document.findall(nodes.field_list)):
        for name, body in fields:
            if (first := body.next_node(nodes.paragraph)) is not None:
                first.insert(0, nodes.Text(f"{name.astext()}: "))
        fields.replace_self([block for _, body in fields for block in body])
    html = core.publish_from_doctree(document, writer="html5", settings_overrides=settings)
    outline = read_html(path, html.decode())
    outline.title = ""
    return outline


def _check_members(members: zipfile.ZipFile) -> None:
    """Check the number and the sizes of the members of a package."""
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
