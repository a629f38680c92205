"""Encoders of ONNX files: an image tower and, if there is one, a text tower beside it.

A file encoder.json names them and says how pictures and texts are prepared, see docs/models.md.
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import ImageOps
from PIL.Image import Image, Resampling, new

from ku_rag.arguments import STRICT_JSON, regular_file
from ku_rag.encoders.base import Vectors
from ku_rag.encoders.sentence_transformers import token_counter
from ku_rag.encoders.torch_runtime import check_length
from ku_rag.errors import BadInput, KuError, reason
from ku_rag.plugins import extra
from ku_rag.weights.files import content_hash

_Network = Callable[..., Vectors]


def load_network(
    model: str | bytes,
    *,
    input: str,
    output: str = "",
    pooling: str = "first",
    threads: int = 0,
    extra_name: str = "onnx",
) -> _Network:
    """Return a function from a batch of one to its vector, float32[dim], of length 1.

    The function also takes the number of tokens before the padding, None if there is no padding.

    The first output is read if none is named; `pooling` is "first" or "mean" of an output with a
    vector for each token. 0 threads are one per core. `extra_name` is the extra that is named if
    onnxruntime is missing.
    """
    runtime = extra(extra_name, "onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4  # errors are raised
    session = runtime.InferenceSession(model, options, ["CPUExecutionProvider"])
    has_mask = any(entry.name == "attention_mask" for entry in session.get_inputs())

    def encode(batch: NDArray[Any], tokens: int | None = None) -> Vectors:
        inputs = {input: batch}
        if has_mask:
            inputs["attention_mask"] = np.zeros_like(batch)
            inputs["attention_mask"][:, :tokens] = 1
        vector = session.run([output] if output else None, inputs)[0][0]
        if vector.ndim == 2:
            vector = {"first": vector[0], "mean": vector[:tokens].mean(0)}[pooling]
        return np.asarray(vector / max(float(np.linalg.norm(vector)), 1e-12), np.float32)

    return encode


def pixels(
    image: Image,
    size: int,
    mean: Sequence[float],
    std: Sequence[float],
    resize: str = "stretch",
    filter: str = "bicubic",
) -> Vectors:
    """Return an RGB picture as the input of a network, float32[1, 3, size, size].

    `mean` and `std` of each channel are 0 to 1. `resize` is "stretch" to the size in pixels, or
    "crop" for the middle after the shorter side is scaled to it. `filter` is one of Pillow, such as
    "bilinear".
    """
    resample = Resampling[filter.upper()]
    if resize == "crop":
        image = ImageOps.fit(image, (size, size), resample)
    elif resize == "stretch":
        image = image.resize((size, size), resample, reducing_gap=2.0)
    else:
        raise ValueError(f"resize is {resize!r}, not stretch or crop")
    low, width = (np.float32(255 * np.array([[part]], float)).T for part in (mean, std))
    return ((np.ascontiguousarray(np.asarray(image).transpose(2, 0, 1)) - low) / width)[None]


class OnnxEncoder:
    """Encodes with the exported networks of a folder with encoder.json.

    Without a text tower, texts need a second encoder.

    Raises:
        NotFound: a file is missing.
        BadInput: encoder.json or a network is not as expected.
        MissingExtra: onnxruntime or tokenizers is not installed.
    """

    max_tokens = 0

    def __init__(self, argument: str) -> None:
        self._folder = Path(argument).expanduser()
        self._files = [self._file("encoder.json")]
        try:
            settings = STRICT_JSON.decode(self._files[0].read_text(encoding="utf-8"))
            self._run_image, self._preparation = self._tower(settings["image"], "pixel_values")
            self.dim = len(self._encode_image(new("RGB", (64, 64))))
            self.cross_modal = "text" in settings
            if self.cross_modal:
                self._run_text, text = self._tower(settings["text"], "input_ids")
                self._load_tokenizer(**text)
                if len(self._encode_text("a")) != self.dim:
                    raise ValueError("the vectors of texts and pictures differ in length")
        except KuError:
            raise
        except Exception as error:  # onnxruntime and tokenizers raise their own
            raise BadInput(
                f"{self._folder} cannot be used ({type(error).__name__}: {reason(error)}): "
                "docs/models.md shows what its encoder.json states"
            ) from error
        self.fingerprint = f"onnx1:{content_hash(*self._files)}:{self.dim}"

    def encode_texts(self, texts: Sequence[str]) -> Vectors:
        """Encode texts, float32[n, dim]; `BadInput` for one of more than `max_tokens` tokens."""
        check_length(max(map(self.count_tokens, texts), default=0), self)
        rows = {text: self._encode_text(text) for text in dict.fromkeys(texts)}
        return np.array([rows[text] for text in texts], np.float32).reshape(-1, self.dim)

    def encode_images(self, images: Sequence[Image]) -> Vectors:
        """Encode whole RGB pictures, float32[n, dim]."""
        return np.array([*map(self._encode_image, images)], np.float32).reshape(-1, self.dim)

    def _tower(self, settings: Mapping[str, Any], input: str) -> tuple[_Network, dict[str, Any]]:
        """Return the function of a network, and the settings that are not the network's."""
        rest = {"input": input, **settings}
        file = self._file(rest.pop("file"))
        beside = file.parent.glob(f"{glob.escape(file.name)}*")  # weights may lie there
        self._files += sorted(path for path in beside if path.is_file())
        own = {name: rest.pop(name) for name in ("input", "output", "pooling") if name in rest}
        return load_network(str(file), **own), rest

    def _load_tokenizer(
        self, tokens: int, tokenizer: str = "tokenizer.json", pad: int | None = None
    ) -> None:
        self._files.append(self._file(tokenizer))
        self._tokenizer = extra("onnx", "tokenizers").Tokenizer.from_file(str(self._files[-1]))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.count_tokens, marks = token_counter(self._tokenizer)
        self.max_tokens = tokens - marks
        self._padding = [] if pad is None else [pad] * tokens

    def _encode_text(self, text: str) -> Vectors:
        ids = self._tokenizer.encode(text).ids
        padded = np.array([ids + self._padding[len(ids) :]], np.int64)
        return self._run_text(padded, len(ids))

    def _encode_image(self, image: Image) -> Vectors:
        return self._run_image(pixels(image, **self._preparation))

    def _file(self, name: str) -> Path:
        return regular_file(self._folder / name, "a folder with encoder.json and what it names")
