"""The questions of the MH benchmark, and its graph in a knowledge base."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks import record
from benchmarks.mh_graph import SEED, Frozen, build
from ku_rag.evaluation.datasets import load
from ku_rag.evaluation.questions import EvaluationQuestion
from ku_rag.graph.model import Graph
from ku_rag.graph.search_types import Query
from ku_rag.knowledge_base import KnowledgeBase

DATA = record.DATA / "monster_hunter"

Route = tuple[str, ...]


def load_questions() -> Sequence[EvaluationQuestion]:
    """Return all questions of the question list."""
    return load("mh", DATA / "question_list.xlsx").questions


def is_held_out(question: EvaluationQuestion) -> bool:
    """Return whether the monster is in the half that is only reported."""
    return bool(hashlib.sha256(question.units[0].encode()).digest()[0] % 2)


def build_query(question: EvaluationQuestion, perceptive: bool) -> Query:
    """Return the query of a question, with a human description of the scene if `perceptive`."""
    perception = question.fields["perception"] if perceptive else ""
    return Query(question=question.question, hints=question.fields["hints"], perception=perception)


def frozen_graph(questions: Sequence[EvaluationQuestion], seed: int = SEED) -> Frozen:
    """Return the graph that the recipe builds from the gold routes of all questions."""
    monsters = json.loads((DATA / "monsters.json").read_text(encoding="utf-8"))["monsters"]
    routes = sorted({">".join(route) for question in questions for route in question.routes})
    return build(routes, monsters, seed)


@contextmanager
def open_graph(frozen: Frozen) -> Iterator[Graph]:
    """Open the graph in a temporary knowledge base, with icons as pictures of the monsters."""
    icons: dict[str, list[Path]] = {}
    for file in sorted((DATA / "icons").iterdir()):
        monster = file.stem.partition("-")[2].removesuffix("_Icon").replace("_", " ")
        icons.setdefault(monster, []).append(file)
    with tempfile.TemporaryDirectory() as folder, KnowledgeBase.open(folder, create=True) as kb:
        kb.add_many(frozen.units(icons))
        yield Graph(kb._database.connection, kb._layout)
