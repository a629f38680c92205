"""The image of deploy/Dockerfile is small, and serves without root on a read-only file system."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MOST_BYTES = 600_000_000
START_S = 60
KEY = "0123456789abcdef"
pytestmark = pytest.mark.slow


def run(*command: str) -> str:
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert process.returncode == 0, f"{command}: {process.stderr[-3000:]}"
    return process.stdout.strip()


@pytest.fixture(scope="module")
def engine() -> str:
    """The command of a container engine that works here."""
    for name in ("docker", "podman"):
        if (
            shutil.which(name)
            and not subprocess.run([name, "info"], capture_output=True).returncode
        ):
            return name
    pytest.skip("neither docker nor podman runs on this machine")


@pytest.fixture(scope="module")
def image(engine: str) -> str:
    run(engine, "build", "-q", "-f", "deploy/Dockerfile", "-t", "ku-rag-test", ".")
    return "ku-rag-test"


@pytest.fixture
def address(engine: str, image: str):
    """The address of a server in a container."""
    limits = ["--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL"]
    key = ["-e", f"KU_API_KEYS={KEY}", "-p", "127.0.0.1::8321"]
    container = run(engine, "run", "-d", "-v", "/data", *limits, *key, image)
    port = run(engine, "port", container, "8321").splitlines()[0].rpartition(":")[2]
    yield f"http://127.0.0.1:{port}"
    subprocess.run([engine, "rm", "-f", "-v", container], check=True, capture_output=True)


def test_the_image_is_small_and_not_run_by_root(engine, image):
    size, user = json.loads(
        run(engine, "image", "inspect", "-f", '[{{.Size}}, "{{.Config.User}}"]', image)
    )
    assert size <= MOST_BYTES
    assert user == "ku"


def test_the_server_answers_to_a_key_alone(address):
    deadline = time.monotonic() + START_S
    while True:
        try:
            urllib.request.urlopen(f"{address}/healthz", timeout=5).close()
            break
        except OSError:
            assert time.monotonic() < deadline, f"no answer within {START_S} s"
            time.sleep(0.5)
    question = urllib.request.Request(f"{address}/v1/units", headers={"Authorization": KEY})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(question)
    assert refused.value.code == 401
    question.add_header("Authorization", f"Bearer {KEY}")
    with urllib.request.urlopen(question) as answer:
        assert json.load(answer)["units"] == []
