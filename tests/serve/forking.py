"""Starts servers quickly: a process imports everything once and forks one process for each server.

Each line of standard input is a JSON object. "arguments" of `ku` and variables of its "environment"
start a process, and the reply is its number; a "process" and a "signal" end it, and the reply is
its exit code.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Self

from ku_rag import cli
from tests.serve.test_process import free_port, request, send

ROOT = Path(__file__).parents[2]


class Servers:
    """Servers that are killed.

    Args:
        log: the file for their output.
    """

    def __init__(self, log: Path) -> None:
        self._log = log.open("wb")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.serve.forking"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stdin.close()
        self._process.wait(timeout=60)
        self._process.stdout.close()
        self._log.close()

    def start(self, folder: Path, **environment: str) -> tuple[int, int]:
        """Start a server of a base; return its process number and port when it answers."""
        port = free_port()
        arguments = ["serve", "--kb", str(folder), "--port", str(port)]
        process = self._ask({"arguments": arguments, "environment": environment})
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                if send(port, request("GET", "/healthz"))[0] == 200:
                    return process, port
            except OSError:
                time.sleep(0.02)
        raise AssertionError("the server does not answer")

    def end(self, process: int, how: signal.Signals) -> int:
        """End a server by a signal, or kill it after 30 seconds; return its exit code."""
        return self._ask({"process": process, "signal": how})

    def _ask(self, command: dict[str, object]) -> int:
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


def _serve(arguments: list[str], environment: dict[str, str]) -> int:
    process = os.fork()
    if process:
        return process
    status = 1
    os.environ.update(environment)
    tempfile.gettempdir()  # Python tests the folder with a file, which a kill would leave
    try:
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        sys.argv[1:] = arguments
        cli.main()
    except SystemExit as end:
        status = end.code
    finally:
        os._exit(status)


def _end(process: int, how: int) -> int:
    os.kill(process, how)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(process, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


if __name__ == "__main__":
    for name in (
        *("uvicorn", "uvicorn.protocols.http.auto", "uvicorn.loops.auto", "uvicorn.lifespan.on"),
        *("ku_rag.cli.commands", "ku_rag.serve.app", "ku_rag.ingest.readers.folder"),
        *("ku_rag.ingest.pipeline", "ku_rag.indexes.vector_index"),
    ):
        import_module(name)
    for line in sys.stdin:
        command = json.loads(line)
        if "arguments" in command:
            reply = _serve(command["arguments"], command["environment"])
        else:
            reply = _end(command["process"], command["signal"])
        sys.stdout.write(f"{reply}\n")
        sys.stdout.flush()
