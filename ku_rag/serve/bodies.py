"""Request bodies: fields, pictures and units, from JSON or a form."""

from __future__ import annotations

import base64
import re
import shutil
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_origin

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, BeforeValidator, Field, Json, ValidationError
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from ku_rag import arguments, pictures
from ku_rag.answering.pipeline import QueryEvent
from ku_rag.errors import BadInput
from ku_rag.ingest.readers.records import read_record
from ku_rag.knowledge_base import KnowledgeBase
from ku_rag.papers.graphrag.construction_settings import EvidenceSettings
from ku_rag.serve.access import MAX_BODY
from ku_rag.serve.served_base import ServedBase
from ku_rag.store.uploads import new_folder
from ku_rag.types import Added, Record, Relation, SearchResult, Unit

MAX_PICTURES = 100  # maximum number of pictures of a unit in a request
STORED = re.compile(r"(?:(?:/[\w/.-]*)?/v1/images/)?([0-9a-f]{64})(?:\?.*)?", re.ASCII)
"""The address of a stored picture; the group is its hash."""
_NOT_OF_RECORDS = frozenset({"counts", "sources", "named_in", "facts", "images", "words"})
"""Keys of the JSON of a unit that are not part of a record: "images" is read by `picture_files`."""
_IMAGE = "A data URI, or the address of a stored picture; in a form a file."
_EXAMPLE = "data:image/gif;base64,R0lGODlhAQABAIAAAP///wAAACwAAAAAAQABAAACAkQBADs="

M = TypeVar("M", bound=BaseModel)
Strict = Literal["", "kurag", "mhmmkg", "graphrag", "cogplanner"]


class Fields(BaseModel, extra="forbid"):
    """Fields of a request; others are refused."""


class PictureBody(Fields):
    """A picture, and a filter of units."""

    image: str | None = Field(None, description=_IMAGE, examples=[_EXAMPLE])
    kind: str | None = Field(None, description="Only units of this kind.")
    where: list[str] = Field([], description='Conditions on metadata, such as "calories<100".')

    def picture(self, kb: KnowledgeBase) -> bytes | None:
        """Return the content of the picture."""
        if stored := STORED.fullmatch(self.image or ""):
            return kb.picture(stored[1]).read_bytes()
        return None if self.image is None else pictures.read_data_uri(self.image)


class SearchBody(PictureBody):
    """A picture, a text, or both."""

    text: str = Field("", description="Words to search for.", examples=["red flag"])
    k: int = Field(10, ge=1, le=1000, description="Maximum number of units and of chunks.")
    least: float = Field(0, ge=0, le=1, description="Lowest score of a unit.")

    def find(self, kb: KnowledgeBase) -> SearchResult:
        """Search a base."""
        options = self.model_dump(include={"text", "k", "kind", "where"})
        result = kb.search(image=self.picture(kb), **options)
        units = tuple(unit for unit in result.units if unit.score >= self.least)
        return replace(result, units=units)


class QueryBody(PictureBody):
    """A question; the fields are named like the options of `ku query`."""

    k: int | None = Field(None, ge=1, le=100, description="As for a search; null: as set.")
    question: str = Field(description="A sentence.", examples=["Which country is it from?"])
    unit: str | None = Field(None, description="Id or unique name of the unit that it is about.")
    strict: Strict = Field("", description="A published method alone.")
    method: Literal["", "evidence", "model-only"] = ""
    plan: Literal["", "parallel", "sequential"] = Field("", description="Search in rounds.")
    no_kcc: bool = Field(False, description="Ask the model once, with the evidence.")
    no_units: bool = Field(False, description="Search texts only, by a caption of the picture.")
    no_graph: bool = Field(False, description="Leave out paths of the graph.")
    no_image_matching: bool = Field(False, description="Select no pictures by descriptions.")
    no_visual_evidence: bool = Field(False, description="Ask no pictures.")
    no_table_mining: bool = Field(False, description="Read no tables.")
    stream: bool = Field(False, description="Send each step as an event; the last is the answer.")

    def construction(self) -> EvidenceSettings:
        """Return the settings of an evidence graph."""
        return EvidenceSettings(
            image_matching=not self.no_image_matching,
            visual_evidence=not self.no_visual_evidence,
            table_mining=not self.no_table_mining,
        )

    def events(self, kb: KnowledgeBase) -> Iterator[QueryEvent]:
        """Answer the question; see `KnowledgeBase.query_events`."""
        return kb.query_events(self.picture(kb), self.question, **self.options())

    def options(self) -> dict[str, Any]:
        """Return the keyword arguments of `KnowledgeBase.query`."""
        construction, same = self.construction(), {"k", "kind", "where", "strict", "method", "unit"}
        return self.model_dump(include=same) | {
            "plan": self.plan or None,
            "kcc": not self.no_kcc,
            "units": not self.no_units,
            "graph": not self.no_graph,
            "construction": None if construction == EvidenceSettings() else construction,
        }


class Feedback(Fields):
    """Feedback on a stored answer."""

    verdict: Literal["", "right", "wrong"] = ""
    right_answer: str = Field("", max_length=10_000, description="The right answer.")
    unit: str = Field("", description="Id or name of the unit that it is about, or that is shown.")
    delete: bool = Field(False, description="Delete the answer instead.")


class UndoBody(Fields):
    """A change that is to be undone."""

    unit: str = Field(description="Id of the unit.", examples=["Lamp"])
    number: int | None = Field(None, description="Of the change; null for the last.")


class MergeBody(Fields):
    """Two units that are the same thing, each by its id or its unique name."""

    unit: str = Field(description="The unit that stays.", examples=["Lamp"])
    other: str = Field(description="The unit whose sources join it.", examples=["Lantern"])
    dry_run: bool = Field(False, description="Only return what the merged unit would be.")


class UnitChanges(Fields):
    """New values of fields of a unit; absent fields stay as they are."""

    name: str | None = None
    kind: str | None = None
    aliases: list[str] | None = None
    texts: list[str] | None = None
    images: list[str] | None = Field(None, description="Data URIs or addresses: all pictures.")
    relations: list[Relation] | None = None
    metadata: dict[str, Any] | None = None

    def apply(self, base: ServedBase, unit_id: str, by: str) -> Added:
        """Replace the given fields of a unit; `by` is the name of the key."""
        if any(relation.target_kind for relation in self.relations or ()):
            raise BadInput('"target_kind" is for new units: leave it out, or name the target\'s id')
        fields = self.model_dump(exclude={"images", "relations"})
        with picture_files(base, self.images or []) as files:
            images = None if self.images is None else files
            return base.kb.update(unit_id, images=images, relations=self.relations, by=by, **fields)


def _lines(texts: Sequence[str]) -> list[str]:
    return [line for text in texts for line in text.splitlines() if line.strip()]


def _relations(texts: Sequence[str]) -> list[Relation]:
    relations = []
    for line in _lines(texts):
        word, target, *more = [part.strip() or None for part in line.split(" | ")] + [None]
        if not word or not target:
            raise BadInput(f"{line!r} is no relation: expected a line such as `borders | France`")
        relations.append(Relation(word, target, None, *more[:2]))
    return relations


class UnitForm(UnitChanges):
    """A form of the page of a unit: an operation, and the fields of the unit."""

    operation: Literal["edit", "undo", "merge", "delete"] = "edit"
    tag: str = ""
    number: int = 0
    other: str = ""
    name: str = ""
    kind: str = ""
    aliases: Annotated[list[str], BeforeValidator(_lines)] = []
    texts: list[str] = []
    images: list[str] = []
    relations: Annotated[list[Relation], BeforeValidator(_relations)] = []
    metadata: Json[dict[str, Any]] = {}


def sends(kind: str) -> dict[str, Any]:
    """Route arguments that document a media type of responses other than JSON."""
    return {"responses": {200: {"content": {kind: {}}}}}


def body(model: type[BaseModel], names: Collection[str] = ()) -> dict[str, Any]:
    """Route arguments that document a body that is JSON or a form; for `names` see `fields_of`."""
    schema = model.model_json_schema()
    if names:
        schema["properties"] = {name: schema["properties"][name] for name in sorted(names)}
    file = {"image": {"type": "string", "format": "binary"}}
    form = schema | {"properties": schema["properties"] | file}
    content = {"application/json": {"schema": schema}, "multipart/form-data": {"schema": form}}
    return {"openapi_extra": {"requestBody": {"required": True, "content": content}}}


def fields_of(
    model: type[M], names: Collection[str] = ()
) -> Callable[[Request], Coroutine[Any, Any, M]]:
    """Return a dependency that reads a body as JSON or as a form, of some fields or all."""
    lists = [n for n, f in model.model_fields.items() if get_origin(f.annotation) is list]
    most = MAX_PICTURES if "images" in model.model_fields else 1

    async def read_fields(request: Request) -> M:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        try:
            if kind == "application/json":
                fields = model.model_validate(await request.json())
            elif kind in ("multipart/form-data", "application/x-www-form-urlencoded"):
                async with request.form(max_files=most, max_part_size=MAX_BODY) as form:
                    fields = model.model_validate(await _form_values(form, lists))
            else:
                raise HTTPException(415, f"the body is {kind[:80]!r}: send JSON or a form")
        except ValidationError as error:
            raise RequestValidationError(error.errors(include_input=False)) from error
        except (ValueError, RecursionError, ClientDisconnect) as error:
            raise HTTPException(400, f"the body cannot be parsed: {error}") from error
        if names and (unknown := fields.model_fields_set.difference(names)):
            raise BadInput(f"{min(unknown)}: expected only {', '.join(sorted(names))}")
        return fields

    return read_fields


async def _form_values(form: FormData, lists: Collection[str]) -> dict[str, Any]:
    """Return the values of a form that are not blank: texts, and files as data URIs."""
    fields: dict[str, Any] = {}
    for name in form:
        values = [
            part.replace("\r\n", "\n") if isinstance(part, str) else data_uri(await part.read())
            for part in form.getlist(name)
        ]
        if values := [value for value in values if value.strip()]:
            fields[name] = values if name in lists else values[-1].strip()
    return fields


def data_uri(content: bytes) -> str:
    """Return the data URI of a file, or "" if it is empty."""
    return f"data:;base64,{base64.b64encode(content).decode()}" if content else ""


@contextmanager
def picture_files(base: ServedBase, uris: Sequence[str]) -> Iterator[list[Path]]:
    """Write pictures, data URIs or addresses of stored ones, to files in the folder of uploads."""
    if not uris:
        yield []
        return
    base.check_copies()
    if len(uris) > MAX_PICTURES:
        raise BadInput(f"{len(uris)} pictures: a unit in a request has at most {MAX_PICTURES}")
    with new_folder(base.uploads) as folder:
        files = []
        for number, uri in enumerate(uris):
            stored = STORED.fullmatch(uri)
            file = base.kb.picture(stored[1]) if stored else None
            image = file.read_bytes() if file else pictures.read_data_uri(uri)
            files.append(folder / f"{number}.{pictures.probe(image)[2].lower()}")
            files[-1].write_bytes(image)
        yield files
        shutil.rmtree(folder)


@contextmanager
def unit_of(base: ServedBase, data: Mapping[str, Any], id: str | None = None) -> Iterator[Unit]:
    """Provide the unit of a record (docs/writing-knowledge.md); for pictures see `picture_files`.

    The id is that of the record, if it has one, unless another is given.
    """
    record = {key: value for key, value in data.items() if key not in _NOT_OF_RECORDS}
    read = next(read_record(record, Path("unit.json"), "the unit"))
    if not isinstance(read, Record) or read.unit is None:
        raise BadInput(getattr(read, "reason", "the record describes no unit"))
    [source] = read.sources
    with picture_files(base, arguments.texts(data.get("images") or (), '"images"')) as files:
        id = id or (read.unit.id if "id" in data else None)
        yield replace(read.unit, id=id, texts=source.texts, images=(*files,), tables=source.tables)
