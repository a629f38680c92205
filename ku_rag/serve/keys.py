"""The keys of a server, and a slow-down of wrong ones."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections import OrderedDict
from collections.abc import Mapping

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection

from ku_rag.errors import BadInput
from ku_rag.serve.key_store import Key, KeyStore

_FREE, _STEP_S, _LONGEST_S = 3, 0.25, 2.0
"""Wrong keys that are not delayed, what each further one adds to the delay, and its limit."""
_ALL, _OF_ALL = "*", 20  # so many wrong keys from all addresses count like one from each
_FORGOTTEN_S = 10.0  # seconds after which one wrong key less counts
_MOST_COUNTED, _MOST_ADDRESSES, _MOST_WAITING = 300, 1024, 64


class Keys:
    """The keys of a server, printable ASCII.

    The answer to a wrong key is delayed, the longer the more of them came lately from its address
    and from all. A right key is never delayed, so wrong ones lock nobody out.

    Args:
        keys: those that the server was started with, by secret; without any, none is required.
        store: those that were created while it ran, if there may be such.
    """

    def __init__(self, keys: Mapping[str, Key], store: KeyStore | None = None) -> None:
        if not all(key.isascii() and key.isprintable() for key in keys):
            expected = "printable ASCII, such as the output of `openssl rand -hex 32`"
            reason = "a key of the server has characters that no header can carry"
            raise BadInput(f"{reason}: expected {expected}")
        self._keys = {secret.encode(): key for secret, key in keys.items()}
        self._store = store
        self._counts: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._waiting = 0

    def __bool__(self) -> bool:
        return bool(self._keys)

    async def find(self, secret: str) -> Key | None:
        """Return a key if it is right; the time does not depend on where it differs."""
        for own, key in self._keys.items():
            if hmac.compare_digest(own, secret.encode()):
                return key
        return await asyncio.to_thread(self._store.find, secret) if self._store and secret else None

    async def refuse(self, key: str, request: HTTPConnection) -> HTTPException:
        """Return the error for a wrong or missing key, at the time when it is to be answered."""
        client = request.client.host if request.client else ""
        if key and (delay := self.delay(client, time.monotonic())):
            if self._waiting >= _MOST_WAITING:
                return HTTPException(429, "too many wrong keys: try again later")
            self._waiting += 1
            try:
                await asyncio.sleep(delay)
            finally:
                self._waiting -= 1
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
