from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ku_rag import KnowledgeBase, ScriptedMLLM
from ku_rag.evaluation import evaluate
from tests.conftest import write_records


@pytest.fixture
def score(empty_base: Path, tmp_path: Path) -> Callable[..., float | None]:
    """Have a model answer a question and judge its answer; return the score by a measure."""
    base = shutil.copytree(empty_base, tmp_path / "kb")

    def run(name: str, mllm: ScriptedMLLM | str, **fields: Any) -> float | None:
        mllm = ScriptedMLLM([mllm]) if isinstance(mllm, str) else mllm
        file = write_records(tmp_path / "q.jsonl", [{"question": "What is it?", **fields}])
        with KnowledgeBase.open(base, mllm=mllm) as kb:
            (record,) = evaluate(kb, file, method="model-only", measures=[name]).records
        return record["scores"][name]

    return run
