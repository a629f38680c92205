"""Ingest jobs: uploads are accepted at any time and ingested in the background, one by one.

uploads/  jobs.sqlite  a row for each job, until a day after its end
          jobs.lock    held by the process that runs a job
          FOLDER/…     the files of a job that has not ended, or that can be retried

Accepting a job waits for no writer of ku.sqlite, and copies of the base leave jobs out.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import shutil
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from starlette.exceptions import HTTPException

from ku_rag.errors import BadInput, Corrupt, KuError, Locked, NotFound, ReadOnly, Refused
from ku_rag.serve.problems import describe
from ku_rag.serve.served_base import ServedBase
from ku_rag.store import uploads
from ku_rag.store.connection import Connection
from ku_rag.store.lock import WriterLock
from ku_rag.store.side_database import SideDatabase

_MAX_WAITING, _KEPT_S = 10, 24 * 3600
_MAX_ATTEMPTS = 5
_EVENT_S = 0.2  # seconds between two checks of a job for new events
_CLOSE_S = 0.6  # maximum seconds that an ingest may take to end when it is interrupted
_QUEUE_S = 10.0  # seconds between two checks of the queue for jobs of another process
_log = logging.getLogger("ku_rag.serve")
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
    """An ingest of uploaded files."""

    id: str
    folder: str
    content: str  # hash of the names and contents of the files
    state: str = "queued"  # or "running", "done", "failed" or "cancelled"
    attempts: int = 0  # how many processes ended abruptly while they ran it
    is_cancelled: int = 0  # 1 if it was cancelled, also while it still runs
    results: str = "{}"  # number of "records" read, and the "report" or the "error", as JSON

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
        """Whether the base has ever accepted a job."""
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


class _Interrupted(Exception):
    """Ends the ingest of a job that was cancelled or whose server ends."""


class JobQueue:
    """The ingest jobs of a base; a job that the end of a process interrupts is run again.

    Methods that return the public JSON of a job raise as those of `JobStore` do.
    """

    def __init__(self, base: ServedBase, clock: Callable[[], float]) -> None:
        self.base, self._store = base, JobStore(base.uploads, clock)
        self._is_waking, self._is_closing = asyncio.Event(), threading.Event()
        self._task: asyncio.Task[None] | None = None
        self._running: Job | None = None
        self._records, self._cancelled = dict[str, int](), set[str]()

    async def start(self) -> None:
        """Delete what killed processes have left, and run jobs until `close`."""
        try:
            await asyncio.to_thread(self._store.remove_strays)
        except (KuError, OSError) as error:
            _log.error("uploads of %s: %s", self.base.name, error)
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Interrupt the running job, and wait a moment for it."""
        self._is_closing.set()
        self._is_waking.set()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=_CLOSE_S)
        if job := self._running:  # its thread ends with the process
            await asyncio.to_thread(self._store.end, job, "queued")
        else:
            self._store.close()

    async def accept(self, id: str, files: Sequence[tuple[str, BinaryIO]]) -> dict[str, Any]:
        """Accept a job, and run it as soon as possible; see `JobStore.accept`."""
        self.base.check_folder()
        job = await self.base.read(lambda _: self._store.accept(id, files))
        self._is_waking.set()
        return self._public(job)

    def show(self, id: str) -> dict[str, Any]:
        """Return the state of a job."""
        return self._public(self._store.get(id))

    async def retry(self, id: str) -> dict[str, Any]:
        """Run a job again that failed or left something out."""
        self._cancelled.discard(id)
        job = await asyncio.to_thread(self._store.retry, id)
        self._is_waking.set()
        return self._public(job)

    def cancel(self, id: str) -> dict[str, Any]:
        """Cancel a job; committed records stay."""
        job = self._store.cancel(id)
        if not job.has_ended:
            self._cancelled.add(id)
        return self._public(job)

    async def events(self, id: str) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        """Yield the public JSON of a job after every change, until it has ended."""
        latest = {"state": "queued"}
        while latest["state"] in ("queued", "running") and not self._is_closing.is_set():
            job = await asyncio.to_thread(self.show, id)
            if job != latest:
                yield "job", job
            latest = job
            await asyncio.sleep(_EVENT_S)

    def _public(self, job: Job) -> dict[str, Any]:
        fields = {"id": job.id, "kb": self.base.name} | job.to_dict()
        return fields if job.has_ended else fields | {"records": self._records.get(job.id, 0)}

    async def _run(self) -> None:
        while not self._is_closing.is_set():
            self._is_waking.clear()
            has_ended = False
            try:
                async with self.base.write_lock:
                    has_ended = await asyncio.to_thread(self._run_next)
            except Exception as error:
                is_ours = isinstance(error, KuError)
                _log.error("jobs of %s: %s", self.base.name, error, exc_info=not is_ours)
            if not has_ended:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._is_waking.wait(), _QUEUE_S)

    def _run_next(self) -> bool:
        """Run the first waiting job, unless another process runs one; return whether it ended."""
        if not self._store.exists:
            return False
        with self._store.lock.try_acquire() as may_run:
            job = self._running = self._store.claim() if may_run else None
            if job is None:
                return False
            try:
                state, results = self._ingest(job)
                if self._is_closing.is_set() and state != "done" and not self._is_cancelled(job):
                    state, results = "queued", {}
                self._store.end(job, state, records=self._records.pop(job.id, 0), **results)
            finally:
                self._running = None
            return True

    def _is_cancelled(self, job: Job) -> bool:
        return bool(job.is_cancelled) or job.id in self._cancelled

    def _ingest(self, job: Job) -> tuple[str, dict[str, Any]]:
        """Ingest the files of a job; return its state, and the report or the problem."""

        def count(records: int) -> None:
            self._records[job.id] = records
            if self._is_cancelled(job) or self._is_closing.is_set():
                raise _Interrupted

        roots = [self.base.root]
        try:
            self.base.check_folder()
            if job.attempts >= _MAX_ATTEMPTS:
                reason = f"each of the {job.attempts} times that it ingested these files"
                remedy = "upload fewer at once, or use `ku ingest`"
                raise BadInput(f"the server ended abruptly {reason}: {remedy}")
            files = self._store.files(job)
            roots.insert(0, str(files))
            while True:
                count(0)
                with suppress(Locked):  # a command in a shell writes: wait for it
                    report = self.base.kb.ingest(files, uploaded=True, progress=count)
                    return "done", {"report": report.to_dict()}
        except _Interrupted:
            return "cancelled", {}
        except Exception as error:
            if not isinstance(error, KuError):
                _log.exception("an ingest failed")
            return "failed", {"error": describe(error, *roots)}
