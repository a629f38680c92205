"""Concurrent questions to a multimodal model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.pool import ThreadPool
from pathlib import Path as File
from typing import Any

from PIL.Image import Image

from ku_rag.errors import BadInput, BudgetSpent, KuError, ModelFailed, NotFound
from ku_rag.graph.search_types import TraceEntry
from ku_rag.mllm.base import MLLM, Message, Picture, Reply, Request
from ku_rag.mllm.encoding import fitted
from ku_rag.pictures import load_picture

LONGEST_SIDE = 1024
"""Greatest side of a picture, px (MH-MMKG, section 5.1)."""
WORKERS = 16
"""Greatest number of concurrent questions."""


@dataclass(frozen=True, slots=True)
class AgentQuestion:
    """A text, and pictures or their files; if it needs them and none is seen, it is not asked."""

    text: str
    pictures: Sequence[Image | File] = ()
    schema: Mapping[str, Any] | None = None
    needs_pictures: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """The reply of a model, or why none can be used, and why pictures were left out."""

    reply: Reply | None
    failure: KuError | None = None
    left_out: tuple[str, ...] = ()

    @property
    def problem(self) -> str:
        """The message of the failure; "" if there is a reply."""
        return str(self.failure or "")

    @property
    def spent(self) -> bool:
        """Whether the model's budget is used up."""
        return isinstance(self.failure, BudgetSpent)

    @property
    def fields(self) -> Mapping[str, Any]:
        """The JSON object of the reply; empty if there is none."""
        return (self.reply and self.reply.parsed) or {}

    @property
    def text(self) -> str:
        """The text of the reply; "" if there is none."""
        return self.reply.text.strip() if self.reply else ""

    def note(self, answer: str = "", remark: str = "") -> TraceEntry:
        """Return a trace entry with an answer in words, and what else was wrong with it."""
        problem = "" if self.spent else self.problem
        reply = self.reply or Reply("")
        return TraceEntry(
            said=answer,
            remark="; ".join(filter(None, (problem, *self.left_out, remark))),
            calls=int(not self.spent),
            cached=int(reply.cached),
            prompt_tokens=reply.prompt_tokens,
            completion_tokens=reply.completion_tokens,
            failed=bool(problem),
            spent=self.problem if self.spent else "",
        )


def ask_all(mllm: MLLM, questions: Sequence[AgentQuestion]) -> list[Outcome]:
    """Ask questions concurrently, and return their outcomes in order."""
    if not questions:
        return []
    # An interrupt leaves this pool at once: nothing waits for its threads.
    with ThreadPool(min(WORKERS, len(questions))) as pool:
        return pool.map(lambda question: _ask(mllm, question), questions, chunksize=1)


def _ask(mllm: MLLM, question: AgentQuestion) -> Outcome:
    pictures: list[Picture] = []
    left_out: list[str] = []
    for picture in question.pictures:
        try:
            image = load_picture(picture, LONGEST_SIDE) if isinstance(picture, File) else picture
            pictures.append(Picture(fitted(image, LONGEST_SIDE)))
        except (BadInput, NotFound) as error:
            left_out.append(str(error))
    if question.needs_pictures and not pictures:
        unseen = BadInput("none of its pictures can be shown, so the model was not asked")
        return Outcome(None, unseen, tuple(left_out))
    message = Message("user", (*pictures, question.text))
    try:
        needed = int(question.needs_pictures)
        request = Request((message,), question.schema, temperature=0.0, needed_pictures=needed)
        reply = mllm.chat(request)
    except (ModelFailed, BudgetSpent) as error:
        return Outcome(None, error, tuple(left_out))
    return Outcome(reply, left_out=tuple(left_out))
