"""Predictions, scores and measures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from ku_rag.evaluation.questions import EvaluationQuestion
from ku_rag.papers.cogplanner.plan import Plan
from ku_rag.types import Serializable

RIGHT = 0.5
"""Lowest score of an answer that counts as right."""


@dataclass(frozen=True, slots=True)
class Prediction(Serializable):
    """The retrieval results and the answer of a method for a question."""

    answer: str = ""
    items: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    routes: tuple[tuple[str, ...], ...] = ()
    confidence: float | None = None
    draft: str | None = None
    graph_size: tuple[int, int] | None = None
    plan: Plan | None = None
    tokens: int | None = None


Score = Callable[[EvaluationQuestion, Prediction], float | None]
"""Scores a prediction; None where it cannot be scored, for example without a gold answer."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure of predictions; `overall` makes its figure from the means of groups."""

    name: str
    score: Score
    overall: Callable[[Sequence[float]], float] | None = None

    def summarize(
        self, questions: Sequence[EvaluationQuestion], scores: Sequence[float | None]
    ) -> tuple[float, dict[str, float]]:
        """Return the figure of a run, and the mean of each group of questions by its name."""
        groups: dict[str, list[float]] = {}
        for question, score in zip(questions, scores, strict=True):
            if score is not None:
                groups.setdefault(question.group, []).append(score)
        means = {name: fmean(groups[name]) for name in sorted(groups)}
        every = [score for group in groups.values() for score in group]
        figure = self.overall([*means.values()]) if self.overall else fmean(every)
        return figure, {name: mean for name, mean in means.items() if name}
