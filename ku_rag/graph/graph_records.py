"""What a file says of a graph, whatever its format: entities described, relations stated.

A relation may come before the entities that it joins, so a file is held whole: of a relation about
500 bytes. `linking` then says which units all of this is about.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ku_rag import arguments
from ku_rag.errors import BadInput
from ku_rag.pictures import locate_picture
from ku_rag.types import IngestReport, Quarantined

VIDEOS = "videos"
"""The key of a unit's metadata that names the videos of an entity, as absolute paths."""

KEPT = frozenset(
    {"entity", "id", "kind", "topic", "aliases", "caption", "text", "texts", "images", "videos"}
    | {"keyframes", "unit", "metadata", "match"}
)
"""The fields of an entity that mean something; others become metadata."""

_LONGEST_NAME = 1_000
_CONTROL = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029]+")


Statement = tuple[str, str, str, str | None, str | None, str | None]
"""A relation as a file states it: what `STATED` names, in that order.

A plain tuple: of a million of anything else Python looks at each again and again.
"""

STATED = ("head", "relation", "tail", "information", "condition", "tail_kind")
"""Id or name of the entity where it starts, its word, id or name of the entity where it ends, more
about it, when it holds; when a kind is given, the tail is but a name of this kind, unless a unit is
meant by it."""


@dataclass(frozen=True, slots=True)
class Described:
    """An entity as a file describes it.

    Args:
        id: its identity in the file: its full name unless one was given.
        name: what people call it.
        kind: monster, attack …
        topic: whether a question may be about it as a whole.
        aliases: further names.
        caption: of its pictures or video, by people.
        texts: what else is known.
        images: pictures and keyframes, resolved.
        videos: resolved; frames are taken of them where there are no pictures.
        unit: id or name of the unit that it is said to be.
        metadata: anything else, videos included.
        match: whether its names are looked up in texts; None: if it is a topic.
        partial: some of its pictures could not be found: those that are stored stay.
    """

    id: str
    name: str
    kind: str | None = None
    topic: bool = False
    aliases: tuple[str, ...] = ()
    caption: str = ""
    texts: tuple[str, ...] = ()
    images: tuple[Path, ...] = ()
    videos: tuple[str, ...] = ()
    unit: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    match: bool | None = None
    partial: bool = False


@dataclass(slots=True)
class Part:
    """What one file says, or the folder of one sub-graph.

    Args:
        uri: of its sources, before "#": where entities are described.
        stated: the same where relations are stated, of entities that are described elsewhere.
        entities: by id.
        statements: in their order.
        names: what to call entities that are not described, by id, where it is not their id.
        problems: what was left out.
        whole: whether all of it could be read; then what it does not say any more is gone.
    """

    uri: str
    stated: str
    entities: dict[str, Described] = field(default_factory=dict)
    statements: list[Statement] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    problems: list[Quarantined] = field(default_factory=list)
    whole: bool = True

    def describe(self, entity: Described, where: str) -> bool:
        """Take an entity in; one of an id that is there already is left out, which is False."""
        if entity.id in self.entities:
            self.leave_out(
                where,
                f"entity {entity.id!r} is described more than once: the first is kept, give every "
                "entity an id of its own",
            )
            return False
        self.entities[entity.id] = entity
        return True

    def leave_out(self, where: str, reason: str, *, unread: bool = False) -> None:
        """Note what cannot be taken in.

        Args:
            where: file and line, or what else finds it.
            reason: one sentence.
            unread: it may have been anything that was read from here before.
        """
        self.problems.append(Quarantined(where, reason))
        self.whole = self.whole and not unread


@dataclass(slots=True)
class GraphReport(IngestReport):
    """What an import of a graph did.

    Args:
        only_named: entities that relations end at and nobody describes.
    """

    only_named: int = 0

    def to_dict(self) -> dict[str, Any]:
        """As `ku ingest --json` prints it, with "only_named"."""
        shape = IngestReport.to_dict(self)
        return {**shape, "only_named": self.only_named}


# ---- from fields to entities and statements ----------------------------------------------------


def clean(name: str) -> str:
    """A name in one spelling: composed characters, single spaces, no control characters."""
    if name.isascii() and name.isprintable() and "  " not in name:
        return name.strip()
    return " ".join(_CONTROL.sub(" ", unicodedata.normalize("NFC", name)).split())


def described(
    data: Mapping[str, Any],
    locate: Callable[[str], list[Path]],
    locate_video: Callable[[str], Path],
    problems: list[str],
) -> Described:
    """An entity from the fields of a record; see docs/graph.md.

    Args:
        data: "entity" and the others of `KEPT`.
        locate: finds the pictures that a field names.
        locate_video: finds a video.
        problems: takes what is wrong with parts of it.

    Raises:
        BadInput: all of it is wrong.
    """
    name = identity(data, "entity")
    known = identity(data, "id") if data.get("id") is not None else name
    metadata = {key: value for key, value in data.items() if key not in KEPT}
    extra = data.get("metadata") or {}
    if not isinstance(extra, Mapping):
        raise BadInput(f'"metadata" is {shown(extra)}: expected an object in curly brackets')
    metadata |= extra
    images: list[Path] = []
    partial = False
    for one in (*texts(data, "images"), *texts(data, "keyframes")):
        try:
            images += locate(one)
        except BadInput as error:
            problems.append(str(error))
            partial = True
    videos = []
    for one in texts(data, "videos"):
        try:
            videos.append(str(locate_video(one)))
        except BadInput as error:
            problems.append(str(error))
    if VIDEOS in metadata and not is_texts(metadata[VIDEOS]):
        problems.append(f'"videos" is {shown(metadata.pop(VIDEOS))}: expected a list of texts')
    if videos:
        metadata[VIDEOS] = videos
    text = optional(data, "text")
    return Described(
        id=known,
        name=name,
        kind=clean(optional(data, "kind") or "") or None,
        topic=truth(data, "topic") is True,
        aliases=tuple(dict.fromkeys(filter(None, map(clean, texts(data, "aliases"))))),
        caption=optional(data, "caption") or "",
        texts=tuple(
            arguments.text(one, "the text")
            for one in (text or "", *texts(data, "texts"))
            if one.strip()
        ),
        images=tuple(dict.fromkeys(images)),
        videos=tuple(videos),
        unit=clean(optional(data, "unit") or "") or None,
        metadata=metadata,
        match=truth(data, "match"),
        partial=partial,
    )


def picture_in(folder: Path) -> Callable[[str], list[Path]]:
    """Finds the pictures that records of a folder name."""
    return lambda given: [locate_picture(folder, given)]


def video_in(folder: Path) -> Callable[[str], Path]:
    """Finds the videos that records of a folder name."""

    def locate(given: str) -> Path:
        try:
            return locate_picture(folder, given)
        except BadInput as error:
            raise BadInput(
                f"the video {given[:200]!r} is no file inside {folder}: put it there, or correct "
                "its path"
            ) from error

    return locate


def identity(data: Mapping[str, Any], key: str) -> str:
    """A name that is there.

    Raises:
        BadInput: it is not, or is too long to be one.
    """
    given = optional(data, key)
    if given is None:
        seen = "is null" if key in data else "is missing"
        fields = ", ".join(repr(str(one)[:40]) for one in list(data)[:8]) or "no fields"
        raise BadInput(f'"{key}" {seen}: expected a name; there are {fields}')
    return named(given, f'"{key}"')


def named(given: str, what: str) -> str:
    """A text as a name, cleaned.

    Args:
        given: the text.
        what: what it is called in a message.

    Raises:
        BadInput: there is nothing in it, or it is too long.
    """
    found = clean(given)
    if not found:
        raise BadInput(f"{what} is empty: expected a name")
    if len(found) > _LONGEST_NAME:
        raise BadInput(
            f"{what} has {len(found):,} characters, a name at most {_LONGEST_NAME:,}: long texts "
            "belong into a text of the entity"
        )
    return found


def optional(data: Mapping[str, Any], key: str) -> str | None:
    """A text, or None.

    Raises:
        BadInput: it is something else.
    """
    value = data.get(key)
    if not isinstance(value, str | None):
        raise BadInput(f'"{key}" is {shown(value)}: expected a text')
    return value


def texts(data: Mapping[str, Any], key: str) -> list[str]:
    """Several texts.

    Raises:
        BadInput: it is something else.
    """
    value = data.get(key)
    if value is None:
        return []
    if not is_texts(value):
        raise BadInput(f'"{key}" is {shown(value)}: expected a list of texts')
    found: list[str] = value
    return found


def is_texts(value: object) -> bool:
    """Whether it is a list of texts."""
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def truth(data: Mapping[str, Any], key: str) -> bool | None:
    """True, False, or None where nothing is said.

    Raises:
        BadInput: it is something else.
    """
    value = data.get(key)
    if not isinstance(value, bool | None):
        raise BadInput(f'"{key}" is {shown(value)}: expected true or false')
    return value


def shown(value: object) -> str:
    """What a value is, for a message."""
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, Mapping):
        return "an object"
    given = repr(value)
    return given if len(given) <= 60 else given[:60] + "…"
