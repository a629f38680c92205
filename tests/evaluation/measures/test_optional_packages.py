"""The packages of the extra `eval` are imported when a measure needs them; an error names them."""

from __future__ import annotations

import sys

import pytest

from ku_rag.errors import MissingExtra
from ku_rag.evaluation.measures import answer_text, measure
from ku_rag.evaluation.measures.base import Prediction
from ku_rag.evaluation.questions import EvaluationQuestion
from ku_rag.evaluation.statistics import bootstrap_interval, paired_p_value
from tests.test_imports import loaded_by

PACKAGES = {
    "ir_measures": ("recall@5", "mrr"),
    "sacrebleu": ("bleu", "chrf", "chrf++"),
    "scipy": ("mmqa_f1",),
    "word2number": ("mmqa_em", "mmqa_f1", "webqa"),
}
ASKED = EvaluationQuestion("1", "?", answers=("a red flag",), units=("flag",))


def test_measures_import_none_of_them():
    code = "import ku_rag.evaluation.measures, ku_rag.evaluation.statistics"
    assert {*PACKAGES, "rouge_score", "nltk"} & loaded_by(code) == set()


@pytest.mark.parametrize("package", PACKAGES)
def test_a_missing_package_names_the_extra(package, monkeypatch):
    for module in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(sys, "meta_path", [_Missing(package), *sys.meta_path])
    for name in PACKAGES[package]:
        with pytest.raises(MissingExtra, match=r'pip install "ku-rag\[eval\]"'):
            # A word that no other test looks up, because words are cached.
            measure(name).score(ASKED, Prediction(f"flag of {package} {name}"))
    if package == "scipy":
        for test in (bootstrap_interval, lambda values: paired_p_value(values, [0.0, 0.0])):
            with pytest.raises(MissingExtra, match=r"scipy\.stats is not installed"):
                test([0.5, 1.0])


class _Missing:
    """An import finder for which a package is absent."""

    def __init__(self, package):
        self.package = package

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == self.package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def test_rouge_without_its_package(monkeypatch):
    answer_text._rouge_scorer.cache_clear()
    monkeypatch.setitem(sys.modules, "rouge_score.rouge_scorer", None)
    with pytest.raises(MissingExtra, match="rouge_score"):
        measure("rouge1").score(ASKED, Prediction("flag"))
