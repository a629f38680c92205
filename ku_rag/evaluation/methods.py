"""The methods that answer questions, by the names of `ku eval` and `ku compare`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ku_rag import papers
from ku_rag.errors import BadInput, NotFound
from ku_rag.evaluation.questions import EvaluationQuestion
from ku_rag.papers.cogplanner.plan import PlanSettings
from ku_rag.papers.graphrag.construction_settings import EvidenceSettings
from ku_rag.types import Answer, Correction, Match

if TYPE_CHECKING:  # `ku --help` imports this module
    from ku_rag.knowledge_base import KnowledgeBase
    from ku_rag.mllm.base import MLLM

QUERIES: Mapping[str, Mapping[str, Any]] = {
    "ku": {},
    "plain": {"units": False, "graph": False},
    "evidence": {"method": "evidence"},
    "model-only": {"method": "model-only"},
    "fixed-text": {"units": False, "graph": False, "kcc": False},
    "fixed-image": {"strict": "kurag", "kcc": False, "graph": True},
    "plan": {},
}
"""Options of `KnowledgeBase.query` for each method that is a query.

"plain" searches only texts, by the question and, with a model, its caption of the picture. The
baselines "fixed-text" and "fixed-image" search once, in texts or by picture, and answer in one turn
(CogPlanner, section 4.1).
"""
METHODS = (*QUERIES, "graph")
"""All methods; "graph" is the search of MH-MMKG."""
WITH_MODEL = frozenset({"model-only"})
"""Methods that need a model."""
WITH_PICTURE = frozenset({"fixed-image"})
"""Methods that need a picture."""
_SHARED = ("k", "kcc", "units", "graph", "strict")


@dataclass(frozen=True, slots=True)
class MethodOptions:
    """Options of methods; a method ignores those that it does not have.

    Args:
        k: Maximum number of units and of chunks; None takes the settings of the base.
        kcc: False asks the model once, with the evidence ("w/o KCC").
        units: False searches only texts ("w/o KU").
        graph: False leaves out graph paths.
        strict: a published method, which is used alone; see `ku_rag.papers.STRICT`.
        setting: Of the method "graph": one of MH-MMKG's settings; "" chooses, see
            `GraphView.search`.
        paths: Of the method "graph": number of paths that end the search.
        depth_first: Of the method "graph": follow each path to its end before the next.
        frames: Of the method "graph": maximum number of video frames.
        construction: Of the method "evidence": how the graph is built.
        plan: Of the method "plan": "parallel" or "sequential", or more settings.
    """

    k: int | None = None
    kcc: bool = True
    units: bool = True
    graph: bool = True
    strict: str = ""
    setting: str = ""
    paths: int = 5
    depth_first: bool = False
    frames: int = 8
    construction: EvidenceSettings = field(default_factory=EvidenceSettings)
    plan: str | PlanSettings = "sequential"


def check_method(method: str, mllm: MLLM | None, options: MethodOptions) -> None:
    """Check that a method exists and has the options and the model that it needs."""
    if method not in METHODS:
        raise BadInput(f"there is no method {method!r}: expected one of {', '.join(METHODS)}")
    steps = papers.load_steps(_arguments(method, options))
    if (method in WITH_MODEL or (steps and steps.needs_model)) and mllm is None:
        method = options.strict or method
        raise NotFound(f"the method {method} asks a model, and there is none: name one with --mllm")


def answer(
    base: KnowledgeBase, method: str, question: EvaluationQuestion, options: MethodOptions
) -> Answer:
    """Answer a question by one of `METHODS`."""
    if method == "graph":
        return _search_graph(base, question, options)
    return base.query(question.image, question.question, **_arguments(method, options))


def _arguments(method: str, options: MethodOptions) -> dict[str, Any]:
    """Return the arguments of `KnowledgeBase.query` by which a method answers."""
    names = _SHARED if method != "model-only" else ()
    arguments = {name: getattr(options, name) for name in names} | dict(QUERIES.get(method, {}))
    if method == "evidence" or options.strict == "graphrag":
        arguments["construction"] = options.construction
    if method == "plan" or options.strict == "cogplanner":
        arguments["plan"] = options.plan
    return arguments


def _search_graph(
    base: KnowledgeBase, question: EvaluationQuestion, options: MethodOptions
) -> Answer:
    """Return the answer of a graph search, with its paths as evidence."""
    started = time.perf_counter()
    fields = question.fields
    frames = fields.get("frames") or ([question.image] if question.image else [])
    step = -(-len(frames) // options.frames) or 1
    result = base.graph.search(
        question.question,
        images=frames[::step],
        topic=fields.get("topic"),
        hints=fields.get("hints") or "",
        perception=fields.get("perception") or "",
        setting=options.setting or None,
        most=options.paths,
        depth_first=options.depth_first,
        gold=question.routes if options.setting == "knowledgeable" else (),
    )
    start = result.search.topic if result.search else None
    paths = tuple(path.as_evidence(f"E{n}") for n, path in enumerate(result.paths, 1))
    return Answer(
        question.question,
        str(question.image) if question.image else None,
        region=None,
        units=(Match(start.unit, start.name, 1.0, None, None),) if start and start.unit else (),
        chunks=(),
        paths=paths,
        passage=(),
        reading=result.reading,
        models={"reader": f"graph search, {result.setting}"},
        timings_ms={"total": round((time.perf_counter() - started) * 1000, 2)},
        correction=Correction(usage=result.usage) if any(result.usage.values()) else None,
    )
