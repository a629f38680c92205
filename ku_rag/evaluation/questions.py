"""Questions with gold answers, and the datasets that hold them.

The fields of a question are the project's own format (DESIGN, section 7). Others are converted to
it.
"""

from __future__ import annotations

import json
import os.path
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ku_rag import arguments
from ku_rag.errors import BadInput
from ku_rag.types import Quarantined, Serializable

_KNOWN = frozenset(
    {"id", "question", "image", "picture_ids", "frames", "answers", "units", "routes", "group"}
)
_SUFFIXES = ("", ".jpg", ".JPEG", ".jpeg", ".png")
"""Suffixes of pictures that are named by an id."""


@dataclass(frozen=True, slots=True)
class EvaluationQuestion(Serializable):
    """A question with its gold answers, units and routes.

    Args:
        answers: Gold answers. Most measures accept each of them; those for lists compare all.
        routes: Gold routes through a graph, names of entities from the topic on.
        group: Its split or type, such as "unseen entity" or "bridge"; figures are also given for
            each group. "" for none.
        fields: Further fields that measures or methods need, under the names of the dataset.
    """

    id: str
    question: str
    image: Path | None = None
    answers: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    routes: tuple[tuple[str, ...], ...] = ()
    group: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Dataset(Serializable):
    """The questions of a dataset."""

    name: str
    questions: tuple[EvaluationQuestion, ...]
    measures: tuple[str, ...]
    left_out: tuple[Quarantined, ...] = ()
    note: str = ""


def read_question(data: Mapping[str, Any], number: int, pictures: Path) -> EvaluationQuestion:
    """Return the question of a record.

    An empty list of answers says that no answer is right: "". The picture is "image", a path below
    the folder, or the first of "picture_ids" that exists there with a suffix of pictures. If it is
    a folder, it holds the frames of a video. `number`, from 1, is the default id.
    """
    if "answer" in data and "answers" not in data:
        raise BadInput('"answer" is not a field: expected "answers", a list of texts')
    [question] = _texts(data, "question", single=True, least=1)
    answers = _texts(data, "answers")
    image = _find_picture(data, pictures)
    frames = sorted(image.iterdir()) if image and os.path.isdir(image) else []
    kept = {key: data[key] for key in data if key not in _KNOWN and data[key] is not None}
    return EvaluationQuestion(
        id="".join(_texts(data, "id", single=True)) or str(number),
        question=arguments.text(question, '"question"'),
        image=frames[0] if frames else image,
        answers=answers or ("",) * (data.get("answers") is not None),
        units=tuple(dict.fromkeys(_texts(data, "units"))),
        routes=tuple(_texts({"routes": route}, "routes") for route in data.get("routes") or ()),
        group="".join(_texts(data, "group", single=True)),
        fields=kept | ({"frames": [path.as_posix() for path in frames]} if frames else {}),
    )


def _find_picture(data: Mapping[str, Any], folder: Path) -> Path | None:
    """Return the path of a picture; the file may be missing."""
    image = _texts(data, "image", single=True)
    names, suffixes = image or _texts(data, "picture_ids"), ("",) if image else _SUFFIXES
    tried = [_below(folder, name + suffix) for name in names for suffix in suffixes]
    return Path(next(filter(os.path.exists, tried), tried[0])) if tried else None


def _below(folder: Path, name: str) -> str:
    """Return a path below a folder. Links are not followed, as in folders of linked pictures."""
    path = os.path.normpath(name)
    if "://" in name or os.path.isabs(path) or path.split(os.sep, 1)[0] == "..":
        raise BadInput(f"{name[:80]!r} is not a relative path of a picture below {folder}")
    return f"{folder}/{path}"


def _texts(
    data: Mapping[str, Any], key: str, *, single: bool = False, least: int = 0
) -> tuple[str, ...]:
    """Return the texts and numbers of a list, or a single one, as texts without blank ones."""
    value = data.get(key)
    values = [] if value is None else [value] if single else value
    fits = isinstance(values, list | tuple) and {*map(type, values)} <= {str, int, float}
    texts = tuple(filter(None, (str(item).strip() for item in (values if fits else ()))))
    if not fits or len(texts) < least:
        seen = json.dumps(value, ensure_ascii=False)[:60] if key in data else "missing"
        expected = "a text" if single else "a list of texts"
        raise BadInput(f'"{key}" is {seen}: expected {expected}')
    return texts
