"""A server that sends prepared bytes, whether or not they are valid HTTP."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

Script = bytes | Iterable[bytes]
"""Data that one connection sends: all at once, or in pieces with a pause after each."""


def response(body: Any, status: int = 200, *, length: int | None = None, **headers: str) -> bytes:
    """An HTTP response; a body that is not bytes is sent as JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} So", f"Content-Length: {len(data) if length is None else length}"]
    sent = {"Content-Type": "application/json", "Connection": "close"} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    lines += [f"{name}: {value}" for name, value in sent.items()]
    return "\r\n".join([*lines, "", ""]).encode() + data


def completion(text: Any, **choice: Any) -> bytes:
    """A response with a reply."""
    message = {"role": "assistant", "content": text}
    return response({"choices": [{"message": message, "finish_reason": "stop", **choice}]})


@dataclass
class FaultyServer:
    """Sends the scripts in order, and repeats the last one.

    Attributes:
        requests: lines of the received requests.
        over: ends scripts without end.
    """

    scripts: list[Script]
    requests: list[str] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)
    url: str = ""


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    faulty: FaultyServer

    def handle_error(self, *_: object) -> None:
        """Clients that hang up are part of the tests."""


class _Handler(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        faulty = self.server.faulty
        faulty.requests.append(self.rfile.readline().decode())
        length = 0
        while line := self.rfile.readline().strip():
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        self.rfile.read(length)
        script = faulty.scripts.pop(0) if len(faulty.scripts) > 1 else faulty.scripts[0]
        for piece in [script] if isinstance(script, bytes) else script:
            self.request.sendall(piece)
            if not isinstance(script, bytes) and faulty.over.wait(0.02):
                return


@contextmanager
def serving_faults(*scripts: Script) -> Iterator[FaultyServer]:
    """Serve the scripts on a port of this machine."""
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.faulty = FaultyServer(list(scripts))
        server.faulty.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server.faulty
        finally:
            server.faulty.over.set()
            server.shutdown()
            thread.join()
