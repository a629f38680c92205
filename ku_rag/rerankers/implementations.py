"""The rerankers of the project: by matched units, by a cross-encoder, and by a multimodal model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Lock

import numpy as np

from ku_rag.encoders.sentence_transformers import find_model, load_model, model_files
from ku_rag.encoders.torch_runtime import place
from ku_rag.errors import BadInput, BudgetSpent
from ku_rag.graph.mllm_calls import AgentQuestion, ask_all
from ku_rag.mllm.prompts import fenced, load_prompts
from ku_rag.mllm.structured_output import LINE, object_schema
from ku_rag.rerankers.base import RerankerQuery, Scores
from ku_rag.types import Evidence
from ku_rag.weights.files import content_hash

_MATCH = 0.2
"""Weight of the match of a chunk's unit with the picture, beside the chunk's own score."""
_BATCH = 32
_SCHEMA = object_schema(reason=LINE, relevant=LINE)
_VERDICTS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_UNKNOWN = 0.5


class UnitMatchReranker:
    """Adds to the score of a chunk that of its unit's match with the picture; needs no model.

    OMGM (Yang et al. 2025) fuses the scores of its stages. Those of its other stages add nothing
    here, so without a picture the order stays.
    """

    name = "embedded"
    fingerprint = "unit-match:1"

    def score(self, query: RerankerQuery, evidence: Sequence[Evidence]) -> Scores:
        """Return the sums, float32[n]."""
        highest = max((piece.score for piece in evidence), default=0.0) or 1.0
        matches = {unit.id: unit.score for unit in query.units if query.picture}
        best = [max((matches.get(unit, 0.0) for unit in e.owners), default=0.0) for e in evidence]
        sums = [e.score / highest + _MATCH * own for e, own in zip(evidence, best, strict=True)]
        return np.array(sums, np.float32)


class CrossEncoderReranker:
    """Scores texts by a sentence-transformers model with one output, which reads both together.

    Args:
        argument: path of a saved model, or a name whose files are in the Hugging Face cache.

    Raises:
        NotFound: the model is not on this machine; nothing is downloaded.
        BadInput: it is damaged, contains code, or has several outputs.
        MissingExtra: sentence-transformers is not installed.
    """

    name = "cross-encoder"

    def __init__(self, argument: str, *, device: str = "auto", batch_size: int = 0) -> None:
        where = place(device, needs="sentence")
        folder = find_model(argument)
        files = model_files(folder, lists_modules=False)
        self._model = where.load(load_model(folder, "CrossEncoder"))
        if self._model.num_labels != 1:
            raise BadInput(
                f"{folder} has {self._model.num_labels} outputs: expected a cross-encoder with "
                "one, the relevance of a text"
            )
        self._batch_size = batch_size or _BATCH
        self._lock = Lock()
        self.fingerprint = f"cross-encoder:{content_hash(*files)}"

    def score(self, query: RerankerQuery, evidence: Sequence[Evidence]) -> Scores:
        """Return the model's output for question and text, float32[n]; longer texts are cut."""
        pairs = [(query.text, "\n".join([*piece.owner_names, piece.text])) for piece in evidence]
        options = {"batch_size": self._batch_size, "show_progress_bar": False}
        with self._lock:  # the tokenizer serves one thread
            raw = self._model.predict(pairs, convert_to_tensor=True, **options) if pairs else None
        scores = np.zeros(0) if raw is None else raw.float().cpu().numpy()
        return np.asarray(scores, np.float32)


class RelevanceReranker:
    """Scores 1 what a multimodal model calls relevant, 0 what it does not, and else .5.

    ReflectiVA (Cocchi et al. 2025, section 3) trains a model to say so by a token; here any model
    is asked in words, in one call for each text. A call that fails gives .5.

    Args:
        prompts: folder whose relevance.md replaces that of the package.

    Raises:
        NotFound, BadInput: see `load_prompts`.
    """

    name = "mllm"

    def __init__(self, *, prompts: Path | None = None) -> None:
        self._prompt = load_prompts("ku_rag.rerankers", prompts)["relevance"]
        self.fingerprint = f"mllm:{self._prompt.label}"

    def score(self, query: RerankerQuery, evidence: Sequence[Evidence]) -> Scores:
        """Return the verdicts, float32[n].

        Raises:
            BadInput: there is no model.
            BudgetSpent: the budget of the model is spent.
            ModelFailed: all calls failed.
        """
        if query.mllm is None:
            raise BadInput(
                'the reranker "mllm" asks a multimodal model, and the base has none: set mllm, or '
                "choose another reranker"
            )
        pictures = [query.picture] if query.picture else []
        texts = [fenced([{"of": piece.owner_names, "text": piece.text}]) for piece in evidence]
        questions = [
            AgentQuestion(self._prompt.fill(question=query.text, data=text), pictures, _SCHEMA)
            for text in texts
        ]
        outcomes = ask_all(query.mllm, questions)
        failed = [outcome.failure for outcome in outcomes if outcome.failure]
        for failure in failed:
            if isinstance(failure, BudgetSpent) or len(failed) == len(outcomes):
                raise failure
        verdicts = (str(o.fields.get("relevant", "")).strip(" .").casefold() for o in outcomes)
        return np.array([_VERDICTS.get(verdict, _UNKNOWN) for verdict in verdicts], np.float32)
