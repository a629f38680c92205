"""Measures by a multimodal model as judge.

A score takes one call, or two for claims. A model that fails raises `ModelFailed` or `BudgetSpent`;
a reply without a verdict gives no score.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from ku_rag.evaluation.measures.base import Prediction
from ku_rag.evaluation.questions import EvaluationQuestion
from ku_rag.mllm.base import MLLM, Message, Reply, Request
from ku_rag.mllm.prompts import fenced, load_prompts
from ku_rag.mllm.structured_output import BOOLEAN, TEXT, list_of, object_schema

_CLAIMS = object_schema("claims", claims=list_of(TEXT))
_SUPPORTED = object_schema("supported", supported=list_of(BOOLEAN))
_VERDICTS = {"Yes": 1.0, "No": 0.0}


@dataclass(frozen=True, slots=True)
class Judge:
    """A model that judges, and the folder whose prompts replace those of this package, if any."""

    mllm: MLLM
    prompts: Path | None = None


def verdict(
    prompt: str, judge: Judge, question: EvaluationQuestion, prediction: Prediction
) -> float | None:
    """Return 1 if the answer means the same as the gold answer, by the reply "Yes", 0 by "No"."""
    if not question.answers or not prediction.answer.strip():
        return 0.0 if question.answers else None
    lines = [*({"reference": answer} for answer in question.answers), {"answer": prediction.answer}]
    reply = _ask(judge, prompt, question, lines)
    return _VERDICTS.get(reply.text.strip().removesuffix(".").capitalize())


def claim_share(
    of_answer: bool, judge: Judge, question: EvaluationQuestion, prediction: Prediction
) -> float | None:
    """Return the share of claims of one answer that the other supports (CogPlanner, 6.1.1).

    0 if one claims nothing; None without a verdict for each claim, or without a gold answer.
    """
    claimed, text = prediction.answer, "\n".join(question.answers)
    if not question.answers or not claimed.strip() or not text.strip():
        return 0.0 if question.answers else None
    if not of_answer:
        claimed, text = text, claimed
    reply = _ask(judge, "claims", question, [{"answer": claimed}], _CLAIMS)
    claims = (reply.parsed or {}).get("claims")
    if not claims:
        return 0.0
    lines = [{"text": text}, *({"claim": claim} for claim in claims)]
    reply = _ask(judge, "claim_support", question, lines, _SUPPORTED)
    supported = (reply.parsed or {}).get("supported", ())
    return sum(supported) / len(claims) if len(supported) == len(claims) else None


_prompts = cache(partial(load_prompts, "ku_rag.evaluation"))


def _ask(
    judge: Judge,
    prompt: str,
    question: EvaluationQuestion,
    lines: Sequence[Mapping[str, Any]],
    schema: Mapping[str, Any] | None = None,
) -> Reply:
    filled = _prompts(judge.prompts)[prompt].fill(question=question.question, data=fenced(lines))
    return judge.mllm.chat(Request((Message("user", (filled,)),), schema, temperature=0.0))


JUDGED: Mapping[str, Callable[[Judge, EvaluationQuestion, Prediction], float | None]] = {
    "judged": partial(verdict, "judge_answer"),
    "judged_caption": partial(verdict, "judge_caption"),
    "claim_precision": partial(claim_share, True),
    "claim_recall": partial(claim_share, False),
}
"""The measures that need a model, by name."""
