"""The seam to multimodal models: what is asked, and what comes back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from ku_rag.errors import BadInput
from ku_rag.mllm.schema import unknown_words

if TYPE_CHECKING:
    from PIL.Image import Image

Role = Literal["system", "user", "assistant"]

_KEPT = {
    "text": str,
    "prompt_tokens": int,
    "completion_tokens": int,
    "finish_reason": str,
    "model": str,
}


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture in a message.

    Args:
        image: RGB, of any size; it is made smaller before it is sent.
        sharp: sent without loss, as pages of text should be.
    """

    image: Image
    sharp: bool = False


Part = str | Picture


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation: texts and pictures in the order in which they are read."""

    role: Role
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """Its texts, one paragraph each."""
        return "\n\n".join(part for part in self.parts if isinstance(part, str))

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """Its pictures."""
        return tuple(part for part in self.parts if isinstance(part, Picture))


@dataclass(frozen=True, slots=True)
class Request:
    """What a model is asked.

    Args:
        messages: the conversation so far; the last one is the user's.
        schema: JSON schema of the object that the reply must be; None asks for a text. Of the
            language those words may be used that `ku_rag.mllm.schema` checks.
        temperature: 0 to 2; None leaves it to the endpoint.
        max_tokens: longest reply, at least 1; None leaves it to the endpoint.
        seed: for endpoints that take one; None for none.

    Raises:
        BadInput: there is no message, or the schema uses words that are not checked.
    """

    messages: tuple[Message, ...]
    schema: Mapping[str, Any] | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        """Check what was given."""
        if not self.messages or self.messages[-1].role != "user":
            raise BadInput("a request ends with a message of the role user: add one")
        if self.schema is not None and (unknown := unknown_words(self.schema)):
            raise BadInput(
                f"the schema uses {', '.join(unknown)}, which replies are not checked for: "
                "leave it out"
            )


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model said, whole: a reply that was cut or withheld is an error instead.

    Args:
        text: its words.
        parsed: the object that fits the request's schema; None where none was asked for.
        prompt_tokens: tokens of the question, as the endpoint counts them; 0 if it does not.
        completion_tokens: those of the reply.
        finish_reason: why it ended, in the endpoint's word.
        model: who said it, as it was asked for.
        cached: taken from the reply cache, so that it cost nothing now.
    """

    text: str
    parsed: Mapping[str, Any] | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    finish_reason: str = "stop"
    model: str = ""
    cached: bool = False

    def to_dict(self) -> dict[str, Any]:
        """As it is written to a cache or a recording; `cached` is not part of it."""
        kept = {name: getattr(self, name) for name in _KEPT}
        return kept | {"parsed": None if self.parsed is None else dict(self.parsed)}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Reply:
        """As it was written.

        Raises:
            KeyError, TypeError: it is none.
        """
        wrong = [name for name, kind in _KEPT.items() if type(fields[name]) is not kind]
        if wrong or not isinstance(fields["parsed"], dict | None):
            raise TypeError(f"no reply: {', '.join(wrong) or 'parsed'}")
        return cls(**{name: fields[name] for name in (*_KEPT, "parsed")})


@runtime_checkable
class MLLM(Protocol):
    """A multimodal language model. `chat` may be called by several threads at once."""

    def chat(self, request: Request) -> Reply:
        """Continue a conversation by one reply.

        Raises:
            ModelFailed: there is no whole reply, or none that fits the request's schema.
            BudgetSpent: the calls or tokens that it may use are used up.
        """
        ...
