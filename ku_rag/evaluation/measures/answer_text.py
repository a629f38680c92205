"""Measures that compare an answer with a gold answer by words, n-grams and characters.

The figure of a run is the mean over its questions, not a corpus score.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any

from rapidfuzz.distance import Levenshtein

from ku_rag.evaluation.measures.base import Prediction, Score
from ku_rag.evaluation.questions import EvaluationQuestion
from ku_rag.plugins import extra

ARTICLES = re.compile(r"\b(a|an|the)\b")
"""English articles in lower case."""
PUNCTUATION = str.maketrans("", "", string.punctuation)
_NO_SYNONYMS = SimpleNamespace(synsets=lambda word: ())
"""Replaces WordNet, whose data is in no package."""


def normalized(text: str) -> str:
    """Return a text without case, punctuation and articles (evaluate-v1.1.py of SQuAD)."""
    return " ".join(ARTICLES.sub(" ", text.lower().translate(PUNCTUATION)).split())


def best_of_answers(
    compare: Callable[[str, str], float | None], best: Callable[..., float | None] = max
) -> Score:
    """Return a score of the best of the comparisons with each gold answer that are not None."""

    def score(question: EvaluationQuestion, prediction: Prediction) -> float | None:
        scores = (compare(prediction.answer, gold) for gold in question.answers)
        return best((value for value in scores if value is not None), default=None)

    return score


def exact_match(answer: str, gold: str) -> float:
    """Return whether normalised answers are equal (SQuAD), also where both are empty."""
    return float(normalized(answer) == normalized(gold) and bool(answer) == bool(gold))


def token_f1(answer: str, gold: str) -> float:
    """Return the F1 of the normalised words (SQuAD, OTT-QA, HotpotQA).

    HotpotQA's own code gives 0 to an answer with more words than a gold "yes" or "no". An
    empty answer agrees only with an empty gold answer, as in `exact_match`.
    """
    if bool(answer) != bool(gold):
        return 0.0
    return bag_f1(normalized(answer).split(), normalized(gold).split())


def word_f1(answer: str, gold: str) -> float:
    """Return the F1 of lower-cased words and punctuation as `NLTKWordTokenizer` splits them."""
    return bag_f1(_words(answer), _words(gold))


def bag_f1(answer: Sequence[str], gold: Sequence[str]) -> float:
    """Return the harmonic mean of the shares of common words; 1 if both are empty."""
    if not answer or not gold:
        return float(not answer and not gold)
    return 2 * (Counter(answer) & Counter(gold)).total() / (len(answer) + len(gold))


def _words(text: str) -> list[str]:
    from nltk.tokenize import NLTKWordTokenizer

    return list(NLTKWordTokenizer().tokenize(text.lower()))


def rouge(kind: str, answer: str, gold: str) -> float:
    """Return the F-measure of "rouge1", "rouge2" or "rougeL", without stems (Lin 2004)."""
    return float(_rouge_scorer().score(gold, answer)[kind].fmeasure)


@cache
def _rouge_scorer() -> Any:  # noqa: ANN401 - of an optional package without types
    return extra("eval", "rouge_score.rouge_scorer").RougeScorer(["rouge1", "rouge2", "rougeL"])


def bleu(answer: str, gold: str) -> float:
    """Return BLEU-4 of a sentence, smoothed (package sacrebleu; Papineni et al. 2002)."""
    return float(extra("eval", "sacrebleu").sentence_bleu(answer, [gold]).score) / 100


def chrf(answer: str, gold: str, word_order: int = 0) -> float:
    """Return chrF2, or with a word order of 2 chrF2++ (package sacrebleu; Popović 2015, 2017)."""
    score = extra("eval", "sacrebleu").sentence_chrf(answer, [gold], word_order=word_order).score
    return float(score) / 100


def meteor(answer: str, gold: str) -> float:
    """Return METEOR by exact and stem matches, without synonyms (nltk; Banerjee and Lavie 2005)."""
    from nltk.translate.meteor_score import single_meteor_score

    return float(single_meteor_score(_words(gold), _words(answer), wordnet=_NO_SYNONYMS))


def error_rate(split: Callable[[str], Sequence[str]], answer: str, gold: str) -> float | None:
    """Return insertions, deletions and replacements as a share of the gold answer's length."""
    parts, wanted = split(answer), split(gold)
    return Levenshtein.distance(parts, wanted) / len(wanted) if wanted else None
