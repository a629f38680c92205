"""Machine captions of entities' pictures, made once and kept in the base (unaided-offline).

A caption is stated by a source of its own, so it goes and comes without touching what people wrote:
storing what `caption` yields is one ingest of records, and deleting the source takes it back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path as File

from ku_rag.graph.mllm_agents import WORKERS, AgentPrompts
from ku_rag.graph.mllm_calls import AgentQuestion, ask_all
from ku_rag.graph.model import MACHINE_CAPTION, Entity, Graph
from ku_rag.graph.summary import MOST_PICTURES
from ku_rag.mllm.base import MLLM
from ku_rag.mllm.prompts import fenced
from ku_rag.types import Quarantined, Record, Source, Unit


def caption(
    graph: Graph,
    mllm: MLLM,
    entities: Iterable[Entity],
    *,
    model: str,
    workers: int = WORKERS,
    prompts: AgentPrompts | None = None,
) -> Iterator[Record | Quarantined]:
    """Caption the pictures of entities that have no caption by this model yet.

    The model sees an entity's pictures and its name, and nothing of any question.

    Args:
        graph: the graph; it is read by the calling thread, between the records.
        mllm: the model.
        entities: those to caption; whoever has no pictures is passed over.
        model: what the model is called in the base.
        workers: most questions at once; so many entities are asked about together.
        prompts: by default those of the project.

    Yields:
        For each caption a record that an ingest stores: the unit with the caption in its metadata,
        from the source `caption:MODEL#UNIT`. For each failure what it was; the end of the model's
        budget is the last of them.
    """
    prompt = (prompts or AgentPrompts.load()).describe
    waiting = _lacking(graph, entities, model)
    while some := list(islice(waiting, workers)):
        questions = [
            AgentQuestion(
                prompt.fill(data=fenced([{"entity": name}])), pictures, needs_pictures=True
            )
            for name, _, pictures in some
        ]
        outcomes = ask_all(mllm, questions, workers=workers)
        for (name, unit, _), outcome in zip(some, outcomes, strict=True):
            yield from (Quarantined(unit, reason) for reason in outcome.left_out)
            if outcome.reply:
                yield _record(name, unit, model, outcome.reply.text.strip())
            elif not outcome.spent:
                yield Quarantined(unit, outcome.problem)
        left = [unit for (_, unit, _), one in zip(some, outcomes, strict=True) if one.spent]
        if left:
            problem = next(outcome.problem for outcome in outcomes if outcome.spent)
            yield Quarantined(f"{left[0]} and those after it", problem)
            return


def _lacking(
    graph: Graph, entities: Iterable[Entity], model: str
) -> Iterator[tuple[str, str, tuple[File, ...]]]:
    """(name, unit, pictures) of those that have pictures and no caption by the model."""
    for entity in entities:
        attributes = graph.attributes(entity)
        if entity.unit is not None and attributes.images and model not in attributes.captions:
            yield entity.name, entity.unit, attributes.images[:MOST_PICTURES]


def _record(name: str, unit: str, model: str, text: str) -> Record:
    said = Unit(name, id=unit, metadata={f"{MACHINE_CAPTION}{model}": text})
    return Record(said, (Source(f"caption:{model}#{unit}"),))
