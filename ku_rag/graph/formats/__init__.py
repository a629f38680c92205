"""The formats that a graph comes in and goes out as: JSON lines, GraphML, folders of workbooks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ku_rag.arguments import check_callable, regular_file
from ku_rag.errors import BadInput, NotFound
from ku_rag.graph.formats import graphml, jsonl, workbook
from ku_rag.graph.graph_records import Part

_MOST_BYTES = 1 << 40

EXPECTED = ".jsonl, .graphml or a folder of sub-graphs with Node.xlsx and Relations.xlsx"


def read(path: Path, progress: Callable[[int], None] | None = None) -> list[Part]:
    """Read a graph, whatever its format.

    Args:
        path: a file, or the folder of workbooks.
        progress: called with the number of entities and relations read so far, now and then.

    Raises:
        NotFound: it is not there.
        BadInput: nobody reads that kind of file, it is damaged, or there is nothing in it.
        MissingExtra: it holds workbooks, and openpyxl is not installed.
    """
    check_callable(progress, "progress")
    try:
        path = path.resolve(strict=True)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFound(f"{path} is not there: expected {EXPECTED}") from error
    except (OSError, RuntimeError) as error:  # the last: of a link that leads to itself
        reason = getattr(error, "strerror", None) or error
        raise BadInput(f"{path} cannot be read ({reason}): expected {EXPECTED}") from error
    try:
        if path.is_dir():
            parts = workbook.read(path, progress)
        elif regular_file(path, EXPECTED, most=_MOST_BYTES).suffix.lower() in jsonl.SUFFIXES:
            parts = jsonl.read(path, progress)
        elif path.suffix.lower() in graphml.SUFFIXES:
            parts = graphml.read(path, progress)
        else:
            raise BadInput(f"{path.name} is read by nobody: expected {EXPECTED}")
    except OSError as error:
        raise BadInput(f"{path.name} cannot be read ({error.strerror}): check it") from error
    if not any(part.entities or part.statements or part.problems for part in parts):
        raise BadInput(f"{path} holds neither an entity nor a relation: expected some")
    return parts


def ranges(path: Path, parts: Sequence[Part]) -> list[tuple[str, str]]:
    """Where the uris lie of what was read from a graph, now or earlier: (from, up to).

    Args:
        path: as it was read.
        parts: what was read.
    """
    if path.is_dir():
        root = path.resolve().as_posix().rstrip("/")
        return [(f"{root}/", f"{root}0")]
    return [(f"{part.uri}#", f"{part.uri}$") for part in parts]


def is_own(uri: str, path: Path) -> bool:
    """Whether a uri in these ranges is one of the graph: a folder may hold other things."""
    file = Path(uri.partition("#")[0]).name
    return not path.is_dir() or file in (workbook.NODES, workbook.RELATIONS)
