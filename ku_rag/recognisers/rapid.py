"""Words by RapidOCR, whose package carries the models of PP-OCR."""

from __future__ import annotations

from importlib.metadata import version

import numpy as np
from PIL import Image

from ku_rag.pictures import clipped
from ku_rag.plugins import extra
from ku_rag.types import Word

_MOST_LONG = 4
"""Greatest ratio of the sides of a picture that is read; others are padded."""


class RapidRecogniser:
    """Reads Latin and Chinese print, line by line."""

    def __init__(self) -> None:
        options = {"Global.log_level": "error", "EngineConfig.onnxruntime.intra_op_num_threads": 1}
        self._read = extra("ocr", "rapidocr").RapidOCR(params=options)
        self.fingerprint = f"rapidocr:{version('rapidocr')}"

    def read(self, image: Image.Image) -> list[Word]:
        """See `Recogniser`."""
        # It scales the shorter side to 736 pixels: a line of 1 x 1600 would become a million wide.
        least = max(image.size) // _MOST_LONG
        padded = Image.new("RGB", (max(image.width, least), max(image.height, least)), "white")
        padded.paste(image)
        output = self._read(np.asarray(padded)[:, :, ::-1])  # it expects BGR
        if output.boxes is None:
            return []
        return [
            Word(text, clipped((*box.min(0), *box.max(0)), image.size), round(float(score), 4))
            for text, box, score in zip(output.txts, output.boxes, output.scores, strict=True)
        ]
