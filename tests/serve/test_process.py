"""A real process: start, other processes beside it, hostile requests, and the end."""

from __future__ import annotations

import base64
import io
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from PIL import Image

from ku_rag import KnowledgeBase


def ku(folder: Path | None, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "ku_rag", *arguments, *(["--kb", str(folder)] if folder else [])]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def send(port: int, request: bytes, *, wait: float = 60) -> tuple[int, bytes]:
    """The status and the body of the response to raw bytes; (0, b"") if there is none in time."""
    received, length = b"", None
    with socket.create_connection(("127.0.0.1", port), timeout=wait) as connection:
        with suppress(OSError):
            connection.sendall(request)
        with suppress(OSError):
            while (length is None or len(received) < length) and (
                block := connection.recv(1 << 16)
            ):
                received += block
                head, end, _ = received.partition(b"\r\n\r\n")
                if end and (match := re.search(rb"(?i)content-length: (\d+)", head)):
                    length = len(head) + 4 + int(match[1])
    head, _, body = received.partition(b"\r\n\r\n")
    return (int(head.split()[1]), body) if head.startswith(b"HTTP/1.1 ") else (0, b"")


def request(method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
    sent = {"Host": "localhost", "Content-Length": str(len(body)), "Connection": "close"}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in sent.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def post(path: str, value: object, **headers: str) -> bytes:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return request("POST", path, body, **{"Content_Type": "application/json"} | headers)


def start(
    folder: Path | None, *options: str, **environment: str
) -> tuple[subprocess.Popen[bytes], int]:
    port = free_port()
    server = subprocess.Popen(
        ku(folder, "serve", "--port", str(port), *options),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=os.environ | {"KU_LOCK_WAIT_S": "30"} | environment,
    )
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and server.poll() is None:
        try:
            if send(port, request("GET", "/readyz"))[0] in (200, 401):
                return server, port
        except OSError:
            time.sleep(0.05)
    server.kill()
    raise AssertionError(server.communicate()[1].decode())


@pytest.fixture(scope="module")
def folder(fruit_template, tmp_path_factory):
    """A base of fruits for the server."""
    folder = tmp_path_factory.mktemp("served") / "kb"
    return shutil.copytree(fruit_template / "kb", folder)


@pytest.fixture(scope="module")
def port(folder):
    """The port of a server that ends without an error."""
    server, port = start(folder)
    yield port
    server.send_signal(signal.SIGTERM)
    _, output = server.communicate(timeout=30)
    assert server.returncode in (0, -signal.SIGTERM)
    assert b"Traceback" not in output


def test_a_shell_and_the_server_take_turns(port, folder):
    shells = [
        subprocess.Popen(ku(folder, "add", "--name", "Chair", "--id", f"chair {number}"))
        for number in range(3)
    ]
    for number in range(10):
        assert send(port, post("/v1/units", {"id": f"lamp {number}", "name": "Lamp"}))[0] == 201
    assert [shell.wait() for shell in shells] == [0, 0, 0]
    units = json.loads(send(port, request("GET", "/v1/units?limit=1000"))[1])["items"]
    added = {f"chair {number}" for number in range(3)} | {f"lamp {number}" for number in range(10)}
    assert added <= {unit["id"] for unit in units}


def test_a_snapshot_of_a_served_base_can_be_restored(port, folder, tmp_path):
    assert subprocess.run([*ku(folder, "snapshot", "--quiet"), tmp_path / "copy"]).returncode == 0
    with KnowledgeBase.open(tmp_path / "copy", read_only=True) as restored:
        assert restored.verify().ok
        listed = json.loads(send(port, request("GET", "/v1/units"))[1])["items"]
        assert [unit.id for unit in restored.list()] == [unit["id"] for unit in listed]


@pytest.mark.slow
def test_eight_large_pictures_at_the_same_time_take_little_memory(folder):
    grey = Image.radial_gradient("L")
    colours = Image.merge("RGB", (grey, grey.rotate(90), grey.transpose(Image.Transpose.ROTATE_90)))
    file = io.BytesIO()
    colours.resize((6_300, 6_302)).save(file, "PNG", compress_level=1)
    question = post("/v1/query", {"question": "What is it?", "image": uri(file.getvalue())})
    server, port = start(folder)
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: send(port, question, wait=300), range(8)))
    status = Path(f"/proc/{server.pid}/status").read_text()
    server.terminate()
    server.communicate(timeout=30)
    assert [status for status, _ in replies] == [200] * 8
    assert int(re.search(r"VmHWM:\s+(\d+)", status)[1]) < 1_200_000  # KiB


# ---- hostile requests --------------------------------------------------------------------------


def png(width: int, height: int, data: bytes = b"") -> bytes:
    def part(kind: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content))
            + kind
            + content
            + struct.pack(">I", zlib.crc32(kind + content))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", header) + part(b"IDAT", data) + part(b"IEND", b"")


def uri(data: bytes, kind: str = "image/png") -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def form(*parts: bytes, end: bytes = b"--x--\r\n", kind: str = "multipart/form-data; boundary=x"):
    body = b"".join(b"--x\r\n" + part + b"\r\n" for part in parts) + end
    return request("POST", "/v1/query", body, Content_Type=kind)


def upload(name: str, data: bytes = b"x") -> bytes:
    head = f'Content-Disposition: form-data; name="files"; filename="{name}"\r\n\r\n'
    body = b"--x\r\n" + head.encode() + data + b"\r\n--x--\r\n"
    return request("POST", "/v1/ingest", body, Content_Type="multipart/form-data; boundary=x")


PATHS = [
    "/../../etc/passwd",
    "/%2e%2e/%2e%2e/etc/passwd",
    "/..%2f..%2fetc/passwd",
    "//etc/passwd",
    "/v1/images/../../ku.sqlite",
    "/v1/images/..%2f..%2fku.sqlite",
    "/v1/images/%00",
    "/v1/images/" + "a" * 5000,
    "/v1/images/" + "0" * 64,
    "/v1/images/ku.toml",
    "/v1/images/%2fetc%2fpasswd",
    "/v1/units/../../../etc/passwd",
    "/v1/units/%00",
    "/v1/units/..%5c..%5cku.sqlite",
    "/v1/units/%ff%fe",
    "/v1/units/%ed%a0%80",
    "/v1/units/",
    "/v1/jobs/../../etc/passwd",
    "/v1/jobs/%00",
    "/v1/graph/entities/%00",
    "/v1/graph/entities/",
    "/v1/graph/paths",
    "/v1/graph/paths?start=%00",
    "/v1/graph/paths?start=Mango&longest=99999999",
    "/v1/graph/paths?start=Mango&longest=-1",
    "/v1/graph/neighbourhood?name=Mango&hops=99",
    "/v1/graph/neighbourhood?name=Mango&most=100000000",
    "/v1/units?limit=-1",
    "/v1/units?limit=99999999999999999999",
    "/v1/units?offset=-5",
    "/v1/units?offset=1e9",
    "/v1/units?offset=1099511627777",
    "/v1/units?where=",
    "/v1/units?where=%00",
    "/v1/units?where=a%3C1" * 50,
    "/v1/units?where='; DROP TABLE units; --",
    "/v1/units?kind=%27%20OR%201=1--",
    "/v1/units?kb=../../etc",
    "/v1/units?kb=%00",
    "/v1/tables?unit=%00",
    "/v1/tables",
    "/v1/images/x?size=99999999",
    "/v1/images/x?size=-1",
    "/?" + "a=b&" * 5000,
    "/" + "a/" * 10_000,
    "/.git/config",
    "/.env",
    "/admin",
    "/server-status",
    "/docs",
    "/redoc",
    "/static/../../etc/passwd",
    "/v1/",
    "/v1",
    "/v1/query",
    "/v1/chat/completions",
    "/v1/embeddings",
    "/api/generate",
    "http://evil.example/",
    "*",
    "/v1/units/<script>",
]

PICTURES = [
    "http://127.0.0.1/",
    "http://169.254.169.254/latest/meta-data/",
    "https://evil.example/a.png",
    "http://[::1]:8321/v1/units",
    "http://localhost@evil.example/",
    "file:///etc/passwd",
    "file://localhost/etc/passwd",
    "ftp://evil.example/a",
    "gopher://127.0.0.1:6379/_FLUSHALL",
    "dict://127.0.0.1:11211/stat",
    "//evil.example/a.png",
    "\\\\evil.example\\share\\a.png",
    "/etc/passwd",
    "../../etc/passwd",
    "ku.sqlite",
    "kb/images",
    "jar:http://evil.example!/",
    "data:text/html,<script>",
    "data:image/png,abc",
    "data:image/png;base64,",
    "data:;base64,!!!!",
    "data:image/svg+xml;base64,PHN2Zy8+",
    "javascript:alert(1)",
    "php://filter/resource=/etc/passwd",
    "http://2130706433/",
    "http://0x7f000001/",
    "http://127.1/",
    "%2fetc%2fpasswd",
    "\u0000",
    "😀" * 1000,
    "data:" + "a" * 100_000,
    "data:image/png;base64," + "A" * 1_000_000,
    uri(png(60_000, 60_000)),
    uri(png(2**31 - 1, 2**31 - 1)),
    uri(png(0, 0)),
    uri(png(1, 2**30)),
    uri(png(8_000, 8_000, zlib.compress(bytes(8_000 * 24_001), 9))),
    uri(png(100, 100, b"broken")),
    uri(b"GIF89a" + b"\xff" * 100),
    uri(b"\xff\xd8\xff\xe0" + b"\0" * 100),
    uri(b"RIFF" + b"\0" * 40),
    uri(b"II*\0" + b"\xff" * 200),
    uri(b"%PDF-1.7"),
    uri(b"PK\x03\x04"),
    uri(b"BM" + b"\xff" * 60),
    uri(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n"),
    uri(b"P6 99999 99999 255\n"),
    uri(b"<svg xmlns='http://www.w3.org/2000/svg'><image href='file:///etc/passwd'/></svg>"),
]

BODIES = [
    b"",
    b"null",
    b"[]",
    b"1",
    b'"x"',
    b"{",
    b"{}",
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b"[" * 50_000 + b"]" * 50_000,
    b'{"question": NaN}',
    b'{"question": null}',
    b'{"question": 1}',
    b'{"question": "' + b"a" * 2_000_000 + b'"}',
    b'{"question": "\\ud800"}',
    b"\xff\xfe\x00",
    b'{"question": "\\u0000"}',
    b'{"question": "x", "k": 1e309}',
    b'{"question": "x", "k": -1}',
    b'{"question": "x", "k": 99999999999999999999999}',
    b'{"question": "x", "passage": "/tmp/x.png"}',
    b'{"question": "x", "report": "/tmp/x.html"}',
    b'{"question": "x", "where": "a<1"}',
    b'{"question": "x", "where": ["x"]}',
    b'{"question": "x", "where": [{"a": 1}]}',
    b'{"question": "x", "kind": ["a"]}',
    b'{"question": "x", "method": "shell"}',
    b'{"question": "x", "plan": "../../x"}',
    b'{"question": "x", "__class__": "x"}',
    b'{"question": "x", "image": {"url": "http://evil.example"}}',
    b'{"question": "x", "image": 1}',
    b'{"question": "x", "question": "y"}',
    b"9" * 100_000,
    b'"' + b"\\u0041" * 100_000 + b'"',
    b'{"question": "' + b"OR 1=1 " * 1000 + b'"}',
    b'{"question": "NEAR(\\"a\\" * ^ : (("}',
]

UNITS = [
    {},
    {"name": ""},
    {"name": None},
    {"name": 1},
    {"name": "x" * 100_000},
    {"name": "\u202ex\0"},
    {"name": "x", "images": ["/etc/passwd"]},
    {"name": "x", "images": ["../../ku.sqlite"]},
    {"name": "x", "images": "data:"},
    {"name": "x", "images": [1, None]},
    {"name": "x", "images": ["data:;base64,AAAA"] * 500},
    {"name": "x", "texts": "a"},
    {"name": "x", "texts": [1]},
    {"name": "x", "tables": [{"rows": [[{}]]}]},
    {"name": "x", "tables": "x"},
    {"name": "x", "relations": [{"relation": "r"}]},
    {"name": "x", "metadata": []},
    {"name": "x", "aliases": {}},
    {"name": "x", "match": 3},
    {"name": "x", "images": ["/v1/images/" + "0" * 64]},
    {"name": "x", "images": ["/v1/images/.."]},
]

MESSAGES = [
    {},
    {"model": "default"},
    {"model": "default", "messages": []},
    {"model": "default", "messages": [{"role": "system", "content": "x"}]},
    {"model": "default", "messages": [{"role": "user", "content": [{}]}]},
    {"model": "default", "messages": [{"role": "user", "content": 5}]},
    {"model": "../../etc", "messages": [{"role": "user", "content": "x"}]},
    {"model": "default", "messages": [{"role": "user"}] * 10_000},
]

SEARCH = b"POST /v1/search HTTP/1.1\r\nHost: localhost"
RAW = [
    b"",
    b"\r\n\r\n",
    b"GET\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 200_000 + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
    b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    SEARCH + b"\r\nContent-Length: 5\r\nTransfer-Encoding: chunked"
    b"\r\n\r\n0\r\n\r\nGET /v1/units HTTP/1.1\r\nHost: localhost\r\n\r\n",
    SEARCH + b"\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
    SEARCH + b"\r\nContent-Length: -1\r\n\r\n",
    SEARCH + b"\r\nContent-Length: 99999999999999999999\r\n\r\n",
    SEARCH + b"\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
    SEARCH + b"\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    SEARCH + b"\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffff\r\n",
    SEARCH + b"\r\nContent-Length: 1000\r\n\r\nshort",
    b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n",
    b"GET / HTTP/1.1\r\n Host: localhost\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nX\0: y\r\n\r\n",
    b"GET / HTTP/1.1\nHost: localhost\n\n",
    b"FOO / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"CONNECT evil:80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"TRACE / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    request("GET", "/ws", Upgrade="websocket", Connection="Upgrade", Sec_WebSocket_Version="13"),
    request("GET", "/healthz", Cookie="ku_key=" + ";" * 5000),
    request("GET", "/", Range="bytes=0-9" * 500),
    request("GET", "/v1/units", Host="localhost:99999999"),
    request("GET", "/", Host="[::1"),
    request("GET", "/v1/units", X_Forwarded_For="1.2.3.4", X_Forwarded_Host="evil.example"),
    request("POST", "/v1/query", b"question=x", Content_Type="application/x-www-form-urlencoded"),
    request("POST", "/v1/query", b"<x/>", Content_Type="application/xml"),
    request("POST", "/v1/query"),
    request("POST", "/v1/query", b"{}", Content_Type="application/json; charset=utf-7"),
    request(
        "POST",
        "/v1/query",
        zlib.compress(b"{}"),
        Content_Encoding="gzip",
        Content_Type="application/json",
    ),
    post("/v1/query", b"{" + b" " * (33 << 20) + b"}"),
]

FORMS = [
    form(),
    form(b"broken"),
    form(b"Content-Disposition: form-data\r\n\r\nx"),
    form(end=b""),
    form(b'Content-Disposition: form-data; name="question"\r\n\r\n' + b"a" * 2_000_000),
    form(*[b'Content-Disposition: form-data; name="where"\r\n\r\na<1'] * 2000),
    form(*[b'Content-Disposition: form-data; name="image"; filename="a"\r\n\r\nx'] * 50),
    form(b'Content-Disposition: form-data; name="image"; filename="../../x"\r\n\r\n\x89PNG'),
    form(b'Content-Disposition: form-data; name="question"; filename="q"\r\n\r\nx'),
    form(b"X: " + b"a" * 100_000 + b"\r\n\r\nx"),
    form(kind="multipart/form-data"),
    form(kind="multipart/form-data; boundary=" + "x" * 10_000),
    form(end=b"--x"),
    upload("../../etc/cron.d/x"),
    upload("/etc/passwd"),
    upload(""),
    upload("a" * 5000 + ".txt"),
    upload("x.zip", b"PK\x03\x04" + b"\0" * 100),
    upload("a.png", png(60_000, 60_000)),
    upload("b.jsonl", b'{"name": "x", "images": ["/etc/passwd", "../../ku.sqlite"]}\n'),
    upload("c.jsonl", b"[" * 200_000),
    upload("d.html", b"<a>" * 100_000),
    upload("e.pdf", b"%PDF-1"),
]

HOSTILE = [
    *(request("GET", path.replace(" ", "%20")) for path in PATHS),
    *(post("/v1/query", {"question": "What is it?", "image": image}) for image in PICTURES),
    *(post("/v1/query", body) for body in BODIES),
    *(
        request("PUT", "/v1/units/x", json.dumps(unit).encode(), Content_Type="application/json")
        for unit in UNITS
    ),
    *(post("/v1/chat/completions", messages) for messages in MESSAGES),
    *RAW,
    *FORMS,
]


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_hostile_requests_leave_it_healthy(port, number):
    is_broken = HOSTILE[number] in RAW
    status, body = send(port, HOSTILE[number], wait=0.5 if is_broken else 60)
    assert 0 < status < 500 or (is_broken and status in (0, 501))
    assert b"root:" not in body
    assert b"SQLite" not in body
    assert send(port, request("GET", "/healthz")) == (200, b'{"status":"ok"}')


def test_the_longest_names_fit_into_a_request(port):
    name = "%F0%9F%98%80" * 2000
    response = send(port, request("GET", f"/v1/graph/paths?start={name}&end={name}"))
    assert (response[0], json.loads(response[1])["code"]) == (404, "NotFound")


def test_slow_clients_hold_no_thread(port):
    slow = [socket.create_connection(("127.0.0.1", port)) for _ in range(100)]
    try:
        for number, connection in enumerate(slow):
            connection.sendall(
                b"POST /v1/query HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                b"Content-Length: 100000\r\n\r\n{"[: 20 + 2 * number]
            )
        assert send(port, post("/v1/search", {"text": "sweet"}))[0] == 200
    finally:
        for connection in slow:
            connection.close()
    assert send(port, request("GET", "/readyz"))[0] == 200


def test_bases_in_a_folder_may_have_any_name(folder, tmp_path):
    bases = tmp_path / "bases"
    for name in ("my base", "Übung", ".deleted-old"):
        shutil.copytree(folder, bases / name)
    server, port = start(None, "--bases", str(bases))
    try:
        models = json.loads(send(port, request("GET", "/v1/models"))[1])["data"]
        assert [model["id"] for model in models] == ["my base", "Übung"]
        assert send(port, request("GET", "/v1/units?kb=my%20base"))[0] == 200
        assert sorted(path.name for path in bases.iterdir() if path.is_dir()) == [
            "my base",
            "Übung",
        ]
    finally:
        server.kill()
        server.communicate()


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_requests_in_progress_do_not_delay_the_end(folder, workers, number):
    question = {"question": "Who planted it?", "method": "model-only"}
    with socket.create_server(("127.0.0.1", 0)) as silent, ThreadPoolExecutor(2) as pool:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        model = {"KU_MLLM": "openai:silent", "KU_MLLM_URL": address}
        server, port = start(folder, "--workers", workers, **model)
        replies = [pool.submit(send, port, post(path, question)) for path in ("/v1/query", "/")]
        waiting = [silent.accept()[0] for _ in replies]
        server.send_signal(number)
        _, messages = server.communicate(timeout=5)
        for connection in waiting:
            connection.close()
    assert [reply.result()[0] for reply in replies] == [503, 503]
    assert server.returncode == -number
    assert b"Traceback" not in messages


def test_a_port_in_use_is_an_error(port, folder):
    for workers in ("1", "2"):
        options = ("--kb", str(folder), "--read-only", "--port", str(port), "--workers", workers)
        command = [sys.executable, "-m", "ku_rag", "serve", *options]
        run = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert run.returncode == 1
        assert f"the server did not start at 127.0.0.1:{port}" in run.stderr
