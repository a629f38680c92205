"""The rows of the ingest jobs of a base.

uploads/  jobs.sqlite  a row for each job, until a day after its end
          jobs.lock    held by the process that runs a job
          FOLDER/…     the files of a job that has not ended

A job is accepted when its files, their names and its row are synced. The rows have a database of
their own: accepting a job waits for no writer of ku.sqlite, and copies of a base leave jobs out.
"""

from __future__ import annotations

import json
import re
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from starlette.exceptions import HTTPException

from ku_rag.errors import Corrupt, Mismatch, NotFound, ReadOnly
from ku_rag.serve import uploads
from ku_rag.store.connection import Connection, connect, explained, prepare_file, roll_back
from ku_rag.store.lock import WriterLock

KEPT_S = 24 * 3600
"""Seconds that the row of a job is kept after its end."""
MAX_WAITING = 10
"""Maximum number of jobs that have not ended."""

_FOLDER = re.compile(r"[0-9a-f]{32}")
_COLUMNS = "id, folder, content, state, attempts, is_cancelled, records, report, error"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS jobs (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    folder TEXT NOT NULL,
    content TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'queued',
    attempts INTEGER NOT NULL DEFAULT 0,
    is_cancelled INTEGER NOT NULL DEFAULT 0,
    records INTEGER NOT NULL DEFAULT 0,
    report TEXT,
    error TEXT,
    ended REAL
) STRICT
"""


@dataclass(frozen=True, slots=True)
class Job:
    """An ingest of uploaded files.

    Args:
        id: its id.
        folder: name of the folder with its files.
        content: hash of the names and contents of the files.
        state: "queued", "running", "done", "failed" or "cancelled".
        attempts: how many processes ended abruptly while they ran it.
        is_cancelled: 1 if it was cancelled, also while it still runs.
        records: number of records read.
        report: the report of the ingest as JSON.
        error: the problem as JSON.
    """

    id: str
    folder: str
    content: str
    state: str
    attempts: int = 0
    is_cancelled: int = 0
    records: int = 0
    report: str | None = None
    error: str | None = None

    @property
    def has_ended(self) -> bool:
        """Whether the job is done, failed or cancelled."""
        return self.state not in ("queued", "running")

    def to_dict(self) -> dict[str, Any]:
        """Return the state, the number of records read, and the report or the problem."""
        report, error = (text and json.loads(text) for text in (self.report, self.error))
        found = {"records": self.records, "report": report, "error": error}
        return {"id": self.id, "state": self.state, **found}


class JobStore:
    """The jobs of a base; threads and processes may share them.

    Args:
        folder: the folder of uploads; it is created with the first job.
        clock: returns the time in seconds.

    Attributes:
        lock: held while a job runs, so that no other process runs it.
    """

    def __init__(self, folder: Path, clock: Callable[[], float]) -> None:
        self._folder, self._clock = folder, clock
        self._file, self._turn = folder / "jobs.sqlite", threading.Lock()
        self._connection: Connection | None = None
        self.lock = WriterLock(folder / "jobs.lock", wait_s=0)

    def accept(self, id: str, files: Sequence[tuple[str, BinaryIO]]) -> Job:
        """Store a job with its files durably, or return the job with this id.

        Args:
            id: the id of the job.
            files: names, which may include folders, and contents.

        Raises:
            HTTPException: 429, too many jobs are waiting; 422, the job with this id has other
                files; 507, the files cannot be stored.
            BadInput: a file name is invalid or occurs twice.
        """
        try:
            with uploads.new_folder(self._folder) as folder:
                content = uploads.write_files(folder, files)
                with self._change() as connection:
                    count = "SELECT count(*) FROM jobs WHERE ended IS NULL"
                    [waiting] = connection.execute(count).fetchone()
                    job = _select(connection, id)
                    if job is None and waiting >= MAX_WAITING:
                        reason = f"{waiting} ingests are waiting: try again later"
                        raise HTTPException(429, reason)
                    if job is None:
                        insert = "INSERT INTO jobs (id, folder, content) VALUES (?, ?, ?)"
                        connection.execute(insert, (id, folder.name, content))
                        return Job(id, folder.name, content, "queued")
                shutil.rmtree(folder, ignore_errors=True)
        except ReadOnly as error:
            reason = "the files cannot be stored, and nothing was accepted"
            raise HTTPException(507, f"{reason}: make room on the disk, or check it") from error
        if job.content != content:
            raise HTTPException(422, "this Idempotency-Key came with other files: use a new one")
        return job

    def get(self, id: str) -> Job:
        """Return a job.

        Raises:
            NotFound: there is no job with this id; those that ended a day ago are removed.
        """
        if self.exists:
            with self._change() as connection:
                if job := _select(connection, id):
                    return job
        raise NotFound(f"there is no job {id[:80]!r}: a job is kept for a day after its end")

    @property
    def exists(self) -> bool:
        """Whether a job was accepted, ever."""
        return self._file.exists() and not self._folder.is_symlink()

    def claim(self) -> Job | None:
        """Mark the first job that has not ended as running; return it as it was before.

        Rows of jobs that ended a day ago are removed. The caller holds `lock`.
        """
        with self._change() as connection:
            connection.execute("DELETE FROM jobs WHERE ended < ?", (self._clock() - KEPT_S,))
            waiting = f"SELECT {_COLUMNS} FROM jobs WHERE ended IS NULL ORDER BY number LIMIT 1"
            row = connection.execute(waiting).fetchone()
            if row is None:
                return None
            running = "UPDATE jobs SET state = 'running', attempts = attempts + 1 WHERE id = ?"
            connection.execute(running, row[:1])
            return Job(*row)

    def release(self, job: Job) -> None:
        """Let a job that `claim` returned wait again: its attempt does not count."""
        with self._change() as connection:
            waiting = "state = 'queued', attempts = ? WHERE id = ? AND ended IS NULL"
            connection.execute(f"UPDATE jobs SET {waiting}", (job.attempts, job.id))

    def end(self, job: Job, state: str, records: int, **results: Mapping[str, Any]) -> None:
        """Store how a job ended, then delete its files.

        Args:
            job: the job.
            state: "done", "failed" or "cancelled".
            records: number of records read.
            **results: the "report" or the "error".
        """
        report, error = (
            json.dumps(results[name]) if name in results else None for name in ("report", "error")
        )
        with self._change() as connection:
            values = "state = ?, records = ?, report = ?, error = ?, ended = ?"
            ended = (state, records, report, error, self._clock(), job.id)
            connection.execute(f"UPDATE jobs SET {values} WHERE id = ?", ended)
        self._delete_files(job)

    def cancel(self, id: str) -> Job:
        """Cancel a job: one that waits ends at once, one that runs soon.

        Raises:
            NotFound: there is no job with this id.
        """
        job = self.get(id)
        with self._change() as connection:
            connection.execute(
                "UPDATE jobs SET is_cancelled = 1, ended = iif(state = 'queued', ?, NULL), "
                "state = iif(state = 'queued', 'cancelled', state) WHERE id = ? AND ended IS NULL",
                (self._clock(), id),
            )
        job = self.get(id)
        if job.has_ended:
            self._delete_files(job)
        return job

    def files(self, job: Job) -> Path:
        """Return the folder with the files of a job.

        Raises:
            Corrupt: the row names no such folder; a base may come from somebody else.
        """
        folder = self._folder / job.folder
        if not _FOLDER.fullmatch(job.folder) or not folder.is_dir() or folder.is_symlink():
            raise self._damaged(f"the job {job.id[:32]} has no folder of files")
        return folder

    def _delete_files(self, job: Job) -> None:
        if _FOLDER.fullmatch(job.folder):
            shutil.rmtree(self._folder / job.folder, ignore_errors=True)

    def remove_strays(self) -> None:
        """Delete files in the folder of uploads that belong to no job that has not ended."""

        def is_needed(name: str) -> bool:
            if name.startswith("jobs.") or not self.exists:
                return name.startswith("jobs.")
            with self._change() as connection:
                named = "SELECT 1 FROM jobs WHERE folder = ? AND ended IS NULL"
                return connection.execute(named, (name,)).fetchone() is not None

        uploads.remove_strays(self._folder, is_needed)

    def close(self) -> None:
        """Close the database."""
        with self._turn:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    @contextmanager
    def _change(self) -> Iterator[Connection]:
        """One transaction; the database is created if it is missing.

        Raises:
            ReadOnly: the disk is full or fails, or the folder is read-only.
            Corrupt: the database is damaged.
        """
        with self._turn:
            try:
                with explained(self._file):
                    connection = self._open()
                    connection.execute("BEGIN IMMEDIATE")
                    try:
                        yield connection
                        connection.execute("COMMIT")
                    except BaseException:
                        roll_back(connection)
                        raise
            except (Corrupt, Mismatch) as error:
                raise self._damaged("a page fails its checksum") from error

    def _open(self) -> Connection:
        if self._connection is not None and not self._file.exists():  # deleted, or never stored
            self._connection.close()
            self._connection = None
        if self._connection is None:
            uploads.check(self._folder)
            connection = connect(self._file, create=True)
            if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                prepare_file(connection)
                connection.execute(_SCHEMA)
            self._connection = connection
        return self._connection

    def _damaged(self, reason: str) -> Corrupt:
        return Corrupt(
            f"{self._file} is damaged ({reason}): stop the server, delete this file, and upload "
            "again what was not ingested"
        )


def _select(connection: Connection, id: str) -> Job | None:
    row = connection.execute(f"SELECT {_COLUMNS} FROM jobs WHERE id = ?", (id,)).fetchone()
    return Job(*row) if row else None
