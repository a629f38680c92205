"""OpenAI's API of embeddings: the vectors of the encoder of a base."""

from __future__ import annotations

from base64 import b64encode
from typing import Annotated, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from ku_rag import pictures
from ku_rag.encoders.base import Encoder, Vectors
from ku_rag.serve.bodies import read_picture
from ku_rag.serve.served_base import ServedBase

router = APIRouter(prefix="/v1")


class EmbeddingRequest(BaseModel):
    """Texts, and pictures as data URIs; other fields of OpenAI's API are ignored."""

    model: str = Field(min_length=1, examples=["default"])
    input: str | Annotated[list[str], Field(min_length=1, max_length=256)]
    encoding_format: Literal["float", "base64"] = "float"

    def encode(self, encoder: Encoder) -> tuple[list[Vectors], int]:
        """Return float32[dim] of each input, and the number of tokens of the texts."""
        vectors, tokens = [], 0
        for item in [self.input] if isinstance(self.input, str) else self.input:
            if item.startswith("data:"):
                picture = pictures.fit_picture(read_picture(item)[0])[0]
                vectors.append(encoder.encode_images([picture])[0])
            else:
                vectors.append(encoder.encode_texts([item])[0])
                tokens += encoder.count_tokens(item)
        return vectors, tokens


@router.post("/embeddings")
async def embed(request: Request, body: EmbeddingRequest) -> Response:
    """Encode texts and pictures with the encoder of a base."""
    base: ServedBase = request.app.state.bases.find(body.model, request.state.key)
    vectors, tokens = await base.read(lambda kb: body.encode(kb.encoder))
    is_text = body.encoding_format == "base64"
    embeddings = [b64encode(row.tobytes()).decode() if is_text else row.tolist() for row in vectors]
    data = [
        {"object": "embedding", "index": number, "embedding": embedding}
        for number, embedding in enumerate(embeddings)
    ]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return base.respond({"object": "list", "data": data, "model": base.name, "usage": usage})
