"""Requests that schemathesis generates from the OpenAPI document, to a real process."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.serve.test_process import start

pytest.importorskip("schemathesis")

pytestmark = pytest.mark.slow

EXCLUDED = {
    "positive_data_acceptance": "texts that the schema allows name no unit, picture or condition",
    "negative_data_rejection": "0 is taken for false, and every field of a form is a text",
    "allow_header_conformance": "FastAPI names the methods of one route of a path alone",
}
"""Checks that are left out, with reasons."""


def test_responses_are_those_of_the_document(fruit_template, tmp_path):
    server, port = start(shutil.copytree(fruit_template / "kb", tmp_path / "kb"))
    try:
        process = subprocess.run(
            [
                Path(sys.executable).with_name("schemathesis"),
                *("run", f"http://127.0.0.1:{port}/openapi.json", "--max-examples", "10"),
                *("--phases", "examples,coverage,fuzzing", "--exclude-checks", ",".join(EXCLUDED)),
            ],
            capture_output=True,
            text=True,
            cwd=tmp_path,
        )
    finally:
        server.terminate()
        _, output = server.communicate(timeout=30)
    assert process.returncode == 0, process.stdout
    assert b"Traceback" not in output
