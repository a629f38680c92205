"""Stored answers and feedback, in a file of their own beside ku.sqlite.

An answer is valid while all sources that it rests on are in the base in the state that they had;
row numbers of sources are never used again. Every read leaves out the others. So the commit that
deletes a source also ends the answers that used it, and deleting their rows may be interrupted.
"""

from __future__ import annotations

import builtins
import io
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson
from PIL.Image import Image

from ku_rag import arguments, pictures
from ku_rag.errors import BadInput, Mismatch, NotFound, ReadOnly
from ku_rag.store.connection import Connection, as_json, explained, snapshot
from ku_rag.store.content_rows import content_hash, sources_of
from ku_rag.store.database import Database
from ku_rag.store.layout import Layout, write_durably
from ku_rag.store.side_database import SideDatabase
from ku_rag.store.unit_records import find_row
from ku_rag.text.tokens import name_key
from ku_rag.types import INTERNAL, Answer, Serializable

MOST_ANSWERS = 1000
"""Default number of answers that a base stores."""
_SIDE = 1600
"""Maximum width and height of a stored picture, in pixels."""
_NOT_STORED = frozenset({"image", "passage", "plan", "evidence_graph"})
_REMEDY = "delete this file and its -wal; the knowledge base itself is another file"
_COLUMNS = (
    "id, created, data ->> 'question', about, data ->> 'outcome', data ->> 'answer', verdict, "
    "right_answer, unit"
)
_SCHEMA = """
CREATE TABLE IF NOT EXISTS answers (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    created TEXT NOT NULL,
    about TEXT NOT NULL,
    data TEXT NOT NULL,                   -- JSON
    sources TEXT NOT NULL,                -- JSON: [row, state] of each
    picture BLOB,                         -- JPEG
    verdict TEXT NOT NULL DEFAULT '',
    right_answer TEXT NOT NULL DEFAULT '',
    unit TEXT NOT NULL DEFAULT ''
) STRICT
"""


@dataclass(frozen=True, slots=True)
class StoredAnswer(Serializable):
    """A stored answer.

    Args:
        id: its id.
        created: when it was stored, such as "2026-11-23T09:30:00+00:00".
        question, outcome, answer: see `Answer`.
        about: id or name of the unit that was asked about, or "".
        verdict: feedback: "right", "wrong" or "".
        right_answer: feedback: the right answer, or "".
        unit: feedback: id of the unit that the picture shows, or "".
        data: see `answer_data`; with "size", width and height of the picture that boxes refer to.
            Empty in lists.
        picture: the question's picture as JPEG; None for none, and in lists.
    """

    id: str
    created: str
    question: str
    about: str
    outcome: str
    answer: str
    verdict: str
    right_answer: str
    unit: str
    data: Mapping[str, Any] = field(default_factory=dict, repr=False, metadata=INTERNAL)
    picture: bytes | None = field(default=None, repr=False, metadata=INTERNAL)

    @property
    def week(self) -> str:
        """The Monday of its week, such as "2026-11-23"."""
        day = date.fromisoformat(self.created[:10])
        return (day - timedelta(day.weekday())).isoformat()

    @property
    def result(self) -> str:
        """The verdict; "declined" for a question without an answer, unless that is right."""
        is_declined = self.outcome != "answered" and self.verdict != "right"
        return "declined" if is_declined else self.verdict


def answer_data(answer: Answer) -> dict[str, Any]:
    """Return the JSON of an answer, with "spans" and "items" of its reading and "cells" of rows."""
    tables = {chunk.label: chunk.table for chunk in answer.chunks if chunk.table}
    return answer.to_dict() | {
        "spans": answer.reading.spans,
        "items": answer.reading.items,
        "cells": {
            label: [(column, cell.to_dict()) for column, cell in table.cells]
            for label, table in tables.items()
        },
    }


class StoredAnswers:
    """The stored answers of a base, reached as `KnowledgeBase.answers`; see docs/decisions/0074.

    Methods raise `NotFound` for an id that no valid answer has.
    """

    def __init__(self, database: Database, layout: Layout) -> None:
        self._base, self._layout = database, layout
        self._file = SideDatabase(layout.answers, _SCHEMA, _REMEDY, read_only=database.read_only)

    def add(
        self,
        answer: Answer,
        image: str | Path | bytes | Image | None = None,
        *,
        about: str = "",
        most: int = MOST_ANSWERS,
    ) -> str:
        """Store an answer without its plan and evidence graph, and return its id.

        Args:
            answer: as `KnowledgeBase.query` returned it.
            image: the question's picture; a copy of at most 1,600 pixels a side is stored.
            about: id or name of the unit that was asked about.
            most: answers to keep; the oldest without feedback are deleted first.

        Raises:
            Mismatch: what the answer rests on was deleted meanwhile.
            ReadOnly: the base cannot be written to.
        """
        if self._base.read_only:
            raise ReadOnly("the base is opened read-only: the answer was not stored")
        data = {
            name: value for name, value in answer_data(answer).items() if name not in _NOT_STORED
        }
        for stored, unit in zip(data["units"], answer.units, strict=True):
            stored["image"] = unit.image_row
        picture, copy, digest = pictures.check_picture(image), None, ""
        if picture is not None:
            copy, digest, data["size"] = _copy(picture)
        id, now = secrets.token_hex(8), datetime.now(UTC).isoformat(timespec="seconds")
        base = self._base.connection
        with self._file.transaction() as connection:
            # It begins after the lock was taken that the removal of invalid answers waits for.
            with explained(self._base.path), snapshot(base):
                states = _states_of_answer(base, answer, digest)
            connection.execute(
                "INSERT INTO answers (id, created, about, data, sources, picture) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                (id, now, about, orjson.dumps(data).decode(), as_json(states.items()), copy),
            )
            connection.execute(
                "DELETE FROM answers WHERE number IN (SELECT number FROM answers "
                "ORDER BY verdict != '' DESC, number DESC LIMIT -1 OFFSET ?)",
                (most,),
            )
        return id

    def list(self) -> builtins.list[StoredAnswer]:
        """Return all answers without their data, the newest first."""
        return [StoredAnswer(*row) for row in self._select(_COLUMNS)]

    def get(self, id: str) -> StoredAnswer:
        """Return an answer."""
        for row in self._select(f"{_COLUMNS}, data, picture", id):
            data = orjson.loads(row[-2])
            query = "SELECT file FROM images WHERE row = ?"
            for unit in data["units"]:
                files = self._base.connection.execute(query, (unit["image"],)).fetchall()
                unit["image"] = str(self._layout.image(*files[0])) if files else None
            return replace(StoredAnswer(*row[:-2]), data=data, picture=row[-1])
        raise NotFound(f"there is no stored answer {id[:40]!r}: it or what it rests on was deleted")

    def judge(self, id: str, verdict: str, *, right_answer: str = "", unit: str = "") -> None:
        """Store feedback on an answer in place of earlier feedback.

        Args:
            id: of the answer.
            verdict: "right", "wrong", or "" for no feedback.
            right_answer: the right answer to a wrong one.
            unit: id or unique name of the unit that the picture shows, or the question is about.

        Raises:
            NotFound: there is no such unit.
            BadInput: the verdict is another word, or a right answer has another right answer.
        """
        right_answer = arguments.text(right_answer, "the right answer").strip()
        verdict = verdict or "wrong" * bool(right_answer)
        if verdict not in ("", "right", "wrong") or (right_answer and verdict == "right"):
            raise BadInput(
                f"the verdict is {verdict[:40]!r}: expected right or wrong, and wrong if there is "
                "another right answer"
            )
        self.get(id)
        base = self._base.connection
        with self._file.transaction() as connection:
            query = "SELECT sources FROM answers WHERE id = ?"
            [sources] = connection.execute(query, (id,)).fetchone() or ["[]"]
            states = dict(orjson.loads(sources))
            if unit:
                with explained(self._base.path), snapshot(base):
                    row = find_row(base, unit)
                    states |= _states(base, sources_of(base, row))
                    [unit] = base.execute("SELECT id FROM units WHERE row = ?", (row,)).fetchone()
            connection.execute(
                "UPDATE answers SET verdict = ?, right_answer = ?, unit = ?, sources = ? "
                "WHERE id = ?",
                (verdict, right_answer, unit, as_json(states.items()), id),
            )

    def replace_unit(self, id: str, new: str) -> None:
        """Let answers and feedback about a unit be about another one, which it was merged into."""
        if not self._layout.answers.exists():
            return
        with self._file.transaction() as connection:
            for number, text in connection.execute("SELECT number, data FROM answers").fetchall():
                data = orjson.loads(text)
                for unit in data["units"]:
                    unit["id"] = new if unit["id"] == id else unit["id"]
                for ids in (
                    chunk[key] for chunk in data["chunks"] for key in ("owners", "unit_ids")
                ):
                    ids[:] = [new if unit == id else unit for unit in ids]
                changed = orjson.dumps(data).decode(), number
                connection.execute("UPDATE answers SET data = ? WHERE number = ?", changed)
            for column in ("unit", "about"):
                connection.execute(f"UPDATE answers SET {column} = ? WHERE {column} = ?", (new, id))

    def delete(self, id: str) -> None:
        """Delete an answer with its picture and feedback."""
        self.get(id)
        with self._file.transaction() as connection:
            connection.execute("DELETE FROM answers WHERE id = ?", (id,))

    def export(self, file: str | Path) -> int:
        """Write feedback as questions for `ku eval` and `ku tune`, and return their number.

        Questions about a unit that was chosen before cannot be asked alone, and are left out.

        Args:
            file: of JSON lines; pictures are written to a folder beside it.
        """
        path, lines, files = arguments.path(file, "the file"), [], []
        for listed in reversed(self.list()):
            is_right = listed.verdict == "right"
            if listed.about or not (is_right or listed.right_answer or listed.unit):
                continue
            stored = self.get(listed.id)
            record: dict[str, Any] = {"id": stored.id, "question": stored.question}
            if is_right or stored.right_answer:
                record["answers"] = [*filter(None, [stored.right_answer or stored.answer])]
            if stored.unit or (is_right and stored.answer):
                record["units"] = [stored.unit] if stored.unit else _cited_units(stored.data)
            if stored.picture:
                record["image"] = f"{path.stem}-pictures/{stored.id}.jpg"
                files.append((path.parent / record["image"], stored.picture))
            lines.append(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))
        write_durably([*files, (path, b"".join(lines))])
        return len(lines)

    def remove_invalid(self) -> None:
        """Delete the answers that are no longer valid."""
        if self._layout.answers.exists():
            with self._file.transaction() as connection:
                invalid = [(number,) for number in self._invalid(connection)]
                connection.executemany("DELETE FROM answers WHERE number = ?", invalid)

    def compact(self) -> None:
        """Erase deleted answers from disk."""
        self.remove_invalid()
        self._file.compact()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _select(self, columns: str, id: str | None = None) -> builtins.list[Any]:
        if not self._layout.answers.exists():
            return []
        with self._file.transaction() as connection:
            query = (
                f"SELECT {columns} FROM answers WHERE id = coalesce(?, id) "
                "AND number NOT IN (SELECT value FROM json_each(?)) ORDER BY number DESC"
            )
            return list(connection.execute(query, (id, as_json(self._invalid(connection)))))

    def _invalid(self, connection: Connection) -> builtins.list[int]:
        """Return the numbers of the answers with a source that was changed or deleted."""
        stored = connection.execute("SELECT number, sources FROM answers").fetchall()
        rows = [(number, dict(orjson.loads(sources))) for number, sources in stored]
        with explained(self._base.path):
            cited = {source for _, used in rows for source in used}
            states = _states(self._base.connection, cited)
        return [number for number, used in rows if used.items() - states.items()]


def _copy(picture: Path | bytes | Image) -> tuple[bytes, str, tuple[int, int]]:
    """Return a copy as JPEG without metadata, the hash of the original, and its size in pixels."""

    def shrink(image: Image, size: tuple[int, int]) -> tuple[bytes, tuple[int, int]]:
        image = image.copy()
        image.thumbnail((_SIDE, _SIDE))
        image.save(out := io.BytesIO(), "JPEG", quality=90)
        return out.getvalue(), size

    copy, size = pictures.decode(picture, shrink, _SIDE)
    original = picture.read_bytes() if isinstance(picture, Path) else picture
    return copy, sha256(original if isinstance(original, bytes) else copy).hexdigest(), size


def _cited_units(data: Mapping[str, Any]) -> list[str]:
    """Return the unit of the first cited text, or the first matched unit."""
    owners = [chunk["owners"] for chunk in data["chunks"] if chunk["evidence"] in data["citations"]]
    matched: list[list[str]] = [*owners, [unit["id"] for unit in data["units"]]]
    return matched[0][:1]


def _states(connection: Connection, sources: Iterable[int]) -> dict[int, str]:
    """Return the states of those sources that are in the base: what they contain and declare.

    Whether it replaces what others declare ends when units are merged, and does not count.
    """
    rows = connection.execute(
        "SELECT row, hash, chunks, images, json_remove(declared, '$.replaces') "
        "FROM json_each(?) JOIN sources ON row = value",
        (as_json(sources),),
    )
    return {row: content_hash(as_json(values)) for row, *values in rows}


def _states_of_answer(connection: Connection, answer: Answer, digest: str) -> dict[int, str]:
    """Return the states of the sources of an answer: of evidence, units, relations and picture.

    Raises:
        Mismatch: a chunk or unit was deleted meanwhile.
    """
    chunks = {chunk.chunk for chunk in answer.chunks}
    units = {unit.id for unit in answer.units}.union(*(c.unit_ids for c in answer.chunks))
    names = {name_key(name) for path in answer.paths for name in path.entities}
    values = {"chunks": as_json(chunks), "units": as_json(units), "names": as_json(names)}
    listed = (
        "WITH used AS (SELECT row, source FROM json_each(:chunks) JOIN chunks ON row = value), "
        "matched AS (SELECT row FROM json_each(:units) w JOIN units u ON u.id = w.value), "
        "named AS (SELECT value AS key FROM json_each(:names)) "
    )
    counts = f"{listed} SELECT (SELECT count(*) FROM used), (SELECT count(*) FROM matched)"
    if connection.execute(counts, values).fetchone() != (len(chunks), len(units)):
        raise Mismatch("what the answer rests on was deleted meanwhile: ask again")
    rows = connection.execute(
        f"{listed} SELECT source FROM used UNION SELECT row FROM sources WHERE unit IN ("
        "SELECT row FROM matched UNION SELECT unit FROM names JOIN named USING (key) "
        "UNION SELECT unit FROM entities JOIN named USING (key)) "
        "UNION SELECT r.source FROM relations r JOIN entities h ON h.row = head "
        "JOIN entities t ON t.row = tail WHERE h.key IN named AND t.key IN named "
        "UNION SELECT source FROM unit_images JOIN images i ON i.row = image WHERE hash = :digest",
        values | {"digest": digest},
    )
    return _states(connection, (row for (row,) in rows))
