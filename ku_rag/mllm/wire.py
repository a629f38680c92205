"""What goes over the wire: requests as the chat-completions interface has them, and its replies."""

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

_QUALITY = 90
_THOUGHTS = re.compile(r"\A\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_CHARACTERS_A_TOKEN, _TOKENS_A_PICTURE = 3, 1000
"""What is counted where an endpoint counts nothing: rather too much than too little."""


def body(request: Request, model: str, image_side: int) -> dict[str, Any]:
    """A request as JSON, pictures as data URLs.

    Args:
        request: what is asked.
        model: as the endpoint calls it.
        image_side: longest side in pixels that pictures are sent with.
    """
    sent: dict[str, Any] = {
        "model": model,
        "messages": [_message(message, image_side) for message in request.messages],
    }
    for name in ("temperature", "max_tokens", "seed"):
        if (value := getattr(request, name)) is not None:
            sent[name] = value
    if request.schema is not None:
        wanted = {"name": "reply", "strict": True, "schema": dict(request.schema)}
        sent["response_format"] = {"type": "json_schema", "json_schema": wanted}
    return sent


def _message(message: Message, image_side: int) -> dict[str, Any]:
    if not message.pictures:
        # Some servers take a list of parts from models alone that see.
        return {"role": message.role, "content": plain(message.text)}
    content: list[dict[str, Any]] = []
    for part in message.parts:
        if isinstance(part, Picture):
            url = picture_url(part, image_side)
            content.append({"type": "image_url", "image_url": {"url": url}})
        else:
            content.append({"type": "text", "text": plain(part)})
    return {"role": message.role, "content": content}


def picture_url(picture: Picture, image_side: int) -> str:
    """A data URL with the picture no larger than `image_side`, as PNG if sharp, else as JPEG."""
    image = fitted(picture.image.convert("RGB"), image_side)
    buffer = io.BytesIO()
    if picture.sharp:
        image.save(buffer, "PNG")
    else:
        image.save(buffer, "JPEG", quality=_QUALITY)
    kind = "png" if picture.sharp else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"


def fitted(image: Image.Image, side: int) -> Image.Image:
    """The image with no side longer than `side` pixels."""
    scale = side / max(image.size)
    if scale >= 1:
        return image
    width, height = (max(1, round(edge * scale)) for edge in image.size)
    return image.resize((width, height), Image.Resampling.BICUBIC, reducing_gap=3.0)


def read_reply(text: str, sent: Mapping[str, Any]) -> Reply:
    """The reply in what an endpoint sent back.

    Args:
        text: the body of a response that says that all went well.
        sent: the request's body.

    Raises:
        ValueError, RecursionError: it is no JSON, or nested beyond reason.
        ModelFailed: it says that something went wrong, or holds no whole reply.
    """
    said = json.loads(text)
    choice = _choice(said)
    message = choice.get("message")
    message = message if isinstance(message, dict) else {}
    words = _text(message.get("content"))
    reason = choice.get("finish_reason")
    _complain(words, message, reason)
    usage = said.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    return Reply(
        text=words,
        prompt_tokens=_count(usage.get("prompt_tokens"), _estimate(sent["messages"])),
        completion_tokens=_count(usage.get("completion_tokens"), _tokens(words)),
        finish_reason=reason if isinstance(reason, str) else "",
        model=str(sent["model"]),
    )


def _choice(said: object) -> dict[str, Any]:
    if isinstance(said, dict):
        choices = said.get("choices")
        if isinstance(choices, list) and choices and isinstance(choices[0], dict):
            return choices[0]
        if reason := reason_in(said):
            raise ModelFailed(f"the endpoint reports an error: {reason}")
    raise ModelFailed(
        "the endpoint's reply holds no choices[0].message: expected one as the chat-completions "
        "interface has it; see whether its address is right"
    )


def _complain(text: str, message: Mapping[str, Any], reason: object) -> None:
    if reason == "length":
        raise ModelFailed(
            f"the model's reply was cut at its longest length (it ends with {text[-40:]!r}): "
            "allow more tokens or a longer context at the endpoint"
        )
    if reason == "content_filter":
        raise ModelFailed("the endpoint's content filter withheld the reply: ask something else")
    if refusal := message.get("refusal"):
        raise ModelFailed(f"the model refuses to reply: {plain(str(refusal))[:200]}")
    if not text:
        thought = bool(message.get("reasoning_content") or message.get("reasoning"))
        raise ModelFailed(
            "the model's reply is empty"
            + (", it only thought" if thought else "")
            + ": see whether the endpoint's model can see pictures and has room for a reply"
        )


def _text(content: object) -> str:
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        content = "".join(part for part in parts if isinstance(part, str))
    if not isinstance(content, str):
        return ""
    return plain(_THOUGHTS.sub("", content)).strip()


def plain(text: str) -> str:
    """Without control characters, which would reach terminals, and without halves of characters."""
    return _CONTROL.sub("", text).encode("utf-8", "replace").decode("utf-8")


def reason_in(said: object) -> str:
    """What an error's body says in words, on one line of at most 300 characters; "" for nothing."""
    found = said
    for name in ("error", "message", "detail"):
        if isinstance(found, dict) and found.get(name):
            found = found[name]
    if not isinstance(found, str):
        return ""
    return " ".join(plain(found).split())[:300]


def _count(given: object, otherwise: int) -> int:
    whole = isinstance(given, int) and not isinstance(given, bool) and given >= 0
    return given if whole and isinstance(given, int) else otherwise


def _estimate(messages: list[dict[str, Any]]) -> int:
    total = 0
    for message in messages:
        content = message["content"]
        parts = [{"text": content}] if isinstance(content, str) else content
        total += sum(_tokens(p["text"]) if "text" in p else _TOKENS_A_PICTURE for p in parts)
    return total


def _tokens(text: str) -> int:
    return -(-len(text) // _CHARACTERS_A_TOKEN)
