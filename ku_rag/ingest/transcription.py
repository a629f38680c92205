"""Pages without text that a multimodal model transcribes, in place of a recogniser."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from ku_rag import arguments
from ku_rag.errors import KuError
from ku_rag.mllm import load_mllm
from ku_rag.mllm.base import MLLM, Message, MeteredMLLM, Picture, Request
from ku_rag.mllm.prompts import load_prompts
from ku_rag.pictures import fit_picture
from ku_rag.settings import Settings
from ku_rag.types import Word

TRANSCRIBED = "mllm:"
"""The fingerprint of a transcription is this and the name of the model."""
_MOST_FAILURES = 3
"""Failures in a row after which the model is not asked again."""
_AROUND = re.compile(r"\A```\w*\n|\n```\Z|\ANO TEXT\Z")


class Transcriber:
    """Asks a model, by name or as an object, for pages in Markdown; `mllm` has the replies."""

    def __init__(self, model: str | MLLM, settings: Settings, prompts: Path | None) -> None:
        arguments.implementation(model, "read_pages", "chat", optional=False)
        mllm = load_mllm(replace(settings, mllm=model)) if isinstance(model, str) else model
        assert mllm is not None
        self.mllm = MeteredMLLM(mllm)
        self.fingerprint = f"{TRANSCRIBED}{getattr(mllm, 'model', 'model')}"
        self._prompt = load_prompts("ku_rag.ingest", prompts)["transcription"].fill()
        self._failures = list[KuError]()

    def read_file(self, page: bytes) -> tuple[str, list[Word]]:
        """Return the fingerprint, and the paragraphs of a page, each with the box of the page.

        Raises:
            ModelFailed, BudgetSpent: The model does not reply, or has failed three times in a row.
        """
        if len(self._failures) == _MOST_FAILURES:
            raise self._failures[-1]
        image, size = fit_picture(page)
        message = Message("user", (Picture(image, sharp=True), self._prompt))
        try:
            reply = self.mllm.chat(Request((message,), temperature=0.0, needed_pictures=1))
        except KuError as error:
            self._failures.append(error)
            raise
        self._failures.clear()
        paragraphs = re.split(r"\n\s*\n", _AROUND.sub("", reply.text.strip()))
        return self.fingerprint, [Word(p, (0, 0, *size), 1.0) for p in paragraphs if p.strip()]
