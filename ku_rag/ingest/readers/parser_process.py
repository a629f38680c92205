"""The process that parses foreign files: `python -m ku_rag.ingest.readers.parser_process`.

It reads requests from its standard input, one JSON object a line, and writes frames to its standard
output: four bytes with the length, then a JSON value. `[number, value]` is what a reader yields,
with 0 as the number for what belongs to one document.
`{"can_continue": …, "error": …, "reason": …}` ends a file: whether another may follow, and the
reason if this one cannot be read.

Memory and processor time are limited by the system. The process ends when its standard input
closes, also while it parses.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import select
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from ku_rag.errors import BadInput, MissingExtra, NotFound, reason
from ku_rag.ingest.readers.item_codec import encode_item
from ku_rag.ingest.readers.registry import load_reader

_MOST_FILES = 2_000
_MOST_RETAINED = 0.25
"""Files that one process parses, and the share of its memory that it may retain after a file."""


def main() -> None:
    """Answer requests until there are no more; the arguments are bytes and seconds."""
    memory, seconds = int(sys.argv[1]), float(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Unlike RLIMIT_AS, this does not count files that a library maps. 0: the parent measures.
    if memory:
        most = resource.getrlimit(resource.RLIMIT_DATA)[1]
        limit = memory if most == resource.RLIM_INFINITY else min(memory, most)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, most))
    gc.set_threshold(50_000, 20, 50)  # what is parsed is kept: few collections find anything
    frames = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no frame
    threading.Thread(target=_end_with_input, daemon=True).start()
    for count, request in zip(range(1, _MOST_FILES + 1), sys.stdin.buffer, strict=False):
        answer = _answer(frames, json.loads(request), seconds)
        signal.setitimer(signal.ITIMER_PROF, 0)
        is_large = bool(memory) and _resident_bytes() > memory * _MOST_RETAINED
        _send(frames, {"can_continue": count < _MOST_FILES and not is_large, **answer})
        frames.flush()


def _resident_bytes() -> int:
    """Return the memory of this process on Linux; its ru_maxrss counts that of its parent, too."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _end_with_input() -> None:
    """End the process when the one that started it has closed its standard input, or ended."""
    closed = select.poll()
    closed.register(0, 0)  # the end of the pipe is reported in any case
    closed.poll()
    os._exit(0)


def _answer(frames: BinaryIO, request: Mapping[str, Any], seconds: float) -> dict[str, str]:
    """Send what a reader yields; return the error that ends it, or {}."""
    try:
        read = load_reader(request["reader"])
        # The signal ends the process: no library can catch it.
        signal.setitimer(signal.ITIMER_PROF, seconds)
        for number, value in read(Path(request["path"]), **request["options"]):
            _send(frames, [number, encode_item(value)])
            if number:  # of a stream: it is kept if a later record exceeds a limit
                frames.flush()
            signal.setitimer(signal.ITIMER_PROF, seconds)
    except Exception as error:  # a library may raise any error for a hostile file
        return _problem(error, request["path"])
    return {}


def _problem(error: Exception, path: str) -> dict[str, str]:
    causes: list[BaseException | None] = [error]
    while (last := causes[-1]) and last.__context__ not in causes:
        causes.append(last.__context__)  # libraries wrap errors in their own
    if any(isinstance(cause, MemoryError) for cause in causes):
        return {"error": "memory", "reason": ""}
    name, kind = Path(path).name, "extra" if isinstance(error, MissingExtra) else "input"
    if isinstance(error, OSError):
        text = f"{name} cannot be read ({error.strerror}): check it"
    elif isinstance(error, BadInput | NotFound | MissingExtra):
        text = str(error)
    else:
        seen = f"{type(error).__name__}: {reason(error)}"
        text = f"{name} cannot be parsed ({seen}): check it, or save it again"
    return {"error": kind, "reason": text}


def _send(frames: BinaryIO, value: object) -> None:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    data = text.encode("utf-8", "surrogatepass")
    frames.write(len(data).to_bytes(4))
    frames.write(data)


if __name__ == "__main__":
    main()
