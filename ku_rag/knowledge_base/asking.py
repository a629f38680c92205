"""Questions: a picture and a sentence, answered or looked for."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image

from ku_rag import arguments, manifest, pictures
from ku_rag.answering import pipeline
from ku_rag.errors import BadInput
from ku_rag.knowledge_base.held import Held
from ku_rag.retrieval.image_matching import Eyes
from ku_rag.store import unit_records
from ku_rag.store.database import snapshot
from ku_rag.types import Answer

_COMPARED = 160
"""Stored pictures are compared in about this many pixels."""
_MOST_FOUND = 100_000


class Asking(Held):
    """What is asked of a knowledge base."""

    def query(
        self,
        image: str | Path | Image | None,
        question: str,
        *,
        k: int | None = None,
        passage: str | Path | None = None,
        report: str | Path | None = None,
        kcc: bool = True,
        units: bool = True,
        graph: bool = True,
    ) -> Answer:
        """Answer a question about a picture from what is known.

        Args:
            image: a picture file or an RGB picture; None asks without one.
            question: a sentence.
            k: most chunks of evidence.
            passage: PNG file to write the multimodal passage to; further pages get a number.
            report: HTML file to write the whole story of the answer to.
            kcc: False asks a multimodal model once, question and evidence together, instead of
                correcting its own answer (KU-RAG, section 4.5, "w/o KCC").
            units: False searches texts alone, by the question and the model's caption of the
                picture ("w/o KU").
            graph: False leaves out the graph's paths from the matched units.

        Raises:
            NotFound: the picture is not there.
            BadInput: the picture cannot be read, the question is empty, or a page cannot be
                written where it should go.
            ModelFailed, BudgetSpent: the multimodal model did not answer.
        """
        shown = pictures.given(image)
        if shown is not None:
            self._images.refresh()
        return pipeline.ask(
            self._retrieval(),
            image=shown,
            question=arguments.text(question, "the question"),
            k_units=self.settings.k_units,
            k_chunks=self.settings.k_chunks if k is None else _most(k),
            passage=arguments.optional_output(passage, "the passage", spare=shown),
            report=arguments.optional_output(report, "the report"),
            mllm=self._models.mllm,
            kcc=kcc,
            with_units=units,
            with_paths=graph,
            prompts=self.path / self.settings.prompts if self.settings.prompts else None,
        )

    def search(
        self,
        *,
        image: str | Path | Image | None = None,
        text: str = "",
        vector: NDArray[np.float32] | None = None,
        k: int = 10,
    ) -> dict[str, builtins.list[dict[str, Any]]]:
        """Find units and chunks for a picture, a text, or both; or chunks for a vector.

        Args:
            image: a picture file or an RGB picture.
            text: words to look for.
            vector: float32[dim] of length 1, made elsewhere: the chunks nearest to it are found,
                and neither picture nor text may be given.
            k: most units, and most chunks.

        Returns:
            "units" with id, name and score, and "chunks".

        Raises:
            BadInput: none was given, or the picture or the vector cannot be read.
        """
        given = None
        if vector is not None:
            if image is not None or text:
                raise BadInput("a vector is searched for by itself: leave out picture and text")
            shape = {"vector": (1, self._chunks.dim)}
            given = arguments.ready_vectors({"vector": [vector]}, expected=shape)["vector"]
        # Before the one state is read that is searched: files may be of a later state by then.
        (self._chunks if image is None else self._images).refresh()
        with snapshot(self._database.connection):
            return pipeline.find(
                self._retrieval(),
                image=pictures.given(image),
                text=arguments.text(text, "the text"),
                vector=given,
                k=_most(k),
            )

    def _retrieval(self) -> pipeline.Retrieval:
        manifest.check(self._database, self.encoder)
        eyes = Eyes(
            encoder=self.encoder,
            segmenter=lambda: self.segmenter,
            images=self._images,
            picture=self._picture,
            threshold=self.settings.region_threshold,
            background="mask" if self.settings.region_background == "mask" else "keep",
        )
        return pipeline.Retrieval(self._database, self._layout, eyes, self._chunks)

    def _picture(self, row: int) -> Image:
        """The stored picture of a row, decoded no larger than comparing needs."""
        return unit_records.picture(self._database.connection, self._layout, row, _COMPARED)


def _most(k: object) -> int:
    return arguments.count(k, "k", least=1, most=_MOST_FOUND)
