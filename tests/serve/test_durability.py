"""A server keeps what it has accepted, whenever and however it ends."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import apsw
import httpx
import pytest

from ku_rag import KnowledgeBase
from tests.conftest import picture
from tests.serve.conftest import data_uri
from tests.serve.forking import Servers

SEED = 20261124
CLIENTS = 8


@pytest.fixture
def base(fruit_template, tmp_path) -> Path:
    """The folder of a base of fruits."""
    return shutil.copytree(fruit_template / "kb", tmp_path / "kb")


@pytest.fixture
def temporary(tmp_path) -> Path:
    """The folder for temporary files of servers."""
    (tmp_path / "temporary").mkdir()
    return tmp_path / "temporary"


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    with Servers(tmp_path_factory.mktemp("servers") / "log") as servers:
        yield servers


def wait_for(port, location, *states):
    """Wait until the job is in one of these states, and return it."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        job = httpx.get(f"http://127.0.0.1:{port}{location}").json()
        if job["state"] in states:
            return job
        time.sleep(0.05)
    raise AssertionError(job)


def folders_of_jobs(base):
    """The folders of jobs that wait, or that left a file out and can be retried."""
    with closing(apsw.Connection(str(base / "uploads" / "jobs.sqlite"))) as connection:
        rows = connection.execute("SELECT folder, results FROM jobs").fetchall()
    reports = {folder: json.loads(results).get("report") for folder, results in rows}
    return {folder for folder, report in reports.items() if not report or report["quarantined"]}


class Clients:
    """Clients that upload files and add units until the server ends.

    Attributes:
        accepted: names of the units of accepted uploads, by the address of the job.
        added: ids of the added units.
    """

    def __init__(self, folder: Path) -> None:
        self.accepted: dict[str, str] = {}
        self.added: list[str] = []
        self._picture = picture(folder / "picture.png", 77)
        self._large = os.urandom(1 << 20) * 2

    def run(self, port: int, seed: int, has_ended: threading.Event) -> None:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            rng, number = random.Random(seed), 0
            while not has_ended.is_set():
                number += 1
                name = f"Item {seed} {number}"
                try:
                    if rng.random() < 0.15:
                        self._add(client, name)
                    else:
                        self._upload(client, name, rng)
                except httpx.TransportError:
                    return

    def wait(self, count: int) -> None:
        """Wait until `count` uploads are accepted."""
        deadline = time.monotonic() + 300
        while len(self.accepted) < count and time.monotonic() < deadline:
            time.sleep(0.005)

    def _add(self, client: httpx.Client, name: str) -> None:
        unit = {"id": name, "name": name, "images": [data_uri(self._picture)]}
        answer = client.post("/v1/units", json=unit)
        assert answer.status_code in (201, 423, 429), answer.text
        if answer.status_code == 201:
            self.added.append(name)

    def _upload(self, client: httpx.Client, name: str, rng: random.Random) -> None:
        files = [("files", (f"{name}/about.txt", f"{name} is stored.\n".encode()))]
        if rng.random() < 0.4:
            files.append(("files", (f"{name}/photo.png", self._picture.read_bytes())))
        if rng.random() < 0.1:
            files.append(("files", (f"{name}/large.bin", self._large)))
        answer = client.post("/v1/ingest", files=files)
        assert answer.status_code in (202, 429), answer.text
        if answer.status_code == 202:
            self.accepted[answer.headers["location"]] = name
        else:
            time.sleep(0.05)


def test_killed_servers_lose_no_upload(servers, base, temporary, rounds, tmp_path, record_property):
    clients, rng, attempts = Clients(tmp_path), random.Random(SEED), rounds(2, 100)
    for number in range(attempts):
        process, port = servers.start(base, TMPDIR=str(temporary))
        has_ended = threading.Event()
        with ThreadPoolExecutor(CLIENTS) as threads:
            seeds = range(number * CLIENTS, (number + 1) * CLIENTS)
            running = [threads.submit(clients.run, port, seed, has_ended) for seed in seeds]
            clients.wait(len(clients.accepted) + rng.randrange(20))
            time.sleep(rng.uniform(0, 0.05))
            servers.end(process, signal.SIGKILL)
            has_ended.set()
            for client in running:
                client.result()
        assert [*temporary.rglob("*")] == []
    process, port = servers.start(base, TMPDIR=str(temporary))
    jobs = {
        location: wait_for(port, location, "done", "failed", "cancelled")
        for location in clients.accepted
    }
    servers.end(process, signal.SIGTERM)
    for state, count in Counter(job["state"] for job in jobs.values()).items():
        record_property(f"uploads to killed servers: {state}", count)
    record_property("units added to killed servers", len(clients.added))
    assert len(jobs) >= attempts
    assert all(job["error"]["detail"] for job in jobs.values() if job["state"] != "done")
    with KnowledgeBase.open(base, read_only=True) as kb:
        stored = {unit.id for unit in kb.list(limit=1_000_000)}
        ingested = [name for at, name in clients.accepted.items() if jobs[at]["state"] == "done"]
        assert {*ingested, *clients.added} <= stored
        for name in ingested:
            assert kb.show(name).texts == (f"{name} is stored.\n",)
        assert kb.verify().problems == ()
    files = {path.name for path in (base / "uploads").iterdir()}
    files -= {"jobs.sqlite", "jobs.sqlite-wal", "jobs.sqlite-shm", "jobs.lock"}
    assert files == folders_of_jobs(base)
    assert [*temporary.rglob("*")] == []


def test_sigterm_interrupts_an_ingest_that_the_next_server_continues(servers, base):
    count = 32_000  # four batches
    records = [{"id": f"{number}", "name": f"Lamp {number}", "text": "It is red."}
               for number in range(count)]  # fmt: skip
    lines = "".join(json.dumps(record) + "\n" for record in records)
    process, port = servers.start(base)
    location = upload(port, ("lamps.jsonl", lines.encode()))
    wait_for(port, location, "running")
    with KnowledgeBase.open(base, read_only=True) as kb:
        end = time.monotonic() + 60
        while kb.stats().counts["units"] == 2 and time.monotonic() < end:
            time.sleep(0.01)
    assert servers.end(process, signal.SIGTERM) in (0, -signal.SIGTERM)
    with KnowledgeBase.open(base) as kb:
        assert 2 < len(kb.list(limit=count + 2)) < 2 + count
    process, port = servers.start(base)
    job = wait_for(port, location, "done", "failed")
    servers.end(process, signal.SIGTERM)
    assert (job["state"], job["records"]) == ("done", count)
    with KnowledgeBase.open(base) as kb:
        assert len(kb.list(limit=count + 2)) == 2 + count
        assert kb.verify().problems == ()


def test_sigterm_waits_for_no_thread_of_an_ingest(servers, base):
    """The ingest waits up to a minute for the writer lock, and cannot be interrupted meanwhile."""
    ended = (0, -signal.SIGTERM)
    with KnowledgeBase.open(base) as writer, writer.transaction():
        process, port = servers.start(base, KU_LOCK_WAIT_S="60")
        location = upload(port, ("Pear/about.txt", b"Pears are green."))
        wait_for(port, location, "running")
        assert servers.end(process, signal.SIGTERM) in ended
        process, port = servers.start(base, KU_LOCK_WAIT_S="60")
        assert wait_for(port, location, "queued", "running")["error"] is None
    job = wait_for(port, location, "done", "failed")
    assert servers.end(process, signal.SIGTERM) in ended
    assert job["state"] == "done"


def test_an_ingest_that_ends_the_server_each_time_fails(servers, base):
    with KnowledgeBase.open(base) as writer, writer.transaction():
        for number in range(5):
            process, port = servers.start(base)
            if number == 0:
                location = upload(port, ("Pear/about.txt", b"Pears are green."))
            wait_for(port, location, "running")
            servers.end(process, signal.SIGKILL)
        process, port = servers.start(base)
        job = wait_for(port, location, "failed")
        servers.end(process, signal.SIGTERM)
    assert job["error"]["detail"].startswith("the server ended abruptly each of the 5 times")


def upload(port: int, file: tuple[str, bytes]) -> str:
    """Upload a file; return the address of the job."""
    answer = httpx.post(f"http://127.0.0.1:{port}/v1/ingest", files={"files": file}, timeout=60)
    assert answer.status_code == 202, answer.text
    return answer.headers["location"]
