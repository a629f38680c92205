"""`ku serve --workers 2`: one process writes and two read."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import pytest

from tests.conftest import picture
from tests.serve.conftest import data_uri
from tests.serve.test_process import HOSTILE, RAW, request, send, start

pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs Unix-domain sockets")
UNIT = {"name": "Long Pier", "texts": ["The Long Pier was built in 1901."]}


@contextmanager
def serving(folder: Path, *options: str, **environment: str) -> Iterator[tuple[int, int]]:
    """The process number and the port of a server, which must end without an error."""
    server, port = start(folder, "--workers", "2", *options, **environment)
    try:
        yield server.pid, port
    finally:
        if server.poll() is None:
            server.send_signal(signal.SIGTERM)
        _, messages = server.communicate(timeout=30)
    assert b"Traceback" not in messages


def readers(process: int) -> list[int]:
    """Process numbers of the readers of a server."""
    [forks] = [
        child
        for child in children(process)
        if b"forkserver" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]
    return children(forks)


def children(process: int) -> list[int]:
    tasks = Path(f"/proc/{process}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def is_running(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def wait_until(condition, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def folder(fruit_template, tmp_path_factory) -> Path:
    """A base of fruits."""
    return shutil.copytree(fruit_template / "kb", tmp_path_factory.mktemp("workers") / "kb")


@pytest.fixture(scope="module")
def server(folder) -> Iterator[tuple[int, int]]:
    """The process number and the port of a server without keys."""
    with serving(folder) as (process, port):
        yield process, port


@pytest.fixture(scope="module")
def port(server) -> int:
    return server[1]


@pytest.fixture
def clients(port) -> Iterator[list[httpx.Client]]:
    """Clients with one connection each, enough for all readers."""
    clients = [httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) for _ in range(16)]
    yield clients
    for client in clients:
        client.close()


def test_a_change_is_visible_to_every_reader_at_once(clients):
    for number in range(8):
        text = f"The Long Pier has {number + 3} lamps."
        reply = clients[number].put("/v1/units/pier", json=UNIT | {"texts": [text]})
        assert reply.status_code == 200
        question = {"question": "How many lamps does the Long Pier have?"}
        for client in clients:
            assert client.get("/v1/units/pier").json()["texts"] == [text]
        answers = {client.post("/v1/query", json=question).json()["answer"] for client in clients}
        assert [str(number + 3) in answer for answer in answers] == [True]
    assert clients[3].delete("/v1/units/pier").status_code == 200
    assert {client.get("/v1/units/pier").status_code for client in clients} == {404}


def test_a_picture_that_was_added_is_matched_by_every_reader(clients, tmp_path):
    image = data_uri(picture(tmp_path / "a.png", 91))
    unit = {"id": "crane", "name": "Crane", "images": [image]}
    assert clients[0].post("/v1/units", json=unit).status_code == 201
    for client in clients:
        assert client.post("/v1/look", json={"image": image}).json()["units"][0]["id"] == "crane"


def test_an_ingest_is_one_job_for_all_readers(clients):
    files = {"files": ("Lighthouse/about.txt", b"The lighthouse has a red door.")}
    job = clients[0].post("/v1/ingest", files=files).json()["id"]
    events = clients[1].get(f"/v1/jobs/{job}/events").text
    assert '"state":"done"' in events
    assert {client.get(f"/v1/jobs/{job}").json()["state"] for client in clients} == {"done"}
    assert {client.get("/v1/units/Lighthouse").status_code for client in clients} == {200}


def test_an_answer_of_the_page_is_stored_once(clients):
    question = {"question": "Which fruit is sweet?"}
    page = clients[0].post("/", data=question)
    assert page.status_code == 303
    for client in clients:
        assert client.get(page.headers["location"]).status_code == 200
        questions = [item["question"] for item in client.get("/v1/answers").json()["items"]]
        assert questions.count(question["question"]) == 1
    stored = page.headers["location"]
    assert clients[1].post(f"/v1{stored}", json={"verdict": "right"}).status_code == 200
    assert {client.get(f"/v1{stored}").json()["verdict"] for client in clients} == {"right"}


def test_a_session_of_mcp_has_one_process(clients):
    headers = {"Accept": "application/json, text/event-stream"}
    about = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    call = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
    reply = clients[0].post("/mcp", json=call, headers=headers)
    assert reply.status_code == 200
    headers["Mcp-Session-Id"] = reply.headers["mcp-session-id"]
    call = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert clients[1].post("/mcp", json=call, headers=headers).status_code == 202
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    for client in clients:
        assert '"name":"ask"' in client.post("/mcp", json=call, headers=headers).text


def test_metrics_are_of_all_processes(clients):
    def count() -> float:
        lines = clients[0].get("/metrics").text.splitlines()
        name = 'ku_http_request_seconds_count{route="/v1/kinds",status="200"}'
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name))

    before = count()
    for client in clients:
        assert client.get("/v1/kinds").status_code == 200
    wait_until(lambda: count() == before + len(clients))  # requests are counted after the reply


def test_a_stream_arrives_step_by_step(clients):
    body = {"question": "Which fruit is sweet?", "stream": True}
    with clients[0].stream("POST", "/v1/query", json=body) as reply:
        events = [line for line in reply.iter_lines() if line.startswith("event:")]
    assert events[-1] == "event: answer"
    headers = {"Accept": "text/event-stream"}
    with clients[0].stream("POST", "/", data={"question": "Red?"}, headers=headers) as reply:
        assert reply.headers["content-type"].startswith("text/event-stream")
        assert "event: answer" in [*reply.iter_lines()]


@pytest.mark.parametrize("number", range(0, len(HOSTILE), 3))
def test_hostile_requests_leave_it_healthy(port, number):
    is_broken = HOSTILE[number] in RAW
    status, body = send(port, HOSTILE[number], wait=0.5 if is_broken else 60)
    assert 0 < status < 500 or (is_broken and status in (0, 501))
    assert b"SQLite" not in body
    assert send(port, request("GET", "/healthz")) == (200, b'{"status":"ok"}')


def test_a_reader_that_was_killed_is_replaced(server):
    process, port = server
    before = readers(process)
    assert len(before) == 2
    os.kill(before[0], signal.SIGKILL)
    with ThreadPoolExecutor(16) as pool:  # some of the requests wait for the new reader
        replies = pool.map(lambda _: send(port, request("GET", "/v1/units/Mango")), range(16))
        assert {status for status, _ in replies} == {200}
    wait_until(lambda: len(readers(process)) == 2)
    assert before[1] in readers(process)
    assert before[0] not in readers(process)


def test_readers_end_with_the_writer(folder):
    with serving(folder) as (process, port):
        running = readers(process)
        os.kill(process, signal.SIGKILL)
        wait_until(lambda: not any(map(is_running, running)), 5)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))


def test_sigterm_ends_all_processes_and_deletes_their_files(folder):
    with TemporaryDirectory() as path, serving(folder, TMPDIR=path) as (process, port):
        temporary = Path(path)
        assert len([*temporary.glob("ku-*")]) == 1
        running = readers(process)
        with socket.create_connection(("127.0.0.1", port)) as waiting:
            waiting.sendall(
                b"POST /v1/ingest HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"
            )
            os.kill(process, signal.SIGTERM)
            wait_until(lambda: not any(map(is_running, [process, *running])), 5)
        assert not [*temporary.iterdir()]


def test_keys_and_rates_hold_for_all_readers(folder):
    with serving(folder, "--rate", "40", KU_READ_ONLY_KEYS="reader", KU_API_KEYS="writer") as (
        _,
        port,
    ):
        statuses = [
            send(port, request("GET", "/v1/kinds", Authorization="Bearer reader"))[0]
            for _ in range(60)
        ]
        assert set(statuses) == {200, 429}
        assert 40 <= statuses.count(200) < 50
        path, body = "/v1/units/pier", json.dumps(UNIT).encode()
        kind = "application/json"
        for key, expected in (("reader", (403, 429)), ("wrong", (401,)), ("writer", (200,))):
            put = request("PUT", path, body, Content_Type=kind, Authorization=f"Bearer {key}")
            assert send(port, put)[0] in expected
        assert send(port, request("GET", "/v1/kinds"))[0] == 401


def test_bases_that_can_change_have_one_process(tmp_path, ku):
    ended = ku("serve", "--bases", str(tmp_path), "--workers", "2")
    assert ended.code == 2
    assert "--workers above 1 does not work with --bases" in ended.err


def test_a_long_path_of_temporary_files_is_an_error(folder, tmp_path):
    long = tmp_path / ("x" * 90)
    long.mkdir()
    command = [sys.executable, "-m", "ku_rag", "serve", "--kb", str(folder), "--workers", "2"]
    environment = os.environ | {"TMPDIR": str(long)}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert "set TMPDIR to a shorter path" in ended.stderr
    assert not [*long.iterdir()]
