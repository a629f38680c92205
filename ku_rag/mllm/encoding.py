"""The chat-completions format: encode requests, decode replies."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Mapping
from typing import Any

from PIL import Image

from ku_rag.errors import ModelFailed
from ku_rag.mllm.base import Message, Picture, Reply, Request

_JPEG_QUALITY = 90
_THOUGHTS = re.compile(r"\A\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_CHARACTERS_PER_TOKEN, _TOKENS_PER_PICTURE = 3, 1000
"""Estimates, on the high side, for endpoints that do not report token counts."""


def encode_request(request: Request, model: str, image_side: int) -> dict[str, Any]:
    """Return a request as a JSON object with pictures as data URLs.

    Args:
        request: the request.
        model: the endpoint's name of the model.
        image_side: longest side in pixels of the encoded pictures.
    """
    body: dict[str, Any] = {
        "model": model,
        "messages": [_encode_message(message, image_side) for message in request.messages],
    }
    for name in ("temperature", "max_tokens", "seed"):
        if (value := getattr(request, name)) is not None:
            body[name] = value
    if request.schema is not None:
        wanted = {"name": "reply", "strict": True, "schema": dict(request.schema)}
        body["response_format"] = {"type": "json_schema", "json_schema": wanted}
    return body


def _encode_message(message: Message, image_side: int) -> dict[str, Any]:
    if not message.pictures:
        # Some servers accept lists of parts for models with vision only.
        return {"role": message.role, "content": remove_control_characters(message.text)}
    content: list[dict[str, Any]] = []
    for part in message.parts:
        if isinstance(part, Picture):
            url = _picture_url(part, image_side)
            content.append({"type": "image_url", "image_url": {"url": url}})
        else:
            content.append({"type": "text", "text": remove_control_characters(part)})
    return {"role": message.role, "content": content}


def _picture_url(picture: Picture, image_side: int) -> str:
    image = fitted(picture.image.convert("RGB"), image_side)
    kind = "png" if picture.sharp else "jpeg"
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


def decode_reply(text: str, sent: Mapping[str, Any]) -> Reply:
    """Return the reply in a response body.

    Args:
        text: the body of a successful response.
        sent: the request's body.

    Raises:
        ValueError, RecursionError: the body is not JSON, or nested too deeply.
        ModelFailed: it reports an error, or holds no complete reply.
    """
    body = json.loads(text)
    choice = _first_choice(body)
    message = choice.get("message")
    message = message if isinstance(message, dict) else {}
    reply = _text(message.get("content"))
    reason = choice.get("finish_reason")
    _check_complete(reply, message, reason)
    usage = body.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    return Reply(
        text=reply,
        prompt_tokens=_count(usage.get("prompt_tokens"), _estimate(sent["messages"])),
        completion_tokens=_count(usage.get("completion_tokens"), _tokens(reply)),
        finish_reason=reason if isinstance(reason, str) else "",
        model=str(sent["model"]),
    )


def _first_choice(body: object) -> dict[str, Any]:
    if isinstance(body, dict):
        choices = body.get("choices")
        if isinstance(choices, list) and choices and isinstance(choices[0], dict):
            return choices[0]
        if reason := error_reason(body):
            raise ModelFailed(f"the endpoint reports an error: {reason}")
    raise ModelFailed(
        "the endpoint's reply holds no choices[0].message, which the chat-completions interface "
        "requires: check the address"
    )


def _check_complete(text: str, message: Mapping[str, Any], reason: object) -> None:
    if reason == "length":
        raise ModelFailed(
            f"the model's reply was truncated at its maximum length (it ends with {text[-40:]!r}): "
            "allow more tokens or a longer context at the endpoint"
        )
    if reason == "content_filter":
        raise ModelFailed("the endpoint's content filter withheld the reply: change the question")
    if refusal := message.get("refusal"):
        raise ModelFailed(
            f"the model refuses to reply: {remove_control_characters(str(refusal))[:200]}"
        )
    if not text:
        thought = bool(message.get("reasoning_content") or message.get("reasoning"))
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


def remove_control_characters(text: str) -> str:
    """Remove control characters, and replace unpaired surrogates with "?"."""
    return _CONTROL.sub("", text).encode("utf-8", "replace").decode("utf-8")


def error_reason(body: object) -> str:
    """Return the message in an error body, one line of at most 300 characters; "" if none."""
    found = body
    for name in ("error", "message", "detail"):
        if isinstance(found, dict) and found.get(name):
            found = found[name]
    if not isinstance(found, str):
        return ""
    return " ".join(remove_control_characters(found).split())[:300]


def _count(reported: object, estimate: int) -> int:
    return reported if type(reported) is int and reported >= 0 else estimate


def _estimate(messages: list[dict[str, Any]]) -> int:
    total = 0
    for message in messages:
        content = message["content"]
        parts = [{"text": content}] if isinstance(content, str) else content
        total += sum(_tokens(p["text"]) if "text" in p else _TOKENS_PER_PICTURE for p in parts)
    return total


def _tokens(text: str) -> int:
    return -(-len(text) // _CHARACTERS_PER_TOKEN)
