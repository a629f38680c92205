"""One file over HTTP: resumed where it stopped, hashed before it gets its name."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import BinaryIO
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from ku_rag.errors import Corrupt, Locked, NotFound
from ku_rag.weights.catalogue import File
from ku_rag.weights.store import digest

Moved = Callable[[int, int], None]

_CHUNK = 1 << 20
_TIMEOUT_S = 30.0
_NO_SUCH_RANGE = 416


@dataclass(frozen=True, slots=True)
class Transfer:
    """What to fetch.

    Args:
        url: where it is.
        file: what it must be.
        otherwise: what to do if it cannot be had, the end of a sentence.
        token: sent to the host of `url` and to no other that it leads to; "" for none.
    """

    url: str
    file: File
    otherwise: str
    token: str = ""


def fetch(transfer: Transfer, target: Path, moved: Moved | None = None) -> None:
    """Download to `target`.

    What has come lies beside it, named *.incomplete, until all of it has come and hashes to what
    it must; a later call goes on from there.

    Args:
        transfer: what to fetch.
        target: the file to make; one that is there is left as it is.
        moved: told the bytes that have come and those that there are.

    Raises:
        NotFound: the server is out of reach, has no such file, or stopped before the end.
        Corrupt: what came is not what it must be; it is thrown away.
        Locked: another process fetches it.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f"{target.name}.incomplete")
    with partial.open("ab") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Locked(f"another process is fetching {target}: wait for it, or stop it") from None
        if target.exists():
            # Another process has made it since the caller looked.
            partial.unlink(missing_ok=True)
            return
        try:
            _fill(transfer, stream, moved)
        finally:
            stream.flush()
            if not os.fstat(stream.fileno()).st_size:
                partial.unlink()
        os.fsync(stream.fileno())
        found = digest(partial)
        if found != transfer.file.sha256:
            partial.unlink()
            raise Corrupt(
                f"{transfer.url} came with the sha256 {found}, expected {transfer.file.sha256}, "
                f"and was thrown away: run it again, or {transfer.otherwise}"
            )
        partial.replace(target)


def _fill(transfer: Transfer, stream: BinaryIO, moved: Moved | None) -> None:
    """Ask until all bytes are there, as long as each time brings some."""
    size = transfer.file.size
    have = stream.tell()
    if have > size:
        stream.truncate(0)
        have = 0
    while have < size:
        before = have
        have, why = _ask(transfer, stream, have, moved)
        stream.flush()
        if have <= before:
            raise NotFound(
                f"{transfer.url} stopped at {have:,} of {size:,} bytes ({why}): run it again to go "
                f"on from there, or {transfer.otherwise}"
            )


def _ask(transfer: Transfer, stream: BinaryIO, have: int, moved: Moved | None) -> tuple[int, str]:
    """One request: the bytes that are there after it, and why it ended."""
    request = Request(transfer.url, headers={"User-Agent": "ku-rag", "Accept-Encoding": "identity"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    if transfer.token:
        # An unredirected header is not sent to the host that the first one leads to.
        request.add_unredirected_header("Authorization", f"Bearer {transfer.token}")
    try:
        response: HTTPResponse = urlopen(request, timeout=_TIMEOUT_S)
    except HTTPError as error:
        error.close()
        if have and error.code == _NO_SUCH_RANGE:
            stream.truncate(0)
            return 0, "it has no more"
        raise NotFound(
            f"{transfer.url} answers HTTP {error.code} {error.reason}: run it again later, or "
            f"{transfer.otherwise}"
        ) from error
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        if have:
            return have, str(reason)
        raise NotFound(
            f"{transfer.url} cannot be reached ({reason}): go online and run it again, or "
            f"{transfer.otherwise}"
        ) from error
    with response:
        if have and not str(response.headers["Content-Range"]).startswith(f"bytes {have}-"):
            stream.truncate(0)
            have = 0
        return _read(transfer, response, stream, have, moved)


def _read(
    transfer: Transfer, response: HTTPResponse, stream: BinaryIO, have: int, moved: Moved | None
) -> tuple[int, str]:
    size = transfer.file.size
    if response.length is not None and have + response.length != size:
        raise Corrupt(
            f"{transfer.url} has {have + response.length:,} bytes, expected {size:,}: it is no "
            f"longer what is known; {transfer.otherwise}"
        )
    while True:
        try:
            chunk = response.read1(_CHUNK)
        except (OSError, HTTPException) as error:
            return have, str(error) or type(error).__name__
        if not chunk:
            return have, "the connection ended"
        stream.write(chunk)
        have += len(chunk)
        if have > size:
            stream.truncate(0)
            raise Corrupt(
                f"{transfer.url} has more than the expected {size:,} bytes: it is no longer what "
                f"is known; {transfer.otherwise}"
            )
        if moved:
            moved(have, size)
