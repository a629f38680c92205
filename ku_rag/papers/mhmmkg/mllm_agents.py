"""Agents of a multimodal model (MH-MMKG, section 4): one model, one prompt for each agent.

The paper does not give its prompts. Here, each agent replies with a JSON object that contains the
names of entities rather than numbers, so that a trace is readable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from ku_rag.graph.mllm_calls import AgentQuestion, Outcome, ask_all
from ku_rag.graph.model import Entity, Graph, Path, Step
from ku_rag.graph.search_types import AgentTrace, Query, TraceEntry, left_out, most_similar
from ku_rag.graph.summary import Captions, Knowledge
from ku_rag.mllm.base import MLLM, MeteredMLLM
from ku_rag.mllm.call_errors import CallError
from ku_rag.mllm.prompts import Prompt, fenced, load_prompts
from ku_rag.mllm.structured_output import BOOLEAN, LINE, TEXT, choice, list_of, object_schema
from ku_rag.text.tokens import is_named, name_key, words

_MOST_TOPICS = 249
"""With "" for none of them 250: OpenAI limits the length of longer lists of choices."""
_LONGEST_OF_NEIGHBOUR = 400
_LONGEST_NAME = 60
_MOST_NAMES = 5
_T = TypeVar("_T")

_ENOUGH = object_schema("enough", reason=LINE, enough=BOOLEAN)
_CAPTIONED = object_schema("enough", caption=TEXT, reason=LINE, enough=BOOLEAN)

_SHOWN = "The pictures show the last entity of the path; they may be moments of one scene."
_CAPTION = (
    '- "caption": what the pictures show, in at most three sentences, first of all what bears on '
    "the question."
)


class ModelAgents(AgentTrace):
    """Agents that ask a multimodal model, the questions of a round concurrently, for one search.

    An unusable reply selects nothing, and is noted. With the captions "online", validation receives
    the pictures of each path's end and describes them.
    """

    def __init__(
        self,
        mllm: MLLM,
        graph: Graph,
        *,
        captions: Captions = "human",
        captioner: str = "",
        prompts: Mapping[str, Prompt] | None = None,
    ) -> None:
        super().__init__()
        self.knowledge = Knowledge(graph, captions, captioner)
        self._mllm = mllm if isinstance(mllm, MeteredMLLM) else MeteredMLLM(mllm)
        self._graph = graph
        self._prompts = prompts or load_prompts("ku_rag.papers.mhmmkg")
        self._is_reached = False

    def perceive(self, query: Query) -> Query:
        """Return the query with a description of its pictures, ŝ = P(Q), or "" without a reply."""
        data = [{"known": query.hints}] if query.hints else []
        text = self._prompts["perceive"].fill(question=query.question, data=fenced(data))
        (outcome,) = self._ask(AgentQuestion(text, query.pictures, needs_pictures=True))
        self.record("perception", query.question, outcome.note(outcome.text))
        return replace(query, perception=outcome.text)

    def topic(self, query: Query, among: Sequence[Entity]) -> Entity | None:
        """Return the topic that the model names, e0 = L(q, z, E_o), or one that the query names."""
        if not among:
            self.record("topic", query.question, TraceEntry(said="none"))
            return None
        places = most_similar(query, [entity.name for entity in among], _MOST_TOPICS)
        topics = [among[n] for n in places]
        cut = left_out("topics", len(topics), len(among))
        names = list(dict.fromkeys(entity.name for entity in topics))
        data = fenced([*query_lines(query), {"topics": names}])
        text = self._prompts["topic"].fill(question=query.question, data=data)
        schema = object_schema("topic", reason=LINE, topic=choice([*names, ""]))
        (outcome,) = self._ask(AgentQuestion(text, schema=schema))
        named = [outcome.fields["topic"]] if outcome.fields else []
        chosen, unknown = matched(named, [((e.name, e.unit or ""), e) for e in topics])
        remarks = [cut, _remark_unknown(unknown)]
        named_topics = [topic for topic in topics if is_named(topic.name, query.text)]
        if not chosen and named_topics:
            chosen = [max(named_topics, key=lambda topic: len(name_key(topic.name)))]
            remarks.append(f"{chosen[0].name} is named in the query, so it was selected")
        answer = _with_reason(chosen[0].name if chosen else "none", outcome)
        remark = "; ".join(filter(None, remarks))
        self.record("topic", query.question, outcome.note(answer, remark))
        return chosen[0] if chosen else None

    def expand(self, query: Query, opened: Sequence[Path], most: int) -> list[list[Step]]:
        """Return the relations that the model selects to extend each open path (eq. 5)."""
        offers, questions = [], []
        for path in opened:
            steps = self._graph.hop(path.end)
            texts = [f"{s.relation} {s.tail.name} {s.information} {s.condition}" for s in steps]
            choices = [steps[n] for n in most_similar(query, texts, most)]
            offers.append((path, choices, left_out("relations", len(choices), len(steps))))
            lines = [*self._context(query, path), *map(self._neighbour, choices)]
            text = self._prompts["expand"].fill(question=query.question, data=fenced(lines))
            if choices:
                useful = list_of(choice(step.tail.name for step in choices))
                schema = object_schema("useful", reason=LINE, useful=useful)
                questions.append(AgentQuestion(text, schema=schema))
        outcomes = iter(self._ask(*questions))
        selected: list[list[Step]] = []
        for path, choices, cut in offers:
            outcome = next(outcomes) if choices else None
            named = outcome.fields.get("useful", []) if outcome else ()
            chosen, unknown = matched(named, [(_names(step), step) for step in choices])
            selected.append(chosen)
            names = ", ".join(step.tail.name for step in chosen) or "none"
            remark = "; ".join(filter(None, (cut, _remark_unknown(unknown))))
            entry = TraceEntry(said=names)
            if outcome:
                entry = outcome.note(_with_reason(names, outcome), remark)
            self.record("expansion", path.text, entry)
        return selected

    def validate(self, query: Query, paths: Sequence[Path]) -> list[bool]:
        """Return whether each path is sufficient (eq. 8); the topic alone is a path, too."""
        questions = []
        for path in paths:
            online = self.knowledge.captions == "online" and self._mllm.sees_pictures
            pictures = self.knowledge.pictures(path.end) if online else ()
            text = self._prompts["validate"].fill(
                question=query.question,
                data=fenced(self._context(query, path)),
                pictures=_SHOWN if pictures else "",
                caption=_CAPTION if pictures else "",
            )
            schema = _CAPTIONED if pictures else _ENOUGH
            questions.append(AgentQuestion(text, pictures, schema))
        verdicts = []
        outcomes = self._ask(*questions)
        for path, outcome in zip(paths, outcomes, strict=True):
            enough = outcome.fields.get("enough", False)
            caption = outcome.fields.get("caption", "").strip()
            verdicts.append(enough)
            if caption and self._mllm.sees_pictures:
                self.knowledge.add(path.end, caption)
            answer = _with_reason("enough" if enough else "not enough", outcome)
            self.record("validation", path.text, outcome.note(answer))
        return verdicts

    def answer(self, query: Query, evidence: Sequence[Mapping[str, str]]) -> Outcome:
        """Answer the query from evidence, ŷ = MLLM(Q, ℵ(Î, G, A, α)) (eq. 11)."""
        data = fenced([*query_lines(query), *evidence])
        text = self._prompts["answer"].fill(question=query.question, data=data)
        pictures = () if self._mllm.vision else query.pictures
        (outcome,) = self._ask(AgentQuestion(text, pictures))
        self.round = max((entry.round for entry in self.trace), default=0)
        self.record("answer", query.question, outcome.note(outcome.text))
        return outcome

    def _ask(self, *questions: AgentQuestion) -> list[Outcome]:
        """Ask concurrently; `CallError` if the endpoint has answered no question of this search."""
        outcomes = ask_all(self._mllm, questions)
        calls = (outcome.failure for outcome in outcomes if isinstance(outcome.failure, CallError))
        failures = [failure for failure in calls if not failure.is_of_request]
        self._is_reached = self._is_reached or len(failures) < len(outcomes)
        if failures and not self._is_reached:
            raise failures[0]
        return outcomes

    def _context(self, query: Query, path: Path) -> list[dict[str, str]]:
        """Return hints and perception, the path, and the attributes of its entities."""
        entities = {entity.row: entity for entity in path.entities}.values()
        lines = [{"entity": entity.name, **self.knowledge.about(entity)} for entity in entities]
        return [*query_lines(query), {"path": path.text}, *lines]

    def _neighbour(self, step: Step) -> dict[str, str]:
        fields = {
            "neighbour": step.tail.name,
            "relation": step.relation,
            "information": step.information,
            "condition": step.condition,
            **self.knowledge.about(step.tail, _LONGEST_OF_NEIGHBOUR),
        }
        return {key: value for key, value in fields.items() if value}


def query_lines(query: Query) -> list[dict[str, str]]:
    """Return the hints z and the perception s or ŝ, as far as there are any."""
    fields = {"known": query.hints, "shown": query.perception}
    return [{key: text} for key, text in fields.items() if text]


def matched(
    named: Sequence[str], among: Sequence[tuple[Iterable[str], _T]]
) -> tuple[list[_T], list[str]]:
    """Return the distinct candidates that a reply names, in its order, and unknown names."""
    by_key: dict[str, list[int]] = {}
    for n, (names, _) in enumerate(among):
        for key in {_key(name) for name in names} - {""}:
            by_key.setdefault(key, []).append(n)
    matches: dict[int, None] = {}
    unknown = []
    for name in named:
        places = by_key.get(_key(name), [])
        matches.update(dict.fromkeys(places))
        if not places and name.strip():
            unknown.append(name.strip())
    return [among[n][1] for n in matches], unknown


def _key(name: str) -> str:
    return "".join(words(name)) or name.strip()


def _names(step: Step) -> tuple[str, ...]:
    """Return how a reply may name a relation: by its tail, by relation and tail, or in full."""
    tail = step.tail
    return (tail.name, tail.unit or "", f"{step.relation} {tail.name}", step.text)


def _remark_unknown(names: Sequence[str]) -> str:
    if not names:
        return ""
    listed = ", ".join(repr(name[:_LONGEST_NAME]) for name in names[:_MOST_NAMES])
    more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
    return f"ignored, because they were not among the choices: {listed}{more}"


def _with_reason(answer: str, outcome: Outcome) -> str:
    reason = " ".join(outcome.fields.get("reason", "").split())
    return f"{answer}: {reason}" if reason else answer
