"""Data types as frozen dataclasses: records to ingest, search results, and answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from ku_rag import arguments
from ku_rag.errors import BadInput

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Mask = NDArray[np.bool_]
else:
    Mask = object  # types of fields are read at run time, without numpy

Box = tuple[int, int, int, int]
"""A rectangle in pixels, (x0, y0, x1, y1); x1 and y1 are exclusive."""
Progress = Callable[[int], None]
"""Called from time to time with the number of items done so far."""


Outcome = Literal["answered", "unsure", "not_found", "refused"]
"""What became of a question: it has an answer; it may be about one of the matched units; the base
does not contain the answer; the model gives none."""

INTERNAL = {"internal": True}
"""Metadata of fields that `to_dict` leaves out."""


class Serializable:
    """A dataclass that methods return and commands print as JSON."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values, in their order, without those that are internal."""
        names = (f.name for f in fields(cast(Any, self)) if "internal" not in f.metadata)
        return {name: _json_value(getattr(self, name)) for name in names}


class Illustrated(Serializable):
    """A result that reports show."""

    __slots__ = ()

    def to_html(self) -> str:
        """The part of a report that shows it."""
        raise NotImplementedError


def _json_value(value: object) -> object:
    if isinstance(value, Serializable):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {key: _json_value(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_json_value(item) for item in value]
    return value


# ---- records -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Relation(Serializable):
    """A directed statement about a unit.

    Args:
        relation: the word for it, such as "borders".
        target: id or name of the unit or entity at the other end.
        target_kind: kind of the target. If no unit of this kind has the name, the target is an
            entity of this kind. None: a unit of any kind, else an entity of kind "entity".
        information: what else is known about the relation.
        condition: when it holds.

    Raises:
        BadInput: one of them is no text, or the word or the target is blank.
    """

    relation: str
    target: str
    target_kind: str | None = field(default=None, metadata=INTERNAL)
    information: str | None = None
    condition: str | None = None

    def __post_init__(self) -> None:
        """Check what was given; word and target are one line."""
        for key, what in (("relation", "the word of a relation"), ("target", "its target")):
            line = " ".join(arguments.identity(getattr(self, key), what).split())
            object.__setattr__(self, key, line)
        arguments.optional_text(self.target_kind, "target_kind")
        arguments.optional_text(self.information, "information")
        arguments.optional_text(self.condition, "condition")

    def to_dict(self) -> dict[str, Any]:
        """The fields that are set, without the kind of the target."""
        values = Serializable.to_dict(self)
        return {key: value for key, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Cell(Serializable):
    """A cell of a table.

    Args:
        text: its text; may be empty.
        link: id of the unit that it links to; None if its text names the unit, or for no link.

    Raises:
        BadInput: one of them is no text.
    """

    text: str
    link: str | None = None

    def __post_init__(self) -> None:
        """Check what was given."""
        arguments.text(self.text, "the text of a cell")
        arguments.optional_text(self.link, "the link of a cell")


_MOST_CELLS = 10_000_000
"""Cells of the largest table, with those that fill its rows."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a unit. Each row is searched and cited as one document.

    Args:
        header: names of the columns; empty ones become "column 1", "column 2" …
        rows: cells, as texts or as `Cell`; a row with fewer cells than columns is filled with
            empty cells, one with more adds columns.
        name: its title; may be empty.

    Raises:
        BadInput: a cell is neither a text nor a `Cell`, or there are more than 10,000,000.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    name: str = ""

    def __post_init__(self) -> None:
        """Check what was given, make cells of texts, and fill rows and header."""
        arguments.text(self.name, "the name of a table")
        header = arguments.texts(self.header, "header")
        numbered = enumerate(arguments.several(self.rows, "rows"))
        rows = [tuple(arguments.several(row, f"rows[{n}]")) for n, row in numbered]
        width = max(len(header), max(map(len, rows), default=0))
        if width * len(rows) > _MOST_CELLS:
            raise BadInput(
                f"the table has {len(rows):,} rows of {width:,} columns: at most {_MOST_CELLS:,} "
                "cells are stored; split it"
            )
        named = [column.strip() or f"column {n}" for n, column in enumerate(header, 1)]
        named += [f"column {n}" for n in range(len(header) + 1, width + 1)]
        object.__setattr__(self, "header", tuple(named))
        cells = [[c if isinstance(c, Cell) else Cell(cast(str, c)) for c in row] for row in rows]
        filled = tuple((*row, *[Cell("")] * (width - len(row))) for row in cells)
        object.__setattr__(self, "rows", filled)

    def row_text(self, number: int) -> str:
        """Return the document of a row: the title, then a line "column: cell" for each cell."""
        cells = zip(self.header, self.rows[number], strict=True)
        lines = [f"{column}: {cell.text.strip()}" for column, cell in cells if cell.text.strip()]
        return "\n".join([self.name, *lines] if self.name else lines)

    def to_dict(self) -> dict[str, Any]:
        """The fields, as in a record: a cell without a link is a text."""
        rows = [[cell.to_dict() if cell.link else cell.text for cell in row] for row in self.rows]
        return {"name": self.name, "header": list(self.header), "rows": rows}


@dataclass(frozen=True, slots=True)
class Unit:
    """A knowledge unit as its owner describes it (KU-RAG, section 3.2.1, eq. 1).

    Args:
        name: what people call it.
        id: its identity; None lets the knowledge base choose, and allows joining.
        kind: entity, event, rule, topic …
        aliases: further names.
        images: picture files, the matching end together with the names.
        texts: documents, the detail end.
        metadata: anything else, JSON-serialisable; "aliases" in it are names too.
        relations: statements that start at this unit.
        match: False keeps the names from being looked up in other units' texts.
        tables: each row is a document like a text.

    Lists are taken as well as tuples, paths as texts too.

    Raises:
        BadInput: a field is of another kind, such as one text where several are expected, or holds
            what cannot be stored: NUL characters, bytes that are not UTF-8, NaN.
    """

    name: str
    id: str | None = None
    kind: str | None = None
    aliases: tuple[str, ...] = ()
    images: tuple[Path, ...] = ()
    texts: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    relations: tuple[Relation, ...] = ()
    match: bool = True
    tables: tuple[Table, ...] = ()

    def __post_init__(self) -> None:
        """Check what was given, and make sequences tuples and texts paths."""
        arguments.name(self.name, "name")
        arguments.optional_text(self.id, "id")
        arguments.optional_text(self.kind, "kind")
        arguments.json_object(self.metadata, "metadata")
        arguments.check(self.match, "match", bool)
        for what, checked in _SEQUENCES.items():
            value = getattr(self, what)
            if not isinstance(value, tuple) or value:
                object.__setattr__(self, what, checked(value, what))


def _all_of(kind: type, example: str, values: object, what: str) -> tuple[Any, ...]:
    if isinstance(values, kind):
        raise BadInput(
            f"{what} is one {kind.__name__} where several are expected: put it into a list"
        )
    items = tuple(arguments.several(values, what))
    for number, item in enumerate(items):
        if not isinstance(item, kind):
            expected = f"a {kind.__name__}; write {what}=[{example}]"
            raise arguments.wrong(item, f"{what}[{number}]", expected)
    return items


_SEQUENCES: Mapping[str, Callable[[object, str], tuple[Any, ...]]] = {
    "aliases": arguments.texts,
    "images": arguments.paths,
    "texts": arguments.texts,
    "tables": partial(_all_of, Table, 'Table(["Year", "Winner"], [["1986", "Argentina"]])'),
    "relations": partial(_all_of, Relation, 'Relation("borders", "France")'),
}


Line = tuple[Any, ...]
"""A line of a document with pages; see `TextPlace`."""


@dataclass(frozen=True, slots=True)
class TextPlace:
    """Where a text or a table of a document is.

    Args:
        section: the headings above it, see `SECTION_MARK`; "" for none.
        lines: of a document with pages, for each line of the text the number of its first
            character, its page from 1, and left, top, right and bottom in shares of the page's
            width and height (0 to 1); of a recognised line also its confidence (0 to 1); of a
            transcribed one the name of the model in place of the box. The page of a photographed
            text is 0.
    """

    section: str = ""
    lines: tuple[Line, ...] = ()


SECTION_MARK = " > "
"""Between the headings of a section, the outermost first."""


class ChunkPlace(NamedTuple):
    """Headings above a chunk, and of a document with pages its page and box; see `TextPlace`.

    The confidence is the lowest of its lines, None if none was recognised.
    """

    section: str = ""
    page: int | None = None
    box: tuple[float, float, float, float] | None = None
    confidence: float | None = None
    transcribed_by: str = ""


@dataclass(frozen=True, slots=True)
class Source:
    """One file or record: where texts and images came from.

    Args:
        uri: absolute POSIX path of the file, with "#id" for one record of many.
        texts: its documents, whole.
        images: its picture files.
        tables: its tables.
        places: of each text, then of each table; empty if none has a place.
        file_hash: SHA-256 of a file with pages, by which `KnowledgeBase.page_image` checks it.
    """

    uri: str
    texts: tuple[str, ...] = ()
    images: tuple[Path, ...] = ()
    tables: tuple[Table, ...] = ()
    places: tuple[TextPlace, ...] = ()
    file_hash: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """What a reader yields: one unit with all sources that speak of it in this ingest.

    Args:
        unit: its declaration (texts and images are in `sources`, not here); None for text that
            belongs to no unit of its own and is shared by those it names.
        sources: at least one.
        is_document: whether the unit is one whole document. If another document has its id, it gets
            another one.
    """

    unit: Unit | None
    sources: tuple[Source, ...]
    is_document: bool = False


@dataclass(frozen=True, slots=True)
class Quarantined(Serializable):
    """An item that was left out of an ingest: what it was, and why, in one sentence."""

    item: str
    reason: str


# ---- search results ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Region(Serializable):
    """The part of a picture that a question is about.

    Args:
        box: pixels (x0, y0, x1, y1) in the upright picture.
        source: "whole", "windows", "yolo" …: who proposed it.
        score: how clearly it was chosen; of a proposal None, or the contrast of a window.
        why: one sentence on the choice, or on what a proposal is.
        mask: bool[height, width] of the box, what belongs to the thing; None where only its box is
            known. Regions that differ in nothing else are equal.
    """

    box: Box
    source: str = "whole"
    score: float | None = None
    why: str = ""
    mask: Mask | None = field(default=None, compare=False, repr=False, metadata=INTERNAL)


@dataclass(frozen=True, slots=True)
class Word(Serializable):
    """A word or line that was read in a picture, with its box and a confidence of 0 to 1.

    Raises:
        BadInput: one of them is of another kind.
    """

    text: str
    box: Box
    confidence: float

    def __post_init__(self) -> None:
        """Check what was given."""
        arguments.text(self.text, "a recognised word")
        try:
            x0, y0, x1, y1 = map(int, self.box)
            confidence = float(self.confidence)
        except (TypeError, ValueError, OverflowError):
            confidence = -1.0
        if not 0 <= confidence <= 1:
            raise BadInput(
                f"a recognised word has the box {self.box!r:.80} and the confidence "
                f"{self.confidence!r:.40}: expected four numbers, and one from 0 to 1"
            )
        object.__setattr__(self, "box", (x0, y0, x1, y1))
        object.__setattr__(self, "confidence", confidence)


@dataclass(frozen=True, slots=True)
class Match(Serializable):
    """A unit that the picture or the question points to.

    Args:
        id: the unit.
        name: its name.
        score: the confidence; where that is not known, how well the picture matches.
        confidence: probability that it is right, 0 to 1: 1 for a unit that the question names; None
            where it is not known, as for regions of a model before `ku tune --confidence`.
        image: path of the picture in the store that matched best, if one did.
        why: what matched: the picture with its cosine, or the name as found.
        signals: evidence of the picture: the cosine of the "region", the edges, from 0,
            that "registration" confirms, the cosine of a "network" for whole pictures, and the
            rarity, from 0, of the "words" that were read.
        named: the name or alias that the question holds, folded; "" if it holds none.
        row: row of the unit in the store.
        image_row: row of the picture that matched.
        evidence: log odds that this picture is right, up to a constant.
        sure: whether a fact may be stated of the unit.
    """

    id: str
    name: str
    score: float
    confidence: float | None = None
    image: str | None = None
    why: str = ""
    named: str = field(default="", metadata=INTERNAL)
    row: int = field(default=0, metadata=INTERNAL)
    image_row: int | None = field(default=None, metadata=INTERNAL)
    evidence: float = field(default=0.0, metadata=INTERNAL)
    sure: bool = field(default=True, metadata=INTERNAL)
    signals: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TableRow(Serializable):
    """A row of a table as evidence.

    Args:
        name: of the table.
        row: its number in the table, from 0.
        cells: (column, cell) in order.
    """

    name: str
    row: int
    cells: tuple[tuple[str, Cell], ...] = field(metadata=INTERNAL)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return [column for column, _ in self.cells]

    def to_dict(self) -> dict[str, Any]:
        """The fields of "table" in evidence."""
        return {"name": self.name, "row": self.row, "columns": self.columns}


@dataclass(frozen=True, slots=True)
class Evidence(Serializable):
    """A chunk that may be cited.

    Args:
        label: "E1", "E2" …
        chunk: its row in the store.
        unit_ids: the owners, then the matched units that list it. Where no matched unit lists it:
            the owners, then all others that list it.
        source: uri of the file or record that it came from.
        text: the chunk, exactly as it stood in its source.
        score: fused score, comparable within one query only.
        owners: the units whose own source it comes from; none for text that belongs to no unit.
        owner_names: names of the owners.
        table: the row of a table that the chunk is; None for other text.
        section: headings above it in its document, the outermost first; "" for none.
        page: of a document with pages, the page where it begins, from 1.
        box: there; left, top, right and bottom in shares of the page's width and height.
        confidence: of text that was recognised in a scan, the lowest of its lines, 0 to 1.
        transcribed_by: the model that has transcribed the page, or "".
        unit_names: names of the units of `unit_ids`.
    """

    label: str = field(metadata=INTERNAL)
    chunk: int
    unit_ids: tuple[str, ...]
    source: str
    text: str
    score: float
    owners: tuple[str, ...] = ()
    owner_names: tuple[str, ...] = field(default=(), metadata=INTERNAL)
    table: TableRow | None = None
    section: str = ""
    page: int | None = None
    box: tuple[float, float, float, float] | None = None
    confidence: float | None = None
    transcribed_by: str = ""
    unit_names: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """Page and headings in words: "page 3, Options > json"; "" for none."""
        page = f"page {self.page}" if self.page else "picture" if self.box else ""
        if self.confidence is not None:
            page += f" (recognised, confidence {self.confidence:.2f})"
        if self.transcribed_by:
            page += f" (transcribed by {self.transcribed_by})"
        return ", ".join(filter(None, (page, self.section)))

    def to_dict(self) -> dict[str, Any]:
        """The fields; those from "table" on only if they have a value."""
        values = {"chunk": self.chunk, "owners": [*self.owners], **Serializable.to_dict(self)}
        optional = ("table", "section", "page", "box", "confidence", "transcribed_by")
        return {key: value for key, value in values.items() if value or key not in optional}

    @property
    def origin(self) -> str:
        """Whose text it is: the names of its owners, or the name of its file."""
        return ", ".join(self.owner_names) or self.source.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class SearchResult(Serializable):
    """Units and chunks that a search found, best first."""

    units: tuple[Match, ...]
    chunks: tuple[Evidence, ...]

    def to_dict(self) -> dict[str, Any]:
        """The units without their pictures, and the chunks."""
        kept = ("id", "name", "score", "confidence", "why", "signals")
        units = [{name: getattr(m, name) for name in kept} for m in self.units]
        return {"units": units, "chunks": [e.to_dict() for e in self.chunks]}


@dataclass(frozen=True, slots=True)
class PathEvidence(Serializable):
    """A graph path that may be cited: entities joined by relations, and its one-line text."""

    label: str = field(metadata=INTERNAL)
    entities: tuple[str, ...]
    relations: tuple[str, ...]
    text: str


# ---- answers -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ClosestSentence(Serializable):
    """The sentence of the evidence that shares most with a question: evidence, not an answer.

    Args:
        evidence: label of the evidence that holds it.
        text: the sentence.
    """

    evidence: str
    text: str


@dataclass(frozen=True, slots=True)
class Reading:
    """The answer of a reader, with its citations.

    Args:
        answer: the words that answer the question; "" where there is no answer.
        citations: labels of the evidence that holds the answer, best first.
        spans: for each citation, the (start, end) character range of the answering sentence in
            that evidence's text.
        score: 0 to 1, how sure the reader is.
        why: one sentence: how the answer was found, or why there is none.
        closest: the closest sentence, where the reader abstains and there is one.
        items: the parts of an answer that lists several things.
        unanswered: the outcome where there is no answer.
    """

    answer: str
    citations: tuple[str, ...] = ()
    spans: tuple[tuple[int, int], ...] = ()
    score: float = 0.0
    why: str = ""
    closest: ClosestSentence | None = None
    items: tuple[str, ...] = ()
    unanswered: Outcome = "not_found"

    @property
    def outcome(self) -> Outcome:
        """What became of the question."""
        return "answered" if self.answer else self.unanswered


NO_ANSWER: Mapping[Outcome, str] = {
    "unsure": "It may be one of the matched units.",
    "not_found": "No answer was found in the knowledge base.",
    "refused": "The model gives no answer.",
}
"""What is printed in place of an answer."""


@dataclass(frozen=True, slots=True)
class Correction:
    """How a multimodal model came to its answer (KU-RAG, section 3.3.3, eq. 12 and 13).

    Args:
        draft: its answer before it saw evidence; None where it was asked in one turn.
        changed: whether its answer differs from its draft; a refusal does.
        reason: the reason that it gives.
        believed: the source that it relied on where they differ: "draft", "passage" or "path";
            "all" where they agree; None where there was no path.
        dropped_citations: evidence that it cited and was not shown.
        caption: how it described the picture, where texts alone were searched.
        notes: what was left out of requests or truncated, one clause each.
        usage: see `ku_rag.mllm.base.usage`.
    """

    draft: str | None = None
    changed: bool = False
    reason: str = ""
    believed: str | None = None
    dropped_citations: tuple[str, ...] = ()
    caption: str | None = None
    notes: tuple[str, ...] = ()
    usage: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a question, with everything that led to it.

    `correction` is None where no multimodal model had a part in it. `evidence_graph` is the
    `EvidenceSearch` of the method "evidence", `plan` the `Plan` of a planned query. `words` were
    read in the picture; citations call them "W1", "W2" …
    """

    question: str
    image: str | None
    region: Region | None
    units: tuple[Match, ...]
    chunks: tuple[Evidence, ...]
    paths: tuple[PathEvidence, ...]
    passage: tuple[str, ...]
    reading: Reading
    models: Mapping[str, str]
    timings_ms: Mapping[str, float]
    correction: Correction | None = None
    evidence_graph: Illustrated | None = None
    plan: Illustrated | None = None
    words: tuple[Word, ...] = ()

    @property
    def answer(self) -> str:
        """The words that answer the question; "" when there is no answer in the evidence."""
        return self.reading.answer

    @property
    def outcome(self) -> Outcome:
        """What became of the question; "answered" if there is an answer."""
        return self.reading.outcome

    @property
    def citations(self) -> tuple[str, ...]:
        """The labels of the evidence that the answer rests on, best first."""
        return self.reading.citations

    @property
    def draft(self) -> str | None:
        """What a multimodal model said before it saw evidence, if it was asked."""
        return self.correction.draft if self.correction else None

    @property
    def changed(self) -> bool:
        """Whether evidence made another answer of the draft."""
        return self.correction is not None and self.correction.changed

    def to_dict(self) -> dict[str, Any]:
        """The shape that `ku query --json` prints; the last three keys only if made."""
        correction = self.correction or Correction()
        parts = {"evidence_graph": self.evidence_graph, "plan": self.plan}
        words = [{"evidence": f"W{n}", **word.to_dict()} for n, word in enumerate(self.words, 1)]
        return {
            "question": self.question,
            "image": self.image,
            "region": self.region and self.region.to_dict(),
            "units": [unit.to_dict() for unit in self.units],
            "chunks": [{"evidence": e.label, **e.to_dict()} for e in self.chunks],
            "paths": [{"evidence": p.label, **p.to_dict()} for p in self.paths],
            "passage": list(self.passage),
            "outcome": self.outcome,
            "draft": self.draft,
            "answer": self.answer,
            "closest": self.reading.closest and self.reading.closest.to_dict(),
            "changed": self.changed,
            "citations": list(self.citations),
            "why": self.reading.why,
            "reason": correction.reason,
            "believed": correction.believed,
            "dropped_citations": list(correction.dropped_citations),
            "caption": correction.caption,
            "notes": list(correction.notes),
            "usage": dict(correction.usage),
            "models": dict(self.models),
            "timings_ms": dict(self.timings_ms),
            **{name: part.to_dict() for name, part in parts.items() if part},
            **({"words": words} if words else {}),
        }


@dataclass(slots=True)
class IngestReport(Serializable):
    """What an ingest or sync did; the shape that `ku ingest --json` prints."""

    units_added: int = 0
    units_updated: int = 0
    units_unchanged: int = 0
    chunks_added: int = 0
    images_added: int = 0
    relations_added: int = 0
    quarantined: list[Quarantined] = field(default_factory=list)
    seconds: float = 0.0
    units_deleted: list[str] | None = None
    usage: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: IngestReport) -> IngestReport:
        """Return the report of both, before anything was deleted."""
        summed = [f.name for f in fields(self) if f.name not in ("units_deleted", "usage")]
        values = {name: getattr(self, name) + getattr(other, name) for name in summed}
        usage = {key: self.usage[key] + other.usage[key] for key in {**self.usage, **other.usage}}
        return IngestReport(**values, usage=Counter(usage))

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values; `units_deleted` after a sync, `usage` of a model only."""
        values = Serializable.to_dict(self) | {"seconds": round(self.seconds, 3)}
        if self.units_deleted is None:
            del values["units_deleted"]
        if not self.usage:
            del values["usage"]
        return values


@dataclass(frozen=True, slots=True)
class PlannedUnit(Serializable):
    """A unit that an ingest would make.

    Args:
        id: its id; a number is added if another document has it. None: texts of no unit.
        name: its name.
        origin: what it is made of: "document", "heading", "record" or "files".
        counts: numbers of "texts", "tables" and "pictures".
        sections: the headings above its texts, see `SECTION_MARK`.
    """

    id: str | None
    name: str
    origin: str
    counts: Counter[str] = field(default_factory=Counter)
    sections: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class FolderChange(Serializable):
    """What a sync after a change of a folder did; see `KnowledgeBase.watch`.

    Args:
        files: what happened, "added", "modified" or "deleted", and the path, of each file.
        report: of the sync.
        refused: why nothing was changed, or "".
    """

    files: tuple[str, ...]
    report: IngestReport
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Added(Serializable):
    """What `add` did: a new unit, or an existing one joined, and why."""

    id: str
    action: str
    matched: tuple[str, float] | None
    chunks: int
    images: int
    why: str

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values; what was matched is an object."""
        matched = self.matched and {"id": self.matched[0], "score": self.matched[1]}
        return Serializable.to_dict(self) | {"matched": matched}


@dataclass(frozen=True, slots=True)
class Deleted(Serializable):
    """What a deletion removed: ids of units, rows of chunks, hashes of images, rows of relations.

    A chunk or an image that other units share stays, and is not listed.
    """

    units: tuple[str, ...] = ()
    chunks: tuple[int, ...] = ()
    images: tuple[str, ...] = ()
    relations: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Stats(Serializable):
    """The size of a knowledge base, and the models that it was made with.

    Args:
        counts: rows of each kind.
        bytes: size of its files.
        encoder: fingerprint.
        segmenter: fingerprint.
        recogniser: name, "none" for no recogniser of words in pictures.
        pictures_read: fingerprint of each recogniser → pictures in which it has read words.
        indexes: of pictures and of chunks: the kind, the recall and the state of each.
        schema: version of the database schema.
    """

    counts: Mapping[str, int]
    bytes: int
    encoder: str
    segmenter: str
    recogniser: str
    pictures_read: Mapping[str, int]
    indexes: tuple[Mapping[str, Any], ...]
    schema: int


@dataclass(frozen=True, slots=True)
class IndexSync(Serializable):
    """The rows that a sync of an index upserted and deleted, and whether it was created."""

    name: str
    upserted: int
    deleted: int
    created: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class Compacted(Serializable):
    """The size of a knowledge base before and after it was compacted, in bytes."""

    bytes_before: int
    bytes_after: int
