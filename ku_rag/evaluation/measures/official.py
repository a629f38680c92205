"""Scores of the official evaluations of datasets, including the quirks of their code."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from statistics import fmean, harmonic_mean
from typing import Any, NamedTuple

from ku_rag.evaluation.measures.answer_text import ARTICLES, PUNCTUATION, bag_f1, normalized
from ku_rag.evaluation.measures.base import Prediction
from ku_rag.evaluation.questions import EvaluationQuestion
from ku_rag.plugins import extra
from ku_rag.text.stems import stem


def kurag_accuracy(question: EvaluationQuestion, prediction: Prediction) -> float | None:
    """Return whether the lower-cased answer contains a lower-cased gold answer.

    Of the gold answers of OK-VQA only those with the confidence "yes" count, by the field
    "answer_confidence" of the question, a list in the order of the answers.

    Source: common/evaluator.py of the authors of KU-RAG (github.com/zzhang393/KU-RAG).
    """
    gold = question.answers
    if not gold:
        return None
    if confidences := question.fields.get("answer_confidence"):
        gold = tuple(text for text, sure in zip(gold, confidences, strict=True) if sure == "yes")
    answer = prediction.answer.lower()
    return float(any(text.lower() in answer for text in gold))


_MARKS = ';/[]"{}()=+\\_-><@`,?!'
_DIGITS = re.compile(r"\d,\d")
_PERIOD = re.compile(r"\.(?!\d)")
_MOST_PERIODS = 32
_NUMBERS = "zero one two three four five six seven eight nine ten"
_AS_DIGITS = {"none": "0"} | {word: str(n) for n, word in enumerate(_NUMBERS.split())}
_WITH_APOSTROPHES = """
ain't aren't can't could've couldn't couldn't've didn't doesn't don't hadn't hadn't've hasn't
haven't he'd he'd've he's how'd how'll how's isn't it'd it'd've it'll ma'am mightn't mightn't've
might've mustn't must've needn't not've o'clock oughtn't 'ow's'at shan't she'd've should've
shouldn't shouldn't've somebody'd've somebody'll somebody's someone'd someone'd've someone'll
someone's something'd something'd've something'll that's there'd there'd've there're there's they'd
they'd've they'll they're they've 'twas wasn't we'd've we've weren't what'll what're what's what've
when's where'd where's where've who'd who'd've who'll who's who've why'll why're why's won't
would've wouldn't wouldn't've y'all y'all'll y'all'd've you'd you'd've you'll you're you've
"""
_CONTRACTIONS = {"somebody'd": "somebodyd"} | {
    word[:at] + word[at + 1 :]: word
    for word in _WITH_APOSTROPHES.split()
    for at, character in enumerate(word)
    if character == "'"
}
"""Contractions without one of their apostrophes, and with it."""


def vqa_accuracy(question: EvaluationQuestion, prediction: Prediction) -> float | None:
    """Return the VQA accuracy, as in OK-VQA: an answer that three people gave is right.

    The mean over the gold answers of min(1, equal answers of the other people / 3). Answers are
    normalised: punctuation, articles, numbers up to ten, contractions. As in the official code,
    nothing is normalised where all gold answers are equal, so that "The dog" is wrong for "dog".

    Source: PythonEvaluationTools/vqaEvaluation/vqaEval.py of github.com/GT-Vision-Lab/VQA.
    """
    if not question.answers:
        return None
    answer, gold = prediction.answer.replace("\n", " ").replace("\t", " ").strip(), question.answers
    if len(set(gold)) > 1:
        answer, gold = _vqa_normalized(answer), tuple(map(_vqa_normalized, gold))
    equal = gold.count(answer)
    return fmean(min(1, (equal - (text == answer)) / 3) for text in gold)


def _vqa_normalized(text: str) -> str:
    """Normalise an answer; at most 32 periods are removed, as in the official code."""
    removed = _DIGITS.search(text)
    kept = text
    for mark in _MARKS:
        beside = f"{mark} " in text or f" {mark}" in text
        kept = kept.replace(mark, "" if removed or beside else " ")
    words = _PERIOD.sub("", kept, count=_MOST_PERIODS).lower().split()
    words = [_AS_DIGITS.get(word, word) for word in words]
    return " ".join(_CONTRACTIONS.get(w, w) for w in words if w not in ("a", "an", "the"))


_QUANTITY = re.compile(r"[-+]?\.?\d+(?:,\d\d\d)*\.?\d*(?:[eE][-+]?\d+)?")
_TOLERANCE = 1e-12


def infoseek(question: EvaluationQuestion, prediction: Prediction) -> float | None:
    """Return whether an answer is right as InfoSeek defines it.

    The field "answer_eval" of the question is a list of accepted texts, or for a numerical
    question of {"range": [least, greatest]}. A text is right if it equals an accepted one without
    case, punctuation and articles; for a time, the accepted texts have the years beside it. A
    number is right if it is in the range. A range is right if it is inside, or if the
    intersection is at least half of the union. An answer without a number is the range 0 to 0,
    as in the official code.

    Source: infoseek_eval.py of github.com/edchengg/infoseek_eval.
    """
    accepted: Any = question.fields.get("answer_eval") or question.answers
    if not accepted:
        return None
    if isinstance(accepted[0], Mapping):
        least, greatest = map(float, accepted[0]["range"][:2])
        return float(_is_in_range(quantity(prediction.answer), least, greatest))
    answer = normalized(prediction.answer)
    return float(any(answer == normalized(str(text)) for text in accepted))


def quantity(text: str) -> float | tuple[float, float]:
    """Return the number in a text, or the range of its first two; (0, 0) without one."""
    spaced = re.sub(r"(?<=\d)-", " - ", text)
    numbers = []
    for number in _QUANTITY.findall(spaced):
        digits = number.replace(",", "").strip(".")
        whole = digits.partition(".")[0] if digits.count(".") > 1 else digits
        numbers.append(float(whole if whole.strip("+-") else "0"))
    if len(numbers) >= 2 and numbers[0] <= numbers[1]:
        return numbers[0], numbers[1]
    return numbers[0] if numbers else (0.0, 0.0)


def _is_in_range(answer: float | tuple[float, float], least: float, greatest: float) -> bool:
    low, high = answer if isinstance(answer, tuple) else (answer, answer)
    if least <= low <= greatest and least <= high <= greatest:
        return True
    overlap = max(0.0, min(high, greatest) - max(low, least))
    union = (high - low + _TOLERANCE) + (greatest - least + _TOLERANCE) - overlap
    return overlap / union >= 0.5 - _TOLERANCE


def infoseek_overall(splits: Sequence[float]) -> float:
    """Return the harmonic mean of the splits' means, which the official code rounds first."""
    return round(harmonic_mean([round(100 * mean, 2) for mean in splits]), 2) / 100


# ---- routes ------------------------------------------------------------------------------------


class Consistency(NamedTuple):
    """Right routes, each 0 to 1: as a share of the retrieved, of the gold, and of all together."""

    precision: float
    recall: float
    overlap: float


def consistency(
    gold: Sequence[tuple[str, ...]], retrieved: Sequence[tuple[str, ...]]
) -> Consistency:
    """Compare retrieved routes of one question, in any order, with its gold routes, at least one.

    As in the official evaluation, routes are compared whole: a path that stops one entity early is
    wrong. A gold route is right if some retrieved one equals it, shares are of the lists as they
    are given, repetitions included, and all is 0 if nothing was retrieved.

    Source: route_similarity_compute in evaluation.py of github.com/wbw520/MH-MMKG; section 5.1.
    """
    if not retrieved:
        return Consistency(0.0, 0.0, 0.0)
    right = sum(route in {*retrieved} for route in gold)
    union = len(gold) + len(retrieved) - right
    return Consistency(right / len(retrieved), right / len(gold), right / union)


def route_share(share: str, question: EvaluationQuestion, prediction: Prediction) -> float | None:
    """Return a field of `Consistency`; questions without gold routes have none."""
    if not question.routes:
        return None
    return float(getattr(consistency(question.routes, prediction.routes), share))


# ---- MultimodalQA ------------------------------------------------------------------------------


def list_em(question: EvaluationQuestion, prediction: Prediction) -> float | None:
    """Return whether the answers equal the gold answers in any order.

    Source: list_em in baselines/evaluate.py of github.com/allenai/multimodalqa, as in DROP.
    """
    if not question.answers:
        return None
    answers, gold = _spans(prediction), [_normalize(text) for text in question.answers]
    return float(len(answers) == len(gold) and set(answers) == set(gold))


def list_f1(question: EvaluationQuestion, prediction: Prediction) -> float | None:
    """Return the mean F1 of answers that are paired one to one with gold answers, two decimals.

    Pairs are chosen for the greatest sum; an answer or gold answer without a partner counts 0. A
    pair whose gold answer has numbers needs one of them. Source: list_f1, as `list_em`.
    """
    if not question.answers:
        return None
    bags = [frozenset(text.split()) for text in _spans(prediction)]
    gold = [frozenset(_normalize(text).split()) for text in question.answers]
    numbers = [{word for word in wanted if _number(word) is not None} for wanted in gold]
    scores = [
        [0.0 if some and not some & bag else bag_f1([*bag], [*wanted]) for bag in bags]
        for wanted, some in zip(gold, numbers, strict=True)
    ]
    paired = extra("eval", "scipy.optimize").linear_sum_assignment(scores, maximize=True)
    total: float = sum(scores[row][column] for row, column in zip(*paired, strict=True))
    return round(total / max(len(bags), len(gold)), 2)


def _spans(prediction: Prediction) -> Sequence[str]:
    return [_normalize(text) for text in prediction.items or (prediction.answer,)]


def _normalize(text: str) -> str:
    """Return the words in lower case, without punctuation and articles, numbers as decimals."""
    return " ".join(filter(None, map(_normalized_word, re.split("[ -]", text))))


@lru_cache(maxsize=1 << 14)
def _normalized_word(word: str) -> str:
    folded = word.lower()
    if _number(folded) is None:
        folded = folded.translate(PUNCTUATION)
    number = _number(folded)
    number = _named_number(folded) if number is None else number
    return " ".join((ARTICLES.sub(" ", folded) if number is None else str(number)).split())


def _number(text: str, parse: Callable[[str], float] = float) -> float | None:
    try:
        return float(parse(text))
    except (ValueError, ArithmeticError, LookupError):  # word_to_num raises all of them
        return None


def _named_number(word: str) -> float | None:
    """Return the number that a word such as "twelve" names (package word2number), or None."""
    return _number(word, extra("eval", "word2number.w2n").word_to_num)


# ---- WebQA -------------------------------------------------------------------------------------

_BUT_PERIODS = str.maketrans("", "", string.punctuation.replace(".", ""))
_COLORS = """
aqua beige black blonde blue bluere bluewhite bronze brown chrome gold golden gray green grey ivory
maroon orange orangebrown orangepurple pink purple rainbow red redorange rust silver spot tan teal
transparent turquoise violet white yellow yes
"""
_SHAPES = """
arch ball bell bellshaped bow circle circular concave cone conical convex corkscrew crescent crest
cross crosse cube cuboid curl curve cylinder cylindrical diamond dome domeshape dot flat flower fold
fork globe globular h heart hexagon hook hoop keyhole obelisk octagon octagonal octogon oval
pentagon point pyramid pyramidal rectangle rectangular ring round rounded semicircle shamrock slope
sphere spherical spiral square star step straight teardrop torus triangle triangular tube wavy xs
"""
_DOMAINS = {
    category: frozenset(map(stem, words.split()))
    for category, words in {"color": _COLORS, "shape": _SHAPES, "YesNo": "yes no"}.items()
}


def webqa(question: EvaluationQuestion, prediction: Prediction) -> float | None:
    """Return the accuracy of WebQA by the category of the question, its field "Qcate".

    For "color", "shape", "YesNo" and "number" the F1 of the words of that kind; for others the
    recall of the gold words, those of the field "Keywords_A" or else of the best gold answer.
    Words are compared by stems; the official code has lemmas by a spaCy model, so figures can
    differ slightly. Fluency needs BARTScore and is not measured.

    Source: vlp/eval_1022.py of github.com/WebQnA/WebQA_Baseline, eval_webqa.md of its authors.
    """
    keywords = question.fields.get("Keywords_A")
    golds = (str(keywords),) if keywords else question.answers
    category = str(question.fields.get("Qcate") or question.group)
    return max((_accuracy(prediction.answer, gold, category) for gold in golds), default=None)


def _accuracy(answer: str, gold: str, category: str) -> float:
    words, wanted = _webqa_words(answer), _webqa_words(gold)
    if category == "number":
        words, wanted = ([w for w in part if w.isdecimal()] for part in (words, wanted))
    elif domain := _DOMAINS.get(category):
        words, wanted = [*domain.intersection(words)], [*domain.intersection(wanted)]
    else:
        common = (Counter(words) & Counter(wanted)).total()
        return common / len(wanted) if wanted else 0.0
    return bag_f1(words, wanted) if wanted else 0.0


def _webqa_words(text: str) -> list[str]:
    """Return the normalised words; an article alone and a mark alone are kept."""
    folded = text.lower().encode("utf-8", "replace").decode()
    if len(text.strip()) > 1:
        folded = _PERIOD.sub("", folded.translate(_BUT_PERIODS))
    if len(text.split()) > 1:
        folded = ARTICLES.sub(" ", folded)
    words = folded.split()
    numbers = [None if word == "point" else _named_number(word) for word in words]
    return [stem(w if n is None else f"{n:.15g}") for w, n in zip(words, numbers, strict=True)]
