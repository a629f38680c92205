"""`ku serve` passes the conformance suite of the Model Context Protocol, which others maintain."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time

import pytest

from ku_rag import KnowledgeBase

pytestmark = pytest.mark.slow

PACKAGES = ("@modelcontextprotocol/conformance@0.1.16", "node@22")
"""The suite needs functions of Node 22; the package node brings it."""
SCENARIOS = (
    "server-initialize",
    "ping",
    "tools-list",
    "resources-list",
    "prompts-list",
    "server-sse-multiple-streams",
    "dns-rebinding-protection",
)


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """The folder of the programs that npm installs."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    folder = tmp_path_factory.mktemp("npm")
    command = ["npm", "install", "--no-audit", "--no-fund", *PACKAGES]
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if process.returncode:
        pytest.skip(f"npm cannot install {PACKAGES[0]}: {process.stderr.strip()[-300:]}")
    return folder / "node_modules" / ".bin"


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """The address of a server of an empty base."""
    folder = tmp_path_factory.mktemp("served") / "kb"
    KnowledgeBase.open(folder, create=True).close()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["-m", "ku_rag", "serve", "--kb", str(folder), "--port", str(port)]
    server = subprocess.Popen([sys.executable, *command])
    try:
        for _ in range(600):
            with socket.socket() as connection:
                if connection.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield f"http://localhost:{port}/mcp"
    finally:
        server.terminate()
        server.wait(30)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenario_of_the_conformance_suite(programs, address, scenario, tmp_path):
    command = ["server", "--url", address, "--scenario", scenario, "--output-dir", str(tmp_path)]
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    process = subprocess.run(
        [programs / "conformance", *command],
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert process.returncode == 0, process.stdout[-2000:] + process.stderr[-2000:]
    [report] = tmp_path.glob("*/checks.json")
    checks = [check for check in json.loads(report.read_text()) if check["status"] != "INFO"]
    assert checks, "no checks were run"
    assert {check["status"] for check in checks} == {"SUCCESS"}, checks
