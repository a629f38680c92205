"""The server: its searches against Python calls, 32 clients with one writer, start, workers.

    python -m benchmarks.serve [--units 2000] [--seconds 60] [--txtai PYTHON] [--write]
    python -m benchmarks.serve --workers [--write]      # this part alone

The server is a process of its own on the same machine, called through the loopback interface. Calls
through HTTP and calls of the method alternate. Of the clients, 31 search and one stores units; each
unit whose storage was confirmed is looked up at the end.

Servers with one and with two workers alternately serve 16 clients: text searches, questions without
and with a picture, on the base of `ku demo`, alone and with further units.

With the Python of an environment that has txtai[api], txtai searches the same texts by keywords, by
its method and through its API, alternating with the calls above. Its search does less: it does not
match units.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from benchmarks.record import RESULTS, target, targets_table, write_result
from ku_rag import KnowledgeBase, Unit
from ku_rag.demo.dataset import RECORDS, SCENES

CLIENTS = 32
_ASKING, _ROUNDS, _ROUND_S = 16, 3, 4.0
"""Clients, rounds and seconds of a round of the comparison of one worker with two workers."""
_CALLS = 300
_WORDS = ("tower", "bridge", "harbour", "castle", "market", "station", "museum", "garden")


_TXTAI_API = "writable: true\nembeddings: {keyword: true, content: true}\n"
_TXTAI_METHOD = """
import json, sys, time, txtai
base = txtai.Embeddings(keyword=True, content=True)
base.index(json.loads(sys.stdin.readline()))
for question in sys.stdin:
    started = time.perf_counter()
    base.search(question.strip(), 10)
    print((time.perf_counter() - started) * 1000, flush=True)
"""
"""Program that indexes the texts of its first line and prints milliseconds for each next line."""


def _text(number: int) -> str:
    return f"The {_WORDS[number % 8]} number {number} was built in {1000 + number}."


def _question(number: int) -> str:
    return f"When was the {_WORDS[number % 8]} number {number} built?"


def make_base(folder: Path, units: int) -> None:
    """Create a base of units with one text each."""
    with KnowledgeBase.open(folder, create=True) as base:
        base.add_many(
            [Unit(f"Place {n}", id=f"place-{n}", texts=(_text(n),)) for n in range(units)]
        )


class Server:
    """A server in a process of its own that has answered a first request.

    Args:
        command: Command that starts the server; a port is appended.
        first: The first request.
        variables: Additional environment variables.
    """

    def __init__(
        self, command: list[str], first: dict[str, Any], variables: dict[str, str] | None = None
    ) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        started = time.perf_counter()
        self._process = subprocess.Popen(
            [*command, "--port", str(port)], env=os.environ | (variables or {})
        )
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60)
        while True:
            try:
                self.client.request(**first).raise_for_status()
                break
            except httpx.ConnectError:
                time.sleep(0.01)
        self.start = {"seconds": time.perf_counter() - started, "processor": self.processor_s()}

    @property
    def pid(self) -> int:
        """Id of the process."""
        return self._process.pid

    def processor_s(self) -> float:
        """Return the processor time of the process in seconds."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mb(self) -> float:
        """Return the resident memory of the process in megabytes."""
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def stop(self) -> None:
        """End the process."""
        self.client.close()
        self._process.terminate()
        self._process.wait()


class Txtai:
    """txtai with the texts of the units: a process that calls its method, and its API.

    Args:
        python: Python of the environment of txtai.
        folder: Folder for the configuration of the API.
        units: Number of texts.
    """

    def __init__(self, python: str, folder: Path, units: int) -> None:
        (folder / "txtai.yml").write_text(_TXTAI_API)
        variables = {"CONFIG": str(folder / "txtai.yml"), "HF_HUB_OFFLINE": "1"}
        command = [python, "-m", "uvicorn", "txtai.api:app", "--log-level", "warning"]
        self.api = Server(command, {"method": "GET", "url": "/count"}, variables)
        texts = [{"id": f"place-{n}", "text": _text(n)} for n in range(units)]
        self.api.client.post("/add", json=texts).raise_for_status()
        self.api.client.get("/index").raise_for_status()
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._method = subprocess.Popen([python, "-c", _TXTAI_METHOD], **pipes)
        self._write(json.dumps([(text["id"], text["text"]) for text in texts]))

    def _write(self, line: str) -> None:
        assert self._method.stdin is not None
        print(line, file=self._method.stdin, flush=True)

    def method_ms(self, question: str) -> float:
        """Return milliseconds of a search by the method."""
        assert self._method.stdout is not None
        self._write(question)
        return float(self._method.stdout.readline())

    def stop(self) -> None:
        """End both processes."""
        self.api.stop()
        self._method.communicate()


def compare(server: Server, folder: Path, txtai: Txtai | None) -> dict[str, float]:
    """Return median milliseconds of alternating searches by the method and through HTTP."""
    times: dict[str, list[float]] = defaultdict(list)

    def time_call(name: str, call: Callable[[], object]) -> None:
        started = time.perf_counter()
        call()
        times[name].append((time.perf_counter() - started) * 1000)

    with KnowledgeBase.open(folder, read_only=True) as base:
        for number in range(_CALLS):
            text = _question(number)
            request: dict[str, Any] = {"url": "/v1/search", "json": {"text": text}}
            time_call("method", partial(base.search, text=text))
            time_call("http", partial(server.client.post, **request))
            if txtai:
                times["txtai_method"].append(txtai.method_ms(text))
                txtai_request = {"url": "/search", "params": {"query": text, "limit": 10}}
                time_call("txtai_http", partial(txtai.api.client.get, **txtai_request))
    return {name: statistics.median(values) for name, values in times.items()}


async def load(server: Server, seconds: float) -> dict[str, Any]:
    """Return the figures of all clients over a number of seconds."""
    end, codes, stored = time.perf_counter() + seconds, Counter[int](), list[str]()
    times: list[float] = []

    async def search(client: httpx.AsyncClient, number: int) -> None:
        while time.perf_counter() < end:
            number += CLIENTS
            started = time.perf_counter()
            body = {"text": _question(number)}
            codes[(await client.post("/v1/search", json=body)).status_code] += 1
            times.append(time.perf_counter() - started)

    async def write(client: httpx.AsyncClient) -> None:
        while time.perf_counter() < end:
            name = f"new-{len(stored)}"
            record = {"name": name, "texts": [f"{name} is open."]}
            code = (await client.put(f"/v1/units/{name}", json=record)).status_code
            codes[code] += 1
            stored.extend([name] * (code == 200))

    limits = httpx.Limits(max_connections=CLIENTS, max_keepalive_connections=CLIENTS)
    async with httpx.AsyncClient(
        base_url=server.client.base_url, limits=limits, timeout=60
    ) as client:
        searches = [asyncio.create_task(search(client, n)) for n in range(CLIENTS - 1)]
        writer = asyncio.create_task(write(client))
        await asyncio.sleep(seconds / 2)
        before = server.memory_mb()
        await asyncio.gather(*searches, writer)
        after = server.memory_mb()
        lost = [n for n in stored if (await client.get(f"/v1/units/{n}")).status_code != 200]
    p50, p99 = np.percentile(times, (50, 99)) * 1000
    return {
        "requests_a_second": round(sum(codes.values()) / seconds, 1),
        "writes": len(stored),
        "lost_writes": len(lost),
        "statuses": {str(code): count for code, count in sorted(codes.items())},
        "p50_ms": round(float(p50), 1),
        "p99_ms": round(float(p99), 1),
        "memory_mb": [round(before, 1), round(after, 1)],
    }


def requests() -> dict[str, tuple[str, list[dict[str, str]]]]:
    """Return paths and bodies of the requests for the comparison of workers."""
    pictures = [
        f"data:image/jpeg;base64,{base64.b64encode(file.read_bytes()).decode()}"
        for file in sorted(SCENES.iterdir())
    ]
    question = "What is the capital of this country?"
    return {
        "text search": ("/v1/search", [{"text": _question(n)} for n in range(100)]),
        "text question": ("/v1/query", [{"question": _question(n)} for n in range(100)]),
        "picture question": (
            "/v1/query",
            [{"question": question, "image": picture} for picture in pictures],
        ),
    }


async def rate(server: Server, path: str, bodies: list[dict[str, str]]) -> float:
    """Return requests a second of clients that send requests without a pause."""
    started, count = time.perf_counter(), 0

    async def ask(client: httpx.AsyncClient, number: int) -> None:
        nonlocal count
        while time.perf_counter() < started + _ROUND_S:
            reply = await client.post(path, json=bodies[number % len(bodies)])
            reply.raise_for_status()
            number += _ASKING
            count += 1

    async with httpx.AsyncClient(base_url=server.client.base_url, timeout=120) as client:
        await asyncio.gather(*(ask(client, number) for number in range(_ASKING)))
    return count / (time.perf_counter() - started)


def compare_workers(folder: Path) -> dict[str, dict[str, float]]:
    """Return median requests a second with one and two workers, and median ratios, by kind."""
    command = [sys.executable, "-m", "ku_rag", "serve", "-q", "--kb", str(folder), "--workers"]
    first = {"method": "POST", "url": "/v1/search", "json": {"text": "tower"}}
    rates = {}
    with ExitStack() as stack:
        servers = [Server([*command, number], first) for number in ("1", "2")]
        for server in servers:
            stack.callback(server.stop)
        for kind, (path, bodies) in requests().items():
            rounds = [
                [asyncio.run(rate(server, path, bodies)) for server in servers]
                for _ in range(_ROUNDS + 1)
            ][1:]  # the first loads models
            single, double = map(statistics.median, zip(*rounds, strict=True))
            ratio = statistics.median(after / before for before, after in rounds)
            figures = {"1": single, "2": double, "ratio": ratio}
            rates[kind] = {name: round(value, 2) for name, value in figures.items()}
            print(folder.name, kind, rates[kind], flush=True)
    return rates


def measure_workers(work: Path, units: int) -> dict[str, dict[str, dict[str, float]]]:
    """Return the comparisons of one worker with two workers by number of units."""
    comparisons = {}
    for name, count in (("demo", 0), ("large", units)):
        folder = work / name
        make_base(folder, count)
        with KnowledgeBase.open(folder) as base:
            base.ingest(RECORDS)
            count = base.stats().counts["units"]
        comparisons[f"{count} units"] = compare_workers(folder)
    return comparisons


def main() -> None:
    """Measure, print the targets, and with --write write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--units", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--txtai", help="Python of an environment with txtai[api]")
    parser.add_argument("--write", action="store_true", help="write results/serve.json")
    parser.add_argument("--workers", action="store_true", help="only compare numbers of workers")
    options = parser.parse_args()
    machine_load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as work:
        workers = {"load": machine_load, "bases": measure_workers(Path(work), options.units)}
    if options.workers:
        print(workers)
        if options.write:
            file = RESULTS / "serve.json"
            earlier = json.loads(file.read_text("utf-8"))
            file.write_text(json.dumps(earlier | {"workers": workers}, indent=2) + "\n", "utf-8")
        return
    with tempfile.TemporaryDirectory() as work, ExitStack() as stack:
        folder = Path(work, "kb")
        make_base(folder, options.units)
        txtai = Txtai(options.txtai, Path(work), options.units) if options.txtai else None
        if txtai:
            stack.callback(txtai.stop)
        command = [sys.executable, "-m", "ku_rag", "serve", "-q", "--kb", str(folder)]
        first = {"method": "POST", "url": "/v1/search", "json": {"text": "tower"}}
        server = Server(command, first)
        stack.callback(server.stop)
        calls = compare(server, folder, txtai)
        under_load = asyncio.run(load(server, options.seconds))
    counts = under_load["statuses"]
    failed = sum(count for code, count in counts.items() if code >= "500")
    refused = counts.get("429", 0) / sum(counts.values())
    growth = under_load["memory_mb"][1] / under_load["memory_mb"][0]
    targets = [
        target("search", "p50 through HTTP, ms", calls["http"], 1.5 * calls["method"] + 2),
        target("start", "to the first answer, s", server.start["seconds"], 1.5),
        target("start", "processor time to the first answer, s", server.start["processor"], 1.5),
        target("32 clients", "statuses from 500 on", failed, 0),
        target("32 clients", "share of 429", refused, 0.01),
        target("32 clients", "lost writes", under_load["lost_writes"], 0),
        target("32 clients", "p99 / p50", under_load["p99_ms"] / under_load["p50_ms"], 10),
        target("32 clients", "memory at the end / after half", growth, 1.1),
    ]
    print(targets_table(targets))
    print({"machine load": machine_load, "calls": calls, "start": server.start, "load": under_load})
    if options.write:
        rounded = {name: round(value, 3) for name, value in calls.items()}
        figures: dict[str, Any] = {
            "seconds": options.seconds,
            "search_ms": rounded,
            "start": server.start,
            "clients": under_load,
        }
        write_result(
            "serve",
            {
                "units": options.units,
                "load": machine_load,
                **figures,
                "workers": workers,
                "targets": targets,
            },
            packages=("fastapi", "uvicorn", "httpx"),
        )


if __name__ == "__main__":
    main()
