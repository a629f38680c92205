"""The examples of docs/integrations.md run, and print the expected results."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "integrations.md").read_text("utf-8")
PRINTED = ["['Mango'] ", "Limes are sour.\n", "Limes are sour.\n", "['Mango'] "]
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(("code", "expected"), [*zip(EXAMPLES, PRINTED, strict=True)])
def test_an_example_runs(fruit_base, code, expected):
    root = fruit_base.parent
    shutil.rmtree(root / "kb")
    shutil.copy(fruit_base / "Mango" / "photo.png", root)
    assert len(code.splitlines()) <= 10
    process = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=root, capture_output=True, text=True
    )
    assert (process.returncode, process.stderr) == (0, "")
    assert process.stdout.startswith(expected)
