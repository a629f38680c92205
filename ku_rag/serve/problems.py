"""Errors as problem documents (RFC 9457)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import orjson
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from ku_rag import errors

MEDIA_TYPE = "application/problem+json"

_FOLDERS = re.compile(r"""(?<![\w:/.])/(?:[^\s/'"]+/)+""")  # of absolute paths, not of URLs
_LATER = frozenset({423, 429, 503})  # statuses after which a retry can succeed
UNAVAILABLE = HTTPException(503, "the server starts or ends: try again in a few seconds")
"""Also the answer to requests that outlast the shutdown, which uvicorn cancels."""
_STATUS: Mapping[type[errors.KuError], int] = {
    errors.NotFound: 404,
    errors.BadInput: 422,
    errors.Refused: 409,
    errors.ReadOnly: 403,
    errors.Closed: 503,
    errors.MissingExtra: 501,
    errors.ModelFailed: 502,
    errors.BudgetSpent: 503,
    errors.IndexUnavailable: 503,
    errors.Mismatch: 409,
    errors.Locked: 423,
}
_PARTS = [("body",), ("query",), ("path",), ("header",)]  # messages do not name them


def encode_json(value: object) -> bytes:
    """Return JSON in UTF-8; integers may have more than 64 bits."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def without_folders(text: str, *roots: str) -> str:
    """Replace absolute paths in a message by file names; paths of `roots` may contain spaces."""
    for root in roots:
        text = text.replace(f"{root}/", "").replace(root, root.rpartition("/")[2])
    return _FOLDERS.sub("", text)


def describe(error: Exception, *roots: str) -> dict[str, Any]:
    """Return the JSON of an error; for an error of ku-rag, "code" is the name of its class."""
    status, detail, code = 500, "the server failed: its log says why", {}
    if isinstance(error, errors.KuError):
        status, detail = _STATUS.get(type(error), 500), without_folders(str(error), *roots)
        code = {"code": type(error).__name__}
    elif isinstance(error, HTTPException):
        status, detail = error.status_code, str(error.detail)
    elif isinstance(error, RequestValidationError):
        detail = "; ".join(map(_wrong_field, error.errors()[:20]))
        status, code = 422, {"code": errors.BadInput.__name__}
    title = HTTPStatus(status).phrase
    return {"type": "about:blank", "title": title, "status": status, "detail": detail, **code}


def _wrong_field(row: Mapping[str, Any]) -> str:
    """Return a field and its error, such as "relations, item 1, target: field required"."""
    places = row["loc"][1:] if row["loc"][:1] in _PARTS else row["loc"]
    path = [f"item {part + 1}" if isinstance(part, int) else str(part) for part in places]
    message = row["msg"][:1].lower() + row["msg"][1:]
    return f"{', '.join(path) or 'the request'}: {message}"


def respond(problem: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    """Return the response for a problem."""
    status = problem["status"]
    sent = {**({"Retry-After": "2"} if status in _LATER else {}), **(headers or {})}
    return Response(orjson.dumps(problem), status, sent, MEDIA_TYPE)
