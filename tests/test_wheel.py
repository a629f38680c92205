"""The wheel works alone: built from the source distribution, installed in a bare environment."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import venv
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MOST_BYTES = 3 << 20
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (find_spec("build") and find_spec("twine")), reason="build or twine is not installed"
    ),
]


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command without the package of this folder; return its output."""
    names = {"PYTHONPATH", "KU_KB", "KU_DEFAULT_ENCODER"}
    surroundings = {name: value for name, value in os.environ.items() if name not in names}
    process = subprocess.run(
        [*map(str, command)], cwd=cwd, env=surroundings, capture_output=True, text=True
    )
    assert process.returncode == 0, f"{command}: {process.stdout[-2000:]}\n{process.stderr[-2000:]}"
    return process.stdout + process.stderr


def test_the_wheel_runs_the_demo_in_a_bare_environment(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    archive = tmp_path / "source.tar"
    run("git", "archive", "-o", archive, "HEAD", cwd=ROOT)
    with tarfile.open(archive) as members:
        members.extractall(source, filter="data")
    run(sys.executable, "-m", "build", "--outdir", tmp_path / "dist", source, cwd=tmp_path)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    (sdist,) = (tmp_path / "dist").glob("*.tar.gz")
    assert wheel.stat().st_size <= MOST_BYTES
    checked = run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist, cwd=tmp_path)
    assert checked.count("PASSED") == 2
    venv.create(tmp_path / "bare", with_pip=True)
    bare = tmp_path / "bare" / "bin"
    run(bare / "pip", "install", "-q", "--disable-pip-version-check", wheel, cwd=tmp_path)
    out = run(bare / "ku-rag", "demo", cwd=tmp_path)
    assert "10 of 10 flags were recognised" in out
    assert (tmp_path / "demo" / "report.html").stat().st_size > 10_000
    question = "What is the capital of Peru?"
    out = run(bare / "ku", "query", "-", question, "--kb", "demo/kb", cwd=tmp_path)
    assert out.startswith("Lima\n")
