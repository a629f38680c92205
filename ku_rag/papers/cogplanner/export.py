"""Fine-tuning records of accepted plans, as LLaMA-Factory reads them.

Each decision is a record: the prompt that `MLLMPlanner` sends in that state, and the reply.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ku_rag import arguments
from ku_rag.answering.pipeline import query_picture
from ku_rag.errors import BadInput, KuError
from ku_rag.mllm.base import Request
from ku_rag.mllm.scripted import ScriptedMLLM
from ku_rag.papers.cogplanner.mllm_planner import MLLMPlanner
from ku_rag.papers.cogplanner.plan import Plan, decode_object, pictures_of
from ku_rag.papers.cogplanner.planner import PlanState
from ku_rag.store.layout import write_durably
from ku_rag.types import Quarantined, Serializable

_LAYOUT: Mapping[str, Any] = {
    "formatting": "sharegpt",
    "columns": {"messages": "messages", "images": "images"},
    "tags": dict(
        role_tag="role", content_tag="content", user_tag="user", assistant_tag="assistant"
    ),
}


@dataclass(frozen=True, slots=True)
class PlanExport(Serializable):
    """The result of `export_plans`: numbers of plans and records, and what was left out."""

    plans: int
    records: int
    left_out: Sequence[Quarantined]


def export_plans(files: Sequence[Path], out: Path, least: Mapping[str, float]) -> PlanExport:
    """Write the decisions of accepted plans, and describe the file in dataset_info.json beside it.

    A plan is accepted if it, or its answer, has "accepted": true; or if its record in a run reaches
    the least scores, by measure. `BadInput` if no plan is, or dataset_info.json cannot be read.
    """
    out, info = arguments.output_file(out, "the records"), out.with_name("dataset_info.json")
    if out == info or out.resolve() in [file.resolve() for file in files]:
        raise BadInput(f"{out} would be written over: name another file for the records")
    described: Mapping[str, Any] = {}
    if info.exists():
        described = decode_object(info.read_bytes(), info.name)
    records: list[dict[str, Any]] = []
    left_out: list[Quarantined] = []
    documents = [document for file in files for document in _documents(file)]
    for where, data in documents:
        try:
            records += list(_decisions(_read_plan(decode_object(data, "the document"), least)))
        except KuError as error:
            left_out.append(Quarantined(where, str(error)))
    if not records:
        reasons = "; ".join(f"{failure.item}: {failure.reason}" for failure in left_out[:3])
        raise BadInput(
            f'no plan is accepted, so nothing was written: set "accepted" to true. {reasons}'
        )
    described = {**described, out.stem: {"file_name": out.name, **_LAYOUT}}
    written = [(out, json.dumps(records, indent=1)), (info, json.dumps(described, indent=1))]
    write_durably([(path, text.encode()) for path, text in written])
    return PlanExport(len(documents) - len(left_out), len(records), tuple(left_out))


def _documents(file: Path) -> list[tuple[str, bytes]]:
    """Return the JSON documents in a file, or in the run of a folder, with their places."""
    source = file / "records.jsonl" if file.is_dir() else file
    data = arguments.regular_file(source, "a file of plans").read_bytes()
    documents = data.strip().split(b"\n") if source.suffix == ".jsonl" else [data]
    return [(f"{source}:{n}", document) for n, document in enumerate(documents, 1)]


def _read_plan(document: Mapping[str, Any], least: Mapping[str, float]) -> Plan:
    """Return the plan in a document; raise `BadInput` if it is not accepted."""
    holder = arguments.json_object(document.get("prediction", document), "the prediction")
    scores = arguments.json_object(document.get("scores", {}), "the scores")
    plan = Plan.from_dict(holder.get("plan", document))
    reached = bool(least) and all(
        isinstance(score := scores.get(name), int | float) and score >= limit
        for name, limit in least.items()
    )
    if document.get("accepted", plan.accepted or reached) is not True:
        raise BadInput('"accepted" is not true, and the scores do not reach those of --least')
    return plan


def _decisions(plan: Plan) -> Iterator[dict[str, Any]]:
    """Yield the records of both decisions of each round."""
    planner = MLLMPlanner(ScriptedMLLM(()), plan.settings)
    actions = {round_.action for round_ in plan.rounds}
    searchers = sorted(a.removeprefix("searcher:") for a in actions if a.startswith("searcher:"))
    picture, scale = query_picture(Path(plan.image) if plan.image else None)
    state = PlanState(plan.question, (plan.question,), picture, searchers=searchers)
    for number, round_ in enumerate(plan.rounds, 1):
        pictures = [plan.image, *pictures_of(state.recent)]
        files = [str(Path(file).resolve()) for file in pictures if file]
        choice: dict[str, Any] = {"reason": round_.why[1], "action": round_.action}
        if round_.region and picture:  # in percent, as the prompt asks
            sides = zip(round_.region, picture.size * 2, strict=True)
            percents = (round(100 * edge / (side * scale), 1) for edge, side in sides)
            choice["region"] = [min(max(percent, 0.0), 100.0) for percent in percents]
        after = replace(state, queries=round_.queries)
        current = state if plan.settings.modelling == "parallel" else after
        reformulated = {"reason": round_.why[0], "queries": round_.queries, "clear": round_.clear}
        yield _record(planner.request("reformulation", state), reformulated, files)
        yield _record(planner.request("action", current), choice, files)
        state = replace(after, rounds=plan.rounds[:number])


def _record(request: Request, reply: Mapping[str, Any], files: Sequence[str]) -> dict[str, Any]:
    """Return a record; each picture has a mark in the prompt and a path."""
    message = request.messages[-1]
    images = files[: len(message.pictures)]
    prompt = "<image>" * len(images) + _without_marks(message.text)
    answer = _without_marks(json.dumps(reply, ensure_ascii=False))
    turns = [{"role": "user", "content": prompt}, {"role": "assistant", "content": answer}]
    return {"messages": turns, "images": images}


def _without_marks(text: str) -> str:
    """Return a text without the marks that LLaMA-Factory takes for media."""
    return re.sub("<(image|video|audio)>", r"(\1)", text)
