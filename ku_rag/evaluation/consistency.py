"""Knowledge consistency and accuracy, as the MH benchmark measures them (MH-MMKG, section 5.1).

A route is the names of the entities on a path, topic first. The official evaluation compares routes
whole: a path that stops one entity early is wrong. Entities and relations by themselves are
measured beside it, to tell near misses from wrong turns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

from ku_rag.errors import BadInput, ModelFailed
from ku_rag.graph.model import Path
from ku_rag.mllm.base import MLLM, Message, Request
from ku_rag.mllm.prompts import fenced, load_prompt
from ku_rag.text.tokens import words

Route = tuple[str, ...]

_JUDGEMENT: Mapping[str, Any] = {
    "type": "object",
    "properties": {"reason": {"type": "string"}, "right": {"type": "boolean"}},
    "required": ["reason", "right"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class Consistency:
    """Agreement of retrieved routes with the gold ones, each 0 to 1.

    Args:
        precision: right routes as a share of the retrieved.
        recall: right routes as a share of the gold.
        overlap: right routes as a share of all, retrieved or gold, each right one counted once
            (their intersection over their union).
        entity_precision: the same of the names on the routes, topic included, each once.
        entity_recall: likewise.
        edge_precision: the same of the pairs of names that follow each other on a route.
        edge_recall: likewise.
    """

    precision: float
    recall: float
    overlap: float
    entity_precision: float
    entity_recall: float
    edge_precision: float
    edge_recall: float


def route_of(path: Path) -> Route:
    """Return the names of the entities on a path."""
    return tuple(entity.name for entity in path.entities)


def consistency(gold: Sequence[Route], retrieved: Sequence[Route]) -> Consistency:
    """Compare the routes that were retrieved for one question with its gold routes.

    As in the official evaluation a gold route is right if some retrieved one equals it, shares
    are of the lists as they are given, repetitions included, and where nothing was retrieved all
    is 0. Of edges, which routes of one entity do not have, both shares are 1 where neither side
    has any, and 0 where only one has.

    Args:
        gold: at least one.
        retrieved: in any order.

    Raises:
        BadInput: there is no gold route.
    """
    if not gold:
        raise BadInput("a question without gold routes cannot be measured: expected at least one")
    if not retrieved:
        return Consistency(0, 0, 0, 0, 0, 0, 0)
    known = set(retrieved)
    right = sum(route in known for route in gold)
    entities = _shares({n for r in gold for n in r}, {n for r in retrieved for n in r})
    edges = _shares(_edges(gold), _edges(retrieved))
    union = len(gold) + len(retrieved) - right
    return Consistency(right / len(retrieved), right / len(gold), right / union, *entities, *edges)


def mean(measured: Iterable[Consistency]) -> Consistency:
    """Return the mean over questions of each measure.

    Raises:
        BadInput: there are none.
    """
    rows = list(measured)
    if not rows:
        raise BadInput("there is no question to take the mean over: expected at least one")
    names = [field.name for field in fields(Consistency)]
    return Consistency(*(sum(getattr(row, name) for row in rows) / len(rows) for name in names))


def contains(answer: str, gold: str) -> bool:
    """Return whether an answer contains the words of the gold answer in sequence.

    Case, accents and punctuation do not count. A gold answer without words is in none.
    """
    wanted, said = words(gold), words(answer)
    places = range(len(said) - len(wanted) + 1) if wanted else ()
    return any(said[at : at + len(wanted)] == wanted for at in places)


def judge(mllm: MLLM, question: str, answer: str, gold: str) -> bool:
    """Return whether a model judges an answer to be correct, given the gold answer.

    Args:
        mllm: the judge.
        question: what was asked.
        answer: what was answered.
        gold: what is right.

    Raises:
        ModelFailed: it gave no reply that can be used.
        BudgetSpent: it may not be asked any more.
    """
    prompt = load_prompt("ku_rag.evaluation", "judge")
    data = fenced([{"question": question}, {"right answer": gold}, {"answer to judge": answer}])
    message = Message("user", (prompt.fill(data=data),))
    reply = mllm.chat(Request((message,), schema=_JUDGEMENT, temperature=0))
    if reply.parsed is None:
        raise ModelFailed(
            f'the judge replied {reply.text[:80]!r}: expected an object with "right", true or '
            "false; use a model that keeps to a schema"
        )
    return reply.parsed["right"] is True


def _edges(routes: Sequence[Route]) -> set[tuple[str, str]]:
    return {edge for route in routes for edge in pairwise(route)}


def _shares(gold: Set[object], found: Set[object]) -> tuple[float, float]:
    """Return precision and recall."""
    if not gold or not found:
        both = float(not gold and not found)
        return both, both
    right = len(gold & found)
    return right / len(found), right / len(gold)
