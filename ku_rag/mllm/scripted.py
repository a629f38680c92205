"""Models that need none: one that says what a script says, one that says what was said before."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from PIL import Image

from ku_rag.errors import BadInput, ModelFailed, NotFound
from ku_rag.mllm import schema
from ku_rag.mllm.base import MLLM, Message, Picture, Reply, Request
from ku_rag.mllm.wire import plain

Line = str | Mapping[str, Any] | Reply
"""What a script says: words, an object, or a whole reply."""

_LOOK_SIDE = 8
_SAME_LOOK = 12
"""Mean colours that differ by no more than this, of 255, are those of the same picture: other
versions of decoders and fonts give slightly other pixels."""


class ScriptedMLLM:
    """Says what a function or a list says. It is for tests, and for trying things out.

    Args:
        script: called with each request; or what is said, in order, one for each request.
        model: what replies say they come from.

    What was asked is in `requests`, in order.
    """

    def __init__(
        self, script: Callable[[Request], Line] | Iterable[Line], *, model: str = "scripted"
    ) -> None:
        self.model = model
        self.requests: list[Request] = []
        self._lock = threading.Lock()
        self._say = script if callable(script) else _one_by_one(iter(script), self._lock)

    def chat(self, request: Request) -> Reply:
        """Say the next line, or what the function says.

        Raises:
            ModelFailed: the list is at its end, or the line does not fit the request's schema.
        """
        with self._lock:
            self.requests.append(request)
        line = self._say(request)
        if isinstance(line, Reply):
            return line
        text = line if isinstance(line, str) else json.dumps(line, ensure_ascii=False)
        if request.schema is None:
            return Reply(text, model=self.model)
        found, wrong = schema.extract(text, request.schema)
        if found is None:
            raise ModelFailed(f"the script's line does not fit the schema: {wrong}")
        return Reply(text, parsed=found, model=self.model)


def _one_by_one(lines: Iterator[Line], lock: threading.Lock) -> Callable[[Request], Line]:
    def say(_: Request) -> Line:
        with lock:
            line = next(lines, None)
        if line is None:
            raise ModelFailed("the script is at its end: give it a line for each request")
        return line

    return say


class RecordedMLLM:
    """Keeps what a model said in a file, and says it again for the same question.

    A recording is JSONL: each line holds the words, parameters and schema of a request, of each
    picture its size and 8 by 8 mean colours, and the reply. No address and no key is in it, since
    a request has none. Pictures are the same when their mean colours are nearly so, so a
    recording outlives the libraries that it was made with.

    Args:
        path: the file; it is made when there is a model to record.
        mllm: asked for what is not recorded yet; None replays only.

    Raises:
        NotFound: there is no recording, and no model to make one with.
        BadInput: the file is no recording.
    """

    def __init__(self, path: str | Path, mllm: MLLM | None = None) -> None:
        self._path, self._mllm = Path(path), mllm
        self._lock = threading.Lock()
        if mllm is None and not self._path.is_file():
            raise NotFound(f"{self._path} is not there: give a model to record it with")
        self._said: dict[str, list[tuple[list[_Look], Reply]]] = {}
        for asked, reply in _read(self._path):
            self._remember(asked, reply)

    def chat(self, request: Request) -> Reply:
        """Say what was said, or ask the model and keep what it says.

        Raises:
            ModelFailed: the request is not recorded, and there is no model to ask.
        """
        asked = _asked(request)
        with self._lock:
            known = self._find(asked)
        if known:
            return known
        if self._mllm is None:
            raise ModelFailed(
                f"{self._path} does not hold this request (it starts with "
                f"{request.messages[-1].text[:60]!r}): record it again with a model"
            )
        reply = replace(self._mllm.chat(request), cached=False)
        line = json.dumps({"request": asked, "reply": reply.to_dict()}, ensure_ascii=False)
        with self._lock:
            if self._find(asked) is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(line + "\n")
                self._remember(asked, reply)
        return reply

    def _remember(self, asked: Mapping[str, Any], reply: Reply) -> None:
        self._said.setdefault(_words_key(asked), []).append((_looks(asked), reply))

    def _find(self, asked: Mapping[str, Any]) -> Reply | None:
        looks = _looks(asked)
        for others, reply in self._said.get(_words_key(asked), ()):
            if all(a.near(b) for a, b in zip(looks, others, strict=True)):
                return reply
        return None


class _Look:
    """The size and the mean colours of a picture."""

    def __init__(self, size: list[int], colours: str) -> None:
        self._size, self._colours = size, bytes.fromhex(colours)

    def near(self, other: _Look) -> bool:
        alike = zip(self._colours, other._colours, strict=True)
        return self._size == other._size and all(abs(a - b) <= _SAME_LOOK for a, b in alike)


def _asked(request: Request) -> dict[str, Any]:
    return {
        "messages": [[message.role, *_parts(message)] for message in request.messages],
        "schema": request.schema,
        "temperature": request.temperature,
        "max_tokens": request.max_tokens,
        "seed": request.seed,
    }


def _parts(message: Message) -> Iterator[str | dict[str, Any]]:
    for part in message.parts:
        if isinstance(part, Picture):
            image = part.image.convert("RGB")
            small = image.resize((_LOOK_SIDE, _LOOK_SIDE), Image.Resampling.BOX)
            yield {"size": list(image.size), "colours": small.tobytes().hex()}
        else:
            yield plain(part)


def _pictures(asked: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [part for message in asked["messages"] for part in message if isinstance(part, dict)]


def _looks(asked: Mapping[str, Any]) -> list[_Look]:
    return [_Look(picture["size"], picture["colours"]) for picture in _pictures(asked)]


def _words_key(asked: Mapping[str, Any]) -> str:
    """All of a request but what its pictures look like."""
    messages = [
        [part if isinstance(part, str) else None for part in message]
        for message in asked["messages"]
    ]
    words = json.dumps({**asked, "messages": messages}, sort_keys=True)
    return hashlib.sha256(words.encode()).hexdigest()


def _read(path: Path) -> Iterator[tuple[dict[str, Any], Reply]]:
    if not path.is_file():
        return
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        if not line:
            continue
        try:
            stored = json.loads(line)
            asked, reply = stored["request"], Reply.from_dict(stored["reply"])
            _looks(asked)
        except (ValueError, KeyError, TypeError) as error:
            raise BadInput(
                f"{path}, line {number} is no recorded reply: delete the line, and record it again"
            ) from error
        yield asked, reply
