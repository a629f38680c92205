"""The measures of predictions, by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from ku_rag.errors import BadInput
from ku_rag.evaluation.measures import answer_text, official
from ku_rag.evaluation.measures.answer_text import best_of_answers
from ku_rag.evaluation.measures.base import RIGHT, Measure, Prediction, Score
from ku_rag.evaluation.measures.judges import JUDGED, Judge
from ku_rag.evaluation.measures.language_models import BY_CHECKPOINT
from ku_rag.evaluation.measures.official import Consistency
from ku_rag.evaluation.measures.plans import PLAN_SCORES
from ku_rag.evaluation.questions import EvaluationQuestion
from ku_rag.mllm.base import MLLM
from ku_rag.plugins import extra

_SCORES: Mapping[str, Score] = {
    "kurag_accuracy": official.kurag_accuracy,
    "vqa_accuracy": official.vqa_accuracy,
    "infoseek": official.infoseek,
    "mmqa_em": official.list_em,
    "mmqa_f1": official.list_f1,
    "webqa": official.webqa,
    **{f"route_{share}": partial(official.route_share, share) for share in Consistency._fields},
    "em": best_of_answers(answer_text.exact_match),
    "f1": best_of_answers(answer_text.token_f1),
    "word_f1": best_of_answers(answer_text.word_f1),
    **{
        kind: best_of_answers(partial(answer_text.rouge, kind))
        for kind in ("rouge1", "rouge2", "rougeL")
    },
    "bleu": best_of_answers(answer_text.bleu),
    "chrf": best_of_answers(answer_text.chrf),
    "chrf++": best_of_answers(partial(answer_text.chrf, word_order=2)),
    "meteor_exact_stem": best_of_answers(answer_text.meteor),
    "cer": best_of_answers(partial(answer_text.error_rate, list), min),
    "wer": best_of_answers(partial(answer_text.error_rate, str.split), min),
    "abstention": lambda _, prediction: float(not prediction.answer.strip()),
    "graph_nodes": lambda _, prediction: prediction.graph_size and prediction.graph_size[0],
    "graph_edges": lambda _, prediction: prediction.graph_size and prediction.graph_size[1],
    **PLAN_SCORES,
}
_OVERALL = {"infoseek": official.infoseek_overall}
MEASURES = (
    *_SCORES,
    *("recall@K", "precision@K", "ndcg@K", "mrr", "mrr@K", "helped:MEASURE", "harmed:MEASURE"),
    *JUDGED,
    *(f"{name}:FOLDER" for name in BY_CHECKPOINT),
)
"""Names of the measures: K is a number of units, MEASURE the name of another measure,
FOLDER that of a checkpoint of transformers."""

_RANKING = re.compile(r"(recall|precision|ndcg|mrr)@([1-9]\d{0,3})|(mrr)")
_OFFICIAL = {"recall": "R", "precision": "P", "ndcg": "nDCG", "mrr": "RR"}
"""Names of ranking measures in ir-measures."""


def measure(name: str, judge: MLLM | None = None, prompts: Path | None = None) -> Measure:
    """Return the measure of a name, one of `MEASURES`."""
    effect, _, main = name.partition(":")
    if effect in ("helped", "harmed") and main and not is_lower_better(main):
        score = measure(main, judge, prompts).score
        return Measure(name, partial(_score_correction, score, effect == "helped"))
    if effect in BY_CHECKPOINT and main:
        return Measure(name, partial(BY_CHECKPOINT[effect], main))
    if name in JUDGED:
        if judge is None:
            raise BadInput(f"the measure {name} needs a model that judges: name one with --judge")
        return Measure(name, partial(JUDGED[name], Judge(judge, prompts)))
    if name in _SCORES:
        return Measure(name, _SCORES[name], _OVERALL.get(name))
    if match := _RANKING.fullmatch(name):
        kind, depth, _ = match.groups()
        return Measure(name, partial(_rank, f"{_OFFICIAL[kind]}@{depth}" if kind else "RR"))
    raise BadInput(f"there is no measure {name!r}; there are: {', '.join(MEASURES)}")


def is_lower_better(name: str) -> bool:
    """Whether a lower score of the measure of a name is better."""
    return name in ("cer", "wer") or name.startswith(
        ("harmed:", "perplexity:", "plan_tokens", "plan_ratio")
    )


def _rank(official_name: str, question: EvaluationQuestion, prediction: Prediction) -> float | None:
    """Score the order of the retrieved units by ir-measures."""
    if not question.units:
        return None
    library = extra("eval", "ir_measures")
    # By number: trec_eval ends the process at an id that is not valid Unicode.
    units = [*dict.fromkeys((*prediction.units, *question.units))]
    gold = [library.Qrel("1", str(units.index(unit)), 1) for unit in set(question.units)]
    ranked = range(len(set(prediction.units)))
    run = [library.ScoredDoc("1", str(place), -float(place)) for place in ranked]
    calculated = library.calc_aggregate([library.parse_measure(official_name)], gold, run)
    return float(sum(calculated.values()))


def _score_correction(
    score: Score, helped: bool, question: EvaluationQuestion, prediction: Prediction
) -> float | None:
    """Return whether a correction made a wrong draft right (`helped`), or a right one wrong."""
    if prediction.draft is None:
        return None
    draft = score(question, replace(prediction, answer=prediction.draft, items=()))
    answer = score(question, prediction)
    if draft is None or answer is None:
        return None
    worse, better = (draft, answer) if helped else (answer, draft)
    return float(worse < RIGHT <= better)
