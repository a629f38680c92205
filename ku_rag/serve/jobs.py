"""Ingest jobs: uploads are accepted at any time and ingested in the background, one by one."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import Any, BinaryIO

from ku_rag.errors import BadInput, KuError, Locked
from ku_rag.serve.job_store import Job, JobStore
from ku_rag.serve.problems import describe
from ku_rag.serve.served_base import ServedBase

_MAX_ATTEMPTS = 5
_EVENT_S = 0.2  # seconds between two checks of a job for new events
_CLOSE_S = 0.6  # maximum seconds that an ingest may take to end when it is interrupted
_QUEUE_S = 10.0
"""Seconds between two checks of the queue for jobs that another process accepted or dropped."""

_log = logging.getLogger("ku_rag.serve")


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
