"""A multimodal model as planner: one prompt for each of the two decisions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

from ku_rag.errors import ModelFailed, NotFound
from ku_rag.mllm.base import MLLM, Message, Part, Picture, Request
from ku_rag.mllm.encoding import fitted
from ku_rag.mllm.prompts import fenced, load_prompts
from ku_rag.mllm.structured_output import BOOLEAN, LINE, choice, list_of, object_schema
from ku_rag.papers.cogplanner.plan import ACTIONS, PlanSettings, pictures_of
from ku_rag.papers.cogplanner.planner import Choice, PlanState, Reformulation
from ku_rag.papers.cogplanner.rule_planner import decide_by_rule
from ku_rag.pictures import load_picture
from ku_rag.types import Box

_LONGEST_SIDE = 1024
_PICTURE_SIDE = 512
"""Greatest sides of the question's picture and of pictures that were found, px."""
_MOST_QUERIES = 5

_QUERIES = object_schema("queries", reason=LINE, queries=list_of(LINE), clear=BOOLEAN)
_BOX = {"type": "array", "items": {"type": "number"}, "minItems": 4, "maxItems": 4}


class MLLMPlanner:
    """Asks a model for both decisions; where a reply is unusable, `decide_by_rule` decides."""

    def __init__(self, mllm: MLLM, settings: PlanSettings, *, prompts: Path | None = None) -> None:
        self._mllm, self._modelling = mllm, settings.modelling
        self._actions = settings.actions or ACTIONS
        self._prompts = load_prompts("ku_rag.papers.cogplanner", prompts)

    def decide(self, state: PlanState) -> tuple[Reformulation, Choice]:
        """Return the reformulated query and the chosen action; see `Planner`."""
        if self._modelling == "sequential":
            reformulation = self._reformulate(state)
            return reformulation, self._choose(replace(state, queries=reformulation.queries))
        with ThreadPool(2) as pool:
            first = pool.apply_async(self._reformulate, (state,))
            second = pool.apply_async(self._choose, (state,))
            return first.get(), second.get()

    def _reformulate(self, state: PlanState) -> Reformulation:
        fields, details = self._ask("reformulation", state)
        if not fields:
            return replace(decide_by_rule(state)[0], **details)
        lines = (" ".join(query.split()) for query in fields["queries"])
        queries = tuple(dict.fromkeys(filter(None, lines)))[:_MOST_QUERIES] or state.queries
        return Reformulation(queries, fields.get("clear", queries == state.queries), **details)

    def _choose(self, state: PlanState) -> Choice:
        fields, details = self._ask("action", state)
        if not fields:
            return replace(decide_by_rule(state)[1], **details)
        return Choice(fields["action"], _pixels(fields.get("region"), state), **details)

    def request(self, decision: str, state: PlanState) -> Request:
        """Return the request for a decision, "reformulation" or "action"."""
        parts: list[Part] = []
        if state.picture:
            parts.append(Picture(fitted(state.picture, _LONGEST_SIDE)))
        pictures = pictures_of(state.recent)
        parts += [Picture(load_picture(Path(file), _PICTURE_SIDE)) for file in pictures]
        lines: list[dict[str, Any]] = [{"query": query} for query in state.queries]
        lines += [{"round": n, "done": round_.action} for n, round_ in enumerate(state.rounds, 1)]
        lines += [{"picture": n, "shows": title} for n, title in enumerate(pictures.values(), 1)]
        lines += [{"about": hit.title, "text": hit.text} for hit in state.recent]
        schema, values = _QUERIES, {"question": state.question, "data": fenced(lines)}
        if decision == "action":
            searchers = [f"searcher:{name}" for name in state.searchers]
            actions = [
                name for name in self._actions if state.picture or name not in ("image", "region")
            ]
            action = choice(actions + searchers)
            schema = object_schema("action", reason=LINE, action=action, region=_BOX)
            listed = ", ".join(f'"{name}"' for name in searchers)
            values["searchers"] = listed and f"- {listed}: search outside the collection."
        filled = self._prompts[decision].fill(**values)
        left_out = "|".join(name for name in ACTIONS if name not in self._actions)
        if decision == "action" and left_out:
            filled = re.sub(rf'(?m)^- "(?:{left_out})":.*\n', "", filled)
        return Request((Message("user", (*parts, filled)),), schema, temperature=0.0)

    def _ask(self, decision: str, state: PlanState) -> tuple[Mapping[str, Any], dict[str, Any]]:
        """Return the reply, empty if it is missing or invalid, and `why`, `tokens` or `note`."""
        try:
            reply = self._mllm.chat(self.request(decision, state))
        except (ModelFailed, NotFound) as error:  # also of a picture that was found
            return {}, {"note": f"decided by the embedded planner: {error}"}
        fields = reply.parsed or {}
        why = " ".join(str(fields.get("reason", "")).split())
        return fields, {"why": why, "tokens": reply.completion_tokens}


def _pixels(box: list[float] | None, state: PlanState) -> Box | None:
    """Return a box in percent of the picture's sides in pixels; None if it is empty."""
    if not box or state.picture is None:
        return None
    width, height = state.picture.size
    x0, y0, x1, y1 = (min(max(edge, 0.0), 100.0) / 100 for edge in box)
    pixels = round(x0 * width), round(y0 * height), round(x1 * width), round(y1 * height)
    return pixels if pixels[0] < pixels[2] and pixels[1] < pixels[3] else None
