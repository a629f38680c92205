"""The elements of a GraphML file, one at a time, as JSON values."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, ParseError

from defusedxml import DTDForbidden
from defusedxml.ElementTree import iterparse

from ku_rag.errors import BadInput

_LABELS = frozenset({"NodeLabel", "EdgeLabel"})


def read_elements(path: Path) -> Iterator[tuple[int, list[Any]]]:
    """Yield the elements of a graph in order.

    They are ["key", id, name, domain, default or None], ["node", id, data], ["edge", id of source,
    id of target, whether it is directed, data] and ["hyperedge"]; data are [id of the key, or None
    for a label of yEd, text].
    """
    number, directed, inside = 0, [True], list[Element]()
    try:
        with path.open("rb") as file:
            for event, element in iterparse(file, events=("start", "end"), forbid_dtd=True):
                tag = _tag(element)
                if event == "start":
                    inside.append(element)
                    if tag == "graph":
                        directed.append(element.get("edgedefault") != "undirected")
                    continue
                inside.pop()
                if tag == "graph":
                    directed.pop()
                elif tag in ("key", "node", "edge", "hyperedge"):
                    number += 1
                    yield number, _fields(element, tag, directed=directed[-1])
                    element.clear()
                    if inside:
                        inside[-1].remove(element)
    except DTDForbidden as error:
        raise BadInput(
            f"{path.name} has a document type ({error.name}), whose entities are not read: remove "
            "<!DOCTYPE …>"
        ) from error
    except (ParseError, ValueError, LookupError) as error:  # the last two: of its encoding
        raise BadInput(
            f"{path.name} is no XML ({error}): repair it, or write it again as UTF-8"
        ) from error


def _fields(element: Element, tag: str, *, directed: bool) -> list[Any]:
    if tag == "key":
        key_id = element.get("id", "")
        name = element.get("attr.name") or element.get("yfiles.type") or key_id
        default = next((child.text for child in element if _tag(child) == "default"), None)
        return [tag, key_id, name.strip(), element.get("for", "all"), default]
    if tag == "hyperedge":
        return [tag]
    data = list[list[str | None]]()
    for child in element:
        if _tag(child) == "data":
            data.append([child.get("key", ""), child.text or ""])
            data += [[None, label.text or ""] for label in child.iter() if _tag(label) in _LABELS]
    if tag == "node":
        return [tag, element.get("id", ""), data]
    is_directed = element.get("directed", str(directed)).strip().casefold() in ("true", "1")
    return [tag, element.get("source", ""), element.get("target", ""), is_directed, data]


def _tag(element: Element) -> str:
    return element.tag.rpartition("}")[2]
