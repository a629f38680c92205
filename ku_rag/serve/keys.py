"""The keys of a server: those that it was started with, and those of DIR/keys.sqlite."""

from __future__ import annotations

import asyncio
import hmac
import json
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection

from ku_rag.errors import BadInput, KuError, NotFound
from ku_rag.store.side_database import SideDatabase

Role = Literal["read", "write", "manage"]  # read bases; change them; create bases and keys

_DAY_S, _USED_S = 86_400, 60  # a day; after how long the last use of a key is stored again
_MOST_CHANGES = 10_000
_FREE, _STEP_S, _LONGEST_S = 3, 0.25, 2.0
"""Wrong keys that are not delayed, what each further one adds to the delay, and its limit."""
_ALL, _OF_ALL = "*", 20  # this many wrong keys from all addresses count as one
_FORGOTTEN_S = 10.0  # seconds after which one wrong key less counts
_MOST_COUNTED, _MOST_ADDRESSES, _MOST_DELAYED = 300, 1024, 64
_NAME = re.compile(r"\S(.{0,58}\S)?")
_REMEDY = "stop the server, delete this file, and create its keys again"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS keys (
    name TEXT PRIMARY KEY, hash TEXT NOT NULL UNIQUE, role TEXT NOT NULL, bases TEXT NOT NULL,
    created REAL NOT NULL, expires REAL, used REAL
) STRICT;
CREATE TABLE IF NOT EXISTS changes (
    number INTEGER PRIMARY KEY AUTOINCREMENT, time REAL NOT NULL, key TEXT NOT NULL,
    base TEXT NOT NULL, request TEXT NOT NULL, status INTEGER NOT NULL
) STRICT
"""


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a server, without its secret; times are in seconds since 1970."""

    name: str
    role: Role
    bases: tuple[str, ...] = ()  # names of those that it may use; empty for all
    created: float | None = None
    expires: float | None = None  # None for never
    used: float | None = None  # when it was last used, to the minute; None for never

    def may_use(self, base: str) -> bool:
        """Whether it may use the base of a name."""
        return not self.bases or base in self.bases


class KeyStore(SideDatabase):
    """Keys created while a server runs, of which only the SHA-256 is stored, and changes."""

    def __init__(self, file: Path, clock: Callable[[], float]) -> None:
        super().__init__(file, _SCHEMA, _REMEDY)
        self._clock = clock

    def create(
        self, name: str, role: Role, bases: Sequence[str] = (), days: float | None = None
    ) -> str:
        """Create a key, and return its secret, which is not stored; see `Key` and `NewKey`."""
        if not _NAME.fullmatch(name):
            raise BadInput("the name of a key has 1 to 60 characters, without spaces around them")
        if bases and role == "manage":
            raise BadInput("a key that manages is for all bases: leave bases out")
        secret, now = secrets.token_hex(32), self._clock()
        expires = None if days is None else now + days * _DAY_S
        row = (name, _hash(secret), role, json.dumps([*bases]), now, expires, None)
        with self.transaction() as connection:
            if connection.execute("SELECT 1 FROM keys WHERE name = ?", (name,)).fetchone():
                raise BadInput(f"there is a key {name!r}: revoke it first, or use another name")
            connection.execute("INSERT INTO keys VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        return secret

    def find(self, secret: str) -> Key | None:
        """Return the key of a secret unless it has expired, and store that it is used."""
        now = self._clock()
        for key in self.list_keys("hash = ? AND coalesce(expires > ?, true)", _hash(secret), now):
            if now - (key.used or 0) >= _USED_S:
                with suppress(KuError), self.transaction() as connection:  # on a full disk
                    connection.execute("UPDATE keys SET used = ? WHERE name = ?", (now, key.name))
            return key
        return None

    def list_keys(self, condition: str = "true", *values: object) -> list[Key]:
        """Return the keys that pass a condition in SQL, by name; expired keys are included."""
        columns = "name, role, bases, created, expires, used"
        query = f"SELECT {columns} FROM keys WHERE {condition} ORDER BY name"
        with self.transaction() as connection:
            rows = connection.execute(query, values).fetchall()
        return [
            Key(name, role, (*json.loads(bases),), *times) for name, role, bases, *times in rows
        ]

    def revoke(self, name: str) -> None:
        """Delete a key."""
        with self.transaction() as connection:
            connection.execute("DELETE FROM keys WHERE name = ?", (name,))
            if not connection.changes():
                raise NotFound(f"there is no key {name[:80]!r}")

    def rename_base(self, name: str, renamed: str | None) -> None:
        """Rename a base in the keys that may use it; None for one that was deleted.

        A key that could use only this base is revoked: without bases it could use all.
        """
        for key in self.list_keys():
            if name in key.bases:
                rest = [base for base in (*key.bases, renamed) if base not in (name, None)]
                query = "UPDATE keys SET bases = :rest" if rest else "DELETE FROM keys"
                with self.transaction() as connection:
                    values = {"rest": json.dumps(rest), "name": key.name}
                    connection.execute(f"{query} WHERE name = :name", values)

    def log(self, key: str, base: str, request: str, status: int) -> None:
        """Store a change; the oldest of more than 10,000 are deleted.

        The request is its method and route, without values: they may be names of units.
        """
        row = (self._clock(), key, base, request, status)
        with self.transaction() as connection:
            insert = "INSERT INTO changes (time, key, base, request, status) VALUES (?, ?, ?, ?, ?)"
            connection.execute(insert, row)
            oldest = "DELETE FROM changes WHERE number <= (SELECT max(number) FROM changes) - ?"
            connection.execute(oldest, (_MOST_CHANGES,))

    def changes(self, limit: int) -> list[dict[str, Any]]:
        """Return the latest changes, newest first: time, key, base, request and status."""
        columns = ("time", "key", "base", "request", "status")
        query = f"SELECT {', '.join(columns)} FROM changes ORDER BY number DESC LIMIT ?"
        with self.transaction() as connection:
            rows = connection.execute(query, (limit,)).fetchall()
        return [dict(zip(columns, row, strict=True)) for row in rows]


def _hash(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()


class Keys:
    """The keys of a server, printable ASCII.

    The answer to a wrong key is delayed; recent wrong keys from its address, and from all
    addresses, lengthen the delay. A right key is never delayed, so wrong ones lock nobody out.

    Args:
        keys: keys that the server was started with, by secret; without any, none is required.
        store: keys created while the server runs, or None.
    """

    def __init__(self, keys: Mapping[str, Key], store: KeyStore | None = None) -> None:
        if not all(key.isascii() and key.isprintable() for key in keys):
            expected = "printable ASCII, such as the output of `openssl rand -hex 32`"
            reason = "a key of the server has characters that no header can carry"
            raise BadInput(f"{reason}: expected {expected}")
        self._keys = {secret.encode(): key for secret, key in keys.items()}
        self._store = store
        self._delayed = asyncio.Semaphore(_MOST_DELAYED)
        self._counts: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._keys)

    async def find(self, secret: str) -> Key | None:
        """Return the key of a secret; the time does not depend on where a wrong one differs."""
        for own, key in self._keys.items():
            if hmac.compare_digest(own, secret.encode()):
                return key
        return await asyncio.to_thread(self._store.find, secret) if self._store and secret else None

    async def refuse(self, key: str, request: HTTPConnection) -> HTTPException:
        """Return the error for a wrong or missing key, after its delay."""
        client = request.client.host if request.client else ""
        if key and (delay := self.delay(client, time.monotonic())):
            if self._delayed.locked():
                return HTTPException(429, "too many wrong keys: try again later")
            async with self._delayed:
                await asyncio.sleep(delay)
        detail = "a key is required: send it as `Authorization: Bearer KEY`"
        return HTTPException(401, detail, {"WWW-Authenticate": "Bearer"})

    def delay(self, client: str, now: float) -> float:
        """Count a wrong key of a client, and return the seconds to wait before it is answered."""
        counts = {}
        for name in (client, _ALL):
            count, before = self._counts.pop(name, (0.0, now))
            counts[name] = min(max(0, count - (now - before) / _FORGOTTEN_S) + 1, _MOST_COUNTED)
            self._counts[name] = counts[name], now
        if len(self._counts) > _MOST_ADDRESSES:
            self._counts.popitem(last=False)
        most = max(counts[client], counts[_ALL] / _OF_ALL)
        return min(max(0, most - _FREE) * _STEP_S, _LONGEST_S)
