"""A web server on this machine with the chat-completions interface, correct or faulty."""

from __future__ import annotations

import base64
import io
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from PIL import Image

from ku_rag.mllm.cache import ReplyCache
from ku_rag.mllm.client import EndpointMLLM
from ku_rag.settings import Settings


def model_at(url: str, model: str = "m-1", **options: Any) -> EndpointMLLM:
    """The client of an endpoint; options are settings without "mllm_", `wait`, and `is_cached`."""
    own = {"wait": options.pop("wait")} if "wait" in options else {}
    own |= {"cache": ReplyCache()} if options.pop("is_cached", False) else {}
    settings = {f"mllm_{name}": value for name, value in options.items()}
    return EndpointMLLM(Settings(mllm=model, mllm_url=url, **settings), **own)


@dataclass
class Said:
    """One response.

    `body` is JSON-ready or bytes. With `cut`, the server sends that many bytes of it and hangs up.
    `gate` is called before anything is sent. With `drip`, one byte is sent at a time until nobody
    listens or the event is set.
    """

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None
    gate: Callable[[], object] | None = None
    drip: threading.Event | None = None


def says(text: Any, *, finish: str | None = "stop", usage: bool = True, **more: Any) -> Said:
    """A completion with one choice."""
    body: dict[str, Any] = {
        "id": "c-1",
        "object": "chat.completion",
        "created": 1,
        "model": "another-name",
        "choices": [
            {
                "index": 0,
                "finish_reason": finish,
                "message": {"role": "assistant", "content": text, **more},
            }
        ],
    }
    if usage:
        body["usage"] = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
    return Said(body)


def fails(status: int, message: str, headers: dict[str, str] | None = None, **more: Any) -> Said:
    """An error in OpenAI's format."""
    return Said({"error": {"message": message, **more}}, status, headers or {})


@dataclass
class Endpoint:
    """The responses, in order or by a function of the request's body, and the recorded requests.

    `listed` is the response to GET, the list of models.
    """

    says: list[Said] | Callable[[dict[str, Any]], Said] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    url: str = ""
    listed: Any = None

    def pictures(self, at: int) -> list[Image.Image]:
        """The pictures in a request, decoded."""
        images = []
        for message in self.bodies[at]["messages"]:
            if isinstance(message["content"], list):
                for part in message["content"]:
                    if part["type"] == "image_url":
                        data = base64.b64decode(part["image_url"]["url"].partition(",")[2])
                        images.append(Image.open(io.BytesIO(data)))
        return images

    def texts(self, at: int) -> list[str]:
        """The texts of each message of a request."""
        texts = []
        for message in self.bodies[at]["messages"]:
            content = message["content"]
            parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
            texts.append("\n".join(part["text"] for part in parts if part["type"] == "text"))
        return texts


class _Server(ThreadingHTTPServer):
    endpoint: Endpoint
    daemon_threads = True
    lock = threading.Lock()

    def handle_error(self, *_: object) -> None:
        """Clients that hang up are part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        listed = self.server.endpoint.listed
        self.respond(Said(listed) if listed else fails(404, "nothing is listed"))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        endpoint = self.server.endpoint
        with self.server.lock:
            endpoint.bodies.append(body)
            endpoint.headers.append({k.lower(): v for k, v in self.headers.items()})
            endpoint.paths.append(self.path)
            response = endpoint.says(body) if callable(endpoint.says) else endpoint.says.pop(0)
        self.respond(response)

    def respond(self, response: Said) -> None:
        if response.gate:
            response.gate()
        body = response.body
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(response.status)
        for name, value in {"Content-Type": "application/json", **response.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data) + (1 << 20 if response.drip else 0)))
        self.end_headers()
        if response.drip:
            while not response.drip.wait(0.02):
                self.wfile.write(b" ")
        self.wfile.write(data[: response.cut])
        if response.cut is not None:
            self.close_connection = True


@contextmanager
def serving(
    *answers: Said, by: Callable[[dict[str, Any]], Said] | None = None
) -> Iterator[Endpoint]:
    """Serve these responses, one for each request, or those of a function."""
    endpoint = Endpoint(by or list(answers))
    server = _Server(("127.0.0.1", 0), _Handler)
    server.endpoint = endpoint
    endpoint.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield endpoint
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
