"""Comparison of the methods on HotpotQA: `python -m benchmarks.methods [--write]`.

Without a model: the share of questions with both gold paragraphs among the first five chunks of an
answer, on one base for all methods, and a paired test against the ordinary query. "published text
search" is the ablation of KU-RAG without units: the cosine of the question alone, since questions
have no pictures. With a small language model on this machine, for the first N questions (default
20): calls, tokens and seconds a question. The answers of such a small model do not rate a method
and are not scored.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.questions import hotpotqa
from benchmarks.record import mean, write_result
from benchmarks.retrieval import fill
from ku_rag import KnowledgeBase
from ku_rag.encoders.base import encode_queries
from ku_rag.errors import KuError
from ku_rag.evaluation.statistics import paired_p_value
from ku_rag.papers.cogplanner.plan import PlanSettings
from ku_rag.types import Answer
from tests.language_model import serving_language_model

_TEXTS = 5
Method = Callable[[KnowledgeBase, str], Answer]
METHODS: Mapping[str, Method] = {
    "plain": lambda kb, text: kb.query(None, text, units=False, graph=False),
    "ku": lambda kb, text: kb.query(None, text),
    "evidence graph": lambda kb, text: kb.query(None, text, method="evidence"),
    "plan": lambda kb, text: kb.query(None, text, plan=PlanSettings(k=_TEXTS)),
}
WITH_MODEL: Mapping[str, Method] = {
    **METHODS,
    "--strict graphrag": lambda kb, text: kb.query(None, text, strict="graphrag"),
    "--strict cogplanner": lambda kb, text: kb.query(None, text, strict="cogplanner"),
    "--strict mhmmkg": lambda kb, text: kb.query(None, text, strict="mhmmkg"),
}


def finds_gold(kb: KnowledgeBase, method: Method, text: str, gold: tuple[str, ...]) -> float:
    """Return 1.0 if the first texts contain all gold paragraphs, else 0.0."""
    chunks = method(kb, text).chunks[:_TEXTS]
    return float({*gold} <= {owner for chunk in chunks for owner in chunk.owners})


def finds_gold_by_cosine(kb: KnowledgeBase, text: str, gold: tuple[str, ...]) -> float:
    """Return the same as `finds_gold` for the chunks nearest to the question by cosine."""
    vector = encode_queries(kb.encoder, [text])[0]
    chunks = kb.search(vector=vector, k=_TEXTS).chunks
    return float({*gold} <= {owner for chunk in chunks for owner in chunk.owners})


def cost(kb: KnowledgeBase, method: Method, texts: list[str]) -> dict[str, float]:
    """Return calls, tokens and seconds a question, and the share of questions that failed."""
    usages, failed, started = [], 0, time.perf_counter()
    for text in texts:
        try:
            usages.append(method(kb, text).to_dict()["usage"])
        except KuError:
            failed += 1
    seconds = (time.perf_counter() - started) / len(texts)
    means = {
        name: round(fmean(usage.get(name, 0) for usage in usages), 1) if usages else 0.0
        for name in ("replies", "prompt_tokens", "completion_tokens")
    }
    return {**means, "seconds": round(seconds, 1), "failed": failed / len(texts)}


def main() -> None:
    """Measure, print, and with --write write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--questions", type=int, default=20)
    options = parser.parse_args()
    questions, passages = hotpotqa()
    result: dict[str, object] = {}
    with TemporaryDirectory() as folder:
        path = Path(folder, "kb")
        with fill(path, passages, "embedded") as kb:
            shares = {
                name: [finds_gold(kb, method, q.question, q.units) for q in questions]
                for name, method in METHODS.items()
            }
            shares["published text search"] = [
                finds_gold_by_cosine(kb, q.question, q.units) for q in questions
            ]
        for name, values in shares.items():
            p = round(paired_p_value(shares["ku"], values), 4) if name != "ku" else None
            result[name] = {"both among 5": mean(values), "p, beside ku": p}
            print(name, result[name])
        texts = [question.question for question in questions[: options.questions]]
        with serving_language_model(Path(folder, "log.txt")) as url:
            model: dict[str, Any] = {"mllm": "smollm2", "mllm_url": url, "mllm_cache": False}
            model["mllm_max_reply_tokens"] = 256
            for name, method in WITH_MODEL.items() if texts else ():
                with KnowledgeBase.open(path, mllm_timeout_s=600.0, **model) as kb:
                    result[f"{name}, with a model"] = cost(kb, method, texts)
                print(name, result[f"{name}, with a model"], flush=True)
    if options.write:
        print(write_result("methods", result))


if __name__ == "__main__":
    sys.exit(main())
