"""The interface to multimodal models: requests, replies and the `MLLM` protocol."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from ku_rag.errors import BadInput

if TYPE_CHECKING:
    from PIL.Image import Image

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture in a message.

    Args:
        image: RGB, of any size; it is scaled down before it is sent, unless it is sharp.
        sharp: encode it without loss and in its size, as pages of text need.
    """

    image: Image
    sharp: bool = False


Part = str | Picture

LONGEST_TEXT = 20_000
"""Characters of a text in a reply that are kept: no answer is longer."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def remove_control_characters(text: str) -> str:
    """Remove control characters, and replace unpaired surrogates with "?"."""
    return _CONTROL.sub("", text).encode("utf-8", "replace").decode("utf-8")


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation: texts and pictures in reading order."""

    role: Role
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """The texts, separated by blank lines."""
        return "\n\n".join(part for part in self.parts if isinstance(part, str))

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """The pictures."""
        return tuple(part for part in self.parts if isinstance(part, Picture))


@dataclass(frozen=True, slots=True)
class Request:
    """A request to a model.

    Args:
        messages: the conversation so far; the last message has the role "user".
        schema: JSON schema (draft 2020-12) of the object to return; None asks for text. All of its
            properties are requested, and those that it does not require may be missing.
        temperature: 0 to 2; None uses the endpoint's default.
        max_tokens: limit of the reply's length, at least 1; None uses that of the settings.
        needed_pictures: number of pictures without which the request fails.

    Raises:
        BadInput: there is no message, or the last one is not the user's.
    """

    messages: tuple[Message, ...]
    schema: Mapping[str, Any] | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    needed_pictures: int = 0

    def __post_init__(self) -> None:
        """Check the messages."""
        if not self.messages or self.messages[-1].role != "user":
            raise BadInput("a request ends with a message of the role user: add one")


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete reply; truncated and withheld replies raise an error instead.

    Args:
        parsed: the object that fits the request's schema; None if no schema was given.
    """

    text: str
    parsed: Mapping[str, Any] | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    model: str = ""
    cached: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that caches and recordings store: all but `cached`."""
        return {name: value for name, value in asdict(self).items() if name != "cached"}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Reply:
        """Restore a reply from `to_dict`; `KeyError` or `TypeError` if it is something else."""
        return cls(**{field.name: stored[field.name] for field in fields(cls)[:-1]})


def usage(replies: Sequence[Reply]) -> dict[str, int]:
    """Return the numbers of replies and tokens; "cached_tokens" are not among the other tokens."""
    paid = [reply for reply in replies if not reply.cached]
    every = sum(reply.prompt_tokens + reply.completion_tokens for reply in replies)
    prompt = sum(reply.prompt_tokens for reply in paid)
    completion = sum(reply.completion_tokens for reply in paid)
    return {
        "replies": len(replies),
        "cached": len(replies) - len(paid),
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "cached_tokens": every - prompt - completion,
    }


@runtime_checkable
class MLLM(Protocol):
    """A multimodal language model. Several threads may call `chat` at the same time."""

    def chat(self, request: Request) -> Reply:
        """Return the model's reply to a conversation.

        Raises:
            ModelFailed: there is no reply, or it does not fit the request's schema.
            BudgetSpent: the limit of calls or tokens is reached.
        """
        ...


@dataclass(frozen=True, slots=True)
class MeteredMLLM:
    """Passes requests on, those with pictures to `vision` if it is set, and collects replies."""

    mllm: MLLM
    replies: list[Reply] = field(default_factory=list)
    vision: MLLM | None = None

    @property
    def sees_pictures(self) -> bool:
        """Whether the model sees pictures, by its property of this name; True without one."""
        return bool(getattr(self.vision or self.mllm, "sees_pictures", True))

    def chat(self, request: Request) -> Reply:
        """Return the model's reply; raises what the model raises."""
        has_pictures = any(message.pictures for message in request.messages)
        mllm = self.vision if self.vision and has_pictures else self.mllm
        reply = mllm.chat(request)
        self.replies.append(reply)
        return reply
