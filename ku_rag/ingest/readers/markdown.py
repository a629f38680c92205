"""Markdown and text files: headings, tables, pictures, links and front matter."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

from markdown_it import MarkdownIt
from markdown_it.rules_block.table import escapedSplit
from markdown_it.token import Token

from ku_rag.errors import MissingExtra
from ku_rag.ingest.readers.decoding import clean_name, read_text
from ku_rag.ingest.readers.hypertext import html_tables, read_html
from ku_rag.ingest.readers.outline import Outline
from ku_rag.plugins import extra

_BLOCKS = MarkdownIt("commonmark").disable("inline").enable("table")
_INLINE = MarkdownIt("commonmark")
_LINE_END = re.compile(r"\r\n|\r|\n")
_FRONT_MATTER = re.compile(r"(---|\+\+\+)[ \t]*\r?\n((?:.*\n)*?)\1[ \t]*(?:\r?\n|\Z)")
_TITLE = re.compile(r"^title:[ \t]*[\"']?(\S.*?)[\"']?[ \t]*$", re.MULTILINE)
_LISTS = frozenset({"bullet_list_open", "ordered_list_open"})
_FEW = 3
_BULLET = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+")
_TO_SECTION = re.compile(r"\[[^\]]*\]\(#[^)]*\)")
"""A link to a section of the document: a list of these is its contents."""
_UNDERLINED = re.compile(r"(?!\|).*\w.*")
"""An underlined heading: one line with a word. CommonMark also takes paragraphs and table rows."""
_WIKI_LINK = re.compile(r"(?<!!)\[\[([^\[\]|#\n]+)[^\[\]\n]*\]\]")
_ANCHOR = re.compile(r"\s*\{#[^{}]*\}\s*$")


def read_markdown(path: Path, content: str | None = None) -> Outline:
    """Return the outline of a Markdown file, or of a .txt file, which has headings alone."""
    text = read_text(path) if content is None else content
    above, metadata = 1, dict[str, Any]()
    front = match.end() if (match := _FRONT_MATTER.match(text)) else 0
    title = _TITLE.search(text, 0, front)
    if match and match[1] == "---" and (metadata := _metadata(match[2])):
        above, text, front = above + text.count("\n", 0, front), text[front:], 0
    starts = [front, *(end.end() for end in _LINE_END.finditer(text, front)), len(text)]
    outline, covered = Outline(path, text, metadata=metadata), 0
    above += text.count("\n", 0, front)
    if title:
        outline.title = clean_name(str(metadata.get("title", title[1])))
    tokens = _BLOCKS.parse(text[front:])
    is_plain = path.suffix.lower() == ".txt"
    for opening, token in pairwise([*tokens[:1], *tokens]):
        first, end = (starts[line] for line in token.map or (0, 0))
        if not is_plain:
            outline.images += ((starts[n], above + n, address) for n, address in _images(token))
            outline.links += _links(token)
        if first < covered:  # in a table of HTML, which may hold blank lines
            continue
        is_title = opening.markup[:1] == "#" or _UNDERLINED.fullmatch(token.content)
        if opening.type == "heading_open" and opening.level == 0 and opening.map and is_title:
            first, end = (starts[line] for line in opening.map)
            outline.add_heading(int(opening.tag[1]), _name(token.content), first, end)
        if is_plain:
            continue
        if token.type == "html_block":
            covered, tables = html_tables(text, first)
            for caption, rows in tables:
                outline.add_table(first, covered, caption, rows)
        elif token.type in _LISTS and token.level == 0 and _is_contents(text[first:end]):
            outline.hidden.append((first, end))
        elif token.type == "table_open":
            outline.add_table(first, end, "", [])
        else:
            _add_cells(outline, opening, token, text[first:end])
    return outline


def _metadata(front_matter: str) -> dict[str, Any]:
    """Return the fields of YAML that are scalars or lists of these; {} if it cannot be read."""
    try:
        yaml = extra("documents", "yaml")
    except MissingExtra:
        return {}
    try:
        fields = yaml.safe_load(front_matter)
    except (yaml.YAMLError, RecursionError, ValueError):
        return {}
    metadata = dict[str, Any]()
    for field, value in fields.items() if isinstance(fields, dict) else ():
        values = value if isinstance(value, list) else [value]
        scalars = [v.isoformat() if isinstance(v, date) else v for v in values]
        if all(isinstance(scalar, str | int | float) for scalar in scalars):
            metadata[str(field)] = scalars if isinstance(value, list) else scalars[0]
    return metadata


def _links(token: Token) -> Iterator[str]:
    """Yield the addresses of the links of a block; "[[Page]]" is a link to Page.md."""
    if token.type == "inline":
        yield from (quote(f"{name.strip()}.md") for name in _WIKI_LINK.findall(token.content))
        if "](" in token.content:
            children = _INLINE.parseInline(token.content)[0].children or []
            yield from (str(link.attrs["href"]) for link in children if link.type == "link_open")


def _add_cells(outline: Outline, opening: Token, token: Token, text: str) -> None:
    if token.type == "tr_open":
        is_header = opening.type == "thead_open"
        outline.tables[-1][3].append([] if is_header else _cells(text))
    elif opening.type == "th_open":
        outline.tables[-1][3][-1].append(_name(token.content))


def _is_contents(text: str) -> bool:
    """Return whether a list has links to sections alone."""
    items = [_BULLET.sub("", line).strip() for line in text.splitlines() if line.strip()]
    return len(items) >= _FEW and all(map(_TO_SECTION.fullmatch, items))


def _cells(row: str) -> list[str]:
    """Return the cells of a row below a header; the tokens leave out those beyond the header."""
    cells = escapedSplit(row.strip().lstrip("> \t"))
    return [_name(cell) for cell in cells[not cells[0] : len(cells) - (not cells[-1])]]


def _name(heading: str) -> str:
    """Return the name in a heading without links, emphasis, code marks, HTML and anchors."""
    (inline,) = _INLINE.parseInline(heading)
    words = (
        " " if "break" in token.type else token.content
        for token in inline.children or ()
        if token.type != "html_inline"
    )
    return clean_name(_ANCHOR.sub("", "".join(words)))


def _images(token: Token) -> Iterator[tuple[int, str]]:
    """Yield the line and the address of each picture of a block."""
    if not token.map or not re.search("!\\[|<img", token.content, re.IGNORECASE):
        return
    line = token.map[0]
    children = [token] if token.type == "html_block" else []
    if token.type == "inline":
        children = _INLINE.parseInline(token.content)[0].children or []
    for child in children:
        if child.type == "image":
            yield line, str(child.attrs["src"])
        elif child.type.startswith("html_"):
            for _, number, address in read_html(Path(), child.content).images:
                yield line + number - 1, address
        line += child.type in ("softbreak", "hardbreak")
