"""Words by RapidOCR, whose package carries the models of PP-OCR."""

from __future__ import annotations

from importlib.metadata import version

import numpy as np
from PIL.Image import Image

from ku_rag.pictures import clipped
from ku_rag.plugins import extra
from ku_rag.types import Word


class RapidRecogniser:
    """Reads Latin and Chinese print, line by line."""

    def __init__(self) -> None:
        options = {"Global.log_level": "error", "EngineConfig.onnxruntime.intra_op_num_threads": 1}
        self._read = extra("ocr", "rapidocr").RapidOCR(params=options)
        self.fingerprint = f"rapidocr:{version('rapidocr')}"

    def read(self, image: Image) -> list[Word]:
        """See `Recogniser`."""
        output = self._read(np.asarray(image)[:, :, ::-1])  # it expects BGR
        if output.boxes is None:
            return []
        return [
            Word(text, clipped((*box.min(0), *box.max(0)), image.size), round(float(score), 4))
            for text, box, score in zip(output.txts, output.boxes, output.scores, strict=True)
        ]
