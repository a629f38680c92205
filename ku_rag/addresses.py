"""Addresses of servers, and which of them receive a secret of the environment."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from ipaddress import ip_address
from types import MappingProxyType
from unicodedata import normalize
from urllib.parse import urlsplit

OPENAI = "https://api.openai.com/v1"
HTTP_PORTS = MappingProxyType({"http": 80, "https": 443})

_NAME = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")
_warn_once = cache(logging.getLogger("ku_rag").warning)


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a server, with the secret that it may receive.

    Args:
        url: the address; "" for the default of its client.
        variables: environment variables that hold the secret; the first that is set counts.
        is_foreign: whether only the ku.toml of a knowledge base names the server.
    """

    url: str
    variables: tuple[str, ...]
    is_foreign: bool = False

    @property
    def shown(self) -> str:
        """The address without a name and a password."""
        return self.url.rpartition("@")[2]

    def secret(self) -> str:
        """Return the secret to send there; "" if there is none.

        A knowledge base is data that people pass on, so its ku.toml does not decide where a secret
        goes: a foreign address receives none, which is logged once.
        """
        if not self.is_foreign:
            return next(filter(None, map(os.environ.get, self.variables)), "")
        _warn_once(
            "%r does not get %s, because only ku.toml of the knowledge base names it: to allow it, "
            "name it in the environment or in your own configuration, see `ku doctor`",
            *(self.shown, self.variables[0]),
        )
        return ""


def origin(url: str, ports: Mapping[str, int] = HTTP_PORTS) -> tuple[str, str, int] | None:
    """Return scheme, host and port of an address, in one spelling; None if it is not valid.

    An international name is written in ASCII if it can be converted back; other names are spelled
    differently by IDNA 2003 and 2008. `ports` are the schemes, and the ports of addresses without
    one.
    """
    try:
        parts = urlsplit(url)
        port, host = parts.port, normalize("NFC", parts.hostname or "").removesuffix(".")
        if not host.isascii() and (encoded := host.encode("idna")).decode("idna") == host:
            host = encoded.decode()
        if ":" in host:
            host = ip_address(host).compressed
    except ValueError:  # UnicodeError, too
        return None
    if parts.scheme not in ports or (host.isascii() and not _NAME.fullmatch(host.replace(":", ""))):
        return None
    return parts.scheme, host, ports[parts.scheme] if port is None else port
