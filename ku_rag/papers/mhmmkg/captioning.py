"""Captions of entities' pictures by a model, stored in the base (setting "unaided-offline").

Each caption is a record with its own source: ingesting the record stores the caption, and deleting
the source deletes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from ku_rag.graph.mllm_calls import WORKERS, AgentQuestion, ask_all
from ku_rag.graph.model import MACHINE_CAPTION, Entity, Graph
from ku_rag.graph.summary import MOST_PICTURES
from ku_rag.mllm.base import MLLM
from ku_rag.mllm.prompts import Prompt, fenced, load_prompts
from ku_rag.types import Quarantined, Record, Source, Unit


def caption(
    graph: Graph,
    mllm: MLLM,
    entities: Iterable[Entity],
    *,
    model: str,
    prompts: Mapping[str, Prompt] | None = None,
) -> Iterator[Record | Quarantined]:
    """Yield a record with a caption for each entity without one by the model, or a failure."""
    prompt = (prompts or load_prompts("ku_rag.papers.mhmmkg"))["describe"]
    read = ((entity, entity.unit, graph.attributes(entity)) for entity in entities)
    uncaptioned = (
        (entity.name, unit, attributes.images[:MOST_PICTURES])
        for entity, unit, attributes in read
        if unit is not None and attributes.images and model not in attributes.captions
    )
    while batch := list(islice(uncaptioned, WORKERS)):
        questions = [
            AgentQuestion(
                prompt.fill(data=fenced([{"entity": name}])), pictures, needs_pictures=True
            )
            for name, _, pictures in batch
        ]
        spent = None
        outcomes = ask_all(mllm, questions)
        for (name, unit, _), outcome in zip(batch, outcomes, strict=True):
            yield from (Quarantined(unit, reason) for reason in outcome.left_out)
            if outcome.reply:
                metadata = {f"{MACHINE_CAPTION}{model}": outcome.text}
                source = Source(f"caption:{model}#{unit}")
                yield Record(Unit(name, id=unit, metadata=metadata), (source,))
            elif not outcome.spent:
                yield Quarantined(unit, outcome.problem)
            elif spent is None:
                spent = Quarantined(f"{unit} and those after it", outcome.problem)
        if spent:
            yield spent
            return
