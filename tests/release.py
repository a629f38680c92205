"""A web server on this machine that serves files as GitHub and the Hugging Face Hub do."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Release:
    """The served files, the faults of the server, and the recorded requests.

    `cuts` are the numbers of bytes that the next responses send before they hang up. With `commit`,
    the server acts as the Hub. `moved` redirects requests for a path to another address.
    """

    files: dict[str, bytes]
    commit: str = ""
    ranges: bool = True
    chunked: bool = False
    cuts: list[int] = field(default_factory=list)
    moved: dict[str, str] = field(default_factory=dict)
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    url: str = ""


class _Server(ThreadingHTTPServer):
    release: Release


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        start, body = self._answer()
        release = self.server.release
        cut = release.cuts.pop(0) if release.cuts and body else None
        if release.chunked and body:
            self.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
        else:
            self.wfile.write(body[start:][:cut])

    def _answer(self) -> tuple[int, bytes]:
        """Send the head; return the start of the body, and the body."""
        release, path = self.server.release, self.path.partition("?")[0]
        release.requests.append((self.command, path, dict(self.headers)))
        body = release.files.get(path)
        if path in release.moved:
            return self._head(302, Location=release.moved[path])
        if body is None:
            return self._head(404)
        byte_range = self.headers.get("Range", "bytes=0-") if release.ranges else "bytes=0-"
        start = int(byte_range.removeprefix("bytes=").partition("-")[0])
        if start > len(body):
            return self._head(416)
        headers = {"ETag": f'"{_etag(body)}"'}
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(body) - 1}/{len(body)}"
        if release.commit:
            headers |= {"X-Repo-Commit": release.commit, "X-Linked-Size": str(len(body))}
            headers["X-Linked-Etag"] = headers["ETag"]
        self._head(206 if start else 200, size=len(body) - start, **headers)
        return start, body

    def _head(self, code: int, size: int = 0, **headers: str) -> tuple[int, bytes]:
        self.send_response(code)
        self.send_header("Connection", "close")
        if self.server.release.chunked and size:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(size))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        return 0, b""


def _etag(body: bytes) -> str:
    """The tag of a file on the Hub: its sha256 above 10 MB, its git hash below."""
    if len(body) > 10_000_000:
        return hashlib.sha256(body).hexdigest()
    return hashlib.sha1(b"blob %d\0%s" % (len(body), body)).hexdigest()


@contextmanager
def serving(release: Release) -> Iterator[Release]:
    """Serve until the block ends."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.release = release
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    release.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield release
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
