"""Test doubles for models: scripted replies, and recorded ones."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from PIL import Image

from ku_rag.errors import BadInput, ModelFailed, NotFound
from ku_rag.mllm.base import MLLM, Reply, Request
from ku_rag.mllm.structured_output import extract_object

Line = str | Mapping[str, Any] | Reply
"""A scripted reply: text, an object, or a complete `Reply`."""

Thumbnail = list[Any]
"""The width and height of a picture, and its mean colours in a grid, in hexadecimal digits."""

_GRID = 8
_MAX_DIFFERENCE = 12
"""Mean colours of the same picture differ by at most this, of 255: versions of image decoders and
fonts produce slightly different pixels."""


class ScriptedMLLM:
    """Replies from a function or a list, for tests and experiments.

    Args:
        script: a function that is called with each request; or the replies, one for each request.
        model: the model's name in the replies.
    The attribute `requests` holds the requests in order.
    """

    def __init__(
        self, script: Callable[[Request], Line] | Iterable[Line], *, model: str = "scripted"
    ) -> None:
        self.model = model
        self.requests: list[Request] = []
        self._lock = threading.Lock()
        self._script = script if callable(script) else iter(script)

    def chat(self, request: Request) -> Reply:
        """Return the next reply; `ModelFailed` after the last, or if it does not fit the schema."""
        with self._lock:
            self.requests.append(request)
            line = None if callable(self._script) else next(self._script, None)
        if callable(self._script):
            line = self._script(request)
        if line is None:
            raise ModelFailed("the script is at its end: add a reply for each request")
        if isinstance(line, Reply):
            return line
        text = line if isinstance(line, str) else json.dumps(line, ensure_ascii=False)
        if request.schema is None:
            return Reply(text, model=self.model)
        data, problem = extract_object(text, request.schema)
        if data is None:
            raise ModelFailed(f"the scripted reply cannot be used: {problem}")
        return Reply(text, parsed=data, model=self.model)


class RecordedMLLM:
    """Records the replies of a model in a file, and replays them for the same requests.

    A recording is JSONL. Each line holds the texts, parameters and schema of a request, the size
    and 8 by 8 mean colours of each picture, and the reply; it holds no address and no key.
    Pictures are equal if their mean colours are nearly equal, so a recording stays valid with
    other versions of image libraries.

    Args:
        path: the file; created if there is a model to record.
        mllm: the model for requests that are not recorded; None replays only.

    Raises:
        NotFound: there is no recording, and no model to record.
        BadInput: the file is not a recording.
    """

    def __init__(self, path: str | Path, mllm: MLLM | None = None) -> None:
        self._path, self._mllm = Path(path), mllm
        self._lock = threading.Lock()
        if mllm is None and not self._path.is_file():
            raise NotFound(f"{self._path} is not there: give a model to record it with")
        self._recorded: dict[str, list[tuple[list[Thumbnail], Reply]]] = {}
        for stored, thumbnails, reply in _read(self._path):
            self._recorded.setdefault(_key(stored), []).append((thumbnails, reply))

    def chat(self, request: Request) -> Reply:
        """Return the recorded reply, or that of the model, which is recorded."""
        stored = _to_dict(request)
        pictures = [_thumbnail(p.image) for message in request.messages for p in message.pictures]
        with self._lock:
            recorded = self._recorded.setdefault(_key(stored), [])
            for thumbnails, reply in recorded:
                if all(map(_is_similar, thumbnails, pictures)):
                    return reply
        if self._mllm is None:
            raise ModelFailed(
                f"{self._path} does not hold this request (it starts with "
                f"{request.messages[-1].text[:60]!r}): record it again with a model"
            )
        reply = replace(self._mllm.chat(request), cached=False)
        line = {"request": stored, "pictures": pictures, "reply": reply.to_dict()}
        with self._lock:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            recorded.append((pictures, reply))
        return reply


def _key(stored: Mapping[str, Any]) -> str:
    return json.dumps(stored, sort_keys=True)


def _thumbnail(image: Image.Image) -> Thumbnail:
    small = image.convert("RGB").resize((_GRID, _GRID), Image.Resampling.BOX)
    return [*image.size, small.tobytes().hex()]


def _is_similar(first: Thumbnail, other: Thumbnail) -> bool:
    pairs = zip(bytes.fromhex(first[2]), bytes.fromhex(other[2]), strict=True)
    return first[:2] == other[:2] and all(abs(a - b) <= _MAX_DIFFERENCE for a, b in pairs)


def _to_dict(request: Request) -> dict[str, Any]:
    """Return a request as JSON, with null for each picture."""
    return {
        "messages": [
            [message.role, *(p if isinstance(p, str) else None for p in message.parts)]
            for message in request.messages
        ],
        "schema": request.schema,
        "temperature": request.temperature,
        "max_tokens": request.max_tokens,
    }


def _read(path: Path) -> Iterator[tuple[dict[str, Any], list[Thumbnail], Reply]]:
    if not path.is_file():
        return
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        if not line:
            continue
        try:
            record = json.loads(line)
            pictures = [picture for picture in record["pictures"] if _is_similar(picture, picture)]
            entry = record["request"], pictures, Reply.from_dict(record["reply"])
        except (ValueError, KeyError, TypeError) as error:
            raise BadInput(
                f"{path}, line {number} is not a recorded reply: delete the line, and record it "
                "again"
            ) from error
        yield entry
