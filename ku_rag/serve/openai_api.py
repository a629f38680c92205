"""OpenAI's API: each base is a model that always retrieves; vectors of its encoder."""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal
from uuid import uuid4

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from ku_rag import pictures
from ku_rag.encoders.base import Encoder, Vectors
from ku_rag.errors import BadInput
from ku_rag.serve.bodies import sends
from ku_rag.serve.served_base import ServedBase
from ku_rag.types import NO_ANSWER

router = APIRouter(prefix="/v1")


class MessagePart(BaseModel):
    """A text, or a picture as a data URI; no address is fetched."""

    type: str = "text"
    text: str = ""
    image_url: dict[str, str] = {}


class ChatMessage(BaseModel):
    """A message of a conversation."""

    role: str
    content: str | list[MessagePart] | None = None


class ChatRequest(BaseModel):
    """A conversation, and options of `ku query`; other fields of OpenAI's API are ignored."""

    model: str = Field(min_length=1, examples=["default"])
    messages: list[ChatMessage] = Field(examples=[[{"role": "user", "content": "Who built it?"}]])
    stream: bool = False
    k: int | None = None
    kind: str | None = None
    where: list[str] = []
    unit: str | None = None
    method: str = ""

    def question(self) -> tuple[str, str | None]:
        """Return the text of the last user message and the last picture of the user."""
        contents = [message.content or "" for message in self.messages if message.role == "user"]
        parts = [[MessagePart(text=item)] if isinstance(item, str) else item for item in contents]
        images = [part.image_url.get("url", "") for of in parts for part in of if part.image_url]
        text = "\n".join(part.text for of in parts[-1:] for part in of).strip()
        if not text:
            raise BadInput('the last message of the role "user" has no text: ask something')
        return text, images[-1] if images else None


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
                picture = pictures.fit_picture(pictures.read_data_uri(item))[0]
                vectors.append(encoder.encode_images([picture])[0])
            else:
                vectors.append(encoder.encode_texts([item])[0])
                tokens += encoder.count_tokens(item)
        return vectors, tokens


@router.get("/models")
async def list_models(request: Request) -> dict[str, Any]:
    """List the knowledge bases as models."""
    about = {"object": "model", "created": 0, "owned_by": "ku-rag"}
    bases = request.app.state.bases.visible(request.state.key)
    return {"object": "list", "data": [{"id": base.name, **about} for base in bases]}


@router.post("/chat/completions", **sends("text/event-stream"))
async def complete(request: Request, body: ChatRequest) -> Response:
    """Answer the last question of a conversation; the field "ku" has the evidence and region."""
    base: ServedBase = request.app.state.bases.find(body.model, request.state.key)
    question, image = body.question()
    options: Any = body.model_dump(include={"k", "kind", "where", "unit", "method"})
    picture = None if image is None else pictures.read_data_uri(image)
    answer = await base.read(lambda kb: kb.query(picture, question, **options).to_dict())
    prompt, reply = (answer["usage"].get(f"{kind}_tokens", 0) for kind in ("prompt", "completion"))
    usage = {"prompt_tokens": prompt, "completion_tokens": reply, "total_tokens": prompt + reply}
    head = {"id": f"chatcmpl-{uuid4().hex}", "created": int(time.time()), "model": base.name}
    message = {"role": "assistant", "content": answer["answer"] or NO_ANSWER[answer["outcome"]]}
    end = {"index": 0, "finish_reason": "stop"}
    if not body.stream:
        completion = {"object": "chat.completion", "choices": [end | {"message": message}]}
        return base.respond(head | completion | {"usage": usage, "ku": answer})

    async def chunks() -> AsyncIterator[tuple[None, object]]:
        part = head | {"object": "chat.completion.chunk"}
        first = {"index": 0, "delta": message, "finish_reason": None}
        yield None, part | {"choices": [first]}
        yield None, part | {"choices": [end | {"delta": {}}], "usage": usage, "ku": answer}
        yield None, "[DONE]"

    return await base.events(chunks())


@router.post("/embeddings")
async def embed(request: Request, body: EmbeddingRequest) -> Response:
    """Encode texts and pictures with the encoder of a base."""
    base: ServedBase = request.app.state.bases.find(body.model, request.state.key)
    vectors, tokens = await base.read(lambda kb: body.encode(kb.encoder))
    is_text = body.encoding_format == "base64"
    rows = [b64encode(row.tobytes()).decode() if is_text else row.tolist() for row in vectors]
    data = [{"object": "embedding", "index": n, "embedding": row} for n, row in enumerate(rows)]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return base.respond({"object": "list", "data": data, "model": base.name, "usage": usage})
