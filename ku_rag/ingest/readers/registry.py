"""The readers of files by suffix. A new format is a module of this folder and a line below."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Literal, NamedTuple


class Reader(NamedTuple):
    """A function that reads a file; its module is imported when there is such a file.

    Args:
        function: "module:function" in this folder. It takes a resolved path; paths of pictures in
            records are relative to the folder of the file.
        returns: What it returns. "outline": for a path an `Outline`. "records": for a path and a
            number of records to skip, pairs of the number of a record, from 1, and an item. Both
            run in a parser process. "items": for a path and a `Parsing`, items; it runs in this
            process.
    """

    function: str
    returns: Literal["outline", "records", "items"] = "outline"


READERS: Mapping[str, Reader] = {
    ".txt": Reader("markdown:read_markdown"),
    ".md": Reader("markdown:read_markdown"),
    ".html": Reader("hypertext:read_html"),
    ".docx": Reader("documents:read_docx"),
    ".pptx": Reader("documents:read_pptx"),
    ".epub": Reader("documents:read_epub"),
    ".rst": Reader("documents:read_rst"),
    ".pdf": Reader("pdf:read_pdf"),
    ".jsonl": Reader("jsonl:read_jsonl", "items"),
    ".parquet": Reader("parquet_records:read_parquet", "records"),
    ".zip": Reader("archive:read_zip", "items"),
    ".tar": Reader("webdataset:read_webdataset", "records"),
    ".csv": Reader("table:read_table", "records"),
    ".tsv": Reader("table:read_table", "records"),
    ".markdown": Reader("markdown:read_markdown"),
    ".htm": Reader("hypertext:read_html"),
    ".xhtml": Reader("hypertext:read_html"),
    ".ndjson": Reader("jsonl:read_jsonl", "items"),
}
"""By suffix in lower case, in the order of messages."""

GRAPH_READERS: Mapping[str, str] = {
    ".jsonl": "graph_records:read_graph_jsonl",
    ".ndjson": "graph_records:read_graph_jsonl",
    ".graphml": "graphml:read_graphml",
    "folder": "workbook:read_workbooks",
}
"""Functions of a path and a `Parsing`, which return the parts of a graph."""


def load_reader(function: str) -> Callable[..., Any]:
    """Import the function that "module:function" in this folder names."""
    module, _, name = function.partition(":")
    reader: Callable[..., Any] = getattr(import_module(f"{__package__}.{module}"), name)
    return reader
