"""Similarity of captions by a model with those of people (MH-MMKG, section 5.2, "Sim.")."""

from __future__ import annotations

from dataclasses import dataclass

from ku_rag.errors import BadInput, NotFound
from ku_rag.evaluation.measures import measure
from ku_rag.evaluation.measures.base import Prediction
from ku_rag.evaluation.questions import EvaluationQuestion
from ku_rag.knowledge_base import KnowledgeBase
from ku_rag.mllm import load_mllm
from ku_rag.types import Serializable


@dataclass(frozen=True, slots=True)
class CaptionSimilarity(Serializable):
    """How many captions of a model say the same as those of people, by the judge."""

    model: str
    entities: int
    similar: int

    @property
    def share(self) -> float:
        """The share of similar ones, "Sim."."""
        return self.similar / self.entities


def judge_captions(kb: KnowledgeBase) -> list[CaptionSimilarity]:
    """Have a model compare the captions in a graph, those of models with those of people."""
    judge = load_mllm(kb.settings, "mllm_judge") or kb.mllm
    if judge is None:
        raise NotFound("captions are compared by a model: name one with --judge")
    score = measure("judged_caption", judge, kb.prompts).score
    verdicts: dict[str, list[float]] = {}
    for name, written, by_model in kb.graph.captions():
        question = EvaluationQuestion(
            "", f"What does the picture of {name} show?", answers=(written,)
        )
        for model, caption in by_model.items():
            similar = score(question, Prediction(caption))
            if similar is not None:
                verdicts.setdefault(model, []).append(similar)
    if not verdicts:
        raise BadInput(
            "no entity has a caption by people and one by a model: run `ku graph caption` first"
        )
    return [
        CaptionSimilarity(model, len(scores), int(sum(scores)))
        for model, scores in sorted(verdicts.items())
    ]
