"""Encoders behind an endpoint with the embeddings interface of OpenAI."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Sequence
from functools import partial
from multiprocessing.pool import ThreadPool
from typing import Any

import numpy as np
from PIL.Image import Image

from ku_rag.encoders.base import Vectors, sketch
from ku_rag.encoders.torch_runtime import check_length
from ku_rag.errors import BadInput, ModelFailed
from ku_rag.mllm.base import Picture, remove_control_characters
from ku_rag.mllm.client import Endpoint
from ku_rag.mllm.encoding import data_url
from ku_rag.settings import Settings

_PROBE = "A red lighthouse stands on the rocks, and a small boat with two people passes it."
_ITEMS = 16
"""Of a request, if no batch size is stated."""
_PIECE = re.compile(r"[A-Za-z]{1,4}|[^\sA-Za-z]")


class EndpointEncoder:
    """Encodes with a model behind the address in the setting `encoder_url`.

    Tokens are estimated on the high side, so that a text fits models that take 512.

    Args:
        server: "openai" for texts alone; "vllm", which takes a conversation in place of the input,
            "infinity", which takes data URIs, and "llamacpp", which takes a marker beside the data,
            for pictures, too.
        argument: the endpoint's name of the model; "NAME@256" takes the first 256 numbers of its
            vectors, for models that are trained so (Matryoshka).
        settings: `encoder_url`, and those of `Endpoint`.
        batch_size: items in a request; 0 for 16. vLLM takes one.

    Raises:
        ModelFailed: the endpoint does not answer, or not with vectors.
    """

    max_tokens = 400

    def __init__(self, server: str, argument: str, *, settings: Settings, batch_size: int) -> None:
        self._server, self._settings, self._batch_size = server, settings, batch_size
        self.cross_modal = server != "openai"
        name, _, dimensions = argument.rpartition("@")
        is_shortened = name and dimensions.isdecimal()
        self._model = name if is_shortened else argument
        self.dim = self._dimensions = int(dimensions) if is_shortened else 0
        if self.cross_modal and not settings.encoder_url:  # the default is OpenAI's
            raise ModelFailed(
                f"there is no endpoint for {server}:{argument}: set encoder_url (--encoder-url, "
                "OPENAI_BASE_URL), such as http://localhost:8000/v1"
            )
        self._endpoint = Endpoint(settings, self._model, "encoder_url", time.sleep)
        (probe,) = self._request([_PROBE], "text")
        self.dim = len(probe)
        self.fingerprint = f"{server}:{argument}:{self.dim}~{sketch(probe)}"

    def count_tokens(self, text: str) -> int:
        """Return an upper estimate: four letters, or one byte of anything else, are a token."""
        return len(_PIECE.findall(text)) + len(text.encode("utf-8", "replace")) - len(text)

    def encode_texts(self, texts: Sequence[str]) -> Vectors:
        """Encode texts, float32[n, dim]; rows of zeros for those without words.

        `BadInput` for a text of more than `max_tokens` tokens.
        """
        check_length(max(map(self.count_tokens, texts), default=0), self)
        return self._encode([remove_control_characters(text) for text in texts])

    def encode_images(self, images: Sequence[Image]) -> Vectors:
        """Encode whole RGB pictures, float32[n, dim]; large ones scaled to `mllm_image_side`."""
        if not self.cross_modal:
            raise BadInput(
                "openai:NAME encodes texts only: write openai:NAME+embedded or vllm:NAME"
            )
        urls = [data_url(Picture(image), self._settings.mllm_image_side) for image in images]
        return self._encode(urls, "image")

    def _encode(self, items: Sequence[str], modality: str = "text") -> Vectors:
        """Encode equal items once, several requests at a time; items without content are zero."""
        unique = [item for item in dict.fromkeys(items) if item.strip()]
        size = 1 if self._server == "vllm" else self._batch_size or _ITEMS
        batches = [unique[start : start + size] for start in range(0, len(unique), size)]
        vectors = np.zeros((len(items), self.dim), np.float32)
        # An interrupt or an error leaves this pool at once: nothing waits for its threads.
        with ThreadPool(self._settings.mllm_concurrency) as pool:
            parts = pool.imap(lambda batch: self._request(batch, modality), batches)
            rows = dict(zip(unique, itertools.chain.from_iterable(parts), strict=True))
        for vector, item in zip(vectors, items, strict=True):
            vector[:] = rows.get(item, 0)
        return vectors

    def _request(self, batch: Sequence[str], modality: str) -> Vectors:
        """Return the vectors of one request, float32[len(batch), dim]."""
        body: dict[str, Any] = {"model": self._model, "encoding_format": "float"}
        if self._dimensions:
            body["dimensions"] = self._dimensions
        if self._server == "vllm":
            part: dict[str, Any] = {"type": "text", "text": batch[0]}
            if modality == "image":
                part = {"type": "image_url", "image_url": {"url": batch[0]}}
            body["messages"] = [{"role": "user", "content": [part]}]
        else:
            body["input"] = batch
            if modality == "image" and self._server == "llamacpp":
                body["input"] = self._marked(batch)
            elif modality == "image":
                body["modality"] = modality
        answer = self._fetch("POST", "/embeddings", body)
        try:
            data = sorted(answer["data"], key=lambda entry: entry["index"])
            vectors = np.array([entry["embedding"] for entry in data], np.float64)
            vectors = vectors[:, : self._dimensions or None]  # some servers ignore the parameter
        except (TypeError, KeyError, IndexError, ValueError, OverflowError):
            vectors = np.zeros((0, 0))
        expected = (len(batch), self.dim or vectors.shape[1])
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if vectors.shape != expected or not lengths.all() or not np.isfinite(lengths).all():
            raise ModelFailed(
                f"{self._endpoint.url} replied to {len(batch)} inputs for {self._model!r} with "
                f"numbers of the shape {vectors.shape}, expected {expected}, all finite, "
                "and no vector of zeros: check the address and whether the model makes embeddings"
            )
        return np.asarray(vectors / lengths, np.float32)

    def _marked(self, urls: Sequence[str]) -> list[dict[str, Any]]:
        """Return data URIs as llama.cpp takes them, with the marker of pictures of its process."""
        state = self._fetch("GET", "/../props")
        if not (isinstance(state, dict) and (state.get("modalities") or {}).get("vision")):
            raise ModelFailed(
                f"the server at {self._endpoint.url} takes no pictures: expected a current "
                "llama.cpp, started with --embeddings and --mmproj"
            )
        # A text has to follow: llama.cpp ends at a prompt that ends with a picture.
        prompt = state.get("media_marker", "<__media__>") + "\n"
        return [
            {"prompt_string": prompt, "multimodal_data": [url.partition(",")[2]]} for url in urls
        ]

    def _fetch(self, *request: Any) -> Any:  # noqa: ANN401 - JSON
        return self._endpoint.call_with_retries(lambda: self._endpoint.fetch(*request))


openai = partial(EndpointEncoder, "openai")
vllm = partial(EndpointEncoder, "vllm")
infinity = partial(EndpointEncoder, "infinity")
llamacpp = partial(EndpointEncoder, "llamacpp")
