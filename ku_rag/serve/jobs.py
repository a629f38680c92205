"""Ingest jobs: uploaded files are ingested in the background, with progress and cancellation."""

from __future__ import annotations

import asyncio
import logging
import shutil
import tempfile
import threading
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

from starlette.exceptions import HTTPException

from ku_rag.arguments import file_hash
from ku_rag.errors import BadInput, KuError, Locked
from ku_rag.serve.problems import describe
from ku_rag.serve.served_base import UPLOADS, ServedBase

_MAX_WAITING, _MAX_KEPT, _MAX_DEPTH = 10, 200, 8
_POLL_S = 0.2
"""Seconds between two checks of a job for new events."""

_log = logging.getLogger("ku_rag.serve")


class _Cancelled(Exception):
    """Ends the ingest of a job that was cancelled."""


class Job:
    """An ingest of uploaded files.

    Args:
        id: its id.
        base: the base that ingests them.
        folder: temporary folder with the files; removed when the job ends.
        content: hash of the names and contents of the files.

    Attributes:
        state: "queued", "running", "done", "failed" or "cancelled".
        cancelled: set to cancel the job.
        task: the task that runs the job.
    """

    def __init__(self, id: str, base: ServedBase, folder: Path, content: str) -> None:
        self.id, self.base, self._folder, self.content = id, base, folder, content
        self.state, self.cancelled = "queued", threading.Event()
        self.task: asyncio.Task[None] | None = None
        self._found: dict[str, Any] = {"records": 0, "report": None, "error": None}

    @property
    def has_ended(self) -> bool:
        """Whether the job is done, failed or cancelled."""
        return self.state not in ("queued", "running")

    def to_dict(self) -> dict[str, Any]:
        """Return the state, the number of records read, and the report or the problem."""
        return {"id": self.id, "kb": self.base.name, "state": self.state, **self._found}

    async def run(self) -> None:
        """Ingest the files as soon as no other change of this server is in progress."""
        try:
            async with self.base.write_lock:
                await asyncio.to_thread(self._ingest)
            self.state = "done"
        except _Cancelled:
            self.state = "cancelled"
        except Exception as error:
            if not isinstance(error, KuError):
                _log.exception("an ingest failed")
            self._found["error"] = describe(error, self.base.root)
            self.state = "failed"
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _ingest(self) -> None:
        self.state, uploads = "running", Path(self.base.root, UPLOADS)
        self.base.check_folder()
        shutil.rmtree(uploads, ignore_errors=True)
        shutil.move(self._folder, uploads)
        try:
            while not self.cancelled.is_set():
                with suppress(Locked):  # a command in a shell writes: wait for it
                    report = self.base.kb.ingest(uploads, progress=self._progress)
                    self._found["report"] = report.to_dict()
                    return
            raise _Cancelled
        finally:
            shutil.rmtree(uploads)

    def _progress(self, count: int) -> None:
        self._found["records"] = count
        if self.cancelled.is_set():
            raise _Cancelled

    async def events(self) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        """Yield the job after every change, until it has ended."""
        shown, has_ended = None, False
        while not has_ended:
            has_ended, found = self.has_ended, self.to_dict()
            if found != shown:
                yield "job", found
            shown = found
            await asyncio.sleep(_POLL_S)


async def start(
    known: dict[str, Job], id: str, base: ServedBase, files: Sequence[tuple[str, BinaryIO]]
) -> Job:
    """Start a job, or return the one with this id; remove old jobs.

    Args:
        known: jobs by id.
        id: the id of the job.
        base: the base that ingests the files.
        files: names, which may include folders, and contents.

    Raises:
        HTTPException: 429, too many jobs are waiting; 422, the job with this id has other files.
        BadInput: a file name is invalid or occurs twice.
    """
    folder, content = await base.read(lambda _: _write_files(files))
    # There is no await below: of concurrent requests with one id, one creates the job.
    ended = [one.id for one in known.values() if one.has_ended]
    job, is_full = known.get(id), len(known) - len(ended) >= _MAX_WAITING
    if job is not None or is_full:
        shutil.rmtree(folder)
        if job is None:
            raise HTTPException(429, f"{_MAX_WAITING} ingests are waiting: try again later")
        if job.content != content:
            raise HTTPException(422, "this Idempotency-Key came with other files: use a new one")
        return job
    for old in ended[: max(0, len(known) - _MAX_KEPT)]:
        del known[old]
    job = known[id] = Job(id, base, folder, content)
    job.task = asyncio.get_running_loop().create_task(job.run())
    return job


async def cancel(jobs: Iterable[Job]) -> None:
    """Cancel jobs and wait until they have ended; committed records stay."""
    for job in jobs:
        job.cancelled.set()
    await asyncio.gather(*(job.task for job in jobs if job.task))


def _write_files(files: Sequence[tuple[str, BinaryIO]]) -> tuple[Path, str]:
    """Write files to a new temporary folder; return it and a hash of names and contents."""
    folder, content = Path(tempfile.mkdtemp(prefix="ku-upload-")), sha256()
    try:
        for name, data in files:
            parts = name.split("/")
            if len(parts) > _MAX_DEPTH or not all(map(_is_file_name, parts)):
                raise BadInput(f"{name[:80]!r} is no valid file name: expected 'Mango/photo.jpg'")
            file = folder.joinpath(*parts)
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("xb") as out:
                shutil.copyfileobj(data, out)
            content.update(f"{name}\n{file_hash(file)}\n".encode())
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, OSError):
            raise BadInput(f"{name[:80]!r} cannot be stored ({error.strerror})") from error
        raise
    return folder, content.hexdigest()


def _is_file_name(part: str) -> bool:
    """Whether a part of a path is a valid, visible file name on every system."""
    return part.isprintable() and part == part.strip(". ") != "" and not {*part} & {*'\\:"*?<>|'}
