"""The ingest jobs of a base: a row for each, in a database of their own.

uploads/  jobs.sqlite  a row for each job, until a day after its end
          jobs.lock    held by the process that runs a job
          FOLDER/…     the files of a job that has not ended, or that can be retried

Accepting a job waits for no writer of ku.sqlite, and copies of the base leave jobs out.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from starlette.exceptions import HTTPException

from ku_rag.errors import Corrupt, NotFound, ReadOnly, Refused
from ku_rag.serve import uploads
from ku_rag.store.connection import Connection
from ku_rag.store.lock import WriterLock
from ku_rag.store.side_database import SideDatabase

_MAX_WAITING, _KEPT_S = 10, 24 * 3600
_FOLDER = re.compile(r"[0-9a-f]{32}")
_REMEDY = "stop the server, delete this file, and upload again what was not ingested"
_COLUMNS = "id, folder, content, state, attempts, is_cancelled, results"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS jobs (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,
    folder TEXT NOT NULL, content TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'queued', attempts INTEGER NOT NULL DEFAULT 0,
    is_cancelled INTEGER NOT NULL DEFAULT 0, results TEXT NOT NULL DEFAULT '{}', ended REAL
) STRICT
"""


@dataclass(frozen=True, slots=True)
class Job:
    """An ingest of uploaded files.

    Args:
        content: hash of the names and contents of the files.
        state: "queued", "running", "done", "failed" or "cancelled".
        attempts: how many processes ended abruptly while they ran it.
        is_cancelled: 1 if it was cancelled, also while it still runs.
        results: number of "records" read, and the "report" or the "error", as JSON.
    """

    id: str
    folder: str
    content: str
    state: str = "queued"
    attempts: int = 0
    is_cancelled: int = 0
    results: str = "{}"

    @property
    def has_ended(self) -> bool:
        """Whether the job is done, failed or cancelled."""
        return self.state not in ("queued", "running")

    @property
    def can_retry(self) -> bool:
        """Whether the job failed or left something out, so that its files are kept."""
        report = json.loads(self.results).get("report") or {"quarantined": ()}
        return not self.is_cancelled and (self.state == "failed" or bool(report["quarantined"]))

    def to_dict(self) -> dict[str, Any]:
        """Return the state, the number of records read, and the report or the problem."""
        results = {"records": 0, "report": None, "error": None} | json.loads(self.results)
        return {"id": self.id, "state": self.state, "can_retry": self.can_retry, **results}


class JobStore(SideDatabase):
    """The jobs of a base; processes may share them, and the one that runs a job holds `lock`."""

    def __init__(self, folder: Path, clock: Callable[[], float]) -> None:
        self._folder, self._clock = folder, clock
        super().__init__(folder / "jobs.sqlite", _SCHEMA, _REMEDY)
        self.lock = WriterLock(folder / "jobs.lock", wait_s=0)

    def accept(self, id: str, files: Sequence[tuple[str, BinaryIO]]) -> Job:
        """Store a job with its files durably, or return the job with this id.

        Raises:
            HTTPException: 429, too many jobs are waiting; 422, the job with this id has other
                files; 507, the files cannot be stored.
            BadInput: a file name is invalid or occurs twice.
        """
        try:
            with uploads.new_folder(self._folder) as folder:
                job = Job(id, folder.name, uploads.write_files(folder, files))
                with self.transaction() as connection:
                    waiting = "SELECT count(*) FROM jobs WHERE ended IS NULL"
                    [count] = connection.execute(waiting).fetchone()
                    earlier = _select(connection, "id = ?", id)
                    if earlier is None and count >= _MAX_WAITING:
                        raise HTTPException(429, f"{count} ingests are waiting: try again later")
                    if earlier is None:
                        insert = "INSERT INTO jobs (id, folder, content) VALUES (?, ?, ?)"
                        connection.execute(insert, (job.id, job.folder, job.content))
                        return job
                shutil.rmtree(folder, ignore_errors=True)
        except ReadOnly as error:
            reason = "the files cannot be stored, and nothing was accepted"
            raise HTTPException(507, f"{reason}: make room on the disk, or check it") from error
        if earlier.content != job.content:
            raise HTTPException(422, "this Idempotency-Key came with other files: use a new one")
        return earlier

    def get(self, id: str) -> Job:
        """Return a job; those that ended a day ago are removed."""
        if self.exists:
            with self.transaction() as connection:
                if job := _select(connection, "id = ?", id):
                    return job
        raise NotFound(f"there is no job {id[:80]!r}: a job is kept for a day after its end")

    @property
    def exists(self) -> bool:
        """Whether the base has accepted a job, ever."""
        return self.file.exists() and not self._folder.is_symlink()

    def claim(self) -> Job | None:
        """Mark the first job that has not ended as running; return it as it was before.

        Jobs that ended a day ago are removed with their files. The caller holds `lock`.
        """
        with self.transaction() as connection:
            old = f"DELETE FROM jobs WHERE ended < ? RETURNING {_COLUMNS}"
            for row in connection.execute(old, (self._clock() - _KEPT_S,)).fetchall():
                self._delete_files(Job(*row))
            if job := _select(connection, "ended IS NULL ORDER BY number LIMIT 1"):
                running = "state = 'running', attempts = attempts + 1"
                connection.execute(f"UPDATE jobs SET {running} WHERE id = ?", (job.id,))
            return job

    def end(self, job: Job, state: str, **results: object) -> None:
        """Store how a job ended, or that it waits again; delete files that are not needed."""
        ended = None if state == "queued" else self._clock()
        with self.transaction() as connection:
            fields = "state = ?, results = ?, ended = ?, attempts = ?"
            values = (state, json.dumps(results), ended, job.attempts, job.id)
            query = f"UPDATE jobs SET {fields} WHERE id = ? AND ended IS NULL"
            connection.execute(query, values)
        if ended and not self.get(job.id).can_retry:
            self._delete_files(job)

    def retry(self, id: str) -> Job:
        """Let a job that can be retried wait again, with the same files."""
        if not (job := self.get(id)).can_retry or not (self._folder / job.folder).is_dir():
            raise Refused("there is nothing to retry: the files of this job are not kept")
        again = "state = 'queued', ended = NULL, attempts = 0, results = '{}', is_cancelled = 0"
        with self.transaction() as connection:
            connection.execute(f"UPDATE jobs SET {again} WHERE id = ?", (id,))
        return self.get(id)

    def cancel(self, id: str) -> Job:
        """Cancel a job: one that waits ends at once, one that runs soon; kept files are deleted."""
        if self.get(id).can_retry:
            self._delete_files(self.get(id))
        with self.transaction() as connection:
            connection.execute("UPDATE jobs SET is_cancelled = 1 WHERE id = ?", (id,))
        if (job := self.get(id)).state == "queued":
            self.end(job, "cancelled")
        return self.get(id)

    def files(self, job: Job) -> Path:
        """Return the folder with the files of a job; the base may come from somebody else."""
        folder = self._folder / job.folder
        if not _FOLDER.fullmatch(job.folder) or not folder.is_dir() or folder.is_symlink():
            reason = f"the job {job.id[:32]} has no folder of files"
            raise Corrupt(f"{self.file} is damaged ({reason}): {_REMEDY}")
        return folder

    def _delete_files(self, job: Job) -> None:
        with suppress(Corrupt):
            shutil.rmtree(self.files(job), ignore_errors=True)

    def remove_strays(self) -> None:
        """Delete files in the folder of uploads that belong to no job that may need them."""

        def is_needed(name: str) -> bool:
            if name.startswith("jobs.") or not self.exists:
                return name.startswith("jobs.")
            with self.transaction() as connection:
                job = _select(connection, "folder = ?", name)
                return job is not None and (job.can_retry or not job.has_ended)

        uploads.remove_strays(self._folder, is_needed)


def _select(connection: Connection, condition: str, *parameters: str) -> Job | None:
    query = f"SELECT {_COLUMNS} FROM jobs WHERE {condition}"
    row = connection.execute(query, parameters).fetchone()
    return Job(*row) if row else None
