"""Datasets of questions with gold answers, read in their official formats."""

from __future__ import annotations

import csv
import zlib
from pathlib import Path

from ku_rag import arguments
from ku_rag.errors import BadInput
from ku_rag.evaluation.datasets.formats import DATASETS, PUBLISHED_COUNTS
from ku_rag.evaluation.datasets.raw_records import MOST_BYTES
from ku_rag.evaluation.questions import Dataset, EvaluationQuestion
from ku_rag.types import Quarantined

__all__ = ["DATASETS", "load"]


def load(name: str, path: Path, *, images: Path | None = None) -> Dataset:
    """Read the questions of a dataset. A record that cannot be read is left out and listed.

    Questions of "jsonl" and "cogbench" take pictures relative to the file, if no folder of `images`
    is named; others have none then. `BadInput` if no question can be read.
    """
    if name not in DATASETS:
        raise BadInput(f"there is no dataset {name!r}: expected one of {', '.join(DATASETS)}")
    form, folder = DATASETS[name], (images or path.parent).resolve()
    file = arguments.regular_file(path, "a file of a dataset", most=MOST_BYTES)
    questions: dict[str, EvaluationQuestion] = {}
    left_out: list[Quarantined] = []
    try:
        for number, (where, data) in enumerate(form.records(file), 1):
            try:
                if isinstance(data, BadInput):
                    raise data
                question = form.question(data, number, folder, ids=images is not None)
                if questions.setdefault(question.id, question) is not question:
                    raise BadInput(f"the id {question.id[:80]!r} is that of an earlier record")
            except BadInput as error:
                left_out.append(Quarantined(where, str(error)))
    except (OSError, EOFError, zlib.error, csv.Error, UnicodeDecodeError) as error:
        reason = f"the rest of the file cannot be read ({error}): copy or download it again"
        left_out.append(Quarantined(path.as_posix(), reason))
    if not questions:
        problem = f"{left_out[0].item}: {left_out[0].reason}" if left_out else "it is empty"
        raise BadInput(f"{path} holds no question that can be read as {name}: {problem}")
    published = PUBLISHED_COUNTS.get((name, path.name), 0)
    note = ""
    if missing := max(0, published - len(questions)):
        note = (
            f"{len(questions):,} of {published:,} questions of {path.name}: {missing:,} are missing"
        )
    return Dataset(name, tuple(questions.values()), form.measures, tuple(left_out), note)
