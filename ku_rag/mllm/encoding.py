"""The chat-completions format: encode requests, decode replies."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Collection, Sequence
from typing import Any

from PIL import Image

from ku_rag.errors import ModelFailed
from ku_rag.mllm.base import Message, Picture, Reply, Request, remove_control_characters
from ku_rag.mllm.call_errors import BOUNDS, PicturesNotSeen, TruncatedReply
from ku_rag.mllm.prompts import without_control_tokens

_JPEG_QUALITY = 90
_THOUGHTS = re.compile(
    r"\A.*</(?:think|thinking|thought|reasoning)>|<(?:think|thinking|thought|reasoning)>.*\Z",
    re.DOTALL | re.IGNORECASE,
)
"""Reasoning up to its last end, or one that does not end."""
OBJECT_FORMATS = ("json_schema", "json_object")
"""Response formats for an object, the most exact first; without them it is requested in words."""
_IN_WORDS = (
    "Reply with one JSON object and nothing else: no code fence, no words before or after it. "
    "It must fit this JSON schema:\n"
)
_NOT_SHOWN = "(The endpoint takes one picture: the others of this message are not shown.)"
_NOT_SEEN = "(You see no pictures: those of this message are not shown.)"
_CHARACTERS_PER_TOKEN, _TOKENS_PER_PICTURE = 3, 1000
"""Estimates, on the high side, for endpoints that do not report token counts."""


def encode_request(
    request: Request, model: str, image_side: int, rejected: Collection[str] = ()
) -> dict[str, Any]:
    """Return a request as JSON with pictures as data URLs, without what is `rejected`."""
    messages = request.messages
    if not {"pictures", "vision"}.isdisjoint(rejected):
        messages = _with_fewer_pictures(messages, keep_one="vision" not in rejected)
        if sum(len(message.pictures) for message in messages) < request.needed_pictures:
            message = f"the model {model!r} sees no pictures, or not several: name one that does"
            raise PicturesNotSeen(f"{message} as vision_mllm; `ku models ping` tries it again")
    body: dict[str, Any] = {"model": model}
    for name in ("temperature", "max_tokens"):
        value = getattr(request, name)
        if name == "max_tokens" and name in rejected:
            name = "max_completion_tokens"
        if value is not None and name not in rejected:
            body[name] = value
    if request.schema is not None:
        # Strict formats demand that a schema requires all of its properties.
        schema = dict(request.schema)
        schema["required"] = [*schema.get("properties", schema.get("required", ()))]
        if "json_schema" not in rejected:
            wanted = {"name": "reply", "strict": True, "schema": schema}
            if "bounds" in rejected:
                wanted = json.loads(
                    json.dumps(wanted),
                    object_pairs_hook=lambda pairs: {k: v for k, v in pairs if k not in BOUNDS},
                )
            body["response_format"] = {"type": "json_schema", "json_schema": wanted}
        else:
            *before, last = messages
            in_words = without_control_tokens(json.dumps(schema, ensure_ascii=False))
            parts = (*last.parts, _IN_WORDS + in_words)
            messages = (*before, Message(last.role, parts))
            if "json_object" not in rejected:
                body["response_format"] = {"type": "json_object"}
    body["messages"] = [_encode_message(message, image_side) for message in messages]
    return body


def _with_fewer_pictures(messages: Sequence[Message], *, keep_one: bool) -> tuple[Message, ...]:
    """Return messages without pictures, or with the first of the last message that shows one."""
    pictures = [[p for p in message.pictures if not p.sharp] for message in messages]
    (kept, *_) = next((group for group in reversed(pictures) if group and keep_one), [None])
    result = []
    for message in messages:
        parts = tuple(p for p in message.parts if p is kept or not isinstance(p, Picture))
        if len(parts) < len(message.parts):
            parts = (*parts, _NOT_SHOWN if keep_one else _NOT_SEEN)
        result.append(Message(message.role, parts))
    return tuple(result)


def _encode_message(message: Message, image_side: int) -> dict[str, Any]:
    if not message.pictures:
        # Some servers accept lists of parts for models with vision only.
        return {"role": message.role, "content": remove_control_characters(message.text)}
    content: list[dict[str, Any]] = []
    for part in message.parts:
        if isinstance(part, Picture):
            url = data_url(part, image_side)
            content.append({"type": "image_url", "image_url": {"url": url}})
        else:
            content.append({"type": "text", "text": remove_control_characters(part)})
    return {"role": message.role, "content": content}


def data_url(picture: Picture, image_side: int) -> str:
    """Return a picture, scaled down if a side is longer than `image_side` pixels and not sharp."""
    image, kind = picture.image.convert("RGB"), "png"
    if not picture.sharp:
        image, kind = fitted(image, image_side), "jpeg"
    buffer = io.BytesIO()
    image.save(buffer, kind, quality=_JPEG_QUALITY)
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"


def fitted(image: Image.Image, side: int) -> Image.Image:
    """Return the image, scaled down if a side is longer than `side` pixels."""
    scale = side / max(image.size)
    if scale >= 1:
        return image
    width, height = (max(1, round(edge * scale)) for edge in image.size)
    return image.resize((width, height), Image.Resampling.BICUBIC, reducing_gap=3.0)


def decode_reply(body: object, request: Request, model: str) -> Reply:
    """Return the reply in the JSON value of a successful response to a request."""
    fields = body if isinstance(body, dict) else {}
    choices = fields.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise ModelFailed(
            "the endpoint's reply holds no choices[0].message, which the chat-completions "
            "interface requires: check the address"
        )
    message = choices[0].get("message")
    message = message if isinstance(message, dict) else {}
    reply = _text(message.get("content"))
    usage = fields.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    return Reply(
        text=reply,
        prompt_tokens=_count(usage.get("prompt_tokens"), _estimate(*request.messages)),
        completion_tokens=_count(
            usage.get("completion_tokens"), _estimate(Message("assistant", (reply,)))
        ),
        model=model,
    )


def check_complete(body: Any, reply: Reply) -> None:  # noqa: ANN401 - JSON
    """Raise an error if the reply in a response is cut, withheld or empty."""
    choice, text = body["choices"][0], reply.text
    message, reason = choice.get("message"), choice.get("finish_reason")
    message = message if isinstance(message, dict) else {}
    if reason == "length":
        raise TruncatedReply(
            f"the model's reply was truncated at its maximum length (it ends with {text[-40:]!r}): "
            "raise mllm_max_reply_tokens, or allow a longer context at the endpoint",
            reply,
        )
    if reason == "content_filter":
        raise ModelFailed("the endpoint's content filter withheld the reply: change the question")
    if refusal := message.get("refusal"):
        raise ModelFailed(
            f"the model refuses to reply: {remove_control_characters(str(refusal))[:200]}"
        )
    if not text:
        fields = ("reasoning_content", "reasoning", "content")
        thought = any(str(message.get(field) or "").strip() for field in fields)
        raise ModelFailed(
            "the model's reply is empty"
            + (", it holds only reasoning" if thought else "")
            + ": check whether the model supports pictures and has room for a reply"
        )


def _text(content: object) -> str:
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        content = "".join(part for part in parts if isinstance(part, str))
    if not isinstance(content, str):
        return ""
    return remove_control_characters(_THOUGHTS.sub("", content)).strip()


def _count(reported: object, estimate: int) -> int:
    return reported if type(reported) is int and reported >= 0 else estimate


def _estimate(*messages: Message) -> int:
    texts = sum(len(message.text) for message in messages)
    pictures = sum(len(message.pictures) for message in messages)
    return -(-texts // _CHARACTERS_PER_TOKEN) + pictures * _TOKENS_PER_PICTURE
