"""Measures by a language model on this machine: BARTScore and perplexity.

WebQA's fluency QA-FL is BARTScore (Yuan et al. 2021) relative to the reference's own, QA its
product with the accuracy QA-ACC. Checkpoints are folders in the layout of transformers; nothing is
downloaded and no code in them is run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ku_rag.errors import NotFound
from ku_rag.evaluation.measures import official
from ku_rag.evaluation.measures.base import Prediction
from ku_rag.evaluation.questions import EvaluationQuestion
from ku_rag.plugins import extra

_MOST_TOKENS = 1024


def fluency(folder: str, question: EvaluationQuestion, prediction: Prediction) -> float | None:
    """Return QA-FL: the best ratio of likelihoods of the answer and of a reference, at most 1."""
    if not question.answers or not prediction.answer.strip():
        return 0.0 if question.answers else None
    return max(
        min(1.0, math.exp(_log_likelihood(folder, r, prediction.answer) - _own(folder, r)))
        for r in question.answers
    )


def quality(folder: str, question: EvaluationQuestion, prediction: Prediction) -> float | None:
    """Return QA: the product of QA-FL and WebQA's accuracy of one answer."""
    fluent, accurate = fluency(folder, question, prediction), official.webqa(question, prediction)
    return None if fluent is None or accurate is None else fluent * accurate


def perplexity(folder: str, question: EvaluationQuestion, prediction: Prediction) -> float | None:
    """Return the perplexity of an answer, 1 or more, lower is better; None for a single token."""
    torch = extra("sentence", "torch")
    tokenizer, model = _load(folder, "AutoModelForCausalLM")
    tokens = tokenizer(prediction.answer, return_tensors="pt", truncation=True, max_length=512)
    if tokens.input_ids.shape[1] < 2:
        return None
    with torch.inference_mode():
        return float(model(input_ids=tokens.input_ids, labels=tokens.input_ids).loss.exp())


def _log_likelihood(folder: str, source: str, target: str) -> float:
    torch = extra("sentence", "torch")
    tokenizer, model = _load(folder, "AutoModelForSeq2SeqLM")
    given, labels = (
        tokenizer(text, return_tensors="pt", truncation=True, max_length=_MOST_TOKENS).input_ids
        for text in (source, target)
    )
    with torch.inference_mode():
        return -float(model(input_ids=given, labels=labels).loss)


@cache
def _own(folder: str, text: str) -> float:
    return _log_likelihood(folder, text, text)


@cache
def _load(folder: str, kind: str) -> tuple[Any, Any]:
    transformers = extra("sentence", "transformers")
    if not (Path(folder) / "config.json").is_file():
        raise NotFound(f"{folder} holds no checkpoint: name a folder with config.json")
    options = {"local_files_only": True, "trust_remote_code": False}
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **options)
    return tokenizer, getattr(transformers, kind).from_pretrained(folder, **options).eval()


BY_CHECKPOINT: Mapping[str, Callable[[str, EvaluationQuestion, Prediction], float | None]] = {
    "qa_fl": fluency,
    "qa": quality,
    "perplexity": perplexity,
}
"""The measures that need the folder of a checkpoint, "NAME:FOLDER"."""
