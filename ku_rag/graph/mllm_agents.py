"""The agents, asked of a multimodal model (MH-MMKG, section 4): one model, a prompt for each.

What the paper leaves open is chosen here: the prompts are in words of our own, each agent replies
with a JSON object, and entities are named in it, not numbered, so that a reply can be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path as File
from typing import Any, TypeVar

from ku_rag.graph.mllm_calls import AgentQuestion, Outcome, ask, ask_all
from ku_rag.graph.model import Entity, Graph, Path, Step
from ku_rag.graph.search_result import Note
from ku_rag.graph.search_types import Query, Verdict
from ku_rag.graph.summary import Captions, Knowledge
from ku_rag.mllm import prompts
from ku_rag.mllm.base import MLLM
from ku_rag.mllm.prompts import Placeholders, Prompt
from ku_rag.text.tokens import content_words, name_key, words

WORKERS = 16

_MOST_TOPICS = 300
_LONGEST_OF_NEIGHBOUR = 400
_LONGEST_NAME = 60
_MOST_NAMES = 5
_T = TypeVar("_T")

_ASKED = frozenset({"question", "data"})
_PLACEHOLDERS: Mapping[str, Placeholders] = {
    "perceive": Placeholders(required=frozenset({"question"}), optional=frozenset({"data"})),
    "topic": Placeholders(required=_ASKED),
    "expand": Placeholders(required=_ASKED),
    "validate": Placeholders(required=_ASKED, optional=frozenset({"pictures", "caption"})),
    "answer": Placeholders(required=_ASKED),
    "describe": Placeholders(optional=frozenset({"data"})),
}


def _replying(**keys: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "type": "object",
        "properties": keys,
        "required": list(keys),
        "additionalProperties": False,
    }


_TEXT: Mapping[str, Any] = {"type": "string"}
_TOPIC = _replying(reason=_TEXT, topic=_TEXT)
_USEFUL = _replying(reason=_TEXT, useful={"type": "array", "items": _TEXT})
_ENOUGH = _replying(reason=_TEXT, enough={"type": "boolean"})
_CAPTIONED = _replying(caption=_TEXT, reason=_TEXT, enough={"type": "boolean"})

_SHOWN = "The pictures show the last entity of the path; they may be moments of one scene."
_CAPTION = (
    '- "caption": what the pictures show, in at most three sentences, first of all what bears on '
    "the question."
)


@dataclass(frozen=True, slots=True)
class AgentPrompts:
    """The prompts of the perceiver, the three agents, the summariser and the captioner."""

    perceive: Prompt
    topic: Prompt
    expand: Prompt
    validate: Prompt
    answer: Prompt
    describe: Prompt

    @classmethod
    def load(cls, folder: File | None = None) -> AgentPrompts:
        """Those of the project, each replaced by the file of its name in `folder`.

        Raises:
            NotFound: the folder is not there.
            BadInput: a file in it is no prompt.
        """
        found = (
            prompts.load_prompt("ku_rag.graph", name, places, folder)
            for name, places in _PLACEHOLDERS.items()
        )
        return cls(*found)


class ModelAgents:
    """Agents that ask a multimodal model, all that a round asks at once.

    A reply that is missing, or is no object as it was asked for, counts as "nothing" and is noted;
    when the model's budget is spent, what it has replied so far counts. One search at a time.

    Args:
        mllm: the model.
        graph: the graph that is searched; it is read by the calling thread.
        captions: whose captions of the entities' pictures are told. With "online", validation is
            shown the pictures of each path's end and says what they show.
        captioner: see `Knowledge`.
        workers: most questions at once.
        prompts: in whose words; by default those of the project.
    """

    def __init__(
        self,
        mllm: MLLM,
        graph: Graph,
        *,
        captions: Captions = "human",
        captioner: str = "",
        workers: int = WORKERS,
        prompts: AgentPrompts | None = None,
    ) -> None:
        self.knowledge = Knowledge(graph, captions, captioner)
        self._mllm, self._workers = mllm, workers
        self._prompts = prompts or AgentPrompts.load()
        self._notes: list[Note] = []

    def notes(self) -> Sequence[Note]:
        """What there is to tell of the last questions; see `Noting`."""
        return self._notes

    def perceive(self, query: Query) -> Query:
        """The query with its pictures in words: ŝ = P(Q). As it is, where there is no reply."""
        data = [{"known": query.hints}] if query.hints else []
        text = self._prompts.perceive.fill(question=query.question, data=_fenced(data))
        outcome = ask(self._mllm, AgentQuestion(text, query.pictures))
        said = outcome.reply.text.strip() if outcome.reply else ""
        self._notes = [outcome.note(said)]
        return replace(query, perception=said)

    def topic(self, query: Query, among: Sequence[Entity]) -> Entity | None:
        """The topic entity that the model names; else one whose name stands in the query."""
        self._notes = [Note()]
        if not among:
            return None
        shown = _likeliest(query, among)
        cut = (
            f"of {len(among):,} topics {len(shown):,} were shown" if len(shown) < len(among) else ""
        )
        names = list(dict.fromkeys(entity.name for entity in shown))
        text = self._prompts.topic.fill(
            question=query.question, data=_fenced([*_given(query), {"topics": names}])
        )
        outcome = ask(self._mllm, AgentQuestion(text, schema=_TOPIC))
        named = [outcome.said["topic"]] if outcome.said else []
        chosen, unknown = matched(named, [((e.name, e.unit or ""), e) for e in shown])
        remarks = [cut, _unknown(unknown)]
        if not chosen and (chosen := _standing_in(query.text, shown)):
            remarks.append(f"{chosen[0].name} stands in the query, so it is taken")
        said = _with_reason(chosen[0].name if chosen else "none", outcome)
        self._notes = [outcome.note(said, "; ".join(filter(None, remarks)))]
        return chosen[0] if chosen else None

    def expand(
        self, query: Query, opened: Sequence[tuple[Path, Sequence[Step]]]
    ) -> list[list[Step]]:
        """The steps to the neighbours that the model names; see `Agents`."""
        given = _given(query)
        asking = [n for n, (_, steps) in enumerate(opened) if steps]
        questions = [
            AgentQuestion(
                self._prompts.expand.fill(
                    question=query.question,
                    data=_fenced([*given, *self._along(path), *map(self._neighbour, steps)]),
                ),
                schema=_USEFUL,
            )
            for path, steps in (opened[n] for n in asking)
        ]
        outcomes = ask_all(self._mllm, questions, workers=self._workers)
        kept: list[list[Step]] = [[] for _ in opened]
        self._notes = [Note() for _ in opened]
        for n, outcome in zip(asking, outcomes, strict=True):
            named = outcome.said.get("useful", [])
            kept[n], unknown = matched(named, [(_names(step), step) for step in opened[n][1]])
            said = _with_reason(", ".join(s.tail.name for s in kept[n]) or "none", outcome)
            self._notes[n] = outcome.note(said, _unknown(unknown))
        return kept

    def validate(self, query: Query, paths: Sequence[Path]) -> list[Verdict]:
        """What the model says of each path; see `Agents`."""
        if any(not path.steps for path in paths):
            self.knowledge.forget()
        given = _given(query)
        questions = []
        for path in paths:
            online = self.knowledge.captions == "online"
            pictures = self.knowledge.pictures(path.end) if online else ()
            text = self._prompts.validate.fill(
                question=query.question,
                data=_fenced([*given, *self._along(path)]),
                pictures=_SHOWN if pictures else "",
                caption=_CAPTION if pictures else "",
            )
            questions.append(AgentQuestion(text, pictures, _CAPTIONED if pictures else _ENOUGH))
        outcomes = ask_all(self._mllm, questions, workers=self._workers)
        verdicts = [_verdict(outcome) for outcome in outcomes]
        for path, verdict in zip(paths, verdicts, strict=True):
            if verdict.caption:
                self.knowledge.add(path.end, verdict.caption)
        self._notes = [
            outcome.note(_with_reason("enough" if verdict.enough else "not enough", outcome))
            for outcome, verdict in zip(outcomes, verdicts, strict=True)
        ]
        return verdicts

    def _along(self, path: Path) -> list[dict[str, str]]:
        """The path, and what is known of each entity on it."""
        entities = {entity.row: entity for entity in path.entities}.values()
        known = [{"entity": entity.name, **self.knowledge.about(entity)} for entity in entities]
        return [{"path": path.text}, *known]

    def _neighbour(self, step: Step) -> dict[str, str]:
        told = {
            "neighbour": step.tail.name,
            "relation": step.relation,
            "information": step.information,
            "condition": step.condition,
            **self.knowledge.about(step.tail, _LONGEST_OF_NEIGHBOUR),
        }
        return {key: value for key, value in told.items() if value}


# ---- what is said to the model ------------------------------------------------------------------


def _given(query: Query) -> list[dict[str, Any]]:
    """What goes with the question: z, and s or ŝ."""
    said = {"known": query.hints, "shown": query.perception}
    return [{key: text} for key, text in said.items() if text]


def _fenced(lines: Sequence[Mapping[str, Any]]) -> str:
    return prompts.fenced(lines) if lines else ""


def _likeliest(query: Query, among: Sequence[Entity]) -> list[Entity]:
    """The topics that a model can be shown: those that share most words with the query."""
    if len(among) <= _MOST_TOPICS:
        return list(among)
    asked = frozenset(content_words(query.text))
    shared = [len(asked.intersection(words(entity.name))) for entity in among]
    best = sorted(range(len(among)), key=lambda n: -shared[n])[:_MOST_TOPICS]
    return [among[n] for n in sorted(best)]


def _standing_in(text: str, among: Sequence[Entity]) -> list[Entity]:
    """The topics whose names stand in a text word for word, the longest first."""
    padded = f" {name_key(text)} "
    keys = ((name_key(entity.name), entity) for entity in among)
    found = [(key, entity) for key, entity in keys if key and f" {key} " in padded]
    return [entity for _, entity in sorted(found, key=lambda one: -len(one[0]))]


# ---- what the model said ------------------------------------------------------------------------


def matched(
    named: Sequence[str], among: Sequence[tuple[Iterable[str], _T]]
) -> tuple[list[_T], list[str]]:
    """What a model means by the names that it gives, whatever their case, spaces and marks.

    Args:
        named: what it says.
        among: what there is, each with the names that it may be called by.

    Returns:
        All that is meant, in the order in which it is named, each once; and the names that nothing
        there bears.
    """
    bearing: dict[str, list[int]] = {}
    for n, (names, _) in enumerate(among):
        for key in {_bare(name) for name in names} - {""}:
            bearing.setdefault(key, []).append(n)
    meant: dict[int, None] = {}
    unknown = []
    for name in named:
        found = bearing.get(_bare(name), [])
        meant.update(dict.fromkeys(found))
        if not found and name.strip():
            unknown.append(name.strip())
    return [among[n][1] for n in meant], unknown


def _bare(name: str) -> str:
    return "".join(words(name)) or name.strip()


def _names(step: Step) -> tuple[str, ...]:
    """How a model may call a step: by its tail, by the relation and the tail, or as it is told."""
    tail = step.tail
    return (tail.name, tail.unit or "", f"{step.relation} {tail.name}", step.text)


def _unknown(names: Sequence[str]) -> str:
    if not names:
        return ""
    told = ", ".join(repr(name[:_LONGEST_NAME]) for name in names[:_MOST_NAMES])
    more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
    return f"named and left out, for nothing that was shown is called so: {told}{more}"


def _verdict(outcome: Outcome) -> Verdict:
    enough = outcome.said.get("enough", False)
    return Verdict(enough, float(enough), outcome.said.get("caption", "").strip())


def _with_reason(said: str, outcome: Outcome) -> str:
    reason = " ".join(outcome.said.get("reason", "").split())
    return f"{said}: {reason}" if reason else said
