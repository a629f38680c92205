"""Questions to a multimodal model, many at once; answers in the order of the questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path as File
from typing import Any

from PIL.Image import Image

from ku_rag.errors import BadInput, BudgetSpent, ModelFailed, NotFound
from ku_rag.graph.search_result import Note
from ku_rag.mllm.base import MLLM, Message, Picture, Reply, Request
from ku_rag.mllm.encoding import fitted
from ku_rag.pictures import load_picture

LONGEST_SIDE = 1024
"""Pixels: what the paper resizes all pictures to (section 5.1)."""

_TEMPERATURE = 0.0


@dataclass(frozen=True, slots=True)
class AgentQuestion:
    """What a model is asked.

    Args:
        text: the words, which come after the pictures.
        pictures: in memory, or files that are read when their turn has come.
        schema: JSON schema of the reply; None for a text.
        needs_pictures: it is not asked where none of them can be shown.
    """

    text: str
    pictures: Sequence[Image | File] = ()
    schema: Mapping[str, Any] | None = None
    needs_pictures: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a question.

    Args:
        reply: None where there is none that can be used.
        problem: why there is none.
        spent: there is none because the budget is used up.
        left_out: why pictures were not shown.
    """

    reply: Reply | None
    problem: str = ""
    spent: bool = False
    left_out: tuple[str, ...] = ()

    @property
    def said(self) -> Mapping[str, Any]:
        """The object in the reply; empty where there is none."""
        return (self.reply and self.reply.parsed) or {}

    def note(self, said: str = "", remark: str = "") -> Note:
        """The account of it.

        Args:
            said: what the reply comes to.
            remark: what else was wrong with it.
        """
        problem = "" if self.spent else self.problem
        reply = self.reply or Reply("")
        return Note(
            said=said,
            remark="; ".join(filter(None, (problem, *self.left_out, remark))),
            calls=int(not self.spent),
            cached=int(reply.cached),
            prompt_tokens=reply.prompt_tokens,
            completion_tokens=reply.completion_tokens,
            failed=bool(problem),
            spent=self.problem if self.spent else "",
        )


def ask_all(mllm: MLLM, questions: Sequence[AgentQuestion], *, workers: int) -> list[Outcome]:
    """Ask a model many questions at once.

    Args:
        mllm: the model; it may let fewer of them through at a time.
        questions: what it is asked.
        workers: most questions at once, at least 1.

    Returns:
        What came of each, in the order of the questions. A failed one hinders no other.
    """
    if not questions:
        return []
    pool = ThreadPoolExecutor(min(workers, len(questions)), "ku-agent")
    try:
        return list(pool.map(lambda question: ask(mllm, question), questions))
    finally:  # also when interrupted: what has not begun is not begun
        pool.shutdown(cancel_futures=True)


def ask(mllm: MLLM, question: AgentQuestion) -> Outcome:
    """Ask a model one question."""
    shown: list[Picture] = []
    left_out: list[str] = []
    for picture in question.pictures:
        try:
            shown.append(Picture(_shown(picture)))
        except (BadInput, NotFound) as error:
            left_out.append(str(error))
    if question.needs_pictures and not shown:
        problem = "none of its pictures can be shown, so the model was not asked"
        return Outcome(None, problem, left_out=tuple(left_out))
    message = Message("user", (*shown, question.text))
    try:
        reply = mllm.chat(Request((message,), schema=question.schema, temperature=_TEMPERATURE))
    except (ModelFailed, BudgetSpent) as error:
        spent = isinstance(error, BudgetSpent)
        return Outcome(None, str(error), spent=spent, left_out=tuple(left_out))
    return Outcome(reply, left_out=tuple(left_out))


def _shown(picture: Image | File) -> Image:
    if isinstance(picture, File):
        picture = load_picture(picture, LONGEST_SIDE)
    return fitted(picture, LONGEST_SIDE)
