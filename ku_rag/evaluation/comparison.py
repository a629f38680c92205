"""The comparison of two runs over the same questions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from ku_rag.errors import BadInput
from ku_rag.evaluation.measures import is_lower_better
from ku_rag.evaluation.run import RECORDS, read_records
from ku_rag.evaluation.statistics import paired_p_value
from ku_rag.types import Serializable


@dataclass(frozen=True, slots=True)
class Difference(Serializable):
    """The difference of two runs in a measure, over the questions that both have a score for."""

    measure: str
    first: float
    second: float
    p: float
    questions: int
    better: int
    worse: int


def compare_runs(first: Path, second: Path) -> list[Difference]:
    """Compare the runs in two folders by all measures and questions that both have."""
    before, after = _scores(first), _scores(second)
    pairs: dict[str, list[tuple[float, float]]] = {}
    for question, scores in before.items():
        for measure, score in scores.items():
            other = after.get(question, {}).get(measure)
            if score is not None and other is not None:
                pairs.setdefault(measure, []).append((score, other))
    if not pairs:
        raise BadInput(
            f"{first} and {second} share no question with a score: compare two runs of one dataset"
        )
    differences = []
    for measure, both in pairs.items():
        old, new = zip(*both, strict=True)
        more, less = sum(b > a for a, b in both), sum(b < a for a, b in both)
        better, worse = (less, more) if is_lower_better(measure) else (more, less)
        p = paired_p_value(old, new)
        differences.append(Difference(measure, fmean(old), fmean(new), p, len(both), better, worse))
    return differences


def _scores(folder: Path) -> dict[tuple[str, str], dict[str, float | None]]:
    """Return the scores of the questions in a run by their ids and texts."""
    if not (folder / RECORDS).exists():
        raise BadInput(f"{folder} holds no run: name a folder that `ku eval --out` made")
    records = read_records(folder / RECORDS)
    return {(row["id"], row["question"]): row["scores"] for row in records if "scores" in row}
